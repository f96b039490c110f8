//! The bus of an adapter: one budget for all its ports, in both directions, on all threads.
//!
//! Threads handle their frames late, some later than others, so a thread may ask for a time that
//! another thread has passed already. With a single "free at" time, it would pay for the other
//! thread's lead. The budget is therefore divided into slots of time. A transfer takes room from the
//! first slots that have some, beginning with the slot in which it is ready.

use std::sync::atomic::{AtomicU64, Ordering};

use linkrate_model::BitRate;
use linkrate_sys::clock::monotonic_ns;
use linkrate_wire::link::Pace;

/// What one descriptor costs the bus beside the data: it is read and written back, 16 bytes as in
/// most adapters.
pub const DESCRIPTOR_BYTES: usize = 16;

/// The length of a slot. A transfer takes far less.
const SLOT_PS: u64 = 50_000_000;
/// Slots that are kept: a thread may be about 50 ms late.
const SLOTS: u64 = 1024;

/// The bits of a slot's word with the used time; the other bits hold the slot's number.
const USED_BITS: u32 = 32;
const USED: u64 = (1 << USED_BITS) - 1;

#[derive(Debug)]
pub struct Bus {
    pace: Pace,
    epoch_ns: u64,
    /// For each slot its number and its used time, in ps.
    slots: Box<[AtomicU64]>,
    busy_ps: AtomicU64,
}

impl Bus {
    #[must_use]
    pub fn new(rate: BitRate) -> Self {
        Self {
            pace: Pace::of(rate),
            epoch_ns: monotonic_ns(),
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            busy_ps: AtomicU64::new(0),
        }
    }

    /// Transfers `bytes` that are ready at `ready_ns` of CLOCK_MONOTONIC. Returns the time from then
    /// to the end of the transfer, in ps.
    pub fn transfer(&self, ready_ns: u64, bytes: usize) -> u64 {
        let ready_ps = self.ready_ps(ready_ns);
        let mut left_ps = self.pace.time_ps(bytes as u64);
        self.busy_ps.fetch_add(left_ps, Ordering::Relaxed);
        let earliest_ps = ready_ps + left_ps;
        let mut slot = ready_ps / SLOT_PS;
        loop {
            let (taken_ps, end_ps) = self.take(slot, left_ps);
            left_ps -= taken_ps;
            if left_ps == 0 {
                return end_ps.max(earliest_ps) - ready_ps;
            }
            slot += 1;
        }
    }

    /// How long a transfer that is ready at `ready_ns` would wait for its first slot, in ps.
    #[must_use]
    pub fn backlog_ps(&self, ready_ns: u64) -> u64 {
        let ready_ps = self.ready_ps(ready_ns);
        let first = ready_ps / SLOT_PS;
        let full = (first..first + SLOTS / 2).take_while(|slot| self.used(*slot) >= SLOT_PS);
        full.count() as u64 * SLOT_PS
    }

    /// Time it was occupied so far, ns.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        self.busy_ps.load(Ordering::Relaxed) / 1000
    }

    fn ready_ps(&self, ready_ns: u64) -> u64 {
        ready_ns.saturating_sub(self.epoch_ns).saturating_mul(1000)
    }

    fn place(&self, slot: u64) -> &AtomicU64 {
        &self.slots[(slot % SLOTS) as usize]
    }

    fn used(&self, slot: u64) -> u64 {
        let word = self.place(slot).load(Ordering::Relaxed);
        if word >> USED_BITS == slot & USED { word & USED } else { 0 }
    }

    /// Takes up to `wanted_ps` of a slot. Returns the time that it got, and when it ends. A slot that
    /// is no longer kept has nothing left.
    fn take(&self, slot: u64, wanted_ps: u64) -> (u64, u64) {
        let number = slot & USED;
        let (mut taken_ps, mut used_after_ps) = (0, SLOT_PS);
        let update = |word: u64| {
            let (owner, used_ps) = (word >> USED_BITS, word & USED);
            let used_ps = match owner.cmp(&number) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => used_ps,
                std::cmp::Ordering::Greater => SLOT_PS,
            };
            taken_ps = wanted_ps.min(SLOT_PS.saturating_sub(used_ps));
            used_after_ps = used_ps + taken_ps;
            (taken_ps > 0).then_some(number << USED_BITS | used_after_ps)
        };
        // a slot without room is left as it is; nothing else is published with it
        let _ = self.place(slot).fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        (taken_ps, slot * SLOT_PS + used_after_ps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bus_is_shared() {
        let bus = Bus::new(BitRate(8e9));
        let now = monotonic_ns();
        // 1000 bytes take 1 µs
        assert_eq!(bus.transfer(now, 1000), 1_000_000);
        let mut last_ps = 0;
        for _ in 0..1000 {
            last_ps = bus.transfer(now, 1000);
        }
        assert!(last_ps.abs_diff(1_001_000_000) <= SLOT_PS, "{last_ps}");
        assert!(bus.backlog_ps(now) >= 900_000_000);
        assert_eq!(bus.busy_ns(), 1_001_000);
    }

    #[test]
    fn who_comes_late_is_not_charged_for_the_lead_of_others() {
        let bus = Bus::new(BitRate(8e9));
        let then = monotonic_ns();
        bus.transfer(then + 5_000_000, 1000);
        assert_eq!(bus.transfer(then, 1000), 1_000_000);
        assert_eq!(bus.backlog_ps(then), 0);
        // later than the slots that are kept
        bus.transfer(then + 100_000_000, 1000);
        assert!(bus.transfer(then, 1000) <= 101_000_000_000);
    }

    proptest! {
        /// In any order of transfers, no stretch of slots carries more than its time.
        #[test]
        fn the_budget_holds(
            asked in prop::collection::vec((0u64..2_000_000, 60usize..9100), 1..300),
        ) {
            let bus = Bus::new(BitRate(12.55e9));
            let epoch = bus.epoch_ns;
            let mut sum_ps = 0;
            for (at_ns, bytes) in asked {
                let done_ps = bus.transfer(epoch + at_ns, bytes);
                let time_ps = bus.pace.time_ps(bytes as u64);
                prop_assert!(done_ps >= time_ps);
                sum_ps += time_ps;
            }
            let used: u64 = (0..SLOTS).map(|slot| bus.used(slot)).sum();
            prop_assert_eq!(used, sum_ps);
            prop_assert!((0..SLOTS).all(|slot| bus.used(slot) <= SLOT_PS));
        }
    }
}
