//! The CPUs that the flows of the system under test (SUT) are bound to.

use std::collections::BTreeMap;

use linkrate_model::{CpuSet, RunSpec, Task};

use crate::error::LabError;
use crate::testbed::Testbed;

/// The CPUs of the flows of each client that takes part, by its number: those that take the interrupts of
/// its interface of the SUT. Empty if the run leaves flows to the scheduler. Fails where the SUT has one CPU: then the
/// scheduler has no choice, and a bound run is no other than an unbound one.
pub(super) fn of_run(
    testbed: &Testbed,
    spec: &RunSpec,
    clients: usize,
) -> Result<BTreeMap<u16, CpuSet>, LabError> {
    let Task::Workload(workload) = &spec.task else { return Ok(BTreeMap::new()) };
    if !workload.cpu_binding {
        return Ok(BTreeMap::new());
    }
    let sut = &testbed.sut.cpus;
    if sut.len() < 2 {
        return Err(LabError::Invalid {
            what: format!(
                "cpu-binding on, where the system under test has CPU {sut} alone: the scheduler has no \
                 choice, so that there is nothing to bind"
            ),
            hint: "give it two CPUs, for example sut-cpus = \"0-1\" or --sut-cpus 0-1; on a machine with \
                   two CPUs, its clients then have the same"
                .to_owned(),
        });
    }
    let adapters = testbed.backend.adapters();
    let cpus = |interface: &str| -> CpuSet {
        let threads = adapters.map(|adapters| adapters.driver_threads(interface));
        let of_interface = threads.into_iter().flatten().filter_map(|one| sut.iter().nth(one));
        let of_interface: CpuSet = of_interface.collect();
        // the interrupts of others come to all CPUs of the host
        if of_interface.is_empty() { sut.clone() } else { of_interface }
    };
    let numbered = (0..).zip(testbed.clients.iter().take(clients));
    Ok(numbered.map(|(number, client)| (number, cpus(&client.sut_interface))).collect())
}
