//! Settings against the adapter: the keys that it has, and the values that its model allows.

use linkrate_model::knobs::{self, Owner};
use linkrate_model::model::LinkKind;
use linkrate_model::spec::Adapter;
use linkrate_model::{Interfaces, Model, Offload, TestbedSpec};

use super::refusal::{Combination, DEFAULT_MTU, refuse};
use super::{Setup, atm};
use crate::bounds::MAX_CLIENTS;

/// The largest 802.3 length less the 8 bytes of LLC and SNAP: the largest packet of such a frame
/// (RFC 1042).
const MAX_SNAP_MTU: u32 = 1492;

/// Whether a key is of a virtual adapter's port or link, which no other interface has.
fn is_of_a_port(key: &str) -> bool {
    matches!(key, "loss" | "merge")
        || knobs::find(key).is_some_and(|knob| !knob.owner.is_of_every_interface())
}

/// Whether a key is a knob of an aggregate.
fn is_of_an_aggregate(key: &str) -> bool {
    knobs::find(key).is_some_and(|knob| knob.owner == Owner::Aggregate)
}

impl Setup {
    /// Completes the setup from the testbed, except on veth: the number of ports of a cell that
    /// does not name it, and the number of clients behind these ports. An aggregate has the same
    /// clients whatever the number of its ports.
    pub fn settle(&mut self, testbed: &TestbedSpec) {
        self.workload.settle();
        if testbed.aggregate > 0 {
            let ports = self.interface.aggregate.aggregate.unwrap_or(testbed.aggregate);
            self.interface.aggregate.aggregate = Some(ports);
            self.ports = Some(ports);
            self.clients = testbed.clients;
        } else if !matches!(testbed.adapter, Adapter::Veth | Adapter::Unknown) {
            let ports = self.ports.unwrap_or(testbed.ports);
            self.ports = Some(ports);
            self.clients = ports.saturating_mul(testbed.clients_per_port);
        }
    }
}

/// Why the testbed does not have `key`, and the remedy; `None` where it has the key.
pub fn misplaced(key: &str, testbed: &TestbedSpec) -> Option<(String, String)> {
    match &testbed.adapter {
        Adapter::Veth | Adapter::Interfaces(_) if key == "adapter" => Some((
            "only virtual adapters can differ between cells".to_owned(),
            "leave it out, or set a model for the adapter of [testbed]".to_owned(),
        )),
        Adapter::Veth if key == "txqueuelen" => Some((
            "a veth pair has no transmit queue".to_owned(),
            "leave it out, or choose a model for the adapter, for example \"gigabit\"".to_owned(),
        )),
        Adapter::Veth if key == "ports" || is_of_a_port(key) => Some((
            format!("a veth pair has no {key}"),
            "leave it out, or choose a model for the adapter, for example \"gigabit\"".to_owned(),
        )),
        Adapter::Model(_) if testbed.aggregate == 0 && is_of_an_aggregate(key) => Some((
            format!("the testbed has no aggregate, which {key} is a knob of"),
            "set aggregate, the number of ports that act as one, in [testbed] or by --aggregate"
                .to_owned(),
        )),
        Adapter::Model(model) if atm::lacks(key, model.link) => Some((
            format!("adapter {} has no ATM connections, which {key} is a knob of", model.name),
            "leave it out, or choose an ATM model for the adapter, for example \"atm-622\""
                .to_owned(),
        )),
        Adapter::Model(_) if testbed.aggregate > 0 && key == "ports" => Some((
            "the ports of an aggregate act as one".to_owned(),
            "set aggregate, the number of these ports".to_owned(),
        )),
        Adapter::Model(_) if testbed.aggregate > 0 && key == "clients" => Some((
            "all cells on an aggregate have the same clients".to_owned(),
            "set clients in [testbed]".to_owned(),
        )),
        Adapter::Model(_) if key == "threaded" => Some((
            "the NAPI threads of virtual adapters are part of the testbed".to_owned(),
            "leave it out, or measure an existing interface or a veth pair".to_owned(),
        )),
        Adapter::Model(model) if key == "clients" => Some((
            format!("on adapter {} the number of clients follows from the ports", model.name),
            "set ports, and clients-per-port of the testbed".to_owned(),
        )),
        Adapter::Interfaces(_) if key == "clients" => Some((
            "on existing interfaces the number of clients follows from the ports".to_owned(),
            "set ports, and list the clients in [testbed] or by --client".to_owned(),
        )),
        Adapter::Interfaces(_) if is_of_a_port(key) => Some((
            format!("linkrate does not set {key} on an existing interface, which keeps its own"),
            "leave it out, or choose a model for the adapter, for example \"gigabit\"".to_owned(),
        )),
        _ => None,
    }
}

