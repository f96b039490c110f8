//! Formats, offloads, the law of the link and limits as pure functions: no I/O, no clock, no
//! threads, no unsafe code.
//!
//! Values go in and values come out, so property tests and fuzzers reach all of it. Payload is
//! never copied: cutting a superframe gives headers and ranges of the superframe, and a frame may
//! come in two parts, its headers and a payload that lies elsewhere.
//!
//! Frames:
//! - [`frame`]: the place of every header of a frame, with every length checked
//! - [`checksum`]: the Internet checksum of pieces, pseudo-headers
//! - [`vnet`]: the header before each frame at a TAP, and the checksum that it asks to complete
//!
//! Transmitting:
//! - [`segment`]: the common part of cutting superframes; [`tso`] cuts TCP, [`uso`] cuts UDP
//! - [`encapsulation`]: VLAN tags and LLC/SNAP, added and removed
//! - [`balance`]: the port of an aggregate that a frame leaves by
//!
//! Receiving:
//! - [`lro`]: merges frames of a TCP flow into superframes without loss
//! - [`toeplitz`]: the hash of receive-side scaling
//! - [`steering`]: receive queues by hash and by destination port, without reordering a flow
//!
//! On the line:
//! - [`link`]: the law of the link, what a packet becomes on a line and how long that takes
//! - [`atm`]: cells with their header check, AAL5
//!
//! Control protocols:
//! - [`control`]: messages of control protocols, decoded and emitted
//! - [`machine`]: what a protocol does with its messages, without I/O and without a clock
//!
//! Analysis:
//! - [`limits`]: the highest payload rate of an Ethernet or ATM link, and the account of all bytes
//! - [`pcapng`]: captures that Wireshark reads; [`erf`]: cells and AAL5 units in them
//!
//! `cargo bench -p linkrate-wire` measures each offload on one core.

#![forbid(unsafe_code)]
// printing panics when nobody reads: lines to the user go through linkrate_sys::stderr
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod atm;
pub mod balance;
pub mod checksum;
pub mod control;
pub mod encapsulation;
pub mod erf;
pub mod frame;
pub mod header;
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
