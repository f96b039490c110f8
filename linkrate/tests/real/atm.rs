//! ATM adapters on real hosts: Classical IP in cells, over a cable and through a switch.

use crate::common::capture::Capture;
use crate::common::lab::{lab_of, measured, run_spec, run_undisturbed};
use crate::common::ssh::Ssh;
use crate::common::up::{CLIENT, SUT, Up};
use crate::common::web::Web;
use std::time::Duration;

use linkrate_adapter::Faults;
use linkrate_lab::Lab;
use linkrate_model::knobs::AtmRequest;
use linkrate_model::spec::Adapter;
use linkrate_model::{
    CpuSet, Direction, InterfaceKnobs, Measurement, Task, TestbedSpec, Workload, model,
};
use linkrate_study::executor::Executor;

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
    lab_of(&spec, Some("cubic"))
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
    // The window has no whole number of packets. Whether the line is full is for the benchmark to
    // say: here a busy machine may leave it idle for a while, and nothing may make it faster.
    assert!((0.7..1.002).contains(&(rate / limit)), "{rate:.2} of {limit:.2} Mb/s");
}

#[test]
fn an_adapter_reaches_its_limit_in_each_direction() {
    needs!(root);
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
    needs!(root);
    let mut lab = lab("atm-155", 1, 2);
    let task = Task::Workload(stream(Direction::Receive));
    let mut spec = run_spec(task, InterfaceKnobs::default(), Duration::from_secs(1));
    spec.clients = 2;
    let both = run_undisturbed(&mut lab, &spec);
    // a packet of which the full queue drops a cell has used the line for its other cells
    let share = rates(&both)[1] / LIMIT_155;
    assert!((0.9..1.002).contains(&share), "{share:.4} of the limit");
    assert!(counter(&both, "switchTxCells") > 300_000);
}

/// Two clients send more than one line carries. The knobs decide how the switch drops.
#[test]
fn a_full_queue_of_the_switch_drops_packets_and_not_cells() {
    needs!(root, "iperf3");
    let lab = Up::start("--adapter atm-155 --clients-per-port 2");
    let drops = || {
        let port = lab.port("eth0");
        ["switchDropQueueFull", "switchDropPartial", "switchDropEarly"]
            .map(|name| port["counters"][name].as_u64().unwrap())
    };
    for (early, partial) in [("off", "off"), ("off", "on"), ("on", "on")] {
        lab.linkrate(&format!("adapter set eth0 early-discard={early} partial-discard={partial}"));
        let before = drops();
        // the windows of eight connections are longer than the queue
        let both = [("client-0", CLIENT), ("client-1", "198.18.0.3")]
            .map(|(client, address)| lab.iperf3_with(client, address, "-t 3 -R -P 4 -C cubic"));
        for (server, client) in both {
            client.wait().expect_code(0);
            server.wait().expect_code(0);
        }
        let after = drops();
        let [full, torn, refused] = [0, 1, 2].map(|at| after[at] - before[at]);
        let seen = format!("early {early}, partial {partial}: {full}, {torn}, {refused}");
        match (early, partial) {
            ("off", "off") => assert!(full > 0 && torn == 0 && refused == 0, "{seen}"),
            ("off", _) => assert!(full > 0 && torn > 0 && refused == 0, "{seen}"),
            _ => assert!(refused > 0, "{seen}"),
        }
    }
}

#[test]
fn a_peak_rate_bounds_a_connection() {
    needs!(root);
    let mut lab = lab("atm-622", 1, 1);
    let atm = AtmRequest { peak_rate: Some(100_000), ..AtmRequest::default() };
    let shaped =
        run(&mut lab, Direction::Transmit, InterfaceKnobs { atm, ..InterfaceKnobs::default() });
    assert_eq!(shaped.effective.interface.atm.peak_rate, Some(100_000));
    near(rates(&shaped)[0], LIMIT_155 * 100.0 / 149.76);
}

