//! What the ports of a lab do, from one look to the next.

use linkrate_study::quantity::Unit;
use std::collections::BTreeMap;

use linkrate_terms::lab::{AdapterReport, PortReport};
use linkrate_terms::measurement::{AdapterEvidence, PortEvidence, ThreadTime};
use serde::Serialize;

use crate::number::{ABSENT, Scale, grouped, significant};

/// What happened between two looks.
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
}

/// One port.
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
}

/// What happened from one look to a later one.
pub fn rates(from: &AdapterReport, to: &AdapterReport) -> Rates {
    let window_ns = to.at_ns.saturating_sub(from.at_ns).max(1);
    let buses = to.buses_busy_ns.iter().zip(&from.buses_busy_ns);
    let ports = to.ports.iter().filter(|port| port.adapter.is_some());
    Rates {
        seconds: window_ns as f64 / 1e9,
        bus_percent: buses.map(|(to, from)| percent(to.saturating_sub(*from), window_ns)).collect(),
        driver_cpu_percent: cpu_percent(&to.drivers, &from.drivers, window_ns),
        device_cpu_percent: cpu_percent(&to.devices, &from.devices, window_ns),
        ports: ports
            .filter_map(|port| {
                let has_rate = to.model.rate.is_some();
                Some(port_rates(from.port(&port.name)?, port, window_ns, has_rate))
            })
            .collect(),
    }
}

fn percent(busy_ns: u64, window_ns: u64) -> f64 {
    busy_ns as f64 * 100.0 / window_ns as f64
}

/// CPU time of threads between two looks, per cent of one CPU.
fn cpu_percent(to: &[ThreadTime], from: &[ThreadTime], window_ns: u64) -> f64 {
    let sum = |threads: &[ThreadTime]| {
        threads.iter().fold(0u64, |sum, thread| sum.saturating_add(thread.cpu_ns))
    };
    percent(sum(to).saturating_sub(sum(from)), window_ns)
}

fn port_rates(from: &PortReport, to: &PortReport, window_ns: u64, has_rate: bool) -> PortRates {
    let counters: BTreeMap<String, u64> = to
        .counters
        .iter()
        .map(|(name, value)| {
            let before = from.counters.get(name).copied().unwrap_or(0);
            // one that was taken away and added again begins anew
            (name.clone(), value.checked_sub(before).unwrap_or(*value))
        })
        .collect();
    let port = PortEvidence { name: to.name.clone(), counters, ..PortEvidence::default() };
    let evidence = AdapterEvidence { window_ns, ports: vec![port], ..AdapterEvidence::default() };
    let per_second = |count: u64| count as f64 * 1e9 / window_ns as f64;
    let frames = |way: &str| {
        let kinds = ["Ucast", "Multicast", "Broadcast"];
        let frames = kinds.map(|kind| evidence.total(&format!("ifHC{way}{kind}Pkts")));
        per_second(frames.into_iter().fold(0, u64::saturating_add))
    };
    let link = |name: &str| has_rate.then(|| percent(evidence.total(name), window_ns));
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
        port: to.name.clone(),
    }
}

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
pub fn heads() -> String {
    line(COLUMNS.map(|(head, _)| head.to_owned()))
}

/// A line for each port.
pub fn lines(rates: &Rates) -> String {
    rates.ports.iter().map(port_line).collect()
}

fn port_line(port: &PortRates) -> String {
    let bits = |rate: f64| {
        let scale = Scale::of(Unit::BitsPerSecond, rate);
        format!("{} {}", significant(rate / scale.divisor, 3), scale.unit)
    };
    let share =
        |share: Option<f64>| share.map_or(ABSENT.to_owned(), |share| format!("{share:.1} %"));
    let mean = |mean: Option<f64>| mean.map_or(ABSENT.to_owned(), |mean| significant(mean, 3));
    line([
        port.port.clone(),
        bits(port.out_bits_per_second),
        grouped(port.out_frames_per_second),
        share(port.out_link_percent),
        bits(port.in_bits_per_second),
        grouped(port.in_frames_per_second),
        share(port.in_link_percent),
        mean(port.segments_per_superframe),
        mean(port.merges_per_superframe),
        grouped(port.drops_per_second),
    ])
}

/// The first column to the left, figures to the right.
fn line(fields: [String; COLUMNS.len()]) -> String {
    let padded = fields.iter().zip(COLUMNS).enumerate().map(|(index, (field, (_, width)))| {
        if index == 0 { format!("{field:<width$}") } else { format!(" {field:>width$}") }
    });
    format!("{}\n", padded.collect::<String>().trim_end())
}

#[cfg(test)]
mod tests {
    use linkrate_terms::{BitRate, model};

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
        let text = format!("{}{}", heads(), lines(&rates));
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths[0], widths[1], "{text}");
    }

    #[test]
    fn a_new_port_appears_at_the_next_sample() {
        let mut before = report(7, 1);
        before.ports.clear();
        assert!(rates(&before, &report(9, 2)).ports.is_empty());
        // one that was made anew has counted less than its namesake
        let again = rates(&report(0, 3), &report(1_000_000_000, 1));
        assert_eq!(again.ports[0].out_frames_per_second, 81_000.0);
    }
}
