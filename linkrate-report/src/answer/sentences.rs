//! What a study found, in a sentence for each level that is compared: over all combinations of the other factors.

use linkrate_study::labels;
use linkrate_study::levels::Level;
use linkrate_study::quantity::{Interval, Measure};
use linkrate_study::results::{Effect, StudyResults, figures};
use linkrate_study::study::PART;

use super::findings;
use crate::number;
use crate::words::{self, marks};
use linkrate_stats::interval::MIN_TO_CLAIM;

/// Measures that a sentence reports, in this order.
const REPORTED: [Measure; 5] = [
    Measure::ServiceDemand,
    Measure::Throughput,
    Measure::Transactions,
    Measure::LatencyP50,
    Measure::LatencyP99,
];

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
            // those of too few runs are cases too
            let between = |effect: &&Effect| {
                (effect.factor.as_str(), &effect.from, &effect.to) == (*factor, from, to)
                    && effect.at.get(PART) == *part
            };
            let some: Vec<&Effect> = results.effects.iter().filter(between).collect();
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
    let of = |measure: Measure| of_measure(effects, measure);
    // where the sum of both directions hides what each of them does
    let sums = of(Measure::Throughput);
    let hidden = |measure: Measure| -> Vec<&Effect> {
        let goes_up = |effect: &Effect| effect.ratio.mean > 1.0;
        let hides = |sum: &Effect, way: &Effect| sum.equivalent || goes_up(sum) != goes_up(way);
        let is_hidden =
            |way: &&Effect| sums.iter().any(|sum| sum.is_beside(way) && hides(sum, way));
        of(measure).into_iter().filter(is_hidden).collect()
    };
    let ways = [Measure::Transmit, Measure::Receive].into_iter();
    let way_clause = |measure| clause(results, measure, &hidden(measure), subject.plural);
    let whole_clause = |measure| clause(results, measure, &of(measure), subject.plural);
    let clauses = REPORTED.into_iter().filter_map(whole_clause);
    let clauses = clauses.chain(with_it(results, effects, subject.plural));
    let clauses: Vec<Clause> = clauses.chain(ways.filter_map(way_clause)).collect();
    let all_of_host = clauses.iter().all(|clause| clause.of_host);
    let (does_not, changes) = match subject.plural {
        true => ("do not change", "change"),
        false => ("does not change", "changes"),
    };
    let clauses = match clauses.as_slice() {
        [
            Clause { says: Says::Unchanged(one), of_host },
            Clause { says: Says::Unchanged(other), of_host: of_host_too },
        ] if of_host == of_host_too => {
            format!("{changes} neither {one} nor {other}")
        }
        all => {
            let texts = all.iter().map(|clause| {
                let text = match &clause.says {
                    Says::Unchanged(measure) => format!("{does_not} {measure}"),
                    Says::Changed(text) => text.clone(),
                };
                // of one clause among others
                if clause.of_host && !all_of_host { noted(text, OF_THIS_HOST) } else { text }
            });
            labels::listed(&texts.collect::<Vec<_>>())
        }
    };
    let host = if all_of_host { ", on this host" } else { "" };
    let name = words::capitalised(&subject.text);
    let place = place.map_or_else(String::new, |place| format!("{}: ", words::capitalised(place)));
    (!clauses.is_empty()).then(|| format!("{place}{name} {clauses}{host}."))
}

/// Behind a figure of this host among others that are not.
const OF_THIS_HOST: &str = "limited by this host";

/// Behind figures of which some are of this host.
fn of_these(hosts: usize) -> String {
    format!("{hosts} of these {OF_THIS_HOST}")
}

/// A text with a note in brackets, which may have some already.
fn noted(text: String, note: &str) -> String {
    match text.strip_suffix(')') {
        Some(begin) => format!("{begin}; {note})"),
        None => format!("{text} ({note})"),
    }
}

/// What a sentence says of a measure.
struct Clause {
    says: Says,
    /// Whether something other than the adapter limited all effects behind it.
    of_host: bool,
}

impl Clause {
    fn of(effects: &[&Effect], says: Says) -> Self {
        Self { says, of_host: effects.iter().all(|effect| is_of_host(effect)) }
    }
}

