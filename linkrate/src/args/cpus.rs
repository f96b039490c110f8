//! Options about CPUs.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use linkrate_terms::{CpuMeter, CpuSet};

use crate::exit::{Exit, Failure};

/// Reads the CPUs that an option names.
pub fn parse_cpus(option: &str, given: &Option<String>) -> Result<Option<CpuSet>, Failure> {
    let parsed = given.as_ref().map(|list| list.parse::<CpuSet>()).transpose();
    parsed.map_err(|error| Failure::new(Exit::Usage, format!("{option}: {error}")))
}

/// Reads the name of a CPU meter.
pub fn cpu_meters() -> impl TypedValueParser<Value = CpuMeter> {
    let words = PossibleValuesParser::new(CpuMeter::ALL.map(CpuMeter::word));
    words.map(|word| CpuMeter::from_word(&word).unwrap_or_default())
}
