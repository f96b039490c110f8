//! Whatever the wire or a host hands over is cut, merged or refused, and what is merged comes apart
//! again as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_wire::frame::{Headers, Verification};
use linkrate_wire::lro::{Coalescer, Delivery};
use linkrate_wire::segment::{Identification, Request, Segment};
use linkrate_wire::{tso, uso};

fuzz_target!(|bytes: &[u8]| {
    // the first two bytes are the segment size, the rest is the frame
    let Some((size, frame)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let size = u16::from_be_bytes(*size);
    let Ok(headers) = Headers::parse(frame) else {
        return;
    };
    assert!(headers.payload <= headers.end && headers.end <= frame.len());
    let _ = headers.network_checksum_verifies(frame);
    let _ = headers.transport_checksum(frame);

    for snap in [false, true] {
        let request = Request { snap, ..Request::new(size) };
        if let Ok(segments) = uso::segments(frame, &request) {
            whole(frame, &headers, segments);
        }
        if let Ok(segments) = tso::segments(frame, &request) {
            let frames = whole(frame, &headers, segments);
            merge(frames);
        }
    }
});

/// Every segment is a good frame, and together they carry the payload.
fn whole(frame: &[u8], headers: &Headers, segments: impl Iterator<Item = Segment>) -> Vec<Vec<u8>> {
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
