//! The limit of an aggregate: a table of cases with random flows, or the place of each named flow.

use linkrate_model::BitRate;
use linkrate_wire::limits::aggregate::{
    Aggregate, AggregateError, Distribution, Flow, Named, Random,
};
use linkrate_wire::limits::{Limit, Traffic};
use linkrate_wire::link::Link;
use serde::Serialize;

use super::{
    in_megabits, lay_out, line_rate, link_name, page, payload_rate, percent, to_json, traffic_name,
};
use crate::terminal::Style;

/// An aggregate, the flows over it, and what they get.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateCase {
    aggregate: Aggregate,
    link: Link,
    traffic: Traffic,
    /// The limit of one port.
    limit: Limit,
    flows: Flows,
}

#[derive(Debug, Clone, PartialEq)]
enum Flows {
    Random { flows: usize, seed: u64, random: Random },
    Named { flows: Vec<Flow>, named: Named },
}

impl AggregateCase {
    /// So many random flows over ports with this limit. Fails for ports, queues or flows out of range.
    pub fn random(
        aggregate: Aggregate,
        (link, traffic, limit): (Link, Traffic, Limit),
        flows: usize,
        seed: u64,
    ) -> Result<Self, AggregateError> {
        let flows = Flows::Random { flows, seed, random: aggregate.random(flows, seed)? };
        Ok(Self { aggregate, link, traffic, limit, flows })
    }

    /// These flows over ports with this limit. Fails for ports or flows out of range, and for a flow without a field
    /// that the balancing looks at.
    pub fn named(
        aggregate: Aggregate,
        (link, traffic, limit): (Link, Traffic, Limit),
        flows: Vec<Flow>,
    ) -> Result<Self, AggregateError> {
        let named = aggregate.named(&flows)?;
        Ok(Self { aggregate, link, traffic, limit, flows: Flows::Named { flows, named } })
    }

    fn rate(&self, ports: f64) -> BitRate {
        BitRate(self.limit.payload_rate().0 * ports)
    }

    fn all_ports(&self) -> BitRate {
        self.rate(self.aggregate.ports as f64)
    }

    /// Throughput and slowest flow, in limits of a port.
    fn figures(&self) -> (Distribution, Distribution) {
        match &self.flows {
            Flows::Random { random, .. } => (random.busy, random.slowest),
            Flows::Named { named, .. } => {
                let certain = |value: f64| Distribution { mean: value, p5: value, p95: value };
                (certain(named.busy() as f64), certain(named.slowest()))
            }
        }
    }
}

/// Cases of random flows as one table, then the account of each case of named flows.
pub fn aggregate_text(cases: &[AggregateCase], style: Style) -> String {
    let mut sections = Vec::new();
    let random: Vec<&AggregateCase> =
        cases.iter().filter(|case| matches!(case.flows, Flows::Random { .. })).collect();
    if let [first, ..] = random[..] {
        sections.push(style.bold(&title(first)));
        sections.push(table(&random));
        sections.push(notes(&random));
    }
    for case in cases {
        if let Flows::Named { flows, named } = &case.flows {
            sections.extend(account(case, flows, named, style));
        }
    }
    page(&sections)
}

fn title(case: &AggregateCase) -> String {
    let (traffic, link) = (traffic_name(&case.traffic), link_name(case.link.framing));
    let (rate, mtu) = (line_rate(case.limit.line_rate), case.traffic.mtu);
    format!("{traffic}, {link} at {rate} a port, MTU {mtu}")
}

fn table(cases: &[&AggregateCase]) -> String {
    let header = [
        "balancing",
        "ports",
        "flows",
        "all ports",
        "throughput",
        "5 %",
        "95 %",
        "slowest flow",
        "5 %",
        "95 %",
    ];
    let rows = cases.iter().filter_map(|case| {
        let Flows::Random { flows, .. } = &case.flows else { return None };
        let (busy, slowest) = case.figures();
        let mut row = vec![
            case.aggregate.balance.to_string(),
            case.aggregate.ports.to_string(),
            flows.to_string(),
            in_megabits(case.all_ports()),
        ];
        for share in [busy.mean, busy.p5, busy.p95, slowest.mean, slowest.p5, slowest.p95] {
            row.push(in_megabits(case.rate(share)));
        }
        Some(row)
    });
    lay_out(&header, rows, 1)
}

fn notes(cases: &[&AggregateCase]) -> String {
    let samples = cases.iter().filter_map(|case| match &case.flows {
        Flows::Random { random, seed, .. } => random.samples.map(|samples| (samples, *seed)),
        Flows::Named { .. } => None,
    });
    let (fewest, most) = (samples.clone().min(), samples.max());
    let from = match (fewest, most) {
        (Some((fewest, seed)), Some((most, _))) if fewest == most => {
            format!("from {most} samples, seed {seed}")
        }
        (Some((fewest, seed)), Some((most, _))) => {
            format!("from {fewest} to {most} samples, seed {seed}")
        }
        _ => "exact".to_owned(),
    };
    let mut notes = format!(
        "Rates are in Mb/s: the mean, and the 5 % and 95 % quantiles over random flows.\n\
         all ports     each port at its limit\n\
         throughput    each port with a flow at its limit; exact\n\
         slowest flow  if the flows of a port share it evenly; {from}"
    );
    if cases.iter().any(|case| case.aggregate.balance.reorders()) {
        notes.push_str("\nround-robin   reorders flows, so TCP reaches less");
    }
    notes
}

