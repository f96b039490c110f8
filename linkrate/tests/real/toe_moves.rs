//! Connections under traffic in both directions move to a TCP offload engine and back, for each reason,
//! and every byte arrives.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::common::lab::lab_of;
use crate::common::wait_until;
use linkrate_lab::Lab;
use linkrate_lab::backend::adapters::Faults;
use linkrate_lab::testbed::{Host, Testbed};
use linkrate_model::knobs::{AggregateMode, AggregateRequest, PortRequest, Toe};
use linkrate_model::spec::Adapter;
use linkrate_model::topology::ipv6_address;
use linkrate_model::{
    Balance, Direction, Family, InterfaceKnobs, SocketKnobs, TestbedSpec, Workload, model,
};
use linkrate_protocol::{ConnectSpec, Ends, ListenSpec, MeasureSpec, RecordSpec, Reply, Request};
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::{socket_swap, tcp_repair};
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

/// How long a connection may take to move, or to carry its next megabyte.
const MOVE_TIMEOUT: Duration = Duration::from_secs(10);

#[track_caller]
fn lab() -> Lab {
    let spec = TestbedSpec {
        adapter: Adapter::Model(Box::new(model::find("toe").unwrap())),
        clients: 1,
        ports: 1,
        ..TestbedSpec::default()
    };
    lab_of(&spec, Some("cubic"))
}

/// An answer to a request of the protocol.
#[track_caller]
fn ask(host: &mut Host, request: &Request) -> Reply {
    host.connection.send(request).unwrap_or_else(|error| panic!("{error}"));
    host.connection
        .receive(Duration::from_secs(20))
        .unwrap_or_else(|error| panic!("{request:?}: {error}"))
}

/// Two verified streams, one in each direction, which stand still yet.
#[track_caller]
fn connect(testbed: &mut Testbed) {
    let direction = Direction::Bidirectional;
    connect_as(testbed, Workload { direction, ..Workload::default() }, Family::Ipv4);
}

/// Verified streams, which stand still yet.
#[track_caller]
fn connect_as(testbed: &mut Testbed, workload: Workload, family: Family) {
    if family == Family::Ipv6 {
        testbed.reach_over_ipv6(1, None).unwrap_or_else(|error| panic!("{error}"));
    }
    let client = &testbed.clients[0];
    let [client, listener] = [client.address, client.sut_address].map(|address| match family {
        Family::Ipv4 => IpAddr::V4(address),
        Family::Ipv6 => IpAddr::V6(ipv6_address(address)),
    });
    let ends = Ends { client, listener };
    let socket = SocketKnobs { family, ..SocketKnobs::default() };
    let record = Some(RecordSpec { slots: 1, slot_us: 1_000_000 });
    let listen = ListenSpec {
        workload: workload.clone(),
        socket: socket.clone(),
        clients: vec![ends],
        listeners: 1,
        nonce: 7,
        seed: 7,
        shared_cpus: false,
        record,
        part: 0,
        concurrent: false,
        bind: BTreeMap::new(),
    };
    let Reply::Listening { ports } = ask(&mut testbed.sut, &Request::Listen(listen)) else {
        panic!("not listening")
    };
    let connect = ConnectSpec {
        workload,
        socket,
        client: 0,
        ends,
        ports: ports[0].clone(),
        nonce: 7,
        seed: 7,
        shared_cpus: false,
        record,
        part: 0,
        concurrent: false,
    };
    ask(&mut testbed.clients[0].host, &Request::Connect(connect));
    ask(&mut testbed.sut, &Request::AwaitFlows);
}

fn begin(testbed: &mut Testbed) {
    for host in [&mut testbed.sut, &mut testbed.clients[0].host] {
        assert_eq!(ask(host, &Request::Begin), Reply::Done);
    }
}

