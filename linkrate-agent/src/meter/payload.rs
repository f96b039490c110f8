//! What the flows of one agent have moved, at one edge of a measurement.
//!
//! A program counts what it has read. Bytes that TCP has received and that the program has not read
//! yet are up to a socket buffer, and their number differs from one edge to the other. A window of two
//! seconds at 1 Gb/s would be wrong by 0.05 % for each 128 KiB. So the payload of bulk receivers is
//! counted by TCP itself (`tcpi_bytes_received`), at both edges. A flow whose socket cannot tell at
//! one of them counts by its program at both: datagrams, transactions, backups, whose drives
//! decide what is taken, and connections that are at a TCP offload engine.
//!
//! A count at an edge lacks what is on its way from the line to TCP. Readings around the edge tell how much
//! that is ([`crossing`]).
//!
//! Where a third-party program receives, the payload of bulk senders is counted by its acknowledgements
//! (`tcpi_bytes_acked`): the peer does not report what it has received in a measurement.

use linkrate_sys::clock::monotonic_ns;

use crate::flow::Flow;
use crate::meter::crossing::{self, Arrived, Edge};
use crate::session::parts_of;
use linkrate_protocol::PartReport;

/// How long an edge may ask sockets: without the privilege of real-time priority, one that its program is
/// reading from can take a turn of every other thread to answer.
const TIMEOUT_NS: u64 = 2_000_000;

/// Counters of all flows at one edge.
#[derive(Debug, Clone, Default)]
pub struct Payload {
    /// The mean moment of reading, CLOCK_MONOTONIC ns.
    pub at_ns: u64,
    flows: Vec<Count>,
    /// What had arrived before the measurement began or after it closed; empty where arrivals do not count.
    pub around: Vec<Arrived>,
}

/// Counters of one flow.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    part: u8,
    counts_arrivals: bool,
    /// By its program.
    moved: PartReport,
    /// Payload that TCP has received, and what the listener took of the preamble.
    arrived: Option<u64>,
    /// Payload that the peer has acknowledged.
    acknowledged: Option<u64>,
    zerocopy_completed: u64,
    zerocopy_copied: u64,
    receive_batches: u64,
}

/// What was moved between two edges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moved {
    /// By all flows.
    pub all: PartReport,
    /// By those of each workload of a mix; empty without one.
    pub parts: Vec<PartReport>,
    /// Sends with MSG_ZEROCOPY that completed.
    pub zerocopy_completed: u64,
    /// Those that the kernel copied.
    pub zerocopy_copied: u64,
    /// Short sleeps of receivers that let data gather.
    pub receive_batches: u64,
}

impl Payload {
    pub fn read(flows: &[Flow]) -> Self {
        let begun_ns = monotonic_ns();
        let (mut late_ns, mut counts) = (0, Vec::with_capacity(flows.len()));
        for flow in flows {
            let patient = monotonic_ns().saturating_sub(begun_ns) < TIMEOUT_NS;
            counts.push(Count::of(flow, patient, flows.len()));
            late_ns += monotonic_ns().saturating_sub(begun_ns);
        }
        let at_ns = begun_ns + late_ns / (flows.len() as u64).max(1);
        Self { at_ns, flows: counts, around: Vec::new() }
    }

    /// What was moved since an earlier edge of the same flows.
    pub fn since(&self, earlier: &Self, flows: &[Flow]) -> Moved {
        self.moved_since(earlier, parts_of(flows))
    }

    /// The moment of the edge, and what had arrived by all flows that count arrivals.
    fn edge(&self) -> Option<Edge> {
        let counted = self.flows.iter().filter(|flow| flow.counts_arrivals);
        Some((self.at_ns, counted.map(|flow| flow.arrived).sum::<Option<u64>>()?))
    }

    /// What crossed the line since an earlier edge beside what arrived.
    fn crossed_since(&self, earlier: &Self) -> Option<(u64, u64)> {
        if earlier.around.is_empty() || self.around.is_empty() {
            return None;
        }
        let (opened, closed) = (earlier.edge()?, self.edge()?);
        let crossed = crossing::crossed((opened, &earlier.around), (closed, &self.around))?;
        Some((crossed, closed.1 - opened.1))
    }

    fn moved_since(&self, earlier: &Self, parts: usize) -> Moved {
        let mut moved = Moved { parts: vec![PartReport::default(); parts], ..Moved::default() };
        let crossed = self.crossed_since(earlier);
        for (before, after) in earlier.flows.iter().zip(&self.flows) {
            let mut count = after.since(before);
            if let Some((crossed, arrived)) = crossed.filter(|_| after.counts_arrivals) {
                // each flow has its share of what was on its way
                let bytes = u128::from(count.received_bytes) * u128::from(crossed);
                count.received_bytes = (bytes / u128::from(arrived.max(1))) as u64;
            }
            moved.all = moved.all.plus(count);
            if let Some(part) = moved.parts.get_mut(usize::from(after.part)) {
                *part = part.plus(count);
            }
            moved.zerocopy_completed += after.zerocopy_completed - before.zerocopy_completed;
            moved.receive_batches += after.receive_batches - before.receive_batches;
            moved.zerocopy_copied += after.zerocopy_copied - before.zerocopy_copied;
        }
        moved
    }
}

