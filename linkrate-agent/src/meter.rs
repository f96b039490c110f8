//! Meters of one measurement: their counters, and the order in which they are read.
//!
//! The slow readings (interface, protocol, TCP_INFO of senders, queue disciplines) are taken
//! [some milliseconds](SLOW_AHEAD_NS) before the measurement opens, and after it has closed. So they are not
//! charged to its CPU time. They also must not stand right before the payload is read: for as long as
//! they take, nothing else runs on the agent's CPU. What waits there, in sockets, rings and devices,
//! would be missing when the measurement opens, and not when it closes. Payload was 0.03 % too high by that.
//!
//! Both edges are read in the same order, at once when the agent wakes: payload, then CPU time. So both
//! cover the same time except for microseconds, and what is late at an edge is as late at the other. The
//! readings that tell [what was on its way](crossing) are outside of both.

pub mod crossing;
mod parts;
pub mod payload;

use std::collections::BTreeMap;

use linkrate_model::CpuSet;
use linkrate_model::cpu_use::CpuParts;
use linkrate_model::discipline::Discipline;
use linkrate_model::evidence::OutOfOrder;
use linkrate_model::failure::Resent;
use linkrate_model::measurement::{
    CpuTime, CpuUse, InterfaceCounts, MAX_FLOWS_READ, OtherProgram, SenderPath, SenderTimes,
    ThreadTime,
};
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::error::SysError;
use linkrate_sys::ethtool::Ethtool;
use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::netstat;
use linkrate_sys::on_cpu::Worked;
use linkrate_sys::other_programs::ProgramTimes;
use linkrate_sys::processes;
use linkrate_sys::procstat::CpuTimes;
use linkrate_sys::sched::{self, ThreadId};
use linkrate_sys::tcp_info::TcpInfo;

use crate::cpu_meter::{CpuMeter, CpuReading, at_least, busy};
use crate::flow::Flow;
use crate::send_buffers::has_queue;
use crossing::Arrived;
use linkrate_protocol::{AGENT_THREAD, MeasureSpec, MeasurementReport};
use payload::Payload;

/// How long before a measurement opens its slow readings begin, ns. What waited meanwhile is carried until
/// then, and the readings [around the edge](crossing::AROUND_NS) begin after them.
pub const SLOW_AHEAD_NS: u64 = crossing::AROUND_NS + 4_000_000;

#[derive(Debug)]
pub struct Reading {
    payload: Payload,
    cpus: Vec<CpuReading>,
    threads: Vec<(ThreadId, u64, u64)>,
    /// Time of the first reading when the measurement opens, and of the last when it closes.
    threads_at_ns: u64,
    /// Payload that peers had behind a gap.
    gap_bytes: u64,
    slow: Slow,
    /// Other programs that used the accounted CPUs; known after the measurement.
    others: Vec<OtherProgram>,
}

/// Interface, protocol and socket counters.
#[derive(Debug)]
pub struct Slow {
    interface: InterfaceCounts,
    protocol: BTreeMap<String, u64>,
    receive_packets: BTreeMap<u32, u64>,
    /// When the senders were read, CLOCK_MONOTONIC ns.
    senders_at_ns: u64,
    senders: Senders,
    disciplines: Vec<Discipline>,
    /// Processes and threads that were started on this machine since it was; 0 where that cannot be read.
    forks: u64,
}

/// TCP_INFO of the flows that send, by flow number.
type Senders = BTreeMap<usize, TcpInfo>;

/// The reading at the event of a run.
#[derive(Debug)]
pub struct Event(Senders);

impl Event {
    /// What the flows that send sent again from then on until the measurement closed.
    pub fn resent(&self, closed: &Reading) -> Resent {
        let SenderTimes { resent_bytes, retransmits, .. } =
            sender_times(&self.0, &closed.slow.senders, 0);
        Resent { bytes: resent_bytes, segments: retransmits }
    }
}

