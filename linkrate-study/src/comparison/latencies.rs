//! Comparisons of latency.

use linkrate_model::mix::MixPart;
use linkrate_model::{Protocol, Task, Workload};

use super::*;
use crate::fixture::{self, SAME, failed, latency, set};

/// Of a simulated machine whose sessions do not differ.
fn compared(a: &StoredStudy, b: &StoredStudy) -> StudyComparison {
    let without_sessions = Criteria { session_scatter: Some(0.0), ..Criteria::default() };
    compare(&[a], &[b], &without_sessions).unwrap()
}

fn requests() -> Workload {
    Workload { kind: Protocol::RequestResponse, ..Workload::default() }
}

/// A set of one cell of five runs, whose 99th percentiles are these.
fn latencies(seed: u64, workload: &Workload, p99_ns: [Option<u64>; 5]) -> StoredStudy {
    let mut set = set(seed, 5, SAME, 0.01, 0.0);
    set.plan.study.cells.truncate(1);
    set.plan.study.cells[0].spec.task = Task::Workload(workload.clone());
    set.plan.study.factors.clear();
    set.runs.retain(|run| run.cell == Some(0));
    for (run, p99_ns) in set.runs.iter_mut().zip(p99_ns) {
        run.spec.task = Task::Workload(workload.clone());
        let wobble = u64::from(run.block) * 10;
        let mut measured = match run.spec.is_transactional() {
            true => fixture::transactions(20_000.0 + wobble as f64, 0.5),
            false => fixture::stream(9e8 + wobble as f64, 0.5),
        };
        measured.latency = Some(latency(40_000 + wobble, p99_ns.map(|ns| ns + wobble)));
        run.outcome = measured.into();
    }
    set
}

fn rows(found: &StudyComparison) -> Vec<(Measure, Finding)> {
    found.cells[0].rows.iter().map(|row| (row.measure, row.verdict)).collect()
}

#[test]
fn transactions_are_compared_by_rate_cost_and_latency() {
    let of = |seed, p99_ns| latencies(seed, &requests(), [Some(p99_ns); 5]);
    let found = compared(&of(1, 60_000), &of(2, 90_000));
    assert_eq!(
        rows(&found),
        [
            (Measure::Transactions, Finding::BelowMinimum),
            (Measure::ServiceDemand, Finding::BelowMinimum),
            (Measure::LatencyP50, Finding::BelowMinimum),
            (Measure::LatencyP99, Finding::Worse),
        ]
    );
    // one cell is all cells
    assert_eq!(found.overall, []);
}

#[test]
fn requests_beside_a_stream_are_compared_by_latency() {
    let part =
        |name: &str, workload: Workload| MixPart { name: name.to_owned(), share: 1, workload };
    let mix = vec![part("bulk", Workload::default()), part("requests", requests())];
    let loaded = Workload { mix, ..Workload::default() };
    let of = |seed, p99_ns| latencies(seed, &loaded, [Some(p99_ns); 5]);
    let found = compared(&of(1, 60_000), &of(2, 360_000));
    assert_eq!(
        rows(&found),
        [
            (Measure::Throughput, Finding::BelowMinimum),
            (Measure::ServiceDemand, Finding::BelowMinimum),
            (Measure::LatencyP50, Finding::BelowMinimum),
            (Measure::LatencyP99, Finding::Worse),
        ]
    );
}

#[test]
fn latency_of_one_set_each_is_judged_where_the_scatter_of_sessions_is_known() {
    let of = |seed, p99_ns| latencies(seed, &requests(), [Some(p99_ns); 5]);
    let (before, after) = (of(1, 60_000), of(2, 90_000));
    let found = compare(&[&before], &[&after], &Criteria::default()).unwrap();
    let last = &rows(&found)[2..];
    assert_eq!(
        last,
        [Measure::LatencyP50, Measure::LatencyP99].map(|one| (one, Finding::UnknownScatter))
    );
    assert_eq!((found.regressions, found.unjudged()), (0, 2));
    let ratio = found.cells[0].rows[3].ratio.unwrap();
    assert!(ratio.mean > 1.4 && ratio.low.is_none(), "an interval without sessions: {ratio:?}");
    // three of each side show it
    let sets: Vec<StoredStudy> =
        (0..6).map(|set| of(10 + set, if set < 3 { 60_000 } else { 90_000 + 100 * set })).collect();
    let sets: Vec<&StoredStudy> = sets.iter().collect();
    let found = compare(&sets[..3], &sets[3..], &Criteria::default()).unwrap();
    assert_eq!(rows(&found)[3], (Measure::LatencyP99, Finding::Worse));
}

#[test]
fn a_percentile_for_which_runs_have_too_few_transactions_is_not_lost() {
    let all = [Some(60_000); 5];
    let of = |seed, p99_ns| latencies(seed, &requests(), p99_ns);
    // one run of five decides: the others would be the fast ones
    let one = [Some(60_000), Some(60_000), None, Some(60_000), Some(60_000)];
    for (before, after) in [(all, [None; 5]), (all, one), ([None; 5], all), (one, all)] {
        let found = compared(&of(1, before), &of(2, after));
        assert_eq!(rows(&found)[3], (Measure::LatencyP99, Finding::TooFewTransactions));
        assert_eq!((found.regressions, found.unjudged()), (0, 1));
    }
    // a cell of which every run failed has lost it
    let mut failing = of(2, all);
    for run in &mut failing.runs {
        run.outcome = failed("no route to host").into();
    }
    let found = compared(&of(1, all), &failing);
    assert_eq!((rows(&found)[3].1, found.regressions), (Finding::Lost, 4));
}
