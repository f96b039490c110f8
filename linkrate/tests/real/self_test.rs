//! The CPU meters against loads of known size: this host's own meters pass, and one with a known
//! fault does not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::common;
use crate::common::{LINKRATE, Running, command, skip};
use linkrate_agent::cpu_meter::{CpuMeter, choose};
use linkrate_doctor::self_test::{
    self, Asked, LoadKind, Meter, MeterKind, Pace, SelfTest, Verdict,
};
use linkrate_lab::Placement;
use linkrate_model::measurement::IdleSource;
use linkrate_model::{CpuSet, TestbedSpec};
use linkrate_stats::simulate::times;
use linkrate_sys::cpus;
use linkrate_sys::error::SysResult;
use linkrate_sys::idle_trace::IdleTrace;
use linkrate_sys::interrupts::InterruptCounts;
use linkrate_sys::procstat::{self, CpuTimes};
use linkrate_sys::sched::ThreadId;
use rustix::process::geteuid;
use serde_json::Value;

/// Time that the hypervisor has taken from all CPUs, ns.
fn stolen_ns() -> u64 {
    let online = cpus::online().expect("CPUs");
    online.iter().map(|cpu| procstat::read_coarse(cpu).expect("times").steal_ns).sum()
}

/// What the self-test says, unless the hypervisor did not leave the machine alone meanwhile: then nothing is judged.
fn run(mut command: Command) -> Result<Value, String> {
    let (began, before_ns) = (Instant::now(), stolen_ns());
    let finished = Running::start(&mut command).wait();
    let stolen = (stolen_ns() - before_ns) as f64 * 100.0 / began.elapsed().as_nanos() as f64;
    if stolen > 1.0 {
        return Err(format!("the hypervisor took {stolen:.1} % of a CPU; run the test again"));
    }
    let document = judged(finished.json())?;
    let code = if document["verdict"] == "passed" { 0 } else { 1 };
    assert_eq!(finished.code(), Some(code));
    Ok(document)
}

/// The document, unless the machine was too busy to judge.
fn judged(document: Value) -> Result<Value, &'static str> {
    for sample in document["samples"].as_array().expect("samples") {
        println!(
            "{} {} {:.1} %: {} reads {:.2} of {:.2}",
            sample["pace"].as_str().expect("a pace"),
            sample["load"].as_str().expect("a load"),
            sample["asked_percent"].as_f64().expect("a figure"),
            sample["meter"].as_str().expect("a meter"),
            sample["measured_percent"].as_f64().expect("a figure"),
            sample["truth_percent"].as_f64().expect("a figure"),
        );
    }
    let samples = document["samples"].as_array().expect("samples");
    let disturbed = samples.iter().filter(|sample| !sample["disturbance"].is_null()).count();
    if disturbed * 2 > samples.len() {
        return Err("something else kept this machine busy most of the time; run the test again");
    }
    match document["verdict"].as_str() {
        Some("passed" | "failed") => Ok(document),
        Some("disturbed") => {
            Err("something else kept this machine busy; stop it and run the test again")
        }
        other => panic!("{other:?}: {document:#}"),
    }
}

/// Each meter is within its limit in every sample that nothing disturbed. A counter that may not
/// see interrupts cannot tell a long tick from work: the median of its samples is, where ticks are what
/// they were when it was calibrated. Where they are not, all that it counts is off by one share, some per cent
/// at most; that is said, and nothing judged.
fn check_errors(document: &Value, sees_interrupts: bool) {
    let mut of_counter = Vec::new();
    for sample in document["samples"].as_array().expect("samples") {
        let figure = |name: &str| sample[name].as_f64().expect("a figure");
        let error = figure("measured_percent") - figure("truth_percent");
        assert!((error - figure("error_points")).abs() < 1e-9, "{sample}");
        if !sample["disturbance"].is_null() {
            continue;
        }
        // the load was there at all; at a fast pace waking up is more than it
        let over = figure("truth_percent") - figure("asked_percent");
        match sample["pace"].as_str() {
            Some("slow") => assert!(over.abs() < 8.0, "{sample}"),
            _ => {
                assert!(over > 0.0 && figure("wake_ups_per_second") > 4000.0, "{sample}");
                let limit = figure("truth_percent") * 2.5 / 100.0;
                assert!((figure("limit_points") - limit).abs() < 1e-9, "{sample}");
            }
        }
        if sample["meter"] == "idle-counter" && !sees_interrupts {
            of_counter.push(error.abs());
        } else {
            assert!(error.abs() <= figure("limit_points"), "{sample}");
        }
    }
    of_counter.sort_by(f64::total_cmp);
    let median = of_counter.get(of_counter.len() / 2).copied();
    assert!(median.is_none_or(|error| error <= 3.0), "{of_counter:?}");
    if let Some(error) = median.filter(|error| *error > 1.0) {
        let why = "ticks took longer, or less, than when it was calibrated; run the test again";
        skip(format!("a counter without sight of interrupts was {error:.1} points off: {why}"));
    }
}

