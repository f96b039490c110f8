//! Traffic over IPv6 between hosts that linkrate makes.

use std::time::Duration;

use crate::common::lab::{lab_of, run_spec, run_undisturbed};
use linkrate_lab::Lab;
use linkrate_model::knobs::{PortRequest, Toe};
use linkrate_model::spec::Adapter;
use linkrate_model::{
    Direction, Family, InterfaceKnobs, Measurement, MessageSize, Offload, Protocol, RunSpec,
    SocketKnobs, Task, TestbedSpec, Workload, model,
};

const WINDOW: Duration = Duration::from_millis(300);

#[track_caller]
fn lab(adapter: Adapter) -> Lab {
    lab_of(&TestbedSpec { adapter, clients: 1, ports: 1, ..TestbedSpec::default() }, None)
}

fn of_model(name: &str) -> Adapter {
    Adapter::Model(Box::new(model::find(name).unwrap()))
}

/// A run of streams in both directions.
fn streams(interface: InterfaceKnobs, family: Family) -> RunSpec {
    let workload = Workload { direction: Direction::Bidirectional, ..Workload::default() };
    let socket = SocketKnobs { family, ..SocketKnobs::default() };
    RunSpec { socket, ..run_spec(Task::Workload(workload), interface, WINDOW) }
}

/// Counter `name` of the system under test's port in the window.
fn counter(run: &Measurement, name: &str) -> u64 {
    let ports = &run.evidence.adapter.as_ref().expect("an adapter").ports;
    ports[0].counters.get(name).copied().unwrap_or(0)
}

#[test]
fn streams_have_the_segments_of_their_family() {
    for adapter in [Adapter::Veth, of_model("gigabit")] {
        let mut lab = lab(adapter);
        let offloads = InterfaceKnobs::default();
        for (family, mss) in [(Family::Ipv4, 1448), (Family::Ipv6, 1428), (Family::Ipv4, 1448)] {
            let run = run_undisturbed(&mut lab, &streams(offloads.clone(), family));
            assert_eq!(run.effective.mss_bytes, mss, "{family}");
            assert_eq!(run.effective.socket.family, family);
            assert!(run.traffic.transmit_bytes > 0 && run.traffic.receive_bytes > 0, "{family}");
        }
    }
}

/// The kernel forgets routes of IPv6 while the MTU is below 1280.
#[test]
fn a_small_mtu_before_a_run_does_no_harm() {
    let mut lab = lab(of_model("gigabit"));
    for (mtu, family) in [(9000, Family::Ipv6), (576, Family::Ipv4), (1500, Family::Ipv6)] {
        let knobs = InterfaceKnobs { mtu: Some(mtu), ..InterfaceKnobs::default() };
        let run = run_undisturbed(&mut lab, &streams(knobs, family));
        assert!(run.traffic.transmit_bytes > 0 && run.traffic.receive_bytes > 0, "{mtu} {family}");
    }
}

/// TSO cuts superframes of IPv6, and LRO merges its segments.
#[test]
fn the_adapter_cuts_and_merges() {
    let mut lab = lab(of_model("gigabit"));
    for (offload, lro) in [(Offload::None, false), (Offload::Tso, true)] {
        let port = PortRequest { lro: Some(lro), ..PortRequest::default() };
        let offload = Some(offload);
        let knobs = InterfaceKnobs { offload, port, ..InterfaceKnobs::default() };
        let run = run_undisturbed(&mut lab, &streams(knobs, Family::Ipv6));
        for name in ["txSuperframes", "rxSuperframes"] {
            assert_eq!(counter(&run, name) > 0, lro, "{name} with LRO {lro}");
        }
        assert_eq!(counter(&run, "rxChecksumBad"), 0);
    }
}

#[test]
fn datagrams_and_transactions_pass() {
    let mut lab = lab(of_model("gigabit"));
    let socket = SocketKnobs { family: Family::Ipv6, ..SocketKnobs::default() };
    let fits = MessageSize::Fixed(linkrate_model::ByteSize(1452));
    for (kind, message) in [
        (Protocol::RequestResponse, fits),
        (Protocol::ConnectRequestResponse, fits),
        (Protocol::UdpRequestResponse, fits),
        (Protocol::UdpStream, fits),
    ] {
        let workload = Workload { kind, message, ..Workload::default() };
        let spec = run_spec(Task::Workload(workload), InterfaceKnobs::default(), WINDOW);
        let run = run_undisturbed(&mut lab, &RunSpec { socket: socket.clone(), ..spec });
        let done = run.traffic.transactions.max(run.traffic.transmit_bytes);
        assert!(done > 0, "{kind:?}: {:?}", run.traffic);
    }
}

/// Nobody announces an address, asks for one, or reports a group.
#[test]
fn hosts_send_nothing_by_themselves() {
    let mut lab = lab(of_model("gigabit"));
    let testbed = lab.testbed().expect("up");
    testbed.reach_over_ipv6(1, None).unwrap_or_else(|error| panic!("{error}"));
    let frames = |lab: &mut Lab| -> Vec<u64> {
        let testbed = lab.testbed().expect("up");
        let adapters = testbed.backend.adapters().expect("adapters");
        let segment = &adapters.segments()[0];
        let ports = segment.ports.iter().map(|end| &end.port).chain(&segment.clients);
        ports.map(|port| port.counters()["ifHCOutOctets"]).collect()
    };
    let before = frames(&mut lab);
    // reports of groups come within 1 s, RFC 3810, 9.11
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(frames(&mut lab), before);
}

#[test]
fn connections_are_at_the_adapter() {
    let mut lab = lab(of_model("toe"));
    let port = PortRequest { toe: Some(Toe::On), ..PortRequest::default() };
    let knobs = InterfaceKnobs { port, ..InterfaceKnobs::default() };
    let run = run_undisturbed(&mut lab, &streams(knobs, Family::Ipv6));
    assert_eq!(counter(&run, "toeConnections"), 2);
    assert_eq!(counter(&run, "toeHostSegments"), 0);
    assert!(counter(&run, "toeTxBytes") > 0 && counter(&run, "toeRxBytes") > 0);
}
