//! The words of the paper: highlights, recommended use and method of very different studies.

use std::fmt::Write as _;

use linkrate_report::paper::Paper;
use linkrate_study::results::{DisciplineFigures, StudyResults};

use crate::{fixture, simulated};

/// What a reader of the first pages reads, and the method.
fn words(results: &StudyResults) -> String {
    let mut paper = Paper::new(results).unwrap();
    let mut text = format!("{}\n", paper.title);
    let mut line = |line: String| writeln!(text, "{}", line.trim_end()).unwrap();
    for (name, value) in &paper.header {
        line(format!("{name}: {value}"));
    }
    line("\nAnswer".to_owned());
    for sentence in &paper.answer {
        line(format!("- {sentence}"));
    }
    for advice in &paper.advice {
        if !advice.heading.is_empty() {
            line(format!("[{}]", advice.heading));
        }
        line(format!("{} {} {}", advice.say, advice.cost, advice.condition));
    }
    line("\nHow far to trust it".to_owned());
    for check in &paper.trust {
        line(format!("{} {}: {}", if check.is_bad { '!' } else { ' ' }, check.name, check.text));
    }
    line(format!("  {}", paper.troubles));
    line(format!("  {}", paper.agreement));
    line("\nFigures".to_owned());
    for figure in paper.figures_mut() {
        line(format!("{}. {}. {}", figure.number, figure.title, figure.note));
        for panel in &figure.panels {
            line(format!("   {}: {}", panel.title, panel.description));
        }
    }
    line("\nMethod".to_owned());
    for (subject, text) in &paper.method {
        line(format!("{subject}: {text}"));
    }
    text
}

#[test]
fn tso() {
    insta::assert_snapshot!(words(&simulated::study("tso")));
}

#[test]
fn ten_gigabit() {
    insta::assert_snapshot!(words(&simulated::study("ten-gigabit")));
}

#[test]
fn message_size() {
    insta::assert_snapshot!(words(&simulated::study("message-size")));
}

#[test]
fn request_response() {
    insta::assert_snapshot!(words(&simulated::study("request-response")));
}

#[test]
fn profiled() {
    let results = simulated::profiled();
    let paper = Paper::new(&results).unwrap();
    let figure = paper.attribution_figure.unwrap();
    assert!(figure.panels[0].description.contains("data copy"), "{figure:?}");
    // twenty-seven cells, six to a table
    let sizes = paper.attribution.iter().map(|it| (it.table.rows.len(), it.table.columns.len()));
    let expected = [6, 6, 6, 6, 3].map(|cells| (12 + 3, 1 + cells));
    assert_eq!(sizes.collect::<Vec<_>>(), expected);
}

#[test]
fn queue_disciplines_are_evidence() {
    let mut results = fixture::single();
    let of = |parent: &str, drops| DisciplineFigures {
        interface: "eth0".to_owned(),
        kind: "tbf".to_owned(),
        parent: parent.to_owned(),
        rate_bits_per_second: Some(5e8),
        rate_percent: Some(99.64),
        drops,
        ..DisciplineFigures::default()
    };
    results.cells[0].evidence.disciplines = vec![of("root", 12.0), of("8001:1", 7.0)];
    let paper = Paper::new(&results).unwrap();
    let proof = |name: &str| {
        let found = paper.common.iter().find(|(found, _)| *found == name);
        found.map(|(_, text)| text.as_str())
    };
    assert_eq!(proof("queue disciplines"), Some("eth0 tbf 99.6 % of 500.0 Mb/s"));
    assert_eq!(proof("discipline drops per run"), Some("12.0"));
}

/// A line of cells is drawn beside one of frames, and told in words; lines of frames alone are in the
/// table of the evidence.
#[test]
fn the_cell_tax_is_drawn_where_there_are_cells() {
    let mut results = fixture::adapter();
    let frames = Paper::new(&results).unwrap();
    assert!(frames.line_figures.is_empty() && frames.line.is_none());
    let title = "Where the time of the lines went";
    assert!(frames.evidence.iter().any(|table| table.table.title == title));
    results.cells[0].evidence.line = vec![fixture::line(
        &[
            ("payload", 60.0),
            ("TCP/IP headers", 0.4),
            ("LLC/SNAP header", 0.1),
            ("AAL5 padding", 0.2),
            ("AAL5 trailer", 0.1),
            ("cell headers", 6.3),
            ("SONET overhead", 3.7),
            ("idle", 29.2),
        ],
        86.4,
    )];
    let cells = Paper::new(&results).unwrap();
    assert!(cells.evidence.iter().all(|table| table.table.title != title));
    let [figure] = &cells.line_figures[..] else { panic!("one figure") };
    let reported = &figure.panels[0].description;
    let expected = "payload 60.0 %, TCP/IP headers 0.4 %, link headers 0.1 %, \
                    AAL5 padding and trailer 0.3 %, cell headers 6.3 %, SONET 3.7 %, idle 29.2 %";
    assert!(reported.contains(expected), "{reported}");
    let table = cells.line.unwrap().table;
    let row: Vec<&str> = table.rows[0].fields.iter().map(|field| field.text.as_str()).collect();
    let shares = ["60.0 %", "0.4 %", "0.1 %", "–", "0.3 %", "6.3 %", "3.7 %", "29.2 %", "86.4 %"];
    assert_eq!(row[1..], shares);
    assert_eq!(table.columns.len(), row.len());
}

