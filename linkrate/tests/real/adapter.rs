//! Virtual adapters on real hosts: what they deliver, that every byte of it is right, and that the
//! evidence says what was on.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use crate::common::lab::{inside, lab_for, measured, options_for, run_spec, run_undisturbed};
use crate::common::{cases, enter_namespace, skip};
use linkrate_adapter::Faults;
use linkrate_lab::Lab;
use linkrate_lab::placement::Placement;
use linkrate_lab::testbed::Testbed;
use linkrate_model::knobs::PortRequest;
use linkrate_model::spec::Adapter;
use linkrate_model::topology::{Fabric, PortEnd, Segment, Topology};
use linkrate_model::{
    ByteSize, Direction, InterfaceKnobs, Measurement, MessageSize, Model, Offload, Protocol,
    RunSpec, Steering, Task, TestbedSpec, Workload, model,
};
use linkrate_study::executor::Executor;
use linkrate_study::study::Purpose;

/// A lab on adapters of `model`, a segment for each port.
#[track_caller]
fn adapter_lab(model: Model, ports: u32, clients_per_port: u32) -> Lab {
    lab_for(Purpose::Functions, &testbed(model, ports, clients_per_port), Some("cubic"))
}

fn testbed(model: Model, ports: u32, clients_per_port: u32) -> TestbedSpec {
    TestbedSpec {
        adapter: Adapter::Model(Box::new(model)),
        clients: ports * clients_per_port,
        ports,
        clients_per_port,
        ..TestbedSpec::default()
    }
}

fn find(name: &str) -> Model {
    model::find(name).unwrap_or_else(|error| panic!("{error}"))
}

/// A model without a rate: as fast as this machine is.
fn unpaced() -> Model {
    Model { rate: None, bus: None, ..find("ten-gigabit") }
}

fn on(offload: Offload, port: PortRequest) -> InterfaceKnobs {
    InterfaceKnobs { offload: Some(offload), port, ..InterfaceKnobs::default() }
}

fn lro() -> PortRequest {
    PortRequest { lro: Some(true), ..PortRequest::default() }
}

fn stream(direction: Direction) -> Workload {
    Workload { direction, ..Workload::default() }
}

/// Runs `act` in a thread of the network namespace of process `pid`.
fn in_namespace<T: Send + 'static>(
    pid: u32,
    act: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(move || {
        enter_namespace(pid);
        act()
    })
}

/// Byte `at` of a stream that repeats after 2^64 bytes at the earliest.
fn byte(at: u64) -> u8 {
    let mut word = (at / 8).wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ (word >> 31)).to_le_bytes()[(at % 8) as usize]
}

/// Sends the stream's first `bytes` bytes, in calls of changing sizes.
fn send_pattern(mut to: TcpStream, bytes: u64) {
    let (mut at, mut size) = (0, 1);
    while at < bytes {
        let count = (bytes - at).min(size);
        let part: Vec<u8> = (at..at + count).map(byte).collect();
        to.write_all(&part).expect("send");
        at += count;
        size = size * 7 % 99_991 + 1;
    }
}

/// Receives until the end and checks every byte. Returns how many there were.
fn check_pattern(mut from: TcpStream) -> u64 {
    let (mut at, mut part) = (0, vec![0; 64 << 10]);
    loop {
        let count = from.read(&mut part).expect("receive");
        if count == 0 {
            return at;
        }
        for (offset, got) in part[..count].iter().enumerate() {
            let expected = byte(at + offset as u64);
            assert_eq!(*got, expected, "byte {}", at + offset as u64);
        }
        at += count as u64;
    }
}

/// Both directions of one connection at once, every byte verified at both ends.
#[track_caller]
fn verify_transfer(lab: &mut Lab, bytes: u64) {
    verify_between(lab.testbed().expect("the testbed is up"), 0, bytes);
}

