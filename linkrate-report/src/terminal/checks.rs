//! How far to trust an answer: precision, what carries over to hardware, published figures. One line each.

use linkrate_study::published::Basis;
use linkrate_study::quantity::Interval;
use linkrate_study::results::{CellResult, Effect, PublishedKind, PublishedResult, StudyResults};
use linkrate_terms::CpuSet;
use linkrate_terms::spec::Adapter;
use linkrate_terms::units::format_duration;
use std::time::Duration;

use crate::number;
use crate::words;

/// One line.
pub struct Check {
    /// What is checked.
    pub name: &'static str,
    /// What was found.
    pub text: String,
    /// Whether it needs attention.
    pub is_bad: bool,
}

/// Every check of these results, in the order of their weight.
pub fn all(results: &StudyResults) -> Vec<Check> {
    [incomplete(results), precision(results), hardware(results), published(results)]
        .into_iter()
        .flatten()
        .collect()
}

/// `Emulated adapter gigabit; CPU 0 of 2, Intel Xeon, Linux 6.18; 3 cells × 12 runs in 54 s`.
pub fn testbed(results: &StudyResults) -> String {
    let facts = &results.facts.facts;
    let fact = |name: &str| facts.get(name).filter(|value| !value.is_empty());
    let adapter = results.plan.as_ref().map(|plan| &plan.study.testbed.adapter);
    let name = &results.adapter;
    let mut parts = vec![match adapter {
        Some(Adapter::Interfaces(_)) => format!("Interface {name}"),
        Some(Adapter::Veth) => "veth pair".to_owned(),
        Some(Adapter::Model(_)) => format!("Emulated adapter {name}"),
        Some(Adapter::Unknown) | None => format!("Adapter {name}"),
    }];
    if let Some(scaled) = words::scaled(results) {
        parts.push(scaled);
    }
    let mut host = Vec::new();
    host.extend(fact("sut-cpus").map(|cpus| {
        let all = fact("online-cpus").and_then(|all| all.parse::<CpuSet>().ok());
        let all = all.map_or_else(String::new, |all| format!(" of {}", all.len()));
        format!("SUT {}{all}", words::cpus(cpus))
    }));
    host.extend(
        fact("cpu-model")
            .map(|model| model.replace("(R)", "").replace("(TM)", "").replace(" Processor", "")),
    );
    host.extend(fact("kernel").map(|kernel| {
        let version: Vec<&str> = kernel.trim_start_matches("Linux ").splitn(3, '.').collect();
        format!("Linux {}", version.iter().take(2).copied().collect::<Vec<_>>().join("."))
    }));
    if !host.is_empty() {
        parts.push(host.join(", "));
    }
    let cells = words::count(results.cells.len(), "cell");
    let runs = results.cells.iter().map(|cell| cell.runs);
    let each = match (runs.clone().min(), runs.max()) {
        (Some(low), Some(high)) if low == high => {
            format!(" × {}", words::count(low as usize, "run"))
        }
        (Some(low), Some(high)) => format!(" × {low} to {high} runs"),
        _ => String::new(),
    };
    let took =
        duration(results).map_or_else(String::new, |took| format!(" in {}", format_duration(took)));
    parts.push(format!("{cells}{each}{took}"));
    parts.join("; ")
}

/// From the first run to the end of the last, in whole seconds.
fn duration(results: &StudyResults) -> Option<Duration> {
    let began = |run: &linkrate_study::store::StoredRun| run.started_unix_ms;
    let (first, last) = (results.runs.first()?, results.runs.last()?);
    let last_run = last.spec.duration + last.spec.warm_up;
    let whole = Duration::from_millis(began(last).saturating_sub(began(first))) + last_run;
    Some(Duration::from_secs(whole.as_secs().max(1)))
}

/// An interval with what it is of.
struct Width {
    half: f64,
    of: String,
}

/// The widest interval that the stop rule looks at, as a fraction of its mean.
fn widest(results: &StudyResults) -> Option<Width> {
    let half = |interval: &Interval| {
        let half = number::half_width(interval)?;
        (interval.mean.abs() > 0.0).then(|| half / interval.mean.abs())
    };
    let of_cells = results.cells.iter().flat_map(|cell| {
        [cell.service_demand, cell.rate()].into_iter().filter_map(move |quantity| {
            let of = words::cell(&cell.levels);
            Some(Width { half: half(&quantity?.interval)?, of })
        })
    });
    let is_asked = |effect: &&Effect| effect.measure.is_stop_input();
    let of_effects = results.effects.iter().filter(is_asked).filter_map(|effect| {
        let of = words::step_at(effect);
        Some(Width { half: half(&effect.ratio)?, of })
    });
    of_cells.chain(of_effects).max_by(|a, b| a.half.total_cmp(&b.half))
}

