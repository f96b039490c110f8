//! Detects, from frames on the wire, when an aggregate's flows change port.
//!
//! A decision alone moves nothing: the driver must take it up, and a frame must get through. So the
//! devices look which port each TCP connection uses. The first frame of a connection on another port than
//! that of its frame before is the move.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use linkrate_wire::lro::Parts;

use crate::clock::DeviceClock;
use crate::frame::Burst;
use crate::reordering::{Connection, MAX_CONNECTIONS, connection};

/// No port, and no time.
const NO_PORT: usize = usize::MAX;
const NEVER: u64 = u64::MAX;

/// The way of a frame, as the system under test sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameDirection {
    Out,
    In,
}

/// The first frames that left a port for another one. Frames are watched as long as a copy of it exists.
#[derive(Debug, Clone, Default)]
pub struct FirstPathChanges(Arc<PathChanges>);

#[derive(Debug)]
struct PathChanges {
    /// The number of the port whose connections are looked at.
    from: AtomicUsize,
    /// By way: when the first of its connections had a frame on another port, CLOCK_MONOTONIC in ns.
    first_ns: [AtomicU64; 2],
}

impl Default for PathChanges {
    fn default() -> Self {
        let never = || AtomicU64::new(NEVER);
        Self { from: AtomicUsize::new(NO_PORT), first_ns: [never(), never()] }
    }
}

impl FirstPathChanges {
    /// Notes the first frames from now on that leave port number `from` of the aggregate.
    pub fn begin(&self, from: usize) {
        self.0.first_ns.iter().for_each(|first| first.store(NEVER, Ordering::Relaxed));
        self.0.from.store(from, Ordering::Release);
    }

    /// When the first frame of a connection of that port had passed another port: its last bit had left, or
    /// had come. CLOCK_MONOTONIC in ns; `None` if there was no such frame yet.
    #[must_use]
    pub fn first_ns(&self, direction: FrameDirection) -> Option<u64> {
        let first_ns = self.0.first_ns[direction as usize].load(Ordering::Relaxed);
        (first_ns != NEVER).then_some(first_ns)
    }
}

/// Watches the frames that pass the ports of an aggregate.
#[derive(Debug)]
pub(crate) struct PathChangeWatch {
    changes: Weak<PathChanges>,
    clock: DeviceClock,
    /// The ports of the fabric that the ports of the aggregate lead to, in their order.
    ports: Vec<usize>,
    /// The port of the last frame of each connection, by way.
    latest: [HashMap<Connection, usize>; 2],
}

impl PathChangeWatch {
    pub(crate) fn new(changes: &FirstPathChanges, ports: Vec<usize>, clock: DeviceClock) -> Self {
        Self { changes: Arc::downgrade(&changes.0), clock, ports, latest: Default::default() }
    }

    /// Whether anybody still wants to know.
    pub(crate) fn is_wanted(&self) -> bool {
        self.changes.strong_count() > 0
    }

    /// Looks at frames that passed port `port` of the fabric until `at_ps`. The frames of a burst are of
    /// one connection.
    pub(crate) fn passed(
        &mut self,
        port: usize,
        direction: FrameDirection,
        burst: &Burst,
        at_ps: u64,
    ) {
        let Some(number) = self.ports.iter().position(|one| *one == port) else { return };
        let Some(connection) = connection(burst.head(), burst.tail().len()) else { return };
        let latest = &mut self.latest[direction as usize];
        if latest.len() >= MAX_CONNECTIONS && !latest.contains_key(&connection) {
            return;
        }
        let Some(before) = latest.insert(connection, number).filter(|before| *before != number)
        else {
            return;
        };
        let Some(changes) = self.changes.upgrade() else { return };
        if changes.from.load(Ordering::Acquire) == before {
            let at_ns = self.clock.monotonic_ns(at_ps);
            changes.first_ns[direction as usize].fetch_min(at_ns, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::WireFrame;

    /// A TCP frame without payload, from that source port.
    fn frame(source_port: u16) -> Burst {
        let mut bytes = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0];
        bytes.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(source_port.to_be_bytes());
        bytes.extend([0x14, 0x51, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        WireFrame::copied(bytes).into()
    }

    #[test]
    fn the_first_frame_elsewhere_of_a_connection_of_the_port_is_the_move() {
        let changes = FirstPathChanges::default();
        let clock = DeviceClock::start();
        // ports 0 and 1 of the aggregate lead to ports 4 and 7 of the fabric
        let mut watch = PathChangeWatch::new(&changes, vec![4, 7], clock);
        let us = |us: u64| us * 1_000_000;
        let mut pass = |port, direction, source_port, at_us| {
            watch.passed(port, direction, &frame(source_port), us(at_us));
        };
        pass(4, FrameDirection::Out, 100, 1);
        pass(7, FrameDirection::Out, 200, 1);
        // before anybody asks
        pass(7, FrameDirection::Out, 300, 1);
        pass(4, FrameDirection::Out, 300, 2);
        changes.begin(0);
        pass(7, FrameDirection::Out, 200, 5);
        // from port 1 to port 0, and by a port that is not of the aggregate
        pass(4, FrameDirection::Out, 200, 6);
        pass(2, FrameDirection::Out, 100, 7);
        assert_eq!(
            [FrameDirection::Out, FrameDirection::In].map(|direction| changes.first_ns(direction)),
            [None; 2]
        );
        pass(7, FrameDirection::Out, 100, 8);
        pass(7, FrameDirection::Out, 300, 9);
        assert_eq!(changes.first_ns(FrameDirection::Out), Some(clock.monotonic_ns(us(8))));
        assert_eq!(changes.first_ns(FrameDirection::In), None);
        pass(4, FrameDirection::In, 100, 10);
        pass(7, FrameDirection::In, 100, 12);
        assert_eq!(changes.first_ns(FrameDirection::In), Some(clock.monotonic_ns(us(12))));
    }

    #[test]
    fn a_watch_ends_with_the_last_copy() {
        let changes = FirstPathChanges::default();
        let watch = PathChangeWatch::new(&changes, Vec::new(), DeviceClock::start());
        assert!(watch.is_wanted());
        drop(changes);
        assert!(!watch.is_wanted());
    }
}
