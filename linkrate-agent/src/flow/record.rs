//! What a receiving flow got over time, for a run with an event: bytes in slots of equal length, and
//! the longest time without a byte.
//!
//! A record is allocated before the run. Its flow writes it, and its agent reads it after the measurement,
//! with plain loads and stores. Each call that receives reads the clock once more, which takes some
//! 25 ns.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use linkrate_protocol::{FlowRecord, RecordSpec};

/// The moments of a measurement with an event, CLOCK_MONOTONIC in ns; all bits set before they are known.
#[derive(Debug)]
pub struct Moments {
    opens_ns: AtomicU64,
    event_ns: AtomicU64,
}

impl Default for Moments {
    fn default() -> Self {
        Self { opens_ns: AtomicU64::new(u64::MAX), event_ns: AtomicU64::new(u64::MAX) }
    }
}

impl Moments {
    /// Lets records begin when the measurement opens.
    pub fn set(&self, opens_ns: u64, event_ns: u64) {
        self.event_ns.store(event_ns, Ordering::Relaxed);
        self.opens_ns.store(opens_ns, Ordering::Release);
    }
}

/// Gaps that begin later are no gaps of the event, CLOCK_MONOTONIC in ns. The longest of many gaps grows with the time in
/// which they are looked for, so that is as long after the event as before it.
pub fn looked_until_ns(opens_ns: u64, event_ns: u64) -> u64 {
    event_ns.saturating_add(event_ns.saturating_sub(opens_ns))
}

#[derive(Debug)]
pub struct Record {
    slot_ns: u64,
    slots: Box<[AtomicU32]>,
    last_ns: AtomicU64,
    gap_ns: AtomicU64,
    gap_before_ns: AtomicU64,
    verified: AtomicU64,
    wrong: AtomicU64,
}

/// Lets a number with one writer grow.
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Ordering::Relaxed).saturating_add(more), Ordering::Relaxed);
}

fn raise(number: &AtomicU64, to: u64) {
    if to > number.load(Ordering::Relaxed) {
        number.store(to, Ordering::Relaxed);
    }
}

impl Record {
    pub fn new(spec: RecordSpec) -> Self {
        let slots = (0..spec.slots).map(|_| AtomicU32::new(0)).collect();
        Self {
            slot_ns: u64::from(spec.slot_us.max(1)) * 1000,
            slots,
            last_ns: AtomicU64::new(0),
            gap_ns: AtomicU64::new(0),
            gap_before_ns: AtomicU64::new(0),
            verified: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }
    }

    /// Takes down that `bytes` have arrived; by the thread of the flow only.
    pub fn received(&self, moments: &Moments, now_ns: u64, bytes: usize) {
        let opens_ns = moments.opens_ns.load(Ordering::Acquire);
        let Some(since_ns) = now_ns.checked_sub(opens_ns) else { return };
        self.gap_until(now_ns, opens_ns, moments.event_ns.load(Ordering::Relaxed));
        self.last_ns.store(now_ns, Ordering::Relaxed);
        let slot = usize::try_from(since_ns / self.slot_ns).unwrap_or(usize::MAX);
        if let Some(slot) = self.slots.get(slot) {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            let sum = slot.load(Ordering::Relaxed).saturating_add(bytes);
            slot.store(sum, Ordering::Relaxed);
        }
    }

    fn gap_until(&self, now_ns: u64, opens_ns: u64, event_ns: u64) {
        let began_ns = self.last_ns.load(Ordering::Relaxed).max(opens_ns);
        let gap_ns = now_ns.saturating_sub(began_ns);
        if now_ns < event_ns {
            raise(&self.gap_before_ns, gap_ns);
        } else if began_ns < looked_until_ns(opens_ns, event_ns) {
            raise(&self.gap_ns, gap_ns);
        }
    }

    /// Takes down that `bytes` were compared, and how many of them were others.
    pub fn verified(&self, bytes: usize, wrong: usize) {
        add(&self.verified, bytes as u64);
        add(&self.wrong, wrong as u64);
    }

