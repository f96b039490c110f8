//! Whether intervals cover what changes from session to session: a small study, five times with a
//! fresh lab in a process of its own, and how often the mean of one session lies outside the
//! interval of another one. Run by `cargo xtask bench`.
//!
//! `cargo bench -p linkrate --bench sessions -- DIR COUNT` keeps the sessions in `DIR`, adds `COUNT`
//! of them at most, and judges all that are there: five sessions in several pieces, or on several
//! days.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linkrate_study::stats::sample::Sample;
use linkrate_study::stats::student_t;
use serde_json::Value;

use common::Failed;

/// Sessions.
const SESSIONS: usize = 5;

/// The spread between sessions, in times of what the runs within them explain, from which the intervals of a
/// session say too little of the next one. 1.23 was measured on a quiet machine. Of 60 means it scatters by
/// chance, and sessions on a busy machine differ more.
const MOST_BETWEEN: f64 = 2.0;

const STUDY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/sessions.toml");

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

fn main() -> Result<(), Failed> {
    if !common::can_run("sessions", &[]) {
        return Ok(());
    }
    let temporary;
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let folder = match arguments.next() {
        Some(folder) => PathBuf::from(folder),
        None => {
            temporary = tempfile::tempdir()?;
            temporary.path().to_path_buf()
        }
    };
    let more = arguments.next().map_or(Ok(SESSIONS), |count| count.parse::<usize>())?;
    fs::create_dir_all(&folder)?;
    let there = stored(&folder)?.len();
    for number in there..SESSIONS.min(there + more) {
        session(&folder.join(format!("session-{number}")))?;
    }
    let documents = stored(&folder)?;
    println!("{} sessions of {STUDY}", documents.len());
    if documents.len() < 2 {
        return Ok(());
    }
    judge(&documents)
}

/// Runs the study in a process of its own, which builds its own lab.
fn session(directory: &Path) -> Result<(), Failed> {
    let status = Command::new(env!("CARGO_BIN_EXE_linkrate"))
        .args(["study", "run", STUDY, "--output"])
        .arg(directory)
        .stdout(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(format!("the study ended with {status}").into()) }
}

/// The documents of the sessions in `folder`, in their order.
fn stored(folder: &Path) -> Result<Vec<Value>, Failed> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path().join("results.json")))
        .filter(|path| path.exists())
        .collect();
    paths.sort();
    paths.iter().map(|path| Ok(serde_json::from_slice(&fs::read(path)?)?)).collect()
}

/// Prints each figure, and how many of the comparisons of all found a mean outside. An error if the sessions
/// differ much more than their runs explain.
fn judge(documents: &[Value]) -> Result<(), Failed> {
    let mut by_name: BTreeMap<String, Vec<Figure>> = BTreeMap::new();
    for document in documents {
        for (name, figure) in figures(document)? {
            by_name.entry(name).or_default().push(figure);
        }
    }
    println!(
        "{:44} {:>11} {:>9} {:>9} {:>9} {:>9}",
        "", "mean", "between %", "within %", "outside", "expected"
    );
    let (mut outside_all, mut expected_all, mut compared_all) = (0, 0.0, 0);
    let (mut between_all, mut within_all) = (0.0, 0.0);
    for (name, figures) in &by_name {
        let means: Vec<f64> = figures.iter().map(|figure| figure.mean).collect();
        let sample = Sample::of(&means).ok_or("no session has the figure")?;
        let between = sample.variance().unwrap_or(0.0).sqrt() / sample.mean();
        let within = figures.iter().map(|figure| figure.standard_error().powi(2)).sum::<f64>();
        let within = (within / figures.len() as f64).sqrt() / sample.mean();
        let mut outside = 0;
        let mut expected = 0.0;
        for (i, of) in figures.iter().enumerate() {
            for (j, other) in figures.iter().enumerate() {
                if i != j {
                    outside += usize::from(other.mean < of.low || other.mean > of.high);
                    expected += of.expected_outside();
                }
            }
        }
        println!(
            "{name:44} {:>11.4} {:>9.2} {:>9.2} {outside:>9} {expected:>9.1}",
            sample.mean(),
            between * 100.0,
            within * 100.0
        );
        (outside_all, expected_all) = (outside_all + outside, expected_all + expected);
        compared_all += figures.len() * (figures.len() - 1);
        (between_all, within_all) = (between_all + between.powi(2), within_all + within.powi(2));
    }
    let spread = (between_all / within_all).sqrt();
    println!(
        "{outside_all} of {compared_all} means outside the interval of another session, {expected_all:.1} expected; \
         spread between sessions {spread:.2} times what runs within them explain"
    );
    // an undefined spread is no pass either
    if spread.is_nan() || spread > MOST_BETWEEN {
        return Err(format!(
            "the spread between sessions is {spread:.2} times what runs within them explain, expected at \
             most {MOST_BETWEEN}: intervals do not cover what changes from session to session"
        )
        .into());
    }
    Ok(())
}

impl Figure {
    fn new(quantity: &Value, runs: &Value, level: &Value) -> Result<Self, Failed> {
        let number = |value: &Value| value.as_f64().ok_or(format!("no number in {quantity}"));
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
fn figures(document: &Value) -> Result<Vec<(String, Figure)>, Failed> {
    let array = |value: &Value| value.as_array().cloned().ok_or("results without an array");
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