/// The same between the SUT and client `number`.
#[track_caller]
fn verify_between(testbed: &mut Testbed, number: usize, bytes: u64) {
    let (sut, client) = (testbed.sut.pid(), testbed.clients[number].host.pid());
    let address: Ipv4Addr = testbed.clients[number].sut_address;
    let (tell, port) = std::sync::mpsc::channel();
    let transfer = move |socket: TcpStream| {
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("set a time-out");
        let sender = socket.try_clone().expect("clone the socket");
        let sending = std::thread::spawn(move || {
            let to = sender.try_clone().expect("clone the socket");
            send_pattern(to, bytes);
            sender.shutdown(std::net::Shutdown::Write).expect("end the stream");
        });
        let received = check_pattern(socket);
        sending.join().expect("sent");
        received
    };
    let server = in_namespace(sut, move || {
        let listener = TcpListener::bind((address, 0)).expect("listen");
        tell.send(listener.local_addr().expect("an address").port()).expect("tell the port");
        transfer(listener.accept().expect("accept").0)
    });
    let client = in_namespace(client, move || {
        let port = port.recv().expect("a port");
        transfer(TcpStream::connect((address, port)).expect("connect"))
    });
    assert_eq!(server.join().expect("the server verified"), bytes);
    assert_eq!(client.join().expect("the client verified"), bytes);
}

/// One segment: two ports of the SUT and three clients at one switch.
#[test]
fn ports_of_one_segment_serve_their_own_clients() {
    needs!(root);
    let port =
        |number| PortEnd { number, place: number as usize, interface: format!("eth{number}") };
    let ports = vec![port(0), port(1)];
    let segment = Segment {
        number: 0,
        fabric: Fabric::Switch,
        spread_clients: false,
        home: 0,
        bridged: 0,
        elans: Vec::new(),
        ports,
        clients: vec![0, 1, 2],
        aggregate: None,
    };
    let topology = Topology { segments: vec![segment] };
    let spec = TestbedSpec {
        adapter: Adapter::Model(Box::new(find("gigabit"))),
        clients: 3,
        ..TestbedSpec::default()
    };
    let placement = Placement::choose(&spec).expect("CPUs");
    let mut testbed = Testbed::build_on(
        topology,
        &spec,
        &placement,
        &options_for(Purpose::Functions, Some("cubic")),
    )
    .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(testbed.sut_interfaces(3), ["eth0", "eth1"]);
    let counted = |testbed: &Testbed| {
        let adapters = testbed.backend.adapters().expect("virtual adapters");
        let counters = adapters.sut_ports().map(|port| port.port.counters());
        counters.map(|of| [of["ifHCOutOctets"], of["ifHCInOctets"]]).collect::<Vec<_>>()
    };
    for (client, index) in [(0, 0), (1, 0), (2, 1)] {
        let before = counted(&testbed);
        verify_between(&mut testbed, client, 100_000);
        let after = counted(&testbed);
        for (port, (after, before)) in after.iter().zip(&before).enumerate() {
            let passed = [after[0] - before[0], after[1] - before[1]];
            let own = passed.iter().all(|octets| *octets >= 100_000);
            let none = passed.iter().all(|octets| *octets < 10_000);
            assert!(
                if port == index { own } else { none },
                "client {client}, eth{port}: {passed:?}"
            );
        }
    }
}

/// Sets the knobs of a run without running it long.
#[track_caller]
fn set(lab: &mut Lab, interface: InterfaceKnobs) {
    let spec = run_spec(Task::Idle, interface, Duration::from_millis(20));
    run_undisturbed(lab, &spec);
}

/// A counter of the first port of the system under test.
fn port_counter(lab: &mut Lab, name: &str) -> u64 {
    let testbed = lab.testbed().expect("the testbed is up");
    let port = testbed.backend.adapters().expect("virtual adapters").sut_ports().next();
    port.expect("a port").port.counters().get(name).copied().unwrap_or(0)
}

