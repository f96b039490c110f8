//! The links of a port as the controller sees them, each with the port of the fabric that it leads
//! to.

use std::sync::{Arc, Mutex, PoisonError};

use linkrate_model::BitRate;
use linkrate_sys::error::SysResult;

use super::Port;
use crate::AdapterError;
use crate::counters::SwitchCounters;
use crate::fabric::FabricCommand;
use crate::fabric::vlans::Vlans;
use crate::link::LinkShared;

/// A port of a switch, as the controller knows it.
#[derive(Debug)]
pub(super) struct SwitchEnd {
    /// Its number at the switch.
    pub(super) number: usize,
    vlans: Mutex<Vlans>,
    pub(super) counters: Arc<SwitchCounters>,
}

impl SwitchEnd {
    pub(super) fn new(number: usize) -> Self {
        Self { number, vlans: Mutex::default(), counters: Arc::default() }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct PortLink<'a> {
    pub(super) port: &'a Port,
    pub(super) number: usize,
}

impl<'a> PortLink<'a> {
    /// Its number at the port.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its law, state, rate and counters.
    #[must_use]
    pub fn shared(&self) -> &'a LinkShared {
        &self.port.shared.links[self.number]
    }

    /// Takes the link down or up. The host's interface has a carrier while any link of its port is up. Fails when
    /// the TAP is gone.
    pub fn set_up(&self, up: bool) -> SysResult<()> {
        self.shared().set_up(up);
        self.port.thread.doorbell.ring();
        if let Some((aggregate, _)) = &self.port.member_of {
            aggregate.notify();
        }
        let shared = &self.port.shared;
        shared.interface.set_carrier(shared.links.iter().any(|link| link.is_up()))
    }

    /// Lets the link run at another rate, as after a new negotiation. Both ends of a cable should
    /// have the same rate.
    pub fn set_rate(&self, rate: BitRate) {
        self.shared().set_rate(rate);
        self.port.thread.doorbell.ring();
        if let Some((aggregate, _)) = &self.port.member_of {
            aggregate.notify();
        }
    }

    /// The VLANs of the switch's port that it leads to; `None` on a cable.
    #[must_use]
    pub fn vlans(&self) -> Option<Vlans> {
        let end = self.port.switch.get(self.number)?;
        Some(end.vlans.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Makes the switch's port that it leads to a member of other VLANs, while traffic flows. Fails on a cable, or
    /// when the device thread has ended.
    pub fn set_vlans(&self, vlans: Vlans) -> Result<(), AdapterError> {
        let no_switch = || AdapterError::NoSwitch { name: self.port.name().to_owned() };
        let end = self.port.switch.get(self.number).ok_or_else(no_switch)?;
        let counters = Arc::clone(&end.counters);
        let command = FabricCommand::SetVlans(end.number, vlans.clone(), counters);
        self.port.thread.in_segment(self.port.place.segment, move |segment| {
            segment.fabric().control(command);
        })?;
        *end.vlans.lock().unwrap_or_else(PoisonError::into_inner) = vlans;
        Ok(())
    }
}
