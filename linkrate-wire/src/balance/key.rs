//! The entry of a frame.

use linkrate_model::Balance;

use super::ENTRIES;
use crate::frame::link::Addresses;
use crate::frame::{Headers, Transport, ipv4, ipv6};
use crate::link::ethernet;
use crate::toeplitz::{MICROSOFT_KEY, Toeplitz};

/// What the entry of a frame comes from.
#[derive(Debug, Clone)]
pub(super) enum Key {
    /// The low bytes of both Ethernet addresses.
    Mac,
    Ip(Toeplitz),
    /// The hash of IP addresses and ports.
    Port(Toeplitz),
    Queue,
}

impl Key {
    pub(super) fn new(balance: Balance) -> Self {
        let toeplitz = || Toeplitz::new(&MICROSOFT_KEY);
        match balance {
            Balance::Mac | Balance::RoundRobin => Self::Mac,
            Balance::Ip => Self::Ip(toeplitz()),
            Balance::Port | Balance::Adaptive => Self::Port(toeplitz()),
            Balance::Cpu => Self::Queue,
        }
    }

    /// The entry of a frame. One whose headers contradict each other goes by its Ethernet address.
    #[inline]
    pub(super) fn entry(&self, head: &[u8], length: usize, queue: u16) -> u8 {
        let hash = match self {
            Self::Queue => return low(queue),
            Self::Mac => None,
            Self::Ip(toeplitz) => {
                headers(head, length).and_then(|headers| toeplitz.hash_addresses(head, &headers))
            }
            Self::Port(toeplitz) => headers(head, length)
                .filter(|headers| headers.transport != Transport::Other)
                .and_then(|headers| toeplitz.hash_frame(head, &headers)),
        };
        match hash {
            Some(hash) => mixed(hash).to_be_bytes()[0],
            // A host sends by its own address alone, so that this is the low byte of the destination
            // with another number: LB_MAC. A switch tells the stations that send to one host apart.
            None => Addresses::of(head)
                .map_or(0, |Addresses { destination, source, .. }| destination.0[5] ^ source.0[5]),
        }
    }
}

/// Octets of an Ethernet header without tags.
const ETHERNET: usize = ethernet::HEADER as usize;

/// Octets of the longest headers of IPv4 and TCP together; IPv6 with a few extensions is shorter.
const MAX_HEADERS: usize = 60 + 60;

/// Tells flows apart by the hash of their IP addresses and ports.
#[derive(Debug, Clone)]
pub struct FlowHash(Toeplitz);

impl FlowHash {
    /// The numbers that flows have.
    pub const FLOWS: usize = 1024;

    /// The number of the flow of a frame of `length` bytes, which begins with `head`, in which all
    /// its headers are. Bytes that are no frame with an IP packet may be such a packet itself, as an
    /// interface without Ethernet has it. All others are of flow 0.
    #[inline]
    #[must_use]
    pub fn flow(&self, head: &[u8], length: usize) -> usize {
        let hash = self.of_frame(head, length).or_else(|| self.of_packet(head, length));
        hash.map_or(0, |hash| mixed(hash) as usize / ((1 << 32) / Self::FLOWS))
    }

    fn of_frame(&self, head: &[u8], length: usize) -> Option<u32> {
        headers(head, length).and_then(|headers| self.0.hash_frame(head, &headers))
    }

    /// The hash of an IP packet, which gets an Ethernet header for it.
    fn of_packet(&self, head: &[u8], length: usize) -> Option<u32> {
        let ethertype = match head.first()? >> 4 {
            4 => ipv4::ETHER_TYPE,
            6 => ipv6::ETHER_TYPE,
            _ => return None,
        };
        let mut frame = [0; ETHERNET + MAX_HEADERS];
        frame[ETHERNET - 2..ETHERNET].copy_from_slice(&ethertype.to_be_bytes());
        let copied = head.len().min(MAX_HEADERS);
        frame[ETHERNET..][..copied].copy_from_slice(&head[..copied]);
        self.of_frame(&frame[..ETHERNET + copied], ETHERNET + length)
    }
}

impl Default for FlowHash {
    fn default() -> Self {
        Self(Toeplitz::new(&MICROSOFT_KEY))
    }
}

#[inline]
fn headers(head: &[u8], length: usize) -> Option<Headers> {
    Headers::parse_parts(head, length.saturating_sub(head.len())).ok()
}

/// The entry of a Toeplitz hash, which is linear: few of its bits alone would give flows with
/// addresses and ports in sequence few entries. Receive-side scaling takes its lower bits: with them
/// as the entry, the frames of a port would all be for the same queues of the peer.
fn mixed(hash: u32) -> u32 {
    // the golden ratio (Knuth, The Art of Computer Programming 3, 6.4)
    hash.wrapping_mul(0x9e37_79b1)
}

/// The entry of a queue.
fn low(queue: u16) -> u8 {
    const { assert!(ENTRIES == 1 << u8::BITS) };
    queue.to_be_bytes()[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet of TCP between these ports.
    fn packet(from: u8, to: u8) -> Vec<u8> {
        let mut packet = vec![0; 60];
        packet[0] = 0x45;
        packet[3] = 60;
        packet[9] = 6;
        packet[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
        packet[20..24].copy_from_slice(&[0x80, from, 0x13, to]);
        packet[32] = 0x50;
        packet
    }

    #[test]
    fn a_packet_without_ethernet_is_of_the_same_flow() {
        let hash = FlowHash::default();
        for port in 0..50 {
            let packet = packet(port, 7);
            let mut frame = vec![2; 12];
            frame.extend([0x08, 0x00]);
            frame.extend(&packet);
            let flow = hash.flow(&frame, frame.len());
            assert!(flow < FlowHash::FLOWS);
            assert_eq!(hash.flow(&packet, packet.len()), flow);
            // all but the headers may lie elsewhere
            assert_eq!(hash.flow(&frame[..54], frame.len()), flow);
        }
    }

    #[test]
    fn flows_in_sequence_are_distinguished() {
        let hash = FlowHash::default();
        let flows: std::collections::BTreeSet<usize> =
            (0..64).map(|port| hash.flow(&packet(port, 0), 60)).collect();
        assert!(flows.len() >= 58, "{}", flows.len());
    }

    #[test]
    fn other_bytes_are_of_flow_0() {
        let hash = FlowHash::default();
        for bytes in [&[][..], &[0x45; 10], &[0xff; 60], &[0; 60]] {
            assert_eq!(hash.flow(bytes, bytes.len()), 0, "{bytes:?}");
        }
    }
}
