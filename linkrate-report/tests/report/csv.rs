//! `runs.csv` as other programs read it.

use std::collections::BTreeMap;

use linkrate_model::BitRate;
use linkrate_model::discipline::{Discipline, DisciplineCounts};
use linkrate_model::measurement::{AdapterEvidence, PortEvidence};
use linkrate_study::executor::{RunFailure, Stage};
use linkrate_study::levels::Level;
use linkrate_study::store::Outcome;

use linkrate_report::csv::{SETTINGS, groups, runs};
use linkrate_study::results::StudyResults;

use crate::book;
use crate::fixture;

fn rows(results: &StudyResults) -> Vec<BTreeMap<String, String>> {
    let bytes = runs(results).unwrap();
    csv::Reader::from_reader(bytes.as_slice()).deserialize().map(Result::unwrap).collect()
}

#[test]
fn there_is_one_row_a_run() {
    let results = fixture::stream();
    let rows = rows(&results);
    assert_eq!(rows.len(), results.runs.len());
    let row = rows.iter().find(|row| row["cell"] == "4").unwrap();
    assert_eq!((row["offload"].as_str(), row["direction"].as_str()), ("tso", "transmit"));
    assert_eq!((row["kind"].as_str(), row["status"].as_str()), ("workload", "measured"));
    assert!(row["throughput_bit_per_s"].parse::<f64>().unwrap() > 24e9);
    assert!(row["service_demand_us_per_kb"].parse::<f64>().unwrap() > 0.0);
    assert_eq!(row["effective_offload"], "tso");
    assert_eq!(row["effective_mtu_bytes"], "1500");
    assert_eq!(row["mss_bytes"], "1448");
    assert_eq!(row["effective_family"], "ipv4");
    // a stream has no transactions, TCP loses no datagrams, and nobody asked about GRO
    for absent in ["transactions", "latency_p99_ns", "lost_datagrams", "effective_gro"] {
        assert_eq!(row[absent], "", "{absent}");
    }
}

#[test]
fn knobs_have_columns_that_keep_their_order() {
    let bytes = runs(&fixture::stream()).unwrap();
    let header = csv::Reader::from_reader(bytes.as_slice()).headers().unwrap().clone();
    let header: Vec<&str> = header.iter().collect();
    // other people's programs may take a column by its number
    let order = [
        "idle_source",
        "effective_offload",
        "effective_gro",
        "effective_gro_list",
        "effective_udp_gro_forwarding",
        "effective_threaded",
        "effective_napi_defer_hard_irqs",
        "effective_gro_flush_timeout",
        "effective_tx_checksum",
        "effective_rx_checksum",
        "effective_mtu_bytes",
        "effective_gso_max_size_bytes",
        "effective_gro_max_size_bytes",
        "effective_txqueuelen",
        "effective_queues",
        "effective_lro",
        "effective_steering",
        "effective_rx_usecs",
        "effective_rx_frames",
        "effective_tx_usecs",
        "effective_vlan",
        "effective_snap",
    ];
    assert!(header.windows(order.len()).any(|columns| columns == order), "{header:?}");
}

#[test]
fn the_page_has_every_column() {
    let rows = groups().into_iter().map(|(title, names)| {
        let names = if title == SETTINGS {
            "`effective_` and the key, with underscores; sizes end in `_bytes`".to_owned()
        } else {
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        };
        [title.to_owned(), names]
    });
    let table = book::table(["columns of", "names"], rows);
    book::check("reference/results.md", "linkrate-report/tests/report/csv.rs", &table);
}

#[test]
fn the_page_explains_no_column_that_is_none() {
    let page = book::text("reference/results.md");
    let (_, csv) = page.split_once("\n## runs.csv\n").expect("a section");
    let columns: Vec<String> = groups().into_iter().flat_map(|(_, names)| names).collect();
    let explained = csv.lines().filter(|line| line.starts_with("| `"));
    let names = explained.flat_map(|line| line.split('|').nth(1).unwrap_or_default().split(", "));
    for name in names.map(|name| name.trim().trim_matches('`')) {
        assert!(columns.iter().any(|column| column == name), "{name} is not in runs.csv");
    }
}

#[test]
fn a_switch_is_true_or_false() {
    let mut results = fixture::stream();
    for run in &mut results.runs {
        if let Outcome::Measured(measured) = &mut run.outcome {
            measured.effective.interface.gro = Some(false);
            measured.effective.interface.port.lro = Some(true);
        }
    }
    let row = rows(&results).into_iter().find(|row| row["cell"] == "0").unwrap();
    assert_eq!((row["effective_gro"].as_str(), row["effective_lro"].as_str()), ("false", "true"));
}

#[test]
fn idle_runs_have_cpu_but_no_cell_and_no_traffic() {
    let row = rows(&fixture::stream()).into_iter().find(|row| row["kind"] == "idle").unwrap();
    assert_eq!(row["sut_cpu_percent"], "0.4");
    for absent in ["cell", "offload", "throughput_bit_per_s", "transmit_bytes", "mss_bytes"] {
        assert_eq!(row[absent], "", "{absent}");
    }
}

