//! The backend a testbed stands on: veth pairs, virtual adapters, or existing interfaces.
//!
//! `Backend::build` is the only place that looks at the adapter of a
//! [`TestbedSpec`]. Studies and labs that stay up put the same questions to the backend: set knobs,
//! read them back, collect evidence and facts.

pub mod adapters;
pub mod existing;
mod namespaces;
pub mod veth;

use std::collections::{BTreeMap, BTreeSet};

use linkrate_adapter::ReorderingCount;
use linkrate_model::measurement::{AdapterEvidence, LinkEvidence};
use linkrate_model::spec::Adapter;
use linkrate_model::topology::Topology;
use linkrate_model::{InterfaceKnobs, RunSpec, TestbedSpec};
use linkrate_protocol::bounds;
use linkrate_study::validity::{RateSeen, Rescheduled, Strayed};
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::sched::ThreadId;

use crate::connection::AgentError;
use crate::error::LabError;
use crate::host::{Client, Host};
use crate::options::LabOptions;
use crate::participants::Participants;
use crate::peer::{Namespaces, PeerServer};
use crate::placement::Placement;

pub use adapters::Adapters;
pub use existing::Existing;
pub(crate) use namespaces::add;
pub use veth::Veth;

#[derive(Debug)]
pub enum Backend {
    /// A veth pair for each client.
    Veth(Veth),
    Adapters(Box<Adapters>),
    /// Interfaces of the host that linkrate did not create.
    Existing(Existing),
}

/// Hosts on their backend: started, joined and addressed.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) backend: Backend,
    pub(crate) sut: Host,
    pub(crate) clients: Vec<Client>,
    /// Third-party programs in their place.
    pub(crate) programs: Vec<PeerServer>,
    /// The namespaces of the hosts; `None` where the hosts keep those of the machine.
    pub(crate) namespaces: Option<Namespaces>,
    pub(crate) receive_steering: ReceiveSteering,
}

/// Threads of linkrate that carry packets.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    pub(crate) drivers: BTreeSet<ThreadId>,
    pub(crate) devices: BTreeSet<ThreadId>,
}

/// How long before an edge of a measurement the reader of the adapters is awake. Agents on the same CPU wake up at the edge,
/// and their readings take milliseconds: the flows have ended by then, and links would seem idle for that time.
const AWAKE_NS: u64 = 60_000;

impl Backend {
    /// Builds the backend that `spec` asks for, with the hosts on it.
    pub(crate) fn build(
        spec: &TestbedSpec,
        topology: &Topology,
        placement: &Placement,
        options: &LabOptions,
    ) -> Result<Built, LabError> {
        match &spec.adapter {
            Adapter::Veth => {
                let veth = Veth::new(spec.queues);
                namespaces::build(veth, Self::Veth, topology, placement, options)
            }
            Adapter::Model(model) => {
                let adapters = Adapters::new(model.as_ref().clone().scaled(spec.scale));
                namespaces::build(
                    adapters,
                    |adapters| Self::Adapters(Box::new(adapters)),
                    topology,
                    placement,
                    options,
                )
            }
            Adapter::Interfaces(on) => existing::build(spec, on, topology, placement, options),
            Adapter::Unknown => Err(LabError::Invalid {
                what: "the testbed of imported runs is not known".to_owned(),
                hint: "measure with a study file: linkrate run".to_owned(),
            }),
        }
    }

    pub fn adapters(&self) -> Option<&Adapters> {
        match self {
            Self::Adapters(adapters) => Some(adapters),
            Self::Veth(_) | Self::Existing(_) => None,
        }
    }

    /// Sets knobs on the SUT's interfaces that lead to the clients in `hosts`, and at the peers
    /// the knobs that go with them. A knob that `asked` leaves out returns to its first value.
    /// Returns the knobs as read back. Fails where they differ from the request or between interfaces.
    pub(crate) fn set_knobs(
        &self,
        hosts: &mut Participants<'_>,
        asked: &InterfaceKnobs,
    ) -> Result<EffectiveKnobs, LabError> {
        for (number, client) in hosts.clients.iter_mut().enumerate() {
            let knobs = self.peer_knobs(number, asked);
            client.host.set_knobs(std::slice::from_ref(&client.interface), knobs)?;
        }
        let interfaces = hosts.sut_interfaces();
        let effective = match self {
            Self::Veth(_) => hosts.sut.set_knobs(&interfaces, asked.clone())?,
            Self::Adapters(adapters) => adapters.set_knobs(hosts.sut, &interfaces, asked)?,
            Self::Existing(_) => {
                let effective = hosts.sut.set_knobs(&interfaces, asked.clone())?;
                existing::await_links(hosts)?;
                effective
            }
        };
        EffectiveKnobs::checked(asked, effective)
    }

