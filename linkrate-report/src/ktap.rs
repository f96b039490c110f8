//! The results of a study as the Kernel Test Anything Protocol has them, version 1.
//!
//! A case is a cell, an effect, a published change, or a figure of the A/A test. A cell passes that has runs and none
//! that failed for a reason of its own. An effect passes that is shown, or shown to be none; it has no expected sign,
//! so it never fails. A published change passes that has its sign here, and fails that has the other one. A figure of
//! the A/A test fails that differs by more than the smallest effect that counts. What the runs do not decide is
//! skipped with the reason.
//!
//! The protocol has no mark of a result. A line before it says where something other than the adapter limited a cell, so
//! that the figures are those of this machine.

use std::fmt::Write as _;

use linkrate_stats::interval::MIN_TO_CLAIM;
use linkrate_study::levels::Levels;
use linkrate_study::quantity::{Interval, Quantity};
use linkrate_study::results::{
    Aa, AaRatio, CellResult, Effect, FailedRun, PublishedResult, StudyResults,
};

use crate::answer::checks;
use crate::answer::testbed::Testbed;
use crate::layout::clean;
use crate::words::marks;
use crate::{number, words};

/// Results as KTAP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ktap {
    /// All lines.
    pub text: String,
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

/// A test of which nothing was run, with lines about its environment.
pub fn skipped(reason: &str, environment: &[String]) -> String {
    let about: String = environment.iter().map(|line| format!("# {}\n", clean(line))).collect();
    format!("{VERSION}{about}1..0 # SKIP {}\n", clean(reason))
}

const VERSION: &str = "KTAP version 1\n";

/// What became of a case, with what is known of it.
enum Outcome {
    Passed(String),
    Failed(String),
    Skipped(String),
}

/// A test with what became of it, and whether its figures are of this machine.
struct Case {
    name: String,
    outcome: Outcome,
    is_of_host: bool,
}

impl Case {
    fn of((name, outcome): (String, Outcome), is_of_host: bool) -> Self {
        Self { name, outcome, is_of_host }
    }
}

/// The results, with lines about the environment of the test.
pub fn document(results: &StudyResults, environment: &[String]) -> Ktap {
    let of_cell =
        |one: &CellResult| Case::of(cell(results, one), !marks::of_cell(results, one).is_empty());
    let of_effect =
        |one: &Effect| Case::of(effect(results, one), !marks::of_effect(one).is_empty());
    // it says so by itself
    let of_published = |one: &PublishedResult| Case::of(published(results, one), false);
    // it asks for the method, not for the adapter
    let of_aa = |aa: &Aa| {
        let all = aa.ratios.iter().map(|one| Case::of(self::aa(results, aa, one), false));
        all.collect::<Vec<_>>()
    };
    let mut cases: Vec<Case> = results.cells.iter().map(of_cell).collect();
    cases.extend(results.effects.iter().map(of_effect));
    cases.extend(checks::changes(results).into_iter().map(of_published));
    cases.extend(results.aa.iter().flat_map(of_aa));
    let mut text = format!("{VERSION}1..{}\n", cases.len());
    let about = format!(
        "linkrate {}, study {}: {}",
        results.linkrate_version, results.study, results.title
    );
    let testbed = Testbed::of(results).line();
    let warnings =
        words::warnings(results).into_iter().map(|warning| format!("warning: {warning}"));
    let said = [about, testbed].into_iter().chain(environment.iter().cloned()).chain(warnings);
    // writing to a String does not fail
    said.for_each(|line| _ = writeln!(text, "# {}", clean(&line)));
    let mut counts = [0; 3];
    for (number, Case { name, outcome, is_of_host }) in (1..).zip(cases) {
        let (at, result, known) = match outcome {
            Outcome::Passed(known) => (0, "ok", known),
            Outcome::Failed(known) => (1, "not ok", known),
            Outcome::Skipped(reason) => (2, "ok", format!("SKIP {reason}")),
        };
        counts[at] += 1;
        // a name ends at the hash
        let name = clean(&name).replace('#', "_");
        if is_of_host {
            _ = writeln!(text, "# {}: {}", name.trim_end(), marks::OF_THE_HOST);
        }
        _ = writeln!(text, "{result} {number} {} # {}", name.trim_end(), clean(&known));
    }
    let [passed, failed, skipped] = counts;
    // as kselftest ends
    _ = writeln!(
        text,
        "# Totals: pass:{passed} fail:{failed} xfail:0 xpass:0 skip:{skipped} error:0"
    );
    Ktap { text, passed, failed, skipped }
}

