//! A cable between two ports, back to back.

use linkrate_terms::BitRate;

use super::{Fabric, Flight};
use crate::link::LinkSpec;
use crate::load::Load;

/// Both directions of a cable.
#[derive(Debug, Default)]
pub(crate) struct Cable {
    to: [Flight; 2],
}

impl Fabric for Cable {
    fn attach(&mut self, _port: usize, _link: LinkSpec, _switch: usize) {}

    fn detach(&mut self, port: usize) {
        if let Some(flight) = self.to.get_mut(port) {
            *flight = Flight::default();
        }
    }

    fn set_link(&mut self, _port: usize, _rate: Option<BitRate>, _up: bool) {}

    /// Both directions are of one cable.
    fn cut(&mut self, _port: usize, now_ps: u64) {
        self.to.iter_mut().for_each(|flight| flight.cut(now_ps));
    }

    fn enter(&mut self, from: usize, load: Load, at_ps: u64) {
        if let Some(flight) = self.to.get_mut(1 - from.min(1)) {
            flight.add(at_ps, load);
        }
    }

    fn to(&mut self, to: usize) -> Option<&mut Flight> {
        self.to.get_mut(to)
    }
}
