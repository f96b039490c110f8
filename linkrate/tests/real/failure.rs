//! A fault inside the window of a run on real traffic: what detects it, what it costs, and that every
//! byte arrives once and in order.

use std::process::Command;
use std::time::Duration;

use crate::common;
use crate::common::lab::{lab_of, run_spec, run_undisturbed};
use crate::common::{LINKRATE, Running, command};
use linkrate_adapter::Faults;
use linkrate_lab::Lab;
use linkrate_model::failure::Failure;
use linkrate_model::spec::Adapter;
use linkrate_model::{Event, Fault, InterfaceKnobs, RunSpec, Task, TestbedSpec, Workload, model};
use serde_json::Value;

/// Runs of two seconds over two ports, of which the busier one fails after half a second.
const MEASURE: &str = "measure --aggregate 2 --clients 1 --balance mac --switch-balance mac \
                       --scale 0.1 --time 2s --event-at 500ms --connections 2 --purpose functions";

fn measure(runs: u64, options: &str) -> Command {
    let mut command = command(LINKRATE, MEASURE);
    command.args(["--runs", &runs.to_string()]).args(options.split_whitespace());
    command
}

/// What the event of a measurement of one run that went well cost.
#[track_caller]
fn failure_of(options: &str) -> Value {
    failure_of_runs(1, options)
}

/// The same of so many runs.
#[track_caller]
fn failure_of_runs(runs: u64, options: &str) -> Value {
    let mut command = measure(runs, options);
    let document = Running::start(command.arg("--json")).wait().expect_code(0).json();
    common::schema::check("results", &document);
    assert_eq!(document["failures"], Value::Array(Vec::new()), "{options}");
    let failure = &document["cells"][0]["failure"];
    assert_eq!(failure["runs"], runs, "{document}");
    // every byte that was received was compared, or the run would have failed
    let verified = failure["verified_bytes"].as_u64().unwrap_or(0);
    assert!(verified > 1 << 20, "{failure}");
    failure.clone()
}

fn ms(quantity: &Value) -> f64 {
    assert_eq!(quantity["unit"], "ns", "{quantity}");
    quantity["mean"].as_f64().unwrap_or_else(|| panic!("no mean: {quantity}")) / 1e6
}

#[test]
fn a_lost_carrier_is_detected_before_the_gap_ends_and_every_byte_arrives() {
    needs!(root);
    let failure = failure_of("--mode lacp --event carrier --event-recover 1s");
    assert_eq!(failure["fault"], "carrier");
    let gap = ms(&failure["flow_gap"]);
    for end in ["host_detection", "switch_detection"] {
        let detection = &failure[end];
        assert_eq!(detection["runs"], 1, "{failure}");
        assert!(ms(&detection["after"]) < gap, "{failure}");
    }
    assert!(gap > 0.0 && gap < 1000.0, "{failure}");
    for (detected, moved) in [("host_detection", "host_move"), ("switch_detection", "switch_move")]
    {
        let [detected, moved] = [&failure[detected], &failure[moved]];
        assert_eq!(moved["runs"], 1, "{failure}");
        let [detected_ms, moved_ms] = [ms(&detected["after"]), ms(&moved["after"])];
        eprintln!("carrier lost: detected after {detected_ms} ms, moved after {moved_ms} ms");
        assert!(detected_ms <= moved_ms && moved_ms <= gap, "{failure}");
    }
    // what was sent again before the fault is not of the fault
    let bytes = |key: &str| failure[key]["mean"].as_f64().unwrap_or_else(|| panic!("{failure}"));
    assert!(bytes("resent_after") <= bytes("resent"), "{failure}");
    assert_eq!(failure["restored"]["runs"], 1, "{failure}");
}

#[test]
#[ignore = "exhaustive: another failure"]
fn a_silent_loss_that_nothing_watches_is_said_to_be_undetected() {
    needs!(root);
    let options = "--mode manual --event silent";
    let failure = failure_of(options);
    for moment in ["host_detection", "switch_detection", "restored"] {
        assert_eq!(failure[moment]["runs"], 0, "{moment}: {failure}");
        assert_eq!(failure[moment]["after"], Value::Null, "{moment}: {failure}");
    }
    // from the fault to the end of the window, but for frames that were on their way
    assert!(ms(&failure["gap"]) > 1300.0, "{failure}");
    assert!(failure["frames_lost"]["mean"].as_f64() > Some(0.0), "{failure}");
    for resent in ["resent", "resent_after", "segments_after"] {
        assert!(failure[resent]["mean"].as_f64() > Some(0.0), "{resent}: {failure}");
    }
    assert_eq!(failure["host_move"]["runs"], 0, "nothing moves: {failure}");
    let text = Running::start(&mut measure(1, options)).wait().expect_code(0).stdout;
    assert!(text.contains("not detected"), "{text}");
    // BFD watches
    let watched = failure_of("--mode manual --bfd on --event silent");
    assert_eq!(watched["host_detection"]["runs"], 1, "{watched}");
    assert!(ms(&watched["host_detection"]["after"]) < 400.0, "{watched}");
    assert!(ms(&watched["gap"]) < ms(&failure["gap"]), "{watched}");
}

