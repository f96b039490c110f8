//! `[method]`.

use std::time::Duration;

use linkrate_model::units::{format_duration, parse_percent};
use toml::de::DeValue;

use super::reader::{Entry, Reader, Table, described};
use crate::bounds::{CONFIDENCES, MAX_BLOCKS, MAX_BUDGET, MAX_RUN, MIN_RUN, PRECISIONS};
use crate::study::{Family, Method, OnFailure, Purpose};
use linkrate_stats::order::Order;

/// The method, the place of its budget, and the keys that need the factors.
pub(super) struct MethodRead<'t> {
    pub(super) method: Method,
    /// The factors whose effects are asked.
    pub(super) effects: Option<Entry<'t>>,
    /// The A/A test, where it is asked for.
    pub(super) aa_at: Option<Entry<'t>>,
    budget_at: usize,
}

/// What a study takes that says nothing about its method.
impl Default for Method {
    fn default() -> Self {
        Self {
            confidence: 0.95,
            precision: 0.025,
            minimum_effect: 0.02,
            min_blocks: 5,
            max_blocks: 30,
            run: Duration::from_secs(2),
            warm_up: Duration::from_millis(300),
            idle: Duration::from_secs(1),
            budget: None,
            profile: false,
            order: Order::Mirrored,
            seed: None,
            on_failure: OnFailure::Continue,
            purpose: Purpose::default(),
            family: Family::default(),
            rebuild: false,
            aa: true,
        }
    }
}

/// The method; a key that is left out or refused keeps its default.
pub(super) fn read<'t>(reader: &mut Reader<'_>, table: Option<Table<'t>>) -> MethodRead<'t> {
    let mut method = Method::default();
    let mut budget_at = 0;
    let Some(mut table) = table else {
        return MethodRead { method, effects: None, aa_at: None, budget_at };
    };
    if let Some(entry) = table.take("confidence") {
        method.confidence = confidence(reader, &entry).unwrap_or(method.confidence);
    }
    if let Some(entry) = table.take("precision") {
        method.precision = percent(reader, &entry, *PRECISIONS.start()).unwrap_or(method.precision);
    }
    if let Some(entry) = table.take("minimum-effect") {
        method.minimum_effect = percent(reader, &entry, 0.0).unwrap_or(method.minimum_effect);
    }
    if table.has_number("blocks")
        && let Some(entry) = table.take("blocks")
    {
        let exactly = reader.number(&entry, 2, MAX_BLOCKS.into());
        if let Some(blocks) = exactly.and_then(|blocks| u32::try_from(blocks).ok()) {
            (method.min_blocks, method.max_blocks) = (blocks, blocks);
        }
    } else if let Some(blocks) = table.table(reader, "blocks") {
        (method.min_blocks, method.max_blocks) = self::blocks(reader, blocks);
    }
    if let Some(entry) = table.take("run") {
        method.run = reader.duration(&entry, (MIN_RUN, MAX_RUN), false).unwrap_or(method.run);
    }
    if let Some(entry) = table.take("warm-up") {
        method.warm_up =
            reader.duration(&entry, (Duration::ZERO, MAX_RUN), true).unwrap_or(method.warm_up);
    }
    if let Some(entry) = table.take("idle") {
        method.idle = reader.duration(&entry, (MIN_RUN, MAX_RUN), true).unwrap_or(method.idle);
    }
    if let Some(entry) = table.take("budget") {
        let range = (Duration::from_secs(1), MAX_BUDGET);
        method.budget = reader.duration(&entry, range, false);
        budget_at = entry.value_at();
    }
    if let Some(entry) = table.take("profile") {
        method.profile = reader.switch(&entry).unwrap_or(method.profile);
    }
    if let Some(entry) = table.take("seed") {
        method.seed = reader.number(&entry, 0, u64::MAX);
    }
    if let Some(entry) = table.take("on-failure") {
        match reader.word(&entry, &["continue", "stop"]) {
            Some("stop") => method.on_failure = OnFailure::Stop,
            _ => method.on_failure = OnFailure::Continue,
        }
    }
    if let Some(entry) = table.take("purpose") {
        let word = reader.word(&entry, &Purpose::ALL.map(Purpose::word));
        method.purpose = word.and_then(|word| word.parse().ok()).unwrap_or(method.purpose);
    }
    if let Some(entry) = table.take("family") {
        method.family = match reader.word(&entry, &["study", "part", "effect"]) {
            Some("part") => Family::Part,
            Some("effect") => Family::Effect,
            _ => Family::Study,
        }
    }
    if let Some(entry) = table.take("rebuild") {
        method.rebuild = reader.switch(&entry).unwrap_or(method.rebuild);
    }
    // a rate or a cost is what the first cell twice says something about
    method.aa = method.purpose != Purpose::Functions;
    let mut aa_at = table.take("aa");
    if let Some(entry) = &aa_at {
        method.aa = reader.switch(entry).unwrap_or(method.aa);
    }
    aa_at = aa_at.filter(|_| method.aa);
    let effects = table.take("effects");
    table.finish(reader);
    MethodRead { method, effects, aa_at, budget_at }
}

