//! Options that describe a testbed: its adapter, the CPUs of each role, and what is between the
//! ports of the system under test and its clients.

use std::path::Path;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use linkrate_model::spec::Adapter;
use linkrate_model::{CpuMeter, CpuSet, TestbedSpec};
use linkrate_study::adapter;
use linkrate_study::bounds::{SCALE_EXPECTED, SCALES};

use super::load_model;
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

/// The fabric of an aggregate, or of an emulated LAN.
#[derive(Debug, Args)]
pub struct FabricArgs {
    /// Switches before an aggregate: with 2, ports eth0, eth2, ... are on the first, and eth1, eth3,
    /// ... and the clients on the second; a link joins the switches
    #[arg(long, hide_short_help = true, value_name = "NUMBER", requires = "aggregate", value_parser = clap::value_parser!(u32).range(1..=2))]
    pub switches: Option<u32>,
    /// Alternate clients between the two switches
    #[arg(long, hide_short_help = true, requires = "switches")]
    pub spread_clients: bool,
    /// Put the clients of an aggregate behind a router, in a network of their own
    #[arg(long, hide_short_help = true, requires = "aggregate", conflicts_with = "switches")]
    pub router: bool,
    /// Put the last N clients of each port behind an Ethernet bridge into the emulated LAN of the others: with
    /// a model such as atm-155-lane-1516
    #[arg(long, hide_short_help = true, value_name = "NUMBER", conflicts_with = "aggregate", value_parser = clap::value_parser!(u32).range(0..=16))]
    pub bridged_clients: Option<u32>,
}

impl FabricArgs {
    /// The testbed with this fabric.
    pub fn apply(&self, testbed: TestbedSpec) -> Result<TestbedSpec, Failure> {
        let switches = self.switches.unwrap_or(1);
        if self.spread_clients && switches < 2 {
            let message = "--spread-clients: one switch, expected --switches 2";
            return Err(Failure::new(Exit::Usage, message.to_owned()));
        }
        let (spread_clients, router) = (self.spread_clients, self.router);
        let bridged_clients = self.bridged_clients.unwrap_or(0);
        let testbed = TestbedSpec { switches, spread_clients, router, bridged_clients, ..testbed };
        testbed.check_bridge().map_err(|error| {
            let message = format!("--bridged-clients: {error}; {}", error.hint());
            Failure::new(Exit::Usage, message)
        })?;
        Ok(testbed)
    }
}

/// The testbed with the adapter of that name, or of that file.
pub fn testbed_of(
    adapter: &str,
    clients_per_port: Option<u32>,
    scale: Option<f64>,
) -> Result<TestbedSpec, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let adapter = adapter::find(adapter, &mut |path| load_model(Path::new(path)))
        .map_err(|error| usage(format!("--adapter: {error}")))?;
    if let Adapter::Veth = adapter {
        let given =
            [("--clients-per-port", clients_per_port.is_some()), ("--scale", scale.is_some())];
        if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
            let hint = "leave it out, or choose a model, for example --adapter gigabit";
            return Err(usage(format!("{option} does not apply to a veth pair; {hint}")));
        }
    }
    let scale = scale.unwrap_or(1.0);
    if !SCALES.contains(&scale) {
        return Err(usage(format!("--scale: {scale} is out of range; {SCALE_EXPECTED}")));
    }
    let clients_per_port = clients_per_port.unwrap_or(1);
    Ok(TestbedSpec { adapter, clients_per_port, scale, ..TestbedSpec::default() })
}
