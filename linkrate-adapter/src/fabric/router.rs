//! A router between two networks: frames change their Ethernet addresses and lose a hop, and stations
//! are found by ARP. It takes no time beside that of its links.
//!
//! Over IPv6 it knows the addresses that linkrate chooses, each of which holds the IPv4 address of its station. Senders
//! are told by ICMP of hops that ended and of networks that are not there; the router answers echo requests. Stations
//! that do not answer are asked for again, without an error to the sender. It has no MTU of its own: those of both
//! networks are set together.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use linkrate_model::topology::{Gateways, ipv4_address, ipv6_address};
use linkrate_wire::control::arp::{self, Arp, Station};
use linkrate_wire::control::icmp::{self, Problem};
use linkrate_wire::control::{Control, frame};
use linkrate_wire::frame::hop::{final_destination, hop, hops};
use linkrate_wire::frame::link::destination;
use linkrate_wire::frame::{Headers, MacAddress, Network};
use linkrate_wire::lro::Parts;

use crate::frame::WireFrame;

/// Frames that wait for one station's address, at most.
pub const WAITING: usize = 64;
/// Stations that the router asks for or knows, at most.
const STATIONS: usize = 1024;
/// The time between two requests for one station (RFC 1122, 2.3.2.1).
const TIMEOUT_PS: u64 = 1_000_000_000_000;
/// Messages of ICMP that it sends in one interval, at most (RFC 1812, 4.3.2.8), and the interval.
const MESSAGES: u32 = 100;
const INTERVAL_PS: u64 = 100_000_000_000;

/// A station, as far as it is known.
#[derive(Debug)]
enum Neighbour {
    Known(MacAddress),
    Asked { at_ps: u64, waiting: Vec<WireFrame> },
}

/// A frame, and the side that it leaves by: 0 or 1.
pub type Sent = (usize, WireFrame);

#[derive(Debug)]
pub struct Router {
    sides: [Station; 2],
    prefix: u8,
    neighbours: HashMap<Ipv4Addr, Neighbour>,
    /// Messages of ICMP in the interval that began then.
    told: (u32, u64),
}

impl Router {
    #[must_use]
    pub fn new(gateways: Gateways) -> Self {
        let side = |number: usize| Station {
            hardware: MacAddress(Gateways::MACS[number]),
            ip: gateways.addresses[number],
        };
        let neighbours = HashMap::new();
        let (sides, prefix) = ([side(0), side(1)], gateways.prefix_length);
        Self { sides, prefix, neighbours, told: (0, 0) }
    }

    /// Takes a frame that came in by `side`. Appends those that it sends.
    pub fn take(&mut self, side: usize, frame: WireFrame, at_ps: u64, out: &mut Vec<Sent>) {
        let own = self.sides[side].hardware;
        let Some(to) = destination(frame.head()) else { return };
        if to == own
            && let Some(address) = final_destination(frame.head())
        {
            self.route(side, address, frame, at_ps, out);
        } else if to == own || to == MacAddress::BROADCAST {
            self.resolve(side, &frame, out);
        }
    }

    /// The side with the network of an address.
    fn side_of(&self, address: Ipv4Addr) -> Option<usize> {
        let network = |of: Ipv4Addr| of.to_bits() >> (32 - u32::from(self.prefix.clamp(1, 32)));
        (0..2).find(|side| network(self.sides[*side].ip) == network(address))
    }

