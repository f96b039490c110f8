//! What a study shows, in sentences made of its claimed effects, and of those it does not show.

use linkrate_stats::paired::MIN_TO_CLAIM;
use linkrate_study::analysis::failure::FailureFigures;
use linkrate_study::analysis::payback::Paybacks;
use linkrate_study::labels;
use linkrate_study::levels::Level;
use linkrate_study::results::{CellResult, StudyResults};

use super::steps::{self, Step};
use crate::{number, words};

/// A sentence and the effects behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The sentence.
    pub text: String,
    /// Indices of the effects that it rests on.
    pub effects: Vec<usize>,
}

/// Most cells that a study without effects describes one by one.
const MAX_CELLS: usize = 4;

/// The highlights. Too few blocks have none, and one sentence says so.
pub fn all(results: &StudyResults) -> Vec<Sentence> {
    let mut reported: Vec<Sentence> = failures(results).into_iter().collect();
    let enough = |worth: &&Paybacks| worth.paybacks.iter().any(|of| of.pairs >= MIN_TO_CLAIM);
    reported.extend(results.payback.as_ref().filter(enough).and_then(|worth| {
        let text = words::payback::sentences(worth).into_iter().next()?;
        Some(Sentence { text, effects: words::payback::effects(results) })
    }));
    reported.extend(if results.effects.is_empty() { cells(results) } else { effects(results) });
    if !reported.is_empty() || results.cells.is_empty() {
        return reported;
    }
    let text = format!("Nothing is significant: {}.", words::too_few());
    vec![Sentence { text, effects: Vec::new() }]
}

/// The failures with the shortest and the longest gap.
fn failures(results: &StudyResults) -> Option<Sentence> {
    let cells = words::failure::cells(results);
    let gap = |of: &FailureFigures| of.gap.map_or(f64::NAN, |gap| gap.interval.mean);
    let order = |one: &&(_, &FailureFigures), other: &&(_, &FailureFigures)| {
        gap(one.1).total_cmp(&gap(other.1))
    };
    let with_gap = || cells.iter().filter(|(_, of)| of.gap.is_some());
    let reported = |(cell, of): &(&CellResult, &FailureFigures)| {
        let name = match cell.levels.0.is_empty() {
            true => of.fault.phrase().to_owned(),
            false => labels::cell(&cell.levels),
        };
        format!("{} ({name})", number::duration(gap(of)))
    };
    let (shortest, longest) = (with_gap().min_by(order)?, with_gap().max_by(order)?);
    let text = match with_gap().count() {
        1 => {
            format!("The failure interrupts all flows together for {} (median).", reported(longest))
        }
        _ => format!(
            "A failure interrupts all flows together for {} to {} (medians).",
            reported(shortest),
            reported(longest)
        ),
    };
    Some(Sentence { text, effects: Vec::new() })
}

/// What the effects show, step by step, and then where they show nothing.
fn effects(results: &StudyResults) -> Vec<Sentence> {
    let steps = steps::all(results);
    let mut shown = Vec::new();
    let mut not_shown: Vec<Vec<&Step<'_>>> = Vec::new();
    for step in ordered(results, &steps) {
        let says_more = |index: &usize| results.says_more(&results.effects[*index]);
        if !step.effects.iter().any(says_more) {
            continue;
        }
        if step.claimed().is_empty() {
            let same = |other: &&mut Vec<&Step<'_>>| {
                other.first().is_some_and(|other| {
                    (other.factor, other.from, other.to, other.part)
                        == (step.factor, step.from, step.to, step.part)
                })
            };
            match not_shown.iter_mut().find(same) {
                Some(group) => group.push(step),
                None => not_shown.push(vec![step]),
            }
        } else {
            shown.push(shown_by(results, step, &steps));
        }
    }
    shown.extend(not_shown.iter().map(|group| not_shown_by(results, group)));
    shown
}

/// The steps worth a sentence: of a scale from one end to the other, else each level against the
/// first, the last one first.
fn ordered<'s, 'a>(results: &StudyResults, steps: &'s [Step<'a>]) -> Vec<&'s Step<'a>> {
    let mut scopes: Vec<(&str, Option<&Level>)> = Vec::new();
    for step in steps {
        if !scopes.contains(&(step.factor, step.part)) {
            scopes.push((step.factor, step.part));
        }
    }
    let mut chosen = Vec::new();
    for (factor, part) in scopes {
        let levels = steps::levels(results, factor, part);
        let Some((first, others)) = levels.split_first() else { continue };
        let ends = if steps::is_scale(&levels) { &others[others.len() - 1..] } else { others };
        for end in ends.iter().rev() {
            let of_step = |step: &&Step<'_>| {
                (step.factor, step.part, step.from, step.to) == (factor, part, *first, *end)
            };
            chosen.extend(steps.iter().filter(of_step));
        }
    }
    chosen
}

fn shown_by(results: &StudyResults, step: &Step<'_>, steps: &[Step<'_>]) -> Sentence {
    let subject = words::capitalised(&step.subject().text);
    let mut text = format!("{subject} {}", step.reported(&step.effects));
    let unclaimed = step.told_unclaimed();
    if !unclaimed.is_empty() {
        text = format!("{text}; {unclaimed}");
    }
    if let Some(knee) = knee(results, step, steps) {
        let level = labels::short_level(step.factor, knee);
        text = format!("{text}; beyond {level} no further difference was shown");
    }
    text = format!("{text}{}.", in_part(results, step));
    Sentence { text, effects: step.claimed() }
}

