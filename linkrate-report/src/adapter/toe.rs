//! Connections of the system under test, at the adapter and at the host.

use std::fmt::Write as _;

use linkrate_model::lab::{ConnectionPlace, ToeConnection, ToeReport};

use super::{count, done_document};
use crate::limit::lay_out;
use crate::number::{ABSENT, amount, duration, grouped};
use crate::terminal::Style;

/// The connections as a table.
pub fn text(report: &ToeReport, style: Style) -> String {
    let there = |of: &&ToeConnection, place| of.at == place && !of.ended;
    let at = |place| report.connections.iter().filter(|of| there(of, place)).count();
    let mut text = format!(
        "{}  {} at the adapter, {} at the host\n",
        style.bold(&report.lab),
        count(at(ConnectionPlace::Adapter), "connection"),
        at(ConnectionPlace::Host),
    );
    for (kind, moves) in &report.moves {
        let moves = grouped(*moves as f64);
        // writing to a String does not fail
        let _ = match kind.strip_prefix("up.") {
            Some(reason) => writeln!(text, "moved to the host: {moves} for {reason}"),
            None => writeln!(text, "moved to the adapter: {moves}"),
        };
    }
    for (reason, stayed) in &report.stayed {
        let stayed = grouped(*stayed as f64);
        let _ = match reason.strip_prefix("adapter-") {
            Some("stays") => writeln!(text, "stayed at the adapter: {stayed}"),
            Some(reason) => writeln!(text, "stayed at the adapter: {stayed} ({reason})"),
            None => writeln!(text, "stayed at the host: {stayed} ({reason})"),
        };
    }
    if report.connections.is_empty() {
        return text;
    }
    let header = [
        "at", "port", "program", "this end", "peer", "sent", "received", "age", "moves", "RTT",
        "window", "resent",
    ];
    let rows = report.connections.iter().map(row);
    // the first five are text
    let _ = write!(text, "\n{}\n", lay_out(&header, rows, 5));
    text
}

fn row(of: &ToeConnection) -> Vec<String> {
    let absent = || ABSENT.to_owned();
    let at = match (of.at, of.ended) {
        (ConnectionPlace::Adapter, false) => "adapter",
        (ConnectionPlace::Adapter, true) => "adapter, ended",
        (ConnectionPlace::Host, _) => "host",
    };
    let tcp = |text: &dyn Fn(&linkrate_model::lab::TcpReport) -> String| {
        of.tcp.as_ref().map_or_else(absent, text)
    };
    vec![
        at.to_owned(),
        of.port.clone(),
        program(of).unwrap_or_else(absent),
        of.own.to_string(),
        of.far.to_string(),
        amount(of.sent as f64),
        amount(of.received as f64),
        of.age_ms.map_or_else(absent, |ms| duration(ms as f64 * 1e6)),
        of.moves.to_string(),
        tcp(&|tcp| duration(f64::from(tcp.rtt_us) * 1e3)),
        tcp(&|tcp| tcp.congestion_window.to_string()),
        tcp(&|tcp| tcp.retransmitted.to_string()),
    ]
}

/// `iperf3 4711:5`: `PID:FD` is what `adapter toe offload` takes.
fn program(of: &ToeConnection) -> Option<String> {
    // a program chooses its name
    let name: String = of.program.as_deref().unwrap_or("?").replace(char::is_control, "?");
    let process = of.process?;
    Some(match of.descriptor {
        Some(descriptor) => format!("{name} {process}:{descriptor}"),
        None => format!("{name} {process}"),
    })
}

/// The connections as one JSON document.
pub fn document(report: &ToeReport) -> String {
    done_document("toe", report)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use linkrate_model::lab::TcpReport;

    use super::*;

    fn report() -> ToeReport {
        let at_adapter = ToeConnection {
            at: ConnectionPlace::Adapter,
            port: "eth0".to_owned(),
            own: "198.18.0.1:40000".parse().unwrap(),
            far: "198.18.0.2:5201".parse().unwrap(),
            process: Some(4711),
            program: Some("iperf3\u{1b}[J".to_owned()),
            descriptor: Some(5),
            sent: 117_671_717,
            received: 317,
            age_ms: Some(1234),
            moves: 1,
            ended: false,
            tcp: Some(TcpReport {
                mss: 1448,
                rtt_us: 250,
                congestion_window: 40,
                retransmitted: 0,
            }),
        };
        let at_host = ToeConnection {
            at: ConnectionPlace::Host,
            process: None,
            program: None,
            descriptor: None,
            age_ms: None,
            moves: 0,
            tcp: None,
            ..at_adapter.clone()
        };
        let moves = BTreeMap::from([("down".to_owned(), 3), ("up.toe-off".to_owned(), 1)]);
        let stayed = BTreeMap::from([("adapter-shared".to_owned(), 1), ("ecn".to_owned(), 2)]);
        let connections = vec![at_adapter, at_host];
        ToeReport { lab: "lab".to_owned(), connections, moves, stayed }
    }

    #[test]
    fn connections_are_a_table_of_what_a_person_can_act_on() {
        let text = text(&report(), Style { color: false });
        assert!(text.starts_with("lab  1 connection at the adapter, 1 at the host\n"), "{text}");
        assert!(text.contains("stayed at the host: 2 (ecn)"), "{text}");
        assert!(text.contains("stayed at the adapter: 1 (shared)"), "{text}");
        assert!(
            text.contains("moved to the adapter: 3\nmoved to the host: 1 for toe-off"),
            "{text}"
        );
        assert!(text.contains("iperf3?[J 4711:5"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.contains("peer")).collect();
        assert!(lines.iter().any(|line| line.contains("adapter") && line.contains("5201")));
        assert!(lines.iter().any(|line| line.contains("host") && line.contains("5201")));
    }

    #[test]
    fn the_document_reads_back() {
        let document: serde_json::Value = serde_json::from_str(&document(&report())).unwrap();
        let read: ToeReport = serde_json::from_value(document["toe"].clone()).unwrap();
        assert_eq!(read, report());
        assert_eq!(document["toe"]["connections"][0]["tcp"]["rtt-us"], 250);
    }
}