/// Refuses what the existing interfaces do not allow.
pub(super) fn check_interfaces(setup: &Setup, interfaces: &Interfaces) -> Result<(), Combination> {
    match setup.ports {
        Some(ports) if ports > interfaces.ports() => {
            let most = interfaces.ports();
            let sentence = format!(
                "ports {ports} is more than the number of interfaces; set at most {most}, or list more \
                 interfaces"
            );
            return refuse("ports", "interface", sentence);
        }
        _ => {}
    }
    match interfaces.program_of_clients().map(|program| program.check(&setup.workload)) {
        Some(Err(error)) => refuse("kind", "clients", error.to_string()),
        Some(Ok(())) | None => Ok(()),
    }
}

/// Refuses what the model does not allow.
pub(super) fn check(
    setup: &Setup,
    model: &Model,
    testbed: &TestbedSpec,
) -> Result<(), Combination> {
    let (knobs, name) = (&setup.interface, &model.name);
    for (key, value, what, most) in [
        ("mtu", knobs.mtu, "maximum", model.max_mtu),
        ("queues", knobs.queues, "maximum", model.queues),
        ("gso-max-size", knobs.gso_max_size, "superframe", model.superframe),
    ] {
        if let Some(value) = value.filter(|value| *value > most) {
            let sentence =
                format!("{key} {value} is above the {what} of adapter {name}; set at most {most}");
            return refuse(key, "adapter", sentence);
        }
    }
    if model.link == LinkKind::Atm {
        atm::check(knobs, model, testbed)?;
    }
    let mtu = knobs.mtu.unwrap_or(DEFAULT_MTU);
    if knobs.port.snap.unwrap_or(model.defaults.snap) && mtu > MAX_SNAP_MTU {
        let sentence = format!(
            "snap on cannot be combined with mtu {mtu}; the length field of an 802.3 frame holds at \
             most {MAX_SNAP_MTU}, and larger packets would go without SNAP, so set mtu to at \
             most {MAX_SNAP_MTU}"
        );
        return refuse("snap", "mtu", sentence);
    }
    if let Some(ports) = knobs.aggregate.aggregate
        && ports > testbed.aggregate
    {
        let sentence = format!(
            "aggregate {ports} is above that of the testbed; set at most {}, or more in [testbed]",
            testbed.aggregate
        );
        return refuse("aggregate", "testbed", sentence);
    }
    if testbed.aggregate > 0
        && knobs.offload == Some(Offload::Tso)
        && knobs.aggregate.aggregate_tso != Some(true)
    {
        let sentence =
            "offload tso needs aggregate-tso on; an aggregate switches TSO off by itself"
                .to_owned();
        return refuse("offload", "aggregate-tso", sentence);
    }
    if setup.clients > MAX_CLIENTS {
        let sentence = format!(
            "ports {} with {} clients each are {} clients; at most {MAX_CLIENTS} are possible",
            setup.ports.unwrap_or(1),
            testbed.clients_per_port,
            setup.clients
        );
        return refuse("ports", "clients-per-port", sentence);
    }
    Ok(())
}
