//! Ports of a segment become an aggregate, or interfaces of their own again, while the lab is up.
//!
//! The host's side of a port is decided when the port is attached. So the ports of the system under test
//! are detached and attached anew; their clients, the fabric and its other ports stay.

use std::sync::Arc;

use linkrate_adapter::{CaptureEnding, DeviceSpec, HostSide, LinkLaw, Port, PortSpec};
use linkrate_terms::topology::{self, RegroupError};
use linkrate_terms::{AggregateKnobs, BitRate};

use super::{Adapters, SutPort, address, aggregate, tap};
use crate::error::LabError;
use crate::host::Host;

impl Adapters {
    /// Whether the ports of a segment have links of one rate.
    ///
    /// # Errors
    /// Two ports with different rates.
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

    /// Attaches the ports of the system under test on a segment anew, as `wanted` describes them: as
    /// an aggregate, or each with an interface. Returns the captures that were on.
    ///
    /// # Errors
    /// A step that failed. The segment has then lost ports; it can be removed.
    pub(crate) fn regroup(
        &mut self,
        wanted: &topology::Segment,
        sut: &mut Host,
    ) -> Result<Vec<CaptureEnding>, LabError> {
        let device = DeviceSpec::of(&self.model);
        let law = LinkLaw::of(&self.model);
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
        let count = wanted.ports.len();
        if let Some(name) = &wanted.aggregate {
            let made = aggregate::make(name, &self.model, count, sut, drivers)?;
            let all = self.model.rate.map(|rate| BitRate(rate.0 * count as f64));
            self.datagrams.limit(sut, name, law, all)?;
            segment.aggregate = Some(made);
        }
        for (index, (end, bus)) in wanted.ports.iter().zip(buses).enumerate() {
            let (queues, host) = match &segment.aggregate {
                Some(aggregate) => (Vec::new(), HostSide::Aggregate(Arc::clone(aggregate), index)),
                None => {
                    let queues = tap(
                        sut,
                        &end.interface,
                        &self.model,
                        self.model.queues,
                        address(end.number, 0),
                    )?;
                    self.datagrams.limit(sut, &end.interface, law, self.model.rate)?;
                    (queues, HostSide::Drivers(drivers.clone()))
                }
            };
            let port = segment.joined.attach(PortSpec {
                name: end.interface.clone(),
                queues,
                device: device.clone(),
                knobs: self.model.defaults.clone(),
                bus,
                host,
                switch: wanted.switch_of_port(index),
            })?;
            segment.ports.push(SutPort { number: end.number, port });
        }
        segment.topology = wanted.clone();
        match &segment.aggregate {
            Some(aggregate) => {
                let knobs = aggregate.applied_knobs()?;
                segment.undivide()?;
                segment.follow(&knobs)?;
            }
            None if count > 1 => segment.divide()?,
            None => {}
        }
        Ok(captures)
    }
}
