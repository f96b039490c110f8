//! A lab that is up: its hosts, as text and as JSON.

use std::fmt::Write as _;

use linkrate_model::lab::LabReport;
use serde_json::json;

use crate::limit::lay_out;
use crate::number::percent;
use crate::words::count;

/// Version of the JSON documents.
const FORMAT: u32 = 1;

/// The lab and its hosts.
pub fn text(lab: &LabReport) -> String {
    let clients = lab.hosts.len().saturating_sub(1);
    let scale = match lab.scale {
        scale if scale < 1.0 => format!(" at {} of its rates", percent(scale)),
        _ => String::new(),
    };
    let congestion = match lab.congestion.as_str() {
        "" => "the kernel's default",
        name => name,
    };
    let mut text = format!(
        "lab {}: {}{scale}, {}, {}, congestion control {congestion}, process {}\n\n",
        lab.name,
        lab.adapter,
        count(lab.ports as usize, "port"),
        count(clients, "client"),
        lab.pid
    );
    let rows = lab.hosts.iter().flat_map(|host| {
        let lines = host.interfaces.iter().map(|interface| {
            let ipv6 = interface.ipv6.map_or(String::new(), |address| format!(", {address}"));
            let address = format!("{}/{}{ipv6}", interface.address, interface.prefix_length);
            [interface.name.clone(), address]
        });
        let mut lines: Vec<_> = lines.collect();
        if lines.is_empty() {
            lines.push([String::new(), String::new()]);
        }
        lines.into_iter().enumerate().map(|(index, [interface, address])| {
            // a host is named once, even with several interfaces
            let once = |text: String| if index == 0 { text } else { String::new() };
            let (name, pid) = (once(host.name.clone()), once(host.pid.to_string()));
            vec![name, pid, once(host.cpus.to_string()), interface, address]
        })
    });
    let header = ["host", "process", "CPU", "interface", "address"];
    text.push_str(&lay_out(&header, rows, header.len()));
    text.push('\n');
    if !lab.fabric.is_empty() {
        // writing to a String does not fail
        let _ = writeln!(text, "\n{}", lab.fabric.join("\n"));
    }
    text
}

/// The lab as one JSON document.
pub fn document(lab: &LabReport) -> String {
    let mut document = json!({ "format": FORMAT });
    document["lab"] = json!(lab);
    format!("{document}\n")
}

/// Names of labs, a line each.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().fold(String::new(), |mut text, name| {
        // writing to a String does not fail
        let _ = writeln!(text, "{name}");
        text
    })
}

/// Names of labs as one JSON document.
pub fn list_document<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    format!("{}\n", json!({ "format": FORMAT, "labs": names }))
}

/// That a lab is gone, as one JSON document.
pub fn down_document(name: &str) -> String {
    format!("{}\n", json!({ "format": FORMAT, "down": name }))
}
