//! Effects, reasons and counts in words.

pub mod failure;
pub mod fleet;
pub mod marks;
pub mod payback;

use std::collections::BTreeSet;

use linkrate_model::workload::Loop;
use linkrate_stats::interval::{MIN_TO_CLAIM, excludes};
use linkrate_study::labels;
use linkrate_study::levels::{Level, Levels};
use linkrate_study::quantity::{Interval, Measure, Quantity};
use linkrate_study::results::{
    CellResult, Effect, Fact, FailedRun, PublishedKind, PublishedResult, StudyResults,
};
use linkrate_study::study::Method;

use crate::number;

/// The order of a block's runs: `in random order`, and which blocks reverse that of another. Blocks are counted from 1
/// for people. Those that fell, counted from 0, are repeated in orders of their own.
pub fn order(method: &Method, fallen: &BTreeSet<u32>) -> String {
    let blocks = method.max_blocks.saturating_add(fallen.len() as u32);
    let reversed = (0..blocks)
        .filter_map(|block| Some([method.order.reversed(block)?, block]))
        .filter(|pair| !pair.iter().any(|block| fallen.contains(block)))
        .map(|[first, mirror]| (first + 1, mirror + 1));
    let (firsts, mirrors): (Vec<u32>, Vec<u32>) = reversed.unzip();
    let blocks = |numbers: &[u32]| {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        let noun = if numbers.len() == 1 { "block" } else { "blocks" };
        format!("{noun} {}", labels::listed(&numbers))
    };
    match mirrors.is_empty() {
        true => "in random order".to_owned(),
        false => {
            format!(
                "in random order, {} in the reverse order of {}",
                blocks(&mirrors),
                blocks(&firsts)
            )
        }
    }
}

/// What percentiles of latency are, and the loops that the head of their column names.
pub fn latency_note(cells: &[&CellResult]) -> String {
    let mut note = "Percentiles are of all runs together, with intervals by bootstrap over five runs or more; one with fewer than ten \
                    observations beyond it is not printed."
        .to_owned();
    let loops = [
        (
            Loop::Closed,
            " Closed loop: each request waits for an earlier answer, so few requests meet a stall.",
        ),
        (
            Loop::Open,
            " Open loop: requests have a rate, and latency counts from when each was due.",
        ),
    ];
    for (of, text) in loops {
        if cells.iter().any(|cell| cell.of_loop == Some(of)) {
            note.push_str(text);
        }
    }
    if cells.iter().any(|cell| cell.latency.is_some_and(|latency| latency.at_least_ns.is_some())) {
        note.push_str(
            " A value after > is a lower bound: too many requests had not ended when the \
             measurement ended.",
        );
    }
    note
}

/// The loop in which items begin.
pub fn of_loop(of: Loop) -> &'static str {
    match of {
        Loop::Closed => "closed",
        Loop::Open => "open",
    }
}

/// What the time of a transaction, a transfer or a file is called; the cells of a table have one kind.
pub fn time_of_items(cells: &[&CellResult]) -> &'static str {
    match cells.iter().any(|cell| cell.latency.is_some() && cell.completed.is_some()) {
        true => "response time",
        false => "latency",
    }
}

/// A column's title with the loop of its cells: `latency, closed loop`.
pub fn in_loop(title: &str, loops: impl Iterator<Item = Option<Loop>>) -> String {
    let loops: Vec<Loop> = loops.flatten().collect();
    let has = |of: Loop| loops.contains(&of).then(|| of_loop(of));
    match (has(Loop::Closed), has(Loop::Open)) {
        (Some(closed), Some(open)) => format!("{title}, {closed} or {open} loop"),
        (Some(one), None) | (None, Some(one)) => format!("{title}, {one} loop"),
        (None, None) => title.to_owned(),
    }
}

/// Which way a reader wants the measure to go.
fn better(measure: Measure) -> &'static str {
    if measure.more_is_better() { "more is better" } else { "less is better" }
}

/// What is compared, and which way a reader wants it to go.
pub fn compared(measure: Measure) -> String {
    format!("{} ({})", measure.word(), better(measure))
}

/// CPUs by their list: `CPU 0`, `CPUs 0-3`.
pub fn cpus(list: &str) -> String {
    let noun = if list.contains([',', '-']) { "CPUs" } else { "CPU" };
    format!("{noun} {list}")
}

/// `no offload → TSO, transmit`: the change of one factor at the levels of the others.
pub fn change_at(factor: &str, from: &Level, to: &Level, at: &Levels) -> String {
    let step = step_of(factor, from, to);
    if at.0.is_empty() { step } else { format!("{step}, {}", labels::cell(at)) }
}

/// `no offload → TSO`.
pub fn step(effect: &Effect) -> String {
    step_of(&effect.factor, &effect.from, &effect.to)
}

