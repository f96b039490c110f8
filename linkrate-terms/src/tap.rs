//! What the driver of a virtual adapter does with the TAP of its host, which no driver of a real adapter
//! does: a system call for each packet, and a copy of its bytes.
//!
//! The calls of a run are counted by the size of their packets. Their prices are measured once in a lab.
//! The product is the time that a real adapter, which copies by DMA, would not cost its host.

use serde::{Deserialize, Serialize};

/// Bytes of the calls at which prices are measured, with the header before the packet. They begin the
/// classes in which calls are counted; the last one ends a class that has no end.
pub const SIZES: [usize; 6] = [64, 1_500, 4_096, 16_384, 32_768, 65_000];

/// Number of classes of calls.
pub const CLASSES: usize = SIZES.len() - 1;

/// The class of a call that moves `bytes`.
#[must_use]
pub fn class(bytes: usize) -> usize {
    SIZES[1..CLASSES].partition_point(|begin| *begin <= bytes)
}

/// Calls of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Calls {
    /// How many.
    pub calls: u64,
    /// Bytes that they moved.
    pub bytes: u64,
}

impl Calls {
    /// Both together.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(more.calls),
            bytes: self.bytes.saturating_add(more.bytes),
        }
    }

    /// The calls since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(earlier.calls),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

/// Number of classes of timed sleeps.
pub const SLEEP_CLASSES: usize = 32;

/// Where the first class of timed sleeps begins, ns. Four classes are a factor of two; the last one has no end.
const SLEEPS_FROM_NS: f64 = 500.0;

/// Sleeps whose CPU time the clock of the thread told, one of some: how many there are of each class of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TimedSleeps {
    /// How many are in each class.
    pub counts: [u64; SLEEP_CLASSES],
}

impl TimedSleeps {
    /// The class of a sleep that took so much CPU time, ns.
    #[must_use]
    pub fn class(cpu_ns: u64) -> usize {
        let class = (cpu_ns as f64 / SLEEPS_FROM_NS).log2() * 4.0;
        (class.max(0.0) as usize).min(SLEEP_CLASSES - 1)
    }

    fn with(self, other: Self, count: fn(u64, u64) -> u64) -> Self {
        Self { counts: std::array::from_fn(|class| count(self.counts[class], other.counts[class])) }
    }

    /// How many they are.
    #[must_use]
    pub fn sleeps(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The median of their CPU time, ns: softirqs of the stack run in some of them, and make these longer. `None` without
    /// sleeps.
    #[must_use]
    pub fn median_ns(&self) -> Option<f64> {
        let half = self.sleeps() as f64 / 2.0;
        let mut before = 0.0;
        for (class, count) in self.counts.iter().enumerate() {
            let count = *count as f64;
            if count > 0.0 && before + count >= half {
                let at = class as f64 + (half - before) / count;
                return Some(SLEEPS_FROM_NS * (at / 4.0).exp2());
            }
            before += count;
        }
        None
    }
}

/// What drivers did with TAPs, by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TapCalls {
    /// Reads that found no packet.
    pub empty_reads: u64,
    /// Reads of a packet.
    pub reads: [Calls; CLASSES],
    /// Writes of a packet.
    pub writes: [Calls; CLASSES],
    /// How often the threads went to sleep. Absent in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleeps: Option<u64>,
    /// Those of them that were timed. Absent in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_sleeps: Option<TimedSleeps>,
}

