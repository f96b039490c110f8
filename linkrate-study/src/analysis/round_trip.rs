//! The parts of the latency of transactions, each by a cause that was measured by itself.
//!
//! Ports count how long received frames waited for their interrupt by the rules of its moderation, how late
//! it then was, and how long sent packets took until their last bit had left. CPU times are those of the
//! hosts. What is left of the latency is *unexplained*: threads that wait to wake up, or for a CPU that has
//! other transactions to do first.

use std::collections::BTreeMap;

use linkrate_model::measurement::{AdapterEvidence, CpuUse};
use linkrate_model::{Measurement, RunSpec, Task};

use super::adapter;
use crate::results::figures::RoundTripParts;
use crate::store::StoredRun;
use linkrate_stats::sample::mean;

/// The most by which the frames of a run in one direction may differ from its transactions, as a fraction.
/// Beyond it a transaction is not one frame each way, and frames do not report on its waits.
pub const MAX_OTHER_FRAMES: f64 = 0.1;

/// The parts; `None` unless every good run has a latency and CPU times.
pub fn of_cell(runs: &[&StoredRun]) -> Option<RoundTripParts> {
    let good = runs.iter().filter_map(|run| Some((&run.spec, run.measurement()?)));
    let parts: Option<Vec<RoundTripParts>> = good.map(|(spec, run)| of_run(spec, run)).collect();
    of_all(&parts?)
}

/// The means of the parts of several runs; a part that a run does not have is absent.
pub fn of_all(runs: &[RoundTripParts]) -> Option<RoundTripParts> {
    let mean_of = |of: fn(&RoundTripParts) -> Option<f64>| {
        let values: Option<Vec<f64>> = runs.iter().map(of).collect();
        mean(&values?)
    };
    Some(RoundTripParts {
        latency_us: mean_of(|run| Some(run.latency_us))?,
        moderation_us: mean_of(|run| run.moderation_us),
        device_us: mean_of(|run| run.device_us),
        wire_us: mean_of(|run| run.wire_us),
        sut_us: mean_of(|run| Some(run.sut_us))?,
        clients_us: mean_of(|run| run.clients_us),
        unexplained_us: mean_of(|run| Some(run.unexplained_us))?,
    })
}

/// The parts of one run, µs for each transaction.
pub fn of_run(spec: &RunSpec, run: &Measurement) -> Option<RoundTripParts> {
    // in an open loop requests wait for their turn as well
    let is_open = matches!(&spec.task, Task::Workload(of) if of.request_rate_per_s.is_some());
    if !spec.is_transactional() || is_open {
        return None;
    }
    let latency_us = run.latency.as_ref()?.mean_ns / 1000.0;
    let rate = run.traffic.transactions_per_second();
    let cpu = |group: &CpuUse| {
        (rate > 0.0 && !group.cpus.is_empty()).then(|| group.own_busy_cpus() * 1e6 / rate)
    };
    let sut_us = cpu(&run.sut_cpu)?;
    // on shared CPUs both ends are in the SUT's
    let clients_us = cpu(&run.client_cpu).filter(|_| !run.sut_cpu.shared);
    let counted = adapter::evidence(run).and_then(|counted| of_frames(counted, rate));
    let part = |of: fn(&Frames) -> f64| counted.as_ref().map(of);
    let parts = RoundTripParts {
        latency_us,
        moderation_us: part(|frames| frames.wait_us),
        device_us: part(|frames| frames.late_us),
        wire_us: part(|frames| frames.wire_us),
        sut_us,
        clients_us,
        unexplained_us: 0.0,
    };
    Some(RoundTripParts { unexplained_us: latency_us - parts.explained_us(), ..parts })
}

/// What frames took, both ends together, µs for each transaction.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Frames {
    wait_us: f64,
    late_us: f64,
    wire_us: f64,
}

/// `None` unless the ports counted, and each transaction was one frame each way.
fn of_frames(counted: &AdapterEvidence, rate: f64) -> Option<Frames> {
    let transactions = rate * counted.interval_ns as f64 / 1e9;
    let sut = |counter: &str| counted.total(counter);
    let clients = |counter: &str| count(&counted.clients, counter);
    let is_one =
        |frames: u64| (frames as f64 - transactions).abs() <= transactions * MAX_OTHER_FRAMES;
    let each_way = [sut("rxWaitedFrames"), clients("rxWaitedFrames"), sut("txHostPackets")];
    // imported runs do not count it
    let is_counted = counted.ports.iter().all(|port| port.counters.contains_key("txWireNs"));
    if transactions <= 0.0 || !is_counted || !each_way.into_iter().all(is_one) {
        return None;
    }
    let both = |counter: &str| (sut(counter) + clients(counter)) as f64 / 1000.0 / transactions;
    Some(Frames {
        wait_us: both("rxWaitNs"),
        late_us: both("rxLateNs"),
        wire_us: both("txWireNs") + both("switchTransitNs"),
    })
}