impl Count {
    fn of(flow: &Flow, patient: bool, flows: usize) -> Self {
        let counters = &flow.counters;
        let moved = PartReport {
            received_bytes: counters.received(),
            sent_bytes: counters.sent(),
            transactions: counters.transactions(),
            timeouts: counters.timeouts(),
        };
        let arrived = (flow.counts_arrivals && patient)
            .then(|| crossing::arrived_of(flow, flows, moved.received_bytes))
            .flatten();
        let acknowledged = (flow.counts_acknowledged && patient)
            .then(|| flow.tcp_info(flows))
            .flatten()
            .map(|info| info.bytes_acked);
        Self {
            part: flow.part,
            moved,
            counts_arrivals: flow.counts_arrivals,
            arrived,
            acknowledged,
            zerocopy_completed: counters.completed(),
            zerocopy_copied: counters.copied(),
            receive_batches: counters.receive_batches(),
        }
    }

    fn since(&self, earlier: &Self) -> PartReport {
        let mut moved = self.moved.since(earlier.moved);
        if let (Some(before), Some(after)) = (earlier.acknowledged, self.acknowledged) {
            moved.sent_bytes = after.saturating_sub(before);
        }
        match (earlier.arrived, self.arrived) {
            (Some(before), Some(after)) => {
                PartReport { received_bytes: after.saturating_sub(before), ..moved }
            }
            _ => moved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(counts: &[(u64, Option<u64>)]) -> Payload {
        let count = |&(received_bytes, arrived)| Count {
            moved: PartReport { received_bytes, ..PartReport::default() },
            arrived,
            ..Count::default()
        };
        Payload { flows: counts.iter().map(count).collect(), ..Payload::default() }
    }

    fn received(opened: &[(u64, Option<u64>)], closed: &[(u64, Option<u64>)]) -> u64 {
        edge(closed).moved_since(&edge(opened), 0).all.received_bytes
    }

    #[test]
    fn bytes_that_lie_unread_at_an_edge_count_when_they_arrived() {
        // 128 KiB lay unread when the measurement began, and nothing when it closed
        let full = 128 << 10;
        assert_eq!(received(&[(1000, Some(1032 + full))], &[(500_000, Some(500_032))]), {
            499_000 - full
        });
        // and the other way round
        assert_eq!(received(&[(1000, Some(1032))], &[(500_000, Some(500_032 + full))]), {
            499_000 + full
        });
    }

    #[test]
    fn a_flow_whose_socket_tells_at_one_edge_alone_counts_by_its_program() {
        for (before, after) in [(None, None), (Some(9000), None), (None, Some(700_000))] {
            assert_eq!(received(&[(1000, before)], &[(500_000, after)]), 499_000);
        }
        // each flow by itself
        let opened = [(1000, Some(3000)), (1000, None)];
        assert_eq!(received(&opened, &[(9000, Some(9000)), (9000, Some(10_000))]), 6000 + 8000);
    }

    #[test]
    fn payload_for_a_program_of_others_counts_when_it_is_acknowledged() {
        let of = |sent_bytes, acknowledged| Count {
            moved: PartReport { sent_bytes, ..PartReport::default() },
            acknowledged: Some(acknowledged),
            ..Count::default()
        };
        let edge = |count| Payload { flows: vec![count], ..Payload::default() };
        let moved = edge(of(900_000, 700_001)).moved_since(&edge(of(300_000, 200_001)), 0);
        assert_eq!(moved.all.sent_bytes, 500_000);
    }

    #[test]
    fn each_workload_of_a_mix_has_its_own() {
        let of = |part, arrived| Count { part, arrived: Some(arrived), ..Count::default() };
        let edge = |flows| Payload { flows, ..Payload::default() };
        let opened = edge(vec![of(0, 1), of(1, 10), of(1, 100)]);
        let closed = edge(vec![of(0, 3), of(1, 40), of(1, 500)]);
        let moved = closed.moved_since(&opened, 2);
        let bytes: Vec<u64> = moved.parts.iter().map(|part| part.received_bytes).collect();
        assert_eq!((bytes, moved.all.received_bytes), (vec![2, 430], 432));
    }

    #[test]
    fn what_is_on_its_way_at_an_edge_belongs_to_the_side_on_which_it_crossed() {
        let of = |part, arrived| Count {
            part,
            counts_arrivals: true,
            arrived: Some(arrived),
            ..Count::default()
        };
        let at = |ns, bytes| Arrived { after_ns: ns, until_ns: ns, bytes };
        // a burst of 1000 bytes each 1000 ns for each of two flows
        let opened =
            Payload { at_ns: 950, flows: vec![of(0, 0), of(1, 0)], around: vec![at(0, 0)] };
        let mut closed = Payload {
            at_ns: 10_850,
            flows: vec![of(0, 10_000), of(1, 10_000)],
            around: vec![at(11_000, 22_000)],
        };
        let moved = closed.moved_since(&opened, 2);
        let bytes: Vec<u64> = moved.parts.iter().map(|part| part.received_bytes).collect();
        assert_eq!((bytes, moved.all.received_bytes), (vec![9900, 9900], 19_800));
        closed.around.clear();
        assert_eq!(closed.moved_since(&opened, 2).all.received_bytes, 20_000);
    }
}
