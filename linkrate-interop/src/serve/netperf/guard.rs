//! A test over one connection, whose end another thread watches: clock, client and server.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::super::report::Ending;
use super::watch::Watch;
use super::{Ended, Keep, failed};
use crate::payload::guarded;

/// What the thread of the test and the one that watches it share.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// Octets that the test has moved.
    bytes: AtomicU64,
    is_over: AtomicBool,
    /// How the watch has ended the test.
    outcome: Mutex<Option<Result<Ended, Ending>>>,
}

impl Guard {
    /// Runs `test` over `socket` under `watch`. `way` is what it waits for: to receive, to send, or both.
    pub(super) fn run(
        watch: &mut Watch<'_, '_>,
        socket: &mut TcpStream,
        way: Shutdown,
        test: impl FnOnce(&mut TcpStream, &mut &Self) -> Result<Ended, Ending>,
    ) -> Result<Ended, Ending> {
        let guard = Self::default();
        let ended = guarded(socket, way, || guard.look(watch), |socket| test(socket, &mut &guard));
        let ended = ended.map_err(failed)?;
        // a connection that was shut down looks like one that the client has closed
        let outcome = guard.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome.unwrap_or(ended)
    }

    fn look(&self, watch: &mut Watch<'_, '_>) -> ControlFlow<(), Duration> {
        let outcome = match watch.goes_on_with(self.bytes.load(Ordering::Relaxed)) {
            Ok(true) => return ControlFlow::Continue(watch.until_next()),
            Ok(false) => Ok(Ended::TimeUp),
            Err(ending) => Err(ending),
        };
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.is_over.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
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
