//! The entry of a frame.

use linkrate_terms::Balance;

use super::ENTRIES;
use crate::frame::link::Addresses;
use crate::frame::{Headers, Transport};
use crate::toeplitz::{MICROSOFT_KEY, Toeplitz};

/// What the entry of a frame comes from.
#[derive(Debug, Clone)]
pub(super) enum Key {
    /// The low bytes of both Ethernet addresses.
    Mac,
    /// The hash of the IP addresses.
    Ip(Toeplitz),
    /// The hash of IP addresses and ports.
    Port(Toeplitz),
    /// The queue.
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

/// Tells flows apart by the hash of their IP addresses and ports.
#[derive(Debug, Clone)]
pub struct FlowHash(Toeplitz);

impl FlowHash {
    /// The numbers that flows have.
    pub const FLOWS: usize = 1024;

    /// The number of the flow of a frame of `length` bytes, which begins with `head`, in which all
    /// its headers are. Frames without IP addresses are of flow 0.
    #[inline]
    #[must_use]
    pub fn flow(&self, head: &[u8], length: usize) -> usize {
        let hash = headers(head, length).and_then(|headers| self.0.hash_frame(head, &headers));
        hash.map_or(0, |hash| mixed(hash) as usize / ((1 << 32) / Self::FLOWS))
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
/// as the entry, the frames of a port would all be for the same queues of the far end.
fn mixed(hash: u32) -> u32 {
    // the golden ratio (Knuth, The Art of Computer Programming 3, 6.4)
    hash.wrapping_mul(0x9e37_79b1)
}

/// The entry of a queue.
fn low(queue: u16) -> u8 {
    const { assert!(ENTRIES == 1 << u8::BITS) };
    queue.to_be_bytes()[1]
}
