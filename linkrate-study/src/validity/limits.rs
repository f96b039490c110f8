//! No run moves more payload than its links and buses can carry, and its tape drives take.

use linkrate_model::knobs::Toe;
use linkrate_model::measurement::MAX_FLOWS_READ;
use linkrate_model::{BitRate, Direction, Measurement, Protocol, RunSpec, Task, TestbedSpec};

use super::Rejection;
use crate::analysis::{limit, shares};
use crate::executor::Stage;
use crate::verdict::FlowDirection;

/// Time for which payload that has crossed a link may be on its way to TCP when a measurement opens, although readings
/// around its edges tell what is, seconds: with a thread that waits for its CPU through all of them. A run with less is
/// above its limit for this reason, and is [named with it](above); a run with more is an error of the instrument.
const UNKNOWN: f64 = 0.3e-3;

/// The same where no readings tell, seconds: payload may be in a segment that still grows by merging (64 KiB at 1 Gb/s are 0.5 ms), in a ring, or with a
/// thread that waits for its CPU. Such payload counts in the measurement, on top of what the link carries
/// meanwhile. Moderation of interrupts comes on top.
const ON_ITS_WAY: f64 = 1e-3;

/// The same where a thread of the adapter or of the peer stalled when the measurement began, because
/// something else had its CPU: a turn of another program, or a tick of steal. A run with more is refused.
const STOOD_STILL: f64 = 10e-3;

/// The same as a part of the measurement, of which it is no more, but of the shortest ones: figures would be off by as much.
const STOOD_STILL_SHARE: f64 = 0.01;

/// The directions that are compared with a limit: each by itself, and both together (`None`), which share
/// the buses.
pub const WAYS: [Option<FlowDirection>; 3] =
    [Some(FlowDirection::Transmit), Some(FlowDirection::Receive), None];

/// The words for one of these [`WAYS`].
pub fn way_words(direction: Option<FlowDirection>) -> &'static str {
    direction.map_or("the sum of both directions", FlowDirection::word)
}

/// A direction in which a run moved more than is possible.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Over {
    /// The direction; `None` is both together.
    pub direction: Option<FlowDirection>,
    /// Payload per second.
    pub rate: BitRate,
    /// What the links or buses can carry, or tape drives take.
    pub limit: BitRate,
    /// Whether that is what tape drives take.
    pub of_drives: bool,
    /// Payload that the interval has of the time before it, because a lost segment was sent again when it opened, bytes.
    /// Zero unless that explains the excess.
    pub behind_gaps_bytes: u64,
}

impl Over {
    /// The rate in per cent of the limit.
    pub fn percent(&self) -> f64 {
        self.rate.0 * 100.0 / self.limit.0
    }

    /// What bounds it.
    pub fn bound_words(&self) -> &'static str {
        if self.of_drives { "its tape drives take" } else { "its links and buses can carry" }
    }
}

/// The share of its limit that a run moved in one direction, or in both together (`None`), in per cent.
/// `None` where there is no limit.
pub fn percent(
    testbed: &TestbedSpec,
    spec: &RunSpec,
    run: &Measurement,
    direction: Option<FlowDirection>,
) -> Option<f64> {
    let (share, _) = share(testbed, spec, run, direction)?;
    Some(share.percent())
}

/// What a run moved beside its limit, and its measurement in seconds.
fn share(
    testbed: &TestbedSpec,
    spec: &RunSpec,
    run: &Measurement,
    direction: Option<FlowDirection>,
) -> Option<(Over, f64)> {
    let moved = |way| {
        let (bytes, seconds) = limit::moved(run, way)?;
        Some((bytes as f64 * 8.0 / seconds, seconds))
    };
    let (rate, seconds, limit) = match direction {
        Some(way) => {
            let (rate, seconds) = moved(way)?;
            (rate, seconds, limit::of_direction(spec, testbed, run, way)?)
        }
        None if is_bidirectional(spec) => {
            let (transmit, receive) =
                (moved(FlowDirection::Transmit)?, moved(FlowDirection::Receive)?);
            let limit = limit::of_buses(spec, testbed)?;
            (transmit.0 + receive.0, transmit.1.min(receive.1), limit)
        }
        None => return None,
    };
    let of_drives = limit::of_drives(spec) == Some(limit);
    let (rate, limit) = (BitRate(rate), BitRate(limit));
    Some((Over { direction, rate, limit, of_drives, behind_gaps_bytes: 0 }, seconds))
}

fn is_bidirectional(spec: &RunSpec) -> bool {
    matches!(&spec.task, Task::Workload(workload) if workload.direction == Direction::Bidirectional)
}

/// The first direction in which a run moved more than its links can carry in the measurement and
/// while payload of the time before was on its way.
pub fn over(testbed: &TestbedSpec, spec: &RunSpec, run: &Measurement) -> Option<Over> {
    over_by(on_its_way(spec, run), testbed, spec, run)
}

