//! The ports of the system under test come to a segment: each with an interface, or as an aggregate.

use std::sync::Arc;

use linkrate_adapter::{
    Aggregate, Bus, DeviceSpec, DriverThreads, HostSide, LinkLaw, PortSpec, Segment as Joined,
};
use linkrate_terms::topology::{self, PortEnd};
use linkrate_terms::{BitRate, Model};

use super::datagrams::Datagrams;
use super::{SutPort, address, aggregate, connections, tap};
use crate::error::LabError;
use crate::host::Host;

/// What the ports of a segment are made with.
#[derive(Debug)]
pub(super) struct Making<'a> {
    pub(super) model: &'a Model,
    pub(super) drivers: &'a DriverThreads,
    pub(super) datagrams: &'a mut Datagrams,
    /// The bus of each port, if its model has one.
    pub(super) buses: Vec<Option<Arc<Bus>>>,
}

impl Making<'_> {
    /// Makes the interfaces that `wanted` describes, limits the datagrams of the host to the rates of
    /// their links, and attaches the ports. The aggregate must outlive them.
    ///
    /// # Errors
    /// A step that failed. The ports before it are gone again.
    pub(super) fn attach(
        self,
        wanted: &topology::Segment,
        joined: &mut Joined,
        sut: &mut Host,
    ) -> Result<(Option<Arc<Aggregate>>, Vec<SutPort>), LabError> {
        let Self { model, drivers, datagrams, buses } = self;
        let device = DeviceSpec::of(model);
        if device.is_atm() && wanted.aggregate.is_some() {
            return Err(LabError::Invalid {
                what: format!("adapter {}: ports of ATM adapters cannot act as one", model.name),
                hint: "leave out the aggregate, or choose an Ethernet model".to_owned(),
            });
        }
        let law = LinkLaw::of(model);
        let count = wanted.ports.len();
        let aggregate = match &wanted.aggregate {
            Some(name) => {
                let made = aggregate::make(name, model, count, sut, drivers)?;
                made.set_addresses(aggregate::addresses(wanted));
                // packets of the host take any of the links
                let all = model.rate.map(|rate| BitRate(rate.0 * count as f64));
                datagrams.limit(sut, name, law, all)?;
                Some(made)
            }
            None => None,
        };
        let mut ports = Vec::with_capacity(count);
        for (index, (end, bus)) in wanted.ports.iter().zip(buses).enumerate() {
            let PortEnd { number, interface } = end;
            let (queues, host) = match &aggregate {
                Some(aggregate) => (Vec::new(), HostSide::Aggregate(Arc::clone(aggregate), index)),
                None => {
                    let queues = tap(sut, interface, model, model.queues, address(*number, 0))?;
                    datagrams.limit(sut, interface, law, model.rate)?;
                    (queues, HostSide::Drivers(drivers.clone()))
                }
            };
            let port = joined.attach(PortSpec {
                queues,
                name: interface.clone(),
                device: connections::of_end(&device, wanted, index),
                knobs: model.defaults.clone(),
                bus,
                host,
                switch: wanted.switch_of_port(index),
            })?;
            ports.push(SutPort { number: *number, port });
        }
        Ok((aggregate, ports))
    }
}