fn account(case: &AggregateCase, flows: &[Flow], named: &Named, style: Style) -> [String; 4] {
    let Aggregate { ports, balance, .. } = case.aggregate;
    let (busy, slowest) = case.figures();
    let share = percent(busy.mean / ports as f64);
    let figures = [
        ("aggregate", format!("{ports} ports, balancing {balance}")),
        ("all ports", payload_rate(case.all_ports())),
        ("throughput", format!("{}, {share} of all ports", payload_rate(case.rate(busy.mean)))),
        ("slowest flow", payload_rate(case.rate(slowest.mean))),
    ];
    let figures: Vec<String> =
        figures.iter().map(|(word, figure)| format!("{word:<14}{figure}")).collect();
    let rows = flows.iter().zip(&named.flows).enumerate().map(|(at, (flow, place))| {
        let mac = flow.mac.map_or_else(|| "-".to_owned(), |mac| mac.to_string());
        let entry = place.entry.map_or_else(|| "-".to_owned(), |entry| entry.to_string());
        let port = place.port.map_or_else(|| "all".to_owned(), |port| port.0.to_string());
        let rate = payload_rate(case.rate(named.share(at)));
        vec![flow.source.to_string(), flow.destination.to_string(), mac, entry, port, rate]
    });
    let header = ["from", "to", "destination MAC", "entry", "port", "rate"];
    let flows = lay_out(&header, rows, 3);
    let rows = named.per_port.iter().enumerate().map(|(port, flows)| {
        let rate = if *flows > 0 { payload_rate(case.rate(1.0)) } else { "-".to_owned() };
        vec![port.to_string(), flows.to_string(), rate]
    });
    let ports = lay_out(&["port", "flows", "rate"], rows, 1);
    [style.bold(&title(case)), figures.join("\n"), flows, ports]
}

#[derive(Serialize)]
struct JsonAggregate {
    balance: String,
    ports: usize,
    /// The queues that send; `null` unless balancing looks at them.
    queues: Option<u16>,
    flows: usize,
    line_rate_bits_per_second: f64,
    mtu_bytes: u32,
    port_limit_bits_per_second: f64,
    all_ports_bits_per_second: f64,
    throughput_bits_per_second: JsonDistribution,
    slowest_flow_bits_per_second: JsonDistribution,
    /// Samples that the slowest flow comes from; `null` if it is exact.
    samples: Option<usize>,
    seed: Option<u64>,
    /// `null` for random flows.
    named_flows: Option<Vec<JsonFlow>>,
    /// Flows of each port; `null` for random flows.
    flows_per_port: Option<Vec<usize>>,
}

#[derive(Serialize)]
struct JsonDistribution {
    mean: f64,
    p5: f64,
    p95: f64,
}

#[derive(Serialize)]
struct JsonFlow {
    source: String,
    destination: String,
    destination_mac: Option<String>,
    /// The entry of the table; `null` with round robin.
    entry: Option<u8>,
    /// The port, from 0; `null` if it uses all.
    port: Option<u8>,
    bits_per_second: f64,
}

/// The one JSON document of the cases. Keys are only ever added within a format.
pub fn aggregate_document(cases: &[AggregateCase]) -> String {
    to_json(cases.iter().map(json_case).collect())
}

fn json_case(case: &AggregateCase) -> JsonAggregate {
    let (busy, slowest) = case.figures();
    let rates = |shares: Distribution| {
        let Distribution { mean, p5, p95 } = shares.times(case.limit.payload_rate().0);
        JsonDistribution { mean, p5, p95 }
    };
    let (flows, samples, seed, named) = match &case.flows {
        Flows::Random { flows, seed, random } => {
            (*flows, random.samples, random.samples.map(|_| *seed), None)
        }
        Flows::Named { flows, named } => (flows.len(), None, None, Some((flows, named))),
    };
    let named_flows = named.map(|(flows, named)| {
        let places = flows.iter().zip(&named.flows).enumerate();
        let flow = places.map(|(at, (flow, place))| JsonFlow {
            source: flow.source.to_string(),
            destination: flow.destination.to_string(),
            destination_mac: flow.mac.map(|mac| mac.to_string()),
            entry: place.entry,
            port: place.port.map(|port| port.0),
            bits_per_second: case.rate(named.share(at)).0,
        });
        flow.collect()
    });
    let Aggregate { ports, balance, queues } = case.aggregate;
    JsonAggregate {
        balance: balance.to_string(),
        ports,
        queues: (balance == linkrate_model::Balance::Cpu).then_some(queues),
        flows,
        line_rate_bits_per_second: case.limit.line_rate.0,
        mtu_bytes: case.traffic.mtu,
        port_limit_bits_per_second: case.limit.payload_rate().0,
        all_ports_bits_per_second: case.all_ports().0,
        throughput_bits_per_second: rates(busy),
        slowest_flow_bits_per_second: rates(slowest),
        samples,
        seed,
        named_flows,
        flows_per_port: named.map(|(_, named)| named.per_port.clone()),
    }
}
