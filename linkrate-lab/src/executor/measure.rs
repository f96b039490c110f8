//! The measurement of a run: all hosts and adapters count over the same time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use linkrate_agent::absence::Absences;
use linkrate_model::measurement::AdapterEvidence;
use linkrate_model::{CpuSet, RunSpec, Task};
use linkrate_protocol::{MeasureSpec, MeasurementReport, Reply, Request};
use linkrate_study::validity::MeasurementSeen;
use linkrate_sys::clock::monotonic_ns;

use super::event::{self, Missed};
use super::participants::participants;
use super::programs::tend_until;
use super::{programs, warm_up};
use crate::backend::Adapters;
use crate::connection::{AgentError, TIMEOUT};
use crate::peer::{PeerMeasurement, TrafficReport};
use crate::testbed::{Host, Testbed};

/// Time between the request to measure and the start of the measurement, so that every agent has the
/// request in hand when the measurement opens.
const LEAD: Duration = Duration::from_millis(35);

/// The same between machines, beside two round trips, and its maximum.
const FAR_LEAD: Duration = Duration::from_millis(100);
const MAX_LEAD: Duration = Duration::from_secs(2);

pub(super) struct Measured {
    pub(super) sut: MeasurementReport,
    pub(super) clients: Vec<PeerMeasurement>,
    pub(super) adapter: Option<AdapterEvidence>,
    /// What happened at the event of the run.
    pub(super) event: Option<event::Seen>,
    /// Flows that did not move steadily when the measurement began.
    pub(super) unsettled_flows: u32,
    /// The measurement of every host beside the common one.
    pub(super) seen: Vec<MeasurementSeen>,
}

/// Warms up and measures on all hosts and adapters at once.
pub(super) fn measure(
    testbed: &mut Testbed,
    spec: &RunSpec,
    clients: usize,
) -> Result<Measured, Missed> {
    let lead = lead(testbed, clients);
    let begun_ns = monotonic_ns();
    // the controller sleeps through the warm-up; the agents get their request just before the measurement
    let (warm_up, unsettled_flows) = match &spec.task {
        Task::Idle => (Duration::ZERO, 0),
        Task::Workload(workload) => {
            programs::leave_out_begin(testbed, workload, clients)?;
            let warm_up = spec.warm_up.saturating_sub(lead);
            let opens_ns = begun_ns + warm_up.as_nanos() as u64;
            (spec.warm_up, warm_up::hold(testbed, workload, warm_up, opens_ns)?)
        }
    };
    let start_ns =
        (begun_ns + warm_up.as_nanos() as u64).max(monotonic_ns() + lead.as_nanos() as u64);
    let end_ns = start_ns + spec.duration.as_nanos() as u64;
    let sut_interfaces = testbed.sut_interfaces(clients);
    // the ports of an aggregate act as one interface
    let ports = spec.ports.map_or(sut_interfaces.len(), |ports| ports as usize);
    let interfaces: Vec<Vec<String>> = std::iter::once(sut_interfaces)
        .chain(testbed.clients.iter().take(clients).map(|client| vec![client.interface.clone()]))
        .collect();
    let cpus = accounted(testbed, clients);
    let agents = agents_by_machine(testbed, clients);
    let drivers: Vec<u32> =
        testbed.backend.adapters().into_iter().flat_map(Adapters::driver_ids).collect();
    let napi_threads: Vec<u32> =
        testbed.backend.adapters().into_iter().flat_map(Adapters::napi_ids).collect();
    let shared = testbed.placement.is_shared();
    let machines: Vec<String> =
        participants(testbed, clients).map(|host| host.hello.boot_id.clone()).collect();
    let readers = readers(&machines, shared);
    let local = |ns: u64, host: &Host| ns.saturating_add_signed(host.clock_offset_ns);
    for (number, (((host, interfaces), cpus), readers)) in
        participants(testbed, clients).zip(interfaces).zip(cpus).zip(readers).enumerate()
    {
        let (start_ns, end_ns) = (local(start_ns, host), local(end_ns, host));
        host.connection.send(&Request::Measure(MeasureSpec {
            start_ns,
            end_ns,
            interfaces,
            // only the SUT's CPUs are sampled
            profile: spec.profile && number == 0,
            cpus,
            agents: agents.get(&host.hello.boot_id).cloned().unwrap_or_default(),
            readers,
            drivers: if number == 0 { drivers.clone() } else { Vec::new() },
            napi_threads: if number == 0 { napi_threads.clone() } else { Vec::new() },
            samples_often: number > 0 || shared,
            event_ns: spec.event.map(|event| start_ns + event.at.as_nanos() as u64),
        }))?;
    }
    let (connection, adapters) = (&testbed.sut.connection, testbed.backend.adapters());
    let absences = RefCell::new(Absences::from_now(1));
    let wait = |at_ns| wait_watching(&absences, at_ns, |at_ns| connection.sleep_until(at_ns));
    let (interval_ns, sleep_until) =
        ((start_ns, end_ns), |at_ns| tend_until(adapters, at_ns, wait));
    let (adapter, event) = match (spec.event, testbed.backend.adapters()) {
        (Some(event), Some(adapters)) => {
            let (evidence, seen) =
                event::through(adapters, event, ports, interval_ns, sleep_until)?;
            (Some(evidence), Some(seen))
        }
        _ => (testbed.backend.evidence(ports, interval_ns, sleep_until)?, None),
    };
    let timeout = spec.duration + TIMEOUT;
    let mut seen = Vec::new();
    if adapters.is_some() {
        // its threads are the drivers and the devices
        let stalled_ns = absences.borrow().sum_ns();
        seen.push(MeasurementSeen {
            host: "the process of the adapters".to_owned(),
            stalled_ns,
            ..MeasurementSeen::default()
        });
    }
    let mut reports = participants(testbed, clients)
        .map(|host| match host.connection.receive(timeout)? {
            Reply::Measured(report) => {
                seen.push(MeasurementSeen {
                    host: host.name.clone(),
                    opened_off_ns: report.started_ns.abs_diff(local(start_ns, host)),
                    closed_off_ns: report.ended_ns.abs_diff(local(end_ns, host)),
                    stalled_ns: report.stalled_ns,
                });
                Ok(*report)
            }
            _ => Err(host.connection.unexpected("measure")),
        })
        .collect::<Result<Vec<_>, AgentError>>()?
        .into_iter();
    let Some(sut) = reports.next() else {
        return Err(testbed.sut.connection.unexpected("measure").into());
    };
    let mut clients: Vec<PeerMeasurement> = reports.map(PeerMeasurement::from).collect();
    if !testbed.programs.is_empty() {
        clients.push(PeerMeasurement::Traffic(TrafficReport::of_programs(&sut, &[])));
    }
    Ok(Measured { sut, clients, adapter, event, unsettled_flows, seen })
}

