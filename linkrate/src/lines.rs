//! Lines of a server to stdout, or to a file, that never hold up a session: what is not read is dropped and counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkrate_sys::stderr;

/// Lines that may wait for their reader.
const MAX_LINES: usize = 1024;
/// How long the last lines may take at the end.
const LAST: Duration = Duration::from_millis(500);
/// How often the end looks for that.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Where lines are handed in.
#[derive(Debug)]
pub struct Lines {
    sender: Mutex<Option<SyncSender<String>>>,
    lost: Arc<AtomicU64>,
    writer: JoinHandle<()>,
}

impl Lines {
    /// `write` writes each line, in a thread of its own.
    pub fn new(write: impl Fn(&str) + Send + 'static) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel::<String>(MAX_LINES);
        let lost = Arc::<AtomicU64>::default();
        let theirs = Arc::clone(&lost);
        let body = move || {
            for line in receiver {
                write(&line);
                warn(&theirs);
            }
        };
        // it is left behind where nobody reads
        let writer = std::thread::Builder::new().name("lines".to_owned()).spawn(body)?;
        Ok(Self { sender: Mutex::new(Some(sender)), lost, writer })
    }

    /// Hands in a line.
    pub fn add(&self, line: String) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.as_ref().is_some_and(|sender| sender.try_send(line).is_err()) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines are written, for a moment.
    pub fn end(self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        let deadline = Instant::now() + LAST;
        while !self.writer.is_finished() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
        if !self.writer.is_finished() {
            stderr::line("warning: the last lines are lost: no program reads them");
        }
        warn(&self.lost);
    }
}

fn warn(lost: &AtomicU64) {
    let lost = lost.swap(0, Ordering::Relaxed);
    if lost > 0 {
        stderr::line(format_args!("warning: {lost} lines are lost: they were not read in time"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn lines_that_nobody_reads_hold_up_nothing() {
        let begun = Instant::now();
        let lines = Lines::new(|_| std::thread::park()).unwrap();
        for number in 0..10 * MAX_LINES {
            lines.add(format!("{number}\n"));
        }
        assert!(lines.lost.load(Ordering::Relaxed) >= 9 * MAX_LINES as u64 - 1);
        lines.end();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }

    #[test]
    fn all_lines_that_are_read_arrive() {
        let (sender, receiver) = channel();
        let lines = Lines::new(move |line| drop(sender.send(line.to_owned()))).unwrap();
        for number in 0..100 {
            lines.add(number.to_string());
        }
        lines.end();
        let all: Vec<String> = receiver.iter().collect();
        assert_eq!(all, (0..100).map(|number| number.to_string()).collect::<Vec<_>>());
    }
}
