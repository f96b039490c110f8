//! Steps, their outcomes, and the table at the end.

use std::fmt::{self, Write as _};
use std::io;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use crate::last_run;

/// A check that the summary names: one that was skipped, so that the run does not look complete
/// without it, or one that passed only when it was repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub name: String,
    /// Why it was skipped, and what would let it run; or how it failed the first time.
    pub reason: String,
}

/// The shortest part of a step that is listed with its time.
const NOTEWORTHY: Duration = Duration::from_millis(500);

/// A part of a step, and the time that it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Took {
    /// A test, or a call of the compiler.
    pub name: String,
    pub time: Duration,
}

/// What one step gave.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Checks or tests that passed.
    pub passed: u64,
    /// Checks or tests that failed.
    pub failed: u64,
    /// Those that did not run.
    pub skipped: Vec<Note>,
    /// Those that passed only when they were repeated. They count as passed.
    pub repeated: Vec<Note>,
    /// How long each part of the step took, where it has parts.
    pub times: Vec<Took>,
    /// A short remark for the table.
    pub remark: String,
    /// What to show when something failed.
    pub output: String,
}

impl Outcome {
    /// One check that passed.
    pub fn passed() -> Self {
        Self { passed: 1, ..Self::default() }
    }

    /// One failed check and its output.
    pub fn failed(output: impl Into<String>) -> Self {
        Self { failed: 1, output: output.into(), ..Self::default() }
    }

    /// One check that did not run.
    pub fn skipped(name: impl Into<String>, reason: impl Into<String>) -> Self {
        let skip = Note { name: name.into(), reason: reason.into() };
        Self { skipped: vec![skip], ..Self::default() }
    }

    /// The same with a remark.
    pub fn remark(self, remark: impl Into<String>) -> Self {
        Self { remark: remark.into(), ..self }
    }

    fn word(&self) -> &'static str {
        match self {
            Self { failed: 1.., .. } => "FAILED",
            Self { passed: 0, skipped, .. } if !skipped.is_empty() => "skipped",
            _ => "ok",
        }
    }
}

/// All steps of a task.
#[derive(Debug, Default)]
pub struct Summary {
    rows: Vec<Row>,
    /// Whether the parts of steps are listed too, with their times.
    pub with_times: bool,
    /// Whether the steps run beside others, whose lines theirs would come between: they are told at the end.
    silent: bool,
}

#[derive(Debug)]
struct Row {
    name: String,
    outcome: Outcome,
    took: Duration,
}

impl Row {
    /// Lists the parts of the step, the longest first. What takes next to no time is left out.
    fn parts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<&Took> = self.outcome.times.iter().collect();
        if parts.is_empty() {
            return Ok(());
        }
        parts.sort_by_key(|part| std::cmp::Reverse(part.time));
        let sum: f64 = parts.iter().map(|part| part.time.as_secs_f64()).sum();
        writeln!(f, "\n{}: {} parts, {sum:.1} s together", self.name, parts.len())?;
        for part in parts.iter().take_while(|part| part.time >= NOTEWORTHY) {
            writeln!(f, "  {:6.1} s  {}", part.time.as_secs_f64(), part.name)?;
        }
        Ok(())
    }
}

impl Summary {
    /// Runs one step and tells how it went. What a failing step said is shown in full; a step
    /// that could not even be started has failed.
    pub fn step(&mut self, name: &str, step: impl FnOnce() -> io::Result<Outcome>) {
        self.begin(name);
        let (outcome, took) = timed(step);
        self.tell(name, outcome, took);
    }

