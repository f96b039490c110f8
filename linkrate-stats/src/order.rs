//! The rule that the order of runs follows, and what mirrored blocks cost the intervals of effects.

use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::random::{generator, shuffle};

/// The rule of the run order of a study's blocks. It is stored with the study, so that any later
/// version of linkrate resumes the study in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The order of each block is independent of the others.
    Independent,
    /// Two blocks reverse an earlier one ([`MIRRORED`]); the orders of the others are independent.
    Mirrored,
}

/// Each block that reverses the order of an earlier one, and the earlier one, both from 0.
///
/// No two cells then come in the same order in all blocks. Under a steady drift, whatever the number
/// of cells, too few differences have the same sign for an interval to exclude the truth. One such
/// pair is not enough for seven blocks. More pairs have a price: a disturbance with opposite signs in
/// the two blocks of a pair becomes an effect, because one of them is reversed, and only blocks with
/// their own orders outweigh it. The pairs are one and two blocks apart, so that no periodic
/// disturbance affects both in the same way.
/// `docs/internals/simulations.md` has figures, `order/coverage.rs` makes them.
pub const MIRRORED: [(u32, u32); 2] = [(1, 0), (4, 2)];

impl Order {
    /// The cells of a block, from 0, in the order that a study with this seed runs them, and the generator for what
    /// is random in its runs.
    pub fn of_block(self, seed: u64, block: u32, count: u32) -> (Vec<u32>, ChaCha8Rng) {
        let mut rng = generator(seed, block);
        let mut cells: Vec<u32> = (0..count).collect();
        match self.reversed(block) {
            None => shuffle(&mut cells, &mut rng),
            Some(first) => {
                shuffle(&mut cells, &mut generator(seed, first));
                cells.reverse();
            }
        }
        (cells, rng)
    }

    /// The block whose order `block` reverses, both from 0.
    pub fn reversed(self, block: u32) -> Option<u32> {
        let pairs: &[(u32, u32)] = match self {
            Self::Independent => &[],
            Self::Mirrored => &MIRRORED,
        };
        pairs.iter().find(|(mirror, _)| *mirror == block).map(|(_, first)| *first)
    }
}

/// The permitted error of an effect's interval that remains after the cost of mirroring.
/// Where the memory of a machine fades from one run to the next, mirrored blocks are alike in what
/// is opposite, and an ordinary 95 % interval excludes the truth in up to 5.9 % of studies. At 0.8 it
/// is computed as one of 96 %, and that share is 5 % or less (`order/coverage.rs`).
const LEFT_AFTER_MIRRORING: f64 = 0.8;

/// The level at which the intervals of effects are computed where those of cells have `level`, so
/// that they cover as often. Mirroring makes differences between the runs of a block agree with
/// those of another block; cells know nothing of it.
pub fn level_of_effects(order: Order, level: f64) -> f64 {
    match order {
        Order::Independent => level,
        Order::Mirrored => 1.0 - (1.0 - level) * LEFT_AFTER_MIRRORING,
    }
}

#[cfg(test)]
mod coverage;
