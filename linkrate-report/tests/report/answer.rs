//! What the answer of a study says, and what it does not say.

use linkrate_report::answer::{checks, is_disturbed, sentences};
use linkrate_report::markdown;
use linkrate_report::terminal::{Style, answer, has_answer, table};
use linkrate_study::analysis::analyse;
use linkrate_study::executor::{RunFailure, Stage};
use linkrate_study::levels::Level;
use linkrate_study::quantity::{Interval, Measure};
use linkrate_study::results::{Effect, Fact, FailedRun, StudyResults};
use linkrate_study::store::Outcome;

use crate::{fixture, simulated};

/// The quick form of `tso`, of which the adapter limited every cell.
fn of_the_adapter() -> StudyResults {
    let mut results = simulated::quick("tso");
    results.effects.iter_mut().for_each(|effect| effect.host_limited = Some(false));
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
fn a_study_of_which_no_run_counts_says_why_and_has_no_tables() {
    let mut stored = simulated::runs_of("tso");
    for run in &mut stored.runs {
        run.outcome = Outcome::Failed(RunFailure {
            stage: Stage::Measure,
            reason: "other programs used 48.1 % of the CPUs".to_owned(),
            fatal: false,
            disturbed: true,
        });
    }
    let results = analyse(&stored);
    assert!(has_answer(&results));
    let text = answer(&results, None, None, Style { color: false });
    let busy = "This machine was busy: 135 of 135 runs do not count; other programs used 48.1 % of the CPUs.";
    assert!(text.contains(busy) && !text.contains("Nothing is significant"), "{text}");
    assert!(text.lines().count() < 10 && !text.contains("no run succeeded"), "{text}");
}

#[test]
fn runs_that_fall_with_their_blocks_do_not_count_either() {
    let mut stored = simulated::runs_of("tso");
    let all = stored.runs.len();
    stored.runs[0].outcome = Outcome::Failed(RunFailure {
        stage: Stage::Measure,
        reason: "other programs used 48.1 % of the CPUs".to_owned(),
        fatal: false,
        disturbed: true,
    });
    let results = analyse(&stored);
    let of_block = all / 5;
    let expected = format!("This machine was busy: {of_block} of {all} runs do not count; other");
    assert!(sentences(&results)[0].starts_with(&expected), "{:?}", sentences(&results));
    let warning = format!(
        "1 of {all} runs has failed, and {} more were left out with their blocks: they are not in the results.",
        of_block - 1
    );
    assert!(results.warnings.contains(&warning), "{:?}", results.warnings);
    let details = table(&results, None, Style { color: false });
    assert!(details.contains(&format!("{} good runs of blocks", of_block - 1)), "{details}");
}

#[test]
fn a_rate_that_follows_from_the_cost_is_told_with_it_and_only_then() {
    let mut results = of_the_adapter();
    let told =
        |results: &StudyResults| sentences(results)[0].contains("and with it raises throughput by");
    assert!(!told(&results));
    set(&mut results, Measure::Throughput, |effect| {
        (effect.same_as, effect.ratio) = (Some(Fact::ServiceDemand), ratio(1.5));
    });
    assert!(told(&results), "{:?}", sentences(&results));
    set(&mut results, Measure::ServiceDemand, |effect| effect.significant = false);
    assert!(!told(&results), "{:?}", sentences(&results));
}

#[test]
fn a_rate_that_is_shown_in_one_case_and_follows_in_another_is_told_once() {
    let mut results = of_the_adapter();
    set(&mut results, Measure::ServiceDemand, |effect| effect.significant = true);
    let mut elsewhere = results.effects.clone();
    for effect in &mut elsewhere {
        effect.at.0.push(("connections".to_owned(), Level::Number(9)));
    }
    set(&mut results, Measure::Throughput, |effect| {
        (effect.significant, effect.equivalent, effect.ratio) = (true, false, ratio(1.9));
    });
    results.effects.extend(elsewhere.into_iter().map(|mut effect| {
        if effect.measure == Measure::Throughput {
            (effect.same_as, effect.ratio) = (Some(Fact::ServiceDemand), ratio(1.4));
        }
        effect
    }));
    let first = &sentences(&results)[0];
    assert!(first.contains("raises throughput by 40 to 90 %"), "{first}");
    assert!(!first.contains("with it"), "{first}");
}

#[test]
fn what_is_open_is_not_called_without_an_effect() {
    let mut results = of_the_adapter();
    set(&mut results, Measure::Throughput, |effect| {
        (effect.significant, effect.different, effect.equivalent) = (false, false, false);
        effect.ratio = Interval { mean: 0.99, low: Some(0.48), high: Some(1.25) };
    });
    let first = &sentences(&results)[0];
    assert!(
        first.contains("has an inconclusive effect on throughput (−52.0 to +25.0 %)"),
        "{first}"
    );
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
    set(&mut results, Measure::Throughput, |effect| {
        (effect.significant, effect.equivalent, effect.ratio) = (true, false, ratio(0.9));
    });
    let first = &sentences(&results)[0];
    assert!(!first.contains("of transmit"), "as the sum: {first}");
    assert!(first.contains("of receive"), "against the sum: {first}");
}

#[test]
fn what_this_host_limits_is_told_apart() {
    let mut results = of_the_adapter();
    let mut of_host: Vec<Effect> =
        results.effects.iter().filter(|e| e.measure == Measure::ServiceDemand).cloned().collect();
    for effect in &mut of_host {
        (effect.host_limited, effect.ratio) = (Some(true), ratio(0.9));
        effect.at = effect.at.with("direction", &Level::Text("receive".to_owned()));
    }
    results.effects.extend(of_host);
    let first = &sentences(&results)[0];
    assert!(first.contains("60 % (limited by this host: 10 %)"), "{first}");
}

#[test]
fn each_clause_says_whether_this_host_limits_it() {
    let mut results = of_the_adapter();
    set(&mut results, Measure::Throughput, |effect| {
        (effect.significant, effect.host_limited, effect.ratio) = (true, Some(true), ratio(1.05));
    });
    let first = |results: &StudyResults| sentences(results).remove(0);
    let text = first(&results);
    assert!(
        text.ends_with("raises throughput by 5.0 % (4.0 to 6.0 %; limited by this host)."),
        "{text}"
    );
    // the same fact as the service demand
    set(&mut results, Measure::Throughput, |effect| {
        (effect.significant, effect.same_as) = (false, Some(Fact::ServiceDemand));
    });
    let text = first(&results);
    assert!(text.ends_with("with it raises throughput by 5 % (limited by this host)."), "{text}");
    // either way, in one case each
    let mut other: Vec<Effect> =
        results.effects.iter().filter(|e| e.measure == Measure::ServiceDemand).cloned().collect();
    for effect in &mut other {
        (effect.host_limited, effect.ratio) = (Some(true), ratio(1.2));
        effect.at = effect.at.with("direction", &Level::Text("receive".to_owned()));
    }
    results.effects.extend(other);
    let text = first(&results);
    let either = "reduces service demand in 1 and raises it in 1 of 2 cases (1 of these limited by this host)";
    assert!(text.contains(either), "{text}");
    results.effects.iter_mut().for_each(|effect| effect.host_limited = Some(true));
    assert!(first(&results).ends_with(", on this host."), "{}", first(&results));
}

#[test]
fn what_does_not_change_says_how_much_of_it_this_host_limits() {
    let mut results = of_the_adapter();
    set(&mut results, Measure::Throughput, |effect| {
        (effect.significant, effect.equivalent, effect.same_as) = (false, true, None);
        effect.ratio = ratio(1.0);
    });
    let mut of_host: Vec<Effect> =
        results.effects.iter().filter(|e| e.measure == Measure::Throughput).cloned().collect();
    for effect in &mut of_host {
        effect.host_limited = Some(true);
        effect.at = effect.at.with("direction", &Level::Text("receive".to_owned()));
    }
    results.effects.extend(of_host);
    let first = &sentences(&results)[0];
    let expected = "does not change throughput (1 of these limited by this host)";
    assert!(first.contains(expected), "{first}");
}

/// A direction that falls by more than matters has a row, also where that is not shown.
#[test]
fn a_direction_that_may_lose_has_a_row() {
    let mut results = of_the_adapter();
    let sum = results.effects.iter().find(|one| one.measure == Measure::Throughput).unwrap();
    let lost = |mean, equivalent| {
        let (measure, ratio) = (Measure::Receive, ratio(mean));
        Effect { measure, ratio, equivalent, significant: false, ..sum.clone() }
    };
    let all = [lost(0.77, false), lost(0.77, true), lost(0.99, false), lost(1.2, false)];
    results.effects.retain(|one| one.measure != Measure::Throughput);
    let says = all.iter().map(|effect| results.says_more(effect)).collect::<Vec<_>>();
    assert_eq!(says, [true, false, false, false]);
}

#[test]
fn cases_are_all_of_which_the_tables_have_an_effect() {
    let mut results = of_the_adapter();
    let at = |effect: &Effect, way: &str| Effect {
        at: effect.at.with("direction", &Level::Text(way.to_owned())),
        ..effect.clone()
    };
    let more = results.effects.iter().flat_map(|effect| {
        let few =
            Effect { pairs: 4, significant: false, equivalent: false, ..at(effect, "receive") };
        let same = Effect {
            same_as: (effect.measure == Measure::Throughput).then_some(Fact::ServiceDemand),
            equivalent: false,
            ratio: ratio(1.3),
            ..at(effect, "bidirectional")
        };
        [few, same]
    });
    let more: Vec<Effect> = more.collect();
    results.effects.extend(more);
    let first = sentences(&results).remove(0);
    assert_eq!(
        first,
        "TSO reduces service demand in 1 and raises it in 1 of 3 cases, does not change throughput in 1 of 3 cases and with \
         it raises throughput by 30 % in 1 of 3 cases."
    );
}

#[test]
fn percentiles_are_of_runs_and_counted_among_all_cases() {
    let mut results = simulated::study("request-response");
    let transactions: Vec<Effect> =
        results.effects.iter().filter(|e| e.measure == Measure::Transactions).cloned().collect();
    let said = |results: &StudyResults| sentences(results).remove(0);
    assert!(!said(&results).contains("latency"), "{}", said(&results));
    results.effects.retain(|effect| effect.measure != Measure::LatencyP99);
    for (index, effect) in transactions.iter().enumerate() {
        let (measure, significant) = (Measure::LatencyP99, index == 0);
        results.effects.push(Effect {
            measure,
            significant,
            ratio: ratio(18.46),
            ..effect.clone()
        });
    }
    set(&mut results, Measure::LatencyP50, |effect| {
        (effect.significant, effect.ratio) = (true, ratio(9.0));
    });
    let text = said(&results);
    let expected = "raise median latency of a run by 800 % and raise p99 latency of a run by 1746 % \
                    (1728 to 1764 %) in 1 of 3 cases, perhaps in 2 more.";
    assert!(text.ends_with(expected), "{text}");
    let table = answer(&results, None, Some(100), Style { color: false });
    assert!(table.contains("closed loop"), "{table}");
}

#[test]
fn a_rate_of_a_full_cpu_is_judged_as_its_cost() {
    let mut results = simulated::study("message-size");
    set(&mut results, Measure::Throughput, |effect| {
        effect.significant = false;
        (effect.same_as, effect.ratio) = (Some(Fact::ServiceDemand), ratio(1.14));
    });
    let text = |results: &StudyResults| answer(results, None, Some(100), Style { color: false });
    assert!(text(&results).contains("+14 % (+13 to +15)"), "{}", text(&results));
    let wide = Interval { mean: 0.9, low: Some(0.7), high: Some(1.1) };
    set(&mut results, Measure::ServiceDemand, |effect| {
        (effect.significant, effect.ratio) = (false, wide);
    });
    let open = text(&results);
    assert!(open.contains("inconclusive (+13 to +15)") && !open.contains("+14 %"), "{open}");
    set(&mut results, Measure::ServiceDemand, |effect| effect.ratio.high = Some(0.99));
    assert!(text(&results).contains("not significant (−30 to −1)"), "{}", text(&results));
    set(&mut results, Measure::ServiceDemand, |effect| effect.pairs = 4);
    assert!(text(&results).contains("too few runs (+13 to +15)"), "{}", text(&results));
}

#[test]
fn the_maximum_is_that_of_each_level_that_changes_it() {
    let text = answer(&simulated::study("ten-gigabit"), None, Some(100), Style { color: false });
    let row = text.lines().find(|line| line.contains("  transmit ")).expect("a row");
    assert!(row.ends_with("  9.41/9.90"), "{text}");
}

#[test]
fn precision_is_that_of_the_stop_rule() {
    let mut results = of_the_adapter();
    let precision = |results: &StudyResults| {
        let check = checks::all(results).into_iter().find(|check| check.name == "Precision");
        check.expect("a check").text
    };
    set(&mut results, Measure::Throughput, |effect| {
        effect.ratio = Interval { mean: 1.0, low: Some(0.991), high: Some(1.04) };
    });
    assert_eq!(precision(&results), "±2.5 % reached", "the longer side alone is wider");
    set(&mut results, Measure::Throughput, |effect| effect.ratio.high = Some(1.0411));
    assert!(precision(&results).starts_with("worst ±2.6 % ("), "{}", precision(&results));
}

#[test]
fn power_is_that_of_the_effect_that_takes_the_largest_change() {
    let mut results = of_the_adapter();
    let power = |results: &StudyResults| checks::power(results).map(|check| check.text);
    let judged = results.clone();
    results.effects.iter_mut().for_each(|effect| effect.detectable = None);
    assert_eq!(power(&results), None, "nothing is judged");
    results = judged;
    set(&mut results, Measure::ServiceDemand, |effect| {
        let is_tso = effect.to == Level::Text("tso".to_owned());
        effect.detectable = Some(if is_tso { 0.0561 } else { 0.011 });
    });
    set(&mut results, Measure::Throughput, |effect| effect.detectable = Some(0.0031));
    let text = "9 of 10 such sessions find a change of 5.7 % (service demand), 0.4 % (throughput)";
    assert_eq!(power(&results).as_deref(), Some(text));
    // with a precision to reach, it is in the report alone
    let shown = |results: &StudyResults| {
        checks::all(results).into_iter().filter(|check| check.name == "Power").collect::<Vec<_>>()
    };
    assert!(shown(&results).is_empty());
    let method = &mut results.plan.as_mut().expect("a plan").study.method;
    method.find = Some(0.05);
    let shown = shown(&results);
    assert!(shown[0].is_bad && shown[0].text.ends_with("; goal 5 %"), "{shown:?}");
}

#[test]
fn what_this_host_limits_is_not_in_the_range_without_the_driver() {
    let mut results = of_the_adapter();
    let hardware = |results: &StudyResults| {
        let check = checks::all(results).into_iter().find(|check| check.name == "Hardware");
        check.expect("a check").text
    };
    results.cells.iter_mut().for_each(|cell| {
        cell.service_demand_parts = cell.service_demand.map(fixture::parts_of);
    });
    set(&mut results, Measure::ServiceDemand, |effect| {
        let is_tso = effect.to == Level::Text("tso".to_owned());
        effect.without_driver = Some(ratio(if is_tso { 0.5 } else { 0.9 }));
    });
    let mut of_host: Vec<Effect> =
        results.effects.iter().filter(|e| e.measure == Measure::ServiceDemand).cloned().collect();
    of_host.retain(|effect| effect.to == Level::Text("tso".to_owned()));
    for effect in &mut of_host {
        (effect.host_limited, effect.without_driver) = (Some(true), Some(ratio(0.2)));
        effect.at = effect.at.with("direction", &Level::Text("receive".to_owned()));
    }
    results.effects.extend(of_host);
    let text = hardware(&results);
    assert!(text.ends_with("; without it TSO: −50 % (−50 to −50)"), "{text}");
    results.effects.iter_mut().for_each(|effect| effect.host_limited = Some(true));
    let text = hardware(&results);
    assert!(text.ends_with("; without it, on this host, TSO: −80 % to −50 %"), "{text}");
}

/// The quick form of `tso` with the levels of TOE in place of those of the offload.
fn of_engine() -> StudyResults {
    let mut results = of_the_adapter();
    let level = |level: &Level| {
        let toe = match level.to_string().as_str() {
            "none" => "off",
            "tso" => "on",
            _ => "auto",
        };
        Level::Text(toe.to_owned())
    };
    for cell in &mut results.cells {
        for (name, of) in cell.levels.0.iter_mut().filter(|(name, _)| name == "offload") {
            (*name, *of) = ("toe".to_owned(), level(of));
        }
    }
    for effect in &mut results.effects {
        effect.factor = "toe".to_owned();
        (effect.from, effect.to) = (level(&effect.from), level(&effect.to));
    }
    results
}

#[test]
fn an_engine_saves_by_both_signs_or_there_is_no_advice() {
    let mut results = of_engine();
    set(&mut results, Measure::ServiceDemand, |effect| effect.without_driver = Some(ratio(0.8)));
    let page = |results: &StudyResults| markdown::document(results).unwrap().text;
    let text = page(&results);
    assert!(text.contains("%; without the emulated driver −20 %)"), "{text}");
    assert!(text.contains("**Run with TCP on the adapter.**"), "{text}");
    set(&mut results, Measure::ServiceDemand, |effect| effect.without_driver = Some(ratio(1.001)));
    let text = page(&results);
    assert!(text.contains("**No advice on TCP on the adapter.**"), "{text}");
    assert!(text.contains("Without the emulated driver 1 of 1 gains is not shown."), "{text}");
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

/// What runs in the driver's writes is no driver, and nothing is said of a cost without it.
#[test]
fn a_driver_with_receive_processing_is_named_so() {
    let mut results = fixture::adapter();
    let hardware = |results: &StudyResults| {
        let found = checks::all(results).into_iter().find(|check| check.name == "Hardware");
        found.expect("a check").text
    };
    assert_eq!(hardware(&results), "emulated driver: 50 % of CPU time");
    results.cells[0].service_demand_parts.as_mut().unwrap().receives_in_driver = true;
    assert_eq!(hardware(&results), "emulated driver with receive processing: 50 % of CPU time");
}

#[test]
fn figures_of_two_groups_are_a_check_and_have_no_interval() {
    let mut results = of_the_adapter();
    assert!(checks::all(&results).iter().all(|check| check.name != "Groups"));
    results.cells[2].two_groups = vec![Measure::ServiceDemand];
    let groups = checks::all(&results).into_iter().find(|check| check.name == "Groups");
    let groups = groups.expect("a check");
    assert!(groups.is_bad);
    assert_eq!(
        groups.text,
        "1 result has two groups of runs; its mean describes neither (--details warnings)"
    );
    let plain = Style { color: false };
    let page = markdown::document(&results).unwrap().text;
    for text in [answer(&results, None, Some(100), plain), table(&results, None, plain), page] {
        assert_eq!(text.matches("(two groups)").count(), 1, "{text}");
    }
}

#[test]
fn published_changes_of_this_host_agree_with_nothing() {
    let published = |results: &StudyResults| {
        let checks = checks::all(results).into_iter();
        checks.filter(|check| check.name == checks::PUBLISHED).map(|check| check.text).next()
    };
    let mut results = simulated::study("tso");
    // their means are not counted beside them
    assert_eq!(published(&results).unwrap(), "12 changes not judged: host-limited");
    let engine = results.published.iter_mut().filter(|one| one.measure == Measure::ServiceDemand);
    engine.for_each(|one| one.factor = Some("toe".to_owned()));
    results.cells.iter_mut().for_each(|cell| cell.runs = 3);
    assert_eq!(
        published(&results).unwrap(),
        "12 changes not judged: 6 with the driver on one side, 6 host-limited, 12 of fewer than 5 blocks"
    );
}
