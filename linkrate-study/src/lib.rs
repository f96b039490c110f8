//! Study files, design, run order, statistics, run store.
//!
//! - [`adapter`]: what joins the hosts, by name or by file
//! - [`attribution`]: where the CPU time went, by category
//! - [`builtin`]: the studies that come with the program
//! - [`executor`]: what a study needs of a testbed, and no more
//! - [`stats`]: means, intervals, paired effects, the stop rule
//! - [`store`]: every run, kept the moment it ends
//! - [`study`]: a question, made ready to run
//! - [`mod@file`]: study files
//! - [`keys`]: every setting of a cell, in one table
//! - [`belief`]: whether a run can be believed
//! - [`schedule`], [`order`]: the blocks of a study, and the order of runs
//! - [`look`]: a study while it runs
//! - [`names`]: factors, levels and cells by the names that the field has for them
//! - [`published`]: what papers found, to stand beside it
//! - [`quick`]: the quick form of a study
//! - [`runner`]: block after block until it is enough
//! - [`results`]: what a study found
//! - [`analysis`]: from stored runs to results
//! - [`comparison`]: two result sets of the same study
//! - [`verdict`]: what bound a cell

#![forbid(unsafe_code)]

pub mod adapter;
pub mod analysis;
pub mod attribution;
pub mod belief;
pub mod builtin;
pub mod comparison;
pub mod executor;
pub mod file;
pub mod keys;
pub mod levels;
pub mod look;
pub mod names;
pub mod order;
pub mod published;
pub mod quantity;
pub mod quick;
pub mod results;
pub mod runner;
pub mod schedule;
pub mod stats;
pub mod store;
pub mod study;
pub mod verdict;

#[cfg(test)]
mod fixture;
