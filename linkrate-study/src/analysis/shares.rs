//! The shares of links, CPUs and sending time that a cell's verdict rests on, taken from its runs.

use linkrate_model::measurement::{AdapterEvidence, CpuUse, SenderPath, SenderTimes};
use linkrate_model::workload::Item;
use linkrate_model::{Direction, Measurement, RunSpec, Task};

use crate::analysis::{adapter, disciplines, limit, round_trip};
use crate::store::StoredRun;
use crate::verdict::{
    Bottleneck, CpuShare, DirectionShares, FlowDirection, Judged, PathShares, PortShares, Shares,
    Verdict, judge, no_single_resource,
};
use linkrate_stats::sample::mean;

/// What bound a cell: in each direction what bound most of its runs, with the shares of those, or of all where they agree. A
/// mean over runs that differ may be what bound none of them. Where as many runs have another bound, there is none.
pub fn verdict<'a>(runs: impl IntoIterator<Item = &'a StoredRun>, scale: f64) -> Verdict {
    let runs: Vec<&StoredRun> = runs.into_iter().filter(|run| run.is_good()).collect();
    let judged = |runs: &[&StoredRun]| judge(&of_runs(runs.iter().copied(), scale));
    let alone: Vec<Verdict> = runs.iter().map(|run| judged(&[run])).collect();
    let of_all = of_runs(runs.iter().copied(), scale);
    let mut verdict = judge(&of_all);
    for ((at, way), shares) in verdict.directions.iter_mut().enumerate().zip(&of_all.ways) {
        let bounds: Vec<&Bottleneck> =
            alone.iter().filter_map(|run| Some(&run.directions.get(at)?.bottleneck)).collect();
        let agreeing =
            |bound: &Bottleneck| bounds.iter().filter(|other| other.word() == bound.word()).count();
        let is_majority = |count: usize| count * 2 > bounds.len();
        if is_majority(agreeing(&way.bottleneck)) {
            continue;
        }
        let of_adapter = bounds.iter().filter(|bound| bound.is_of_the_adapter()).count();
        let is_among = |bound: &&&Bottleneck| bound.is_of_the_adapter() == is_majority(of_adapter);
        let among = || bounds.iter().filter(is_among);
        let Some(most) = among().max_by_key(|bound| agreeing(bound)) else { continue };
        if among().any(|other| other.word() != most.word() && agreeing(other) == agreeing(most)) {
            way.bottleneck = no_single_resource(&of_all, shares);
            continue;
        }
        let has = |(_, own): &(&&StoredRun, &&Bottleneck)| own.word() == most.word();
        let its: Vec<&StoredRun> =
            runs.iter().zip(&bounds).filter(has).map(|(run, _)| *run).collect();
        if let Some(of_most) = judged(&its).directions.into_iter().nth(at) {
            // how far links were filled is told of all runs beside rates of all runs
            let (agreeing, link_percent) = (way.agreeing, way.link_percent);
            *way = Judged { agreeing, link_percent, ..of_most };
        }
    }
    verdict.with_runs(alone)
}

