//! What benchmarks share: labs, iperf3 in their namespaces, rows of figures.

// each benchmark uses a part of it
#![allow(dead_code)]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linkrate_lab::{Lab, LabOptions};
use linkrate_model::knobs::PortRequest;
use linkrate_model::spec::Adapter;
use linkrate_model::{
    ByteSize, CpuSet, InterfaceKnobs, Measurement, Model, Offload, RunSpec, Task, TestbedSpec,
    Workload,
};
use linkrate_stats::interval;
use linkrate_study::executor::Executor;

const PORT: u16 = 5201;

/// Rounds of every contestant, in turn.
pub const ROUNDS: usize = 7;
/// The length of a measurement.
pub const SECONDS: u64 = 2;
/// Bytes of one call of a stream.
pub const MESSAGE: ByteSize = ByteSize(128 << 10);

pub type Failed = Box<dyn std::error::Error>;

/// Whether a benchmark can run here; otherwise it says by name why not.
pub fn can_run(benchmark: &str, programs: &[&str]) -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED {benchmark}: entering a lab's namespaces takes root");
        return false;
    }
    programs.iter().all(|program| has(benchmark, program))
}

/// Whether a program is here; otherwise says what is skipped for want of it.
pub fn has(benchmark: &str, program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        println!("SKIPPED {benchmark}: {program} is not installed");
    }
    found
}

/// The words on the command line, which choose what is measured.
pub fn words() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| !argument.starts_with('-'))
}

/// The first CPU, and the second if there is one.
pub fn two_cpus() -> Result<(CpuSet, CpuSet), Failed> {
    let cpus = CpuSet::from_iter(0..std::thread::available_parallelism()?.get() as u32);
    Ok((cpus.iter().take(1).collect(), cpus.iter().skip(1).take(1).collect()))
}

/// A port of `model` for each of `ports` clients, which have a CPU of their own if there is one.
pub fn testbed(model: Model, ports: u32) -> Result<TestbedSpec, Failed> {
    let (sut, clients) = two_cpus()?;
    Ok(TestbedSpec {
        adapter: Adapter::Model(Box::new(model)),
        clients: ports,
        ports,
        client_cpus: Some(if clients.is_empty() { sut.clone() } else { clients }),
        sut_cpus: Some(sut),
        ..TestbedSpec::default()
    })
}

/// Everything an adapter does.
pub fn all_on() -> InterfaceKnobs {
    InterfaceKnobs {
        offload: Some(Offload::Tso),
        port: PortRequest { lro: Some(true), ..PortRequest::default() },
        ..InterfaceKnobs::default()
    }
}

/// A lab whose routes name cubic, for third-party programs.
pub fn lab(spec: &TestbedSpec) -> Result<Lab, Failed> {
    let options = LabOptions {
        route_congestion: Some("cubic".to_owned()),
        ..LabOptions::new(
            PathBuf::from(env!("CARGO_BIN_EXE_linkrate")),
            Arc::new(AtomicBool::new(false)),
        )
    };
    Ok(Lab::build(spec, options)?)
}

/// A run of `workload`.
pub fn run_spec(
    workload: Workload,
    interface: InterfaceKnobs,
    clients: u32,
    ports: Option<u32>,
    seconds: u64,
) -> RunSpec {
    RunSpec {
        interface,
        clients,
        ports,
        warm_up: Duration::from_millis(500),
        ..RunSpec::new(Task::Workload(workload), Duration::from_secs(seconds))
    }
}

/// Runs it in `lab`; again, up to three times, where others disturbed it.
pub fn run(lab: &mut Lab, spec: &RunSpec) -> Result<Measurement, Failed> {
    const AGAIN: usize = 3;
    for _ in 0..AGAIN {
        match lab.run(spec) {
            Err(failure) if failure.disturbed => println!("repeated: {failure}"),
            other => return Ok(other?),
        }
    }
    Ok(lab.run(spec)?)
}

/// What TCP can get of a link in one direction, bits per second: full frames with timestamps have 52
/// bytes of TCP/IP, and 38 of Ethernet with preamble and gap.
pub fn tcp_limit(rate: f64, mtu: u32) -> f64 {
    rate * f64::from(mtu - 52) / f64::from(mtu + 38)
}

