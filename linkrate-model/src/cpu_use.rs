//! CPU time of a group of CPUs over the measurement of a run, and what they worked for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cpus::CpuSet;
use crate::is_zero;

/// Where idle time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdleSource {
    /// `/proc/timer_list`, nanoseconds; readable by root only.
    TimerList,
    /// `/proc/stat`, the same idle time printed in ticks of 10 ms.
    ProcStat,
    /// Threads that run only when nothing else wants the CPU, and count for how long.
    IdleCounter,
}

impl IdleSource {
    /// The word for it, as documents have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::TimerList => "timer-list",
            Self::ProcStat => "proc-stat",
            Self::IdleCounter => "idle-counter",
        }
    }

    /// The same for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::TimerList => "/proc/timer_list",
            Self::ProcStat => "/proc/stat",
            Self::IdleCounter => "idle counter",
        }
    }
}

/// CPU time of one group of CPUs over the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Per CPU.
    pub cpus: Vec<CpuTime>,
    /// Per thread of linkrate's own on these CPUs.
    pub threads: Vec<ThreadTime>,
    /// Where idle time was read.
    pub source: IdleSource,
    /// Whether another role shares these CPUs, so that the figure cannot be separated.
    pub shared: bool,
    /// Programs other than linkrate that used these CPUs, the busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<OtherProgram>,
    /// The busy time by what ran; absent where it was not traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<CpuParts>,
    /// CPU time of linkrate's own threads that may run on these CPUs only, drivers included, at
    /// least, ns: no other program had it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub own_threads_ns: u64,
}

/// The process id of [processes](OtherProgram) that have ended.
pub const ENDED: u32 = 0;

/// A program other than linkrate, over the measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProgram {
    /// Process id; [`ENDED`] for all processes of that name together that ended before the report.
    pub pid: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// CPU time of its threads on these CPUs; an upper limit where a thread may run on other CPUs
    /// as well.
    pub cpu_ns: u64,
    /// Part of `cpu_ns` that fell on these CPUs and into the measurement: that of threads that may
    /// run nowhere else. The counters are read some milliseconds before and after the measurement,
    /// so it is the measurement's share of the time between them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bound_ns: u64,
}

/// One CPU over the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// CPU number.
    pub cpu: u32,
    /// Length of the measurement as this CPU's meter saw it.
    pub interval_ns: u64,
    /// Neither idle nor stolen: measurement less idle less steal.
    pub busy_ns: u64,
    /// Taken by the hypervisor.
    pub steal_ns: u64,
    /// Largest error of `busy_ns` in either direction. It is not known how much of the steal fell
    /// into idle time, nor how much of an idle counter's time was stolen. The error of ticks, and
    /// steal that the hypervisor does not report, are not included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncertainty_ns: u64,
}

/// One thread over the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// What the thread does.
    pub name: String,
    /// Its CPU affinity as read back.
    pub affinity: CpuSet,
    /// CPU time, user and system, including softirqs that ran on its back.
    pub cpu_ns: u64,
    /// User part.
    pub user_ns: u64,
}

impl CpuUse {
    /// Busy nanoseconds, all CPUs together.
    pub fn busy_ns(&self) -> u64 {
        self.cpus.iter().fold(0, |sum, cpu| sum.saturating_add(cpu.busy_ns))
    }

    /// Largest error of [`busy_ns`](Self::busy_ns) in either direction, ns.
    pub fn uncertainty_ns(&self) -> u64 {
        self.cpus.iter().fold(0, |sum, cpu| sum.saturating_add(cpu.uncertainty_ns))
    }

    /// Nanoseconds of the measurement, all CPUs together.
    pub fn interval_ns(&self) -> u64 {
        self.cpus.iter().fold(0, |sum, cpu| sum.saturating_add(cpu.interval_ns))
    }

    /// Time that may be of other programs in per cent of the measurement: how much they spoil a run of any cost.
    pub fn uncertainty_interval_percent(&self) -> f64 {
        self.percent_of(self.others_uncertain_ns())
    }

