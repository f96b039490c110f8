//! What a meter's reading is worth: the difference to the known load, and whether others were at
//! work meanwhile.

use linkrate_terms::measurement::{CpuTime, IdleSource};
use serde::Serialize;

use super::load::{LoadKind, LoadReading};
use super::others::OthersUse;

/// How far a meter may be off, in percentage points of one CPU.
pub const LIMIT_POINTS: f64 = 1.0;

/// Share of a window in per cent, of what is not known to have been on the CPU or elsewhere, above
/// which the truth is not known well enough: a part of the limit.
const UNSURE_PERCENT: f64 = 0.4;

/// Share of a window in per cent above which others on the CPU are more than a small correction.
const OTHERS_PERCENT: f64 = 5.0;

/// Processes started in a window above which their CPU time may count: one that began and ended
/// between two looks is seen by nobody.
const MOST_FORKS: u64 = 3;

/// What a sample shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The meter agrees with the load.
    Passed,
    /// It does not, but the load was not alone.
    Disturbed,
    /// It does not.
    Failed,
}

/// One load, as one meter saw it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sample {
    /// The load.
    pub load: LoadKind,
    /// Its size as asked, in per cent of one CPU.
    pub asked_percent: f64,
    /// The meter.
    pub meter: IdleSource,
    /// The CPU; of several the one on which the meter was off most.
    pub cpu: u32,
    /// What the CPU did: the load by its own account, and others. Where others' time may contain
    /// the load's, what lies between the load alone and both together is taken to be true.
    pub truth_percent: f64,
    /// The CPU time of others there.
    pub others_percent: f64,
    /// What the meter says.
    pub measured_percent: f64,
    /// The difference in percentage points, positive when the meter says more.
    pub error_points: f64,
    /// How many windows were measured; the figures are of the one with the median error.
    pub windows: u32,
    /// What else was at work, unless there were enough windows without.
    pub disturbance: Option<String>,
    /// What that shows.
    pub verdict: Verdict,
}

/// One CPU over one window.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// What the load did.
    pub load: (LoadReading, LoadReading),
    /// What the meter saw.
    pub seen: CpuTime,
    /// What others did.
    pub others: OthersUse,
    /// [`Load::overlaps_others`](super::load::Load::overlaps_others).
    pub overlaps_others: bool,
}

impl Window {
    /// What this window shows of the meter.
    pub fn sample(&self, load: LoadKind, asked_percent: f64, meter: IdleSource) -> Sample {
        let (opened, closed) = self.load;
        let own = opened.percent_until(&closed);
        let others = percent(self.others.here_ns, self.seen.window_ns);
        let measured = percent(self.seen.busy_ns, self.seen.window_ns);
        let truth = match self.overlaps_others {
            false => own + others,
            // how much of others' time was the load's is not known, but it was no more than all; and
            // what the hypervisor took in the load's hours, its clock on the wall does not know
            true => {
                let steal = percent(self.seen.steal_ns, self.seen.window_ns);
                measured.clamp((own - steal).max(0.0), own + others)
            }
        };
        let error = measured - truth;
        let disturbance = self.disturbance();
        let verdict = verdict(error, disturbance.is_some());
        Sample {
            load,
            asked_percent,
            meter,
            cpu: self.seen.cpu,
            truth_percent: truth,
            others_percent: others,
            measured_percent: measured,
            error_points: error,
            windows: 1,
            disturbance,
            verdict,
        }
    }

    /// What was at work beside the load, if so much that the truth is not known well enough.
    pub fn disturbance(&self) -> Option<String> {
        let (opened, closed) = self.load;
        let window_ns = self.seen.window_ns;
        let others = percent(self.others.here_ns, window_ns);
        let overlap_ns = if self.overlaps_others { self.others.here_ns } else { 0 };
        let unsure = percent(self.others.unsure_ns.saturating_add(overlap_ns), window_ns);
        let meter_unsure = percent(self.seen.unsure_ns, window_ns);
        let lost = percent(closed.lost_ns.saturating_sub(opened.lost_ns), window_ns);
        let mut reasons = Vec::new();
        if self.seen.steal_ns > 0 {
            // in ticks: one more or less would be a percentage point and more
            let steal = percent(self.seen.steal_ns, window_ns);
            reasons.push(format!("the hypervisor took {steal:.1} %"));
        }
        if self.seen.steal_ns == 0 && meter_unsure > UNSURE_PERCENT {
            reasons.push(format!("the meter did not know of {meter_unsure:.1} %"));
        }
        if others > OTHERS_PERCENT {
            reasons.push(format!("other processes took {others:.1} %"));
        }
        if unsure > UNSURE_PERCENT {
            reasons.push(format!("other processes took {unsure:.1} %, not known where"));
        }
        // what others are known to have taken is in the truth
        if lost - others > UNSURE_PERCENT {
            reasons.push(format!("the load was kept from the CPU for {lost:.1} %"));
        }
        if self.others.forks > MOST_FORKS {
            reasons.push(format!("{} processes were started", self.others.forks));
        }
        (!reasons.is_empty()).then(|| reasons.join(", "))
    }
}

