//! The command line as people and scripts meet it. Nothing here measures traffic.

mod adapter;
mod arguments;
#[path = "../common/mod.rs"]
mod common;
mod doctor;
mod hostile;
mod limit;
mod results;
mod sessions;
mod watch;