/// Whether the precision that was asked for was reached.
fn precision(results: &StudyResults) -> Option<Check> {
    let wanted = results.plan.as_ref()?.study.method.precision;
    let worst = widest(results)?;
    let goal = number::percent(wanted);
    let is_bad = worst.half > wanted;
    let text = match is_bad {
        false => format!("±{goal} reached"),
        true => {
            let size = number::percent((worst.half * 1000.0).round() / 1000.0);
            format!("±{goal} not reached: worst ±{size} ({}); {}", worst.of, results.stopped)
        }
    };
    Some(Check { name: "Precision", text, is_bad })
}

/// What carries over from an emulated adapter to hardware.
fn hardware(results: &StudyResults) -> Option<Check> {
    let shares = results.cells.iter().filter_map(|cell: &CellResult| {
        let (whole, parts) = (cell.service_demand?, cell.service_demand_parts?);
        Some(parts.driver?.mean * 100.0 / whole.interval.mean)
    });
    let shares: Vec<f64> = shares.collect();
    let low = shares.iter().copied().reduce(f64::min)?;
    let high = shares.iter().copied().reduce(f64::max)?;
    let share = match high - low < 1.0 {
        true => format!("{high:.0} %"),
        false => format!("{low:.0} to {high:.0} %"),
    };
    let mut text = format!("{share} of CPU time is the emulated driver");
    let claimed: Vec<(&Effect, Interval)> = results
        .effects
        .iter()
        .filter(|effect| effect.significant)
        .filter_map(|effect| Some((effect, effect.without_driver?)))
        .collect();
    let holds = |(effect, without): &&(&Effect, Interval)| match effect.ratio.mean < 1.0 {
        true => without.high.is_some_and(|high| high < 1.0),
        false => without.low.is_some_and(|low| low > 1.0),
    };
    let kept = claimed.iter().filter(holds).count();
    match claimed.len() {
        0 => {}
        all if kept == all => {
            let largest = claimed.iter().min_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
            text.push_str("; without it ");
            if let Some((effect, without)) = largest {
                let (change, ends) = number::brief_change(without);
                let step = words::level(&effect.factor, &effect.to);
                text.push_str(&format!("{step} is {change}{ends}"));
            }
        }
        all => text.push_str(&format!(
            "; without it {kept} of {all} changes keep their sign: expect only those on hardware"
        )),
    }
    Some(Check { name: "Hardware", text, is_bad: kept < claimed.len() })
}

/// Agreement with published figures, without those that the model was made from.
fn published(results: &StudyResults) -> Option<Check> {
    let is_judged = |one: &&PublishedResult| {
        one.kind != PublishedKind::Value && one.basis != Basis::Parameter && one.measured.is_some()
    };
    let judged: Vec<&PublishedResult> = results.published.iter().filter(is_judged).collect();
    if judged.is_empty() {
        let compared = results.published.iter().any(|one| one.measured.is_some());
        let text = "rates and costs of another machine; see --details published";
        return compared.then(|| Check { name: "Published", text: text.to_owned(), is_bad: false });
    }
    // a change is a ratio and a difference a sum
    let none = |one: &PublishedResult| if one.kind == PublishedKind::Effect { 1.0 } else { 0.0 };
    let same_sign = |one: &&&PublishedResult| {
        let mean = one.measured.map_or(f64::NAN, |interval| interval.mean);
        (mean - none(one)) * (one.published - none(one)) > 0.0 || one.published == none(one)
    };
    let within = |one: &&&PublishedResult| {
        let ends = one.measured.and_then(|interval| interval.low.zip(interval.high));
        ends.is_some_and(|(low, high)| (low..=high).contains(&one.published))
    };
    let (all, same) = (judged.len(), judged.iter().filter(same_sign).count());
    let inside = judged.iter().filter(within).count();
    let text =
        format!("{same} of {all} changes have the published sign, {inside} the published size");
    Some(Check { name: "Published", text, is_bad: same < all })
}

/// Warnings and failed runs in a few words; `None` without any.
pub fn warnings(results: &StudyResults) -> Option<String> {
    let (found, failed) = (words::warnings(results).len(), results.failures.len());
    let mut parts = Vec::new();
    if found > 0 {
        parts.push(words::count(found, "warning"));
    }
    if failed > 0 {
        parts.push(words::count(failed, "failed run"));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What a study that is not complete lacks.
fn incomplete(results: &StudyResults) -> Option<Check> {
    let text = results.stopped.clone();
    (!results.complete).then_some(Check { name: "Incomplete", text, is_bad: true })
}
