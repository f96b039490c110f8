//! Threads with a name, their kernel ids and their CPU time.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkrate_model::measurement::ThreadTime;
use linkrate_sys::sched::{self, ThreadId};

use crate::AdapterError;

/// How long a thread may take to start.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A running thread.
#[derive(Debug)]
pub(crate) struct Thread {
    name: String,
    id: ThreadId,
    /// Why it has ended, if not on request.
    failure: Arc<OnceLock<String>>,
    handle: Option<JoinHandle<io::Result<()>>>,
}

impl Thread {
    /// Starts `run` and waits until its id is known.
    pub(crate) fn start(
        name: String,
        run: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<Self, AdapterError> {
        let id = Arc::new(AtomicI32::new(0));
        let tell = Arc::clone(&id);
        let failure = Arc::new(OnceLock::new());
        let fail = Arc::clone(&failure);
        let handle = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                tell.store(sched::current_thread(), Ordering::Release);
                // nothing that the thread owned is used after a panic
                let result = catch_unwind(AssertUnwindSafe(run))
                    .unwrap_or_else(|panic| Err(io::Error::other(said(panic.as_ref()))));
                if let Err(error) = &result {
                    // it is set once
                    let _ = fail.set(error.to_string());
                }
                result
            })
            .map_err(|cause| AdapterError::Io { what: format!("start thread {name}"), cause })?;
        let deadline = Instant::now() + TIMEOUT;
        while id.load(Ordering::Acquire) == 0 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        Ok(Self { name, id: id.load(Ordering::Acquire), failure, handle: Some(handle) })
    }

    /// Its kernel id.
    pub(crate) fn id(&self) -> ThreadId {
        self.id
    }

    /// Its CPU time so far; `None` once it has ended.
    pub(crate) fn time(&self) -> Option<ThreadTime> {
        Some(ThreadTime {
            name: self.name.clone(),
            affinity: sched::affinity(self.id).ok()?,
            cpu_ns: sched::thread_cpu_ns(self.id).ok()?,
            user_ns: sched::thread_user_ns(self.id).ok()?,
        })
    }

    /// Why it has ended, as a phrase; `None` while it runs.
    pub(crate) fn why_ended(&self) -> Option<String> {
        if !self.handle.as_ref().is_none_or(JoinHandle::is_finished) {
            return None;
        }
        let why = self.failure.get().map_or("no reason is known", String::as_str);
        Some(format!("thread {:?} has ended: {why}", self.name))
    }

    /// Waits for its end. The error is the thread's own, or tells of its panic.
    pub(crate) fn join(&mut self) -> io::Result<()> {
        match self.handle.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other(format!("thread {} panicked", self.name))),
            None => Ok(()),
        }
    }
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("without a message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn ended(run: impl FnOnce() -> io::Result<()> + Send + 'static) -> String {
        let thread = Thread::start("dev 7".to_owned(), run).unwrap();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(why) = thread.why_ended() {
                return why;
            }
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_end_of_a_thread_has_its_reason() {
        let refused = || Err(io::Error::from_raw_os_error(9));
        assert!(ended(refused).starts_with("thread \"dev 7\" has ended: Bad file descriptor"));
        let why = ended(|| panic!("segment {} is gone", 3));
        assert_eq!(why, "thread \"dev 7\" has ended: panic: segment 3 is gone");
        assert!(ended(|| Ok(())).ends_with("no reason is known"));
        let running = Thread::start("dev 7".to_owned(), || {
            std::thread::sleep(Duration::from_millis(500));
            Ok(())
        });
        assert_eq!(running.unwrap().why_ended(), None);
    }
}
