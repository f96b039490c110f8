//! `runs.csv` as other programs read it.

use std::collections::BTreeMap;

use linkrate_report::csv::runs;
use linkrate_study::results::StudyResults;

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
    // a stream has no transactions, TCP loses no datagrams, and nobody asked about GRO
    for absent in ["transactions", "latency_p99_ns", "lost_datagrams", "effective_gro"] {
        assert_eq!(row[absent], "", "{absent}");
    }
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
        "window_s",
        "clients",
    ];
    for (column, value) in row.iter().filter(|(column, _)| !known.contains(&column.as_str())) {
        assert_eq!(value, "", "{column}");
    }
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
