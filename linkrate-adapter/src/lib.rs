//! Virtual adapters. A stock Linux host uses one as an ordinary interface; a device in user space
//! does the work of the papers' adapters.
//!
//! A port is three things. Its [`interface`] is the host's side: a TAP with its queues, driver
//! threads, rings and interrupts. Its [`link`]s are lines: occupancy under the law of the link,
//! negotiated rate, counters. Its device does the adapter's work between them. Each kind of device
//! has a file or folder in `device`; all have one trait, and [`DeviceSpec`] builds them from a model.
//! A device has one link or several, and each leads to a port of the [`fabric`], a cable or a switch.
//! A segment is one fabric with its devices. One device thread for each adapter CPU
//! ([`DeviceThreads`], `engine`) serves all segments of that CPU at a common tick.
//!
//! Several ports can act as one interface, an [`aggregate`]; the switch has a group for them.
//!
//! The way out: the host's kernel queues a packet at the TAP. A driver thread on the host's CPUs
//! reads it into a [`frame::Block`] and posts it. The device cuts it, makes its checksums, and puts
//! each frame on the [`bus`] and the link for its own time ([`pacing`]). The frames cross the fabric.
//!
//! The way in: the frame's last bit arrives. The device verifies, steers and merges, and raises a
//! moderated interrupt. The driver writes the packet to the TAP, which runs the host's receive
//! processing.
//!
//! Payload is copied out of one host's kernel and into the other's, and nowhere in between.

#![forbid(unsafe_code)]
// printing panics when nobody reads: lines to the user go through linkrate_sys::stderr
#![deny(clippy::print_stdout, clippy::print_stderr)]
// used by this workspace alone: a doc says what the name does not
#![allow(missing_docs)]

pub mod aggregate;
mod atm;
pub mod bus;
pub mod capture;
mod cells;
pub mod clock;
pub mod counters;
mod device;
mod device_threads;
mod engine;
mod error;
pub mod fabric;
mod flow_steering;
pub mod frame;
pub mod interface;
mod lane_unit;
pub mod link;
pub mod pacing;
mod path_change;
mod pdu;
pub mod pool;
mod port;
mod port_shared;
mod reordering;
mod segment;
pub mod settings;
mod threads;

pub use aggregate::decisions::{Decision, DecisionLog};
pub use aggregate::{Aggregate, AggregateSpec};
pub use atm::lane::{LECS, LaneStation};
pub use bus::Bus;
pub use capture::{CaptureEnding, CaptureTotal};
pub use counters::{Snapshot, since};
pub use device::DeviceSpec;
pub use device::atm::AtmLimits;
pub use device::nic::NicLimits;
pub use device_threads::DeviceThreads;
pub use error::AdapterError;
pub use fabric::atm_switch::servers::ElanSpec;
pub use fabric::faults::Faults;
pub use fabric::vlans::Vlans;
pub use fabric::{Discard, End};
pub use flow_steering::{Asks, Notify};
pub use interface::tx_revoke::ConnectionEnds;
pub use interface::{DriverThreads, Priority, RingSizes};
pub use link::LinkSpec;
pub use linkrate_wire::atm::{AtmAddress, Connection};
pub use linkrate_wire::balance::MAX_PORTS;
pub use linkrate_wire::control::lan_emulation::FrameSize;
pub use linkrate_wire::frame::MacAddress;
pub use linkrate_wire::link::{LinkLaw, atm as atm_line};
pub use path_change::{FirstPathChanges, FrameDirection};
pub use port::{CAPTURE_TIMEOUT, HostSide, Port, PortLink, PortSpec, Segment};
pub use port_shared::PortShared;
pub use reordering::ReorderingCount;