/// Ends the flows: none was broken, and every byte was right.
#[track_caller]
fn finish(testbed: &mut Testbed) {
    let start_ns = monotonic_ns() + 20_000_000;
    let window = MeasureSpec {
        start_ns,
        end_ns: start_ns + 30_000_000,
        readers: 1,
        event_ns: Some(start_ns + 10_000_000),
        ..MeasureSpec::default()
    };
    let mut hosts = [&mut testbed.sut, &mut testbed.clients[0].host];
    for host in &mut hosts {
        host.connection.send(&Request::Measure(window.clone())).expect("sent");
    }
    let mut received = 0;
    for host in &mut hosts {
        let reply = host.connection.receive(MOVE_TIMEOUT).unwrap_or_else(|error| panic!("{error}"));
        let Reply::Measured(report) = reply else { panic!("{reply:?}") };
        assert_eq!(report.broken, None);
        for flow in report.record.expect("a record").flows {
            assert_eq!(flow.wrong_bytes, 0, "{flow:?}");
            received += 1;
        }
    }
    assert_eq!(received, 2);
    for host in hosts {
        let Reply::Finished(finished) = ask(host, &Request::Finish) else { panic!("not finished") };
        assert_eq!(finished.broken, None);
    }
}

/// Bytes of each flow so far.
#[track_caller]
fn progress(testbed: &mut Testbed) -> Vec<u64> {
    match ask(&mut testbed.sut, &Request::Progress) {
        Reply::Progress { bytes, .. } => bytes,
        other => panic!("{other:?}"),
    }
}

/// Moves both streams of [`connect`] to the adapter while they carry.
#[track_caller]
fn offload_under_traffic(testbed: &mut Testbed) {
    connect(testbed);
    begin(testbed);
    assert_eq!(testbed.offload_connections().expect("moved"), 2);
    goes_on(testbed, "the way down");
}

