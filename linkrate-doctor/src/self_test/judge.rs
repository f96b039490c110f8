//! Judges a reading of a meter: its difference from the known load, and whether other work
//! disturbed the interval.

use linkrate_model::measurement::CpuTime;
use linkrate_sys::idle_trace::IdleTimes;
use serde::Serialize;

use super::background::BackgroundUse;
use super::load::{LoadKind, LoadReading, Pace, percent};
use super::meters::{Asked, MeterKind};

/// The largest permitted error of a meter at a slow pace, percentage points of one CPU.
pub const LIMIT_POINTS: f64 = 1.0;

/// The largest permitted error of a meter at a fast pace, per cent of the load, beyond the bounds of the trace: the
/// precision that a study asks for unless it says otherwise. The trace does not know a load as exactly as that (1.0 to 1.6
/// points on a virtual machine, 2 to 18 % of loads of 9 to 50 %), and a reading within its bounds cannot be called wrong. So what a
/// passed test promises is [`Sample::promised_percent`], and not this.
pub const LIMIT_OF_LOAD_PERCENT: f64 = 2.5;

/// The most that an interrupt takes before the trace sees it, ns: the way into the kernel and the
/// acknowledgement to the interrupt controller, which is an exit to the hypervisor on a virtual
/// machine (1.0 µs measured there).
const UNTRACED_NS: u64 = 1_500;

/// Per cent of the asked wake-ups. A load that wakes up less often is a load of another kind.
const MIN_WAKE_UPS_PERCENT: f64 = 80.0;

/// Per cent of an interval. If more CPU time than this may have been spent on this CPU or on another
/// one, the true load is not known exactly enough. It is a fraction of the limit.
const UNCERTAINTY_PERCENT: f64 = 0.4;

/// Per cent of an interval. More CPU time of other processes on the CPU is a disturbance, and not a
/// small correction.
const OTHERS_PERCENT: f64 = 5.0;

/// The most processes started in an undisturbed interval: the CPU time of a process that starts and
/// ends between two readings is unknown.
const MAX_FORKS: u64 = 3;

/// Verdict on a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The meter agrees with the load.
    Passed,
    /// The meter disagrees, but other work disturbed the load.
    Disturbed,
    /// The meter disagrees with an undisturbed load.
    Failed,
}

/// A CPU over an interval, by the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// Busy time, if the CPU was idle on each way out of its idle state, ns.
    pub least_ns: u64,
    /// Busy time, if it was not, and each interrupt began some time before the trace saw it, ns.
    pub most_ns: u64,
    /// Number of times that it woke up.
    pub wake_ups: u64,
}

impl Traced {
    /// The rest of the idle times of an interval.
    pub fn of(interval_ns: u64, idle: IdleTimes) -> Self {
        let seen_ns = interval_ns.saturating_sub(idle.idle_ns);
        let least_ns = seen_ns.saturating_sub(idle.leaving_ns);
        let most_ns = seen_ns.saturating_add(idle.interrupts.saturating_mul(UNTRACED_NS));
        Self { least_ns, most_ns: most_ns.min(interval_ns), wake_ups: idle.wake_ups }
    }
}

/// One load, measured by one meter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// The load.
    pub load: LoadKind,
    /// How often it wakes up.
    pub pace: Pace,
    /// The requested size, per cent of one CPU.
    pub asked_percent: f64,
    /// The meter.
    pub meter: MeterKind,
    /// The CPU; of several, the one with the largest error.
    pub cpu: u32,
    /// The true load of the CPU. At a slow pace: the load by its own clock, plus other processes. If
    /// the time of other processes may include that of the load, each value between the load alone
    /// and the sum counts as true. At a fast pace: the busy time by the trace; each value within its
    /// bounds counts as true.
    pub truth_percent: f64,
    /// The bounds of the trace, per cent; `None` at a slow pace.
    pub bounds_percent: Option<[f64; 2]>,
    /// Wake-ups a second by the trace; `None` at a slow pace.
    pub wake_ups_per_second: Option<f64>,
    /// CPU time of other processes on this CPU.
    pub others_percent: f64,
    /// The reading of the meter.
    pub measured_percent: f64,
    /// Reading minus true load, percentage points.
    pub error_points: f64,
    /// The largest permitted error, percentage points.
    pub limit_points: f64,
    /// Number of intervals; the figures are those of the interval with the median error.
    pub intervals: u32,
    /// The disturbance; `None` if enough intervals were undisturbed.
    pub disturbance: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
}

