//! Facilities of Linux, tried in hosts of their own.

#[path = "../common/mod.rs"]
mod common;
mod hosts;
mod interfaces;
mod join;
mod known_work;
mod taps;
