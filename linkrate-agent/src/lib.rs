//! What runs in each host: workloads, meters, knobs; one protocol.
//!
//! A request's way: [`framing`] cuts it out of the stream, [`protocol`] decodes and checks it,
//! [`server`] carries it out. Traffic's way: [`session`] makes sockets ([`sockets`]) and gives
//! each connection a thread ([`flow`]); [`meter`] reads counters and CPU time at the two ends of
//! the window, [`cpu_meter`] with the kernel's idle time or its own ([`idle_counter`]). [`knobs`]
//! sets an interface and reads it back. [`taps`] makes the interfaces of virtual adapters and gives
//! them away. Interfaces that are not linkrate's own are described by [`standing`], left as they were
//! by [`as_found`], and moved here and home again by [`borrowed`]. [`profile`] samples what the CPUs are
//! doing, [`send_buffers`] looks whether senders wait for room.

#![forbid(unsafe_code)]

pub mod as_found;
pub mod borrowed;
pub mod cpu_meter;
pub mod flow;
pub mod framing;
pub mod idle_counter;
pub mod knobs;
pub mod meter;
pub mod profile;
pub mod protocol;
pub mod send_buffers;
pub mod server;
pub mod session;
pub mod sockets;
pub mod standing;
pub mod taps;