/// Of several CPUs at the same time, the one that counts: the worst verdict, and the largest error.
pub fn worst(samples: impl IntoIterator<Item = Sample>) -> Option<Sample> {
    samples.into_iter().max_by(|a, b| {
        let size = |sample: &Sample| sample.error_points.abs();
        a.verdict.cmp(&b.verdict).then(size(a).total_cmp(&size(b)))
    })
}

/// Windows without a disturbance of which the middle one is taken.
pub const ENOUGH: usize = 3;

/// Whether `windows` of the same load and meter will do.
pub fn is_enough(windows: &[Sample]) -> bool {
    windows.iter().filter(|window| window.disturbance.is_none()).count() >= ENOUGH
}

/// Of several windows of the same load and meter, the one with the median error: of those that
/// nothing disturbed if there are [`ENOUGH`], and else of all, as a disturbed one. One window in
/// which something happened that nobody saw thus decides nothing.
pub fn middle(mut windows: Vec<Sample>) -> Option<Sample> {
    let count = windows.len() as u32;
    let enough = is_enough(&windows);
    let disturbance = windows.iter().rev().find_map(|window| window.disturbance.clone());
    windows.retain(|window| !enough || window.disturbance.is_none());
    windows.sort_unstable_by(|a, b| a.error_points.total_cmp(&b.error_points));
    let at = windows.len() / 2;
    let middle = windows.into_iter().nth(at)?;
    let disturbance = disturbance.filter(|_| !enough);
    let verdict = verdict(middle.error_points, disturbance.is_some());
    Some(Sample { windows: count, disturbance, verdict, ..middle })
}

fn verdict(error_points: f64, is_disturbed: bool) -> Verdict {
    match (error_points.abs() <= LIMIT_POINTS, is_disturbed) {
        (true, _) => Verdict::Passed,
        (false, true) => Verdict::Disturbed,
        (false, false) => Verdict::Failed,
    }
}

