//! The same superframe cut by this TSO and USO and by the kernel's own: identical, frame for frame.
//!
//! Two TAPs are joined by a bridge. A superframe is written into one with the header that makes it
//! one; the other takes no superframes, so that the kernel cuts it in software on the way out
//! (`skb_segment`, net/core/skbuff.c; `tcp_gso_segment`, net/ipv4/tcp_offload.c;
//! `__udp_gso_segment`, net/ipv4/udp_offload.c; `inet_gso_segment`, `ipv6_gso_segment`). A bridge
//! changes nothing in a frame, unlike a router.
//!
//! Two things may differ, and do:
//!
//! - A TCP checksum that comes out as zero is written as zero by segmentation on both sides, and as
//!   0xffff, which is the same number, by `skb_checksum_help`, which the kernel uses for a frame
//!   that was small enough to be none.
//! - A packet that is longer than one segment only with its TCP options counted is a superframe to
//!   `virtio_net_hdr_to_skb` (include/linux/virtio_net.h), which knows no options, and none to
//!   `tcp_gso_segment`, which refuses it: the kernel loses it. Here it goes out as the one frame
//!   that it is.

use crate::tap_host;
use std::cell::RefCell;

use crate::own_host::in_a_host;
use crate::packets::{Packet, timestamps};
use crate::tap_host::{Bridge, Tally};
use linkrate_sys::tap::VNET_HEADER_BYTES;
use linkrate_wire::frame::{Headers, TCP, Transport, UDP};
use linkrate_wire::segment::Request;
use linkrate_wire::vnet::{Checksum, Gso, GsoKind, VnetHeader};
use linkrate_wire::{tso, uso};
use proptest::prelude::*;

/// Most frames that one superframe is cut into here, which the TAP must hold.
const MAX_SEGMENTS: usize = 600;

/// The most that the kernel takes of a UDP superframe (include/linux/udp.h); a write of more is
/// refused.
const UDP_MAX_SEGMENTS: usize = 128;

const CASES: u32 = 2000;

/// A superframe to be cut, small enough to be printed.
#[derive(Debug, Clone)]
struct Superframe {
    /// Everything but the payload.
    packet: Packet,
    payload_bytes: usize,
    /// What the payload is made of.
    fill: u64,
    segment_size: u16,
    /// The urgent pointer.
    urgent: u16,
    /// The bit of the header that goes with CWR; it must make no difference.
    ecn: bool,
}

