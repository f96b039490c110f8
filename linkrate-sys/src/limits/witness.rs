//! A process beside a command that a control group's limit of memory may end. The kernel ends it with SIGKILL, and its
//! hosts end with it, so nothing else is left that could say why.

use std::io::{self, PipeReader, PipeWriter, Read, Write};

use super::{OF_GROUPS, PROCESSES, groups, least, of_groups, own_groups, read, refused};
use crate::{processes, stderr};

/// Stays until the process that started it ends, and says why if the limit has ended that. When this is dropped it ends
/// without a word.
#[derive(Debug)]
pub struct Witness {
    farewell: PipeWriter,
}

impl Drop for Witness {
    fn drop(&mut self) {
        // one that has gone says nothing anyway
        let _ = self.farewell.write(&[0]);
    }
}

impl Witness {
    /// Starts one, if this process has one thread and a control group limits its memory. Where the kernel refuses
    /// another process, there is none.
    #[must_use]
    pub fn start() -> Option<Self> {
        let groups = groups(&own_groups());
        let is_limited = (0..OF_GROUPS.len())
            .any(|kind| kind != PROCESSES && least(kind, &groups, &read).is_some());
        if !is_limited || processes::numbers("/proc/self/task").ok()?.len() != 1 {
            return None;
        }
        let mut before = refused(&groups, &read);
        before[PROCESSES] = u64::MAX;
        let (ends, farewell) = io::pipe().ok()?;
        // SAFETY: this process has one thread, so no lock is held by another one that the child lacks.
        match unsafe { libc::fork() } {
            0 => {
                drop(farewell);
                leave_surroundings();
                if dies(ends)
                    && let Some(reached) = of_groups(before, &groups, &read)
                {
                    stderr::line(format_args!(
                        "error: the kernel has killed linkrate: {reached}\nhint: {}",
                        reached.hint
                    ));
                }
                // SAFETY: the call takes an integer and does not return.
                unsafe { libc::_exit(0) }
            }
            started => (started > 0).then_some(Self { farewell }),
        }
    }
}

/// Keeps nothing busy but standard error, and lets no signal end it before the other process.
fn leave_surroundings() {
    // SAFETY: the set is plain data, which the first call fills; nobody in this process uses the two descriptors.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
        libc::close(libc::STDIN_FILENO);
        libc::close(libc::STDOUT_FILENO);
    }
    let _ = rustix::process::chdir("/");
}

/// Waits for the end of the other process. Whether it has said no farewell.
fn dies(mut ends: PipeReader) -> bool {
    loop {
        match ends.read(&mut [0]) {
            Ok(count) => return count == 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}
