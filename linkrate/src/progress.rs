//! Progress on stderr: a bar on a terminal, else a line at the beginning and at each tenth.

mod terminal;

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use linkrate_report::number;
use linkrate_stats::stop::{Decision, StopInput, Wanting};
use linkrate_study::labels;
use linkrate_study::runner::{Event, Observer, Remaining};
use linkrate_sys::stderr;
use linkrate_terms::units::format_duration;

use crate::args::verbosity::VerbosityArgs;
use crate::wrap::wrap;

/// How often the clock on a bar moves while a run is under way. Drawing costs CPU time of the
/// clients, so not often.
const TICK: Duration = Duration::from_secs(1);

/// A study's progress: time spent of the time it is likely to take, and what runs now.
#[derive(Debug)]
pub struct StudyProgress {
    bar: ProgressBar,
    /// Half-width to reach, as a fraction.
    precision: f64,
    /// The widest figure after the last block, as a clause; empty without one.
    widest: String,
    /// The largest effect so far, as a clause; empty without one.
    effect: String,
    /// Tenths that have their line; `None` where there is a bar, or no one to read lines.
    tenths: Option<u32>,
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
        bar.set_style(style("[{bar:24}] {elapsed} {prefix} {wide_msg}"));
        Self {
            bar,
            precision: 0.0,
            widest: String::new(),
            effect: String::new(),
            tenths: None,
            running: String::new(),
            verbose: verbosity.verbose,
            failures: Vec::new(),
        }
    }

    /// The same, with lines where stderr is no terminal.
    pub fn with_lines(verbosity: VerbosityArgs) -> Self {
        let reads_lines = !io::stderr().is_terminal() && !verbosity.quiet;
        Self { tenths: reads_lines.then_some(0), ..Self::new(verbosity) }
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

    /// A line where another tenth of the time has passed.
    fn tell_tenth(&mut self, spent: Duration, remaining: Remaining) {
        let Some(reported) = self.tenths else { return };
        let all = (spent + remaining.likely).as_secs_f64();
        let tenths = if all > 0.0 { (spent.as_secs_f64() / all * 10.0) as u32 } else { 0 };
        if tenths > reported && tenths < 10 {
            self.tenths = Some(tenths);
            let left = whole_seconds(remaining.likely);
            stderr::line(format_args!("note: {} %, {left} left{}", tenths * 10, self.effect));
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
        self.tell_tenth(spent, remaining);
        self.bar.set_length(millis(spent + remaining.likely).max(1));
        self.bar.set_position(millis(spent));
        let most = if remaining.at_most > remaining.likely {
            format!(", at most {}", whole_seconds(remaining.at_most))
        } else {
            String::new()
        };
        self.bar.set_prefix(format!("{} left{most}", whole_seconds(remaining.likely)));
    }
}

impl Observer for StudyProgress {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::SessionStarted { study, changed_facts, remaining, .. } => {
                self.precision = study.method.precision;
                if self.tenths.is_some() {
                    let cells = linkrate_report::words::count(study.cells.len(), "cell");
                    let time = whole_seconds(remaining.likely);
                    stderr::line(format_args!("note: {}: {cells}, about {time}", study.name));
                }
                for fact in changed_facts {
                    self.say(&format!("warning: {fact}"));
                }
                self.show_time(*remaining);
                self.bar.enable_steady_tick(TICK);
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
                self.running = format!("block {}, run {} of {of}: {what}", block + 1, position + 1);
                self.bar.set_message(format!("{}{}{}", self.running, self.effect, self.widest));
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
                if let Decision::Continue(Wanting::Precision { name, half_width }) = decision {
                    let [now, asked] = [half_width, &self.precision].map(|width| width * 100.0);
                    self.widest = format!("; waits for {name}, ±{now:.1} % of ±{asked:.1} %");
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

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn whole_seconds(duration: Duration) -> String {
    format_duration(Duration::from_secs(duration.as_secs_f64().round() as u64).max(TICK))
}
