//! When a test ends: by its timer, by the client that closes, or by a bound.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use linkrate_sys::socket::set_send_timeout;

use super::super::report::Ending;
use super::super::{Limits, POLL_INTERVAL};
use super::cpu::Meter;
use super::{Control, Ended, Keep, failed};
use crate::payload::guarded;

/// Seconds that a server which receives waits longer than its test lasts, as a netserver does: the client's
/// timer starts later, and what it has sent needs its time.
pub(super) const PAD: Duration = Duration::from_secs(4);

/// The clock of a test.
#[derive(Debug)]
pub(super) struct Watch<'a, 'b> {
    control: &'a Control<'b>,
    begun: Instant,
    /// Whether the payload has begun.
    carries: bool,
    /// How much later than the test it may begin.
    wait: Duration,
    timer: Option<Instant>,
    granted: Instant,
    /// When to look next after client and server.
    next: Instant,
    /// When the time of the test is over, and what is left is the pad.
    over: Option<Instant>,
    /// The CPUs, where they are measured.
    pub(super) meter: Option<Meter>,
}

impl<'a, 'b> Watch<'a, 'b> {
    /// Starts to count. Without a `timer`, of which the end is the `pad`, the test ends by the client or by its
    /// bound. The payload may begin `wait` later than the test.
    pub(super) fn start(
        control: &'a Control<'b>,
        timer: Option<Duration>,
        pad: Duration,
        wait: Duration,
        meter: Option<Meter>,
    ) -> Self {
        let begun = Instant::now();
        let latest = begun + wait;
        let granted = Duration::from_secs(control.shared.admission.limits.seconds.into()) + PAD;
        Self {
            control,
            begun,
            carries: false,
            timer: timer.map(|timer| latest + timer),
            granted: latest + granted.max(timer.unwrap_or_default()),
            next: begun + POLL_INTERVAL,
            over: timer.map(|timer| latest + timer.saturating_sub(pad)),
            wait,
            meter,
        }
    }

    /// Takes the first of the payload for the beginning: a client may wait between its request and that (`-s`). Later
    /// calls change nothing.
    pub(super) fn begin(&mut self) {
        if std::mem::replace(&mut self.carries, true) {
            return;
        }
        let waited = self.begun.elapsed();
        self.begun += waited;
        for end in [&mut self.timer, &mut self.over].into_iter().flatten() {
            *end = *end + waited - self.wait;
        }
        self.granted = self.granted + waited - self.wait;
        if let Some(meter) = &mut self.meter {
            meter.begin();
        }
    }

    pub(super) fn limits(&self) -> &'a Limits {
        self.control.shared.admission.limits
    }

    /// Time since the beginning.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Time until it has to be asked again.
    pub(super) fn until_next(&self) -> Duration {
        let next = self.timer.map_or(self.next, |timer| timer.min(self.next));
        next.saturating_duration_since(Instant::now())
    }
}

impl Keep for Watch<'_, '_> {
    /// Whether the test is also within what is granted.
    fn goes_on_with(&mut self, bytes: u64) -> Result<bool, Ending> {
        let most = self.limits().bytes;
        if bytes > most {
            return Err(Ending::Refused(format!("{bytes} bytes, expected at most {most}")));
        }
        self.goes_on()
    }

    /// The timer is to end a call that waits, and not the call the timer.
    fn before_sending(&self, socket: &TcpStream) -> io::Result<()> {
        let left = self.timer.map(|timer| timer.saturating_duration_since(Instant::now()));
        match left.filter(|left| *left < POLL_INTERVAL) {
            Some(left) => set_send_timeout(socket, Some(left.max(Duration::from_millis(1)))),
            None => Ok(()),
        }
    }

    fn goes_on(&mut self) -> Result<bool, Ending> {
        let now = Instant::now();
        if self.timer.is_some_and(|timer| now >= timer) {
            return Ok(false);
        }
        if now < self.next {
            return Ok(true);
        }
        self.next = now + POLL_INTERVAL;
        if self.over.take_if(|over| now >= *over).is_some()
            && let Some(meter) = &mut self.meter
        {
            meter.lap();
        }
        // a client that had gone before the server was told to end has left
        if self.control.has_closed() {
            return Err(Ending::ClientLeft);
        }
        if self.control.shared.stop.load(Ordering::Relaxed) {
            return Err(Ending::Stopped);
        }
        match now < self.granted {
            true => Ok(true),
            false => Err(Ending::Refused(format!("no end after {} s", self.elapsed().as_secs()))),
        }
    }
}

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
