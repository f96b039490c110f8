//! Result sets over time, for the page that a job publishes and for Apache Otava.

use linkrate_report::otava::Otava;
use linkrate_study::store::{Outcome, StoredStudy};
use linkrate_study::trend::{Criteria, StudyTrend, trend};

use crate::simulated::quick_runs_of;

const DAY_MS: u64 = 86_400_000;
/// Sets, one a night, and the one from which on things are different.
const NIGHTS: usize = 16;
const CHANGED: usize = 10;

/// Sets with a little scatter; in the later ones another kernel, with a cell that sends a fifth less.
pub fn sets() -> Vec<StoredStudy> {
    let of_night = |night: usize| {
        let day = night as u64;
        let mut set = quick_runs_of("tso");
        set.plan.started_unix_ms += day * DAY_MS;
        let is_later = night >= CHANGED;
        let kernel = if is_later { "6.18.1" } else { "6.12.9" };
        set.plan.facts.facts.insert("kernel".to_owned(), kernel.to_owned());
        for run in &mut set.runs {
            let scatter = 1.0 + 0.001 * ((day * 7 + u64::from(run.sequence) * 3) % 5) as f64;
            let level = if is_later && run.cell == Some(0) { 0.8 } else { 1.0 };
            if let Outcome::Measured(measured) = &mut run.outcome {
                let traffic = &mut measured.traffic;
                for bytes in [&mut traffic.transmit_bytes, &mut traffic.receive_bytes] {
                    *bytes = (*bytes as f64 * scatter * level) as u64;
                }
            }
        }
        set
    };
    (0..NIGHTS).map(of_night).collect()
}

/// Their trend.
pub fn of_nights() -> StudyTrend {
    trend(&sets(), &Criteria::default()).unwrap()
}

#[test]
fn otava_reads_a_row_for_each_set_and_how_the_columns_are_called() {
    let found = of_nights();
    let table = Otava::new(&found).unwrap();
    assert_eq!(table.left_out, Vec::<String>::new());
    let mut rows = csv::Reader::from_reader(&table.csv[..]);
    let names: Vec<String> = rows.headers().unwrap().iter().map(str::to_owned).collect();
    let own =
        ["time", "results", "linkrate_version", "kernel", "changed_conditions", "host_limited"];
    assert_eq!(names[..6], own);
    assert_eq!(names.len(), 6 + found.series().count());
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), NIGHTS);
    let changed = &rows[CHANGED];
    assert_eq!((&changed[3], &changed[4], &rows[CHANGED + 1][4]), ("6.18.1", "kernel", ""));
    for (row, set) in rows.iter().zip(&found.sets) {
        assert_eq!(row[1], set.summary.results);
        for (field, series) in row.iter().skip(6).zip(found.series()) {
            let at = found.sets.iter().position(|other| other == set).unwrap();
            assert_eq!(field.parse().ok(), series.points[at].map(|figure| figure.interval.mean));
        }
    }
    insta::assert_snapshot!(table.configuration(&found.study, "nightly/trend.csv"));
}

#[test]
fn a_series_with_a_gap_is_no_column_and_is_told() {
    let mut sets = sets();
    sets[2].runs.retain(|run| run.cell != Some(0));
    let found = trend(&sets, &Criteria::default()).unwrap();
    let table = Otava::new(&found).unwrap();
    let text = String::from_utf8(table.csv.clone()).unwrap();
    let header = text.lines().next().unwrap();
    assert!(!table.left_out.is_empty());
    for name in &table.left_out {
        assert!(!header.split(',').any(|column| column == name), "{name}");
    }
    let whole = found.series().filter(|series| series.points.iter().all(Option::is_some)).count();
    assert_eq!(header.split(',').count(), 6 + whole);
}

#[test]
fn too_few_sets_are_not_judged() {
    let found = trend(&sets()[..2], &Criteria::default()).unwrap();
    let text = linkrate_report::trend::markdown(&found).unwrap();
    let expected = format!("no row is judged: fewer than {} sets", found.fewest_sets);
    assert!(text.to_lowercase().contains(&expected), "{text}");
}

#[test]
fn what_the_adapter_did_not_limit_is_marked() {
    let mut found = of_nights();
    for series in found.cells.iter_mut().chain(&mut found.effects) {
        assert_eq!(series.host_limited.len(), NIGHTS);
        series.host_limited = vec![Some(false); NIGHTS];
    }
    let page = linkrate_report::trend::markdown(&found).unwrap();
    assert!(!page.contains('‡'), "{page}");
    found.cells[0].host_limited[2] = Some(true);
    found.cells[1].host_limited[2] = Some(true);
    let table = Otava::new(&found).unwrap();
    let mut rows = csv::Reader::from_reader(&table.csv[..]);
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    // throughput and service demand of one cell
    assert_eq!(&rows[2][5], "offload=none:direction=transmit:ports=2");
    assert_eq!(&rows[1][5], "");
    let page = linkrate_report::trend::markdown(&found).unwrap();
    assert_eq!(page.matches(" ‡ |").count(), 2, "{page}");
    assert!(page.contains("- ‡: not limited by the adapter in one set at least"), "{page}");
}

#[test]
fn the_page_says_what_changed_and_when() {
    let found = of_nights();
    assert!(found.worse > 0);
    let page = linkrate_report::trend::page(&found).unwrap();
    for said in ["regression: ", "▼ ", "6.12.9", "6.18.1"] {
        assert!(page.to_lowercase().contains(said), "{said}");
    }
    let drawings = page.matches("<svg class=\"narrow\"").count();
    assert_eq!(drawings, found.series().count(), "a drawing of each series for a phone");
}