impl Sample {
    /// The most by which a meter that passed with this sample may differ from the load, per cent of the load: what
    /// the trace leaves open, and the limit beyond it. `None` at a slow pace.
    pub fn promised_percent(&self) -> Option<f64> {
        let [least, most] = self.bounds_percent?;
        Some((most - least + most * LIMIT_OF_LOAD_PERCENT / 100.0) * 100.0 / least)
            .filter(|percent| percent.is_finite())
    }
}

/// One CPU over one interval.
#[derive(Debug, Clone, Copy)]
pub struct Interval {
    /// Readings of the load at both ends.
    pub load: (LoadReading, LoadReading),
    /// The reading of the meter.
    pub seen: CpuTime,
    /// The busy time by the trace, at a fast pace.
    pub traced: Option<Traced>,
    /// CPU time of other processes.
    pub others: BackgroundUse,
    /// [`Load::overlaps_others`](super::load::Load::overlaps_others).
    pub overlaps_others: bool,
}

impl Interval {
    /// Judges the meter by this interval.
    pub fn sample(&self, asked: Asked, meter: MeterKind) -> Sample {
        let measured = percent(self.seen.busy_ns, self.seen.interval_ns);
        let truth = self.truth(measured);
        let error = measured - truth;
        let limit_points = match self.traced {
            Some(_) => truth * LIMIT_OF_LOAD_PERCENT / 100.0,
            None => LIMIT_POINTS,
        };
        let disturbance = self.disturbance();
        Sample {
            load: asked.load,
            pace: asked.pace,
            asked_percent: asked.percent,
            meter,
            cpu: self.seen.cpu,
            truth_percent: truth,
            bounds_percent: self.traced.map(|traced| {
                [traced.least_ns, traced.most_ns].map(|ns| percent(ns, self.seen.interval_ns))
            }),
            wake_ups_per_second: self.wake_ups_per_second(),
            others_percent: percent(self.others.here_ns, self.seen.interval_ns),
            measured_percent: measured,
            error_points: error,
            limit_points,
            intervals: 1,
            verdict: verdict(error, limit_points, disturbance.is_some()),
            disturbance,
        }
    }

    /// The true load that is nearest to the reading of the meter, per cent.
    fn truth(&self, measured: f64) -> f64 {
        let (opened, closed) = self.load;
        let interval_ns = self.seen.interval_ns;
        let own = opened.percent_until(&closed);
        let others = percent(self.others.here_ns, interval_ns);
        match (self.traced, self.overlaps_others) {
            (Some(Traced { least_ns, most_ns, .. }), _) => {
                measured.clamp(percent(least_ns, interval_ns), percent(most_ns, interval_ns))
            }
            (None, false) => own + others,
            // the load's part of the time of other processes is unknown, between nothing and all of
            // it; and its wall clock includes the time that the hypervisor took meanwhile
            (None, true) => {
                let steal = percent(self.seen.steal_ns, interval_ns);
                measured.clamp((own - steal).max(0.0), own + others)
            }
        }
    }

    fn wake_ups_per_second(&self) -> Option<f64> {
        let seconds = self.seen.interval_ns.max(1) as f64 / 1e9;
        self.traced.map(|traced| traced.wake_ups as f64 / seconds)
    }

