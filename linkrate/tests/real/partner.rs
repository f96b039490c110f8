//! Open vSwitch as the partner of an aggregate: a bond with LACP in its userspace datapath, at the
//! peers of the aggregate's links.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::common::ends::await_listener;
use crate::common::{enter_namespace, wait_until};
use crate::open_vswitch::{OpenVSwitch, output};
use crate::own_host::{in_a_host, ip, up};
use linkrate_adapter::{
    Aggregate, AggregateSpec, DeviceSpec, DeviceThreads, DriverThreads, Faults, HostSide, LinkLaw,
    Port, PortSpec, Segment,
};
use linkrate_model::aggregate::MemberReport;
use linkrate_model::knobs::{AggregateMode, LacpRate};
use linkrate_model::topology::Fabric;
use linkrate_model::{AggregateKnobs, Balance, CpuSet, Model, PortKnobs, model};
use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::tap::Tap;
use linkrate_wire::frame::MacAddress;

/// The address of the aggregate, and that of the bridge behind the bond.
const SUT: &str = "10.9.0.1";
const BRIDGE: &str = "10.9.0.2";

/// The interfaces at the peers of the links, which the bond takes.
const MEMBERS: [&str; 2] = ["far0", "far1"];

/// The longest that LACP takes to agree, or to see that a partner is silent, with slow timers: three
/// periods of 30 s. Fast ones take a thirtieth.
const SLOW: Duration = Duration::from_secs(95);
const FAST: Duration = Duration::from_secs(12);

/// A namespace for the system under test, as long as this lives.
struct Namespace(Child);

