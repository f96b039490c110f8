//! What the event of a cell cost: detection, gaps, losses, and the way back, over its runs.

use linkrate_model::failure::{Failure, Resent};
use linkrate_model::knobs::AggregateMode;
use linkrate_model::{Measurement, RunSpec};

use crate::quantity::{Quantity, Unit};
use crate::results::figures::{FailureFigures, Moment};
use linkrate_stats::interval::of_median;

/// The figures of the valid runs of a cell; `None` for a cell without an event, or without a run.
pub fn of_runs<'r>(
    spec: &RunSpec,
    runs: impl Iterator<Item = &'r Measurement>,
    confidence: f64,
) -> Option<FailureFigures> {
    let event = spec.event?;
    let aggregate = &spec.interface.aggregate;
    let by_host = aggregate.aggregate.is_some();
    // the switch of a failover group only learns where addresses are
    let by_switch = by_host && aggregate.mode != Some(AggregateMode::Failover);
    let runs: Vec<&Failure> = runs.filter_map(|run| run.failure.as_deref()).collect();
    if runs.is_empty() {
        return None;
    }
    let quantity = |unit: Unit, values: Vec<f64>| {
        // a few moments, some of them far from the others, have no t interval
        Some(Quantity { interval: of_median(&values, confidence)?, unit })
    };
    let figure = |unit: Unit, pick: fn(&Failure) -> u64| {
        quantity(unit, runs.iter().map(|run| pick(run) as f64).collect())
    };
    let after_fault = |unit: Unit, pick: fn(&Resent) -> u64| {
        let resent = runs.iter().filter_map(|run| run.resent_after.as_ref());
        quantity(unit, resent.map(|resent| pick(resent) as f64).collect())
    };
    let moment = |pick: fn(&Failure) -> Option<u64>| {
        let reached: Vec<f64> = runs.iter().filter_map(|run| Some(pick(run)? as f64)).collect();
        let runs = u32::try_from(reached.len()).unwrap_or(u32::MAX);
        Moment { after: quantity(Unit::Nanoseconds, reached), runs }
    };
    let worst = |run: &&Failure| Some(run.flows.iter().map(|flow| flow.gap_ns).max()? as f64);
    let count = |holds: fn(&Failure) -> bool| {
        u32::try_from(runs.iter().filter(|run| holds(run)).count()).unwrap_or(u32::MAX)
    };
    Some(FailureFigures {
        fault: event.fault,
        at_seconds: event.at.as_secs_f64(),
        recover_seconds: event.recover.map(|recover| recover.as_secs_f64()),
        runs: count(|_| true),
        open_runs: count(|run| run.timeline.received.last() == Some(&0)),
        reordered_runs: count(|run| run.frames_reordered > 0),
        host_detection: by_host.then(|| moment(|run| run.host_detected_ns)),
        switch_detection: by_switch.then(|| moment(|run| run.switch_detected_ns)),
        host_move: by_host.then(|| moment(|run| run.host_moved_ns)),
        switch_move: by_host.then(|| moment(|run| run.switch_moved_ns)),
        gap: figure(Unit::Nanoseconds, |run| run.gap_ns),
        flow_gap: quantity(Unit::Nanoseconds, runs.iter().filter_map(worst).collect()),
        gap_before: figure(Unit::Nanoseconds, |run| run.gap_before_ns),
        restored: moment(|run| run.restored_ns),
        frames_lost: figure(Unit::Frames, |run| run.frames_lost),
        frames_reordered: figure(Unit::Frames, |run| run.frames_reordered),
        resent: figure(Unit::Bytes, |run| run.resent_bytes),
        resent_after: after_fault(Unit::Bytes, |resent| resent.bytes),
        segments_after: after_fault(Unit::Frames, |resent| resent.segments),
        verified_bytes: runs.iter().fold(0, |sum, run| sum.saturating_add(run.verified_bytes)),
    })
}

