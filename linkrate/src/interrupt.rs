//! Ctrl-C and SIGTERM: the first asks for a clean end, a second ends at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

/// How often a wait looks for Ctrl-C.
const GLANCE: Duration = Duration::from_millis(50);

/// A flag that the first of these signals sets. Agents see none of the terminal's signals: each
/// leads a session of its own, and lives until the controller has kept what it measured.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn on_signal() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // the order matters: the second signal finds the flag that the first has set
        flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&asked))?;
        flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// Waits. False when the person wants to stop before.
pub fn sleep_until(deadline: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(GLANCE));
    }
}
