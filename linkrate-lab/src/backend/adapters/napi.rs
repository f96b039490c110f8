//! NAPI threads of the system under test: threads of the kernel that process what its drivers write.

use std::os::fd::OwnedFd;

use linkrate_model::{CpuSet, Model};
use linkrate_study::validity::{Rescheduled, Strayed};
use linkrate_sys::sched::{self, Schedule, ThreadId};

use super::tap_with;
use crate::error::LabError;
use crate::host::Host;
use crate::placement::Placement;

/// The NAPI threads, if there are any.
#[derive(Debug, Default)]
pub(super) struct Napi {
    /// The CPUs of the system under test, where threads of the kernel can be placed; empty elsewhere.
    cpus: Vec<u32>,
    /// Those of interfaces whose drivers are not known yet: in the order of the queues.
    made: Vec<(String, Vec<u32>)>,
    threads: Vec<Thread>,
}

/// One of the threads.
#[derive(Debug)]
struct Thread {
    interface: String,
    id: ThreadId,
    cpu: u32,
    /// How it got its CPU when it was placed.
    first: Schedule,
}

impl Thread {
    fn name(&self) -> String {
        format!("NAPI thread {} of {}", self.id, self.interface)
    }
}

impl Napi {
    /// Finds out whether there can be threads for ports of this model.
    pub(super) fn prepare(&mut self, model: &Model, placement: &Placement) {
        // on shared CPUs, drivers give way to the device, and threads of the kernel would not. A connection that moves to
        // a TCP offload engine must have all packets that drivers wrote
        let can_be = !placement.is_shared() && model.toe_connections == 0;
        if self.cpus.is_empty() && can_be && sched::may_place_kernel_threads() {
            self.cpus = placement.sut.iter().collect();
        }
    }

    /// Makes the interface of a port of the system under test, and takes its descriptors.
    pub(super) fn tap(
        &mut self,
        sut: &mut Host,
        name: &str,
        model: &Model,
        address: [u8; 6],
    ) -> Result<Vec<OwnedFd>, LabError> {
        let napi = !self.cpus.is_empty();
        let (queues, threads) = tap_with(sut, name, model, model.queues, address, napi)?;
        self.threads.retain(|thread| thread.interface != name);
        self.made.push((name.to_owned(), threads));
        Ok(queues)
    }

    /// Places the threads of an interface beside the drivers of its queues, which have these indices among the CPUs.
    pub(super) fn place(&mut self, name: &str, drivers: &[usize]) -> Result<(), LabError> {
        let Some(at) = self.made.iter().position(|(other, _)| other == name) else { return Ok(()) };
        let (_, threads) = self.made.remove(at);
        for (thread, driver) in threads.into_iter().zip(drivers) {
            let cpu = self.cpus[driver % self.cpus.len()];
            let id = thread as ThreadId;
            sched::set_affinity(id, &[cpu].into_iter().collect())?;
            let (interface, first) = (name.to_owned(), Schedule::of(id)?);
            self.threads.push(Thread { interface, id, cpu, first });
        }
        Ok(())
    }

    /// Whether threads process what the system under test receives.
    pub(super) fn has_threads(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Their kernel ids.
    pub(super) fn ids(&self) -> Vec<u32> {
        self.threads.iter().map(|thread| thread.id as u32).collect()
    }

    /// The threads that may run on other CPUs than their own.
    pub(super) fn strayed(&self, role: &CpuSet) -> Vec<Strayed> {
        let astray = self.threads.iter().filter_map(|thread| {
            // one that is gone has ended with its interface
            let affinity = sched::affinity(thread.id).ok()?;
            let is_astray = affinity != [thread.cpu].into_iter().collect();
            let role = role.clone();
            is_astray.then(|| Strayed { thread: thread.name(), affinity, role })
        });
        astray.collect()
    }

    /// The threads whose policy or nice value somebody has changed.
    pub(super) fn rescheduled(&self) -> Vec<Rescheduled> {
        let changed = self.threads.iter().filter_map(|thread| {
            let now = Schedule::of(thread.id).ok().filter(|now| *now != thread.first)?;
            let (name, now, first) = (thread.name(), now.to_string(), thread.first.to_string());
            Some(Rescheduled { thread: name, now, first })
        });
        changed.collect()
    }
}
