//! Profiles of runs: the system under test's agent samples, the controller names the owner of each
//! thread.

use std::collections::BTreeSet;

use linkrate_model::profile::{Owner, Profile, TaskSamples};
use linkrate_protocol::Request;

use crate::backend::Threads;
use crate::connection::AgentError;
use crate::error::LabError;
use crate::testbed::Testbed;

/// Prepares the system under test's agent once for each testbed: it reads some megabytes of names,
/// for which no run should wait.
pub(crate) fn prepare(testbed: &mut Testbed) -> Result<(), AgentError> {
    if !testbed.can_profile {
        let cpus = testbed.placement.sut.clone();
        testbed.sut.order(&Request::PrepareProfile { cpus })?;
        testbed.can_profile = true;
    }
    Ok(())
}

/// A refusal to sample, as an error of this host.
pub(crate) fn cannot(error: AgentError) -> LabError {
    match error {
        AgentError::Refused(refusal) => LabError::CannotMeasure {
            what: format!("no profile: {}", refusal.reason),
            hint: refusal.hint.or_else(|| Some("measure without --profile".to_owned())),
        },
        error => error.into(),
    }
}

/// The threads that linkrate runs beside the system under test's own.
#[derive(Debug)]
pub(crate) struct ProfiledThreads {
    controller: u32,
    /// Process ids of the clients' agents.
    clients: BTreeSet<u32>,
    threads: Threads,
}

impl ProfiledThreads {
    pub(crate) fn of(testbed: &Testbed) -> Self {
        Self {
            controller: std::process::id(),
            clients: testbed.clients.iter().map(|client| client.host.pid()).collect(),
            threads: testbed.backend.threads(),
        }
    }

    /// Names the owners of the threads that the agent does not know.
    pub(crate) fn claim(&self, profile: &mut Profile) {
        for task in profile.tasks.iter_mut().filter(|task| task.owner == Owner::Other) {
            task.owner = self.owner(task);
        }
    }

    fn owner(&self, task: &TaskSamples) -> Owner {
        let own_name = u32::try_from(task.thread) == Ok(task.process);
        match task.process {
            process if process == self.controller => match task.thread {
                thread if self.threads.drivers.contains(&thread) => Owner::Driver,
                thread if self.threads.devices.contains(&thread) => Owner::Device,
                _ => Owner::Instrument,
            },
            // the first thread of a client's agent measures, the others are its flows
            process if self.clients.contains(&process) && own_name => Owner::Instrument,
            process if self.clients.contains(&process) => Owner::Flow,
            _ => Owner::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_an_owner() {
        let profiled = ProfiledThreads {
            controller: 10,
            clients: [20, 30].into(),
            threads: Threads { drivers: [11, 12].into(), devices: [13].into() },
        };
        let task = |process, thread, owner| TaskSamples {
            name: "x".to_owned(),
            owner,
            process,
            thread,
            user: 1,
            kernel: 0,
        };
        let expected = [
            (5, 6, Owner::Flow, Owner::Flow),
            (10, 10, Owner::Other, Owner::Instrument),
            (10, 12, Owner::Other, Owner::Driver),
            (10, 13, Owner::Other, Owner::Device),
            (20, 20, Owner::Other, Owner::Instrument),
            (30, 31, Owner::Other, Owner::Flow),
            // a thread of another process with a driver's number cannot be, a process can
            (40, 12, Owner::Other, Owner::Other),
            (0, 0, Owner::Idle, Owner::Idle),
        ];
        let tasks =
            expected.iter().map(|(process, thread, before, _)| task(*process, *thread, *before));
        let mut profile = Profile { tasks: tasks.collect(), ..Profile::default() };
        profiled.claim(&mut profile);
        for (task, (process, thread, _, owner)) in profile.tasks.iter().zip(expected) {
            assert_eq!(task.owner, owner, "{process} {thread}");
        }
    }
}
