//! Runs on real hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use linkrate_agent::protocol::{
    ConnectSpec, FlowFacts, ListenSpec, MeasureSpec, Refusal, Reply, Request, WindowReport, bounds,
};
use linkrate_study::executor::{Executor, Facts, RunFailure, Stage};
use linkrate_study::integrity;
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::sched;
use linkrate_terms::knobs::PortRequest;
use linkrate_terms::measurement::AdapterEvidence;
use linkrate_terms::{
    CpuSet, InterfaceKnobs, Measurement, Offload, RunSpec, SocketKnobs, Task, TestbedSpec, Workload,
};

use crate::LabError;
use crate::adapters::with_port;
use crate::connection::{AgentError, PATIENCE, expect_reply};
use crate::figures::{self, Reports};
use crate::placement::{Placement, strayed};
use crate::profile::{self, Crew};
use crate::recheck;
use crate::standing;
use crate::testbed::{Host, LabOptions, ReceiveSteering, Testbed};

/// Time between the request to measure and the start of the window, so that every agent has the
/// request in hand when the window opens.
const LEAD: Duration = Duration::from_millis(15);

/// The same between machines, beside two round trips, and what it is at most.
const FAR_LEAD: Duration = Duration::from_millis(100);
const LONGEST_LEAD: Duration = Duration::from_secs(2);

/// How far an agent's window may be off, or a tenth of the window where that is more. Each host
/// divides by the time it saw itself, so a shift of a steady flow's window changes nothing; but an
/// agent that is starved for longer has measured something else. With a dozen flows on its CPU it
/// waits for some tens of milliseconds to read its counters.
const SLACK: Duration = Duration::from_millis(100);

/// A lab: a testbed that is built anew when a run has lost it.
#[derive(Debug)]
pub struct Lab {
    spec: TestbedSpec,
    placement: Placement,
    options: LabOptions,
    testbed: Option<Testbed>,
    facts: Facts,
    /// CPUs of the calling thread before the lab took its place.
    home: CpuSet,
}

impl Drop for Lab {
    fn drop(&mut self) {
        // a CPU that has gone offline since is no reason to fail here
        let _ = sched::set_affinity(sched::current_thread(), &self.home);
    }
}

impl Lab {
    /// Builds the testbed and binds the calling thread to the clients' CPUs until the lab is
    /// dropped, so that the controller's own work is not the system under test's. Call it from the main thread before
    /// others are started: hosts die with the thread that built them.
    ///
    /// # Errors
    /// [`LabError`] with the remedy where there is one.
    pub fn build(spec: &TestbedSpec, options: LabOptions) -> Result<Self, LabError> {
        let placement = Placement::choose(spec)?;
        let home = sched::affinity(sched::current_thread())?;
        sched::set_affinity(sched::current_thread(), &placement.controller)?;
        let testbed = Testbed::build(spec, &placement, &options)?;
        let facts = facts(&testbed, spec);
        Ok(Self { spec: spec.clone(), placement, options, testbed: Some(testbed), facts, home })
    }

    /// The testbed, if it is up.
    pub fn testbed(&mut self) -> Option<&mut Testbed> {
        self.testbed.as_mut()
    }

    /// Makes ready to profile runs, so that a host that cannot is told before the first of them.
    ///
    /// # Errors
    /// [`LabError::CannotMeasure`] with what is missing and its remedy.
    pub fn prepare_profile(&mut self) -> Result<(), LabError> {
        match &mut self.testbed {
            Some(testbed) => profile::prepare(testbed).map_err(profile::cannot),
            None => Ok(()),
        }
    }

    fn interrupted(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }
}

impl Executor for Lab {
    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn run(&mut self, spec: &RunSpec) -> Result<Measurement, RunFailure> {
        if self.interrupted() {
            return Err(failure(Stage::Interrupted, AgentError::Interrupted));
        }
        let mut testbed = match self.testbed.take() {
            Some(testbed) => testbed,
            None => {
                Testbed::build(&self.spec, &self.placement, &self.options).map_err(|error| {
                    RunFailure { stage: Stage::Testbed, reason: error.to_string(), fatal: true }
                })?
            }
        };
        let outcome = run_on(&mut testbed, spec).and_then(|measurement| {
            match integrity::check(&self.spec, &measurement) {
                Ok(()) => Ok(measurement),
                Err(reason) => Err(RunFailure { stage: Stage::Measure, reason, fatal: false }),
            }
        });
        // after anything but a knob's own refusal, agents may be in the middle of a run: a
        // testbed is quicker to build anew than to be sure of
        let usable = match &outcome {
            Ok(_) => true,
            Err(failure) => failure.stage == Stage::Knob,
        };
        if usable {
            self.testbed = Some(testbed);
        }
        outcome
    }
}

