//! The counters of an aggregate, by the names of IEEE 802.1AX-2014, 7.3.1.1, where it has one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::{AggregateShared, lock};
use crate::counters::LinkCounters;
use crate::link::LinkShared;

/// Counters of an aggregate. Several drivers count.
#[derive(Debug, Default)]
pub(crate) struct AggregateCounters {
    /// Packets of the host that no port could take: none carries traffic.
    pub(crate) no_port: AtomicU64,
    /// Packets of the host that found the queue before their port full.
    pub(crate) full: AtomicU64,
    /// Frames that came by a port that the aggregate does not collect from.
    pub(super) uncollected: AtomicU64,
    /// Messages of the aggregate for which a port had no room.
    pub(crate) control_full: AtomicU64,
    /// Times that a failover group moved to another port.
    pub(super) moves: AtomicU64,
    /// Messages of the protocols, which are no frames of the aggregate.
    pub(crate) control_out: ControlFrames,
    pub(super) control_in: ControlFrames,
    /// Those that were dropped: a port received more than the control takes from it.
    pub(super) control_dropped: ControlFrames,
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
        self.octets.fetch_add(length.max(MIN_LENGTH) as u64 + FCS, Ordering::Relaxed);
    }

    pub(super) fn count_of_frames(&self) -> &AtomicU64 {
        &self.frames
    }

    /// Frames and octets so far.
    fn read(&self) -> [u64; 2] {
        [&self.frames, &self.octets].map(|count| count.load(Ordering::Relaxed))
    }
}

/// The shortest Ethernet frame without FCS, and the FCS.
const MIN_LENGTH: usize = 60;
const FCS: u64 = 4;

/// What ports of an aggregate have carried.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    octets: InOut,
    unicast: InOut,
    multicast: InOut,
    broadcast: InOut,
    discards: InOut,
    errors: InOut,
}

#[derive(Debug, Clone, Default)]
struct InOut {
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
        for (in_out, out, into) in more {
            in_out.out += out.get();
            in_out.into += into.get();
        }
    }

    /// The counters of the aggregator. Frames of the protocols are none of its frames; all of them go
    /// to a group of stations.
    pub(super) fn named(&self, own: &AggregateCounters) -> [(String, u64); 14] {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let [frames_out, octets_out] = own.control_out.read();
        let [taken, octets_taken] = own.control_in.read();
        let [dropped, octets_dropped] = own.control_dropped.read();
        let (frames_in, octets_in) = (taken + dropped, octets_taken + octets_dropped);
        let Self { octets, unicast, multicast, broadcast, discards, errors } = self;
        let discarded_out = count(&own.no_port) + count(&own.full);
        [
            ("aAggOctetsTxOK", octets.out.saturating_sub(octets_out)),
            ("aAggOctetsRxOK", octets.into.saturating_sub(octets_in)),
            (
                "aAggFramesTxOK",
                (unicast.out + multicast.out + broadcast.out).saturating_sub(frames_out),
            ),
            (
                "aAggFramesRxOK",
                (unicast.into + multicast.into + broadcast.into).saturating_sub(frames_in),
            ),
            ("aAggMulticastFramesTxOK", multicast.out.saturating_sub(frames_out)),
            ("aAggMulticastFramesRxOK", multicast.into.saturating_sub(frames_in)),
            ("aAggBroadcastFramesTxOK", broadcast.out),
            ("aAggBroadcastFramesRxOK", broadcast.into),
            ("aAggFramesDiscardedOnTx", discards.out + discarded_out),
            ("aAggFramesDiscardedOnRx", discards.into + count(&own.uncollected)),
            ("aAggFramesWithTxErrors", errors.out),
            ("aAggFramesWithRxErrors", errors.into),
            ("aAggControlFramesTx", frames_out),
            ("aAggControlFramesRx", taken),
        ]
        .map(|(name, count)| (name.to_owned(), count))
    }
}

/// What ports that have left carried. A device still sends what was posted to it, and receives what was on
/// its way, so its link counts until nobody else holds it.
#[derive(Debug, Default)]
pub(super) struct Departed {
    ended: Totals,
    links: Vec<Arc<LinkShared>>,
}

impl Departed {
    /// A port leaves.
    pub(super) fn add(&mut self, link: Arc<LinkShared>) {
        self.links.push(link);
    }

    fn totals(&mut self) -> Totals {
        for link in self.links.extract_if(.., |link| Arc::strong_count(link) == 1) {
            // everything that its device counted before it let go
            fence(Ordering::Acquire);
            self.ended.add(&link.counters);
        }
        let mut totals = self.ended.clone();
        self.links.iter().for_each(|link| totals.add(&link.counters));
        totals
    }
}

impl AggregateShared {
    /// What its ports have carried, those that have left included.
    pub(super) fn totals(&self) -> Totals {
        // a port that leaves is in one of the two
        let members = lock(&self.members);
        let mut totals = lock(&self.departed).totals();
        for member in members.iter().flatten() {
            totals.add(&member.link.counters);
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use linkrate_wire::link::LinkLaw;

    use super::*;
    use crate::link::LinkSpec;

    #[test]
    fn dropped_messages_are_no_frames_of_the_aggregate() {
        let own = AggregateCounters::default();
        (0..3).for_each(|_| own.control_in.count(110));
        (0..5).for_each(|_| own.control_dropped.count(110));
        let (multicast, octets) = (InOut { into: 10, out: 0 }, InOut { into: 10 * 114, out: 0 });
        let totals = Totals { multicast, octets, ..Totals::default() };
        let named: std::collections::BTreeMap<_, _> = totals.named(&own).into();
        let names = ["aAggControlFramesRx", "aAggFramesRxOK", "aAggMulticastFramesRxOK"];
        assert_eq!(names.map(|name| named[name]), [3, 2, 2]);
        assert_eq!(named["aAggOctetsRxOK"], 2 * 114);
    }

    #[test]
    fn a_port_that_has_left_counts_until_its_device_is_gone() {
        let mut departed = Departed::default();
        let link = Arc::new(LinkShared::new(LinkSpec { law: LinkLaw::Ethernet, rate: None }));
        link.counters.out_octets.add(1000);
        departed.add(Arc::clone(&link));
        assert_eq!(departed.totals().octets.out, 1000);
        // what was posted before it left
        link.counters.out_octets.add(64);
        link.counters.in_octets.add(9);
        assert_eq!((departed.totals().octets.out, departed.links.len()), (1064, 1));
        drop(link);
        for _ in 0..2 {
            let totals = departed.totals();
            assert_eq!((totals.octets.out, totals.octets.into), (1064, 9));
            assert!(departed.links.is_empty());
        }
    }
}
