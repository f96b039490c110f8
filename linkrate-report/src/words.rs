//! Effects, reasons and highlights in words.

use linkrate_study::results::{Effect, Level, Measure, StudyResults};

use crate::number;

/// What is compared, as the field calls it.
pub fn measure(measure: Measure) -> &'static str {
    match measure {
        Measure::Throughput => "throughput",
        Measure::ServiceDemand => "service demand",
        Measure::Transactions => "transactions per second",
    }
}

/// Which way a reader wants the measure to go.
pub fn better(measure: Measure) -> &'static str {
    match measure {
        Measure::ServiceDemand => "less is better",
        Measure::Throughput | Measure::Transactions => "more is better",
    }
}

/// A level that a reader understands without its neighbours: `tso`, but `ports 2`.
pub fn level(factor: &str, level: &Level) -> String {
    match level {
        Level::Text(text) => text.clone(),
        _ => format!("{factor} {level}"),
    }
}

/// `none → tso`, or `ports 1 → 4`.
pub fn step(effect: &Effect) -> String {
    format!("{} → {}", level(&effect.factor, &effect.from), effect.to)
}

/// `none → tso, transmit`.
pub fn step_at(effect: &Effect) -> String {
    match effect.at.0.is_empty() {
        true => step(effect),
        false => format!("{}, {}", step(effect), effect.at),
    }
}

/// Why an effect is not claimed; `None` when it is.
pub fn not_claimed(effect: &Effect, minimum_effect: f64) -> Option<String> {
    if effect.claimed {
        return None;
    }
    let minimum = number::percent(minimum_effect);
    Some(match (effect.ratio.low, effect.ratio.high) {
        (Some(low), Some(high)) if low <= 1.0 && high >= 1.0 => {
            "interval includes no change".to_owned()
        }
        (Some(_), Some(_)) if (effect.ratio.mean - 1.0).abs() < minimum_effect => {
            format!("below the {minimum} minimum")
        }
        (Some(_), Some(_)) => format!("not shown to exceed the {minimum} minimum"),
        _ => "too few runs for an interval".to_owned(),
    })
}

/// The measures of which there are effects, in the order of the results.
pub fn measures(results: &StudyResults) -> Vec<Measure> {
    let mut measures = Vec::new();
    for effect in &results.effects {
        if !measures.contains(&effect.measure) {
            measures.push(effect.measure);
        }
    }
    measures
}

/// What the study may claim, a sentence for each step between levels and each measure. Steps of
/// which nothing is claimed are left out; their effects are in the table.
pub fn highlights(results: &StudyResults) -> Vec<String> {
    let mut groups: Vec<Vec<&Effect>> = Vec::new();
    for effect in &results.effects {
        let same = |other: &&Effect| {
            (&other.factor, &other.from, &other.to, other.measure)
                == (&effect.factor, &effect.from, &effect.to, effect.measure)
        };
        match groups.iter_mut().find(|group| group.first().is_some_and(same)) {
            Some(group) => group.push(effect),
            None => groups.push(vec![effect]),
        }
    }
    groups.iter().filter_map(|group| highlight(group)).collect()
}

fn highlight(group: &[&Effect]) -> Option<String> {
    let claimed: Vec<&&Effect> = group.iter().filter(|effect| effect.claimed).collect();
    let first = **claimed.first()?;
    let lower = claimed.iter().filter(|effect| effect.ratio.mean < 1.0).count();
    let subject = format!(
        "{} instead of {}",
        capitalised(&level(&first.factor, &first.to)),
        level(&first.factor, &first.from)
    );
    let what = measure(first.measure);
    if lower > 0 && lower < claimed.len() {
        return Some(format!(
            "{subject}: {what} falls in {lower} and rises in {} of {} combinations.",
            claimed.len() - lower,
            group.len()
        ));
    }
    let verb = if lower > 0 { "lowers" } else { "raises" };
    if group.len() == 1 {
        let by = number::change_size(first.ratio.mean);
        let at = if first.at.0.is_empty() { String::new() } else { format!(", {}", first.at) };
        let mut ends =
            [first.ratio.low, first.ratio.high].map(|end| end.unwrap_or(first.ratio.mean));
        if lower > 0 {
            ends.reverse();
        }
        let [least, most] = ends.map(number::change_size);
        return Some(format!("{subject} {verb} {what} by {by} % ({least} to {most} %){at}."));
    }
    let size = |effect: &&&Effect| (effect.ratio.mean - 1.0).abs();
    let least = claimed.iter().min_by(|a, b| size(a).total_cmp(&size(b)))?;
    let most = claimed.iter().max_by(|a, b| size(a).total_cmp(&size(b)))?;
    let [least, most] = [least, most].map(|effect| number::change_size(effect.ratio.mean));
    let by = if least == most { format!("{most} %") } else { format!("{least} to {most} %") };
    Some(match group.len() - claimed.len() {
        0 => format!("{subject} {verb} {what} by {by} in all {} combinations.", group.len()),
        rest => format!(
            "{subject} {verb} {what} by {by} in {} of {} combinations; no change can be claimed \
             in the other{}.",
            claimed.len(),
            group.len(),
            if rest == 1 { String::new() } else { format!(" {rest}") }
        ),
    })
}

/// Results' and testbed's warnings together, each once.
pub fn warnings(results: &StudyResults) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for warning in results.warnings.iter().chain(&results.facts.warnings) {
        if !all.contains(&warning.as_str()) {
            all.push(warning);
        }
    }
    all
}

/// `1 run`, `5 runs`.
pub fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// The text with its first letter as a capital.
pub fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
