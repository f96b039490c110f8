//! Observations around a run: is everything still as it was when the run began?
//!
//! Another program may change a knob while a run is measured, and step a clock. The observations go
//! to [`linkrate_study::validity`], which decides whether the run counts.

use std::net::IpAddr;

use linkrate_model::host::Stack;
use linkrate_model::measurement::{LinkEvidence, ThreadTime};
use linkrate_model::{InterfaceKnobs, RunSpec, discipline};
use linkrate_protocol::{AGENT_THREAD, MeasurementReport, Reply, Request};
use linkrate_study::executor::{RunFailure, Stage};
use linkrate_study::study::Purpose;
use linkrate_study::validity::stack::{StackChanged, StackSeen};
use linkrate_study::validity::{
    ClockSeen, DisciplinesSeen, KnobsSeen, MeasurementSeen, Observed, RateSeen,
};
use linkrate_sys::tree::Tree;
use linkrate_sys::{host_settings, stack};

use crate::connection::TIMEOUT;
use crate::executor::ends;
use crate::executor::participants::{failure, participants};
use crate::host::read_clock;
use crate::peer::PeerMeasurement;
use crate::placement::{strayed, strayed_from_one};
use crate::testbed::{ReceiveSteering, Testbed};

/// The state in which a run begins.
#[derive(Debug)]
pub struct Baseline {
    /// Knobs of the system under test's interfaces, as read back.
    pub knobs: InterfaceKnobs,
    /// The links of existing interfaces.
    pub links: Vec<LinkEvidence>,
    /// The flows of the system under test have a CPU each.
    pub is_bound: bool,
    /// The network stacks of the hosts.
    pub stacks: Vec<StackSeen>,
}

/// Observes what has become of the state in which a run began; its measurements were observed already.
pub fn observe(
    testbed: &mut Testbed,
    baseline: &mut Baseline,
    sut: &MeasurementReport,
    peers: &[PeerMeasurement],
    (spec, clients, purpose): (&RunSpec, usize, Purpose),
    intervals: Vec<MeasurementSeen>,
) -> Result<Observed, RunFailure> {
    let ended = stacks(testbed, spec, clients, purpose)?;
    let changes = baseline.stacks.iter().zip(&ended);
    let mut stack: Vec<_> =
        changes.flat_map(|(began, ended)| StackChanged::during(began, ended)).collect();
    // an event takes a link away
    stack.retain(|change| spec.event.is_none() || !change.is_of_a_link());
    let mut rates = model_rates(testbed, clients);
    rates.extend(existing_rates(testbed, &mut baseline.links, clients)?);
    let steered = testbed.receive_steering == ReceiveSteering::Rps;
    let reports = peers
        .iter()
        .zip(&testbed.clients)
        .filter_map(|(report, client)| Some((report.everything()?, &client.host.cpus)));
    let mut astray: Vec<_> =
        reports.flat_map(|(report, cpus)| strayed(&report.cpu.threads, cpus)).collect();
    let is_bound = |thread: &ThreadTime| baseline.is_bound && thread.name != AGENT_THREAD;
    let (bound, free): (Vec<_>, Vec<_>) = sut.cpu.threads.iter().cloned().partition(is_bound);
    astray.extend(strayed_from_one(&bound, &testbed.sut.cpus));
    astray.extend(strayed(&free, &testbed.sut.cpus));
    astray.extend(testbed.backend.strayed(&testbed.placement));
    let mut disciplines = DisciplinesSeen::of(&sut.disciplines);
    for (number, report) in peers.iter().enumerate() {
        let Some(report) = report.everything() else { continue };
        let of_client = report.disciplines.each_ref().map(|all| discipline::of_client(number, all));
        disciplines.extend(DisciplinesSeen::of(&of_client));
    }
    Ok(Observed {
        strayed: astray,
        rescheduled: testbed.backend.rescheduled(),
        knobs: knobs(testbed, &baseline.knobs, clients)?,
        rates,
        clocks: clocks(testbed, clients)?,
        intervals,
        disciplines,
        stack,
        untraced_forks: sut.cpu.parts.is_none().then_some(sut.forks),
        steered_to: steered.then(|| testbed.placement.sut.clone()),
    })
}

/// The name of the machine that this process runs on.
const THIS_MACHINE: &str = "this machine";

