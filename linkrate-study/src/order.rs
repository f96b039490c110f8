//! The rule that the order of runs follows.

use serde::{Deserialize, Serialize};

/// The rule that the orders of a study's blocks follow. It is stored with the study, which keeps it
/// however often it is resumed, and by any version of linkrate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The order of each block is independent of the others.
    Independent,
    /// Two blocks reverse one before them ([`MIRRORED`]); every other has an order of its own.
    Mirrored,
}

/// The blocks that have the order of one before them reversed, and that one, both from 0.
///
/// No two cells then come in the same order in all blocks. Under a steady drift, whatever the number
/// of cells, too few differences have the same sign for an interval to exclude the truth. One such
/// pair is not enough for seven blocks. More pairs have a price: a disturbance with opposite signs in
/// the two blocks of a pair becomes an effect, because one of them is reversed, and only blocks with
/// their own orders outweigh it. The pairs are one and two blocks apart, so that no periodic
/// disturbance affects both in the same way.
/// `docs/src/concepts/method.md` has figures, `stats/truth/orders.rs` makes them.
pub const MIRRORED: [(u32, u32); 2] = [(1, 0), (4, 2)];

impl Order {
    /// The rule of stores that do not name one.
    pub(crate) fn of_older_stores() -> Self {
        Self::Independent
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
