//! What the ports of a lab do, from one look to the next.

use linkrate_study::quantity::Unit;
use std::collections::BTreeMap;

use linkrate_model::lab::{AdapterReport, PortReport};
use linkrate_model::measurement::{AdapterEvidence, PortEvidence, ThreadTime};
use serde::Serialize;

use crate::number::{ABSENT, Scale, grouped, significant};

/// What happened between two polls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rates {
    /// Time between them.
    pub seconds: f64,
    /// Busy share of each adapter's bus, per cent.
    pub bus_percent: Vec<f64>,
    /// CPU time of the driver threads, per cent of one CPU.
    pub driver_cpu_percent: f64,
    /// CPU time of the device threads, per cent of one CPU.
    pub device_cpu_percent: f64,
    /// The ports of the system under test that were there both times.
    pub ports: Vec<PortRates>,
    /// The aggregates of these ports, each with its ports together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aggregates: Vec<PortRates>,
}

/// One port, or the ports of an aggregate together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PortRates {
    /// Its name.
    pub port: String,
    /// Bits per second sent, Ethernet header and FCS included.
    pub out_bits_per_second: f64,
    /// The same received.
    pub in_bits_per_second: f64,
    /// Frames sent per second.
    pub out_frames_per_second: f64,
    /// Frames received per second.
    pub in_frames_per_second: f64,
    /// Share of the time in which the link was occupied outwards, per cent; absent without a
    /// rate.
    pub out_link_percent: Option<f64>,
    /// The same inwards.
    pub in_link_percent: Option<f64>,
    /// Mean number of frames that a superframe was cut into.
    pub segments_per_superframe: Option<f64>,
    /// Mean number of frames that were merged into a superframe.
    pub merges_per_superframe: Option<f64>,
    /// Packets and frames dropped per second.
    pub drops_per_second: f64,
    /// The aggregate that the port belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate: Option<String>,
    /// Its part of the octets that the aggregate sent, per cent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_share_percent: Option<f64>,
    /// The same received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_share_percent: Option<f64>,
}

/// What happened from one look to a later one.
pub fn rates(from: &AdapterReport, to: &AdapterReport) -> Rates {
    let interval_ns = to.at_ns.saturating_sub(from.at_ns).max(1);
    let buses = to.buses_busy_ns.iter().zip(&from.buses_busy_ns);
    let ports = to.ports.iter().filter(|port| port.adapter.is_some());
    let counted: Vec<PortEvidence> =
        ports.filter_map(|port| Some(counted(from.port(&port.name)?, port))).collect();
    let has_rate = to.model.rate.is_some();
    let of = |name: &str, ports: &[PortEvidence]| port_rates(name, ports, interval_ns, has_rate);
    let mut ports: Vec<PortRates> =
        counted.iter().map(|port| of(&port.name, std::slice::from_ref(port))).collect();
    let mut aggregates = Vec::new();
    for aggregate in &to.aggregates {
        let has = |name: &str| aggregate.members.iter().any(|member| member.port == name);
        let members: Vec<PortEvidence> =
            counted.iter().filter(|port| has(&port.name)).cloned().collect();
        let all = of(&aggregate.name, &members);
        for port in ports.iter_mut().filter(|port| has(&port.port)) {
            let share = |part: f64, all: f64| (all > 0.0).then(|| part * 100.0 / all);
            port.aggregate = Some(aggregate.name.clone());
            port.out_share_percent = share(port.out_bits_per_second, all.out_bits_per_second);
            port.in_share_percent = share(port.in_bits_per_second, all.in_bits_per_second);
        }
        aggregates.push(all);
    }
    Rates {
        seconds: interval_ns as f64 / 1e9,
        bus_percent: buses
            .map(|(to, from)| percent(to.saturating_sub(*from), interval_ns))
            .collect(),
        driver_cpu_percent: cpu_percent(&to.drivers, &from.drivers, interval_ns),
        device_cpu_percent: cpu_percent(&to.devices, &from.devices, interval_ns),
        ports,
        aggregates,
    }
}

