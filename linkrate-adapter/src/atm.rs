//! What ATM ports, ATM switches and bridges have in common.

pub(crate) mod assembly;
pub(crate) mod lane;
pub(crate) mod shared;