fn not_shown_by(results: &StudyResults, group: &[&Step<'_>]) -> Sentence {
    let mut measures: Vec<String> = group.iter().map(|step| step.measured().to_owned()).collect();
    measures.dedup();
    let measures = measures.join(" or ");
    let Some(step) = group.first() else {
        return Sentence { text: String::new(), effects: Vec::new() };
    };
    let effects: Vec<usize> = group.iter().flat_map(|step| step.effects.iter().copied()).collect();
    let of = |index: &usize| &results.effects[*index];
    let minimum = number::percent(results.minimum_effect);
    let subject = step.subject();
    let name = words::capitalised(&subject.text);
    let verb =
        |one: &str, many: &str| if subject.plural { many.to_owned() } else { one.to_owned() };
    let mut text = if effects.iter().all(|index| of(index).equivalent) {
        let does = verb("does", "do");
        format!("{name} {does} not change {measures} (difference below {minimum})")
    } else if effects.iter().any(|index| of(index).different) {
        format!("{name} {} {measures}, perhaps by less than {minimum}", verb("changes", "change"))
    } else {
        format!("No change of {measures} by {} was shown", subject.text)
    };
    if let ([only], Some(span)) = (group, step.span()) {
        let within = if only.effects.len() > 1 { "intervals within " } else { "interval " };
        text = format!("{text} ({within}{span})");
    }
    let full = group.iter().map(|step| step.full_links()).max().unwrap_or(0);
    let all = step.effects.len();
    if full > 0 {
        let cases = match (full, all) {
            (full, all) if full == all => String::new(),
            (full, all) => format!(" in {full} of {all} cases"),
        };
        text = format!("{text}: the links are full either way{cases}");
    }
    if group.iter().any(|step| step.is_of_this_machine()) {
        text = format!("{text}, on this machine");
    }
    text = format!("{text}{}.", in_part(results, step));
    Sentence { text, effects }
}

/// The part, where the same step is asked in several.
fn in_part(results: &StudyResults, step: &Step<'_>) -> String {
    let elsewhere = results.effects.iter().any(|effect| {
        effect.factor == step.factor && effect.at.get(linkrate_study::study::PART) != step.part
    });
    match step.part {
        Some(part) if elsewhere => format!(" ({part})"),
        _ => String::new(),
    }
}

/// The level of a scale beyond which no step to the next shows a difference; `None` when the last
/// one still does, or when there is no scale.
pub fn knee<'r>(
    results: &'r StudyResults,
    step: &Step<'_>,
    steps: &[Step<'_>],
) -> Option<&'r Level> {
    let levels = steps::levels(results, step.factor, step.part);
    if !steps::is_scale(&levels) {
        return None;
    }
    let mut knee = None;
    for pair in levels.windows(2).rev() {
        let [low, high] = pair else { break };
        let neighbours = steps.iter().find(|other| {
            (other.factor, other.part, other.measure, other.from, other.to)
                == (step.factor, step.part, step.measure, *low, *high)
        })?;
        if !neighbours.claimed().is_empty() {
            break;
        }
        knee = Some(*low);
    }
    // flat from the beginning is no knee
    knee.filter(|level| Some(level) != levels.first())
}

/// The cells of a study without effects.
fn cells(results: &StudyResults) -> Vec<Sentence> {
    let enough = results.cells.iter().filter(|cell| cell.runs >= MIN_TO_CLAIM);
    let reported = enough
        .take(MAX_CELLS)
        .filter_map(|cell| Some(Sentence { text: cell_sentence(cell)?, effects: Vec::new() }));
    reported.collect()
}

fn cell_sentence(cell: &CellResult) -> Option<String> {
    let whom = if cell.levels.0.is_empty() {
        String::new()
    } else {
        format!("{}: ", labels::cell(&cell.levels))
    };
    let with_ends = |quantity: &linkrate_study::quantity::Quantity| match number::ends(quantity) {
        Some(ends) => format!("{} ({ends})", number::mean(quantity)),
        None => number::mean(quantity),
    };
    let rate = cell.transactions.or(cell.throughput)?;
    let share = cell.limit.filter(|_| cell.transactions.is_none()).map(|limit| {
        let percent = rate.interval.mean / limit.interval.mean * 100.0;
        format!(", {percent:.1} % of the limit of links and bus")
    });
    let what = if cell.transactions.is_some() { "" } else { "throughput " };
    let mut parts = vec![format!("{what}{}{}", with_ends(&rate), share.unwrap_or_default())];
    let percentiles = cell.latency.and_then(|latency| latency.p50_ns.zip(latency.p99_ns));
    if let Some((p50_ns, p99_ns)) = percentiles {
        parts.push(format!(
            "with a median {} of {} and {} at the 99th percentile",
            if cell.is_transactional() { "latency" } else { "response time" },
            number::duration(p50_ns as f64),
            number::duration(p99_ns as f64)
        ));
    }
    if let Some(demand) = &cell.service_demand {
        parts.push(format!("at a service demand of {}", with_ends(demand)));
    }
    let verdict = cell.verdict.brief();
    Some(words::capitalised(&format!("{whom}{}; {verdict}.", parts.join(" "))))
}
