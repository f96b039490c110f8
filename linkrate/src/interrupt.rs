//! Ctrl-C and SIGTERM: the first asks for a clean end, a second ends at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

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