enum Says {
    /// No effect on it matters.
    Unchanged(&'static str),
    /// What its subject does.
    Changed(String),
}

fn is_of_host(effect: &Effect) -> bool {
    !marks::of_effect(effect).is_empty()
}

/// `with it raises throughput by 66 %`, where the full CPU makes it the same fact as the service demand.
fn with_it(results: &StudyResults, effects: &[&Effect], plural: bool) -> Option<Clause> {
    let is_rate = |effect: &&&Effect| effect.measure.is_rate() && effect.measure.is_whole();
    let some = by_facts(results, effects);
    let first = some.first()?;
    // where it goes either way the table says more
    let falls = goes_one_way(&some)?;
    if !joined(results, &of_measure(effects, first.measure)).is_empty() {
        return None;
    }
    let (action, word) = (action(falls, plural), first.measure.word());
    let (sizes, cases) = (range(&some), cases(some.len(), effects.iter().filter(is_rate).count()));
    let text = format!("with it {action} {word} by {sizes}{cases}");
    Some(Clause::of(&some, Says::Changed(text)))
}

/// The rates that are the same fact as a service demand that is shown.
fn by_facts<'r>(results: &StudyResults, effects: &[&'r Effect]) -> Vec<&'r Effect> {
    let is_shown = |rate: &Effect| results.fact_behind(rate).is_some_and(|fact| fact.significant);
    let is_rate = |measure: Measure| measure.is_rate() && measure.is_whole();
    effects.iter().filter(|of| is_rate(of.measure) && is_shown(of)).copied().collect()
}

/// Those of [`by_facts`] that go the way of the claimed effects of the same measure: one clause has both.
fn joined<'r>(results: &StudyResults, effects: &[&'r Effect]) -> Vec<&'r Effect> {
    let claimed: Vec<&Effect> = effects.iter().filter(|of| of.significant).copied().collect();
    let facts = by_facts(results, effects);
    let way = goes_one_way(&facts);
    let is_joined = !claimed.is_empty() && way.is_some() && goes_one_way(&claimed) == way;
    if is_joined { facts } else { Vec::new() }
}

/// Whether all of them fall; `None` where some fall and some rise.
fn goes_one_way(effects: &[&Effect]) -> Option<bool> {
    let falls = effects.iter().filter(|effect| effect.ratio.mean < 1.0).count();
    (falls == 0 || falls == effects.len()).then_some(falls > 0)
}

/// Those of one measure.
fn of_measure<'r>(effects: &[&'r Effect], measure: Measure) -> Vec<&'r Effect> {
    effects.iter().filter(|effect| effect.measure == measure).copied().collect()
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

/// What effects that are not shown may do.
fn moves(apart: &[&Effect]) -> &'static str {
    match apart.iter().filter(|effect| effect.ratio.mean < 1.0).count() {
        0 => "raise",
        falls if falls == apart.len() => "reduce",
        _ => "change",
    }
}

/// A change in per cent, without its sign.
fn size(ratio: f64) -> f64 {
    ((ratio - 1.0) * 100.0).abs()
}

