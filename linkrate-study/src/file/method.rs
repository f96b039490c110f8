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
            find: None,
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

/// A key, and what its entry sets. A value that is refused leaves the default.
type Setting = (&'static str, for<'t> fn(&mut Reader<'_>, Entry<'t>, &mut MethodRead<'t>));

const SETTINGS: [Setting; 17] = [
    ("confidence", |r, e, m| set(&mut m.method.confidence, confidence(r, &e))),
    ("precision", |r, e, m| set(&mut m.method.precision, percent(r, &e, *PRECISIONS.start()))),
    ("find", |r, e, m| m.method.find = percent(r, &e, *PRECISIONS.start())),
    ("minimum-effect", |r, e, m| set(&mut m.method.minimum_effect, percent(r, &e, 0.0))),
    ("blocks", |r, e, m| {
        if let Some(read) = blocks(r, e) {
            (m.method.min_blocks, m.method.max_blocks) = read;
        }
    }),
    ("run", |r, e, m| set(&mut m.method.run, r.duration(&e, (MIN_RUN, MAX_RUN), false))),
    ("warm-up", |r, e, m| {
        set(&mut m.method.warm_up, r.duration(&e, (Duration::ZERO, MAX_RUN), true));
    }),
    ("idle", |r, e, m| set(&mut m.method.idle, r.duration(&e, (MIN_RUN, MAX_RUN), true))),
    ("budget", |r, e, m| {
        m.method.budget = r.duration(&e, (Duration::from_secs(1), MAX_BUDGET), false);
        m.budget_at = e.value_at();
    }),
    ("profile", |r, e, m| set(&mut m.method.profile, r.switch(&e))),
    ("seed", |r, e, m| m.method.seed = r.number(&e, 0, u64::MAX)),
    ("on-failure", |r, e, m| {
        if r.word(&e, &["continue", "stop"]) == Some("stop") {
            m.method.on_failure = OnFailure::Stop;
        }
    }),
    ("purpose", |r, e, m| {
        let word = r.word(&e, &Purpose::ALL.map(Purpose::word));
        set(&mut m.method.purpose, word.and_then(|word| word.parse().ok()));
        // a rate or a cost is what the first cell twice says something about
        m.method.aa = m.method.purpose != Purpose::Functions;
    }),
    ("family", |r, e, m| {
        m.method.family = match r.word(&e, &["study", "part", "effect"]) {
            Some("part") => Family::Part,
            Some("effect") => Family::Effect,
            _ => Family::Study,
        }
    }),
    ("rebuild", |r, e, m| set(&mut m.method.rebuild, r.switch(&e))),
    ("aa", |r, e, m| {
        set(&mut m.method.aa, r.switch(&e));
        m.aa_at = m.method.aa.then_some(e);
    }),
    ("effects", |_, e, m| m.effects = Some(e)),
];

fn set<T>(field: &mut T, read: Option<T>) {
    if let Some(value) = read {
        *field = value;
    }
}

/// The method; a key that is left out or refused keeps its default.
pub(super) fn read<'t>(reader: &mut Reader<'_>, table: Option<Table<'t>>) -> MethodRead<'t> {
    let method = Method::default();
    let mut read = MethodRead { method, effects: None, aa_at: None, budget_at: 0 };
    let Some(mut table) = table else { return read };
    for (key, apply) in SETTINGS {
        if let Some(entry) = table.take(key) {
            apply(reader, entry, &mut read);
        }
    }
    table.finish(reader);
    read
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

/// A number, or `{ min, max }`; `None` after an error.
fn blocks(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<(u32, u32)> {
    if matches!(entry.value(), DeValue::Integer(_)) {
        let exactly = reader.count(&entry, 2, MAX_BLOCKS)?;
        return Some((exactly, exactly));
    }
    let mut table = entry.into_table(reader)?;
    let default = Method::default();
    let (min_entry, max_entry) = (table.take("min"), table.take("max"));
    table.finish(reader);
    // without an interval there is nothing to stop at, and an interval takes two runs
    let mut read = |entry: &Option<Entry<'_>>| reader.count(entry.as_ref()?, 2, MAX_BLOCKS);
    let (min, max) = (read(&min_entry), read(&max_entry));
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
    Some((low, high))
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
