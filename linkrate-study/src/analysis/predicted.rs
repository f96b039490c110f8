//! The shares of an aggregate's ports that balancing gives the flows of a cell, and the limit that
//! follows from them. The [`Balancer`](linkrate_wire::balance::Balancer) that chooses in the data path
//! chooses here.
//!
//! It begins with an empty table, to which the flows come in the order in which they were connected. At
//! the aggregate a flow may meet an entry that an earlier run has left, which is used again for 30 s.

use linkrate_model::evidence::FlowEnds;
use linkrate_model::knobs::{AggregateKnobs, AggregateMode};
use linkrate_model::{Balance, Direction, Measurement, TestbedSpec};
use linkrate_wire::frame::MacAddress;
use linkrate_wire::limits::aggregate::{Aggregate, AggregateError, Flow, Named};

use crate::analysis::{adapter, limit};
use crate::quantity::{Interval, Quantity, Unit};
use crate::results::{Predicted, PredictedPort};
use crate::store::StoredRun;
use crate::verdict::FlowDirection;
use linkrate_stats::sample::mean;

/// What balancing gives the flows of one run in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPrediction {
    /// Flows of each port, in the order in which ports take turns.
    pub flows: Vec<usize>,
    /// The part of the throughput that each port has, per cent, if greedy flows share links evenly.
    pub shares: Vec<f64>,
    /// The throughput at most, in limits of one port.
    pub ports_full: usize,
}

/// The prediction of a run in one direction. `None` where the run had no aggregate, or no flow in the direction, or did
/// not store its flows. The error is why balancing does not tell the ports of flows, as a phrase.
pub fn of_run(
    run: &Measurement,
    direction: FlowDirection,
) -> Option<Result<RunPrediction, String>> {
    let asked = &run.effective.interface.aggregate;
    let ports = asked.aggregate.filter(|ports| *ports > 1)?;
    let knobs = asked.over(&AggregateKnobs { aggregate: ports, ..AggregateKnobs::default() });
    let balance = balance_of(&knobs, direction);
    let flows: Vec<&FlowEnds> = run.evidence.flows.iter().filter(|f| sends(f, direction)).collect();
    if flows.is_empty() {
        return None;
    }
    let queues = run.effective.interface.queues.unwrap_or(1);
    let unknown = match (balance, direction) {
        (Balance::RoundRobin, _) => "each frame takes the next port",
        (Balance::Adaptive, _) => "flows go where the load is least",
        (Balance::Cpu, _) => "the CPU that sends chooses the port",
        (_, FlowDirection::Transmit) if queues > 1 => "each queue has a table of its own",
        _ => return Some(named(&flows, ports_in_use(&knobs), balance, direction)),
    };
    Some(Err(unknown.to_owned()))
}

/// What chooses the port of a frame in one direction: the host, or the switch.
fn balance_of(knobs: &AggregateKnobs, direction: FlowDirection) -> Balance {
    match direction {
        FlowDirection::Transmit => knobs.balance,
        FlowDirection::Receive => knobs.switch_balance,
    }
}

/// Ports that carry traffic at the same time.
fn ports_in_use(knobs: &AggregateKnobs) -> usize {
    let all = matches!(knobs.mode, AggregateMode::Manual | AggregateMode::Lacp);
    if all { knobs.aggregate as usize } else { 1 }
}

fn sends(flow: &FlowEnds, direction: FlowDirection) -> bool {
    match flow.direction {
        Direction::Bidirectional => true,
        Direction::Transmit => direction == FlowDirection::Transmit,
        Direction::Receive => direction == FlowDirection::Receive,
    }
}