pub(crate) fn failure(stage: Stage, error: AgentError) -> RunFailure {
    let stage = match error {
        AgentError::Interrupted => Stage::Interrupted,
        AgentError::Lost { .. } => Stage::Agent,
        AgentError::Refused(_) => stage,
    };
    let reason = match &error {
        AgentError::Refused(refusal) => match &refusal.hint {
            Some(hint) => format!("{refusal} (hint: {hint})"),
            None => refusal.to_string(),
        },
        _ => error.to_string(),
    };
    RunFailure { stage, reason, fatal: false }
}

fn run_on(testbed: &mut Testbed, spec: &RunSpec) -> Result<Measurement, RunFailure> {
    let clients = (spec.clients as usize).clamp(1, testbed.clients.len());
    if spec.profile {
        profile::prepare(testbed).map_err(|error| failure(Stage::Measure, error))?;
    }
    let interface = set_knobs(testbed, spec, clients)?;
    recheck::link_rates(testbed, clients)?;
    let links = recheck::links(testbed, clients)?;
    if testbed.placement.apart {
        // clocks of two machines drift apart over a study, and hardly during a run
        for host in participants(testbed, clients) {
            host.read_clock().map_err(|error| failure(Stage::Measure, error))?;
        }
    }
    let (workload, flows) = match &spec.task {
        Task::Idle => (None, None),
        Task::Workload(workload) => {
            let flows = connect(testbed, workload, spec, clients)
                .map_err(|error| failure(Stage::Connect, error))?;
            check_sockets(&spec.socket, workload, &flows)?;
            (Some(workload), Some(flows))
        }
    };
    let measured = |error| failure(Stage::Measure, error);
    // the clients' flows share the controller's CPUs
    let ahead = sched::Ahead::now();
    if workload.is_some() {
        for host in participants(testbed, clients) {
            expect_reply!(host.connection, Request::Begin, Reply::Done => ()).map_err(measured)?;
        }
    }
    let (mut reports, adapter) = window(testbed, spec, clients).map_err(measured)?;
    let mut latency = Vec::new();
    let mut broken = reports.iter().find_map(|report| report.broken.clone());
    if workload.is_some() {
        for host in participants(testbed, clients) {
            let finished = expect_reply!(
                host.connection, Request::Finish, Reply::Finished(finished) => finished
            )
            .map_err(measured)?;
            latency.extend(finished.latency);
            // the flow's own reason says more than that it ended
            if let Some(reason) = finished.broken {
                broken = Some(format!("{}: {reason}", host.name));
            }
        }
    }
    drop(ahead);
    if let Some(reason) = broken {
        return Err(RunFailure { stage: Stage::Measure, reason, fatal: false });
    }
    check_placement(testbed, &reports, clients)?;
    recheck::knobs(testbed, &interface, clients)?;
    recheck::link_rates(testbed, clients)?;
    recheck::same_links(testbed, &links, clients)?;
    recheck::clocks(testbed, clients)?;
    if let Some(port) = testbed.adapters.as_ref().and_then(|adapters| adapters.broken()) {
        let reason = format!("the drivers of port {port} have ended");
        return Err(RunFailure { stage: Stage::Agent, reason, fatal: false });
    }
    let reports = Reports {
        sut: reports.remove(0),
        clients: reports,
        latency,
        flows,
        interface,
        adapter,
        links,
        shared_cpus: testbed.placement.is_shared(),
    };
    let steered = testbed.receive_steering == ReceiveSteering::Rps;
    let astray = steered.then(|| packets_astray(&testbed.placement.sut, &reports.sut)).flatten();
    let mut measurement = figures::measurement(workload, &spec.socket, reports);
    if let Some(profile) = &mut measurement.profile {
        Crew::of(testbed).claim(profile);
    }
    measurement.remarks.extend(astray);
    match workload {
        Some(workload) if !has_traffic(workload, &measurement) => {
            let reason = "nothing arrived in the window".to_owned();
            Err(RunFailure { stage: Stage::Measure, reason, fatal: false })
        }
        _ => Ok(measurement),
    }
}

/// Steering that is set may still not steer: the packets that receive processing handled on the
/// SUT's CPUs must be those its interfaces received, within a twentieth.
fn packets_astray(sut: &CpuSet, report: &WindowReport) -> Option<String> {
    let handled: u64 = report
        .receive_packets_by_cpu
        .iter()
        .filter(|(cpu, _)| sut.contains(**cpu))
        .fold(0, |sum, (_, packets)| sum.saturating_add(*packets));
    let received = report.interface.rx_packets;
    // a few stray packets of the host's own are no sign of anything
    (received > 1000 && handled.abs_diff(received) > received / 20).then(|| {
        "Receive processing on the CPUs of the system under test did not match what its interfaces \
         received: its CPU use may be another's, or part of it elsewhere."
            .to_owned()
    })
}

