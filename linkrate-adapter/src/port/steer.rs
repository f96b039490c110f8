//! Which queue a received frame goes to.

use linkrate_terms::Steering;
use linkrate_wire::frame::Headers;
use linkrate_wire::lro::Parts;
use linkrate_wire::toeplitz::{MICROSOFT_KEY, Toeplitz};

use crate::driver::SteeringUpdate;
use crate::frame::WireFrame;
use super::DevicePort;

/// Both ways to steer; the knob says which is asked.
#[derive(Debug)]
pub(crate) struct Steer {
    queues: usize,
    hash: Toeplitz,
}

impl Steer {
    pub(crate) fn new(queues: usize) -> Self {
        Self { queues, hash: Toeplitz::new(&MICROSOFT_KEY) }
    }

    pub(crate) fn learn(&mut self, _update: SteeringUpdate, _now_ns: u64) {}

    pub(crate) fn queue_of_hash(&self, frame: &WireFrame) -> usize {
        let Ok(headers) = Headers::parse_parts(frame.head(), frame.tail().len()) else { return 0 };
        self.hash.hash_frame(frame.head(), &headers).map_or(0, |hash| hash as usize % self.queues)
    }
}

impl DevicePort {
    pub(crate) fn steer(&mut self, frame: &WireFrame, headers: &Headers, _at_ps: u64) -> usize {
        match self.knobs.steering {
            Steering::Off => 0,
            Steering::Rss | Steering::DestinationPort => {
                let hash = self.steer.hash.hash_frame(frame.head(), headers);
                hash.map_or(0, |hash| hash as usize % self.steer.queues)
            }
        }
    }
}
