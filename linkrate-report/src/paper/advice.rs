//! What to do: which settings this host should run, what each costs, and under which condition. What it gains is the
//! answer of the study.
//!
//! A setting is recommended only for effects that are claimed. What describes the work rather than
//! the host (the size of a request, the direction, the adapter) is given, and gets no advice. Advice of
//! several parts (system, application, network design) has a heading for each.

use linkrate_model::knobs::{self, Owner};
use linkrate_model::model::Encapsulation;
use linkrate_study::labels;
use linkrate_study::levels::Level;
use linkrate_study::quantity::Measure;
use linkrate_study::results::{CellResult, Effect, StudyResults, figures};
use linkrate_study::verdict::Verdict;
use serde::Serialize;

use super::steps::{self, Step};
use crate::words::{self, marks};

/// Factors that describe the work of the host, not its settings.
const WORK: [&str; 6] = ["adapter", "direction", "kind", "request", "response", "clients"];

/// Parts of the advice: who can follow it.
const PARTS: [&str; 3] = ["System", "Application", "Network design"];

/// The part of the advice on a factor, as an index of [`PARTS`].
fn part_of(factor: &str) -> usize {
    match factor {
        "message" | "socket" | "connections" | "burst" | "send-path" | "receive-path"
        | "working-set" | "udp-segment" | "udp-gro" | "cpu-binding" | "nodelay" => 1,
        // of one adapter: its interface types
        "mtu" | "vlan" | "snap" | "adapter" => 2,
        other => match knobs::find(other).map(|knob| knob.owner) {
            Some(Owner::Aggregate) => 2,
            _ => 0,
        },
    }
}

/// Whether models differ in their encapsulation alone: Classical IP, and emulated LANs of some sizes. That
/// is a choice of whoever designs the network.
fn is_one_adapter(models: &[&Level]) -> bool {
    let names: Vec<String> = models.iter().map(|model| model.to_string()).collect();
    let split = |name: &'_ String| Encapsulation::of_name(name).0.to_owned();
    let mut bases = names.iter().map(split);
    let first = bases.next();
    names.len() > 1 && bases.all(|base| Some(base) == first)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The part that begins with it; empty within a part, and where there is one part alone.
    pub heading: &'static str,
    /// What to do: `Run with TSO.`
    pub say: String,
    /// What it costs, or that no cost was shown.
    pub cost: String,
    /// Under which condition it holds; empty where there is none.
    pub condition: String,
}

/// The advice, by setting in the order of the study.
pub fn all(results: &StudyResults) -> Vec<Advice> {
    let steps = steps::all(results);
    let mut scopes: Vec<(&str, Option<&Level>)> = Vec::new();
    let is_setting = |step: &Step<'_>| {
        let levels = || steps::levels(results, step.factor, step.part);
        !WORK.contains(&step.factor) || step.factor == "adapter" && is_one_adapter(&levels())
    };
    for step in &steps {
        if is_setting(step) && !scopes.contains(&(step.factor, step.part)) {
            scopes.push((step.factor, step.part));
        }
    }
    let several = |factor: &str| scopes.iter().filter(|(other, _)| *other == factor).count() > 1;
    let said = scopes.iter().filter_map(|(factor, part)| {
        let part_name = part.filter(|_| several(factor));
        Some((part_of(factor), one(results, &steps, factor, *part, part_name)?))
    });
    let mut said: Vec<(usize, Advice)> = said.collect();
    // within a part in the order of the study
    said.sort_by_key(|(part, _)| *part);
    let first = said.first().map(|(part, _)| *part);
    if said.iter().any(|(part, _)| Some(*part) != first) {
        let mut before = None;
        for (part, advice) in &mut said {
            if before != Some(*part) {
                advice.heading = PARTS[*part];
            }
            before = Some(*part);
        }
    }
    said.into_iter().map(|(_, advice)| advice).collect()
}

