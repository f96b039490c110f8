//! Profiles: samples of the CPUs in one measurement, added up by function and by thread.
//!
//! Sampling lasts slightly longer than the measurement. A sample counts if its time is between the two
//! readings of the meter of its CPU, so that profile and meter cover the same time. Samples stay in
//! kernel rings until the measurement has closed. Only a measurement of minutes has to read the rings
//! earlier.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;

use linkrate_model::CpuSet;
use linkrate_model::profile::{Owner, Profile, TaskSamples};
use linkrate_sys::error::SysResult;
use linkrate_sys::kallsyms::KernelSymbols;
use linkrate_sys::perf::{CpuSampler, Sample};
use linkrate_sys::procstat;
use linkrate_sys::sched::ThreadId;

use crate::flow::Flow;
use crate::idle_counter;
use crate::meter::Reading;
use linkrate_protocol::bounds;

/// Time between two samples of a CPU, ns: 1618 in a second.
///
/// The golden section of a millisecond. Timers of kernels and adapters have round periods. The
/// multiples of this period spread most evenly over each of them, so periodic work is sampled in
/// proportion to its duration.
pub const PERIOD_NS: u64 = 618_034;

/// Sampling starts and ends this much outside of the measurement, ns.
const MARGIN_NS: u64 = 500_000_000;

/// The part of a profile that is the same for all runs.
#[derive(Debug, Default)]
pub struct Profiler {
    symbols: KernelSymbols,
}

impl Profiler {
    /// Reads the names of kernel functions and checks that each of `cpus` can be sampled. An error names the missing
    /// privilege or kernel feature, with the remedy.
    pub fn prepare(cpus: &CpuSet) -> SysResult<Self> {
        for cpu in cpus.iter() {
            CpuSampler::open(cpu, PERIOD_NS, PERIOD_NS)?;
        }
        Ok(Self { symbols: KernelSymbols::read()? })
    }

    /// Starts to sample `cpus`, for about `length_ns`.
    pub fn start(&self, cpus: &CpuSet, length_ns: u64) -> SysResult<Sampling<'_>> {
        let open = |cpu| CpuSampler::open(cpu, PERIOD_NS, length_ns.saturating_add(MARGIN_NS));
        let mut samplers = cpus.iter().map(open).collect::<SysResult<Vec<_>>>()?;
        for sampler in &mut samplers {
            sampler.start()?;
        }
        let tally = Tally::new(&self.symbols);
        Ok(Sampling { samplers, tally, lost: 0, throttled: 0, idle_entries: BTreeMap::new() })
    }
}

#[derive(Debug)]
pub struct Sampling<'a> {
    samplers: Vec<CpuSampler>,
    tally: Tally<'a>,
    lost: u64,
    throttled: u64,
    /// Readings when the measurement began.
    idle_entries: BTreeMap<u32, u64>,
}

impl Sampling<'_> {
    /// How long to wait before [`read`](Self::read), so that no ring overflows, ns.
    pub fn lasts_ns(&self) -> u64 {
        let shortest = self.samplers.iter().map(CpuSampler::lasts_ns).min();
        // well before a ring is full
        shortest.map_or(u64::MAX, |ns| ns / 4 * 3)
    }

    pub fn opened(&mut self, reading: &Reading) {
        self.idle_entries = procstat::idle_entries();
        let moments = reading.cpu_moments();
        self.tally.intervals = moments.map(|(cpu, at_ns)| (cpu, at_ns..u64::MAX)).collect();
    }

    /// Empties the rings. Fails at an unknown record.
    pub fn read(&mut self) -> SysResult<()> {
        for sampler in &mut self.samplers {
            let cpu = sampler.cpu();
            let drained = sampler.drain(|sample| self.tally.add(cpu, sample))?;
            self.lost = self.lost.saturating_add(drained.lost);
            self.throttled = self.throttled.saturating_add(drained.throttled);
        }
        Ok(())
    }

    /// Ends sampling after the measurement and returns the samples inside it. Fails at an unknown record.
    pub fn closed(mut self, reading: &Reading, flows: &[Flow]) -> SysResult<Profile> {
        let after = procstat::idle_entries();
        for sampler in &mut self.samplers {
            sampler.stop()?;
        }
        for (cpu, at_ns) in reading.cpu_moments() {
            if let Some(interval) = self.tally.intervals.get_mut(&cpu) {
                interval.end = at_ns;
            }
        }
        self.read()?;
        let mut profile = self.tally.into_profile();
        profile.lost = self.lost;
        profile.throttled = self.throttled;
        let entries = profile
            .cpus
            .iter()
            .map(|(cpu, _)| Some(after.get(cpu)?.saturating_sub(*self.idle_entries.get(cpu)?)));
        profile.idle_entries = entries.sum();
        let flows: Vec<ThreadId> = flows.iter().map(|flow| flow.thread_id).collect();
        name_tasks(&mut profile.tasks, &flows);
        Ok(profile)
    }
}

