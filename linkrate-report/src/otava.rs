//! Result sets over time as Apache Otava (once Hunter) reads them: a CSV file with a row for each set, and the
//! configuration that names its columns.
//!
//! A column is a measure of a cell or of an effect. Otava needs a figure in every row, so a series that lacks one in
//! a set is left out, and told. An effect is a ratio, which may grow because its denominator fell: it is never a
//! regression, and Otava knows no metric without a better direction, so effects are columns and no metrics.
//!
//! A column of figures has no room for a mark. So a column of text names the cells of a set that something other than the
//! adapter limited: their figures, and the effects between them, are those of that machine.

use std::fmt::Write as _;

use linkrate_study::quantity::{Measure, Unit};
use linkrate_study::trend::{Series, StudyTrend, Subject};

use crate::csv::no_formula;
use crate::flent::iso;
use crate::{ReportError, words};

/// The column of the times.
const TIME: &str = "time";

/// A column of text: its name and where it comes from.
type Attribute = (&'static str, fn(&StudyTrend, usize) -> String);

const ATTRIBUTES: [Attribute; 5] = [
    ("results", |trend, at| trend.sets[at].summary.results.clone()),
    ("linkrate_version", |trend, at| trend.sets[at].summary.linkrate_version.clone()),
    ("kernel", |trend, at| trend.sets[at].summary.facts.get("kernel").cloned().unwrap_or_default()),
    ("changed_conditions", |trend, at| {
        trend.sets[at].changed.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(" ")
    }),
    ("host_limited", host_limited),
];

/// The cells of a set that something other than the adapter limited, as in the names of columns; `all` for the only one.
fn host_limited(trend: &StudyTrend, at: usize) -> String {
    let is_of_host = |series: &&Series| series.host_limited[at] == Some(true);
    let mut cells = Vec::new();
    for series in trend.cells.iter().filter(is_of_host) {
        let Subject::Cell { levels } = &series.subject else { continue };
        let cell = match levels.0.is_empty() {
            true => "all".to_owned(),
            false => one_word(&words::assignments(levels)),
        };
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    cells.join(" ")
}

/// What Otava reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Otava {
    /// The table.
    pub csv: Vec<u8>,
    /// Series that lack a figure in a set, by the names that their columns would have.
    pub left_out: Vec<String>,
    /// Columns that Otava looks at.
    metrics: Vec<(String, Measure)>,
}

impl Otava {
    pub fn new(trend: &StudyTrend) -> Result<Self, ReportError> {
        let (whole, lacking): (Vec<&Series>, Vec<&Series>) =
            trend.series().partition(|series| series.points.iter().all(Option::is_some));
        let mut writer = csv::Writer::from_writer(Vec::new());
        let attributes = ATTRIBUTES.map(|(name, _)| name.to_owned());
        let metrics: Vec<String> = whole.iter().map(|series| column(series)).collect();
        let header = [TIME.to_owned()].into_iter().chain(attributes).chain(metrics.clone());
        writer.write_record(header.map(no_formula))?;
        for (at, set) in trend.sets.iter().enumerate() {
            let attributes = ATTRIBUTES.map(|(_, of)| of(trend, at));
            let figures = whole.iter().filter_map(|series| series.points[at]);
            let figures = figures.map(|figure| figure.interval.mean.to_string());
            let time = [iso(set.summary.started_unix_ms)].into_iter();
            writer.write_record(time.chain(attributes).chain(figures).map(no_formula))?;
        }
        let csv =
            writer.into_inner().map_err(|error| ReportError::Csv(error.into_error().into()))?;
        let metrics =
            whole.iter().zip(metrics).filter_map(|(series, name)| match &series.subject {
                Subject::Cell { .. } => Some((name, series.measure)),
                Subject::Effect { .. } => None,
            });
        Ok(Self {
            csv,
            left_out: lacking.into_iter().map(column).collect(),
            metrics: metrics.collect(),
        })
    }

    /// The configuration for a table in `file`, with the study as the name of the test: YAML.
    pub fn configuration(&self, study: &str, file: &str) -> String {
        let attributes = ATTRIBUTES.map(|(name, _)| name).join(", ");
        let mut text = format!(
            "tests:\n  {}:\n    type: csv\n    file: {}\n    time_column: {TIME}\n    attributes: \
             [{attributes}]\n    metrics:\n",
            quoted(study),
            quoted(file)
        );
        for (name, measure) in &self.metrics {
            let direction = if measure.more_is_better() { 1 } else { -1 };
            // writing to a String does not fail
            _ = writeln!(text, "      {}: {{direction: {direction}}}", quoted(name));
        }
        text
    }
}

/// Text as YAML has it, of which JSON is a part.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The name of a column: `service_demand_us_per_kb:offload=tso:direction=transmit`.
fn column(series: &Series) -> String {
    let unit = match series.unit {
        Unit::BitsPerSecond => "_bit_per_s",
        Unit::MicrosecondsPerKb => "_us_per_kb",
        Unit::MicrosecondsPerTransaction => "_us_per_transaction",
        // the name of the measure is before it
        Unit::TransactionsPerSecond => "_per_s",
        Unit::TransfersPerSecond => "_transfers_per_s",
        Unit::FilesPerSecond => "_files_per_s",
        Unit::Percent => "_percent",
        Unit::Nanoseconds => "_ns",
        Unit::Frames => "_frames",
        Unit::Bytes => "_bytes",
        Unit::Ratio => "",
    };
    let measure = format!("{}{unit}", words::key(series.measure));
    let parts = match &series.subject {
        Subject::Cell { levels } => vec![measure, words::assignments(levels)],
        Subject::Effect { factor, from, to, at } => vec![
            format!("effect_on_{measure}"),
            format!("{factor}={}..{}", words::plain(from), words::plain(to)),
            words::assignments(at),
        ],
    };
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    one_word(&parts.collect::<Vec<_>>().join(":"))
}

/// The same without blanks.
fn one_word(text: &str) -> String {
    text.replace(' ', ":")
}
