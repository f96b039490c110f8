//! Samples of what a CPU runs, by the perf software clock.
//!
//! perf_event_open(2) with PERF_COUNT_SW_CPU_CLOCK is a kernel timer on one CPU
//! (kernel/events/core.c, `perf_swevent_hrtimer`). Each time it fires, the kernel writes the
//! interrupted instruction into a ring, which this process reads later. This needs no hardware
//! counter, and a sample wakes no thread. The timer always fires on an idle CPU too, so idle time
//! is sampled as well.
//!
//! Work with interrupts disabled cannot be sampled. The timer fires when they are enabled again,
//! and the sample names the function that enabled them.

use std::io;

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler};

use crate::error::{SysError, SysResult};
use crate::sched::ThreadId;

/// Largest ring, bytes; longer sampling needs reading in between.
const MAX_RING: u64 = 16 << 20;

/// One sample in a ring: header, address, process and thread, time.
const SAMPLE_BYTES: u64 = 32;

/// CPU mode in `misc` of a record header: PERF_RECORD_MISC_CPUMODE_MASK and
/// PERF_RECORD_MISC_KERNEL, include/uapi/linux/perf_event.h.
const CPU_MODE_MASK: u16 = 7;
const CPU_MODE_KERNEL: u16 = 1;

/// Addresses in the kernel have the top bit set.
const KERNEL: u64 = 1 << 63;

/// The least number in a call chain that is no address (PERF_CONTEXT_MAX, include/uapi/linux/perf_event.h).
const CONTEXT: u64 = -4095i64 as u64;

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// Address of the interrupted instruction.
    pub address: u64,
    /// Whether the kernel ran.
    pub in_kernel: bool,
    /// Process id of the running thread, in the namespace of this process; 0 on an idle CPU.
    pub process: u32,
    /// The running thread. A softirq is sampled with the thread that it interrupted.
    pub thread: ThreadId,
}

/// Samples that the kernel reports as missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Samples that found the ring full.
    pub lost: u64,
    /// Number of times the kernel stopped sampling until the next tick, after too many samples
    /// since the last one (`perf_event_max_sample_rate` divided by HZ). At rates of some kHz this
    /// happens only on a CPU without tick, which is an idle one.
    pub throttled: u64,
}

/// Samples one CPU, with all threads that run there, from [`start`](Self::start) on.
pub struct CpuSampler {
    cpu: u32,
    lasts_ns: u64,
    sampler: Sampler,
}

impl std::fmt::Debug for CpuSampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CpuSampler").field("cpu", &self.cpu).finish_non_exhaustive()
    }
}

impl CpuSampler {
    /// Prepares to sample `cpu` each `period_ns` for about `length_ns`.
    ///
    /// # Errors
    /// `EACCES` if the kernel does not permit it (perf_event_paranoid), `ENOSYS` if it has no
    /// sampling.
    pub fn open(cpu: u32, period_ns: u64, length_ns: u64) -> SysResult<Self> {
        Self::with_chains(cpu, period_ns, length_ns, 0)
    }

    /// The same, and each sample has its call chain, of at most `frames` functions.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and `EOVERFLOW` for more frames than `perf_event_max_stack`.
    pub fn with_chains(cpu: u32, period_ns: u64, length_ns: u64, frames: u16) -> SysResult<Self> {
        let period_ns = period_ns.max(1);
        // the number of frames, and marks before those in the kernel and outside
        let chain_bytes = if frames > 0 { 8 * (u64::from(frames) + 3) } else { 0 };
        let sample_bytes = SAMPLE_BYTES + chain_bytes;
        // room for a quarter more samples than expected
        let wanted = (length_ns / period_ns + 1).saturating_mul(sample_bytes * 5 / 4);
        let ring = wanted.min(MAX_RING).next_power_of_two();
        let mut builder = Builder::new(Software::CPU_CLOCK);
        builder
            .any_pid()
            .one_cpu(cpu as usize)
            .include_kernel()
            .sample_period(period_ns)
            .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::TIME)
            // the clock of the meters
            .clockid(Clock::MONOTONIC);
        if frames > 0 {
            // with those outside of the kernel: the parser takes a chain without any for the end of the record
            builder.sample(SampleFlag::CALLCHAIN).sample_max_stack(frames);
        }
        let sampler = builder
            .build()
            .and_then(|counter| counter.sampled(ring as usize))
            .map_err(|error| refused(cpu, error))?;
        let lasts_ns = ring / sample_bytes * period_ns;
        Ok(Self { cpu, lasts_ns, sampler })
    }

    /// The CPU.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Time until the ring may be full, ns.
    pub fn lasts_ns(&self) -> u64 {
        self.lasts_ns
    }

    /// Starts sampling.
    pub fn start(&mut self) -> SysResult<()> {
        self.sampler.enable().map_err(|error| refused(self.cpu, error))
    }

    /// Stops sampling; the ring keeps its samples.
    pub fn stop(&mut self) -> SysResult<()> {
        self.sampler.disable().map_err(|error| refused(self.cpu, error))
    }

    /// Empties the ring.
    pub fn drain(&mut self, mut take: impl FnMut(Sample)) -> SysResult<Drained> {
        self.drain_chains(|sample, _| take(sample))
    }

    /// The same, each sample with its call chain in the kernel: addresses, the interrupted function first.
    pub fn drain_chains(&mut self, mut take: impl FnMut(Sample, &[u64])) -> SysResult<Drained> {
        let mut drained = Drained::default();
        let mut chain = Vec::new();
        while let Some(record) = self.sampler.next_record() {
            let in_kernel = record.misc() & CPU_MODE_MASK == CPU_MODE_KERNEL;
            let parsed = record.parse_record().map_err(|error| {
                let error = io::Error::new(io::ErrorKind::InvalidData, error.to_string());
                SysError::new("read samples of", format!("CPU {}", self.cpu), error)
            })?;
            match parsed {
                Record::Sample(sample) => {
                    let frames = sample.callchain().unwrap_or_default().iter().copied();
                    chain.clear();
                    chain.extend(frames.filter(|frame| (KERNEL..CONTEXT).contains(frame)));
                    let sample = Sample {
                        at_ns: sample.time().unwrap_or(0),
                        address: sample.ip().unwrap_or(0),
                        in_kernel,
                        process: sample.pid().unwrap_or(0),
                        thread: sample.tid().unwrap_or(0) as ThreadId,
                    };
                    take(sample, &chain);
                }
                Record::Lost(record) => drained.lost = drained.lost.saturating_add(record.lost),
                Record::Throttle(_) => drained.throttled = drained.throttled.saturating_add(1),
                _ => {}
            }
        }
        Ok(drained)
    }
}

