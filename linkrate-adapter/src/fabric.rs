//! What joins ports: a cable, a switch, or two switches.

pub(crate) mod atm_switch;
pub(crate) mod bridged;
pub(crate) mod faults;
mod in_flight;
mod joined;
mod ports;
pub mod router;
mod switch;
pub mod vlans;

use std::fmt;
use std::sync::Arc;

use linkrate_model::{BitRate, topology};
use linkrate_wire::atm::Connection;
use linkrate_wire::link::LinkLaw;

pub(crate) use atm_switch::AtmSwitch;
pub(crate) use bridged::Bridged;
pub(crate) use in_flight::InFlight;
pub(crate) use joined::Joined;
pub(crate) use switch::Switch;
pub use switch::groups::{GroupPort, GroupSpec};

use crate::atm::ArpShared;
use crate::atm::lane::LaneStation;
use crate::counters::{AtmSwitchCounters, ElanCounters, SwitchCounters};
use crate::link::LinkSpec;
use crate::pdu::Pdu;
use atm_switch::servers::ElanSpec;
use bridged::BridgeShared;
use vlans::Vlans;

/// A fabric of this kind, without ports, for links under this law. There is one kind of ATM switch.
pub(crate) fn build(kind: topology::Fabric, law: LinkLaw) -> Box<dyn Fabric> {
    match kind {
        topology::Fabric::Cable => Box::new(Cable::default()),
        topology::Fabric::Bridged if law == LinkLaw::Atm => Box::new(Bridged::default()),
        _ if law == LinkLaw::Atm => Box::new(AtmSwitch::default()),
        topology::Fabric::Switch | topology::Fabric::Bridged => Box::new(Switch::default()),
        topology::Fabric::Switches => Box::new(Joined::by_a_link()),
        topology::Fabric::Router(gateways) => Box::new(Joined::by_a_router(gateways)),
    }
}

pub(crate) fn most_ports(kind: topology::Fabric) -> usize {
    match kind {
        topology::Fabric::Cable => 2,
        topology::Fabric::Switch
        | topology::Fabric::Bridged
        | topology::Fabric::Switches
        | topology::Fabric::Router(_) => usize::MAX,
    }
}

pub(crate) fn switches(kind: topology::Fabric) -> usize {
    match kind {
        topology::Fabric::Cable => 0,
        topology::Fabric::Switch | topology::Fabric::Bridged => 1,
        topology::Fabric::Switches | topology::Fabric::Router(_) => 2,
    }
}

/// An end of a connection: the port of the fabric, and the connection on the link there.
pub type End = (usize, Connection);

/// How a full queue of an ATM switch drops cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Discard {
    /// Early packet discard: a queue that is nearly full takes no cell of a new unit.
    pub early: bool,
    /// Partial packet discard: a unit that has lost a cell loses the others too, except the last one.
    pub partial: bool,
}

/// What only some fabrics do. Groups, ports and switches have numbers.
#[derive(Debug)]
pub(crate) enum FabricCommand {
    /// Makes ports a group that leads to one aggregate, or changes the group.
    SetGroup(usize, GroupSpec),
    /// Makes a port a member of other VLANs, and lets it count there.
    SetVlans(usize, Vlans, Arc<SwitchCounters>),
    /// Lets a switch go silent, or begin again with what it was told of ports, VLANs and groups.
    SetSwitchAlive(usize, bool),
    /// Makes a permanent connection, in both directions.
    Connect(End, End),
    /// Makes emulated LANs with these servers, which count here.
    Emulate(Vec<ElanSpec>, Arc<ElanCounters>),
    /// Makes a bridge between Ethernet ports and an emulated LAN: a client with these addresses, on a link
    /// of this kind.
    Bridge(LaneStation, LinkSpec, Arc<BridgeShared>),
    /// Makes an ATMARP server, which counts there and shows what it knows.
    ServeAddresses(Arc<ArpShared>),
    /// Sets how a full queue before a port drops cells.
    SetDiscard(usize, Discard),
    /// Lets a port count cells there.
    CountCells(usize, Arc<AtmSwitchCounters>),
}

/// What carries frames or cells from port to port. Ports have numbers; a port that is gone leaves its
/// number free.
pub(crate) trait Fabric: fmt::Debug + Send {
    /// Adds a port, which a link of this kind leads to, at switch number `switch` of the fabric.
    fn attach(&mut self, port: usize, link: LinkSpec, switch: usize);

    /// Removes a port and everything on its way to it.
    fn detach(&mut self, port: usize);

    /// The link to a port runs at another rate, or has got or lost its carrier.
    fn set_link(&mut self, port: usize, rate: Option<BitRate>, up: bool);

    /// The link to a port has no carrier from `now_ps` on: frames that have not arrived at either of its
    /// ends are lost.
    fn cut(&mut self, port: usize, now_ps: u64);

    /// Does what not every fabric does; the others ignore it.
    fn control(&mut self, _command: FabricCommand) {}

    /// Takes frames that have left port `from` by `at_ps`.
    fn enter(&mut self, from: usize, pdu: Pdu, at_ps: u64);

    /// Forwards what has come in by `now_ps`. Says whether there was any.
    fn forward(&mut self, _now_ps: u64) -> bool {
        false
    }

    /// When forwarding is worth it again. `when` says it for the frames that came in by one port.
    fn due_ps(&self, _when: &dyn Fn(&InFlight) -> Option<u64>) -> Option<u64> {
        None
    }

    /// Frames on their way to port `to`.
    fn to(&mut self, to: usize) -> Option<&mut InFlight>;
}

/// A cable between two ports, back to back: both directions.
#[derive(Debug, Default)]
pub(crate) struct Cable {
    to: [InFlight; 2],
}

impl Fabric for Cable {
    fn attach(&mut self, _port: usize, _link: LinkSpec, _switch: usize) {}

    fn detach(&mut self, port: usize) {
        if let Some(in_flight) = self.to.get_mut(port) {
            *in_flight = InFlight::default();
        }
    }

    fn set_link(&mut self, _port: usize, _rate: Option<BitRate>, _up: bool) {}

    /// Both directions are of one cable.
    fn cut(&mut self, _port: usize, now_ps: u64) {
        self.to.iter_mut().for_each(|in_flight| in_flight.cut(now_ps));
    }

    fn enter(&mut self, from: usize, pdu: Pdu, at_ps: u64) {
        if let Some(in_flight) = self.to.get_mut(1 - from.min(1)) {
            in_flight.add(at_ps, pdu);
        }
    }

    fn to(&mut self, to: usize) -> Option<&mut InFlight> {
        self.to.get_mut(to)
    }
}