fn step_of(factor: &str, from: &Level, to: &Level) -> String {
    format!("{} → {}", labels::level(factor, from), labels::short_level(factor, to))
}

/// `no offload → TSO, transmit, 2 ports`.
pub fn step_at(effect: &Effect) -> String {
    change_at(&effect.factor, &effect.from, &effect.to, &effect.at)
}

/// What a published figure is about: `TSO, transmit`, or `no offload → TSO, transmit, mean of 3`.
pub fn published_at(published: &PublishedResult) -> String {
    match published_parts(published) {
        (Some(step), at) if at == labels::cell(&Levels::default()) => step,
        (Some(step), at) => format!("{step}, {at}"),
        (None, at) => at,
    }
}

/// What a published figure is about: the step, and where it is.
pub fn published_parts(published: &PublishedResult) -> (Option<String>, String) {
    let step = match (&published.factor, &published.from, &published.to) {
        (Some(factor), Some(from), Some(to)) => Some(step_of(factor, from, to)),
        _ => None,
    };
    let mean = (published.combinations > 1).then(|| format!("mean of {}", published.combinations));
    let at = (!published.at.0.is_empty()).then(|| labels::cell(&published.at));
    let parts: Vec<String> = at.into_iter().chain(mean).collect();
    (step, if parts.is_empty() { "the only cell".to_owned() } else { parts.join(", ") })
}

/// The published figure, the measured one and its interval, as people read them.
pub fn beside(published: &PublishedResult) -> [String; 3] {
    let absent = || number::ABSENT.to_owned();
    let unit = published.unit;
    let exactly = |mean| Interval { mean, low: None, high: None };
    match published.kind {
        PublishedKind::Effect => {
            let measured = published.measured.as_ref().map(number::change);
            let (mean, ends) = measured.map_or((None, None), |m| (Some(m.mean), m.ends));
            [
                number::change(&exactly(published.published)).mean,
                mean.unwrap_or_else(absent),
                ends.unwrap_or_else(absent),
            ]
        }
        PublishedKind::Value | PublishedKind::Difference => {
            let sign = |value: f64, text: String| match published.kind {
                PublishedKind::Difference => number::difference(value, text),
                _ => text,
            };
            let measured = published.measured.map(|interval| Quantity { interval, unit });
            [
                sign(published.published, number::published(published.published, unit)),
                measured.as_ref().map_or_else(absent, |quantity| {
                    sign(quantity.interval.mean, number::mean(quantity))
                }),
                measured.as_ref().and_then(number::ends).unwrap_or_else(absent),
            ]
        }
    }
}

/// What a reader must know of figures beside published ones.
pub const OF_ANOTHER_MACHINE: &str =
    "absolute values are from other hardware: compare relative changes";

/// How a scaled testbed is marked; `None` at full rate.
pub fn scaled(results: &StudyResults) -> Option<String> {
    (results.scale < 1.0).then(|| format!("links at {} of their rate", results.scale))
}

/// The reason for which nothing is claimed of too few blocks.
pub fn too_few() -> String {
    format!("fewer than {MIN_TO_CLAIM} blocks")
}

/// What stands behind a figure of a cell: the half-width of its interval, or that its runs are in two groups, so that the
/// mean is that of neither.
pub fn margin(cell: &CellResult, measure: Measure, quantity: &Quantity) -> Option<String> {
    match cell.two_groups.contains(&measure) {
        true => Some("(two groups)".to_owned()),
        false => number::margin(quantity),
    }
}

/// Why an effect is not claimed, and whether it is excluded or open; `None` when it is claimed.
pub fn not_claimed(effect: &Effect, minimum_effect: f64) -> Option<String> {
    if effect.significant {
        return None;
    }
    let minimum = number::percent(minimum_effect);
    Some(match (effect.ratio.low, effect.ratio.high) {
        (Some(_), Some(_)) if effect.pairs < MIN_TO_CLAIM => too_few(),
        (Some(_), Some(_)) if effect.equivalent => {
            format!("no relevant change (< {minimum})")
        }
        (Some(_), Some(_)) if effect.different => DIFFERENT.to_owned(),
        (Some(_), Some(_)) if effect.same_as == Some(Fact::ServiceDemand) => {
            "the same fact as the service demand: the CPU is full".to_owned()
        }
        (Some(_), Some(_)) if effect.same_as == Some(Fact::Limit) => AS_THE_LIMIT.to_owned(),
        (Some(_), Some(_)) => open(effect).to_owned(),
        _ => "too few runs for an interval".to_owned(),
    })
}