fn counter(lab: &mut Lab, name: &str) -> u64 {
    let testbed = lab.testbed().expect("the testbed is up");
    let segment = &testbed.backend.adapters().expect("virtual adapters").segments()[0];
    let sum = |port: &linkrate_adapter::Port| port.counters().get(name).copied().unwrap_or(0);
    sum(&segment.ports[0].port) + segment.clients.iter().map(sum).sum::<u64>()
}

#[track_caller]
fn verify_under(faults: Faults, evidence: &[&str]) {
    let mut lab = adapter_lab(find("ten-gigabit"), 1, 1);
    set(&mut lab, on(Offload::Tso, lro()));
    let adapters = lab.testbed().and_then(|testbed| testbed.backend.adapters()).expect("adapters");
    adapters.set_faults(faults).unwrap_or_else(|error| panic!("{error}"));
    verify_transfer(&mut lab, 4 << 20);
    for name in evidence {
        assert!(counter(&mut lab, name) > 0, "{name} is 0 under {faults:?}");
    }
}

#[test]
fn every_byte_is_right_whatever_is_offloaded() {
    needs!(root);
    let mut lab = adapter_lab(unpaced(), 1, 1);
    let ports = [
        (Offload::None, PortRequest::default()),
        (Offload::Tso, lro()),
        (Offload::Tso, PortRequest { vlan: Some(7), ..lro() }),
        (Offload::None, lro()),
        (Offload::Gso, PortRequest::default()),
        (Offload::Gso, lro()),
        (Offload::Tso, PortRequest::default()),
        (Offload::Tso, PortRequest { snap: Some(true), ..lro() }),
        (
            Offload::Tso,
            PortRequest { vlan: Some(4094), snap: Some(true), ..PortRequest::default() },
        ),
    ];
    for (offload, port) in cases(&ports, 3) {
        set(&mut lab, on(*offload, port.clone()));
        verify_transfer(&mut lab, 8 << 20);
    }
    let jumbo = InterfaceKnobs { mtu: Some(9000), ..on(Offload::Tso, lro()) };
    set(&mut lab, jumbo);
    verify_transfer(&mut lab, 8 << 20);
    for name in ["txSegments", "rxSuperframes", "rxChecksumGood"] {
        assert!(counter(&mut lab, name) > 0, "{name}");
    }
    assert_eq!(counter(&mut lab, "rxChecksumBad"), 0);
    assert_eq!(counter(&mut lab, "txDropMalformed"), 0);
    assert_eq!(counter(&mut lab, "rxHostRefused"), 0);
}

#[test]
fn every_byte_is_right_when_frames_are_lost() {
    needs!(root);
    verify_under(Faults { loss: 0.01, ..Faults::default() }, &[]);
    verify_under(Faults { fcs_error: 0.01, ..Faults::default() }, &["dot3HCStatsFCSErrors"]);
}

#[test]
#[ignore = "exhaustive: another fault"]
fn every_byte_is_right_when_bits_flip_unseen() {
    needs!(root);
    verify_under(Faults { corrupt: 0.01, ..Faults::default() }, &["rxChecksumBad"]);
}

#[test]
#[ignore = "exhaustive: another fault"]
fn every_byte_is_right_when_frames_come_twice_or_late() {
    needs!(root);
    let evidence = ["rxFlushMismatch"];
    verify_under(Faults { duplicate: 0.02, ..Faults::default() }, &evidence);
    verify_under(Faults { reorder: 0.02, ..Faults::default() }, &evidence);
}

#[test]
fn every_byte_is_right_when_everything_happens() {
    needs!(root);
    let faults = Faults {
        loss: 0.003,
        corrupt: 0.003,
        fcs_error: 0.003,
        duplicate: 0.01,
        reorder: 0.01,
        delay: Duration::from_millis(1),
        ..Faults::default()
    };
    verify_under(faults, &["rxChecksumBad", "dot3HCStatsFCSErrors"]);
}

#[track_caller]
fn evidence(measurement: &Measurement) -> &linkrate_model::measurement::AdapterEvidence {
    measurement.evidence.adapter.as_deref().expect("evidence of the adapter")
}

