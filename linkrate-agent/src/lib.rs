//! The agent of one host: workloads, meters and knobs, and the protocol to the controller.
//!
//! Path of a request: [`linkrate_protocol::framing`] reads it from the stream, [`linkrate_protocol`] decodes and checks it,
//! [`server`] executes it. Path of traffic: [`session`] creates sockets ([`sockets`]) and a thread
//! for each connection ([`flow`]). [`meter`] reads counters and CPU time at both ends of the
//! measurement; [`cpu_meter`] uses the idle time of the kernel or the [`idle_counter`]. [`knobs`] sets
//! an interface and reads it back. [`taps`] creates the interfaces of virtual adapters and passes their
//! descriptors on. [`existing`] describes, keeps and lends interfaces that linkrate did not create; the
//! server restores them when the agent ends, and [`permissions`] refuses what an agent was not started
//! for. [`profile`] samples the CPUs, `send_buffers` checks whether senders wait for room, [`absence`]
//! whether the process stalled. [`toe`] moves connections between the sockets of flows and a TCP offload
//! engine, on either side.

// used by this workspace alone: a doc says what the name does not
#![allow(missing_docs)]
#![forbid(unsafe_code)]
// printing panics when nobody reads: lines to the user go through linkrate_sys::stderr
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod absence;
pub mod cpu_meter;
pub mod existing;
pub mod flow;
pub mod idle_counter;
mod intervals;
pub mod knobs;
pub mod meter;
pub mod permissions;
pub mod profile;
mod send_buffers;
pub mod server;
pub mod session;
pub mod sockets;
pub mod taps;
pub mod toe;
