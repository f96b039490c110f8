//! The port that fails in a run with an event, and what was lost on the way.

use std::cmp::Reverse;

use linkrate_adapter::{Decision, FirstPathChanges, FrameDirection, Port, ReorderingCount};
use linkrate_model::{AggregateKnobs, Fault};

use super::{Adapters, Segment};
use crate::error::LabError;

/// Counters of frames that were lost between two devices.
const LOST: [&str; 13] = [
    "txLostSilently",
    "rxLostSilently",
    "txDropLinkDown",
    "ifInDiscards",
    "rxDropInFlight",
    "switchDropVlan",
    "switchDropMalformed",
    "switchDropFcs",
    "switchDropNotCollecting",
    "switchDropQueueFull",
    "switchDropInFlight",
    "switchDropDead",
    "aggDropNotCollecting",
];

/// The switch that fails, of two. No client is on it.
const FAILING_SWITCH: usize = 0;

/// The port that fails. Dropping it changes nothing.
#[derive(Debug)]
pub(crate) struct FailedPort<'a> {
    segment: &'a Segment,
    port: &'a Port,
    /// Its number among the ports of its segment.
    index: usize,
    fault: Fault,
    /// The settings of its aggregate.
    knobs: Option<AggregateKnobs>,
    moves: FirstPathChanges,
}

impl Adapters {
    /// Prepares for `fault`: reads the settings of each aggregate, and watches its ports.
    pub(crate) fn prepare(&self, fault: Fault) -> Result<Prepared<'_>, LabError> {
        let prepared = self.segments().iter().map(|segment| {
            let moves = FirstPathChanges::default();
            let Some(aggregate) = &segment.aggregate else { return Ok((None, moves)) };
            let members = segment.ports.iter().map(|port| &port.port);
            segment.joined.watch_path_changes(&moves, members)?;
            Ok((Some(aggregate.applied_knobs()?), moves))
        });
        Ok(Prepared { adapters: self, fault, segments: prepared.collect::<Result<_, LabError>>()? })
    }

    /// The ports of the system under test that take part, with the octets on their links so far.
    pub(crate) fn octets(&self, ports: usize) -> impl Iterator<Item = (&str, u64)> {
        self.sut_ports().take(ports).map(|port| {
            let octets = port.port.links().map(|link| link.shared().octets());
            (port.name(), octets.fold(0, u64::wrapping_add))
        })
    }

    /// Counts frames that overtake others of their connection from now on, until the count is dropped.
    pub(crate) fn count_reordering(&self) -> Result<ReorderingCount, LabError> {
        let count = ReorderingCount::default();
        for segment in self.segments() {
            segment.joined.count_reordering(&count)?;
        }
        Ok(count)
    }

    /// Frames that were lost between the devices so far.
    pub(crate) fn lost(&self) -> u64 {
        let ports = self.segments().iter().flat_map(Segment::all_ports).map(Port::counters);
        let aggregates = self.segments().iter().filter_map(|segment| segment.aggregate.as_ref());
        let aggregates = aggregates.map(|aggregate| aggregate.counters());
        let counts = ports.chain(aggregates).map(|counters| {
            let named = LOST.iter().filter_map(|name| counters.get(*name));
            named.fold(0_u64, |sum, count| sum.wrapping_add(*count))
        });
        counts.fold(0, u64::wrapping_add)
    }
}

/// Everything that a fault needs, so that it takes no time when its moment comes.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    adapters: &'a Adapters,
    fault: Fault,
    /// The settings of the aggregate of each segment, and the moves between its ports.
    segments: Vec<(Option<AggregateKnobs>, FirstPathChanges)>,
}

impl<'a> Prepared<'a> {
    /// The port that fails: the one that carried the most octets so far, in `octets` by the order of the
    /// ports. `None` without ports, or if it leads to the switch that continues: the failure of the
    /// other one would meet no traffic.
    pub(crate) fn choose(&self, octets: &[u64]) -> Option<FailedPort<'a>> {
        let busiest = octets.iter().enumerate().max_by_key(|(at, octets)| (**octets, Reverse(*at)));
        let busiest = busiest.map_or(0, |(at, _)| at);
        let segments = self.adapters.segments().iter().zip(&self.segments);
        let mut ports = segments.flat_map(|(segment, prepared)| {
            let ports = segment.ports.iter().enumerate();
            ports.map(move |(index, port)| (segment, prepared, index, &port.port))
        });
        let (segment, (knobs, moves), index, port) = ports.nth(busiest)?;
        let end = segment.topology.ports.get(index);
        let switch = end.map(|end| segment.topology.switch_of_port(end));
        if self.fault == Fault::Switch && switch != Some(FAILING_SWITCH) {
            return None;
        }
        let (knobs, moves) = (knobs.clone(), moves.clone());
        Some(FailedPort { segment, port, index, fault: self.fault, knobs, moves })
    }
}

impl FailedPort<'_> {
    /// The interface of the port.
    pub(crate) fn name(&self) -> &str {
        self.port.name()
    }

    /// Its place in its aggregate.
    pub(crate) fn place(&self) -> usize {
        self.port.place().unwrap_or(0)
    }

    pub(crate) fn fail(&self) -> Result<(), LabError> {
        self.moves.begin(self.index);
        self.set(true)
    }

    pub(crate) fn recover(&self) -> Result<(), LabError> {
        self.set(false)
    }

    fn set(&self, failed: bool) -> Result<(), LabError> {
        let silent = |out: bool, into: bool| {
            self.port.links().for_each(|link| link.shared().set_silent(out, into));
        };
        match self.fault {
            Fault::Carrier => self.port.links().try_for_each(|link| link.set_up(!failed))?,
            Fault::Silent => silent(failed, failed),
            Fault::Switch => self.segment.joined.set_switch_alive(FAILING_SWITCH, !failed)?,
            Fault::SilentTransmit => silent(failed, false),
            Fault::SilentReceive => silent(false, failed),
            Fault::Removed => self.set_leaving(failed)?,
        }
        Ok(())
    }

    /// Lets the port leave its aggregate, or come back, at both ends.
    fn set_leaving(&self, leaves: bool) -> Result<(), LabError> {
        self.port.set_leaving(leaves);
        self.knobs.as_ref().map_or(Ok(()), |knobs| self.segment.follow(knobs))
    }

    /// When the first frame of a connection of the port passed another port, on each way; `None` if there
    /// was none.
    pub(crate) fn moved(&self) -> [Option<u64>; 2] {
        [FrameDirection::Out, FrameDirection::In].map(|direction| self.moves.first_ns(direction))
    }

    /// What the host's end decided since `from_ns`, and the switch's; `None` without an aggregate.
    pub(crate) fn decisions(&self, from_ns: u64) -> Option<[Vec<Decision>; 2]> {
        let aggregate = self.segment.aggregate.as_ref()?;
        let switch = self.segment.joined.decisions();
        Some([aggregate.decisions().since(from_ns), switch.since(from_ns)])
    }
}
