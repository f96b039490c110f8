//! The protocols of other measuring programs, so that linkrate can talk to them at either end.
//!
//! The formats are pure functions of bytes: no socket, no clock, no thread. A message of the peer is
//! accepted or refused with the field, its value and what would be right. Nothing that it says is taken for
//! granted: lengths are bounded, numbers have ranges, and text is made harmless.
//!
//! - [`iperf3`]: iperf 3.1 and later, by the behaviour of 3.21
//! - [`netperf`]: clients of netperf since 2.4.3 and servers since 2.6, by the behaviour of 2.7.1
//! - [`import`]: what these programs print, as imported runs
//! - [`json`]: documents behind their length, and their fields
//! - [`client`]: tests of the servers of these programs, with sockets
//! - [`measured`]: what an end of a test of iperf3 knows of it
//! - [`payload`]: threads that carry the payload of a test
//! - [`scrape`]: figures for a program that asks for them by HTTP
//! - [`serve`]: a server for clients of these programs, with sockets and threads

// used by this workspace alone: a doc says what the name does not
#![allow(missing_docs)]

pub mod client;
pub mod import;
pub mod iperf3;
pub mod json;
pub mod measured;
pub mod netperf;
pub mod payload;
pub mod scrape;
pub mod serve;
