//! One port of a failover group: what it hears, who hears it, and how long it is held down.

use std::time::Duration;

use super::Config;
use crate::frame::MacAddress;

#[derive(Debug, Clone, Copy)]
pub(super) struct Port {
    /// Its own address.
    pub mac: MacAddress,
    pub carrier: bool,
    /// Frames of any kind, by carrier and polls.
    pub hears: Missed,
    /// Its polls at other ports.
    pub is_heard: Missed,
    /// Frames that are no polls.
    traffic: Missed,
    /// Failures without a calm time between them, and the last of them.
    failures: u32,
    failed: Option<Duration>,
    /// It is not to be used before, unless it is the only one.
    pub held_until: Duration,
}

/// Rounds without a sign of life.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Missed {
    /// In this round one came.
    pub came: bool,
    rounds: u32,
}

impl Missed {
    fn count(&mut self) {
        self.rounds = if self.came { 0 } else { self.rounds.saturating_add(1) };
        self.came = false;
    }

    fn after(rounds: u32) -> Self {
        Self { came: false, rounds }
    }
}

impl Port {
    /// Points of a port that hears and is heard.
    pub(super) const MAX_POINTS: u8 = 2;

    /// A port without carrier.
    pub(super) fn new(mac: MacAddress, dead_count: u32) -> Self {
        let silent = Missed::after(dead_count);
        Self {
            mac,
            carrier: false,
            hears: silent,
            is_heard: silent,
            traffic: silent,
            failures: 0,
            failed: None,
            held_until: Duration::ZERO,
        }
    }

    /// Takes it for working, until so many rounds have shown that it does not.
    pub(super) fn trust(&mut self) {
        let fresh = Missed::after(0);
        (self.hears, self.is_heard, self.traffic) = (fresh, fresh, fresh);
    }

    /// Takes it for not working, until a poll shows that it does.
    pub(super) fn silence(&mut self, dead_count: u32) {
        let silent = Missed::after(dead_count);
        (self.hears, self.is_heard, self.traffic) = (silent, silent, silent);
    }

    /// A frame came that is no poll.
    pub(super) fn hear_other(&mut self) {
        (self.hears.came, self.traffic.came) = (true, true);
    }

    /// Ends a round.
    pub(super) fn count(&mut self, now: Duration, calm: Duration) {
        for missed in [&mut self.hears, &mut self.is_heard, &mut self.traffic] {
            missed.count();
        }
        if self.failed.is_some_and(|failed| now >= failed + calm) {
            (self.failures, self.failed) = (0, None);
        }
    }

    /// Whether it hears others, and whether others hear it.
    pub(super) fn health(&self, dead_count: u32) -> (bool, bool) {
        let lives = |missed: Missed| self.carrier && missed.rounds < dead_count;
        (lives(self.hears), lives(self.is_heard))
    }

    pub(super) fn points(&self, dead_count: u32) -> u8 {
        let (hears, is_heard) = self.health(dead_count);
        u8::from(hears) + u8::from(is_heard)
    }

    /// Whether it receives other frames than polls.
    pub(super) fn carries(&self, dead_count: u32) -> bool {
        self.carrier && self.traffic.rounds < dead_count
    }

    /// It failed: it is held down twice as long as the last time.
    pub(super) fn fail(&mut self, now: Duration, config: &Config) {
        let doublings = self.failures.min(30);
        let hold_down = config.hold_down.saturating_mul(1 << doublings);
        self.failures += 1;
        self.failed = Some(now);
        self.held_until = now + hold_down.min(config.longest_hold_down);
    }
}