#[test]
fn faults_of_cells_show_in_their_counters() {
    needs!(root);
    let mut lab = lab("atm-155", 1, 1);
    let all = Faults::default();
    for (faults, name) in [
        (Faults { loss: 1e-5, ..all }, "aal5VccCrcErrors"),
        (Faults { payload_error: 1e-5, ..all }, "aal5VccCrcErrors"),
        (Faults { misinsert: 1e-5, ..all }, "aal5VccCrcErrors"),
        (Faults { header_error: 1e-3, ..all }, "atmHecCorrected"),
        (Faults { double_header_error: 1e-5, ..all }, "atmHecDropped"),
    ] {
        lab.testbed().unwrap().backend.adapters().unwrap().set_faults(faults).unwrap();
        let seen = run(&mut lab, Direction::Receive, InterfaceKnobs::default());
        assert!(counter(&seen, name) > 0, "{name}");
        if name == "atmHecCorrected" {
            near(rates(&seen)[1], LIMIT_155);
        }
    }
}

#[test]
fn stock_programs_work_and_the_lab_tells_of_connections() {
    needs!(root, "ping");
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

/// Through an ATMARP server and calls, as fast as over permanent connections.
#[test]
#[ignore = "exhaustive: more rates"]
fn switched_connections_reach_the_limit() {
    needs!(root);
    let mut lab = lab("atm-622-switched", 1, 1);
    for (direction, way) in [(Direction::Transmit, 0), (Direction::Receive, 1)] {
        let run = run(&mut lab, direction, InterfaceKnobs::default());
        near(rates(&run)[way], LIMIT_622);
        assert_eq!(counter(&run, "atmCallsFailed"), 0);
    }
}

/// tshark reads every message between the clients and the server, and finds each CRC right.
#[test]
fn addresses_are_resolved_by_a_server_and_others_read_its_messages() {
    needs!(root, "tshark", "ping");
    let lab = Up::start("--adapter atm-155-switched --clients-per-port 2");
    let capture = Capture::start(&lab, "eth0");
    // the first packet waits until its end system is known and called
    for address in [CLIENT, "198.18.0.3"] {
        let out = lab.run("sut", &format!("ping -c 2 -W 2 -s 9152 {address}")).expect_code(0);
        assert!(out.stdout.contains(" 0% packet loss"), "{}", out.stdout);
    }
    // no end system has it: the server refuses, and the host hears nothing
    lab.run("sut", "ping -c 1 -W 1 198.18.0.9").expect_code(1);
    let shown = lab.linkrate("adapter show eth0").stdout;
    for part in
        ["ATMARP cache", "198.18.0.2 at ", "ATMARP server", "198.18.0.1 at ", "Classical IP"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let port = lab.port("eth0");
    assert_eq!(port["atmarp"]["cache"].as_array().unwrap().len(), 2);
    assert_eq!(port["atmarp"]["server"].as_array().unwrap().len(), 3);
    assert!(lab.counter("eth0", "ipoaArpClientArpInNaks") > 0);
    capture.stop();
    // request, reply, refusal
    let operations = capture.fields("arp", &["arp.opcode"]);
    for operation in ["1", "2", "10"] {
        assert!(operations.iter().any(|one| one == operation), "{operation}: {operations:?}");
    }
    assert!(capture.fields("_ws.malformed || _ws.expert", &["_ws.expert.message"]).is_empty());
    assert!(capture.crcs_are_right() >= 6);
}

/// The most adapters that the paper had in one host, each with a subnet of its own, and the longest packet.
#[test]
#[ignore = "exhaustive: twelve adapters"]
fn twelve_adapters_have_a_subnet_each() {
    needs!(root, "ping");
    let lab = Up::start("--adapter atm-155 --ports 12");
    for port in 0..12 {
        let pinged = format!("ping -c 1 -W 2 -s 9152 -M do 198.18.{port}.2");
        lab.run("sut", &pinged).expect_code(0);
        assert_eq!(lab.port(&format!("eth{port}"))["adapter"], port, "an adapter each");
    }
    lab.linkrate("adapter set eth11 mtu=65527");
    let out = lab.run("sut", "ping -c 2 -W 2 -s 65499 -M do 198.18.11.2").expect_code(0);
    assert!(out.stdout.contains(" 0% packet loss"), "{}", out.stdout);
    let refused = lab.tried("adapter set eth11 mtu=65528").expect_code(2);
    assert!(refused.stderr.contains("65527"), "{}", refused.stderr);
}

/// Two adapters with a subnet each, and stock programs over both.
#[test]
fn stock_programs_work_over_two_adapters_both_ways() {
    needs!(root, "iperf3", "nginx", "curl", "ping");
    let web = Web::with_file_of(4 << 20);
    let lab = Up::start("--adapter atm-155 --ports 2");
    for address in [CLIENT, "198.18.1.2"] {
        let out = lab.run("sut", &format!("ping -c 2 -W 2 -s 60000 {address}")).expect_code(0);
        assert!(out.stdout.contains(" 0% packet loss"), "{}", out.stdout);
    }
    let serves = web.serve(&lab);
    for (client, sut) in [("client-0", SUT), ("client-1", "198.18.1.1")] {
        web.fetch(&lab, client, sut);
    }
    let (server, client) = lab.iperf3("-t 2 --bidir -C cubic");
    let document = client.wait().expect_code(0).json();
    server.wait().expect_code(0);
    for sum in ["sum_received", "sum_received_bidir_reverse"] {
        let rate = document["end"][sum]["bits_per_second"].as_f64().expect("a rate") / 1e6;
        // other tests run beside this one
        assert!(rate > 0.3 * LIMIT_155 && rate < 1.01 * LIMIT_155, "{sum}: {rate} Mb/s");
    }
    lab.down().expect_code(0);
    serves.wait();
}

/// Logs in at a client over Classical IP, and sends it a file of 8 MiB.
#[test]
fn ssh_carries_a_file_over_classical_ip() {
    needs!(root, ssh);
    let lab = Up::start("--adapter atm-155");
    Ssh::start(&lab, "client-0", CLIENT).carries_a_file_both_ways();
    assert!(lab.counter("eth0", "ifHCInOctets") > 8 << 20);
}

/// A bound flow is on the CPU of its driver, another one may be on each of its host.
#[test]
fn flows_are_bound_to_the_cpu_of_their_interrupts() {
    let [first, second] = needs!(root, two_cpus);
    let both: CpuSet = [first, second].into_iter().collect();
    let adapter = Adapter::Model(Box::new(model::find("atm-622").unwrap()));
    let (sut_cpus, client_cpus) = (Some(both.clone()), Some(both.clone()));
    let spec = TestbedSpec { adapter, sut_cpus, client_cpus, ..TestbedSpec::default() };
    let mut two = lab_of(&spec, Some("cubic"));
    let spec_of = |cpu_binding| {
        let workload = Workload { cpu_binding, connections: 2, ..Workload::default() };
        run_spec(Task::Workload(workload), InterfaceKnobs::default(), Duration::from_millis(300))
    };
    for (bound, expected) in [(false, both.clone()), (true, CpuSet::from_iter([first]))] {
        let run = two.run(&spec_of(bound)).unwrap_or_else(|failure| panic!("{failure}"));
        let flows = &run.sut_cpu.threads;
        let of_flows: Vec<_> = flows.iter().filter(|one| one.name.starts_with("send")).collect();
        assert_eq!(of_flows.len(), 2, "{flows:?}");
        assert!(of_flows.iter().all(|flow| flow.affinity == expected), "{bound}: {flows:?}");
    }
    drop(two);
    let one = TestbedSpec { sut_cpus: Some(CpuSet::from_iter([first])), client_cpus: None, ..spec };
    let failure = lab_of(&one, Some("cubic")).run(&spec_of(true)).unwrap_err().to_string();
    assert!(failure.contains("has no effect") && failure.contains("--sut-cpus 0-1"), "{failure}");
}
