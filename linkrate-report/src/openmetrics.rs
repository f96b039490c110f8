//! Figures as OpenMetrics text, version 1.0, which Prometheus and its relatives read.
//!
//! Units are the base units of the format: seconds, bytes, ratios. The unit ends the name of each family, and the
//! ends of an interval are families of their own. Levels of a cell are labels. There are no timestamps and no types
//! but counters and gauges, so that the textfile collector of node_exporter takes the text too.

use std::fmt::Write as _;

use linkrate_model::latency::{LatencyFigures, Percentile};
use linkrate_study::levels::{Level, Levels};
use linkrate_study::progress::StudyProgress;
use linkrate_study::quantity::{Interval, Measure, Quantity, Unit};
use linkrate_study::results::{CellResult, Effect, StudyResults};
use linkrate_study::verdict::FlowDirection;

use crate::words::{key, marks};

/// The media type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Names of labels that are no factors.
const STUDY: &str = "study";
const OUTCOME: &str = "outcome";
const MEASURE: &str = "measure";
const FACTOR: &str = "factor";
const FROM: &str = "from";
const TO: &str = "to";

/// Labels of a sample: names and values.
pub type Labels = Vec<(String, String)>;

/// Metric families in the order in which they came.
#[derive(Debug, Default)]
pub struct Exposition(Vec<Family>);

#[derive(Debug)]
struct Family {
    name: String,
    kind: &'static str,
    unit: &'static str,
    help: String,
    samples: Vec<(Labels, f64)>,
}

impl Exposition {
    /// Adds a value that may rise and fall. The name is `stem` and the unit, which may be empty.
    pub fn gauge(
        &mut self,
        stem: &str,
        unit: &'static str,
        help: &str,
        labels: Labels,
        value: f64,
    ) {
        self.add("gauge", stem, unit, help, labels, value);
    }

    /// Adds a value that only rises; its sample ends in `_total`.
    pub fn counter(
        &mut self,
        stem: &str,
        unit: &'static str,
        help: &str,
        labels: Labels,
        value: u64,
    ) {
        self.add("counter", stem, unit, help, labels, value as f64);
    }

    fn add(
        &mut self,
        kind: &'static str,
        stem: &str,
        unit: &'static str,
        help: &str,
        labels: Labels,
        value: f64,
    ) {
        let name = if unit.is_empty() { stem.to_owned() } else { format!("{stem}_{unit}") };
        let at = self.0.iter().position(|family| family.name == name).unwrap_or_else(|| {
            let help = help.to_owned();
            self.0.push(Family { name, kind, unit, help, samples: Vec::new() });
            self.0.len() - 1
        });
        self.0[at].samples.push((labels, value));
    }

    /// Adds a figure and the ends of its interval, each of which is `factor` times that of the family's unit.
    fn interval(
        &mut self,
        (stem, unit, factor): (&str, &'static str, f64),
        help: &str,
        labels: &Labels,
        interval: &Interval,
    ) {
        let ends = [
            (String::new(), String::new(), Some(interval.mean)),
            ("_low".to_owned(), "Low end of the interval of: ".to_owned(), interval.low),
            ("_high".to_owned(), "High end of the interval of: ".to_owned(), interval.high),
        ];
        for (end, before, value) in ends {
            let Some(value) = value else { continue };
            let (stem, help) = (format!("{stem}{end}"), format!("{before}{help}"));
            self.gauge(&stem, unit, &help, labels.clone(), value * factor);
        }
    }

    fn quantity(&mut self, stem: &str, help: &str, labels: &Labels, quantity: Option<Quantity>) {
        let Some(quantity) = quantity else { return };
        let (unit, factor) = base(quantity.unit);
        self.interval(
            (&format!("linkrate_{stem}"), unit, factor),
            help,
            labels,
            &quantity.interval,
        );
    }

    /// The text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for family in &self.0 {
            // writing to a String does not fail
            let _ = self::family(&mut text, family);
        }
        text.push_str("# EOF\n");
        text
    }
}

