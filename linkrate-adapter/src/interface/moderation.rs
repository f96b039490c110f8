//! Moderated interrupts: the times of receive and transmit completion interrupts.
//!
//! As in adapters with an interrupt throttle, a timer runs freely with a period of `rx-usecs`. Its
//! next tick raises the interrupt for all packets that have arrived by then. All ports with the same
//! period tick together, so the device thread wakes once for all of them. With adaptive moderation
//! a port waits for the tick only while its link carries bulk traffic ([`adaptive`]).

mod adaptive;

use std::sync::atomic::Ordering;

use linkrate_model::PortKnobs;

use super::{Ends, Interface, Queue, Waiting};
use crate::clock::{PS_PER_NS, PS_PER_US};
use crate::counters::LinkCounters;

pub(crate) use adaptive::Adaptive;
use adaptive::Traffic;

/// A time of a knob in picoseconds.
fn ps(usecs: u32) -> u64 {
    u64::from(usecs) * PS_PER_US
}

/// A timer that runs freely: it ticks at the multiples of its period.
#[derive(Debug, Clone, Copy)]
struct Timer {
    /// 0: the timer ticks at any time.
    period_ps: u64,
}

impl Timer {
    /// The first tick after `since_ps`; without a period, `since_ps` itself.
    fn next_ps(self, since_ps: u64) -> u64 {
        match self.period_ps {
            0 => since_ps,
            period_ps => (since_ps / period_ps + 1) * period_ps,
        }
    }

    /// The last tick until `time_ps`; `None` without a period.
    fn last_ps(self, time_ps: u64) -> Option<u64> {
        time_ps.checked_div(self.period_ps).map(|ticks| ticks * self.period_ps)
    }
}

/// The result of a look at completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Completed {
    /// A descriptor was completed, or an interrupt was due.
    pub(crate) any: bool,
    /// The driver was interrupted.
    pub(crate) interrupted: bool,
}

/// Lets the delay of receive interrupts follow the traffic of the link, if `adaptive-rx` is on.
pub(crate) fn follow(
    adaptive: &mut Adaptive,
    knobs: &PortKnobs,
    counters: &LinkCounters,
    now_ps: u64,
) {
    if !knobs.adaptive_rx {
        return;
    }
    let frames = [&counters.in_unicast, &counters.in_multicast, &counters.in_broadcast];
    let totals = Traffic {
        frames_in: frames.iter().map(|kind| kind.get()).sum(),
        octets_in: counters.in_octets.get(),
        octets_out: counters.out_octets.get(),
    };
    adaptive.observe(now_ps, ps(knobs.rx_usecs), totals);
}

/// The rules for the interrupts of a port, from its knobs and its traffic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moderation {
    /// Raises receive interrupts.
    rx: Timer,
    /// Frames that raise a receive interrupt before the tick.
    rx_frames: usize,
    /// How long a completion waits for others.
    tx_wait_ps: u64,
    /// Receive interrupts do not wait for the tick: without a link rate, no further frame is on its
    /// way.
    at_once: bool,
}

impl Moderation {
    pub(crate) fn of(knobs: &PortKnobs, has_link_rate: bool, adaptive: &Adaptive) -> Self {
        let waits = !knobs.adaptive_rx || adaptive.delays();
        Self {
            rx: Timer { period_ps: if waits { ps(knobs.rx_usecs) } else { 0 } },
            rx_frames: if knobs.rx_frames == 0 { usize::MAX } else { knobs.rx_frames as usize },
            tx_wait_ps: ps(knobs.tx_usecs),
            at_once: !has_link_rate,
        }
    }

    /// When the interrupt for a frame that arrives at `first_ps` comes, if no more frames do.
    pub(crate) fn tick_ps(&self, first_ps: u64) -> u64 {
        self.rx.next_ps(first_ps)
    }

    /// The last tick until `time_ps`. A device that does its work at this tick spares the thread
    /// another waking.
    pub(crate) fn tick_before_ps(&self, time_ps: u64) -> Option<u64> {
        self.rx.last_ps(time_ps)
    }

    /// The first tick after `time_ps`, if receive interrupts come at ticks alone; `None` where an
    /// interrupt may come at another time.
    pub(crate) fn tick_after_ps(&self, time_ps: u64) -> Option<u64> {
        let ticks_alone = self.rx.period_ps > 0 && self.rx_frames == usize::MAX && !self.at_once;
        ticks_alone.then(|| self.tick_ps(time_ps))
    }

