//! The table: the port of each entry, and when it may change.

use super::active::Active;
use super::loads::{Loads, Period};
use super::{AGE_PS, ENTRIES, EntryUse, MAX_PORTS, Moves, PortIndex, RebalanceProposal};
use super::{NONE, sharing};

/// An entry with a smaller load had a sign of life to carry lately at most: a full frame is more.
const IDLE_BYTES: u64 = 1514;

/// The entries of a balancer.
#[derive(Debug, Clone)]
pub(super) struct Table {
    entries: Box<[Entry; ENTRIES]>,
    quiet_ps: u64,
    /// For each port, the time before which all frames given to it have arrived.
    arrived_ps: [u64; MAX_PORTS],
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// When its last frame came.
    last_ps: u64,
    /// Its bytes, halved as those of the ports where balancing follows loads, and more slowly where a new
    /// decision alone looks at them.
    load: u64,
    /// The period of `load`.
    period: Period,
    port: PortIndex,
    wanted: PortIndex,
}

impl Entry {
    const UNUSED: Self =
        Self { last_ps: 0, load: 0, period: Period::of(0), port: NONE, wanted: NONE };

    fn is_used(&self) -> bool {
        self.port != NONE
    }
}

impl Table {
    pub(super) fn new(quiet_ps: u64) -> Self {
        let entries = Box::new([Entry::UNUSED; ENTRIES]);
        Self { entries, quiet_ps, arrived_ps: [0; MAX_PORTS] }
    }

    pub(super) fn set_quiet(&mut self, quiet_ps: u64) {
        self.quiet_ps = quiet_ps;
    }

    pub(super) fn arrived(&mut self, port: PortIndex, before_ps: u64) {
        if let Some(arrived_ps) = self.arrived_ps.get_mut(port.at()) {
            *arrived_ps = before_ps.max(*arrived_ps);
        }
    }

    /// The port of an entry that has `bytes` now, without regard to loads.
    #[inline]
    pub(super) fn fixed(
        &mut self,
        now_ps: u64,
        entry: u8,
        bytes: u64,
        active: &mut Active,
        moves: &mut Moves,
    ) -> Option<PortIndex> {
        let rule = self.rule();
        let entry = &mut self.entries[usize::from(entry)];
        if rule.has_aged(entry, now_ps) {
            let port = active.next()?;
            (entry.port, entry.wanted) = (port, port);
        } else if entry.wanted != entry.port && rule.may_move(entry, now_ps, &self.arrived_ps) {
            entry.port = entry.wanted;
            moves.orderly += 1;
        }
        let period = Period::of(now_ps);
        entry.load = period.rest_slowly(entry.load, entry.period) + bytes;
        entry.period = period;
        // the clocks of two threads may differ a little
        entry.last_ps = now_ps.max(entry.last_ps);
        Some(entry.port)
    }

    /// The port of an entry that has a frame of `bytes` now: the least loaded one where it may
    /// choose.
    #[inline]
    pub(super) fn adaptive(
        &mut self,
        now_ps: u64,
        entry: u8,
        bytes: u64,
        active: &mut Active,
        loads: &mut Loads,
        moves: &mut Moves,
    ) -> Option<PortIndex> {
        let rule = self.rule();
        let entry = &mut self.entries[usize::from(entry)];
        let period = loads.advance(now_ps);
        entry.load = period.rest(entry.load, entry.period);
        entry.period = period;
        if rule.has_aged(entry, now_ps) {
            let port = active.least(|port| loads.of(port))?;
            (entry.port, entry.wanted) = (port, port);
        } else if rule.may_move(entry, now_ps, &self.arrived_ps) {
            let (from, own) = (entry.port, entry.load);
            // its own load goes with it: without a gain it stays, and does not go to and fro
            let gains = |port: &PortIndex| loads.of(*port) + own < loads.of(from);
            if let Some(to) = active.least(|port| loads.of(port)).filter(gains) {
                loads.shift(from, to, own);
                (entry.port, entry.wanted) = (to, to);
                moves.orderly += 1;
            }
        }
        entry.last_ps = now_ps.max(entry.last_ps);
        entry.load += bytes;
        loads.add(entry.port, bytes);
        Some(entry.port)
    }

    /// Moves the entries of ports that are not active to the next ports in turn, and says how many
    /// they were.
    pub(super) fn leave(&mut self, now_ps: u64, active: &mut Active) -> u64 {
        let mut moved = 0;
        self.forget_aged(now_ps);
        for entry in self.entries.iter_mut().filter(|entry| entry.is_used()) {
            if !active.has(entry.port) {
                let to = if active.has(entry.wanted) { Some(entry.wanted) } else { active.next() };
                entry.port = to.unwrap_or(NONE);
                moved += 1;
            }
            entry.wanted = entry.port;
        }
        moved
    }

