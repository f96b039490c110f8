//! The CPU meters, themselves measured: loads of known size on the CPUs of the system under test,
//! and what each meter says of them.
//!
//! `load` makes loads that know by a clock of their own how large they are, `steered` one that
//! no thread carries. `others` watches everyone else. `judge` compares: a meter passes within
//! one percentage point. Each figure is the median of three windows in which nothing else was at
//! work; where there are not enough of these among a few, that is told.

mod judge;
mod load;
mod others;
mod steered;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linkrate_agent::cpu_meter::{CpuMeter, busy, choose};
use linkrate_lab::{LabError, Placement};
use linkrate_sys::clock::{monotonic_ns, sleep_until_ns};
use linkrate_sys::error::SysResult;
use linkrate_sys::procstat::CpuTimes;
use linkrate_sys::sched;
use linkrate_terms::measurement::IdleSource;
use linkrate_terms::{CpuSet, TestbedSpec};
use serde::Serialize;

pub use judge::{LIMIT_POINTS, Sample, Verdict};
pub use load::LoadKind;

use judge::{ENOUGH, Window, middle, worst};
use load::{DutyLoad, Load, PERIOD_NS};
use others::Others;
use steered::Steered;

/// Sizes of the loads, in per cent of one CPU.
const SIZES: [f64; 5] = [5.0, 25.0, 50.0, 75.0, 95.0];

/// The same where a meter needs long windows.
const FEW_SIZES: [f64; 3] = [5.0, 50.0, 95.0];

/// One window.
const WINDOW: Duration = Duration::from_millis(300);

/// One window of a meter with steps of 10 ms, which are 0.7 % of it.
const LONG_WINDOW: Duration = Duration::from_millis(1500);

/// Most windows of one load and meter.
const MOST_WINDOWS: usize = 8;

/// Time after which nothing is measured more often than it must be.
const PATIENCE: Duration = Duration::from_secs(30);

/// Something that reads CPU time. The self-test of this crate's own meters is what it is for; a
/// meter with a known fault shows that the self-test finds it.
pub trait Meter {
    /// Where idle time comes from.
    fn source(&self) -> IdleSource;

    /// Makes ready for readings.
    fn run(&self);

    /// No reading will follow soon.
    fn rest(&self);

    /// Reads these CPUs.
    ///
    /// # Errors
    /// When they cannot be read.
    fn read(&self, cpus: &CpuSet) -> SysResult<Vec<CpuTimes>>;
}

impl Meter for CpuMeter {
    fn source(&self) -> IdleSource {
        Self::source(self)
    }

    fn run(&self) {
        Self::run(self);
    }

    fn rest(&self) {
        Self::rest(self);
    }

    fn read(&self, cpus: &CpuSet) -> SysResult<Vec<CpuTimes>> {
        Self::read(self, cpus)
    }
}

/// A load, and how it is made here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadMethod {
    /// The load.
    pub load: LoadKind,
    /// How it is made and how its size is known, as a sentence.
    pub how: String,
}

/// What the self-test found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SelfTest {
    /// The worst verdict of all samples.
    pub verdict: Verdict,
    /// How far a meter may be off, in percentage points.
    pub limit_points: f64,
    /// The CPUs.
    pub cpus: CpuSet,
    /// The meters, the one that serves here by itself first.
    pub meters: Vec<IdleSource>,
    /// The loads.
    pub loads: Vec<LoadMethod>,
    /// Each load and size, as each meter saw it.
    pub samples: Vec<Sample>,
    /// What could not be tried, as sentences.
    pub left_out: Vec<String>,
    /// Whether it was ended early.
    pub interrupted: bool,
}

/// The meters that can run on the CPUs of `placement`: the kernel's idle time, and the counter.
/// What cannot run is named.
pub fn meters(placement: &Placement) -> (Vec<CpuMeter>, Vec<String>) {
    let mut left_out = Vec::new();
    let sources = [choose(linkrate_terms::CpuMeter::IdleTime), IdleSource::IdleCounter];
    let meters = sources.into_iter().filter_map(|source| {
        let meter = CpuMeter::new(source, &placement.sut);
        let meter = meter.map(CpuMeter::watching_softirqs);
        meter.map_err(|error| left_out.push(format!("{}: {error}", source.name()))).ok()
    });
    (meters.collect(), left_out)
}

