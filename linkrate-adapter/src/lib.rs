//! Virtual adapters: a stock Linux host uses one as an ordinary interface, and a device in user
//! space does what the papers' adapters did.
//!
//! A port is three things. Its [`interface`] is the host's side: a TAP with its queues, driver
//! threads, rings and interrupts. Its [`link`] is the line: how long frames occupy it, what it has
//! negotiated, its counters. Its device, between them, is what the adapter does: one file or folder
//! for each kind of device in `device`, behind one trait. A [`fabric`], a cable or a switch, joins
//! ports to a segment. One device thread for each adapter CPU ([`DeviceThreads`], `engine`) serves
//! all segments of that CPU at a common tick.
//!
//! The way of a packet out: the host's kernel queues it at the TAP; a driver thread on the host's
//! CPUs takes it into a [`frame::Block`] and posts it; the device cuts it, makes its checksums, and
//! puts each frame on the [`bus`] and the link for its own time ([`pacing`]); the frames cross the
//! fabric. The way in: the frame's last bit arrives; the device verifies, steers and merges, and
//! raises an interrupt when its moderation says so; the driver writes the packet to the TAP, which
//! runs the host's receive processing.
//!
//! Payload is copied out of one host's kernel and into the other's, and nowhere in between.

#![forbid(unsafe_code)]

pub mod bus;
pub mod capture;
pub mod clock;
pub mod counters;
mod device;
mod device_threads;
mod engine;
mod error;
pub mod fabric;
pub mod frame;
pub mod interface;
pub mod link;
pub mod pacing;
pub mod pool;
mod port;
mod segment;
pub mod settings;
mod threads;

pub use bus::Bus;
pub use counters::{Snapshot, since};
pub use device::nic::PortLimits;
pub use device_threads::DeviceThreads;
pub use error::AdapterError;
pub use fabric::faults::Faults;
pub use fabric::vlans::Vlans;
pub use interface::{DriverThreads, Priority};
pub use linkrate_wire::link::LinkLaw;
pub use port::{HostSide, Port, PortShared, PortSpec, Segment};
