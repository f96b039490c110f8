//! Models of adapters, and the ports of a lab: their settings and counters.

pub mod aggregate;
pub mod toe;
pub mod top;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use linkrate_model::lab::{
    AdapterReport, AtmArpEntry, AtmArpReport, ConnectionReport, LaneReport, LaneStationReport,
    PortReport, SettingsReport,
};
use linkrate_model::measurement::{AdapterEvidence, PortEvidence, ThreadTime};
use linkrate_model::model::LinkKind;
use linkrate_model::{BitRate, InterfaceKnobs, Model};
use serde_json::json;

use crate::layout::filled;
use crate::limit::line_rate;
use crate::number::{self, ABSENT, grouped};
use crate::terminal::Style;
use crate::words::count;

/// Version of the JSON documents.
const FORMAT: u32 = 1;

/// Width of the words in front of a line.
const NAMES: usize = 12;

/// Widest line beside the words in front of it: 80 columns with them.
const LINE: usize = 66;

/// Counters by subject: a heading, and the beginning of their names. The first that
/// fits has it.
const GROUPS: [(&str, &[&str]); 9] = [
    ("interface (RFC 2863)", &["if"]),
    ("Ethernet (RFC 3635)", &["dot3"]),
    ("ATM and AAL5 (RFC 2515)", &["atm", "aal5"]),
    ("ATMARP (RFC 2320)", &["ipoa"]),
    ("LAN Emulation", &["lec", "lane", "elan"]),
    ("transmit", &["tx"]),
    ("receive and steering", &["rx", "steering"]),
    ("at the switch", &["switch"]),
    ("other", &[""]),
];

/// How many of these groups are of standards.
const STANDARDS: usize = 3;

/// Models, each in a few lines.
pub fn models(models: &[Model], style: Style) -> String {
    let sections: Vec<String> = models.iter().map(|model| one_model(model, style)).collect();
    format!("{}\n", sections.join("\n\n"))
}

fn one_model(model: &Model, style: Style) -> String {
    let mut text = style.bold(&model.name);
    let mut line = |name: &str, value: String| {
        // writing to a String does not fail
        let _ = write!(text, "\n  {name:<NAMES$}{value}");
    };
    let rate = |rate: Option<BitRate>| rate.map_or("no limit".to_owned(), line_rate);
    let (rings_out, rings_in) = (model.transmit_ring.into(), model.receive_ring.into());
    for (name, words) in [("", &model.title), ("source", &model.source)] {
        for (index, part) in filled(words, LINE).into_iter().enumerate() {
            line(if index == 0 { name } else { "" }, part);
        }
    }
    let (ports, queues) = (model.ports as usize, model.queues as usize);
    line("ports", format!("{ports}, each with {}", count(queues, "queue pair")));
    line(
        "link",
        format!(
            "{}{}",
            rate(model.rate),
            match model.link {
                LinkKind::Ethernet => "",
                LinkKind::Atm => ", ATM over SONET",
            }
        ),
    );
    line("bus", model.bus.map_or("no limit".to_owned(), line_rate));
    line("superframe", format!("{} bytes", grouped(model.superframe.into())));
    line("largest MTU", format!("{} bytes", grouped(model.max_mtu.into())));
    line("rings", format!("{} out, {} in", grouped(rings_out), grouped(rings_in)));
    for (index, part) in wrapped(&settings(&model.defaults.request())).into_iter().enumerate() {
        line(if index == 0 { "defaults" } else { "" }, part);
    }
    text
}

/// Models as one JSON document.
pub fn models_document(models: &[Model]) -> String {
    format!("{}\n", json!({ "format": FORMAT, "models": models }))
}

/// Ports, each with its settings and counters.
pub fn show(report: &AdapterReport, ports: &[&PortReport], style: Style) -> String {
    let sections: Vec<String> =
        ports.iter().map(|port| one_port(&report.model, port, style)).collect();
    format!("{}\n\n{}", sections.join("\n\n"), threads(report))
}

/// The CPU time of the threads that serve all ports.
fn threads(report: &AdapterReport) -> String {
    let line =
        |name: &str, threads| format!("{name:<width$}{}\n", cpu_time(threads), width = NAMES + 2);
    line("driver CPU", &report.drivers) + &line("device CPU", &report.devices)
}

