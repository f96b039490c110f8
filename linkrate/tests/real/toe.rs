//! Connections at a TCP offload engine: what they carry, what the host still does for them, and which
//! ones go there.

use std::time::Duration;

use crate::common::lab::{lab_of, run_spec, run_undisturbed};
use crate::common::up::{CLIENT, Up};
use crate::common::{Running, cases, wait_until};
use linkrate_lab::Lab;
use linkrate_model::knobs::{PortRequest, Toe};
use linkrate_model::spec::Adapter;
use linkrate_model::{
    Direction, InterfaceKnobs, Measurement, MessageSize, Model, Protocol, RunSpec, Task,
    TestbedSpec, Workload, model,
};
use linkrate_stats::trend::median;
use linkrate_study::executor::Executor;
use serde_json::Value;

/// A lab on two ports of the model `toe`, with a client each.
#[track_caller]
fn lab(model: Model, ports: u32) -> Lab {
    let spec = TestbedSpec {
        adapter: Adapter::Model(Box::new(model)),
        clients: ports,
        ports,
        ..TestbedSpec::default()
    };
    lab_of(&spec, Some("cubic"))
}

fn with(toe: Toe) -> InterfaceKnobs {
    let port = PortRequest { toe: Some(toe), ..PortRequest::default() };
    InterfaceKnobs { port, ..InterfaceKnobs::default() }
}

#[track_caller]
fn run(lab: &mut Lab, clients: u32, workload: Workload, toe: Toe) -> Measurement {
    let spec = RunSpec {
        clients,
        ports: Some(clients),
        warm_up: Duration::from_millis(200),
        ..run_spec(Task::Workload(workload), with(toe), Duration::from_millis(500))
    };
    run_undisturbed(lab, &spec)
}

/// A run of a window of 600 ms with these settings.
fn spec_of(workload: Workload, port: PortRequest) -> RunSpec {
    let interface = InterfaceKnobs { port, ..InterfaceKnobs::default() };
    RunSpec {
        warm_up: Duration::from_millis(200),
        ..run_spec(Task::Workload(workload), interface, Duration::from_millis(600))
    }
}

/// A counter, of all ports together.
fn counter(run: &Measurement, name: &str) -> u64 {
    let ports = run.evidence.adapter.iter().flat_map(|adapter| &adapter.ports);
    ports.filter_map(|port| port.counters.get(name)).sum()
}

fn typical(ratios: &mut [f64]) -> f64 {
    median(ratios).expect("a ratio")
}

/// Payload of both directions, Mb/s.
fn megabits(run: &Measurement) -> f64 {
    run.traffic.bits_per_second() / 1e6
}

#[test]
fn connections_at_the_adapter_carry_streams_and_the_host_sends_nothing() {
    let mut lab = lab(model::find("toe").unwrap(), 1);
    let usual = [(Direction::Bidirectional, 4), (Direction::Transmit, 1)];
    let more = [(Direction::Receive, 4), (Direction::Receive, 1)];
    let most = [(Direction::Transmit, 4), (Direction::Bidirectional, 1)];
    for &(direction, connections) in cases(&[usual, more, most].concat(), usual.len()) {
        let workload = Workload { direction, connections, ..Workload::default() };
        let off = run(&mut lab, 1, workload.clone(), Toe::Off);
        let on = run(&mut lab, 1, workload.clone(), Toe::On);
        let flows = workload.flows(1);
        println!(
            "{direction:?} {connections}: {:.0} -> {:.0} Mb/s, held {}, let out {}",
            megabits(&off),
            megabits(&on),
            counter(&on, "toeHeldFrames"),
            counter(&on, "toeLetOut"),
        );
        assert_eq!(counter(&on, "toeConnections"), flows);
        assert_eq!(counter(&on, "toeHostSegments"), 0);
        assert_eq!(counter(&off, "toeConnections"), 0);
        // every byte that arrived went over the adapter's TCP
        assert!(counter(&on, "toeTxBytes") * 100 >= on.traffic.transmit_bytes * 95, "{on:?}");
        assert!(counter(&on, "toeRxBytes") * 100 >= on.traffic.receive_bytes * 95, "{on:?}");
        assert_eq!(counter(&on, "txHostOctets"), 0);
        // Connections at the adapter are not to stall: the engine's debug build may be slower than the host's TCP,
        // and a CPU that is taken away for a moment is a tenth of so short a run.
        let mut ratios = vec![megabits(&on) / megabits(&off)];
        while ratios.len() < 5 && typical(&mut ratios) < 0.9 {
            let again = |lab: &mut Lab, toe| megabits(&run(lab, 1, workload.clone(), toe));
            let off = again(&mut lab, Toe::Off);
            ratios.push(again(&mut lab, Toe::On) / off);
        }
        assert!(
            typical(&mut ratios) > 0.75,
            "{direction:?}, {connections}: {ratios:?} of the rate"
        );
    }
}

