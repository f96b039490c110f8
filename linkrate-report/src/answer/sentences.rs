//! What a study found, in a sentence for each level that is compared: over all combinations of the other factors.

use linkrate_stats::paired::MIN_TO_CLAIM;
use linkrate_study::labels;
use linkrate_study::levels::Level;
use linkrate_study::quantity::{Interval, Measure};
use linkrate_study::results::{Effect, StudyResults};
use linkrate_study::study::PART;

use super::findings;
use crate::words::{self, marks};

/// Measures that a sentence reports, in this order.
const REPORTED: [Measure; 4] =
    [Measure::ServiceDemand, Measure::Throughput, Measure::Transactions, Measure::LatencyP99];

/// The factor whose levels each add to the one before.
const LADDER: &str = "offload";

/// At most so many sentences.
pub(super) fn of(results: &StudyResults, most: usize) -> Vec<String> {
    let mut found = Vec::new();
    // failures and connection offloads have an answer of their own
    if results.payback.is_some() || results.cells.iter().any(|cell| cell.failure.is_some()) {
        found.extend(findings::all(results).into_iter().take(1));
    }
    found.extend(steps(results));
    if found.is_empty() {
        found.extend(findings::all(results));
    }
    found.truncate(most);
    found
}

/// A sentence for each step from the first level of what is compared first in a part, the last level first.
fn steps(results: &StudyResults) -> Vec<String> {
    let mut parts: Vec<(Option<&Level>, &str)> = Vec::new();
    for effect in &results.effects {
        let part = effect.at.get(PART);
        if !parts.iter().any(|(known, _)| *known == part) {
            parts.push((part, &effect.factor));
        }
    }
    let mut by_part: Vec<Vec<String>> = Vec::new();
    for (part, factor) in &parts {
        let of_factor = |effect: &&Effect| {
            effect.factor == *factor && effect.at.get(PART) == *part && effect.pairs >= MIN_TO_CLAIM
        };
        let effects: Vec<&Effect> = results.effects.iter().filter(of_factor).collect();
        let Some(first) = effects.first().map(|effect| &effect.from) else { continue };
        let mut levels: Vec<&Level> = Vec::new();
        for effect in effects.iter().filter(|effect| effect.from == *first) {
            if !levels.contains(&&effect.to) {
                levels.push(&effect.to);
            }
        }
        // of a scale its end says most
        let number = levels.iter().all(|level| labels::number(level).is_some());
        let reported = if number { &levels[levels.len().saturating_sub(1)..] } else { &levels[..] };
        let place = part.filter(|_| parts.len() > 1).map(ToString::to_string);
        let mut pairs: Vec<(&Level, &Level)> =
            reported.iter().rev().map(|to| (first, *to)).collect();
        // of a ladder what its last rung adds to all, and to the one below it, which is often on by default
        if *factor == LADDER
            && let [.., below, last] = levels[..]
        {
            pairs = vec![(first, last), (below, last)];
        }
        let sentences = pairs.into_iter().filter_map(|(from, to)| {
            let between = |effect: &&&Effect| effect.from == *from && effect.to == *to;
            let some: Vec<&Effect> = effects.iter().filter(between).copied().collect();
            sentence(results, factor, (from, to), &some, place.as_deref())
        });
        by_part.push(sentences.collect());
    }
    // the first of each part before the second of any
    let longest = by_part.iter().map(Vec::len).max().unwrap_or(0);
    let turn = |index| by_part.iter().filter_map(move |of| of.get(index).cloned());
    (0..longest).flat_map(turn).collect()
}

fn sentence(
    results: &StudyResults,
    factor: &str,
    (from, to): (&Level, &Level),
    effects: &[&Effect],
    place: Option<&str>,
) -> Option<String> {
    let subject = labels::subject(factor, from, to);
    let clauses = REPORTED.into_iter().filter_map(|measure| {
        // a percentile scatters too much to say that it does not change
        let is_said = |effect: &Effect| measure != Measure::LatencyP99 || effect.significant;
        let of = |effect: &&&Effect| {
            effect.measure == measure && effect.same_as.is_none() && is_said(effect)
        };
        let some: Vec<&Effect> = effects.iter().filter(of).copied().collect();
        clause(results, measure, &some, subject.plural)
    });
    let directions = [Measure::Transmit, Measure::Receive].into_iter().filter_map(|measure| {
        let of = |effect: &&&Effect| effect.measure == measure && effect.significant;
        let some: Vec<&Effect> = effects.iter().filter(of).copied().collect();
        clause(results, measure, &some, subject.plural)
    });
    // where the sum of both directions hides what each of them does
    let hides = effects.iter().any(|effect| effect.measure == Measure::Throughput)
        && !effects
            .iter()
            .any(|effect| effect.measure == Measure::Throughput && effect.significant);
    let clauses = clauses.chain(with_it(effects, subject.plural));
    let clauses: Vec<Clause> = clauses.chain(directions.filter(|_| hides)).collect();
    let (does_not, changes) = match subject.plural {
        true => ("do not change", "change"),
        false => ("does not change", "changes"),
    };
    let clauses = match clauses.as_slice() {
        [Clause::Unchanged(one), Clause::Unchanged(other)] => {
            format!("{changes} neither {one} nor {other}")
        }
        all => {
            let texts = all.iter().map(|clause| match clause {
                Clause::Unchanged(measure) => format!("{does_not} {measure}"),
                Clause::Changed(text) => text.clone(),
            });
            labels::listed(&texts.collect::<Vec<_>>())
        }
    };
    let is_of_host = |effect: &&Effect| !marks::of_effect(results, effect).is_empty();
    let host = if effects.iter().all(is_of_host) { ", on this host" } else { "" };
    let name = words::capitalised(&subject.text);
    let place = place.map_or_else(String::new, |place| format!("{}: ", words::capitalised(place)));
    (!clauses.is_empty()).then(|| format!("{place}{name} {clauses}{host}."))
}