/// A meter of this host, by loads of middle size.
struct OfMiddleSize(CpuMeter);

impl Meter for OfMiddleSize {
    fn kind(&self) -> MeterKind {
        self.0.kind()
    }

    fn meets(&self, asked: Asked) -> bool {
        let sizes = match asked.pace {
            Pace::Slow => 40.0..60.0,
            Pace::Fast => 10.0..15.0,
        };
        sizes.contains(&asked.percent) && self.0.meets(asked)
    }

    fn idle_threads(&self) -> Vec<ThreadId> {
        Meter::idle_threads(&self.0)
    }

    fn run(&self) {
        Meter::run(&self.0);
    }

    fn rest(&self) {
        Meter::rest(&self.0);
    }

    fn read(&self, cpus: &CpuSet) -> SysResult<Vec<CpuTimes>> {
        Meter::read(&self.0, cpus)
    }
}

#[test]
fn the_meters_report_loads_of_middle_size() {
    let placement = Placement::choose(&TestbedSpec::default()).expect("CPUs");
    let (meters, left_out) = self_test::meters(&placement);
    // what one meter reads is part of what the traced one reads
    let all = times(0, 1) == 1;
    let meters = meters.into_iter().filter(|meter| all || meter.kind() != MeterKind::TimerList);
    let meters: Vec<OfMiddleSize> = meters.map(OfMiddleSize).collect();
    let meters: Vec<&dyn Meter> = meters.iter().map(|meter| meter as &dyn Meter).collect();
    let outcome = test_of(&meters, &placement);
    let document = serde_json::to_value(&outcome).expect("a document");
    let document = or_skip!(judged(document));
    // three loads of one size; a virtual testbed has no softirqs of milliseconds
    let not_met = outcome.meters.iter().filter(|kind| **kind == MeterKind::TimerList).count();
    let of_pace = |pace| outcome.samples.iter().filter(move |sample| sample.pace == pace).count();
    assert_eq!(of_pace(Pace::Slow), 3 * meters.len() - not_met, "{left_out:?}");
    let traces = of_pace(Pace::Fast) > 0;
    assert!(!traces || of_pace(Pace::Fast) == 3 * meters.len());
    check_errors(&document, traces);
}

#[test]
#[ignore = "exhaustive: a minute of loads of each size"]
fn the_meters_report_known_loads_within_a_percentage_point() {
    let self_test = command(LINKRATE, "doctor self-test --json");
    let document = or_skip!(run(self_test));
    let traces = IdleTrace::start(&[]).is_ok() && InterruptCounts::start().is_ok();
    let meters = match (geteuid().is_root(), traces) {
        (true, true) => serde_json::json!(["timer-list-traced", "timer-list", "idle-counter"]),
        (true, false) => serde_json::json!(["timer-list", "idle-counter"]),
        (false, _) => serde_json::json!(["proc-stat", "idle-counter"]),
    };
    assert_eq!(document["meters"], meters);
    let of_pace = |pace: &str| {
        let samples = document["samples"].as_array().expect("samples");
        samples.iter().filter(|sample| sample["pace"] == pace).count()
    };
    let meters = meters.as_array().expect("meters").len();
    // three loads of three sizes; a virtual testbed has no softirqs of milliseconds
    let not_met = if geteuid().is_root() { 3 } else { 0 };
    assert_eq!(of_pace("slow"), 9 * meters - not_met);
    assert_eq!(of_pace("fast"), if traces { 9 * meters } else { 0 });
    check_errors(&document, traces);
}

/// The samples of the test above by a user who may not trace.
#[test]
#[ignore = "exhaustive: a minute of loads once more"]
fn an_ordinary_users_meters_measure_known_loads() {
    // without root, the test above is this one
    needs!(root, "setpriv");
    // a copy that is not in root's home
    let copy = common::small::SmallStudy::new();
    let mut as_user = command("setpriv", "--reuid 65534 --regid 65534 --clear-groups");
    as_user.arg(copy.own.program()).args(["doctor", "self-test", "--json"]);
    let document = or_skip!(run(as_user));
    assert_eq!(document["meters"][0], "proc-stat");
    check_errors(&document, false);
    let left_out = document["left_out"].to_string();
    assert!(left_out.contains("loads that wake up 5025 times a second"), "{left_out}");
    let how = document["loads"][2]["how"].as_str().expect("how the load is made");
    assert!(how.contains("not steered"), "{how}");
}

/// A meter with a fault.
struct Faulty {
    meter: CpuMeter,
    fault: Fault,
}

#[derive(Clone, Copy)]
enum Fault {
    /// It loses a part of the idle time, as one would that misses idle periods.
    Remembers(f64),
    /// It counts some nanoseconds of each interrupt as idle. An idle CPU wakes up by one.
    WakesLate(u64),
}

impl Meter for Faulty {
    fn kind(&self) -> MeterKind {
        self.meter.kind()
    }

