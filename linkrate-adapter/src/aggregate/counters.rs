//! The counters of an aggregate, by the names of IEEE 802.1AX-2014, 7.3.1.1, where it has one.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{AggregateShared, lock};
use crate::counters::LinkCounters;

/// Counters of an aggregate. Several drivers count.
#[derive(Debug, Default)]
pub(crate) struct AggregateCounters {
    /// Packets of the host that no port could take: none carries traffic.
    pub(crate) no_port: AtomicU64,
    /// Packets of the host that found the queue before their port full.
    pub(crate) full: AtomicU64,
    /// Frames that came by a port that the aggregate does not collect from.
    pub(super) uncollected: AtomicU64,
    /// Messages that were dropped: the ports sent more than the control takes.
    pub(super) messages_dropped: AtomicU64,
    /// Messages of the aggregate for which a port had no room.
    pub(crate) control_full: AtomicU64,
    /// Times that a failover group moved to another port.
    pub(super) moves: AtomicU64,
    /// Messages of the protocols, which are no frames of the aggregate.
    pub(crate) control_out: ControlFrames,
    pub(super) control_in: ControlFrames,
}

/// Frames of the protocols, with FCS and padding.
#[derive(Debug, Default)]
pub(crate) struct ControlFrames {
    frames: AtomicU64,
    octets: AtomicU64,
}

impl ControlFrames {
    /// Counts a frame of that length without FCS.
    pub(crate) fn count(&self, length: usize) {
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.octets.fetch_add(length.max(SHORTEST) as u64 + FCS, Ordering::Relaxed);
    }
}

/// The shortest Ethernet frame without FCS, and the FCS.
const SHORTEST: usize = 60;
const FCS: u64 = 4;

/// What ports of an aggregate have carried.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    octets: Ways,
    unicast: Ways,
    multicast: Ways,
    broadcast: Ways,
    discards: Ways,
    errors: Ways,
}

#[derive(Debug, Clone, Default)]
struct Ways {
    out: u64,
    into: u64,
}

impl Totals {
    /// Adds what a port has carried.
    pub(super) fn add(&mut self, link: &LinkCounters) {
        let more = [
            (&mut self.octets, &link.out_octets, &link.in_octets),
            (&mut self.unicast, &link.out_unicast, &link.in_unicast),
            (&mut self.multicast, &link.out_multicast, &link.in_multicast),
            (&mut self.broadcast, &link.out_broadcast, &link.in_broadcast),
            (&mut self.discards, &link.out_discards, &link.in_discards),
            (&mut self.errors, &link.out_errors, &link.in_errors),
        ];
        for (ways, out, into) in more {
            ways.out += out.get();
            ways.into += into.get();
        }
    }

    /// The counters of the aggregator. Frames of the protocols are none of its frames; all of them go
    /// to a group of stations.
    pub(super) fn named(&self, own: &AggregateCounters) -> [(String, u64); 14] {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (out, into) = (&own.control_out, &own.control_in);
        let without = |all: u64, control: &AtomicU64| all.saturating_sub(count(control));
        let frames = |unicast: u64, multicast: u64, broadcast: u64, control: &AtomicU64| {
            without(unicast + multicast + broadcast, control)
        };
        let Self { octets, unicast, multicast, broadcast, discards, errors } = self;
        let discarded_out = count(&own.no_port) + count(&own.full);
        [
            ("aAggOctetsTxOK", without(octets.out, &out.octets)),
            ("aAggOctetsRxOK", without(octets.into, &into.octets)),
            ("aAggFramesTxOK", frames(unicast.out, multicast.out, broadcast.out, &out.frames)),
            ("aAggFramesRxOK", frames(unicast.into, multicast.into, broadcast.into, &into.frames)),
            ("aAggMulticastFramesTxOK", without(multicast.out, &out.frames)),
            ("aAggMulticastFramesRxOK", without(multicast.into, &into.frames)),
            ("aAggBroadcastFramesTxOK", broadcast.out),
            ("aAggBroadcastFramesRxOK", broadcast.into),
            ("aAggFramesDiscardedOnTx", discards.out + discarded_out),
            ("aAggFramesDiscardedOnRx", discards.into + count(&own.uncollected)),
            ("aAggFramesWithTxErrors", errors.out),
            ("aAggFramesWithRxErrors", errors.into),
            ("aAggControlFramesTx", count(&out.frames)),
            ("aAggControlFramesRx", count(&into.frames)),
        ]
        .map(|(name, count)| (name.to_owned(), count))
    }
}

impl AggregateShared {
    /// What its ports have carried, those that have left included.
    pub(super) fn totals(&self) -> Totals {
        let mut totals = lock(&self.departed).clone();
        for member in lock(&self.members).iter().flatten() {
            totals.add(&member.link.counters);
        }
        totals
    }
}