/// The evidence in the good runs among `runs`, which are of one cell; `scale` is the testbed's.
pub fn of_runs<'a>(runs: impl IntoIterator<Item = &'a StoredRun>, scale: f64) -> Shares {
    let good_runs: Vec<(&RunSpec, &Measurement)> =
        runs.into_iter().filter_map(|run| Some((&run.spec, run.measurement()?))).collect();
    let good: Vec<&Measurement> = good_runs.iter().map(|(_, run)| *run).collect();
    let mean_of = |pick: &dyn Fn(&RunSpec, &Measurement) -> Option<f64>| {
        let values: Vec<f64> = good_runs.iter().filter_map(|(spec, run)| pick(spec, run)).collect();
        mean(&values)
    };
    let counted = |pick: fn(&AdapterEvidence) -> Option<f64>| {
        mean_of(&|_, run| pick(adapter::evidence(run)?))
    };
    let ways = good_runs.first().map_or_else(Vec::new, |(spec, _)| loaded(spec));
    let ways = ways.into_iter().map(|direction| {
        let times: Vec<SenderTimes> =
            good_runs.iter().filter_map(|(spec, run)| senders(spec, run, direction)).collect();
        DirectionShares {
            direction,
            link_percent: mean_of(&|spec, run| {
                adapter::link_percent(run, direction)
                    .or_else(|| limit::filled_percent(spec, run, direction?))
            }),
            store_percent: (direction != Some(FlowDirection::Receive))
                .then(|| mean_of(&|_, run| adapter::store_percent(run)))
                .flatten(),
            ports: direction.and_then(|direction| by_port(&good_runs, direction)),
            rwnd_limited_percent: limited(&times, |senders| {
                senders.rwnd_limited_unqueued_us.unwrap_or(senders.rwnd_limited_us)
            }),
            rwnd_limited_anywhere_percent: limited(&times, |senders| senders.rwnd_limited_us),
            sndbuf_limited_percent: send_buffer_percent(&times),
            cwnd_limited_percent: limited(&times, |senders| {
                let elsewhere = senders.rwnd_limited_us.saturating_add(senders.sndbuf_limited_us);
                senders.busy_us.saturating_sub(elsewhere)
            }),
            path: path(&times),
            resent_percent: mean_of(&|spec, run| resent_percent(spec, run, direction)),
            nothing_to_send_percent: mean_of(&|spec, run| {
                let streams = spec.item().is_none() && !spec.is_transactional();
                senders(spec, run, direction)
                    .filter(|_| streams)
                    .and_then(|senders| nothing_under_way_percent(spec, senders))
            }),
            drives_percent: mean_of(&|spec, run| drives_percent(spec, run)),
            discipline: disciplines::holding_back(&good, direction),
            word_percent: mean_of(&|spec, run| word_percent(spec, run, direction)),
        }
    });
    Shares {
        good_runs: u32::try_from(good.len()).unwrap_or(u32::MAX),
        ways: ways.collect(),
        bus_percent: counted(adapter::bus_percent),
        device_percent: counted(AdapterEvidence::busiest_device_percent),
        device_shares_cpus: good.iter().any(|run| adapter::device_shares_cpus(run)),
        scale,
        sut: busiest(&good, |run| &run.sut_cpu),
        client: busiest(&good, |run| &run.client_cpu),
        shared_cpus: good.iter().any(|run| run.sut_cpu.shared),
        transactional: good_runs.iter().any(|(spec, _)| spec.is_transactional()),
        request_rate_percent: mean_of(&|spec, run| request_rate_percent(spec, run)),
        round_trip: {
            let parts = good_runs.iter().map(|(spec, run)| round_trip::of_run(spec, run));
            parts.collect::<Option<Vec<_>>>().and_then(|parts| round_trip::of_all(&parts))
        },
        client_others_percent: mean_of(&|_, run| {
            let cpu = &run.client_cpu;
            // of one CPU: which of them it was is not known
            let interval_ns = cpu.cpus.iter().map(|cpu| cpu.interval_ns).max()?;
            Some(cpu.others_at_most_ns() as f64 * 100.0 / interval_ns.max(1) as f64)
        })
        .unwrap_or(0.0),
    }
}

/// How far the links of an aggregate's ports were occupied; means over the runs. `None` unless several
/// ports acted as one.
fn by_port(good: &[(&RunSpec, &Measurement)], direction: FlowDirection) -> Option<PortShares> {
    let mut found = Vec::new();
    for (spec, run) in good {
        spec.interface.aggregate.aggregate.filter(|ports| *ports > 1)?;
        let percents = adapter::port_percents(run, direction)?;
        let fullest = (0..percents.len()).max_by(|a, b| percents[*a].total_cmp(&percents[*b]))?;
        let others = percents.iter().enumerate().filter(|(port, _)| *port != fullest);
        let others: Vec<f64> = others.map(|(_, percent)| *percent).collect();
        let least = others.iter().copied().reduce(f64::min)?;
        let most = others.iter().copied().reduce(f64::max)?;
        found.push((fullest, percents[fullest], least, most));
    }
    let first = found.first()?.0;
    let same = found.iter().all(|(fullest, ..)| *fullest == first);
    let mean_of = |pick: fn(&(usize, f64, f64, f64)) -> f64| {
        mean(&found.iter().map(pick).collect::<Vec<_>>())
    };
    Some(PortShares {
        fullest_percent: mean_of(|run| run.1)?,
        port: u32::try_from(first).ok().filter(|_| same),
        others_percent: (mean_of(|run| run.2)?, mean_of(|run| run.3)?),
    })
}