fn percent(busy_ns: u64, interval_ns: u64) -> f64 {
    busy_ns as f64 * 100.0 / interval_ns as f64
}

/// CPU time of threads between two polls, per cent of one CPU.
fn cpu_percent(to: &[ThreadTime], from: &[ThreadTime], interval_ns: u64) -> f64 {
    let sum = |threads: &[ThreadTime]| {
        threads.iter().fold(0u64, |sum, thread| sum.saturating_add(thread.cpu_ns))
    };
    percent(sum(to).saturating_sub(sum(from)), interval_ns)
}

/// What a port counted between two polls.
fn counted(from: &PortReport, to: &PortReport) -> PortEvidence {
    let counters: BTreeMap<String, u64> = to
        .counters
        .iter()
        .map(|(name, value)| {
            let before = from.counters.get(name).copied().unwrap_or(0);
            // one that was taken away and added again begins again
            (name.clone(), value.checked_sub(before).unwrap_or(*value))
        })
        .collect();
    PortEvidence { name: to.name.clone(), counters, ..PortEvidence::default() }
}

/// The rates of these ports together; link shares are their means.
fn port_rates(name: &str, ports: &[PortEvidence], interval_ns: u64, has_rate: bool) -> PortRates {
    let links = ports.len().max(1) as f64;
    let ports = ports.to_vec();
    let evidence = AdapterEvidence { interval_ns, ports, ..AdapterEvidence::default() };
    let per_second = |count: u64| count as f64 * 1e9 / interval_ns as f64;
    let frames = |way: &str| {
        let kinds = ["Ucast", "Multicast", "Broadcast"];
        let frames = kinds.map(|kind| evidence.total(&format!("ifHC{way}{kind}Pkts")));
        per_second(frames.into_iter().fold(0, u64::saturating_add))
    };
    let link = |name: &str| has_rate.then(|| percent(evidence.total(name), interval_ns) / links);
    PortRates {
        out_bits_per_second: per_second(evidence.total("ifHCOutOctets")) * 8.0,
        in_bits_per_second: per_second(evidence.total("ifHCInOctets")) * 8.0,
        out_frames_per_second: frames("Out"),
        in_frames_per_second: frames("In"),
        out_link_percent: link("txLinkBusyNs"),
        in_link_percent: link("rxLinkBusyNs"),
        segments_per_superframe: evidence.segments_per_superframe(),
        merges_per_superframe: evidence.merges_per_superframe(),
        drops_per_second: per_second(evidence.drops().values().sum()),
        port: name.to_owned(),
        aggregate: None,
        out_share_percent: None,
        in_share_percent: None,
    }
}

/// Heads and widths of the columns behind these where there is an aggregate.
const SHARES: [(&str, usize); 2] = [("out of", 7), ("in of", 7)];

/// Heads and widths: fixed, so that lines that are appended one by one make columns.
const COLUMNS: [(&str, usize); 10] = [
    ("port", 6),
    ("out", 10),
    ("frames/s", 10),
    ("link", 7),
    ("in", 10),
    ("frames/s", 10),
    ("link", 7),
    ("cut", 6),
    ("merged", 7),
    ("drops/s", 8),
];

/// What the heads mean.
pub const LEGEND: &str = "\
cut, merged     frames from a superframe sent, to a superframe received
out of, in of   the port's part of what its aggregate sent and received
driver, device  CPU time of all their threads, in per cent of one CPU";

/// The lab, with the busy shares of its buses.
pub fn title(report: &AdapterReport, rates: &Rates) -> String {
    let buses = rates.bus_percent.iter().enumerate();
    let buses = buses.map(|(adapter, share)| format!(", bus of adapter {adapter} {share:.1} %"));
    let (driver, device) = (rates.driver_cpu_percent, rates.device_cpu_percent);
    let (lab, model, buses) = (&report.lab, &report.model.name, buses.collect::<String>());
    format!("lab {lab}, {model}, driver {driver:.0} %, device {device:.0} %{buses}\n")
}