/// Tests this host's meters, which takes half a minute. `program` is the linkrate program.
///
/// Call it from the main thread: hosts die with the thread that built them. Once `stop` is set it
/// ends soon.
///
/// # Errors
/// When there is no CPU to test on, or a load or a meter cannot be had.
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
///
/// # Errors
/// As [`run`].
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
            let how = "datagrams sent from another CPU, each held for 4 ms where it is received; \
                       known by the sum of these times";
            (Some(steered), how.to_owned())
        }
        Err(reason) => {
            let how = "datagrams sent to itself, received in the sending thread's system calls; \
                       known by the time from its first to its last in each period";
            (None, format!("{how} (not steered: {reason})"))
        }
    };
    let by_clock = "known by the thread's own CPU clock";
    let loads = vec![
        LoadMethod { load: LoadKind::User, how: format!("a thread that computes; {by_clock}") },
        LoadMethod {
            load: LoadKind::System,
            how: format!("a thread that reads /dev/zero; {by_clock}"),
        },
        LoadMethod { load: LoadKind::Softirq, how: softirq },
    ];
    let is_coarse = meters.iter().any(|meter| meter.source() == IdleSource::ProcStat);
    let sizes: &[f64] = if is_coarse { &FEW_SIZES } else { &SIZES };
    let (mut samples, all) = (Vec::new(), loads.len() * sizes.len() * meters.len());
    'tests: for method in &loads {
        for size in sizes {
            let loads = start(method.load, size / 100.0, placement, steered.as_ref())?;
            for meter in meters {
                if stop.load(Ordering::Relaxed) {
                    break 'tests;
                }
                let windows = windows(&loads, *meter, began, stop)?;
                let named = |window: &Window| window.sample(method.load, *size, meter.source());
                let of_cpus = windows.iter().map(|windows| windows.iter().map(named).collect());
                samples.extend(worst(of_cpus.filter_map(middle)));
                progress(samples.len(), all);
            }
        }
    }
    let interrupted = samples.len() < all;
    Ok(SelfTest {
        verdict: samples.iter().map(|s| s.verdict).max().unwrap_or(Verdict::Disturbed),
        limit_points: LIMIT_POINTS,
        cpus: placement.sut.clone(),
        meters: meters.iter().map(|meter| meter.source()).collect(),
        loads,
        samples,
        left_out: Vec::new(),
        interrupted,
    })
}

/// The same load on each CPU; steered ones are on one only.
fn start<'a>(
    kind: LoadKind,
    share: f64,
    placement: &Placement,
    steered: Option<&'a Steered>,
) -> SysResult<Vec<Box<dyn Load + 'a>>> {
    if let (LoadKind::Softirq, Some(steered)) = (kind, steered) {
        return Ok(vec![Box::new(steered.load(share)?)]);
    }
    let start = |cpu| Ok(Box::new(DutyLoad::start(kind, cpu, share)?) as Box<dyn Load>);
    placement.sut.iter().map(start).collect()
}

/// Watches all loads until there are enough windows of each. Returns those of each load.
fn windows(
    loads: &[Box<dyn Load + '_>],
    meter: &dyn Meter,
    began: Instant,
    stop: &AtomicBool,
) -> SysResult<Vec<Vec<Window>>> {
    let mut windows = vec![Vec::new(); loads.len()];
    meter.run();
    // the loads, and the meter, settle
    sleep_until_ns(monotonic_ns() + 2 * PERIOD_NS);
    for number in 1..=MOST_WINDOWS {
        for (windows, window) in windows.iter_mut().zip(window(loads, meter)?) {
            windows.push(window);
        }
        let is_enough = windows.iter().all(|windows: &Vec<Window>| {
            windows.iter().filter(|window| window.disturbance().is_none()).count() >= ENOUGH
        });
        let out_of_time = number >= ENOUGH && began.elapsed() > PATIENCE;
        if is_enough || out_of_time || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    meter.rest();
    Ok(windows)
}

/// Watches all loads over one window.
fn window(loads: &[Box<dyn Load + '_>], meter: &dyn Meter) -> SysResult<Vec<Window>> {
    let length = match meter.source() {
        IdleSource::ProcStat => LONG_WINDOW,
        IdleSource::TimerList | IdleSource::IdleCounter => WINDOW,
    };
    let others_opened = Others::now()?;
    let ahead = sched::Ahead::now();
    let opened = read(loads, meter)?;
    sleep_until_ns(monotonic_ns() + length.as_nanos() as u64);
    let closed = read(loads, meter)?;
    drop(ahead);
    let others_closed = Others::after(&others_opened)?;
    let both = opened.into_iter().zip(closed).zip(loads);
    Ok(both
        .map(|(((load_opened, seen_opened), (load_closed, seen_closed)), load)| Window {
            load: (load_opened, load_closed),
            seen: busy(meter.source(), &seen_opened, &seen_closed),
            overlaps_others: load.overlaps_others(),
            others: others_closed.since(&others_opened, seen_closed.cpu),
        })
        .collect())
}

/// Reads each load on its own CPU, and then the meter as an agent does, from wherever this is.
fn read(
    loads: &[Box<dyn Load + '_>],
    meter: &dyn Meter,
) -> SysResult<Vec<(load::LoadReading, CpuTimes)>> {
    let thread = sched::current_thread();
    let home = sched::affinity(thread)?;
    let mut readings = Vec::with_capacity(loads.len());
    for load in loads {
        let cpus: CpuSet = [load.cpu()].into_iter().collect();
        sched::set_affinity(thread, &cpus)?;
        let known = load.read();
        sched::set_affinity(thread, &home)?;
        let known = known?;
        readings.extend(meter.read(&cpus)?.into_iter().map(|seen| (known, seen)));
    }
    Ok(readings)
}