    /// The knobs of the interface of client `number` that go with `asked` at the SUT's: the same
    /// MTU, and where the peer is a veth that hands superframes over whole, their segmentation
    /// in software when GRO is asked for, from superframes as large as those that GRO may merge. GRO would
    /// otherwise have nothing to merge.
    fn peer_knobs(&self, number: usize, asked: &InterfaceKnobs) -> InterfaceKnobs {
        let (queues, is_veth) = match self {
            Self::Veth(_) => (asked.queues, true),
            Self::Adapters(_) => (None, false),
            Self::Existing(existing) => (None, existing.is_veth(number)),
        };
        InterfaceKnobs {
            mtu: asked.mtu,
            queues,
            offload: asked.gro.filter(|_| is_veth).map(|_| linkrate_model::Offload::Gso),
            gso_max_size: asked.gro_max_size.filter(|_| is_veth),
            ..InterfaceKnobs::default()
        }
    }

    /// Reads the knobs of one of the SUT's interfaces.
    pub(crate) fn read_knobs(
        &self,
        sut: &mut Host,
        interface: &str,
    ) -> Result<InterfaceKnobs, LabError> {
        let kernel = sut.read_knobs(interface)?;
        match self {
            Self::Veth(_) | Self::Existing(_) => Ok(kernel),
            Self::Adapters(adapters) => adapters.with_port_knobs(interface, kernel),
        }
    }

    /// Waits until all ports that act as one carry traffic. An error has the ports that do not, with their reasons.
    pub(crate) fn await_ports(&self) -> Result<(), LabError> {
        self.adapters().map_or(Ok(()), Adapters::await_ports)
    }

    /// Lets ports of which one carries traffic begin as if none had ever failed, and waits for all ports.
    pub(crate) fn begin_anew(&self) -> Result<(), LabError> {
        self.adapters().map_or(Ok(()), Adapters::begin_anew)
    }

    /// The Ethernet addresses of the SUT and of the peer in the frames of client `client`'s flows;
    /// `None` unless an aggregate leads to it.
    pub(crate) fn flow_macs(&self, client: usize) -> Option<(String, String)> {
        self.adapters()?.flow_macs(client)
    }

    /// The number of destination ports for a run's connections: an adapter that steers by destination
    /// port treats connections to one port alike.
    pub(crate) fn listeners(&self, run: &RunSpec, flows: u64) -> u32 {
        match self {
            Self::Adapters(adapters) if adapters.steers_by_port(run) => {
                bounds::LISTENERS.min(u32::try_from(flows.max(1)).unwrap_or(u32::MAX))
            }
            Self::Adapters(_) | Self::Veth(_) | Self::Existing(_) => 1,
        }
    }

    /// The evidence of the first `ports` ports of virtual adapters from `start_ns` to `end_ns`; waits
    /// with `sleep_until`.
    pub(crate) fn evidence(
        &self,
        ports: usize,
        (start_ns, end_ns): (u64, u64),
        sleep_until: impl Fn(u64) -> Result<(), AgentError>,
    ) -> Result<Option<AdapterEvidence>, AgentError> {
        let Some(adapters) = self.adapters() else { return Ok(None) };
        let order = adapters.watch_reordering();
        let read_at = |edge_ns: u64| -> Result<_, AgentError> {
            sleep_until(edge_ns.saturating_sub(AWAKE_NS))?;
            while monotonic_ns() < edge_ns {
                std::hint::spin_loop();
            }
            Ok((adapters.read(), order.as_ref().map(ReorderingCount::late)))
        };
        let (opened, late_before) = read_at(start_ns)?;
        let (closed, late) = read_at(end_ns)?;
        let frames_overtaken = late.zip(late_before).map(|(late, before)| late - before);
        let evidence = adapters.evidence(&opened, &closed, ports);
        Ok(Some(AdapterEvidence { frames_overtaken, ..evidence }))
    }

    /// The links of existing interfaces, none of which may be down; empty where linkrate makes the links.
    pub(crate) fn links(
        &self,
        hosts: &mut Participants<'_>,
    ) -> Result<Vec<LinkEvidence>, LabError> {
        match self {
            Self::Existing(_) => existing::links(hosts),
            Self::Veth(_) | Self::Adapters(_) => Ok(Vec::new()),
        }
    }

    /// The links of the first `ports` ports beside their model's rate.
    pub(crate) fn rates(&self, ports: usize) -> Vec<RateSeen> {
        self.adapters().map(|adapters| adapters.rates(ports)).unwrap_or_default()
    }

    /// The threads of adapters that may run on other CPUs than their own.
    pub(crate) fn strayed(&self, placement: &Placement) -> Vec<Strayed> {
        self.adapters().map(|adapters| adapters.strayed(placement)).unwrap_or_default()
    }