/// The directions that a run loads; transactions load both in turn, which are judged together.
fn loaded(spec: &RunSpec) -> Vec<Option<FlowDirection>> {
    match &spec.task {
        Task::Idle => Vec::new(),
        Task::Workload(workload) if workload.kind.is_transactional() => vec![None],
        Task::Workload(workload) => match workload.direction {
            Direction::Transmit => vec![Some(FlowDirection::Transmit)],
            Direction::Receive => vec![Some(FlowDirection::Receive)],
            Direction::Bidirectional => {
                vec![Some(FlowDirection::Transmit), Some(FlowDirection::Receive)]
            }
        },
    }
}

/// The times of the senders of one direction. `None` where the peers of bidirectional runs
/// are third-party programs: nothing is known of their end.
pub fn senders(
    spec: &RunSpec,
    run: &Measurement,
    direction: Option<FlowDirection>,
) -> Option<SenderTimes> {
    let all = run.evidence.senders;
    let (Some(direction), true) = (direction, loaded(spec).len() > 1) else { return Some(all) };
    match direction {
        FlowDirection::Transmit => run.evidence.sut_senders(),
        FlowDirection::Receive => run.evidence.client_senders,
    }
}

/// What a backup moved, in per cent of what its tape drives take.
fn drives_percent(spec: &RunSpec, run: &Measurement) -> Option<f64> {
    let drives = limit::of_drives(spec)?;
    let (received, seconds) = limit::moved(run, FlowDirection::Receive)?;
    Some(received as f64 * 8.0 / seconds * 100.0 / drives)
}

/// Part of the measurement in which the senders of transfers had nothing under way, in per cent.
fn word_percent(
    spec: &RunSpec,
    run: &Measurement,
    direction: Option<FlowDirection>,
) -> Option<f64> {
    if spec.item() != Some(Item::Transfer) {
        return None;
    }
    nothing_under_way_percent(spec, senders(spec, run, direction)?)
}

/// The time over which the counters of senders were read, all sockets together, µs: somewhat more than the window.
fn observed_us(spec: &RunSpec, senders: SenderTimes) -> f64 {
    match senders.observed_us {
        // the agent did not tell it
        0 => f64::from(senders.sockets) * spec.duration.as_micros() as f64,
        observed_us => observed_us as f64,
    }
}

/// Part of the time in which senders had no byte under way, in per cent.
fn nothing_under_way_percent(spec: &RunSpec, senders: SenderTimes) -> Option<f64> {
    let whole_us = observed_us(spec, senders);
    (whole_us > 0.0).then(|| (100.0 - senders.busy_us as f64 * 100.0 / whole_us).max(0.0))
}

/// Payload that senders of one direction sent again, in per cent of what arrived there.
fn resent_percent(
    spec: &RunSpec,
    run: &Measurement,
    direction: Option<FlowDirection>,
) -> Option<f64> {
    let senders = senders(spec, run, direction).filter(|senders| senders.sockets > 0)?;
    let whole_us = observed_us(spec, senders);
    let in_measurement = f64::from(senders.sockets) * spec.duration.as_micros() as f64 / whole_us;
    let arrived = match direction? {
        FlowDirection::Transmit => run.traffic.transmit_bytes,
        FlowDirection::Receive => run.traffic.receive_bytes,
    };
    (arrived > 0 && whole_us > 0.0)
        .then(|| senders.resent_bytes as f64 * in_measurement * 100.0 / arrived as f64)
}

