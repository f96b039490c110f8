//! A frame of the wire or of a host is cut, merged or refused. Merged frames come apart again as they
//! were, and a frame in two parts is the same frame.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_wire::encapsulation::{Encapsulation, Tag, decapsulate, encapsulate};
use linkrate_wire::frame::{Headers, Verification};
use linkrate_wire::lro::{Coalescer, Delivery};
use linkrate_wire::segment::{Cut, Identification, Request, SegmentError};
use linkrate_wire::{tso, uso};

fuzz_target!(|bytes: &[u8]| {
    // the first two bytes are the segment size, the rest is the frame
    let Some((size, frame)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let size = u16::from_be_bytes(*size);
    let whole = Headers::parse(frame);
    split(frame, whole.as_ref().ok());
    if let Ok(link) = Headers::of_link(frame, 0) {
        assert!(link.payload <= link.end && link.end <= frame.len());
        assert_eq!(link.tcp_segment(frame), None);
    }
    let Ok(headers) = whole else {
        return;
    };
    let _ = headers.fragment_ends(frame);
    let _ = headers.quoted_ends(&frame);
    let whole = headers.checksum_covers_rest(&frame);
    assert!(!whole || headers.checksum_place().is_some());
    assert!(headers.payload <= headers.end && headers.end <= frame.len());
    let _ = headers.network_checksum_verifies(frame);
    put_on_and_take_off(frame, &headers);

    for (snap, vlan) in [(false, None), (true, None), (true, Some(7))] {
        let request = Request { snap, vlan, ..Request::new(size) };
        batch(frame, &headers, |out, cuts| uso::cut_into(frame, &request, out, cuts, |_| ()));
        let cut =
            batch(frame, &headers, |out, cuts| tso::cut_into(frame, &request, out, cuts, |_| ()));
        if let Some(frames) = cut.filter(|_| vlan.is_none()) {
            merge(frames);
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
                assert_eq!(verification, parts.transport_checksum_parts(frame, &[]));
            }
            // what could be LLC and SNAP, or a fragment header, takes eight bytes
            (Err(_), Some(whole)) => assert!(at < frame.len().min(whole.payload + 8)),
            (Err(_), None) => {}
        }
    }
}

fn put_on_and_take_off(frame: &[u8], headers: &Headers) {
    let vlan = (headers.link.tags < 2).then_some(0x2005);
    let wanted = Encapsulation { vlan, snap: !headers.link.snap };
    let link = encapsulate(frame, headers, wanted).expect("room for a tag");
    let sent = [&link, &frame[headers.link.length..headers.end]].concat();
    let again = Headers::parse(&sent).expect("a good frame");
    let tag = if vlan.is_some() { Tag::Strip } else { Tag::Keep };
    let up = decapsulate(&sent, &again, tag).expect("its own headers");
    assert_eq!(up.vlan, vlan);
    if !headers.link.snap {
        let rest = &sent[again.link.length..again.end];
        assert_eq!([&up.link, rest].concat(), frame[..headers.end]);
    }
}

/// The frames of a batch. Each of them is a good frame, and together they carry the payload.
fn batch(
    superframe: &[u8],
    headers: &Headers,
    cut_into: impl FnOnce(&mut Vec<u8>, &mut Vec<Cut>) -> Result<(), SegmentError>,
) -> Option<Vec<Vec<u8>>> {
    let (mut out, mut cuts) = (Vec::new(), Vec::new());
    cut_into(&mut out, &mut cuts).ok()?;
    let mut next = headers.payload;
    let frames = cuts.iter().map(|cut| {
        assert_eq!(cut.payload.start as usize, next);
        next = cut.payload.end as usize;
        let (head, tail) = (cut.header(&out), cut.payload(superframe));
        let parsed = Headers::parse_parts(head, tail.len()).expect("headers in the head");
        assert!(parsed.network_checksum_verifies(head));
        assert_ne!(parsed.transport_checksum_parts(head, tail), Verification::Wrong);
        [head, tail].concat()
    });
    let frames = frames.collect();
    assert_eq!(next, headers.end);
    Some(frames)
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
                assert!(superframe.vnet_header().is_taken_by_linux(merged.len()));
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
                let (mut headers, mut cuts) = (Vec::new(), Vec::new());
                tso::cut_into(&merged, &request, &mut headers, &mut cuts, |_| ())
                    .expect("a good superframe");
                let frames = cuts.iter();
                restored.extend(
                    frames.map(|cut| [cut.header(&headers), cut.payload(&merged)].concat()),
                );
            }
        }
    }
    assert_eq!(restored, frames);
}
