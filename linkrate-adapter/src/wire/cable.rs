//! A cable between two ports, back to back.

use super::flight::Flight;
use crate::frame::Burst;

/// Both directions of a cable.
#[derive(Debug, Default)]
pub(crate) struct Cable {
    to: [Flight; 2],
}

impl Cable {
    /// Frames that port `from` has sent by `at_ps`.
    pub(crate) fn enter(&mut self, from: usize, burst: Burst, at_ps: u64) {
        if let Some(flight) = self.to.get_mut(1 - from.min(1)) {
            flight.add(at_ps, burst);
        }
    }

    /// Frames on their way to port `to`.
    pub(crate) fn to(&mut self, to: usize) -> Option<&mut Flight> {
        self.to.get_mut(to)
    }
}
