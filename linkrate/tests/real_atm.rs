//! ATM adapters on real hosts: Classical IP in cells, over a cable and through a switch.

mod common;

use common::lab::{measured, run_spec};
use common::up::{CLIENT, Up, ready};
use common::{LINKRATE, has_or_skips, is_root_or_skips};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linkrate_adapter::Faults;
use linkrate_lab::{Lab, LabOptions};
use linkrate_study::executor::Executor;
use linkrate_terms::knobs::AtmRequest;
use linkrate_terms::spec::Adapter;
use linkrate_terms::{Direction, InterfaceKnobs, Measurement, Task, TestbedSpec, Workload, model};

/// TCP payload that the paper's formula gives with an MTU of 9180, 192 cells a packet: Mb/s.
const LIMIT_155: f64 = 149.76 * 9128.0 * 8.0 / (192.0 * 424.0);
const LIMIT_622: f64 = 4.0 * LIMIT_155;

fn lab(name: &str, ports: u32, clients_per_port: u32) -> Lab {
    let spec = TestbedSpec {
        adapter: Adapter::Model(Box::new(model::find(name).unwrap())),
        clients: ports * clients_per_port,
        ports,
        clients_per_port,
        ..TestbedSpec::default()
    };
    let options = LabOptions {
        program: PathBuf::from(LINKRATE),
        stop: Arc::new(AtomicBool::new(false)),
        route_congestion: Some("cubic".to_owned()),
    };
    Lab::build(&spec, options).unwrap_or_else(|error| panic!("{error}"))
}

fn stream(direction: Direction) -> Workload {
    Workload { direction, ..Workload::default() }
}

fn run(lab: &mut Lab, direction: Direction, knobs: InterfaceKnobs) -> Measurement {
    measured(lab, stream(direction), knobs, Duration::from_secs(1))
}

/// Mb/s of both directions.
fn rates(run: &Measurement) -> [f64; 2] {
    let traffic = &run.traffic;
    [
        traffic.transmit_bytes as f64 * 8e-6 / traffic.transmit_seconds.max(1e-9),
        traffic.receive_bytes as f64 * 8e-6 / traffic.receive_seconds.max(1e-9),
    ]
}

fn counter(run: &Measurement, name: &str) -> u64 {
    run.evidence.adapter.as_ref().unwrap().ports[0].counters[name]
}

fn near(rate: f64, limit: f64) {
    // the window has no whole number of packets
    assert!((0.995..1.002).contains(&(rate / limit)), "{rate:.2} of {limit:.2} Mb/s");
}

#[test]
fn an_adapter_reaches_its_limit_in_each_direction() {
    if !is_root_or_skips("an_adapter_reaches_its_limit_in_each_direction") {
        return;
    }
    for (name, limit) in [("atm-155", LIMIT_155), ("atm-622", LIMIT_622)] {
        let mut lab = lab(name, 1, 1);
        near(rates(&run(&mut lab, Direction::Transmit, InterfaceKnobs::default()))[0], limit);
        let received = run(&mut lab, Direction::Receive, InterfaceKnobs::default());
        near(rates(&received)[1], limit);
        assert_eq!(received.effective.interface.mtu, Some(9180));
        let cells = counter(&received, "atmRxCells");
        assert_eq!(counter(&received, "ifHCInOctets"), cells * 53);
    }
}

#[test]
fn cells_of_several_clients_share_a_line_through_a_switch() {
    if !is_root_or_skips("cells_of_several_clients_share_a_line_through_a_switch") {
        return;
    }
    let mut lab = lab("atm-155", 1, 2);
    let task = Task::Workload(stream(Direction::Receive));
    let mut spec = run_spec(task, InterfaceKnobs::default(), Duration::from_secs(1));
    spec.clients = 2;
    let both = lab.run(&spec).unwrap_or_else(|failure| panic!("{failure}"));
    // a packet of which the full queue drops a cell has used the line for its other cells
    let share = rates(&both)[1] / LIMIT_155;
    assert!((0.9..1.002).contains(&share), "{share:.4} of the limit");
    assert!(counter(&both, "switchTxCells") > 300_000);
}

#[test]
fn a_peak_rate_bounds_a_connection() {
    if !is_root_or_skips("a_peak_rate_bounds_a_connection") {
        return;
    }
    let mut lab = lab("atm-622", 1, 1);
    let atm = AtmRequest { peak_rate: Some(100_000), ..AtmRequest::default() };
    let shaped =
        run(&mut lab, Direction::Transmit, InterfaceKnobs { atm, ..InterfaceKnobs::default() });
    assert_eq!(shaped.effective.interface.atm.peak_rate, Some(100_000));
    near(rates(&shaped)[0], LIMIT_155 * 100.0 / 149.76);
}

#[test]
fn faults_of_cells_show_in_their_counters() {
    if !is_root_or_skips("faults_of_cells_show_in_their_counters") {
        return;
    }
    let mut lab = lab("atm-155", 1, 1);
    let all = Faults::default();
    for (faults, name) in [
        (Faults { loss: 1e-5, ..all }, "aal5VccCrcErrors"),
        (Faults { payload_error: 1e-5, ..all }, "aal5VccCrcErrors"),
        (Faults { misinsert: 1e-5, ..all }, "aal5VccCrcErrors"),
        (Faults { header_error: 1e-3, ..all }, "atmHecCorrected"),
        (Faults { double_header_error: 1e-5, ..all }, "atmHecDropped"),
    ] {
        lab.testbed().unwrap().ground.adapters().unwrap().set_faults(faults).unwrap();
        let seen = run(&mut lab, Direction::Receive, InterfaceKnobs::default());
        assert!(counter(&seen, name) > 0, "{name}");
        if name == "atmHecCorrected" {
            near(rates(&seen)[1], LIMIT_155);
        }
    }
}

#[test]
fn stock_programs_work_and_the_lab_tells_of_connections() {
    let test = "stock_programs_work_and_the_lab_tells_of_connections";
    if !ready(test, &[]) || !has_or_skips(test, "ping", "iputils-ping") {
        return;
    }
    let lab = Up::start("--adapter atm-622 --clients-per-port 2");
    // whole, and in fragments
    for size in [9152, 60_000] {
        let out = lab.run("sut", &format!("ping -c 2 -W 2 -s {size} {CLIENT}")).expect_code(0);
        assert!(out.stdout.contains(" 0% packet loss"), "{}", out.stdout);
    }
    let out = lab.run("client-0", "ping -c 2 -W 2 198.18.0.3").expect_code(0);
    assert!(out.stdout.contains(" 0% packet loss"), "{}", out.stdout);
    let shown = lab.linkrate("adapter show eth0").stdout;
    for part in ["VPI 0 VCI 101 to 198.18.0.2", "VPI 0 VCI 102 to 198.18.0.3", "aal5VccCrcErrors"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("dot3"), "{shown}");
    let refused = lab.tried("adapter set eth0 lro=on").expect_code(2);
    assert!(refused.stderr.contains("no segments"), "{}", refused.stderr);
    let refused = lab.tried("adapter faults eth0 duplicate=1%").expect_code(2);
    assert!(refused.stderr.contains("misinsert"), "{}", refused.stderr);
}