    /// Runs a step of this kind for each of `names`, as many at a time as there are CPUs, and tells in
    /// their order how each went.
    pub fn steps<F>(&mut self, kind: &str, names: &[String], step: F)
    where
        F: Fn(&str) -> io::Result<Outcome> + Sync,
    {
        self.begin(&format!("{kind} {}", names.join(", ")));
        let workers = available_parallelism().map_or(1, NonZero::get).min(names.len());
        let next = AtomicUsize::new(0);
        let (sender, results) = channel();
        thread::scope(|scope| {
            for _ in 0..workers {
                let (sender, step, next) = (sender.clone(), &step, &next);
                scope.spawn(move || {
                    while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let (outcome, took) = timed(|| step(name));
                        // the receiver outlives this scope
                        _ = sender.send((name, outcome, took));
                    }
                });
            }
        });
        drop(sender);
        let mut all: Vec<(&String, Outcome, Duration)> = results.into_iter().collect();
        all.sort_by_key(|(name, ..)| names.iter().position(|other| other == *name));
        for (name, outcome, took) in all {
            self.tell(&format!("{kind} {name}"), outcome, took);
        }
    }

    /// Runs the steps of `others` beside those of `meanwhile`, and tells at the end how they went.
    pub fn beside(
        &mut self,
        others: impl FnOnce(&mut Self) + Send,
        meanwhile: impl FnOnce(&mut Self),
    ) {
        let rows = thread::scope(|scope| {
            let others = scope.spawn(|| {
                let mut summary = Self { silent: true, ..Self::default() };
                others(&mut summary);
                summary.rows
            });
            meanwhile(self);
            others.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        for row in rows {
            self.tell(&row.name, row.outcome, row.took);
        }
    }

    /// Writes into the page of exhaustive runs how `part` went: all steps whose first word this is.
    pub fn record(&mut self, part: &str, first: &str) {
        let is_its = |row: &&Row| row.name.split(' ').next() == Some(first);
        let result = result(self.rows.iter().filter(is_its));
        if let Err(error) = last_run::write(part, &result) {
            let outcome = Outcome::failed(format!("error: {error}\n"));
            self.tell("record", outcome, Duration::ZERO);
        }
    }

    fn begin(&self, name: &str) {
        println!("== {name}{}", if self.silent { ", beside what follows" } else { "" });
    }

    fn tell(&mut self, name: &str, outcome: Outcome, took: Duration) {
        if !self.silent {
            if outcome.failed > 0 {
                println!("{}", outcome.output.trim_end());
            }
            println!("   {name}: {}, {:.1} s", outcome.word(), took.as_secs_f64());
        }
        self.rows.push(Row { name: name.to_owned(), outcome, took });
    }

    /// Whether any step has failed.
    pub fn has_failed(&self) -> bool {
        self.totals().1 > 0
    }

    /// Prints the table. Fails if any step did, or if nothing ran at all.
    pub fn finish(self) -> ExitCode {
        print!("\n{self}");
        let (passed, ..) = self.totals();
        if self.has_failed() || passed == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// Passed, failed and skipped.
    fn totals(&self) -> (u64, u64, usize) {
        self.rows.iter().fold((0, 0, 0), |(passed, failed, skipped), Row { outcome, .. }| {
            (passed + outcome.passed, failed + outcome.failed, skipped + outcome.skipped.len())
        })
    }
}

/// How these steps went, in one line.
fn result<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let [mut passed, mut failed] = [0; 2];
    let (mut seconds, mut notes) = (0.0, Vec::new());
    for Row { name, outcome, took } in rows {
        passed += outcome.passed;
        failed += outcome.failed;
        seconds += took.as_secs_f64();
        if outcome.failed > 0 {
            notes.push(format!("{name} failed"));
        }
        notes.extend(outcome.skipped.iter().map(|note| format!("{} skipped", note.name)));
        notes.extend(outcome.repeated.iter().map(|note| format!("{} repeated", note.name)));
        // each fuzz target remarks how much it tried
        if !outcome.remark.is_empty() && !name.starts_with("fuzz ") {
            notes.push(outcome.remark.clone());
        }
    }
    let notes = if notes.is_empty() { String::new() } else { format!("; {}", notes.join("; ")) };
    format!("{passed} passed, {failed} failed, {seconds:.0} s of steps{notes}")
}

/// The outcome of a step, and the time that it took.
fn timed(step: impl FnOnce() -> io::Result<Outcome>) -> (Outcome, Duration) {
    let started = Instant::now();
    let outcome = step().unwrap_or_else(|error| Outcome::failed(format!("error: {error}\n")));
    (outcome, started.elapsed())
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(4);
        writeln!(f, "{:width$}  {:7}  {:>8}", "step", "result", "time")?;
        for Row { name, outcome, took } in &self.rows {
            let mut remarks = String::new();
            let Outcome { passed, failed, skipped, .. } = outcome;
            if passed + failed > 1 {
                write!(remarks, "{passed} passed, {failed} failed, {} skipped", skipped.len())?;
            }
            if !outcome.remark.is_empty() {
                let comma = if remarks.is_empty() { "" } else { "; " };
                write!(remarks, "{comma}{}", outcome.remark)?;
            }
            let (word, seconds) = (outcome.word(), took.as_secs_f64());
            let line = format!("{name:width$}  {word:7}  {seconds:6.1} s  {remarks}");
            writeln!(f, "{}", line.trim_end())?;
        }
        let outcomes = || self.rows.iter().map(|row| &row.outcome);
        let skipped: Vec<&Note> = outcomes().flat_map(|outcome| &outcome.skipped).collect();
        let repeated: Vec<&Note> = outcomes().flat_map(|outcome| &outcome.repeated).collect();
        for (title, notes) in [("skipped", skipped), ("passed when repeated", repeated)] {
            if !notes.is_empty() {
                writeln!(f, "\n{title}:")?;
            }
            for Note { name, reason } in notes {
                writeln!(f, "  {name}: {reason}")?;
            }
        }
        if self.with_times {
            self.rows.iter().try_for_each(|row| row.parts(f))?;
        }
        let (passed, failed, skipped) = self.totals();
        writeln!(f, "\n{passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_everything() {
        let mut summary = Summary::default();
        summary.step("tests", || Ok(Outcome { passed: 7, failed: 1, ..Outcome::default() }));
        summary.step("format", || Ok(Outcome::passed().remark("2 files")));
        summary.step("manual", || Ok(Outcome::skipped("manual", "mdbook is not installed")));
        summary.step("absent", || Err(io::Error::other("no such program")));
        let text = summary.to_string();
        assert_eq!(text.lines().last(), Some("8 passed, 2 failed, 1 skipped"));
        assert!(text.contains("\n  manual: mdbook is not installed\n"), "{text}");
        let words: Vec<&str> = text
            .lines()
            .skip(1)
            .take(4)
            .map(|row| row.split_whitespace().nth(1).unwrap())
            .collect();
        assert_eq!(words, ["FAILED", "ok", "skipped", "FAILED"]);
    }

    #[test]
    fn steps_beside_each_other_keep_their_order() {
        let names: Vec<String> = (0..9).map(|number| number.to_string()).collect();
        let mut summary = Summary::default();
        summary.steps("target", &names, |name| match name {
            "0" => {
                thread::sleep(Duration::from_millis(30));
                Ok(Outcome::passed())
            }
            "4" => Err(io::Error::other("no such program")),
            _ => Ok(Outcome::passed()),
        });
        let text = summary.to_string();
        let rows: Vec<&str> = text.lines().skip(1).take(9).collect();
        for (row, name) in rows.iter().zip(&names) {
            assert!(row.starts_with(&format!("target {name}  ")), "{text}");
        }
        assert!(rows[4].contains("FAILED") && text.ends_with("8 passed, 1 failed, 0 skipped\n"));
    }

    #[test]
    fn a_step_beside_others_is_reported_behind_them() {
        let mut summary = Summary::default();
        let passes = |name: &'static str| {
            move |summary: &mut Summary| summary.step(name, || Ok(Outcome::passed()))
        };
        summary.beside(passes("peers"), passes("clippy"));
        let text = summary.to_string();
        let rows: Vec<&str> = text.lines().skip(1).take(2).collect();
        assert!(rows[0].starts_with("clippy ") && rows[1].starts_with("peers "), "{text}");
    }

    #[test]
    fn a_result_names_what_did_not_pass_at_once() {
        let note = |name: &str| Note { name: name.to_owned(), reason: "?".to_owned() };
        let outcome = Outcome {
            passed: 7,
            failed: 1,
            skipped: vec![note("a")],
            repeated: vec![note("b")],
            remark: "odd".to_owned(),
            ..Outcome::default()
        };
        let row = |name: &str, outcome| Row {
            name: name.to_owned(),
            outcome,
            took: Duration::from_secs(2),
        };
        let rows = [row("tests", outcome), row("tests alone", Outcome::passed())];
        let expected = "8 passed, 1 failed, 4 s of steps; tests failed; a skipped; b repeated; odd";
        assert_eq!(result(rows.iter()), expected);
    }

    #[test]
    fn times_are_listed_when_they_are_asked_for() {
        let took = |name: &str, seconds| Took {
            name: name.to_owned(),
            time: Duration::from_secs(seconds),
        };
        let times = vec![took("short", 0), took("one", 1), took("three", 3)];
        let outcome = Outcome { times, ..Outcome::passed() };
        let mut summary = Summary::default();
        summary.step("tests", || Ok(outcome));
        assert!(!summary.to_string().contains("three"));
        summary.with_times = true;
        let text = summary.to_string();
        let expected =
            "\ntests: 3 parts, 4.0 s together\n     3.0 s  three\n     1.0 s  one\n\n1 passed";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_task_that_checked_nothing_fails() {
        let mut summary = Summary::default();
        summary.step("manual", || Ok(Outcome::skipped("manual", "mdbook is not installed")));
        assert_eq!(summary.finish(), ExitCode::FAILURE);
    }
}
