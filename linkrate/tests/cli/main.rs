//! The command line as people and scripts meet it. Nothing here measures traffic.

#[macro_use]
#[path = "../../../linkrate-sys/tests/common/skip.rs"]
mod skip;
#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod adapter;
mod arguments;
mod doctor;
mod hostile;
mod limit;
mod live;
mod metrics;
mod results;
mod sessions;
mod watch;
