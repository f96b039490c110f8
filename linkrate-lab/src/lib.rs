//! Testbeds: hosts, the backend they stand on, CPU placement; the executor that studies run on; labs
//! that stay up.
//!
//! Arrows point down: a module uses those below it.
//!
//! - [`executor`] carries out runs: it sets knobs, lets flows connect, opens the measurement on all hosts
//!   at once, and checks with [`observe`] that nothing changed. [`measurement`] makes one
//!   measurement of all reports, `profile` names the owners of sampled threads.
//! - [`control`] keeps a lab up for people: it answers requests to look at the lab and change it.
//! - [`testbed`] is what both use: a system under test and its clients, joined by the segments of a
//!   [`Topology`](linkrate_model::topology::Topology).
//! - [`backend`] is what a testbed stands on: veth pairs, virtual adapters, or existing interfaces.
//!   Each backend builds, sets and reads back its interfaces, compares every interface with the
//!   request, and collects evidence.
//! - [`peer`] starts agents on this machine and on others, and types their reports.
//! - [`host`] is a host with its agent; [`connection`] is the controller's end of the protocol.
//! - [`placement`] decides the CPUs of each role; [`congestion`] checks names of algorithms.

// used by this workspace alone: a doc says what the name does not
#![allow(missing_docs)]
#![forbid(unsafe_code)]
// printing panics when nobody reads: lines to the user go through linkrate_sys::stderr
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod backend;
pub mod congestion;
pub mod connection;
pub mod control;
mod error;
pub mod executor;
mod failure;
mod fleet;
pub mod host;
mod ipv6;
pub mod measurement;
pub mod observe;
mod options;
mod participants;
pub mod peer;
pub mod placement;
mod profile;
pub mod testbed;

pub use backend::EffectiveKnobs;
pub use error::LabError;
pub use executor::Lab;
pub use fleet::LabFleet;
pub use options::{Deploy, LabOptions};
pub use placement::Placement;
