//! Progress on stderr, when it is a terminal; otherwise silence.

mod terminal;

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use linkrate_stats::stop::{Decision, Wanting};
use linkrate_study::names;
use linkrate_study::runner::{Event, Observer, Remaining};
use linkrate_sys::tell;
use linkrate_terms::units::format_duration;

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
}

impl StudyProgress {
    /// A bar on stderr.
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(1), terminal::draw_target());
        bar.set_style(style("[{bar:24}] {elapsed} {prefix} {wide_msg}"));
        Self { bar, precision: 0.0, widest: String::new() }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn show_time(&self, remaining: Remaining) {
        let spent = self.bar.elapsed();
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
                for fact in changed_facts {
                    self.bar.suspend(|| tell::line(format_args!("warning: {fact}")));
                }
                self.show_time(*remaining);
                self.bar.enable_steady_tick(TICK);
            }
            Event::RunStarted { block, position, of, cell, levels, pair, .. } => {
                let what = match cell {
                    Some(_) => names::cell(levels),
                    None => "idle".to_owned(),
                };
                let what = match pair {
                    Some((sender, receiver)) => format!("{sender} to {receiver}, {what}"),
                    None => what,
                };
                self.bar.set_message(format!(
                    "block {}, run {} of {of}: {what}{}",
                    block + 1,
                    position + 1,
                    self.widest
                ));
            }
            Event::RunEnded { run, remaining, .. } => {
                if let Some(failure) = run.failure() {
                    // said at once: a failure in every block is best seen in the first
                    self.bar.suspend(|| tell::line(format_args!("warning: run failed: {failure}")));
                }
                self.show_time(*remaining);
            }
            Event::BlockEnded { decision, remaining, .. } => {
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

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn whole_seconds(duration: Duration) -> String {
    format_duration(Duration::from_secs(duration.as_secs_f64().round() as u64).max(TICK))
}
