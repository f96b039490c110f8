//! Connections with a peak rate: each has a queue of its own, from which its cells leave by the generic
//! cell rate algorithm (ITU-T I.371). A slow connection keeps no other one waiting.
//!
//! A packet is in the memory of the adapter from the time at which it is queued, and the host may use its
//! buffer again. Cells of several connections that fall into one slot of the line leave one behind the
//! other. The delay is at most a train of each other connection, and none of it is credit.

use std::collections::VecDeque;
use std::sync::Arc;

use linkrate_model::BitRate;
use linkrate_wire::atm::CELL;
use linkrate_wire::atm::rate::Shaper;

use super::Atm;
use crate::cells::{CellTrain, TRAIN_CELLS, Unit};
use crate::device::tx_prefetch::FIFO_LOW_BYTES;

/// Units that wait in the queue of a connection at most.
pub(super) const MAX_WAITING: usize = 256;

/// A unit that waits, or of which some cells have left.
#[derive(Debug)]
struct Waiting {
    unit: Arc<Unit>,
    /// Cells that have left.
    gone: u32,
    ready_ps: u64,
}

/// The queue of a connection with a peak rate.
#[derive(Debug)]
pub(super) struct Shaping {
    shaper: Shaper,
    waiting: VecDeque<Waiting>,
}

/// Cells of a unit that leave one behind the other.
struct Leaving {
    unit: Arc<Unit>,
    cells: std::ops::Range<u32>,
    /// When the peak rate lets the first and the last of them go.
    first_ps: u64,
    last_ps: u64,
}

impl Shaping {
    /// For a peak rate in bits per second of cells; `None` where there is no limit.
    pub(super) fn new(rate: BitRate) -> Option<Self> {
        Shaper::new(rate).map(|shaper| Self { shaper, waiting: VecDeque::new() })
    }

    /// Changes the peak rate. What waits stays.
    pub(super) fn set_rate(&mut self, rate: BitRate) {
        if let Some(shaper) = Shaper::new(rate) {
            self.shaper = shaper;
        }
    }

    /// Whether another unit would be too many.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING
    }

    /// Takes a unit that is ready at `ready_ps`.
    pub(super) fn add(&mut self, unit: Arc<Unit>, ready_ps: u64) {
        self.waiting.push_back(Waiting { unit, gone: 0, ready_ps });
    }

    /// When the next cell may leave; `None` while no unit waits.
    fn next_ps(&self) -> Option<u64> {
        self.waiting.front().map(|first| self.shaper.earliest_ps(first.ready_ps))
    }

    /// The next cells, up to a train, of those that may leave by `until_ps`. Time before `since_ps` that
    /// passed without a cell is lost.
    fn leave(&mut self, since_ps: u64, until_ps: u64) -> Option<Leaving> {
        let Self { shaper, waiting } = self;
        let Waiting { unit, gone, ready_ps } = waiting.front_mut()?;
        let ready_ps = since_ps.max(*ready_ps);
        let (begin, mut times) = (*gone, None);
        let end = unit.cells().min(begin + TRAIN_CELLS);
        while *gone < end {
            let at_ps = shaper.earliest_ps(ready_ps);
            if at_ps > until_ps {
                break;
            }
            shaper.sent(at_ps);
            *gone += 1;
            times = Some((times.map_or(at_ps, |(first_ps, _)| first_ps), at_ps));
        }
        let (first_ps, last_ps) = times?;
        let leaving = Leaving { unit: Arc::clone(unit), cells: begin..*gone, first_ps, last_ps };
        if *gone == unit.cells() {
            waiting.pop_front();
        }
        Some(leaving)
    }
}

impl Atm {
    /// Sets the peak rate of every connection; 0 leaves them to the line.
    pub(super) fn set_peak_rate(&mut self, rate: BitRate) {
        for channel in &mut self.channels {
            match &mut channel.shaping {
                Some(shaping) if rate.0 > 0.0 => shaping.set_rate(rate),
                Some(shaping) if shaping.waiting.is_empty() => channel.shaping = None,
                // what waits still leaves in its order, as fast as the line is
                Some(shaping) => shaping.set_rate(self.links[0].rate().unwrap_or(BitRate(1e12))),
                none => *none = Shaping::new(rate),
            }
        }
    }

    /// Whether the device takes no packet of the host: the only connection that it has cannot take one.
    /// With several connections, a packet for a full queue is dropped, so that the others continue.
    pub(super) fn is_held(&self) -> bool {
        let [channel] = &self.channels[..] else { return false };
        channel.shaping.as_ref().is_some_and(Shaping::is_full)
    }

    /// Puts cells on the link that the peak rates of their connections let go by `until_ps`. Says whether
    /// there was any.
    pub(super) fn release(&mut self, until_ps: u64, wire: &mut impl FnMut(CellTrain, u64)) -> bool {
        let mut any = false;
        while self.links[0].free_at_ps() <= until_ps {
            let next = self.channels.iter().enumerate().filter_map(|(number, channel)| {
                Some((channel.shaping.as_ref()?.next_ps()?, number))
            });
            let Some((_, number)) = next.min().filter(|(at_ps, _)| *at_ps <= until_ps) else {
                break;
            };
            let cell_ps = self.links[0].time_ps(CELL as u64);
            let train_ps = cell_ps * u64::from(TRAIN_CELLS);
            let others_ps = train_ps * (self.channels.len() as u64 - 1);
            let since_ps = self.links[0].free_at_ps().saturating_sub(others_ps + train_ps);
            let shaping = self.channels[number].shaping.as_mut();
            let Some(leaving) = shaping.and_then(|all| all.leave(since_ps, until_ps)) else {
                break;
            };
            let Leaving { unit, cells, first_ps, last_ps } = leaving;
            let at = self.links[0].occupy_cells(first_ps, u64::from(cells.end - cells.start));
            let end_ps = at.end_ps.max(last_ps + cell_ps);
            let gaps = u64::from(cells.end - cells.start) - 1;
            let apart_ps = end_ps - cell_ps - at.start_ps;
            let spacing_ps = apart_ps.checked_div(gaps).unwrap_or(cell_ps).max(cell_ps);
            self.put_cells(number, &unit, cells, (at.start_ps, end_ps, spacing_ps), wire);
            any = true;
        }
        any
    }

    /// When [`release`](Self::release) has cells again that are worth it.
    pub(super) fn release_due_ps(&self) -> Option<u64> {
        let shaped = self.channels.iter().filter_map(|channel| channel.shaping.as_ref()?.next_ps());
        let next_ps = shaped.min()?.max(self.links[0].free_at_ps());
        Some(next_ps.saturating_sub(self.links[0].time_ps(FIFO_LOW_BYTES)))
    }
}
