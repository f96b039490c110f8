//! Queue disciplines that were not the same in all runs of a cell: somebody set one between two runs.
//!
//! What changes within a run is a refusal. A run that began with another discipline has figures, and the
//! cell mixes both.

use std::collections::{BTreeMap, BTreeSet};

use linkrate_model::discipline::Discipline;

use crate::analysis::disciplines::{of_clients, of_sut};
use crate::store::StoredRun;

/// The disciplines of an interface in a run, in words. Handles are not in there: a testbed that is built again
/// has others.
type Words = BTreeSet<String>;

/// A sentence for each interface whose disciplines differ between the runs of any cell.
pub fn warnings<'a>(cells: impl Iterator<Item = &'a [&'a StoredRun]>) -> Vec<String> {
    let mut runs_with: BTreeMap<String, BTreeMap<Words, usize>> = BTreeMap::new();
    let mut differ = BTreeSet::new();
    for runs in cells {
        let mut of_cell: BTreeMap<String, BTreeSet<Words>> = BTreeMap::new();
        for (interface, words) in runs.iter().flat_map(|run| of_run(run)) {
            *runs_with.entry(interface.clone()).or_default().entry(words.clone()).or_default() += 1;
            of_cell.entry(interface).or_default().insert(words);
        }
        let several = of_cell.into_iter().filter(|(_, kinds)| kinds.len() > 1);
        differ.extend(several.map(|(interface, _)| interface));
    }
    let reported = differ.into_iter().filter_map(|interface| {
        let kinds = runs_with.remove(&interface)?;
        let kinds = kinds.into_iter().map(|(words, runs)| {
            let words: Vec<String> = words.into_iter().collect();
            format!("{} in {}", words.join(" and "), super::count(runs, "run"))
        });
        let kinds: Vec<String> = kinds.collect();
        Some(format!(
            "The queue disciplines of {interface} were not the same in all runs of a cell: {}. Results of \
             such a cell mix both settings.",
            kinds.join("; ")
        ))
    });
    reported.collect()
}

fn of_run(run: &StoredRun) -> BTreeMap<String, Words> {
    let mut of_interface: BTreeMap<String, Words> = BTreeMap::new();
    let measured = run.measurement().into_iter();
    for one in measured.flat_map(|run| of_sut(run).iter().chain(of_clients(run))) {
        of_interface.entry(one.interface.clone()).or_default().insert(words(one));
    }
    of_interface
}

/// `tbf at root, 500.0 Mb/s`.
fn words(one: &Discipline) -> String {
    let rate = one.rate.map(|rate| format!(", {rate}")).unwrap_or_default();
    format!("{} at {}{rate}", one.kind, one.parent)
}

#[cfg(test)]
mod tests {
    use linkrate_model::BitRate;

    use super::*;
    use crate::fixture;
    use crate::store::Outcome;

    /// A run with one discipline on `eth0`.
    fn run(kind: &str, handle: &str, rate: Option<f64>) -> StoredRun {
        let mut run = fixture::run(0, 0, Some(0), fixture::stream(1e9, 0.5));
        let Outcome::Measured(measured) = &mut run.outcome else { panic!("figures") };
        measured.evidence.disciplines = vec![Discipline {
            interface: "eth0".to_owned(),
            kind: kind.to_owned(),
            handle: handle.to_owned(),
            parent: "root".to_owned(),
            rate: rate.map(BitRate),
            ..Discipline::default()
        }];
        run
    }

    #[test]
    fn a_discipline_that_was_set_between_two_runs_is_reported() {
        let (before, after) = (run("fq_codel", "0:", None), run("tbf", "8001:", Some(5e8)));
        let reported = |cells: &[&[&StoredRun]]| warnings(cells.iter().copied());
        assert_eq!(
            reported(&[&[&before, &before, &after]]),
            [
                "The queue disciplines of eth0 were not the same in all runs of a cell: fq_codel at root in 2 \
                 runs; tbf at root, 500.0 Mb/s in 1 run. Results of such a cell mix both settings."
            ]
        );
        // a factor may set one
        assert_eq!(reported(&[&[&before, &before], &[&after]]), [""; 0]);
        // another lab, and a run without figures
        let again = run("tbf", "8002:", Some(5e8));
        let mut failed = fixture::run(0, 0, Some(0), fixture::stream(1e9, 0.5));
        failed.outcome = Outcome::Failed(fixture::failed("it did"));
        assert_eq!(reported(&[&[&after, &again, &failed]]), [""; 0]);
        assert_eq!(
            reported(&[&[&after, &run("tbf", "8001:", Some(6e8))]]).len(),
            1,
            "another rate"
        );
    }
}
