//! The same datagram cut by this UFO and by the kernel, in the three places where the kernel cuts
//! one: identical, fragment for fragment.
//!
//! - Software offload (`udp4_ufo_fragment`, net/ipv4/udp_offload.c; `udp6_ufo_fragment`,
//!   net/ipv6/udp_offload.c): a superframe crosses a bridge to a TAP that takes none.
//! - A router (`ip_do_fragment`, net/ipv4/ip_output.c), which alone gives each option to the
//!   fragments it belongs to. What it makes smaller is the packet as it forwards it.
//! - The output of a socket (`__ip_append_data`, `__ip6_append_data`): sent whole over a large MTU
//!   and again over a small one.
//!
//! What each of them cannot show is left out there. Software offload copies IPv4 options to every
//! fragment, takes sizes as they come where offsets are multiples of 8, and counts IPv6 extension
//! headers into the offsets (`ipv6_gso_segment`, net/ipv6/ip6_offload.c). IPv6 routers fragment
//! nothing.

#[path = "../../linkrate-wire/tests/common/mod.rs"]
mod packets;
#[path = "common/tap_host.rs"]
mod tap_host;

use std::cell::RefCell;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::tap::VNET_HEADER_BYTES;
use linkrate_wire::frame::{Headers, Network, Transport, UDP};
use linkrate_wire::segment::Request;
use linkrate_wire::ufo;
use linkrate_wire::vnet::{Checksum, Gso, GsoKind, VnetHeader};
use packets::{Packet, bytes};
use proptest::prelude::*;
use tap_host::{Bridge, LARGEST_MTU, Tally, compare, in_a_host, ip, try_cases};

/// Cases of each test.
const CASES: u32 = 1500;

/// Most fragments of one datagram here, which the TAP must hold.
const MOST_FRAGMENTS: usize = 600;

/// Time after which what a socket has sent is taken to be lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// Largest payload of a datagram here.
const LONGEST: usize = 65_000;

/// The fragments that this UFO makes of a datagram in a frame.
fn ours(frame: &[u8], fragment_size: usize, identification: u32) -> Vec<Vec<u8>> {
    let (mut headers, mut cuts) = (Vec::new(), Vec::new());
    let request = Request::new(u16::try_from(fragment_size).expect("a size"));
    ufo::cut_into(frame, &request, identification, &mut headers, &mut cuts).expect("a datagram");
    cuts.iter().map(|cut| [cut.header(&headers), cut.payload(frame)].concat()).collect()
}

/// Whether no fragment of the same datagram follows.
fn is_last(frame: &[u8]) -> bool {
    let headers = Headers::parse(frame).expect("a frame");
    let more = match (headers.transport, headers.network) {
        (Transport::Fragment, Network::V6(ip)) => frame[ip.at + ip.length + 3] & 1,
        (Transport::Fragment, Network::V4(ip)) => frame[ip.at + 6] & 0x20,
        _ => 0,
    };
    more == 0
}

/// The identification in an IPv6 fragment that the kernel has made; zero in a frame that is none.
fn identification(frames: &[Vec<u8>]) -> u32 {
    let Some(frame) = frames.first() else { return 0 };
    let headers = Headers::parse(frame).expect("a frame");
    match (headers.transport, headers.network) {
        (Transport::Fragment, Network::V6(ip)) => {
            let at = ip.at + ip.length + 4;
            u32::from_be_bytes(frame[at..at + 4].try_into().expect("4 bytes"))
        }
        _ => 0,
    }
}

fn nothing_differs(_: &[u8], _: &[u8]) -> bool {
    false
}

#[track_caller]
fn end(tally: RefCell<Tally>) {
    let tally = tally.into_inner();
    println!("{tally:#?}");
    tally.expect("in fragments", 1000);
    tally.expect("fragments", 10_000);
    for name in ["whole", "exact multiples"] {
        tally.expect(name, 30);
    }
}

fn count(tally: &RefCell<Tally>, data: usize, size: usize, fragments: usize) {
    let mut tally = tally.borrow_mut();
    tally.count([
        ("whole", fragments == 1),
        ("in fragments", fragments > 1),
        ("exact multiples", data.is_multiple_of(size)),
    ]);
    tally.add("fragments", fragments as u32);
}