/// `reduces service demand by 59 to 60 %`, of all effects of a step on a measure.
fn clause(
    results: &StudyResults,
    measure: Measure,
    effects: &[&Effect],
    plural: bool,
) -> Option<Clause> {
    let verb = |one: &'static str, many: &'static str| if plural { many } else { one };
    let word = measure.word();
    let of = |holds: &dyn Fn(&Effect) -> bool| -> Vec<&Effect> {
        effects.iter().filter(|effect| holds(effect)).copied().collect()
    };
    let in_cases = |some: &[&Effect]| cases(some.len(), effects.len());
    // a full CPU makes the others the same fact as another measure
    let own = of(&|effect| effect.same_as.is_none());
    let judged = own.iter().filter(|effect| effect.pairs >= MIN_TO_CLAIM).count();
    if judged == 0 {
        return None;
    }
    let claimed = of(&|effect| effect.significant);
    // what matters, and is not shown
    let apart = of(&|effect| {
        let matters = size(effect.ratio.mean) > results.minimum_effect * 100.0;
        let is_shown = effect.significant || effect.different || effect.equivalent;
        matters && !is_shown && words::is_not_significant(effect)
    });
    if claimed.is_empty() {
        // what scatters too much to say that it does not change, and what is a part of another measure
        if !measure.is_stop_input() {
            return None;
        }
        let (equal, different) = (of(&|effect| effect.equivalent), of(&|effect| effect.different));
        let (some, says) = if equal.len() == judged {
            let says = match in_cases(&equal) {
                all if all.is_empty() => Says::Unchanged(word),
                cases => {
                    let does_not = verb("does not change", "do not change");
                    Says::Changed(format!("{does_not} {word}{cases}"))
                }
            };
            (equal, says)
        } else if !different.is_empty() {
            let (changes, cases) = (verb("changes", "change"), in_cases(&different));
            let text = format!("{changes} {word}{cases}, perhaps by too little to matter");
            (different, Says::Changed(text))
        } else if !apart.is_empty() {
            let (moves, size, cases) = (moves(&apart), range(&apart), in_cases(&apart));
            let text = format!("may {moves} {word} by {size}{cases} (not significant)");
            (apart, Says::Changed(text))
        } else {
            let open = of(&|effect| words::is_inconclusive(effect));
            let has = verb("has", "have");
            match &open[..] {
                [] => {
                    let cases = in_cases(&own);
                    (own, Says::Changed(format!("{has} no significant effect on {word}{cases}")))
                }
                [first, ..] => {
                    let ends = if open.len() == 1 { ends_of(&first.ratio) } else { String::new() };
                    let cases = in_cases(&open);
                    let text = format!("{has} an inconclusive effect on {word}{ends}{cases}");
                    (open, Says::Changed(text))
                }
            }
        };
        let hosts = some.iter().filter(|effect| is_of_host(effect)).count();
        let says = match (says, hosts > 0 && hosts < some.len()) {
            (says, false) => says,
            (Says::Unchanged(word), true) => {
                let text = format!("{} {word}", verb("does not change", "do not change"));
                Says::Changed(noted(text, &of_these(hosts)))
            }
            (Says::Changed(text), true) => Says::Changed(noted(text, &of_these(hosts))),
        };
        return Some(Clause::of(&some, says));
    }
    let claimed = [claimed, joined(results, effects)].concat();
    let (host, adapter): (Vec<&Effect>, Vec<&Effect>) =
        claimed.iter().copied().partition(|effect| is_of_host(effect));
    let is_mixed = !host.is_empty() && !adapter.is_empty();
    let falls = claimed.iter().filter(|effect| effect.ratio.mean < 1.0).count();
    let rises = claimed.len() - falls;
    let text = if falls > 0 && rises > 0 {
        let host = match is_mixed {
            true => format!(" ({})", of_these(host.len())),
            false => String::new(),
        };
        format!(
            "{} {word} in {falls} and {} it in {rises} of {} cases{host}",
            action(true, plural),
            action(false, plural),
            effects.len()
        )
    } else {
        // what this host limits is no figure of the adapter
        let (size, ends) = match (&adapter[..], &claimed[..]) {
            (_, [only]) => of_one(&only.ratio),
            ([], all) => (range(all), None),
            (adapter, _) => (range(adapter), None),
        };
        let of_host = is_mixed.then(|| format!("{OF_THIS_HOST}: {}", range(&host)));
        let notes: Vec<String> =
            [ends, of_host, without_driver(results, &claimed)].into_iter().flatten().collect();
        let notes = match notes.is_empty() {
            true => String::new(),
            false => format!(" ({})", notes.join("; ")),
        };
        let more = match &apart[..] {
            [] => String::new(),
            apart => {
                let alike = action(falls > 0, true) == moves(apart);
                let may = if alike { "perhaps" } else { "and may do the opposite" };
                format!(", {may} in {} more", apart.len())
            }
        };
        let acts = action(falls > 0, plural);
        format!("{acts} {word} by {size}{notes}{}{more}", in_cases(&claimed))
    };
    Some(Clause::of(&claimed, Says::Changed(text)))
}

/// `without the emulated driver −39 to −21 %`, where the driver is in one of the two cells alone.
fn without_driver(results: &StudyResults, effects: &[&Effect]) -> Option<String> {
    let of_engine = effects.iter().filter(|effect| effect.factor == figures::TOE_FACTOR);
    let (unknown, known): (Vec<&Effect>, Vec<&Effect>) =
        of_engine.copied().partition(|effect| effect.without_driver_unknown);
    let changes = known.iter().filter_map(|effect| Some(effect.without_driver?.mean));
    let low = changes.clone().reduce(f64::min)?;
    let high = changes.reduce(f64::max)?;
    let open = match unknown.len() {
        0 => String::new(),
        open => format!(", {open} not known"),
    };
    let driver = words::driver_of(results);
    Some(format!("without the {driver} {}{open}", number::changes(low, high)))
}

/// ` (−52 to +25 %)`; empty without an interval.
fn ends_of(ratio: &Interval) -> String {
    number::brief_change(ratio).1.replace(')', " %)")
}

/// `65 %`, and `63 to 67 %`.
fn of_one(ratio: &Interval) -> (String, Option<String>) {
    let places = if size(ratio.mean) < 9.95 { 1 } else { 0 };
    let ends = ratio.low.zip(ratio.high).map(|(low, high)| {
        let (one, other) = (size(low), size(high));
        format!("{:.places$} to {:.places$} %", one.min(other), one.max(other))
    });
    (format!("{:.places$} %", size(ratio.mean)), ends)
}