impl Reading {
    /// Time of reading of each CPU, as (CPU, CLOCK_MONOTONIC ns).
    pub fn cpu_moments(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.cpus.iter().map(|reading| (reading.times.cpu, reading.times.at_ns))
    }
}

#[derive(Debug)]
pub struct Meters<'a> {
    spec: &'a MeasureSpec,
    flows: &'a [Flow],
    cpu: &'a CpuMeter,
    main_thread: ThreadId,
    /// Read well before the measurement opens, since it takes some milliseconds.
    program_times: Option<ProgramTimes>,
}

impl<'a> Meters<'a> {
    /// Meters for `spec` over `flows`, to be read by the calling thread.
    pub fn new(spec: &'a MeasureSpec, flows: &'a [Flow], cpu: &'a CpuMeter) -> Self {
        // a trace reports on other programs too
        let reads_programs = !spec.cpus.is_empty() && !cpu.is_tracing();
        let program_times = reads_programs.then(|| ProgramTimes::read_without(&spec.agents));
        Self { spec, flows, cpu, main_thread: sched::current_thread(), program_times }
    }

    /// The slow readings of the measurement, [`SLOW_AHEAD_NS`] before it opens.
    pub fn prepare(&self) -> Result<Slow, SysError> {
        self.read_slow()
    }

    /// What arrives before the measurement opens, from now until `edge_ns`.
    pub fn approach(&self, edge_ns: u64) -> Vec<Arrived> {
        crossing::before(self.flows, self.spec.readers, edge_ns)
    }

    /// The reading that opens the measurement, at its time.
    pub fn open(&self, slow: Slow, around: Vec<Arrived>) -> Result<Reading, SysError> {
        let mut payload = Payload::read(self.flows);
        payload.around = around;
        let threads_at_ns = monotonic_ns();
        let threads = self.read_threads();
        let cpus = self.cpu.read(&self.spec.cpus)?;
        let gap_bytes = self.gap_bytes();
        Ok(Reading { payload, cpus, threads, threads_at_ns, gap_bytes, slow, others: Vec::new() })
    }

    /// The reading that closes the measurement that began with `opened`.
    pub fn close(&self, opened: &Reading) -> Result<Reading, SysError> {
        let mut payload = Payload::read(self.flows);
        let cpus = self.cpu.read(&self.spec.cpus)?;
        let threads = self.read_threads();
        let threads_at_ns = monotonic_ns();
        let gap_bytes = self.gap_bytes();
        payload.around = crossing::behind(self.flows, self.spec.readers, payload.at_ns);
        let slow = self.read_slow()?;
        let others = self.program_times.as_ref().map_or_else(Vec::new, |before| {
            let interval_ns = payload.at_ns.saturating_sub(opened.payload.at_ns);
            let now = ProgramTimes::read_without(&self.spec.agents);
            now.since(before, &self.spec.cpus, interval_ns)
        });
        Ok(Reading { payload, cpus, threads, threads_at_ns, gap_bytes, slow, others })
    }

    fn read_threads(&self) -> Vec<(ThreadId, u64, u64)> {
        let ids = self.flows.iter().map(|flow| flow.thread_id).chain([self.main_thread]);
        // a flow that has ended has no times; its failure is reported separately
        ids.filter_map(|id| {
            Some((id, sched::thread_cpu_ns(id).ok()?, sched::thread_user_ns(id).ok()?))
        })
        .collect()
    }

