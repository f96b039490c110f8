//! A link as its device sees it: how long frames occupy it, what it has negotiated, and its
//! counters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use linkrate_terms::BitRate;
use linkrate_wire::lro::{Parts, Row};

use crate::counters::LinkCounters;
use crate::frame::Burst;
use crate::pacing::{Line, Occupied, counted_octets, line_octets};

/// What others may know of a link, and set.
#[derive(Debug)]
pub struct LinkShared {
    up: AtomicBool,
    rate: Mutex<Option<BitRate>>,
    /// Grows with every change of the rate.
    changes: AtomicU64,
    /// What the device counts of the link.
    pub counters: LinkCounters,
}

impl LinkShared {
    pub(crate) fn new(rate: Option<BitRate>) -> Self {
        Self {
            up: AtomicBool::new(true),
            rate: Mutex::new(rate),
            changes: AtomicU64::new(0),
            counters: LinkCounters::default(),
        }
    }

    /// Whether the link is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    /// Takes the link down or up.
    pub(crate) fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::Relaxed);
    }

    /// Bits per second of the link; `None` where nothing takes any time.
    #[must_use]
    pub fn rate(&self) -> Option<BitRate> {
        *self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the link run at another rate, as after a new negotiation. Both ends of a cable should
    /// have the same rate.
    pub fn set_rate(&self, rate: BitRate) {
        *self.rate.lock().unwrap_or_else(PoisonError::into_inner) = Some(rate);
        self.changes.fetch_add(1, Ordering::Release);
    }
}

/// A link, in the hands of its device.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) shared: Arc<LinkShared>,
    rate: Option<BitRate>,
    changes: u64,
    /// Outwards.
    line: Line,
    /// Time the link inwards was occupied.
    in_busy_ps: u64,
}

impl Link {
    pub(crate) fn new(shared: Arc<LinkShared>) -> Self {
        let rate = shared.rate();
        Self { shared, rate, changes: 0, line: Line::new(rate), in_busy_ps: 0 }
    }

    /// Takes up a rate that was changed. True if it was.
    pub(crate) fn refresh(&mut self) -> bool {
        let changes = self.shared.changes.load(Ordering::Acquire);
        if changes == self.changes {
            return false;
        }
        self.changes = changes;
        self.rate = self.shared.rate();
        self.line.set_rate(self.rate);
        true
    }

    /// Bits per second; `None` where nothing takes any time.
    pub(crate) fn rate(&self) -> Option<BitRate> {
        self.rate
    }

    /// Puts a frame without FCS on the link, as soon as it is ready and the link is free.
    pub(crate) fn occupy(&mut self, ready_ps: u64, frame: usize) -> Occupied {
        self.line.occupy(ready_ps, line_octets(frame))
    }

    /// How long `octets` on the link take.
    pub(crate) fn time_ps(&self, octets: u64) -> u64 {
        self.line.time_ps(octets)
    }

    /// When the link outwards is free.
    pub(crate) fn free_at_ps(&self) -> u64 {
        self.line.free_at_ps()
    }

    /// Counts frames of one destination that were sent.
    pub(crate) fn sent(&self, destination: &[u8], frames: usize, octets: u64) {
        self.shared.counters.sent(destination, frames, octets);
        self.shared.counters.out_busy_ns.set(self.line.busy_ps() / 1000);
    }

    /// Counts what arrived, and the time that it took. False when the device gets nothing of it:
    /// the link is down, or the check sequence is wrong.
    pub(crate) fn received(&mut self, burst: &Burst) -> bool {
        let Self { shared, line, in_busy_ps, .. } = self;
        let counters = &shared.counters;
        if !shared.is_up() {
            return false;
        }
        let line_ps = burst.lengths().map(|length| line.time_ps(line_octets(length)));
        *in_busy_ps += line_ps.sum::<u64>();
        counters.in_busy_ns.set(*in_busy_ps / 1000);
        if burst.is_damaged() {
            counters.fcs_errors.add(burst.frames() as u64);
            counters.in_errors.add(burst.frames() as u64);
            return false;
        }
        let octets = burst.lengths().map(counted_octets).sum();
        counters.received(burst.head(), burst.frames(), octets);
        true
    }
}
