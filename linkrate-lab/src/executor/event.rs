//! The event of a run: a port fails at its moment while all hosts measure, and recovers.
//!
//! The controller sleeps through the measurement anyway, on the CPUs of the clients. It injects the fault
//! when its moment has come, writes down the true moment, and reads the octets of the ports in equal
//! steps.

use linkrate_adapter::Decision;
use linkrate_model::failure::PortTimeline;
use linkrate_model::measurement::AdapterEvidence;
use linkrate_model::{Event, Fault, RunSpec};
use linkrate_protocol::{RecordSpec, bounds};
use linkrate_sys::clock::monotonic_ns;

use crate::backend::Adapters;
use crate::backend::adapters::FailedPort;
use crate::connection::AgentError;
use crate::error::LabError;

/// Time between two polls of the ports, and the length of a slot of the timeline, ns.
pub(crate) const STEP_NS: u64 = 10_000_000;

/// Most steps in a measurement.
const MAX_STEPS: u64 = 2000;

/// Length of the slots in which receivers count bytes, and the longest time between two bytes that is
/// not seen as a gap, µs.
const SLOT_US: u64 = 250;

/// Most slots of a flow.
const MAX_SLOTS: u64 = 40_000;

/// The slots of the records of a run with that many flows.
pub(super) fn record(spec: &RunSpec, flows: u64) -> Option<RecordSpec> {
    spec.event?;
    let interval_us = u64::try_from(spec.duration.as_micros()).unwrap_or(u64::MAX);
    let most = MAX_SLOTS.min(bounds::ALL_SLOTS / flows.max(1)).max(1);
    let slot_us = SLOT_US.max(interval_us.div_ceil(most));
    let slots = interval_us.div_ceil(slot_us);
    Some(RecordSpec {
        slots: u32::try_from(slots).unwrap_or(u32::MAX),
        slot_us: u32::try_from(slot_us).unwrap_or(u32::MAX),
    })
}

/// What the controller saw of an event. Times are CLOCK_MONOTONIC in ns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) port: String,
    /// When the measurement opened and closed.
    pub(crate) interval_ns: (u64, u64),
    pub(crate) at_ns: u64,
    pub(crate) recovered_ns: Option<u64>,
    pub(crate) host_detected_ns: Option<u64>,
    pub(crate) switch_detected_ns: Option<u64>,
    pub(crate) host_moved_ns: Option<u64>,
    pub(crate) switch_moved_ns: Option<u64>,
    pub(crate) frames_lost: u64,
    pub(crate) frames_reordered: u64,
    /// Length of a slot of the ports.
    pub(crate) step_ns: u64,
    pub(crate) ports: Vec<PortTimeline>,
}

/// Why an event did not come to its end.
pub(super) enum Missed {
    /// The user interrupted, or an agent is lost.
    Agent(AgentError),
    /// The fault could not be injected.
    Fault(LabError),
}

impl From<AgentError> for Missed {
    fn from(error: AgentError) -> Self {
        Self::Agent(error)
    }
}

impl From<LabError> for Missed {
    fn from(error: LabError) -> Self {
        Self::Fault(error)
    }
}