fn one(
    results: &StudyResults,
    steps: &[Step<'_>],
    factor: &str,
    part: Option<&Level>,
    part_name: Option<&Level>,
) -> Option<Advice> {
    let levels = steps::levels(results, factor, part);
    let (first, others) = levels.split_first()?;
    let between = |from: &Level, to: &Level| -> Vec<&Step<'_>> {
        let is_it = |step: &&Step<'_>| {
            (step.factor, step.part, step.from, step.to) == (factor, part, from, to)
        };
        steps.iter().filter(is_it).collect()
    };
    let gains = |to: &Level| score(results, &between(first, to)).0;
    let nets = |to: &Level| {
        let (gain, loss) = score(results, &between(first, to));
        gain - loss
    };
    let mut best =
        others.iter().filter(|to| gains(to) > 0.0).max_by(|a, b| nets(a).total_cmp(&nets(b)));
    let scale = steps::is_scale(&levels);
    if scale {
        best = turning_point(&levels, &between).filter(|to| gains(to) > 0.0).or(best);
    }
    let prefix = part_name
        .map_or_else(String::new, |part| format!("{}: ", words::capitalised(&part.to_string())));
    let Some(best) = best else {
        return Some(without_gain(results, steps, factor, part, &prefix, first, others));
    };
    let of_step = between(first, best);
    let subject = of_step.first()?.subject();
    let it = if subject.plural { "they" } else { "it" };
    // what more of it may lose
    let mut beyond = levels.iter().skip_while(|level| *level != best).skip(1);
    let loses = |to: &&Level| between(first, to).iter().any(|step| step.may_lose());
    let more = scale
        && Some(best) != levels.last()
        && !beyond.any(loses)
        && labels::number(best) < levels.last().and_then(|l| labels::number(l));
    let or_more = match (more, labels::is_size(best)) {
        (false, _) => "",
        (true, true) => " or larger",
        (true, false) => " or more",
    };
    let verb = if factor == "ports" { "Use" } else { "Run with" };
    let verb = lower_case(&prefix, verb);
    let best_level = labels::at_least(factor, best, or_more);
    let here = if is_of_this_machine(results, &of_step) { " on this machine" } else { "" };
    let reversed = reversed(results, &of_step);
    let say = match &reversed {
        Some(_) if factor == figures::TOE_FACTOR => {
            format!("{prefix}{} {best_level}.", lower_case(&prefix, "No advice on"))
        }
        _ => format!("{prefix}{verb} {best_level}{here}."),
    };
    let losses = of_step.iter().map(|step| step.reported(&step.claimed_for(false)));
    let losses: Vec<String> = losses.filter(|text| !text.is_empty()).collect();
    let doubtful: Vec<String> = of_step
        .iter()
        .filter(|step| step.has_adverse_difference())
        .map(|step| step.measured().to_owned())
        .collect();
    let mut cost = if losses.is_empty() && doubtful.is_empty() && reversed.is_some() {
        String::new()
    } else if losses.is_empty() && doubtful.is_empty() {
        format!("No downside was shown in {}.", labels::listed(&compared(&of_step)))
    } else if losses.is_empty() {
        format!("Adverse effect of unknown size on {}.", labels::listed(&doubtful))
    } else {
        format!("Adverse effect: {it} {}.", losses.join(", and "))
    };
    cost.push_str(not_compared(&of_step));
    if !or_more.is_empty() {
        cost = format!("{cost} No further gain was shown beyond that.");
    }
    let conditions: Vec<String> = reversed.into_iter().chain(bound(&of_step)).collect();
    Some(Advice { heading: "", say, cost, condition: conditions.join(" ") })
}

/// A sentence continues in lower case after a name and a colon.
fn lower_case(prefix: &str, verb: &str) -> String {
    if prefix.is_empty() { verb.to_owned() } else { verb.to_lowercase() }
}