    /// The disturbance, if it makes the true load too uncertain.
    pub fn disturbance(&self) -> Option<String> {
        let interval_ns = self.seen.interval_ns;
        let mut reasons = Vec::new();
        if self.seen.steal_ns > 0 {
            // steal comes in ticks, and one tick is more than a percentage point
            let steal = percent(self.seen.steal_ns, interval_ns);
            reasons.push(format!("the hypervisor took {steal:.1} %"));
        }
        let meter_uncertainty = percent(self.seen.uncertainty_ns, interval_ns);
        if self.seen.steal_ns == 0 && meter_uncertainty > UNCERTAINTY_PERCENT {
            reasons.push(format!("the meter could not attribute {meter_uncertainty:.1} %"));
        }
        match self.traced {
            Some(traced) => reasons.extend(self.disturbs_trace(traced)),
            None => reasons.extend(self.disturbs_clock()),
        }
        (!reasons.is_empty()).then(|| reasons.join(", "))
    }

    /// Disturbances of a load whose size its own clock tells.
    fn disturbs_clock(&self) -> Vec<String> {
        let (opened, closed) = self.load;
        let interval_ns = self.seen.interval_ns;
        let others = percent(self.others.here_ns, interval_ns);
        let overlap_ns = if self.overlaps_others { self.others.here_ns } else { 0 };
        let uncertainty = percent(self.others.uncertain_ns.saturating_add(overlap_ns), interval_ns);
        let lost = percent(closed.lost_ns.saturating_sub(opened.lost_ns), interval_ns);
        let mut reasons = Vec::new();
        if others > OTHERS_PERCENT {
            reasons.push(format!("other processes took {others:.1} %"));
        }
        if uncertainty > UNCERTAINTY_PERCENT {
            reasons
                .push(format!("other processes took {uncertainty:.1} % on this CPU or on others"));
        }
        // the true load includes the known time of other processes
        if lost - others > UNCERTAINTY_PERCENT {
            reasons.push(format!("the load had to wait for the CPU for {lost:.1} %"));
        }
        if self.others.forks > MAX_FORKS {
            reasons.push(format!("{} processes were started", self.others.forks));
        }
        reasons
    }

    /// Disturbances of a load whose size the trace tells. It knows the time of other processes; they
    /// must leave the load what it should be.
    fn disturbs_trace(&self, traced: Traced) -> Vec<String> {
        let (opened, closed) = self.load;
        let interval_ns = self.seen.interval_ns;
        let others =
            percent(self.others.here_ns.saturating_add(self.others.uncertain_ns), interval_ns);
        let mut reasons = Vec::new();
        if others > OTHERS_PERCENT {
            reasons.push(format!("other processes took {others:.1} %"));
        }
        let expected = interval_ns as f64 / Pace::Fast.period_ns() as f64;
        let woke = traced.wake_ups as f64 * 100.0 / expected.max(1.0);
        if woke < MIN_WAKE_UPS_PERCENT {
            reasons.push(format!("the load woke up {woke:.0} % as often as it should"));
        }
        let (own, most) = (opened.percent_until(&closed), percent(traced.most_ns, interval_ns));
        if own - most > UNCERTAINTY_PERCENT {
            reasons.push(format!("the trace saw {most:.1} % of a load of {own:.1} %"));
        }
        reasons
    }
}

/// The sample to report of several CPUs at the same time: the worst verdict, then the largest
/// error.
pub fn worst(samples: impl IntoIterator<Item = Sample>) -> Option<Sample> {
    samples.into_iter().max_by(|a, b| {
        let size = |sample: &Sample| sample.error_points.abs();
        a.verdict.cmp(&b.verdict).then(size(a).total_cmp(&size(b)))
    })
}

/// Number of undisturbed intervals whose median is reported.
pub const ENOUGH: usize = 3;

/// Whether `intervals` of the same load and meter have enough undisturbed ones.
pub fn is_enough(intervals: &[Sample]) -> bool {
    undisturbed(intervals) >= ENOUGH
}

