//! The figures of the runs between two nodes.

use crate::analysis::measures::{self, figure};
use crate::analysis::{pooled, uncertainty};
use crate::quantity::Measure;
use crate::results::fleet::PairResult;
use crate::store::StoredRun;
use crate::study::Study;
use linkrate_stats::interval::of_mean;

pub(super) fn measure_of(study: &Study, cell: usize) -> Measure {
    match study.cells[cell].spec.is_transactional() {
        true => Measure::Transactions,
        false => Measure::Throughput,
    }
}

pub(super) fn pair_result(
    study: &Study,
    cell: usize,
    (sender, receiver): (u32, u32),
    runs: &[&StoredRun],
) -> PairResult {
    let interval = |measure| {
        let values: Vec<f64> = runs.iter().filter_map(|run| figure(measure, run)).collect();
        let interval = of_mean(&values, study.method.confidence)?;
        Some(uncertainty::of_runs(runs, measure).widen_mean(interval))
    };
    let good = runs.iter().filter(|run| run.is_good()).count();
    let method = pooled::Method::of(study, study.method.confidence);
    let p99 = measures::latency(runs, method).and_then(|latency| latency.p99_ns);
    PairResult {
        sender,
        receiver,
        runs: good as u32,
        failed: (runs.len() - good) as u32,
        rate: interval(measure_of(study, cell)),
        service_demand: interval(Measure::ServiceDemand),
        p99_us: p99.map(|ns| ns as f64 / 1e3),
        retransmits: measures::evidence(runs).retransmits,
    }
}
