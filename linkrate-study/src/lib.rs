//! Study files, design, run order, statistics, run store.
//!
//! - [`adapter`]: adapters, by name or by file
//! - [`attribution`]: where the CPU time went, by category
//! - [`builtin`]: the studies that come with the program
//! - [`executor`]: the interface between a study and its testbed
//! - [`store`]: every run, kept the moment it ends
//! - [`study`]: a question, made ready to run
//! - [`mod@file`]: study files
//! - [`import`]: runs of other programs as a result set
//! - [`keys`]: every setting of a cell, in one table
//! - [`validity`]: whether a run is valid
//! - [`schedule`]: the blocks of a study
//! - [`latencies`]: the latencies of a run
//! - [`progress`]: a study while it runs
//! - [`labels`]: factors, levels and cells by the names that the field has for them
//! - [`published`]: published figures
//! - [`quick`]: the quick form of a study
//! - [`runner`]: runs a study, block after block
//! - [`results`]: the results document
//! - [`analysis`]: from stored runs to results
//! - [`comparison`]: two result sets of the same study
//! - [`trend`]: result sets of the same study over time
//! - [`verdict`]: the resource that bound a cell

#![forbid(unsafe_code)]
// used by this workspace alone: a doc says what the name does not
#![allow(missing_docs)]
// printing panics when nobody reads: lines to the user go through linkrate_sys::stderr
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod adapter;
pub mod adjusted;
pub mod analysis;
pub mod attribution;
pub mod bounds;
pub mod builtin;
pub mod comparison;
pub mod executor;
pub mod file;
pub mod fleet;
pub mod import;
pub mod keys;
pub mod labels;
pub mod latencies;
pub mod levels;
pub mod progress;
pub mod published;
pub mod quantity;
pub mod quick;
pub mod results;
pub mod runner;
pub mod schedule;
pub mod store;
pub mod study;
pub mod trend;
pub mod validity;
pub mod verdict;

#[cfg(test)]
mod coverage;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