/// The confidence level: a fraction such as 0.95.
fn confidence(reader: &mut Reader<'_>, entry: &Entry<'_>) -> Option<f64> {
    let number = match entry.value() {
        DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
        _ => None,
    };
    let valid = number.filter(|number| CONFIDENCES.contains(number));
    if valid.is_none() {
        let message = format!("{} is not a confidence level", described(entry.value()));
        reader.refuse(entry, message, "expected a fraction from 0.5 to 0.9999, for example 0.95");
    }
    valid
}

/// A percentage from `low` to 100, as a fraction.
fn percent(reader: &mut Reader<'_>, entry: &Entry<'_>, low: f64) -> Option<f64> {
    let fraction = reader.quantity(entry, "a percentage such as \"2.5 %\"", parse_percent)?;
    if (low..=1.0).contains(&fraction) {
        return Some(fraction);
    }
    let message = format!("{} is out of range", described(entry.value()));
    let low = low * 100.0;
    reader.refuse(entry, message, format_args!("expected a percentage from {low} % to 100 %"));
    None
}

/// `{ min, max }`.
fn blocks(reader: &mut Reader<'_>, mut table: Table<'_>) -> (u32, u32) {
    let default = Method::default();
    let (min_entry, max_entry) = (table.take("min"), table.take("max"));
    table.finish(reader);
    let mut read = |entry: &Option<Entry<'_>>, low: u64| {
        let number = entry.as_ref().and_then(|entry| reader.number(entry, low, MAX_BLOCKS.into()));
        number.and_then(|number| u32::try_from(number).ok())
    };
    // without an interval there is nothing to stop at, and an interval takes two runs
    let min = read(&min_entry, 2);
    let max = read(&max_entry, 2);
    // one end alone moves the other along, if it must
    let (low, high) = match (min, max) {
        (Some(min), Some(max)) => (min, max),
        (Some(min), None) => (min, default.max_blocks.max(min)),
        (None, Some(max)) => (default.min_blocks.min(max), max),
        (None, None) => (default.min_blocks, default.max_blocks),
    };
    if low > high
        && let Some(entry) = &max_entry
    {
        reader.refuse(entry, format!("max {high} is below min {low}"), "raise max or lower min");
    }
    (low, high)
}

/// The length of one block: idle time, warm-up and measurements, without anything else.
fn bare_block(method: &Method, cells: usize) -> Duration {
    let cells = u32::try_from(cells).unwrap_or(u32::MAX).saturating_add(method.aa.into());
    (method.run + method.warm_up).saturating_mul(cells).saturating_add(method.idle)
}

impl MethodRead<'_> {
    /// Refuses a budget that the fewest blocks cannot fit, so that it is known before the first
    /// run and not after the last.
    pub(super) fn check_budget(&self, reader: &mut Reader<'_>, cells: usize) {
        let Some(budget) = self.method.budget else { return };
        let needed = bare_block(&self.method, cells).saturating_mul(self.method.min_blocks);
        if needed > budget {
            let message = format!(
                "{} cannot hold {} blocks of {cells} cells, which take {} at least",
                format_duration(budget),
                self.method.min_blocks,
                format_duration(needed),
            );
            let hint = "raise the budget, or lower run, warm-up, idle or blocks.min".to_owned();
            reader.error(self.budget_at, "method.budget", message, Some(hint));
        }
    }
}