/// Whether there is anything to divide by: a run that gave nothing has no figures, not zeros.
fn has_traffic(workload: &Workload, measurement: &Measurement) -> bool {
    let traffic = &measurement.traffic;
    if workload.kind.is_transactional() {
        traffic.transactions > 0
    } else {
        traffic.transmit_bytes + traffic.receive_bytes > 0
    }
}

/// The hosts of a run, the system under test first.
pub(crate) fn participants(
    testbed: &mut Testbed,
    clients: usize,
) -> impl Iterator<Item = &mut Host> {
    std::iter::once(&mut testbed.sut)
        .chain(testbed.clients.iter_mut().take(clients).map(|client| &mut client.host))
}

/// Sets the SUT's interfaces as asked. The far end of each wire gets the same MTU and queues, and, when the
/// run is about GRO, cuts its superframes itself: over veth they would otherwise arrive whole and
/// leave GRO nothing to merge.
fn set_knobs(
    testbed: &mut Testbed,
    spec: &RunSpec,
    clients: usize,
) -> Result<InterfaceKnobs, RunFailure> {
    let knob = |error| failure(Stage::Knob, error);
    let interfaces = testbed.sut_interfaces(clients);
    let ports = interfaces.len();
    let standing = testbed.standing.clone();
    for (number, client) in testbed.clients.iter_mut().take(clients).enumerate() {
        // an adapter cuts superframes and has queues of its own, a veth does neither
        let (own_pair, hands_over) = match (&testbed.adapters, &standing) {
            (Some(_), _) => (false, false),
            (None, None) => (true, true),
            (None, Some(standing)) => {
                let facts = standing.clients.get(number);
                (false, facts.is_some_and(|facts| facts.kind.as_deref() == Some("veth")))
            }
        };
        let far_end = InterfaceKnobs {
            mtu: spec.interface.mtu,
            queues: spec.interface.queues.filter(|_| own_pair),
            offload: spec.interface.gro.filter(|_| hands_over).map(|_| Offload::Gso),
            ..InterfaceKnobs::default()
        };
        let request =
            Request::SetKnobs { interfaces: vec![client.interface.clone()], knobs: far_end };
        expect_reply!(client.host.connection, request, Reply::Knobs(_) => ()).map_err(knob)?;
    }
    let mut knobs = spec.interface.clone();
    if let Some(adapters) = &testbed.adapters {
        // what the port itself knows is not the kernel's to set; the virtual MTU is the model's
        knobs.port = PortRequest::default();
        knobs.rx_checksum = None;
        knobs.gso_max_size = knobs.gso_max_size.or(Some(adapters.model().superframe));
        adapters.use_queues(ports, knobs.queues.take()).map_err(|error| RunFailure {
            stage: Stage::Knob,
            reason: format!("knob \"queues\": {error}"),
            fatal: false,
        })?;
    }
    let request = Request::SetKnobs { interfaces: interfaces.clone(), knobs };
    let effective = expect_reply!(testbed.sut.connection, request, Reply::Knobs(knobs) => knobs)
        .map_err(knob)?;
    if standing.is_some() {
        // some drivers take the link down for a setting, and it takes seconds to come back
        for name in interfaces {
            let request = Request::AwaitLink { name };
            expect_reply!(testbed.sut.connection, request, Reply::Done => ()).map_err(knob)?;
        }
        for client in testbed.clients.iter_mut().take(clients) {
            let request = Request::AwaitLink { name: client.interface.clone() };
            expect_reply!(client.host.connection, request, Reply::Done => ()).map_err(knob)?;
        }
    }
    let Some(adapters) = &testbed.adapters else { return Ok(effective) };
    Ok(with_port(effective, adapters.set_knobs(ports, &spec.interface)))
}