/// What the senders knew of their path; means over sockets and edges, then over runs.
fn path(times: &[SenderTimes]) -> Option<PathShares> {
    let mean_of = |pick: fn(&SenderPath) -> u64| {
        let of_run = |senders: &SenderTimes| {
            let sum = senders.path.iter().map(|edge| pick(edge) as f64).sum::<f64>();
            (senders.sockets > 0).then(|| sum / 2.0 / f64::from(senders.sockets))
        };
        mean(&times.iter().filter_map(of_run).collect::<Vec<f64>>())
    };
    let path = PathShares {
        rtt_us: mean_of(|path| path.rtt_us)?,
        min_rtt_us: mean_of(|path| path.min_rtt_us)?,
        cwnd_segments: mean_of(|path| path.cwnd_segments)?,
    };
    // UDP sockets have none
    (path.rtt_us > 0.0).then_some(path)
}

/// A part of the time with data to send, in per cent of it; mean over the runs that sent.
pub(super) fn limited(times: &[SenderTimes], part_us: fn(&SenderTimes) -> u64) -> Option<f64> {
    let sent = times.iter().filter(|senders| senders.busy_us > 0);
    let shares = sent.map(|senders| part_us(senders) as f64 * 100.0 / senders.busy_us as f64);
    mean(&shares.collect::<Vec<_>>())
}

/// Share of sending time limited by the send buffer, in per cent: the kernel's count, or the share
/// of looks that found a full buffer to be the bound, whichever is more. The kernel's counter leaves
/// out senders that wait with all their data sent, and looks are few, but neither reports a limit
/// that is not there.
pub(super) fn send_buffer_percent(times: &[SenderTimes]) -> Option<f64> {
    let counted = limited(times, |senders| senders.sndbuf_limited_us);
    let looked = times.iter().filter(|senders| senders.buffer_samples > 0);
    let looked = looked
        .map(|senders| senders.buffer_full_samples as f64 * 100.0 / senders.buffer_samples as f64);
    [counted, mean(&looked.collect::<Vec<_>>())].into_iter().flatten().reduce(f64::max)
}

/// The busiest CPU of one end, or the busiest thread where that is busier: it moved over several
/// CPUs. Threads of drivers are bound to a CPU each.
fn busiest(good: &[&Measurement], end: fn(&Measurement) -> &CpuUse) -> Option<CpuShare> {
    let metered: Vec<&Measurement> = good
        .iter()
        .copied()
        .filter(|run| end(run).cpus.iter().any(|cpu| cpu.interval_ns > 0))
        .collect();
    let cpus: Vec<f64> = metered.iter().map(|run| end(run).busiest_percent()).collect();
    let threads: Vec<f64> =
        metered.iter().filter_map(|run| end(run).busiest_thread_percent()).collect();
    let cpu = CpuShare { percent: mean(&cpus)?, of_thread: false };
    // times of a thread and of its CPU are not read at one moment: a thread that has stayed on a CPU
    // may seem a little busier than it
    let thread = mean(&threads).filter(|percent| *percent > cpu.percent * THREAD_BUSIER);
    Some(thread.map_or(cpu, |percent| CpuShare { percent: percent.min(100.0), of_thread: true }))
}

/// Answered requests of an open loop, in per cent of those that were due in the measurement; `None` of other workloads.
pub fn request_rate_percent(spec: &RunSpec, run: &Measurement) -> Option<f64> {
    let Task::Workload(workload) = &spec.task else { return None };
    let rate_per_s = f64::from(workload.request_rate_per_s?);
    let due = rate_per_s * workload.flows(spec.clients) as f64 * run.traffic.transaction_seconds;
    (due > 0.0).then(|| run.traffic.transactions as f64 * 100.0 / due)
}

/// How much busier than every CPU a thread must be to have moved over several.
const THREAD_BUSIER: f64 = 1.05;

#[cfg(test)]
mod tests;
