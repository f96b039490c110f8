//! Silence on the links before a run: nothing that the run before has left takes the link from it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Adapters;

/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The longest wait. The queues of a slow link hold a second of packets.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Octets that a link carries between two polls without being busy: address resolution, protocols of
/// an aggregate.
const FEW_OCTETS: u64 = 4096;

impl Adapters {
    /// Waits until the links are silent. Returns the octets between the last two polls if they are not
    /// after [`MAX_WAIT`].
    pub(crate) fn drain(&self) -> Option<u64> {
        let begun = Instant::now();
        let mut before = self.carried();
        loop {
            sleep(POLL_INTERVAL);
            let now = self.carried();
            let carried = now.wrapping_sub(before);
            if carried <= FEW_OCTETS * self.segments().len() as u64 {
                return None;
            }
            if begun.elapsed() >= MAX_WAIT {
                return Some(carried);
            }
            before = now;
        }
    }

    fn carried(&self) -> u64 {
        self.octets(usize::MAX).map(|(_, octets)| octets).fold(0, u64::wrapping_add)
    }
}
