//! NAPI threads of the system under test: threads of the kernel that process what its drivers write.
//!
//! All its interfaces have them, or none has. Nothing switches them off while an interface lives: since Linux 6.17, that ends
//! the threads, and waits without end, with the lock of all interfaces, where an interface has queues that are not in use
//! (`napi_stop_kthread`, net/core/dev.c).

use std::os::fd::OwnedFd;

use linkrate_model::{CpuSet, InterfaceKnobs, Model, topology};
use linkrate_study::validity::{Rescheduled, Strayed};
use linkrate_sys::sched::{self, Schedule, ThreadId};

use super::{Tap, tap_with};
use crate::error::LabError;
use crate::host::Host;
use crate::placement::Placement;

const REMEDY: &str = "as root, on Linux 5.12 or later, models without a TCP offload engine have NAPI threads where the \
                      system under test has CPUs of its own; or leave it out";

/// The NAPI threads, if there are any.
#[derive(Debug, Default)]
pub(super) struct Napi {
    /// The CPUs of the system under test.
    cpus: Vec<u32>,
    /// Why there are none.
    absent: Option<String>,
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
        if !self.cpus.is_empty() {
            return;
        }
        self.cpus = placement.sut.iter().collect();
        // on shared CPUs, drivers give way to the device, and threads of the kernel would not. A connection that moves to
        // a TCP offload engine must have all packets that drivers wrote
        let absent = if placement.is_shared() {
            Some("the device has the same CPUs")
        } else if model.toe_connections > 0 {
            Some("the model has a TCP offload engine")
        } else if !sched::may_place_kernel_threads() {
            Some("threads of the kernel may not be placed here, which takes root of the machine")
        } else {
            None
        };
        self.absent = absent.map(str::to_owned);
    }

    /// Makes the interface of a port of the system under test, and takes its descriptors.
    pub(super) fn tap(
        &mut self,
        sut: &mut Host,
        name: &str,
        model: &Model,
        address: [u8; 6],
    ) -> Result<Vec<OwnedFd>, LabError> {
        let wanted = self.absent.is_none();
        let Tap { queues, napi } = tap_with(sut, name, model, model.queues, address, wanted)?;
        self.made(name, napi)?;
        Ok(queues)
    }

    /// Notes the threads of an interface, or why it has none. The first one decides for all.
    fn made(&mut self, name: &str, napi: Result<Vec<u32>, String>) -> Result<(), LabError> {
        let is_first = self.made.is_empty() && self.threads.is_empty();
        match napi {
            Ok(threads) if self.absent.is_none() => self.made.push((name.to_owned(), threads)),
            Ok(_) => {}
            Err(why) if is_first => self.absent = Some(why),
            Err(why) => {
                return Err(LabError::Invalid {
                    what: format!("{name} has no NAPI threads, and other interfaces have: {why}"),
                    hint: "begin again".to_owned(),
                });
            }
        }
        Ok(())
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

    /// Gives the threads of an aggregate the weight of as many threads as it has ports: a host's aggregate has those of
    /// each port, and this one has an interface alone. The flows of eight ports otherwise leave one thread a ninth or less.
    pub(super) fn weigh(&mut self, name: &str, ports: usize) -> Result<(), LabError> {
        for thread in self.threads.iter_mut().filter(|thread| thread.interface == name) {
            // root without CAP_SYS_NICE may place threads and not prefer them: they are slower then, and cost the same
            if sched::set_nice_of(thread.id, nice_of(ports)).is_ok() {
                thread.first = Schedule::of(thread.id)?;
            }
        }
        Ok(())
    }

    /// The interfaces of a segment are gone, and their threads with them.
    pub(super) fn forget(&mut self, segment: &topology::Segment) {
        self.threads.retain(|thread| !segment.has_interface(&thread.interface));
    }

    /// Why threads do not process what the system under test receives; `None` where they do.
    pub(super) fn why_absent(&self) -> Option<&str> {
        self.absent.as_deref()
    }

    /// Refuses knobs that would have no effect, or another one than the same knobs of a real adapter.
    pub(super) fn check(&self, asked: &InterfaceKnobs) -> Result<(), LabError> {
        if let Some(why) = &self.absent {
            let needs_napi = [
                ("gro", asked.gro == Some(true)),
                ("gro-list", asked.gro_list == Some(true)),
                ("udp-gro-forwarding", asked.udp_gro_forwarding == Some(true)),
                ("threaded", asked.threaded == Some(true)),
                ("napi-defer-hard-irqs", asked.napi_defer_hard_irqs.is_some_and(|polls| polls > 0)),
                ("gro-flush-timeout", asked.gro_flush_timeout.is_some_and(|ns| ns > 0)),
            ];
            let refused = needs_napi.into_iter().find(|(_, is_asked)| *is_asked);
            return refused.map_or(Ok(()), |(knob, _)| {
                Err(LabError::Invalid {
                    what: format!(
                        "knob \"{knob}\": it has no effect on these virtual adapters, which have no NAPI threads: {why}"
                    ),
                    hint: REMEDY.to_owned(),
                })
            });
        }
        match asked.threaded {
            Some(false) => Err(LabError::Invalid {
                what: "knob \"threaded\": the NAPI threads of virtual adapters are part of the testbed"
                    .to_owned(),
                hint: "leave it out, or choose a veth pair or an existing interface".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Their kernel ids.
    pub(super) fn ids(&self) -> Vec<u32> {
        self.threads.iter().map(|thread| thread.id as u32).collect()
    }

    /// The threads that may run on other CPUs than their own.
    pub(super) fn strayed(&self, role: &CpuSet) -> Vec<Strayed> {
        let astray = self.threads.iter().filter_map(|thread| {
            // one that is gone is told of below
            let affinity = sched::affinity(thread.id).ok()?;
            let is_astray = affinity != [thread.cpu].into_iter().collect();
            let role = role.clone();
            is_astray.then(|| Strayed { thread: thread.name(), affinity, role })
        });
        astray.collect()
    }

    /// The threads whose policy or nice value somebody has changed, and those that have ended before their interfaces.
    pub(super) fn rescheduled(&self) -> Vec<Rescheduled> {
        let changed = self.threads.iter().filter_map(|thread| {
            let now = match Schedule::of(thread.id) {
                Ok(now) if now == thread.first => return None,
                Ok(now) => now.to_string(),
                Err(_) => "ended".to_owned(),
            };
            Some(Rescheduled { thread: thread.name(), now, first: thread.first.to_string() })
        });
        changed.collect()
    }
}

/// The nice value at which a thread has the weight of `count` threads of nice 0: each step is a quarter more
/// (`sched_prio_to_weight`, kernel/sched/core.c).
fn nice_of(count: usize) -> i32 {
    let steps = (count as f64).ln() / 1.25_f64.ln();
    -(steps.round() as i32).clamp(0, 20)
}

#[cfg(test)]
mod tests;