/// A run of half a second on `ports` ports.
#[track_caller]
fn run(lab: &mut Lab, ports: u32, workload: Workload, interface: InterfaceKnobs) -> Measurement {
    let clients = ports
        * (lab.testbed().expect("up").clients.len() as u32
            / lab.testbed().expect("up").backend.adapters().expect("adapters").segments().len()
                as u32);
    let spec = RunSpec {
        clients,
        ports: Some(ports),
        warm_up: Duration::from_millis(200),
        ..run_spec(Task::Workload(workload), interface, Duration::from_millis(500))
    };
    run_undisturbed(lab, &spec)
}

#[test]
#[ignore = "exhaustive: alone on the machine"]
fn the_testbed_follows_the_model_that_a_run_names() {
    needs!(root);
    let at = |name: &str, rate: f64| Model {
        name: name.to_owned(),
        rate: Some(linkrate_model::BitRate(rate)),
        ..find("gigabit")
    };
    let spec = TestbedSpec {
        adapter: Adapter::Model(Box::new(at("fast", 100e6))),
        others: vec![at("slow", 20e6)],
        ..TestbedSpec::default()
    };
    let mut lab = lab_for(Purpose::Functions, &spec, Some("cubic"));
    for (adapter, line) in
        [(None, 100e6), (Some("slow"), 20e6), (Some("slow"), 20e6), (None, 100e6)]
    {
        let begun = std::time::Instant::now();
        let run = RunSpec {
            ports: Some(1),
            adapter: adapter.map(str::to_owned),
            warm_up: Duration::from_millis(200),
            ..run_spec(
                Task::Workload(stream(Direction::Transmit)),
                InterfaceKnobs::default(),
                Duration::from_millis(500),
            )
        };
        let measured = run_undisturbed(&mut lab, &run);
        eprintln!("{adapter:?}: {:?}", begun.elapsed());
        let rate = measured.traffic.bits_per_second();
        // a fifth or five times as much would be the other model
        assert!((0.5 * line..line).contains(&rate), "{rate} on a line of {line}");
    }
}

#[test]
fn the_evidence_shows_which_part_cuts() {
    needs!(root);
    let mut lab = adapter_lab(find("gigabit"), 1, 2);
    let transmit = || stream(Direction::Transmit);
    for offload in [Offload::None, Offload::Gso] {
        let measurement = run(&mut lab, 1, transmit(), on(offload, PortRequest::default()));
        let evidence = evidence(&measurement);
        assert_eq!(evidence.total("txSuperframes"), 0, "{offload:?}");
        assert!(evidence.mean_wire_frame_bytes().expect("frames") < 1519.0);
    }
    let measurement = run(&mut lab, 1, transmit(), on(Offload::Tso, PortRequest::default()));
    let tso = evidence(&measurement);
    // 32160 bytes are 21 full segments and a rest
    let segments = tso.segments_per_superframe().expect("superframes");
    assert!((10.0..=22.0).contains(&segments), "{segments}");
    let bytes = tso.mean_wire_frame_bytes().expect("frames");
    assert!((1400.0..1519.0).contains(&bytes), "{bytes}");
    assert_eq!(measurement.effective.interface.gso_max_size, Some(32_160));
    assert_eq!(measurement.effective.interface.port.lro, Some(false));
    assert!(tso.device_cpus() > 0.0 && !tso.driver_threads.is_empty());
}

