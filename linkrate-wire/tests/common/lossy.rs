//! A wire in virtual time that loses, delays and duplicates, and the chance that decides.

use std::ops::RangeInclusive;
use std::time::Duration;

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
