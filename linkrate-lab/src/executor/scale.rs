//! A thousand agents at one controller: descriptors, memory and time of a run.
//!
//! The agents are fakes that speak the real protocol, all in one thread. Their machines are as different
//! as those of a cluster: each has a boot id, a clock reading and CPUs of its own.

use std::fs;
use std::io::{PipeWriter, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use linkrate_model::interfaces::InterfaceAddress;
use linkrate_model::measurement::IdleSource;
use linkrate_model::topology::Topology;
use linkrate_model::{
    BitRate, CpuSet, InterfaceKnobs, Interfaces, Peer, Protocol, RunSpec, SocketKnobs, Task,
    TestbedSpec, Workload,
};
use linkrate_protocol::framing::FrameBuffer;
use linkrate_protocol::{
    FlowFacts, Hello, InterfaceFacts, MeasurementReport, PROTOCOL_VERSION, Reply, Request,
    decode_request, write_message,
};
use linkrate_study::study::Purpose;
use linkrate_study::validity::stack::FirstStacks;
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::epoll::{Epoll, Readable, Watch};
use linkrate_sys::open_file_limit;

use super::validated;
use crate::backend::existing;
use crate::host::{Carrier, Host};
use crate::options::LabOptions;
use crate::peer::StderrLines;
use crate::placement::Placement;
use crate::testbed::Testbed;

/// Clients of the one system under test.
const CLIENTS: u32 = 1_000;

/// The most memory that one of them may take, at both ends of its connection.
const MEMORY: u64 = 100 << 10;

/// The most time that a run may take. The agents do not wait for the measurement, so all of it is that of the
/// messages: a quarter of a second on two CPUs that others use too.
const TIME: Duration = Duration::from_secs(5);

/// The measurement of the run.
const WINDOW: Duration = Duration::from_millis(200);

/// Payload of all clients together in the measurement, octets: below what the link of 1 Gbit/s carries.
const PAYLOAD: u64 = 12_000_000;

/// A fake agent: number 0 is the system under test, others are its clients.
struct Fake {
    number: u32,
    stream: UnixStream,
    arrived: FrameBuffer,
    asked: u64,
    cpus: CpuSet,
    knobs: InterfaceKnobs,
}

impl Fake {
    fn new(number: u32, stream: UnixStream) -> Self {
        let (arrived, cpus) = (FrameBuffer::default(), CpuSet::from_iter([0]));
        Self { number, stream, arrived, asked: 0, cpus, knobs: InterfaceKnobs::default() }
    }

    /// Answers what has arrived; false at the end.
    fn serve(&mut self) -> bool {
        let mut part = [0; 16 << 10];
        let Ok(count @ 1..) = self.stream.read(&mut part) else { return false };
        self.arrived.add(&part[..count]);
        while let Ok(Some(frame)) = self.arrived.take() {
            let (number, request) = decode_request(&frame);
            let reply = self.reply(request.expect("a request"));
            write_message(&mut self.stream, number, &reply).expect("a controller that reads");
            self.asked += 1;
        }
        true
    }

    fn reply(&mut self, request: Request) -> Reply {
        let is_sut = self.number == 0;
        let address = if is_sut { 1 } else { self.number + 1 };
        let interface_address = InterfaceAddress {
            interface: "eth1".to_owned(),
            address: (0x0a00_0000 + address).into(),
            prefix_length: 16,
        };
        // a setting that reports on this agent alone
        let own = |name: &str| {
            let value = format!("of agent {}", self.number);
            std::collections::BTreeMap::from([(name.to_owned(), value)])
        };
        match request {
            Request::Hello { version } => Reply::Hello(Hello {
                version: version.min(PROTOCOL_VERSION),
                pid: self.number + 1,
                kernel: "6.12.0".to_owned(),
                cpu_model: "a CPU with a name of the usual length @ 2.50GHz".to_owned(),
                online_cpus: self.cpus.clone(),
                boot_id: format!("6f1f8e2c-0000-4000-8000-{:012}", self.number),
                sysctls: own("net.ipv4.tcp_rmem"),
                settings: own("cpu-governor"),
            }),
            Request::Clock => Reply::Clock { monotonic_ns: monotonic_ns() },
            Request::Place { cpus } => Reply::Placed { cpus },
            Request::Account { .. } => Reply::Accounts { source: IdleSource::TimerList },
            Request::Describe { name } => Reply::Interface(Box::new(InterfaceFacts {
                name,
                driver: "mlx5_core".to_owned(),
                firmware: "20.31.1014".to_owned(),
                rate: Some(BitRate(1e9)),
                mtu: 1500,
                up: true,
                running: true,
                addresses: vec![interface_address],
                ..InterfaceFacts::default()
            })),
            Request::Addresses => Reply::Addresses(vec![interface_address]),
            Request::RouteTo { .. } => Reply::Route { interface: "eth1".to_owned(), source: None },
            Request::SetKnobs { interfaces, .. } | Request::ReadKnobs { interfaces } => {
                let knobs = interfaces.into_iter().map(|name| (name, self.knobs.clone()));
                Reply::Knobs(knobs.collect())
            }
            Request::ReadStack { .. } => Reply::Stack(Box::default()),
            Request::Listen(spec) => {
                Reply::Listening { ports: vec![vec![5001]; spec.clients.len()] }
            }
            Request::Connect(_) => Reply::Flows(flows(1)),
            Request::AwaitFlows => Reply::Flows(flows(CLIENTS)),
            Request::Measure(spec) => {
                let share = if is_sut { PAYLOAD } else { PAYLOAD / u64::from(CLIENTS) };
                let mut report = interval(spec.start_ns, spec.end_ns);
                let way = if is_sut { &mut report.sent_bytes } else { &mut report.received_bytes };
                *way = share;
                report.interface.tx_bytes = share + share / 24;
                report.interface.rx_bytes = share + share / 24;
                Reply::Measured(Box::new(report))
            }
            Request::Finish => Reply::Finished(Default::default()),
            Request::Keep { .. } | Request::AwaitLink { .. } | Request::Begin => Reply::Done,
            other => panic!("{other:?} is no request of a run"),
        }
    }
}

fn flows(flows: u32) -> FlowFacts {
    FlowFacts {
        flows,
        send_buffer_bytes: 87_040,
        receive_buffer_bytes: 131_072,
        congestion: "cubic".to_owned(),
        mss_bytes: 1448,
        ..FlowFacts::default()
    }
}

fn interval(started_ns: u64, ended_ns: u64) -> MeasurementReport {
    let interval_ns = ended_ns - started_ns;
    let text = serde_json::json!({
        "started-ns": started_ns, "ended-ns": ended_ns, "stalled-ns": 0, "received-bytes": 0, "sent-bytes": 0,
        "transactions": 0, "timeouts": 0,
        "cpu": {
            "cpus": [{"cpu": 0, "interval_ns": interval_ns, "busy_ns": interval_ns / 2, "steal_ns": 0}],
            "threads": [{"name": "sender", "affinity": "0", "cpu_ns": 9, "user_ns": 1}],
            "source": "timer-list", "shared": false
        },
        "interface": {
            "tx_packets": 10_000, "tx_bytes": 0, "rx_packets": 10_000, "rx_bytes": 0,
            "tx_dropped": 0, "rx_dropped": 0
        },
        "protocol": {"TcpRetransSegs": 3},
        "senders": {
            "sockets": 1, "busy_us": 5, "rwnd_limited_us": 0, "sndbuf_limited_us": 0,
            "retransmits": 0, "buffer_samples": 6, "buffer_full_samples": 0
        },
        "receive-packets-by-cpu": {}, "receive-batches": 0, "disciplines": [[], []], "forks": 0, "zerocopy-copied": 0, "zerocopy-completed": 0, "broken": null
    });
    serde_json::from_value(text).expect("a report of the protocol")
}

/// Serves all of them until the controller is gone.
fn serve(mut fakes: Vec<Fake>) -> u64 {
    let epoll = Epoll::new().expect("an epoll set");
    for fake in &fakes {
        epoll.add(fake.stream.as_fd(), u64::from(fake.number), Watch::Always).expect("watched");
    }
    let (mut readable, mut left) = (Readable::default(), fakes.len());
    while left > 0 {
        epoll.wait(&mut readable, None).expect("waits");
        for number in readable.numbers() {
            let fake = &mut fakes[number as usize];
            if !fake.serve() {
                epoll.remove(fake.stream.as_fd()).expect("no longer watched");
                left -= 1;
            }
        }
    }
    fakes.iter().map(|fake| fake.asked).sum()
}

/// The testbed of agents at these streams, the system under test first. Returns what holds the standard
/// errors of the clients.
fn testbed(streams: Vec<UnixStream>, spec: &TestbedSpec) -> (Testbed, Vec<PipeWriter>) {
    let options = LabOptions::new("linkrate".into(), Arc::new(AtomicBool::new(false)));
    let cpus = CpuSet::from_iter([0]);
    let placement = Placement {
        sut: cpus.clone(),
        clients: cpus.clone(),
        controller: cpus.clone(),
        apart: true,
    };
    let linkrate_model::spec::Adapter::Interfaces(on) = &spec.adapter else {
        panic!("existing interfaces")
    };
    let names = ["eth1".to_owned()];
    let mut streams = streams.into_iter();
    let mut greet = |name: &str| {
        let stream = streams.next().expect("a stream");
        let mut host = Host::greet(name, Carrier::Script(stream), &options).expect("an agent");
        host.place(&cpus).expect("its CPUs");
        host
    };
    let sut = greet("sut");
    let (mut hosts, mut errors) = (Vec::new(), Vec::new());
    for end in &on.clients {
        let (heard, error) = std::io::pipe().expect("a pipe");
        let words = StderrLines::hold(&end.name(), heard).expect("a reader");
        hosts.push((greet(&end.name()).with_words(words), end, &names[0]));
        errors.push(error);
    }
    let built =
        existing::join(sut, hosts, Vec::new(), &names, &placement).expect("paths to all clients");
    let testbed = Testbed::of(built, Topology::of(spec), spec, &placement).expect("a testbed");
    (testbed, errors)
}

/// Octets of memory that this process has: `VmRSS` of proc_pid_status(5), which is in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let value = act();
    (value, begun.elapsed())
}