fn undisturbed(intervals: &[Sample]) -> usize {
    intervals.iter().filter(|interval| interval.disturbance.is_none()).count()
}

/// The interval with the median error among intervals of the same load and meter. It takes undisturbed
/// intervals only, or, if fewer than [`ENOUGH`] are undisturbed, all intervals, and the sample is
/// disturbed. A single interval with an unseen disturbance therefore does not decide the verdict.
///
/// A meter fails only where most intervals were undisturbed. A hypervisor that takes whole ticks in each
/// second interval takes parts of a tick, which the kernel does not count, in the other ones.
pub fn middle(mut intervals: Vec<Sample>) -> Option<Sample> {
    let (count, undisturbed) = (intervals.len(), undisturbed(&intervals));
    let enough = is_enough(&intervals);
    let disturbance = intervals.iter().rev().find_map(|interval| interval.disturbance.clone());
    intervals.retain(|interval| !enough || interval.disturbance.is_none());
    intervals.sort_unstable_by(|a, b| a.error_points.total_cmp(&b.error_points));
    let at = intervals.len() / 2;
    let middle = intervals.into_iter().nth(at)?;
    let is_judged = enough && (undisturbed * 2 > count || middle.verdict == Verdict::Passed);
    let disturbance = disturbance.filter(|_| !is_judged);
    let verdict = verdict(middle.error_points, middle.limit_points, disturbance.is_some());
    Some(Sample { intervals: count as u32, disturbance, verdict, ..middle })
}