    /// Forwards a frame that came by the side `from`, or tells its sender why it does not.
    fn route(
        &mut self,
        from: usize,
        address: IpAddr,
        frame: WireFrame,
        at_ps: u64,
        out: &mut Vec<Sent>,
    ) {
        let address = match address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(address) => ipv4_address(address),
        };
        let way = address.and_then(|address| Some((address, self.side_of(address)?)));
        match way {
            None => self.tell(from, Some(Problem::NoRoute), &frame, at_ps, out),
            Some((address, side)) if self.sides[side].ip == address => {
                self.tell(from, None, &frame, at_ps, out);
            }
            Some(_) if hops(frame.head()).is_none_or(|left| left < 2) => {
                self.tell(from, Some(Problem::HopsExceeded), &frame, at_ps, out);
            }
            Some((address, side)) => self.forward(side, address, frame, at_ps, out),
        }
    }

    /// Tells the sender of a frame of a problem, or answers its echo request.
    fn tell(
        &mut self,
        from: usize,
        problem: Option<Problem>,
        frame: &WireFrame,
        at_ps: u64,
        out: &mut Vec<Sent>,
    ) {
        let (count, since_ps) = &mut self.told;
        if at_ps.saturating_sub(*since_ps) >= INTERVAL_PS {
            (*count, *since_ps) = (0, at_ps);
        }
        if *count >= MESSAGES {
            return;
        }
        let bytes = frame.to_vec();
        let Ok(headers) = Headers::parse(&bytes) else { return };
        let Station { hardware, ip } = self.sides[from];
        let message = match problem {
            Some(problem) => {
                let own = match headers.network {
                    Network::V6(_) => ipv6_address(ip).into(),
                    Network::V4(_) | Network::Other => ip.into(),
                };
                icmp::error(problem, (&bytes, &headers), (hardware, own))
            }
            None => icmp::echo_reply((&bytes, &headers), hardware),
        };
        if let Some(message) = message {
            *count += 1;
            out.push((from, WireFrame::copied(message)));
        }
    }

    /// Forwards a frame by a side, or keeps it and asks for its station.
    fn forward(
        &mut self,
        side: usize,
        address: Ipv4Addr,
        frame: WireFrame,
        at_ps: u64,
        out: &mut Vec<Sent>,
    ) {
        if self.neighbours.len() >= STATIONS && !self.neighbours.contains_key(&address) {
            return;
        }
        let source = self.sides[side];
        let fresh = || Neighbour::Asked { at_ps: 0, waiting: Vec::new() };
        match self.neighbours.entry(address).or_insert_with(fresh) {
            Neighbour::Known(mac) => out.extend(passed(&frame, source.hardware, *mac, side)),
            Neighbour::Asked { at_ps: asked_ps, waiting } => {
                let first = waiting.is_empty();
                if waiting.len() < WAITING {
                    waiting.push(frame);
                }
                if first || at_ps.saturating_sub(*asked_ps) > TIMEOUT_PS {
                    *asked_ps = at_ps;
                    let request = Arp::request(source, address);
                    out.push((side, message(MacAddress::BROADCAST, source.hardware, request)));
                }
            }
        }
    }

    /// Learns the sender of an ARP message, and answers a request for the router's own address.
    fn resolve(&mut self, side: usize, frame: &WireFrame, out: &mut Vec<Sent>) {
        let bytes = frame.to_vec();
        let Ok(headers) = Headers::parse(&bytes) else { return };
        let Ok(Some(Control::Arp(arp))) = Control::of(&bytes, &headers) else { return };
        let (own, sender) = (self.sides[side], arp.sender);
        let of_this_side = self.side_of(sender.ip) == Some(side) && sender.ip != own.ip;
        let room = self.neighbours.len() < STATIONS || self.neighbours.contains_key(&sender.ip);
        if of_this_side && room {
            let known = Neighbour::Known(sender.hardware);
            if let Some(Neighbour::Asked { waiting, .. }) = self.neighbours.insert(sender.ip, known)
            {
                let passed_on = |frame| passed(frame, own.hardware, sender.hardware, side);
                out.extend(waiting.iter().filter_map(passed_on));
            }
        }
        if let Some(answer) = arp.answer(own.hardware).filter(|_| arp.target.ip == own.ip) {
            out.push((side, message(sender.hardware, own.hardware, answer)));
        }
    }
}

