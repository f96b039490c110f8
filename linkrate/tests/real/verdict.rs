//! Each verdict, provoked: a testbed and a workload that leave no other.

use std::time::Duration;

use crate::common::lab::{SUT_INTERFACE, inside, lab_of, run_spec, run_undisturbed};
use linkrate_adapter::Faults;
use linkrate_lab::Lab;
use linkrate_model::spec::Adapter;
use linkrate_model::{
    ByteSize, Direction, InterfaceKnobs, MessageSize, Model, Offload, Protocol, ReceivePath,
    RunSpec, Task, TestbedSpec, Workload,
};
use linkrate_study::analysis::shares;
use linkrate_study::executor::Executor;
use linkrate_study::store::{Outcome, StoredRun};
use linkrate_study::verdict::{Bottleneck, Unexplained, judge};

/// An adapter no limit, but for what is added.
fn model(more: &str) -> TestbedSpec {
    let text = format!(
        "name = \"test\"\ntitle = \"a test's\"\nsource = \"this test\"\nports = 1\nqueues = 1\n\
         superframe = 65535\nmax-mtu = 9000\ntransmit-ring = 256\nreceive-ring = 4096\n{more}"
    );
    let model = Model::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    TestbedSpec { adapter: Adapter::Model(Box::new(model)), ..TestbedSpec::default() }
}

fn stream(direction: Direction, message: u64) -> Workload {
    Workload { direction, message: MessageSize::Fixed(ByteSize(message)), ..Workload::default() }
}

fn run_of(workload: Workload) -> RunSpec {
    let window = Duration::from_millis(500);
    let spec = run_spec(Task::Workload(workload), InterfaceKnobs::default(), window);
    RunSpec { warm_up: Duration::from_millis(200), ..spec }
}

/// Share of a role's CPUs that the hypervisor may take, in per cent. What it takes is nobody's: no
/// resource here is then used up.
const STOLEN_PERCENT: f64 = 1.0;

/// What bound one run, with the sentence for the message of a failed test; why there is none, if the hypervisor took part
/// of the machine away meanwhile.
#[track_caller]
fn judged(lab: &mut Lab, spec: RunSpec) -> Result<(Bottleneck, String), String> {
    let measured = run_undisturbed(lab, &spec);
    let cpus = measured.sut_cpu.cpus.iter().chain(&measured.client_cpu.cpus);
    let stolen = cpus.map(|cpu| cpu.steal_ns as f64 * 100.0 / cpu.interval_ns.max(1) as f64);
    let stolen = stolen.fold(0.0, f64::max);
    if stolen >= STOLEN_PERCENT {
        return Err(format!("the hypervisor took {stolen:.1} % of a CPU; run it again"));
    }
    let outcome = Outcome::Measured(Box::new(measured));
    let run = StoredRun {
        sequence: 0,
        block: 0,
        cell: Some(0),
        pair: None,
        missing_nodes: Vec::new(),
        started_unix_ms: 0,
        spec,
        outcome,
    };
    let verdict = judge(&shares::of_runs([&run], 1.0));
    let [first, rest @ ..] = &verdict.directions[..] else { panic!("no direction was judged") };
    assert!(rest.iter().all(|way| way.bottleneck.word() == first.bottleneck.word()), "{verdict:?}");
    Ok((first.bottleneck.clone(), verdict.sentence()))
}

#[test]
fn a_link_that_is_full_is_the_verdict() {
    needs!(root);
    let mut lab = lab_of(&model("rate = \"100 Mbit/s\""), None);
    let (bound, sentence) = or_skip!(judged(&mut lab, run_of(stream(Direction::Transmit, 32768))));
    assert!(matches!(bound, Bottleneck::Link { percent } if percent > 97.0), "{sentence}");
}

#[test]
fn a_bus_that_is_full_is_the_verdict() {
    needs!(root);
    let mut lab = lab_of(&model("rate = \"1 Gbit/s\"\nbus = \"200 Mbit/s\""), None);
    let (bound, sentence) = or_skip!(judged(&mut lab, run_of(stream(Direction::Transmit, 32768))));
    assert!(matches!(bound, Bottleneck::Bus { .. }), "{sentence}");
}