fn verdict(error_points: f64, limit_points: f64, is_disturbed: bool) -> Verdict {
    match (error_points.abs() <= limit_points, is_disturbed) {
        (true, _) => Verdict::Passed,
        (false, true) => Verdict::Disturbed,
        (false, false) => Verdict::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A second in which a load of half the CPU was seen as `busy_ms`.
    fn interval(busy_ms: u64) -> Interval {
        let at = |at_ns, busy_ns| LoadReading { at_ns, busy_ns, lost_ns: 0 };
        Interval {
            load: (at(0, 7), at(1000 * MS, 500 * MS + 7)),
            seen: CpuTime {
                cpu: 2,
                interval_ns: 1000 * MS,
                busy_ns: busy_ms * MS,
                steal_ns: 0,
                uncertainty_ns: 0,
            },
            traced: None,
            others: BackgroundUse::default(),
            overlaps_others: false,
        }
    }

    fn sample(interval: Interval) -> Sample {
        let asked = Asked { load: LoadKind::User, pace: Pace::Slow, percent: 50.0 };
        interval.sample(asked, MeterKind::TimerList)
    }

    #[test]
    fn a_meter_passes_within_one_percentage_point() {
        for (busy_ms, verdict) in [
            (489, Verdict::Failed),
            (490, Verdict::Passed),
            (510, Verdict::Passed),
            (511, Verdict::Failed),
        ] {
            let sample = sample(interval(busy_ms));
            assert_eq!(sample.verdict, verdict, "{sample:?}");
            let error = (busy_ms as f64 - 500.0) / 10.0;
            assert!((sample.error_points - error).abs() < 1e-9, "{sample:?}");
        }
    }

    /// A second with 5,000 wake-ups, busy for 120 to 122 ms by the trace, the last part of which it
    /// did not see.
    fn fast(busy_us: u64) -> Interval {
        let idle = IdleTimes {
            idle_ns: 879_500_000,
            leaving_ns: 500_000,
            wake_ups: 5000,
            interrupts: 1000,
        };
        let traced = Traced::of(1000 * MS, idle);
        let mut interval = Interval { traced: Some(traced), ..interval(0) };
        interval.seen.busy_ns = busy_us * 1000;
        // the load by its own clock, which does not know what a wake-up costs
        interval.load.1.busy_ns = 100 * MS;
        interval
    }

    #[test]
    fn at_a_fast_pace_the_error_is_relative_to_the_load() {
        for (busy_us, error, verdict) in [
            (120_000, 0.0, Verdict::Passed),
            (122_000, 0.0, Verdict::Passed),
            (117_100, -0.29, Verdict::Passed),
            (116_900, -0.31, Verdict::Failed),
            (125_000, 0.3, Verdict::Passed),
            (125_100, 0.31, Verdict::Failed),
        ] {
            let sample = sample(fast(busy_us));
            assert!((sample.error_points - error).abs() < 1e-9, "{sample:?}");
            assert_eq!(sample.verdict, verdict, "{sample:?}");
            assert_eq!(sample.wake_ups_per_second, Some(5000.0));
            assert_eq!(sample.bounds_percent, Some([12.0, 12.2]));
        }
    }

    /// 0.2 points between the bounds, and 2.5 % of 12.2 beyond them, of 12.
    #[test]
    fn a_passed_test_promises_no_more_than_the_trace_knows() {
        let promised = sample(fast(121_000)).promised_percent().unwrap();
        assert!((promised - (0.2 + 0.305) / 0.12).abs() < 1e-6, "{promised}");
        // a meter that is as far from the load as it may be, with the load at the other bound
        let worst = sample(fast(125_000));
        assert_eq!(worst.verdict, Verdict::Passed);
        assert!((worst.measured_percent - 12.0) * 100.0 / 12.0 <= promised, "{worst:?}");
        assert_eq!(sample(interval(500)).promised_percent(), None);
    }

    #[test]
    fn a_load_at_a_fast_pace_must_be_one() {
        let mut rare = fast(150_000);
        rare.traced = rare.traced.map(|traced| Traced { wake_ups: 3000, ..traced });
        rare.others.uncertain_ns = 51 * MS;
        let disturbance = sample(rare).disturbance.unwrap();
        assert_eq!(
            disturbance,
            "other processes took 5.1 %, the load woke up 60 % as often as it should"
        );
        let mut blind = fast(150_000);
        blind.load.1.busy_ns = 127 * MS;
        assert_eq!(sample(blind).disturbance.unwrap(), "the trace saw 12.2 % of a load of 12.7 %");
        // other processes are in the trace
        let mut others = fast(121_000);
        others.others.here_ns = 20 * MS;
        assert_eq!(sample(others).disturbance, None);
    }

    #[test]
    fn others_on_the_cpu_are_part_of_the_truth() {
        let others = BackgroundUse { here_ns: 20 * MS, uncertain_ns: 0, forks: 0 };
        let sample = sample(Interval { others, ..interval(520) });
        assert_eq!((sample.verdict, sample.disturbance), (Verdict::Passed, None));
        assert!((sample.truth_percent - 52.0).abs() < 1e-9 && sample.error_points.abs() < 1e-9);
        assert!((sample.others_percent - 2.0).abs() < 1e-9);
        // where a thread's time may be the load's too, the truth is between the two
        for (busy_ms, error) in [(495, -0.5), (500, 0.0), (511, 0.0), (520, 0.0), (527, 0.7)] {
            let both =
                self::sample(Interval { others, overlaps_others: true, ..interval(busy_ms) });
            assert!((both.error_points - error).abs() < 1e-9, "{both:?}");
            assert_eq!(
                both.disturbance.unwrap(),
                "other processes took 2.0 % on this CPU or on others"
            );
        }
    }

    #[test]
    fn steal_is_possible_inside_a_load_timed_by_the_wall_clock() {
        for (busy_ms, error) in [(500, 0.0), (470, 0.0), (455, -1.5)] {
            let mut stolen = Interval { overlaps_others: true, ..interval(busy_ms) };
            stolen.seen.steal_ns = 30 * MS;
            let found = sample(stolen);
            assert!((found.error_points - error).abs() < 1e-9, "{found:?}");
            // a thread's clock knows it
            stolen.overlaps_others = false;
            let error = (busy_ms as f64 - 500.0) / 10.0;
            assert!((sample(stolen).error_points - error).abs() < 1e-9);
        }
    }

    #[test]
    fn a_disturbance_excuses_only_a_wrong_meter() {
        let uncertainty =
            |ms: u64, forks| BackgroundUse { here_ns: 0, uncertain_ns: ms * MS, forks };
        let busy = Interval { others: uncertainty(5, 0), ..interval(505) };
        assert_eq!(sample(busy).verdict, Verdict::Passed);
        let busy = Interval { others: uncertainty(5, 0), ..interval(520) };
        assert_eq!(sample(busy).verdict, Verdict::Disturbed);
        let disturbance = sample(busy).disturbance.unwrap();
        assert_eq!(disturbance, "other processes took 0.5 % on this CPU or on others");
        // no more than what goes unseen
        let little = Interval { others: uncertainty(3, 3), ..interval(520) };
        assert_eq!(sample(little).verdict, Verdict::Failed);
        let mut unknown = interval(520);
        unknown.seen.uncertainty_ns = 5 * MS;
        let unknown = sample(unknown);
        assert_eq!(unknown.verdict, Verdict::Disturbed);
        assert_eq!(unknown.disturbance.unwrap(), "the meter could not attribute 0.5 %");
        let mut stolen = interval(520);
        stolen.seen.steal_ns = 10 * MS;
        stolen.load.1.lost_ns = 9 * MS;
        stolen.others.forks = 4;
        assert_eq!(
            sample(stolen).disturbance.unwrap(),
            "the hypervisor took 1.0 %, the load had to wait for the CPU for 0.9 %, 4 processes were \
             started"
        );
    }

    #[test]
    fn the_median_of_undisturbed_intervals_counts() {
        let sample = |busy_ms, disturbance: Option<&str>| Sample {
            disturbance: disturbance.map(str::to_owned),
            ..sample(interval(busy_ms))
        };
        let alone = vec![sample(501, None), sample(560, None), sample(502, None)];
        assert!(is_enough(&alone) && !is_enough(&alone[1..]));
        let middle_of = |intervals: &[Sample]| middle(intervals.to_vec()).unwrap();
        let found = middle_of(&alone);
        assert!((found.error_points - 0.2).abs() < 1e-9);
        assert_eq!((found.intervals, found.verdict, found.disturbance), (3, Verdict::Passed, None));
        // disturbed ones do not count beside enough others
        let off =
            [&[sample(500, Some("x"))][..], &[520, 521, 522].map(|ms| sample(ms, None))].concat();
        let found = middle_of(&off);
        assert!((found.error_points - 2.1).abs() < 1e-9);
        assert_eq!((found.intervals, found.verdict, found.disturbance), (4, Verdict::Failed, None));
        // as many as others: they excuse, where the meter disagrees
        let half = |ms: [u64; 3]| {
            let disturbed =
                [sample(500, Some("x")), sample(501, Some("x")), sample(502, Some("y"))];
            middle_of(&[disturbed, ms.map(|ms| sample(ms, None))].concat())
        };
        let (off, right) = (half([520, 521, 522]), half([507, 508, 509]));
        assert_eq!((off.verdict, off.disturbance.as_deref()), (Verdict::Disturbed, Some("y")));
        assert_eq!((right.intervals, right.verdict, right.disturbance), (6, Verdict::Passed, None));
        // too few: all count, and excuse
        let few = [sample(520, Some("x")), sample(530, None), sample(525, None)];
        let found = middle_of(&few);
        assert_eq!((found.verdict, found.disturbance.as_deref()), (Verdict::Disturbed, Some("x")));
        assert_eq!(middle(Vec::new()), None);
    }

    #[test]
    fn of_several_cpus_the_worst_counts() {
        let passed = sample(interval(500));
        let of_two = worst([passed.clone(), Sample { error_points: -0.9, ..passed }]).unwrap();
        assert!((of_two.error_points + 0.9).abs() < 1e-9);
        assert_eq!(worst([]), None);
    }
}