/// Share of `whole` in per cent.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A second in which a load of half the CPU was seen as `busy_ms`.
    fn window(busy_ms: u64) -> Window {
        let at = |at_ns, busy_ns| LoadReading { at_ns, busy_ns, lost_ns: 0 };
        Window {
            load: (at(0, 7), at(1000 * MS, 500 * MS + 7)),
            seen: CpuTime {
                cpu: 2,
                window_ns: 1000 * MS,
                busy_ns: busy_ms * MS,
                steal_ns: 0,
                unsure_ns: 0,
            },
            others: OthersUse::default(),
            overlaps_others: false,
        }
    }

    fn sample(window: Window) -> Sample {
        window.sample(LoadKind::User, 50.0, IdleSource::TimerList)
    }

    #[test]
    fn a_meter_may_be_off_by_a_percentage_point_and_no_more() {
        for (busy_ms, verdict) in [
            (489, Verdict::Failed),
            (490, Verdict::Passed),
            (510, Verdict::Passed),
            (511, Verdict::Failed),
        ] {
            let sample = sample(window(busy_ms));
            assert_eq!(sample.verdict, verdict, "{sample:?}");
            let error = (busy_ms as f64 - 500.0) / 10.0;
            assert!((sample.error_points - error).abs() < 1e-9, "{sample:?}");
        }
    }

    #[test]
    fn others_on_the_cpu_are_part_of_the_truth() {
        let others = OthersUse { here_ns: 20 * MS, unsure_ns: 0, forks: 0 };
        let sample = sample(Window { others, ..window(520) });
        assert_eq!((sample.verdict, sample.disturbance), (Verdict::Passed, None));
        assert!((sample.truth_percent - 52.0).abs() < 1e-9 && sample.error_points.abs() < 1e-9);
        assert!((sample.others_percent - 2.0).abs() < 1e-9);
        // where a thread's time may be the load's too, the truth is between the two
        for (busy_ms, error) in [(495, -0.5), (500, 0.0), (511, 0.0), (520, 0.0), (527, 0.7)] {
            let both = self::sample(Window { others, overlaps_others: true, ..window(busy_ms) });
            assert!((both.error_points - error).abs() < 1e-9, "{both:?}");
            assert_eq!(both.disturbance.unwrap(), "other processes took 2.0 %, not known where");
        }
    }

    #[test]
    fn steal_may_lie_in_a_load_that_is_known_by_the_wall_clock() {
        for (busy_ms, error) in [(500, 0.0), (470, 0.0), (455, -1.5)] {
            let mut stolen = Window { overlaps_others: true, ..window(busy_ms) };
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
    fn what_disturbs_is_named_and_excuses_only_a_meter_that_is_off() {
        let unsure = |ms: u64, forks| OthersUse { here_ns: 0, unsure_ns: ms * MS, forks };
        let busy = Window { others: unsure(5, 0), ..window(505) };
        assert_eq!(sample(busy).verdict, Verdict::Passed);
        let busy = Window { others: unsure(5, 0), ..window(520) };
        assert_eq!(sample(busy).verdict, Verdict::Disturbed);
        let disturbance = sample(busy).disturbance.unwrap();
        assert_eq!(disturbance, "other processes took 0.5 %, not known where");
        // no more than what goes unseen
        let little = Window { others: unsure(3, 3), ..window(520) };
        assert_eq!(sample(little).verdict, Verdict::Failed);
        let mut unknown = window(520);
        unknown.seen.unsure_ns = 5 * MS;
        let unknown = sample(unknown);
        assert_eq!(unknown.verdict, Verdict::Disturbed);
        assert_eq!(unknown.disturbance.unwrap(), "the meter did not know of 0.5 %");
        let mut stolen = window(520);
        stolen.seen.steal_ns = 10 * MS;
        stolen.load.1.lost_ns = 9 * MS;
        stolen.others.forks = 4;
        assert_eq!(
            sample(stolen).disturbance.unwrap(),
            "the hypervisor took 1.0 %, the load was kept from the CPU for 0.9 %, 4 processes were \
             started"
        );
    }

    #[test]
    fn the_median_of_undisturbed_windows_counts() {
        let sample = |busy_ms, disturbance: Option<&str>| Sample {
            disturbance: disturbance.map(str::to_owned),
            ..sample(window(busy_ms))
        };
        let alone = vec![sample(501, None), sample(560, None), sample(502, None)];
        assert!(is_enough(&alone) && !is_enough(&alone[1..]));
        let middle_of = |windows: &[Sample]| middle(windows.to_vec()).unwrap();
        let found = middle_of(&alone);
        assert!((found.error_points - 0.2).abs() < 1e-9);
        assert_eq!((found.windows, found.verdict, found.disturbance), (3, Verdict::Passed, None));
        // disturbed ones do not count beside enough others
        let off =
            [&[sample(500, Some("x"))][..], &[520, 521, 522].map(|ms| sample(ms, None))].concat();
        let found = middle_of(&off);
        assert!((found.error_points - 2.1).abs() < 1e-9);
        assert_eq!((found.windows, found.verdict, found.disturbance), (4, Verdict::Failed, None));
        // too few: all count, and excuse
        let few = [sample(520, Some("x")), sample(530, None), sample(525, None)];
        let found = middle_of(&few);
        assert_eq!((found.verdict, found.disturbance.as_deref()), (Verdict::Disturbed, Some("x")));
        assert_eq!(middle(Vec::new()), None);
    }

    #[test]
    fn of_several_cpus_the_worst_counts() {
        let passed = sample(window(500));
        let of_two = worst([passed.clone(), Sample { error_points: -0.9, ..passed }]).unwrap();
        assert!((of_two.error_points + 0.9).abs() < 1e-9);
        assert_eq!(worst([]), None);
    }
}
