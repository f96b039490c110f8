//! linkrate beside iperf3: the same namespaces, CPUs, congestion control and message size, in
//! turn, so that only ratios within one run are compared. Run by `cargo xtask bench`.
//!
//! iperf3 sets TCP_CONGESTION after it has connected, which leaves the default algorithm's pacing
//! on. So the routes of this lab name the congestion control, and both programs get it from there.

mod common;

use linkrate_lab::Lab;
use linkrate_model::{
    CpuSet, InterfaceKnobs, Measurement, MessageSize, Protocol, ReceivePath, SendPath, TestbedSpec,
    Workload,
};

use common::{Failed, MESSAGE, ROUNDS, SECONDS, print_row};

fn main() -> Result<(), Failed> {
    if !common::can_run("iperf3", &["iperf3"]) {
        return Ok(());
    }
    // as with other benchmarks, a word on the command line chooses those whose name has it
    let wanted = common::words().next();
    let runs = |name: &str| wanted.as_deref().is_none_or(|word| name.contains(word));
    let (one, two) = common::two_cpus()?;
    println!("single stream, {MESSAGE} messages, cubic, {ROUNDS} rounds of {SECONDS} s in turn");
    common::print_header();
    if runs("one CPU") {
        streams("one CPU", &one, &one)?;
    }
    if !two.is_empty() && runs("two CPUs") {
        streams("two CPUs", &one, &two)?;
    }
    if !two.is_empty() && runs("transactions") {
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
    common::lab(&spec)
}

fn measured(lab: &mut Lab, workload: Workload) -> Result<Measurement, Failed> {
    let interface = InterfaceKnobs::default();
    common::run(lab, &common::run_spec(workload, interface, 1, None, SECONDS))
}

fn stream(lab: &mut Lab, send_path: SendPath, receive_path: ReceivePath) -> Result<f64, Failed> {
    let workload = Workload {
        message: MessageSize::Fixed(MESSAGE),
        send_path,
        receive_path,
        // iperf3 has one buffer of a message at each end
        working_set: Some(MESSAGE),
        receive_batching: true,
        ..Workload::default()
    };
    Ok(measured(lab, workload)?.traffic.bits_per_second())
}

fn streams(name: &str, sut: &CpuSet, clients: &CpuSet) -> Result<(), Failed> {
    let mut lab = lab(sut, clients)?;
    let (mut plain, mut zero_copy) = (Vec::new(), Vec::new());
    let mut rates = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        let round = [
            stream(&mut lab, SendPath::Plain, ReceivePath::Plain)?,
            common::iperf3_in(&mut lab, false)?,
            common::iperf3_in(&mut lab, true)?,
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
