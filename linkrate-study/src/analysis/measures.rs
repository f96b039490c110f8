//! The figures of one run, and of the runs of one cell.

use std::collections::BTreeMap;

use linkrate_model::latency::LatencyFigures;
use linkrate_model::measurement::{IdleSource, SenderTimes, Traffic};
use linkrate_model::{Imported, Measurement};

use crate::analysis::{adapter, disciplines, members, pooled, shares};
use crate::quantity::Measure;
use crate::results::CellEvidence;
use crate::store::{Outcome, StoredRun};
use crate::verdict::FlowDirection;
use linkrate_stats::sample::mean;

use super::runs_by_cell::RunsByCell;

/// Figures of the runs that have one. Where a good run has too few transactions for a percentile, no run has it: those
/// that do would be the fast ones.
pub fn figures<'a>(measure: Measure, runs: &[&'a StoredRun]) -> Vec<(&'a StoredRun, f64)> {
    let with = runs.iter().filter_map(|run| Some((*run, figure(measure, run)?)));
    let with: Vec<_> = with.collect();
    let lacks_it = || with.len() < runs.iter().filter(|run| run.is_good()).count();
    if measure.is_percentile() && lacks_it() { Vec::new() } else { with }
}

impl RunsByCell<'_> {
    /// A cell's figure by block; blocks without one are absent.
    pub fn by_block(&self, cell: usize, measure: Measure) -> BTreeMap<u32, f64> {
        figures(measure, self.cell(cell))
            .into_iter()
            .map(|(run, value)| (run.block, value))
            .collect()
    }
}

/// One figure of a run; `None` without figures, or when they do not allow this one.
pub fn figure(measure: Measure, run: &StoredRun) -> Option<f64> {
    match &run.outcome {
        Outcome::Measured(measurement) => match measure {
            Measure::Throughput => throughput(measurement),
            Measure::Transactions => transactions(measurement),
            Measure::ServiceDemand => service_demand(measurement, run.spec.is_transactional()),
            Measure::Cpu => sut_cpu_percent(measurement),
            Measure::Transmit => throughput_of(measurement, FlowDirection::Transmit),
            Measure::Receive => throughput_of(measurement, FlowDirection::Receive),
            Measure::LatencyP50 => latency_of_run(run)?.p50_ns.map(|ns| ns as f64),
            Measure::LatencyP99 => latency_of_run(run)?.p99_ns.map(|ns| ns as f64),
        },
        Outcome::Imported(imported) => of_other_program(measure, imported),
        Outcome::Failed(_) => None,
    }
}

/// One figure of an imported run, as far as the program told it.
fn of_other_program(measure: Measure, run: &Imported) -> Option<f64> {
    let found = &run.found;
    finite(match measure {
        Measure::Throughput => found.bits_per_second(),
        Measure::Transactions => found.transactions_per_second,
        Measure::ServiceDemand => found.service_demand_us,
        Measure::Cpu => found.cpu_percent,
        Measure::Transmit => found.transmit_bits_per_second,
        Measure::Receive => found.receive_bits_per_second,
        Measure::LatencyP50 => found.latency?.p50_ns.map(|ns| ns as f64),
        Measure::LatencyP99 => found.latency?.p99_ns.map(|ns| ns as f64),
    })
}

/// Received payload in bit/s; `None` when none was counted, as for transactions on some testbeds.
pub fn throughput(run: &Measurement) -> Option<f64> {
    let counted = run.traffic.transmit_seconds > 0.0 || run.traffic.receive_seconds > 0.0;
    finite(counted.then(|| run.traffic.bits_per_second()))
}

/// Payload per second of one direction, bit/s; `None` where nothing was timed.
pub fn throughput_of(run: &Measurement, direction: FlowDirection) -> Option<f64> {
    Some(bits_per_second(&run.traffic, direction)).filter(|rate| rate.is_finite())
}

pub fn bits_per_second(traffic: &Traffic, direction: FlowDirection) -> f64 {
    let (transmit, receive) = match direction {
        FlowDirection::Transmit => (traffic.transmit_bytes, 0),
        FlowDirection::Receive => (0, traffic.receive_bytes),
    };
    Traffic { transmit_bytes: transmit, receive_bytes: receive, ..*traffic }.bits_per_second()
}

/// Transactions per second; `None` when none were counted.
pub fn transactions(run: &Measurement) -> Option<f64> {
    let counted = run.traffic.transaction_seconds > 0.0;
    finite(counted.then(|| run.traffic.transactions_per_second()))
}

/// SUT CPU time in µs per KB of 1024 bytes, or per transaction, without the time that is known to be
/// of other programs; `None` when the CPU was not metered or nothing flowed.
pub fn service_demand(run: &Measurement, transactional: bool) -> Option<f64> {
    // a group without CPUs would read as one that cost nothing
    sut_cpu_percent(run)?;
    finite(if transactional {
        run.service_demand_us_per_transaction()
    } else {
        run.service_demand_us_per_kb()
    })
}

