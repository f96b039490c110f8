use linkrate_model::imported::{Asked, Found};
use linkrate_model::{Direction, Protocol};

use super::*;
use crate::analysis::analyse;
use crate::comparison::{ComparisonError, Criteria, Finding, compare};
use crate::store::{Store, StoreError, StoredStudy, write_imported};

pub(super) fn run(file: &str, direction: Direction, rate: f64) -> Imported {
    let mut found = Found { seconds: Some(10.0), ..Found::default() };
    match direction {
        Direction::Receive => found.receive_bits_per_second = Some(rate),
        _ => found.transmit_bits_per_second = Some(rate),
    }
    Imported {
        file: file.to_owned(),
        place: None,
        program: "netperf".to_owned(),
        test: "TCP_STREAM".to_owned(),
        cookie: None,
        started_unix_ms: None,
        asked: Asked::of(Protocol::Stream, direction),
        found,
        series: Vec::new(),
        facts: BTreeMap::new(),
        remarks: Vec::new(),
    }
}

fn stored(runs: Vec<Imported>, at: u64) -> StoredStudy {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("set");
    write_imported(&directory, &assemble(runs, at).unwrap(), at).unwrap();
    let resumed = Store::resume(&directory).unwrap_err();
    assert!(matches!(resumed, StoreError::Imported { .. }), "{resumed}");
    Store::read(&directory).unwrap()
}

fn rates(rates: [f64; 6]) -> Vec<Imported> {
    rates.map(|rate| run("a.txt", Direction::Transmit, rate * 1e9)).to_vec()
}

#[test]
fn runs_of_the_same_test_are_a_cell_and_nothing_is_claimed() {
    let mut runs = rates([9.0, 9.1, 9.05, 9.02, 9.07, 9.03]);
    runs.push(run("b.txt", Direction::Receive, 1e9));
    let results = analyse(&stored(runs, 1));
    assert_eq!(results.cells.iter().map(|cell| cell.runs).collect::<Vec<_>>(), [6, 1]);
    assert_eq!(results.cells[1].levels.to_string(), "receive");
    assert_eq!((results.effects.len(), results.blocks, results.seed), (0, 0, None));
    assert_eq!((results.run_seconds, results.warm_up_seconds), (Some(10.0), None));
    assert_eq!(results.adapter, "not known");
    let cell = &results.cells[0];
    assert!((cell.throughput.unwrap().interval.mean - 9.045e9).abs() < 1e6);
    assert_eq!((cell.cpu, cell.service_demand, cell.shared_cpus), (None, None, None));
    assert_eq!(cell.evidence, crate::results::CellEvidence::default());
    assert_eq!(cell.verdict.brief(), "not known");
    assert_eq!(results.imported[6].file, "b.txt");
    assert!(results.imported[0].lacks.contains(&"service demand".to_owned()));
    assert!(results.warnings.iter().any(|warning| warning.contains("nothing is claimed")));
}

#[test]
fn a_comparison_wants_the_word_that_the_conditions_were_the_same() {
    let slow = stored(rates([9.0, 9.1, 9.05, 9.02, 9.07, 9.03]), 1);
    let fast = stored(rates([10.0, 10.1, 10.05, 10.02, 10.07, 10.03]), 2);
    let refused = compare(&[&slow], &[&fast], &Criteria::default()).unwrap_err();
    let ComparisonError::Different(differences) = &refused else { panic!("{refused}") };
    assert_eq!(differences.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["imported"]);
    let allowed = Criteria { allow: vec!["imported".to_owned()], ..Criteria::default() };
    // what limited the rate is not known, so that it may scatter as a cost does
    let found = compare(&[&slow], &[&fast], &allowed).unwrap();
    assert_eq!(found.cells[0].rows[0].verdict, Finding::NotShown);
    let allowed = Criteria { session_scatter: Some(0.002), ..allowed };
    let found = compare(&[&slow], &[&fast], &allowed).unwrap();
    assert_eq!(found.cells[0].rows[0].verdict, Finding::Better);
    assert_eq!((found.cells[0].rows.len(), found.overall.len(), found.effects.len()), (1, 0, 0));
    assert!(found.warnings[0].contains("taken on trust") || found.warnings.len() > 1);
}

#[test]
fn one_test_is_no_two_runs() {
    let named = |file: &str, direction, rate| Imported {
        cookie: Some("x".to_owned()),
        ..run(file, direction, rate)
    };
    let server = || {
        let mut run = named("c.json", Direction::Receive, 0.9e9);
        run.found.retransmits = Some(7);
        run
    };
    let other = || run("b.json", Direction::Transmit, 1e9);
    let a = || named("a.json", Direction::Transmit, 1e9);
    // a copy, and the document of the other end, in any order
    let set = assemble(vec![a(), other(), server(), named("d.json", Direction::Transmit, 1e9)], 0);
    let set = set.unwrap();
    let runs: Vec<&Imported> = set.runs.iter().filter_map(StoredRun::imported).collect();
    assert_eq!(runs.iter().map(|run| run.file.as_str()).collect::<Vec<_>>(), ["a.json", "b.json"]);
    assert_eq!(
        (runs[0].found.transmit_bits_per_second, runs[0].found.retransmits),
        (Some(1e9), Some(7))
    );
    let expected = [
        "c.json is this test as its other end reported it (900.0 Mb/s): one run, with what the \
         first file does not report.",
        "d.json is a copy of this test, which counts once.",
    ];
    assert_eq!(runs[0].remarks, expected);
    let set = assemble(vec![server(), a()], 0).unwrap();
    assert_eq!(set.runs[0].imported().unwrap().asked.direction, Direction::Receive);
    // one test has one result
    assert_eq!(
        assemble(vec![a(), named("e.json", Direction::Transmit, 2e9)], 0).unwrap_err().to_string(),
        "a.json and e.json are of one test (x) and differ, expected each test once"
    );
}

#[test]
fn runs_that_equal_others_may_be_copies() {
    let copies = |rates_of_runs| {
        let results = analyse(&stored(rates(rates_of_runs), 1));
        results.warnings.into_iter().find(|warning| warning.contains("another in all"))
    };
    assert_eq!(copies([9.0, 9.1, 9.05, 9.02, 9.07, 9.03]), None);
    let warning = copies([9.0, 9.1, 9.0, 9.02, 9.07, 9.07]).unwrap();
    assert!(warning.starts_with("2 imported runs equal another"), "{warning}");
}

#[test]
fn tests_over_ipv4_and_over_ipv6_are_two_cells() {
    let over = |family| {
        let mut run = run("a.json", Direction::Transmit, 1e9);
        run.asked.family = Some(family);
        run
    };
    let runs = vec![over(linkrate_model::Family::Ipv4), over(linkrate_model::Family::Ipv6)];
    let results = analyse(&stored(runs, 1));
    let levels: Vec<String> = results.cells.iter().map(|cell| cell.levels.to_string()).collect();
    assert_eq!(levels, ["ipv4", "ipv6"]);
}

#[test]
fn no_runs_are_no_set() {
    assert_eq!(assemble(Vec::new(), 0), Err(ImportError::NoRuns));
}
