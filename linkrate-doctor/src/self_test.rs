//! Self-test of the CPU meters: loads of known size run on the CPUs of the system under test, and
//! each meter measures them.
//!
//! `meters` has the meters, as measurements use them. `load` runs threads that record their size by
//! a clock of their own. `steered` makes a softirq load that belongs to no thread. `background`
//! measures the CPU time of all other threads.
//!
//! Loads at a slow pace wake up 50 times a second. Loads at a fast pace wake up 5,000 times, as
//! drivers do; waking up is then a large part of their size, which no clock of theirs tells. An
//! [`IdleTrace`] tells it.
//!
//! `judge` compares. At a slow pace a meter passes if it is within one percentage point, at a fast
//! pace if it is within some per cent of the load. Each figure is the median of three undisturbed
//! intervals; a sample without enough of them is reported as disturbed.

mod background;
mod judge;
mod load;
mod meters;
mod steered;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linkrate_agent::cpu_meter::busy;
use linkrate_lab::{LabError, Placement};
use linkrate_model::{CpuSet, TestbedSpec};
use linkrate_sys::clock::{monotonic_ns, sleep_until_ns};
use linkrate_sys::error::SysResult;
use linkrate_sys::idle_trace::{IdleTimes, IdleTrace};
use linkrate_sys::procstat::CpuTimes;
use linkrate_sys::sched;
use serde::Serialize;

pub use judge::{LIMIT_OF_LOAD_PERCENT, LIMIT_POINTS, Sample, Verdict};
pub use load::{LoadKind, Pace};
pub use meters::{Asked, Meter, MeterKind, meters};

use background::Background;
use judge::{ENOUGH, Interval, Traced, middle, worst};
use load::{DutyLoad, Load, LoadReading};
use steered::Steered;

/// Sizes of the loads at a slow pace, in per cent of one CPU.
const SLOW_PERCENT: [f64; 3] = [5.0, 50.0, 95.0];

/// Work of the loads at a fast pace in each period, µs.
const FAST_US: [f64; 3] = [10.0, 25.0, 50.0];

/// One interval of a load at a slow pace, and of one at a fast pace.
const WINDOWS: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(200)];

/// One interval of a meter with steps of 10 ms; a step is 0.7 % of it.
const LONG_WINDOW: Duration = Duration::from_millis(1500);

/// The most intervals of one load and meter.
const MAX_WINDOWS: usize = 8;

/// A meter fails by a load if it fails so often in a row.
const TRIES: usize = 3;

/// After this time a disturbed interval is not measured again, beyond the minimum.
const TIMEOUT: Duration = Duration::from_secs(45);

/// A load, and how it is made on this host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadMethod {
    /// The load.
    pub load: LoadKind,
    /// How it is made and how its size is known, as a sentence.
    pub how: String,
}

/// Result of the self-test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SelfTest {
    /// The worst verdict of all samples.
    pub verdict: Verdict,
    /// The largest permitted error of a meter at a slow pace, percentage points.
    pub limit_points: f64,
    /// The largest permitted error of a meter at a fast pace, per cent of the load.
    pub limit_of_load_percent: f64,
    /// The CPUs.
    pub cpus: CpuSet,
    /// The meters, the default of this host first.
    pub meters: Vec<MeterKind>,
    /// The loads.
    pub loads: Vec<LoadMethod>,
    /// One sample for each load, size and meter.
    pub samples: Vec<Sample>,
    /// Meters and loads that could not run, with the reason, as sentences.
    pub left_out: Vec<String>,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// Tests the meters of this host, which takes about a minute. `program` is the linkrate program.
