//! The bus of an adapter: one budget for all its ports and both directions, whichever thread serves
//! them.
//!
//! Threads come to their frames late, and not all equally late, so one may ask for a time that
//! another has already passed. A single "free at" would then charge it for the others' lead. So
//! the budget is kept in slots of time: each transfer takes from the first slots with something
//! left, from the time on at which it is ready.

use std::sync::atomic::{AtomicU64, Ordering};

use linkrate_sys::clock::monotonic_ns;
use linkrate_terms::BitRate;
use linkrate_wire::link::Pace;

/// What one descriptor costs the bus beside the data: it is read and written back, 16 bytes as in
/// most adapters.
pub const DESCRIPTOR_BYTES: usize = 16;

/// A slot. Transfers take far less.
const SLOT_PS: u64 = 50_000_000;
/// Slots that are remembered: how late a thread may come, some 50 ms.
const SLOTS: u64 = 1024;

/// The part of a slot's word that says what is used of it; the rest is the slot's number.
const USED_BITS: u32 = 32;
const USED: u64 = (1 << USED_BITS) - 1;

/// A bus.
#[derive(Debug)]
pub struct Bus {
    pace: Pace,
    epoch_ns: u64,
    /// For each slot its number and how many picoseconds of it are used.
    slots: Box<[AtomicU64]>,
    busy_ps: AtomicU64,
}

impl Bus {
    /// A bus of that rate.
    #[must_use]
    pub fn new(rate: BitRate) -> Self {
        Self {
            pace: Pace::of(rate),
            epoch_ns: monotonic_ns(),
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            busy_ps: AtomicU64::new(0),
        }
    }

    /// Transfers `bytes` that are ready at `ready_ns` of CLOCK_MONOTONIC, and says how many
    /// picoseconds after that the transfer is complete.
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

    /// How long something that is ready at `ready_ns` would wait for its first slot.
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

    /// Takes up to `wanted_ps` of a slot; says how much there was, and when that much of the slot
    /// has passed. A slot that others have already passed by more than is remembered has nothing.
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
        // so late that it is forgotten: after what is remembered
        bus.transfer(then + 100_000_000, 1000);
        assert!(bus.transfer(then, 1000) <= 101_000_000_000);
    }

    proptest! {
        /// In whatever order transfers are asked for, no stretch of slots carries more than it can.
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
