//! What a meter's reading is worth: the difference to the known load, and whether others were at
//! work meanwhile.

use linkrate_terms::measurement::{CpuTime, IdleSource};
use serde::Serialize;

use super::load::{LoadKind, LoadReading};
use super::others::OthersUse;

/// How far a meter may be off, in percentage points of one CPU.
pub const LIMIT_POINTS: f64 = 1.0;

/// Share of a window in per cent, of everything that is not the load, above which the load is not
/// what the CPU did: a part of the limit, so that what goes unseen below it decides nothing.
pub const DISTURBED_PERCENT: f64 = 0.4;

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
    /// The load as it was, by its own account.
    pub truth_percent: f64,
    /// What the meter says.
    pub measured_percent: f64,
    /// The difference in percentage points, positive when the meter says more.
    pub error_points: f64,
    /// How often it was measured, until nothing else was at work.
    pub attempts: u32,
    /// What else was at work.
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
}

impl Window {
    /// What this window shows of the meter.
    pub fn sample(&self, load: LoadKind, asked_percent: f64, meter: IdleSource) -> Sample {
        let (opened, closed) = self.load;
        let truth = opened.percent_until(&closed);
        let measured = percent(self.seen.busy_ns, self.seen.window_ns);
        let error = measured - truth;
        let disturbance = self.disturbance();
        let verdict = match (error.abs() <= LIMIT_POINTS, &disturbance) {
            (true, _) => Verdict::Passed,
            (false, Some(_)) => Verdict::Disturbed,
            (false, None) => Verdict::Failed,
        };
        Sample {
            load,
            asked_percent,
            meter,
            cpu: self.seen.cpu,
            truth_percent: truth,
            measured_percent: measured,
            error_points: error,
            attempts: 1,
            disturbance,
            verdict,
        }
    }

    fn disturbance(&self) -> Option<String> {
        let (opened, closed) = self.load;
        let window_ns = self.seen.window_ns;
        let others = percent(self.others.cpu_ns, window_ns);
        let lost = percent(closed.lost_ns.saturating_sub(opened.lost_ns), window_ns);
        let mut reasons = Vec::new();
        if self.seen.steal_ns > 0 {
            // in ticks: one more or less would be a percentage point and more
            let steal = percent(self.seen.steal_ns, window_ns);
            reasons.push(format!("the hypervisor took {steal:.1} %"));
        }
        if others > DISTURBED_PERCENT {
            reasons.push(format!("other processes took {others:.1} %"));
        }
        if lost > DISTURBED_PERCENT {
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

/// Of several attempts at the same sample, the one that counts: the first that nothing disturbed,
/// whatever it shows; if there is none, the last.
pub fn better(earlier: Option<Sample>, later: Sample) -> Sample {
    match earlier {
        Some(earlier) => {
            let attempts = earlier.attempts + 1;
            let kept = if earlier.disturbance.is_none() { earlier } else { later };
            Sample { attempts, ..kept }
        }
        None => later,
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
            seen: CpuTime { cpu: 2, window_ns: 1000 * MS, busy_ns: busy_ms * MS, steal_ns: 0 },
            others: OthersUse::default(),
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
    fn what_disturbs_is_named_and_excuses_only_a_meter_that_is_off() {
        let taken = OthersUse { cpu_ns: 5 * MS, forks: 0 };
        let busy = Window { others: taken, ..window(505) };
        assert_eq!(sample(busy).verdict, Verdict::Passed);
        let busy = Window { others: taken, ..window(520) };
        assert_eq!(sample(busy).verdict, Verdict::Disturbed);
        assert_eq!(sample(busy).disturbance.unwrap(), "other processes took 0.5 %");
        // no more than what goes unseen
        let little = Window { others: OthersUse { cpu_ns: 3 * MS, forks: 3 }, ..window(520) };
        assert_eq!(sample(little).verdict, Verdict::Failed);
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
    fn the_first_undisturbed_attempt_counts_even_when_it_fails() {
        let failed = sample(window(520));
        let passed = sample(window(500));
        let disturbed = Sample { disturbance: Some("x".to_owned()), ..sample(window(500)) };
        let first = better(None, disturbed.clone());
        assert_eq!(first.attempts, 1);
        let second = better(Some(first), failed);
        assert_eq!((second.attempts, second.verdict), (2, Verdict::Failed));
        let third = better(Some(second), passed.clone());
        assert_eq!((third.attempts, third.verdict), (3, Verdict::Failed));
        assert_eq!(better(Some(disturbed), passed.clone()).disturbance, None);
        let of_two = worst([passed.clone(), Sample { error_points: -0.9, ..passed }]).unwrap();
        assert!((of_two.error_points + 0.9).abs() < 1e-9);
        assert_eq!(worst([]), None);
    }
}