    /// What it says of a measurement that closed at `closes_ns`: a flow that got nothing more has a gap
    /// that lasts until then.
    pub fn report(&self, flow: &str, moments: &Moments, closes_ns: u64) -> FlowRecord {
        let opens_ns = moments.opens_ns.load(Ordering::Acquire);
        let began_ns = self.last_ns.load(Ordering::Relaxed).max(opens_ns.min(closes_ns));
        let event_ns = moments.event_ns.load(Ordering::Relaxed);
        let is_looked_at = began_ns < looked_until_ns(opens_ns, event_ns);
        let since_ns = if is_looked_at { closes_ns.saturating_sub(began_ns) } else { 0 };
        FlowRecord {
            flow: flow.to_owned(),
            gap_ns: self.gap_ns.load(Ordering::Relaxed).max(since_ns),
            gap_before_ns: self.gap_before_ns.load(Ordering::Relaxed),
            verified_bytes: self.verified.load(Ordering::Relaxed),
            wrong_bytes: self.wrong.load(Ordering::Relaxed),
        }
    }

    pub fn slot_us(&self) -> u32 {
        u32::try_from(self.slot_ns / 1000).unwrap_or(u32::MAX)
    }

    /// Adds its slots to `sum`.
    pub fn add_to(&self, sum: &mut Vec<u64>) {
        if sum.len() < self.slots.len() {
            sum.resize(self.slots.len(), 0);
        }
        for (sum, slot) in sum.iter_mut().zip(&self.slots) {
            *sum += u64::from(slot.load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPEC: RecordSpec = RecordSpec { slots: 10, slot_us: 1000 };

    #[test]
    fn bytes_are_in_the_slot_of_their_arrival_and_gaps_are_exact() {
        let (record, moments) = (Record::new(SPEC), Moments::default());
        record.received(&moments, 5, 7);
        moments.set(1_000_000, 4_000_000);
        record.received(&moments, 999_999, 7);
        for (at_ns, bytes) in [(1_200_000, 10), (3_100_000, 20), (3_200_000, 1), (7_500_000, 5)] {
            record.received(&moments, at_ns, bytes);
        }
        let mut sum = Vec::new();
        record.add_to(&mut sum);
        assert_eq!(sum, [10, 0, 21, 0, 0, 0, 5, 0, 0, 0]);
        let report = record.report("receive 0.0", &moments, 11_000_000);
        assert_eq!((report.gap_before_ns, report.gap_ns), (1_900_000, 4_300_000));
        // nothing more came, and that began later after the event than the measurement opened before it
        assert_eq!(record.report("receive 0.0", &moments, 20_000_000).gap_ns, 4_300_000);
        record.received(&moments, 20_000_000, 1);
        assert_eq!(record.report("receive 0.0", &moments, 20_000_000).gap_ns, 4_300_000);
    }

    #[test]
    fn a_flow_that_got_nothing_has_a_gap_as_long_as_the_window() {
        let (record, moments) = (Record::new(SPEC), Moments::default());
        moments.set(1_000_000, 4_000_000);
        assert_eq!(record.report("receive 0.0", &moments, 11_000_000).gap_ns, 10_000_000);
    }

    proptest! {
        #[test]
        fn no_byte_of_the_window_is_lost_and_no_gap_is_longer_than_the_window(
            mut arrivals in prop::collection::vec((0_u64..12_000_000, 1_usize..5000), 0..50),
        ) {
            arrivals.sort_unstable();
            let (record, moments) = (Record::new(SPEC), Moments::default());
            moments.set(1_000_000, 4_000_000);
            let mut inside = 0;
            for (at_ns, bytes) in &arrivals {
                record.received(&moments, *at_ns, *bytes);
                if (1_000_000..11_000_000).contains(at_ns) {
                    inside += *bytes as u64;
                }
            }
            let mut sum = Vec::new();
            record.add_to(&mut sum);
            prop_assert_eq!(sum.iter().sum::<u64>(), inside);
            let report = record.report("f", &moments, 12_000_000);
            prop_assert!(report.gap_ns <= 11_000_000 && report.gap_before_ns <= 3_000_000);
        }
    }
}
