//! A frame carries a control message, another protocol or an error, and a message that was read is
//! written again as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linkrate_wire::control::nd::Advertisement;
use linkrate_wire::control::slow::Subtype;
use linkrate_wire::control::{Arp, Bfd, Control, Lacpdu, Marker, Poll, Slow, arp};
use linkrate_wire::frame::{Headers, MacAddress};

fuzz_target!(|bytes: &[u8]| {
    // as a message alone
    if let Ok(message) = Arp::parse(bytes) {
        arp_reads_back(&message, bytes);
    }
    if let Ok(message) = Slow::parse(bytes) {
        assert_eq!(message.emit(), bytes);
        slow_reads_back(&message);
    }
    if let Ok(message) = Bfd::parse(bytes) {
        assert_eq!(Bfd::parse(&message.emit()), Ok(message));
    }
    if let Ok(Some(message)) = Poll::parse(bytes) {
        assert_eq!(Poll::parse(&message.emit()), Ok(Some(message)));
    }
    if let Ok(message) = Advertisement::parse(bytes) {
        assert_eq!(Advertisement::parse(&message.emit()), Ok(message));
    }
    // as a frame, whole and cut off
    let Ok(headers) = Headers::parse(bytes) else {
        return;
    };
    for length in headers.payload..bytes.len() {
        let _ = Control::of(&bytes[..length], &headers);
    }
    let message = &bytes[headers.payload..headers.end];
    match Control::of(bytes, &headers) {
        Ok(Some(Control::Arp(arp))) => arp_reads_back(&arp, message),
        Ok(Some(Control::Bfd(bfd))) => assert_eq!(Bfd::parse(message), Ok(bfd)),
        Ok(Some(Control::Poll(poll))) => assert_eq!(Poll::parse(message), Ok(Some(poll))),
        Ok(Some(Control::Slow(slow))) => {
            assert_eq!(slow.emit(), message);
            slow_reads_back(&slow);
        }
        Ok(None) => {}
        // the TTL of a micro-BFD packet is the one field before the message that is looked at
        Err(error) if error.field == "TTL of a BFD packet" => assert!(error.at < headers.payload),
        Err(error) => assert!((headers.payload..=headers.end).contains(&error.at), "{error}"),
    }
});

fn arp_reads_back(message: &Arp, bytes: &[u8]) {
    assert_eq!(message.emit(), bytes[..arp::LENGTH]);
    if let Some(answer) = message.answer(MacAddress([2, 0, 0, 0, 0, 9])) {
        assert_eq!(Arp::parse(&answer.emit()), Ok(answer));
        assert_eq!((answer.sender.ip, answer.target), (message.target.ip, message.sender));
    }
}

/// Fields that a decoder does not look at are not kept, so the PDU is what reads back.
fn slow_reads_back(message: &Slow<'_>) {
    match message.subtype {
        Subtype::Lacp => {
            if let Ok(pdu) = Lacpdu::parse(message.data) {
                assert_eq!(Lacpdu::parse(&pdu.emit()[1..]), Ok(pdu));
                assert!(pdu.emit()[..2] == [1, message.data[0]]);
            }
        }
        Subtype::Marker => {
            if let Ok(pdu) = Marker::parse(message.data) {
                assert_eq!(Marker::parse(&pdu.emit()[1..]), Ok(pdu));
            }
        }
        _ => {}
    }
}
