//! A router between two networks: frames change their Ethernet addresses and lose a hop, and stations
//! are found by ARP. It takes no time beside that of its links.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use linkrate_model::topology::Gateways;
use linkrate_wire::control::arp::{self, Arp, Station};
use linkrate_wire::control::{Control, frame};
use linkrate_wire::frame::hop::{final_destination, hop};
use linkrate_wire::frame::link::destination;
use linkrate_wire::frame::{Headers, MacAddress};
use linkrate_wire::lro::Parts;

use crate::frame::WireFrame;

/// Frames that wait for one station's address, at most.
pub const WAITING: usize = 64;
/// Stations that the router asks for or knows, at most.
const STATIONS: usize = 1024;
/// The time between two requests for one station (RFC 1122, 2.3.2.1).
const TIMEOUT_PS: u64 = 1_000_000_000_000;

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
}

impl Router {
    #[must_use]
    pub fn new(gateways: Gateways) -> Self {
        let side = |number: usize| Station {
            hardware: MacAddress(Gateways::MACS[number]),
            ip: gateways.addresses[number],
        };
        let neighbours = HashMap::new();
        Self { sides: [side(0), side(1)], prefix: gateways.prefix_length, neighbours }
    }

    /// Takes a frame that came in by `side`. Appends those that it sends.
    pub fn take(&mut self, side: usize, frame: WireFrame, at_ps: u64, out: &mut Vec<Sent>) {
        let own = self.sides[side].hardware;
        let Some(to) = destination(frame.head()) else { return };
        if to == own
            && let Some(address) = final_destination(frame.head())
        {
            self.forward(address, frame, at_ps, out);
        } else if to == own || to == MacAddress::BROADCAST {
            self.resolve(side, &frame, out);
        }
    }

    /// The side with the network of an address.
    fn side_of(&self, address: Ipv4Addr) -> Option<usize> {
        let network = |of: Ipv4Addr| of.to_bits() >> (32 - u32::from(self.prefix.clamp(1, 32)));
        (0..2).find(|side| network(self.sides[*side].ip) == network(address))
    }

    /// Forwards a frame, or keeps it and asks for its station.
    fn forward(&mut self, address: Ipv4Addr, frame: WireFrame, at_ps: u64, out: &mut Vec<Sent>) {
        let Some(side) = self.side_of(address).filter(|side| self.sides[*side].ip != address)
        else {
            return;
        };
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
        // the last hop
        assert_eq!(taken(&mut router, 1, packet(1), TIMEOUT_PS + 9), []);
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
