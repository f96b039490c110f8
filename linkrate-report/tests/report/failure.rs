//! What a failure cost, in every form.

use linkrate_report::terminal::{Style, table};
use linkrate_report::{csv, html, markdown};

use crate::fixture;

#[test]
fn the_table_says_what_was_not_detected() {
    for width in [80, 130] {
        let text = table(&fixture::failed(), Some(width), Style { color: false });
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        if width == 130 {
            insta::assert_snapshot!(text);
        }
    }
    // results without an event have no such table
    let without = table(&fixture::stream(), Some(130), Style { color: false });
    assert!(!without.contains("failure") && !without.contains("longest gap"), "{without}");
}

#[test]
fn the_papers_have_the_figures_and_the_rates_over_time() {
    let page = html::page(&fixture::failed()).unwrap();
    for text in ["Cost of a failure", "not detected within the run", "silent loss both ways"] {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!(page.matches("rates over time.</").count(), 2, "a drawing for each cell");
    assert!(page.contains("eth0 (fails)") && page.contains("carrier lost"));
    let text = markdown::document(&fixture::failed()).unwrap().text;
    assert!(text.contains("## Cost of a failure"), "{text}");
    let without = html::page(&fixture::stream()).unwrap();
    assert!(!without.contains("Cost of a failure"));
}

#[test]
fn what_has_not_ended_is_a_bound_and_a_few_frames_are_some() {
    let mut results = fixture::failed();
    let whole = markdown::document(&results).unwrap().text;
    assert!(whole.contains("No frame overtook another") && !whole.contains("more than 1.50 s"));
    let silent = results.cells[1].failure.as_mut().unwrap();
    (silent.open_runs, silent.reordered_runs) = (3, 1);
    let text = markdown::document(&results).unwrap().text;
    for said in ["to more than 1.50 s", "&gt; 1.50 s", "overtaken: ", ": 0, in 1 of 5 runs"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    for cell in &mut results.cells {
        cell.failure.as_mut().unwrap().verified_bytes = 0;
    }
    let text = markdown::document(&results).unwrap().text;
    assert!(text.contains("Bytes were not compared."), "{text}");
}

#[test]
fn each_run_has_its_event_in_csv() {
    let bytes = csv::runs(&fixture::failed()).unwrap();
    let mut reader = ::csv::Reader::from_reader(bytes.as_slice());
    let header = reader.headers().unwrap().clone();
    let at = |name: &str| header.iter().position(|column| column == name).unwrap();
    let mut rows = 0;
    for row in reader.records().map(Result::unwrap).filter(|row| &row[at("status")] == "measured") {
        rows += 1;
        let carrier = &row[at("cell")] == "0";
        // a factor of the same name stands beside what happened
        assert_eq!(&row[at("factor_event")], if carrier { "carrier" } else { "silent" });
        assert_eq!(row[at("event")], row[at("factor_event")]);
        assert_eq!(&row[at("host_detected_ns")], if carrier { "70000" } else { "" });
        assert_eq!(&row[at("frames_lost")], "212");
        assert_eq!(&row[at("event_at_ns")], "500040000");
    }
    assert!(rows > 0);
}