/// The line of heads.
pub fn heads(rates: &Rates) -> String {
    let shares = has_shares(rates).then(|| SHARES.map(|(head, _)| head.to_owned()));
    line(COLUMNS.map(|(head, _)| head.to_owned()), shares)
}

/// A line for each aggregate with a line for each of its ports below, then one for each other port.
pub fn lines(rates: &Rates) -> String {
    let mut text = String::new();
    let shares = has_shares(rates);
    for aggregate in &rates.aggregates {
        text += &port_line(aggregate, "", shares);
        let members =
            rates.ports.iter().filter(|port| port.aggregate.as_ref() == Some(&aggregate.port));
        members.for_each(|port| text += &port_line(port, " ", shares));
    }
    let others = rates.ports.iter().filter(|port| port.aggregate.is_none());
    others.for_each(|port| text += &port_line(port, "", shares));
    text
}

fn has_shares(rates: &Rates) -> bool {
    !rates.aggregates.is_empty()
}

fn port_line(port: &PortRates, indent: &str, shares: bool) -> String {
    let bits = |rate: f64| {
        let scale = Scale::of(Unit::BitsPerSecond, rate);
        format!("{} {}", significant(rate / scale.divisor, 3), scale.unit)
    };
    let share =
        |share: Option<f64>| share.map_or(ABSENT.to_owned(), |share| format!("{share:.1} %"));
    let mean = |mean: Option<f64>| mean.map_or(ABSENT.to_owned(), |mean| significant(mean, 3));
    let shares = shares.then(|| [share(port.out_share_percent), share(port.in_share_percent)]);
    let fields = [
        format!("{indent}{}", port.port),
        bits(port.out_bits_per_second),
        grouped(port.out_frames_per_second),
        share(port.out_link_percent),
        bits(port.in_bits_per_second),
        grouped(port.in_frames_per_second),
        share(port.in_link_percent),
        mean(port.segments_per_superframe),
        mean(port.merges_per_superframe),
        grouped(port.drops_per_second),
    ];
    line(fields, shares)
}

/// The first column to the left, figures to the right.
fn line(fields: [String; COLUMNS.len()], shares: Option<[String; SHARES.len()]>) -> String {
    let columns = COLUMNS.into_iter().chain(SHARES);
    let fields = fields.into_iter().chain(shares.into_iter().flatten());
    let padded = fields.zip(columns).enumerate().map(|(index, (field, (_, width)))| {
        if index == 0 { format!("{field:<width$}") } else { format!(" {field:>width$}") }
    });
    format!("{}\n", padded.collect::<String>().trim_end())
}

#[cfg(test)]
mod tests {
    use linkrate_model::aggregate::{AggregateReport, MemberReport};
    use linkrate_model::{BitRate, model};

    use super::*;

    fn report(at_ns: u64, scale: u64) -> AdapterReport {
        let counters = [
            ("ifHCOutOctets", 125_000_000),
            ("ifHCOutUcastPkts", 81_000),
            ("txLinkBusyNs", 990_000_000),
            ("txSegments", 88),
            ("txSuperframes", 4),
            ("rxDropRingFull", 5),
        ];
        let thread = |name: &str, cpu_ns| ThreadTime {
            name: name.to_owned(),
            affinity: "0".parse().unwrap(),
            cpu_ns,
            user_ns: 0,
        };
        AdapterReport {
            aggregates: Vec::new(),
            lab: "lab".to_owned(),
            at_ns,
            model: model::find("gigabit").unwrap(),
            buses_busy_ns: vec![250_000_000 * scale],
            drivers: vec![thread("drv 0", 300_000_000 * scale)],
            devices: vec![thread("dev 1", 500_000_000 * scale)],
            ports: vec![PortReport {
                name: "eth0".to_owned(),
                adapter: Some(0),
                fabric: "cable".to_owned(),
                reaches: vec!["client-0".to_owned()],
                link_up: true,
                link_rate: Some(BitRate(1e9)),
                capture: None,
                faults: BTreeMap::new(),
                vlans: BTreeMap::new(),
                connections: Vec::new(),
                lane: None,
                atmarp: None,
                knobs: Default::default(),
                counters: counters.map(|(name, n)| (name.to_owned(), n * scale)).into(),
            }],
        }
    }

