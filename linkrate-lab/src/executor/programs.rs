//! Runs with programs of others at the far ends: the system under test connects to them.

use std::collections::BTreeMap;

use linkrate_agent::protocol::{FlowFacts, Request};
use linkrate_terms::told::Told;
use linkrate_terms::{CpuSet, RunSpec, Workload};

use crate::error::LabError;
use crate::testbed::Testbed;

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
pub(super) fn told(testbed: &mut Testbed, clients: usize) -> Result<Vec<Told>, LabError> {
    testbed.programs.iter_mut().take(clients).map(|program| program.told()).collect()
}