/// What is said of an effect of enough runs of which nothing is shown.
pub fn open(effect: &Effect) -> &'static str {
    match (excludes(&effect.ratio, 1.0), effect.holds_at_equal_mix()) {
        (false, _) => "inconclusive",
        (true, true) => "not significant",
        (true, false) => "not at equal mix",
    }
}

/// Whether its own interval excludes no change, and nothing is shown all the same, as among many effects one is so by chance.
pub fn is_not_significant(effect: &Effect) -> bool {
    effect.pairs >= MIN_TO_CLAIM && effect.same_as.is_none() && open(effect) == "not significant"
}

/// Whether enough runs show neither a change nor that there is none.
pub fn is_inconclusive(effect: &Effect) -> bool {
    let is_shown = effect.significant || effect.different || effect.equivalent;
    effect.pairs >= MIN_TO_CLAIM
        && !is_shown
        && effect.same_as.is_none()
        && open(effect) == "inconclusive"
}

/// What the driver's part of a service demand has in it.
pub fn driver_of(results: &StudyResults) -> &'static str {
    let receives =
        |cell: &CellResult| cell.service_demand_parts.is_some_and(|parts| parts.receives_in_driver);
    match results.cells.iter().any(receives) {
        true => "emulated driver with receive processing",
        false => "emulated driver",
    }
}

/// What is said of a rate that is what the study set.
pub const AS_THE_LIMIT: &str = "as the limit";

/// What is said of a difference that is shown, and may be smaller than the minimum.
pub const DIFFERENT: &str = "significant, may be small";

/// The measures of which there are effects, in the order of the effects.
pub fn measures<'e>(effects: impl IntoIterator<Item = &'e Effect>) -> Vec<Measure> {
    let mut measures = Vec::new();
    for effect in effects {
        if !measures.contains(&effect.measure) {
            measures.push(effect.measure);
        }
    }
    measures
}

/// Results' and testbed's warnings together, each once.
pub fn warnings(results: &StudyResults) -> Vec<&str> {
    each_once(results.warnings.iter().chain(&results.facts.warnings).map(String::as_str))
}

/// The items without those that came before, in their order.
pub fn each_once<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

/// Whether any figure of a cell has an interval, so that ± needs an explanation.
pub fn has_intervals(results: &StudyResults) -> bool {
    results.cells.iter().any(|cell| {
        [cell.throughput, cell.transactions, cell.service_demand, cell.cpu]
            .iter()
            .flatten()
            .any(|quantity| number::half_width(&quantity.interval).is_some())
    })
}

/// `1 run`, `5 runs`.
pub fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// How often each name occurs, the most frequent first.
pub fn occurrences(names: impl Iterator<Item = String>) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    for name in names {
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => found.push((name, 1)),
        }
    }
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    found
}

/// Items one after the other, or `none` where there are none.
pub fn listed_or(items: Vec<String>, none: &str) -> String {
    match items.is_empty() {
        true => none.to_owned(),
        false => items.join(", "),
    }
}