    /// The same to the least loaded ports. Ports that are not active lose their load.
    pub(super) fn leave_by_load(
        &mut self,
        now_ps: u64,
        active: &mut Active,
        loads: &mut Loads,
    ) -> u64 {
        let mut moved = 0;
        self.forget_aged(now_ps);
        let period = loads.advance(now_ps);
        for entry in self.entries.iter_mut().filter(|entry| entry.is_used()) {
            if active.has(entry.port) {
                continue;
            }
            loads.clear(entry.port);
            entry.load = period.rest(entry.load, entry.period);
            entry.period = period;
            let to = active.least(|port| loads.of(port)).unwrap_or(NONE);
            if to != NONE {
                loads.add(to, entry.load);
            }
            (entry.port, entry.wanted) = (to, to);
            moved += 1;
        }
        moved
    }

    /// Wants the traffic of the entries in use spread evenly over the active ports, with few changes.
    ///
    /// Loads are those of the moment when traffic was seen last: a silence of all flows says nothing about
    /// which of them are busy. Loads that are halved down to the last bits would say anything.
    pub(super) fn share_out(&mut self, active: &Active) {
        let used = self.entries.iter().filter(|entry| entry.is_used());
        let latest = used.map(|entry| entry.period).max().unwrap_or_default();
        let mut all = [sharing::Part::NONE; ENTRIES];
        for (part, entry) in all.iter_mut().zip(self.entries.iter()) {
            if entry.is_used() {
                let load = latest.rest_slowly(entry.load, entry.period);
                let load = if load < IDLE_BYTES { 0 } else { load };
                *part = sharing::Part { load, port: entry.port };
            }
        }
        sharing::share_out(&mut all, active.ports());
        for (part, entry) in all.iter().zip(self.entries.iter_mut()) {
            entry.wanted = part.port;
        }
    }

    /// The port of each entry in use, with its load.
    pub(super) fn loads(&self, period: Period) -> Vec<(u8, PortIndex, u64)> {
        let used = (0..=u8::MAX).zip(self.entries.iter()).filter(|(_, entry)| entry.is_used());
        used.map(|(number, entry)| (number, entry.port, period.rest(entry.load, entry.period)))
            .collect()
    }

    /// Changes the port of an entry, of which no frame is under way. False if it has another port by now.
    pub(super) fn change(
        &mut self,
        now_ps: u64,
        proposal: RebalanceProposal,
        loads: &mut Loads,
    ) -> bool {
        let entry = &mut self.entries[usize::from(proposal.entry)];
        if entry.port != proposal.from {
            return false;
        }
        let period = loads.advance(now_ps);
        entry.load = period.rest(entry.load, entry.period);
        entry.period = period;
        loads.shift(proposal.from, proposal.to, entry.load);
        (entry.port, entry.wanted) = (proposal.to, proposal.to);
        // frames that were held back leave from now on
        entry.last_ps = now_ps.max(entry.last_ps);
        true
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = EntryUse> {
        let used = (0..=u8::MAX).zip(self.entries.iter()).filter(|(_, entry)| entry.is_used());
        used.map(|(number, entry)| EntryUse {
            entry: number,
            port: entry.port,
            wanted: entry.wanted,
            last_ps: entry.last_ps,
        })
    }

    fn forget_aged(&mut self, now_ps: u64) {
        let rule = self.rule();
        for entry in self.entries.iter_mut().filter(|entry| rule.has_aged(entry, now_ps)) {
            *entry = Entry::UNUSED;
        }
    }

    fn rule(&self) -> Rule {
        Rule { quiet_ps: self.quiet_ps }
    }
}

/// When an entry may change its port.
#[derive(Debug, Clone, Copy)]
struct Rule {
    quiet_ps: u64,
}

impl Rule {
    /// Whether it is unused: never used, or not for so long.
    fn has_aged(self, entry: &Entry, now_ps: u64) -> bool {
        let gap_ps = now_ps.saturating_sub(entry.last_ps);
        !entry.is_used() || (gap_ps > AGE_PS && gap_ps > self.quiet_ps)
    }

    /// Whether its next frame cannot overtake the last one on any path.
    fn may_move(self, entry: &Entry, now_ps: u64, arrived_ps: &[u64; MAX_PORTS]) -> bool {
        now_ps.saturating_sub(entry.last_ps) > self.quiet_ps
            || entry.last_ps < arrived_ps[entry.port.at() % MAX_PORTS]
    }
}
