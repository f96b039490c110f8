//! The calls by which a driver thread reads and writes the TAPs of its queues, and its sleeps between them.

use linkrate_sys::clock::own_cpu_ns;
use linkrate_terms::tap::{CLASSES, Calls, SLEEP_CLASSES, TapCalls, TimedSleeps, class};

use crate::counters::Counter;

/// One sleep of so many is timed: two looks at the clock of the thread, each a system call, cost a tenth of a sleep. It is
/// no multiple of the periods that sleeps have, such as two for each interrupt.
const TIMED: u64 = 13;

/// Calls of one class.
#[derive(Debug, Default)]
struct ClassCounters {
    calls: Counter,
    bytes: Counter,
}

impl ClassCounters {
    fn count(&self, bytes: usize) {
        self.calls.add(1);
        self.bytes.add(bytes as u64);
    }

    fn get(&self) -> Calls {
        Calls { calls: self.calls.get(), bytes: self.bytes.get() }
    }
}

/// The calls of one driver thread, which alone counts.
#[derive(Debug, Default)]
pub(crate) struct TapCounters {
    empty_reads: Counter,
    reads: [ClassCounters; CLASSES],
    writes: [ClassCounters; CLASSES],
    sleeps: Counter,
    timed_sleeps: [Counter; SLEEP_CLASSES],
}

impl TapCounters {
    /// A read returned a packet of `bytes` with its header.
    pub(crate) fn count_read(&self, bytes: usize) {
        self.reads[class(bytes)].count(bytes);
    }

    /// A read found no packet.
    pub(crate) fn count_empty_read(&self) {
        self.empty_reads.add(1);
    }

    /// A write took a packet of `bytes` with its header.
    pub(crate) fn count_write(&self, bytes: usize) {
        self.writes[class(bytes)].count(bytes);
    }

    /// The thread sleeps, by this call.
    pub(crate) fn count_sleep<T>(&self, sleep: impl FnOnce() -> T) -> T {
        let number = self.sleeps.get();
        self.sleeps.add(1);
        if !number.is_multiple_of(TIMED) {
            return sleep();
        }
        let begun_ns = own_cpu_ns();
        let slept = sleep();
        let cpu_ns = own_cpu_ns().saturating_sub(begun_ns);
        self.timed_sleeps[TimedSleeps::class(cpu_ns)].add(1);
        slept
    }

    /// The calls so far.
    pub(crate) fn get(&self) -> TapCalls {
        TapCalls {
            empty_reads: self.empty_reads.get(),
            reads: std::array::from_fn(|class| self.reads[class].get()),
            writes: std::array::from_fn(|class| self.writes[class].get()),
            sleeps: Some(self.sleeps.get()),
            timed_sleeps: Some(TimedSleeps {
                counts: std::array::from_fn(|class| self.timed_sleeps[class].get()),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_the_size_of_their_packets() {
        let counters = TapCounters::default();
        counters.count_empty_read();
        for bytes in [76, 1_524, 1_524, 65_550] {
            counters.count_read(bytes);
        }
        counters.count_write(9_024);
        for number in 0..2 * TIMED {
            assert_eq!(counters.count_sleep(|| number), number);
        }
        let counted = counters.get();
        assert_eq!(
            (counted.empty_reads, counted.packets_read(), counted.packets_written()),
            (1, 4, 1)
        );
        assert_eq!(counted.sleeps, Some(2 * TIMED));
        assert_eq!(counted.timed_sleeps.unwrap().sleeps(), 2);
        assert_eq!(counted.reads[1], Calls { calls: 2, bytes: 3_048 });
        assert_eq!(counted.reads[CLASSES - 1], Calls { calls: 1, bytes: 65_550 });
        assert_eq!(counted.writes[2], Calls { calls: 1, bytes: 9_024 });
    }
}
