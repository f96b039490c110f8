//! Where the CPU time went: from samples by function to shares by category.
//!
//! `categories.toml` assigns functions to categories, with a reason on each line; [`table`] reads it.
//! [`of_runs`] computes the shares. The samples divide the busy time; the meter, which counts
//! nanoseconds, gives its amount. The difference between meter and samples is compared with
//! [`error_points`], the largest error of sampling.

pub mod table;

use std::collections::BTreeMap;

use linkrate_model::Measurement;
use linkrate_model::profile::{Owner, Profile};

use crate::results::{Attribution, CategoryShare};
use table::Table;

/// Time that each entry into idle may move between busy and idle, ns.
///
/// An interrupt of an idle CPU first runs with interrupts off, where it is not sampled: on virtual
/// machines the meter saw 2 to 10 µs for each entry that the samples did not.
pub const IDLE_ENTRY_NS: f64 = 15_000.0;

/// Entries into idle where the kernel does not count them, in percentage points.
const UNCOUNTED_POINTS: f64 = 15.0;

/// Standard errors of the count of samples that are allowed for.
const STANDARD_ERRORS: f64 = 3.0;

/// Most symbols named that no category claims.
const UNKNOWN_LISTED: usize = 8;

const APPLICATION: &str = "application";
const ADAPTER_DRIVER: &str = "adapter-driver";
const OTHER: &str = "other-programs";
const UNKNOWN: &str = "unknown";
const IDLE: &str = "idle";

/// Where softirqs begin that came out of idle, and where interrupts are on for the first time since the CPU was
/// woken: a sample that was due meanwhile is taken here. It was due while the CPU was being woken,
/// which is idle time, or in the interrupt's handler, which is busy. By the meter it was the one about as
/// often as the other, so half of them are counted as each. In a thread the same function is busy.
const AFTER_IDLE: [&str; 2] = ["handle_softirqs", "__do_softirq"];

/// One run's samples by category, and by symbol where there is none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts<'a> {
    /// Samples by category, idle among them.
    pub categories: BTreeMap<&'a str, u64>,
    /// Samples by symbol that no category claims.
    pub unknown: BTreeMap<&'a str, u64>,
    pub samples: u64,
}

impl Counts<'_> {
    fn add_idle(&mut self, samples: u64) {
        *self.categories.entry(IDLE).or_default() += samples;
        self.samples = self.samples.saturating_add(samples);
    }

    /// Busy share of the CPUs by the samples alone, in per cent.
    pub fn busy_percent(&self) -> f64 {
        let idle = self.categories.get(IDLE).copied().unwrap_or(0);
        percent(self.samples.saturating_sub(idle), self.samples)
    }
}

/// Shares a run's samples out to categories.
pub fn count<'a>(profile: &'a Profile, table: &'a Table) -> Counts<'a> {
    let mut counts = Counts::default();
    let mut add = |category: &'a str, samples: u64| {
        let sum = counts.categories.entry(category).or_default();
        *sum = sum.saturating_add(samples);
        counts.samples = counts.samples.saturating_add(samples);
    };
    for task in &profile.tasks {
        let category = match task.owner {
            Owner::Flow => APPLICATION,
            Owner::Driver | Owner::Device => ADAPTER_DRIVER,
            // a thread that counts idle time
            Owner::Idle => IDLE,
            Owner::Instrument | Owner::Other => OTHER,
        };
        add(category, task.user);
    }
    add(UNKNOWN, profile.kernel_unnamed);
    add(UNKNOWN, profile.kernel_rest);
    let idle = profile.idle.iter().map(|(symbol, samples)| (symbol, *samples, true));
    let threads = profile.kernel.iter().map(|(symbol, samples)| (symbol, *samples, false));
    for (symbol, samples, on_idle) in idle.chain(threads) {
        let plain = table::plain(symbol);
        let due_idle = if on_idle && AFTER_IDLE.contains(&plain) { samples.div_ceil(2) } else { 0 };
        add(IDLE, due_idle);
        let samples = samples - due_idle;
        let category = table.category(symbol).unwrap_or_else(|| {
            let sum = counts.unknown.entry(symbol).or_default();
            *sum = u64::saturating_add(*sum, samples);
            UNKNOWN
        });
        add(category, samples);
    }
    counts
}