    #[test]
    fn rates_are_of_the_time_between() {
        let rates = rates(&report(7, 1), &report(1_000_000_007, 2));
        assert_eq!((rates.seconds, &rates.bus_percent[..]), (1.0, &[25.0][..]));
        let port = &rates.ports[0];
        assert_eq!((port.out_bits_per_second, port.out_frames_per_second), (1e9, 81_000.0));
        assert_eq!((port.out_link_percent, port.segments_per_superframe), (Some(99.0), Some(22.0)));
        assert_eq!((port.merges_per_superframe, port.drops_per_second), (None, 5.0));
        assert_eq!((rates.driver_cpu_percent, rates.device_cpu_percent), (30.0, 50.0));
        let title = title(&report(7, 1), &rates);
        assert_eq!(title, "lab lab, gigabit, driver 30 %, device 50 %, bus of adapter 0 25.0 %\n");
        let text = format!("{}{}", heads(&rates), lines(&rates));
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths[0], widths[1], "{text}");
    }

    #[test]
    fn an_aggregate_has_a_line_with_its_ports_below() {
        let two = |at_ns, scale| {
            let mut report = report(at_ns, scale);
            let mut second = report.ports[0].clone();
            second.name = "eth1".to_owned();
            second.counters.insert("ifHCOutOctets".to_owned(), 375_000_000 * scale);
            let single = PortReport { name: "eth9".to_owned(), ..second.clone() };
            report.ports.extend([second, single]);
            let member = |port: &str| MemberReport {
                port: port.to_owned(),
                link_up: true,
                collecting: true,
                distributing: true,
                lacp: None,
                bfd: None,
                failover: None,
            };
            report.aggregates = vec![AggregateReport {
                name: "agg0".to_owned(),
                address: String::new(),
                knobs: Default::default(),
                quiet_ms: None,
                members: ["eth0", "eth1"].map(member).to_vec(),
                counters: BTreeMap::new(),
            }];
            report
        };
        let rates = rates(&two(7, 1), &two(1_000_000_007, 2));
        insta::assert_snapshot!(format!("{}{}", heads(&rates), lines(&rates)), @r"
        port          out   frames/s    link         in   frames/s    link    cut  merged  drops/s  out of   in of
        agg0    4.00 Gb/s    162,000  99.0 %      0 b/s          0   0.0 %   22.0       –       10       –       –
         eth0   1.00 Gb/s     81,000  99.0 %      0 b/s          0   0.0 %   22.0       –        5  25.0 %       –
         eth1   3.00 Gb/s     81,000  99.0 %      0 b/s          0   0.0 %   22.0       –        5  75.0 %       –
        eth9    3.00 Gb/s     81,000  99.0 %      0 b/s          0   0.0 %   22.0       –        5       –       –
        ");
        assert_eq!(rates.aggregates[0].out_bits_per_second, 4e9);
        assert_eq!(rates.ports[1].out_share_percent, Some(75.0));
        assert_eq!(
            (rates.ports[2].aggregate.as_deref(), rates.ports[0].in_share_percent),
            (None, None)
        );
    }

    #[test]
    fn a_new_port_appears_at_the_next_sample() {
        let mut before = report(7, 1);
        before.ports.clear();
        assert!(rates(&before, &report(9, 2)).ports.is_empty());
        // one that was made again has counted less than its namesake
        let again = rates(&report(0, 3), &report(1_000_000_000, 1));
        assert_eq!(again.ports[0].out_frames_per_second, 81_000.0);
    }
}