/// The governor of a machine behind `ssh` is no file of this one.
#[test]
fn the_facts_of_a_sut_elsewhere_are_those_that_its_agent_tells() {
    let ends = [Peer::Slurm { node: "n1".to_owned(), address: None }];
    let on = Interfaces::new(vec!["eth1".to_owned()], ends.to_vec(), None).expect("interfaces");
    for sut in [None, Some(Peer::Slurm { node: "n2".to_owned(), address: None })] {
        let spec = TestbedSpec::default().on_interfaces(Interfaces { sut, ..on.clone() });
        let pairs = (0..=1).map(|number| {
            let (here, there) = UnixStream::pair().expect("a stream");
            (here, Fake::new(number, there))
        });
        let (streams, fakes): (Vec<UnixStream>, Vec<Fake>) = pairs.unzip();
        let fakes = std::thread::spawn(move || serve(fakes));
        let (testbed, errors) = testbed(streams, &spec);
        let reported =
            super::facts::facts(&testbed, &spec, &super::contention::Calibration::default());
        drop((errors, testbed));
        fakes.join().expect("no panic of an agent");
        assert_eq!(reported.facts["cpu-governor"], "of agent 0");
        assert_eq!(reported.sysctls["net.ipv4.tcp_rmem"], "of agent 0");
        // those of this host hold for a system under test on it alone
        let has_those_of_host = reported.sysctls.len() > 1;
        assert_eq!(has_those_of_host, !spec.adapter.has_remote_sut(), "{:?}", reported.sysctls);
    }
}

