//! Connections that move, over a wire of the test's own.

#[macro_use]
#[path = "../../../linkrate-sys/tests/common/skip.rs"]
mod skip;

mod close;
#[path = "../../../linkrate-sys/tests/common/mod.rs"]
mod common;
mod moves;
mod wire;
