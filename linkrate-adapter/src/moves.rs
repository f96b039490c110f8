//! When traffic of one port of an aggregate came to another one, as the frames on the lines show it.
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
use crate::order::{Connection, MOST, connection};

/// No port, and no time.
const NO_PORT: usize = usize::MAX;
const NEVER: u64 = u64::MAX;

/// The way of a frame, as the system under test sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It leaves.
    Out,
    /// It comes.
    In,
}

/// The first frames that left a port for another one. Frames are watched as long as a copy of it exists.
#[derive(Debug, Clone, Default)]
pub struct FirstMoves(Arc<Moves>);

#[derive(Debug)]
struct Moves {
    /// The number of the port whose connections are looked at.
    from: AtomicUsize,
    /// By way: when the first of its connections had a frame on another port, CLOCK_MONOTONIC in ns.
    first_ns: [AtomicU64; 2],
}

impl Default for Moves {
    fn default() -> Self {
        let never = || AtomicU64::new(NEVER);
        Self { from: AtomicUsize::new(NO_PORT), first_ns: [never(), never()] }
    }
}

impl FirstMoves {
    /// Notes the first frames from now on that leave port number `from` of the aggregate.
    pub fn begin(&self, from: usize) {
        self.0.first_ns.iter().for_each(|first| first.store(NEVER, Ordering::Relaxed));
        self.0.from.store(from, Ordering::Release);
    }

    /// When the first frame of a connection of that port had passed another port: its last bit had left, or
    /// had come. CLOCK_MONOTONIC in ns; `None` if there was no such frame yet.
    #[must_use]
    pub fn first_ns(&self, way: Way) -> Option<u64> {
        let first_ns = self.0.first_ns[way as usize].load(Ordering::Relaxed);
        (first_ns != NEVER).then_some(first_ns)
    }
}

/// Watches the frames that pass the ports of an aggregate.
#[derive(Debug)]
pub(crate) struct MoveWatch {
    moves: Weak<Moves>,
    clock: DeviceClock,
    /// The ports of the fabric that the ports of the aggregate lead to, in their order.
    ports: Vec<usize>,
    /// The port of the last frame of each connection, by way.
    latest: [HashMap<Connection, usize>; 2],
}

impl MoveWatch {
    pub(crate) fn new(moves: &FirstMoves, ports: Vec<usize>, clock: DeviceClock) -> Self {
        Self { moves: Arc::downgrade(&moves.0), clock, ports, latest: Default::default() }
    }

    /// Whether anybody still wants to know.
    pub(crate) fn is_wanted(&self) -> bool {
        self.moves.strong_count() > 0
    }

    /// Looks at frames that passed port `port` of the fabric until `at_ps`. The frames of a burst are of
    /// one connection.
    pub(crate) fn passed(&mut self, port: usize, way: Way, burst: &Burst, at_ps: u64) {
        let Some(number) = self.ports.iter().position(|one| *one == port) else { return };
        let Some(connection) = connection(burst.head(), burst.tail().len()) else { return };
        let latest = &mut self.latest[way as usize];
        if latest.len() >= MOST && !latest.contains_key(&connection) {
            return;
        }
        let Some(before) = latest.insert(connection, number).filter(|before| *before != number)
        else {
            return;
        };
        let Some(moves) = self.moves.upgrade() else { return };
        if moves.from.load(Ordering::Acquire) == before {
            let at_ns = self.clock.monotonic_ns(at_ps);
            moves.first_ns[way as usize].fetch_min(at_ns, Ordering::Relaxed);
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
        let moves = FirstMoves::default();
        let clock = DeviceClock::start();
        // ports 0 and 1 of the aggregate lead to ports 4 and 7 of the fabric
        let mut watch = MoveWatch::new(&moves, vec![4, 7], clock);
        let us = |us: u64| us * 1_000_000;
        let mut pass = |port, way, source_port, at_us| {
            watch.passed(port, way, &frame(source_port), us(at_us));
        };
        pass(4, Way::Out, 100, 1);
        pass(7, Way::Out, 200, 1);
        // before anybody asks
        pass(7, Way::Out, 300, 1);
        pass(4, Way::Out, 300, 2);
        moves.begin(0);
        pass(7, Way::Out, 200, 5);
        // from port 1 to port 0, and by a port that is not of the aggregate
        pass(4, Way::Out, 200, 6);
        pass(2, Way::Out, 100, 7);
        assert_eq!([Way::Out, Way::In].map(|way| moves.first_ns(way)), [None; 2]);
        pass(7, Way::Out, 100, 8);
        pass(7, Way::Out, 300, 9);
        assert_eq!(moves.first_ns(Way::Out), Some(clock.monotonic_ns(us(8))));
        assert_eq!(moves.first_ns(Way::In), None);
        pass(4, Way::In, 100, 10);
        pass(7, Way::In, 100, 12);
        assert_eq!(moves.first_ns(Way::In), Some(clock.monotonic_ns(us(12))));
    }

    #[test]
    fn a_watch_ends_with_the_last_copy() {
        let moves = FirstMoves::default();
        let watch = MoveWatch::new(&moves, Vec::new(), DeviceClock::start());
        assert!(watch.is_wanted());
        drop(moves);
        assert!(!watch.is_wanted());
    }
}
