//! What a router tells the sender of a packet by ICMP (RFC 792, RFC 4443): why it did not pass the packet on, and that
//! it is there.

use std::net::IpAddr;

use crate::checksum::Sum;
use crate::frame::{
    Cast, Headers, ICMP, ICMPV6, IpEnds, MacAddress, Network, Route, Transport, ipv4, ipv6,
};

/// Hops of messages, as of ordinary packets.
const HOPS: u8 = 64;
/// Internetwork control (RFC 1812, 4.3.2.5).
const CLASS: u8 = 6 << 5;
/// Octets of a message before the packet that it quotes.
const HEADER: usize = 8;
/// Octets of the longest error, IP header included (RFC 1812, 4.3.2.3; RFC 4443, 2.4).
const LONGEST_V4: usize = 576;
const LONGEST_V6: usize = 1280;
/// An echo request, and its reply, of both versions.
const ECHO_V4: (u8, u8) = (8, 0);
const ECHO_V6: (u8, u8) = (128, 129);

/// Why a packet is not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Problem {
    /// It had no hop left.
    HopsExceeded,
    /// No network of the router has its destination.
    NoRoute,
}

impl Problem {
    /// Type and code.
    const fn numbers(self, is_v4: bool) -> [u8; 2] {
        match (self, is_v4) {
            (Self::HopsExceeded, true) => [11, 0],
            (Self::HopsExceeded, false) => [3, 0],
            (Self::NoRoute, true) => [3, 0],
            (Self::NoRoute, false) => [1, 0],
        }
    }
}

/// The packet of a frame, as far as its sender may be told something.
struct Packet<'a> {
    frame: &'a [u8],
    headers: &'a Headers,
    ends: IpEnds,
    /// The station that sent the frame.
    sender: MacAddress,
}

impl<'a> Packet<'a> {
    /// `None` for a frame without one, and with a tag, which the way back would need.
    fn of(frame: &'a [u8], headers: &'a Headers) -> Option<Self> {
        let ends = headers.ip_ends(frame)?;
        let sender = MacAddress(*frame.get(6..)?.first_chunk()?);
        (headers.link.tags == 0 && headers.end <= frame.len()).then_some(Self {
            frame,
            headers,
            ends,
            sender,
        })
    }

    /// The ICMP message that it is.
    fn message(&self) -> Option<&'a [u8]> {
        let icmp = if matches!(self.ends, IpEnds::V4 { .. }) { ICMP } else { ICMPV6 };
        let is_one = self.headers.protocol(self.frame) == Some(icmp);
        (is_one && self.headers.transport == Transport::Other)
            .then(|| &self.frame[self.headers.payload..self.headers.end])
    }

    /// Whether nobody may be told what happened to it (RFC 1812, 4.3.2.7; RFC 4443, 2.4 e): it is an error itself, a
    /// later fragment, for a group, or from none.
    fn is_silent(&self) -> bool {
        let is_error = |message: &[u8]| match self.ends {
            IpEnds::V4 { .. } => matches!(message.first(), Some(3..=5 | 11 | 12)),
            IpEnds::V6 { .. } => message.first().is_none_or(|kind| *kind < 128),
        };
        let is_group = match (self.ends.source(), self.ends.destination()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                from.is_multicast() || from.is_broadcast() || to.is_multicast() || to.is_broadcast()
            }
            (from, to) => from.is_multicast() || to.is_multicast(),
        };
        let is_later = match self.headers.network {
            Network::V4(ip) => ipv4::fragment_offset(self.frame, ip.at) != 0,
            Network::V6(_) | Network::Other => false,
        };
        self.message().is_some_and(is_error)
            || is_later
            || is_group
            || self.ends.source().is_unspecified()
            || self.sender.cast() != Cast::Unicast
    }
}

/// The frame that tells the sender of a packet why it was not passed on, from the router's address `own` on the side
/// that it came by; `None` where nobody may be told.
#[must_use]
pub fn error(
    problem: Problem,
    (frame, headers): (&[u8], &Headers),
    own: (MacAddress, IpAddr),
) -> Option<Vec<u8>> {
    let packet = Packet::of(frame, headers).filter(|packet| !packet.is_silent())?;
    let ip = IpEnds::new(own.1, packet.ends.source())?;
    let is_v4 = matches!(ip, IpEnds::V4 { .. });
    let room = if is_v4 { LONGEST_V4 - ipv4::HEADER } else { LONGEST_V6 - ipv6::HEADER } - HEADER;
    let quoted = &frame[headers.link.length..headers.end];
    let [kind, code] = problem.numbers(is_v4);
    let message = [&[kind, code, 0, 0, 0, 0, 0, 0], &quoted[..quoted.len().min(room)]].concat();
    let route = Route { source: own.0, destination: packet.sender, ip, hops: HOPS, class: CLASS };
    route.icmp(&message)
}

