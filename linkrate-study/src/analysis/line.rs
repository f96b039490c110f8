//! Where the time of a cell's lines went: payload, headers, cells, and time in which nothing was sent.
//!
//! Counters say how much was on the line, and the [law of the link](linkrate_wire::link) for what. The
//! account is of all ports that took part, together, and of each direction that a stream loaded.

use linkrate_model::{Direction, Measurement, Protocol, RunSpec, Task, TestbedSpec};
use linkrate_wire::limits::IpVersion;
use linkrate_wire::limits::packets::{TCP_HEADER, TCP_TIMESTAMPS, UDP_HEADER};
use linkrate_wire::limits::tax::{Carried, Part};
use linkrate_wire::link::Link;

use super::{adapter, limit};
use crate::results::{LinePart, LineTax};
use crate::verdict::FlowDirection;
use linkrate_stats::sample::mean;

/// The account of a cell's lines; means over the runs. Empty where no virtual adapter counted, where
/// links have no rate, for transactions, and for datagrams that do not fit a packet.
pub fn of_cell(spec: &RunSpec, testbed: &TestbedSpec, good: &[&Measurement]) -> Vec<LineTax> {
    let Task::Workload(workload) = &spec.task else { return Vec::new() };
    if workload.kind.is_transactional() {
        return Vec::new();
    }
    let directions: &[FlowDirection] = match workload.direction {
        Direction::Transmit => &[FlowDirection::Transmit],
        Direction::Receive => &[FlowDirection::Receive],
        Direction::Bidirectional => &[FlowDirection::Transmit, FlowDirection::Receive],
    };
    let one_way = |direction: &FlowDirection| one_way(spec, testbed, good, *direction);
    directions.iter().filter_map(one_way).collect()
}

fn one_way(
    spec: &RunSpec,
    testbed: &TestbedSpec,
    good: &[&Measurement],
    direction: FlowDirection,
) -> Option<LineTax> {
    let (link, mtu) = limit::link_of(spec, testbed)?;
    let accounts: Vec<Vec<Part>> =
        good.iter().filter_map(|run| of_run(spec, run, link, mtu, direction)).collect();
    let mut names: Vec<&str> = Vec::new();
    for part in accounts.iter().max_by_key(|parts| parts.len())? {
        names.push(part.name);
    }
    let parts = names.into_iter().map(|name| {
        // a part that a run does not have is none of its time
        let shares: Vec<f64> = accounts
            .iter()
            .map(|parts| parts.iter().filter(|part| part.name == name).map(|p| p.share).sum())
            .collect();
        LinePart { name: name.to_owned(), percent: mean(&shares).unwrap_or(0.0) * 100.0 }
    });
    Some(LineTax {
        direction,
        parts: parts.collect(),
        payload_percent_at_most: limit::efficiency(spec, testbed).map(|share| share * 100.0),
    })
}

fn of_run(
    spec: &RunSpec,
    run: &Measurement,
    link: Link,
    mtu: u32,
    direction: FlowDirection,
) -> Option<Vec<Part>> {
    let counted = adapter::evidence(run)?;
    let (payload, payload_seconds, octets, units) = match direction {
        FlowDirection::Transmit => {
            let traffic = &run.traffic;
            (traffic.transmit_bytes, traffic.transmit_seconds, "ifHCOutOctets", "ifHCOutUcastPkts")
        }
        FlowDirection::Receive => {
            let traffic = &run.traffic;
            (traffic.receive_bytes, traffic.receive_seconds, "ifHCInOctets", "ifHCInUcastPkts")
        }
    };
    let seconds = counted.interval_ns as f64 / 1e9;
    if payload_seconds <= 0.0 || seconds <= 0.0 {
        return None;
    }
    // several ports are one line after the other
    let ports = counted.ports.len() as f64;
    let transport = transport(spec, run, mtu)?;
    let carried = Carried {
        seconds: seconds * ports,
        // the peers count over a time of their own
        payload: (payload as f64 / payload_seconds * seconds).round() as u64,
        units: counted.total(units),
        octets: counted.total(octets),
        mtu,
        headers: IpVersion::from(spec.socket.family).header() + transport,
    };
    (carried.units > 0).then(|| link.tax(&carried).ok()).flatten()
}

/// Octets of the transport's header; `None` for datagrams that are cut into fragments.
fn transport(spec: &RunSpec, run: &Measurement, mtu: u32) -> Option<u64> {
    let Task::Workload(workload) = &spec.task else { return None };
    let ip = IpVersion::from(spec.socket.family).header();
    if workload.kind == Protocol::UdpStream {
        let largest = workload.udp_segment.unwrap_or(workload.message.largest()).0;
        let fits = largest + UDP_HEADER + ip <= u64::from(mtu);
        return fits.then_some(UDP_HEADER);
    }
    // what the connections agreed on
    let left = u64::from(mtu).checked_sub(ip + u64::from(run.effective.mss_bytes));
    let agreed = left.filter(|header| (TCP_HEADER..=60).contains(header));
    Some(agreed.unwrap_or(TCP_HEADER + TCP_TIMESTAMPS))
}

#[cfg(test)]
mod tests;
