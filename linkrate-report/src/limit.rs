//! What theory allows, as a table of many cases, as the account of one, and as JSON.
//!
//! Limits have more digits than measurements: they are exact, and two of them that differ by one
//! header must not look the same.

mod aggregate;

pub use aggregate::{AggregateCase, aggregate_document, aggregate_text};

use comfy_table::{CellAlignment, ColumnConstraint, Table};
use linkrate_model::{BitRate, ByteSize};
use linkrate_wire::limits::{Cut, Limit, LimitError, Traffic, Transport};
use linkrate_wire::link::{Framing, Link};
use serde::Serialize;

use crate::layout::{RULED, trimmed};
use crate::terminal::Style;
use crate::{json, number};

/// Version of the JSON document.
pub const LIMIT_FORMAT: u32 = 1;

/// The Classical IP MTU (RFC 2225), beside which the published formula is put.
const CLASSICAL_IP_MTU: u32 = 9180;

/// A link, its traffic, and the limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    link: Link,
    traffic: Traffic,
    limit: Limit,
}

impl Case {
    /// Fails for a line rate, number of tags, MTU or message out of range.
    pub fn new(link: Link, traffic: Traffic) -> Result<Self, LimitError> {
        Ok(Self { link, traffic, limit: link.limit(&traffic)? })
    }

    fn message(&self) -> Option<ByteSize> {
        match self.traffic.cut {
            Cut::Full => None,
            Cut::Message(size) => Some(size),
        }
    }
}

/// The published formula for one message, and the limit of real packets beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Formula {
    line_rate: BitRate,
    message: ByteSize,
    rate: BitRate,
    limit: Limit,
}

impl Formula {
    /// Fails for a line rate or message out of range.
    pub fn new(line_rate: BitRate, message: ByteSize) -> Result<Self, LimitError> {
        let link = Link::classical_ip(line_rate);
        let traffic = Traffic {
            transport: Transport::Tcp { timestamps: false },
            cut: Cut::Message(message),
            ..Traffic::tcp(CLASSICAL_IP_MTU)
        };
        let rate = link.published_formula(message.0)?;
        Ok(Self { line_rate, message, rate, limit: link.limit(&traffic)? })
    }
}

/// One case with its whole account, or many as a table.
pub fn text(cases: &[Case], style: Style) -> String {
    match cases {
        [] => String::new(),
        [case] => account(case, style),
        [first, ..] => {
            let title =
                format!("{}, {}", traffic_name(&first.traffic), link_name(first.link.framing));
            page(&[style.bold(&title), table(cases)])
        }
    }
}

fn table(cases: &[Case]) -> String {
    let with_messages = cases.iter().any(|case| case.message().is_some());
    let with_cells = cases.iter().any(|case| case.limit.cells.is_some());
    let mut header = vec!["line rate", "MTU"];
    header.extend(with_messages.then_some("message"));
    header.extend(["limit", "efficiency", "packets/s"]);
    header.extend(with_cells.then_some("cells/s"));
    let rows = cases.iter().map(|case| {
        let limit = &case.limit;
        let mut row = vec![line_rate(limit.line_rate), case.traffic.mtu.to_string()];
        if with_messages {
            row.push(case.message().map_or_else(|| "full".to_owned(), |size| size.to_string()));
        }
        row.extend([
            payload_rate(limit.payload_rate()),
            percent(limit.efficiency()),
            per_second(limit.packets_per_second()),
        ]);
        row.extend(limit.cells_per_second().map(per_second));
        row
    });
    lay_out(&header, rows, 0)
}

/// The limit and its packet rates, then every byte of one unit.
fn account(case: &Case, style: Style) -> String {
    let limit = &case.limit;
    let title = format!("{}, MTU {}", traffic_name(&case.traffic), case.traffic.mtu);
    let (rate, efficiency) = (payload_rate(limit.payload_rate()), percent(limit.efficiency()));
    let mut figures = vec![
        ("link", format!("{} at {}", link_name(case.link.framing), line_rate(limit.line_rate))),
        ("limit", format!("{rate}, {efficiency} of the line rate")),
    ];
    if let Some(size) = case.message() {
        let rate = per_second(limit.units_per_second());
        figures.push(("messages", format!("{rate} per second, of {size}")));
    }
    let mut counted = |word, rate: f64, count: u64| {
        let each = match case.message() {
            Some(_) => format!(", {} to a message", number::grouped(count as f64)),
            None if word == "cells" => format!(", {count} to a packet"),
            None => String::new(),
        };
        figures.push((word, format!("{} per second{each}", per_second(rate))));
    };
    counted("packets", limit.packets_per_second(), limit.packets);
    if let (Some(rate), Some(count)) = (limit.cells_per_second(), limit.cells) {
        counted("cells", rate, count);
    }
    let figures: Vec<String> =
        figures.iter().map(|(word, figure)| format!("{word:<10}{figure}")).collect();

    let row =
        |name: &str, bytes: f64, share: f64| vec![name.to_owned(), bytes_of(bytes), percent(share)];
    let unit = if case.message().is_some() { "bytes of a message" } else { "bytes of a packet" };
    let rows = std::iter::once(row("payload", limit.payload as f64, limit.efficiency()))
        .chain(limit.layers.iter().map(|layer| row(layer.name, layer.bytes, limit.share(layer))))
        .chain([row("all on the line", limit.line_bytes(), 1.0)]);
    let layers = lay_out(&["layer", unit, "share"], rows, 1);
    page(&[style.bold(&title), figures.join("\n"), layers])
}

