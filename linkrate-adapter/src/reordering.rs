//! The order of TCP frames on the wire, watched where they arrive at a device.
//!
//! Linux gives the packets of a TCP connection identifications in sequence, those that are sent again
//! included (`ip_select_ident_segs`, include/net/ip.h), and so does segmentation. A frame whose
//! identification is lower than one that has arrived was overtaken. A frame that was lost was not.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use linkrate_wire::frame::link::Addresses;
use linkrate_wire::frame::{Headers, MacAddress, Network, Transport};
use linkrate_wire::lro::{Parts, Row};

use crate::frame::Burst;

/// Most connections that are watched. Those beyond are not.
pub(crate) const MAX_CONNECTIONS: usize = 1 << 14;

/// How many frames were overtaken. Frames are watched as long as a copy of it exists.
#[derive(Debug, Clone, Default)]
pub struct ReorderingCount {
    late: Arc<AtomicU64>,
}

impl ReorderingCount {
    /// Frames that arrived after a later frame of their connection, so far.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }
}

/// One direction of a connection. Each host has one Ethernet address.
pub(crate) type Connection = (MacAddress, MacAddress, u16, u16);

/// Watches the frames that arrive at the devices of a segment.
#[derive(Debug)]
pub(crate) struct ReorderingWatch {
    /// The count of those who want to know.
    late: Weak<AtomicU64>,
    /// The highest identification of each connection, modulo 2^16.
    latest: HashMap<Connection, u16>,
}

impl ReorderingWatch {
    pub(crate) fn new(count: &ReorderingCount) -> Self {
        Self { late: Arc::downgrade(&count.late), latest: HashMap::new() }
    }

    /// Whether anybody still wants to know.
    pub(crate) fn is_wanted(&self) -> bool {
        self.late.strong_count() > 0
    }

    /// Looks at frames that arrived. The frames of a burst are in order.
    pub(crate) fn arrived(&mut self, burst: &Burst) {
        let Some((connection, first)) = identified(burst.head(), burst.tail().len()) else {
            return;
        };
        if self.latest.len() >= MAX_CONNECTIONS && !self.latest.contains_key(&connection) {
            return;
        }
        let count = u16::try_from(burst.frames()).unwrap_or(u16::MAX);
        let last = first.wrapping_add(count.saturating_sub(1));
        match self.latest.get_mut(&connection) {
            // half of all identifications are behind
            Some(latest) if is_before(first, *latest) => {
                if let Some(late) = self.late.upgrade() {
                    late.fetch_add(u64::from(count), Ordering::Relaxed);
                }
                if is_before(*latest, last) {
                    *latest = last;
                }
            }
            Some(latest) => *latest = last,
            None => drop(self.latest.insert(connection, last)),
        }
    }
}

fn is_before(one: u16, other: u16) -> bool {
    (one.wrapping_sub(other) as i16) < 0
}

/// The connection of a TCP frame over IPv4.
pub(crate) fn connection(head: &[u8], tail: usize) -> Option<Connection> {
    identified(head, tail).map(|(connection, _)| connection)
}

/// The connection and the identification of a TCP frame over IPv4.
fn identified(head: &[u8], tail: usize) -> Option<(Connection, u16)> {
    let headers = Headers::parse_parts(head, tail).ok()?;
    let Network::V4(ip) = headers.network else { return None };
    let Transport::Tcp { .. } = headers.transport else { return None };
    let (source_port, destination_port) = headers.ports(head)?;
    let Addresses { destination, source, .. } = Addresses::of(head)?;
    Some(((source, destination, source_port, destination_port), ip.identification))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifications_wrap() {
        assert!(is_before(7, 8) && !is_before(8, 8) && !is_before(9, 8));
        assert!(is_before(0xfff0, 4) && !is_before(4, 0xfff0));
    }

    #[test]
    fn a_watch_ends_with_the_last_copy_of_its_count() {
        let count = ReorderingCount::default();
        let copy = count.clone();
        let watch = ReorderingWatch::new(&count);
        drop(count);
        assert!(watch.is_wanted());
        drop(copy);
        assert!(!watch.is_wanted());
    }
}
