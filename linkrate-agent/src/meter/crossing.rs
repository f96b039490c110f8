//! What had crossed the line at an edge of a measurement, from readings around it.
//!
//! Payload arrives at TCP in bursts: a packet, a merged segment, all that a delayed interrupt reports on. At a
//! single reading up to one burst has crossed the line and is still on its way. A measurement that opens just
//! before a burst arrives and closes just after one has more payload than the line carries in its time:
//! of 368 packets of 9180 octets in two seconds each is 0.27 %.
//!
//! So TCP's count is read many times, in the [milliseconds](AROUND_NS) before a measurement opens and after it
//! closes. What has crossed the line at a moment is at least what has arrived, and it grows at the rate of
//! the window. So each burst tells the least that had crossed at the edge, less what its own way to TCP took.
//!
//! Bursts take different times. The figure must not be too high by that, so it errs low: the quickest burst counts
//! at the opening, and the slowest one at the closing. The figure is too high only if each of the *n* bursts at
//! the opening was slower than each of the *m* at the closing. If their times are drawn alike, that has the
//! probability *n*! *m*! / (*n* + *m*)!, 1 in 70 with four (`BURSTS`) each, and the figure is too high by the
//! difference of two bursts that are next to each other.
//!
//! A reading is later than its burst by at most the time since the reading before, which is taken in the direction
//! that makes the figure smaller. Bursts whose reading was late (`LATE`) do not count, if enough others are there.
//!
//! The readings go before all other threads, and must leave the CPU to the threads that carry the packets:
//! an adapter that stalls before an edge makes up for it behind the edge, and the measurement has payload of
//! the time before it. So they rest longer the longer they take, and the more agents read on the same CPU.
//!
//! Payload that does not arrive at a steady rate has other counts in these milliseconds. They scatter alike
//! at both edges, and by less than the payload of these milliseconds.

use linkrate_model::measurement::MAX_FLOWS_READ;
use linkrate_sys::clock::{monotonic_ns, sleep_until_ns};

use crate::flow::Flow;

/// How long a window is looked at before it opens and after it closes at most, ns: a packet of 9180 octets at
/// 15 Mb/s takes 5.4 ms.
pub const AROUND_NS: u64 = 16_000_000;

/// Readings that count are at least of this time next to the edge, ns: several of the longest bursts of a
/// Gigabit link (merged segments of 64 KiB) and what delays their interrupts.
const ENOUGH_NS: u64 = 4_000_000;

/// As many bursts are at least looked for at each edge.
const BURSTS: usize = 4;

/// A reading is late after so many times the usual time since the reading before.
const LATE: u64 = 2;

/// Time between two readings of an agent that has the CPU to itself and few flows, ns. The CPU is free for what
/// arrives meanwhile.
const NAP_NS: u64 = 50_000;

/// All agents on a CPU together rest for at least so many times the time that they read.
const REST: u64 = 4;

/// What had arrived at one moment, all flows together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// What is new since the reading before came after this moment, CLOCK_MONOTONIC ns.
    pub after_ns: u64,
    /// It had arrived at this moment.
    pub until_ns: u64,
    /// Payload that TCP has received, bytes.
    pub bytes: u64,
}

/// How long to rest between two readings.
#[derive(Debug, Clone, Copy)]
struct Pace {
    readers: u64,
    /// The quickest reading so far, ns: others took longer because something else had the CPU.
    quickest_ns: Option<u64>,
}

impl Pace {
    fn new(readers: u32) -> Self {
        Self { readers: u64::from(readers.max(1)), quickest_ns: None }
    }

    fn took(&mut self, reading_ns: u64) {
        self.quickest_ns = Some(self.quickest_ns.map_or(reading_ns, |ns| ns.min(reading_ns)));
    }

    /// The next rest, ns.
    fn rest_ns(self) -> u64 {
        (REST * self.quickest_ns.unwrap_or(0)).max(NAP_NS) * self.readers
    }
}

/// The readings before an edge, up to `edge_ns`, by an agent that has the CPUs of `readers` agents. Empty where no
/// flow's arrivals count.
pub fn before(flows: &[Flow], readers: u32, edge_ns: u64) -> Vec<Arrived> {
    let mut seen = read_until(flows, readers, |now_ns, rest_ns, _| now_ns + rest_ns >= edge_ns);
    // as many as there are behind the other edge
    let last_ns = seen.last().map_or(0, |last| last.until_ns);
    let far_enough = |index: usize| {
        last_ns.saturating_sub(seen[index].until_ns) >= ENOUGH_NS
            && bursts(&seen[index..]) >= BURSTS
    };
    let from = (0..seen.len()).rev().find(|index| far_enough(*index)).unwrap_or(0);
    seen.drain(..from);
    seen
}