/// Busy share of the SUT's CPUs in per cent, without the time that is known to be of other programs;
/// `None` when they were not metered.
pub fn sut_cpu_percent(run: &Measurement) -> Option<f64> {
    let metered = run.sut_cpu.cpus.iter().any(|cpu| cpu.interval_ns > 0);
    finite(metered.then(|| run.sut_cpu.own_percent()))
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// Latency over the runs of a cell, as [`pooled::latency`]. `None` when no run has one.
pub fn latency(runs: &[&StoredRun], method: pooled::Method) -> Option<LatencyFigures> {
    let found: Vec<pooled::ReportedLatency<'_>> = runs
        .iter()
        .filter_map(|run| {
            let figures = latency_of_run(run)?;
            let histogram = run.measurement().and_then(|measured| measured.histogram.as_deref());
            Some(pooled::ReportedLatency { figures, histogram })
        })
        .collect();
    pooled::latency(&found, method)
}

/// The latency of one run, as far as it is known.
pub fn latency_of_run(run: &StoredRun) -> Option<LatencyFigures> {
    match &run.outcome {
        Outcome::Measured(measured) => measured.latency.as_ref().map(LatencyFigures::from),
        Outcome::Imported(imported) => imported.found.latency,
        Outcome::Failed(_) => None,
    }
}

/// What the counters of a cell's good runs prove; means over the runs, each over those runs that
/// have the figure.
pub fn evidence(runs: &[&StoredRun]) -> CellEvidence {
    let good: Vec<&Measurement> = runs.iter().filter_map(|run| run.measurement()).collect();
    let mean_of = |pick: fn(&Measurement) -> Option<f64>| -> Option<f64> {
        let values: Vec<f64> = good.iter().filter_map(|run| finite(pick(run))).collect();
        mean(&values)
    };
    let imported: Vec<&Imported> = runs.iter().filter_map(|run| run.imported()).collect();
    if !imported.is_empty() {
        return evidence_of_other_programs(&imported);
    }
    let rounded = |pick| mean_of(pick).map(|mean| mean.round() as u64);
    let senders: Vec<SenderTimes> = good.iter().map(|run| run.evidence.senders).collect();
    CellEvidence {
        stack_packet_bytes: mean_of(|run| run.evidence.mean_stack_packet_bytes()),
        driver_packet_bytes: mean_of(|run| run.evidence.mean_driver_packet_bytes()),
        received_packet_bytes: mean_of(|run| run.evidence.mean_received_packet_bytes()),
        frames_per_received_packet: mean_of(|run| run.evidence.mean_frames_per_received_packet()),
        client_cpu_percent: mean_of(|run| {
            let metered = run.client_cpu.cpus.iter().any(|cpu| cpu.interval_ns > 0);
            metered.then(|| run.client_cpu.percent())
        }),
        background_cpu_percent: mean_of(|run| {
            Some(run.sut_cpu.percent_of(run.sut_cpu.others_bound_ns()))
        })
        .filter(|percent| *percent > 0.0),
        background_uncertainty_cpu_percent: mean_of(|run| {
            Some(run.sut_cpu.percent_of(run.sut_cpu.others_uncertain_ns()))
        })
        .filter(|percent| *percent > 0.0),
        service_demand_with_others: service_demand_with_others(runs),
        rwnd_limited_percent: shares::limited(&senders, |senders| senders.rwnd_limited_us),
        sndbuf_limited_percent: shares::send_buffer_percent(&senders),
        retransmits: mean_of(|run| {
            let senders = &run.evidence.senders;
            (senders.sockets > 0).then_some(senders.retransmits as f64)
        }),
        acknowledgements_per_segment: mean_of(|run| {
            run.evidence.sut_senders()?.acknowledgements_per_segment()
        }),
        client_receive_batches: mean_of(|run| Some(run.evidence.client_receive_batches as f64))
            .filter(|gathers| *gathers > 0.0),
        lost_percent: mean_of(lost_percent).map(|percent| percent.max(0.0)),
        drops: mean_of(|run| Some(drops(run) as f64)),
        granted_send_buffer_bytes: rounded(|run| {
            Some(run.effective.granted_send_buffer_bytes as f64)
        }),
        granted_receive_buffer_bytes: rounded(|run| {
            Some(run.effective.granted_receive_buffer_bytes as f64)
        }),
        // the smallest, for a mean of segment sizes is no segment size
        mss_bytes: good.iter().map(|run| run.effective.mss_bytes).filter(|mss| *mss > 0).min(),
        // runs whose sockets have another family than the plan's do not count
        family: good
            .iter()
            .find(|run| run.effective.granted_send_buffer_bytes > 0)
            .map(|run| run.effective.socket.family),
        // the one that asks for most caution, should runs differ
        idle_source: good.iter().map(|run| run.sut_cpu.source).max_by_key(|source| match source {
            IdleSource::TimerList => 0,
            IdleSource::IdleCounter => 1,
            IdleSource::ProcStat => 2,
        }),
        adapter: adapter::figures(&good),
        members: members::figures(&good),
        disciplines: disciplines::figures(&good, disciplines::of_sut),
        client_disciplines: disciplines::figures(&good, disciplines::of_clients),
        line: Vec::new(),
    }
}

/// The little that other programs tell beside their figures.
fn evidence_of_other_programs(runs: &[&Imported]) -> CellEvidence {
    let mean_of = |pick: fn(&Imported) -> Option<f64>| -> Option<f64> {
        let values: Vec<f64> = runs.iter().filter_map(|run| finite(pick(run))).collect();
        mean(&values)
    };
    let rounded = |pick| mean_of(pick).map(|mean| mean.round() as u64);
    CellEvidence {
        client_cpu_percent: mean_of(|run| run.found.client_cpu_percent),
        retransmits: mean_of(|run| run.found.retransmits.map(|count| count as f64)),
        lost_percent: mean_of(|run| run.found.lost_percent()),
        granted_send_buffer_bytes: rounded(|run| {
            run.found.granted_send_buffer_bytes.map(|bytes| bytes as f64)
        }),
        granted_receive_buffer_bytes: rounded(|run| {
            run.found.granted_receive_buffer_bytes.map(|bytes| bytes as f64)
        }),
        mss_bytes: runs.iter().filter_map(|run| run.found.mss_bytes).min(),
        ..CellEvidence::default()
    }
}

/// The mean service demand with all time that was busy; `None` unless other programs had some of it.
fn service_demand_with_others(runs: &[&StoredRun]) -> Option<f64> {
    let demands = runs.iter().filter_map(|run| {
        let measured = run.measurement()?;
        let own = service_demand(measured, run.spec.is_transactional())?;
        let cpu = &measured.sut_cpu;
        Some((own, finite(Some(own * cpu.busy_ns() as f64 / cpu.own_busy_ns() as f64))?))
    });
    let (own, all): (Vec<f64>, Vec<f64>) = demands.unzip();
    mean(&all).filter(|_| own != all)
}

/// Datagrams lost in per cent of those sent, negative where more arrived than were sent in the measurement; `None` when none were sent, as over TCP.
pub fn lost_percent(run: &Measurement) -> Option<f64> {
    let sent = run.traffic.sent_datagrams;
    (sent > 0).then(|| run.traffic.lost_datagrams as f64 * 100.0 / sent as f64)
}

/// Packets that the SUT's interfaces dropped, both ways.
pub fn drops(run: &Measurement) -> u64 {
    run.evidence.interface.tx_dropped.saturating_add(run.evidence.interface.rx_dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_percentile_of_a_cell_is_not_that_of_its_fast_runs() {
        let run = |block, p99_ns| {
            let mut measured = fixture::transactions(500.0, 0.5);
            measured.latency = Some(linkrate_model::measurement::Latency {
                count: 1000,
                mean_ns: 1e6,
                min_ns: 1,
                p50_ns: Some(1_000_000),
                p90_ns: None,
                p99_ns,
                p99_9_ns: None,
                p99_99_ns: None,
                max_ns: 9_000_000,
                open_share: 0.0,
            });
            fixture::run(block, block, Some(0), measured)
        };
        let of = |measure, slow: Option<u64>| {
            let runs = [run(0, Some(2_000_000)), run(1, slow)];
            figures(measure, &runs.iter().collect::<Vec<_>>()).len()
        };
        assert_eq!(of(Measure::LatencyP99, Some(3_000_000)), 2);
        assert_eq!([Measure::LatencyP99, Measure::LatencyP50].map(|one| of(one, None)), [0, 2]);
    }

    #[test]
    fn acknowledgements_per_segment_are_those_of_what_the_sut_sends() {
        let client =
            SenderTimes { data_segments: 400, acknowledgements: 390, ..SenderTimes::default() };
        let both =
            SenderTimes { data_segments: 1400, acknowledgements: 450, ..SenderTimes::default() };
        let of = |client_senders| {
            let mut measured = fixture::stream(1e9, 0.5);
            (measured.evidence.senders, measured.evidence.client_senders) = (both, client_senders);
            let run = fixture::run(0, 0, Some(0), measured);
            evidence(&[&run]).acknowledgements_per_segment
        };
        assert_eq!(of(Some(client)), Some(0.06));
        assert_eq!(of(None), None, "earlier versions added up both ends");
    }
}
