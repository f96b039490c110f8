//! When a host is interrupted: receive and transmit completion interrupts, moderated.
//!
//! As in adapters with an interrupt throttle, a timer runs freely with a period of `rx-usecs`, and
//! its next tick announces what has arrived by then. All ports with the same period tick together,
//! so the device thread wakes once for all of them. With adaptive moderation a port waits for the
//! tick only while its link carries bulk traffic ([`adaptive`]).

mod adaptive;

use std::sync::atomic::Ordering;

use linkrate_terms::PortKnobs;

use super::{Ends, Interface, Queue};
use crate::clock::PS_PER_US;
use crate::counters::LinkCounters;

pub(crate) use adaptive::Adaptive;
use adaptive::Traffic;

/// The first tick after `since_ps` of a timer with this period; at once without a period.
pub(crate) fn next_tick_ps(since_ps: u64, usecs: u32) -> u64 {
    match u64::from(usecs) * PS_PER_US {
        0 => since_ps,
        period_ps => (since_ps / period_ps + 1) * period_ps,
    }
}

/// What became of a look at completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Completed {
    /// There was something to do.
    pub(crate) any: bool,
    /// The driver was interrupted.
    pub(crate) interrupted: bool,
}

/// Whether the delay of receive interrupts follows the traffic.
fn is_adaptive(knobs: &PortKnobs) -> bool {
    knobs.adaptive_rx
}

/// Lets the delay of receive interrupts follow the traffic of the link, if the knobs say so.
pub(crate) fn follow(
    adaptive: &mut Adaptive,
    knobs: &PortKnobs,
    counters: &LinkCounters,
    now_ps: u64,
) {
    if !is_adaptive(knobs) {
        return;
    }
    let frames = [&counters.in_unicast, &counters.in_multicast, &counters.in_broadcast];
    let totals = Traffic {
        frames_in: frames.iter().map(|kind| kind.get()).sum(),
        octets_in: counters.in_octets.get(),
        octets_out: counters.out_octets.get(),
    };
    adaptive.observe(now_ps, u64::from(knobs.rx_usecs) * PS_PER_US, totals);
}

/// What the interrupts of a port follow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moderation {
    rx_usecs: u32,
    rx_frames: u32,
    tx_usecs: u32,
    /// Without a link rate there is no next frame to wait for: what has arrived is the batch.
    at_once: bool,
}

impl Moderation {
    pub(crate) fn of(knobs: &PortKnobs, has_link_rate: bool, adaptive: &Adaptive) -> Self {
        let PortKnobs { rx_usecs, rx_frames, tx_usecs, .. } = *knobs;
        let rx_usecs = if is_adaptive(knobs) && !adaptive.delays() { 0 } else { rx_usecs };
        Self { rx_usecs, rx_frames, tx_usecs, at_once: !has_link_rate }
    }

    /// When the interrupt for a frame that arrives at `first_ps` comes, if no more frames do.
    pub(crate) fn tick_ps(&self, first_ps: u64) -> u64 {
        next_tick_ps(first_ps, self.rx_usecs)
    }

    /// The last tick until `time_ps`: whoever looks then spares the thread another waking.
    pub(crate) fn tick_before_ps(&self, time_ps: u64) -> Option<u64> {
        time_ps
            .checked_div(u64::from(self.rx_usecs) * PS_PER_US)
            .map(|ticks| ticks * u64::from(self.rx_usecs) * PS_PER_US)
    }

    /// The first tick after `time_ps`, if receive interrupts come at ticks alone; `None` where an
    /// interrupt may come at another time.
    pub(crate) fn tick_after_ps(&self, time_ps: u64) -> Option<u64> {
        let ticks_alone = self.rx_usecs > 0 && self.rx_frames == 0 && !self.at_once;
        ticks_alone.then(|| next_tick_ps(time_ps, self.rx_usecs))
    }

    /// The number of frames that raise an interrupt before its tick.
    pub(crate) fn batch(&self) -> usize {
        if self.rx_frames == 0 { usize::MAX } else { self.rx_frames as usize }
    }
}

impl Interface {
    /// When a queue's receive interrupt is due; `None` while nothing waits for it.
    pub(crate) fn receive_due_ps(&self, queue: usize, moderation: Moderation) -> Option<u64> {
        let queue = &self.queues[queue];
        if queue.waiting == 0 {
            return None;
        }
        let enough = moderation.at_once || queue.waiting as usize >= moderation.batch();
        let since_ps = queue.waiting_since_ps;
        Some(if enough { since_ps } else { moderation.tick_ps(since_ps) })
    }

    /// Raises a queue's receive interrupt. True if the host's driver slept, and was woken.
    pub(crate) fn interrupt(&mut self, queue: usize) -> bool {
        let queue = &mut self.queues[queue];
        queue.waiting = 0;
        match &mut queue.ends {
            Ends::Driver { shared, .. } => shared.interrupt.wake(),
            Ends::Polled(polled) => {
                let any = polled.interrupt();
                if polled.is_broken() {
                    self.shared.broken.store(true, Ordering::Relaxed);
                }
                any
            }
        }
    }

    /// Tells a queue's driver which descriptors are free again, by interrupt if it waits for them.
    pub(crate) fn complete(
        &mut self,
        queue: usize,
        moderation: Moderation,
        now_ps: u64,
    ) -> Completed {
        let queue = &mut self.queues[queue];
        let Ends::Driver { shared, .. } = &queue.ends else { return Completed::default() };
        let mut done = 0;
        while queue.completions.front().is_some_and(|end_ps| *end_ps <= now_ps) {
            let end_ps = queue.completions.pop_front();
            queue.completed_since_ps = queue.completed_since_ps.or(end_ps);
            done += 1;
        }
        if done > 0 {
            shared.completed.fetch_add(done, Ordering::Release);
        }
        if !queue.is_starved() {
            queue.completed_since_ps = None;
            return Completed { any: done > 0, interrupted: false };
        }
        let wait_ps = u64::from(moderation.tx_usecs) * PS_PER_US;
        let due = queue.completed_since_ps.is_some_and(|since_ps| {
            // with nothing outstanding there is nothing to wait for
            queue.completions.is_empty() || since_ps + wait_ps <= now_ps
        });
        let interrupted = due && shared.interrupt.wake();
        if due {
            queue.completed_since_ps = None;
        }
        Completed { any: done > 0 || due, interrupted }
    }

    /// When the next interrupt is due that a clock brings.
    pub(crate) fn interrupt_due_ps(&self, moderation: Moderation) -> Option<u64> {
        let receive = (0..self.queues.len()).map(|queue| self.receive_due_ps(queue, moderation));
        let complete = self.queues.iter().map(|queue| queue.completion_due_ps(moderation));
        receive.chain(complete).flatten().min()
    }
}

impl Queue {
    fn completion_due_ps(&self, moderation: Moderation) -> Option<u64> {
        if !self.is_starved() {
            return None;
        }
        let first_ps = self.completed_since_ps.or(self.completions.front().copied())?;
        Some(first_ps + u64::from(moderation.tx_usecs) * PS_PER_US)
    }
}