/// The readings behind an edge, for as long as [`AROUND_NS`] at most.
pub fn behind(flows: &[Flow], readers: u32, edge_ns: u64) -> Vec<Arrived> {
    read_until(flows, readers, |now_ns, _, seen| {
        let passed_ns = now_ns.saturating_sub(edge_ns);
        passed_ns >= AROUND_NS || (passed_ns >= ENOUGH_NS && bursts(seen) >= BURSTS)
    })
}

/// In how many of these readings something was new.
fn bursts(seen: &[Arrived]) -> usize {
    seen.windows(2).filter(|pair| pair[1].bytes > pair[0].bytes).count()
}

/// Reads until it `is_over` by the present time, the next rest and what was read.
fn read_until(
    flows: &[Flow],
    readers: u32,
    is_over: impl Fn(u64, u64, &[Arrived]) -> bool,
) -> Vec<Arrived> {
    let mut pace = Pace::new(readers);
    let mut seen: Vec<Arrived> = Vec::new();
    let counted = flows.iter().filter(|flow| flow.counts_arrivals).count();
    if counted == 0 || counted > MAX_FLOWS_READ as usize {
        return seen;
    }
    let mut after_ns = monotonic_ns();
    loop {
        let begun_ns = monotonic_ns();
        if is_over(begun_ns, pace.rest_ns(), &seen) {
            return seen;
        }
        let Some(bytes) = arrived(flows) else { return Vec::new() };
        let until_ns = monotonic_ns();
        pace.took(until_ns - begun_ns);
        seen.push(Arrived { after_ns, until_ns, bytes });
        after_ns = begun_ns;
        sleep_until_ns(until_ns + pace.rest_ns());
    }
}

/// Payload that has arrived, all flows together; `None` if a socket cannot tell, as after its connection
/// moved to a TCP offload engine.
fn arrived(flows: &[Flow]) -> Option<u64> {
    let counted = flows.iter().filter(|flow| flow.counts_arrivals);
    counted.map(|flow| arrived_of(flow, flows.len(), flow.counters.received())).sum()
}

/// Payload that TCP has received for a flow, and what the listener took of the preamble; `None` if its
/// socket cannot tell. `read` is what its program had read before.
pub fn arrived_of(flow: &Flow, flows: usize, read: u64) -> Option<u64> {
    let arrived = flow.tcp_info(flows)?.bytes_received;
    // the TCP of a socket that took a connection over knows less than its program
    (arrived >= read).then_some(arrived)
}

/// A reading at the edge itself: the moment, and what had arrived.
pub type Edge = (u64, u64);

/// The payload of a measurement, from readings at its edges and around them; `None` where the edges tell no
/// payload or no time.
///
/// With a burst of 1000 bytes each 1000 ns, a measurement of 9,900 ns has ten of them by its edges, and 9,900
/// bytes.
#[must_use]
pub fn crossed(opened: (Edge, &[Arrived]), closed: (Edge, &[Arrived])) -> Option<u64> {
    let ((open_ns, at_open), before) = opened;
    let ((close_ns, at_close), behind) = closed;
    let bytes = at_close.checked_sub(at_open).filter(|bytes| *bytes > 0)?;
    let interval_ns = close_ns.checked_sub(open_ns).filter(|interval_ns| *interval_ns > 0)?;
    let late_ns = LATE * usual_ns(before, behind);
    // the rate of the edges alone is wrong by a burst at each of them, and that of what crossed is not
    (0..4).try_fold(bytes, |rated, _| {
        let in_time = |ns: u64| i128::from(ns) * i128::from(rated) / i128::from(interval_ns);
        // what had crossed at an edge beyond what had arrived there
        let opening = |seen: &Arrived| {
            let later = in_time(open_ns.saturating_sub(seen.after_ns));
            i128::from(seen.bytes) + later - i128::from(at_open)
        };
        let closing = |seen: &Arrived| {
            let earlier = in_time(seen.until_ns.saturating_sub(close_ns));
            i128::from(seen.bytes) - earlier - i128::from(at_close)
        };
        let quickest = reported(before, late_ns, opening).into_iter().max();
        let slowest = reported(behind, late_ns, closing).into_iter().min();
        let on_its_way = [quickest, slowest].map(|bytes| bytes.unwrap_or(0).max(0));
        u64::try_from(i128::from(bytes) + on_its_way[1] - on_its_way[0]).ok()
    })
}

/// The median time between two readings, ns.
fn usual_ns(before: &[Arrived], behind: &[Arrived]) -> u64 {
    let both = before.iter().chain(behind);
    let mut pauses: Vec<u64> =
        both.map(|seen| seen.until_ns.saturating_sub(seen.after_ns)).collect();
    pauses.sort_unstable();
    pauses.get(pauses.len() / 2).copied().unwrap_or(0)
}

