//! Aggregates beside single ports: two links without rate beside one, whether scaled links of eight
//! ports are full in each direction, and how soon traffic leaves a port without a carrier. Run by `cargo
//! xtask bench`. `cargo bench -p linkrate --bench aggregate -- unpaced` runs one part (`unpaced`, `paced`,
//! `carrier`).

mod common;

use std::time::Duration;

use linkrate_lab::Lab;
use linkrate_model::knobs::{AggregateMode, AggregateRequest};
use linkrate_model::{
    Balance, Direction, Event, Fault, InterfaceKnobs, MessageSize, Model, RunSpec, TestbedSpec,
    Workload, model,
};

use common::{Failed, MESSAGE, ROUNDS, SECONDS, print_row, print_row_of_least};

/// Ports and clients of the aggregate on paced links, and the share of their rates. A small machine
/// carries eight links of this rate in both directions.
const PORTS: u32 = 8;
const SCALE: f64 = 0.05;

fn main() -> Result<(), Failed> {
    if !common::can_run("aggregate", &[]) {
        return Ok(());
    }
    println!("aggregates, cubic, MTU 1500, {ROUNDS} rounds of {SECONDS} s in turn");
    common::print_header();
    let part = common::words().next();
    let is_wanted = |name| part.as_ref().is_none_or(|part| part == name);
    if is_wanted("unpaced") {
        unpaced()?;
    }
    if is_wanted("paced") {
        paced()?;
    }
    if is_wanted("carrier") {
        carrier()?;
    }
    Ok(())
}

fn lab(model: Model, ports: u32, of_aggregate: bool) -> Result<Lab, Failed> {
    common::lab(&TestbedSpec {
        ports: if of_aggregate { ports } else { 1 },
        clients_per_port: if of_aggregate { 1 } else { ports },
        aggregate: if of_aggregate { ports } else { 0 },
        ..common::testbed(model, ports)?
    })
}

/// An aggregate whose clients are spread evenly.
fn balanced(ports: u32, tso: bool) -> AggregateRequest {
    AggregateRequest {
        aggregate: Some(ports),
        mode: Some(AggregateMode::Lacp),
        balance: Some(Balance::Mac),
        switch_balance: Some(Balance::Mac),
        aggregate_tso: Some(tso),
        ..AggregateRequest::default()
    }
}

/// Throughput in one run, in bits per second.
fn throughput(
    lab: &mut Lab,
    direction: Direction,
    interface: InterfaceKnobs,
    clients: u32,
    ports: u32,
) -> Result<f64, Failed> {
    let message = MessageSize::Fixed(MESSAGE);
    let workload = Workload { message, direction, ..Workload::default() };
    let spec = common::run_spec(workload, interface, clients, Some(ports), SECONDS);
    Ok(common::run(lab, &spec)?.traffic.bits_per_second())
}

/// One port without a rate, with two clients behind a switch, beside an aggregate of two such ports.
/// Both have everything on.
fn unpaced() -> Result<(), Failed> {
    let model = model::find("ten-gigabit")?;
    let model = Model { rate: None, bus: None, queues: 1, ..model };
    for (direction, way) in [(Direction::Transmit, "transmit"), (Direction::Receive, "receive")] {
        // a lab takes its place on the CPUs for as long as it lives, so each is built for its turn
        let turn = |of_aggregate| -> Result<f64, Failed> {
            let mut lab = lab(model.clone(), 2, of_aggregate)?;
            let (ports, aggregate) = match of_aggregate {
                true => (2, balanced(2, true)),
                false => (1, AggregateRequest::default()),
            };
            let interface = InterfaceKnobs { aggregate, ..common::all_on() };
            throughput(&mut lab, direction, interface, 2, ports)
        };
        let (mut one, mut both, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (port, aggregate) = (turn(false)?, turn(true)?);
            one.push(port / 1e9);
            both.push(aggregate / 1e9);
            ratio.push(aggregate / port);
        }
        print_row(&format!("{way}, one port"), &mut one, "Gb/s");
        print_row(&format!("{way}, two ports as one"), &mut both, "Gb/s");
        print_row(&format!("{way}, ratio"), &mut ratio, "0.95");
    }
    Ok(())
}

/// Throughput of eight scaled Gigabit ports with eight clients, in per cent of what TCP can get of the
/// links.
fn paced() -> Result<(), Failed> {
    let model = model::find("gigabit")?.scaled(SCALE);
    let rate = model.rate.ok_or("a model with a rate")?.0;
    let mut lab = lab(model, PORTS, true)?;
    for (direction, way, needed) in [
        (Direction::Transmit, "transmit", "99 %"),
        (Direction::Receive, "receive", "99 %"),
        (Direction::Bidirectional, "bidirectional", "97 %"),
    ] {
        let ways = if direction == Direction::Bidirectional { 2.0 } else { 1.0 };
        let limit = common::tcp_limit(rate, 1500) * f64::from(PORTS) * ways;
        let mut percents = Vec::new();
        for _ in 0..ROUNDS {
            let aggregate = balanced(PORTS, false);
            let interface = InterfaceKnobs { aggregate, ..InterfaceKnobs::default() };
            let rate = throughput(&mut lab, direction, interface, PORTS, PORTS)?;
            percents.push(rate * 100.0 / limit);
        }
        print_row(&format!("{PORTS} links at {SCALE}, {way}, %"), &mut percents, needed);
    }
    Ok(())
}

/// The time from a lost carrier until the host's end gives the port up, and from there until the first
/// frame of a connection that the port had carried has left by the other port: one without traffic, and
/// one that is full. Links have their whole rate, so that a frame takes 12 us, and the packets in the ring
/// of a full port at most 1 ms.
fn carrier() -> Result<(), Failed> {
    let event = Event {
        fault: Fault::Carrier,
        at: Duration::from_millis(400),
        recover: Some(Duration::from_millis(500)),
    };
    let mut lab = lab(model::find("gigabit")?, 2, true)?;
    // one client's frames have one pair of MAC addresses, and so one port
    for (clients, balance, about) in
        [(1, Balance::Mac, "to an idle port, ms"), (2, Balance::Port, "to a full port, ms")]
    {
        let (mut detected, mut moved) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let aggregate = AggregateRequest { balance: Some(balance), ..balanced(2, false) };
            let interface = InterfaceKnobs { aggregate, ..InterfaceKnobs::default() };
            let workload = Workload { connections: 4, ..Workload::default() };
            let spec = RunSpec {
                event: Some(event),
                // the losses of slow start are repaired by then
                warm_up: Duration::from_secs(2),
                ..common::run_spec(workload, interface, clients, Some(2), 1)
            };
            let failure = common::run(&mut lab, &spec)?.failure.ok_or("a run with an event")?;
            let found_ns = failure.host_detected_ns.ok_or("not detected")?;
            let moved_ns = failure.host_moved_ns.ok_or("no connection moved")?;
            detected.push(found_ns as f64 / 1e6);
            moved.push(moved_ns.saturating_sub(found_ns) as f64 / 1e6);
        }
        print_row_of_least("lost carrier detected, ms", &mut detected, "");
        print_row_of_least(&format!("then moved {about}"), &mut moved, "1 ms");
    }
    Ok(())
}