    fn read_slow(&self) -> Result<Slow, SysError> {
        let mut pauses = InterfaceCounts::default();
        let mut route = RouteSocket::open()?;
        // pause frames stay zero where a driver does not count them, or the kernel not tell
        let mut ethtool = Ethtool::open().ok();
        let mut disciplines = Vec::new();
        for name in &self.spec.interfaces {
            let pause = ethtool.as_mut().and_then(|ethtool| ethtool.pause_frames(name).ok());
            let pause = pause.unwrap_or_default();
            pauses = pauses.plus(InterfaceCounts {
                tx_pause_frames: pause.tx,
                rx_pause_frames: pause.rx,
                ..InterfaceCounts::default()
            });
            disciplines.extend(route.disciplines(name)?);
        }
        let (interface, protocol) = netstat::quickest(|| {
            let mut names = self.spec.interfaces.iter();
            let interface = names.try_fold(pauses, |sum, name| {
                Ok::<_, SysError>(sum.plus(route.link(name)?.counters))
            })?;
            Ok((interface, netstat::protocol_counters()?))
        })?;
        Ok(Slow {
            interface,
            protocol,
            receive_packets: netstat::receive_packets_by_cpu()?,
            senders_at_ns: monotonic_ns(),
            senders: self.read_senders(),
            disciplines,
            forks: processes::forks().unwrap_or(0),
        })
    }

    fn read_senders(&self) -> Senders {
        let sending = self.flows.iter().enumerate().filter(|(_, flow)| flow.sends);
        sending
            .filter_map(|(number, flow)| Some((number, flow.tcp_info(self.flows.len())?)))
            .collect()
    }

    /// Payload of all flows that send which waits behind a gap, bytes; not of more flows than are read at an edge.
    fn gap_bytes(&self) -> u64 {
        let sending = self.flows.iter().filter(|flow| flow.sends);
        if sending.clone().count() > MAX_FLOWS_READ as usize {
            return 0;
        }
        let infos = sending.filter_map(|flow| flow.tcp_info(self.flows.len()));
        infos.map(|info| u64::from(info.sacked) * u64::from(info.snd_mss)).sum()
    }

    /// The senders at the event of the run, within the measurement.
    pub fn at_event(&self) -> Event {
        Event(self.read_senders())
    }

    /// The counts between two readings.
    pub fn report(
        &self,
        opened: &Reading,
        closed: &Reading,
        broken: Option<String>,
    ) -> MeasurementReport {
        let (before, after) = (&opened.payload, &closed.payload);
        let moved = after.since(before, self.flows);
        MeasurementReport {
            started_ns: before.at_ns,
            ended_ns: after.at_ns,
            stalled_ns: 0,
            received_bytes: moved.all.received_bytes,
            sent_bytes: moved.all.sent_bytes,
            transactions: moved.all.transactions,
            timeouts: moved.all.timeouts,
            cpu: self.cpu_use(opened, closed),
            interface: closed.slow.interface.since(opened.slow.interface),
            protocol: map_difference(&opened.slow.protocol, &closed.slow.protocol),
            senders: SenderTimes {
                out_of_order: OutOfOrder {
                    opened_bytes: opened.gap_bytes,
                    closed_bytes: closed.gap_bytes,
                },
                ..sender_times(
                    &opened.slow.senders,
                    &closed.slow.senders,
                    closed.slow.senders_at_ns.saturating_sub(opened.slow.senders_at_ns) / 1000,
                )
            },
            receive_packets_by_cpu: map_difference(
                &opened.slow.receive_packets,
                &closed.slow.receive_packets,
            ),
            receive_batches: moved.receive_batches,
            zerocopy_copied: moved.zerocopy_copied,
            zerocopy_completed: moved.zerocopy_completed,
            disciplines: [opened, closed].map(|reading| reading.slow.disciplines.clone()),
            forks: closed.slow.forks.saturating_sub(opened.slow.forks),
            profile: None,
            intervals: Vec::new(),
            record: None,
            parts: moved.parts,
            broken,
        }
    }

