//! Progress on stderr: a bar on a terminal, else a line at the beginning and at each tenth.

mod terminal;

use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use linkrate_model::units::format_duration;
use linkrate_report::number;
use linkrate_stats::stop::{Decision, StopInput, Wanting};
use linkrate_study::labels;
use linkrate_study::runner::{Event, Observer, Remaining};
use linkrate_sys::stderr;

use crate::args::VerbosityArgs;
use crate::output::wrap;

/// How often the clock on a bar moves while a run is under way. Drawing costs CPU time of the
/// clients, so not often.
const TICK: Duration = Duration::from_secs(1);

/// Draws a bar again and again until it is finished. Without a thread for it, at a limit, its time stands still between
/// runs.
fn keep_drawing(bar: &ProgressBar) {
    if bar.is_hidden() {
        return;
    }
    let bar = bar.downgrade();
    let draw = move || {
        while let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) {
            bar.tick();
            drop(bar);
            thread::sleep(TICK);
        }
    };
    let _ = thread::Builder::new().name("progress".to_owned()).spawn(draw);
}

/// A study's progress: time spent of the time it is likely to take, and what runs now.
#[derive(Debug)]
pub struct StudyProgress {
    bar: ProgressBar,
    /// The widest figure after the last block, as a clause; empty without one.
    widest: String,
    /// The largest effect so far, as a clause; empty without one.
    effect: String,
    /// When the last line was written; `None` where there is a bar, or no one to read lines.
    last_line: Option<Duration>,
    /// The share of the time that the bar shows. It never falls, also where a study turns out to take longer.
    share: f64,
    /// The run under way.
    running: String,
    /// Whether each run has a line.
    verbose: bool,
    /// Reasons of failed runs, each with the number of runs.
    failures: Vec<(String, u32)>,
}

impl StudyProgress {
    /// A bar on stderr, or nothing where `verbosity` is quiet.
    pub fn new(verbosity: VerbosityArgs) -> Self {
        let target = match verbosity.quiet {
            true => ProgressDrawTarget::hidden(),
            false => terminal::draw_target(),
        };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        bar.set_style(style("[{bar:24}] {elapsed}, {prefix}{msg}"));
        Self {
            bar,
            widest: String::new(),
            effect: String::new(),
            last_line: None,
            share: 0.0,
            running: String::new(),
            verbose: verbosity.verbose,
            failures: Vec::new(),
        }
    }

    /// The same, with lines where stderr is no terminal.
    pub fn with_lines(verbosity: VerbosityArgs) -> Self {
        let reads_lines = !io::stderr().is_terminal() && !verbosity.quiet;
        Self { last_line: reads_lines.then_some(Duration::ZERO), ..Self::new(verbosity) }
    }

    /// A line above the bar, broken between words where a terminal is narrower.
    fn say(&self, text: &str) {
        let width = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| size.ws_col);
        let lines = match width {
            0 => vec![text.to_owned()],
            width => wrap(text, usize::from(width)),
        };
        self.bar.suspend(|| lines.iter().for_each(stderr::line));
    }

    /// Says at once why a run failed, and each reason once: a failure in every block is best seen in the first.
    fn failed(&mut self, reason: String) {
        match self.failures.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, runs)) => *runs += 1,
            None => {
                self.say(&format!("warning: run failed: {reason}"));
                self.failures.push((reason, 1));
            }
        }
    }

    /// A line where another tenth of the time has passed since the last one.
    fn print_tenth(&mut self, spent: Duration, remaining: Remaining) {
        let Some(last) = self.last_line else { return };
        let all = spent + remaining.at_most;
        if (spent - last) * 10 >= all && !remaining.likely.is_zero() {
            self.last_line = Some(spent);
            let left = left(remaining);
            stderr::note(format_args!("{}, {left}{}", whole_seconds(spent), self.effect));
        }
    }

    /// Takes the bar away, and says how many runs failed for the reasons above.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
        let again: u32 = self.failures.iter().map(|(_, runs)| runs - 1).sum();
        if again > 0 {
            let runs = linkrate_report::words::count(again as usize, "more run");
            self.say(&format!("warning: {runs} failed for the same reason"));
        }
    }

    fn show_time(&mut self, remaining: Remaining) {
        let spent = self.bar.elapsed();
        self.print_tenth(spent, remaining);
        // a study that becomes precise sooner ends before its bar does
        let all = spent + remaining.at_most;
        self.share = self.share.max(spent.as_secs_f64() / all.as_secs_f64().max(0.001));
        self.bar.set_length(millis(all).max(1));
        self.bar.set_position(millis(all.mul_f64(self.share)));
        self.bar.set_prefix(left(remaining));
    }

    /// What runs, and what is found so far, each on a line of its own below the bar: beside it they would be cut.
    fn show_state(&self) {
        let width = usize::from(terminal::width());
        let lines = [&*self.running, &self.effect, &self.widest].into_iter();
        let lines = lines.map(|line| line.trim_start_matches("; ")).filter(|line| !line.is_empty());
        let cut = |line: &str| format!("\n{}", line.chars().take(width).collect::<String>());
        self.bar.set_message(lines.map(cut).collect::<String>());
    }
}