/// Payloads that make up to [`MOST_FRAGMENTS`] fragments of `size` bytes, and with the UDP header
/// often a multiple of it.
fn payload_bytes(size: usize) -> impl Strategy<Value = usize> {
    let most = (size * MOST_FRAGMENTS).min(LONGEST) - 8;
    let whole = (1..=(most / size).clamp(1, 40)).prop_map(move |count| count * size - 8);
    prop_oneof![3 => 1..=most, 1 => 1..=most.min(3 * size), 1 => whole.prop_filter("some", |n| *n > 0)]
}

/// A datagram without options, and the size of its fragments after the headers that all repeat.
fn datagram(v6: bool) -> impl Strategy<Value = (Packet, usize)> {
    let size = prop_oneof![2usize..8, 60usize..180, Just(185), Just(1119), 8usize..2500];
    let sizes = size.prop_flat_map(|units| (Just(8 * units), payload_bytes(8 * units)));
    let tags = prop_oneof![
        2 => Just(Vec::new()),
        1 => any::<u16>().prop_map(|tag| vec![(0x8100, tag)]),
    ];
    let ip = (any::<u8>(), any::<u8>(), any::<u16>(), any::<bool>());
    (sizes, tags, ip, any::<(u16, u16)>()).prop_map(move |((size, payload), tags, ip, ports)| {
        let packet = Packet {
            tags,
            v6,
            tos: ip.0,
            ttl: ip.1,
            identification: ip.2,
            fragment: if ip.3 { 0x4000 } else { 0 },
            ports,
            ..Packet::udp4(bytes(payload))
        };
        (packet, size)
    })
}

/// What a host writes of a datagram that is to be fragmented: the header, and the sum of the
/// pseudo-header in the place of the checksum.
fn to_write(frame: &[u8], size: usize) -> (Vec<u8>, Vec<u8>) {
    let mut frame = frame.to_vec();
    let headers = Headers::parse(&frame).expect("a frame");
    let at = headers.payload - 8;
    let sum = headers.pseudo_header(&frame, UDP, frame.len() - at).expect("a sum");
    frame[at + 6..at + 8].copy_from_slice(&sum.folded().to_be_bytes());
    let header = VnetHeader {
        gso: Some(Gso { kind: GsoKind::Udp, ecn: false }),
        header_length: headers.payload as u16,
        segment_size: size as u16,
        checksum: Some(Checksum { start: at as u16, offset: 6 }),
        ..VnetHeader::default()
    };
    (header.emit()[..VNET_HEADER_BYTES].to_vec(), frame)
}

fn compare_with_software_offload(v6: bool) {
    let bridge = Bridge::new(MOST_FRAGMENTS);
    let tally = RefCell::new(Tally::default());
    try_cases(CASES, &datagram(v6), |(packet, size)| {
        let frame = packet.frame();
        let (header, written) = to_write(&frame, size);
        let theirs = bridge.cut(&header, &written).expect("the kernel takes it");
        let ours = ours(&frame, size, identification(&theirs));
        compare(&ours, &theirs, nothing_differs)?;
        count(&tally, packet.payload.len() + 8, size, ours.len());
        tally.borrow_mut().count([
            ("with a tag", !packet.tags.is_empty()),
            ("with DF", !v6 && packet.fragment != 0),
        ]);
        Ok(())
    });
    tally.borrow().expect("with a tag", 200);
    tally.borrow().expect("with DF", if v6 { 0 } else { 300 });
    end(tally);
}

#[test]
fn ipv4_is_fragmented_as_software_offload_does_it() {
    in_a_host("ipv4_is_fragmented_as_software_offload_does_it", || {
        compare_with_software_offload(false);
    });
}

#[test]
fn ipv6_is_fragmented_as_software_offload_does_it() {
    in_a_host("ipv6_is_fragmented_as_software_offload_does_it", || {
        compare_with_software_offload(true);
    });
}

