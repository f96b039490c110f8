//! What a run with an event showed, out of the records of all receivers and the log of the controller.

use linkrate_agent::flow::record::looked_until_ns;
use linkrate_model::Event;
use linkrate_model::failure::{Failure, FlowGap, RESTORED, Resent, Timeline};
use linkrate_protocol::{MeasurementReport, RecordReport};

use crate::executor::event::Seen;

/// The rate is that of so much time: less would be the rate of single bursts.
const RATE_OVER_NS: u64 = 50_000_000;

/// A shorter time without a byte is no gap, even if there was none before.
const SHORT_GAP_NS: u64 = 1_000_000;

/// Makes one failure of the reports of all agents, the system under test's first.
pub(crate) fn of_reports<'a>(
    event: Event,
    seen: Seen,
    reports: impl Iterator<Item = &'a MeasurementReport>,
) -> Failure {
    let mut resent_bytes = 0_u64;
    let mut resent_after = Resent::default();
    let mut records: Vec<&RecordReport> = Vec::new();
    for report in reports {
        resent_bytes = resent_bytes.saturating_add(report.senders.resent_bytes);
        if let Some(record) = report.record.as_deref() {
            resent_after = resent_after.plus(record.resent);
            records.push(record);
        }
    }
    let slot_us = records.iter().map(|record| record.slot_us).max().unwrap_or(0);
    let slot_ns = u64::from(slot_us.max(1)) * 1000;
    let mut slots: Vec<u64> = Vec::new();
    for record in &records {
        if slots.len() < record.received.len() {
            slots.resize(record.received.len(), 0);
        }
        for (sum, bytes) in slots.iter_mut().zip(&record.received) {
            *sum = sum.saturating_add(*bytes);
        }
    }
    let flows = || records.iter().flat_map(|record| &record.flows);
    let since_opening = |at_ns: u64| at_ns.saturating_sub(seen.interval_ns.0);
    let at_ns = since_opening(seen.at_ns);
    let at = (at_ns / slot_ns) as usize;
    let before = &slots[..at.min(slots.len())];
    let rate_before = rate(before, slot_ns);
    // gaps of the event begin before the port comes back, and are looked for as long as those before it
    let looked_until_ns = looked_until_ns(seen.interval_ns.0, seen.at_ns);
    let is_early = |ns: &u64| *ns < looked_until_ns;
    let recovered_early_ns = seen.recovered_ns.filter(is_early);
    let until_ns = since_opening(recovered_early_ns.unwrap_or(looked_until_ns));
    let is_single = flows().count() == 1 && recovered_early_ns.is_none();
    let single = is_single.then(|| flows().map(|flow| flow.gap_ns).max()).flatten();
    let sum = |pick: fn(&linkrate_protocol::FlowRecord) -> u64| {
        flows().map(pick).fold(0, u64::saturating_add)
    };
    let after = |then_ns: Option<u64>| then_ns.map(|then_ns| then_ns.saturating_sub(seen.at_ns));
    Failure {
        event,
        port: seen.port,
        at_ns,
        recovered_ns: seen.recovered_ns.map(since_opening),
        host_detected_ns: after(seen.host_detected_ns),
        switch_detected_ns: after(seen.switch_detected_ns),
        host_moved_ns: after(seen.host_moved_ns),
        switch_moved_ns: after(seen.switch_moved_ns),
        // of one flow it is known exactly
        gap_ns: single.unwrap_or_else(|| {
            longest_gap(&slots, at, (until_ns / slot_ns) as usize) as u64 * slot_ns
        }),
        flows: flows()
            .map(|flow| FlowGap { flow: flow.flow.clone(), gap_ns: flow.gap_ns })
            .collect(),
        gap_before_ns: flows().map(|flow| flow.gap_before_ns).max().unwrap_or(0),
        restored_ns: restored(&slots, slot_ns, at, rate_before)
            .map(|slot| (slot as u64 * slot_ns).saturating_sub(at_ns)),
        rate_before,
        frames_lost: seen.frames_lost,
        frames_reordered: seen.frames_reordered,
        resent_bytes,
        resent_after: Some(resent_after),
        verified_bytes: sum(|flow| flow.verified_bytes),
        wrong_bytes: sum(|flow| flow.wrong_bytes),
        timeline: Timeline {
            slot_ns: seen.step_ns,
            received: coarser(&slots, slot_ns, seen.step_ns),
            ports: seen.ports,
        },
    }
}

/// Bit/s over slots.
fn rate(slots: &[u64], slot_ns: u64) -> f64 {
    let bytes = slots.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    bytes as f64 * 8e9 / (slots.len().max(1) as f64 * slot_ns as f64)
}

