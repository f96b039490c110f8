//! One file per command.

pub mod adapter;
pub mod agent;
pub mod doctor;
pub mod iperf3;
pub mod lab;
pub mod limit;
pub mod measure;
pub mod netperf;
pub mod package;
pub mod restore;
pub mod serve;
pub mod study;
mod testbed;