/// IPv4 options that a router takes as they are, as many as fit.
fn options() -> impl Strategy<Value = Vec<u8>> {
    let body = prop::collection::vec(any::<u8>(), 0..8);
    let option = prop_oneof![
        2 => Just(vec![1]),
        // for experiments (RFC 4727) and some that nobody knows, copied and not
        4 => (prop_oneof![Just(30), Just(94), Just(158), Just(222), Just(25), Just(151)], body)
            .prop_map(|(kind, body)| [vec![kind, 2 + body.len() as u8], body].concat()),
        1 => Just(vec![148, 4, 0, 0]),
        // a record of the route with no room left
        1 => Just(vec![7, 7, 8, 10, 0, 0, 1]),
    ];
    prop::collection::vec(option, 0..5).prop_map(|options| {
        let mut all = Vec::new();
        for option in options {
            // each but no-operation once
            let again = option[0] != 1 && all.iter().any(|other: &Vec<u8>| other[0] == option[0]);
            if !again && all.iter().map(Vec::len).sum::<usize>() + option.len() <= 40 {
                all.push(option);
            }
        }
        let mut all = all.concat();
        all.resize(all.len().next_multiple_of(4), 0);
        all
    })
}

/// A router between two TAPs, with somebody behind the one that frames leave by.
struct Router {
    entry: OwnedFd,
    exit: OwnedFd,
    netlink: RouteSocket,
}

impl Router {
    /// To 192.168.1.100 and fdaa::1, where [`Packet`] goes.
    fn new() -> Self {
        let tap = |name| tap_host::tap(name, MOST_FRAGMENTS);
        let (entry, exit) = (tap("entry"), tap("exit"));
        // IPv6 begins anew whenever an MTU becomes large enough for it, and would announce itself
        fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").expect("silence");
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("a router");
        let mut netlink = RouteSocket::open().expect("netlink");
        for name in ["entry", "exit"] {
            netlink.disable_ipv6(name).expect("silence");
            tap_host::up(name);
        }
        ip("link set entry address aa:00:00:00:00:01");
        ip("address add 192.168.2.1/24 dev entry");
        ip("address add 192.168.1.1/24 dev exit");
        ip("neighbour add 192.168.1.100 lladdr aa:00:00:00:00:09 dev exit");
        ip("route add 192.168.1.200/32 dev entry");
        Self { entry, exit, netlink }
    }

    fn forward(&mut self, frame: &[u8], mtu: u32) -> Vec<Vec<u8>> {
        self.netlink.set_mtu("exit", mtu).expect("an MTU");
        tap_host::write_plain(&self.entry, frame).expect("written");
        tap_host::read_all(&self.exit)
    }
}

#[test]
fn ipv4_with_options_is_fragmented_as_a_router_does_it() {
    in_a_host("ipv4_with_options_is_fragmented_as_a_router_does_it", || {
        let router = RefCell::new(Router::new());
        let tally = RefCell::new(Tally::default());
        let mtu = prop_oneof![68usize..100, 576usize..1500, Just(1500), 1500usize..9001];
        let sizes = (mtu, options()).prop_flat_map(|(mtu, options)| {
            let size = mtu - 20 - options.len();
            (Just(options), Just(size), payload_bytes(size / 8 * 8))
        });
        let ip = (any::<u8>(), 2u8.., any::<u16>());
        try_cases(CASES, &(sizes, ip, any::<(u16, u16)>()), |(sizes, ip, ports)| {
            let ((ip_options, size, payload), (tos, ttl, number)) = (sizes, ip);
            let mtu = size + 20 + ip_options.len();
            let packet = Packet {
                tos,
                ttl,
                identification: number,
                fragment: 0,
                ip_options,
                ports,
                ..Packet::udp4(bytes(payload))
            };
            let theirs = router.borrow_mut().forward(&packet.frame(), mtu as u32);
            prop_assert!(!theirs.is_empty(), "not forwarded");
            let mut forwarded = Packet { ttl: ttl - 1, ..packet.clone() }.frame();
            forwarded[..12].copy_from_slice(&theirs[0][..12]);
            let ours = ours(&forwarded, size, 0);
            compare(&ours, &theirs, nothing_differs)?;
            count(&tally, payload + 8, size / 8 * 8, ours.len());
            tally.borrow_mut().count([
                ("with options for all", packet.ip_options.iter().any(|kind| kind & 0x80 != 0)),
                ("with options", !packet.ip_options.is_empty()),
            ]);
            Ok(())
        });
        tally.borrow().expect("with options", 600);
        tally.borrow().expect("with options for all", 400);
        end(tally);
    });
}