fn without_gain(
    results: &StudyResults,
    steps: &[Step<'_>],
    factor: &str,
    part: Option<&Level>,
    prefix: &str,
    first: &Level,
    others: &[&Level],
) -> Advice {
    let from_first: Vec<&Step<'_>> = steps
        .iter()
        .filter(|step| (step.factor, step.part, step.from) == (factor, part, first))
        .collect();
    let worse = from_first.iter().filter_map(|step| {
        let reported = step.reported(&step.claimed_for(false));
        let subject = words::capitalised(&step.subject().text);
        (!reported.is_empty()).then(|| format!("{subject} {reported}."))
    });
    let worse: Vec<String> = worse.collect();
    let condition = bound(&from_first).unwrap_or_default();
    if worse.is_empty() {
        let all: Vec<String> = [&first]
            .into_iter()
            .chain(others.iter())
            .map(|level| labels::level(factor, level))
            .collect();
        let measures = compared(&from_first);
        let differs = from_first.iter().any(|step| step.differs());
        let what = if differs { "a difference of unknown size" } else { "no difference" };
        let mut effects = from_first.iter().flat_map(|step| &step.effects);
        let of_host = effects.all(|index| !marks::of_effect(&results.effects[*index]).is_empty());
        let here = if of_host && !measures.is_empty() { " on this machine" } else { "" };
        let say = format!(
            "{prefix}{} {}: {what} was shown{here}.",
            if prefix.is_empty() { "Between" } else { "between" },
            labels::listed(&all)
        );
        let cost = match (measures.is_empty(), differs) {
            (true, _) => "Too few blocks had runs of each.".to_owned(),
            (_, true) => format!("It may be too small to matter: {}.", labels::either(&measures)),
            _ => format!("No difference in {} favors one of them.", labels::either(&measures)),
        };
        let cost = format!("{cost}{}", not_compared(&from_first));
        return Advice { heading: "", say, cost, condition };
    }
    let say =
        format!("{prefix}{} {}.", lower_case(prefix, "Stay with"), labels::level(factor, first));
    Advice { heading: "", say, cost: worse.join(" "), condition }
}

/// What the claimed effects of some steps add up to for the better and for the worse, in
/// logarithms of ratios.
fn score(results: &StudyResults, steps: &[&Step<'_>]) -> (f64, f64) {
    let sum = |better: bool| -> f64 {
        let claimed = steps.iter().flat_map(|step| step.claimed_for(better));
        claimed.map(|index| results.effects[index].ratio.mean.ln().abs()).sum()
    };
    (sum(true), sum(false))
}

/// Whether the adapter limited no cell of any gain, so that another machine may gain nothing.
fn is_of_this_machine(results: &StudyResults, steps: &[&Step<'_>]) -> bool {
    let mut gains = steps.iter().flat_map(|step| step.claimed_for(true));
    gains.all(|index| !marks::of_effect(&results.effects[index]).is_empty())
}

/// The level of a scale after which no step to the next one gains anything.
fn turning_point<'l, 'a: 'l>(
    levels: &'l [&'a Level],
    between: &dyn Fn(&Level, &Level) -> Vec<&'l Step<'l>>,
) -> Option<&'l &'a Level> {
    let gains = |pair: &&[&Level]| {
        let [low, high] = pair else { return false };
        between(low, high).iter().any(|step| !step.claimed_for(true).is_empty())
    };
    let last = levels.windows(2).rev().find(gains)?;
    last.last()
}

/// What the steps compare, each once.
fn compared(steps: &[&Step<'_>]) -> Vec<String> {
    words::each_once(steps.iter().map(|step| match step.measure.is_whole() {
        true => step.measured().to_owned(),
        false => "throughput of each direction".to_owned(),
    }))
}

/// What a reader would expect and the study did not ask, as a sentence after a space: streams have no latency.
fn not_compared(steps: &[&Step<'_>]) -> &'static str {
    let has = |measure: Measure| steps.iter().any(|step| step.measure == measure);
    match has(Measure::LatencyP99) {
        true => "",
        false => " Latency was not compared.",
    }
}

/// In how many cases the gain may be one of the emulated driver alone. A TCP offload engine has the driver, which receives
/// for the host, in one of both cells alone, so that the gain must be shown without it.
fn reversed(results: &StudyResults, steps: &[&Step<'_>]) -> Option<String> {
    let is_engine = steps.first().is_some_and(|step| step.factor == figures::TOE_FACTOR);
    let gains = steps.iter().flat_map(|step| step.claimed_for(true));
    let gains: Vec<&Effect> = gains.map(|index| &results.effects[index]).collect();
    let is_open = |effect: &&&Effect| match is_engine {
        true => effect.without_driver.is_some_and(|without| !effect.agrees_with(&without)),
        false => effect.without_driver_unknown,
    };
    let open = gains.iter().filter(is_open).count();
    let are = match (is_engine, open) {
        (true, 1) => "is not shown",
        (true, _) => "are not shown",
        (false, 1) => "is not known",
        (false, _) => "are not known",
    };
    let driver = words::driver_of(results);
    (open > 0).then(|| format!("Without the {driver} {open} of {} gains {are}.", gains.len()))
}

/// What bounds advice: whose CPU was the limit in the cells behind it.
fn bound(steps: &[&Step<'_>]) -> Option<String> {
    let mut cells: Vec<&CellResult> = Vec::new();
    for step in steps {
        for index in &step.effects {
            for cell in [step.from, step.to].iter().filter_map(|end| step.cell(*index, end)) {
                if !cells.iter().any(|other| std::ptr::eq(*other, cell)) {
                    cells.push(cell);
                }
            }
        }
    }
    let judged: Vec<&Verdict> = cells
        .iter()
        .map(|cell| &cell.verdict)
        .filter(|verdict| !verdict.directions.is_empty())
        .collect();
    let rests =
        |verdict: &&&Verdict| verdict.directions.iter().any(|way| way.bottleneck.rests_on_peer());
    let outside = judged.iter().filter(rests).count();
    let all = judged.len();
    (outside > 0).then(|| {
        let cells = match (outside, all) {
            (1, 1) => "the cell".to_owned(),
            (some, all) if some == all => format!("all {all} cells"),
            (some, all) => format!("{some} of the {all} cells"),
        };
        format!(
            "In {cells}, the CPU of the clients or of the emulated device was the limit: with faster ones the difference may be larger."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_types_of_one_adapter_are_a_choice_and_adapters_are_not() {
        let is_choice = |names: &[&str]| {
            let levels: Vec<Level> =
                names.iter().map(|name| Level::Text((*name).to_owned())).collect();
            is_one_adapter(&levels.iter().collect::<Vec<_>>())
        };
        assert!(is_choice(&["atm-622", "atm-622-lane-9234", "atm-622-lane-1516"]));
        assert!(is_choice(&["atm-155-lane-9234", "atm-155-lane-1516"]));
        for names in [&["atm-155", "atm-622"][..], &["gigabit", "atm-622-lane-1516"], &["atm-155"]]
        {
            assert!(!is_choice(names), "{names:?}");
        }
    }
}
