//! Comparisons of made-up fleets whose truth is known.

use std::time::Duration;

use super::*;
use crate::executor::RunFailure;
use crate::fixture::{failed, ladder, run, stored, stream};
use crate::fleet::rounds::{block_rounds, tests::fleet};
use crate::fleet::{Fleet, Pattern};
use crate::store::{Ended, Outcome, StoredRun};
use crate::study::Study;
use linkrate_stats::simulate::Simulator;

const NODES: u32 = 4;
const BLOCKS: u32 = 8;

/// A study of one cell over a ring of nodes.
fn ring() -> (Study, Fleet) {
    let fleet = fleet(NODES, Pattern::Ring);
    let mut study = ladder();
    study.cells.truncate(1);
    study.factors.clear();
    study.method.idle = Duration::ZERO;
    study.fleet = Some(fleet.clone());
    (study, fleet)
}

/// A ring whose pairs differ by a factor of four, with 1 % of noise; `change` is the factor of each sender.
fn set(seed: u64, change: impl Fn(u32) -> f64) -> StoredStudy {
    let (study, fleet) = ring();
    let mut simulator = Simulator::new(seed);
    let mut runs: Vec<StoredRun> = Vec::new();
    for turn in (0..BLOCKS).flat_map(|block| block_rounds(&fleet, seed, block)).flatten() {
        let own = f64::from(1 << turn.pair.sender.min(2));
        let rate = 1e9 * own * change(turn.pair.sender) * simulator.lognormal(0.01);
        let made = run(runs.len() as u32, turn.number, Some(0), stream(rate, 0.5));
        runs.push(StoredRun { pair: Some(turn.pair), ..made });
    }
    stored(study, runs, seed)
}

fn found(a: &StoredStudy, b: &StoredStudy) -> StudyComparison {
    let criteria = Criteria { session_scatter: Some(0.0), ..Criteria::default() };
    compare(&[a], &[b], &criteria).unwrap()
}

fn verdicts(found: &StudyComparison) -> BTreeMap<&str, Finding> {
    found.pairs.iter().map(|pair| (pair.sender.as_str(), pair.row.verdict)).collect()
}

#[test]
fn a_pair_that_became_slower_is_named_and_no_other() {
    let (before, after) = (set(1, |_| 1.0), set(2, |node| if node == 1 { 0.9 } else { 1.0 }));
    let compared = found(&before, &after);
    assert_eq!(compared.pairs.len(), 4);
    for (sender, verdict) in verdicts(&compared) {
        assert_eq!(verdict == Finding::Worse, sender == "n1", "{sender}: {verdict:?}");
    }
    let slow = &compared.pairs.iter().find(|pair| pair.sender == "n1").unwrap().row;
    assert!((slow.ratio.unwrap().mean - 0.9).abs() < 0.02, "{slow:?}");
    assert_eq!(slow.baseline.unwrap().runs, BLOCKS);
}

/// The pairs differ by a factor of four, and a change of 3 % of all shows nevertheless: each block is one observation.
#[test]
fn a_change_of_all_pairs_shows_in_the_cell() {
    let compared = found(&set(1, |_| 1.0), &set(2, |_| 0.97));
    let row = &compared.cells[0].rows[0];
    assert_eq!((row.verdict, row.baseline.unwrap().runs), (Finding::Worse, BLOCKS));
    let ratio = row.ratio.unwrap();
    assert!(ratio.high.unwrap() - ratio.low.unwrap() < 0.02, "{ratio:?}");
    assert_eq!(compared.baseline.blocks, BLOCKS);
}

#[test]
fn without_a_change_nothing_is_better_or_worse() {
    let several = 40;
    let shown = (0..several).filter(|seed| {
        let compared = found(&set(2 * seed, |_| 1.0), &set(2 * seed + 1, |_| 1.0));
        compared.regressions + compared.improvements > 0
    });
    // an error of 5 % exceeds that once in a thousand times
    assert!(shown.count() <= 7);
}

#[test]
fn a_node_that_is_gone_costs_its_own_pairs() {
    let (before, mut after) = (set(1, |_| 1.0), set(2, |_| 1.0));
    let others =
        |run: &StoredRun| run.pair.is_some_and(|pair| pair.sender != 3 && pair.receiver != 3);
    after.runs.retain(others);
    let compared = found(&before, &after);
    let verdicts = verdicts(&compared);
    assert_eq!((verdicts["n2"], verdicts["n3"]), (Finding::Lost, Finding::Lost));
    assert_eq!(compared.regressions, 2);
    // the cell is compared by the pairs that both have
    let row = &compared.cells[0].rows[0];
    assert!((row.ratio.unwrap().mean - 1.0).abs() < 0.02, "{row:?}");
}

/// A study that was stopped before a pair had its turn, and one in which something else spoiled its turns, have lost nothing.
#[test]
fn a_pair_that_was_not_measured_is_no_regression() {
    let is_of_n3 = |run: &StoredRun| run.pair.is_some_and(|pair| pair.sender == 3);
    let mut stopped = set(2, |_| 1.0);
    stopped.runs.retain(|run| !is_of_n3(run));
    stopped.ended = Some(Ended::Interrupted);
    let spoiled = |disturbed| {
        let mut spoiled = set(2, |_| 1.0);
        for run in spoiled.runs.iter_mut().filter(|run| is_of_n3(run)) {
            let failure = RunFailure { disturbed, ..failed("\"make\" used 40 %") };
            run.outcome = Outcome::Failed(failure);
        }
        spoiled
    };
    for (after, verdict) in [
        (stopped, Finding::NotMeasured),
        (spoiled(true), Finding::NotMeasured),
        (spoiled(false), Finding::Lost),
    ] {
        let compared = found(&set(1, |_| 1.0), &after);
        assert_eq!(verdicts(&compared)["n3"], verdict);
        assert_eq!(compared.regressions, u32::from(verdict == Finding::Lost));
    }
}

#[test]
fn a_pair_that_fails_in_one_cell_is_compared_in_the_other() {
    let two_cells = |seed: u64, fails: bool| {
        let mut set = set(seed, |_| 1.0);
        let cells = ladder().cells;
        set.plan.study.cells = cells[..2].to_vec();
        let more: Vec<StoredRun> =
            set.runs.iter().map(|run| StoredRun { cell: Some(1), ..run.clone() }).collect();
        set.runs.extend(more);
        let lost =
            |run: &StoredRun| run.cell == Some(1) && run.pair.is_some_and(|pair| pair.sender == 0);
        set.runs.retain(|run| !(fails && lost(run)));
        set
    };
    let compared = found(&two_cells(1, false), &two_cells(2, true));
    for cell in &compared.cells {
        assert_eq!(cell.rows[0].candidate.unwrap().runs, BLOCKS, "{cell:?}");
    }
    let lost = compared.pairs.iter().filter(|pair| pair.row.verdict == Finding::Lost);
    assert_eq!(lost.map(|pair| pair.sender.as_str()).collect::<Vec<_>>(), ["n0"]);
}

#[test]
fn another_pattern_is_another_question() {
    let (before, mut after) = (set(1, |_| 1.0), set(2, |_| 1.0));
    after.plan.study.fleet = Some(fleet(NODES, Pattern::Bisection));
    let Err(ComparisonError::Different(found)) =
        compare(&[&before], &[&after], &Criteria::default())
    else {
        panic!("compared");
    };
    assert!(found.iter().any(|one| one.name == "pattern" && one.meaning), "{found:?}");
}
