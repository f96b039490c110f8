//! `watch`: the progress of a study that another process runs.

use std::fs;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use linkrate_interop::scrape::Endpoint;
use linkrate_report::{live_view, openmetrics};
use linkrate_study::progress::StudyProgress;
use linkrate_study::runner::{Clock, SystemClock};
use linkrate_study::store::{ENDED_FILE, RUNS_FILE, Store, StoredStudy};

use crate::args::study::WatchArgs;
use crate::commands::metrics;
use crate::exit::{Exit, Failure};
use crate::interrupt::{self, sleep_until};
use crate::output::quoted;
use crate::output::{REDRAW, print, terminal_size, terminal_style};

/// Time between two polls. Looking takes CPU time of the clients, and runs take seconds.
const INTERVAL: Duration = Duration::from_secs(1);

/// Watches a study until it ends, or Ctrl-C.
pub fn watch(arguments: &WatchArgs) -> Result<Exit, Failure> {
    let directory = &arguments.directory;
    let stop = interrupt::on_signal()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    let redraws = std::io::stdout().is_terminal() && !arguments.json;
    let (_, style) = terminal_style();
    let clock = SystemClock::start();
    let mut next = Instant::now();
    let page = Arc::new(Mutex::new(String::new()));
    let mut answers: Option<Endpoint> = None;
    let mut seen: Option<(State, StoredStudy)> = None;
    let mut reported = None;
    loop {
        // ask before reading: a process that ends in between has stored everything
        let runs_still = Store::is_running(directory);
        let state = State::of(directory);
        let stored = match seen.take() {
            // parse nothing twice, since parsing takes CPU time from the measurement
            Some((before, stored)) if before == state => stored,
            _ => Store::read(directory)?,
        };
        let look = StudyProgress::of(&stored, clock.unix_ms());
        let ended = look.ended.is_some();
        if arguments.metrics.metrics.is_some() {
            *page.lock().unwrap_or_else(PoisonError::into_inner) = openmetrics::progress(&look);
            if answers.is_none() {
                let page = Arc::clone(&page);
                let text = move || page.lock().unwrap_or_else(PoisonError::into_inner).clone();
                answers = metrics::answer(&arguments.metrics, |_| true, text)?;
            }
        }
        if redraws {
            print(&format!("{REDRAW}{}", live_view::screen(&look, terminal_size(), style)))?;
        } else if reported != Some((look.blocks, ended)) {
            let tell = if arguments.json { live_view::document } else { live_view::line };
            print(&tell(&look))?;
            reported = Some((look.blocks, ended));
        }
        if ended {
            return Ok(Exit::Success);
        }
        if !runs_still? {
            let message = format!(
                "{}: no process runs this study, and it did not record why it ended",
                directory.display()
            );
            let hint = format!("linkrate resume {}", quoted(directory));
            return Err(Failure::new(Exit::Failure, message).with_hint(Some(hint)));
        }
        seen = Some((state, stored));
        next += INTERVAL;
        if !sleep_until(next, &stop) {
            return Ok(Exit::Success);
        }
    }
}

/// The state of the directory; a change means that there is something new to draw.
#[derive(PartialEq)]
struct State {
    bytes: Option<u64>,
    ended: bool,
}

impl State {
    fn of(directory: &Path) -> Self {
        Self {
            bytes: fs::symlink_metadata(directory.join(RUNS_FILE)).map(|file| file.len()).ok(),
            ended: fs::symlink_metadata(directory.join(ENDED_FILE)).is_ok(),
        }
    }
}