#[test]
#[ignore = "exhaustive: alone on the machine"]
fn the_drivers_calls_to_the_tap_are_counted() {
    needs!(root);
    let mut lab = adapter_lab(find("gigabit"), 1, 2);
    for (offload, direction) in [
        (Offload::None, Direction::Transmit),
        (Offload::Tso, Direction::Transmit),
        (Offload::Tso, Direction::Receive),
    ] {
        let on = on(offload, PortRequest::default());
        let measurement = run(&mut lab, 1, stream(direction), on);
        let evidence = evidence(&measurement);
        let counts = evidence.driver_counts;
        // every packet of the host passes the TAP once, but for those at the ends of the window
        let packets = evidence.total("txPackets") + evidence.total("rxPackets");
        let counted = counts.reads + counts.writes;
        assert!(counted.abs_diff(packets) <= packets / 20 + 100, "{counted} of {packets} packets");
        assert!(counts.sleeps > 0 && counts.empty_reads > 0, "{counts:?}");
        // an interrupt comes at once, but for what the kernel does not let go of
        let delay_us = counts.mean_interrupt_delay_us().expect("interrupts");
        assert!((0.5..5000.0).contains(&delay_us), "{counts:?}");
    }
}

/// The host's receive processing is in NAPI threads, whose time is no part of the driver's.
#[test]
fn what_is_received_is_processed_in_napi_threads() {
    needs!(root);
    let mut lab = adapter_lab(find("gigabit"), 1, 2);
    let placed = &lab.facts().facts["receive-processing"];
    if !placed.contains("in NAPI") {
        return skip(format!("receive processing {placed}"));
    }
    let on = on(Offload::Tso, PortRequest::default());
    let measurement = run(&mut lab, 1, stream(Direction::Receive), on);
    let cpu = &measurement.sut_cpu;
    let Some(parts) = cpu.parts else { return skip("what runs cannot be traced here") };
    for (part, ns) in [
        ("application", parts.application_ns),
        ("driver", parts.driver_ns),
        ("NAPI", parts.napi_ns),
        ("interrupts", parts.interrupt_ns),
    ] {
        assert!(ns > 0, "{part}: {parts:?}");
    }
    // the parts are the busy time, but for what a hypervisor took
    let off_ns = parts.not_attributed_ns(cpu.busy_ns()).unsigned_abs();
    let steal_ns: u64 = cpu.cpus.iter().map(|cpu| cpu.steal_ns).sum();
    assert!(off_ns < cpu.busy_ns() / 10 + steal_ns + 10_000_000, "{cpu:?}");
}

/// GRO merges what a NAPI thread finds of the driver's batch; the frames are those of the link.
#[test]
fn gro_merges_what_napi_threads_find() {
    needs!(root);
    let mut lab = adapter_lab(find("ten-gigabit"), 1, 1);
    if !lab.facts().facts["receive-processing"].contains("in NAPI") {
        return skip("there are no NAPI threads");
    }
    for gro in [false, true] {
        let interface =
            InterfaceKnobs { gro: Some(gro), ..on(Offload::Tso, PortRequest::default()) };
        let measurement = run(&mut lab, 1, stream(Direction::Receive), interface);
        assert_eq!(measurement.effective.interface.gro, Some(gro));
        let frames = measurement.evidence.mean_frames_per_received_packet().expect("packets");
        assert_eq!(frames > 2.0, gro, "gro {gro}: {frames} frames a packet");
        // on a busy machine the counters of IP are read later than those of the device
        assert!(gro || frames > 0.75, "{frames} frames a packet");
    }
}

/// With lists the kernel merges datagrams for a socket that did not ask for it.
#[test]
#[ignore = "exhaustive: another kind of GRO"]
fn gro_by_lists_merges_datagrams() {
    needs!(root);
    let mut lab = adapter_lab(find("ten-gigabit"), 1, 1);
    if !lab.facts().facts["receive-processing"].contains("in NAPI") {
        return skip("there are no NAPI threads");
    }
    let datagrams = || Workload {
        kind: Protocol::UdpStream,
        message: MessageSize::Fixed(ByteSize(1400)),
        ..stream(Direction::Receive)
    };
    for list in [false, true] {
        let gro = InterfaceKnobs { gro: Some(true), gro_list: Some(list), ..Default::default() };
        let measurement = run(&mut lab, 1, datagrams(), gro);
        assert_eq!(measurement.effective.interface.gro_list, Some(list));
        let frames = measurement.evidence.mean_frames_per_received_packet().expect("packets");
        assert_eq!(frames > 1.2, list, "gro-list {list}: {frames} frames a packet");
    }
}

