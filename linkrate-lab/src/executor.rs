//! Runs on hosts: knobs are set, flows connect, all hosts count over one measurement, and the checks
//! after it decide whether the run counts.

mod contention;
pub(crate) mod event;
mod facts;
mod measure;
pub(crate) mod participants;
mod programs;
#[cfg(test)]
mod scale;
#[cfg(any(test, fuzzing))]
pub mod scripted;
mod sockets;
mod warm_up;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use linkrate_model::knobs::Toe;
use linkrate_model::measurement::AdapterEvidence;
use linkrate_model::{Family, Measurement, RunSpec, Task, TestbedSpec};
use linkrate_protocol::{Latencies, Reply, Request, UnexpectedPeers};
use linkrate_study::executor::{Executor, Facts, RunFailure, Stage};
use linkrate_study::study::Purpose;
use linkrate_study::validity::stack::{FirstStacks, StackChanged};
use linkrate_study::validity::{self, Observed, Rejection, Validity};
use linkrate_sys::sched;

use crate::backend::Backend;
use crate::backend::adapters::{Adapters, Faults};
use crate::connection::{AgentError, expect_reply};
use crate::error::{LabError, lacks_privilege};
use crate::measurement::{self, Reports};
use crate::observe::{self, Baseline};
use crate::options::LabOptions;
use crate::peer::{PeerMeasurement, TrafficReport, agents};
use crate::placement::CpuSlot;
use crate::profile::{self, ProfiledThreads};
use crate::testbed::Testbed;

use contention::Calibration;
use event::Missed;
use measure::Measured;
use participants::{failure, participants};
pub(crate) use sockets::ends;

/// A lab: a testbed that is built again when a run has lost it.
#[derive(Debug)]
pub struct Lab {
    spec: TestbedSpec,
    options: LabOptions,
    testbed: Option<Testbed>,
    /// What the testbed was built as.
    built: TestbedSpec,
    facts: Facts,
    /// What was measured of the machine before the first run.
    measured: Calibration,
    /// What the network stacks were made of in the first runs.
    stacks: FirstStacks,
    slot: CpuSlot,
}

impl Lab {
    /// Builds the testbed and binds the calling thread to the controller's CPUs until the lab is
    /// dropped. Call it from the main thread before other threads start: hosts die with the thread
    /// that built them.
    pub fn build(spec: &TestbedSpec, options: LabOptions) -> Result<Self, LabError> {
        let slot = CpuSlot::take(spec)?;
        let mut testbed = Testbed::build(spec, &slot.placement, &options)?;
        let mut measured = Calibration::default();
        measured.complete(&mut testbed, options.purpose);
        let mut facts = facts::facts(&testbed, spec, &measured);
        if options.purpose == Purpose::Functions {
            facts.warnings.push(
                "the runs are for functions: other programs may have run beside them, so rates and costs say little"
                    .to_owned(),
            );
        }
        let (spec, built) = (spec.clone(), spec.clone());
        let (testbed, stacks) = (Some(testbed), FirstStacks::default());
        Ok(Self { spec, options, testbed, built, facts, measured, stacks, slot })
    }

    /// The testbed, if it is up.
    pub fn testbed(&mut self) -> Option<&mut Testbed> {
        self.testbed.as_mut()
    }

    /// Prepares to profile runs, so that a host that cannot profile fails before the first run.
    pub fn prepare_profile(&mut self) -> Result<(), LabError> {
        match &mut self.testbed {
            Some(testbed) => profile::prepare(testbed).map_err(profile::cannot),
            None => Ok(()),
        }
    }

