//! What a testbed observed around a run, beside its measurement.

use std::time::Duration;

use linkrate_model::discipline::Discipline;
use linkrate_model::{BitRate, CpuSet, InterfaceKnobs, Measurement};

use super::Rejection;
use super::stack::StackChanged;
use crate::executor::Stage;

/// How far a host's clock may have moved against the controller's since it was measured, in ns.
/// Clocks of two machines drift by some 10 µs a second, and a study takes minutes.
pub const CLOCK_NS: u64 = 5_000_000;

/// How far the measurement of a host may be from the common one, or a tenth of the measurement where that is
/// more. Each host divides by its own time, so a shift changes nothing while the flow is steady; but
/// an agent that gets no CPU for longer has measured another part of the traffic. With a dozen flows
/// on its CPU it waits for some tens of milliseconds to read its counters.
pub const WINDOW: Duration = Duration::from_millis(100);

/// The part of a measurement for which a host may stall, and that from which it is told.
const MAX_ABSENT: f64 = 0.05;
const TOLD_ABSENT: f64 = 0.01;

/// Received packets from which their CPUs are compared with the SUT's: a few packets of the host
/// itself prove nothing.
const STEERED_PACKETS: u64 = 1000;

/// What a testbed observed around a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observed {
    /// Threads that may run on other CPUs than those of their role.
    pub strayed: Vec<Strayed>,
    /// Threads of the testbed whose policy or nice value somebody has changed.
    pub rescheduled: Vec<Rescheduled>,
    /// The SUT's interfaces, when the run began and when it ended.
    pub knobs: Vec<KnobsSeen>,
    /// Links, when the run began and when it ended.
    pub rates: Vec<RateSeen>,
    pub clocks: Vec<ClockSeen>,
    pub intervals: Vec<MeasurementSeen>,
    /// Interfaces of the SUT and of clients whose queue disciplines are other ones at the end of the measurement.
    pub disciplines: Vec<DisciplinesSeen>,
    /// Processes and threads that began on the system under test's machine in the measurement; `None` where a trace tells what ran.
    pub untraced_forks: Option<u64>,
    /// What has changed of the hosts' network stacks.
    pub stack: Vec<StackChanged>,
    /// CPUs to which receive processing was steered; `None` where it was not steered.
    pub steered_to: Option<CpuSet>,
}

/// A thread that may run on other CPUs than those of its role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strayed {
    pub thread: String,
    /// CPUs on which it may run.
    pub affinity: CpuSet,
    /// CPUs of its role.
    pub role: CpuSet,
}

/// A thread whose policy or nice value is another one than at first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescheduled {
    pub thread: String,
    /// How it gets its CPU now, in words.
    pub now: String,
    /// How it did at first.
    pub first: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnobsSeen {
    pub interface: String,
    /// When the run began.
    pub before: InterfaceKnobs,
    /// When it ended.
    pub after: InterfaceKnobs,
}

/// The queue disciplines of one interface, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisciplinesSeen {
    pub interface: String,
    /// When the measurement opened.
    pub before: String,
    /// When it closed.
    pub after: String,
}

/// The rate of one link; `None` where it has none of its own, as a veth.
#[derive(Debug, Clone, PartialEq)]
pub struct RateSeen {
    pub interface: String,
    /// The rate that the link must have: that of its model, or that at which the run began.
    pub expected: Option<BitRate>,
    pub seen: Option<BitRate>,
}

/// The clock of one host against the controller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockSeen {
    pub host: String,
    /// How far it has moved since it was measured, ns.
    pub moved_ns: i64,
}

/// The measurement of one host beside the common one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MeasurementSeen {
    pub host: String,
    /// Distance of its begin from that of the common measurement, ns.
    pub opened_off_ns: u64,
    /// Distance of its end from that of the common measurement, ns.
    pub closed_off_ns: u64,
    /// How long it stalled meanwhile, ns.
    pub stalled_ns: u64,
}