/// The system under test forwards datagrams from the client of one port to that of another. What its IP receives are fewer
/// packets than the frames of the first port, if the kernel merges them.
#[test]
fn gro_of_forwarded_datagrams_merges_them() {
    const DATAGRAMS: u64 = 20_000;
    needs!(root, "ip");
    let mut lab = adapter_lab(find("ten-gigabit"), 2, 1);
    if !lab.facts().facts["receive-processing"].contains("in NAPI") {
        return skip("there are no NAPI threads");
    }
    let testbed = lab.testbed().expect("up");
    let sut = testbed.sut.pid();
    let [from, to] = [0, 1].map(|at| &testbed.clients[at]);
    let (pids, target) = ([from.host.pid(), to.host.pid()], to.address);
    for (at, (other, gateway)) in
        [(to.address, from.sut_address), (from.address, to.sut_address)].into_iter().enumerate()
    {
        let add = format!("route add {other}/32 via {gateway}");
        let added = inside(pids[at], "ip").args(add.split(' ')).status();
        assert!(added.expect("run ip").success());
    }
    let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
    in_namespace(sut, forward).join().expect("a thread").expect("forward");
    let received = || -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{sut}/net/snmp")).expect("counters");
        let mut ip = text.lines().filter_map(|line| line.strip_prefix("Ip: "));
        let [names, values] = [(); 2].map(|()| ip.next().expect("a line").split(' '));
        let found = names.zip(values).find(|(name, _)| *name == "InReceives").expect("a counter");
        found.1.parse().expect("a number")
    };
    for merged in [false, true] {
        let gro = InterfaceKnobs {
            gro: Some(true),
            udp_gro_forwarding: Some(merged),
            ..InterfaceKnobs::default()
        };
        set(&mut lab, gro);
        let mut frames = || port_counter(&mut lab, "ifHCInUcastPkts");
        let before = (frames(), received());
        let send = move || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
            let sent = (0..DATAGRAMS).filter(|_| socket.send_to(&[7; 1400], (target, 9)).is_ok());
            sent.count()
        };
        let sent = in_namespace(pids[0], send).join().expect("a thread");
        std::thread::sleep(Duration::from_millis(200));
        let (frames, packets) = (frames() - before.0, received() - before.1);
        assert!(sent as u64 > DATAGRAMS / 2 && packets > 0, "{sent} {packets}");
        let each = frames as f64 / packets as f64;
        assert_eq!(each > 1.2, merged, "forwarding {merged}: {frames} frames, {packets} packets");
    }
}

#[test]
fn a_gigabit_port_never_exceeds_its_link() {
    needs!(root);
    let mut lab = adapter_lab(find("gigabit"), 2, 1);
    for ports in [1, 2] {
        let interface = on(Offload::Tso, PortRequest::default());
        let measurement = run(&mut lab, ports, stream(Direction::Transmit), interface);
        let limit = 941.5e6 * f64::from(ports);
        let rate = measurement.traffic.bits_per_second();
        // what was on its way when the measurement began is at most a FIFO and a ring
        assert!(rate < limit * 1.01, "{rate} on {ports} ports");
        for port in &evidence(&measurement).ports {
            let percent = port.tx_link_percent.expect("a rate");
            assert!(percent < 101.0, "{percent}");
        }
    }
}

#[test]
fn reassembly_shows_in_counters_and_can_be_switched() {
    needs!(root);
    let mut lab = adapter_lab(find("ten-gigabit"), 1, 1);
    let receive = || stream(Direction::Receive);
    let off = run(&mut lab, 1, receive(), on(Offload::Tso, PortRequest::default()));
    assert_eq!(evidence(&off).total("rxSuperframes"), 0);
    let on = run(&mut lab, 1, receive(), on(Offload::Tso, lro()));
    let merges = evidence(&on).merges_per_superframe().expect("superframes");
    assert!(merges > 3.0, "{merges}");
    assert_eq!(on.effective.interface.port.lro, Some(true));
}