#[test]
fn transactions_are_answered_at_the_adapter() {
    let mut lab = lab(model::find("toe").unwrap(), 1);
    let workload = Workload {
        kind: Protocol::RequestResponse,
        request: MessageSize::Fixed(linkrate_model::ByteSize(1)),
        response: MessageSize::Fixed(linkrate_model::ByteSize(1)),
        ..Workload::default()
    };
    let on = run(&mut lab, 1, workload, Toe::On);
    assert_eq!(counter(&on, "toeConnections"), 1);
    assert!(on.traffic.transactions > 100, "{:?}", on.traffic);
}

#[test]
fn auto_moves_connections_that_have_carried_enough_or_are_old_enough() {
    let mut lab = lab(model::find("toe").unwrap(), 1);
    let workload = || Workload { connections: 2, ..Workload::default() };
    let mut auto = |port: PortRequest| {
        let spec = spec_of(workload(), PortRequest { toe: Some(Toe::Auto), ..port });
        run_undisturbed(&mut lab, &spec)
    };
    const FAR: Option<u32> = Some(1 << 30);
    for (port, expected) in [
        (PortRequest::default(), 2),
        (PortRequest { toe_after: FAR, toe_age: Some(0), ..PortRequest::default() }, 0),
        // in the window
        (PortRequest { toe_after: FAR, toe_age: Some(500), ..PortRequest::default() }, 2),
    ] {
        let run = auto(port.clone());
        println!("{port:?}: flows stood still for {} µs", counter(&run, "toeStoodUs"));
        assert_eq!(counter(&run, "toeMoves.down"), expected, "{port:?} {:?}", run.evidence.adapter);
        assert_eq!(counter(&run, "toeConnections"), expected);
        assert_eq!(counter(&run, "toeHostSegments"), 0);
    }
    // one place, which neither of two connections alike can take from the other
    let bound = auto(PortRequest { toe_max: Some(1), ..PortRequest::default() });
    assert_eq!(counter(&bound, "toeConnections"), 1);
    assert!(counter(&bound, "toeStayed.table-full") > 0, "{:?}", bound.evidence.adapter);
}

#[test]
fn every_kind_of_traffic_continues_while_its_connections_move() {
    let mut lab = lab(model::find("toe").unwrap(), 1);
    let age = PortRequest {
        toe: Some(Toe::Auto),
        toe_after: Some(1 << 30),
        toe_age: Some(500),
        ..PortRequest::default()
    };
    let bulk = [Direction::Transmit, Direction::Receive];
    for (kind, directions) in [
        (Protocol::Stream, &bulk[..]),
        (Protocol::Transfer, &bulk),
        (Protocol::Backup, &bulk[1..]),
        (Protocol::RequestResponse, &bulk[..1]),
    ] {
        for &direction in directions {
            let workload = Workload { kind, direction, connections: 2, ..Workload::default() };
            // words and checksums in the streams would end the run at a byte out of place
            let run = lab
                .run(&spec_of(workload, age.clone()))
                .unwrap_or_else(|failure| panic!("{kind:?}: {failure}"));
            assert_eq!(counter(&run, "toeMoves.down"), 2, "{kind:?} {direction:?}");
            assert!(counter(&run, "toeDownCpuNs") > 0, "{kind:?} {direction:?}");
        }
    }
}

