//! A link as its device sees it: how long frames occupy it, what it has negotiated, and its
//! counters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use linkrate_model::{BitRate, Model};
use linkrate_wire::atm::CELL;
use linkrate_wire::link::LinkLaw;
use linkrate_wire::lro::{Parts, Row};

use crate::counters::LinkCounters;
use crate::frame::Burst;
use crate::pacing::{Line, Occupied};

/// A link to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSpec {
    pub law: LinkLaw,
    /// Bits per second of its line; `None` where nothing takes any time.
    pub rate: Option<BitRate>,
}

impl LinkSpec {
    #[must_use]
    pub fn of(model: &Model) -> Self {
        Self { law: LinkLaw::of(model), rate: model.rate }
    }

    /// The line of one direction of the link.
    pub(crate) fn line(self) -> Line {
        Line::new(self.law, self.rate)
    }
}

/// What others may know of a link, and set.
#[derive(Debug)]
pub struct LinkShared {
    law: LinkLaw,
    up: AtomicBool,
    /// Frames that leave the device, and frames to it, are lost without a trace.
    silent_out: AtomicBool,
    silent_in: AtomicBool,
    rate: Mutex<Option<BitRate>>,
    /// Grows with every change of the rate or the state.
    changes: AtomicU64,
    pub counters: LinkCounters,
}

impl LinkShared {
    pub(crate) fn new(spec: LinkSpec) -> Self {
        Self {
            law: spec.law,
            up: AtomicBool::new(true),
            silent_out: AtomicBool::new(false),
            silent_in: AtomicBool::new(false),
            rate: Mutex::new(spec.rate),
            changes: AtomicU64::new(0),
            counters: LinkCounters::default(),
        }
    }

    #[must_use]
    pub fn law(&self) -> LinkLaw {
        self.law
    }

    #[must_use]
    pub fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    pub(crate) fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Lets the link lose every frame that leaves its device (`out`), and every frame to it (`into`),
    /// from now on or no longer. It keeps its carrier, and no end can tell.
    pub fn set_silent(&self, out: bool, into: bool) {
        self.silent_out.store(out, Ordering::Relaxed);
        self.silent_in.store(into, Ordering::Relaxed);
    }

    pub(crate) fn is_silent_out(&self) -> bool {
        self.silent_out.load(Ordering::Relaxed)
    }

    pub(crate) fn is_silent_in(&self) -> bool {
        self.silent_in.load(Ordering::Relaxed)
    }

    /// Octets on the link so far, both ways.
    #[must_use]
    pub fn octets(&self) -> u64 {
        self.counters.out_octets.get().wrapping_add(self.counters.in_octets.get())
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
    spec: LinkSpec,
    changes: u64,
    /// Outwards.
    line: Line,
    /// Time the link inwards was occupied.
    in_busy_ps: u64,
}

impl Link {
    pub(crate) fn new(shared: Arc<LinkShared>) -> Self {
        let spec = LinkSpec { law: shared.law(), rate: shared.rate() };
        Self { shared, spec, changes: 0, line: spec.line(), in_busy_ps: 0 }
    }

    /// Takes up a rate or a state that was changed. True if one was.
    pub(crate) fn refresh(&mut self) -> bool {
        let changes = self.shared.changes.load(Ordering::Acquire);
        if changes == self.changes {
            return false;
        }
        self.changes = changes;
        self.spec.rate = self.shared.rate();
        self.line.set_rate(self.spec.rate);
        true
    }

    /// Its law and its rate now.
    pub(crate) fn spec(&self) -> LinkSpec {
        self.spec
    }

    /// Bits per second; `None` where nothing takes any time.
    pub(crate) fn rate(&self) -> Option<BitRate> {
        self.spec.rate
    }

    /// Puts a unit of `unit` octets on the link, as soon as it is ready and the link is free.
    #[inline]
    pub(crate) fn occupy(&mut self, ready_ps: u64, unit: usize) -> Occupied {
        self.line.occupy(ready_ps, unit)
    }

    /// The same for cells by themselves.
    pub(crate) fn occupy_cells(&mut self, ready_ps: u64, cells: u64) -> Occupied {
        self.line.occupy_octets(ready_ps, cells * CELL as u64)
    }

    /// The same for a unit that goes before those that wait.
    pub(crate) fn occupy_first(&mut self, ready_ps: u64, unit: usize) -> Occupied {
        self.line.occupy_first(ready_ps, unit)
    }

    /// Octets that counters show for a unit of `unit` octets.
    #[inline]
    pub(crate) fn counted_octets(&self, unit: usize) -> u64 {
        self.line.counted_octets(unit)
    }

    /// How long `octets` on the link take.
    pub(crate) fn time_ps(&self, octets: u64) -> u64 {
        self.line.time_ps(octets)
    }

    /// When the link outwards is free.
    pub(crate) fn free_at_ps(&self) -> u64 {
        self.line.free_at_ps()
    }

    /// Counts frames of one destination that were sent, and the time for which the link was
    /// occupied so far.
    pub(crate) fn sent(&self, destination: &[u8], frames: usize, octets: u64) {
        self.shared.counters.sent(destination, frames, octets);
        self.shared.counters.out_busy_ns.set(self.line.busy_ps() / 1000);
    }

    /// Counts cells that were sent, the last ones of `units` units, and the time for which the link was
    /// occupied so far.
    pub(crate) fn sent_units(&self, units: u64, octets: u64) {
        let counters = &self.shared.counters;
        counters.out_octets.add(octets);
        counters.out_unicast.add(units);
        counters.out_busy_ns.set(self.line.busy_ps() / 1000);
    }

    /// Counts cells that arrived, and the time for which they occupied the link. False when the
    /// device must drop them: the link is down.
    pub(crate) fn received_cells(&mut self, cells: usize) -> bool {
        let Self { shared, line, in_busy_ps, .. } = self;
        if !shared.is_up() {
            return false;
        }
        let octets = (cells * CELL) as u64;
        *in_busy_ps += line.time_ps(octets);
        shared.counters.in_busy_ns.set(*in_busy_ps / 1000);
        shared.counters.in_octets.add(octets);
        true
    }

    /// Counts frames that arrived, and the time for which they occupied the link. False when the
    /// device must drop them: the link is down, or the check sequence is wrong.
    pub(crate) fn received(&mut self, burst: &Burst) -> bool {
        let Self { shared, line, in_busy_ps, .. } = self;
        let counters = &shared.counters;
        if !shared.is_up() {
            return false;
        }
        let line_ps = burst.lengths().map(|length| line.unit_ps(length));
        *in_busy_ps += line_ps.sum::<u64>();
        counters.in_busy_ns.set(*in_busy_ps / 1000);
        if burst.is_damaged() {
            counters.fcs_errors.add(burst.frames() as u64);
            counters.in_errors.add(burst.frames() as u64);
            return false;
        }
        let octets = burst.lengths().map(|length| line.counted_octets(length)).sum();
        counters.received(burst.head(), burst.frames(), octets);
        true
    }
}
