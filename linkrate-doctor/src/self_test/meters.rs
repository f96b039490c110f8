//! The meters under test: those that measurements on this host use, each as it is used there.

use linkrate_agent::cpu_meter::{CpuMeter, choose};
use linkrate_lab::Placement;
use linkrate_model::CpuSet;
use linkrate_model::measurement::IdleSource;
use linkrate_sys::error::SysResult;
use linkrate_sys::procstat::CpuTimes;
use linkrate_sys::sched::ThreadId;
use serde::Serialize;

use super::load::{LoadKind, Pace};

/// What a load should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    pub load: LoadKind,
    pub pace: Pace,
    /// Its work, per cent of one CPU.
    pub percent: f64,
}

/// A meter, with the testbeds that use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeterKind {
    /// Idle time of `/proc/timer_list`: clients on the machine of the system under test.
    TimerList,
    /// The same with a trace of what ran: the system under test.
    TimerListTraced,
    /// Idle time of `/proc/stat`: ordinary users.
    ProcStat,
    /// The idle counter: hosts whose idle time is not exact.
    IdleCounter,
}

impl MeterKind {
    /// The meter with this source of idle time; `traces` tells whether it traces what ran.
    pub fn of(source: IdleSource, traces: bool) -> Self {
        match (source, traces) {
            (IdleSource::TimerList, false) => Self::TimerList,
            (IdleSource::TimerList, true) => Self::TimerListTraced,
            (IdleSource::ProcStat, _) => Self::ProcStat,
            (IdleSource::IdleCounter, _) => Self::IdleCounter,
        }
    }

    pub fn source(self) -> IdleSource {
        match self {
            Self::TimerList | Self::TimerListTraced => IdleSource::TimerList,
            Self::ProcStat => IdleSource::ProcStat,
            Self::IdleCounter => IdleSource::IdleCounter,
        }
    }

    /// Whether testbeds that use the meter have such loads. Softirqs of some milliseconds come from
    /// real adapters: device and driver threads have none, and those of a veth pair are short.
    pub(super) fn meets(self, asked: Asked) -> bool {
        self != Self::TimerList || (asked.load, asked.pace) != (LoadKind::Softirq, Pace::Slow)
    }

    /// The word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::TimerListTraced => "timer-list-traced",
            Self::TimerList | Self::ProcStat | Self::IdleCounter => self.source().word(),
        }
    }
}

/// A CPU meter under test: an agent's own meter, or in tests one with a known fault.
pub trait Meter {
    fn kind(&self) -> MeterKind;

    /// Whether it is tested by this load.
    fn meets(&self, asked: Asked) -> bool {
        self.kind().meets(asked)
    }

    /// Threads that it keeps running while a CPU has nothing to do.
    fn idle_threads(&self) -> Vec<ThreadId>;

    /// Prepares for readings.
    fn run(&self);

    /// Rests until the next call of [`run`](Self::run).
    fn rest(&self);

    /// Reads these CPUs.
    fn read(&self, cpus: &CpuSet) -> SysResult<Vec<CpuTimes>>;
}

impl Meter for CpuMeter {
    fn kind(&self) -> MeterKind {
        MeterKind::of(self.source(), self.is_tracing())
    }

    fn idle_threads(&self) -> Vec<ThreadId> {
        Self::idle_threads(self)
    }

    fn run(&self) {
        Self::run(self);
    }

    fn rest(&self) {
        Self::rest(self);
    }

    fn read(&self, cpus: &CpuSet) -> SysResult<Vec<CpuTimes>> {
        self.times(cpus)
    }
}

/// The meters that can run on the CPUs of `placement`: idle time of the kernel with a trace and without, and the idle
/// counter. Also the names of meters that cannot run, with the reason.
pub fn meters(placement: &Placement) -> (Vec<CpuMeter>, Vec<String>) {
    let (mut meters, mut left_out) = (Vec::new(), Vec::new());
    let source = choose(linkrate_model::CpuMeter::IdleTime);
    let used = [(source, true), (source, false), (IdleSource::IdleCounter, false)];
    for (source, traces) in used {
        let kind = MeterKind::of(source, traces);
        match CpuMeter::new(source, &placement.sut) {
            Err(error) => left_out.push(format!("{}: {error}", source.name())),
            Ok(meter) if !traces => meters.push(meter),
            // `/proc/stat` has no such meter
            Ok(_) if kind.source() != IdleSource::TimerList => {}
            Ok(meter) => {
                let meter = meter.tracing();
                match meter.kind() == kind {
                    true => meters.push(meter),
                    false => left_out.push(format!("{}: this process may not trace", kind.word())),
                }
            }
        }
    }
    (meters, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meter_of_testbeds_is_tested_as_they_use_it() {
        let placement = Placement::choose(&linkrate_model::TestbedSpec::default()).unwrap();
        let (meters, left_out) = meters(&placement);
        let source = choose(linkrate_model::CpuMeter::IdleTime);
        let kinds: Vec<MeterKind> = meters.iter().map(Meter::kind).collect();
        let may_trace = left_out.is_empty() && source == IdleSource::TimerList;
        assert_eq!(kinds.first(), Some(&MeterKind::of(source, may_trace)), "{left_out:?}");
        let once = |kind| kinds.iter().filter(|other| *other == kind).count() == 1;
        assert!(kinds.iter().all(once), "{kinds:?}");
    }

    #[test]
    fn a_meter_is_tested_where_it_is_used() {
        let asked = |load, pace| Asked { load, pace, percent: 5.0 };
        for (kind, load, pace, meets) in [
            (MeterKind::TimerList, LoadKind::Softirq, Pace::Slow, false),
            (MeterKind::TimerList, LoadKind::Softirq, Pace::Fast, true),
            (MeterKind::TimerList, LoadKind::System, Pace::Slow, true),
            (MeterKind::TimerListTraced, LoadKind::Softirq, Pace::Slow, true),
        ] {
            assert_eq!(kind.meets(asked(load, pace)), meets, "{kind:?} {load:?} {pace:?}");
        }
        for (source, traces, word) in [
            (IdleSource::TimerList, false, "timer-list"),
            (IdleSource::TimerList, true, "timer-list-traced"),
            (IdleSource::ProcStat, true, "proc-stat"),
            (IdleSource::IdleCounter, false, "idle-counter"),
        ] {
            let kind = MeterKind::of(source, traces);
            assert_eq!((kind.word(), kind.source()), (word, source));
        }
    }
}
