//! Datagrams and the IP fragments they must be cut into: put together again as RFC 791 and RFC 8200
//! say, they are the datagram.

mod common;

use common::{Packet, bytes, internet, strategy};
use linkrate_wire::frame::{Headers, Network, Transport, Verification, link};
use linkrate_wire::segment::{Cut, Request, SegmentError};
use linkrate_wire::ufo;
use proptest::prelude::*;

const IDENTIFICATION: u32 = 0x1234_5678;

fn fragments(superframe: &[u8], request: &Request) -> Result<Vec<Vec<u8>>, SegmentError> {
    let (mut headers, mut cuts) = (vec![0xee; 3], vec![Cut { header: 0..3, payload: 0..0 }]);
    if let Err(error) = ufo::cut_into(superframe, request, IDENTIFICATION, &mut headers, &mut cuts)
    {
        assert_eq!((headers.len(), cuts.len()), (3, 1));
        return Err(error);
    }
    let frames = cuts[1..].iter();
    Ok(frames.map(|cut| [cut.header(&headers), cut.payload(superframe)].concat()).collect())
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

/// A fragment as a receiver sees it.
#[derive(Debug)]
struct Fragment {
    /// What must be the same in all: the packet's header without what tells fragments apart.
    of: Vec<u8>,
    offset: usize,
    more: bool,
    data: Vec<u8>,
}

fn fragment(frame: &[u8]) -> Fragment {
    let headers = Headers::parse(frame).expect("a good frame");
    assert_eq!((headers.transport, headers.end), (Transport::Fragment, frame.len()));
    let packet = &frame[headers.link.length..];
    match headers.network {
        Network::V4(ip) => {
            assert_eq!(internet(&packet[..ip.length]), 0);
            let mut of = packet[..20].to_vec();
            for field in [2..4, 6..8, 10..12] {
                of[field].fill(0);
            }
            let field = u16_at(packet, 6);
            assert_eq!(field & 0xc000, 0, "no DF");
            let (offset, more) = ((field & 0x1fff) * 8, field & 0x2000 != 0);
            Fragment { of, offset, more, data: packet[ip.length..].to_vec() }
        }
        Network::V6(ip) => {
            let (header, rest) = packet.split_at(ip.length);
            let mut of = header.to_vec();
            of[4..6].fill(0);
            of.push(rest[0]);
            assert_eq!(rest[4..8], IDENTIFICATION.to_be_bytes());
            let field = u16_at(rest, 2);
            assert_eq!((rest[1], field & 6), (0, 0));
            Fragment { of, offset: field & !7, more: field & 1 != 0, data: rest[8..].to_vec() }
        }
        Network::Other => panic!("IP"),
    }
}

/// What comes after the part that all fragments repeat.
fn put_together(frames: &[Vec<u8>]) -> Vec<u8> {
    let fragments: Vec<Fragment> = frames.iter().map(|frame| fragment(frame)).collect();
    let mut data = Vec::new();
    for (index, fragment) in fragments.iter().enumerate() {
        assert_eq!(fragment.of, fragments[0].of);
        assert_eq!(fragment.offset, data.len());
        assert_eq!(fragment.more, index + 1 < fragments.len());
        data.extend(&fragment.data);
    }
    data
}

#[test]
fn over_ipv4() {
    let packet = Packet { identification: 77, fragment: 0, flags: 0, ..Packet::udp4(bytes(4000)) };
    let superframe = packet.frame();
    let mut stale = superframe.clone();
    stale[40..42].copy_from_slice(&[1, 2]);
    let frames = fragments(&stale, &Request::new(1480)).expect("a datagram");
    let fields: Vec<[usize; 3]> =
        frames.iter().map(|frame| [frame.len(), u16_at(frame, 18), u16_at(frame, 20)]).collect();
    assert_eq!(fields, [[1514, 77, 0x2000], [1514, 77, 0x2000 | 185], [1082, 77, 370]]);
    assert_eq!(put_together(&frames), superframe[34..]);
}

#[test]
fn only_the_last_fragment_may_be_no_multiple_of_8() {
    let cut = |packet: Packet, headers| {
        let frames = fragments(&packet.frame(), &Request::new(836)).expect("a datagram");
        frames.iter().map(|frame| frame.len() - headers).collect::<Vec<_>>()
    };
    let sizes = |data: usize| cut(Packet::udp4(bytes(data - 8)), 34);
    assert_eq!(sizes(836), [836]);
    assert_eq!(sizes(837), [832, 5]);
    assert_eq!(sizes(832 + 836), [832, 836]);
    assert_eq!(sizes(832 + 837), [832, 832, 5]);
    let v6 = Packet { v6: true, ..Packet::udp4(bytes(832 + 836 - 8)) };
    assert_eq!(cut(v6, 62), [832, 832, 4]);
}

#[test]
fn over_ipv6_the_header_stands_behind_what_every_fragment_repeats() {
    let extensions = vec![(0, vec![1, 4, 0, 0, 0, 0]), (60, vec![1, 4, 0, 0, 0, 0])];
    let packet = Packet { extensions, v6: true, ..Packet::udp4(bytes(3000)) };
    let superframe = packet.frame();
    let frames = fragments(&superframe, &Request::new(1435)).expect("a datagram");
    let lengths: Vec<usize> = frames.iter().map(Vec::len).collect();
    // link 14, IPv6 40, hop-by-hop 8, fragment header 8, and 1432 of 8 + 8 + 3000
    assert_eq!(lengths, [1502, 1502, 70 + 152]);
    assert_eq!((frames[0][20], frames[0][54], frames[0][62]), (0, 44, 60));
    assert_eq!(put_together(&frames), superframe[62..]);
}

#[test]
fn vlan_and_snap_are_put_on_each_fragment() {
    let superframe = Packet::udp4(bytes(3000)).frame();
    let request = Request { vlan: Some(9), snap: true, ..Request::new(1472) };
    let frames = fragments(&superframe, &request).expect("a datagram");
    for frame in &frames {
        assert_eq!(frame[12..16], [0x81, 0, 0, 9]);
        assert_eq!(u16_at(frame, 16), frame.len() - 18);
    }
    assert_eq!(frames[0].len(), 18 + 1500);
    assert_eq!(put_together(&frames), superframe[34..]);
    let request = Request { snap: true, ..Request::new(1480) };
    let frames = fragments(&superframe, &request).expect("a datagram");
    assert!(frames.iter().all(|frame| frame[12..14] == [8, 0]));
}

#[test]
fn options_for_the_first_fragment_stay_there() {
    // record route (not copied), no-operation, router alert (copied), end
    let ip_options = vec![7, 3, 4, 1, 148, 4, 0, 0, 68, 3, 5, 0];
    let packet = Packet { ip_options: ip_options.clone(), ..Packet::udp4(bytes(100)) };
    let frames = fragments(&packet.frame(), &Request::new(64)).expect("a datagram");
    assert_eq!(frames[0][34..46], ip_options[..]);
    assert_eq!(frames[1][34..46], [1, 1, 1, 1, 148, 4, 0, 0, 1, 1, 1, 0]);
    // one whose length is a lie
    let packet = Packet { ip_options: vec![148, 9, 0, 0], ..packet };
    let frames = fragments(&packet.frame(), &Request::new(64)).expect("a datagram");
    assert_eq!(frames[1][34..38], [1; 4]);
}

#[test]
fn what_cannot_be_cut_is_refused_with_the_reason() {
    let refusal = |packet: &Packet, size| {
        fragments(&packet.frame(), &Request::new(size)).expect_err("refused").to_string()
    };
    let good = Packet::udp4(bytes(30));
    assert_eq!(refusal(&good, 0), "fragment size is 0, expected at least 8");
    assert_eq!(refusal(&good, 7), "fragment size is 7, expected at least 8");
    let tcp = Packet { udp: false, ..good.clone() };
    assert_eq!(refusal(&tcp, 16), "superframe is not UDP over IPv4 or IPv6");
    let fragment = Packet { fragment: 0x2000, ..good.clone() };
    assert_eq!(refusal(&fragment, 16), "superframe is an IP fragment, which has no segments");
    let padded = Packet { padding: 2, ..good.clone() };
    assert_eq!(refusal(&padded, 16), "superframe has 74 bytes, expected 72 from the length of IP");
    let extensions = vec![(60, vec![0; 14])];
    let extended = Packet { extensions, v6: true, ..good };
    assert_eq!(refusal(&extended, 23), "fragment size is 23, expected at least 24");
}

proptest! {
    #[test]
    fn fragments_put_together_are_the_datagram(
        packet in strategy::packet(1200), size in 40u16..1300, stale: u16,
        (vlan, snap) in any::<(Option<u16>, bool)>(),
    ) {
        let tags = packet.tags[..packet.tags.len().min(1)].to_vec();
        let packet = Packet { udp: true, tags, ..packet };
        let whole = packet.frame();
        let headers = Headers::parse(&whole).expect("a good frame");
        let mut superframe = whole.clone();
        superframe[headers.payload - 2..headers.payload].copy_from_slice(&stale.to_be_bytes());
        let request = Request { vlan, snap, ..Request::new(size) };
        let frames = match fragments(&superframe, &request) {
            Ok(frames) => frames,
            Err(SegmentError::FragmentSize { found, .. }) => {
                prop_assert_eq!(found, size);
                return Ok(());
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        let transport = match headers.network {
            Network::V4(ip) => ip.at + ip.length,
            _ => headers.payload - 8,
        };
        if let [frame] = &frames[..] {
            let headers = Headers::parse(frame).expect("a good frame");
            prop_assert_eq!(headers.transport_checksum(frame), Verification::Right);
            prop_assert!(headers.network_checksum_verifies(frame));
            prop_assert_eq!(&frame[headers.payload - 8..], &whole[transport..]);
        } else {
            let data = put_together(&frames);
            prop_assert!(data.ends_with(&whole[transport..]));
        }
    }

    #[test]
    fn anything_is_cut_or_refused(
        packet in strategy::packet(60),
        changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..6),
        size: u16,
        (vlan, snap) in any::<(Option<u16>, bool)>(),
    ) {
        let mut frame = Packet { udp: true, ..packet }.frame();
        for (at, value) in changes {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        let request = Request { snap, vlan, ..Request::new(size) };
        let longest = frame.len() + link::SNAP + link::TAG + 8;
        if let Ok(fragments) = fragments(&frame, &request) {
            prop_assert!(fragments.iter().all(|fragment| fragment.len() <= longest));
        }
    }
}
