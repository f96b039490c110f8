//! The standard error of a peer: messages of `ssh`, of a shell and of the agent there. Each line
//! reaches the terminal cleaned, cut, and with the name of the host. The number of lines is bounded.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkrate_protocol::cleaned;
use linkrate_sys::stderr;

/// The most lines of one peer. What follows is read and left out.
const MAX_LINES: usize = 100;

/// The most bytes of a line that are kept.
const LINE_BYTES: usize = 4096;

/// How long the last lines may take to arrive after the end of `ssh`. A master connection of `ssh`
/// that stays in the background keeps standard error open.
const TIMEOUT: Duration = Duration::from_millis(500);

/// How often a wait for them looks.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Stack of the thread that passes lines on, of which there is one for each peer.
const STACK: usize = 128 << 10;

/// The thread that reads lines, and passes them on once it is told to.
#[derive(Debug)]
pub(crate) struct StderrLines {
    reader: JoinHandle<()>,
    /// The lines that are held back; `None` once they are passed on.
    held: Arc<Mutex<Option<Vec<String>>>>,
}

impl StderrLines {
    /// Reads the lines from `heard` until its end, and holds them back.
    pub(crate) fn hold(host: &str, heard: impl Read + Send + 'static) -> io::Result<Self> {
        let host = host.to_owned();
        let held = Arc::new(Mutex::new(Some(Vec::new())));
        let kept = Arc::clone(&held);
        let read = move || {
            lines(heard, |line| {
                let line = format!("{host}: {line}");
                match &mut *kept.lock().unwrap_or_else(PoisonError::into_inner) {
                    Some(lines) => lines.push(line),
                    None => stderr::line(line),
                }
            });
        };
        let thread = std::thread::Builder::new().name("words".to_owned()).stack_size(STACK);
        Ok(Self { reader: thread.spawn(read)?, held })
    }

    /// Passes on what was held back, and all that comes.
    pub(crate) fn pass_on(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.take().into_iter().flatten().for_each(stderr::line);
    }

    /// Waits for the last lines of a peer that has ended.
    pub(crate) fn finish(self) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.reader.is_finished() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Calls `stderr` with each line that is not empty.
fn lines(mut from: impl Read, mut tell: impl FnMut(&str)) {
    let mut reported = 0;
    let mut end = |line: &mut Vec<u8>| {
        let text = cleaned(String::from_utf8_lossy(line).trim_end());
        line.clear();
        if text.is_empty() || reported > MAX_LINES {
            return;
        }
        reported += 1;
        match reported > MAX_LINES {
            true => tell("more lines are left out"),
            false => tell(&text),
        }
    };
    let (mut line, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let count = match from.read(&mut part) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for byte in &part[..count] {
            match byte {
                b'\n' => end(&mut line),
                byte if line.len() < LINE_BYTES => line.push(*byte),
                _ => {}
            }
        }
    }
    end(&mut line);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(bytes: &[u8]) -> Vec<String> {
        let mut reported = Vec::new();
        lines(bytes, |line| reported.push(line.to_owned()));
        reported
    }

    #[test]
    fn lines_are_cleaned_and_cut() {
        let bytes = b"\x1b[2Jred\r\n\n  \n\xff\x9b\xe2\x80\xae\nend";
        assert_eq!(reported(bytes), ["\u{fffd}[2Jred", "\u{fffd}\u{fffd}\u{fffd}", "end"]);
        let long = reported(&vec![b'x'; 1 << 20]);
        assert!(long.len() == 1 && long[0].chars().count() == 1024, "{}", long[0].len());
    }

    #[test]
    fn many_lines_are_read_to_the_end_and_left_out() {
        let reported = reported(&b"line\n".repeat(100_000));
        assert_eq!(reported.len(), MAX_LINES + 1);
        assert_eq!(reported[MAX_LINES], "more lines are left out");
    }
}