/// Samples in user mode and in the kernel.
type Modes = (u64, u64);

/// Adds up the samples inside the measurement of their CPU.
#[derive(Debug)]
struct Tally<'a> {
    symbols: &'a KernelSymbols,
    intervals: BTreeMap<u32, Range<u64>>,
    cpus: BTreeMap<u32, u64>,
    functions: HashMap<&'a str, u64>,
    /// Samples without a thread.
    idle: HashMap<&'a str, u64>,
    unnamed: u64,
    threads: HashMap<(u32, ThreadId), Modes>,
}

impl<'a> Tally<'a> {
    fn new(symbols: &'a KernelSymbols) -> Self {
        Self {
            symbols,
            intervals: BTreeMap::new(),
            cpus: BTreeMap::new(),
            functions: HashMap::new(),
            idle: HashMap::new(),
            unnamed: 0,
            threads: HashMap::new(),
        }
    }

    fn add(&mut self, cpu: u32, sample: Sample) {
        if !self.intervals.get(&cpu).is_some_and(|interval| interval.contains(&sample.at_ns)) {
            return;
        }
        *self.cpus.entry(cpu).or_default() += 1;
        let (user, kernel) = self.threads.entry((sample.process, sample.thread)).or_default();
        if !sample.in_kernel {
            *user += 1;
            return;
        }
        *kernel += 1;
        let functions = if sample.process == 0 { &mut self.idle } else { &mut self.functions };
        match self.symbols.name_of(sample.address) {
            Some(name) if name.len() <= bounds::SYMBOL_BYTES => {
                *functions.entry(name).or_default() += 1;
            }
            _ => self.unnamed += 1,
        }
    }

    /// The sums; tasks have no names yet.
    fn into_profile(self) -> Profile {
        let (kernel, kernel_rest) = commonest(self.functions);
        let (idle, idle_rest) = commonest(self.idle);
        let of = |cpu: &u32| (*cpu, self.cpus.get(cpu).copied().unwrap_or(0));
        Profile {
            period_ns: PERIOD_NS,
            cpus: self.intervals.keys().map(of).collect(),
            idle_entries: None,
            kernel,
            idle,
            kernel_rest: kernel_rest + idle_rest,
            kernel_unnamed: self.unnamed,
            tasks: tasks(self.threads),
            lost: 0,
            throttled: 0,
        }
    }
}

/// The most frequent functions, and the number of samples of all others. The order is
/// deterministic.
fn commonest(functions: HashMap<&str, u64>) -> (Vec<(String, u64)>, u64) {
    let mut functions: Vec<(String, u64)> =
        functions.into_iter().map(|(name, samples)| (name.to_owned(), samples)).collect();
    functions.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
    let rest = functions.split_off(functions.len().min(bounds::SYMBOLS));
    (functions, rest.iter().map(|(_, samples)| samples).sum())
}

/// The most frequent threads, and all others as one.
fn tasks(threads: HashMap<(u32, ThreadId), Modes>) -> Vec<TaskSamples> {
    let mut tasks: Vec<TaskSamples> = threads
        .into_iter()
        .map(|((process, thread), (user, kernel))| TaskSamples {
            name: String::new(),
            owner: if process == 0 { Owner::Idle } else { Owner::Other },
            process,
            thread,
            user,
            kernel,
        })
        .collect();
    tasks.sort_by_key(|task| (std::cmp::Reverse(task.user + task.kernel), task.thread));
    if tasks.len() > bounds::TASKS {
        let rest = tasks.split_off(bounds::TASKS - 1);
        tasks.push(TaskSamples {
            name: format!("{} more", rest.len()),
            owner: Owner::Other,
            process: 0,
            thread: 0,
            user: rest.iter().map(|task| task.user).sum(),
            kernel: rest.iter().map(|task| task.kernel).sum(),
        });
    }
    tasks
}