    fn cpu_use(&self, opened: &Reading, closed: &Reading) -> CpuUse {
        let threads = closed.threads.iter().filter_map(|(id, cpu_ns, user_ns)| {
            let (_, cpu_before, user_before) = opened.threads.iter().find(|(old, ..)| old == id)?;
            let name = self.flows.iter().find(|flow| flow.thread_id == *id);
            let thread = ThreadTime {
                name: name.map_or_else(|| AGENT_THREAD.to_owned(), |flow| flow.name.clone()),
                affinity: sched::affinity(*id).unwrap_or_default(),
                cpu_ns: cpu_ns.saturating_sub(*cpu_before),
                user_ns: user_ns.saturating_sub(*user_before),
            };
            Some((*id, thread))
        });
        let (ids, mut threads): (Vec<ThreadId>, Vec<ThreadTime>) = threads.unzip();
        let source = self.cpu.source();
        let worked = worked(opened, closed);
        let (parts, others) = match &worked {
            Some(worked) => {
                let (parts, others) = self.parts(worked);
                (Some(parts), others)
            }
            None => (None, closed.others.clone()),
        };
        // threads are read before the measurement of the CPU opens and after it closes
        let threads_ns = closed.threads_at_ns.saturating_sub(opened.threads_at_ns);
        let beside_ns =
            |a: &CpuTimes, b: &CpuTimes| threads_ns.saturating_sub(b.at_ns.saturating_sub(a.at_ns));
        let times =
            || opened.cpus.iter().map(|r| &r.times).zip(closed.cpus.iter().map(|r| &r.times));
        let cpus = times()
            .map(|(a, b)| at_least(known_ns(&threads, a.cpu, beside_ns(a, b)), busy(source, a, b)));
        let cpus: Vec<CpuTime> = cpus.collect();
        let own_threads_ns =
            of_threads_here(&threads, &self.spec.cpus, times().map(|(a, b)| beside_ns(a, b)).sum());
        if let Some(worked) = &worked {
            for (id, thread) in ids.iter().zip(&mut threads) {
                // its own clock runs while it waits for the CPU
                thread.cpu_ns = traced_ns(*id, thread, &self.spec.cpus, worked);
            }
        }
        CpuUse { cpus, threads, source, shared: false, background: others, own_threads_ns, parts }
    }

    /// The busy time of the accounted CPUs by what ran, and the third-party programs.
    fn parts(&self, worked: &[Worked]) -> (CpuParts, Vec<OtherProgram>) {
        let own = parts::Own {
            flows: self.flows.iter().map(|flow| flow.thread_id as u32).collect(),
            drivers: &self.spec.drivers,
            napi: &self.spec.napi_threads,
            processes: [std::process::id(), std::os::unix::process::parent_id()]
                .into_iter()
                .chain(self.spec.agents.iter().copied())
                .collect(),
        };
        parts::divide(worked, &own)
    }
}

/// What the accounted CPUs worked for; `None` without a trace.
fn worked(opened: &Reading, closed: &Reading) -> Option<Vec<Worked>> {
    let cpus = opened.cpus.iter().zip(&closed.cpus);
    let worked =
        cpus.map(|(opened, closed)| Some(closed.on_cpu.as_ref()?.since(opened.on_cpu.as_ref()?)));
    worked.collect::<Option<Vec<Worked>>>().filter(|worked| !worked.is_empty())
}

/// Certain CPU time of threads bound to `cpu` only, if each may have run for `beside_ns` outside of
/// the measurement.
fn known_ns(threads: &[ThreadTime], cpu: u32, beside_ns: u64) -> u64 {
    let alone = [cpu].into_iter().collect();
    let there = threads.iter().filter(|thread| thread.affinity == alone);
    there.map(|thread| thread.cpu_ns).sum::<u64>().saturating_sub(beside_ns)
}

/// Certain CPU time of threads that may run on `cpus` only, if together they may have run for `beside_ns` outside of the
/// measurement.
fn of_threads_here(threads: &[ThreadTime], cpus: &CpuSet, beside_ns: u64) -> u64 {
    let here = threads.iter().filter(|thread| is_here(thread, cpus));
    here.map(|thread| thread.cpu_ns).sum::<u64>().saturating_sub(beside_ns)
}

/// Whether a thread may run on `cpus` only.
fn is_here(thread: &ThreadTime, cpus: &CpuSet) -> bool {
    !thread.affinity.is_empty() && thread.affinity.iter().all(|cpu| cpus.contains(cpu))
}

