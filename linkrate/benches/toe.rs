//! What a TCP offload engine saves: the host's CPU time for each KB with the connection at the adapter,
//! as a ratio to the same adapter with the connection at the host, at 1 Gb/s; and the throughput of one
//! connection on an adapter whose link has no rate. Run by `cargo xtask bench`.

mod common;

use linkrate_lab::Lab;
use linkrate_model::knobs::{PortRequest, Toe};
use linkrate_model::{
    ByteSize, Direction, InterfaceKnobs, Measurement, MessageSize, Model, Workload, model,
};

use common::{Failed, ROUNDS, SECONDS, print_row, print_row_of_least};

fn main() -> Result<(), Failed> {
    if !common::can_run("toe", &[]) {
        return Ok(());
    }
    let toe = model::find("toe")?;
    let mut lab = common::lab(&common::testbed(toe.clone(), 1)?)?;
    println!(
        "TOE, one stream, {ROUNDS} rounds of {SECONDS} s in turn: service demand, on to off at most"
    );
    common::print_header();
    for (message, direction, needed) in [
        (64 << 10, Direction::Transmit, "0.4"),
        (64 << 10, Direction::Receive, "0.35"),
        (4 << 10, Direction::Transmit, "0.3"),
        (4 << 10, Direction::Receive, "0.3"),
        (512, Direction::Transmit, "0.6"),
        (512, Direction::Receive, "0.6"),
    ] {
        compare(&mut lab, message, direction, needed, &DEMAND)?;
    }
    drop(lab);
    let unpaced = Model { rate: None, bus: None, ..toe };
    let mut lab = common::lab(&common::testbed(unpaced, 1)?)?;
    println!("\nthe same without a rate of the link: throughput on to off, at least");
    common::print_header();
    for direction in [Direction::Transmit, Direction::Receive] {
        compare(&mut lab, 64 << 10, direction, "1.0", &THROUGHPUT)?;
    }
    Ok(())
}

/// Prints a figure with the connection at the host, at the adapter, and the quotient.
fn compare(
    lab: &mut Lab,
    message: u64,
    direction: Direction,
    needed: &str,
    figure: &Figure,
) -> Result<(), Failed> {
    let message = ByteSize(message);
    let mut measured = |toe| -> Result<f64, Failed> {
        let workload =
            Workload { direction, message: MessageSize::Fixed(message), ..Workload::default() };
        let port = PortRequest { toe: Some(toe), ..PortRequest::default() };
        let knobs = InterfaceKnobs { port, ..InterfaceKnobs::default() };
        let spec = common::run_spec(workload, knobs, 1, Some(1), SECONDS);
        (figure.of)(&common::run(lab, &spec)?).ok_or_else(|| "nothing arrived".into())
    };
    let [mut offs, mut ons, mut ratios] = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let off = measured(Toe::Off)?;
        let on = measured(Toe::On)?;
        offs.push(off);
        ons.push(on);
        ratios.push(on / off);
    }
    let name = format!("{direction:?}, {message}");
    (figure.print)(&format!("{name}, off"), &mut offs, figure.unit);
    (figure.print)(&format!("{name}, on"), &mut ons, figure.unit);
    (figure.print)(&format!("{name}, on to off"), &mut ratios, needed);
    Ok(())
}

/// A figure of a run.
struct Figure {
    unit: &'static str,
    of: fn(&Measurement) -> Option<f64>,
    /// Prints a row, with the best one first.
    print: fn(&str, &mut [f64], &str),
}

const DEMAND: Figure =
    Figure { unit: "us/KB", of: Measurement::service_demand_us_per_kb, print: print_row_of_least };

const THROUGHPUT: Figure =
    Figure { unit: "Gb/s", of: |run| Some(run.traffic.bits_per_second() / 1e9), print: print_row };