/// Adds the names of threads, and marks those of this agent. A thread that has ended has its ids
/// only.
fn name_tasks(tasks: &mut [TaskSamples], flows: &[ThreadId]) {
    let own = std::process::id();
    for task in tasks.iter_mut().filter(|task| task.name.is_empty()) {
        if task.owner == Owner::Idle {
            task.name = "idle".to_owned();
            continue;
        }
        let path = format!("/proc/{}/task/{}/comm", task.process, task.thread);
        let name = fs::read_to_string(path).map(|name| name.trim_end().to_owned());
        task.name = name.unwrap_or_else(|_| format!("ended ({})", task.process));
        if task.process == own {
            task.owner = match () {
                () if flows.contains(&task.thread) => Owner::Flow,
                // it runs on otherwise idle CPUs
                () if task.name.starts_with(idle_counter::THREAD) => Owner::Idle,
                () => Owner::Instrument,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ns: u64, in_kernel: bool, thread: ThreadId) -> Sample {
        let process = u32::from(thread != 0) * 7;
        Sample { at_ns, address: 0x10, in_kernel, process, thread }
    }

    /// The profile of samples in a measurement of one CPU, or of several.
    fn profile(intervals: &[(u32, Range<u64>)], samples: &[(u32, Sample)]) -> Profile {
        let symbols = KernelSymbols::default();
        let mut tally = Tally::new(&symbols);
        tally.intervals = intervals.iter().cloned().collect();
        samples.iter().for_each(|(cpu, sample)| tally.add(*cpu, *sample));
        tally.into_profile()
    }

    #[test]
    fn samples_count_inside_their_own_cpus_interval() {
        let samples = [
            (0, sample(99, true, 8)),
            (0, sample(100, true, 8)),
            (0, sample(199, false, 8)),
            (0, sample(200, false, 8)),
            (3, sample(205, true, 0)),
            (9, sample(150, true, 8)),
        ];
        let profile = profile(&[(0, 100..200), (3, 110..210), (4, 0..9)], &samples);
        assert_eq!(profile.cpus, [(0, 2), (3, 1), (4, 0)]);
        assert_eq!((profile.samples(), profile.kernel_unnamed), (3, 2));
        let counts: Vec<_> =
            profile.tasks.iter().map(|t| (t.owner, t.thread, t.user, t.kernel)).collect();
        assert_eq!(counts, [(Owner::Other, 8, 1, 1), (Owner::Idle, 0, 0, 1)]);
    }

    #[test]
    fn a_crowd_of_threads_is_reported_as_one() {
        let crowd = bounds::TASKS as ThreadId + 50;
        let samples: Vec<_> = (1..=crowd).map(|thread| (0, sample(5, false, thread))).collect();
        let profile = profile(&[(0, 0..10)], &samples);
        assert_eq!(profile.tasks.len(), bounds::TASKS);
        assert_eq!(profile.tasks.last().unwrap().user, 51);
        assert!(profile.tasks.iter().all(|task| task.owner == Owner::Other));
        assert_eq!(profile.tasks.iter().map(|task| task.user).sum::<u64>(), crowd as u64);
    }

    #[test]
    fn threads_have_their_names_and_owners() {
        let mut tasks = tasks(HashMap::from([
            ((std::process::id(), std::process::id() as ThreadId), (3, 0)),
            ((0, 0), (0, 2)),
            ((u32::MAX, 1), (1, 0)),
        ]));
        name_tasks(&mut tasks, &[]);
        let reported: Vec<_> =
            tasks.iter().map(|task| (task.owner, task.name.is_empty())).collect();
        assert_eq!(
            reported,
            [(Owner::Instrument, false), (Owner::Idle, false), (Owner::Other, false)]
        );
        assert_eq!(tasks[2].name, format!("ended ({})", u32::MAX));
    }
}
