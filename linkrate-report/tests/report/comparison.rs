//! What a comparison says in one sentence.

use linkrate_report::comparison::{result, unjudged};
use linkrate_study::comparison::{Criteria, Finding, StudyComparison, compare};

use crate::trend::sets;

/// Two nights that do not differ.
fn alike() -> StudyComparison {
    let sets = sets();
    compare(&[&sets[0]], &[&sets[1]], &Criteria::default()).unwrap()
}

fn all_rows(found: &mut StudyComparison, verdict: Finding) {
    let of_cells = found.cells.iter_mut().flat_map(|cell| &mut cell.rows);
    found.overall.iter_mut().chain(of_cells).for_each(|row| row.verdict = verdict);
}

#[test]
fn a_difference_that_may_be_small_is_in_the_result() {
    let mut found = alike();
    assert!(!result(&found).contains("may be small"), "{}", result(&found));
    found.cells[0].rows[0].verdict = Finding::Different;
    assert!(result(&found).contains("; 1 significant, may be small"), "{}", result(&found));
}

#[test]
fn what_was_not_measured_does_not_lack_blocks() {
    let mut found = alike();
    all_rows(&mut found, Finding::NotMeasured);
    let reason = "the candidate was not measured";
    assert_eq!(result(&found), format!("no row is judged: {reason}"));
    assert_eq!(unjudged(&found), [(Finding::NotMeasured, reason.to_owned())]);
    found.cells[0].rows[0].verdict = Finding::TooFew;
    assert_eq!(result(&found), format!("no row is judged: fewer than 5 blocks; {reason}"));
}
