//! Study files, design, run order, statistics, run store.
//!
//! - [`executor`]: what a study needs of a testbed, and no more
//! - [`store`]: every run, kept the moment it ends
//! - [`study`]: a question, made ready to run
//! - [`results`]: what a study found

#![forbid(unsafe_code)]

pub mod executor;
pub mod results;
pub mod store;
pub mod study;
