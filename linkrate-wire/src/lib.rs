//! What is on the wire, as pure functions: no I/O, no clock, no threads, no unsafe code.
//!
//! Values go in and values come out, so that property tests and fuzzers reach everything.
//!
//! - [`limits`]: what theory allows on an Ethernet or ATM link, and where the other bytes go

#![forbid(unsafe_code)]

pub mod limits;