/// The most slots in a row without a byte that begin before slot `until` and do not end before slot `at`.
fn longest_gap(slots: &[u64], at: usize, until: usize) -> usize {
    let (mut longest, mut empty) = (0, 0);
    for (slot, bytes) in slots.iter().enumerate() {
        empty = if *bytes == 0 { empty + 1 } else { 0 };
        if slot >= at && slot + 1 - empty < until {
            longest = longest.max(empty);
        }
    }
    longest
}

/// The first slot from `at` on that begins a time with 95 % of the rate before and without a gap that the
/// traffic does not have by itself; `None` if there is none, or nothing flowed before. What a receiver
/// held back during a gap comes at once after it, so that the rate alone would be 95 % over the gap.
fn restored(slots: &[u64], slot_ns: u64, at: usize, rate_before: f64) -> Option<usize> {
    let length = usize::try_from(RATE_OVER_NS.div_ceil(slot_ns)).unwrap_or(usize::MAX).max(1);
    let usual = 2 * empty(slots.get(..at)?).max((SHORT_GAP_NS / slot_ns) as usize).max(1);
    let mut times = slots.get(at..)?.windows(length);
    let first = times.position(|time| {
        let has_begun = time.first().is_some_and(|bytes| *bytes > 0);
        has_begun && rate(time, slot_ns) >= rate_before * RESTORED && empty(time) <= usual
    })?;
    (rate_before > 0.0).then_some(at + first)
}

/// The most slots in a row without a byte.
fn empty(slots: &[u64]) -> usize {
    longest_gap(slots, 0, usize::MAX)
}

/// The same bytes in longer slots.
fn coarser(slots: &[u64], slot_ns: u64, step_ns: u64) -> Vec<u64> {
    let mut sums: Vec<u64> = Vec::new();
    for (slot, bytes) in slots.iter().enumerate() {
        let step = usize::try_from(slot as u64 * slot_ns / step_ns.max(1)).unwrap_or(usize::MAX);
        if sums.len() <= step {
            sums.resize(step + 1, 0);
        }
        sums[step] = sums[step].saturating_add(*bytes);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_over_all_flows_is_the_longest_after_the_fault() {
        let slots = [5, 0, 0, 0, 0, 5, 5, 0, 0, 5, 0];
        assert_eq!(longest_gap(&slots, 6, 12), 2);
        // the fault came within a gap
        assert_eq!(longest_gap(&slots, 4, 8), 4);
        assert_eq!(longest_gap(&[5, 5, 0, 0, 0], 1, 3), 3);
        assert_eq!(longest_gap(&[], 1, 2), 0);
        // the port came back, and that interrupts once more
        assert_eq!(longest_gap(&[5, 5, 0, 5, 5, 0, 0, 0, 5], 2, 4), 1);
    }

    #[test]
    fn the_rate_is_restored_when_a_whole_time_has_it() {
        // 50 slots of 1 ms are one time
        let mut slots = vec![100; 100];
        slots.extend(vec![0; 40]);
        slots.extend(vec![60; 60]);
        slots.extend(vec![100; 100]);
        let before = rate(&slots[..100], 1_000_000);
        let at = restored(&slots, 1_000_000, 100, before).unwrap();
        // 2.5 of 50 bytes may still be missing
        assert!((194..=200).contains(&at), "{at}");
        assert_eq!(restored(&slots[..200], 1_000_000, 100, before), None);
        assert_eq!(restored(&[0; 300], 1_000_000, 100, 0.0), None);
    }

    #[test]
    fn what_was_held_back_in_a_gap_does_not_fill_it() {
        // 10 ms without a byte, then all of it at once
        let mut slots = vec![100; 100];
        slots.extend([0; 10]);
        slots.push(1100);
        slots.extend([100; 200]);
        let before = rate(&slots[..100], 1_000_000);
        assert_eq!(restored(&slots, 1_000_000, 100, before), Some(110));
        // traffic that has such gaps by itself continues
        let bursts: Vec<u64> = (0..300).map(|slot| if slot % 10 == 0 { 1000 } else { 0 }).collect();
        let before = rate(&bursts[..100], 1_000_000);
        assert_eq!(restored(&bursts, 1_000_000, 100, before), Some(100));
    }

    #[test]
    fn longer_slots_have_the_same_bytes() {
        let slots: Vec<u64> = (0..103).collect();
        let sums = coarser(&slots, 250_000, 10_000_000);
        assert_eq!((sums.len(), sums.iter().sum::<u64>()), (3, slots.iter().sum()));
    }
}