#[test]
fn a_failed_run_has_a_reason_and_no_figures() {
    let row = rows(&fixture::stream()).into_iter().find(|row| row["status"] == "failed").unwrap();
    assert_eq!(row["failure_stage"], "knob");
    assert_eq!(row["failure_reason"], "read back rx-gro: on, asked for off");
    let known = [
        "sequence",
        "block",
        "kind",
        "cell",
        "offload",
        "direction",
        "status",
        "failure_stage",
        "failure_reason",
        "started_unix_ms",
        "seed",
        "warm_up_s",
        "duration_s",
        "clients",
        "results",
        "linkrate_version",
        "adapter",
        "scale",
        "requested_workload",
        "requested_direction",
        "requested_connections",
        "requested_message_min_bytes",
        "requested_message_max_bytes",
    ];
    for (column, value) in row.iter().filter(|(column, _)| !known.contains(&column.as_str())) {
        assert_eq!(value, "", "{column}");
    }
}

#[test]
fn adapter_counters_have_columns() {
    let mut results = fixture::stream();
    results.scale = 0.1;
    let measured = results.runs.iter_mut().find_map(|run| match &mut run.outcome {
        Outcome::Measured(measured) if run.cell == Some(0) => {
            run.spec.ports = Some(2);
            Some(measured)
        }
        _ => None,
    });
    let counters = [("txSegments", 40), ("txSuperframes", 2), ("txDropMalformed", 3)];
    let measured = measured.unwrap();
    let of = |parent: &str| Discipline {
        interface: "eth0".to_owned(),
        kind: "tbf".to_owned(),
        handle: "8001:".to_owned(),
        parent: parent.to_owned(),
        rate: Some(BitRate(5e8)),
        counts: DisciplineCounts { dropped: 4, overlimits: 90, ..DisciplineCounts::default() },
        ..Discipline::default()
    };
    measured.evidence.disciplines = vec![of("root"), of("8001:1")];
    measured.evidence.adapter = Some(Box::new(AdapterEvidence {
        interval_ns: 1_000_000_000,
        ports: vec![PortEvidence {
            name: "eth0".to_owned(),
            tx_link_percent: Some(97.5),
            rx_link_percent: None,
            counters: counters.map(|(name, count)| (name.to_owned(), count)).into(),
        }],
        ..AdapterEvidence::default()
    }));
    let rows = rows(&results);
    let row = rows.iter().find(|row| !row["ports"].is_empty()).unwrap();
    for (column, value) in [
        ("ports", "2"),
        ("scale", "0.1"),
        ("adapter_segments_per_superframe", "20"),
        ("adapter_tx_link_percent", "97.5"),
        ("adapter_rx_link_percent", ""),
        ("adapter_drops", "3"),
        ("adapter_checksum_failures", "0"),
        ("adapter_sent_frame_bytes", ""),
        (
            "queue_disciplines",
            "eth0 tbf 8001: at root, 500.0 Mb/s; eth0 tbf 8001: at 8001:1, 500.0 Mb/s",
        ),
        ("discipline_dropped", "4"),
        ("discipline_overlimits", "90"),
        ("discipline_requeues", "0"),
        ("discipline_backlog_bytes", "0"),
    ] {
        assert_eq!(row[column], value, "{column}");
    }
    assert!(rows.iter().filter(|row| row["adapter_drops"].is_empty()).count() > 20);
}

#[test]
fn no_field_is_a_formula_and_numbers_stay() {
    let mut results = fixture::stream();
    results.adapter = "-1.5e3".to_owned();
    results.linkrate_version = " @SUM(1)".to_owned();
    results.cells[0].levels.0[1] = ("=factor".to_owned(), Level::Text("+1+1".to_owned()));
    let reasons = ["=HYPERLINK(\"http://a\")", "-inf", "\tx", "＝1", "a=b", ""];
    let mut failed = results.runs[0].clone();
    results.runs.retain(|run| run.cell == Some(0));
    for reason in reasons {
        failed.outcome = Outcome::Failed(RunFailure::at(Stage::Agent, reason));
        results.runs.push(failed.clone());
    }
    let rows = rows(&results);
    assert_eq!(rows[0]["adapter"], "-1.5e3");
    assert_eq!(rows[0]["linkrate_version"], "' @SUM(1)");
    assert_eq!(rows[0]["'=factor"], "'+1+1");
    let kept: Vec<&str> =
        rows[rows.len() - 6..].iter().map(|row| row["failure_reason"].as_str()).collect();
    let expected = ["'=HYPERLINK(\"http://a\")", "'-inf", "'\tx", "'＝1", "a=b", ""];
    assert_eq!(kept, expected);
}

#[test]
fn cells_of_different_parts_fill_different_columns() {
    let mut results = fixture::stream();
    results.cells[1].levels.0[1].0 = "mtu".to_owned();
    let rows = rows(&results);
    let of = |cell: &str| rows.iter().find(|row| row["cell"] == cell).unwrap();
    assert_eq!((of("0")["direction"].as_str(), of("0")["mtu"].as_str()), ("transmit", ""));
    assert_eq!((of("1")["direction"].as_str(), of("1")["mtu"].as_str()), ("", "bidirectional"));
}

#[test]
fn a_factor_never_hides_a_column() {
    let mut results = fixture::stream();
    for cell in &mut results.cells {
        cell.levels.0[0].0 = "clients".to_owned();
    }
    let row = rows(&results).into_iter().find(|row| row["cell"] == "0").unwrap();
    assert_eq!((row["factor_clients"].as_str(), row["clients"].as_str()), ("none", "1"));
}