/// Advice is by whom it is for, where it is for several.
#[test]
fn advice_of_several_parts_has_their_headings() {
    let results = simulated::study("atm");
    let paper = Paper::new(&results).unwrap();
    let headings: Vec<&str> = paper.advice.iter().map(|advice| advice.heading).collect();
    assert_eq!(headings.iter().filter(|heading| !heading.is_empty()).count(), 2, "{headings:?}");
    assert_eq!((headings[0], headings.contains(&"Network design")), ("Application", true));
    // interface types are compared, and lines of two rates are not
    let both = |say: &str| say.contains("atm-155") && say.contains("atm-622");
    assert!(paper.advice.iter().all(|advice| !both(&advice.say) && !both(&advice.cost)));
    let one = simulated::study("tso");
    assert!(Paper::new(&one).unwrap().advice.iter().all(|advice| advice.heading.is_empty()));
}

#[test]
fn a_single_cell_is_told_in_a_sentence() {
    let mut enough = fixture::single();
    enough.cells[0].runs = 5;
    insta::assert_snapshot!(words(&enough));
}

#[test]
fn fewer_than_five_blocks_have_neither_an_answer_nor_advice() {
    let mut few = fixture::stream();
    for effect in &mut few.effects {
        (effect.pairs, effect.significant) = (4, false);
    }
    for results in [few, fixture::single()] {
        let paper = Paper::new(&results).unwrap();
        assert_eq!(paper.answer, ["Nothing is significant: fewer than 5 blocks."]);
        assert!(paper.advice.is_empty());
    }
}

/// Nothing that is not significant is told as shown.
#[test]
fn says_that_nothing_is_significant() {
    let mut results = fixture::stream();
    for effect in &mut results.effects {
        effect.significant = false;
    }
    let paper = Paper::new(&results).unwrap();
    for sentence in &paper.answer {
        assert!(!sentence.contains("raises") && !sentence.contains("reduces"), "{sentence}");
    }
    let none = "Between no offload, GSO and TSO: no difference was shown";
    assert_eq!(paper.advice[0].say, format!("{none}."));
    // where something else limits an adapter, another machine may show one
    results.adapter = "gigabit".to_owned();
    results.effects.iter_mut().for_each(|effect| effect.host_limited = Some(true));
    let paper = Paper::new(&results).unwrap();
    assert_eq!(paper.advice[0].say, format!("{none} on this machine."));
}

/// The terminal and the page say the same.
#[test]
fn the_answer_is_that_of_the_terminal() {
    for results in [simulated::study("tso"), simulated::quick("tso"), simulated::study("atm")] {
        let style = linkrate_report::terminal::Style { color: false };
        let screen = linkrate_report::terminal::answer(&results, None, Some(100), style);
        let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        let paper = Paper::new(&results).unwrap();
        // the table has a mark for limits, and --details has the power
        let checks = paper.trust.iter().filter(|check| !["Limits", "Power"].contains(&check.name));
        let checks: Vec<&String> = checks.map(|check| &check.text).collect();
        let values = paper.header.iter().take(3).map(|(_, value)| value);
        for said in paper.answer.iter().chain(checks).chain([&paper.title]).chain(values) {
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(screen.contains(&said), "{said} in {screen}");
        }
    }
}

/// A gain that the emulated driver alone makes is no advice without its condition.
#[test]
fn a_gain_that_turns_without_the_driver_is_told() {
    let mut results = fixture::stream();
    let gains = results.effects.iter_mut().filter(|e| e.significant && e.ratio.mean < 1.0);
    for effect in gains {
        let turned =
            linkrate_study::quantity::Interval { mean: 1.4, low: Some(0.6), high: Some(1.6) };
        (effect.without_driver, effect.without_driver_unknown) = (Some(turned), true);
    }
    let paper = Paper::new(&results).unwrap();
    let advice = &paper.advice[0];
    assert!(advice.condition.starts_with("Without the emulated driver "), "{advice:?}");
    assert!(!advice.cost.contains("No downside was shown"), "{advice:?}");
}

/// A change that is told in another way beside the raw one has its column.
#[test]
fn changes_at_equal_mix_and_without_the_driver_have_columns() {
    let columns = |results: &StudyResults| -> Vec<String> {
        let effects = Paper::new(results).unwrap().effects.unwrap();
        effects.table.columns.into_iter().map(|column| column.title).collect()
    };
    let mut results = fixture::stream();
    let own = ["Change", "Size", "Interval", "Result", "Pairs"];
    assert_eq!(columns(&results), own);
    let other = Some(linkrate_study::quantity::Interval { mean: 0.8, low: None, high: None });
    (results.effects[0].without_driver, results.effects[0].mix_adjusted) = (other, other);
    let all = columns(&results);
    assert_eq!(all[3..5], ["Without driver", "At equal mix"]);
}

/// An effect has one row, and every level one name.
#[test]
fn an_effect_is_told_once_and_a_level_has_one_name() {
    let results = simulated::study("tso");
    let paper = Paper::new(&results).unwrap();
    let rows = paper.effects.unwrap().table.rows;
    assert_eq!(rows.iter().filter(|row| row.group.is_empty()).count(), results.effects.len());
    let html = linkrate_report::html::page(&results).unwrap();
    let (shown, _) = html.split_once("id=\"environment\"").unwrap();
    for other in ["none →", "ports 2", "TSO, transmit, ports"] {
        assert!(!shown.contains(other), "{other}");
    }
}

/// Every reference leads somewhere.
#[test]
fn every_reference_leads_somewhere() {
    for results in [simulated::study("tso"), simulated::study("ten-gigabit"), fixture::stream()] {
        let html = linkrate_report::html::page(&results).unwrap();
        let targets: Vec<&str> =
            html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(!targets.is_empty());
        for target in targets {
            assert!(html.contains(&format!(" id=\"{target}\"")), "{target}");
        }
    }
}
