//! How a driver thread shares its CPU: as the kernel's network softirq does.
//!
//! A softirq is not preempted by the programs that its packets wake. After a budget of packets or
//! of time the rest is left to ksoftirqd, which takes its turn with everyone
//! (`net_rx_action`, net/core/dev.c; `__do_softirq`, kernel/softirq.c). A driver thread has
//! real-time priority for its poll, and after each budget it stands in line once. Without the
//! priority each packet that wakes a program costs a change of thread, which no adapter does to
//! its host.

use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use linkrate_sys::sched;

/// Packets of one poll (`net.core.netdev_budget`).
const BUDGET_PACKETS: usize = 300;

/// How a driver thread runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Before the programs of its CPUs, for a budget of packets at a time.
    Napi,
    /// As one of them: this process may not have real-time threads.
    Refused,
    /// After them: the device has the same CPUs, and finishes its work first.
    Batch,
}

/// The priorities of an interface's drivers, as anyone may read them.
#[derive(Debug, Default)]
pub(crate) struct ReportedPriority(AtomicU8);

impl ReportedPriority {
    pub(crate) fn report(&self, priority: Priority) {
        self.0.store(1 + priority as u8, Ordering::Relaxed);
    }

    /// Of the driver that started last; `None` before the first.
    pub(crate) fn priority(&self) -> Option<Priority> {
        [Priority::Napi, Priority::Refused, Priority::Batch]
            .into_iter()
            .find(|priority| 1 + *priority as u8 == self.0.load(Ordering::Relaxed))
    }
}

/// The share of its CPU that one driver thread takes.
#[derive(Debug)]
pub(crate) struct Napi {
    priority: Priority,
    left: usize,
}

impl Napi {
    /// For the calling thread. Where `shares_device_cpus`, the thread gives way to the device.
    pub(crate) fn begin(shares_device_cpus: bool) -> Self {
        let priority = if shares_device_cpus {
            // refused by no kernel; if it were, the thread would only wait less
            let _ = sched::become_batch();
            Priority::Batch
        } else if sched::become_napi().is_ok() {
            Priority::Napi
        } else {
            Priority::Refused
        };
        Self { priority, left: BUDGET_PACKETS }
    }

    pub(crate) fn priority(&self) -> Priority {
        self.priority
    }

    /// Counts packets against the budget. At its end the thread stands in line with everyone, and
    /// begins the next poll when its turn comes. True if it did.
    pub(crate) fn polled(&mut self, packets: usize) -> bool {
        self.left = self.left.saturating_sub(packets);
        if self.left > 0 {
            return false;
        }
        self.left = BUDGET_PACKETS;
        if self.priority == Priority::Napi {
            // a thread that had the priority may leave it, and have it again
            let _ = sched::become_normal();
            thread::yield_now();
            let _ = sched::become_napi();
        }
        true
    }

    /// The thread has no work: the next work begins with a whole budget.
    pub(crate) fn rest(&mut self) {
        self.left = BUDGET_PACKETS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_has_a_budget_and_a_rest_renews_it() {
        let mut napi = Napi { priority: Priority::Refused, left: BUDGET_PACKETS };
        assert!(!napi.polled(299));
        assert!(napi.polled(1));
        assert!(!napi.polled(299));
        napi.rest();
        assert!(!napi.polled(299));
        assert!(napi.polled(64));
    }

    #[test]
    fn the_priority_is_told() {
        let report = ReportedPriority::default();
        assert_eq!(report.priority(), None);
        for priority in [Priority::Napi, Priority::Refused, Priority::Batch] {
            report.report(priority);
            assert_eq!(report.priority(), Some(priority));
        }
    }
}
