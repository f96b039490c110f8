//! The Transmit machine: sends what is to be said, at most three PDUs in a fast period
//! (IEEE 802.1AX-2014, 6.4.16).

use std::time::Duration;

use super::event::Action;
use super::port::{Port, periodic};
use crate::control::Lacpdu;
use crate::control::lacp::VERSION;

impl Port {
    /// Sends a PDU if there is need to and the limit permits. Otherwise the need remains.
    pub(super) fn transmit(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.periodic.state == periodic::State::NoPeriodic {
            self.ntt = false;
        }
        if !self.ntt || !self.sent.take(now) {
            return;
        }
        self.ntt = false;
        self.counters.lacpdus_tx += 1;
        let pdu = Lacpdu {
            version: VERSION,
            actor: self.actor,
            partner: self.partner,
            collector_max_delay: 0,
        };
        let frame = pdu.frame(self.settings.address);
        actions.push(Action::Send { port: self.number(), frame });
    }
}