    /// The threads whose policy or nice value somebody has changed.
    pub(crate) fn rescheduled(&self) -> Vec<Rescheduled> {
        self.adapters().map(Adapters::rescheduled).unwrap_or_default()
    }

    /// A part of the backend that has ended by itself, with the reason.
    pub(crate) fn broken(&self) -> Option<String> {
        self.adapters()?.broken()
    }

    pub(crate) fn threads(&self) -> Threads {
        self.adapters().map(Adapters::threads).unwrap_or_default()
    }

    /// Facts that travel with results, as (name, value).
    pub(crate) fn facts(&self, clients: &[Client]) -> Vec<(String, String)> {
        match self {
            Self::Existing(existing) => existing.facts(clients),
            Self::Adapters(adapters) => adapters.facts(),
            Self::Veth(_) => Vec::new(),
        }
    }

    /// Limits of this backend that a reader must know, as sentences.
    pub(crate) fn warnings(&self) -> Vec<String> {
        match self {
            Self::Existing(existing) => existing.warnings().to_vec(),
            Self::Adapters(adapters) => adapters.warnings(),
            Self::Veth(_) => Vec::new(),
        }
    }
}

/// Where the packets that an interface receives are processed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiveSteering {
    /// On the CPUs of the receiving host, by RPS.
    Rps,
    /// On the CPUs of the receiving host, in NAPI threads of the kernel that were placed there.
    Napi,
    /// On the CPUs of the receiving host, in the driver threads of virtual adapters, because there are no NAPI threads for
    /// this reason.
    Drivers(String),
    /// All hosts run on the same CPUs; nothing to steer.
    NotNeeded,
    /// Each host has every CPU of its machine; nothing to steer.
    WholeMachines,
    /// On the CPUs of the receiving host, to which the interrupts of its adapters were moved.
    Interrupts,
    /// On the CPU of the sender, for this reason.
    Unavailable(String),
}

impl ReceiveSteering {
    /// The fact that travels with results.
    pub(crate) fn fact(&self) -> String {
        let fact = match self {
            Self::Rps => "receive packet steering to the CPUs of the receiving host",
            Self::Napi => "in NAPI threads, on the CPUs of the receiving host",
            Self::Drivers(why) => {
                return format!("in the driver threads, on the CPUs of the receiving host: {why}");
            }
            Self::NotNeeded => "not steered: all on the same CPUs",
            Self::WholeMachines => "not steered: hosts have all CPUs of their machines",
            Self::Interrupts => "interrupts of adapters on the CPUs of the receiving host",
            Self::Unavailable(_) => "not steered: on the CPU of the sender",
        };
        fact.to_owned()
    }
}

/// The knobs of each of the SUT's interfaces that took part, as read back after they were set.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveKnobs(BTreeMap<String, InterfaceKnobs>);

impl EffectiveKnobs {
    /// Accepts the knobs that read back after `asked` was set: each interface must have the
    /// requested values, and all interfaces must have the same values.
    pub(crate) fn checked(
        asked: &InterfaceKnobs,
        effective: BTreeMap<String, InterfaceKnobs>,
    ) -> Result<Self, LabError> {
        for (interface, knobs) in &effective {
            as_requested(asked, interface, knobs)?;
        }
        let mut all = effective.iter();
        if let Some(first) = all.next() {
            all.try_for_each(|other| alike(first, other))?;
        }
        Ok(Self(effective))
    }

    /// The knobs that every interface has.
    pub fn common(&self) -> InterfaceKnobs {
        self.0.values().next().cloned().unwrap_or_default()
    }
}

/// The values of knobs by key.
fn values(knobs: &InterfaceKnobs) -> BTreeMap<&'static str, String> {
    knobs.values().into_iter().collect()
}

fn as_requested(
    asked: &InterfaceKnobs,
    interface: &str,
    effective: &InterfaceKnobs,
) -> Result<(), LabError> {
    let (wanted, now) = (values(asked), values(effective));
    let Some((knob, wanted)) = wanted.iter().find(|(knob, value)| now.get(*knob) != Some(*value))
    else {
        return with_gro(asked, interface, effective);
    };
    let is = now.get(knob).map_or("unknown", String::as_str);
    Err(LabError::Invalid {
        what: format!("knob \"{knob}\" of {interface}: requested {wanted}, effective is {is}"),
        hint: "the device did not apply the knob; leave it out, or measure on another adapter"
            .to_owned(),
    })
}

/// Refuses kinds of GRO where there is none.
fn with_gro(
    asked: &InterfaceKnobs,
    interface: &str,
    effective: &InterfaceKnobs,
) -> Result<(), LabError> {
    let kinds = [("gro-list", asked.gro_list), ("udp-gro-forwarding", asked.udp_gro_forwarding)];
    let asked = kinds.into_iter().find(|(_, on)| *on == Some(true));
    match asked.filter(|_| effective.gro == Some(false)) {
        None => Ok(()),
        Some((knob, _)) => Err(LabError::Invalid {
            what: format!("knob \"{knob}\" of {interface}: it has no effect, because gro is off"),
            hint: "switch gro on, too".to_owned(),
        }),
    }
}