fn refused(cpu: u32, error: io::Error) -> SysError {
    let hint = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "run as root, or run `sysctl -w kernel.perf_event_paranoid=-1`"
        }
        Some(libc::ENOSYS | libc::ENOENT | libc::EOPNOTSUPP) => {
            "use a kernel with CONFIG_PERF_EVENTS"
        }
        _ => "see perf_event_open(2)",
    };
    SysError::new("sample", format!("CPU {cpu}"), error).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_ns;
    use crate::cpus;
    use crate::sched::{affinity, current_thread, set_affinity, thread_cpu_ns};
    use crate::skip::skip;

    /// Burns CPU in user mode until `deadline_ns`.
    fn spin_until(deadline_ns: u64) {
        while monotonic_ns() < deadline_ns {
            std::hint::black_box((0..1000u64).fold(0, |a, b| a ^ std::hint::black_box(b)));
        }
    }

    #[test]
    fn a_busy_thread_is_seen_where_it_runs_and_when() {
        let home = affinity(current_thread()).unwrap();
        let cpu = home.iter().next().unwrap();
        let period_ns = 1_000_000;
        let mut sampler = match CpuSampler::open(cpu, period_ns, 1_000_000_000) {
            Ok(sampler) => sampler,
            Err(error) => {
                assert!(error.hint().is_some());
                return skip(error);
            }
        };
        assert!(sampler.lasts_ns() >= 1_000_000_000, "{}", sampler.lasts_ns());
        set_affinity(current_thread(), &[cpu].into_iter().collect()).unwrap();
        let (began_ns, own_ns) = (monotonic_ns(), thread_cpu_ns(current_thread()).unwrap());
        sampler.start().unwrap();
        // on a busy machine it has a small part of the CPU
        while thread_cpu_ns(current_thread()).unwrap() < own_ns + 30_000_000
            && monotonic_ns() < began_ns + 900_000_000
        {
            spin_until(monotonic_ns() + 1_000_000);
        }
        sampler.stop().unwrap();
        let ended_ns = monotonic_ns();
        set_affinity(current_thread(), &home).unwrap();

        let mut samples = Vec::new();
        let drained = sampler.drain(|sample| samples.push(sample)).unwrap();
        assert_eq!(drained.lost, 0);
        // other threads may run too, but this one runs in user mode
        let own = |s: &&Sample| s.thread == current_thread() && s.process == std::process::id();
        let mine: Vec<&Sample> = samples.iter().filter(own).collect();
        assert!(mine.len() > 5, "{} of {}", mine.len(), samples.len());
        assert!(mine.iter().any(|sample| !sample.in_kernel));
        assert!(mine.iter().all(|sample| (sample.address >= KERNEL) == sample.in_kernel));
        let expected = (ended_ns - began_ns) / period_ns + 1;
        assert!(samples.len() as u64 <= expected, "{} of {expected}", samples.len());
        assert!(samples.iter().all(|s| (began_ns..=ended_ns).contains(&s.at_ns)));
        let mut again = 0;
        sampler.drain(|_| again += 1).unwrap();
        assert_eq!(again, 0, "what was read is gone");
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused_by_its_number() {
        let absent = cpus::online().unwrap().iter().last().unwrap() + 4096;
        let error = CpuSampler::open(absent, 1_000_000, 1_000_000_000).unwrap_err();
        assert!(error.to_string().contains(&format!("CPU {absent}")), "{error}");
    }
}