fn cell(results: &StudyResults, cell: &CellResult) -> (String, Outcome) {
    let name = format!("cell {}", words::assignments(&cell.levels));
    let of_cell = |levels: &Levels| *levels == cell.levels;
    let failures = results.failures.iter().filter(|one| !one.idle && of_cell(&one.levels));
    let (by_others, own): (Vec<_>, Vec<_>) = failures.partition(|one| one.disturbed);
    let said = |failed: &[&FailedRun]| {
        let runs = words::count(failed.len(), "run");
        failed.first().map(|first| format!("{runs} failed: {}", words::reason(first)))
    };
    let outcome = match (said(&own), said(&by_others)) {
        (Some(own), _) => Outcome::Failed(own),
        (None, Some(reason)) if cell.runs < MIN_TO_CLAIM => Outcome::Skipped(reason),
        (None, _) if cell.runs == 0 => Outcome::Skipped(results.stopped.clone()),
        (None, _) => Outcome::Passed(figures(cell)),
    };
    (name, outcome)
}

/// The figures of a cell and what limited it.
fn figures(cell: &CellResult) -> String {
    let with_unit = |what: &str, quantity: Option<Quantity>| {
        quantity.map(|quantity| format!("{what}{}", number::with_margin(&quantity)))
    };
    let known = [
        with_unit("", cell.rate()),
        with_unit("service demand ", cell.service_demand),
        Some(format!("limited by {}", cell.verdict.limited_by())),
    ];
    known.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn change(ratio: &Interval) -> String {
    let change = number::change(ratio);
    let ends = change.ends.map_or_else(String::new, |ends| format!(" ({ends})"));
    format!("{}{ends}", change.mean)
}

fn effect(results: &StudyResults, effect: &Effect) -> (String, Outcome) {
    let step = format!(
        "effect on {}: {}={}:{}",
        effect.measure.word(),
        effect.factor,
        words::plain(&effect.from),
        words::plain(&effect.to)
    );
    let name = format!("{step} {}", words::assignments(&effect.at));
    let found = change(&effect.ratio);
    let not_claimed = words::not_claimed(effect, results.minimum_effect);
    let is_shown = effect.significant || effect.different || effect.equivalent;
    let outcome = match not_claimed {
        Some(reason) if is_shown => Outcome::Passed(format!("{found}: {reason}")),
        Some(reason) => Outcome::Skipped(format!("{found}: {reason}")),
        None => Outcome::Passed(found),
    };
    (name, outcome)
}

fn published(results: &StudyResults, one: &PublishedResult) -> (String, Outcome) {
    let step = match (&one.factor, &one.from, &one.to) {
        (Some(factor), Some(from), Some(to)) => {
            format!(" {factor}={}:{}", words::plain(from), words::plain(to))
        }
        _ => String::new(),
    };
    let at = words::assignments(&one.at);
    let name = format!("published change of {}:{step} {at}", one.measure.word());
    let [published, measured, ends] = words::beside(one);
    let found = format!("{published} published, {measured} here ({ends})");
    let doubts = checks::doubts(results, one);
    let outcome = match checks::agreement(one) {
        _ if !doubts.is_empty() => {
            Outcome::Skipped(format!("{found}: not judged: {}", doubts.join(", ")))
        }
        None => Outcome::Skipped(format!("{found}: inconclusive")),
        Some((true, _)) => Outcome::Passed(found),
        Some((false, _)) => Outcome::Failed(format!("{found}: the opposite sign")),
    };
    (name, outcome)
}

fn aa(results: &StudyResults, aa: &Aa, one: &AaRatio) -> (String, Outcome) {
    let of = words::assignments(&aa.levels);
    let name = format!("A/A test of {}: {of}", one.measure.word());
    let found = change(&one.ratio);
    let minimum = results.minimum_effect;
    let outcome = match one.ratio.low.zip(one.ratio.high) {
        _ if one.blocks < MIN_TO_CLAIM => {
            Outcome::Skipped(format!("{found}: {}", words::too_few()))
        }
        None => Outcome::Skipped(format!("{found}: too few runs for an interval")),
        Some(_) if one.is_beyond(minimum) => {
            Outcome::Failed(format!("{found}: more than {}", number::percent(minimum)))
        }
        Some(_) => Outcome::Passed(found),
    };
    (name, outcome)
}
