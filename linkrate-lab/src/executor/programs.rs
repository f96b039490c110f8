//! Runs with third-party programs at the peers: the system under test connects to them.

use std::collections::BTreeMap;

use linkrate_model::peer_report::PeerReport;
use linkrate_model::{CpuSet, RunSpec, Workload};
use linkrate_protocol::{FlowFacts, Reply, Request};
use linkrate_sys::clock::monotonic_ns;

use crate::backend::Adapters;
use crate::connection::{AgentError, expect_reply};
use crate::error::LabError;
use crate::peer::PeerServer;
use crate::testbed::Testbed;

/// How far both counts are from the moment at which a program begins to count, ns: its timer is late by some of it.
const EDGE_NS: u64 = 10_000_000;

/// Asks the first `clients` programs for their tests, and connects the flows of the system under test. Returns
/// the options of its sockets.
pub(super) fn connect(
    testbed: &mut Testbed,
    workload: &Workload,
    spec: &RunSpec,
    clients: usize,
    bind: &BTreeMap<u16, CpuSet>,
) -> Result<FlowFacts, LabError> {
    let Testbed { sut, programs, .. } = testbed;
    let mut facts = FlowFacts::default();
    for (number, program) in (0..).zip(programs.iter_mut().take(clients)) {
        // the facts are those of all flows so far
        facts = program.connect(sut, workload, spec, number, bind)?;
    }
    Ok(facts)
}

/// Lets the beginning pass that programs leave out of what they tell, and keeps what the system under test had counted
/// about then.
pub(super) fn leave_out_begin(
    testbed: &mut Testbed,
    workload: &Workload,
    clients: usize,
) -> Result<(), AgentError> {
    let Testbed { sut, programs, .. } = testbed;
    let clients = clients.min(programs.len());
    let programs = &mut programs[..clients];
    let ends = || programs.iter().filter_map(PeerServer::omits_until_ns);
    let (Some(first), Some(last)) = (ends().min(), ends().max()) else { return Ok(()) };
    let connection = &mut sut.connection;
    let mut counted = |at_ns| {
        connection.pause_until(at_ns)?;
        let counted = expect_reply!(
            connection, Request::Progress,
            Reply::Progress { bytes, unacknowledged } => (bytes, unacknowledged)
        )?;
        Ok::<_, AgentError>(counted)
    };
    let (before, unacknowledged) = counted(first.saturating_sub(EDGE_NS))?;
    let (after, _) = counted(last + EDGE_NS)?;
    let each = workload.flows(1) as usize;
    for (own, program) in programs.iter_mut().enumerate() {
        let own = own * each..(own + 1) * each;
        if let (Some(before), Some(after)) = (before.get(own.clone()), after.get(own)) {
            program.leave_out(before, unacknowledged, after);
        }
    }
    Ok(())
}

/// Brings the flows to rest, so that both ends have counted the same payload.
pub(super) fn wind_up(
    testbed: &mut Testbed,
    workload: &Workload,
    clients: usize,
) -> Result<(), LabError> {
    let Testbed { sut, programs, .. } = testbed;
    let each = workload.flows(1) as usize;
    let flows = |number: usize| number * each..(number + 1) * each;
    if programs.is_empty() {
        return Ok(());
    }
    sut.order(&Request::Settle { all: false })?;
    for (number, program) in programs.iter_mut().take(clients).enumerate() {
        program.end(sut, flows(number))?;
    }
    // servers close the streams that they send
    sut.order(&Request::Settle { all: true })?;
    for (number, program) in programs.iter_mut().take(clients).enumerate() {
        program.count(sut, flows(number))?;
    }
    Ok(())
}

/// What the programs tell once the connections are closed.
pub(super) fn reported(testbed: &mut Testbed, clients: usize) -> Result<Vec<PeerReport>, LabError> {
    testbed.programs.iter_mut().take(clients).map(|program| program.reported()).collect()
}

/// Time between two checks whether connections are to move, ns. A move takes less.
const TEND_NS: u64 = 10_000_000;

/// Waits until `deadline_ns` with `wait`, and moves connections to and from TCP offload engines meanwhile.
pub(super) fn tend_until(
    adapters: Option<&Adapters>,
    deadline_ns: u64,
    mut wait: impl FnMut(u64) -> Result<(), AgentError>,
) -> Result<(), AgentError> {
    while let Some(adapters) = adapters.filter(|adapters| adapters.tends()) {
        let next_ns = monotonic_ns() + TEND_NS;
        // a move must not last beyond the deadline
        if next_ns + TEND_NS > deadline_ns {
            break;
        }
        wait(next_ns)?;
        adapters.tend().map_err(|error| match error {
            LabError::Agent(error) => error,
            error => AgentError::Lost { host: "adapter".to_owned(), reason: error.to_string() },
        })?;
    }
    wait(deadline_ns)
}
