//! What is on the wire, as pure functions: no I/O, no clock, no threads, no unsafe code.
//!
//! Values go in and values come out, so that property tests and fuzzers reach everything.
//!
//! - [`limits`]: what theory allows on an Ethernet or ATM link, and where the other bytes go
//! - [`frame`]: where the headers of a frame are, every length checked
//! - [`checksum`]: the Internet checksum in pieces, pseudo-headers
//! - [`segment`]: what cutting superframes has in common; [`tso`] cuts TCP, [`uso`] cuts UDP
//! - [`lro`]: frames of a TCP flow into superframes, with nothing lost
//! - [`toeplitz`]: the hash of receive-side scaling

#![forbid(unsafe_code)]

pub mod checksum;
pub mod encapsulation;
pub mod frame;
pub mod limits;
pub mod lro;
pub mod pcapng;
pub mod segment;
pub mod steering;
pub mod toeplitz;
pub mod tso;
pub mod ufo;
pub mod uso;
pub mod vnet;