/// The published formula as a table beside what real packets allow.
pub fn formula_text(formulas: &[Formula], style: Style) -> String {
    let rows = formulas.iter().map(|formula| {
        vec![
            line_rate(formula.line_rate),
            formula.message.to_string(),
            payload_rate(formula.rate),
            payload_rate(formula.limit.payload_rate()),
        ]
    });
    let title = "The ATM paper's formula: D / (D + 56 + p) × 48/53 × 26/27 × line rate";
    let notes = "formula  each message of D bytes is one packet, however large; p pads to cells\n\
                 limit    the same in packets of at most 9180 bytes, the Classical IP MTU";
    let table = lay_out(&["line rate", "message", "formula", "limit"], rows, 0);
    page(&[style.bold(title), table, notes.to_owned()])
}

fn page(sections: &[String]) -> String {
    let mut text = sections.join("\n\n");
    text.push('\n');
    text
}

fn traffic_name(traffic: &Traffic) -> String {
    let ip = traffic.ip;
    match traffic.transport {
        Transport::Tcp { timestamps: true } => format!("TCP over {ip} with timestamps"),
        Transport::Tcp { timestamps: false } => format!("TCP over {ip} without timestamps"),
        Transport::Udp => format!("UDP over {ip}"),
    }
}

fn link_name(framing: Framing) -> String {
    match framing {
        Framing::Ethernet { vlan_tags, snap } => {
            let snap = snap.then(|| "LLC/SNAP".to_owned());
            let tags = match vlan_tags {
                0 => None,
                1 => Some("a VLAN tag".to_owned()),
                tags => Some(format!("{tags} VLAN tags")),
            };
            let extras: Vec<String> = [snap, tags].into_iter().flatten().collect();
            let with = if extras.is_empty() { "" } else { " with " };
            format!("Ethernet{with}{}", extras.join(" and "))
        }
        Framing::ClassicalIp | Framing::LanEmulation => format!("ATM, {}", framing.name()),
    }
}