/// The frame as it leaves towards a station; `None` where no hop is left.
fn passed(frame: &WireFrame, from: MacAddress, to: MacAddress, side: usize) -> Option<Sent> {
    Some((side, frame.with_head(hop(frame.head(), from, to)?)))
}

fn message(to: MacAddress, from: MacAddress, arp: Arp) -> WireFrame {
    WireFrame::copied(frame(to, from, arp::ETHER_TYPE, &arp.emit()))
}

#[cfg(test)]
mod tests {
    use linkrate_wire::frame::{IpEnds, Route};

    use super::*;

    const SUT: Station = station(1, [198, 18, 0, 1]);
    const CLIENT: Station = station(2, [198, 19, 255, 2]);

    const fn station(last: u8, [a, b, c, d]: [u8; 4]) -> Station {
        Station { hardware: MacAddress([2, 0, 0, 0, 0, last]), ip: Ipv4Addr::new(a, b, c, d) }
    }

    fn router() -> Router {
        let addresses = [Ipv4Addr::new(198, 18, 0, 254), Ipv4Addr::new(198, 19, 255, 254)];
        Router::new(Gateways { addresses, prefix_length: 24 })
    }

    fn packet(hops: u8) -> WireFrame {
        let ip = IpEnds::new(CLIENT.ip.into(), SUT.ip.into()).unwrap();
        let destination = MacAddress(Gateways::MACS[1]);
        let route = Route { source: CLIENT.hardware, destination, ip, hops, class: 0 };
        WireFrame::copied(route.udp(7, 9, b"payload").unwrap())
    }

    fn arp_of(frame: &[u8]) -> Arp {
        let headers = Headers::parse(frame).unwrap();
        let Ok(Some(Control::Arp(arp))) = Control::of(frame, &headers) else { panic!("{frame:?}") };
        arp
    }

    fn taken(
        router: &mut Router,
        side: usize,
        frame: WireFrame,
        at_ps: u64,
    ) -> Vec<(usize, Vec<u8>)> {
        let mut out = Vec::new();
        router.take(side, frame, at_ps, &mut out);
        out.into_iter().map(|(side, frame)| (side, frame.to_vec())).collect()
    }

    #[test]
    fn a_packet_waits_for_its_station_and_leaves_with_one_hop_less() {
        let mut router = router();
        let asked = taken(&mut router, 1, packet(64), 5);
        let [(0, request)] = &asked[..] else { panic!("{asked:?}") };
        let arp = arp_of(request);
        assert_eq!((arp.target.ip, arp.sender.ip), (SUT.ip, router.sides[0].ip));
        // no second request within a second
        assert_eq!(taken(&mut router, 1, packet(64), 6), []);
        assert_eq!(taken(&mut router, 1, packet(64), TIMEOUT_PS + 6).len(), 1);
        let reply = message(arp.sender.hardware, SUT.hardware, arp.answer(SUT.hardware).unwrap());
        let released = taken(&mut router, 0, reply, TIMEOUT_PS + 7);
        assert_eq!(released.len(), 3);
        let (side, frame) = &released[0];
        assert_eq!((*side, destination(frame)), (0, Some(SUT.hardware)));
        assert!(Headers::parse(frame).unwrap().network_checksum_verifies(frame));
        assert_eq!(taken(&mut router, 1, packet(64), TIMEOUT_PS + 8).len(), 1);
    }

    /// A packet of the client for an address, over the version of IP of that.
    fn to(address: IpAddr, hops: u8) -> WireFrame {
        let own = match address {
            IpAddr::V4(_) => CLIENT.ip.into(),
            IpAddr::V6(_) => ipv6_address(CLIENT.ip).into(),
        };
        let ip = IpEnds::new(own, address).unwrap();
        let destination = MacAddress(Gateways::MACS[1]);
        let route = Route { source: CLIENT.hardware, destination, ip, hops, class: 0 };
        WireFrame::copied(route.udp(7, 9, b"payload").unwrap())
    }