impl Observed {
    /// The first observation for which a run with this measurement cannot be valid.
    pub(super) fn check(&self) -> Result<(), Rejection> {
        self.strayed.iter().try_for_each(Strayed::check)?;
        self.rescheduled.iter().try_for_each(Rescheduled::check)?;
        self.knobs.iter().try_for_each(KnobsSeen::check)?;
        self.disciplines.iter().try_for_each(DisciplinesSeen::check)?;
        self.stack.iter().try_for_each(StackChanged::check)?;
        self.rates.iter().try_for_each(RateSeen::check)?;
        self.clocks.iter().try_for_each(ClockSeen::check)
    }

    /// What a reader must know of the hosts of a run that is valid.
    pub(super) fn remarks(&self, run: &Measurement, interval: Duration) -> Vec<String> {
        let absent = self.intervals.iter().filter_map(|seen| seen.remark(interval));
        self.steering(run).into_iter().chain(absent).collect()
    }

    /// Refuses a run whose hosts did not count over the common measurement, or did not run for a part of it.
    pub(super) fn check_intervals(&self, interval: Duration) -> Result<(), Rejection> {
        self.intervals.iter().try_for_each(|seen| seen.check(interval))
    }

    /// Steering that is set may have no effect: the packets that the SUT's CPUs processed must be
    /// those that its interfaces received, within a twentieth. A remark, since the counters are of
    /// the whole host.
    fn steering(&self, run: &Measurement) -> Option<String> {
        let cpus = self.steered_to.as_ref()?;
        let handled = run
            .evidence
            .receive_packets_by_cpu
            .iter()
            .filter(|(cpu, _)| cpus.contains(**cpu))
            .fold(0u64, |sum, (_, packets)| sum.saturating_add(*packets));
        let received = run.evidence.interface.rx_packets;
        let other = received > STEERED_PACKETS && handled.abs_diff(received) > received / 20;
        other.then(|| {
            "The CPUs of the system under test processed a different number of packets than its interfaces received: its CPU use may include foreign packets, or miss packets of its \
             own."
                .to_owned()
        })
    }
}

impl Strayed {
    fn check(&self) -> Result<(), Rejection> {
        let Self { thread, affinity, role } = self;
        Err(Rejection {
            stage: Stage::Measure,
            named: thread.clone(),
            reason: format!(
                "placement: thread \"{thread}\" may run on CPUs {affinity}, expected {role}"
            ),
        })
    }
}

impl Rescheduled {
    fn check(&self) -> Result<(), Rejection> {
        let Self { thread, now, first } = self;
        Err(Rejection {
            stage: Stage::Measure,
            named: thread.clone(),
            reason: format!("placement: thread \"{thread}\" has {now}, expected {first}"),
        })
    }
}

impl KnobsSeen {
    /// Every knob must have the value with which the run began.
    fn check(&self) -> Result<(), Rejection> {
        let after = self.after.values();
        for (knob, was) in self.before.values() {
            let is = after.iter().find(|(name, _)| *name == knob).map(|(_, value)| value.as_str());
            if is != Some(&was) {
                let (interface, is) = (&self.interface, is.unwrap_or("unknown"));
                return Err(Rejection {
                    stage: Stage::Knob,
                    named: knob.to_owned(),
                    reason: format!(
                        "knob \"{knob}\" on {interface}: {was} when the run began, {is} when it \
                         ended: another program changed it"
                    ),
                });
            }
        }
        Ok(())
    }
}

