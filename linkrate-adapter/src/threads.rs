//! Threads with a name, their kernel ids and their CPU time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkrate_sys::sched::{self, ThreadId};
use linkrate_terms::measurement::ThreadTime;

use crate::AdapterError;

/// How long a thread may take to start.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running thread.
#[derive(Debug)]
pub(crate) struct Thread {
    name: String,
    id: ThreadId,
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
        let handle = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                tell.store(sched::current_thread(), Ordering::Release);
                run()
            })
            .map_err(|cause| AdapterError::Io { what: format!("start thread {name}"), cause })?;
        let deadline = Instant::now() + PATIENCE;
        while id.load(Ordering::Acquire) == 0 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        Ok(Self { name, id: id.load(Ordering::Acquire), handle: Some(handle) })
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

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The thread's own, or that it panicked.
    pub(crate) fn join(&mut self) -> io::Result<()> {
        match self.handle.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other(format!("thread {} panicked", self.name))),
            None => Ok(()),
        }
    }
}
