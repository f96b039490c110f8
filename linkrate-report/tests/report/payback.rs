//! The worth of connection offloads in every document.

use linkrate_report::terminal::{self, Style};
use linkrate_report::{html, markdown};
use linkrate_study::levels::{Level, Levels};
use linkrate_study::quantity::{Interval, Quantity, Unit};
use linkrate_study::results::StudyResults;
use linkrate_study::results::figures::{OffloadCost, Outcome, Payback, Paybacks, ShortLived};

use crate::fixture;

fn quantity(mean: f64, half: f64, unit: Unit) -> Quantity {
    let interval = Interval { mean, low: Some(mean - half), high: Some(mean + half) };
    Quantity { interval, unit }
}

fn at(factor: &str, level: &str) -> Levels {
    Levels(vec![(factor.to_owned(), Level::Text(level.to_owned()))])
}

/// A connection offload that pays when sending, and never when receiving.
pub fn figures() -> Paybacks {
    let offload = |busy, cost_us: f64| OffloadCost {
        at: at("direction", "transmit"),
        busy,
        per_run: 4.0,
        cpu: quantity(cost_us * 1e3, 1e4, Unit::Nanoseconds),
        peer_wait: busy.then(|| quantity(1.1e6, 1e5, Unit::Nanoseconds)),
        stall: Some(quantity(2e5, 1e4, Unit::Nanoseconds)),
    };
    let payback = |direction, saved, outcome, bytes: Option<f64>| Payback {
        at: at("direction", direction),
        busy: false,
        saved: quantity(saved, 0.02, Unit::MicrosecondsPerKb),
        saved_without_driver: Some(quantity(saved / 3.0, 0.02, Unit::MicrosecondsPerKb)),
        outcome,
        bytes: bytes.map(|bytes| quantity(bytes, bytes / 10.0, Unit::Bytes)),
        bytes_without_driver: bytes.map(|bytes| quantity(bytes * 3.0, bytes / 2.0, Unit::Bytes)),
        pairs: 6,
        host_limited: direction == "transmit",
    };
    Paybacks {
        costs: vec![offload(false, 120.0), offload(true, 480.0)],
        paybacks: vec![
            payback("transmit", 0.6, Outcome::Pays, Some(204_800.0)),
            payback("receive", -0.2, Outcome::Never, None),
        ],
        short_lived: vec![ShortLived {
            at: at("response", "1 B"),
            connection: quantity(80.0, 2.0, Unit::MicrosecondsPerTransaction),
            with_offload: Interval { mean: 2.5, low: Some(2.3), high: Some(2.7) },
        }],
    }
}

fn results() -> StudyResults {
    StudyResults { payback: Some(figures()), ..fixture::stream() }
}

const CONCLUSION: &str = "Handing a connection to the adapter pays in 1 of 2 comparisons (1 limited by this host). It takes 200 KiB";

#[test]
fn the_terminal_has_the_tables_and_the_conclusion() {
    let text = terminal::table(&results(), Some(140), Style { color: false });
    insta::assert_snapshot!(text);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(CONCLUSION), "{text}");
}

#[test]
fn both_reports_have_the_conclusion_in_the_answer_and_the_tables() {
    let page = html::page(&results()).unwrap();
    let text = markdown::document(&results()).unwrap().text;
    for (document, title) in [
        (page, "Break-even of connection offload</h2>"),
        (text, "## Break-even of connection offload"),
    ] {
        let document = document.replace('\u{a0}', " ");
        let (before, after) = document.split_once(title).unwrap();
        assert!(before.contains(CONCLUSION));
        assert!(after.contains(CONCLUSION));
        for part in [
            "After how many bytes an offload has paid",
            "What an offload costs",
            "never",
            "1.10 ms",
            "+150 %",
        ] {
            assert!(after.contains(part), "{part}");
        }
    }
}

#[test]
fn too_few_blocks_have_no_conclusion_in_the_answer() {
    let mut results = results();
    for payback in &mut results.payback.as_mut().unwrap().paybacks {
        payback.pairs = 4;
    }
    let text = markdown::document(&results).unwrap().text;
    assert_eq!(text.matches(CONCLUSION).count(), 1);
}
