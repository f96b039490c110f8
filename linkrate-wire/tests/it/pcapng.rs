//! Captures read back: by a reader of its own, which knows the format and not the writer, and by
//! tshark.

use crate::common::{Packet as Frame, bytes, strategy};
use crate::judge::tshark;
use linkrate_wire::pcapng::{
    Direction, Interface, Packet, interface_description, packet, section_header,
};
use proptest::prelude::*;

/// A block as its type and what lies between its two lengths.
type Block = (u32, Vec<u8>);

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn blocks(mut file: &[u8]) -> Vec<Block> {
    let mut blocks = Vec::new();
    while !file.is_empty() {
        let length = u32_at(file, 4) as usize;
        assert_eq!(length % 4, 0);
        assert_eq!(u32_at(file, length - 4) as usize, length, "the length at both ends");
        blocks.push((u32_at(file, 0), file[8..length - 4].to_vec()));
        file = &file[length..];
    }
    blocks
}

fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut options = Vec::new();
    loop {
        let (code, length) = (u16_at(bytes, 0), usize::from(u16_at(bytes, 2)));
        if code == 0 {
            assert_eq!(bytes.len(), 4, "nothing after the last option");
            return options;
        }
        options.push((code, bytes[4..4 + length].to_vec()));
        bytes = &bytes[4 + length.next_multiple_of(4)..];
    }
}

#[test]
fn a_file_of_two_ports() {
    let mut file = Vec::new();
    section_header("linkrate", &mut file);
    let first =
        Interface { name: "sut0", link_type: 1, speed: Some(1_000_000_000), snap_length: 0 };
    interface_description(&first, &mut file);
    let second = Interface { name: "clients", link_type: 123, speed: None, snap_length: 96 };
    interface_description(&second, &mut file);
    let [header, first, second] = &blocks(&file)[..] else { panic!("three blocks") };

    assert_eq!((header.0, u32_at(&header.1, 0)), (0x0a0d_0d0a, 0x1a2b_3c4d));
    assert_eq!((u16_at(&header.1, 4), u16_at(&header.1, 6)), (1, 0));
    assert_eq!(header.1[8..16], [0xff; 8]);
    assert_eq!(options(&header.1[16..]), [(4, b"linkrate".to_vec())]);

    assert_eq!((first.0, u16_at(&first.1, 0), u32_at(&first.1, 4)), (1, 1, 0));
    let speed = 1_000_000_000u64.to_ne_bytes().to_vec();
    assert_eq!(options(&first.1[8..]), [(2, b"sut0".to_vec()), (8, speed), (9, vec![9])]);
    assert_eq!((u16_at(&second.1, 0), u32_at(&second.1, 4)), (123, 96));
    assert_eq!(options(&second.1[8..]), [(2, b"clients".to_vec()), (9, vec![9])]);
}

#[test]
fn cuts_a_long_comment_between_characters() {
    let comment = "é".repeat(40_000);
    let (parts, mut file) = (&[][..], Vec::new());
    let of = Packet { comment: Some(&comment), ..plain(parts) };
    packet(&of, &mut file);
    let (_, body) = blocks(&file).remove(0);
    let options = options(&body[20..]);
    assert_eq!(options[1].1, comment.as_bytes()[..65_534]);
}

fn plain<'a>(parts: &'a [&'a [u8]]) -> Packet<'a> {
    let direction = Direction::Inbound;
    Packet { interface: 0, time_ns: 0, direction, parts, comment: None, snap_length: 0 }
}

proptest! {
    #[test]
    fn a_frame_reads_back_however_it_is_split(
        frame in strategy::packet(300),
        splits in prop::array::uniform2(any::<prop::sample::Index>()),
        (interface, time_ns, outbound) in any::<(u32, u64, bool)>(),
        comment in prop::option::of(".{0,20}"),
        snap_length in prop_oneof![Just(0u32), 1u32..400],
    ) {
        let frame = frame.frame();
        let mut splits = splits.map(|split| split.index(frame.len() + 1));
        splits.sort_unstable();
        let parts = [&frame[..splits[0]], &frame[splits[0]..splits[1]], &frame[splits[1]..]];
        let direction = if outbound { Direction::Outbound } else { Direction::Inbound };
        let comment = comment.as_deref();
        let of = Packet { interface, time_ns, direction, parts: &parts, comment, snap_length };
        let mut file = vec![7; 3];
        packet(&of, &mut file);

        let (kind, body) = blocks(&file[3..]).remove(0);
        prop_assert_eq!((kind, u32_at(&body, 0)), (6, interface));
        let time = u64::from(u32_at(&body, 4)) << 32 | u64::from(u32_at(&body, 8));
        prop_assert_eq!(time, time_ns);
        let kept = match snap_length {
            0 => frame.len(),
            snap_length => frame.len().min(snap_length as usize),
        };
        prop_assert_eq!(u32_at(&body, 12) as usize, kept);
        prop_assert_eq!(u32_at(&body, 16) as usize, frame.len());
        prop_assert_eq!(&body[20..20 + kept], &frame[..kept]);
        let flags = if outbound { 2u32 } else { 1 }.to_ne_bytes().to_vec();
        let mut expected = vec![(2, flags)];
        expected.extend(comment.map(|comment| (1, comment.as_bytes().to_vec())));
        prop_assert_eq!(options(&body[20 + kept.next_multiple_of(4)..]), expected);
    }
}

#[test]
fn tshark_reads_it() {
    let fields = ["frame.time_epoch", "frame.len", "frame.interface_name", "frame.packet_flags"];
    let mut arguments = vec!["-T", "fields", "-o", "tcp.check_checksum:TRUE"];
    for field in fields.iter().chain(&["tcp.checksum.status", "frame.comment"]) {
        arguments.extend(["-e", field]);
    }
    let mut file = Vec::new();
    section_header("linkrate", &mut file);
    for name in ["sut0", "sut1"] {
        interface_description(
            &Interface { name, link_type: 1, speed: None, snap_length: 0 },
            &mut file,
        );
    }
    let frame = Frame { tags: vec![(0x8100, 5)], snap: true, ..Frame::tcp4(bytes(101)) }.frame();
    let parts = frame.split_at(70);
    let parts = [parts.0, parts.1];
    packet(&Packet { time_ns: 1_700_000_000_123_456_789, ..plain(&parts) }, &mut file);
    let direction = Direction::Outbound;
    let comment = Some("after segmentation");
    packet(&Packet { interface: 1, direction, comment, ..plain(&parts) }, &mut file);

    let Some(decoded) = tshark(&arguments, &file) else { return };
    let expected = "1700000000.123456789\t167\tsut0\t0x00000001\t1\t\n\
                    0.000000000\t167\tsut1\t0x00000002\t1\tafter segmentation\n";
    assert_eq!(decoded, expected);
}