    /// Nanoseconds that programs other than linkrate used.
    pub fn others_ns(&self) -> u64 {
        if let Some(parts) = &self.parts {
            return parts.others_ns;
        }
        self.background.iter().fold(0, |sum, other| sum.saturating_add(other.cpu_ns))
    }

    /// Part of [`others_ns`](Self::others_ns) that is taken to be in [`busy_ns`](Self::busy_ns), ns: no more than
    /// linkrate's own threads left. What ran is known from a trace; without one, the time of other programs is known between two
    /// readings around the measurement, and a burst right before it is not in the busy time.
    pub fn others_bound_ns(&self) -> u64 {
        match &self.parts {
            Some(parts) => parts.others_ns.min(self.busy_ns()),
            None => {
                self.others_reported_ns().min(self.busy_ns().saturating_sub(self.own_threads_ns))
            }
        }
    }

    /// What the readings around the measurement say of programs that may run on these CPUs only, ns.
    fn others_reported_ns(&self) -> u64 {
        let bound = self.background.iter().map(|other| other.bound_ns.min(other.cpu_ns));
        bound.fold(0, u64::saturating_add)
    }

    /// Part of [`others_ns`](Self::others_ns) that may be in [`busy_ns`](Self::busy_ns), or not, ns: at most what was
    /// busy, and at most what linkrate's own threads left of these CPUs. A thread's time may contain steal, and ticks of
    /// 10 ms say too little of what is left. What the readings around the measurement say beyond that contradicts the clocks of
    /// these threads, and is uncertain too.
    pub fn others_uncertain_ns(&self) -> u64 {
        if self.parts.is_some() {
            return 0;
        }
        let told_ns = self.others_reported_ns();
        let beyond_ns = told_ns.saturating_sub(self.others_bound_ns());
        let uncertain_ns = self.others_ns().saturating_sub(told_ns);
        let at_most_ns = match self.source {
            IdleSource::ProcStat => self.own_busy_ns(),
            IdleSource::TimerList | IdleSource::IdleCounter => {
                let steal_ns =
                    self.cpus.iter().fold(0, |sum: u64, cpu| sum.saturating_add(cpu.steal_ns));
                let taken_ns = self
                    .own_busy_ns()
                    .saturating_add(steal_ns)
                    .saturating_add(self.uncertainty_ns());
                taken_ns.saturating_sub(self.own_threads_ns).min(self.own_busy_ns())
            }
        };
        uncertain_ns.min(at_most_ns).saturating_add(beyond_ns).min(self.own_busy_ns())
    }

    /// Part of [`others_bound_ns`](Self::others_bound_ns) that may have run before or after the measurement, ns: a burst right
    /// before it is between the readings too. A trace leaves none.
    pub fn others_outside_ns(&self) -> u64 {
        if self.parts.is_some() {
            return 0;
        }
        let outside = self.background.iter().filter(|other| other.bound_ns > 0).map(|other| {
            let bound_ns = other.bound_ns.min(other.cpu_ns);
            // the measurement has this share of the time between the readings
            let beside_ns = u128::from(self.interval_ns()) * u128::from(other.cpu_ns - bound_ns)
                / u128::from(bound_ns);
            let inside_ns = u128::from(other.cpu_ns).saturating_sub(beside_ns);
            bound_ns.saturating_sub(u64::try_from(inside_ns).unwrap_or(u64::MAX))
        });
        outside.fold(0, u64::saturating_add).min(self.others_bound_ns())
    }

    /// The most that other programs used of these CPUs, ns: the part that is known, and all that is
    /// uncertain.
    pub fn others_at_most_ns(&self) -> u64 {
        self.others_bound_ns().saturating_add(self.others_uncertain_ns())
    }

    /// Busy nanoseconds without those that are known to be of other programs.
    pub fn own_busy_ns(&self) -> u64 {
        self.busy_ns() - self.others_bound_ns()
    }

    /// [`percent`](Self::percent) without the time that is known to be of other programs.
    pub fn own_percent(&self) -> f64 {
        self.percent_of(self.own_busy_ns())
    }

    /// [`busy_cpus`](Self::busy_cpus) without the time that is known to be of other programs.
    pub fn own_busy_cpus(&self) -> f64 {
        let busy_ns = self.busy_ns();
        let own = if busy_ns == 0 { 1.0 } else { self.own_busy_ns() as f64 / busy_ns as f64 };
        self.busy_cpus() * own
    }

