//! Whatever the wire or a host hands over is cut, merged or refused, and what is merged comes apart
//! again as it was. In two parts, a frame is the same frame.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_wire::encapsulation::{Encapsulation, Tag, decapsulate, encapsulate_into};
use linkrate_wire::frame::{Headers, Verification};
use linkrate_wire::lro::{Coalescer, Delivery};
use linkrate_wire::segment::{Cut, Identification, Request, Segment, SegmentError};
use linkrate_wire::{tso, ufo, uso};

fuzz_target!(|bytes: &[u8]| {
    // the first two bytes are the segment size, the rest is the frame
    let Some((size, frame)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let size = u16::from_be_bytes(*size);
    let whole = Headers::parse(frame);
    split(frame, whole.as_ref().ok());
    let Ok(headers) = whole else {
        return;
    };
    assert!(headers.payload <= headers.end && headers.end <= frame.len());
    let _ = headers.network_checksum_verifies(frame);
    put_on_and_take_off(frame, &headers);

    for (snap, vlan) in [(false, None), (true, None), (true, Some(7))] {
        let request = Request { snap, vlan, ..Request::new(size) };
        batch(frame, |headers, cuts| ufo::cut_into(frame, &request, 9, headers, cuts));
        let cut = batch(frame, |headers, cuts| uso::cut_into(frame, &request, headers, cuts));
        if let Ok(segments) = uso::segments(frame, &request) {
            assert_eq!(cut, Some(all(frame, &headers, segments)));
        }
        let cut = batch(frame, |headers, cuts| tso::cut_into(frame, &request, headers, cuts));
        if let Ok(segments) = tso::segments(frame, &request) {
            let frames = all(frame, &headers, segments);
            assert_eq!(cut.as_ref(), Some(&frames));
            if vlan.is_none() {
                merge(frames);
            }
        }
    }
});

/// In two parts, a frame has the same headers or lacks some in its head.
fn split(frame: &[u8], whole: Option<&Headers>) {
    for at in 0..=frame.len().min(300) {
        let (head, tail) = frame.split_at(at);
        match (Headers::parse_parts(head, tail.len()), whole) {
            (Ok(parts), whole) => {
                assert_eq!(Some(&parts), whole);
                let verification = parts.transport_checksum_parts(head, tail);
                assert_eq!(verification, parts.transport_checksum(frame));
            }
            // what could be LLC and SNAP, or a fragment header, takes eight bytes
            (Err(_), Some(whole)) => assert!(at < frame.len().min(whole.payload + 8)),
            (Err(_), None) => {}
        }
    }
}

fn put_on_and_take_off(frame: &[u8], headers: &Headers) {
    let vlan = (headers.link.tags < 2).then_some(0x2005);
    let mut out = Vec::new();
    let wanted = Encapsulation { vlan, snap: !headers.link.snap };
    let cut = encapsulate_into(frame, headers, wanted, &mut out).expect("room for a tag");
    let sent = [cut.header(&out), cut.payload(frame)].concat();
    let again = Headers::parse(&sent).expect("a good frame");
    let tag = if vlan.is_some() { Tag::Strip } else { Tag::Keep };
    let up = decapsulate(&sent, &again, tag).expect("its own headers");
    assert_eq!(up.vlan, vlan);
    if !headers.link.snap {
        let rest = &sent[again.link.length..again.end];
        assert_eq!([&up.link, rest].concat(), frame[..headers.end]);
    }
}

/// The frames of a batch, each of which is a good one.
fn batch(
    superframe: &[u8],
    cut_into: impl FnOnce(&mut Vec<u8>, &mut Vec<Cut>) -> Result<(), SegmentError>,
) -> Option<Vec<Vec<u8>>> {
    let (mut headers, mut cuts) = (Vec::new(), Vec::new());
    cut_into(&mut headers, &mut cuts).ok()?;
    let frames = cuts.iter().map(|cut| {
        let (head, tail) = (cut.header(&headers), cut.payload(superframe));
        let parsed = Headers::parse_parts(head, tail.len()).expect("headers in the head");
        assert!(parsed.network_checksum_verifies(head));
        assert_ne!(parsed.transport_checksum_parts(head, tail), Verification::Wrong);
        [head, tail].concat()
    });
    Some(frames.collect())
}

/// Every segment is a good frame, and together they carry the payload.
fn all(frame: &[u8], headers: &Headers, segments: impl Iterator<Item = Segment>) -> Vec<Vec<u8>> {
    let mut next = headers.payload;
    let mut frames = Vec::new();
    for segment in segments {
        assert_eq!(segment.payload.start, next);
        next = segment.payload.end;
        let cut = segment.to_frame(frame);
        let headers = Headers::parse(&cut).expect("a segment with good headers");
        assert!(headers.network_checksum_verifies(&cut));
        assert_ne!(headers.transport_checksum(&cut), Verification::Wrong);
        frames.push(cut);
    }
    assert_eq!(next, headers.end);
    frames
}

/// Merging loses nothing: cut again, the frames are the same.
fn merge(frames: Vec<Vec<u8>>) {
    let mut coalescer = Coalescer::new(2);
    let mut out = Vec::new();
    for frame in &frames {
        out.extend(coalescer.offer(frame.clone()).flushed);
    }
    out.extend(coalescer.flush());
    let mut restored = Vec::new();
    for delivery in out {
        match delivery {
            Delivery::Frame { frame, .. } => restored.push(frame),
            Delivery::Superframe { superframe, .. } => {
                let merged = superframe.to_frame();
                let identification = if superframe.fixed_identification {
                    Identification::Fixed
                } else {
                    Identification::Increments
                };
                let request = Request {
                    identification,
                    snap: superframe.snap,
                    ..Request::new(superframe.segment_size)
                };
                let segments = tso::segments(&merged, &request).expect("a good superframe");
                restored.extend(segments.map(|segment| segment.to_frame(&merged)));
            }
        }
    }
    assert_eq!(restored, frames);
}
