//! The port that fails in a run with an event, and what was lost on the way.

use linkrate_adapter::{Decision, Port};
use linkrate_terms::{AggregateKnobs, Fault};

use super::{Adapters, Segment};
use crate::error::LabError;

/// Counters of frames that were lost between two devices.
const LOST: [&str; 12] = [
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
    "aggDropNotCollecting",
];

/// The port that fails. Dropping it changes nothing.
#[derive(Debug)]
pub(crate) struct Failing<'a> {
    segment: &'a Segment,
    port: &'a Port,
    /// Its number in its aggregate.
    place: usize,
    fault: Fault,
    /// The settings of its aggregate while all is well.
    knobs: Option<AggregateKnobs>,
}

impl Adapters {
    /// The port that `fault` is about: the first one, or the last one of an aggregate for a fault that
    /// takes a port away.
    ///
    /// # Errors
    /// There is no such port, or the drivers of its aggregate do not answer.
    pub(crate) fn failing(&self, fault: Fault) -> Result<Failing<'_>, LabError> {
        let none = || LabError::Invalid {
            what: format!("event {}: no port", fault.word()),
            hint: "add a port to the testbed".to_owned(),
        };
        let segment = self.segments().first().ok_or_else(none)?;
        let knobs = match &segment.aggregate {
            Some(aggregate) => Some(aggregate.applied_knobs()?),
            None => None,
        };
        let place = match (fault, &knobs) {
            (Fault::Removed, Some(knobs)) => (knobs.aggregate as usize).saturating_sub(1),
            _ => 0,
        };
        let port = &segment.ports.get(place).ok_or_else(none)?.port;
        Ok(Failing { segment, port, place, fault, knobs })
    }

    /// The ports of the system under test that take part, with the octets on their links so far.
    pub(crate) fn octets(&self, ports: usize) -> impl Iterator<Item = (&str, u64)> {
        self.sut_ports().take(ports).map(|port| {
            let octets = port.port.links().map(|link| link.shared().octets());
            (port.name(), octets.fold(0, u64::wrapping_add))
        })
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

impl Failing<'_> {
    /// The interface of the port.
    pub(crate) fn name(&self) -> &str {
        self.port.name()
    }

    /// Its number in its aggregate.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// Lets it fail.
    ///
    /// # Errors
    /// Its interface or its aggregate is gone.
    pub(crate) fn fail(&self) -> Result<(), LabError> {
        self.set(true)
    }

    /// Lets it recover.
    ///
    /// # Errors
    /// As [`fail`](Self::fail).
    pub(crate) fn recover(&self) -> Result<(), LabError> {
        self.set(false)
    }

    fn set(&self, failed: bool) -> Result<(), LabError> {
        let silent = |out: bool, into: bool| {
            self.port.links().for_each(|link| link.shared().set_silent(out, into));
        };
        match self.fault {
            Fault::Carrier => self.port.links().try_for_each(|link| link.set_up(!failed))?,
            // a switch that is dead takes and sends nothing by the port either
            Fault::Silent | Fault::Switch => silent(failed, failed),
            Fault::SilentTransmit => silent(failed, false),
            Fault::SilentReceive => silent(false, failed),
            Fault::Removed => self.set_ports(failed)?,
        }
        Ok(())
    }

    /// Takes the last port of the aggregate away, or adds it again.
    fn set_ports(&self, failed: bool) -> Result<(), LabError> {
        let (Some(aggregate), Some(knobs)) = (&self.segment.aggregate, &self.knobs) else {
            return Ok(());
        };
        let ports = knobs.aggregate.saturating_sub(u32::from(failed));
        let knobs = AggregateKnobs { aggregate: ports, ..knobs.clone() };
        aggregate.set_knobs(knobs.clone())?;
        self.segment.follow(&knobs)
    }

    /// What the host's end decided since `from_ns`, and the switch's; `None` without an aggregate.
    pub(crate) fn decisions(&self, from_ns: u64) -> Option<[Vec<Decision>; 2]> {
        let aggregate = self.segment.aggregate.as_ref()?;
        let switch = self.segment.joined.decisions();
        Some([aggregate.decisions().since(from_ns), switch.since(from_ns)])
    }
}