impl TapCalls {
    /// Both together.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        self.with(more, Calls::plus, u64::saturating_add)
    }

    /// The calls since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.with(earlier, Calls::since, u64::saturating_sub)
    }

    fn with(
        self,
        other: Self,
        of_class: fn(Calls, Calls) -> Calls,
        count: fn(u64, u64) -> u64,
    ) -> Self {
        let each = |own: [Calls; CLASSES], others: [Calls; CLASSES]| {
            std::array::from_fn(|class| of_class(own[class], others[class]))
        };
        Self {
            empty_reads: count(self.empty_reads, other.empty_reads),
            reads: each(self.reads, other.reads),
            writes: each(self.writes, other.writes),
            sleeps: self.sleeps.zip(other.sleeps).map(|(own, others)| count(own, others)),
            timed_sleeps: self
                .timed_sleeps
                .zip(other.timed_sleeps)
                .map(|(own, others)| own.with(others, count)),
        }
    }

    /// Packets that were read.
    #[must_use]
    pub fn packets_read(&self) -> u64 {
        self.reads.iter().fold(0, |sum, class| sum.saturating_add(class.calls))
    }

    /// Packets that were written.
    #[must_use]
    pub fn packets_written(&self) -> u64 {
        self.writes.iter().fold(0, |sum, class| sum.saturating_add(class.calls))
    }

    /// What these calls cost.
    #[must_use]
    pub fn cost(&self, prices: &TapPrices) -> Price {
        let empty = Calls { calls: self.empty_reads, bytes: 0 };
        let read = prices.read.of(&self.reads).plus(prices.read.call.times(empty.calls as f64));
        read.plus(prices.write.of(&self.writes))
    }
}

/// A time with its scatter, ns: the median and the quartiles of repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Price {
    /// The median.
    pub ns: f64,
    /// The first quartile.
    pub low_ns: f64,
    /// The third quartile.
    pub high_ns: f64,
}

impl Price {
    /// The median and the quartiles of `times`, ns; each is the nearest of them. `None` without times.
    #[must_use]
    pub fn of(times: &[f64]) -> Option<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |quarter: usize| sorted[(last * quarter + 2) / 4];
        Some(Self { ns: at(2), low_ns: at(1), high_ns: at(3) })
    }

    fn plus(self, more: Self) -> Self {
        self.with(more, |own, other| own + other)
    }

    fn times(self, count: f64) -> Self {
        self.with(self, |own, _| own * count)
    }

    fn with(self, other: Self, each: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            ns: each(self.ns, other.ns),
            low_ns: each(self.low_ns, other.low_ns),
            high_ns: each(self.high_ns, other.high_ns),
        }
    }
}

/// The price of a read or of a write.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CallPrice {
    /// Of a call that moves nothing.
    pub call: Price,
    /// Of moving the bytes of a call, at each of [`SIZES`]. Zero at the first, which is the measure of the
    /// others: what a packet of any size costs is work of any driver.
    pub copies: [Price; SIZES.len()],
    /// Of the smallest packet beyond a call that moves nothing: its memory and its descriptor, which are work of any
    /// driver. Zero in runs of earlier versions.
    #[serde(default)]
    pub packet: Price,
}

impl CallPrice {
    /// The price of calls by class. Between two sizes the price of a copy grows with the bytes.
    fn of(&self, classes: &[Calls; CLASSES]) -> Price {
        let of_class = |(class, counted): (usize, &Calls)| {
            let (calls, bytes) = (counted.calls as f64, counted.bytes as f64);
            let (begin, end) = (SIZES[class] as f64, SIZES[class + 1] as f64);
            let beyond = (bytes - calls * begin) / (end - begin);
            let copy = self.copies[class].with(self.copies[class + 1], |at_begin, at_end| {
                (at_begin * calls + (at_end - at_begin) * beyond).max(0.0)
            });
            copy.plus(self.call.times(calls))
        };
        classes.iter().enumerate().map(of_class).fold(Price::default(), Price::plus)
    }
}

/// The prices of reads and writes of a TAP, on the CPUs of the system under test.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TapPrices {
    /// Of a read.
    pub read: CallPrice,
    /// Of a write, without the receive processing of the host, which runs in it.
    pub write: CallPrice,
    /// Of going to sleep and waking in a lab without load. It counts where the run timed no sleep of its own, as in runs
    /// of earlier versions. Zero in runs before them.
    #[serde(default)]
    pub sleep: Price,
}

/// What the drivers of a run did with the TAPs of the system under test.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TapEvidence {
    /// Their calls in the window.
    pub calls: TapCalls,
    /// What such calls cost; absent if it could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<TapPrices>,
}

