//! Ports of a segment become an aggregate, join one, leave it, or become interfaces of their own again,
//! while the lab is up.
//!
//! The host's side of a port is decided when the port is attached. So the ports of the system under test
//! are detached and attached again; their clients, the fabric and its other ports stay.

use std::sync::Arc;

use linkrate_adapter::{CaptureEnding, HostSide, Port};
use linkrate_model::topology::{self, PortEnd, RegroupError};
use linkrate_model::{AggregateKnobs, BitRate};

use super::attach::Making;
use super::{Adapters, SutPort, aggregate, attach};
use crate::error::LabError;
use crate::host::Host;

impl Adapters {
    /// Whether the ports of a segment have links of one rate.
    pub(crate) fn check_rates(&self, segment: &topology::Segment) -> Result<(), RegroupError> {
        let rates: Vec<(&str, Option<BitRate>)> = self
            .sut_ports()
            .filter(|port| segment.has_interface(port.name()))
            .flat_map(|port| port.port.links().map(|link| (port.name(), link.shared().rate())))
            .collect();
        let text =
            |rate: Option<BitRate>| rate.map_or_else(|| "any rate".to_owned(), |r| r.to_string());
        match rates.iter().find(|(_, rate)| *rate != rates[0].1) {
            None => Ok(()),
            Some((other, other_rate)) => Err(RegroupError::Rates {
                one: rates[0].0.to_owned(),
                rate: text(rates[0].1),
                other: (*other).to_owned(),
                other_rate: text(*other_rate),
            }),
        }
    }

    /// Attaches the ports of the system under test on a segment again, as `wanted` describes them: as
    /// an aggregate, or each with an interface. Returns the captures that were on. After an error the segment has lost
    /// ports; it can be removed.
    pub(crate) fn regroup(
        &mut self,
        wanted: &topology::Segment,
        sut: &mut Host,
    ) -> Result<Vec<CaptureEnding>, LabError> {
        let buses: Vec<_> = wanted.ports.iter().map(|port| self.bus(port.number)).collect();
        let of_wanted = |segment: &&mut super::Segment| segment.topology.number == wanted.number;
        let (Some((_, drivers)), Some(segment)) =
            (&self.threads, self.segments.iter_mut().find(of_wanted))
        else {
            return Err(LabError::Io(std::io::Error::other("no such segment")));
        };
        let captures = segment.ports.drain(..).filter_map(|end| Port::remove(end.port)).collect();
        segment.joined.set_group(aggregate::GROUP, [], AggregateKnobs::default())?;
        segment.aggregate = None;
        self.napi.forget(&segment.topology);
        let engine = self.engine.as_ref();
        if let Some(engine) = engine {
            engine.drop_interface_of_all(wanted.number);
        }
        let making = Making {
            model: &self.model,
            drivers,
            datagrams: &mut self.datagrams,
            buses,
            engine,
            napi: &mut self.napi,
        };
        (segment.aggregate, segment.ports) = making.attach(wanted, &mut segment.joined, sut)?;
        segment.topology = wanted.clone();
        segment.group()?;
        Ok(captures)
    }

    /// Attaches the port of an aggregate that is in `wanted` alone, while its others carry traffic. It
    /// carries some unless somebody asked for fewer ports.
    pub(crate) fn widen(&mut self, wanted: &topology::Segment) -> Result<(), LabError> {
        let Some(at) = self.segments.iter().position(|of| of.topology.number == wanted.number)
        else {
            return Ok(());
        };
        let has = &self.segments[at].topology;
        let is_new = |end: &PortEnd| !has.has_interface(&end.interface);
        let Some(index) = wanted.ports.iter().position(is_new) else { return Ok(()) };
        let (place, bus) = (wanted.ports[index].place, self.bus(wanted.ports[index].number));
        let segment = &mut self.segments[at];
        let Some(aggregate) = &segment.aggregate else { return Ok(()) };
        let knobs = aggregate.applied_knobs()?;
        if knobs.aggregate as usize >= segment.ports.len() {
            // before it comes, since it may come before others: none of them may go out of use for it
            let ports = wanted.ports.len() as u32;
            aggregate.set_knobs(AggregateKnobs { aggregate: ports, ..knobs })?;
            aggregate.applied_knobs()?;
        }
        let engine = self.engine.as_ref();
        let tap = engine.and_then(|engine| engine.queue_of(wanted.number, place));
        let side = (bus, Vec::new(), HostSide::Aggregate(Arc::clone(aggregate), place, tap));
        let end = attach::end_of(&self.model, wanted, index, side, &mut segment.joined)?;
        if let Some(engine) = engine {
            engine.tell(&end.port, segment.topology.home)?;
        }
        segment.ports.insert(index, end);
        segment.topology = wanted.clone();
        segment.group()?;
        self.weigh(wanted)
    }

    /// Detaches the port of an aggregate that is not in `wanted`: both ends let it leave in good order, and
    /// this waits until it has sent and received what was on its way. Returns its capture, if one was on.
    pub(crate) fn narrow(
        &mut self,
        wanted: &topology::Segment,
    ) -> Result<Option<CaptureEnding>, LabError> {
        let of_wanted = |segment: &&mut super::Segment| segment.topology.number == wanted.number;
        let Some(segment) = self.segments.iter_mut().find(of_wanted) else { return Ok(None) };
        let leaves = |end: &SutPort| !wanted.has_interface(end.name());
        let Some(index) = segment.ports.iter().position(leaves) else { return Ok(None) };
        segment.ports[index].port.set_leaving(true);
        segment.group()?;
        let capture = Port::remove(segment.ports.remove(index).port);
        segment.topology = wanted.clone();
        segment.group()?;
        self.weigh(wanted)?;
        self.follow_ports()?;
        Ok(capture)
    }

    /// Threads follow the ports that their aggregate has now.
    fn weigh(&mut self, segment: &topology::Segment) -> Result<(), LabError> {
        let name = segment.aggregate.as_deref();
        name.map_or(Ok(()), |name| self.napi.weigh(name, segment.ports.len()))
    }
}
