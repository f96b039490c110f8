//! A client that takes the options of iperf3 and prints what iperf3 prints.
//!
//! - [`Options`]: what was asked for
//! - [`Quantity`](quantity): numbers with the suffixes of iperf3
//! - [`run`]: the test; it reports on its [`Event`]s as they happen
//! - [`Text`]: iperf3's text
//! - [`json`]: iperf3's documents
//! - [`notes`]: what iperf3 does not report, for stderr
//! - [`served`]: the documents of its server
//!
//! What is printed is [`measured`](linkrate_interop::measured).
//!
//! Facts: the options and output of iperf 3.12 to 3.21; the documents have the keys of 3.21.

pub mod json;
mod measure;
pub mod notes;
mod open;
mod options;
pub mod quantity;
pub mod served;
mod text;
mod units;

pub use measure::{Event, Problem, run};
pub use options::{Options, Wrong, check_interval};
pub use text::Text;
pub use units::Format;

/// The version of iperf3 whose options, keys and exit codes these are.
const VERSION: &str = "3.21";

/// The version that documents and text name.
#[must_use]
pub fn version() -> String {
    format!("iperf {VERSION} (linkrate {})", env!("CARGO_PKG_VERSION"))
}