/// What a sentence says of a measure.
enum Clause {
    /// No effect on it matters.
    Unchanged(&'static str),
    /// What its subject does.
    Changed(String),
}

/// `with it raises throughput by 66 %`, where the full CPU makes it the same fact as the service demand.
fn with_it(effects: &[&Effect], plural: bool) -> Option<Clause> {
    // the fact itself must be shown
    let is_shown = |rate: &&&Effect| {
        let fact =
            effects.iter().find(|one| Some(one.measure) == rate.same_as && one.at == rate.at);
        fact.is_some_and(|fact| fact.significant)
    };
    let is_rate = |effect: &&&Effect| effect.measure.is_rate() && effect.measure.is_whole();
    let some: Vec<&Effect> = effects.iter().filter(is_rate).filter(is_shown).copied().collect();
    let first = some.first()?;
    let falls = some.iter().filter(|effect| effect.ratio.mean < 1.0).count();
    // where it goes either way the table says more
    if falls != 0 && falls != some.len() {
        return None;
    }
    let (action, word) = (action(falls > 0, plural), first.measure.word());
    let (sizes, cases) = (range(&some), cases(some.len(), effects.iter().filter(is_rate).count()));
    Some(Clause::Changed(format!("with it {action} {word} by {sizes}{cases}")))
}

/// What a subject does to a measure.
fn action(falls: bool, plural: bool) -> &'static str {
    match (falls, plural) {
        (true, false) => "reduces",
        (true, true) => "reduce",
        (false, false) => "raises",
        (false, true) => "raise",
    }
}

/// ` in 2 of 3 cases`; empty where it is so in all.
fn cases(some: usize, all: usize) -> String {
    if some == all { String::new() } else { format!(" in {some} of {all} cases") }
}

/// `59 to 60 %`: what the effects are, without their signs.
fn range(effects: &[&Effect]) -> String {
    let sizes = effects.iter().map(|effect| size(effect.ratio.mean));
    let (low, high) = (sizes.clone().fold(f64::INFINITY, f64::min), sizes.fold(0.0, f64::max));
    match high - low < 0.95 {
        true => format!("{high:.0} %"),
        false => format!("{low:.0} to {high:.0} %"),
    }
}

/// A change in per cent, without its sign.
fn size(ratio: f64) -> f64 {
    ((ratio - 1.0) * 100.0).abs()
}

/// `reduces service demand by 59 to 60 %`.
fn clause(
    results: &StudyResults,
    measure: Measure,
    effects: &[&Effect],
    plural: bool,
) -> Option<Clause> {
    let verb = |one: &'static str, many: &'static str| if plural { many } else { one };
    let word = measure.word();
    let claimed: Vec<&Effect> =
        effects.iter().filter(|effect| effect.significant).copied().collect();
    if claimed.is_empty() {
        return Some(match effects {
            [] => return None,
            all if all.iter().all(|effect| effect.equivalent) => Clause::Unchanged(word),
            all if all.iter().any(|effect| effect.different) => Clause::Changed(format!(
                "{} {word}, perhaps by too little to matter",
                verb("changes", "change")
            )),
            _ => {
                Clause::Changed(format!("{} no significant effect on {word}", verb("has", "have")))
            }
        });
    }
    let falls = claimed.iter().filter(|effect| effect.ratio.mean < 1.0).count();
    let rises = claimed.len() - falls;
    if falls > 0 && rises > 0 {
        return Some(Clause::Changed(format!(
            "{} {word} in {falls} and {} it in {rises} of {} cases",
            action(true, plural),
            action(false, plural),
            effects.len()
        )));
    }
    let (action, cases) = (action(falls > 0, plural), cases(claimed.len(), effects.len()));
    let sizes = |some: &[&Effect]| match some {
        [only] => of_one(&only.ratio),
        all => range(all),
    };
    // what this host limits is no figure of the adapter
    let is_of_host = |effect: &&Effect| !marks::of_effect(results, effect).is_empty();
    let (of_host, of_adapter): (Vec<&Effect>, Vec<&Effect>) =
        claimed.iter().copied().partition(is_of_host);
    let text = match (&of_adapter[..], &of_host[..]) {
        ([], all) | (all, []) => sizes(all),
        (adapter, host) => format!("{} (limited by this host: {})", range(adapter), range(host)),
    };
    Some(Clause::Changed(format!("{action} {word} by {text}{cases}")))
}

/// `65 % (63 to 67 %)`.
fn of_one(ratio: &Interval) -> String {
    let places = if size(ratio.mean) < 9.95 { 1 } else { 0 };
    let ends = ratio.low.zip(ratio.high).map(|(low, high)| {
        let (one, other) = (size(low), size(high));
        format!(" ({:.places$} to {:.places$} %)", one.min(other), one.max(other))
    });
    format!("{:.places$} %{}", size(ratio.mean), ends.unwrap_or_default())
}
