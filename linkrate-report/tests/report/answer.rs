//! What the answer of a study says, and what it does not say.

use linkrate_report::answer::{checks, is_disturbed, sentences};
use linkrate_report::terminal::{Style, answer};
use linkrate_study::executor::Stage;
use linkrate_study::quantity::{Interval, Measure};
use linkrate_study::results::{Effect, FailedRun, StudyResults};

use crate::simulated;

/// The quick form of `tso`, of which the adapter limited every cell.
fn of_the_adapter() -> StudyResults {
    let mut results = simulated::quick("tso");
    results.effects.iter_mut().for_each(|effect| effect.host_limited = false);
    results
}

fn set(results: &mut StudyResults, measure: Measure, change: impl Fn(&mut Effect)) {
    results.effects.iter_mut().filter(|effect| effect.measure == measure).for_each(change);
}

fn ratio(mean: f64) -> Interval {
    Interval { mean, low: Some(mean * 0.99), high: Some(mean * 1.01) }
}

#[test]
fn what_kept_the_machine_busy_comes_first() {
    let mut results = of_the_adapter();
    let failure = FailedRun {
        block: 0,
        idle: false,
        levels: results.cells[0].levels.clone(),
        stage: Stage::Measure,
        reason: "other programs used 48.1 % of the CPUs: \"cc1\" (process 5) 45 %".to_owned(),
        disturbed: true,
    };
    results.failures = vec![failure.clone(), failure];
    assert!(!is_disturbed(&results), "the others are enough");
    results.cells[1].runs = 3;
    assert!(is_disturbed(&results));
    let found = sentences(&results);
    let expected = format!(
        "This machine was busy: 2 of {} runs do not count; other programs used 48.1 % of the CPUs: \"cc1\" (process \
         5) 45 %.",
        results.runs.len()
    );
    assert_eq!(found[0], expected);
    assert!(found.len() == 2, "{found:?}");
    results.failures.iter_mut().for_each(|run| run.disturbed = false);
    assert!(!is_disturbed(&results) && !sentences(&results)[0].contains("busy"));
}

#[test]
fn a_rate_that_follows_from_the_cost_is_told_with_it_and_only_then() {
    let mut results = of_the_adapter();
    let told =
        |results: &StudyResults| sentences(results)[0].contains("and with it raises throughput by");
    assert!(!told(&results));
    set(&mut results, Measure::Throughput, |effect| {
        (effect.same_as, effect.ratio) = (Some(Measure::ServiceDemand), ratio(1.5));
    });
    assert!(told(&results), "{:?}", sentences(&results));
    set(&mut results, Measure::ServiceDemand, |effect| effect.significant = false);
    assert!(!told(&results), "{:?}", sentences(&results));
}

#[test]
fn directions_are_told_where_their_sum_hides_them() {
    let mut results = of_the_adapter();
    let throughput: Vec<Effect> =
        results.effects.iter().filter(|e| e.measure == Measure::Throughput).cloned().collect();
    for (measure, mean) in [(Measure::Transmit, 0.9), (Measure::Receive, 1.1)] {
        results.effects.extend(throughput.iter().map(|effect| {
            let significant = true;
            Effect { measure, significant, ratio: ratio(mean), ..effect.clone() }
        }));
    }
    let first = &sentences(&results)[0];
    for way in ["reduces throughput of transmit by 10 %", "raises throughput of receive by 10 %"] {
        assert!(first.contains(way), "{first}");
    }
    set(&mut results, Measure::Throughput, |effect| effect.significant = true);
    assert!(!sentences(&results)[0].contains("of transmit"));
}

#[test]
fn what_this_host_limits_is_told_apart() {
    let mut results = of_the_adapter();
    let mut of_host: Vec<Effect> =
        results.effects.iter().filter(|e| e.measure == Measure::ServiceDemand).cloned().collect();
    for effect in &mut of_host {
        (effect.host_limited, effect.ratio) = (true, ratio(0.9));
        effect.at =
            effect.at.with("direction", &linkrate_study::levels::Level::Text("receive".to_owned()));
    }
    results.effects.extend(of_host);
    let first = &sentences(&results)[0];
    assert!(first.contains("60 % (limited by this host: 10 %)"), "{first}");
}

#[test]
fn a_difference_that_may_be_small_is_not_inconclusive() {
    let mut results = of_the_adapter();
    let text = |results: &StudyResults| answer(results, None, Some(100), Style { color: false });
    assert!(!text(&results).contains("may be small"));
    set(&mut results, Measure::ServiceDemand, |effect| {
        (effect.significant, effect.different, effect.ratio) = (false, true, ratio(0.985));
    });
    let text = text(&results);
    assert!(
        text.contains("−1.5 % (−2.5 to −0.5), may be small") && !text.contains("inconclusive"),
        "{text}"
    );
}

#[test]
fn figures_of_two_groups_are_a_check() {
    let mut results = of_the_adapter();
    assert!(checks::all(&results).iter().all(|check| check.name != "Groups"));
    results.warnings.push("tso: throughput is in two groups, 1 and 2".to_owned());
    let groups = checks::all(&results).into_iter().find(|check| check.name == "Groups");
    let groups = groups.expect("a check");
    assert!(groups.is_bad);
    assert_eq!(
        groups.text,
        "1 result has two groups of runs; its mean describes neither (--details warnings)"
    );
}

#[test]
fn published_changes_of_this_host_agree_with_nothing() {
    let published = |results: &StudyResults| {
        let checks = checks::all(results).into_iter();
        checks.filter(|check| check.name == checks::PUBLISHED).map(|check| check.text).next()
    };
    let text = published(&simulated::study("tso")).expect("a check");
    assert_eq!(text, "14 changes not judged: host-limited");
}
