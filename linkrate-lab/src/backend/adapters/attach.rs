//! The ports of the system under test come to a segment: each with an interface, or as an aggregate.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use linkrate_adapter::{
    Aggregate, Bus, DeviceSpec, DriverThreads, HostSide, PortSpec, Segment as Joined,
};
use linkrate_model::topology::{self, PortEnd};
use linkrate_model::{BitRate, Model};

use super::datagrams::Datagrams;
use super::napi::Napi;
use super::toe::Engine;
use super::{SutPort, address, aggregate, connections};
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
    /// The TCP of the adapters, if they have one.
    pub(super) engine: Option<&'a Engine>,
    /// The threads of the host's receive processing.
    pub(super) napi: &'a mut Napi,
}

impl Making<'_> {
    /// Makes the interfaces that `wanted` describes, limits the datagrams of the host to the rates of
    /// their links, and attaches the ports. The aggregate must outlive them. After an error the ports are gone again.
    pub(super) fn attach(
        self,
        wanted: &topology::Segment,
        joined: &mut Joined,
        sut: &mut Host,
    ) -> Result<(Option<Arc<Aggregate>>, Vec<SutPort>), LabError> {
        let Self { model, drivers, datagrams, buses, engine, napi } = self;
        if DeviceSpec::of(model).is_atm() && wanted.aggregate.is_some() {
            return Err(LabError::Invalid {
                what: format!("adapter {}: ports of ATM adapters cannot act as one", model.name),
                hint: "leave out the aggregate, or choose an Ethernet model".to_owned(),
            });
        }
        let count = wanted.ports.len();
        let aggregate = match &wanted.aggregate {
            Some(name) => {
                let made = aggregate::make(name, model, count, sut, drivers, napi)?;
                made.set_addresses(aggregate::addresses(wanted));
                // packets of the host take any of the links
                let all = model.rate.map(|rate| BitRate(rate.0 * count as f64));
                datagrams.limit(sut, name, model, all)?;
                Some(made)
            }
            None => None,
        };
        let adapters_tcp = match engine {
            Some(engine) if aggregate.is_some() => engine.interface_of_all(wanted, model)?,
            _ => Vec::new(),
        };
        let (mut ports, mut clients) = (Vec::with_capacity(count), Vec::new());
        for (index, (end, bus)) in wanted.ports.iter().zip(buses).enumerate() {
            let PortEnd { number, place, interface } = end;
            let (queues, host) = match &aggregate {
                Some(aggregate) => {
                    let (aggregate, tap) = (Arc::clone(aggregate), adapters_tcp.get(*place));
                    (Vec::new(), HostSide::Aggregate(aggregate, *place, tap.cloned()))
                }
                None => {
                    let queues = napi.tap(sut, interface, model, address(*number, 0))?;
                    datagrams.limit(sut, interface, model, model.rate)?;
                    let drivers = drivers.clone();
                    let host = match engine {
                        Some(engine) => {
                            let tap = Arc::new(engine.interface(wanted, index, model)?);
                            HostSide::Offloading(drivers, tap)
                        }
                        None => HostSide::Drivers(drivers),
                    };
                    (queues, host)
                }
            };
            let spec = spec_of(model, wanted, index, (bus, queues, host));
            match wanted.elans.is_empty() {
                true => ports.push(SutPort { number: *number, port: joined.attach(spec)? }),
                false => clients.push(spec),
            }
        }
        if !clients.is_empty() {
            let numbers = wanted.ports.iter().map(|port| port.number);
            let attached = joined.attach_clients(clients)?.into_iter();
            ports.extend(numbers.zip(attached).map(|(number, port)| SutPort { number, port }));
        }
        for port in &ports {
            napi.place(port.name(), &port.port.driver_threads())?;
        }
        Ok((aggregate, ports))
    }
}

/// The bus of a port, the queues of its interface and the host's side.
type Made = (Option<Arc<Bus>>, Vec<OwnedFd>, HostSide);

/// Attaches port `index` of a segment with its bus, the queues of its interface and the host's side.
pub(super) fn end_of(
    model: &Model,
    wanted: &topology::Segment,
    index: usize,
    made: Made,
    joined: &mut Joined,
) -> Result<SutPort, LabError> {
    let port = joined.attach(spec_of(model, wanted, index, made))?;
    Ok(SutPort { number: wanted.ports[index].number, port })
}

/// What port `index` of a segment is attached with: its bus, the queues of its interface and the host's
/// side.
fn spec_of(
    model: &Model,
    wanted: &topology::Segment,
    index: usize,
    (bus, queues, host): Made,
) -> PortSpec {
    PortSpec {
        queues,
        name: wanted.ports[index].interface.clone(),
        device: connections::of_end(&DeviceSpec::of(model), wanted, index),
        knobs: model.defaults.clone(),
        bus,
        host,
        switch: wanted.switch_of_port(&wanted.ports[index]),
    }
}