fn family(text: &mut String, family: &Family) -> std::fmt::Result {
    let Family { name, kind, unit, help, samples } = family;
    writeln!(text, "# TYPE {name} {kind}")?;
    if !unit.is_empty() {
        writeln!(text, "# UNIT {name} {unit}")?;
    }
    writeln!(text, "# HELP {name} {}", escaped(help))?;
    let suffix = if *kind == "counter" { "_total" } else { "" };
    for (labels, value) in samples {
        let label = |(name, value): &(String, String)| format!("{name}=\"{}\"", escaped(value));
        let labels: Vec<String> = labels.iter().map(label).collect();
        match labels.is_empty() {
            true => writeln!(text, "{name}{suffix} {}", number(*value))?,
            false => writeln!(text, "{name}{suffix}{{{}}} {}", labels.join(","), number(*value))?,
        }
    }
    Ok(())
}

/// A value as the format has it: digits, `NaN`, `+Inf` or `-Inf`.
fn number(value: f64) -> String {
    match value.is_infinite() {
        true if value > 0.0 => "+Inf".to_owned(),
        true => "-Inf".to_owned(),
        false => value.to_string(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The base unit of a unit, and how many of it one is.
fn base(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::BitsPerSecond => ("bytes_per_second", 1.0 / 8.0),
        Unit::MicrosecondsPerKb => ("seconds_per_byte", 1e-6 / 1024.0),
        Unit::MicrosecondsPerTransaction => ("seconds_per_transaction", 1e-6),
        // the name of the measure is before it
        Unit::TransactionsPerSecond => ("per_second", 1.0),
        Unit::TransfersPerSecond => ("transfers_per_second", 1.0),
        Unit::FilesPerSecond => ("files_per_second", 1.0),
        Unit::Percent => ("ratio", 1e-2),
        Unit::Nanoseconds => ("seconds", 1e-9),
        Unit::Frames => ("frames", 1.0),
        Unit::Bytes => ("bytes", 1.0),
        Unit::Ratio => ("ratio", 1.0),
    }
}

/// What a measure is.
fn about(measure: Measure) -> &'static str {
    match measure {
        Measure::Throughput => "Received payload, both directions together",
        Measure::Transmit => "Payload that the system under test sent",
        Measure::Receive => "Payload that the system under test received",
        Measure::Transactions => "Transactions that ended",
        Measure::ServiceDemand => "CPU time of the system under test",
        Measure::Cpu => "Busy share of the CPUs of the system under test",
        Measure::LatencyP50 => "Median latency of a run",
        Measure::LatencyP99 => "99th percentile of latency of a run",
    }
}

/// One label.
pub fn label(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

/// The labels of a study, and the levels of one of its cells.
fn labels(study: &str, levels: &Levels) -> Labels {
    let of_level = |(factor, level): &(String, Level)| (name(factor), level.to_string());
    std::iter::once(label(STUDY, study)).chain(levels.0.iter().map(of_level)).collect()
}

/// A factor as the name of a label: letters, digits and underscores.
fn name(factor: &str) -> String {
    factor.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// The results of a study.
pub fn results(results: &StudyResults) -> String {
    let mut all = Exposition::default();
    let study = |all: &mut Exposition, name, unit, help, value| {
        all.gauge(name, unit, help, vec![label(STUDY, &*results.study)], value);
    };
    let started = results.started_unix_ms as f64 / 1e3;
    study(&mut all, "linkrate_study_start_timestamp", "seconds", "When the study began", started);
    let complete = f64::from(u8::from(results.complete));
    study(&mut all, "linkrate_study_complete", "", "Whether its stop rule ended it", complete);
    let blocks = results.blocks.into();
    study(&mut all, "linkrate_study_blocks", "", "Blocks of which every run is stored", blocks);
    for cell in &results.cells {
        let is_of_host = cell.verdict.is_of_the_host().filter(|_| marks::has_adapter(results));
        host_limited(&mut all, &labels(&results.study, &cell.levels), is_of_host);
        self::cell(&mut all, &results.study, cell);
    }
    for effect in &results.effects {
        self::effect(&mut all, results, effect);
    }
    all.text()
}

/// Whether something other than the adapter limited a cell, as a state beside its figures: a label on each of them would
/// make another series of one that changes.
fn host_limited(all: &mut Exposition, labels: &Labels, is_of_host: Option<bool>) {
    let Some(is_of_host) = is_of_host else { return };
    let help = "Whether something other than the adapter limited a cell, so that its figures are of this host";
    let value = f64::from(u8::from(is_of_host));
    all.gauge("linkrate_host_limited", "", help, labels.clone(), value);
}

fn runs(all: &mut Exposition, labels: &Labels, outcome: &str, count: u32) {
    let labels = labels.iter().cloned().chain([label(OUTCOME, outcome)]).collect();
    all.gauge("linkrate_runs", "", "Runs of a cell", labels, count.into());
}

fn cell(all: &mut Exposition, study: &str, cell: &CellResult) {
    let labels = labels(study, &cell.levels);
    let outcomes = [("measured", cell.runs), ("failed", cell.failed), ("left-out", cell.left_out)];
    outcomes.into_iter().for_each(|(outcome, count)| runs(all, &labels, outcome, count));
    let of_direction = |of: FlowDirection| {
        cell.directions.iter().find(|way| way.direction == of).map(|way| way.rate)
    };
    let figures = [
        (Measure::Throughput, cell.throughput),
        (Measure::Transmit, of_direction(FlowDirection::Transmit)),
        (Measure::Receive, of_direction(FlowDirection::Receive)),
        (Measure::Transactions, cell.transactions),
        (Measure::ServiceDemand, cell.service_demand),
        (Measure::Cpu, cell.cpu),
    ];
    for (of, quantity) in figures {
        all.quantity(&key(of), about(of), &labels, quantity);
    }
    let help = "Transfers, or files of a backup, that ended";
    all.quantity("completed", help, &labels, cell.completed);
    let help = "The most payload that links and buses can carry";
    all.quantity("throughput_limit", help, &labels, cell.limit);
    if let Some(latency) = &cell.latency {
        self::latency(all, &labels, latency);
    }
}

/// Latency over all transactions of all runs.
fn latency(all: &mut Exposition, labels: &Labels, latency: &LatencyFigures) {
    let (unit, factor) = base(Unit::Nanoseconds);
    let mean = latency.mean_ns.map(|mean| Interval { mean, low: None, high: None });
    let mut add = |of: &str, interval: Option<Interval>| {
        let Some(interval) = interval else { return };
        let stem = format!("linkrate_latency_{of}");
        let help = "Latency of transactions, or response time";
        all.interval((&stem, unit, factor), help, labels, &interval);
    };
    add("mean", mean);
    for percentile in Percentile::ALL {
        let of = match percentile {
            Percentile::P50 => "p50",
            Percentile::P90 => "p90",
            Percentile::P99 => "p99",
            Percentile::P99_9 => "p99_9",
            Percentile::P99_99 => "p99_99",
        };
        let ends = latency.intervals.and_then(|intervals| intervals.of(percentile));
        let end = |at: usize| ends.map(|ends| ends[at] as f64);
        let value = percentile.of(latency);
        add(of, value.map(|ns| Interval { mean: ns as f64, low: end(0), high: end(1) }));
    }
}

fn effect(all: &mut Exposition, results: &StudyResults, effect: &Effect) {
    let step = [
        label(MEASURE, key(effect.measure)),
        label(FACTOR, &*effect.factor),
        label(FROM, effect.from.to_string()),
        label(TO, effect.to.to_string()),
    ];
    let labels: Labels = labels(&results.study, &effect.at).into_iter().chain(step).collect();
    let help = "Ratio between two levels of a factor; 1 is no change";
    all.interval(("linkrate_effect", "ratio", 1.0), help, &labels, &effect.ratio);
    let significant = f64::from(u8::from(effect.significant));
    let help = "Whether an effect is shown to be larger than the minimum";
    all.gauge("linkrate_effect_significant", "", help, labels.clone(), significant);
    if let Some(is_of_host) = effect.host_limited {
        let help = "Whether something other than the adapter limited a cell of an effect";
        let host_limited = f64::from(u8::from(is_of_host));
        all.gauge("linkrate_effect_host_limited", "", help, labels, host_limited);
    }
}

/// A study while it runs.
pub fn progress(progress: &StudyProgress) -> String {
    let mut all = Exposition::default();
    let mut study = |name, unit, help, value: f64| {
        all.gauge(name, unit, help, vec![label(STUDY, &*progress.study)], value);
    };
    study(
        "linkrate_study_blocks",
        "",
        "Blocks of which every run is stored",
        progress.blocks.into(),
    );
    study("linkrate_study_blocks_limit", "", "Most blocks", progress.max_blocks.into());
    study("linkrate_study_failed_runs", "", "Runs that failed", progress.failed.into());
    let help = "Half-width to reach, as a fraction of the mean";
    study("linkrate_study_precision", "ratio", help, progress.precision);
    let help = "Figures that the stop rule looks at";
    study("linkrate_study_figures", "", help, progress.metrics.into());
    let help = "Those of them that are precise enough";
    study("linkrate_study_precise_figures", "", help, progress.precise.into());
    if let Some(left) = progress.left {
        let help = "Time left, if half-widths shrink as they should";
        study("linkrate_study_left", "seconds", help, left.likely_seconds);
        let help = "Time left at most";
        study("linkrate_study_left_limit", "seconds", help, left.at_most_seconds);
    }
    for cell in &progress.cells {
        let labels = labels(&progress.study, &cell.levels);
        runs(&mut all, &labels, "measured", cell.runs);
        host_limited(&mut all, &labels, cell.host_limited);
        for figure in &cell.metrics {
            let (stem, help) = (key(figure.measure), about(figure.measure));
            all.quantity(&stem, help, &labels, Some(figure.quantity));
        }
    }
    all.text()
}

#[cfg(test)]
mod tests {
    use linkrate_study::keys::KEYS;

    use super::*;

    #[test]
    fn what_a_label_may_not_have_is_escaped() {
        let mut all = Exposition::default();
        let labels = vec![label("path", "C:\\\"a\"\nb")];
        all.gauge("x", "seconds", "Of \"two\"\nlines", labels, 0.25);
        all.counter("y", "", "Count", Vec::new(), 7);
        all.gauge("x", "seconds", "", Vec::new(), f64::INFINITY);
        all.gauge("x", "seconds", "", Vec::new(), f64::NAN);
        let expected = "# TYPE x_seconds gauge\n# UNIT x_seconds seconds\n\
                        # HELP x_seconds Of \\\"two\\\"\\nlines\n\
                        x_seconds{path=\"C:\\\\\\\"a\\\"\\nb\"} 0.25\nx_seconds +Inf\nx_seconds NaN\n\
                        # TYPE y counter\n# HELP y Count\ny_total 7\n# EOF\n";
        assert_eq!(all.text(), expected);
    }

    #[test]
    fn no_factor_has_the_name_of_another_label() {
        let own = [STUDY, OUTCOME, MEASURE, FACTOR, FROM, TO];
        let names: Vec<String> = KEYS.iter().map(|key| name(key.name)).collect();
        for name in &names {
            assert!(!own.contains(&name.as_str()), "{name}");
            assert!(name.starts_with(|c: char| c.is_ascii_lowercase()), "{name}");
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
    }
}