fn alike(
    (first, of_first): (&String, &InterfaceKnobs),
    (other, of_other): (&String, &InterfaceKnobs),
) -> Result<(), LabError> {
    let (of_first, of_other) = (values(of_first), values(of_other));
    let knobs = of_first.keys().chain(of_other.keys());
    let Some(knob) = knobs.copied().find(|knob| of_first.get(knob) != of_other.get(knob)) else {
        return Ok(());
    };
    let value =
        |of: &BTreeMap<&str, String>| of.get(knob).map_or("unknown", String::as_str).to_owned();
    Err(LabError::Invalid {
        what: format!(
            "knob \"{knob}\" of {other}: not requested, effective is {}; {first} has {}",
            value(&of_other),
            value(&of_first)
        ),
        hint: format!("set {knob} for the run, or give all interfaces the same value"),
    })
}

#[cfg(test)]
mod tests {
    use linkrate_model::Offload;
    use linkrate_model::knobs::PortRequest;

    use super::*;

    fn checked(
        asked: &InterfaceKnobs,
        effective: &[(&str, InterfaceKnobs)],
    ) -> Result<InterfaceKnobs, String> {
        let effective =
            effective.iter().map(|(name, knobs)| ((*name).to_owned(), knobs.clone())).collect();
        EffectiveKnobs::checked(asked, effective)
            .map(|knobs| knobs.common())
            .map_err(|error| error.to_string())
    }

    fn gro(on: bool) -> InterfaceKnobs {
        InterfaceKnobs { gro: Some(on), mtu: Some(1500), ..InterfaceKnobs::default() }
    }

    #[test]
    fn interfaces_that_have_what_was_requested_are_accepted() {
        let asked = InterfaceKnobs { gro: Some(true), ..InterfaceKnobs::default() };
        let effective = [("eth0", gro(true)), ("eth1", gro(true))];
        assert_eq!(checked(&asked, &effective), Ok(gro(true)));
        assert_eq!(checked(&asked, &[]), Ok(InterfaceKnobs::default()));
    }

    #[test]
    fn an_interface_that_differs_from_the_request_is_named() {
        let asked = InterfaceKnobs { gro: Some(true), ..InterfaceKnobs::default() };
        // neither the first nor the last
        let effective = [("eth0", gro(true)), ("eth1", gro(false)), ("eth2", gro(true))];
        let said = "knob \"gro\" of eth1: requested on, effective is off";
        assert_eq!(checked(&asked, &effective).unwrap_err(), said);
        let lro = PortRequest { lro: Some(true), ..PortRequest::default() };
        let asked = InterfaceKnobs { port: lro, ..InterfaceKnobs::default() };
        let said = "knob \"lro\" of eth0: requested on, effective is unknown";
        assert_eq!(checked(&asked, &[("eth0", gro(true))]).unwrap_err(), said);
    }

    #[test]
    fn a_kind_of_gro_without_gro_is_refused() {
        let forwarding = |on: bool| InterfaceKnobs { udp_gro_forwarding: Some(true), ..gro(on) };
        let list = |on: bool| InterfaceKnobs { gro_list: Some(true), ..gro(on) };
        for (knob, of) in [
            ("udp-gro-forwarding", &forwarding as &dyn Fn(bool) -> InterfaceKnobs),
            ("gro-list", &list),
        ] {
            let asked = InterfaceKnobs { gro: None, mtu: None, ..of(true) };
            assert_eq!(checked(&asked, &[("eth0", of(true))]), Ok(of(true)));
            let said = format!("knob \"{knob}\" of eth0: it has no effect, because gro is off");
            assert_eq!(checked(&asked, &[("eth0", of(false))]).unwrap_err(), said);
        }
    }

    #[test]
    fn an_interface_that_differs_from_the_others_is_named() {
        let asked = InterfaceKnobs { mtu: Some(1500), ..InterfaceKnobs::default() };
        let effective = [("eth0", gro(true)), ("eth1", gro(false))];
        let said = "knob \"gro\" of eth1: not requested, effective is off; eth0 has on";
        assert_eq!(checked(&asked, &effective).unwrap_err(), said);
        let more = InterfaceKnobs { offload: Some(Offload::Tso), ..gro(true) };
        let effective = [("eth0", gro(true)), ("eth1", more)];
        let said = "knob \"offload\" of eth1: not requested, effective is tso; eth0 has unknown";
        assert_eq!(checked(&asked, &effective).unwrap_err(), said);
    }
}
