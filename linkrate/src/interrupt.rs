//! Ctrl-C, SIGTERM and SIGHUP: the first asks for a clean end, a second ends at once. A SIGHUP
//! that was ignored when the program began stays ignored.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// How often a wait looks for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The last of the signals that came; 0 before one.
static CAME: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// The exit code after a signal, 128 and its number, as shells have it. Without one, that of Ctrl-C.
pub fn exit_code() -> u8 {
    let came = CAME.get().map_or(0, |came| came.load(Ordering::Relaxed));
    let signal = if came == 0 { SIGINT } else { i32::try_from(came).unwrap_or(SIGINT) };
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Notes that a signal came, for the [exit code](exit_code).
pub fn note(signal: i32) -> io::Result<()> {
    let came = Arc::clone(CAME.get_or_init(Arc::default));
    flag::register_usize(signal, came, usize::try_from(signal).unwrap_or(0))?;
    Ok(())
}

/// A flag that the first of these signals sets. Agents see none of the terminal's signals: each
/// leads a session of its own, and lives until the controller has kept what it measured.
pub fn on_signal() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal == SIGHUP && is_ignored(SIGHUP) {
            continue;
        }
        // the order matters: the second signal finds the flag that the first has set
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))?;
        note(signal)?;
        flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// Whether the signal was ignored when this program began, as SIGHUP is under nohup(1). A handler
/// would undo that.
pub fn is_ignored(signal: i32) -> bool {
    // SigIgn is a mask in hexadecimal with signal 1 as its lowest bit, proc_pid_status(5); without
    // /proc every signal is handled
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).ok().and_then(|bit| mask.checked_shr(bit)).unwrap_or(0) & 1 == 1
}

/// Waits. False when the user wants to stop before.
pub fn sleep_until(deadline: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(POLL_INTERVAL));
    }
}

#[cfg(test)]
mod tests {
    use signal_hook::consts::{SIGHUP, SIGPIPE};

    use super::*;

    #[test]
    fn a_rust_program_ignores_sigpipe_and_not_sighup() {
        assert!(is_ignored(SIGPIPE));
        assert_eq!((is_ignored(SIGHUP), is_ignored(0), is_ignored(200)), (false, false, false));
    }
}
