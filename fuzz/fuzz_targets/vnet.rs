//! The bytes a host puts before a frame are a header or an error. A header reads back as it was
//! written, and a checksum comes out the same wherever the frame is split.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_wire::checksum::Sum;
use linkrate_wire::segment::Request;
use linkrate_wire::vnet::{Checksum, Form, GsoKind, VnetHeader, complete_checksum_parts};
use linkrate_wire::{tso, uso};

fuzz_target!(|bytes: &[u8]| {
    for form in [Form::Plain, Form::Mergeable] {
        let Ok((header, frame)) = VnetHeader::parse(bytes, form) else {
            continue;
        };
        let mut again = header.emit()[..form.length()].to_vec();
        again.extend_from_slice(frame);
        assert_eq!(VnetHeader::parse(&again, form), Ok((header, frame)));
        if let Some(Checksum { start, offset }) = header.checksum {
            complete(frame, start.into(), offset.into());
        }
        cut(&header, frame);
    }
});

fn complete(frame: &[u8], start: usize, offset: usize) {
    let mut whole = frame.to_vec();
    complete_checksum_parts(&mut whole, Sum::ZERO, start, offset)
        .expect("a field that was checked");
    let at = start + offset;
    assert_eq!((&whole[..at], &whole[at + 2..]), (&frame[..at], &frame[at + 2..]));
    assert_ne!(whole[at..at + 2], [0, 0]);
    for split in at..frame.len() {
        let mut parts = frame.to_vec();
        let (head, tail) = parts.split_at_mut(split);
        match complete_checksum_parts(head, Sum::of(tail), start, offset) {
            Ok(()) => assert_eq!(parts, whole),
            Err(_) => assert!(split < at + 2),
        }
    }
}

fn cut(header: &VnetHeader, frame: &[u8]) {
    let request = Request::new(header.segment_size);
    let (mut headers, mut cuts) = (Vec::new(), Vec::new());
    let _ = match header.gso.map(|gso| gso.kind) {
        Some(GsoKind::Tcp4 | GsoKind::Tcp6) => {
            tso::cut_into(frame, &request, &mut headers, &mut cuts, |_| ())
        }
        Some(GsoKind::UdpL4) => uso::cut_into(frame, &request, &mut headers, &mut cuts, |_| ()),
        None => Ok(()),
    };
}