/// The text with its first letter as a capital, unless it begins with the name of a model such as `atm-622`.
pub fn capitalised(text: &str) -> String {
    let first = text.split(' ').next().unwrap_or_default();
    if first.contains('-') && first.contains(|letter: char| letter.is_ascii_digit()) {
        return text.to_owned();
    }
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The files that runs were imported from, each with its number of runs and its programs.
pub fn imported_files(results: &StudyResults) -> Vec<(&str, String)> {
    let mut files: Vec<(&str, usize, Vec<&str>)> = Vec::new();
    for run in &results.imported {
        let program = run.program.as_str();
        match files.iter_mut().find(|(file, ..)| *file == run.file) {
            Some((_, runs, programs)) => {
                *runs += 1;
                if !programs.contains(&program) {
                    programs.push(program);
                }
            }
            None => files.push((&run.file, 1, vec![program])),
        }
    }
    let said = |(file, runs, programs): (_, usize, Vec<&str>)| {
        (file, format!("{} of {}", count(runs, "run"), programs.join(", ")))
    };
    files.into_iter().map(said).collect()
}

/// What the A/A test found: `message 64 B, measured twice in each block: throughput +0.1 % (−0.4 to +0.6 %)`.
pub fn aa(results: &StudyResults) -> Option<String> {
    let found = results.aa.as_ref()?;
    let ratios = found.ratios.iter().map(|of| {
        let change = number::change(&of.ratio);
        let ends = change.ends.map_or_else(String::new, |ends| format!(" ({ends})"));
        format!("{} {}{ends}", of.measure.word(), change.mean)
    });
    let ratios: Vec<String> = ratios.collect();
    Some(format!(
        "{}, measured twice in each block: {}",
        labels::cell(&found.levels),
        ratios.join("; ")
    ))
}

/// A measure as part of the name of a column or a metric: as JSON has it.
pub fn key(measure: Measure) -> String {
    let name = serde_json::to_value(measure);
    name.ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
}

/// Levels as programs find them again, in ASCII where they are: `offload=tso message=64_KiB`.
pub fn assignments(levels: &Levels) -> String {
    let each = levels.0.iter().map(|(factor, level)| format!("{factor}={}", plain(level)));
    each.collect::<Vec<_>>().join(" ")
}

/// A level as one word.
pub fn plain(level: &Level) -> String {
    let level = level.to_string();
    level.split(|c: char| c.is_whitespace() || c.is_control()).collect::<Vec<_>>().join("_")
}

/// Which run of its block has failed.
pub fn failed_run(failed: &FailedRun) -> String {
    if failed.idle { "idle run".to_owned() } else { labels::cell(&failed.levels) }
}

/// Why it has failed, with the step.
pub fn reason(failed: &FailedRun) -> String {
    format!("{}: {}", failed.stage, failed.reason)
}

#[cfg(test)]
mod tests {
    use linkrate_stats::order::Order;
    use linkrate_study::levels::Levels;

    use super::*;

    #[test]
    fn names_of_models_stay_as_they_are() {
        let begin = "atm-622-lane-1516 instead of atm-622";
        assert_eq!(capitalised(begin), begin);
        assert_eq!(capitalised("ten-gigabit"), "Ten-gigabit");
        assert_eq!(capitalised("8 ports"), "8 ports");
        assert_eq!(capitalised("socket buffers"), "Socket buffers");
    }

    fn effects(ratios: &[(f64, bool)]) -> Vec<Effect> {
        let effect = |(index, (mean, claimed)): (usize, &(f64, bool))| {
            let ends = [1, 4].map(Level::Number);
            let at = Levels(vec![("mtu".to_owned(), Level::Number(index as u64))]);
            let ratio = Interval { mean: *mean, low: Some(mean * 0.9), high: Some(mean * 1.1) };
            let effect = Effect::of("ports", ends, at, Measure::ServiceDemand, ratio, 5);
            Effect { significant: *claimed, ..effect }
        };
        ratios.iter().enumerate().map(effect).collect()
    }

    #[test]
    fn the_order_names_the_blocks_that_are_reversed_if_there_will_be_any() {
        let text = "title = \"t\"\n[factors]\noffload = [\"none\", \"tso\"]\n";
        let study = linkrate_study::file::parse("t", "t.toml", text);
        let mut method = study.unwrap_or_else(|errors| panic!("{errors}")).method;
        let both = "in random order, blocks 2 and 5 in the reverse order of blocks 1 and 3";
        let of = |method: &Method| order(method, &BTreeSet::new());
        assert_eq!(of(&method), both);
        method.max_blocks = 4;
        let one = "in random order, block 2 in the reverse order of block 1";
        assert_eq!(of(&method), one);
        // the fourth block that counts is the fifth
        assert_eq!(order(&method, &BTreeSet::from([3])), both);
        // a block or its mirror fell
        assert_eq!(order(&method, &BTreeSet::from([2])), one);
        assert_eq!(order(&method, &BTreeSet::from([1, 2])), "in random order");
        method.max_blocks = 1;
        assert_eq!(of(&method), "in random order");
        (method.max_blocks, method.order) = (30, Order::Independent);
        assert_eq!(of(&method), "in random order");
    }

    #[test]
    fn a_measure_has_one_name() {
        let named = [Measure::Throughput, Measure::Transactions, Measure::LatencyP50].map(key);
        assert_eq!(named, ["throughput", "transactions", "latency_p50"]);
    }

    #[test]
    fn an_unclaimed_effect_has_a_reason() {
        let mut effect = effects(&[(0.985, false)]).remove(0);
        let reason = |effect: &Effect| not_claimed(effect, 0.02);
        assert_eq!(reason(&effect).as_deref(), Some("inconclusive"));
        effect.ratio.high = Some(0.99);
        effect.different = true;
        let said = reason(&effect);
        assert_eq!(said.as_deref(), Some("significant, may be small"));
        (effect.different, effect.equivalent) = (false, true);
        assert_eq!(reason(&effect).as_deref(), Some("no relevant change (< 2 %)"));
        (effect.equivalent, effect.ratio.mean) = (false, 0.97);
        let said = reason(&effect);
        assert_eq!(said.as_deref(), Some("not significant"));
        effect.ratio.low = None;
        assert_eq!(not_claimed(&effect, 0.02).as_deref(), Some("too few runs for an interval"));
        effect.significant = true;
        assert_eq!(not_claimed(&effect, 0.02), None);
        let mut few = effects(&[(0.5, false)]).remove(0);
        few.pairs = 4;
        assert_eq!(not_claimed(&few, 0.02).as_deref(), Some("fewer than 5 blocks"));
    }
}