/// Waits until each flow has carried another megabyte.
#[track_caller]
fn goes_on(testbed: &mut Testbed, after: &str) {
    let before = progress(testbed);
    let deadline = Instant::now() + MOVE_TIMEOUT;
    loop {
        let now = progress(testbed);
        if now.iter().zip(&before).all(|(now, before)| now.saturating_sub(*before) >= 1 << 20) {
            return;
        }
        assert!(Instant::now() < deadline, "after {after} it stands still: {now:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_of_moves(counter: &str) -> bool {
    ["toeMove", "toeStood", "toeStayed"].iter().any(|ours| counter.starts_with(ours))
}

fn counters(testbed: &Testbed) -> BTreeMap<String, u64> {
    let adapters = testbed.backend.adapters().expect("adapters");
    let now = adapters.read();
    let evidence = adapters.evidence(&now, &now, 1);
    let mut all = adapters.segments()[0].ports[0].port.counters();
    all.extend(
        evidence.ports[0]
            .counters
            .iter()
            .filter(|(name, _)| is_of_moves(name))
            .map(|(name, count)| (name.clone(), *count)),
    );
    all
}

/// Lets the rules work until a counter of moves has that value.
#[track_caller]
fn until(testbed: &mut Testbed, name: &str, expected: u64) {
    let deadline = Instant::now() + MOVE_TIMEOUT;
    while counters(testbed).get(name) != Some(&expected) {
        testbed.tend_connections().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(Instant::now() < deadline, "no {expected} of {name}: {:?}", counters(testbed));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn set(testbed: &mut Testbed, knobs: InterfaceKnobs) {
    let interface = testbed.sut_interfaces(1).remove(0);
    testbed.set_port_knobs(&interface, &knobs).unwrap_or_else(|error| panic!("{error}"));
}

fn with(port: PortRequest) -> InterfaceKnobs {
    InterfaceKnobs { port, ..InterfaceKnobs::default() }
}

fn toe(toe: Toe) -> PortRequest {
    PortRequest { toe: Some(toe), ..PortRequest::default() }
}

#[test]
fn busy_connections_move_down_and_up() {
    down_and_up(Family::Ipv4, None, 25);
}

#[test]
fn busy_connections_of_ipv6_move_down_and_up() {
    down_and_up(Family::Ipv6, None, 25);
}

#[test]
fn busy_connections_of_ipv6_move_down_and_up_in_a_vlan() {
    down_and_up(Family::Ipv6, Some(7), 10);
}

#[track_caller]
fn down_and_up(family: Family, vlan: Option<u16>, moves_each_way: u32) {
    let mut lab = lab();
    let testbed = lab.testbed().expect("up");
    if vlan.is_some() {
        // what the ports do not have afterwards is an error
        set(testbed, with(PortRequest { vlan, ..toe(Toe::On) }));
    }
    let direction = Direction::Bidirectional;
    connect_as(testbed, Workload { direction, ..Workload::default() }, family);
    begin(testbed);
    let mut took = Vec::new();
    for number in 0..moves_each_way {
        for down in [true, false] {
            let began = Instant::now();
            let there = match down {
                true => testbed.offload_connections(),
                false => testbed.reclaim_connections(),
            };
            // two connections
            took.push(began.elapsed() / 2);
            let there = there.unwrap_or_else(|error| panic!("{number}, down {down}: {error}"));
            assert_eq!(there, if down { 2 } else { 0 }, "{number}");
            goes_on(testbed, &format!("move {number}, down {down}"));
        }
    }
    finish(testbed);
    took.sort_unstable();
    println!("one move: {:?} at the median, {:?} at most", took[took.len() / 2], took.last());
    println!("{:?}", moves(testbed));
    let counters = counters(testbed);
    assert_eq!(counters["toeHostSegments"], 0, "{counters:?}");
    assert!(counters["toeTxBytes"] > 0 && counters["toeRxBytes"] > 0, "{counters:?}");
}

/// How long each flow received nothing: between the first and the last look that found the same bytes. What
/// the test itself waited for between two polls is no part of it.
struct Stalls {
    seen: [(u64, Instant); 2],
    /// The stall that lasts, of each flow.
    now: [Duration; 2],
    longest: Duration,
    /// Those longer than a time-out.
    long: Vec<Duration>,
    /// The time that was looked at.
    lasted: Duration,
}

impl Stalls {
    fn new(testbed: &mut Testbed) -> Self {
        let now = Instant::now();
        let seen = received(testbed).map(|bytes| (bytes, now));
        let (now, long) = ([Duration::ZERO; 2], Vec::new());
        Self { seen, now, longest: Duration::ZERO, long, lasted: Duration::ZERO }
    }

    /// Looks once. Returns the bytes that each flow has received.
    fn look(&mut self, testbed: &mut Testbed) -> [u64; 2] {
        let all = received(testbed);
        let now = Instant::now();
        for (((before, first), still), bytes) in self.seen.iter_mut().zip(&mut self.now).zip(all) {
            if bytes == *before {
                *still = now.saturating_duration_since(*first);
                self.longest = self.longest.max(*still);
                continue;
            }
            self.long.extend(Some(*still).filter(|still| *still > TIMEOUT + SLACK));
            (*before, *first, *still) = (bytes, now, Duration::ZERO);
        }
        all
    }
}

/// Bytes that the client and the system under test have received.
#[track_caller]
fn received(testbed: &mut Testbed) -> [u64; 2] {
    let of = |host| match ask(host, &Request::Progress) {
        Reply::Progress { bytes, .. } => bytes,
        other => panic!("{other:?}"),
    };
    // the first connection carries what the client receives
    [of(&mut testbed.clients[0].host)[0], of(&mut testbed.sut)[1]]
}

/// Bytes that each flow receives between two moves at least.
const ENOUGH: u64 = 64 << 10;

/// Moves, of both connections together, in a test of a fault.
fn moves_of_a_fault() -> u64 {
    std::env::var("LINKRATE_TOE_MOVES").ok().and_then(|moves| moves.parse().ok()).unwrap_or(100)
}

/// What happens to connections under a fault.
#[derive(Debug, Clone, Copy)]
enum Under {
    /// They move down and up, so often in all.
    Moves(u64),
    /// They stay at the adapter, or at the host, for so long.
    Stay { down: bool, lasting: Duration },
}

/// Two connections under a fault. Returns how long the flows were stopped.
#[track_caller]
fn stalls_under(faults: Faults, under: Under) -> Stalls {
    let mut lab = lab();
    let testbed = lab.testbed().expect("up");
    connect(testbed);
    begin(testbed);
    goes_on(testbed, "the beginning");
    let adapters = testbed.backend.adapters().expect("adapters");
    adapters.set_faults(faults).expect("faults");
    let began = Instant::now();
    let mut stalls = Stalls::new(testbed);
    let made = |testbed: &Testbed| {
        let moves = moves(testbed);
        let of = |name| moves.get(name).copied().unwrap_or(0);
        of("toeMoves.down") + of("toeMoves.up.ordered")
    };
    let more = |testbed: &Testbed| match under {
        Under::Moves(moves) => made(testbed) < moves,
        Under::Stay { lasting, .. } => began.elapsed() < lasting,
    };
    while more(testbed) {
        for half in [true, false] {
            let down = match under {
                Under::Moves(_) => half,
                Under::Stay { down, .. } => down,
            };
            // one with very much on its way stays, and moves the next time
            let moved = match down {
                true => testbed.offload_connections(),
                false => testbed.reclaim_connections(),
            };
            moved.unwrap_or_else(|error| panic!("{:?}, {error}", moves(testbed)));
            let (before, deadline) = (stalls.look(testbed), Instant::now() + MOVE_TIMEOUT);
            while stalls.look(testbed).iter().zip(before).any(|(now, before)| now - before < ENOUGH)
            {
                assert!(Instant::now() < deadline, "stands still: {:?}", moves(testbed));
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
    stalls.lasted = began.elapsed();
    println!(
        "{faults:?}, {under:?}: {:?}, {:?} without a byte at most, {:?}, {:?}",
        stalls.lasted,
        stalls.longest,
        stalls.long,
        moves(testbed)
    );
    finish(testbed);
    assert_eq!(counters(testbed)["toeHostSegments"], 0);
    stalls
}

/// Least retransmission time-out of Linux, TCP_RTO_MIN in include/net/tcp.h, and what a round trip and a
/// move add to it.
const TIMEOUT: Duration = Duration::from_millis(200);
const SLACK: Duration = Duration::from_millis(150);

/// Moves in which one stall may last longer than one time-out: the segment that the time-out sends again is
/// lost as well (one in 25 of them, with its acknowledgement), or the machine is busy.
const MOVES_OF_A_LONG_STALL: u64 = 25;

#[test]
fn busy_connections_move_without_a_loss() {
    once(Faults::default(), |stalls| stalls.long.is_empty() && stalls.longest < TIMEOUT + SLACK);
}

#[test]
#[ignore = "exhaustive: another fault"]
fn busy_connections_move_while_few_frames_are_lost() {
    while_frames_are_lost(0.003);
}

#[test]
fn busy_connections_move_while_frames_are_lost() {
    while_frames_are_lost(0.02);
}

#[track_caller]
fn while_frames_are_lost(loss: f64) {
    let few = moves_of_a_fault().div_ceil(MOVES_OF_A_LONG_STALL);
    // two segments in a row that time-outs sent again are lost: none in 100 moves, a few in 1,000
    let fewer = moves_of_a_fault() / 250;
    // each time-out is twice the one before
    let (two, three) = (TIMEOUT * 3 + SLACK, TIMEOUT * 7 + SLACK);
    once(Faults { loss, ..Faults::default() }, |stalls| {
        let longer = stalls.long.iter().filter(|stall| **stall > two).count() as u64;
        stalls.long.len() as u64 <= few && longer <= fewer && stalls.longest < three
    });
}

/// The control of the tests with losses: the same traffic for as long without a move, at the host and at the adapter.
/// `LINKRATE_TOE_MOVES=1000` makes it long enough to tell.
#[test]
#[ignore = "exhaustive: three times as long as the moves"]
fn stalls_of_two_time_outs_are_no_more_frequent_than_without_moves() {
    let faults = Faults { loss: 0.02, ..Faults::default() };
    let moving = stalls_under(faults, Under::Moves(moves_of_a_fault()));
    let staying = [true, false]
        .map(|down| stalls_under(faults, Under::Stay { down, lasting: moving.lasted }).long.len());
    let (moving, staying) = (moving.long.len() as f64, staying.iter().sum::<usize>() as f64 / 2.0);
    println!("{moving} stalls with moves, {staying} without in the same time");
    // counts of rare events: their variance is their number, and that of a mean of two half of it
    let scatter = (moving + staying / 2.0).sqrt();
    assert!(moving <= staying + 3.0 * scatter, "{moving} with moves, {staying} without");
}

#[test]
#[ignore = "exhaustive: another fault"]
fn busy_connections_move_while_frames_overtake_others() {
    // a connection whose TCP knows no round trip time is stopped for 1 s
    once(Faults { reorder: 0.02, ..Faults::default() }, |stalls| {
        stalls.longest < TIMEOUT * 2 + SLACK
    });
}

/// Other programs can make flows stand still, and what is wrong with moves does so every time: the stalls
/// are short in one of a few attempts.
#[track_caller]
fn once(faults: Faults, are_short: impl Fn(&Stalls) -> bool) {
    const ATTEMPTS: u32 = 4;
    let stood = |_| {
        let stalls = stalls_under(faults, Under::Moves(moves_of_a_fault()));
        (!are_short(&stalls)).then_some((stalls.longest, stalls.long))
    };
    let all: Vec<_> = (0..ATTEMPTS).map_while(stood).collect();
    assert!(all.len() < ATTEMPTS as usize, "{all:?}");
}

/// What makes connections return, and what ends it.
struct Trigger {
    reason: &'static str,
    pull: fn(&mut Testbed),
    mend: fn(&mut Testbed),
}

fn carrier(testbed: &mut Testbed, port: usize, up: bool) {
    let adapters = testbed.backend.adapters().expect("adapters");
    let mut links = adapters.segments()[0].ports[port].port.links();
    links.try_for_each(|link| link.set_up(up)).expect("the link");
}

fn loss(testbed: &mut Testbed, loss: f64) {
    let adapters = testbed.backend.adapters().expect("adapters");
    adapters.set_faults(Faults { loss, ..Faults::default() }).expect("faults");
}

#[test]
fn connections_return_for_each_reason_and_continue() {
    let on = || with(toe(Toe::On));
    let triggers = [
        Trigger {
            reason: "toe-off",
            pull: |testbed| set(testbed, with(toe(Toe::Off))),
            mend: |testbed| set(testbed, with(toe(Toe::On))),
        },
        Trigger {
            reason: "setting",
            pull: |testbed| {
                let knobs = InterfaceKnobs { mtu: Some(1400), ..with(toe(Toe::On)) };
                set(testbed, knobs);
            },
            mend: |_| {},
        },
        Trigger {
            reason: "setting",
            pull: |testbed| set(testbed, with(PortRequest { vlan: Some(7), ..toe(Toe::On) })),
            mend: |_| {},
        },
        Trigger {
            reason: "carrier",
            pull: |testbed| carrier(testbed, 0, false),
            mend: |testbed| carrier(testbed, 0, true),
        },
        Trigger {
            reason: "retransmission",
            pull: |testbed| loss(testbed, 1.0),
            mend: |testbed| loss(testbed, 0.0),
        },
        Trigger {
            reason: "idle",
            // no flow has begun
            pull: |testbed| set(testbed, with(PortRequest { toe_idle: Some(100), ..toe(Toe::On) })),
            mend: begin,
        },
    ];
    let mut lab = lab();
    let testbed = lab.testbed().expect("up");
    for Trigger { reason, pull, mend } in triggers {
        set(testbed, on());
        connect(testbed);
        if reason != "idle" {
            begin(testbed);
            goes_on(testbed, "the beginning");
        }
        assert_eq!(testbed.offload_connections().expect("moved"), 2);
        if reason != "idle" {
            goes_on(testbed, "the way down");
        }
        pull(testbed);
        // a stream that only receives has nothing to retransmit
        let count = if reason == "retransmission" { 1 } else { 2 };
        until(testbed, &format!("toeMoves.up.{reason}"), count);
        mend(testbed);
        goes_on(testbed, reason);
        // the connections go to the adapter again by themselves
        until(testbed, "toeMoves.down", 2 + count);
        goes_on(testbed, &format!("{reason} and the way down again"));
        finish(testbed);
        println!("{reason}: {:?}", moves(testbed));
        assert_eq!(counters(testbed)["toeHostSegments"], 0, "{reason}");
        testbed.forget_connections().expect("forgotten");
    }
}

#[test]
fn connections_over_an_aggregate_return_for_a_lost_carrier_and_continue_by_another_port() {
    let spec = TestbedSpec {
        adapter: Adapter::Model(Box::new(model::find("toe").unwrap())),
        clients: 1,
        ports: 2,
        aggregate: 2,
        ..TestbedSpec::default()
    };
    let mut lab = lab_of(&spec, Some("cubic"));
    let testbed = lab.testbed().expect("up");
    let by_flow = Some(Balance::Port);
    let aggregate = AggregateRequest {
        aggregate: Some(2),
        mode: Some(AggregateMode::Lacp),
        balance: by_flow,
        switch_balance: by_flow,
        ..AggregateRequest::default()
    };
    set(testbed, InterfaceKnobs { aggregate, ..with(toe(Toe::On)) });
    let await_ports = |testbed: &Testbed| {
        let adapters = testbed.backend.adapters().expect("adapters");
        adapters.await_ports().expect("both ports carry traffic");
    };
    await_ports(testbed);
    offload_under_traffic(testbed);
    for (lost, port) in [0, 1].into_iter().enumerate() {
        carrier(testbed, port, false);
        let moved = 2 * (lost as u64 + 1);
        until(testbed, "toeMoves.up.carrier", moved);
        until(testbed, "toeMoves.down", 2 + moved);
        goes_on(testbed, "the loss of a carrier");
        carrier(testbed, port, true);
        await_ports(testbed);
        testbed.tend_connections().expect("tended");
        goes_on(testbed, "its return");
    }
    println!("{:?}", moves(testbed));
    for port in 0..2 {
        let adapters = testbed.backend.adapters().expect("adapters");
        let counters = adapters.segments()[0].ports[port].port.counters();
        assert_eq!(counters["toeHostSegments"], 0, "port {port}");
        assert!(counters["toeTxBytes"] > 1 << 20, "port {port}: {counters:?}");
    }
    finish(testbed);
}

fn moves(testbed: &Testbed) -> BTreeMap<String, u64> {
    counters(testbed).into_iter().filter(|(name, _)| is_of_moves(name)).collect()
}

/// The TCP sockets of a process that are connected to `far`, with the ports of both ends.
fn sockets_to(pid: u32, far: IpAddr) -> Vec<(u16, u16, OwnedFd)> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("open files").flatten();
    let numbers = files.filter_map(|file| file.file_name().to_str()?.parse().ok());
    let sockets = numbers.filter_map(|number| socket_swap::descriptor_of(pid, number).ok());
    let of_test = |socket: OwnedFd| {
        let (own, peer) = socket_swap::ends(&socket).ok()?;
        (peer.ip() == far).then(|| (own.port(), peer.port(), socket))
    };
    let mut sockets: Vec<_> = sockets.filter_map(of_test).collect();
    // a process may have several descriptors of one
    sockets.sort_by_key(|(own, peer, _)| (*own, *peer));
    sockets.dedup_by_key(|(own, peer, _)| (*own, *peer));
    sockets
}

/// Those of the client to the system under test.
fn sockets_of_client(testbed: &Testbed) -> Vec<(u16, u16, OwnedFd)> {
    let client = &testbed.clients[0];
    sockets_to(client.host.pid(), client.sut_address.into())
}

/// Those of the system under test to the client: connections at the adapter have none.
fn sockets_of_sut(testbed: &Testbed) -> Vec<(u16, u16, OwnedFd)> {
    sockets_to(testbed.sut.pid(), testbed.clients[0].address.into())
}

/// Resets the connections of the client, and returns their number: whoever disconnects a socket closes
/// its connection with RST (tcp(7), `tcp_disconnect`).
fn reset_all(testbed: &Testbed) -> usize {
    let reset = |(_, _, socket)| tcp_repair::disconnect(socket).expect("reset");
    sockets_of_client(testbed).into_iter().map(reset).count()
}

/// Sends a byte of urgent data on each connection of the client, and returns their number.
fn urge_all(testbed: &Testbed) -> usize {
    let sockets = sockets_of_client(testbed);
    let urge = |(_, _, socket): &(_, _, OwnedFd)| {
        assert_eq!(send(socket, b"!", SendFlags::OOB), Ok(1));
    };
    sockets.iter().for_each(urge);
    sockets.len()
}

#[test]
fn a_connection_with_urgent_data_returns_so_that_the_program_can_read_it() {
    let mut lab = lab();
    let testbed = lab.testbed().expect("up");
    set(testbed, with(toe(Toe::On)));
    // a program that reads on passes the mark, and then the urgent byte is gone (tcp(7))
    connect(testbed);
    assert_eq!(testbed.offload_connections().expect("moved"), 2);
    assert_eq!(sockets_of_sut(testbed).len(), 0);
    assert_eq!(urge_all(testbed), 2);
    until(testbed, "toeMoves.up.urgent", 2);
    for (_, _, socket) in sockets_of_sut(testbed) {
        assert!(wait_until(MOVE_TIMEOUT, || {
            let mut byte = [0; 2];
            recv(&socket, &mut byte, RecvFlags::OOB).is_ok_and(|(count, _)| &byte[..count] == b"!")
        }));
    }
    begin(testbed);
    goes_on(testbed, "urgent data");
    // neither connection goes to the adapter again
    assert_eq!(sockets_of_sut(testbed).len(), 2);
    finish(testbed);
    testbed.forget_connections().expect("forgotten");
    // under traffic
    offload_under_traffic(testbed);
    assert_eq!(urge_all(testbed), 2);
    until(testbed, "toeMoves.up.urgent", 2);
    goes_on(testbed, "urgent data");
    finish(testbed);
    assert_eq!(counters(testbed)["toeHostSegments"], 0);
    println!("{:?}", moves(testbed));
}

#[test]
fn a_livelier_connection_takes_the_place_in_a_full_table() {
    let mut lab = lab();
    let testbed = lab.testbed().expect("up");
    set(testbed, with(PortRequest { toe_max: Some(1), ..toe(Toe::Auto) }));
    let direction = Direction::Transmit;
    let workload = Workload { direction, connections: 2, ..Workload::default() };
    connect_as(testbed, workload, Family::Ipv4);
    begin(testbed);
    assert_eq!(testbed.offload_connections().expect("moved"), 1);
    let at_host = |testbed: &Testbed| -> Vec<(u16, u16)> {
        sockets_of_sut(testbed).iter().map(|(own, peer, _)| (*own, *peer)).collect()
    };
    let first = at_host(testbed);
    assert_eq!(first.len(), 1);
    // a window of two segments
    for (own, peer, socket) in sockets_of_client(testbed) {
        if !first.contains(&(peer, own)) {
            sockopt::set_socket_recv_buffer_size(&socket, 4096).expect("a smaller buffer");
        }
    }
    until(testbed, "toeMoves.up.table-full", 1);
    until(testbed, "toeMoves.down", 2);
    goes_on(testbed, "the change of places");
    let second = at_host(testbed);
    assert!(second.len() == 1 && second != first, "{first:?} {second:?}");
    finish(testbed);
    assert_eq!(counters(testbed)["toeHostSegments"], 0);
    println!("{:?}", moves(testbed));
}

#[test]
fn a_connection_that_the_peer_resets_returns_so_that_the_program_learns_of_it() {
    let mut lab = lab();
    let testbed = lab.testbed().expect("up");
    set(testbed, with(toe(Toe::On)));
    offload_under_traffic(testbed);
    assert!(reset_all(testbed) >= 2);
    until(testbed, "toeMoves.up.reset", 2);
    std::thread::sleep(Duration::from_millis(100));
    let Reply::Finished(finished) = ask(&mut testbed.sut, &Request::Finish) else {
        panic!("not finished")
    };
    let broken = finished.broken.expect("a broken flow");
    println!("{broken}");
    assert!(broken.contains("Connection reset by peer"), "{broken}");
}