    /// Tries on existing interfaces what the first run needs: the knobs, and programs at the peers.
    pub fn rehearse(&mut self, first: &RunSpec) -> Result<(), LabError> {
        let Some(testbed) = &mut self.testbed else { return Ok(()) };
        if !matches!(testbed.backend, Backend::Existing(_)) {
            return Ok(());
        }
        let clients = (first.clients as usize).clamp(1, testbed.most_clients().max(1));
        let mut programs = testbed.programs.iter_mut().take(clients);
        programs.try_for_each(|program| program.reach(first.socket.family))?;
        let (backend, mut hosts) = testbed.with_clients(clients);
        match backend.set_knobs(&mut hosts, &first.interface) {
            Err(LabError::Agent(AgentError::Refused(refused)))
                if lacks_privilege(&refused.reason) =>
            {
                Err(LabError::CannotMeasure {
                    what: refused.to_string(),
                    hint: Some(
                        "run as root: only root may change settings of an interface".to_owned(),
                    ),
                })
            }
            // a knob that an interface refuses is a result of its cell
            _ => Ok(()),
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
        let on = self.spec.of_run(spec);
        // the background load does not depend on the adapter
        let stays = spec.task == Task::Idle || on.adapter == self.built.adapter;
        let mut testbed = match self.testbed.take().filter(|_| stays) {
            Some(testbed) => testbed,
            None => {
                self.built = on.into_owned();
                let placement = &self.slot.placement;
                Testbed::build(&self.built, placement, &self.options).map_err(|error| {
                    RunFailure { fatal: true, ..RunFailure::at(Stage::Testbed, error.to_string()) }
                })?
            }
        };
        self.measured.complete(&mut testbed, self.options.purpose);
        let purpose = self.options.purpose;
        let outcome = validated(&mut testbed, &self.built, spec, purpose, &mut self.stacks);
        // after any failure except the refusal of a knob, agents may be in the middle of a run, and
        // a new testbed is quicker than making sure; and so it is where others changed something
        let usable = match &outcome {
            Ok(_) => true,
            Err(failure) => failure.stage == Stage::Knob && !failure.disturbed,
        };
        if usable {
            self.testbed = Some(testbed);
        }
        outcome
    }

    fn rebuild(&mut self) {
        self.testbed = None;
    }
}

/// Carries out one run and judges its figures.
fn validated(
    testbed: &mut Testbed,
    on: &TestbedSpec,
    spec: &RunSpec,
    purpose: Purpose,
    first: &mut FirstStacks,
) -> Result<Measurement, RunFailure> {
    let (mut measured, observed) = run_on(testbed, on, spec, purpose, first)?;
    let run =
        validity::Run { testbed: on, spec, purpose, measured: &measured, observed: &observed };
    match validity::judge(&run) {
        Validity::Valid { remarks } => {
            measured.remarks.extend(remarks);
            Ok(measured)
        }
        Validity::Disturbed(rejection) => Err(rejection.disturbance()),
        Validity::Rejected(rejection) => Err(rejection.into()),
    }
}

/// Carries out one run. Its figures count only if [`validity`] says so.
fn run_on(
    testbed: &mut Testbed,
    on: &TestbedSpec,
    spec: &RunSpec,
    purpose: Purpose,
    first: &mut FirstStacks,
) -> Result<(Measurement, Observed), RunFailure> {
    let clients = (spec.clients as usize).clamp(1, testbed.most_clients().max(1));
    if spec.profile {
        profile::prepare(testbed).map_err(|error| failure(Stage::Measure, error))?;
    }
    let noise = testbed.backend.adapters().and_then(Adapters::drain);
    // before anything is set
    let bind =
        sockets::bound_cpus(testbed, spec, clients).map_err(|error| failure(Stage::Knob, error))?;
    let is_bound = !bind.is_empty();
    let (backend, mut hosts) = testbed.with_clients(clients);
    let interface = backend
        .set_knobs(&mut hosts, &spec.interface)
        .map_err(|error| failure(Stage::Knob, error))?
        .common();
    let ready = match spec.event {
        // what failed in earlier runs must not count in this one
        Some(_) => backend.begin_anew(),
        None => backend.await_ports(),
    };
    ready.map_err(|error| failure(Stage::Knob, error))?;
    if spec.socket.family == Family::Ipv6 {
        // test sockets choose their congestion control themselves
        testbed.reach_over_ipv6(clients, None).map_err(|error| failure(Stage::Knob, error))?;
    }
    let stacks = observe::stacks(testbed, spec, clients, purpose)?;
    let changes = stacks.iter().flat_map(|seen| first.changes(spec, &on.adapter, seen));
    let changes: Vec<_> = changes.collect();
    changes.iter().try_for_each(StackChanged::check).map_err(Rejection::disturbance)?;
    observe::link_rates(testbed, clients)?;
    let links = observe::links(testbed, clients)?;
    if testbed.placement.apart {
        // clocks of two machines drift apart over a study, but hardly during a run
        for host in participants(testbed, clients) {
            host.read_clock().map_err(|error| failure(Stage::Measure, error))?;
        }
    }
    let (workload, flows, by_address) = match &spec.task {
        Task::Idle => (None, None, Vec::new()),
        Task::Workload(workload) => {
            let connected = match testbed.programs.is_empty() {
                true => sockets::connect(testbed, workload, spec, clients, &bind)
                    .map_err(LabError::from),
                false => programs::connect(testbed, workload, spec, clients, &bind)
                    .map(|flows| (flows, Vec::new())),
            };
            let (flows, by_address) = connected.map_err(|error| failure(Stage::Connect, error))?;
            (Some(workload), Some(flows), by_address)
        }
    };
    let moves = |error: LabError| failure(Stage::Connect, error);
    if workload.is_some()
        && let Some(adapters) = testbed.backend.adapters()
        && interface.port.toe.is_some_and(|toe| toe != Toe::Off)
    {
        adapters.attend(&mut testbed.sut).map_err(moves)?;
        if adapters.offloads(&interface) {
            adapters.offload_all(&mut testbed.sut).map_err(moves)?;
        }
    }
    let lossy = workload.is_some() && spec.loss_ppm > 0;
    if lossy {
        // connections are made, and moved, without it
        set_loss(testbed, spec.loss_ppm, spec.seed)?;
    }
    let measured = |error| failure(Stage::Measure, error);
    // the clients' flows share the controller's CPUs
    let ahead = sched::Ahead::now();
    if workload.is_some() {
        for host in participants(testbed, clients) {
            host.order(&Request::Begin).map_err(measured)?;
        }
    }
    let Measured { sut, clients: mut peers, adapter, event, unsettled_flows, seen: windows } =
        measure::measure(testbed, spec, clients).map_err(|missed| match missed {
            Missed::Agent(error) => measured(error),
            Missed::Fault(error) => failure(Stage::Measure, error),
        })?;
    // frames of IPv6 have no identification that tells their order
    let order_known = spec.socket.family.is_ipv4();
    let adapter = adapter.map(|of| AdapterEvidence {
        frames_overtaken: of.frames_overtaken.filter(|_| order_known),
        ..of
    });
    let (mut latency, mut unexpected_peers) = (Timed::default(), UnexpectedPeers::default());
    let mut parts = vec![Timed::default(); workload.map_or(0, |workload| workload.mix.len())];
    let mut broken = agents(&sut, &peers).find_map(|report| report.broken.clone());
    if let Some(workload) = workload.filter(|_| broken.is_none()) {
        programs::wind_up(testbed, workload, clients)
            .map_err(|error| failure(Stage::Measure, error))?;
    }
    if workload.is_some() {
        for host in participants(testbed, clients) {
            let finished = expect_reply!(
                host.connection, Request::Finish, Reply::Finished(finished) => finished
            )
            .map_err(measured)?;
            // an agent whose flows all run the first workload does not tell workloads apart
            let first = finished.parts.is_empty().then_some(&finished.latency);
            for (part, of_host) in parts.iter_mut().zip(first.into_iter().chain(&finished.parts)) {
                part.add(of_host);
            }
            latency.add(&finished.latency);
            unexpected_peers.refused =
                unexpected_peers.refused.saturating_add(finished.unexpected_peers.refused);
            unexpected_peers.addresses.extend(finished.unexpected_peers.addresses);
            // the reason that the flow gives is more precise
            if let Some(reason) = finished.broken {
                broken = Some(format!("{}: {reason}", host.name));
            }
        }
    }
    drop(ahead);
    if lossy {
        set_loss(testbed, 0, 0)?;
    }
    testbed.backend.adapters().map_or(Ok(()), Adapters::forget_connections).map_err(moves)?;
    if let Some(reason) = broken {
        return Err(RunFailure::at(Stage::Measure, reason));
    }
    let reported = match workload {
        Some(_) => {
            programs::reported(testbed, clients).map_err(|error| failure(Stage::Measure, error))?
        }
        None => Vec::new(),
    };
    if !reported.is_empty() {
        // of datagrams, what arrived is known only now
        peers = vec![PeerMeasurement::Traffic(TrafficReport::of_programs(&sut, &reported))];
    }
    let mut baseline = Baseline { knobs: interface, links, is_bound, stacks };
    let asked = (spec, clients, purpose);
    let observed = observe::observe(testbed, &mut baseline, &sut, &peers, asked, windows)?;
    if let Some(reason) = testbed.backend.broken() {
        return Err(RunFailure::at(Stage::Agent, reason));
    }
    let reports = Reports {
        sut,
        clients: peers,
        latency: latency.together(),
        parts: parts.into_iter().map(Timed::together).collect(),
        flows,
        by_address,
        interface: baseline.knobs,
        adapter,
        event: spec.event.zip(event),
        links: baseline.links,
        unsettled_flows,
        told: reported,
        shared_cpus: testbed.placement.is_shared(),
    };
    let mut measurement = measurement::of_reports(workload, &spec.socket, reports);
    measurement.remarks.extend(remark(&unexpected_peers));
    measurement.remarks.extend(noise.map(|octets| {
        format!("the links were not silent before the run: {octets} octets in 5 ms")
    }));
    if let Some(profile) = &mut measurement.profile {
        ProfiledThreads::of(testbed).claim(profile);
    }
    Ok((measurement, observed))
}

/// The latencies of several hosts: how often each occurred. The number of hosts does not change its size: all of them
/// count in the same steps.
#[derive(Debug, Clone, Default)]
struct Timed {
    all: BTreeMap<u64, u64>,
    open: BTreeMap<u64, u64>,
}

impl Timed {
    fn add(&mut self, of_host: &Latencies) {
        for (sum, steps) in [(&mut self.all, &of_host.all), (&mut self.open, &of_host.open)] {
            for (ns, count) in steps {
                let counted = sum.entry(*ns).or_default();
                *counted = counted.saturating_add(*count);
            }
        }
    }

    fn together(self) -> Latencies {
        Latencies { all: self.all.into_iter().collect(), open: self.open.into_iter().collect() }
    }
}

/// Lets the links of virtual adapters lose that share of frames or cells, in millionths; 0 ends it.
fn set_loss(testbed: &Testbed, ppm: u32, seed: u64) -> Result<(), RunFailure> {
    let faults = Faults { loss: f64::from(ppm) / 1e6, seed, ..Faults::default() };
    let set = testbed.backend.adapters().map(|adapters| adapters.set_faults(faults));
    set.unwrap_or(Ok(())).map_err(|error| failure(Stage::Knob, error))
}

/// A remark about connections and datagrams of others on the test sockets.
fn remark(unexpected_peers: &UnexpectedPeers) -> Option<String> {
    if unexpected_peers.refused == 0 {
        return None;
    }
    let addresses: Vec<String> =
        unexpected_peers.addresses.iter().map(ToString::to_string).collect();
    Some(format!(
        "test sockets refused {} connections or datagrams that did not belong to the run, from {}",
        unexpected_peers.refused,
        addresses.join(", ")
    ))
}
