//! The settings of a port or of an aggregate: the requested settings, and the applied settings.
//!
//! A request is not an effect. The device of a port, or the driver of an aggregate, takes a request up
//! in its next turn, and acknowledges the settings that it works with from then on. A reader gets the
//! acknowledged settings, and never the requested settings.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linkrate_model::PortKnobs;

/// How long a device may take to apply a request. It takes some milliseconds on a busy CPU.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time between two checks whether the thread of the device has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Settings of type `K`.
#[derive(Debug)]
pub struct Settings<K = PortKnobs> {
    requested: Mutex<K>,
    /// The number of the latest request.
    requests: AtomicU64,
    applied: Mutex<Applied<K>>,
    acknowledged: Condvar,
}

#[derive(Debug)]
struct Applied<K> {
    /// The number of the request that was answered.
    request: u64,
    knobs: K,
}

/// A device that did not answer a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the device did not acknowledge its settings")]
pub struct NotAcknowledged;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // a holder that panicked left a whole value: it is only ever replaced
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Clone + Default> Default for Settings<K> {
    fn default() -> Self {
        Self::new(K::default())
    }
}

impl<K: Clone> Settings<K> {
    pub(crate) fn new(knobs: K) -> Self {
        Self {
            requested: Mutex::new(knobs.clone()),
            requests: AtomicU64::new(1),
            applied: Mutex::new(Applied { request: 0, knobs }),
            acknowledged: Condvar::new(),
        }
    }

    /// Requests settings, while traffic flows.
    pub(crate) fn request(&self, knobs: K) {
        let mut requested = lock(&self.requested);
        *requested = knobs;
        // inside the lock: a device that sees the number and then locks also sees the knobs
        self.requests.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn latest(&self) -> u64 {
        self.requests.load(Ordering::Acquire)
    }

    /// The latest request and its number. For the device.
    pub(crate) fn requested(&self) -> (u64, K) {
        let requested = lock(&self.requested);
        (self.latest(), requested.clone())
    }

    /// The device answers request number `request`: it works with `knobs` from here on.
    pub(crate) fn acknowledge(&self, request: u64, knobs: K) {
        *lock(&self.applied) = Applied { request, knobs };
        self.acknowledged.notify_all();
    }

    /// The settings that the device works with, once it has answered the latest request. `ended` says whether its
    /// thread has ended, so that the wait ends too. Fails when its thread has ended, or starves for some seconds.
    pub fn applied(&self, ended: impl Fn() -> bool) -> Result<K, NotAcknowledged> {
        let (latest, deadline) = (self.latest(), Instant::now() + TIMEOUT);
        let mut applied = lock(&self.applied);
        while applied.request < latest {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || ended() {
                return Err(NotAcknowledged);
            }
            let waited = self.acknowledged.wait_timeout(applied, left.min(POLL_INTERVAL));
            applied = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(applied.knobs.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_reader_gets_the_answer_of_the_device() {
        let settings = Settings::new(PortKnobs::default());
        let (first, _) = settings.requested();
        settings.acknowledge(first, PortKnobs::default());
        settings.request(PortKnobs { lro: true, ..PortKnobs::default() });
        let (second, requested) = settings.requested();
        assert!(second > first && requested.lro);
        // a device that applies something else
        settings.acknowledge(second, PortKnobs { lro: false, rx_usecs: 64, ..requested });
        let applied = settings.applied(|| false).unwrap();
        assert_eq!((applied.lro, applied.rx_usecs), (false, 64));
    }

    #[test]
    fn a_reader_waits_for_the_answer_to_the_latest_request() {
        let settings = Arc::new(Settings::new(PortKnobs::default()));
        settings.request(PortKnobs { snap: true, ..PortKnobs::default() });
        let reader = std::thread::spawn({
            let settings = Arc::clone(&settings);
            move || settings.applied(|| false).unwrap().snap
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!reader.is_finished());
        let (request, knobs) = settings.requested();
        settings.acknowledge(request, knobs);
        assert!(reader.join().unwrap());
    }

    #[test]
    fn a_reader_does_not_wait_for_a_device_that_has_ended() {
        let settings = Settings::new(PortKnobs::default());
        settings.request(PortKnobs { snap: true, ..PortKnobs::default() });
        let begun = Instant::now();
        assert_eq!(settings.applied(|| true), Err(NotAcknowledged));
        assert!(begun.elapsed() < TIMEOUT / 2);
    }
}