/// The first direction in which a run is above its limit at all, and the time of its payload that may have been on its way when its
/// measurement opened, seconds.
pub fn above(testbed: &TestbedSpec, spec: &RunSpec, run: &Measurement) -> Option<(Over, f64)> {
    let above = WAYS.into_iter().find_map(|direction| {
        let (share, _) = share(testbed, spec, run, direction)?;
        (share.rate.0 > share.limit.0).then_some(share)
    });
    above.map(|above| (above, on_its_way(spec, run) + beside(spec, run, &above)))
}

/// How long else payload may wait, seconds: while interrupts are moderated, and at a sink that is ahead of its tape drives.
fn beside(spec: &RunSpec, run: &Measurement, over: &Over) -> f64 {
    let ahead = match &spec.task {
        Task::Workload(workload) if over.of_drives => workload.backup.ahead_s(),
        _ => 0.0,
    };
    moderated(run) + ahead
}

/// How long payload may be on its way when a measurement opens, seconds, beside the moderation of interrupts.
fn on_its_way(spec: &RunSpec, run: &Measurement) -> f64 {
    let on_its_way = if is_reported(spec, run) { UNKNOWN } else { ON_ITS_WAY };
    on_its_way + held(run)
}

/// How long a move to a TCP offload engine may hold what the peer sends, seconds, where connections move under
/// traffic: twice the median of the moves.
fn held(run: &Measurement) -> f64 {
    if run.effective.interface.port.toe != Some(Toe::Auto) {
        return 0.0;
    }
    let ports = run.evidence.adapter.iter().flat_map(|adapter| &adapter.ports);
    let moved_us = ports.filter_map(|port| port.counters.get("toeMovedUs")).max();
    moved_us.map_or(0.0, |us| 2e-6 * *us as f64)
}

/// How long the adapter may hold back the interrupt for what it received, seconds.
fn moderated(run: &Measurement) -> f64 {
    f64::from(run.effective.interface.port.rx_usecs.unwrap_or(0)) * 1e-6
}

/// Whether readings around the edges of the measurement told what was on its way: of streams and transfers between agents, whose
/// TCP is the kernel's.
fn is_reported(spec: &RunSpec, run: &Measurement) -> bool {
    let Task::Workload(workload) = &spec.task else { return false };
    let toe = run.effective.interface.port.toe.unwrap_or(Toe::Off);
    matches!(workload.kind, Protocol::Stream | Protocol::Transfer)
        && workload.mix.is_empty()
        && workload.connections.saturating_mul(spec.clients) <= MAX_FLOWS_READ
        && run.evidence.peer_reports.is_empty()
        && toe == Toe::Off
}

/// The first direction in which a run moved more than its links can carry in its measurement and `more`
/// seconds.
fn over_by(more: f64, testbed: &TestbedSpec, spec: &RunSpec, run: &Measurement) -> Option<Over> {
    WAYS.into_iter().find_map(|direction| {
        let (share, seconds) = share(testbed, spec, run, direction)?;
        let most = share.limit.0 * (seconds + more + beside(spec, run, &share));
        let bits = share.rate.0 * seconds;
        let behind_gaps_bytes = gaps(spec, run, direction).max(0) as u64;
        let explained = bits - behind_gaps_bytes as f64 * 8.0 <= most;
        let behind_gaps_bytes = if explained { behind_gaps_bytes } else { 0 };
        (bits > most).then_some(Over { behind_gaps_bytes, ..share })
    })
}

/// What a run counts too much in a direction, because payload waited behind lost segments at the edges of its
/// measurement, bytes; below zero if too little.
pub fn gaps(spec: &RunSpec, run: &Measurement, direction: Option<FlowDirection>) -> i64 {
    shares::senders(spec, run, direction).map_or(0, |senders| senders.out_of_order.excess_bytes())
}

pub(super) fn check(
    testbed: &TestbedSpec,
    spec: &RunSpec,
    run: &Measurement,
) -> Result<(), Rejection> {
    let part = spec.duration.as_secs_f64() * STOOD_STILL_SHARE;
    let stood_still = part.clamp(2.0 * ON_ITS_WAY, STOOD_STILL);
    let Some(over) = over_by(stood_still, testbed, spec, run) else { return Ok(()) };
    let Over { direction, rate, limit, behind_gaps_bytes, .. } = over;
    let (way, bound) = (way_words(direction), over.bound_words());
    let cause = match behind_gaps_bytes {
        0 => "something stalled when it began".to_owned(),
        bytes => format!(
            "{bytes} B waited behind lost segments when it opened; a longer warm-up lets TCP repair the losses of \
             its start"
        ),
    };
    let reason = format!(
        "{way} was {:.2} % of what {bound} ({rate} of {limit}), which is \
         impossible: the interval has payload of the time before it, because {cause}",
        over.percent()
    );
    Err(Rejection { stage: Stage::Measure, named: way.to_owned(), reason })
}
