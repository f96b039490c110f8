//! Outputs from made-up results. After a deliberate change of a table, run with
//! `INSTA_UPDATE=always` and read the difference.

#[macro_use]
#[path = "../../../linkrate-sys/tests/common/skip.rs"]
mod skip;

mod adapter;
mod answer;
#[path = "../../../linkrate-study/tests/book/mod.rs"]
mod book;
mod browser;
mod chromium;
mod comparison;
mod csv;
mod exports;
mod failure;
mod fixture;
mod fleet;
mod html;
mod json;
mod limit;
mod markdown;
mod paper;
mod payback;
mod pdf;
mod redact;
mod schema;
mod simulated;
mod terminal;
mod trend;
