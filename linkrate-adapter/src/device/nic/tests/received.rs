//! What a host gets of frames that contradict themselves, and what it is told of their checksums.

use linkrate_wire::encapsulation::{self, Encapsulation};

use super::*;

/// A datagram over IPv4 of `length` bytes, UDP header included, in a packet with `behind` after it.
fn datagram(length: usize, behind: &[u8]) -> Vec<u8> {
    let total = (20 + length + behind.len()) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let checksum = Sum::of(&ip).checksum().to_be_bytes();
    ip[10..12].copy_from_slice(&checksum);
    let mut udp = vec![0x30, 0x39, 0x14, 0x51];
    udp.extend((length as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload(length - 8));
    let pseudo = pseudo_v4([10, 0, 0, 1], [10, 0, 0, 2], 17, length as u16);
    let checksum = pseudo.and(&udp).udp_checksum().to_be_bytes();
    udp[6..8].copy_from_slice(&checksum);
    [&packet(&[])[..14], &ip, &udp, behind].concat()
}

/// What the host gets of one frame, with the header before it as it is written.
fn handed_up(knobs: PortKnobs, frame: Vec<u8>) -> Vec<(VnetHeader, Vec<u8>)> {
    let mut port = End::new(limits(), knobs, 1, None);
    handed_up_of(&mut port, vec![frame])
}

fn handed_up_of(port: &mut End, frames: Vec<Vec<u8>>) -> Vec<(VnetHeader, Vec<u8>)> {
    for frame in frames {
        port.device.arrived(WireFrame::copied(frame).into(), 1, LATER_PS);
    }
    port.device.interrupt(LATER_PS);
    let all = std::iter::from_fn(|| port.rx[0].pop().ok());
    all.map(|descriptor| {
        let mut bytes = Vec::new();
        descriptor.for_each_piece(|piece| bytes.extend_from_slice(piece));
        (descriptor.vnet, bytes)
    })
    .collect()
}

fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    link::retagged(frame, Some(link::TagControl(vlan))).unwrap()
}

/// An adapter checks sequence, length and address of a frame; what is wrong in IP and LLC is its host's to count.
#[test]
fn a_packet_that_contradicts_itself_is_handed_up_as_it_came() {
    let good = packet(&payload(100));
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame
    };
    let mut ipv6 = [&good[..12], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 80, 60, 64][..]].concat();
    ipv6.extend([0; 32]);
    // nine headers with options, which is much and not forbidden
    (0..9).for_each(|number| ipv6.extend([if number < 8 { 60 } else { 59 }, 0, 1, 4, 0, 0, 0, 0]));
    ipv6.extend([0; 8]);
    let mut short_udp = datagram(20, &[]);
    short_udp[39] = 4;
    let wrong = [
        // header length, total length, data offset of TCP
        with(14, 0x44),
        with(16, 0xff),
        with(46, 0x10),
        // lengths of 802.3: between length and type, and beyond the frame
        [&good[..12], &[0x05, 0xe0], &good[14..]].concat(),
        [&good[..12], &[0x02, 0x00], &good[14..]].concat(),
        ipv6,
        short_udp,
    ];
    for frame in &wrong {
        assert!(Headers::parse(frame).is_err() || frame[13] == 0xdd, "{frame:?}");
        for lro in [false, true] {
            let up = handed_up(PortKnobs { lro, ..quiet() }, frame.clone());
            assert_eq!(up, [(VnetHeader::default(), frame.clone())]);
            let knobs = PortKnobs { lro, vlan: 5, ..quiet() };
            let up = handed_up(knobs.clone(), tagged(frame, 5));
            assert_eq!(up, [(VnetHeader::default(), frame.clone())]);
            assert_eq!(handed_up(knobs, tagged(frame, 6)), []);
        }
    }
    let mut port = End::new(limits(), quiet(), 1, None);
    assert_eq!(handed_up_of(&mut port, vec![wrong[0].clone(), good[..13].to_vec()]).len(), 1);
    assert_eq!((port.counted("rxDropMalformed"), port.counted("ifInErrors")), (1, 1));
}

/// A host that forwards a packet makes its checksum over all that follows `csum_start`.
#[test]
fn a_checksum_is_left_to_be_made_only_where_the_datagram_ends_with_the_frame() {
    let up = |frame: &[u8]| {
        let [(vnet, bytes)] = &handed_up(quiet(), frame.to_vec())[..] else { panic!("one packet") };
        if let Some(Checksum { start, offset }) = vnet.checksum {
            let mut made = bytes.clone();
            complete_checksum_parts(&mut made, Sum::ZERO, start.into(), offset.into()).unwrap();
            assert_eq!(made, frame, "the same as the sender made");
        } else {
            assert_eq!(bytes, frame);
        }
        vnet.checksum.is_some()
    };
    assert!(up(&datagram(100, &[])));
    assert!(!up(&datagram(100, b"options of UDP")));
    assert!(up(&[datagram(20, &[]), vec![0; 6]].concat()), "padding");
    assert!(!up(&[datagram(20, &[]), vec![0, 7]].concat()), "other padding");
}

proptest! {
    /// Whatever comes, Linux takes what it is handed with its header.
    #[test]
    fn linux_takes_every_header(
        lengths in prop::collection::vec(0usize..2000, 1..20),
        damage in prop::collection::vec((0usize..20, 0usize..120, any::<u8>()), 0..6),
        cut in prop::option::of((0usize..20, 14usize..90)), datagrams: bool, lro: bool,
        vlan in prop_oneof![Just(0u16), 1u16..4095], snap: bool,
    ) {
        let of = |length: &usize| match datagrams {
            true => datagram(8 + length / 2, &payload(length % 9)),
            false => packet(&payload(*length)),
        };
        // checksums are made by a port, as the frames come from one
        let mut from = End::new(limits(), quiet(), 1, None);
        for length in &lengths {
            match datagrams {
                true => from.post(VnetHeader::default(), &of(length)),
                false => from.post(needs_checksum(), &of(length)),
            }
        }
        let mut frames: Vec<Vec<u8>> = from.sent().iter().map(|(frame, _)| frame.to_vec()).collect();
        for (number, at, value) in damage {
            let count = frames.len();
            if let Some(octet) = frames[number % count].get_mut(at) {
                *octet = value;
            }
        }
        if let Some((number, length)) = cut {
            let count = frames.len();
            frames[number % count].truncate(length);
        }
        let wanted = Encapsulation { vlan: (vlan != 0).then_some(vlan), snap };
        let encapsulated = frames.into_iter().map(|frame| {
            let Ok(headers) = Headers::parse(&frame) else { return frame };
            match encapsulation::encapsulate(&frame, &headers, wanted) {
                Ok(link) => [&link[..], &frame[headers.link.length..]].concat(),
                Err(_) => frame,
            }
        });
        let encapsulated = encapsulated.collect();
        let mut port = End::new(limits(), PortKnobs { lro, vlan, snap, ..quiet() }, 1, None);
        for (vnet, bytes) in handed_up_of(&mut port, encapsulated) {
            prop_assert!(vnet.is_taken_by_linux(bytes.len()), "{vnet:?} {} bytes", bytes.len());
        }
    }
}
