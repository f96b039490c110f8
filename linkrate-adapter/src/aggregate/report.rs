//! The state of an aggregate, for people.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use linkrate_model::aggregate::{
    AggregateReport, BfdReport, FailoverReport, LacpReport, MemberReport,
};
use linkrate_wire::control::lacp::Information;
use linkrate_wire::machine::lacp::{End, PortStatus};

use super::membership::{BfdState, FailoverState, PortState};
use super::{Aggregate, in_use, lock};
use crate::AdapterError;

/// How long the ports of an aggregate may take until all carry traffic. LACP waits 2 s, and longer
/// after a failure.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(12);

/// Time between two polls of the ports.
const SETTLE_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long the drivers may take to tell the state of the ports, and the time between two polls.
const ANSWER: Duration = Duration::from_secs(1);
const ANSWER_POLL_INTERVAL: Duration = Duration::from_micros(100);

impl Aggregate {
    /// Its state. Fails when the drivers do not answer.
    pub fn report(&self) -> Result<AggregateReport, AdapterError> {
        let knobs = self.applied_knobs()?;
        let shared = &self.shared;
        let members = lock(&shared.members).clone();
        let states = self.states();
        let members = in_use(&members, knobs.aggregate).map(|(number, member)| {
            let state = states.get(number).cloned().unwrap_or_default();
            MemberReport {
                port: member.name.clone(),
                link_up: member.link.is_up(),
                collecting: shared.collects(number),
                distributing: shared.distributes(number),
                lacp: state.lacp.as_ref().map(lacp),
                bfd: state.bfd.map(bfd),
                failover: state.failover.map(failover),
            }
        });
        Ok(AggregateReport {
            name: self.name().to_owned(),
            address: shared.address.to_string(),
            quiet_ms: Some(lock(&shared.decision).quiet_ps as f64 / 1e9),
            members: members.collect(),
            counters: self.counters(),
            knobs,
        })
    }

    /// The state of each port in the protocols, by number. The last one known, if the drivers do not
    /// answer.
    fn states(&self) -> Vec<PortState> {
        let shared = &self.shared;
        let asked = shared.asked.fetch_add(1, Ordering::AcqRel) + 1;
        shared.notify();
        let deadline = Instant::now() + ANSWER;
        while shared.answered.load(Ordering::Acquire) < asked
            && Instant::now() < deadline
            && self.broken().is_none()
        {
            std::thread::sleep(ANSWER_POLL_INTERVAL);
        }
        lock(&shared.states).clone()
    }

    /// Lets a failover group forget all failures and begin with its first port, or with the one that it
    /// would return to, and waits as [`await_ports`](Self::await_ports) does. In other modes it waits alone.
    pub fn begin_anew(&self) -> Result<(), AdapterError> {
        // The first time no port is held down any more, so that all stand by as soon as their BFD sessions
        // are up. The second time any of them can be the active one.
        for _ in 0..2 {
            self.shared.anew.store(true, Ordering::Release);
            self.await_ports()?;
        }
        Ok(())
    }

    /// Waits until all ports in use whose link is up carry traffic. The error names those that do not, each with
    /// its reason.
    pub fn await_ports(&self) -> Result<(), AdapterError> {
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let report = self.report()?;
            let idle: Vec<String> =
                report.idle().map(|(port, reason)| format!("{port} ({reason})")).collect();
            if idle.is_empty() && report.members.iter().any(|member| member.distributing) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let ports = match idle.is_empty() {
                    true => "no link is up".to_owned(),
                    false => idle.join(", "),
                };
                return Err(AdapterError::Idle { name: report.name, ports });
            }
            std::thread::sleep(SETTLE_POLL_INTERVAL);
        }
    }
}

fn lacp(status: &PortStatus) -> LacpReport {
    let counters = status.counters.named();
    LacpReport {
        selection: status.selection.to_string(),
        receive: status.receive.to_string(),
        periodic: status.periodic.to_string(),
        mux: status.mux.to_string(),
        mux_reason: status.mux_cause.to_string(),
        actor_churn: status.actor_churn.name(End::Actor).to_owned(),
        partner_churn: status.partner_churn.name(End::Partner).to_owned(),
        actor: end(&status.actor),
        partner: status.partner.as_ref().map(end),
        counters: counters.map(|(name, count)| (name.to_owned(), count)).into(),
    }
}

fn bfd(state: BfdState) -> BfdReport {
    let BfdState { state, diagnostic, interval, detection_time, sent, received, losses } = state;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    BfdReport {
        state: state.to_string(),
        diagnostic: diagnostic.to_string(),
        interval_ms: ms(interval),
        detection_ms: detection_time.map(ms),
        sent,
        received,
        losses,
    }
}

fn failover(state: FailoverState) -> FailoverReport {
    let FailoverState { active, hears, is_heard, held } = state;
    FailoverReport {
        active: active.is_some(),
        cause: active.map(|reason| reason.to_string()),
        hears,
        is_heard,
        held_ms: held.map(|held| held.as_secs_f64() * 1e3),
    }
}

/// An end of a link as a phrase.
fn end(end: &Information) -> String {
    let Information { system, key, port, state } = end;
    format!("system {system}, key {key}, port {}, {state}", port.number)
}