impl Namespace {
    fn new() -> Self {
        let mut child = Command::new("unshare");
        child.args(["-n", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let namespace = Self(child.spawn().expect("unshare"));
        let own = std::fs::read_link("/proc/self/ns/net").expect("a namespace");
        let apart = || std::fs::read_link(namespace.path()).is_ok_and(|its| its != own);
        assert!(wait_until(Duration::from_secs(5), apart), "no namespace");
        namespace
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    /// Runs `act` in a thread of this namespace.
    fn within<T: Send + 'static>(&self, act: impl FnOnce() -> T + Send + 'static) -> T {
        let pid = self.0.id();
        let thread = std::thread::spawn(move || {
            enter_namespace(pid);
            act()
        });
        thread.join().expect("the thread in the namespace")
    }

    /// A program in it.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).args(words.split(' '));
        command
    }

    #[track_caller]
    fn run(&self, words: &str) -> String {
        output(self.command(words)).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An aggregate of two Gigabit ports, each on a cable to an interface that Open vSwitch has in a
/// bond. Fields are dropped in the order of their declaration.
struct Bonded {
    switch: OpenVSwitch,
    peers: Vec<Port>,
    ports: Vec<Port>,
    aggregate: Arc<Aggregate>,
    segments: Vec<Segment>,
    sut: Namespace,
    _threads: (DeviceThreads, DriverThreads),
}

fn tap(name: &str) -> OwnedFd {
    let tap = Tap::open(name, 1).expect("a TAP");
    let queue = tap.queues()[0].try_clone().expect("its queue");
    RouteSocket::open().expect("netlink").disable_ipv6(name).expect("silence");
    queue
}

fn address(end: u8) -> [u8; 6] {
    [0x02, 0, 0, 0, 9, end]
}

fn gigabit() -> Model {
    Model { queues: 1, ..model::find("gigabit").expect("the model") }
}

impl Bonded {
    fn new(rate: LacpRate) -> Self {
        let (sut_cpus, adapter_cpus) = (CpuSet::from_iter([0]), CpuSet::from_iter([1]));
        let mut devices = DeviceThreads::new(&adapter_cpus);
        let drivers = DriverThreads::start(&sut_cpus, false).expect("driver threads");
        let sut = Namespace::new();
        let knobs = AggregateKnobs {
            aggregate: MEMBERS.len() as u32,
            mode: AggregateMode::Lacp,
            lacp_rate: rate,
            balance: Balance::Port,
            ..AggregateKnobs::default()
        };
        let queue = sut.within(|| {
            let queue = tap("agg0");
            ip(&format!("link set agg0 address {}", MacAddress(address(1))));
            ip(&format!("addr add {SUT}/24 dev agg0"));
            ip("link set lo up");
            ip("link set agg0 up");
            queue
        });
        let spec = AggregateSpec {
            name: "agg0".to_owned(),
            queues: vec![queue],
            address: address(1),
            knobs,
        };
        let aggregate = Arc::new(Aggregate::new(spec, &drivers).expect("an aggregate"));
        let device = DeviceSpec::of(&gigabit());
        // a bond forwards the frames of the link: not merged, and with the checksums that were sent,
        // which a port replaces by requests for a checksum once it has verified them
        let far = PortKnobs { lro: false, rx_checksum: false, ..gigabit().defaults };
        let (mut segments, mut ports, mut peers) = (Vec::new(), Vec::new(), Vec::new());
        for (number, member) in MEMBERS.into_iter().enumerate() {
            let mut segment = devices.segment(Fabric::Cable, LinkLaw::Ethernet).expect("a cable");
            let attach = |segment: &mut Segment, spec| segment.attach(spec).expect("a port");
            ports.push(attach(
                &mut segment,
                PortSpec {
                    name: format!("eth{number}"),
                    queues: Vec::new(),
                    device: device.clone(),
                    knobs: gigabit().defaults,
                    bus: None,
                    host: HostSide::Aggregate(Arc::clone(&aggregate), number, None),
                    switch: 0,
                },
            ));
            peers.push(attach(
                &mut segment,
                PortSpec {
                    name: member.to_owned(),
                    queues: vec![tap(member)],
                    device: device.clone().peer(),
                    knobs: far.clone(),
                    bus: None,
                    host: HostSide::Device,
                    switch: 0,
                },
            ));
            // the kernel would answer for the bridge's IP address with that of the member
            ip(&format!("link set {member} arp off"));
            up(member);
            segments.push(segment);
        }
        let time = match rate {
            LacpRate::Fast => "fast",
            LacpRate::Slow => "slow",
        };
        let switch = OpenVSwitch::start(&[]).expect("Open vSwitch");
        let configure = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            switch.configure(&words).expect("the configuration");
        };
        // by itself the bridge takes the address of a member, and the kernel would receive at the member
        // what is for the bridge
        let mac = MacAddress(address(9));
        configure(&format!(
            "add-br bridge -- set bridge bridge datapath_type=netdev other-config:hwaddr=\"{mac}\""
        ));
        configure(&format!(
            "add-bond bridge bond {} {} -- set port bond lacp=active bond_mode=balance-tcp \
             other_config:lacp-time={time}",
            MEMBERS[0], MEMBERS[1]
        ));
        ip("link set lo up");
        ip(&format!("addr add {BRIDGE}/24 dev bridge"));
        up("bridge");
        let threads = (devices, drivers);
        Self { switch, peers, ports, aggregate, segments, sut, _threads: threads }
    }

    fn members(&self) -> Vec<MemberReport> {
        self.aggregate.report().expect("a report").members
    }

    /// Whether Open vSwitch says that LACP is negotiated, and on which members it forwards.
    fn bond(&self) -> (bool, Vec<bool>) {
        let shown = self.switch.ask(&["bond/show", "bond"]).expect("bond/show");
        let enabled = |member: &&str| {
            let line = format!("member {member}: enabled");
            let older = format!("slave {member}: enabled");
            shown.contains(&line) || shown.contains(&older)
        };
        let negotiated = shown.contains("lacp_status: negotiated");
        (negotiated, MEMBERS.iter().map(enabled).collect())
    }

    /// Whether both ends soon forward by exactly these members.
    fn agree_within(&self, timeout: Duration, expected: &[bool]) -> bool {
        wait_until(timeout, || {
            let ours: Vec<bool> = self.members().iter().map(|member| member.distributing).collect();
            let (negotiated, theirs) = self.bond();
            negotiated && ours == expected && theirs == expected
        })
    }

    #[track_caller]
    fn expect(&self, timeout: Duration, expected: &[bool]) {
        if !self.agree_within(timeout, expected) {
            let lacp = self.switch.ask(&["lacp/show", "bond"]).expect("lacp/show");
            panic!("{:#?}\n{:?}\n{lacp}", self.members(), self.bond());
        }
    }

    /// Unicast frames that each port has sent, or taken.
    fn frames(&self, counter: &str) -> Vec<u64> {
        self.ports.iter().map(|port| port.counters()[counter]).collect()
    }

    fn set_link(&self, number: usize, is_up: bool) {
        let ends = [&self.ports[number], &self.peers[number]];
        for link in ends.into_iter().flat_map(|port| port.links()) {
            link.set_up(is_up).expect("the link");
        }
    }

    /// A stream of iperf3 with eight connections: Mb/s that arrived in each half second.
    fn stream(&self, seconds: u32, words: &str) -> Streaming {
        let mut server = Command::new("iperf3");
        server.args(["--server", "--one-off", "--bind", BRIDGE]).stdout(Stdio::null());
        let server = server.spawn().expect("iperf3");
        await_listener(5201);
        let words = format!(
            "iperf3 --client {BRIDGE} --parallel 8 --bitrate 20M --time {seconds} --interval 0.5 --json {words}"
        );
        let client = self.sut.command(words.trim_end()).stdout(Stdio::piped()).spawn();
        Streaming { server, client: client.expect("iperf3") }
    }
}

/// An iperf3 that runs.
struct Streaming {
    server: Child,
    client: Child,
}

impl Streaming {
    #[track_caller]
    fn rates(mut self) -> Vec<f64> {
        let output = self.client.wait_with_output().expect("iperf3");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(self.server.wait().expect("iperf3").success());
        let document: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("JSON of iperf3");
        let intervals = document["intervals"].as_array().expect("intervals");
        let rate = |interval: &serde_json::Value| interval["sum"]["bits_per_second"].as_f64();
        intervals.iter().map(|interval| rate(interval).expect("a rate") / 1e6).collect()
    }
}

/// Eight connections are spread over two ports by hashes: one port takes none of them in one of 128
/// cases, so a test tries again.
#[track_caller]
fn every_port_is_used(counter: &str, bonded: &Bonded, words: &str) {
    for _ in 0..3 {
        let before = bonded.frames(counter);
        let rates = bonded.stream(2, words).rates();
        let after = bonded.frames(counter);
        let frames: Vec<u64> = after.iter().zip(&before).map(|(to, from)| to - from).collect();
        println!("{counter} {frames:?}, {rates:.0?} Mb/s");
        assert!(rates.iter().all(|rate| *rate > 0.0), "{rates:?}");
        if frames.iter().all(|frames| *frames > 1000) {
            return;
        }
    }
    panic!("{counter}: a port was never used");
}

#[test]
fn open_vswitch_agrees_with_fast_timers_in_failure_and_recovery() {
    needs!("ovs-vswitchd", "iperf3", "nsenter", "setpriv", "unshare", "ping");
    in_a_host(|| {
        let bonded = Bonded::new(LacpRate::Fast);
        bonded.expect(FAST, &[true; 2]);
        bonded.sut.run(&format!("ping -c 3 -i 0.2 -W 2 {BRIDGE}"));
        every_port_is_used("ifHCOutUcastPkts", &bonded, "");
        every_port_is_used("ifHCInUcastPkts", &bonded, "--reverse");
        // carrier is lost at both ends, under traffic of each direction
        for words in ["", "--reverse"] {
            let stream = bonded.stream(8, words);
            std::thread::sleep(Duration::from_secs(1));
            bonded.set_link(0, false);
            bonded.expect(FAST, &[false, true]);
            bonded.set_link(0, true);
            bonded.expect(FAST, &[true; 2]);
            // flows of the host are never silent here, and come back to the port nevertheless
            if words.is_empty() {
                let sent = || bonded.frames("ifHCOutUcastPkts")[0];
                let before = sent();
                assert!(wait_until(Duration::from_secs(5), || sent() > before + 1000));
            }
            let rates = stream.rates();
            println!("carrier lost {words}: {rates:.0?} Mb/s");
            let alive = rates.iter().filter(|rate| **rate > 0.0).count();
            assert!(alive + 2 >= rates.len() && rates.last() > Some(&0.0), "{rates:?}");
        }
        // a silent failure: neither end sees it before LACP times out
        let stream = bonded.stream(14, "");
        std::thread::sleep(Duration::from_secs(1));
        let lossy = Faults { loss: 1.0, ..Faults::default() };
        bonded.segments[1].set_faults(lossy).expect("faults");
        bonded.expect(FAST, &[true, false]);
        bonded.segments[1].set_faults(Faults::default()).expect("no faults");
        bonded.expect(FAST, &[true; 2]);
        let rates = stream.rates();
        println!("silent failure: {rates:.0?} Mb/s");
        assert!(rates.last() > Some(&0.0), "{rates:?}");
        for member in bonded.members() {
            let counters = member.lacp.expect("LACP").counters;
            assert_eq!(counters["dot3adAggPortStatsIllegalRx"], 0, "{counters:?}");
            assert_eq!(counters["dot3adAggPortStatsUnknownRx"], 0, "{counters:?}");
        }
    });
}

#[test]
fn open_vswitch_agrees_with_slow_timers() {
    needs!("ovs-vswitchd", "iperf3", "nsenter", "setpriv", "unshare", "ping");
    in_a_host(|| {
        let bonded = Bonded::new(LacpRate::Slow);
        // the first exchanges need no timer: each end answers news at once
        bonded.expect(SLOW, &[true; 2]);
        bonded.sut.run(&format!("ping -c 3 -i 0.2 -W 2 {BRIDGE}"));
        bonded.set_link(1, false);
        bonded.expect(FAST, &[true, false]);
        bonded.sut.run(&format!("ping -c 3 -i 0.2 -W 2 {BRIDGE}"));
        bonded.set_link(1, true);
        bonded.expect(SLOW, &[true; 2]);
        every_port_is_used("ifHCOutUcastPkts", &bonded, "");
    });
}