impl Superframe {
    fn frame(&self) -> Vec<u8> {
        let mut state = self.fill | 1;
        let mut next = || {
            // Marsaglia's xorshift
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let payload = (0..self.payload_bytes).map(|_| next()).collect();
        let mut frame = Packet { payload, ..self.packet.clone() }.frame();
        let headers = Headers::parse(&frame).expect("a frame");
        if let Transport::Tcp { at } = headers.transport {
            // the checksum, which the packet was built with, is made again in any case
            frame[at + 18..at + 20].copy_from_slice(&self.urgent.to_be_bytes());
        }
        frame
    }

    fn expected(&self, frame: &[u8]) -> Vec<Vec<u8>> {
        let request = Request::new(self.segment_size);
        let (mut headers, mut cuts) = (Vec::new(), Vec::new());
        let cut = match self.packet.udp {
            true => uso::cut_into(frame, &request, &mut headers, &mut cuts, |_| ()),
            false => tso::cut_into(frame, &request, &mut headers, &mut cuts, |_| ()),
        };
        cut.expect("a superframe");
        cuts.iter().map(|cut| [cut.header(&headers), cut.payload(frame)].concat()).collect()
    }

    /// Longer than one segment only with its TCP options counted.
    fn is_lost_by_the_kernel(&self) -> bool {
        let size = usize::from(self.segment_size);
        self.payload_bytes <= size && size < self.payload_bytes + self.packet.options.len()
    }

    /// The header that makes `frame` a superframe, and the frame with the sum of its pseudo-header
    /// in the checksum field, as a host hands it over.
    fn to_write(&self, frame: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut frame = frame.to_vec();
        let headers = Headers::parse(&frame).expect("a frame");
        let (kind, at, protocol, offset) = match headers.transport {
            Transport::Tcp { at } if self.packet.v6 => (GsoKind::Tcp6, at, TCP, 16),
            Transport::Tcp { at } => (GsoKind::Tcp4, at, TCP, 16),
            Transport::Udp { at } => (GsoKind::UdpL4, at, UDP, 6),
            other => panic!("{other:?}"),
        };
        let sum = headers.pseudo_header(&frame, protocol, frame.len() - at).expect("a sum");
        frame[at + offset..at + offset + 2].copy_from_slice(&sum.folded().to_be_bytes());
        let header = VnetHeader {
            gso: Some(Gso { kind, ecn: self.ecn && !self.packet.udp }),
            header_length: headers.payload as u16,
            segment_size: self.segment_size,
            checksum: Some(Checksum { start: at as u16, offset: offset as u16 }),
            ..VnetHeader::default()
        };
        (header.emit()[..VNET_HEADER_BYTES].to_vec(), frame)
    }
}

/// What the kernel makes of a superframe.
fn cut(bridge: &Bridge, superframe: &Superframe, frame: &[u8]) -> std::io::Result<Vec<Vec<u8>>> {
    let (header, frame) = superframe.to_write(frame);
    bridge.cut(&header, &frame)
}

fn count(tally: &mut Tally, superframe: &Superframe, segments: usize) {
    let packet = &superframe.packet;
    let payload = superframe.payload_bytes;
    tally.count([
        ("superframes", segments > 1),
        ("frames that are none", segments == 1),
        ("exact multiples", payload.is_multiple_of(usize::from(superframe.segment_size))),
        ("with tags", !packet.tags.is_empty()),
        ("with IP options or extensions", has_ip_options(packet)),
        ("with CWR, ECN bit set", packet.flags & 0x80 != 0 && superframe.ecn),
        ("with CWR, ECN bit not set", packet.flags & 0x80 != 0 && !superframe.ecn),
        ("with FIN or PSH", packet.flags & 0x09 != 0),
        ("with TCP options", !packet.options.is_empty()),
        ("with DF", packet.fragment != 0),
        ("identification wraps", wraps(packet, segments)),
    ]);
    tally.add("segments", segments as u32);
}

fn has_ip_options(packet: &Packet) -> bool {
    if packet.v6 { !packet.extensions.is_empty() } else { !packet.ip_options.is_empty() }
}

fn wraps(packet: &Packet, segments: usize) -> bool {
    !packet.v6 && usize::from(packet.identification) + segments > 0x1_0000
}

/// A TCP checksum of zero, which the kernel writes as 0xffff when the frame was no superframe.
fn differ_in_the_name_of_zero(ours: &[u8], kernel: &[u8]) -> bool {
    let Ok(Headers { transport: Transport::Tcp { at }, .. }) = Headers::parse(ours) else {
        return false;
    };
    let mut renamed = ours.to_vec();
    renamed[at + 16..at + 18].copy_from_slice(&[0xff, 0xff]);
    ours[at + 16..at + 18] == [0, 0] && renamed == kernel
}

/// Cuts superframes both ways and returns what was compared.
fn compare_all(superframes: impl Strategy<Value = Superframe>) -> Tally {
    let bridge = Bridge::new(MAX_SEGMENTS);
    let tally = RefCell::new(Tally::default());
    tap_host::try_cases(CASES, &superframes, |superframe| {
        let frame = superframe.frame();
        let ours = superframe.expected(&frame);
        match cut(&bridge, &superframe, &frame) {
            Ok(theirs) if theirs.is_empty() && superframe.is_lost_by_the_kernel() => {
                tally.borrow_mut().add("lost by the kernel", 1);
            }
            Ok(theirs) => {
                tap_host::compare(&ours, &theirs, differ_in_the_name_of_zero)?;
                count(&mut tally.borrow_mut(), &superframe, ours.len());
            }
            Err(error) => prop_assert!(false, "the kernel refuses it: {error}"),
        }
        Ok(())
    });
    let tally = tally.into_inner();
    println!("{tally:#?}");
    tally
}

/// TCP options as connections have them, and odd ones, padded to whole words.
fn options() -> impl Strategy<Value = Vec<u8>> {
    let option = prop_oneof![
        any::<u32>().prop_map(timestamps),
        (1usize..=3, any::<u8>()).prop_map(|(blocks, fill)| {
            let mut sack = vec![5, 2 + 8 * blocks as u8];
            sack.resize(2 + 8 * blocks, fill);
            sack
        }),
        any::<[u8; 2]>().prop_map(|mss| vec![2, 4, mss[0], mss[1]]),
        any::<u8>().prop_map(|shift| vec![3, 3, shift]),
        (prop::collection::vec(any::<u8>(), 0..9)).prop_map(|body| {
            let mut experiment = vec![253, 2 + body.len() as u8];
            experiment.extend(body);
            experiment
        }),
        Just(vec![1]),
    ];
    (prop::collection::vec(option, 0..4), 0u8..=1).prop_map(|(options, padding)| {
        let mut bytes = Vec::new();
        for option in options {
            if bytes.len() + option.len() <= 40 {
                bytes.extend(option);
            }
        }
        bytes.resize(bytes.len().next_multiple_of(4), padding);
        bytes
    })
}

/// What a bridged superframe can be. SNAP is left out: the kernel cuts none.
fn superframe(v6: bool, udp: bool) -> impl Strategy<Value = Superframe> {
    let segment_size = prop_oneof![1u16..64, 500u16..1500, Just(1448), Just(8948), 1u16..20_000];
    let most_segments = if udp { UDP_MAX_SEGMENTS } else { MAX_SEGMENTS };
    let sizes = segment_size.prop_flat_map(move |size| {
        let most = (usize::from(size) * most_segments).min(65_000);
        let whole = 1..=(most / usize::from(size)).clamp(1, 60);
        let payload = prop_oneof![
            3 => 1..=most,
            1 => 1..=most.min(3 * usize::from(size)),
            1 => whole.prop_map(move |segments| segments * usize::from(size)),
        ];
        (Just(size), payload)
    });
    // hop-by-hop and destination options, which the kernel looks behind
    let body = (0usize..3).prop_map(|units| {
        let length = 6 + 8 * units;
        let mut pad = vec![1, length as u8 - 2];
        pad.resize(length, 0);
        pad
    });
    let extensions = prop::collection::vec(
        (prop_oneof![Just(0u8), Just(60)], body),
        if v6 { 0..3 } else { 0..1 },
    );
    let ip_options =
        (0usize..=10).prop_flat_map(|words| prop::collection::vec(any::<u8>(), 4 * words));
    let link = prop_oneof![
        2 => Just(Vec::new()),
        1 => any::<u16>().prop_map(|tag| vec![(0x8100, tag)]),
        1 => (prop_oneof![Just(0x8100), Just(0x88a8)], any::<(u16, u16)>())
            .prop_map(|(kind, (outer, inner))| vec![(kind, outer), (0x8100, inner)]),
    ];
    let identification = prop_oneof![any::<u16>(), 0xfff0u16..];
    let ip = (any::<u8>(), any::<u8>(), identification, any::<bool>());
    let ip_rest = (prop_oneof![1 => Just(Vec::new()), 1 => ip_options], extensions);
    let transport =
        (any::<(u16, u16)>(), any::<(u32, u32)>(), 0u16..0x1000, any::<(u16, u16)>(), options());
    (sizes, link, ip, ip_rest, transport, any::<u64>(), any::<bool>()).prop_map(
        move |((segment_size, payload_bytes), tags, ip, ip_rest, transport, fill, ecn)| {
            let packet = Packet {
                tags,
                v6,
                udp,
                tos: ip.0,
                ttl: ip.1,
                identification: ip.2,
                fragment: if ip.3 { 0x4000 } else { 0 },
                ip_options: ip_rest.0,
                extensions: ip_rest.1,
                ports: transport.0,
                sequence: transport.1.0,
                acknowledgement: transport.1.1,
                flags: transport.2,
                window: transport.3.0,
                options: if udp { Vec::new() } else { transport.4 },
                ..Packet::tcp4(Vec::new())
            };
            Superframe { packet, payload_bytes, fill, segment_size, urgent: transport.3.1, ecn }
        },
    )
}

#[test]
fn tcp_over_ipv4_is_cut_as_the_kernel_cuts_it() {
    in_a_host(|| {
        let tally = compare_all(superframe(false, false));
        tally.expect("identification wraps", 200);
        tally.expect("with DF", 500);
        expect_tcp(&tally);
    });
}

#[test]
fn tcp_over_ipv6_is_cut_as_the_kernel_cuts_it() {
    in_a_host(|| {
        expect_tcp(&compare_all(superframe(true, false)));
    });
}

#[test]
fn udp_over_ipv4_is_cut_as_the_kernel_cuts_it() {
    in_a_host(|| {
        let tally = compare_all(superframe(false, true));
        tally.expect("identification wraps", 200);
        expect_all(&tally);
    });
}

#[test]
fn udp_over_ipv6_is_cut_as_the_kernel_cuts_it() {
    in_a_host(|| {
        expect_all(&compare_all(superframe(true, true)));
    });
}

#[track_caller]
fn expect_all(tally: &Tally) {
    tally.expect("superframes", 1500);
    tally.expect("segments", 30_000);
    for name in ["frames that are none", "exact multiples"] {
        tally.expect(name, 100);
    }
    for name in ["with tags", "with IP options or extensions"] {
        tally.expect(name, 500);
    }
}

#[track_caller]
fn expect_tcp(tally: &Tally) {
    expect_all(tally);
    let cwr = ["with CWR, ECN bit set", "with CWR, ECN bit not set"];
    for name in cwr.into_iter().chain(["with FIN or PSH", "with TCP options"]) {
        tally.expect(name, 300);
    }
}

/// A frame whose segment `chosen` has a checksum that comes out as zero, and where that is in the
/// segment.
fn frame_with_zero(superframe: &Superframe, chosen: usize) -> (Vec<u8>, usize) {
    let mut frame = superframe.frame();
    let headers = Headers::parse(&frame).expect("a frame");
    let field = headers.payload - if superframe.packet.udp { 2 } else { 4 };
    // a word of its payload takes what its checksum would be without that word
    let word = headers.payload + usize::from(superframe.segment_size) * chosen;
    frame[word..word + 2].fill(0);
    let checksum = superframe.expected(&frame)[chosen][field..field + 2].to_vec();
    frame[word..word + 2].copy_from_slice(&checksum);
    (frame, field)
}

/// Comes up once in 65536 segments.
#[test]
fn checksums_of_zero_are_written_as_the_kernel_writes_them() {
    in_a_host(|| {
        let bridge = Bridge::new(MAX_SEGMENTS);
        for (v6, udp) in [(false, false), (true, false), (false, true), (true, true)] {
            let whole = Superframe {
                packet: Packet { v6, udp, ..Packet::tcp4(Vec::new()) },
                payload_bytes: 300,
                fill: 7,
                segment_size: 300,
                urgent: 0,
                ecn: false,
            };
            let zero = if udp { [0xff, 0xff] } else { [0, 0] };
            let segmented = Superframe { segment_size: 100, ..whole.clone() };
            for chosen in 0..3 {
                let (frame, at) = frame_with_zero(&segmented, chosen);
                let ours = segmented.expected(&frame);
                assert_eq!(ours[chosen][at..at + 2], zero, "v6 {v6}, udp {udp}");
                let theirs = cut(&bridge, &segmented, &frame).expect("a superframe");
                assert_eq!(ours, theirs, "v6 {v6}, udp {udp}, segment {chosen}");
            }
            let (frame, at) = frame_with_zero(&whole, 0);
            let ours = whole.expected(&frame);
            assert_eq!(ours[0][at..at + 2], zero, "v6 {v6}, udp {udp}");
            let theirs = cut(&bridge, &whole, &frame).expect("a frame");
            assert_eq!(theirs[0][at..at + 2], [0xff, 0xff], "v6 {v6}, udp {udp}");
            tap_host::compare(&ours, &theirs, differ_in_the_name_of_zero).expect("the same number");
        }
    });
}