#[test]
fn a_port_that_leaves_in_good_order_costs_no_frame_and_no_flow_overtakes_itself() {
    needs!(root);
    for mode in ["manual", "lacp"] {
        let failure = failure_of(&format!("--mode {mode} --event removed --event-recover 1s"));
        assert_eq!(failure["frames_lost"]["mean"].as_f64(), Some(0.0), "{mode}: {failure}");
        assert_eq!(failure["frames_reordered"]["mean"].as_f64(), Some(0.0), "{mode}: {failure}");
    }
}

#[test]
fn a_failover_group_survives_one_of_two_switches() {
    needs!(root);
    let options = "--switches 2 --mode failover --bfd on --event switch --event-recover 1500ms";
    // after the first run, the group uses the switch that continues
    let failure = failure_of_runs(2, options);
    assert_eq!(failure["fault"], "switch");
    assert_eq!(failure["host_detection"]["runs"], 2, "{failure}");
    assert!(ms(&failure["host_detection"]["after"]) < 400.0, "{failure}");
    assert!(ms(&failure["gap"]) < 1000.0, "{failure}");
    assert_eq!(failure["restored"]["runs"], 2, "{failure}");
}

#[test]
fn a_switch_that_no_traffic_takes_cannot_fail() {
    needs!(root);
    let options = "--switches 2 --mode failover --poll-interval 50 --revert on --preferred-port 1 \
                   --event switch --json";
    let document = Running::start(&mut measure(1, options)).wait().expect_code(4).json();
    let refused = document["failures"].to_string();
    assert!(refused.contains("no port could fail: the traffic took the other switch"), "{refused}");
}

/// A run over a cable whose carrier is lost for a while.
fn cable(lab: &mut Lab) -> Failure {
    let event = Event {
        fault: Fault::Carrier,
        at: Duration::from_millis(400),
        recover: Some(Duration::from_millis(600)),
    };
    let workload = Task::Workload(Workload { connections: 2, ..Workload::default() });
    let spec = RunSpec {
        ports: Some(1),
        adapter: None,
        warm_up: Duration::from_millis(200),
        event: Some(event),
        ..run_spec(workload, InterfaceKnobs::default(), Duration::from_millis(1500))
    };
    let run = run_undisturbed(lab, &spec);
    *run.failure.expect("a run with an event")
}

#[test]
#[ignore = "exhaustive: another failure"]
fn a_cable_stalls_while_its_carrier_is_gone_and_overtaken_frames_are_counted() {
    needs!(root);
    let adapter = Adapter::Model(Box::new(model::find("gigabit").expect("a model")));
    let spec = TestbedSpec { adapter, scale: 0.1, ..TestbedSpec::default() };
    let mut lab = lab_of(&spec, None);
    let clean = cable(&mut lab);
    assert!(clean.gap_ns >= 190_000_000, "{clean:?}");
    assert_eq!((clean.frames_reordered, clean.wrong_bytes), (0, 0), "{clean:?}");
    // no other port could have taken over
    assert_eq!((clean.host_detected_ns, clean.switch_detected_ns), (None, None), "{clean:?}");
    let during = clean.timeline.ports[0].octets[45..58].iter().sum::<u64>();
    let before = clean.timeline.ports[0].octets[20..33].iter().sum::<u64>();
    assert!(during < before / 10, "{:?}", clean.timeline);
    // frames that come a millisecond late are overtaken, and TCP puts all bytes in their order
    let reorder_by = Duration::from_millis(1);
    let faults = Faults { reorder: 0.02, reorder_by, ..Faults::default() };
    let testbed = lab.testbed().expect("up");
    testbed.backend.adapters().expect("adapters").set_faults(faults).expect("set faults");
    let mixed = cable(&mut lab);
    assert!(mixed.frames_reordered > 10, "{mixed:?}");
    assert_eq!(mixed.wrong_bytes, 0, "{mixed:?}");
}

#[test]
fn an_event_that_the_testbed_cannot_have_is_refused_with_the_remedy() {
    let refused = |options: &str| {
        let mut command = command(LINKRATE, "measure");
        command.args(options.split_whitespace());
        Running::start(&mut command).wait().expect_code(2).refusal()
    };
    for (options, said) in [
        ("--adapter veth --event carrier", "adapter"),
        ("--event switch", "two switches"),
        (
            "--aggregate 2 --clients 2 --switches 2 --spread-clients --event switch",
            "spread-clients",
        ),
        ("--aggregate 2 --clients 1 --switches 2 --mode lacp --event switch", "partner of its own"),
        ("--event removed", "aggregate"),
        ("--event carrier --kind request-response", "no effect on kind request-response"),
        ("--event carrier --family ipv6", "needs family ipv4"),
        ("--event carrier --event-at 3s", "not inside the measurement"),
        ("--event carrier --event-at 1s --event-recover 1s", "not inside the measurement"),
        ("--event carier", "did you mean \"carrier\"?"),
    ] {
        let refusal = refused(options);
        assert!(refusal.contains(said), "{options}: {refusal}");
    }
}
