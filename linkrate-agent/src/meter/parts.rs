//! The busy time of the accounted CPUs by what ran.

use std::collections::BTreeMap;

use linkrate_model::cpu_use::CpuParts;
use linkrate_model::measurement::{ENDED, OtherProgram};
use linkrate_sys::on_cpu::{ThreadOnCpu, Worked};
use linkrate_sys::other_programs::{busiest, kind_of};

/// Which threads and processes are linkrate's.
#[derive(Debug, Default)]
pub struct Own<'a> {
    /// Threads of the flows.
    pub flows: Vec<u32>,
    /// Driver threads of virtual adapters.
    pub drivers: &'a [u32],
    /// NAPI threads of virtual adapters. Where there are none, all NAPI threads are taken to be of the run's interfaces.
    pub napi: &'a [u32],
    /// Processes: agents and their controller.
    pub processes: Vec<u32>,
}

impl Own<'_> {
    fn has_napi(&self, thread: u32) -> bool {
        self.napi.is_empty() || self.napi.contains(&thread)
    }
}

/// How the kernel names the NAPI threads of interfaces (`napi_kthread_create`, net/core/dev.c).
const NAPI: &str = "napi/";

/// The parts, and the third-party programs, the busiest first.
pub fn divide(worked: &[Worked], own: &Own<'_>) -> (CpuParts, Vec<OtherProgram>) {
    divide_with(worked, own, kind_of)
}

/// What is known of a process: its name, and whether it is a thread of the kernel; `None` once it has ended.
type KindOf = Option<(String, bool)>;

fn divide_with(
    worked: &[Worked],
    own: &Own<'_>,
    kind_of: impl Fn(u32) -> KindOf,
) -> (CpuParts, Vec<OtherProgram>) {
    let mut parts = CpuParts::default();
    // those that have ended are told together, by their name
    let mut others: BTreeMap<(u32, String), u64> = BTreeMap::new();
    let mut kinds: BTreeMap<u32, KindOf> = BTreeMap::new();
    for cpu in worked {
        parts.softirq_ns += cpu.softirq_ns.iter().sum::<u64>();
        parts.interrupt_ns += cpu.interrupt_ns;
        parts.idle_loop_ns += cpu.idle_loop_ns;
        for ThreadOnCpu { process, thread, name, ns } in &cpu.threads {
            let part = if own.drivers.contains(thread) {
                &mut parts.driver_ns
            } else if own.flows.contains(thread) {
                &mut parts.application_ns
            } else if own.processes.contains(process) {
                &mut parts.linkrate_ns
            } else {
                match kinds.entry(*process).or_insert_with(|| kind_of(*process)) {
                    Some((_, true)) if name.starts_with(NAPI) && own.has_napi(*thread) => {
                        &mut parts.napi_ns
                    }
                    Some((_, true)) if !name.starts_with(NAPI) => &mut parts.kernel_ns,
                    kind => {
                        let key = match kind {
                            // of an interface of others, such as that of another lab
                            Some((_, true)) => (*process, name.clone()),
                            Some((now, _)) => (*process, now.clone()),
                            None => (ENDED, name.clone()),
                        };
                        *others.entry(key).or_default() += ns;
                        &mut parts.others_ns
                    }
                }
            };
            *part += ns;
        }
    }
    let others = others.into_iter().map(|((pid, name), ns)| OtherProgram {
        pid,
        name,
        cpu_ns: ns,
        bound_ns: ns,
    });
    (parts, busiest(others))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(process: u32, thread: u32, name: &str, ns: u64) -> ThreadOnCpu {
        ThreadOnCpu { process, thread, name: name.to_owned(), ns }
    }

    #[test]
    fn each_thread_is_in_one_part() {
        let cpu = Worked {
            interval_ns: 1000,
            idle_ns: 100,
            idle_loop_ns: 47,
            interrupt_ns: 7,
            softirq_ns: [0, 1, 2, 3, 0, 0, 0, 0, 0, 4],
            lost_ns: 5,
            threads: vec![
                thread(10, 10, "linkrate", 11),
                thread(10, 12, "flow 0", 13),
                thread(20, 21, "drv 0", 17),
                thread(20, 20, "linkrate", 19),
                thread(30, 30, "napi/eth0-8193", 23),
                thread(31, 31, "kworker/0:1", 29),
                thread(40, 40, "sh", 31),
                thread(40, 41, "sh", 37),
                thread(50, 50, "true", 41),
                thread(51, 51, "true", 3),
                // of another lab
                thread(32, 32, "napi/eth0-8197", 45),
                // its name does not make it a thread of the kernel
                thread(60, 60, "napi/x", 43),
            ],
        };
        let own = Own { flows: vec![12], drivers: &[21], napi: &[30], processes: vec![10, 20] };
        let kind_of = |process| match process {
            30..=32 => Some(("k".to_owned(), true)),
            40 => Some(("make".to_owned(), false)),
            60 => Some(("napi/x".to_owned(), false)),
            // it has ended
            _ => None,
        };
        let (parts, others) = divide_with(&[cpu.clone(), cpu.clone()], &own, kind_of);
        // on two CPUs
        let expected = CpuParts {
            application_ns: 2 * 13,
            driver_ns: 2 * 17,
            napi_ns: 2 * 23,
            softirq_ns: 2 * 10,
            interrupt_ns: 2 * 7,
            idle_loop_ns: 2 * 47,
            kernel_ns: 2 * 29,
            linkrate_ns: 2 * (11 + 19),
            others_ns: 2 * (31 + 37 + 41 + 3 + 43 + 45),
        };
        assert_eq!(parts, expected);
        let found: Vec<(u32, &str, u64)> =
            others.iter().map(|one| (one.pid, &*one.name, one.bound_ns)).collect();
        let expected = [
            (40, "make", 136),
            (32, "napi/eth0-8197", 90),
            (ENDED, "true", 88),
            (60, "napi/x", 86),
        ];
        assert_eq!(found, expected);
        // nobody says which NAPI threads are those of the run
        let (parts, _) = divide_with(&[cpu], &Own { napi: &[], ..own }, kind_of);
        assert_eq!((parts.napi_ns, parts.others_ns), (23 + 45, 31 + 37 + 41 + 3 + 43));
    }
}