/// Carries out `event` in the measurement, with the first `ports` ports, and waits with `sleep_until`. In the
/// end the port works again.
pub(super) fn through(
    adapters: &Adapters,
    event: Event,
    ports: usize,
    (start_ns, end_ns): (u64, u64),
    sleep_until: impl Fn(u64) -> Result<(), AgentError>,
) -> Result<(AdapterEvidence, Seen), Missed> {
    let prepared = adapters.prepare(event.fault)?;
    let order = adapters.count_reordering()?;
    let mut failed_port: Option<FailedPort<'_>> = None;
    let moment = |after: std::time::Duration| start_ns + after.as_nanos() as u64;
    // what is due, in the order of time: the last is next
    let mut due: Vec<(u64, bool)> = vec![(moment(event.at), true)];
    due.extend(event.recover.map(|recover| (moment(recover), false)));
    due.reverse();
    let interval_ns = end_ns.saturating_sub(start_ns);
    let step_ns = STEP_NS.max(interval_ns.div_ceil(MAX_STEPS));
    let mut timelines: Vec<PortTimeline> = Vec::new();
    let (mut at_ns, mut recovered_ns) = (0, None);

    sleep_until(start_ns)?;
    let opened = adapters.read();
    let lost_before = adapters.lost();
    let first: Vec<u64> = adapters.octets(ports).map(|(_, octets)| octets).collect();
    let late_before = order.late();
    let mut before = first.clone();
    for (name, _) in adapters.octets(ports) {
        timelines.push(PortTimeline { port: name.to_owned(), octets: Vec::new() });
    }
    for step in 1..=interval_ns / step_ns {
        let next_ns = start_ns + step * step_ns;
        while let Some((when_ns, fails)) = due.pop_if(|(when_ns, _)| *when_ns <= next_ns) {
            sleep_until(when_ns)?;
            let octets = adapters.octets(ports).zip(&first);
            let carried: Vec<u64> =
                octets.map(|((_, now), first)| now.wrapping_sub(*first)).collect();
            let now_ns = monotonic_ns();
            if fails {
                failed_port = prepared.choose(&carried);
                failed_port.as_ref().map_or(Ok(()), FailedPort::fail)?;
                at_ns = now_ns;
            } else {
                failed_port.as_ref().map_or(Ok(()), FailedPort::recover)?;
                recovered_ns = Some(now_ns);
            }
        }
        sleep_until(next_ns)?;
        for (timeline, (before, (_, now))) in
            timelines.iter_mut().zip(before.iter_mut().zip(adapters.octets(ports)))
        {
            timeline.octets.push(now.wrapping_sub(std::mem::replace(before, now)));
        }
    }
    sleep_until(end_ns)?;
    let closed = adapters.read();
    let frames_lost = adapters.lost().wrapping_sub(lost_before);
    let frames_reordered = order.late().saturating_sub(late_before);
    let failed_port = failed_port.ok_or_else(|| nothing_failed(event.fault))?;
    let (decisions, moved) = (failed_port.decisions(at_ns), failed_port.moved());
    if recovered_ns.is_none() {
        failed_port.recover()?;
    }
    let until_ns = recovered_ns.unwrap_or(end_ns);
    let detected = |decisions: &[Decision]| {
        let without = |decision: &&Decision| {
            decision.at_ns <= until_ns && decision.leaves_out(failed_port.place())
        };
        Some(decisions.iter().find(without)?.at_ns)
    };
    let [host, switch] = decisions.unwrap_or_default();
    let [host_moved, switch_moved] = moved.map(|at_ns| at_ns.filter(|at_ns| *at_ns <= until_ns));
    let [host_detected, switch_detected] = [detected(&host), detected(&switch)];
    // the line of the other port was idle: a frame that was there before the decision, and waited for
    // its device thread, has its time on that line
    let not_before = |moved: Option<u64>, detected: Option<u64>| {
        moved.map(|at_ns| at_ns.max(detected.unwrap_or_default()))
    };
    let seen = Seen {
        port: failed_port.name().to_owned(),
        interval_ns: (start_ns, end_ns),
        at_ns,
        recovered_ns,
        host_detected_ns: host_detected,
        switch_detected_ns: switch_detected,
        host_moved_ns: not_before(host_moved, host_detected),
        // the switch of a failover group only follows the host
        switch_moved_ns: not_before(switch_moved, switch_detected.or(host_detected)),
        frames_lost,
        frames_reordered,
        step_ns,
        ports: timelines,
    };
    let evidence = adapters.evidence(&opened, &closed, ports);
    Ok((AdapterEvidence { frames_overtaken: Some(frames_reordered), ..evidence }, seen))
}

/// The error of a run in whose measurement nothing could fail.
fn nothing_failed(fault: Fault) -> LabError {
    let (why, hint) = match fault {
        Fault::Switch => (
            ": the traffic took the other switch",
            "use mode failover, and leave out revert, or set preferred-port to 0",
        ),
        _ => ("", "give the testbed a port, or an aggregate of two"),
    };
    LabError::Invalid {
        what: format!("event {}: no port could fail{why}", fault.word()),
        hint: hint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use linkrate_model::Task;

    use super::*;

    fn run(interval: Duration) -> RunSpec {
        let event = Event { fault: Fault::Carrier, at: interval / 4, recover: None };
        RunSpec { ports: Some(1), event: Some(event), ..RunSpec::new(Task::Idle, interval) }
    }

    #[test]
    fn records_are_fine_and_bounded() {
        let of = |seconds, flows| {
            let spec = record(&run(Duration::from_secs(seconds)), flows).unwrap();
            (spec.slots, spec.slot_us)
        };
        assert_eq!(of(4, 8), (16_000, 250));
        assert_eq!(of(3600, 1), (40_000, 90_000));
        let (slots, slot_us) = of(10, 4096);
        assert!(u64::from(slots) * 4096 <= bounds::ALL_SLOTS && slot_us > 250);
        assert_eq!(record(&RunSpec { event: None, ..run(Duration::from_secs(1)) }, 1), None);
    }
}
