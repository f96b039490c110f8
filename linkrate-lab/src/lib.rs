//! Testbeds: hosts, what joins them, CPU placement; the executor that studies run on; labs that stay
//! up.
//!
//! A run's way: [`executor`] sets knobs on the hosts of a [`testbed`], lets flows connect, opens
//! the window on all of them at once and makes one measurement of their reports ([`measurement`]);
//! [`recheck`] checks that everything is still as it was. [`control`] keeps a lab up for people, and
//! lets other processes look at it and change it.
//!
//! Below them, arrows point down: a [`testbed`] stands on a [`ground`] (veth pairs, virtual
//! adapters, existing interfaces); its [`host`]s are started by [`far_end`] and placed by
//! [`placement`]; [`connection`] is the controller's end of the agents' protocol. [`congestion`]
//! knows which algorithms the kernel has.

#![forbid(unsafe_code)]

pub mod congestion;
pub mod connection;
pub mod control;
mod error;
pub mod executor;
pub mod far_end;
pub mod ground;
pub mod host;
pub mod measurement;
mod options;
pub mod placement;
mod profile;
mod readback;
pub mod recheck;
pub mod testbed;

pub use error::LabError;
pub use executor::Lab;
pub use options::LabOptions;
pub use placement::Placement;
pub use readback::EffectiveKnobs;
