//! Devices: the work of an adapter between its host's interface and its links.
//!
//! A device thread owns its devices and calls them: with frames that arrive, with its clock, and
//! whenever the host may have posted packets. A device has one interface and one or more links. It
//! may send frames of its own and keep timers. [`DeviceSpec`] is the factory: it chooses the device
//! from the model and builds it.

pub(crate) mod atm;
mod host_bus;
mod host_ring;
pub(crate) mod nic;
mod tx_prefetch;

use std::fmt;
use std::sync::Arc;

use linkrate_model::Model;
use linkrate_model::model::LinkKind;

use crate::bus::Bus;
use crate::clock::DeviceClock;
use crate::fabric::InFlight;
use crate::interface::{Interface, RingSizes};
use crate::link::{Link, LinkSpec};
use crate::pdu::Pdu;
use crate::port_shared::PortShared;
use atm::{Atm, AtmLimits};
use nic::{Nic, NicLimits};

/// The kind of a device, with its abilities. A new kind of device is a variant.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceSpec {
    /// An Ethernet adapter's port.
    Nic(NicLimits),
    /// An ATM adapter's port.
    Atm(AtmLimits),
}

impl DeviceSpec {
    /// The device of each port of a model.
    #[must_use]
    pub fn of(model: &Model) -> Self {
        match model.link {
            LinkKind::Ethernet => Self::Nic(NicLimits::of(model)),
            LinkKind::Atm => Self::Atm(AtmLimits::of(model)),
        }
    }

    /// The device at a client's end of a link to such a device. A client must not be the limit: it
    /// sends the largest superframes that there are.
    #[must_use]
    pub fn peer(self) -> Self {
        match self {
            Self::Nic(limits) => Self::Nic(limits.peer()),
            Self::Atm(limits) => Self::Atm(limits),
        }
    }

    #[must_use]
    pub fn is_atm(&self) -> bool {
        matches!(self, Self::Atm(_))
    }

    /// Connections that its TCP offload engine holds.
    pub(crate) fn most_connections(&self) -> usize {
        match self {
            Self::Nic(limits) => limits.connections,
            Self::Atm(_) => 0,
        }
    }

    /// Its links, by their numbers.
    pub(crate) fn links(&self) -> Vec<LinkSpec> {
        match self {
            Self::Nic(limits) => vec![limits.link],
            Self::Atm(limits) => vec![limits.link],
        }
    }

    pub(crate) fn rings(&self) -> RingSizes {
        match self {
            Self::Nic(limits) => limits.rings,
            Self::Atm(limits) => limits.rings,
        }
    }

    pub(crate) fn build(self, mount: Mount) -> Box<dyn Device> {
        match self {
            Self::Nic(limits) => Box::new(Nic::new(limits, mount)),
            Self::Atm(limits) => Box::new(Atm::new(limits, mount)),
        }
    }
}

/// The place of a new device: everything that it works with and does not make itself.
#[derive(Debug)]
pub(crate) struct Mount {
    /// What it shares with everyone who looks at its port. Its links are in there.
    pub(crate) shared: Arc<PortShared>,
    /// The host's side.
    pub(crate) interface: Interface,
    pub(crate) bus: Option<Arc<Bus>>,
    pub(crate) clock: DeviceClock,
}

/// Where a device puts frames: the number of its link, the frames or cells, and the time at which their last
/// bit is on the link.
pub(crate) type FrameSink<'a> = dyn FnMut(usize, Pdu, u64) + 'a;

/// A device. Links have numbers, from 0.
pub(crate) trait Device: fmt::Debug + Send {
    /// Takes up changed settings, and acknowledges the settings that the device works with from then
    /// on. Calls `other_rate` for each link whose rate has changed.
    fn refresh(&mut self, other_rate: &mut dyn FnMut(usize, &Link));

    /// Sends what the host has posted, as far ahead as the links' FIFOs reach. Says whether
    /// anything was sent.
    fn transmit(&mut self, now_ps: u64, out: &mut FrameSink<'_>) -> bool;

    /// Takes frames or cells whose last bit came in by link number `link` at `at_ps`.
    fn receive(&mut self, link: usize, pdu: Pdu, at_ps: u64, now_ps: u64);

    /// Does everything that is due by `now_ps`: interrupts, completions, timers, and frames of the
    /// device's own. Says whether anything was due.
    fn poll(&mut self, now_ps: u64, out: &mut FrameSink<'_>) -> bool;

    /// When the device must be called again if nothing arrives and nothing is posted. To be asked
    /// once the device thread has said that it will sleep.
    fn due_ps(&mut self, now_ps: u64) -> Option<u64>;

    /// When frames that arrive by a link must be taken: their host sees them with its next
    /// interrupt, and not before.
    fn arrival_due_ps(&self, link: usize, in_flight: &InFlight) -> Option<u64>;

    fn interface(&mut self) -> &mut Interface;

    /// The links, by their numbers.
    fn links(&self) -> &[Link];
}

#[cfg(test)]
mod tests;
