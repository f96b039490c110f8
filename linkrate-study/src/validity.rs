//! Whether a run is valid: figures that another program, another link rate, another clock or
//! an offload without effect has changed are not those of the system under test.
//!
//! [`judge`] decides, and nothing else does. It is a pure function of what was asked, of the
//! measurement, and of what the testbed [observed](Observed) around it. A run that is refused is
//! stored with the reason and without figures.
//!
//! - [`programs`]: other programs on the CPUs, and NAPI threads that run where the kernel likes
//! - `parts`: what ran on the CPUs beside their busy time
//! - [`observed`]: threads, knobs, queue disciplines, link rates, clocks and measurements
//!   beside the expected ones
//! - [`stack`]: what the network stacks are made of, at both ends of the run and in earlier runs
//! - `event`: the event of a run at its moment, and every byte of the streams in its place
//! - [`counters`]: the run's counters against each other, against what was asked and against what the peer counted
//! - [`limits`]: payload beside what links and buses can carry
//! - [`merging`]: LRO that was on and merged nothing
//! - [`contradictions`]: counters of a cell that deny what was asked, too weak to refuse a run for

use linkrate_model::driver_counts::DriverCounts;
use linkrate_model::evidence::{AdapterEvidence, Evidence};
use linkrate_model::measurement::{CpuUse, ThreadTime};
use linkrate_model::{Measurement, RunSpec, Task, TestbedSpec};

use crate::executor::{RunFailure, Stage};
use crate::study::Purpose;

pub mod contradictions;
pub mod counters;
mod event;
pub mod limits;
pub mod merging;
pub mod observed;
mod parts;
pub mod programs;
pub mod stack;

pub use observed::{
    ClockSeen, DisciplinesSeen, KnobsSeen, MeasurementSeen, Observed, RateSeen, Rescheduled,
    Strayed,
};

/// Whether a run counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Validity {
    /// It does. The remarks, full sentences, belong beside its figures.
    Valid {
        /// Usually empty.
        remarks: Vec<String>,
    },
    /// It does not, because something from outside spoiled it.
    Disturbed(Rejection),
    /// It does not, because of what it is itself.
    Rejected(Rejection),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The step of the run that the reason belongs to.
    pub stage: Stage,
    /// The thread, knob, interface, host or program that is the cause.
    pub named: String,
    /// A sentence without its full stop, with the value and the expected one.
    pub reason: String,
}

impl From<Rejection> for RunFailure {
    fn from(rejection: Rejection) -> Self {
        Self::at(rejection.stage, rejection.reason)
    }
}

impl Rejection {
    /// The failure of a run that something from outside spoiled.
    pub fn disturbance(self) -> RunFailure {
        RunFailure { disturbed: true, ..self.into() }
    }
}

/// One run, as it is judged.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    pub testbed: &'a TestbedSpec,
    pub spec: &'a RunSpec,
    pub purpose: Purpose,
    pub measured: &'a Measurement,
    pub observed: &'a Observed,
}

pub fn judge(run: &Run<'_>) -> Validity {
    match (disturbance(run), contradiction(run)) {
        (Err(rejection), _) => Validity::Disturbed(rejection),
        (_, Err(rejection)) => Validity::Rejected(rejection),
        _ => {
            let mut remarks = run.observed.remarks(run.measured, run.spec.duration);
            remarks.extend(programs::unplaced(run));
            Validity::Valid { remarks }
        }
    }
}

/// The first thing from outside that spoiled the run.
fn disturbance(run: &Run<'_>) -> Result<(), Rejection> {
    run.observed.check()?;
    if run.purpose != Purpose::Functions {
        run.observed.check_intervals(run.spec.duration)?;
    }
    programs::check(run)?;
    parts::check(run)?;
    starved(run)
}

/// A run without traffic while other programs had most of the CPUs of one end says nothing of the path.
fn starved(run: &Run<'_>) -> Result<(), Rejection> {
    const MOST_PERCENT: f64 = 50.0;
    let measured = run.measured;
    let ends = [("system under test", &measured.sut_cpu), ("clients", &measured.client_cpu)];
    let starved = ends.into_iter().find(|(_, cpu)| others_percent(cpu) >= MOST_PERCENT);
    match (arrived(run.spec, measured), starved) {
        (false, Some((named, _))) => Err(Rejection {
            stage: Stage::Measure,
            named: named.to_owned(),
            reason: nothing(measured),
        }),
        _ => Ok(()),
    }
}

