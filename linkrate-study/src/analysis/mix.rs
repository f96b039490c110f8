//! The figures of each workload of a mix. The CPU time of the SUT is that of all together.

use linkrate_model::latency::LatencyFigures;
use linkrate_model::measurement::PartMeasured;
use linkrate_model::mix::MixPart;
use linkrate_model::{Direction, RunSpec, Task};

use super::pooled;
use crate::quantity::{Measure, Quantity, Unit};
use crate::results::MixFigures;
use crate::store::StoredRun;
use linkrate_stats::interval::of_mean;

/// Each workload, in the order of the study file; empty without a mix. `limit` is that of a rate of all together, in
/// bit/s.
pub fn of_cell(
    spec: &RunSpec,
    runs: &[&StoredRun],
    limit: &dyn Fn(Measure) -> Option<f64>,
    method: pooled::Method,
) -> Vec<MixFigures> {
    let Task::Workload(workload) = &spec.task else { return Vec::new() };
    let parts = workload.mix.iter().enumerate();
    parts.map(|(number, part)| of_part(part, number, runs, limit, method)).collect()
}

fn of_part(
    part: &MixPart,
    number: usize,
    runs: &[&StoredRun],
    limit: &dyn Fn(Measure) -> Option<f64>,
    method: pooled::Method,
) -> MixFigures {
    let way = match (part.workload.kind.item(), part.workload.direction) {
        (None, Direction::Transmit) => Measure::Transmit,
        (None, Direction::Receive) => Measure::Receive,
        _ => Measure::Throughput,
    };
    let good: Vec<&PartMeasured> =
        runs.iter().filter_map(|run| run.measurement()?.parts.get(number)).collect();
    let quantity = |unit, limit, figure: fn(&PartMeasured) -> f64| {
        let values: Vec<f64> = good.iter().map(|part| figure(part)).collect();
        let interval = of_mean(&values, method.confidence)?.within(limit);
        Some(Quantity { interval, unit })
    };
    let completed = part.workload.kind.item().and_then(|item| {
        quantity(Unit::rate_of(item), None, |part| part.traffic.transactions_per_second())
    });
    let reported = good.iter().filter_map(|part| {
        let figures = part.latency.as_ref().map(LatencyFigures::from)?;
        Some(pooled::ReportedLatency { figures, histogram: part.histogram.as_deref() })
    });
    MixFigures {
        name: part.name.clone(),
        share: part.share,
        throughput: quantity(Unit::BitsPerSecond, limit(way), |part| {
            part.traffic.bits_per_second()
        }),
        completed,
        latency: pooled::latency(&reported.collect::<Vec<_>>(), method),
        of_loop: part.workload.loop_of_items(),
    }
}
