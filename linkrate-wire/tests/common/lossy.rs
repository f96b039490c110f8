//! Virtual time: a wire that loses, delays and duplicates, the chance that decides, and machines that are
//! held to their contract.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::time::Duration;

use linkrate_wire::machine::Machine;

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// What a machine wants done after an event.
pub fn handled<M: Machine>(machine: &mut M, now: Duration, event: M::Event) -> Vec<M::Action> {
    let mut actions = Vec::new();
    machine.handle(now, event, &mut actions);
    actions
}

/// What a machine wants done after a poll, which keeps to the contract of machines: before the due time it
/// does nothing, and after it the next due time is later.
#[track_caller]
pub fn polled<M: Machine<Action: Debug>>(machine: &mut M, now: Duration) -> Vec<M::Action> {
    let is_due = machine.due().is_some_and(|due| due <= now);
    let mut actions = Vec::new();
    machine.poll(now, &mut actions);
    assert!(is_due || actions.is_empty(), "a poll before its time: {actions:?}");
    let due = machine.due();
    assert!(due.is_none_or(|due| due > now), "due at {due:?} after its poll at {now:?}");
    actions
}

/// What a wire does to messages.
#[derive(Debug, Clone)]
pub struct Wire {
    /// Messages of a thousand that are lost.
    pub lost: u64,
    /// Messages of a thousand that arrive twice.
    pub doubled: u64,
    /// How long a message is on its way. One that takes longer may be overtaken.
    pub delay: RangeInclusive<Duration>,
}

impl Wire {
    /// A wire that loses nothing and keeps the order.
    pub fn good(delay: Duration) -> Self {
        Self { lost: 0, doubled: 0, delay: delay..=delay }
    }

    /// How long the next message is on its way.
    pub fn delay(&self, random: &mut Random) -> Duration {
        let (least, most) = (*self.delay.start(), *self.delay.end());
        let spread = (most - least).as_nanos() as u64;
        least + Duration::from_nanos(random.below(spread + 1))
    }
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}