/// The first reason in the run itself to refuse it.
fn contradiction(run: &Run<'_>) -> Result<(), Rejection> {
    let Run { testbed, spec, purpose, measured, .. } = run;
    counters::sockets(spec, measured)?;
    traffic(spec, measured)?;
    counters::peer_reports(measured)?;
    event::check(spec, measured, *purpose == Purpose::Functions)?;
    counters::carried(testbed, measured)?;
    counters::link_rates(testbed, measured)?;
    counters::losses(spec, measured)?;
    if *purpose != Purpose::Functions {
        limits::check(testbed, spec, measured)?;
    }
    counters::offloaded(measured)?;
    merging::check(testbed, spec, measured)
}

/// Whether any payload arrived, where any was asked for.
fn arrived(spec: &RunSpec, run: &Measurement) -> bool {
    match &spec.task {
        Task::Idle => true,
        Task::Workload(workload) if workload.kind.is_transactional() => {
            run.traffic.transactions > 0
        }
        Task::Workload(_) => run.traffic.transmit_bytes > 0 || run.traffic.receive_bytes > 0,
    }
}

/// A run without traffic has no figures, and is not stored as zeros.
fn traffic(spec: &RunSpec, run: &Measurement) -> Result<(), Rejection> {
    let rejection = |named: &str, reason: String| {
        Err(Rejection { stage: Stage::Measure, named: named.to_owned(), reason })
    };
    if !arrived(spec, run) {
        return rejection("traffic", nothing(run));
    }
    let Task::Workload(workload) = &spec.task else { return Ok(()) };
    if run.parts.len() != workload.mix.len() {
        let (parts, asked) = (run.parts.len(), workload.mix.len());
        return rejection("mix", format!("figures of {parts} workloads, expected {asked}"));
    }
    for (part, measured) in workload.mix.iter().zip(&run.parts) {
        let traffic = &measured.traffic;
        if traffic.transmit_bytes == 0 && traffic.receive_bytes == 0 {
            let reason =
                format!("nothing of workload {:?} arrived during the measurement", part.name);
            return rejection(&part.name, reason);
        }
    }
    Ok(())
}

/// Why a run has no figures, with what tells a dead path from a stalled sender, and both from CPUs that others have.
fn nothing(run: &Measurement) -> String {
    let Evidence { interface, unsettled_flows, .. } = &run.evidence;
    let repeated = run.evidence.protocol.get("Tcp.RetransSegs").copied().unwrap_or(0);
    let [drivers, devices]: [&[ThreadTime]; 2] = match &run.evidence.adapter {
        Some(adapter) => [&adapter.driver_threads, &adapter.device_threads],
        None => [&[], &[]],
    };
    let ends = [("its", &run.sut_cpu, drivers), ("the clients'", &run.client_cpu, devices)];
    let used = ends.map(|(whose, cpu, adapters)| {
        let mut had = format!("others {:.0} %", others_percent(cpu));
        let program = cpu.background.first().map(|other| (&other.name, other.cpu_ns));
        let threads = cpu.threads.iter().chain(adapters);
        let thread = threads.max_by_key(|thread| thread.cpu_ns);
        let busiest = program.into_iter().chain(thread.map(|one| (&one.name, one.cpu_ns)));
        for (name, time_ns) in busiest {
            had.push_str(&format!(", {name:?} {:.0} %", cpu.percent_of(time_ns)));
        }
        format!("{whose} CPUs were busy for {:.0} %, of which had {had}", cpu.percent())
    });
    let adapter = run.evidence.adapter.as_deref().map_or_else(String::new, at_the_adapter);
    format!(
        "no data received during the measurement; the system under test sent {} packets and received {}, {repeated} \
         TCP segments were sent again, {unsettled_flows} flows had not begun before it; {}{adapter}",
        interface.tx_packets,
        interface.rx_packets,
        used.join("; ")
    )
}

/// What tells a silent link from a driver that nobody woke.
fn at_the_adapter(adapter: &AdapterEvidence) -> String {
    let drops = adapter.drops();
    let received = drops.iter().filter(|(reason, _)| reason.starts_with("rxDrop"));
    let dropped: u64 = received.map(|(_, count)| count).sum();
    let octets = adapter.total("ifHCInOctets");
    let DriverCounts { reads, writes, sleeps, interrupts, .. } = adapter.driver_counts;
    format!(
        "; its ports received {octets} octets and dropped {dropped} frames; its drivers read {reads} packets, wrote {writes}, \
         slept {sleeps} times, and {interrupts} interrupts woke them"
    )
}

/// What other programs had of these CPUs at most, in per cent.
fn others_percent(cpu: &CpuUse) -> f64 {
    cpu.percent_of(cpu.others_at_most_ns())
}

#[cfg(test)]
mod tests;