fn one_port(model: &Model, port: &PortReport, style: Style) -> String {
    let whose = match port.adapter {
        Some(number) => format!("{} adapter {number}", model.name),
        None => "client's port".to_owned(),
    };
    let link = if port.link_up { "link up" } else { "link down" };
    let rate = port.link_rate.map_or(String::new(), |rate| format!(", {}", line_rate(rate)));
    let mut text = format!("{}  {whose}{rate}, {link}", style.bold(&port.name));
    let mut line = |name: &str, value: &str| {
        // writing to a String does not fail
        let _ = write!(text, "\n  {name:<NAMES$}{value}");
    };
    line("reaches", &format!("{}, by a {}", port.reaches.join(", "), port.fabric));
    if let Some(file) = &port.capture {
        line("captured to", file);
    }
    if !port.faults.is_empty() {
        let faults = port.faults.iter().map(|(name, value)| format!("{name} {value}"));
        line("faults", &faults.collect::<Vec<_>>().join(", "));
    }
    if !port.vlans.is_empty() {
        let vlans = port.vlans.iter().map(|(name, value)| format!("{name} {value}"));
        line("VLANs", &format!("{}, at the switch", vlans.collect::<Vec<_>>().join(" ")));
    }
    for (name, value) in port.lane.iter().flat_map(lane) {
        line(name, &value);
    }
    for (name, value) in port.atmarp.iter().flat_map(atmarp) {
        line(name, &value);
    }
    for (index, connection) in port.connections.iter().enumerate() {
        line(if index == 0 { "connections" } else { "" }, &one_connection(connection));
    }
    for (index, part) in wrapped(&settings(&port.knobs)).into_iter().enumerate() {
        line(if index == 0 { "settings" } else { "" }, &part);
    }
    let evidence = evidence_of(port);
    let mean = |mean: Option<f64>| mean.map(|mean| number::significant(mean, 3));
    if let Some(mean) = mean(evidence.segments_per_superframe()) {
        line("cut", &format!("{mean} frames from each superframe (mean)"));
    }
    if let Some(mean) = mean(evidence.merges_per_superframe()) {
        line("merged", &format!("{mean} frames to each superframe (mean)"));
    }
    text.push_str(&counters(&port.counters));
    text
}

/// The lines of a client of an ATMARP server: its cache, and what the server knows.
fn atmarp(arp: &AtmArpReport) -> Vec<(&'static str, String)> {
    let AtmArpReport { trouble, cache, server } = arp;
    let age = |seconds: u64| match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min", seconds / 60),
    };
    let entry = |entry: &AtmArpEntry| {
        let AtmArpEntry { address, atm_address, age_seconds } = entry;
        format!("{address} at {atm_address}, {} old", age(*age_seconds))
    };
    let mut lines: Vec<(&'static str, String)> =
        trouble.iter().map(|trouble| ("ATMARP client", trouble.clone())).collect();
    for (name, entries) in [("ATMARP cache", cache), ("ATMARP server", server)] {
        let named = |index| if index == 0 { name } else { "" };
        let shown = entries.iter().enumerate().map(|(index, one)| (named(index), entry(one)));
        lines.extend(shown);
    }
    lines
}

/// The lines of a client of an emulated LAN: its state, and a line for each station that it knows.
fn lane(lane: &LaneReport) -> Vec<(&'static str, String)> {
    let LaneReport { state, fell_back, elan, size, lecid, atm_address, cache, behind } = lane;
    let of = match lecid {
        0 => String::new(),
        lecid => format!(" as client {lecid}"),
    };
    let why = fell_back.as_ref().map_or(String::new(), |why| format!("; before: {why}"));
    let size = match size {
        0 => String::new(),
        size => format!(", units of up to {} bytes", grouped(f64::from(*size))),
    };
    let mut lines = vec![
        ("LE client", format!("{state} in {elan}{of}{size}{why}")),
        ("ATM address", atm_address.clone()),
    ];
    if let Some(behind) = behind {
        let stations = match &behind[..] {
            [] => "no station has sent a frame yet".to_owned(),
            some => some.join(", "),
        };
        lines.push(("bridged", stations));
    }
    for (index, station) in cache.iter().enumerate() {
        let LaneStationReport { mac, atm_address, remote, direct, waiting } = station;
        let at = atm_address.as_deref().unwrap_or("an address that is asked for");
        let bridge = if *remote { " behind a bridge" } else { "" };
        let path = if *direct { "data direct" } else { "through the BUS" };
        let waits = match waiting {
            0 => String::new(),
            waiting => format!(", {waiting} frames wait"),
        };
        let name = if index == 0 { "LE_ARP" } else { "" };
        lines.push((name, format!("{mac}{bridge} at {at}, {path}{waits}")));
    }
    lines
}

/// A connection of an ATM port, as `VPI 0 VCI 100 to 198.18.0.2`.
fn one_connection(connection: &ConnectionReport) -> String {
    let ConnectionReport { vpi, vci, purpose, address, atm_address, tx_cells, rx_cells, defects } =
        connection;
    let whom = match (address, atm_address) {
        (Some(address), Some(atm)) => format!("{address} ({atm})"),
        (Some(address), None) => address.to_string(),
        (None, _) => "an end with an unknown address".to_owned(),
    };
    let (sent, received) = (grouped(*tx_cells as f64), grouped(*rx_cells as f64));
    let whom = match (purpose, atm_address) {
        (Some(purpose), Some(atm)) => format!("{atm} ({purpose})"),
        _ => whom,
    };
    let defects =
        defects.iter().map(|(name, count)| format!(", {name} {}", grouped(*count as f64)));
    let defects: String = defects.collect();
    format!("VPI {vpi} VCI {vci} to {whom}: {sent} cells sent, {received} received{defects}")
}

