//! The words of the paper: highlights, recommended use and method of very different studies.

use std::fmt::Write as _;

use linkrate_report::paper::{EffectLink, Paper, Said};
use linkrate_study::results::{DisciplineFigures, StudyResults};

use crate::{fixture, simulated};

/// What a reader of the first pages reads.
fn words(results: &StudyResults) -> String {
    let paper = Paper::new(results).unwrap();
    let mut text = format!("{}\n{}\n", paper.title, paper.question.unwrap_or_default());
    let names = |effects: &[EffectLink]| {
        effects.iter().map(|link| link.name.clone()).collect::<Vec<_>>().join(" ")
    };
    let mut line = |line: String| writeln!(text, "{line}").unwrap();
    line("\nHighlights".to_owned());
    for Said { text, effects } in &paper.highlights {
        line(format!("- {text} [{}]", names(effects)));
    }
    line("\nRecommended use".to_owned());
    for advice in &paper.advice {
        if !advice.heading.is_empty() {
            line(format!("[{}]", advice.heading));
        }
        line(format!("- {}", advice.say));
        for more in [&advice.gain, &advice.cost, &advice.bound] {
            if !more.is_empty() {
                line(format!("  {more}"));
            }
        }
        line(format!("  [{}]", names(&advice.effects)));
    }
    line("\nFigures".to_owned());
    let mut paper = Paper::new(results).unwrap();
    for figure in paper.figures_mut() {
        line(format!("{}. {}. {}", figure.number, figure.title, figure.note));
        for panel in &figure.panels {
            line(format!("   {}: {}", panel.title, panel.description));
        }
    }
    line("\nHow it was measured".to_owned());
    for paragraph in &paper.method {
        line(paragraph.clone());
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
fn fewer_than_five_blocks_have_neither_highlights_nor_advice() {
    let mut few = fixture::stream();
    for effect in &mut few.effects {
        (effect.pairs, effect.significant) = (4, false);
    }
    for results in [few, fixture::single()] {
        let paper = Paper::new(&results).unwrap();
        let said: Vec<&str> = paper.highlights.iter().map(|said| said.text.as_str()).collect();
        assert_eq!(said, ["Nothing is significant: fewer than 5 blocks."]);
        assert!(paper.advice.is_empty() && !paper.claims);
    }
}

/// What is claimed in one direction and in the other never shares a verb, and nothing that is not
/// claimed is told as shown.
#[test]
fn says_that_nothing_is_claimed() {
    let mut results = fixture::stream();
    for effect in &mut results.effects {
        effect.significant = false;
    }
    let paper = Paper::new(&results).unwrap();
    assert!(paper.compares && !paper.claims);
    for said in &paper.highlights {
        let open = said.text.starts_with("No change of ");
        let number =
            |effect: &EffectLink| effect.name[1..].parse::<usize>().expect("E and a number");
        let excluded =
            said.effects.iter().all(|effect| results.effects[number(effect) - 1].equivalent);
        assert_eq!((open, said.text.contains("not change")), (!excluded, excluded));
    }
    assert!(paper.claimed.is_none() && paper.not_shown.is_some());
    assert_eq!(
        paper.advice[0].say,
        "Between no offload, software GSO and TSO: no difference was shown."
    );
    let mut results = fixture::stream();
    results.effects[6].ratio.mean = 1.5;
    let reported = Paper::new(&results).unwrap();
    let both =
        reported.highlights.iter().find(|said| said.text.contains("service demand")).unwrap();
    assert!(both.text.contains("raises transmit service demand by 50 %"), "{}", both.text);
}

/// A change that is told in another way beside the raw one has its table in the paper.
#[test]
fn changes_at_equal_mix_and_without_the_driver_have_tables() {
    let titles = |results: &StudyResults| -> Vec<String> {
        let cells = Paper::new(results).unwrap().cells;
        cells.into_iter().map(|numbered| numbered.table.title).collect()
    };
    let mut results = fixture::stream();
    let changes = [
        "Changes in service demand without the driver",
        "Changes in service demand at equal mix of directions",
    ];
    let all = titles(&results);
    assert!(changes.iter().all(|title| !all.iter().any(|other| other == title)), "{all:?}");
    let other = Some(linkrate_study::quantity::Interval { mean: 0.8, low: None, high: None });
    (results.effects[0].without_driver, results.effects[0].mix_adjusted) = (other, other);
    let all = titles(&results);
    assert!(changes.iter().all(|title| all.iter().any(|other| other == title)), "{all:?}");
}

/// Every effect that a sentence names has a row to go to.
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
