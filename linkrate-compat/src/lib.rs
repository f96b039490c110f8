//! Clients that take the options of other measuring programs, run with linkrate's instrument, and print what
//! these programs print, so that scripts continue working.
//!
//! - [`cpu`]: the use of this host's CPUs during a test
//! - [`iperf3`]: a client of iperf3's servers
//! - [`netperf`]: a client of netserver

// used by this workspace alone: a doc says what the name does not
#![allow(missing_docs)]

pub mod cpu;
pub mod iperf3;
pub mod netperf;
