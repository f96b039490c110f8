//! linkrate beside iperf3: the same namespaces, CPUs, congestion control and message size, in
//! turn, so that only ratios within one run are compared. Run by `cargo xtask bench`.
//!
//! iperf3 sets TCP_CONGESTION after it has connected, which leaves the default algorithm's pacing
//! on. So the routes of this lab name the congestion control, and both programs get it from there.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linkrate_lab::{Lab, LabOptions};
use linkrate_study::executor::Executor;
use linkrate_terms::{
    ByteSize, CpuSet, InterfaceKnobs, Measurement, MessageSize, Protocol, ReceivePath, RunSpec,
    SendPath, SocketKnobs, Task, TestbedSpec, Workload,
};

const MESSAGE: ByteSize = ByteSize(128 << 10);
const PORT: u16 = 5201;

/// Rounds of every contestant, in turn.
const ROUNDS: usize = 7;
const SECONDS: u64 = 2;

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    if Command::new("iperf3").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("SKIPPED iperf3: not installed; apt-get install iperf3");
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED iperf3: entering a lab's namespaces takes root");
        return Ok(());
    }
    let cpus = CpuSet::from_iter(0..std::thread::available_parallelism()?.get() as u32);
    let one: CpuSet = cpus.iter().take(1).collect();
    let two: CpuSet = cpus.iter().skip(1).take(1).collect();
    println!("single stream, {MESSAGE} messages, cubic, {ROUNDS} rounds of {SECONDS} s in turn");
    println!("{:22} {:>9} {:>9} {:>9} {:>9}", "", "best", "median", "worst", "needed");
    streams("one CPU", &one, &one)?;
    if !two.is_empty() {
        streams("two CPUs", &one, &two)?;
        transactions(&one, &two)?;
    }
    Ok(())
}

fn lab(sut: &CpuSet, clients: &CpuSet) -> Result<Lab, Failed> {
    let spec = TestbedSpec {
        sut_cpus: Some(sut.clone()),
        client_cpus: Some(clients.clone()),
        ..TestbedSpec::default()
    };
    let options = LabOptions {
        program: PathBuf::from(env!("CARGO_BIN_EXE_linkrate")),
        stop: Arc::new(AtomicBool::new(false)),
        route_congestion: Some("cubic".to_owned()),
    };
    Ok(Lab::build(&spec, options)?)
}

fn measured(lab: &mut Lab, workload: Workload) -> Result<Measurement, Failed> {
    let spec = RunSpec {
        task: Task::Workload(workload),
        interface: InterfaceKnobs::default(),
        socket: SocketKnobs::default(),
        clients: 1,
        ports: None,
        warm_up: Duration::from_millis(500),
        window: Duration::from_secs(SECONDS),
        seed: 1,
    };
    Ok(lab.run(&spec)?)
}

fn stream(lab: &mut Lab, send_path: SendPath, receive_path: ReceivePath) -> Result<f64, Failed> {
    let message = MessageSize::Fixed(MESSAGE);
    let workload = Workload { message, send_path, receive_path, ..Workload::default() };
    Ok(measured(lab, workload)?.traffic.bits_per_second())
}

/// One iperf3 stream from the SUT to its client, bits per second at the receiver.
fn iperf3(lab: &mut Lab, zero_copy: bool) -> Result<f64, Failed> {
    let placement = {
        let testbed = lab.testbed().ok_or("the testbed is down")?;
        testbed.placement.clone()
    };
    let testbed = lab.testbed().ok_or("the testbed is down")?;
    let address = testbed.clients[0].address.to_string();
    let mut server = inside(testbed.clients[0].host.pid(), &placement.clients)
        .args(["iperf3", "-s", "-1", "-p", &PORT.to_string()])
        .stdout(Stdio::null())
        .spawn()?;
    std::thread::sleep(Duration::from_millis(200));
    let mut client = inside(testbed.sut.pid(), &placement.sut);
    client.args(["iperf3", "-J", "-O", "0.5", "-c", &address, "-p", &PORT.to_string()]);
    client.args(["-t", &SECONDS.to_string(), "-l", &MESSAGE.0.to_string()]);
    if zero_copy {
        client.arg("-Z");
    }
    let output = client.output()?;
    server.kill().ok();
    server.wait()?;
    let document: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    document["end"]["sum_received"]["bits_per_second"]
        .as_f64()
        .ok_or_else(|| format!("iperf3 said {}", document["error"]).into())
}

/// A command in the network namespace of process `pid`, on `cpus`.
fn inside(pid: u32, cpus: &CpuSet) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{pid}/ns/net")).args(["taskset", "-c", &cpus.to_string()]);
    command
}

fn streams(name: &str, sut: &CpuSet, clients: &CpuSet) -> Result<(), Failed> {
    let mut lab = lab(sut, clients)?;
    let (mut plain, mut zero_copy) = (Vec::new(), Vec::new());
    let mut rates = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        let round = [
            stream(&mut lab, SendPath::Plain, ReceivePath::Plain)?,
            iperf3(&mut lab, false)?,
            iperf3(&mut lab, true)?,
            stream(&mut lab, SendPath::Splice, ReceivePath::Truncate)?,
        ];
        let best = round[1].max(round[2]);
        plain.push(round[0] / best);
        zero_copy.push(round[3] / best);
        rates.iter_mut().zip(round).for_each(|(rates, rate)| rates.push(rate / 1e9));
    }
    let contestants = ["linkrate", "iperf3", "iperf3 -Z", "linkrate --zero-copy"];
    for (contestant, rates) in contestants.iter().zip(&mut rates) {
        print_row(contestant, rates, "Gb/s");
    }
    print_row(&format!("{name}: plain"), &mut plain, "1.0");
    print_row(&format!("{name}: zero-copy"), &mut zero_copy, "1.7");
    Ok(())
}

/// The instrument's own share of the SUT CPU that it reports.
fn transactions(sut: &CpuSet, clients: &CpuSet) -> Result<(), Failed> {
    let mut lab = lab(sut, clients)?;
    let mut shares = Vec::new();
    for _ in 0..ROUNDS {
        let kind = Protocol::RequestResponse;
        let measurement = measured(&mut lab, Workload { kind, ..Workload::default() })?;
        let user: u64 = measurement.sut_cpu.threads.iter().map(|thread| thread.user_ns).sum();
        shares.push(user as f64 * 100.0 / measurement.sut_cpu.busy_ns() as f64);
    }
    print_row("own user time, %", &mut shares, "< 10");
    Ok(())
}

fn print_row(name: &str, values: &mut [f64], needed: &str) {
    values.sort_by(f64::total_cmp);
    let (worst, best) = (values[0], values[values.len() - 1]);
    let median = values[values.len() / 2];
    println!("{name:22} {best:>9.2} {median:>9.2} {worst:>9.2} {needed:>9}");
}
