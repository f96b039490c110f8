//! Profiles of real traffic: the categories move as the offloads do, add up to the meter's total,
//! and know this kernel's functions.

use std::time::Duration;

use crate::common::lab::{lab, run_spec, run_undisturbed};
use crate::common::linkrate;
use linkrate_lab::Lab;
use linkrate_model::{
    InterfaceKnobs, Measurement, Offload, ReceivePath, RunSpec, SendPath, Task, Workload,
};
use linkrate_study::attribution::of_runs;
use linkrate_study::results::Attribution;
use linkrate_sys::error::SysError;
use linkrate_sys::kallsyms::KernelSymbols;
use linkrate_sys::perf::CpuSampler;

/// Whether this host allows sampling.
fn sampling() -> Result<(), String> {
    let sampler = CpuSampler::open(0, 1_000_000, 1_000_000).map(drop);
    let symbols = KernelSymbols::read().map(drop);
    let hinted = |error: SysError| format!("{error}; {}", error.hint().unwrap_or("run as root"));
    sampler.and(symbols).map_err(hinted)
}

/// A profiled run of a second.
#[track_caller]
fn profiled(lab: &mut Lab, workload: Workload, offload: Offload) -> Measurement {
    let interface = InterfaceKnobs { offload: Some(offload), ..InterfaceKnobs::default() };
    let spec = RunSpec {
        adapter: None,
        warm_up: Duration::from_millis(200),
        profile: true,
        ..run_spec(Task::Workload(workload), interface, Duration::from_secs(1))
    };
    run_undisturbed(lab, &spec)
}

#[track_caller]
fn attribution(run: &Measurement) -> Attribution {
    of_runs([run].into_iter()).expect("the run was profiled")
}

fn share(attribution: &Attribution, category: &str) -> f64 {
    let found = attribution.shares.iter().find(|share| share.category == category);
    found.unwrap_or_else(|| panic!("{category}: {attribution:?}")).percent
}

/// Nanoseconds of the SUT's CPUs per byte that some categories cost.
fn ns_per_byte(run: &Measurement, categories: &[&str]) -> f64 {
    let found = attribution(run);
    let percent: f64 = categories.iter().map(|category| share(&found, category)).sum();
    let cpus = run.sut_cpu.cpus.len() as f64;
    percent / 100.0 * cpus * 1e9 / (run.traffic.bits_per_second() / 8.0)
}

#[test]
#[ignore = "exhaustive: another profile"]
fn segmentation_offload_saves_in_the_protocols_and_not_in_the_copy() {
    or_skip!(sampling());
    let mut lab = lab(None);
    let none = profiled(&mut lab, Workload::default(), Offload::None);
    let tso = profiled(&mut lab, Workload::default(), Offload::Tso);
    let protocols = ["tcp-ip", "skb", "driver"];
    let (without, with) = (ns_per_byte(&none, &protocols), ns_per_byte(&tso, &protocols));
    assert!(without > 3.0 * with, "{without} ns a byte without, {with} with");
    // the packets of one are a part of the other's
    let found = attribution(&none);
    assert!(share(&found, "tcp-ip") + share(&found, "skb") > 5.0, "{found:?}");
}

#[test]
fn finds_the_copy_of_a_plain_send() {
    or_skip!(sampling());
    let mut lab = lab(None);
    let plain = attribution(&profiled(&mut lab, Workload::default(), Offload::Tso));
    let workload = Workload {
        send_path: SendPath::Splice,
        receive_path: ReceivePath::Truncate,
        ..Workload::default()
    };
    let zero_copy = attribution(&profiled(&mut lab, workload, Offload::Tso));
    // of what the traffic takes: what a wake-up costs depends on the machine more than on the
    // traffic, and took 60 % of a CPU on one
    let of_traffic = |found: &Attribution| {
        let besides = share(found, "interrupts") + share(found, "idle");
        share(found, "data-copy") / (100.0 - besides)
    };
    let (with, without) = (of_traffic(&plain), of_traffic(&zero_copy));
    assert!(with > 0.1, "{plain:?}");
    assert!(without < with / 4.0, "{zero_copy:?}");
}

#[test]
fn categories_add_up_to_the_meter_within_the_stated_error() {
    or_skip!(sampling());
    let mut lab = lab(None);
    let mut outside = Vec::new();
    for offload in [Offload::None, Offload::Gso, Offload::Tso, Offload::None, Offload::Tso] {
        let run = profiled(&mut lab, Workload::default(), offload);
        let found = attribution(&run);
        let sum: f64 = found.shares.iter().map(|share| share.percent).sum();
        assert!((sum - 100.0).abs() < 1e-6, "{sum}");
        let busy = sum - share(&found, "idle");
        assert!((busy - run.sut_cpu.percent()).abs() < 0.1, "{busy} of {:?}", run.sut_cpu);
        let unknown = share(&found, "unknown");
        assert!(unknown < busy * 0.05, "{unknown} % of {busy} %: {:?}", found.unknown);
        // a sample each 0.618 ms and CPU
        let profile = run.profile.as_ref().expect("profiled");
        let due: u64 = run.sut_cpu.cpus.iter().map(|cpu| cpu.interval_ns / profile.period_ns).sum();
        assert!(profile.samples() <= due + 2 * run.sut_cpu.cpus.len() as u64, "{due}");
        let error = (found.sampled_percent - found.meter_percent).abs();
        println!(
            "{}: sampled {:.1} %, meter {:.1} %, stated error {:.1} points",
            offload.name(),
            found.sampled_percent,
            found.meter_percent,
            found.error_points
        );
        if error > found.error_points {
            outside.push((offload, found));
        }
    }
    // what disturbs the machine for a moment may spoil a run, not the rule
    assert!(outside.len() <= 1, "{outside:#?}");
}

#[test]
#[ignore = "exhaustive: another profile"]
fn marks_profiled_figures() {
    or_skip!(sampling());
    let words = "measure --profile --runs 1 --warm-up 100ms --json --time";
    let document = linkrate(&format!("{words} 500ms")).expect_code(0).json();
    let cell = &document["cells"][0]["attribution"];
    assert_eq!(cell["runs"], 1, "{document}");
    assert_eq!(
        cell["shares"].as_array().and_then(|s| s.last()).expect("shares")["category"],
        "idle"
    );
    let warnings = document["warnings"].as_array().expect("warnings");
    let reported = |warning: &&serde_json::Value| {
        warning.as_str().is_some_and(|warning| warning.contains("profiled"))
    };
    assert_eq!(warnings.iter().filter(reported).count(), 1, "{warnings:?}");
    let plain =
        linkrate("measure --runs 1 --warm-up 100ms --time 200ms --json").expect_code(0).json();
    assert_eq!(plain["cells"][0].get("attribution"), None);
}
