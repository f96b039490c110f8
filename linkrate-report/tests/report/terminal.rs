//! The table as people see it.

use linkrate_report::terminal::{Style, answer, has_answer, table};
use linkrate_study::levels::Level;
use linkrate_study::quantity::Measure;
use linkrate_study::results::StudyResults;

use crate::{fixture, simulated};

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

/// Where the CPU time went, in a list for each cell and, on a wide terminal and of few cells, in columns.
#[test]
fn profiled_80() {
    insta::assert_snapshot!(plain(&simulated::profiled(), 80));
}

#[test]
fn profiled_columns_120() {
    let mut results = simulated::profiled();
    results.cells.truncate(3);
    results.effects.clear();
    insta::assert_snapshot!(plain(&results, 120));
}

/// The same effects at so many levels of another factor, without intervals.
fn bare(results: &mut StudyResults, copies: usize) {
    let effect = results.effects[0].clone();
    results.effects.extend((0..copies).map(|copy| {
        let mut effect = effect.clone();
        effect.at.0.push(("ports".to_owned(), Level::Number(copy as u64)));
        (effect.ratio.low, effect.ratio.high, effect.significant) = (None, None, false);
        effect
    }));
}

#[test]
fn many_effects_without_an_interval_are_counted() {
    let reason = "too few runs for an interval";
    let mut results = fixture::stream();
    bare(&mut results, 8);
    assert_eq!(plain(&results, 120).matches(reason).count(), 8);
    bare(&mut results, 1);
    let text = plain(&results, 120);
    assert_eq!(text.matches(reason).count(), 1);
    let line = "  no offload → TSO, bidirectional   −1.5 %    −2.5 to −0.6 %  not significant\n\
                9 more effects have too few runs for an interval\n\n";
    assert!(text.contains(line), "{text}");
    let narrow = table(&results, Some(40), Style { color: false });
    assert!(narrow.contains("\n9 more effects have too few runs for an\ninterval\n"), "{narrow}");
    results.effects.retain(|effect| effect.ratio.low.is_none());
    let text = plain(&results, 80);
    assert!(text.contains("\n\n9 effects have too few runs for an interval\n\n"), "{text}");
    assert!(!text.contains("significant"), "{text}");
}

#[test]
fn cuts_a_uselessly_wide_interval() {
    let mut results = fixture::stream();
    results.effects.truncate(1);
    results.effects[0].ratio.high = Some(4_774_063.71);
    results.effects[0].ratio.low = Some(2e-7);
    assert!(plain(&results, 80).contains("  −100 to > +1000 %  "));
}

#[test]
fn failed_cells_have_dashes() {
    let mut results = fixture::stream();
    results.effects.clear();
    results.cells.truncate(1);
    let cell = &mut results.cells[0];
    (cell.throughput, cell.service_demand, cell.cpu) = (None, None, None);
    (cell.runs, cell.failed, cell.verdict) = (0, 5, fixture::verdict(&[]));
    insta::assert_snapshot!(plain(&results, 80));
}

#[test]
fn writes_escape_sequences_to_terminals_only() {
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

/// The answer, which keeps to the page: at most 100 columns, and to as many lines.
fn answered(results: &StudyResults, width: u16, lines: usize) -> String {
    assert!(has_answer(results));
    let next = Some(("linkrate run tso", "every cell"));
    let text = answer(results, next, Some(width), Style { color: false });
    for line in text.lines() {
        assert!(line.chars().count() <= usize::from(width.min(100)), "wider than {width}: {line}");
    }
    let count = text.lines().count();
    assert!(count <= lines, "{count} lines:\n{text}");
    text
}

#[test]
fn the_answer_of_tso_has_25_lines() {
    insta::assert_snapshot!(answered(&simulated::study("tso"), 120, 25));
}

/// Wide intervals of what is open are in the details.
#[test]
fn the_table_of_tso_stays_side_by_side_where_much_is_open() {
    let mut results = simulated::study("tso");
    for (index, effect) in results.effects.iter_mut().enumerate() {
        if index % 2 == 0 {
            (effect.significant, effect.equivalent) = (false, false);
            (effect.ratio.low, effect.ratio.high) = (Some(0.5211), Some(0.9911));
        }
    }
    let text = answered(&results, 120, 26);
    assert!(text.contains("  not significant‡"), "{text}");
}

#[test]
fn the_answer_of_a_quick_run_is_short() {
    // 15 lines, a long name of a CPU that breaks two of them, and what ‡ means
    insta::assert_snapshot!(answered(&simulated::quick("tso"), 100, 18));
}

#[test]
fn answers_of_parts_requests_and_sizes() {
    for name in ["ten-gigabit", "request-response", "message-size", "atm"] {
        insta::assert_snapshot!(name, answered(&simulated::study(name), 100, 60));
    }
}

#[test]
fn a_narrow_answer_has_fewer_columns() {
    insta::assert_snapshot!(answered(&simulated::quick("tso"), 80, 22));
    let text = answer(&simulated::study("tso"), None, Some(40), Style { color: false });
    assert!(text.contains("Report"), "{text}");
}

/// What the stop rule does not look at makes no precision worse.
#[test]
fn a_percentile_is_no_part_of_the_precision() {
    let mut results = simulated::study("request-response");
    let mut effect = results.effects[0].clone();
    effect.measure = Measure::LatencyP99;
    (effect.ratio.low, effect.ratio.high) =
        (Some(effect.ratio.mean * 0.5), Some(effect.ratio.mean * 1.5));
    results.effects.push(effect);
    assert!(answered(&results, 100, 60).contains("Precision   ±2.5 % reached"));
    results.effects.last_mut().unwrap().measure = Measure::Transactions;
    assert!(answered(&results, 100, 60).contains("Precision   worst ±50 % ("));
}