///
/// Call it from the main thread: hosts end with the thread that built them. It ends soon after `stop` is set. Fails if
/// no CPU is available, or a load or a meter cannot be started.
pub fn run(
    program: &Path,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<SelfTest, LabError> {
    let placement = Placement::choose(&TestbedSpec::default())?;
    let (meters, left_out) = meters(&placement);
    let meters: Vec<&dyn Meter> = meters.iter().map(|meter| meter as &dyn Meter).collect();
    let mut outcome = test(program, stop, &placement, &meters, progress)?;
    outcome.left_out.extend(left_out);
    Ok(outcome)
}

/// Tests `meters`.
pub fn test(
    program: &Path,
    stop: &Arc<AtomicBool>,
    placement: &Placement,
    meters: &[&dyn Meter],
    progress: &mut dyn FnMut(usize, usize),
) -> Result<SelfTest, LabError> {
    let home = sched::affinity(sched::current_thread())?;
    sched::set_affinity(sched::current_thread(), &placement.clients)?;
    let outcome = test_from_there(program, stop, placement, meters, progress);
    sched::set_affinity(sched::current_thread(), &home)?;
    outcome
}

fn test_from_there(
    program: &Path,
    stop: &Arc<AtomicBool>,
    placement: &Placement,
    meters: &[&dyn Meter],
    progress: &mut dyn FnMut(usize, usize),
) -> Result<SelfTest, LabError> {
    let began = Instant::now();
    let (steered, softirq) = match Steered::build(program, stop, placement) {
        Ok(steered) => {
            let how = "datagrams from another CPU, each of which a socket filter holds for 4 ms; its size is \
                       the sum of these times";
            (Some(steered), how.to_owned())
        }
        Err(reason) => {
            let how = "a thread that sends datagrams to itself and receives them in the same system calls; \
                       its size is the time from the first to the last in each period";
            (None, format!("{how} (not steered: {reason})"))
        }
    };
    let by_clock = "its size is the thread's CPU time by the scheduler's clock";
    let loads = vec![
        LoadMethod { load: LoadKind::User, how: format!("a thread that computes; {by_clock}") },
        LoadMethod {
            load: LoadKind::System,
            how: format!("a thread that reads /dev/zero; {by_clock}"),
        },
        LoadMethod { load: LoadKind::Softirq, how: softirq },
    ];
    let mut left_out = Vec::new();
    let traces = traces(meters).unwrap_or_else(|error| {
        left_out.push(format!(
            "loads that wake up {} times a second, since their size is not known: {error}",
            1_000_000_000 / Pace::Fast.period_ns()
        ));
        Vec::new()
    });
    let sizes = sizes(!traces.is_empty());
    let mut asked = asked(&loads, &sizes);
    let of_load = |asked: Asked| meters.iter().filter(|meter| meter.meets(asked)).count();
    asked.retain(|asked| of_load(*asked) > 0);
    let all = asked.iter().map(|asked| of_load(*asked)).sum();
    let mut samples = Vec::new();
    'tests: for asked in asked {
        let loads = start(asked, placement, steered.as_ref())?;
        for (index, meter) in meters.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                break 'tests;
            }
            if !meter.meets(asked) {
                continue;
            }
            let trace = traces.get(index).filter(|_| asked.pace == Pace::Fast);
            let under_test = UnderTest { meter: *meter, trace };
            let measure = || -> SysResult<Option<Sample>> {
                let intervals = intervals(&loads, under_test, began, stop)?;
                let named = |interval: &Interval| interval.sample(asked, meter.kind());
                let of_cpus =
                    intervals.iter().map(|intervals| intervals.iter().map(named).collect());
                Ok(worst(of_cpus.filter_map(middle)))
            };
            let mut sample = measure()?;
            // a meter that is wrong is so again; a hypervisor that takes time and does not say so is not
            for _ in 1..TRIES {
                if sample.as_ref().is_none_or(|sample| sample.verdict != Verdict::Failed) {
                    break;
                }
                sample = measure()?;
            }
            samples.extend(sample);
            progress(samples.len(), all);
        }
    }
    let interrupted = samples.len() < all;
    Ok(SelfTest {
        verdict: samples.iter().map(|s| s.verdict).max().unwrap_or(Verdict::Disturbed),
        limit_points: LIMIT_POINTS,
        limit_of_load_percent: LIMIT_OF_LOAD_PERCENT,
        cpus: placement.sut.clone(),
        meters: meters.iter().map(|meter| meter.kind()).collect(),
        loads,
        samples,
        left_out,
        interrupted,
    })
}

/// Each load in each size.
fn asked(loads: &[LoadMethod], sizes: &[(Pace, f64)]) -> Vec<Asked> {
    let of_load = |method: &LoadMethod| {
        let load = method.load;
        sizes.iter().map(move |(pace, percent)| Asked { load, pace: *pace, percent: *percent })
    };
    loads.iter().flat_map(of_load).collect()
}

/// A trace for each meter, in which its threads are idle.
fn traces(meters: &[&dyn Meter]) -> SysResult<Vec<IdleTrace>> {
    meters.iter().map(|meter| IdleTrace::start(&meter.idle_threads())).collect()
}

/// Paces and sizes of the loads, in per cent of a CPU.
fn sizes(with_fast: bool) -> Vec<(Pace, f64)> {
    let slow = SLOW_PERCENT.into_iter().map(|percent| (Pace::Slow, percent));
    let of_period = |us: f64| us * 1000.0 * 100.0 / Pace::Fast.period_ns() as f64;
    let fast = FAST_US.into_iter().map(|us| (Pace::Fast, of_period(us)));
    slow.chain(fast.filter(|_| with_fast)).collect()
}