fn named(
    flows: &[&FlowEnds],
    ports: usize,
    balance: Balance,
    direction: FlowDirection,
) -> Result<RunPrediction, String> {
    let mac = |text: &str| text.parse::<MacAddress>().map_err(|error| error.to_string());
    let flow = |ends: &&FlowEnds| {
        let (sut, far) = ((ends.sut, mac(&ends.sut_mac)?), (ends.peer, mac(&ends.peer_mac)?));
        let ((from, source_mac), (to, destination_mac)) = match direction {
            FlowDirection::Transmit => (sut, far),
            FlowDirection::Receive => (far, sut),
        };
        let (source, destination) = (from, to);
        let (mac, source_mac) = (Some(destination_mac), Some(source_mac));
        Ok(Flow { source, destination, mac, source_mac })
    };
    let by_address: Vec<Flow> = flows.iter().map(flow).collect::<Result<_, String>>()?;
    let aggregate = Aggregate { ports, balance, queues: 1 };
    let error = |error: AggregateError| error.to_string();
    let named: Named = aggregate.named(&by_address).map_err(error)?;
    let peers: Vec<usize> = flows.iter().map(|flow| flow.client as usize).collect();
    let rates = named.shared(&peers);
    let all: f64 = rates.iter().sum();
    let shares = rates.iter().map(|rate| rate * 100.0 / all).collect();
    Ok(RunPrediction { ports_full: named.most(&peers), flows: named.per_port, shares })
}

/// The predictions of a cell, one for each direction that it loads. Ports stand in the order of their
/// shares, the fullest first, because the port that is the first in turn is not always the first of the
/// aggregate; figures are means over the runs.
pub fn of_cell(runs: &[&StoredRun], testbed: &TestbedSpec) -> Vec<Predicted> {
    let directions = [FlowDirection::Transmit, FlowDirection::Receive];
    directions.into_iter().filter_map(|direction| one_way(runs, testbed, direction)).collect()
}

fn one_way(
    runs: &[&StoredRun],
    testbed: &TestbedSpec,
    direction: FlowDirection,
) -> Option<Predicted> {
    let (mut flows, mut shares, mut measured) = (Vec::new(), Vec::new(), Vec::new());
    let (mut limits, mut unknown, mut balance) = (Vec::new(), None, None);
    for (run, good) in runs.iter().filter_map(|run| Some((run, run.measurement()?))) {
        let Some(predicted) = of_run(good, direction) else { continue };
        let knobs = good.effective.interface.aggregate.over(&AggregateKnobs::default());
        balance = Some(balance_of(&knobs, direction));
        measured.extend(measured_shares(good, direction).map(descending));
        match predicted {
            Ok(predicted) => {
                let port = limit::of_port(&run.spec, testbed);
                limits.extend(port.map(|port| port * predicted.ports_full as f64));
                flows.push(descending(predicted.flows.iter().map(|n| *n as f64).collect()));
                shares.push(descending(predicted.shares));
            }
            Err(reason) => unknown = Some(reason),
        }
    }
    let balance = balance?;
    let at = |all: &[Vec<f64>], port: usize| {
        mean(&all.iter().filter_map(|run| run.get(port).copied()).collect::<Vec<_>>())
    };
    let ports = [&flows, &measured].into_iter().flatten().map(Vec::len).max().unwrap_or(0);
    let port = |port| PredictedPort {
        flows: at(&flows, port),
        share_percent: at(&shares, port),
        measured_percent: at(&measured, port),
    };
    let quantity = |mean| Quantity {
        interval: Interval { mean, low: None, high: None },
        unit: Unit::BitsPerSecond,
    };
    Some(Predicted {
        direction,
        balance: balance.to_string(),
        ports: (0..ports).map(port).collect(),
        limit: mean(&limits).map(quantity),
        unpredictable: unknown,
    })
}

/// The part of the octets that each port carried in one direction, per cent.
pub fn measured_shares(run: &Measurement, direction: FlowDirection) -> Option<Vec<f64>> {
    let counter = match direction {
        FlowDirection::Transmit => "ifHCOutOctets",
        FlowDirection::Receive => "ifHCInOctets",
    };
    let ports = &adapter::evidence(run)?.ports;
    let octets: Vec<f64> =
        ports.iter().map(|port| port.counters.get(counter).map_or(0.0, |n| *n as f64)).collect();
    let all: f64 = octets.iter().sum();
    (all > 0.0).then(|| octets.iter().map(|octets| octets * 100.0 / all).collect())
}

fn descending(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(|one, other| other.total_cmp(one));
    values
}

#[cfg(test)]
mod tests;