#[test]
fn small_messages_are_bound_by_the_senders_cpu() {
    needs!(root);
    let mut lab = lab_of(&TestbedSpec::default(), None);
    let (bound, sentence) = or_skip!(judged(&mut lab, run_of(stream(Direction::Transmit, 64))));
    assert!(matches!(bound, Bottleneck::SutCpu { .. }), "{sentence}");
    let (bound, sentence) = or_skip!(judged(&mut lab, run_of(stream(Direction::Receive, 64))));
    assert!(matches!(bound, Bottleneck::ClientCpu { .. }), "{sentence}");
    let (bound, sentence) =
        or_skip!(judged(&mut lab, run_of(stream(Direction::Bidirectional, 64))));
    assert!(matches!(bound, Bottleneck::BothCpus { .. }), "{sentence}");
}

#[test]
fn a_cpu_that_both_ends_share_is_the_verdict() {
    needs!(root);
    let one: linkrate_model::CpuSet = [0].into_iter().collect();
    let spec = TestbedSpec {
        sut_cpus: Some(one.clone()),
        client_cpus: Some(one),
        ..TestbedSpec::default()
    };
    let mut lab = lab_of(&spec, None);
    let (bound, sentence) =
        or_skip!(judged(&mut lab, run_of(stream(Direction::Transmit, 131_072))));
    assert!(matches!(bound, Bottleneck::SharedCpu { .. }), "{sentence}");
}

#[test]
fn a_device_that_cuts_tiny_frames_is_the_verdict() {
    needs!(root);
    let mut lab = lab_of(&model(""), None);
    let mut workload = stream(Direction::Transmit, 131_072);
    workload.receive_path = ReceivePath::Truncate;
    let mut spec = run_of(workload);
    spec.interface.mtu = Some(100);
    spec.interface.offload = Some(Offload::Tso);
    let (bound, sentence) = or_skip!(judged(&mut lab, spec));
    assert!(matches!(bound, Bottleneck::DeviceCpu { .. }), "{sentence}");
}

#[test]
fn a_queue_discipline_with_a_rate_is_the_verdict() {
    needs!(root, "tc");
    // a full gigabit takes most of the device's CPU, which a shared machine may not leave it
    let mut lab = lab_of(&model("rate = \"500 Mbit/s\""), None);
    let pid = lab.testbed().expect("a testbed").sut.pid();
    let set = |words: &str| {
        let mut tc = inside(pid, "tc");
        tc.args(["qdisc", "replace", "dev", SUT_INTERFACE, "root"]).args(words.split(' '));
        assert!(tc.status().expect("run tc").success());
    };
    let transmit = || run_of(stream(Direction::Transmit, 131_072));
    // one that has packets wait and limits nothing is not named
    for (words, expected) in [
        ("pfifo limit 1000", "link"),
        ("tbf rate 250mbit burst 64kb latency 20ms", "queue_discipline"),
    ] {
        set(words);
        let (bound, sentence) = or_skip!(judged(&mut lab, transmit()));
        assert_eq!(bound.word(), expected, "{sentence}");
        let Bottleneck::Discipline { discipline } = bound else { continue };
        assert_eq!((discipline.interface.as_str(), discipline.kind.as_str()), ("eth0", "tbf"));
        assert!(
            sentence.starts_with("limited by the queue discipline tbf of eth0 ("),
            "{sentence}"
        );
        assert!(sentence.contains(" % of 250.0 Mb/s"), "{sentence}");
    }
    // the SUT sends little in the other direction, which its disciplines do not limit
    let receive = || run_of(stream(Direction::Receive, 131_072));
    let (bound, sentence) = or_skip!(judged(&mut lab, receive()));
    assert_eq!(bound.word(), "link", "{sentence}");
    // those of the client do
    let testbed = lab.testbed().expect("a testbed");
    let (pid, interface) = (testbed.clients[0].host.pid(), testbed.clients[0].interface.clone());
    let mut tc = inside(pid, "tc");
    tc.args(["qdisc", "replace", "dev", &interface, "root"]);
    tc.args("tbf rate 250mbit burst 64kb latency 20ms".split(' '));
    assert!(tc.status().expect("run tc").success());
    let (bound, sentence) = or_skip!(judged(&mut lab, receive()));
    let named = format!("limited by the queue discipline tbf of client 0: {interface} (");
    assert!(sentence.starts_with(&named), "{bound:?}: {sentence}");
}

