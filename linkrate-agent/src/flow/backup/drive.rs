//! The rate at which tape drives take data.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use linkrate_model::backup::{DRIVE_CREDIT_NS, MIN_DRIVE_WAIT_NS};

/// The drives of a sink, which all its flows share.
#[derive(Debug)]
pub struct Drive {
    bytes_per_second: u64,
    /// When all that was taken is written.
    free_ns: AtomicU64,
}

impl Drive {
    /// Drives that take so many bytes in a second together.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), free_ns: AtomicU64::new(0) }
    }

    /// Takes `bytes` at `now_ns`. Returns how long their flow must wait before it takes more.
    pub fn take(&self, bytes: u64, now_ns: u64) -> Option<Duration> {
        let took_ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let took_ns = u64::try_from(took_ns).unwrap_or(u64::MAX);
        let after =
            |free: u64| free.max(now_ns.saturating_sub(DRIVE_CREDIT_NS)).saturating_add(took_ns);
        let before = self
            .free_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| Some(after(free)));
        let free_ns = after(before.unwrap_or_else(|free| free));
        let wait_ns = free_ns.saturating_sub(now_ns);
        (wait_ns >= MIN_DRIVE_WAIT_NS).then(|| Duration::from_nanos(wait_ns))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Flows that wait as they are told take the rate, and no more than the credit beyond it.
        #[test]
        fn no_more_is_taken_than_drives_take(
            rate in 1_000_000_u64..1_000_000_000,
            pieces in prop::collection::vec(1_u64..262_144, 50..200),
            pauses in prop::collection::vec(0_u64..3_000_000, 50..200),
        ) {
            let drive = Drive::new(rate);
            let begun = 1_000_000_000_000;
            let (mut now, mut taken) = (begun, 0);
            for (bytes, pause) in pieces.iter().zip(&pauses) {
                now += pause;
                taken += bytes;
                if let Some(wait) = drive.take(*bytes, now) {
                    now += wait.as_nanos() as u64;
                }
            }
            let most = (now - begun + DRIVE_CREDIT_NS + MIN_DRIVE_WAIT_NS) as f64 * rate as f64 / 1e9;
            prop_assert!(taken as f64 <= most + 1.0, "{} {}", taken, most);
        }
    }

    #[test]
    fn flows_share_a_drive() {
        let drive = Drive::new(1_000_000_000);
        let now = 1_000_000_000;
        // the credit is 5 MB
        assert_eq!(drive.take(5_000_000, now), None);
        assert_eq!(drive.take(3_000_000, now), Some(Duration::from_millis(3)));
        assert_eq!(drive.take(1_000_000, now), Some(Duration::from_millis(4)));
    }
}