/// Samples that were not taken of CPUs which idled for long.
fn missing(run: &Measurement, profile: &Profile) -> u64 {
    if profile.throttled == 0 || profile.period_ns == 0 {
        return 0;
    }
    let taken = |cpu: u32| profile.cpus.iter().find(|(number, _)| *number == cpu).map(|(_, n)| *n);
    let of_cpu = |cpu: &linkrate_model::measurement::CpuTime| {
        let due = cpu.interval_ns.saturating_sub(cpu.steal_ns) / profile.period_ns;
        // they cannot exceed the idle time of the meter
        let idle = cpu.interval_ns.saturating_sub(cpu.busy_ns) / profile.period_ns;
        due.saturating_sub(taken(cpu.cpu).unwrap_or(due)).min(idle)
    };
    run.sut_cpu.cpus.iter().map(of_cpu).fold(0, u64::saturating_add)
}

/// Samples that were due and were not taken, in per cent: nothing ran, neither work nor idleness, while
/// the hypervisor had the CPU, told or not. Where a CPU was not sampled because it idled for long, that
/// is accounted for.
fn untaken_percent(run: &Measurement, profile: &Profile) -> f64 {
    let (mut due, mut untaken) = (0, 0);
    for cpu in &run.sut_cpu.cpus {
        let of_cpu = cpu.interval_ns / profile.period_ns.max(1);
        let taken = profile.cpus.iter().find(|(number, _)| *number == cpu.cpu);
        due += of_cpu;
        untaken += of_cpu.saturating_sub(taken.map_or(of_cpu, |(_, samples)| *samples));
    }
    percent(untaken.saturating_sub(missing(run, profile)), due)
}

/// How far the busy share by the samples may be from the meter's, in percentage points, the sum of
///
/// - three standard errors of a share of so many samples;
/// - half of the samples of which it is not known whether they were due idle or busy;
/// - what entries into idle may hide;
/// - the samples that were not taken;
/// - what the hypervisor took, which comes in ticks, and how far the meter itself may be off for it.
pub fn error_points(run: &Measurement, profile: &Profile, busy_percent: f64) -> f64 {
    let samples = profile.samples().max(1) as f64;
    let share = (busy_percent / 100.0).clamp(0.0, 1.0);
    // a share of none or all has an error too
    let variance = (share * (1.0 - share)).max(1.0 / samples) / samples;
    let interval_ns =
        run.sut_cpu.cpus.iter().map(|cpu| cpu.interval_ns as f64).sum::<f64>().max(1.0);
    let stolen_ns = run.sut_cpu.cpus.iter().map(|cpu| cpu.steal_ns as f64).sum::<f64>();
    let entries = profile
        .idle_entries
        .map_or(UNCOUNTED_POINTS, |entries| entries as f64 * IDLE_ENTRY_NS * 100.0 / interval_ns);
    let waking: u64 = profile
        .idle
        .iter()
        .filter(|(symbol, _)| AFTER_IDLE.contains(&table::plain(symbol)))
        .map(|(_, samples)| *samples)
        .fold(0, u64::saturating_add);
    STANDARD_ERRORS * variance.sqrt() * 100.0
        + waking as f64 * 50.0 / samples
        + entries
        + untaken_percent(run, profile)
        + (stolen_ns + run.sut_cpu.uncertainty_ns() as f64) * 100.0 / interval_ns
}