/// Starts the same load on each CPU; a steered load runs on one CPU only.
fn start<'a>(
    asked: Asked,
    placement: &Placement,
    steered: Option<&'a Steered>,
) -> SysResult<Vec<Box<dyn Load + 'a>>> {
    let Asked { load, pace, percent } = asked;
    let share = percent / 100.0;
    if let (LoadKind::Softirq, Some(steered)) = (load, steered) {
        return Ok(vec![Box::new(steered.load(share, pace)?)]);
    }
    let start = |cpu| Ok(Box::new(DutyLoad::start(load, cpu, share, pace)?) as Box<dyn Load>);
    placement.sut.iter().map(start).collect()
}

/// A meter, and the trace that tells the size of a load if its own clocks do not.
#[derive(Clone, Copy)]
struct UnderTest<'a> {
    meter: &'a dyn Meter,
    trace: Option<&'a IdleTrace>,
}

/// Measures all loads until each has enough undisturbed intervals. Returns the intervals of each load.
fn intervals(
    loads: &[Box<dyn Load + '_>],
    under_test: UnderTest<'_>,
    began: Instant,
    stop: &AtomicBool,
) -> SysResult<Vec<Vec<Interval>>> {
    let mut intervals = vec![Vec::new(); loads.len()];
    under_test.meter.run();
    // let the loads and the meter settle
    sleep_until_ns(monotonic_ns() + 2 * Pace::Slow.period_ns());
    for number in 1..=MAX_WINDOWS {
        for (intervals, interval) in intervals.iter_mut().zip(interval(loads, under_test)?) {
            intervals.push(interval);
        }
        let is_enough = intervals.iter().all(|intervals: &Vec<Interval>| {
            intervals.iter().filter(|interval| interval.disturbance().is_none()).count() >= ENOUGH
        });
        let out_of_time = number >= ENOUGH && began.elapsed() > TIMEOUT;
        if is_enough || out_of_time || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    under_test.meter.rest();
    Ok(intervals)
}

fn interval(loads: &[Box<dyn Load + '_>], under_test: UnderTest<'_>) -> SysResult<Vec<Interval>> {
    let kind = under_test.meter.kind();
    let [slow, fast] = WINDOWS;
    let length = match (kind, under_test.trace) {
        (MeterKind::ProcStat, _) => LONG_WINDOW,
        (_, None) => slow,
        (_, Some(_)) => fast,
    };
    let others_opened = Background::now()?;
    let ahead = sched::Ahead::now();
    let opened = read(loads, under_test)?;
    sleep_until_ns(monotonic_ns() + length.as_nanos() as u64);
    let closed = read(loads, under_test)?;
    drop(ahead);
    let others_closed = Background::after(&others_opened)?;
    let both = opened.into_iter().zip(closed).zip(loads);
    Ok(both
        .map(|((opened, closed), load)| {
            let seen = busy(kind.source(), &opened.seen, &closed.seen);
            let idle = opened.traced.zip(closed.traced);
            Interval {
                load: (opened.known, closed.known),
                seen,
                traced: idle.map(|(from, to)| Traced::of(seen.interval_ns, to.since(from))),
                overlaps_others: load.overlaps_others(),
                others: others_closed.since(&others_opened, seen.cpu),
            }
        })
        .collect())
}

/// A load at one moment, by its own clock, by the meter and by the trace.
struct Reading {
    known: LoadReading,
    seen: CpuTimes,
    traced: Option<IdleTimes>,
}

/// Reads each load on its own CPU, and then the meter from the home CPUs, as an agent does.
fn read(loads: &[Box<dyn Load + '_>], under_test: UnderTest<'_>) -> SysResult<Vec<Reading>> {
    let thread = sched::current_thread();
    let home = sched::affinity(thread)?;
    let mut readings = Vec::with_capacity(loads.len());
    for load in loads {
        let cpus: CpuSet = [load.cpu()].into_iter().collect();
        sched::set_affinity(thread, &cpus)?;
        let known = load.read();
        // the trace has what the meter has only if this thread keeps the CPU until the meter reads
        let Some(trace) = under_test.trace else {
            sched::set_affinity(thread, &home)?;
            let seen = under_test.meter.read(&cpus)?;
            let known = known?;
            readings.extend(seen.into_iter().map(|seen| Reading { known, seen, traced: None }));
            continue;
        };
        let traced = trace.on(load.cpu());
        let seen = under_test.meter.read(&cpus);
        sched::set_affinity(thread, &home)?;
        let (known, seen) = (known?, seen?);
        readings.extend(seen.into_iter().map(|seen| Reading { known, seen, traced }));
    }
    Ok(readings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_loads_are_for_hosts_that_can_trace() {
        assert_eq!(sizes(false), SLOW_PERCENT.map(|percent| (Pace::Slow, percent)));
        let all = sizes(true);
        assert_eq!(all.len(), SLOW_PERCENT.len() + FAST_US.len());
        let (pace, percent) = all[all.len() - 1];
        // 50 of 199 µs
        assert!(pace == Pace::Fast && (percent - 25.126).abs() < 0.001, "{percent}");
    }
}