/// The run that is drawn: of the valid runs with a timeline, the one whose worst gap is the median.
pub fn typical<'r>(runs: impl Iterator<Item = &'r Measurement>) -> Option<&'r Failure> {
    let runs = runs.filter_map(|run| run.failure.as_deref());
    let mut drawn: Vec<&Failure> =
        runs.filter(|run| !run.timeline.received.is_empty() && run.timeline.slot_ns > 0).collect();
    drawn.sort_by_key(|run| run.flows.iter().map(|flow| flow.gap_ns).max());
    drawn.get(drawn.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use linkrate_model::failure::FlowGap;

    use super::*;
    use crate::fixture;

    fn run(detected_ms: Option<u64>, gaps_ms: &[u64]) -> Measurement {
        let mut failure = fixture::failure();
        failure.host_detected_ns = detected_ms.map(|ms| ms * 1_000_000);
        let gap = |ms: &u64| FlowGap { flow: "receive 0.0".to_owned(), gap_ns: ms * 1_000_000 };
        failure.flows = gaps_ms.iter().map(gap).collect();
        Measurement { failure: Some(Box::new(failure)), ..fixture::stream(1e9, 0.5) }
    }

    fn figures(runs: &[Measurement]) -> Option<FailureFigures> {
        of_runs(&spec(AggregateMode::Lacp), runs.iter(), 0.95)
    }

    fn spec(mode: AggregateMode) -> RunSpec {
        let mut spec = fixture::ladder().cells[0].spec.clone();
        spec.event = Some(fixture::failure().event);
        spec.interface.aggregate.aggregate = Some(2);
        spec.interface.aggregate.mode = Some(mode);
        spec
    }

    #[test]
    fn a_failure_that_some_runs_detected_says_how_many() {
        let runs = [run(Some(3), &[5, 9]), run(None, &[5, 700]), run(Some(5), &[5, 9])];
        let found = figures(&runs).unwrap();
        let host = found.host_detection.unwrap();
        assert_eq!((found.runs, host.runs, host.after.unwrap().interval.mean), (3, 2, 4e6));
        assert_eq!(found.switch_detection, Some(Moment { after: None, runs: 0 }));
        let worst = found.flow_gap.unwrap().interval;
        // one run far off moves no median
        assert_eq!((worst.mean, worst.low, worst.high), (9e6, None, None));
        assert_eq!(figures(&[]), None);
        let without = RunSpec { event: None, ..spec(AggregateMode::Lacp) };
        assert_eq!(of_runs(&without, runs.iter(), 0.95), None);
    }

    /// A median of frames that were overtaken is 0 where a few runs have some.
    #[test]
    fn runs_that_are_open_at_their_end_or_out_of_order_are_counted() {
        let mut runs = [run(None, &[5]), run(None, &[5]), run(None, &[])];
        let counts = |runs: &[Measurement]| {
            let found = figures(runs).unwrap();
            (found.open_runs, found.reordered_runs)
        };
        for run in &mut runs {
            run.failure.as_mut().unwrap().timeline.received = vec![9, 0, 9];
        }
        assert_eq!(counts(&runs), (0, 0));
        let failure = runs[1].failure.as_mut().unwrap();
        failure.timeline.received = vec![9, 0, 0];
        failure.frames_reordered = 3;
        assert_eq!(counts(&runs), (1, 1));
        assert_eq!(figures(&runs).unwrap().frames_reordered.unwrap().interval.mean, 0.0);
        assert_eq!(figures(&runs[2..]).unwrap().flow_gap, None, "no flow, no gap");
    }

    #[test]
    fn what_was_sent_again_after_the_fault_is_known_of_runs_that_looked() {
        let mut runs = [run(None, &[5]), run(None, &[5])];
        assert_eq!(figures(&runs).unwrap().resent_after, None, "not known");
        for (run, segments) in runs.iter_mut().zip([2, 4]) {
            let resent = Resent { bytes: segments * 1448, segments };
            run.failure.as_mut().unwrap().resent_after = Some(resent);
        }
        let found = figures(&runs).unwrap();
        let mean = |quantity: Option<Quantity>| quantity.unwrap().interval.mean;
        assert_eq!((mean(found.resent_after), mean(found.segments_after)), (4344.0, 3.0));
        assert_eq!(mean(found.resent), f64::from(1 << 20));
    }

    #[test]
    fn the_switch_of_a_failover_group_has_no_part_in_it() {
        let runs = [run(Some(3), &[5])];
        let found = of_runs(&spec(AggregateMode::Failover), runs.iter(), 0.95).unwrap();
        assert_eq!((found.host_detection.unwrap().runs, found.switch_detection), (1, None));
    }

    #[test]
    fn the_run_that_is_drawn_has_the_median_gap() {
        let mut runs = [run(None, &[30]), run(None, &[10]), run(None, &[20])];
        assert_eq!(typical(runs.iter()), None, "runs without a timeline");
        for run in &mut runs {
            let failure = run.failure.as_mut().unwrap();
            failure.timeline.received = vec![1];
            failure.timeline.slot_ns = Duration::from_millis(10).as_nanos() as u64;
        }
        assert_eq!(typical(runs.iter()).unwrap().flows[0].gap_ns, 20_000_000);
    }
}