/// Sends on a socket, whole and in fragments, and compares these with what UFO makes of the whole.
fn compare_with_a_socket(local: &str, remote: &str, headers: usize, lowest_mtu: usize) {
    let remote: SocketAddr = remote.parse().expect("an address");
    let exit = tap_host::tap("exit", MOST_FRAGMENTS);
    tap_host::up("exit");
    // nobody else is there whom an address could collide with
    let nodad = if remote.is_ipv6() { " nodad" } else { "" };
    ip(&format!("address add {local} dev exit{nodad}"));
    ip(&format!("neighbour add {} lladdr aa:00:00:00:00:09 dev exit", remote.ip()));
    let any: SocketAddr =
        if remote.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" }.parse().expect("any");
    let socket = UdpSocket::bind(any).expect("a socket");
    let netlink = RefCell::new(RouteSocket::open().expect("netlink"));
    let ports = remote.port().to_be_bytes();
    // the host's own news about itself are not what was sent
    let was_sent = |frame: &Vec<u8>| {
        let headers = Headers::parse(frame).expect("a frame");
        match headers.transport {
            Transport::Udp { at } => frame[at + 2..at + 4] == ports,
            transport => transport == Transport::Fragment,
        }
    };
    // while another CPU is sending such news, it sends what comes then, too, a moment later
    let read = || {
        let (began, mut frames) = (Instant::now(), Vec::new());
        loop {
            frames.extend(tap_host::read_all(&exit).into_iter().filter(was_sent));
            if frames.last().is_some_and(|frame| is_last(frame)) || began.elapsed() > PATIENCE {
                return frames;
            }
            std::thread::yield_now();
        }
    };
    let sent = |mtu: usize, payload: &[u8]| {
        netlink.borrow_mut().set_mtu("exit", mtu as u32).expect("an MTU");
        assert_eq!(socket.send_to(payload, remote).expect("sent"), payload.len());
        read()
    };
    let tally = RefCell::new(Tally::default());
    let mtu = prop_oneof![lowest_mtu..1500, Just(1500), 1500usize..9001];
    let cases = mtu.prop_flat_map(|mtu| (Just(mtu), payload_bytes((mtu - headers) / 8 * 8)));
    try_cases(CASES, &cases, |(mtu, payload)| {
        let payload = bytes(payload);
        let [whole] = &mut sent(LARGEST_MTU as usize, &payload)[..] else {
            return Err(TestCaseError::fail("it is not sent whole"));
        };
        let theirs = sent(mtu, &payload);
        prop_assert!(!theirs.is_empty());
        // a number of its own, as every packet has
        if remote.is_ipv4() {
            whole[18..20].copy_from_slice(&theirs[0][18..20]);
            let parsed = Headers::parse(whole).expect("a frame");
            whole[24..26].fill(0);
            let sum = packets::internet(&whole[14..34]).to_be_bytes();
            whole[24..26].copy_from_slice(&sum);
            prop_assert_eq!(parsed.payload, 42);
        }
        // IPv6 fragments have a header more than the whole has
        let whole_fits = whole.len() - 14 <= mtu;
        let size = if whole_fits { mtu - headers + 8 } else { mtu - headers };
        let ours = ours(whole, size, identification(&theirs));
        compare(&ours, &theirs, nothing_differs)?;
        count(&tally, payload.len() + 8, size / 8 * 8, ours.len());
        Ok(())
    });
    end(tally);
}

#[test]
fn ipv4_is_fragmented_as_a_socket_sends_it() {
    in_a_host("ipv4_is_fragmented_as_a_socket_sends_it", || {
        compare_with_a_socket("192.168.1.1/24", "192.168.1.100:9", 20, 576);
    });
}

#[test]
fn ipv6_is_fragmented_as_a_socket_sends_it() {
    in_a_host("ipv6_is_fragmented_as_a_socket_sends_it", || {
        compare_with_a_socket("fdaa::2/64", "[fdaa::1]:9", 48, 1280);
    });
}