/// The time of a thread by the trace of `cpus`; by its own clock if it may run elsewhere.
fn traced_ns(id: ThreadId, thread: &ThreadTime, cpus: &CpuSet, worked: &[Worked]) -> u64 {
    if !is_here(thread, cpus) {
        return thread.cpu_ns;
    }
    let everywhere = worked.iter().flat_map(|cpu| &cpu.threads);
    everywhere.filter(|one| one.thread == id as u32).map(|one| one.ns).sum()
}

/// The differences of counters, without those that are zero.
fn map_difference<K: Ord + Clone>(a: &BTreeMap<K, u64>, b: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    b.iter()
        .map(|(key, after)| (key.clone(), after.saturating_sub(a.get(key).copied().unwrap_or(0))))
        .filter(|(_, difference)| *difference > 0)
        .collect()
}

/// What a sender knows of its path.
fn path(info: &TcpInfo) -> SenderPath {
    // the largest number is the kernel's word for none
    let known = |value: u32| u64::from(if value < i32::MAX as u32 { value } else { 0 });
    SenderPath {
        rtt_us: known(info.rtt_us),
        min_rtt_us: known(info.min_rtt_us),
        cwnd_segments: known(info.snd_cwnd),
        ssthresh_segments: known(info.snd_ssthresh),
        unacked_segments: known(info.unacked),
    }
}

/// What the senders did between two readings that are `between_us` apart.
fn sender_times(before: &Senders, after: &Senders, between_us: u64) -> SenderTimes {
    let both = after.iter().filter_map(|(flow, after)| Some((before.get(flow)?, after)));
    both.fold(SenderTimes::default(), |sum, (a, b)| {
        let rwnd_limited_us = b.rwnd_limited_us.saturating_sub(a.rwnd_limited_us);
        let queued = has_queue(a) || has_queue(b);
        sum.plus(SenderTimes {
            sockets: 1,
            observed_us: between_us,
            busy_us: b.busy_time_us.saturating_sub(a.busy_time_us),
            rwnd_limited_us,
            rwnd_limited_unqueued_us: Some(if queued { 0 } else { rwnd_limited_us }),
            sndbuf_limited_us: b.sndbuf_limited_us.saturating_sub(a.sndbuf_limited_us),
            retransmits: u64::from(b.total_retrans.saturating_sub(a.total_retrans)),
            // both are of 32 bits, and go around
            data_segments: b.data_segments_out.wrapping_sub(a.data_segments_out).into(),
            acknowledgements: b.acknowledgements_in.wrapping_sub(a.acknowledgements_in).into(),
            resent_bytes: b.resent_bytes.saturating_sub(a.resent_bytes),
            path: [path(a), path(b)],
            ..SenderTimes::default()
        })
    })
}

#[cfg(test)]
mod tests {
    use linkrate_sys::on_cpu::ThreadOnCpu;

    use super::*;

    #[test]
    fn bound_threads_are_known_to_have_used_their_cpu() {
        let thread = |affinity: &[u32], cpu_ns| ThreadTime {
            name: "flow".to_owned(),
            affinity: affinity.iter().copied().collect(),
            cpu_ns,
            user_ns: 0,
        };
        let threads = [thread(&[1], 500), thread(&[1], 300), thread(&[0, 1], 90), thread(&[0], 7)];
        assert_eq!([0, 1, 2].map(|cpu| known_ns(&threads, cpu, 10)), [0, 790, 0]);
        let here = |cpus: &[u32]| of_threads_here(&threads, &cpus.iter().copied().collect(), 10);
        assert_eq!([here(&[1]), here(&[0, 1]), here(&[2])], [790, 887, 0]);
    }

