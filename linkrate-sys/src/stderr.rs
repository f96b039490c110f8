//! Lines to the user, on standard error, which never fail and never block for long.
//!
//! `eprintln!` panics when standard error cannot be written to: it was closed, or its reader has
//! gone. In a `Drop` that ends the process before anything else is restored. It also blocks for as
//! long as nobody reads. So no crate of linkrate calls it; all call [`line()`]:
//!
//! [`line()`] adds the line break. Untrusted text may be part of the line: it is cleaned
//! ([`linkrate_model::clean`]).

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use linkrate_model::clean;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long a line waits for room, once. A line after one that found no room does not wait.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// PIPE_BUF of Linux (`include/uapi/linux/limits.h`): a pipe that polls writable takes so many
/// bytes without blocking.
const PIPE_BUF: usize = 4096;

/// Whether the last line was lost because nobody reads.
static UNREAD: AtomicBool = AtomicBool::new(false);

/// Writes a line to standard error. It is lost when standard error is closed, its reader has gone,
/// or nobody reads for [`TIMEOUT`]. The text may have several lines.
pub fn line(text: impl Display) {
    let text = text.to_string();
    let mut text = clean::lines(&text).into_owned();
    text.push('\n');
    raw(&text);
}

/// Whether [notes](note()) are left out.
static QUIET: AtomicBool = AtomicBool::new(false);

/// The notes so far.
static NOTES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Leaves out notes from now on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Writes a line that begins with `note:`, and each text once. With `--quiet` there are none.
pub fn note(text: impl Display) {
    let text = text.to_string();
    let mut notes = NOTES.lock().unwrap_or_else(PoisonError::into_inner);
    if !QUIET.load(Ordering::Relaxed) && notes.insert(text.clone()) {
        line(format_args!("note: {text}"));
    }
}

/// Writes text to standard error as it is, escape sequences included. It must not hold untrusted
/// text.
pub fn raw(text: &str) {
    let timeout = if UNREAD.load(Ordering::Relaxed) { Duration::ZERO } else { TIMEOUT };
    let written = write_within(io::stderr().as_fd(), text.as_bytes(), timeout);
    UNREAD.store(written == Written::NoRoom, Ordering::Relaxed);
}

/// What became of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    All,
    /// Nobody read in time.
    NoRoom,
    /// The descriptor takes no bytes any more.
    Refused,
}

/// Writes all bytes, or as many as find room within `timeout`.
fn write_within(to: BorrowedFd<'_>, mut bytes: &[u8], timeout: Duration) -> Written {
    let deadline = Instant::now() + timeout;
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&to, PollFlags::OUT)], Some(&timeout)) {
            Ok(0) => return Written::NoRoom,
            // a descriptor with an error is ready, and the write says which
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return Written::Refused,
        }
        match rustix::io::write(to, &bytes[..bytes.len().min(PIPE_BUF)]) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if Instant::now() < deadline => {}
            Err(Errno::AGAIN) => return Written::NoRoom,
            Err(_) => return Written::Refused,
        }
    }
    Written::All
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_text_arrives_whole() {
        let (mut reader, writer) = io::pipe().unwrap();
        let text = "x".repeat(10_000);
        assert_eq!(write_within(writer.as_fd(), text.as_bytes(), TIMEOUT), Written::All);
        drop(writer);
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, text);
    }

    #[test]
    fn a_reader_that_has_gone_is_no_failure() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(write_within(writer.as_fd(), b"warning", TIMEOUT), Written::Refused);
    }

    #[test]
    fn a_pipe_that_nobody_reads_does_not_block() {
        let (_reader, writer) = io::pipe().unwrap();
        let began = Instant::now();
        let text = vec![b'x'; 1 << 20];
        let timeout = Duration::from_millis(50);
        assert_eq!(write_within(writer.as_fd(), &text, timeout), Written::NoRoom);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
}
