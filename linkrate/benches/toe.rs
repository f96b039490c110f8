//! What a TCP offload engine saves: the host's CPU time for each KB with the connection at the adapter,
//! as a ratio to the same adapter with the connection at the host, at 1 Gb/s; and the throughput of one
//! connection on an adapter whose link has no rate. Run by `cargo xtask bench`.

mod common;

use linkrate_lab::Lab;
use linkrate_study::executor::Executor;
use linkrate_terms::knobs::{PortRequest, Toe};
use linkrate_terms::spec::Adapter;
use linkrate_terms::{
    ByteSize, Direction, InterfaceKnobs, Measurement, MessageSize, Model, TestbedSpec, Workload,
    model,
};

use common::{Failed, print_row};

/// Rounds of both, in turn.
const ROUNDS: usize = 7;
const SECONDS: u64 = 2;

fn main() -> Result<(), Failed> {
    if !common::can_run("toe", &[]) {
        return Ok(());
    }
    let toe = model::find("toe")?;
    let mut lab = lab(toe.clone())?;
    println!("TOE, one stream, {ROUNDS} rounds of {SECONDS} s in turn: µs/KB on to off, at most");
    print_header();
    for (message, direction, needed) in [
        (64 << 10, Direction::Transmit, "0.4"),
        (64 << 10, Direction::Receive, "0.35"),
        (4 << 10, Direction::Transmit, "0.3"),
        (4 << 10, Direction::Receive, "0.3"),
        (512, Direction::Transmit, "0.6"),
        (512, Direction::Receive, "0.6"),
    ] {
        compare(&mut lab, message, direction, needed, Measurement::service_demand_us_per_kb)?;
    }
    drop(lab);
    let mut lab = self::lab(Model { rate: None, bus: None, ..toe })?;
    println!("\nthe same without a rate of the link: throughput on to off, at least");
    print_header();
    for direction in [Direction::Transmit, Direction::Receive] {
        compare(&mut lab, 64 << 10, direction, "1.0", |run| {
            let traffic = &run.traffic;
            Some(match direction {
                Direction::Receive => traffic.receive_bytes as f64 / traffic.receive_seconds,
                _ => traffic.transmit_bytes as f64 / traffic.transmit_seconds,
            })
        })?;
    }
    Ok(())
}

/// One port of `model` with one client, which has CPUs of its own.
fn lab(model: Model) -> Result<Lab, Failed> {
    let (sut, clients) = common::two_cpus()?;
    let clients = if clients.is_empty() { sut.clone() } else { clients };
    common::lab(&TestbedSpec {
        adapter: Adapter::Model(Box::new(model)),
        clients: 1,
        ports: 1,
        sut_cpus: Some(sut),
        client_cpus: Some(clients),
        ..TestbedSpec::default()
    })
}

fn print_header() {
    println!("{:32} {:>9} {:>9} {:>9} {:>9}", "", "best", "median", "worst", "needed");
}

/// Prints the quotient of a figure with the connection at the adapter and at the host.
fn compare(
    lab: &mut Lab,
    message: u64,
    direction: Direction,
    needed: &str,
    figure: impl Fn(&Measurement) -> Option<f64>,
) -> Result<(), Failed> {
    let message = ByteSize(message);
    let mut measured = |toe| -> Result<f64, Failed> {
        let workload =
            Workload { direction, message: MessageSize::Fixed(message), ..Workload::default() };
        let port = PortRequest { toe: Some(toe), ..PortRequest::default() };
        let knobs = InterfaceKnobs { port, ..InterfaceKnobs::default() };
        let spec = common::run_spec(workload, knobs, 1, Some(1), SECONDS);
        figure(&lab.run(&spec)?).ok_or_else(|| "nothing arrived".into())
    };
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let off = measured(Toe::Off)?;
        ratios.push(measured(Toe::On)? / off);
    }
    print_row(&format!("{direction:?}, {message}"), &mut ratios, needed);
    Ok(())
}
