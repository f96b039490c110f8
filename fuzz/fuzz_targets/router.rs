//! Whatever frames come to a router, and whenever, it sends few of them at once: from its own address, with
//! one hop less, and with a checksum that is as right as before.

#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::fuzz_target;
use linkrate_adapter::fabric::router::{Router, WAITING};
use linkrate_adapter::frame::WireFrame;
use linkrate_model::topology::Gateways;
use linkrate_wire::control::arp::{self, Arp, Station};
use linkrate_wire::control::frame;
use linkrate_wire::frame::hop::final_destination;
use linkrate_wire::frame::link::Addresses;
use linkrate_wire::frame::{Headers, IpEnds, MacAddress, Route};

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 254), Ipv4Addr::new(198, 19, 255, 254)];

/// The station with that last byte on a side.
fn station(side: usize, last: u8) -> Station {
    let [a, b, c, _] = ADDRESSES[side].octets();
    let hardware = MacAddress([2, 0, 0, 0, side as u8, last]);
    Station { hardware, ip: Ipv4Addr::new(a, b, c, last) }
}

/// A packet from a station to one on the other side, with that many hops to go.
fn packet(side: usize, from: u8, to: u8, hops: u8) -> Option<Vec<u8>> {
    let (source, target) = (station(side, from), station(1 - side, to));
    let ip = IpEnds::new(source.ip.into(), target.ip.into())?;
    let destination = MacAddress(Gateways::MACS[side]);
    let route = Route { source: source.hardware, destination, ip, hops, class: 0 };
    route.udp(7, 9, b"payload")
}

/// An ARP message of a station: a request for the router's address, or an answer to it.
fn resolution(side: usize, from: u8, asks: bool) -> Vec<u8> {
    let own = station(side, from);
    let router = Station { hardware: MacAddress(Gateways::MACS[side]), ip: ADDRESSES[side] };
    let (to, message) = match (asks, Arp::request(router, own.ip).answer(own.hardware)) {
        (false, Some(answer)) => (router.hardware, answer),
        _ => (MacAddress::BROADCAST, Arp::request(own, router.ip)),
    };
    frame(to, own.hardware, arp::ETHER_TYPE, &message.emit())
}

fuzz_target!(|bytes: &[u8]| {
    let mut router = Router::new(Gateways { addresses: ADDRESSES, prefix_length: 24 });
    let (mut at_ps, mut taken, mut forwarded) = (0_u64, 0, 0);
    // no frame was made of foreign bytes so far
    let mut sound = true;
    let mut out = Vec::new();
    let mut rest = bytes;
    // what comes, by which side, from whom, to whom, and the time that passes before
    while let Some(([kind, from, to, pass], after)) = rest.split_first_chunk() {
        rest = after;
        at_ps += u64::from(*pass) * 20_000_000_000;
        let (side, variant) = (usize::from(kind & 1), kind >> 3);
        let bytes = match kind >> 1 & 3 {
            0 => packet(side, *from, *to, variant),
            1 => Some(resolution(side, *from, variant & 1 == 1)),
            _ => {
                sound = false;
                let (raw, after) = rest.split_at(usize::from(*to).min(rest.len()));
                rest = after;
                // the beginning of a frame, and foreign bytes behind it
                let mut whole = match variant & 1 {
                    0 => packet(side, *from, 2, 9).unwrap_or_default(),
                    _ => resolution(side, *from, true),
                };
                whole.truncate(usize::from(*from));
                whole.extend_from_slice(raw);
                Some(whole)
            }
        };
        let Some(bytes) = bytes else { continue };
        taken += 1;
        router.take(side, WireFrame::copied(bytes), at_ps, &mut out);
        assert!(out.len() <= WAITING + 1, "{} frames of one", out.len());
        for (side, frame) in out.drain(..) {
            let bytes = frame.to_vec();
            let addresses = Addresses::of(&bytes).expect("addresses");
            assert_eq!(addresses.source.0, Gateways::MACS[side], "the router's own address");
            let Some(IpAddr::V4(to)) = final_destination(&bytes) else { continue };
            forwarded += 1;
            let headers = Headers::parse(&bytes).ok();
            let ends = headers.and_then(|headers| headers.ip_ends(&bytes));
            if ends.is_some_and(|ends| ADDRESSES.map(IpAddr::V4).contains(&ends.source())) {
                // the router's own message, to whoever sent
                continue;
            }
            assert_eq!(to.octets()[..3], ADDRESSES[side].octets()[..3], "the network of its side");
            if sound {
                let headers = Headers::parse(&bytes).expect("the headers of a packet");
                assert!(headers.network_checksum_verifies(&bytes));
            }
        }
    }
    assert!(forwarded <= taken, "{forwarded} of {taken} packets");
});
