//! Connections that move, over a wire of the test's own.

mod close;
#[path = "../../../linkrate-sys/tests/common/mod.rs"]
mod common;
mod moves;
mod wire;
