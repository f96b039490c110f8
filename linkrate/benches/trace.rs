//! The price of the trace of what runs on the CPUs of the system under test: the same runs with it and without, in one
//! lab, in pairs of which the order changes. Run by `cargo xtask bench`.

mod common;

use linkrate_lab::Lab;
use linkrate_model::workload::Protocol;
use linkrate_model::{
    CpuMeter, Direction, InterfaceKnobs, Measurement, MessageSize, Workload, model,
};

use common::{Failed, MESSAGE, ratio};

/// Pairs of each case.
const PAIRS: usize = 9;

fn main() -> Result<(), Failed> {
    if !common::can_run("trace", &[]) {
        return Ok(());
    }
    println!("the trace, on to off, {PAIRS} pairs of a second; ratios with 95 % intervals");
    println!("{:26} {:>22} {:>22} {:>14}", "", "rate", "service demand", "demand, off");
    for name in ["ten-gigabit", "gigabit"] {
        let mut lab = common::lab(&common::testbed(model::find(name)?, 1)?)?;
        for (what, workload) in [
            ("receive", Workload { direction: Direction::Receive, ..stream() }),
            ("transmit", stream()),
            (
                "request/response",
                Workload { kind: Protocol::RequestResponse, ..Workload::default() },
            ),
        ] {
            compare(&mut lab, &format!("{name}, {what}"), workload)?;
        }
    }
    Ok(())
}

fn stream() -> Workload {
    Workload { message: MessageSize::Fixed(MESSAGE), ..Workload::default() }
}

fn compare(lab: &mut Lab, name: &str, workload: Workload) -> Result<(), Failed> {
    let spec = common::run_spec(workload, InterfaceKnobs::default(), 1, Some(1), 1);
    let figures = |traces| -> Result<(f64, f64), Failed> {
        lab.testbed().ok_or("no testbed")?.trace(CpuMeter::Auto, traces)?;
        let run = common::run(lab, &spec)?;
        if run.sut_cpu.parts.is_some() != traces {
            return Err("what runs cannot be traced here".into());
        }
        rate_and_demand(&run).ok_or_else(|| "nothing arrived".into())
    };
    let [mut rates, mut demands, mut without] = [const { Vec::new() }; 3];
    for (on, off) in common::pairs(PAIRS, figures)? {
        rates.push((on.0 / off.0).ln());
        demands.push((on.1 / off.1).ln());
        without.push(off.1);
    }
    let mean = without.iter().sum::<f64>() / without.len() as f64;
    println!("{name:26} {:>22} {:>22} {mean:>11.2} us", ratio(&rates), ratio(&demands));
    Ok(())
}

/// Bits and µs for a KB, or transactions a second and µs for each.
fn rate_and_demand(run: &Measurement) -> Option<(f64, f64)> {
    match run.service_demand_us_per_transaction() {
        Some(demand) => Some((run.traffic.transactions_per_second(), demand)),
        None => Some((run.traffic.bits_per_second(), run.service_demand_us_per_kb()?)),
    }
}