#[test]
fn connections_on_a_vlan_are_at_the_adapter() {
    let mut lab = lab(model::find("toe").unwrap(), 1);
    let port = PortRequest { toe: Some(Toe::On), vlan: Some(7), ..PortRequest::default() };
    let interface = InterfaceKnobs { port, ..InterfaceKnobs::default() };
    let workload = Workload { direction: Direction::Bidirectional, ..Workload::default() };
    let spec = run_spec(Task::Workload(workload), interface, Duration::from_millis(500));
    let on = run_undisturbed(&mut lab, &spec);
    assert_eq!((counter(&on, "toeConnections"), counter(&on, "toeHostSegments")), (2, 0));
    assert!(megabits(&on) > 100.0, "{:.0} Mb/s", megabits(&on));
}

#[test]
fn an_adapter_without_an_engine_does_not_say_that_it_offloads() {
    let mut lab = lab(model::find("gigabit").unwrap(), 1);
    let spec = RunSpec {
        clients: 1,
        ..run_spec(Task::Workload(Workload::default()), with(Toe::On), Duration::from_millis(200))
    };
    let failure = lab.run(&spec).expect_err("a refusal");
    assert!(failure.reason.contains("toe"), "{failure}");
}

#[test]
#[ignore = "exhaustive: another fault"]
fn links_lose_what_a_run_asks_for_and_a_offload_has_its_cost() {
    let mut lab = lab(model::find("toe").unwrap(), 1);
    let mut lossy = |toe: Toe, loss_ppm: u32| {
        let workload = Workload { connections: 4, ..Workload::default() };
        let port = PortRequest { toe: Some(toe), ..PortRequest::default() };
        run_undisturbed(&mut lab, &RunSpec { loss_ppm, ..spec_of(workload, port) })
    };
    for toe in [Toe::Off, Toe::On] {
        for loss_ppm in [20_000, 0, 3000] {
            let run = lossy(toe, loss_ppm);
            let (lost, sent) = (counter(&run, "txLostOnLine"), counter(&run, "ifHCOutUcastPkts"));
            println!("{toe} {loss_ppm}: {lost} of {sent}, {:.0} Mb/s", megabits(&run));
            let expected = sent as f64 * f64::from(loss_ppm) / 1e6;
            // five standard deviations of a count
            let scatter = 5.0 * expected.sqrt() + 1.0;
            let off_by = (lost as f64 - expected).abs();
            assert!(if loss_ppm == 0 { lost == 0 } else { off_by <= scatter }, "{expected}");
            let cost_ns = counter(&run, "toeDownCpuNs");
            let moves = counter(&run, "toeMoves.down");
            assert_eq!(moves, if toe == Toe::On { 4 } else { 0 });
            // more than a few calls of the kernel, and less than the window
            let plausible = (moves * 5_000..moves * 250_000_000 + 1).contains(&cost_ns);
            assert!(plausible, "{moves} moves in {cost_ns} ns");
        }
    }
}

/// A program bounds its rate before it connects, and its connection moves while it connects.
#[test]
fn a_rate_that_a_program_has_set_holds_at_the_adapter() {
    needs!(root, "iperf3");
    let lab = Up::start("--adapter toe");
    let _server = Running::start(&mut lab.exec("client-0", "iperf3 -s"));
    for toe in ["off", "on"] {
        lab.linkrate(&format!("adapter set eth0 toe={toe}"));
        let measured = || {
            let words = format!("iperf3 -J -c {CLIENT} -t 2 --fq-rate 50M");
            lab.run("sut", &words).json()
        };
        let mut document = Value::Null;
        // the server may not listen yet
        let listens = || {
            document = measured();
            document["error"].is_null()
        };
        assert!(wait_until(Duration::from_secs(20), listens), "no test");
        let rate = document["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate");
        assert!((25e6..60e6).contains(&rate), "toe {toe}: {rate} bit/s");
    }
    assert!(lab.counter("eth0", "toeTxBytes") > 10_000_000, "not at the adapter");
}