fn count(counters: &BTreeMap<String, u64>, name: &str) -> u64 {
    counters.get(name).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use linkrate_model::measurement::Latency;
    use linkrate_model::{Protocol, Workload};

    use super::*;
    use crate::fixture;
    use crate::store::Outcome;

    /// A run of two seconds with 2000 transactions of 500 µs a second, of which the SUT and the clients had
    /// 25 µs of CPU time each, and the frames what `counters` say at either end.
    fn run(counters: &[(&str, u64)]) -> StoredRun {
        let mut measured = fixture::transactions(2000.0, 0.05);
        measured.client_cpu = measured.sut_cpu.clone();
        measured.traffic.transactions = 4000;
        measured.traffic.transaction_seconds = 2.0;
        measured.latency = Some(Latency {
            count: 4000,
            mean_ns: 500_000.0,
            min_ns: 490_000,
            p50_ns: Some(500_000),
            p90_ns: Some(500_000),
            p99_ns: Some(500_000),
            p99_9_ns: Some(500_000),
            p99_99_ns: Some(500_000),
            max_ns: 500_000,
            open_share: 0.0,
        });
        let mut counted = fixture::counted(1.0, 1.0);
        counted.ports.truncate(1);
        let counters = counters.iter().map(|(name, count)| ((*name).to_owned(), *count));
        let counters: BTreeMap<String, u64> = counters.collect();
        (counted.ports[0].counters, counted.clients) = (counters.clone(), counters);
        measured.evidence.adapter = Some(counted);
        let mut run = fixture::run(0, 0, Some(0), measured);
        run.spec.task =
            Task::Workload(Workload { kind: Protocol::RequestResponse, ..Workload::default() });
        run
    }

    /// What is counted at each end of 4000 transactions in one frame each way.
    const ONE_FRAME: [(&str, u64); 5] = [
        ("rxWaitedFrames", 4010),
        ("txHostPackets", 3990),
        ("rxWaitNs", 4000 * 200_000),
        ("rxLateNs", 4000 * 10_000),
        ("txWireNs", 4000 * 2_000),
    ];

    #[test]
    fn the_parts_of_a_latency_are_all_of_it() {
        let parts = of_cell(&[&run(&ONE_FRAME)]).unwrap();
        let near = |part: Option<f64>, us: f64| {
            assert!((part.unwrap() - us).abs() < 0.01, "{part:?} {us}");
        };
        near(parts.moderation_us, 400.0);
        near(parts.device_us, 20.0);
        near(parts.wire_us, 4.0);
        near(Some(parts.sut_us), 25.0);
        near(parts.clients_us, 25.0);
        near(Some(parts.unexplained_us), 26.0);
        near(Some(parts.explained_us() + parts.unexplained_us), 500.0);
    }

    #[test]
    fn frames_tell_nothing_of_transactions_of_several_frames() {
        for changed in ["rxWaitedFrames", "txHostPackets"] {
            let counters =
                ONE_FRAME.map(|(name, count)| (name, if name == changed { 9000 } else { count }));
            let parts = of_cell(&[&run(&counters)]).unwrap();
            assert_eq!((parts.moderation_us, parts.wire_us), (None, None));
            assert!((parts.unexplained_us - 450.0).abs() < 0.01);
        }
        // devices that do not count what a packet takes
        assert_eq!(of_cell(&[&run(&ONE_FRAME[..4])]).unwrap().moderation_us, None);
        assert_eq!(of_cell(&[&run(&[])]).unwrap().device_us, None);
    }

    #[test]
    fn streams_have_no_parts_and_shared_cpus_have_one_host() {
        let stream = fixture::run(0, 0, Some(0), fixture::stream(1e9, 0.5));
        assert_eq!(of_cell(&[&stream]), None);
        assert_eq!(of_cell(&[]), None);
        let mut shared = run(&ONE_FRAME);
        if let Outcome::Measured(measured) = &mut shared.outcome {
            measured.sut_cpu.shared = true;
        }
        assert_eq!(of_cell(&[&shared]).unwrap().clients_us, None);
    }
}