/// Lets the SUT listen and every client connect. Returns what the SUT's sockets have.
fn connect(
    testbed: &mut Testbed,
    workload: &Workload,
    spec: &RunSpec,
    clients: usize,
) -> Result<FlowFacts, AgentError> {
    // any number that a stray connection does not guess
    let nonce = spec.seed ^ monotonic_ns().rotate_left(32);
    let shared_cpus = testbed.placement.is_shared();
    let listeners = match &testbed.adapters {
        Some(adapters) if adapters.steers_by_port(spec) => {
            let flows = workload.flows(clients as u32).max(1);
            bounds::LISTENERS.min(u32::try_from(flows).unwrap_or(u32::MAX))
        }
        _ => 1,
    };
    let listen = Request::Listen(ListenSpec {
        workload: workload.clone(),
        socket: spec.socket.clone(),
        clients: clients as u32,
        listeners,
        nonce,
        seed: spec.seed,
        shared_cpus,
    });
    let ports = expect_reply!(
        testbed.sut.connection, listen, Reply::Listening { ports } => ports
    )?;
    for (number, client) in testbed.clients.iter_mut().take(clients).enumerate() {
        let connect = Request::Connect(ConnectSpec {
            workload: workload.clone(),
            socket: spec.socket.clone(),
            client: number as u32,
            address: client.sut_address,
            ports: ports.clone(),
            nonce,
            seed: spec.seed,
            shared_cpus,
        });
        expect_reply!(client.host.connection, connect, Reply::Flows(_) => ())?;
    }
    expect_reply!(testbed.sut.connection, Request::AwaitFlows, Reply::Flows(facts) => facts)
}

/// A socket whose options read back as something else fails the run by the option's name.
fn check_sockets(
    asked: &SocketKnobs,
    workload: &Workload,
    effective: &FlowFacts,
) -> Result<(), RunFailure> {
    let differs = |knob: &str, asked: &dyn std::fmt::Display, is: &dyn std::fmt::Display| {
        let reason = format!("knob \"{knob}\": requested {asked}, effective is {is}");
        Err(RunFailure { stage: Stage::Knob, reason, fatal: false })
    };
    if workload.kind.is_udp() {
        return Ok(());
    }
    if effective.congestion != asked.congestion {
        return differs("congestion", &asked.congestion, &effective.congestion);
    }
    if effective.nodelay != asked.nodelay {
        return differs("nodelay", &asked.nodelay, &effective.nodelay);
    }
    Ok(())
}

/// Warms up and measures on all hosts and adapters at once. The SUT's report comes first.
fn window(
    testbed: &mut Testbed,
    spec: &RunSpec,
    clients: usize,
) -> Result<(Vec<WindowReport>, Option<AdapterEvidence>), AgentError> {
    let warm_up = if spec.task == Task::Idle { Duration::ZERO } else { spec.warm_up };
    let lead = lead(testbed, clients);
    let begun = monotonic_ns();
    // the warm-up is slept here, the agents get their request just before the window
    testbed.sut.connection.pause_until(begun + warm_up.saturating_sub(lead).as_nanos() as u64)?;
    let start_ns = (begun + warm_up.as_nanos() as u64).max(monotonic_ns() + lead.as_nanos() as u64);
    let end_ns = start_ns + spec.window.as_nanos() as u64;
    let sut_interfaces = testbed.sut_interfaces(clients);
    let ports = sut_interfaces.len();
    let interfaces: Vec<Vec<String>> = std::iter::once(sut_interfaces)
        .chain(testbed.clients.iter().take(clients).map(|client| vec![client.interface.clone()]))
        .collect();
    let cpus = accounted(testbed, clients);
    let local = |ns: u64, host: &Host| ns.saturating_add_signed(host.clock_offset_ns);
    for (number, ((host, interfaces), cpus)) in
        participants(testbed, clients).zip(interfaces).zip(cpus).enumerate()
    {
        let (start_ns, end_ns) = (local(start_ns, host), local(end_ns, host));
        host.connection.send(&Request::Measure(MeasureSpec {
            start_ns,
            end_ns,
            interfaces,
            // what a client's CPUs do is not asked
            profile: spec.profile && number == 0,
            cpus,
        }))?;
    }
    let adapter = match &testbed.adapters {
        Some(adapters) => {
            let connection = &testbed.sut.connection;
            connection.sleep_until(start_ns)?;
            let opened = adapters.read();
            connection.sleep_until(end_ns)?;
            let closed = adapters.read();
            Some(adapters.evidence(&opened, &closed, ports))
        }
        None => None,
    };
    let patience = spec.window + PATIENCE;
    let slack_ns = (spec.window.as_nanos() as u64 / 10).max(SLACK.as_nanos() as u64);
    let reports: Result<Vec<_>, _> = participants(testbed, clients)
        .map(|host| match host.connection.receive(patience)? {
            Reply::Window(report) => {
                let opened_ns = report.started_ns.abs_diff(local(start_ns, host));
                let closed_ns = report.ended_ns.abs_diff(local(end_ns, host));
                if opened_ns.max(closed_ns) > slack_ns {
                    let ms = |ns: u64| ns / 1_000_000;
                    let reason = format!(
                        "{}: its window opened {} ms and closed {} ms off the common one, expected \
                         at most {} ms",
                        host.name,
                        ms(opened_ns),
                        ms(closed_ns),
                        ms(slack_ns)
                    );
                    return Err(AgentError::Refused(Refusal { reason, hint: None }));
                }
                Ok(*report)
            }
            _ => Err(host.connection.unexpected("measure")),
        })
        .collect();
    Ok((reports?, adapter))
}

