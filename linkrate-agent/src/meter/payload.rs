//! What the flows of one agent have moved, at one edge of a window.
//!
//! A program counts what it has read. Bytes that TCP has received and that the program has not read
//! yet are up to a socket buffer, and their number differs from one edge to the other. A window of two
//! seconds at 1 Gb/s would be wrong by 0.05 % for each 128 KiB. So the payload of bulk receivers is
//! counted by TCP itself (`tcpi_bytes_received`), at both edges. A flow whose socket cannot tell at
//! one of them counts by its program at both: datagrams, transactions, backups, whose drives
//! decide what is taken, and connections that are at a TCP offload engine.
//!
//! Where a program of others receives, the payload of bulk senders is counted by its acknowledgements
//! (`tcpi_bytes_acked`): the far end does not tell what it has received in a window.

use linkrate_sys::clock::monotonic_ns;

use crate::flow::Flow;
use crate::protocol::PartReport;
use crate::session::parts_of;

/// How long an edge may ask sockets: without the privilege of real-time priority, one that its program is
/// reading from can take a turn of every other thread to answer.
const PATIENCE_NS: u64 = 2_000_000;

/// Counters of all flows at one edge.
#[derive(Debug, Clone, Default)]
pub struct Payload {
    /// The mean moment of reading, CLOCK_MONOTONIC ns.
    pub at_ns: u64,
    flows: Vec<Count>,
}

/// Counters of one flow.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    part: u8,
    /// By its program.
    moved: PartReport,
    /// Payload that TCP has received, and what the listener took of the preamble.
    arrived: Option<u64>,
    /// Payload that the far end has acknowledged.
    acknowledged: Option<u64>,
    zerocopy_completed: u64,
    zerocopy_copied: u64,
    gathers: u64,
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
    pub gathers: u64,
}

impl Payload {
    /// Reads the counters of all flows.
    pub fn read(flows: &[Flow]) -> Self {
        let begun_ns = monotonic_ns();
        let (mut late_ns, mut counts) = (0, Vec::with_capacity(flows.len()));
        for flow in flows {
            let patient = monotonic_ns().saturating_sub(begun_ns) < PATIENCE_NS;
            counts.push(Count::of(flow, patient, flows.len()));
            late_ns += monotonic_ns().saturating_sub(begun_ns);
        }
        let at_ns = begun_ns + late_ns / (flows.len() as u64).max(1);
        Self { at_ns, flows: counts }
    }

    /// What was moved since an earlier edge of the same flows.
    pub fn since(&self, earlier: &Self, flows: &[Flow]) -> Moved {
        self.moved_since(earlier, parts_of(flows))
    }

    fn moved_since(&self, earlier: &Self, parts: usize) -> Moved {
        let mut moved = Moved { parts: vec![PartReport::default(); parts], ..Moved::default() };
        for (before, after) in earlier.flows.iter().zip(&self.flows) {
            let count = after.since(before);
            moved.all = moved.all.plus(count);
            if let Some(part) = moved.parts.get_mut(usize::from(after.part)) {
                *part = part.plus(count);
            }
            moved.zerocopy_completed += after.zerocopy_completed - before.zerocopy_completed;
            moved.gathers += after.gathers - before.gathers;
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
        let asks = |counts: bool| (counts && patient).then(|| flow.tcp_info(flows)).flatten();
        let arrived = asks(flow.counts_arrivals).map(|info| info.bytes_received);
        let acknowledged = asks(flow.counts_acknowledged).map(|info| info.bytes_acked);
        Self {
            part: flow.part,
            moved,
            // the TCP of a socket that took a connection over knows less than its program
            arrived: arrived.filter(|arrived| *arrived >= moved.received_bytes),
            acknowledged,
            zerocopy_completed: counters.completed(),
            zerocopy_copied: counters.copied(),
            gathers: counters.gathers(),
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
        Payload { at_ns: 0, flows: counts.iter().map(count).collect() }
    }

    fn received(opened: &[(u64, Option<u64>)], closed: &[(u64, Option<u64>)]) -> u64 {
        edge(closed).moved_since(&edge(opened), 0).all.received_bytes
    }

    #[test]
    fn bytes_that_lie_unread_at_an_edge_count_when_they_arrived() {
        // 128 KiB lay unread when the window opened, and nothing when it closed
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
        let edge = |count| Payload { at_ns: 0, flows: vec![count] };
        let moved = edge(of(900_000, 700_001)).moved_since(&edge(of(300_000, 200_001)), 0);
        assert_eq!(moved.all.sent_bytes, 500_000);
    }

    #[test]
    fn each_workload_of_a_mix_has_its_own() {
        let of = |part, arrived| Count { part, arrived: Some(arrived), ..Count::default() };
        let opened = Payload { at_ns: 0, flows: vec![of(0, 1), of(1, 10), of(1, 100)] };
        let closed = Payload { at_ns: 0, flows: vec![of(0, 3), of(1, 40), of(1, 500)] };
        let moved = closed.moved_since(&opened, 2);
        let bytes: Vec<u64> = moved.parts.iter().map(|part| part.received_bytes).collect();
        assert_eq!((bytes, moved.all.received_bytes), (vec![2, 430], 432));
    }
}