#[test]
fn a_thousand_agents_cost_little_memory_and_little_time() {
    open_file_limit::allow(u64::from(CLIENTS) * 6).expect("enough open files");
    let ends = (1..=CLIENTS).map(|n| Peer::Slurm { node: format!("n{n}"), address: None });
    let on = Interfaces::new(vec!["eth1".to_owned()], ends.collect(), None).expect("interfaces");
    let spec = TestbedSpec::default().on_interfaces(on);
    let workload = Workload { kind: Protocol::Stream, ..Workload::default() };
    let run = RunSpec {
        socket: SocketKnobs { congestion: "cubic".to_owned(), ..SocketKnobs::default() },
        clients: CLIENTS,
        ..RunSpec::new(Task::Workload(workload), WINDOW)
    };
    let before = resident();
    let pairs = (0..=CLIENTS).map(|number| {
        let (here, there) = UnixStream::pair().expect("a stream");
        (here, Fake::new(number, there))
    });
    let (streams, fakes): (Vec<UnixStream>, Vec<Fake>) = pairs.unzip();
    let fakes = std::thread::spawn(move || serve(fakes));
    let ((mut testbed, errors), built) = timed(|| testbed(streams, &spec));
    let held = resident() - before;
    let (outcome, ran) =
        timed(|| validated(&mut testbed, &spec, &run, Purpose::Costs, &mut FirstStacks::default()));
    let measured = outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let memory = resident() - before;
    let (_, ended) = timed(|| drop((errors, testbed)));
    let requests = fakes.join().expect("no panic of an agent");
    println!(
        "{CLIENTS} agents: {} KiB each once they are up, {} KiB with a run; up in {built:.2?}, a run \
         in {ran:.2?}, ended in {ended:.2?}; {requests} requests",
        held / 1024 / u64::from(CLIENTS),
        memory / 1024 / u64::from(CLIENTS),
    );
    assert_eq!(measured.traffic.transmit_bytes, PAYLOAD);
    assert!(memory / u64::from(CLIENTS) <= MEMORY, "{memory} octets in all");
    assert!(ran <= TIME, "{ran:?}");
}
