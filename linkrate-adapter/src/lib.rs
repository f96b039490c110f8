//! Virtual adapters: what a stock Linux host uses as an ordinary interface, and what does in a
//! device in user space what the papers' adapters did.
//!
//! The way of a packet out: the host's kernel queues it at a TAP; a [`driver`] thread on the host's
//! CPUs takes it into a [`frame::Block`] and posts it on a [`ring`]; the device thread of the
//! [`wire`], on an adapter CPU, cuts it and completes checksums ([`port`]), puts each frame on the
//! [`bus`] and the link for its own time ([`pacing`]) and lets it cross a cable or a switch. The way in: the frame's
//! last bit arrives, the device verifies, steers and merges, and raises an interrupt when its
//! moderation says so; the far end's driver writes the packet to the TAP, which runs the host's
//! receive processing.
//!
//! Payload is copied out of one host's kernel and into the other's, and nowhere in between.

#![forbid(unsafe_code)]

pub mod bus;
pub mod capture;
pub mod clock;
pub mod counters;
pub mod driver;
pub mod frame;
pub mod pacing;
pub mod pool;
pub mod port;
pub mod ring;
pub mod wire;

pub use bus::Bus;
pub use counters::{Snapshot, since};
pub use port::{PortLimits, PortShared};
pub use wire::{Faults, Port, PortSpec, Vlans, Wire, WireError, WireKind};