impl DisciplinesSeen {
    /// The interfaces whose disciplines differ between the opening of a measurement and its end.
    pub fn of([opened, closed]: &[Vec<Discipline>; 2]) -> Vec<Self> {
        let mut interfaces: Vec<&str> =
            opened.iter().chain(closed).map(|one| one.interface.as_str()).collect();
        interfaces.sort_unstable();
        interfaces.dedup();
        let changed = interfaces.into_iter().filter_map(|interface| {
            let of = |all: &'_ [Discipline]| -> Vec<Discipline> {
                all.iter().filter(|one| one.interface == interface).cloned().collect()
            };
            let (before, after) = (of(opened), of(closed));
            let is_in =
                |one: &Discipline, all: &[Discipline]| all.iter().any(|other| one.is_same(other));
            let same = before.len() == after.len() && before.iter().all(|one| is_in(one, &after));
            if same {
                return None;
            }
            let words = |all: &[Discipline]| match all {
                [] => "no discipline".to_owned(),
                all => all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            };
            let (before, mut after) = (words(&before), words(&after));
            if before == after {
                after.push_str(" with other parameters or classes");
            }
            Some(Self { interface: interface.to_owned(), before, after })
        });
        changed.collect()
    }

    fn check(&self) -> Result<(), Rejection> {
        let Self { interface, before, after } = self;
        Err(Rejection {
            stage: Stage::Knob,
            named: interface.clone(),
            reason: format!(
                "queue discipline of {interface}: {before} when the measurement began, {after} when it \
                 closed: another program changed it"
            ),
        })
    }
}

impl RateSeen {
    /// A link must run at the rate that is expected of it.
    pub fn check(&self) -> Result<(), Rejection> {
        if self.expected == self.seen {
            return Ok(());
        }
        let text = |rate: &Option<BitRate>| {
            rate.as_ref().map_or_else(|| "an unknown rate".to_owned(), BitRate::to_string)
        };
        let (seen, expected) = (text(&self.seen), text(&self.expected));
        Err(Rejection {
            stage: Stage::Testbed,
            named: self.interface.clone(),
            reason: format!("the link of {} runs at {seen}, expected {expected}", self.interface),
        })
    }
}

impl ClockSeen {
    fn check(&self) -> Result<(), Rejection> {
        if self.moved_ns.unsigned_abs() <= CLOCK_NS {
            return Ok(());
        }
        Err(Rejection {
            stage: Stage::Measure,
            named: self.host.clone(),
            reason: format!(
                "the clock of {} has moved by {:+.1} ms since its host was started, expected at most \
                 {} ms: its interval was not the common one",
                self.host,
                self.moved_ns as f64 / 1e6,
                CLOCK_NS / 1_000_000
            ),
        })
    }
}

fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}

impl MeasurementSeen {
    /// A host that stalled for a part of the measurement, too short to refuse the run for.
    fn remark(&self, interval: Duration) -> Option<String> {
        let reported = Duration::from_nanos(self.stalled_ns) >= interval.mul_f64(TOLD_ABSENT);
        reported.then(|| {
            format!("{} stalled for {} ms of the measurement", self.host, ms(self.stalled_ns))
        })
    }

    fn check(&self, interval: Duration) -> Result<(), Rejection> {
        let most = interval.mul_f64(MAX_ABSENT);
        if Duration::from_nanos(self.stalled_ns) > most {
            return Err(Rejection {
                stage: Stage::Measure,
                named: self.host.clone(),
                reason: format!(
                    "{} stalled for {} ms of the interval, expected at most {} ms: it was stopped, or its \
                     machine did not run",
                    self.host,
                    ms(self.stalled_ns),
                    most.as_millis()
                ),
            });
        }
        let most = WINDOW.max(interval / 10);
        let off = Duration::from_nanos(self.opened_off_ns.max(self.closed_off_ns));
        if off <= most {
            return Ok(());
        }
        Err(Rejection {
            stage: Stage::Measure,
            named: self.host.clone(),
            reason: format!(
                "{}: its interval opened {} ms and closed {} ms away from the common interval, expected \
                 at most {} ms",
                self.host,
                ms(self.opened_off_ns),
                ms(self.closed_off_ns),
                most.as_millis()
            ),
        })
    }
}
