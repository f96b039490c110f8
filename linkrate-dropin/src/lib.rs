//! Clients that take the options of other measuring programs, run with linkrate's instrument, and print what
//! these programs print, so that scripts go on working.
//!
//! - [`cpu`]: the use of this host's CPUs during a test
//! - [`netperf`]: a client of netserver

pub mod cpu;
pub mod netperf;