/// What readings tell that followed a burst, by `tells`: that tell more than the reading before, and not less than the
/// reading behind. Late ones count if fewer than [`BURSTS`] others are there. Where there is no burst, the first one
/// tells.
fn reported(seen: &[Arrived], late_ns: u64, tells: impl Fn(&Arrived) -> i128) -> Vec<i128> {
    let all: Vec<i128> = seen.iter().map(tells).collect();
    let is_burst = |index: &usize| {
        seen[*index].bytes > seen[index - 1].bytes
            && all.get(index + 1).is_none_or(|next| *next <= all[*index])
    };
    let bursts: Vec<usize> = (1..seen.len()).filter(is_burst).collect();
    let pause_ns = |index: &usize| seen[*index].until_ns.saturating_sub(seen[*index].after_ns);
    let prompt: Vec<usize> =
        bursts.iter().copied().filter(|index| pause_ns(index) <= late_ns).collect();
    let counted = if prompt.len() < BURSTS { bursts } else { prompt };
    if counted.is_empty() {
        return all.first().copied().into_iter().collect();
    }
    counted.into_iter().map(|index| all[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has arrived of a line that carries `per_us` bytes in a microsecond in bursts of `burst`,
    /// each `late_ns` after it crossed.
    fn bursts(at_ns: u64, burst: u64, per_us: u64, late_ns: u64) -> u64 {
        at_ns.saturating_sub(late_ns) * per_us / 1000 / burst * burst
    }

    /// The payload of a measurement that opens at `open_ns`, by readings each `nap_ns`, in parts of what the line
    /// can carry.
    fn share(
        open_ns: u64,
        interval_ns: u64,
        arrived: impl Fn(u64) -> u64,
        per_us: u64,
    ) -> [f64; 2] {
        const NAP_NS: u64 = 70_000;
        let close_ns = open_ns + interval_ns;
        let series = |from_ns: u64, until_ns: u64| -> Vec<Arrived> {
            (from_ns..until_ns)
                .step_by(NAP_NS as usize)
                .map(|ns| Arrived { after_ns: ns - NAP_NS, until_ns: ns, bytes: arrived(ns) })
                .collect()
        };
        let (before, behind) =
            (series(open_ns - AROUND_NS, open_ns), series(close_ns, close_ns + AROUND_NS));
        let edge = |ns| (ns, arrived(ns));
        let crossed = crossed((edge(open_ns), &before), (edge(close_ns), &behind)).unwrap();
        let most = interval_ns as f64 * per_us as f64 / 1000.0;
        let plain = arrived(close_ns) - arrived(open_ns);
        [plain as f64 / most, crossed as f64 / most]
    }

    #[test]
    fn a_lump_at_an_edge_counts_by_its_time_in_the_window() {
        let at = |ns, bytes| Arrived { after_ns: ns, until_ns: ns, bytes };
        let (opened, closed) = ((950, 0), (10_850, 10_000));
        let behind = [at(10_850, 10_000), at(11_000, 11_000)];
        assert_eq!(crossed((opened, &[at(0, 0)]), (closed, &behind)), Some(9900));
    }

    /// Packets of 9180 octets at 16 Mb/s, and merged segments of a Gigabit link.
    #[test]
    fn a_full_line_never_shows_more_than_it_can_carry() {
        for (burst, per_us, late_ns) in [(9128, 2, 0), (9128, 2, 40_000), (65_160, 118, 20_000)] {
            let shares: Vec<[f64; 2]> = (0..500)
                .map(|turn| {
                    let open_ns = 300_000_000 + turn * 61_357;
                    let arrived = |ns| bursts(ns, burst, per_us, late_ns);
                    share(open_ns, 2_000_000_000, arrived, per_us)
                })
                .collect();
            let most = |index: usize| shares.iter().map(|of| of[index]).fold(0.0, f64::max);
            let least = shares.iter().map(|of| of[1]).fold(2.0, f64::min);
            assert!(most(0) > 1.00003, "the edges alone show more: {}", most(0));
            assert!(most(1) <= 1.0, "{} of {burst}", most(1));
            assert!(least > 0.9998, "{least} of {burst}");
        }
    }

    /// When each burst of a line has arrived, ns: up to `vary_ns` after it crossed, in the order in which they
    /// crossed.
    fn arrivals(
        burst: u64,
        per_us: u64,
        until_ns: u64,
        vary_ns: u64,
        random: &mut u64,
    ) -> Vec<u64> {
        let mut last_ns = 0;
        let crossed_ns = (1..).map(|number| number * burst * 1000 / per_us);
        let arrive = |ns: u64| {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            last_ns = last_ns.max(ns + (*random >> 33) % (vary_ns + 1));
            last_ns
        };
        crossed_ns.take_while(|ns| *ns < until_ns).map(arrive).collect()
    }

    /// What 500 measurements of a full line show: the lowest, the highest, and how many show more than it can carry.
    fn varied(burst: u64, per_us: u64, vary_ns: u64, interval_ns: u64) -> (f64, f64, usize) {
        let mut random = 7;
        let shares: Vec<f64> = (0..500)
            .map(|turn| {
                let open_ns = 50_000_000 + turn * 61_357;
                let until_ns = open_ns + interval_ns + AROUND_NS;
                let arrivals = arrivals(burst, per_us, until_ns, vary_ns, &mut random);
                let arrived =
                    |ns| burst * arrivals.partition_point(|arrival_ns| *arrival_ns <= ns) as u64;
                share(open_ns, interval_ns, arrived, per_us)[1]
            })
            .collect();
        let above = shares.iter().filter(|share| **share > 1.0).count();
        let (least, most) = (
            shares.iter().copied().fold(2.0, f64::min),
            shares.iter().copied().fold(0.0, f64::max),
        );
        println!(
            "{burst} B, {vary_ns} ns, {interval_ns} ns: {least:.5} to {most:.5}, {above} above"
        );
        (least, most, above)
    }

    #[test]
    fn times_that_differ_from_lump_to_lump_make_the_figure_lower() {
        // eight bursts or more at each edge: one measurement in 12,870 could be above
        for burst in [65_160, 1448] {
            let (least, most, _) = varied(burst, 118, 200_000, 400_000_000);
            assert!(most <= 1.0, "{most}");
            assert!(least > 1.0 - 2.0 * 200.0 / 400_000.0, "{least}");
        }
        // two or three at each edge: one in 6 to 20, and by less than the times differ
        let (least, most, above) = varied(9128, 2, 1_000_000, 400_000_000);
        assert!(above < 500 / 6, "{above}");
        assert!(most < 1.0 + 0.5 / 400.0 && least > 1.0 - 2.0 / 400.0, "{least} to {most}");
    }

    /// Another program or the hypervisor holds the agent up for a millisecond, at one reading of each edge.
    #[test]
    fn a_reading_that_is_late_does_not_count() {
        let arrived = |ns| bursts(ns, 65_160, 118, 20_000);
        let (open_ns, interval_ns) = (300_000_000_u64, 1_000_000_000);
        let close_ns = open_ns + interval_ns;
        let series = |from_ns: u64, until_ns: u64| -> Vec<Arrived> {
            let on_time =
                |index: usize, ns: u64| index == 0 || !(20..34).contains(&index) || ns == 0;
            let read: Vec<u64> = (from_ns..until_ns)
                .step_by(70_000)
                .enumerate()
                .filter(|(index, ns)| on_time(*index, *ns))
                .map(|(_, ns)| ns)
                .collect();
            read.windows(2)
                .map(|pair| Arrived {
                    after_ns: pair[0],
                    until_ns: pair[1],
                    bytes: arrived(pair[1]),
                })
                .collect()
        };
        let (before, behind) =
            (series(open_ns - 4_000_000, open_ns), series(close_ns, close_ns + 4_000_000));
        let edge = |ns| (ns, arrived(ns));
        let crossed = crossed((edge(open_ns), &before), (edge(close_ns), &behind)).unwrap();
        let share = crossed as f64 / 118e6;
        assert!((0.9998..=1.0).contains(&share), "{share}");
    }

    #[test]
    fn readings_leave_four_fifths_of_a_cpu_to_others() {
        let mut alone = Pace::new(1);
        assert_eq!(alone.rest_ns(), NAP_NS);
        [9000, 5000, 70_000].into_iter().for_each(|took_ns| alone.took(took_ns));
        assert_eq!(alone.rest_ns(), NAP_NS, "{alone:?}");
        for (readers, took_ns) in [(1, 70_000), (16, 15_000), (64, 20_000), (0, 100_000)] {
            let mut pace = Pace::new(readers);
            pace.took(took_ns);
            let busy = took_ns * u64::from(readers.max(1));
            assert!(busy * REST <= pace.rest_ns(), "{pace:?}");
        }
    }

    /// Nothing is on its way at an edge at which nothing arrives.
    #[test]
    fn traffic_that_has_stopped_keeps_its_count() {
        let at = |ns, bytes| Arrived { after_ns: ns, until_ns: ns, bytes };
        let still = [at(2_000_000, 5000), at(2_000_070, 5000)];
        let opened: (Edge, &[Arrived]) = ((1_000_000, 0), &[]);
        assert_eq!(crossed(opened, ((2_000_000, 5000), &still)), Some(5000));
        assert_eq!(crossed(opened, ((2_000_000, 5000), &[])), Some(5000));
        assert_eq!(crossed(opened, ((2_000_000, 0), &[])), None);
        assert_eq!(crossed(opened, ((1_000_000, 5000), &[])), None);
    }
}
