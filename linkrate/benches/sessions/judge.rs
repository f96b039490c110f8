//! The arithmetic of sessions: how often the mean of one lies outside the interval of another, and how much more they
//! differ than their runs explain. A test of its own has it too, because the benchmark takes minutes.

use std::collections::BTreeMap;
use std::fmt;

use linkrate_stats::sample::Sample;
use linkrate_stats::student_t;
use serde_json::Value;

/// The spread between sessions, in times of what the runs within them explain, from which the intervals of a
/// session say too little of the next one. 1.23 was measured on a quiet machine. Of 60 means it scatters by
/// chance, and sessions on a busy machine differ more.
pub const MAX_BETWEEN: f64 = 2.0;

/// One figure of one session.
#[derive(Debug, Clone, Copy)]
struct Figure {
    mean: f64,
    low: f64,
    high: f64,
    /// Runs, or pairs of them.
    runs: f64,
    /// Level of the interval.
    level: f64,
}

/// One figure over all sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its name: `tso throughput`.
    pub name: String,
    /// The mean of the sessions.
    pub mean: f64,
    /// The standard deviation of their means, over the mean.
    pub between: f64,
    /// The standard error that the runs within a session explain, over the mean.
    pub within: f64,
    /// Means outside the interval of another session.
    pub outside: usize,
    /// How many of them chance explains.
    pub expected: f64,
    /// Comparisons of a mean with the interval of another session.
    pub compared: usize,
}

/// All figures of several sessions of one study.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// In the order of their names.
    pub rows: Vec<Row>,
}

impl Judgement {
    /// Judges the results of sessions. Fails for a document without results, and a figure without an interval.
    pub fn of(documents: &[Value]) -> Result<Self, String> {
        let mut by_name: BTreeMap<String, Vec<Figure>> = BTreeMap::new();
        for document in documents {
            for (name, figure) in figures(document)? {
                by_name.entry(name).or_default().push(figure);
            }
        }
        let rows = by_name.into_iter().map(|(name, figures)| Row::of(name, &figures));
        Ok(Self { rows: rows.collect::<Result<_, _>>()? })
    }

    /// The spread between the sessions, in times of what their runs explain; not a number without two sessions.
    pub fn spread(&self) -> f64 {
        let sum =
            |pick: fn(&Row) -> f64| self.rows.iter().map(|row| pick(row).powi(2)).sum::<f64>();
        (sum(|row| row.between) / sum(|row| row.within)).sqrt()
    }

    /// Whether intervals cover what changes from session to session; an undefined spread is no pass either.
    pub fn check(&self) -> Result<(), String> {
        let spread = self.spread();
        if spread <= MAX_BETWEEN {
            return Ok(());
        }
        Err(format!(
            "the spread between sessions is {spread:.2} times what runs within them explain, expected at \
             most {MAX_BETWEEN}: intervals do not cover what changes from session to session"
        ))
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:44} {:>11} {:>9} {:>9} {:>9} {:>9}",
            "", "mean", "between %", "within %", "outside", "expected"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:44} {:>11.4} {:>9.2} {:>9.2} {:>9} {:>9.1}",
                row.name,
                row.mean,
                row.between * 100.0,
                row.within * 100.0,
                row.outside,
                row.expected
            )?;
        }
        let outside: usize = self.rows.iter().map(|row| row.outside).sum();
        let compared: usize = self.rows.iter().map(|row| row.compared).sum();
        let expected: f64 = self.rows.iter().map(|row| row.expected).sum();
        write!(
            f,
            "{outside} of {compared} means outside the interval of another session, {expected:.1} expected; \
             spread between sessions {:.2} times what runs within them explain",
            self.spread()
        )
    }
}

impl Row {
    fn of(name: String, figures: &[Figure]) -> Result<Self, String> {
        let means: Vec<f64> = figures.iter().map(|figure| figure.mean).collect();
        let sample = Sample::of(&means).ok_or("no session has the figure")?;
        let within = figures.iter().map(|figure| figure.standard_error().powi(2)).sum::<f64>();
        let (mut outside, mut expected) = (0, 0.0);
        for (i, of) in figures.iter().enumerate() {
            for (_, other) in figures.iter().enumerate().filter(|(j, _)| *j != i) {
                outside += usize::from(other.mean < of.low || other.mean > of.high);
                expected += of.expected_outside();
            }
        }
        Ok(Self {
            name,
            mean: sample.mean(),
            between: sample.variance().unwrap_or(0.0).sqrt() / sample.mean(),
            within: (within / figures.len() as f64).sqrt() / sample.mean(),
            outside,
            expected,
            compared: figures.len() * figures.len().saturating_sub(1),
        })
    }
}

impl Figure {
    fn new(quantity: &Value, runs: &Value, level: &Value) -> Result<Self, String> {
        let number =
            |value: &Value| value.as_f64().ok_or_else(|| format!("no number in {quantity}"));
        Ok(Self {
            mean: number(&quantity["mean"])?,
            low: number(&quantity["low"])?,
            high: number(&quantity["high"])?,
            runs: number(runs)?,
            level: number(level)?,
        })
    }

    fn critical(&self) -> f64 {
        student_t::critical_value(self.level, self.runs - 1.0)
    }

    /// Of the mean, from the interval.
    fn standard_error(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.critical()
    }

    /// The probability that the mean of a second, equal session is outside the interval. The
    /// difference of two means varies by the square root of two more than one of them.
    fn expected_outside(&self) -> f64 {
        student_t::two_sided_tail(self.critical() / 2f64.sqrt(), self.runs - 1.0)
    }
}

/// The figures of a session by name: each cell's, and the effects.
fn figures(document: &Value) -> Result<Vec<(String, Figure)>, String> {
    let array = |value: &Value| {
        value.as_array().cloned().ok_or_else(|| "results without an array".to_owned())
    };
    let mut figures = Vec::new();
    for cell in array(&document["cells"])? {
        for measure in ["throughput", "service_demand"] {
            let name = format!("{} {measure}", cell["levels"]["offload"].as_str().unwrap_or("?"));
            let level = &document["interval_confidence"];
            figures.push((name, Figure::new(&cell[measure], &cell["runs"], level)?));
        }
    }
    for effect in array(&document["effects"])? {
        let word = |key: &str| effect[key].as_str().unwrap_or("?").to_owned();
        let name = format!("{} to {}, {}", word("from"), word("to"), word("measure"));
        let level = &document["effect_interval_confidence"];
        figures.push((name, Figure::new(&effect["ratio"], &effect["pairs"], level)?));
    }
    Ok(figures)
}