/// Counters in groups. Outside the standards', those that are zero are left out.
fn counters(counters: &BTreeMap<String, u64>) -> String {
    let group_of = |name: &str| {
        GROUPS.iter().position(|(_, begins)| begins.iter().any(|start| name.starts_with(start)))
    };
    let mut text = String::new();
    for (index, (heading, _)) in GROUPS.iter().enumerate() {
        let mut first = true;
        for (name, value) in counters.iter().filter(|(name, _)| group_of(name) == Some(index)) {
            if *value == 0 && index >= STANDARDS {
                continue;
            }
            if first {
                text.push_str("\n  ");
                text.push_str(heading);
                first = false;
            }
            // writing to a String does not fail
            let _ = write!(text, "\n    {name:<28}{:>24}", grouped(*value as f64));
        }
    }
    text
}

/// Ports as one JSON document.
pub fn show_document(report: &AdapterReport, ports: &[&PortReport]) -> String {
    let document = json!({
        "format": FORMAT,
        "lab": report.lab,
        "at_ns": report.at_ns,
        "model": report.model,
        "buses_busy_ns": report.buses_busy_ns,
        "drivers": report.drivers,
        "devices": report.devices,
        "ports": ports,
    });
    format!("{document}\n")
}

/// What a change of settings came to.
pub fn settings_text(report: &SettingsReport) -> String {
    let values = report.settings.iter().map(|(key, value)| format!("{key} {value}"));
    let mut text = format!("{}: {}\n", report.port, values.collect::<Vec<_>>().join(", "));
    if !report.shared.is_empty() {
        // writing to a String does not fail
        let _ = writeln!(
            text,
            "{}: the same {}, as at both ends of the link",
            report.shared_with.join(", "),
            report.shared.join(" and ")
        );
    }
    text
}

/// A document of one thing that was done.
pub fn done_document(what: &str, value: impl serde::Serialize) -> String {
    let mut document = json!({ "format": FORMAT });
    document[what] = json!(value);
    format!("{document}\n")
}

/// What the port counted since it was made, as evidence.
fn evidence_of(port: &PortReport) -> AdapterEvidence {
    let counters = port.counters.clone();
    let port = PortEvidence { name: port.name.clone(), counters, ..PortEvidence::default() };
    AdapterEvidence { ports: vec![port], ..AdapterEvidence::default() }
}

fn settings(knobs: &InterfaceKnobs) -> Vec<String> {
    knobs.values().into_iter().map(|(key, value)| format!("{key} {value}")).collect()
}

/// Items with commas in lines that are not too long.
fn wrapped(items: &[String]) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (index, item) in items.iter().enumerate() {
        let comma = if index + 1 == items.len() { "" } else { "," };
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = format!("{item}{comma}"),
            Some(line) if line.chars().count() + item.chars().count() < LINE => {
                line.push_str(&format!(" {item}{comma}"));
            }
            _ => lines.push(format!("{item}{comma}")),
        }
    }
    lines
}

/// CPU time of threads together, and where they run.
fn cpu_time(threads: &[ThreadTime]) -> String {
    let Some(first) = threads.first() else { return ABSENT.to_owned() };
    let cpu_ns = threads.iter().fold(0u64, |sum, thread| sum.saturating_add(thread.cpu_ns));
    let seconds = number::significant(cpu_ns as f64 / 1e9, 3);
    let threads = count(threads.len(), "thread");
    format!("{seconds} s in {threads} on CPU {}", first.affinity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_counters_by_subject() {
        let named = |name: &str, value| (name.to_owned(), value);
        let text = counters(&BTreeMap::from([
            named("ifHCOutOctets", 1_234_567),
            named("ifInErrors", 0),
            named("txSegments", 22),
            named("txErrors", 0),
            named("rxQueue0Frames", 7),
            named("captureLost", 3),
        ]));
        let words: Vec<&str> = text.split_whitespace().collect();
        let expected = "interface (RFC 2863) ifHCOutOctets 1,234,567 ifInErrors 0 transmit \
                        txSegments 22 receive and steering rxQueue0Frames 7 other captureLost 3";
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn long_lists_are_wrapped_between_their_items() {
        let items: Vec<String> = (0..30).map(|n| format!("setting {n}")).collect();
        let lines = wrapped(&items);
        assert!(lines.len() > 3 && lines.iter().all(|line| line.chars().count() <= LINE + 1));
        assert_eq!(lines.join(" "), items.join(", "));
    }
}