/// What the network stacks of the hosts of a run for figures are made of, the system under test's first; and the settings of this
/// machine, if the system under test is on it. Third-party programs at peers do not report. Runs for functions continue whatever
/// changes.
pub fn stacks(
    testbed: &mut Testbed,
    spec: &RunSpec,
    clients: usize,
    purpose: Purpose,
) -> Result<Vec<StackSeen>, RunFailure> {
    if purpose == Purpose::Functions {
        return Ok(Vec::new());
    }
    let family = spec.socket.family;
    let ends = testbed.clients.iter().take(clients).map(|client| ends(client, family));
    let (clients_at, suts_at): (Vec<IpAddr>, Vec<IpAddr>) =
        ends.map(|ends| (ends.client, ends.listener)).unzip();
    let programs = testbed.programs.iter().take(clients);
    let peers = clients_at.into_iter().chain(programs.filter_map(|far| far.address(family)));
    let of_sut =
        Request::ReadStack { interfaces: testbed.sut_interfaces(clients), peers: peers.collect() };
    let of_clients = testbed.clients.iter().take(clients).zip(suts_at);
    let of_clients = of_clients.map(|(client, sut)| Request::ReadStack {
        interfaces: vec![client.interface.clone()],
        peers: vec![sut],
    });
    let requests: Vec<Request> = std::iter::once(of_sut).chain(of_clients).collect();
    let sysctls = testbed.sut.hello.sysctls.clone();
    let boot_id = Tree::of_this_host().text("/proc/sys/kernel/random/boot_id");
    let here = boot_id.as_ref() == Some(&testbed.sut.hello.boot_id);
    let mut seen = Vec::new();
    let failed = |error| failure(Stage::Testbed, error);
    for (host, request) in participants(testbed, clients).zip(&requests) {
        host.connection.send(request).map_err(failed)?;
    }
    for (number, host) in participants(testbed, clients).enumerate() {
        let stack = match host.connection.receive(TIMEOUT).map_err(failed)? {
            Reply::Stack(stack) => *stack,
            _ => return Err(failed(host.connection.unexpected("read-stack"))),
        };
        let host = if number == 0 { "the system under test" } else { &host.name };
        seen.push(StackSeen { host: host.to_owned(), stack });
    }
    if here {
        let mut machine = stack::of_machine();
        // those of its own namespaces are told by the agents
        let shared = host_settings::network_sysctls(&Tree::of_this_host()).into_iter();
        machine.extend(shared.filter(|(name, _)| !sysctls.contains_key(name)));
        let stack = Stack { host: machine, ..Stack::default() };
        seen.push(StackSeen { host: THIS_MACHINE.to_owned(), stack });
    }
    Ok(seen)
}

fn knobs(
    testbed: &mut Testbed,
    baseline: &InterfaceKnobs,
    clients: usize,
) -> Result<Vec<KnobsSeen>, RunFailure> {
    let interfaces = testbed.sut_interfaces(clients).into_iter();
    let seen = interfaces.map(|interface| {
        let after = testbed.backend.read_knobs(&mut testbed.sut, &interface);
        let after = after.map_err(|error| failure(Stage::Knob, error))?;
        Ok(KnobsSeen { interface, before: baseline.clone(), after })
    });
    seen.collect()
}

/// The links of existing interfaces, all of which must be up; none on a testbed that linkrate made.
pub fn links(testbed: &mut Testbed, clients: usize) -> Result<Vec<LinkEvidence>, RunFailure> {
    let (backend, mut hosts) = testbed.with_clients(clients);
    backend.links(&mut hosts).map_err(|error| failure(Stage::Testbed, error))
}

/// Existing links beside the rates at which the run began. Members of bonds and teams keep what they
/// counted since then.
fn existing_rates(
    testbed: &mut Testbed,
    baseline: &mut [LinkEvidence],
    clients: usize,
) -> Result<Vec<RateSeen>, RunFailure> {
    let now = links(testbed, clients)?;
    let seen = baseline.iter_mut().zip(now).map(|(was, is)| {
        let earlier = was.aggregate.take();
        was.aggregate = is.aggregate.map(|now| match earlier {
            Some(earlier) => Box::new(now.since(&earlier)),
            None => now,
        });
        RateSeen { interface: was.interface.clone(), expected: was.rate, seen: is.rate }
    });
    Ok(seen.collect())
}

/// The links of virtual adapters beside their model's rates.
fn model_rates(testbed: &Testbed, clients: usize) -> Vec<RateSeen> {
    // an aggregate has several ports on one interface
    let segments = testbed.topology.segments.iter();
    let aggregated = segments.filter(|segment| segment.aggregate.is_some());
    let ports = aggregated.map(|segment| segment.ports.len()).sum::<usize>();
    testbed.backend.rates(ports.max(testbed.sut_interfaces(clients).len()))
}

/// Every link must run at its model's rate before a run.
pub fn link_rates(testbed: &Testbed, clients: usize) -> Result<(), RunFailure> {
    Ok(model_rates(testbed, clients).iter().try_for_each(RateSeen::check)?)
}

/// Every host's clock beside its offset from the controller's when the host was started.
fn clocks(testbed: &mut Testbed, clients: usize) -> Result<Vec<ClockSeen>, RunFailure> {
    let seen = participants(testbed, clients).map(|host| {
        let (now_ns, _) =
            read_clock(&mut host.connection).map_err(|error| failure(Stage::Measure, error))?;
        Ok(ClockSeen {
            host: host.name.clone(),
            moved_ns: now_ns.saturating_sub(host.clock_offset_ns),
        })
    });
    seen.collect()
}