    #[test]
    fn a_trace_has_the_time_of_threads_that_run_where_it_is() {
        let cpus: CpuSet = [0, 1].into_iter().collect();
        let on = |thread, ns| {
            let (process, name) = (7, "flow".to_owned());
            let threads = vec![ThreadOnCpu { process, thread, name, ns }];
            Worked { threads, ..Worked::default() }
        };
        let worked = [on(10, 300), on(11, 50), on(10, 20)];
        for (id, affinity, expected) in [
            (10, &[0, 1][..], 320),
            (11, &[1], 50),
            (12, &[1], 0),
            (10, &[1, 2], 900),
            (10, &[], 900),
        ] {
            let thread = ThreadTime {
                name: "flow".to_owned(),
                affinity: affinity.iter().copied().collect(),
                // with its waits for the CPU
                cpu_ns: 900,
                user_ns: 0,
            };
            assert_eq!(traced_ns(id, &thread, &cpus, &worked), expected, "{id} on {affinity:?}");
        }
    }

    #[test]
    fn a_receivers_window_that_a_queue_fills_is_reported_from_one_that_is_small() {
        let at = |rtt_us, rwnd_limited_us| TcpInfo {
            rtt_us,
            min_rtt_us: 1000,
            rwnd_limited_us,
            busy_time_us: rwnd_limited_us,
            ..TcpInfo::default()
        };
        let times = |flows: [(u32, u32); 2]| {
            let before = (0..).zip(flows.map(|(before, _)| at(before, 100))).collect();
            let after = (0..).zip(flows.map(|(_, after)| at(after, 700))).collect();
            let sum = sender_times(&before, &after, 1_036_000);
            assert_eq!(sum.observed_us, 2_072_000, "of both sockets");
            (sum.sockets, sum.rwnd_limited_us, sum.rwnd_limited_unqueued_us)
        };
        assert_eq!(times([(1100, 2000), (1900, 1000)]), (2, 1200, Some(1200)));
        assert_eq!(times([(1100, 2001), (1100, 1100)]), (2, 1200, Some(600)));
        assert_eq!(times([(9000, 1100), (9000, 9000)]), (2, 1200, Some(0)));
    }

    #[test]
    fn counters_of_32_bits_may_go_around_in_a_window() {
        let senders = |data_segments_out, acknowledgements_in| {
            let info = TcpInfo { data_segments_out, acknowledgements_in, ..TcpInfo::default() };
            Senders::from([(0, info)])
        };
        let sum = sender_times(&senders(u32::MAX - 99, u32::MAX), &senders(100, 11), 1);
        assert_eq!((sum.data_segments, sum.acknowledgements), (200, 12));
    }

    #[test]
    fn what_is_sent_again_after_the_event_is_reported_from_what_was_before() {
        let senders = |resent: [(u64, u32); 2]| {
            let info = |(resent_bytes, total_retrans)| TcpInfo {
                resent_bytes,
                total_retrans,
                ..TcpInfo::default()
            };
            (0..).zip(resent.map(info)).collect::<Senders>()
        };
        let closed = Reading {
            payload: Payload::default(),
            cpus: Vec::new(),
            threads: Vec::new(),
            threads_at_ns: 0,
            gap_bytes: 0,
            slow: Slow {
                interface: InterfaceCounts::default(),
                protocol: BTreeMap::new(),
                receive_packets: BTreeMap::new(),
                senders_at_ns: 0,
                senders: senders([(5000, 5), (9000, 7)]),
                disciplines: Vec::new(),
                forks: 0,
            },
            others: Vec::new(),
        };
        let at_event = Event(senders([(3000, 3), (9000, 7)]));
        assert_eq!(at_event.resent(&closed), Resent { bytes: 2000, segments: 2 });
    }

    #[test]
    fn counters_that_did_not_move_are_left_out() {
        let a = BTreeMap::from([("x", 1), ("y", 5)]);
        let b = BTreeMap::from([("x", 4), ("y", 5), ("z", 2)]);
        assert_eq!(map_difference(&a, &b), BTreeMap::from([("x", 3), ("z", 2)]));
    }
}