    /// Time that may be of other programs in per cent of [`own_busy_ns`](Self::own_busy_ns): how much too
    /// high the cost of the traffic may be.
    pub fn uncertainty_percent(&self) -> f64 {
        self.others_uncertain_ns() as f64 * 100.0 / self.own_busy_ns().max(1) as f64
    }

    /// Busy share of all CPUs of the group, in per cent of the group.
    pub fn percent(&self) -> f64 {
        self.percent_of(self.busy_ns())
    }

    /// A time as a share of all CPUs of the group, in per cent of the group.
    pub fn percent_of(&self, time_ns: u64) -> f64 {
        let interval_ns = self.interval_ns();
        if interval_ns == 0 { 0.0 } else { time_ns as f64 * 100.0 / interval_ns as f64 }
    }

    /// The busiest of linkrate's threads that may run on several of these CPUs, in per cent of one CPU: such a
    /// thread fills none of them, and still has no time left. One that is bound to a CPU has at most what is
    /// busy there, whatever its own clock reads. `None` without such threads or CPUs.
    pub fn busiest_thread_percent(&self) -> Option<f64> {
        let interval_ns = self.cpus.iter().map(|cpu| cpu.interval_ns).max()?;
        let moves = |thread: &&ThreadTime| thread.affinity.len() != 1;
        let cpu_ns = self.threads.iter().filter(moves).map(|thread| thread.cpu_ns).max()?;
        percent(cpu_ns, interval_ns)
    }

    /// The busiest CPU of the group, in per cent of the time that a hypervisor left of one CPU: a CPU that was never
    /// idle is full, whatever others had of it.
    pub fn busiest_percent(&self) -> f64 {
        let left_ns = |cpu: &CpuTime| cpu.interval_ns.saturating_sub(cpu.steal_ns);
        self.cpus
            .iter()
            .filter(|cpu| left_ns(cpu) > 0)
            .map(|cpu| (cpu.busy_ns as f64 * 100.0 / left_ns(cpu) as f64).min(100.0))
            .fold(0.0, f64::max)
    }

    /// Busy CPUs: 1.5 means one and a half CPUs' worth of time was used.
    pub fn busy_cpus(&self) -> f64 {
        self.cpus
            .iter()
            .filter(|cpu| cpu.interval_ns > 0)
            .map(|cpu| cpu.busy_ns as f64 / cpu.interval_ns as f64)
            .sum()
    }
}

/// Per cent of an interval; `None` of an empty one.
pub(crate) fn percent(part_ns: u64, interval_ns: u64) -> Option<f64> {
    (interval_ns > 0).then(|| part_ns as f64 * 100.0 / interval_ns as f64)
}

/// The busy time of CPUs by what ran, ns: sums of the times between a switch to it and the switch away from it. Softirqs and
/// interrupts are no time of the thread that they interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuParts {
    /// The threads of the flows: the application, and what the stack does in its calls.
    pub application_ns: u64,
    /// The driver threads of virtual adapters.
    pub driver_ns: u64,
    /// The NAPI threads of the kernel: receive processing, and what TCP sends because of it.
    pub napi_ns: u64,
    /// Softirqs.
    pub softirq_ns: u64,
    /// Hardware interrupts.
    pub interrupt_ns: u64,
    /// The idle loop of the kernel: from the end of an idle state to the switch to what the CPU was woken for.
    #[serde(default)]
    pub idle_loop_ns: u64,
    /// Other threads of the kernel.
    pub kernel_ns: u64,
    /// Threads of linkrate that are no part of the traffic, such as its meters.
    pub linkrate_ns: u64,
    /// All other programs.
    pub others_ns: u64,
}

impl CpuParts {
    /// All parts but those of other programs, in the order of the fields.
    #[must_use]
    pub fn own(&self) -> [u64; 8] {
        [
            self.application_ns,
            self.driver_ns,
            self.napi_ns,
            self.softirq_ns,
            self.interrupt_ns,
            self.idle_loop_ns,
            self.kernel_ns,
            self.linkrate_ns,
        ]
    }

