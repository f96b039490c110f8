//! What a TCP offload engine saves: the host's CPU time for each KB with the connection at the adapter,
//! as a ratio to the same adapter with the connection at the host, at 1 Gb/s. Run by `cargo xtask bench`.

mod common;

use linkrate_study::executor::Executor;
use linkrate_terms::knobs::{PortRequest, Toe};
use linkrate_terms::spec::Adapter;
use linkrate_terms::{
    ByteSize, Direction, InterfaceKnobs, MessageSize, TestbedSpec, Workload, model,
};

use common::{Failed, print_row};

/// Rounds of both, in turn.
const ROUNDS: usize = 7;
const SECONDS: u64 = 2;

fn main() -> Result<(), Failed> {
    if !common::can_run("toe", &[]) {
        return Ok(());
    }
    let (sut, clients) = common::two_cpus()?;
    let clients = if clients.is_empty() { sut.clone() } else { clients };
    let mut lab = common::lab(&TestbedSpec {
        adapter: Adapter::Model(Box::new(model::find("toe")?)),
        clients: 1,
        ports: 1,
        sut_cpus: Some(sut),
        client_cpus: Some(clients),
        ..TestbedSpec::default()
    })?;
    println!("TOE, one stream, {ROUNDS} rounds of {SECONDS} s in turn: µs/KB on to off, at most");
    println!("{:32} {:>9} {:>9} {:>9} {:>9}", "", "best", "median", "worst", "needed");
    for (message, direction, needed) in [
        (64 << 10, Direction::Transmit, "0.4"),
        (64 << 10, Direction::Receive, "0.35"),
        (4 << 10, Direction::Transmit, "0.3"),
        (4 << 10, Direction::Receive, "0.3"),
        (512, Direction::Transmit, "0.6"),
        (512, Direction::Receive, "0.6"),
    ] {
        let message = ByteSize(message);
        let mut demand = |toe| -> Result<f64, Failed> {
            let workload =
                Workload { direction, message: MessageSize::Fixed(message), ..Workload::default() };
            let port = PortRequest { toe: Some(toe), ..PortRequest::default() };
            let knobs = InterfaceKnobs { port, ..InterfaceKnobs::default() };
            let spec = common::run_spec(workload, knobs, 1, Some(1), SECONDS);
            lab.run(&spec)?.service_demand_us_per_kb().ok_or_else(|| "nothing arrived".into())
        };
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let off = demand(Toe::Off)?;
            ratios.push(demand(Toe::On)? / off);
        }
        print_row(&format!("{direction:?}, {message}"), &mut ratios, needed);
    }
    Ok(())
}