/// One iperf3 stream.
#[derive(Debug)]
pub struct Iperf3<'a> {
    /// Process whose network namespace sends, and on which CPUs.
    pub sender: (u32, &'a CpuSet),
    /// Who receives.
    pub receiver: (u32, &'a CpuSet),
    /// The receiver's address.
    pub address: &'a str,
    /// sendfile instead of write.
    pub zero_copy: bool,
}

/// Runs one from the system under test of a lab to its first client; bits per second at the receiver.
pub fn iperf3_in(lab: &mut Lab, zero_copy: bool) -> Result<f64, Failed> {
    let testbed = lab.testbed().ok_or("the testbed is down")?;
    iperf3(&Iperf3 {
        sender: (testbed.sut.pid(), &testbed.placement.sut),
        receiver: (testbed.clients[0].host.pid(), &testbed.placement.clients),
        address: &testbed.clients[0].address.to_string(),
        zero_copy,
    })
}

/// Runs it; bits per second at the receiver.
pub fn iperf3(stream: &Iperf3<'_>) -> Result<f64, Failed> {
    let (pid, cpus) = stream.receiver;
    let mut server = inside(pid, cpus)
        .args(["iperf3", "-s", "-1", "-p", &PORT.to_string()])
        .stdout(Stdio::null())
        .spawn()?;
    std::thread::sleep(Duration::from_millis(200));
    let (pid, cpus) = stream.sender;
    let mut client = inside(pid, cpus);
    client.args(["iperf3", "-J", "-O", "0.5", "-c", stream.address, "-p", &PORT.to_string()]);
    client.args(["-t", &SECONDS.to_string(), "-l", &MESSAGE.0.to_string()]);
    if stream.zero_copy {
        client.arg("-Z");
    }
    let output = client.output()?;
    server.kill().ok();
    server.wait()?;
    received(&output.stdout)
}

/// Bits per second at the receiver, by what a client of iperf3 printed.
pub fn received(document: &[u8]) -> Result<f64, Failed> {
    let document: serde_json::Value = serde_json::from_slice(document)?;
    document["end"]["sum_received"]["bits_per_second"]
        .as_f64()
        .ok_or_else(|| format!("iperf3 said {}", document["error"]).into())
}

/// A command in the network namespace of process `pid`, on `cpus`.
pub fn inside(pid: u32, cpus: &CpuSet) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{pid}/ns/net")).args(["taskset", "-c", &cpus.to_string()]);
    command
}

/// What `measure` gives for the one (`true`) and for the other, `count` times, each of them first in every other pair.
pub fn pairs<T>(
    count: usize,
    mut measure: impl FnMut(bool) -> Result<T, Failed>,
) -> Result<Vec<(T, T)>, Failed> {
    let pair = |number| {
        let is_first = number % 2 == 0;
        let (first, second) = (measure(is_first)?, measure(!is_first)?);
        Ok(if is_first { (first, second) } else { (second, first) })
    };
    (0..count).map(pair).collect()
}

/// A mean of logarithms as a ratio, with its interval.
pub fn ratio(logarithms: &[f64]) -> String {
    let interval = interval::of_mean(logarithms, 0.95);
    match interval.and_then(|interval| Some((interval.mean, interval.low?, interval.high?))) {
        Some((mean, low, high)) => {
            format!("{:.2} ({:.2} to {:.2})", mean.exp(), low.exp(), high.exp())
        }
        None => "unknown".to_owned(),
    }
}

/// The head of the rows.
pub fn print_header() {
    println!("{:32} {:>9} {:>9} {:>9} {:>9}", "", "best", "median", "worst", "needed");
}

/// Best, median and worst of `values`, of which more is better, and what they are held against.
pub fn print_row(name: &str, values: &mut [f64], needed: &str) {
    values.sort_by(f64::total_cmp);
    print_ascending(name, values, needed);
}

/// The same of values of which less is better.
pub fn print_row_of_least(name: &str, values: &mut [f64], needed: &str) {
    values.sort_by(|one, other| other.total_cmp(one));
    print_ascending(name, values, needed);
}

/// A row of values from the worst to the best.
fn print_ascending(name: &str, values: &[f64], needed: &str) {
    let (worst, best) = (values[0], values[values.len() - 1]);
    let median = values[values.len() / 2];
    println!("{name:32} {best:>9.2} {median:>9.2} {worst:>9.2} {needed:>9}");
}
