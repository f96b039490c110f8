//! Aggregates of a lab: their ports, shares, and the state of LACP.

use std::fmt::Write as _;

use linkrate_model::aggregate::{AggregateReport, MemberReport};
use linkrate_model::lab::AdapterReport;
use linkrate_model::{InterfaceKnobs, knobs};

use super::{NAMES, settings, wrapped};
use crate::number::{ABSENT, grouped};
use crate::terminal::Style;
use crate::words::count;

/// Aggregates, each with its ports.
pub fn show(report: &AdapterReport, aggregates: &[&AggregateReport], style: Style) -> String {
    let sections: Vec<String> =
        aggregates.iter().map(|aggregate| one(report, aggregate, style)).collect();
    format!("{}\n", sections.join("\n\n"))
}

fn one(report: &AdapterReport, aggregate: &AggregateReport, style: Style) -> String {
    let ports = count(aggregate.members.len(), "port");
    let mut text =
        format!("{}  {ports}, address {}", style.bold(&aggregate.name), aggregate.address);
    let asked = InterfaceKnobs {
        aggregate: knobs::AggregateRequest::of(&aggregate.knobs),
        ..InterfaceKnobs::default()
    };
    for (index, part) in wrapped(&settings(&asked)).into_iter().enumerate() {
        // writing to a String does not fail
        let _ = write!(text, "\n  {:<NAMES$}{part}", if index == 0 { "settings" } else { "" });
    }
    if let Some(ms) = aggregate.quiet_ms {
        // writing to a String does not fail
        let _ = write!(text, "\n  {:<NAMES$}after {ms:.0} ms without a packet", "flows move");
    }
    let octets = |name: &str, port: &str| {
        report.port(port).and_then(|port| port.counters.get(name)).copied().unwrap_or(0)
    };
    let all = |name: &str| {
        aggregate.members.iter().fold(0_u64, |sum, m| sum.saturating_add(octets(name, &m.port)))
    };
    let (out, into) = ("ifHCOutOctets", "ifHCInOctets");
    let (all_out, all_in) = (all(out), all(into));
    let _ = write!(text, "\n  {:<NAMES$}{:>5} {:>5}  state", "port", "out", "in");
    for member in &aggregate.members {
        let share = |name: &str, all: u64| percent(octets(name, &member.port), all);
        let (out, into) = (share(out, all_out), share(into, all_in));
        let _ = write!(text, "\n  {:<NAMES$}{out:>5} {into:>5}  {}", member.port, member.reason());
        lacp(&mut text, member);
        bfd(&mut text, member);
        failover(&mut text, member);
    }
    for (name, value) in aggregate.counters.iter().filter(|(_, value)| **value > 0) {
        let _ = write!(text, "\n  {name:<30}{:>24}", grouped(*value as f64));
    }
    text
}

/// The state of a port in LACP.
fn lacp(text: &mut String, member: &MemberReport) {
    let Some(lacp) = &member.lacp else { return };
    let indent = " ".repeat(NAMES + 2);
    // writing to a String does not fail
    let _ = write!(
        text,
        "\n{indent}receive {}, periodic {}, mux {} ({})",
        lacp.receive, lacp.periodic, lacp.mux, lacp.mux_reason
    );
    let _ = write!(text, "\n{indent}churn {}, {}", lacp.actor_churn, lacp.partner_churn);
    let _ = write!(text, "\n{indent}actor   {}", lacp.actor);
    let partner = lacp.partner.as_deref().unwrap_or("not heard");
    let _ = write!(text, "\n{indent}partner {partner}");
    for (name, value) in lacp.counters.iter().filter(|(_, value)| **value > 0) {
        let _ = write!(text, "\n{indent}{name:<46}{:>8}", grouped(*value as f64));
    }
}

/// The BFD session of a port.
fn bfd(text: &mut String, member: &MemberReport) {
    let Some(bfd) = &member.bfd else { return };
    let indent = " ".repeat(NAMES + 2);
    let detection = bfd
        .detection_ms
        .map_or_else(|| "other end not heard".to_owned(), |ms| format!("detection {ms:.0} ms"));
    // writing to a String does not fail
    let _ = write!(
        text,
        "\n{indent}BFD {} ({}), every {:.0} ms, {detection}",
        bfd.state, bfd.diagnostic, bfd.interval_ms
    );
    let (sent, received) = (grouped(bfd.sent as f64), grouped(bfd.received as f64));
    let _ = write!(text, "; {sent} sent, {received} received, down {}", count_times(bfd.losses));
}

fn count_times(times: u64) -> String {
    match times {
        1 => "once".to_owned(),
        _ => format!("{} times", grouped(times as f64)),
    }
}

/// The state of a port in a failover group.
fn failover(text: &mut String, member: &MemberReport) {
    let Some(failover) = &member.failover else { return };
    let indent = " ".repeat(NAMES + 2);
    let word = |works: bool| if works { "yes" } else { "no" };
    let (hears, is_heard) = (word(failover.hears), word(failover.is_heard));
    // writing to a String does not fail
    let _ = write!(text, "\n{indent}polls: hears others {hears}, is heard {is_heard}");
    if let Some(cause) = &failover.cause {
        let _ = write!(text, "; active because {cause}");
    }
    if let Some(ms) = failover.held_ms {
        let _ = write!(text, "; held down for {:.1} s", ms / 1e3);
    }
}

/// A share in whole per cent.
fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => ABSENT.to_owned(),
        _ => format!("{:.0} %", part as f64 * 100.0 / whole as f64),
    }
}