/// The shares of one cell's profiled runs, each run counting alike; `None` where none was profiled.
pub fn of_runs<'a>(runs: impl Iterator<Item = &'a Measurement>) -> Option<Attribution> {
    let table = table::built_in();
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    let mut unknown: BTreeMap<&str, f64> = BTreeMap::new();
    let mut mean = Attribution::default();
    for (run, profile) in runs.filter_map(|run| Some((run, run.profile.as_deref()?))) {
        let mut counts = count(profile, table);
        counts.add_idle(missing(run, profile));
        if counts.samples == 0 {
            continue;
        }
        let (meter, sampled) = (run.sut_cpu.percent().min(100.0), counts.busy_percent());
        mean.runs += 1;
        mean.meter_percent += meter;
        mean.sampled_percent += sampled;
        mean.error_points += error_points(run, profile, sampled);
        mean.samples += counts.samples as f64;
        // the busy samples share out the busy time of the meter
        let scale = if sampled > 0.0 { meter / sampled } else { 0.0 };
        let scaled = |samples: u64| percent(samples, counts.samples) * scale;
        for (category, samples) in counts.categories.iter().filter(|(name, _)| **name != IDLE) {
            *sums.entry(category).or_default() += scaled(*samples);
        }
        // a CPU that was never met busy, and yet was so for a moment
        if sampled == 0.0 {
            *sums.entry(UNKNOWN).or_default() += meter;
        }
        *sums.entry(IDLE).or_default() += 100.0 - meter;
        for (symbol, samples) in &counts.unknown {
            *unknown.entry(symbol).or_default() += scaled(*samples);
        }
    }
    if mean.runs == 0 {
        return None;
    }
    let runs = f64::from(mean.runs);
    let mean_of = |sum: f64| sum / runs;
    mean.meter_percent = mean_of(mean.meter_percent);
    mean.sampled_percent = mean_of(mean.sampled_percent);
    mean.error_points = mean_of(mean.error_points);
    mean.samples = mean_of(mean.samples);
    let categories = table.categories().map(|category| CategoryShare {
        category: category.name.clone(),
        title: category.title.clone(),
        percent: mean_of(sums.get(category.name.as_str()).copied().unwrap_or(0.0)),
    });
    mean.shares = categories.collect();
    let mut unknown: Vec<(String, f64)> =
        unknown.into_iter().map(|(symbol, sum)| (symbol.to_owned(), mean_of(sum))).collect();
    unknown.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
    unknown.truncate(UNKNOWN_LISTED);
    mean.unknown = unknown;
    Some(mean)
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use linkrate_model::profile::TaskSamples;

    use super::*;
    use crate::fixture;

    fn task(owner: Owner, user: u64) -> TaskSamples {
        TaskSamples { name: "x".to_owned(), owner, process: 1, thread: 2, user, kernel: 0 }
    }

    fn named(list: &[(&str, u64)]) -> Vec<(String, u64)> {
        list.iter().map(|(name, samples)| ((*name).to_owned(), *samples)).collect()
    }

    /// 1000 samples of so many due, 600 of them idle.
    fn profile() -> Profile {
        Profile {
            period_ns: 2_000_000,
            cpus: vec![(0, 1000)],
            idle_entries: Some(100),
            kernel: named(&[("tcp_ack", 80), ("_copy_from_iter.isra.0", 150), ("zz_new", 15)]),
            idle: named(&[("pv_native_safe_halt", 575), ("handle_softirqs", 50), ("ip_rcv", 20)]),
            kernel_unnamed: 5,
            tasks: vec![task(Owner::Flow, 60), task(Owner::Driver, 30), task(Owner::Other, 15)],
            ..Profile::default()
        }
    }

    fn run(busy: f64, profile: Profile) -> Measurement {
        Measurement { profile: Some(Box::new(profile)), ..fixture::stream(1e9, busy) }
    }

    #[test]
    fn samples_go_to_the_category_of_their_function_or_thread() {
        let profile = profile();
        let counts = count(&profile, table::built_in());
        let of = |category: &str| counts.categories.get(category).copied().unwrap_or(0);
        assert_eq!((of("tcp-ip"), of("data-copy"), of("application")), (100, 150, 60));
        assert_eq!((of("adapter-driver"), of("other-programs"), of("unknown")), (30, 15, 20));
        // of what came right out of idle half was due in it
        assert_eq!((of("idle"), of("interrupts"), counts.samples), (600, 25, 1000));
        assert_eq!(counts.unknown, BTreeMap::from([("zz_new", 15)]));
        assert!((counts.busy_percent() - 40.0).abs() < 1e-9);
    }

    #[test]
    fn shares_add_up_to_the_meter_and_to_a_hundred() {
        let runs = [run(0.44, profile()), run(0.36, profile()), fixture::stream(1e9, 0.9)];
        let found = of_runs(runs.iter()).unwrap();
        assert_eq!(found.runs, 2, "a run without a profile has no part in it");
        let all: f64 = found.shares.iter().map(|share| share.percent).sum();
        assert!((all - 100.0).abs() < 1e-9, "{all}");
        let last = found.shares.last().unwrap();
        assert_eq!(last.category, "idle");
        assert!((all - last.percent - found.meter_percent).abs() < 1e-9);
        assert!((found.meter_percent - 40.0).abs() < 1e-6);
        assert!((found.sampled_percent - 40.0).abs() < 1e-9);
        // 150 of 400 busy samples
        let copy = found.shares.iter().find(|share| share.category == "data-copy").unwrap();
        assert!((copy.percent - 15.0).abs() < 1e-6, "{copy:?}");
        assert_eq!(found.unknown.len(), 1);
        assert!(of_runs([fixture::stream(1e9, 0.5)].iter()).is_none());
    }

    #[test]
    fn the_error_knows_samples_idle_entries_and_steal() {
        let error = |run: &Measurement| error_points(run, run.profile.as_ref().unwrap(), 40.0);
        let plain = run(0.4, Profile { idle_entries: Some(0), ..profile() });
        // three standard errors of 40 % in 1000 samples, and half of 5 % that may be either
        assert!((error(&plain) - 4.648 - 2.5).abs() < 0.001, "{}", error(&plain));
        // 10 000 entries of 15 µs in two seconds
        let entries = run(0.4, Profile { idle_entries: Some(10_000), ..profile() });
        assert!((error(&entries) - error(&plain) - 7.5).abs() < 0.001);
        let mut stolen = plain.clone();
        stolen.sut_cpu.cpus[0].steal_ns = stolen.sut_cpu.cpus[0].interval_ns / 50;
        assert!((error(&stolen) - error(&plain) - 2.0).abs() < 0.01);
        stolen.sut_cpu.cpus[0].uncertainty_ns = stolen.sut_cpu.cpus[0].interval_ns / 100;
        assert!((error(&stolen) - error(&plain) - 3.0).abs() < 0.01);
        // 1000 samples where 1250 were due
        let untaken = Profile { period_ns: 1_600_000, idle_entries: Some(0), ..profile() };
        assert!((error(&run(0.4, untaken.clone())) - error(&plain) - 20.0).abs() < 0.01);
        // unless the CPU slept for long
        let throttled = run(0.4, Profile { throttled: 1, ..untaken });
        assert!((error(&throttled) - error(&plain)).abs() < 0.01);
    }

    #[test]
    fn missing_samples_of_a_long_idle_cpu_count_as_idle() {
        // 2000 due, 1000 taken of which 400 busy: 20 % busy, as the meter says
        let throttled =
            Profile { period_ns: 1_000_000, throttled: 1, idle_entries: Some(0), ..profile() };
        let found = of_runs([run(0.2, throttled.clone())].iter()).unwrap();
        assert!((found.sampled_percent - 20.0).abs() < 1e-9, "{found:?}");
        let found = of_runs([run(0.2, Profile { throttled: 0, ..throttled })].iter()).unwrap();
        assert!((found.sampled_percent - 40.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_run_without_samples_has_no_shares() {
        assert!(of_runs([run(0.5, Profile::default())].iter()).is_none());
        let asleep = Profile { idle: named(&[("do_idle", 9)]), ..Profile::default() };
        let found = of_runs([run(0.02, asleep)].iter()).unwrap();
        let all: f64 = found.shares.iter().map(|share| share.percent).sum();
        assert!((all - 100.0).abs() < 1e-9, "{all}");
    }
}