/// Columns of figures to the right, except the first `names`.
pub(crate) fn lay_out(
    header: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
    names: usize,
) -> String {
    let mut table = Table::new();
    table.load_style(RULED);
    table.set_header(header);
    table.add_rows(rows);
    for index in 0..header.len() {
        if let Some(column) = table.column_mut(index) {
            // a figure is never broken, however narrow the terminal
            column.set_constraint(ColumnConstraint::ContentWidth);
            column.set_padding((0, if index + 1 == header.len() { 0 } else { 2 }));
            if index >= names {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    trimmed(&table)
}

/// A line rate with all its digits: `155.52 Mb/s`, `10 Gb/s`.
pub(crate) fn line_rate(rate: BitRate) -> String {
    let (value, unit) = match rate.0 {
        rate if rate >= 1e12 => (rate / 1e12, "Tb/s"),
        rate if rate >= 1e9 => (rate / 1e9, "Gb/s"),
        rate if rate >= 1e6 => (rate / 1e6, "Mb/s"),
        rate if rate >= 1e3 => (rate / 1e3, "kb/s"),
        rate => (rate, "b/s"),
    };
    // a quotient has more digits than its operands
    let rounded = (value * 1e6).round() / 1e6;
    format!("{rounded} {unit}")
}

/// `941.48 Mb/s`, and from 1 Gb/s on `9.415 Gb/s`.
fn payload_rate(rate: BitRate) -> String {
    match rate.0 >= 1e9 {
        true => format!("{} Gb/s", with_decimals(rate.0 / 1e9, 3)),
        false => format!("{} Mb/s", in_megabits(rate)),
    }
}

/// The number of Mb/s: two decimals, four below 10 Mb/s.
fn in_megabits(rate: BitRate) -> String {
    let value = rate.0 / 1e6;
    with_decimals(value, if value < 10.0 { 4 } else { 2 })
}

/// With commas between thousands, as whole numbers have them.
fn with_decimals(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let Some((whole, rest)) = text.split_once('.') else { return text };
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), number::grouped);
    format!("{whole}.{rest}")
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn per_second(rate: f64) -> String {
    if rate >= 1000.0 { number::grouped(rate) } else { number::significant(rate, 4) }
}

/// Bytes are whole but for the share of a SONET frame.
fn bytes_of(bytes: f64) -> String {
    if bytes.fract() == 0.0 { number::grouped(bytes) } else { with_decimals(bytes, 2) }
}

#[derive(Serialize)]
struct Document<T> {
    format: u32,
    limits: Vec<T>,
}

#[derive(Serialize)]
struct JsonCase<'a> {
    link: &'static str,
    encapsulation: &'static str,
    vlan_tags: Option<u8>,
    line_rate_bits_per_second: f64,
    ip: String,
    transport: &'static str,
    timestamps: bool,
    mtu_bytes: u32,
    /// `null` for full packets.
    message_bytes: Option<u64>,
    limit_bits_per_second: f64,
    efficiency: f64,
    messages_per_second: Option<f64>,
    packets_per_second: f64,
    cells_per_second: Option<f64>,
    unit: JsonUnit<'a>,
}

/// One packet, or one message with all its packets.
#[derive(Serialize)]
struct JsonUnit<'a> {
    payload_bytes: u64,
    line_bytes: f64,
    packets: u64,
    cells: Option<u64>,
    layers: Vec<JsonLayer<'a>>,
}

#[derive(Serialize)]
struct JsonLayer<'a> {
    name: &'a str,
    bytes: f64,
    share: f64,
}

#[derive(Serialize)]
struct JsonFormula {
    line_rate_bits_per_second: f64,
    message_bytes: u64,
    published_formula_bits_per_second: f64,
    limit_bits_per_second: f64,
}

/// The one JSON document of the cases. Keys are only ever added within a format; shares and
/// efficiency are fractions of the line rate.
pub fn document(cases: &[Case]) -> String {
    to_json(cases.iter().map(json_case).collect())
}

/// The one JSON document of the published formula.
pub fn formula_document(formulas: &[Formula]) -> String {
    let entry = |formula: &Formula| JsonFormula {
        line_rate_bits_per_second: formula.line_rate.0,
        message_bytes: formula.message.0,
        published_formula_bits_per_second: formula.rate.0,
        limit_bits_per_second: formula.limit.payload_rate().0,
    };
    to_json(formulas.iter().map(entry).collect())
}

fn to_json<T: Serialize>(limits: Vec<T>) -> String {
    json::document(&Document { format: LIMIT_FORMAT, limits })
}

fn json_case(case: &Case) -> JsonCase<'_> {
    let limit = &case.limit;
    let (link, encapsulation, vlan_tags) = match case.link.framing {
        Framing::Ethernet { vlan_tags, snap: false } => {
            ("ethernet", "ethernet-ii", Some(vlan_tags))
        }
        Framing::Ethernet { vlan_tags, snap: true } => ("ethernet", "snap", Some(vlan_tags)),
        Framing::ClassicalIp => ("atm", "classical-ip", None),
        Framing::LanEmulation => ("atm", "lan-emulation", None),
    };
    let layers = limit.layers.iter().map(|layer| JsonLayer {
        name: layer.name,
        bytes: layer.bytes,
        share: limit.share(layer),
    });
    JsonCase {
        link,
        encapsulation,
        vlan_tags,
        line_rate_bits_per_second: limit.line_rate.0,
        ip: case.traffic.ip.to_string(),
        transport: if case.traffic.transport == Transport::Udp { "udp" } else { "tcp" },
        timestamps: case.traffic.transport == Transport::Tcp { timestamps: true },
        mtu_bytes: case.traffic.mtu,
        message_bytes: case.message().map(|size| size.0),
        limit_bits_per_second: limit.payload_rate().0,
        efficiency: limit.efficiency(),
        messages_per_second: case.message().map(|_| limit.units_per_second()),
        packets_per_second: limit.packets_per_second(),
        cells_per_second: limit.cells_per_second(),
        unit: JsonUnit {
            payload_bytes: limit.payload,
            line_bytes: limit.line_bytes(),
            packets: limit.packets,
            cells: limit.cells,
            layers: layers.collect(),
        },
    }
}
