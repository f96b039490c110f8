//! Progress on stderr, when it is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that counts runs of equal length.
#[derive(Debug)]
pub struct RunBar(ProgressBar);

impl RunBar {
    /// A bar for `runs` runs of about `each`.
    pub fn new(runs: u64, each: Duration) -> Self {
        let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr());
        bar.set_style(style("run {pos} of {len} [{bar:30}] {elapsed} of about {msg}"));
        let total = each * u32::try_from(runs).unwrap_or(u32::MAX);
        bar.set_message(linkrate_terms::units::format_duration(total));
        bar.tick();
        Self(bar)
    }

    /// One run is done.
    pub fn step(&self) {
        self.0.inc(1);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
