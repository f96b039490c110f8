//! When a driver is interrupted: receive and transmit completion interrupts, moderated.
//!
//! As in adapters with an interrupt throttle, a timer runs freely with a period of `rx-usecs`, and
//! what has come by its next tick is announced then. All ports of a wire with the same period tick
//! together, so the device wakes once for all of them.

use std::sync::atomic::Ordering;

use super::DevicePort;
use crate::clock::PS_PER_US;

/// The first tick after `since_ps` of a timer with this period; at once without one.
pub(crate) fn next_tick_ps(since_ps: u64, usecs: u32) -> u64 {
    match u64::from(usecs) * PS_PER_US {
        0 => since_ps,
        period_ps => (since_ps / period_ps + 1) * period_ps,
    }
}

impl DevicePort {
    /// Raises the interrupts that are due, and says whether one was.
    pub(crate) fn interrupt(&mut self, now_ps: u64) -> bool {
        let mut any = false;
        for queue in 0..self.queues.len() {
            any |= self.complete(queue, now_ps);
            if self.receive_due_ps(queue).is_some_and(|due_ps| due_ps <= now_ps) {
                // the end of a batch is the end of merging
                for delivery in self.queues[queue].coalescer.flush() {
                    self.deliver(queue, delivery, true, now_ps);
                }
                let shared = &self.queues[queue].shared;
                if shared.interrupt.wake() {
                    self.shared.counters.rx_interrupts.add(1);
                }
                self.queues[queue].waiting = 0;
                any = true;
            }
        }
        any
    }

    /// When the next interrupt is due that a clock brings, if any is.
    pub(crate) fn interrupt_due_ps(&self) -> Option<u64> {
        (0..self.queues.len())
            .flat_map(|queue| [self.receive_due_ps(queue), self.completion_due_ps(queue)])
            .flatten()
            .min()
    }

    fn receive_due_ps(&self, queue: usize) -> Option<u64> {
        let queue = &self.queues[queue];
        if queue.waiting == 0 {
            return None;
        }
        // without a link there is no next frame to wait for: what has come is the batch
        let enough = self.limits.rate.is_none()
            || (self.knobs.rx_frames != 0 && queue.waiting >= self.knobs.rx_frames);
        Some(if enough {
            queue.waiting_since_ps
        } else {
            next_tick_ps(queue.waiting_since_ps, self.knobs.rx_usecs)
        })
    }

    /// Tells the driver which descriptors are free again, by interrupt if it waits for them.
    fn complete(&mut self, number: usize, now_ps: u64) -> bool {
        let queue = &mut self.queues[number];
        let left = |queue: &super::DeviceQueue| {
            queue.completions.front().is_some_and(|end_ps| *end_ps <= now_ps)
        };
        let mut done = 0;
        while left(queue) {
            let end_ps = queue.completions.pop_front();
            queue.completed_since_ps = queue.completed_since_ps.or(end_ps);
            done += 1;
        }
        if done > 0 {
            queue.shared.completed.fetch_add(done, Ordering::Release);
        }
        if !queue.shared.starved.load(Ordering::Acquire) {
            queue.completed_since_ps = None;
            return done > 0;
        }
        let wait_ps = u64::from(self.knobs.tx_usecs) * PS_PER_US;
        let due = queue.completed_since_ps.is_some_and(|since_ps| {
            // with nothing outstanding there is nothing to wait for
            queue.completions.is_empty() || since_ps + wait_ps <= now_ps
        });
        if due {
            queue.completed_since_ps = None;
            if queue.shared.interrupt.wake() {
                self.shared.counters.tx_interrupts.add(1);
            }
        }
        done > 0 || due
    }

    fn completion_due_ps(&self, queue: usize) -> Option<u64> {
        let queue = &self.queues[queue];
        if !queue.shared.starved.load(Ordering::Acquire) {
            return None;
        }
        let first_ps = queue.completed_since_ps.or(queue.completions.front().copied())?;
        Some(first_ps + u64::from(self.knobs.tx_usecs) * PS_PER_US)
    }
}