impl TapEvidence {
    /// What the calls cost; `None` without prices.
    #[must_use]
    pub fn cost(&self) -> Option<Price> {
        Some(self.calls.cost(self.prices.as_ref()?))
    }

    /// CPU time of the drivers' own work, ns: their code, which is the user time of their threads, their calls, their
    /// packets and their sleeps, which stand for the interrupts of a real adapter. The rest of these threads' time is that of the host's stack, which works in them: a write
    /// runs the receive processing, and softirqs find the thread on the CPU. `None` if a part is not known.
    #[must_use]
    pub fn driver_ns(&self, user_ns: u64) -> Option<f64> {
        let (prices, sleeps) = (self.prices.as_ref()?, self.calls.sleeps? as f64);
        let packets = self.calls.packets_read() as f64 * prices.read.packet.ns
            + self.calls.packets_written() as f64 * prices.write.packet.ns;
        // on a CPU with other work a sleep costs a part of the price without load, which may be that of leaving an idle
        // state of a virtual machine
        let timed_ns = self.calls.timed_sleeps.and_then(|timed| timed.median_ns());
        let sleep_ns = timed_ns.unwrap_or(prices.sleep.ns);
        Some(user_ns as f64 + self.calls.cost(prices).ns + packets + sleeps * sleep_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exactly(ns: f64) -> Price {
        Price { ns, low_ns: ns * 0.9, high_ns: ns * 1.2 }
    }

    /// A call costs 300 ns, and each byte beyond 64 bytes a tenth of a nanosecond.
    fn prices() -> TapPrices {
        let copies = SIZES.map(|bytes| exactly((bytes - SIZES[0]) as f64 * 0.1));
        let price = CallPrice { call: exactly(300.0), copies, packet: exactly(50.0) };
        let write = CallPrice { call: exactly(500.0), ..price };
        TapPrices { read: price, write, sleep: exactly(2000.0) }
    }

    #[test]
    fn a_class_begins_at_each_size_except_the_last() {
        let classes = [0, 63, 64, 1_499, 1_500, 4_096, 32_767, 32_768, 65_000, 70_000].map(class);
        assert_eq!(classes, [0, 0, 0, 0, 1, 2, 3, 4, 4, 4]);
    }

    #[test]
    fn the_cost_is_that_of_each_call() {
        let mut calls = TapCalls { empty_reads: 7, ..TapCalls::default() };
        let sizes = [64, 100, 1_500, 1_514, 9_000, 40_000, 65_550];
        for bytes in sizes {
            let one = Calls { calls: 1, bytes: bytes as u64 };
            calls.reads[class(bytes)] = calls.reads[class(bytes)].plus(one);
            calls.writes[class(bytes)] = calls.writes[class(bytes)].plus(one);
        }
        assert_eq!((calls.packets_read(), calls.packets_written()), (7, 7));
        let copies: f64 = sizes.iter().map(|bytes| (bytes - 64) as f64 * 0.1).sum();
        let cost = calls.cost(&prices());
        assert!((cost.ns - (14.0 * 300.0 + 7.0 * 500.0 + 2.0 * copies)).abs() < 1e-6, "{cost:?}");
        assert!((cost.low_ns - cost.ns * 0.9).abs() < 1e-6, "{cost:?}");
        assert!((cost.high_ns - cost.ns * 1.2).abs() < 1e-6, "{cost:?}");
        // calls that move less than the smallest size cost no less than a call
        let mut short = TapCalls::default();
        short.writes[0] = Calls { calls: 2, bytes: 2 };
        assert_eq!(short.cost(&prices()).ns, 1000.0);
    }

    #[test]
    fn counts_are_added_and_separated() {
        let some = |calls| {
            let one = Calls { calls, bytes: 100 * calls };
            TapCalls {
                empty_reads: calls,
                reads: [one; CLASSES],
                writes: [one; CLASSES],
                sleeps: Some(10 * calls),
                timed_sleeps: Some(TimedSleeps { counts: [calls; SLEEP_CLASSES] }),
            }
        };
        assert_eq!(some(3).plus(some(4)), some(7));
        assert_eq!(some(7).since(some(4)), some(3));
        let timed_sleeps = Some(TimedSleeps::default());
        let nothing = TapCalls { sleeps: Some(0), timed_sleeps, ..TapCalls::default() };
        assert_eq!(some(1).since(some(4)), nothing);
        // of earlier versions
        let unknown = |calls| TapCalls { sleeps: None, timed_sleeps: None, ..some(calls) };
        assert_eq!(some(7).since(unknown(4)), unknown(3));
    }

    #[test]
    fn a_driver_has_its_code_its_calls_its_packets_and_its_sleeps() {
        let mut calls = TapCalls { empty_reads: 100, sleeps: Some(70), ..TapCalls::default() };
        calls.reads[0] = Calls { calls: 1000, bytes: 64_000 };
        calls.writes[0] = Calls { calls: 200, bytes: 12_800 };
        let evidence = |calls, prices| TapEvidence { calls, prices };
        let own = evidence(calls, Some(prices())).driver_ns(20_000).unwrap();
        let expected = 20_000.0 + 1100.0 * 300.0 + 200.0 * 500.0 + 1200.0 * 50.0 + 70.0 * 2000.0;
        assert!((own - expected).abs() < 1e-6, "{own}");
        assert_eq!(evidence(calls, None).driver_ns(20_000), None);
        // sleeps of the run itself count, and not those of a lab without load
        let timed = timed(&[800, 800, 800, 90_000]);
        let sleep_ns = timed.median_ns().unwrap();
        calls.timed_sleeps = Some(timed);
        let own_of_timed = evidence(calls, Some(prices())).driver_ns(20_000).unwrap();
        let expected = expected - 70.0 * (2000.0 - sleep_ns);
        assert!((own_of_timed - expected).abs() < 1e-6, "{own_of_timed}");
        calls.timed_sleeps = Some(TimedSleeps::default());
        assert_eq!(evidence(calls, Some(prices())).driver_ns(20_000), Some(own));
        calls.sleeps = None;
        assert_eq!(evidence(calls, Some(prices())).driver_ns(20_000), None);
    }

    fn timed(sleeps_ns: &[u64]) -> TimedSleeps {
        let mut timed = TimedSleeps::default();
        for ns in sleeps_ns {
            timed.counts[TimedSleeps::class(*ns)] += 1;
        }
        timed
    }

    #[test]
    fn a_sleep_in_which_the_stack_works_does_not_make_the_others_dearer() {
        assert_eq!(TimedSleeps::default().median_ns(), None);
        for ns in [0, 499, 500, 800, 12_000, 30_000, 110_000] {
            let median_ns = timed(&[ns; 5]).median_ns().unwrap();
            let near_ns = ns.max(500) as f64;
            assert!((median_ns / near_ns).log2().abs() < 0.25, "{ns}: {median_ns}");
        }
        let plain = timed(&[8_000, 9_000, 10_000, 11_000, 12_000, 13_000]);
        assert!((9_000.0..12_000.0).contains(&plain.median_ns().unwrap()), "{plain:?}");
        let with_work = timed(&[8_000, 9_000, 10_000, 11_000, 200_000, 2_000_000]);
        assert!((9_000.0..12_000.0).contains(&with_work.median_ns().unwrap()), "{with_work:?}");
        assert_eq!(TimedSleeps::class(u64::MAX), SLEEP_CLASSES - 1);
    }

    #[test]
    fn a_price_is_the_median_with_quartiles() {
        let times: Vec<f64> = (1..=9).rev().map(f64::from).collect();
        assert_eq!(Price::of(&times), Some(Price { ns: 5.0, low_ns: 3.0, high_ns: 7.0 }));
        assert_eq!(Price::of(&[4.0]), Some(Price { ns: 4.0, low_ns: 4.0, high_ns: 4.0 }));
        assert_eq!(Price::of(&[]), None);
    }
}