    /// Small loads show both faults. One of each kind and pace shows the first; the second is a fault of fast ones.
    fn meets(&self, asked: Asked) -> bool {
        let shows = match self.fault {
            Fault::Remembers(_) => {
                matches!(
                    (asked.load, asked.pace),
                    (LoadKind::User, Pace::Slow) | (LoadKind::System, Pace::Fast)
                )
            }
            Fault::WakesLate(_) => true,
        };
        shows && asked.percent < 6.0 && self.meter.meets(asked)
    }

    fn idle_threads(&self) -> Vec<ThreadId> {
        self.meter.idle_threads()
    }

    fn run(&self) {
        self.meter.run();
    }

    fn rest(&self) {
        self.meter.rest();
    }

    fn read(&self, cpus: &CpuSet) -> SysResult<Vec<CpuTimes>> {
        let mut times = self.meter.times(cpus)?;
        let interrupts = interrupts();
        for time in &mut times {
            match self.fault {
                Fault::Remembers(part) => time.idle_ns = (time.idle_ns as f64 * part) as u64,
                Fault::WakesLate(ns) => time.idle_ns += ns * interrupts[&time.cpu],
            }
        }
        Ok(times)
    }
}

/// Interrupts that each CPU has handled. The kernel's own counts of idle periods leave out those in which the tick
/// continues, which some governors choose for short ones.
fn interrupts() -> BTreeMap<u32, u64> {
    let text = fs::read_to_string("/proc/interrupts").expect("the interrupts");
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default().split_whitespace();
    let cpus: Vec<u32> = header.filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    let mut counts: BTreeMap<u32, u64> = cpus.iter().map(|cpu| (*cpu, 0)).collect();
    for line in lines {
        let words = line.split_whitespace().skip(1);
        for (cpu, count) in cpus.iter().zip(words.map_while(|word| word.parse::<u64>().ok())) {
            *counts.entry(*cpu).or_default() += count;
        }
    }
    counts
}

fn test_of(meters: &[&dyn Meter], placement: &Placement) -> SelfTest {
    let stop = Arc::new(AtomicBool::new(false));
    self_test::test(Path::new(LINKRATE), &stop, placement, meters, &mut |_, _| ())
        .expect("the self-test runs")
}

#[test]
#[ignore = "exhaustive: ten seconds alone on the machine"]
fn detects_a_meter_that_forgets_idle_time() {
    let placement = Placement::choose(&TestbedSpec::default()).expect("CPUs");
    for source in [choose(linkrate_model::CpuMeter::IdleTime), IdleSource::IdleCounter] {
        let meter = CpuMeter::new(source, &placement.sut).expect("a meter").tracing();
        let outcome = test_of(&[&Faulty { meter, fault: Fault::Remembers(0.97) }], &placement);
        // little load leaves most idle time to forget, almost no idle time leaves nothing
        let of_size =
            || outcome.samples.iter().filter(|sample| (sample.asked_percent - 5.0).abs() < 0.1);
        assert_ne!(outcome.verdict, Verdict::Passed, "{outcome:#?}");
        // what the hypervisor takes is no idle time either, and may make up for what is forgotten
        for sample in of_size().filter(|sample| sample.disturbance.is_none()) {
            assert_ne!(sample.verdict, Verdict::Passed, "{sample:?}");
            assert!(sample.error_points > 1.0, "{sample:?}");
        }
        let failed = of_size().any(|sample| sample.verdict == Verdict::Failed);
        if !failed {
            skip("something else kept this machine busy; stop it and run the test again");
        }
    }
}

/// 10 µs of each wake-up are nothing at 50 a second, and a twentieth of a CPU at 5,000.
#[test]
#[ignore = "exhaustive: nine seconds alone on the machine"]
fn detects_a_meter_that_misses_a_part_of_each_wake_up() {
    let source = choose(linkrate_model::CpuMeter::IdleTime);
    if source != IdleSource::TimerList || IdleTrace::start(&[]).is_err() {
        return skip("only root may read idle times in nanoseconds and trace them");
    }
    let placement = Placement::choose(&TestbedSpec::default()).expect("CPUs");
    let meter = CpuMeter::new(source, &placement.sut).expect("a meter");
    let outcome = test_of(&[&Faulty { meter, fault: Fault::WakesLate(10_000) }], &placement);
    let of_pace = |pace| outcome.samples.iter().filter(move |sample| sample.pace == pace);
    for sample in of_pace(Pace::Slow) {
        assert_ne!(sample.verdict, Verdict::Failed, "{sample:?}");
    }
    let undisturbed = || of_pace(Pace::Fast).filter(|sample| sample.disturbance.is_none());
    if undisturbed().next().is_none() {
        skip("something else kept this machine busy; stop it and run the test again");
    }
    for sample in undisturbed() {
        assert_eq!(sample.verdict, Verdict::Failed, "{sample:?}");
        assert!(sample.error_points < 0.0, "{sample:?}");
    }
}