    /// What of a busy time is in no part, ns; negative where the parts are more, as by time that a hypervisor took.
    #[must_use]
    pub fn not_attributed_ns(&self, busy_ns: u64) -> i64 {
        let parts = self.own().iter().fold(self.others_ns, |sum, part| sum.saturating_add(*part));
        i64::try_from(i128::from(busy_ns) - i128::from(parts)).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was measured beside these programs.
    fn measured(cpus: Vec<CpuTime>, others: &[OtherProgram]) -> CpuUse {
        CpuUse {
            cpus,
            threads: Vec::new(),
            source: IdleSource::TimerList,
            shared: false,
            background: others.to_vec(),
            own_threads_ns: 0,
            parts: None,
        }
    }

    #[test]
    fn a_cpu_that_was_never_idle_is_full_whatever_a_hypervisor_took() {
        let cpu =
            CpuTime { cpu: 0, interval_ns: 1000, busy_ns: 920, steal_ns: 80, uncertainty_ns: 0 };
        let mut run = measured(vec![cpu], &[]);
        assert_eq!(run.busiest_percent(), 100.0);
        run.cpus[0].busy_ns = 460;
        assert_eq!(run.busiest_percent(), 50.0);
        // ticks of steal may be in the busy time too
        run.cpus[0].busy_ns = 1000;
        assert_eq!(run.busiest_percent(), 100.0);
        run.cpus[0].steal_ns = 1000;
        assert_eq!(run.busiest_percent(), 0.0);
    }

    #[test]
    fn time_of_other_programs_is_taken_out_as_far_as_it_is_known() {
        let cpu =
            |cpu| CpuTime { cpu, interval_ns: 1000, busy_ns: 300, steal_ns: 0, uncertainty_ns: 0 };
        let other =
            |cpu_ns, bound_ns| OtherProgram { pid: 7, name: "sh".to_owned(), cpu_ns, bound_ns };
        let with = |others: &[OtherProgram]| measured(vec![cpu(0), cpu(1)], others);
        let calm = with(&[]);
        assert_eq!((calm.own_busy_ns(), calm.others_uncertain_ns()), (600, 0));
        assert_eq!(calm.own_busy_cpus(), calm.busy_cpus());
        let two = with(&[other(150, 120), other(60, 0)]);
        assert_eq!(
            (two.others_ns(), two.others_bound_ns(), two.others_uncertain_ns()),
            (210, 120, 90)
        );
        assert_eq!((two.busy_ns(), two.own_busy_ns()), (600, 480));
        assert_eq!((two.percent(), two.own_percent()), (30.0, 24.0));
        assert!((two.own_busy_cpus() - 0.48).abs() < 1e-12);
        assert!((two.uncertainty_percent() - 90.0 / 4.8).abs() < 1e-9);
        // no more than was busy, and no more than the program used
        assert_eq!(with(&[other(900, 900)]).own_busy_ns(), 0);
        assert_eq!(with(&[other(10, u64::MAX)]).own_busy_ns(), 590);
        // a program that roams over other CPUs had nothing that linkrate's own threads had
        let roaming = CpuUse { own_threads_ns: 560, ..with(&[other(900, 0)]) };
        assert_eq!((roaming.others_ns(), roaming.others_uncertain_ns()), (900, 40));
        let mut stolen = roaming.clone();
        stolen.cpus[0].steal_ns = 25;
        assert_eq!(stolen.others_uncertain_ns(), 65);
        let ticks = CpuUse { source: IdleSource::ProcStat, ..roaming };
        assert_eq!(ticks.others_uncertain_ns(), 600);
        let both = CpuUse { own_threads_ns: 400, ..with(&[other(150, 120), other(900, 0)]) };
        assert_eq!((both.others_uncertain_ns(), both.others_at_most_ns()), (80, 200));
    }

    /// Busy 11.5 ms, of which threads of linkrate had 9.2 ms by their clocks. Another program used 8 ms just before the
    /// measurement, of which its share of the time between the readings is 7.5 ms.
    #[test]
    fn a_burst_right_before_the_measurement_is_no_cost_that_is_taken_out() {
        let burst = CpuUse {
            cpus: vec![CpuTime {
                cpu: 0,
                interval_ns: 400_000_000,
                busy_ns: 11_500_000,
                steal_ns: 0,
                uncertainty_ns: 0,
            }],
            threads: Vec::new(),
            source: IdleSource::TimerList,
            shared: false,
            background: vec![OtherProgram {
                pid: 7,
                name: "process_api".to_owned(),
                cpu_ns: 8_000_000,
                bound_ns: 7_500_000,
            }],
            own_threads_ns: 9_200_000,
            parts: None,
        };
        assert_eq!((burst.others_bound_ns(), burst.own_busy_ns()), (2_300_000, 9_200_000));
        // 5.2 ms beyond what was left, and 0.5 ms that may have been elsewhere
        assert_eq!(burst.others_uncertain_ns(), 5_200_000);
        // and all that is taken out may have been outside
        assert_eq!(burst.others_outside_ns(), 2_300_000);
        let background = vec![OtherProgram {
            cpu_ns: 100_000_000,
            bound_ns: 99_000_000,
            ..burst.background[0].clone()
        }];
        let mut long = CpuUse { background, own_threads_ns: 0, ..burst.clone() };
        long.cpus[0].busy_ns = 300_000_000;
        // 4.04 ms beside the measurement, of which its share is 1 ms
        assert_eq!(long.others_outside_ns(), 3_040_404);
        long.parts = Some(CpuParts::default());
        assert_eq!(long.others_outside_ns(), 0);
        // threads that left more take nothing back
        let left = CpuUse { own_threads_ns: 3_000_000, ..burst.clone() };
        assert_eq!((left.own_busy_ns(), left.others_uncertain_ns()), (4_000_000, 500_000));
        // a trace knows what ran in the measurement
        let parts = CpuParts { others_ns: 100_000, ..CpuParts::default() };
        let traced = CpuUse { parts: Some(parts), ..burst };
        assert_eq!((traced.own_busy_ns(), traced.others_uncertain_ns()), (11_400_000, 0));
    }

    #[test]
    fn adds_up_the_time_of_a_thread_over_all_cpus() {
        let thread = |cpu_ns| ThreadTime {
            name: "flow".to_owned(),
            affinity: CpuSet::from_iter([0, 1]),
            cpu_ns,
            user_ns: 0,
        };
        let cpu =
            |cpu| CpuTime { cpu, interval_ns: 1000, busy_ns: 500, steal_ns: 0, uncertainty_ns: 0 };
        let group = CpuUse {
            cpus: vec![cpu(0), cpu(1)],
            threads: vec![thread(970), thread(20)],
            source: IdleSource::TimerList,
            shared: false,
            background: Vec::new(),
            own_threads_ns: 0,
            parts: None,
        };
        assert_eq!((group.busiest_percent(), group.busiest_thread_percent()), (50.0, Some(97.0)));
        // the clock of a thread that others wake runs while it waits for the CPU that it is bound to
        let bound = ThreadTime { affinity: CpuSet::from_iter([1]), ..thread(990) };
        let beside = CpuUse { threads: vec![thread(20), bound.clone()], ..group.clone() };
        assert_eq!(beside.busiest_thread_percent(), Some(2.0));
        let alone = CpuUse { threads: vec![bound], ..group.clone() };
        assert_eq!(alone.busiest_thread_percent(), None);
        assert_eq!(CpuUse { cpus: Vec::new(), ..group }.busiest_thread_percent(), None);
    }

    #[test]
    fn what_is_in_no_part_is_reported_in_either_sign() {
        let one = CpuParts {
            application_ns: 1,
            driver_ns: 2,
            napi_ns: 4,
            softirq_ns: 8,
            interrupt_ns: 16,
            kernel_ns: 32,
            linkrate_ns: 64,
            others_ns: 128,
            idle_loop_ns: 256,
        };
        assert_eq!(one.not_attributed_ns(600), 89);
        assert_eq!(one.not_attributed_ns(500), -11);
        assert_eq!(one.not_attributed_ns(511), 0);
        assert_eq!(one.own().iter().sum::<u64>() + one.others_ns, 511);
    }
}