/// A gigabit link with these faults.
fn faulty(faults: Faults) -> Lab {
    let mut lab = lab_of(&model("rate = \"1 Gbit/s\""), None);
    let adapters = lab.testbed().and_then(|testbed| testbed.backend.adapters()).expect("adapters");
    adapters.set_faults(faults).expect("set faults");
    lab
}

#[test]
fn a_small_window_over_a_long_wire_is_the_verdict() {
    needs!(root);
    let mut lab = faulty(Faults { delay: Duration::from_millis(5), ..Faults::default() });
    let mut spec = run_of(stream(Direction::Transmit, 131_072));
    spec.socket.buffer = Some(ByteSize(16384));
    let (bound, sentence) = or_skip!(judged(&mut lab, spec.clone()));
    assert!(matches!(bound, Bottleneck::ReceiverWindow { .. }), "{sentence}");
    // four times the window carry more: it was the bound
    let small = lab.run(&spec).expect("a run").traffic.bits_per_second();
    spec.socket.buffer = Some(ByteSize(65536));
    let large = lab.run(&spec).expect("a run").traffic.bits_per_second();
    assert!(large > 2.0 * small, "{large} bit/s with four times the window of {small} bit/s");
}

/// Small writes that are not held back, each in a packet of its own whose memory fills the sender's buffer
/// long before their bytes fill the receiver's window.
#[test]
#[ignore = "exhaustive: another window"]
fn a_small_send_buffer_over_a_long_wire_is_the_verdict() {
    needs!(root);
    let mut lab = faulty(Faults { delay: Duration::from_millis(5), ..Faults::default() });
    let mut spec = run_of(stream(Direction::Transmit, 512));
    spec.socket.buffer = Some(ByteSize(65536));
    spec.socket.nodelay = true;
    let (bound, sentence) = or_skip!(judged(&mut lab, spec.clone()));
    assert!(matches!(bound, Bottleneck::SendBuffer { .. }), "{sentence}");
    // four times the buffer carry more: it was the bound
    let small = lab.run(&spec).expect("a run").traffic.bits_per_second();
    spec.socket.buffer = Some(ByteSize(262_144));
    let large = lab.run(&spec).expect("a run").traffic.bits_per_second();
    assert!(large > 2.0 * small, "{large} bit/s with four times the buffer of {small} bit/s");
}

#[test]
fn losses_keep_the_congestion_window_small() {
    needs!(root);
    let faults = Faults { delay: Duration::from_millis(1), loss: 0.01, ..Faults::default() };
    let (bound, sentence) =
        or_skip!(judged(&mut faulty(faults), run_of(stream(Direction::Transmit, 131_072))));
    assert!(matches!(bound, Bottleneck::CongestionWindow { .. }), "{sentence}");
}

#[test]
fn transactions_one_at_a_time_are_bound_by_the_round_trip() {
    needs!(root);
    let workload = || Workload { kind: Protocol::RequestResponse, ..Workload::default() };
    // interrupts wait for ticks of 4 ms at both ends, which is nearly all of a round trip
    let ticking = "rate = \"1 Gbit/s\"\n[defaults]\nrx-usecs = 4000";
    let mut lab = lab_of(&model(ticking), None);
    let (bound, sentence) = or_skip!(judged(&mut lab, run_of(workload())));
    let Bottleneck::RoundTrip { parts, .. } = bound else { panic!("{sentence}") };
    let waited_us = parts.moderation_us.expect("ports that count");
    assert!(waited_us > 0.75 * parts.latency_us && waited_us < parts.latency_us, "{parts:?}");
    assert!(parts.wire_us.expect("ports that count") < 100.0, "{parts:?}");
    // on a wire that takes 5 ms each way, of which no port knows, the parts do not explain it
    let mut lab = faulty(Faults { delay: Duration::from_millis(5), ..Faults::default() });
    let (bound, sentence) = or_skip!(judged(&mut lab, run_of(workload())));
    let Bottleneck::NoSingleResource { unexplained: Some(Unexplained::Part(parts)), .. } = bound
    else {
        panic!("{sentence}")
    };
    assert!(parts.unexplained_us > 9_000.0, "{sentence}");
    assert!(sentence.contains("of the round trip unexplained"), "{sentence}");
}