    /// The number of frames that raise an interrupt before its tick.
    pub(crate) fn batch(&self) -> usize {
        self.rx_frames
    }
}

impl Interface {
    /// When a queue's receive interrupt is due; `None` while no frame waits for it.
    pub(crate) fn receive_due_ps(&self, queue: usize, moderation: Moderation) -> Option<u64> {
        let queue = &self.queues[queue];
        if queue.waiting == 0 {
            return None;
        }
        let enough = moderation.at_once || queue.waiting as usize >= moderation.batch();
        let since_ps = queue.waiting_since_ps;
        Some(if enough { since_ps } else { moderation.tick_ps(since_ps) })
    }

    /// The frames that wait for a queue's receive interrupt, and how long they have by `until_ps`.
    pub(crate) fn waiting(&self, queue: usize, until_ps: u64) -> Waiting {
        self.queues[queue].waiting(until_ps)
    }

    /// Raises a queue's receive interrupt. True if the host's driver slept and is woken now.
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

    /// Tells a queue's driver which descriptors are free again. A driver that waits for them is
    /// interrupted.
    pub(crate) fn complete(
        &mut self,
        queue: usize,
        moderation: Moderation,
        now_ps: u64,
    ) -> Completed {
        let queue = &mut self.queues[queue];
        let Ends::Driver { shared, .. } = &queue.ends else { return Completed::default() };
        let (mut done, mut bytes, mut last_ps) = (0, 0, 0);
        while let Some(next) = queue.completions.front().filter(|next| next.end_ps <= now_ps) {
            queue.completed_since_ps = queue.completed_since_ps.or(Some(next.end_ps));
            done += 1;
            bytes += u64::from(next.bytes);
            last_ps = next.end_ps;
            queue.completions.pop_front();
        }
        let due_ps = queue.completed_since_ps.map(|since_ps| {
            let waited_ps = since_ps + moderation.tx_wait_ps;
            // with nothing outstanding there is nothing to wait for
            if queue.completions.is_empty() {
                waited_ps.min(last_ps.max(since_ps))
            } else {
                waited_ps
            }
        });
        let due_ps = due_ps.filter(|due_ps| *due_ps <= now_ps);
        if done > 0 {
            // a driver that is awake takes them when it likes
            let late_ps = due_ps.filter(|_| queue.is_starved()).map_or(0, |due_ps| now_ps - due_ps);
            shared.late_ns.store(late_ps / PS_PER_NS, Ordering::Relaxed);
            shared.completed_bytes.fetch_add(bytes, Ordering::Relaxed);
            shared.completed.fetch_add(done, Ordering::Release);
        }
        if !queue.is_starved() {
            queue.completed_since_ps = None;
            return Completed { any: done > 0, interrupted: false };
        }
        let interrupted = due_ps.is_some() && shared.interrupt.wake();
        if due_ps.is_some() {
            queue.completed_since_ps = None;
        }
        Completed { any: done > 0 || due_ps.is_some(), interrupted }
    }

    /// When the next interrupt is due.
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
        let first_ps =
            self.completed_since_ps.or(self.completions.front().map(|first| first.end_ps))?;
        Some(first_ps + moderation.tx_wait_ps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_multiples_of_the_period() {
        let knobs = PortKnobs { rx_usecs: 10, rx_frames: 0, tx_usecs: 30, ..PortKnobs::default() };
        let moderation = Moderation::of(&knobs, true, &Adaptive::default());
        let us = |usecs: u64| usecs * PS_PER_US;
        assert_eq!(moderation.tick_ps(us(9)), us(10));
        assert_eq!(moderation.tick_ps(us(10)), us(20));
        assert_eq!(moderation.tick_before_ps(us(29)), Some(us(20)));
        assert_eq!((moderation.tx_wait_ps, moderation.batch()), (us(30), usize::MAX));
        let knobs = PortKnobs { adaptive_rx: true, ..knobs };
        // no bulk traffic yet
        let moderation = Moderation::of(&knobs, true, &Adaptive::default());
        assert_eq!((moderation.tick_ps(7), moderation.tick_before_ps(7)), (7, None));
    }
}
