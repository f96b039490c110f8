//! The table as people see it.

use linkrate_report::terminal::{Style, table};
use linkrate_study::results::StudyResults;

use crate::fixture;

fn plain(results: &StudyResults, width: u16) -> String {
    let text = table(results, Some(width), Style { color: false });
    for line in text.lines() {
        assert!(line.chars().count() <= usize::from(width), "wider than {width}: {line}");
    }
    text
}

#[test]
fn stream_80() {
    insta::assert_snapshot!(plain(&fixture::stream(), 80));
}

#[test]
fn stream_120() {
    insta::assert_snapshot!(plain(&fixture::stream(), 120));
}

#[test]
fn request_response_80() {
    insta::assert_snapshot!(plain(&fixture::request_response(), 80));
}

#[test]
fn request_response_120() {
    insta::assert_snapshot!(plain(&fixture::request_response(), 120));
}

#[test]
fn one_run_80() {
    insta::assert_snapshot!(plain(&fixture::single(), 80));
}

#[test]
fn adapter_80() {
    insta::assert_snapshot!(plain(&fixture::adapter(), 80));
}

#[test]
fn adapter_120() {
    insta::assert_snapshot!(plain(&fixture::adapter(), 120));
}

#[test]
fn failed_cells_have_dashes() {
    let mut results = fixture::stream();
    results.effects.clear();
    results.cells.truncate(1);
    let cell = &mut results.cells[0];
    (cell.throughput, cell.service_demand, cell.cpu) = (None, None, None);
    (cell.runs, cell.failed, cell.verdict) = (0, 5, "no run was good".to_owned());
    insta::assert_snapshot!(plain(&results, 80));
}

#[test]
fn a_pipe_gets_no_escape_sequences_and_a_terminal_only_ours() {
    let piped = table(&fixture::hostile(), None, Style { color: false });
    assert!(!piped.contains('\u{1b}'));
    let colored = table(&fixture::hostile(), Some(100), Style { color: true });
    assert!(colored.contains("\u{1b}[1m") && !colored.contains("\u{1b}[31m &"));
}

#[test]
fn colour_changes_nothing_but_escape_sequences() {
    let results = fixture::stream();
    let mut colored = table(&results, Some(80), Style { color: true });
    for code in ["[1m", "[0m", "[32m", "[1;33m", "[1;31m"] {
        colored = colored.replace(&format!("\u{1b}{code}"), "");
    }
    assert_eq!(colored, plain(&results, 80));
}