/// How long before the window agents are told of it. Between machines the request may have to wait
/// behind the traffic it is about.
fn lead(testbed: &mut Testbed, clients: usize) -> Duration {
    if !testbed.placement.apart {
        return LEAD;
    }
    let slowest_ns = participants(testbed, clients).map(|host| host.round_trip_ns).max();
    (FAR_LEAD + Duration::from_nanos(slowest_ns.unwrap_or(0)) * 2).min(LONGEST_LEAD)
}

/// Whose CPUs each agent accounts for, the system under test's first: one agent for the CPUs of
/// each role on each machine.
fn accounted(testbed: &mut Testbed, clients: usize) -> Vec<CpuSet> {
    let shared = testbed.placement.is_shared();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    participants(testbed, clients)
        .enumerate()
        .map(|(number, host)| {
            let first = number == 0 || seen.insert(host.hello.boot_id.clone());
            let own = number == 0 || !shared;
            if first && own { host.cpus.clone() } else { CpuSet::default() }
        })
        .collect()
}

/// Every thread must have stayed on the CPUs of its role.
fn check_placement(
    testbed: &Testbed,
    reports: &[WindowReport],
    clients: usize,
) -> Result<(), RunFailure> {
    let roles = std::iter::once(&testbed.sut.cpus)
        .chain(testbed.clients.iter().take(clients).map(|client| &client.host.cpus));
    let adapters = testbed.adapters.as_ref();
    let astray = reports
        .iter()
        .zip(roles)
        .find_map(|(report, cpus)| strayed(&report.cpu.threads, cpus))
        .or_else(|| adapters.and_then(|adapters| adapters.strayed(&testbed.placement)));
    match astray {
        Some(reason) => Err(RunFailure { stage: Stage::Measure, reason, fatal: false }),
        None => Ok(()),
    }
}

fn facts(testbed: &Testbed, spec: &TestbedSpec) -> Facts {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let hello = &testbed.sut.hello;
    let steering = match &testbed.receive_steering {
        ReceiveSteering::Rps => "receive packet steering to the CPUs of the receiving host",
        ReceiveSteering::NotNeeded if testbed.adapters.is_some() => {
            "in the driver threads, on the CPUs of the receiving host"
        }
        ReceiveSteering::NotNeeded => "not steered: all on the same CPUs",
        ReceiveSteering::WholeMachines => "not steered: hosts have all CPUs of their machines",
        ReceiveSteering::Interrupts => "interrupts of adapters on the CPUs of the receiving host",
        ReceiveSteering::Unavailable(_) => "not steered: on the CPU of the sender",
    };
    let mut facts = BTreeMap::from(
        [
            ("kernel", hello.kernel.clone()),
            ("cpu-model", hello.cpu_model.clone()),
            ("online-cpus", hello.online_cpus.to_string()),
            ("sut-cpus", testbed.placement.sut.to_string()),
            ("client-cpus", testbed.placement.clients.to_string()),
            ("clients", spec.clients.to_string()),
            ("adapter", spec.adapter.name().to_owned()),
            (
                "plain-payload",
                "sent from and received into one region of 16 KiB, over and over".to_owned(),
            ),
            (
                "shared-cpus",
                if testbed.placement.is_shared() {
                    "yes: stream receivers are batch threads, plain senders yield every 512 KiB"
                } else {
                    "no"
                }
                .to_owned(),
            ),
            ("receive-processing", steering.to_owned()),
            ("idle-time", testbed.idle_source.name().to_owned()),
            (
                "clock-source",
                read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            ),
            ("default-congestion", read("/proc/sys/net/ipv4/tcp_congestion_control")),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    facts.extend(standing::facts(testbed));
    let mut warnings = testbed.placement.warnings();
    warnings.extend(testbed.standing.iter().flat_map(|standing| standing.warnings.clone()));
    if let ReceiveSteering::Unavailable(reason) = &testbed.receive_steering {
        warnings.push(format!(
            "receive processing could not be steered to the receiving host's CPUs, so the sender's \
             CPU pays for it: {reason}"
        ));
    }
    Facts { facts, warnings }
}
