//! A test over one connection, whose end another thread watches.
//!
//! A time-out of a socket costs the kernel a timer for each call that sleeps, which is some per cent of a fast stream.
//! So the calls of such a test wait as long as they like. The other thread looks at clock, client and server, and
//! shuts the connection down when the test is over: then a call that waits returns.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::super::report::Ending;
use super::failed;
use super::flow::Ended;
use super::watch::Watch;

/// Says whether a test goes on.
pub(super) trait Keep {
    /// Whether the timer has not fired yet.
    ///
    /// # Errors
    /// When the test is over for another reason.
    fn goes_on(&mut self) -> Result<bool, Ending>;

    /// The same, with the octets that the test has moved.
    ///
    /// # Errors
    /// As [`goes_on`](Self::goes_on).
    fn goes_on_with(&mut self, bytes: u64) -> Result<bool, Ending>;

    /// Has a call on `socket` return when the test is over.
    ///
    /// # Errors
    /// As setsockopt(2).
    fn before_sending(&self, socket: &TcpStream) -> io::Result<()>;
}

/// What the thread of the test and the one that watches it share.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// Octets that the test has moved.
    bytes: AtomicU64,
    is_over: AtomicBool,
    /// The thread of the test needs no watch any more.
    has_left: AtomicBool,
    /// How the watch has ended the test.
    outcome: Mutex<Option<Result<Ended, Ending>>>,
}

impl Guard {
    /// Runs `test` over `socket` under `watch`. `way` is what it waits for: to receive, to send, or both.
    ///
    /// # Errors
    /// Those of the test and of the watch; clone(2), setsockopt(2).
    pub(super) fn run(
        watch: &mut Watch<'_, '_>,
        socket: &mut TcpStream,
        way: Shutdown,
        test: impl FnOnce(&mut TcpStream, &mut &Self) -> Result<Ended, Ending>,
    ) -> Result<Ended, Ending> {
        socket.set_read_timeout(None).map_err(failed)?;
        socket.set_write_timeout(None).map_err(failed)?;
        let (guard, theirs) = (Self::default(), socket.try_clone().map_err(failed)?);
        let ended = thread::scope(|scope| {
            let watcher = thread::Builder::new().name("watch".to_owned());
            let watcher = watcher.spawn_scoped(scope, || guard.keep(watch, &theirs, way))?;
            let ended = test(socket, &mut &guard);
            guard.has_left.store(true, Ordering::Relaxed);
            watcher.thread().unpark();
            Ok(ended)
        });
        let ended = ended.map_err(failed)?;
        // a connection that was shut down looks like one that the client has closed
        let outcome = guard.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome.unwrap_or(ended)
    }

    fn keep(&self, watch: &mut Watch<'_, '_>, socket: &TcpStream, way: Shutdown) {
        while !self.has_left.load(Ordering::Relaxed) {
            let outcome = match watch.goes_on_with(self.bytes.load(Ordering::Relaxed)) {
                Ok(true) => {
                    thread::park_timeout(watch.until_next());
                    continue;
                }
                Ok(false) => Ok(Ended::TimeUp),
                Err(ending) => Err(ending),
            };
            *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            self.is_over.store(true, Ordering::Relaxed);
            // one that is closed needs no end
            let _ = socket.shutdown(way);
            return;
        }
    }
}

impl Keep for &Guard {
    fn goes_on(&mut self) -> Result<bool, Ending> {
        Ok(!self.is_over.load(Ordering::Relaxed))
    }

    fn goes_on_with(&mut self, bytes: u64) -> Result<bool, Ending> {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.goes_on()
    }

    fn before_sending(&self, _: &TcpStream) -> io::Result<()> {
        Ok(())
    }
}