#[test]
fn adaptive_moderation_delays_bulk_traffic_and_no_transaction() {
    needs!(root);
    let mut lab = adapter_lab(find("gigabit"), 1, 1);
    let adaptive = |adaptive_rx| {
        let port = PortRequest { adaptive_rx: Some(adaptive_rx), ..PortRequest::default() };
        on(Offload::Tso, port)
    };
    let transactions = || Workload { kind: Protocol::RequestResponse, ..Workload::default() };
    let fixed = run(&mut lab, 1, transactions(), adaptive(false));
    // a tick of 250 µs at each end
    assert!(fixed.traffic.transactions_per_second() < 2100.0);
    let fast = run(&mut lab, 1, transactions(), adaptive(true));
    assert_eq!(fast.effective.interface.port.adaptive_rx, Some(true));
    let rate = fast.traffic.transactions_per_second();
    assert!(rate > 4200.0, "{rate}");
    // 4000 ticks a second; frames come at 81,000 a second
    let bulk = run(&mut lab, 1, stream(Direction::Receive), adaptive(true));
    let evidence = evidence(&bulk);
    let interrupts = evidence.total("rxInterrupts") as f64 / (evidence.interval_ns as f64 / 1e9);
    assert!(interrupts < 8000.0, "{interrupts}");
}

#[test]
fn steering_distributes_received_packets() {
    needs!(root);
    let mut lab = adapter_lab(find("ten-gigabit"), 1, 1);
    let workload = || Workload { connections: 8, ..stream(Direction::Receive) };
    let by = |steering| PortRequest { steering: Some(steering), ..PortRequest::default() };
    let busy = |measurement: &Measurement| {
        let evidence = evidence(measurement);
        (0..4).filter(|queue| evidence.total(&format!("rxQueue{queue}Frames")) > 100).count()
    };
    let off = run(&mut lab, 1, workload(), on(Offload::Tso, by(Steering::Off)));
    assert_eq!(busy(&off), 1);
    let rss = run(&mut lab, 1, workload(), on(Offload::Tso, by(Steering::Rss)));
    assert!(busy(&rss) > 1, "{:?}", evidence(&rss).ports);
    // the drivers say where flows go out, and they come in there
    let by_port = run(&mut lab, 1, workload(), on(Offload::Tso, by(Steering::DestinationPort)));
    let evidence_of = evidence(&by_port);
    let (hits, misses) = (evidence_of.total("steeringHits"), evidence_of.total("steeringMisses"));
    assert!(hits > 9 * misses && hits > 100, "{hits} hits, {misses} misses");
    assert!(busy(&by_port) > 1, "{:?}", evidence_of.ports);
    let two = InterfaceKnobs { queues: Some(2), ..on(Offload::Tso, by(Steering::Rss)) };
    let two = run(&mut lab, 1, workload(), two);
    assert!(busy(&two) <= 2, "{:?}", evidence(&two).ports);
    assert_eq!(two.effective.interface.queues, Some(2));
}

#[test]
fn two_clients_share_a_port_through_a_switch() {
    needs!(root);
    let mut lab = adapter_lab(find("gigabit"), 1, 2);
    let interface = on(Offload::Tso, PortRequest::default());
    let measurement = run(&mut lab, 1, stream(Direction::Bidirectional), interface);
    assert!(measurement.traffic.transmit_bytes > 0 && measurement.traffic.receive_bytes > 0);
    let idle = measured(
        &mut lab,
        Workload { kind: linkrate_model::Protocol::RequestResponse, ..Workload::default() },
        InterfaceKnobs::default(),
        Duration::from_millis(300),
    );
    assert!(idle.traffic.transactions > 0);
}