/// Waits until `deadline_ns` with `wait`, and looks now and then if this process stalled.
fn wait_watching(
    absences: &RefCell<Absences>,
    deadline_ns: u64,
    wait: impl Fn(u64) -> Result<(), AgentError>,
) -> Result<(), AgentError> {
    loop {
        let next_ns = absences.borrow().next_ns().min(deadline_ns);
        let due_ns = next_ns.max(monotonic_ns());
        wait(next_ns)?;
        absences.borrow_mut().woke(due_ns);
        if next_ns == deadline_ns {
            return Ok(());
        }
    }
}

/// Time between the request to measure and the measurement. Between machines the request may queue behind
/// the traffic of the run.
fn lead(testbed: &mut Testbed, clients: usize) -> Duration {
    if !testbed.placement.apart {
        return LEAD;
    }
    let slowest_ns = participants(testbed, clients).map(|host| host.round_trip_ns).max();
    (FAR_LEAD + Duration::from_nanos(slowest_ns.unwrap_or(0)) * 2).min(MAX_LEAD)
}

/// The process ids of the agents of a run by the boot id of their machine.
fn agents_by_machine(testbed: &mut Testbed, clients: usize) -> BTreeMap<String, Vec<u32>> {
    let mut agents: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for host in participants(testbed, clients) {
        agents.entry(host.hello.boot_id.clone()).or_default().push(host.hello.pid);
    }
    let adapters = testbed.backend.adapters().into_iter().flat_map(|adapters| adapters.agents());
    agents.entry(testbed.sut.hello.boot_id.clone()).or_default().extend(adapters);
    agents
}

/// How many agents read their counters on the CPUs of each one, by the machine of each, the system under test's
/// first: the clients of a machine share CPUs, and with `shared` the system under test has the same ones.
fn readers(machines: &[String], shared: bool) -> Vec<u32> {
    let seats = |number: usize| (machines[number].as_str(), !shared && number == 0);
    let mut readers: BTreeMap<(&str, bool), u32> = BTreeMap::new();
    (0..machines.len()).for_each(|number| *readers.entry(seats(number)).or_default() += 1);
    (0..machines.len()).map(|number| readers[&seats(number)]).collect()
}

/// The CPUs that each agent accounts for, the system under test's first: one agent for the CPUs of
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_a_machine_read_on_the_same_cpus() {
        let machines = ["a", "a", "a", "b"].map(str::to_owned);
        assert_eq!(readers(&machines, false), [1, 2, 2, 1]);
        assert_eq!(readers(&machines, true), [3, 3, 3, 1]);
    }
}
