//! What mirrored blocks cost the intervals of effects.

use crate::order::Order;

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
