//! Options about CPUs.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use linkrate_model::{CpuMeter, CpuSet, TestbedSpec};

use crate::exit::{Exit, Failure};

/// The CPUs of each role, and the meter of their time.
#[derive(Debug, Args)]
pub struct CpuArgs {
    /// CPUs of the system under test, for example 0 or 0-3
    #[arg(long, alias = "sut-cpu", hide_short_help = true, value_name = "CPUS")]
    pub sut_cpus: Option<String>,
    /// CPUs of the clients and of linkrate itself
    #[arg(long, alias = "client-cpu", hide_short_help = true, value_name = "CPUS")]
    pub client_cpus: Option<String>,
    /// CPU meter: the kernel's idle time, or threads that count the time that no other thread uses
    /// [default: auto, the idle time where the kernel keeps it exactly]
    #[arg(long, hide_short_help = true, value_name = "METER", value_parser = cpu_meters())]
    pub cpu_meter: Option<CpuMeter>,
}

impl CpuArgs {
    /// Sets these options on a testbed. An option that is not given changes nothing.
    pub fn apply(&self, testbed: &mut TestbedSpec) -> Result<(), Failure> {
        for (option, given, cpus) in [
            ("--sut-cpus", &self.sut_cpus, &mut testbed.sut_cpus),
            ("--client-cpus", &self.client_cpus, &mut testbed.client_cpus),
        ] {
            if let Some(given) = parse_cpus(option, given)? {
                *cpus = Some(given);
            }
        }
        testbed.cpu_meter = self.cpu_meter.unwrap_or(testbed.cpu_meter);
        Ok(())
    }
}

/// Reads the CPUs that an option names.
pub fn parse_cpus(option: &str, given: &Option<String>) -> Result<Option<CpuSet>, Failure> {
    let parsed = given.as_ref().map(|list| list.parse::<CpuSet>()).transpose();
    parsed.map_err(|error| Failure::new(Exit::Usage, format!("{option}: {error}")))
}

/// Reads the name of a CPU meter.
fn cpu_meters() -> impl TypedValueParser<Value = CpuMeter> {
    let words = PossibleValuesParser::new(CpuMeter::ALL.map(CpuMeter::word));
    words.map(|word| CpuMeter::from_word(&word).unwrap_or_default())
}
