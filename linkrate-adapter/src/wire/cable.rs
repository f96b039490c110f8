//! A cable between two ports, back to back.

use super::flight::Flight;
use crate::frame::WireFrame;

/// Both directions of a cable.
#[derive(Debug, Default)]
pub(crate) struct Cable {
    to: [Flight; 2],
}

impl Cable {
    /// A frame that port `from` has sent by `at_ps`.
    pub(crate) fn enter(&mut self, from: usize, frame: WireFrame, at_ps: u64) {
        if let Some(flight) = self.to.get_mut(1 - from.min(1)) {
            flight.add(at_ps, frame);
        }
    }

    /// Frames on their way to port `to`.
    pub(crate) fn to(&mut self, to: usize) -> Option<&mut Flight> {
        self.to.get_mut(to)
    }
}
