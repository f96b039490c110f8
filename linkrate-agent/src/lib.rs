//! The agent in each host: workloads, meters, knobs; one protocol.
//!
//! A request's way: [`framing`] cuts it out of the stream, [`protocol`] decodes and checks it,
//! [`server`] carries it out. Traffic's way: [`session`] makes sockets ([`sockets`]) and gives
//! each connection a thread ([`flow`]); [`meter`] reads counters and CPU time at the two ends of
//! the window, [`cpu_meter`] with the kernel's idle time or its own ([`idle_counter`]). [`knobs`]
//! sets an interface and reads it back; [`steering`] confines receive processing to CPUs. [`taps`]
//! makes the interfaces of virtual adapters and gives them away. [`existing`] describes, keeps and
//! borrows interfaces that linkrate did not create. [`profile`] samples the work of the CPUs,
//! [`send_buffers`] checks whether senders wait for room.

#![forbid(unsafe_code)]

pub mod cpu_meter;
pub mod existing;
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
pub mod steering;
pub mod taps;