    #[test]
    fn it_forwards_ipv6_between_the_addresses_of_a_lab() {
        let mut router = router();
        let asked = taken(&mut router, 1, to(ipv6_address(SUT.ip).into(), 64), 5);
        let [(0, request)] = &asked[..] else { panic!("{asked:?}") };
        let arp = arp_of(request);
        let reply = message(arp.sender.hardware, SUT.hardware, arp.answer(SUT.hardware).unwrap());
        let released = taken(&mut router, 0, reply, 6);
        let [(0, frame)] = &released[..] else { panic!("{released:?}") };
        assert_eq!((hops(frame), destination(frame)), (Some(63), Some(SUT.hardware)));
    }

    /// RFC 1812, 5.3.1 and 5.2.7.1: what traceroute asks for.
    #[test]
    fn it_tells_the_sender_of_what_it_does_not_forward() {
        let mut router = router();
        let elsewhere = Ipv4Addr::new(192, 0, 2, 1);
        let own = Gateways::MACS[1];
        for v6 in [false, true] {
            let of = |address: Ipv4Addr| match v6 {
                true => IpAddr::from(ipv6_address(address)),
                false => address.into(),
            };
            for (packet, expected) in [
                (to(of(SUT.ip), 1), if v6 { [3, 0] } else { [11, 0] }),
                (to(of(elsewhere), 9), if v6 { [1, 0] } else { [3, 0] }),
            ] {
                let told = taken(&mut router, 1, packet, 1);
                let [(1, frame)] = &told[..] else { panic!("{told:?}") };
                let headers = Headers::parse(frame).unwrap();
                assert_eq!(frame[headers.payload..][..2], expected);
                assert_eq!(frame[..12], [CLIENT.hardware.0, own].concat());
                let ends = IpEnds::new(of(router.sides[1].ip), of(CLIENT.ip));
                assert_eq!(headers.ip_ends(frame), ends);
            }
        }
        // an echo of either of its addresses
        for address in router.sides.map(|side| side.ip) {
            let ip = IpEnds::new(CLIENT.ip.into(), address.into()).unwrap();
            let route = Route {
                source: CLIENT.hardware,
                destination: MacAddress(own),
                ip,
                hops: 1,
                class: 0,
            };
            let request = route.icmp(&[8, 0, 0, 0, 0, 1, 0, 1]).unwrap();
            let told = taken(&mut router, 1, WireFrame::copied(request), 2);
            let [(1, frame)] = &told[..] else { panic!("{told:?}") };
            assert_eq!(Headers::parse(frame).unwrap().ip_ends(frame), Some(ip.reversed()));
        }
        let told = (0..1000).flat_map(|_| taken(&mut router, 1, packet(1), 3)).count();
        assert_eq!(told + 6, MESSAGES as usize);
        assert_eq!(taken(&mut router, 1, packet(1), INTERVAL_PS + 3).len(), 1);
    }

    #[test]
    fn it_answers_for_itself_alone_and_takes_no_foreign_frame() {
        let mut router = router();
        let asks = |ip| message(MacAddress::BROADCAST, CLIENT.hardware, Arp::request(CLIENT, ip));
        let answer = taken(&mut router, 1, asks(Ipv4Addr::new(198, 19, 255, 254)), 0);
        let [(1, reply)] = &answer[..] else { panic!("{answer:?}") };
        assert_eq!(arp_of(reply).sender.hardware.0, Gateways::MACS[1]);
        assert_eq!(taken(&mut router, 1, asks(SUT.ip), 0), []);
        let mut foreign = packet(64).to_vec();
        foreign[5] ^= 1;
        assert_eq!(taken(&mut router, 1, WireFrame::copied(foreign), 0), []);
        // a station of the other network is not learnt here
        let stray = message(MacAddress::BROADCAST, SUT.hardware, Arp::request(SUT, CLIENT.ip));
        assert_eq!(taken(&mut router, 1, stray, 0), []);
        assert!(!router.neighbours.contains_key(&SUT.ip));
    }
}
