//! A cable between two ports, back to back.

use linkrate_model::BitRate;

use super::{Fabric, InFlight};
use crate::link::LinkSpec;
use crate::pdu::Pdu;

/// Both directions of a cable.
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
