//! Whether paced lines of cells are full: one adapter of 622 Mb/s in both directions together, four of them
//! one way, and the time that a second of cells takes. Run by `cargo xtask bench`.

mod common;

use linkrate_adapter::pacing::Line;
use linkrate_adapter::{LinkLaw, atm_line};
use linkrate_model::spec::Adapter;
use linkrate_model::{BitRate, Direction, InterfaceKnobs, TestbedSpec, Workload, model};

use common::{Failed, SECONDS, print_row};

/// Rounds of every row.
const ROUNDS: usize = 5;

/// Classical IP: TCP payload of a packet of 9180 bytes with timestamps, and its cells.
const PAYLOAD: f64 = 9128.0;
const CELLS: f64 = 192.0;

fn main() -> Result<(), Failed> {
    if !common::can_run("atm", &[]) {
        return Ok(());
    }
    println!("ATM adapters, Classical IP, MTU 9180, {ROUNDS} rounds of {SECONDS} s");
    common::print_header();
    pacing()?;
    rates("622, both ways, % of the limit", 1, Direction::Bidirectional)?;
    rates("4 of 622, transmit, %", 4, Direction::Transmit)?;
    rates("4 of 622, receive, %", 4, Direction::Receive)
}

/// How far a second of cells, sent as full packets, is from a second: parts in 10 000.
fn pacing() -> Result<(), Failed> {
    for (name, rate) in [("OC-3c", atm_line::OC3C), ("OC-12c", atm_line::OC12C)] {
        let mut line = Line::new(LinkLaw::Atm, Some(rate));
        let a_second = LinkLaw::Atm.payload_rate(rate).0 / 424.0;
        let units = (a_second / CELLS).floor();
        let unit = (PAYLOAD + 52.0) as usize + atm_line::LLC_SNAP as usize;
        let mut end_ps = 0;
        for _ in 0..units as u64 {
            end_ps = line.occupy(0, unit).end_ps;
        }
        let expected_ps = units * CELLS / a_second * 1e12;
        let off = (end_ps as f64 / expected_ps - 1.0).abs() * 1e4;
        print_row(&format!("pacing, {name}, off by 1/10 000"), &mut [off], "1");
    }
    Ok(())
}

/// Throughput in per cent of what TCP can get of the lines beside its acknowledgements, and how busy the system under test was.
fn rates(name: &str, ports: u32, direction: Direction) -> Result<(), Failed> {
    let model = model::find("atm-622")?;
    let BitRate(rate) = model.rate.ok_or("a model with a rate")?;
    // a line that carries data both ways has an acknowledgement of two cells for every two packets
    let ways = match direction {
        Direction::Bidirectional => 2.0 * CELLS / (CELLS + 1.0),
        Direction::Transmit | Direction::Receive => 1.0,
    };
    let limit = rate * 26.0 / 27.0 * PAYLOAD * 8.0 / (CELLS * 424.0) * f64::from(ports) * ways;
    let mut lab = common::lab(&TestbedSpec {
        adapter: Adapter::Model(Box::new(model)),
        clients: ports,
        ports,
        ..TestbedSpec::default()
    })?;
    let (mut percents, mut busy) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let workload = Workload { direction, ..Workload::default() };
        let knobs = InterfaceKnobs::default();
        let spec = common::run_spec(workload, knobs, ports, Some(ports), SECONDS);
        let run = common::run(&mut lab, &spec)?;
        percents.push(run.traffic.bits_per_second() * 100.0 / limit);
        busy.push(run.sut_cpu.percent());
    }
    print_row(name, &mut percents, "99.9 %");
    print_row("  its CPU, %", &mut busy, "");
    Ok(())
}