impl Observer for StudyProgress {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::SessionStarted { study, changed_facts, remaining, .. } => {
                if self.last_line.is_some() {
                    let cells = linkrate_report::words::count(study.cells.len(), "cell");
                    let time = whole_seconds(remaining.likely);
                    stderr::note(format_args!("{}: {cells}, about {time}", study.name));
                }
                for fact in changed_facts {
                    self.say(&format!("warning: {fact}"));
                }
                self.show_time(*remaining);
                keep_drawing(&self.bar);
            }
            Event::RunStarted { block, position, of, cell, levels, pair, .. } => {
                let what = match cell {
                    Some(_) => labels::cell(levels),
                    None => "idle".to_owned(),
                };
                let what = match pair {
                    Some((sender, receiver)) => format!("{sender} to {receiver}, {what}"),
                    None => what,
                };
                self.running = format!("block {}, {}/{of}: {what}", block + 1, position + 1);
                self.show_state();
            }
            Event::RunEnded { run, took, remaining } => {
                if self.verbose {
                    let took = format_duration(*took);
                    self.say(&format!("note: {}: {took}", self.running));
                }
                if let Some(failure) = run.failure() {
                    self.failed(failure.to_string());
                }
                self.show_time(*remaining);
            }
            Event::BlockEnded { decision, remaining, effects, .. } => {
                self.effect = largest_effect(effects).unwrap_or_default();
                if let Decision::Continue(Wanting::Precision { name, half_width, goal }) = decision
                {
                    let [now, asked] = [half_width, goal].map(|width| width * 100.0);
                    self.widest = format!("; waits for ±{asked:.1} %, now ±{now:.1} %: {name}");
                }
                self.show_time(*remaining);
            }
            Event::SessionEnded { .. } => {}
        }
    }
}

/// The largest effect with an interval so far: `; service demand of TSO over no offload −63 % (−70 to −55 %)`.
fn largest_effect(effects: &[StopInput]) -> Option<String> {
    let size = |one: &&StopInput| one.interval.mean.ln().abs();
    let known = effects.iter().filter(|one| one.interval.low.is_some());
    let largest = known.max_by(|a, b| size(a).total_cmp(&size(b)))?;
    let change = number::change(&largest.interval);
    Some(format!("; {} {} ({})", largest.name, change.mean, change.ends?))
}

/// `12 s left, at most 35 s`.
fn left(remaining: Remaining) -> String {
    let [likely, at_most] = [remaining.likely, remaining.at_most].map(whole_seconds);
    match remaining.at_most > remaining.likely {
        true => format!("{likely} left, at most {at_most}"),
        false => format!("{likely} left"),
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn whole_seconds(duration: Duration) -> String {
    format_duration(Duration::from_secs(duration.as_secs_f64().round() as u64).max(TICK))
}
