//! What is on the wire, as pure functions: no I/O, no clock, no threads, no unsafe code.
//!
//! Values go in and values come out, so that property tests and fuzzers reach everything. Payload
//! is never copied: a superframe is cut into headers and ranges of it, and a frame may come in two
//! parts, its headers and payload that lies elsewhere.
//!
//! What is in a frame:
//! - [`frame`]: where the headers of a frame are, every length checked
//! - [`checksum`]: the Internet checksum in pieces, pseudo-headers
//! - [`vnet`]: the header before each frame at a TAP, and completing a checksum as it asks
//!
//! Transmitting:
//! - [`segment`]: what cutting superframes has in common; [`tso`] cuts TCP, [`uso`] cuts UDP
//! - [`encapsulation`]: VLAN tags and LLC/SNAP, put on and taken off
//!
//! Receiving:
//! - [`lro`]: frames of a TCP flow into superframes, with nothing lost
//! - [`toeplitz`]: the hash of receive-side scaling
//! - [`steering`]: queues by hash and by destination port, no flow reordered
//!
//! On the line:
//! - [`link`]: the law of the link, what a packet becomes on a line and how long that takes
//!
//! Talking about the link:
//! - [`control`]: messages of control protocols, decoded and emitted
//! - [`machine`]: what a protocol does with its messages, without I/O and without a clock
//!
//! Looking at it:
//! - [`limits`]: what theory allows on an Ethernet or ATM link, and where the other bytes go
//! - [`pcapng`]: captures that Wireshark reads
//!
//! `cargo bench -p linkrate-wire` says what one core does of each offload.

#![forbid(unsafe_code)]

pub mod checksum;
pub mod control;
pub mod encapsulation;
pub mod frame;
pub mod limits;
pub mod link;
pub mod lro;
pub mod machine;
pub mod pcapng;
pub mod segment;
pub mod steering;
pub mod toeplitz;
pub mod tso;
pub mod uso;
pub mod vnet;