/// The answer to an echo request for the station that has the Ethernet address `hardware`; `None` for another packet,
/// and one with a wrong checksum.
#[must_use]
pub fn echo_reply((frame, headers): (&[u8], &Headers), hardware: MacAddress) -> Option<Vec<u8>> {
    let packet = Packet::of(frame, headers)?;
    let message = packet.message()?;
    let (sum, (request, reply)) = match packet.ends {
        IpEnds::V4 { .. } => (Sum::ZERO, ECHO_V4),
        IpEnds::V6 { .. } => (headers.pseudo_header(frame, ICMPV6, message.len())?, ECHO_V6),
    };
    let is_right = headers.network_checksum_verifies(frame) && sum.and(message).verifies();
    let rest = message.strip_prefix(&[request, 0]).filter(|_| is_right)?;
    let (destination, ip) = (packet.sender, packet.ends.reversed());
    let route = Route { source: hardware, destination, ip, hops: HOPS, class: 0 };
    route.icmp(&[&[reply, 0], rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
    const HOST: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

    /// A host, a router, and a station beyond, in both versions.
    fn addresses() -> [[IpAddr; 3]; 2] {
        [["198.18.0.1", "198.18.0.254", "198.19.255.2"], ["2001:2::1", "2001:2::fe", "2001:2::2"]]
            .map(|three| three.map(|address| address.parse().unwrap()))
    }

    fn route(from: IpAddr, to: IpAddr) -> Route {
        let ip = IpEnds::new(from, to).unwrap();
        Route { source: HOST, destination: OWN, ip, hops: 1, class: 0 }
    }

    fn told(frame: &[u8], problem: Problem, own: IpAddr) -> Option<Vec<u8>> {
        let headers = Headers::parse(frame).unwrap();
        error(problem, (frame, &headers), (OWN, own))
    }

    #[test]
    fn an_error_quotes_the_packet_and_goes_back_to_its_sender() {
        for ([host, own, beyond], numbers) in addresses().into_iter().zip([[11, 0], [3, 0]]) {
            for length in [8, 3000] {
                let sent = route(host, beyond).udp(7, 9, &vec![5; length]).unwrap();
                let error = told(&sent, Problem::HopsExceeded, own).unwrap();
                let headers = Headers::parse(&error).unwrap();
                let ends = IpEnds::new(own, host);
                assert_eq!(
                    (headers.ip_ends(&error), &error[..12]),
                    (ends, &[HOST.0, OWN.0].concat()[..])
                );
                let message = &error[headers.payload..headers.end];
                assert_eq!(message[..2], numbers);
                let quoted = &message[8..];
                assert!(sent[14..].starts_with(quoted));
                let (header, longest) = match host.is_ipv4() {
                    true => (ipv4::HEADER, LONGEST_V4),
                    false => (ipv6::HEADER, LONGEST_V6),
                };
                let whole = header + HEADER + sent.len() - 14;
                assert_eq!(error.len(), 14 + whole.min(longest));
                assert!(headers.network_checksum_verifies(&error));
                let sum = match host.is_ipv4() {
                    true => Sum::ZERO,
                    false => headers.pseudo_header(&error, ICMPV6, message.len()).unwrap(),
                };
                assert!(sum.and(message).verifies());
                // nobody is told of an error
                assert_eq!(told(&error, Problem::NoRoute, own), None);
            }
            let numbers = if host.is_ipv4() { [3, 0] } else { [1, 0] };
            let sent = route(host, beyond).udp(7, 9, b"lost").unwrap();
            let error = told(&sent, Problem::NoRoute, own).unwrap();
            let at = Headers::parse(&error).unwrap().payload;
            assert_eq!(error[at..at + 2], numbers);
        }
        let [[host, own, beyond], _] = addresses();
        let to_group = route(host, "224.0.0.1".parse().unwrap()).udp(7, 9, b"").unwrap();
        let from_none = route("0.0.0.0".parse().unwrap(), beyond).udp(7, 9, b"").unwrap();
        let mut later = route(host, beyond).udp(7, 9, b"").unwrap();
        later[21] = 9;
        for silent in [to_group, from_none, later] {
            assert_eq!(told(&silent, Problem::HopsExceeded, own), None, "{silent:?}");
        }
    }

    #[test]
    fn echo_requests_are_answered_and_nothing_else() {
        for ([host, own, _], kinds) in addresses().into_iter().zip([[8, 0], [128, 129]]) {
            let request = route(host, own).icmp(&[kinds[0], 0, 0, 0, 1, 2, 3, 4, 5]).unwrap();
            let of = |frame: &[u8]| echo_reply((frame, &Headers::parse(frame).unwrap()), OWN);
            let reply = of(&request).unwrap();
            let expected = Route { source: OWN, destination: HOST, hops: HOPS, ..route(own, host) };
            assert_eq!(Some(&reply), expected.icmp(&[kinds[1], 0, 0, 0, 1, 2, 3, 4, 5]).as_ref());
            assert_eq!(of(&reply), None, "a reply is none to answer");
            let mut wrong = request.clone();
            *wrong.last_mut().unwrap() ^= 1;
            assert_eq!(of(&wrong), None);
            assert_eq!(of(&route(host, own).udp(7, 9, b"").unwrap()), None);
        }
    }
}
