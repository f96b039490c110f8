//! The latency of the runs of a cell: percentiles of all their transactions together.

use linkrate_model::latency::{LatencyFigures, LatencyIntervals, Percentile};
use linkrate_model::measurement::PartMeasured;
use linkrate_model::mix::MixPart;
use linkrate_model::{Direction, RunSpec, Task};
use linkrate_stats::interval::of_mean;
use linkrate_stats::pool::Pool;
use linkrate_stats::sample::mean;

use crate::latencies::{decoded, steps};
use crate::quantity::{Measure, Quantity, Unit};
use crate::results::MixFigures;
use crate::store::StoredRun;
use crate::study::Study;

/// What a run reports on its latencies.
#[derive(Debug, Clone, Copy)]
pub struct ReportedLatency<'a> {
    pub figures: LatencyFigures,
    /// All of them, as [`latencies`](crate::latencies) encodes them; other programs tell none.
    pub histogram: Option<&'a str>,
}

/// How intervals are made.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Their level, in (0, 1).
    pub confidence: f64,
    /// Seed of the samples.
    pub seed: u64,
}

impl Method {
    /// That of a study, for intervals at `confidence`: the same session gives the same ones.
    pub fn of(study: &Study, confidence: f64) -> Self {
        Self { confidence, seed: study.method.seed() }
    }
}

/// The latency of several runs: counts are summed, the mean is that of all transactions, smallest and largest are
/// over all. Percentiles are those of all histograms together, with intervals by bootstrap over the runs. Where a run
/// has no histogram, they are means over the runs, of those figures that all have. `None` without a run.
pub fn latency(found: &[ReportedLatency<'_>], method: Method) -> Option<LatencyFigures> {
    if found.is_empty() {
        return None;
    }
    let figures: Vec<LatencyFigures> = found.iter().map(|reported| reported.figures).collect();
    let figures = together(&figures);
    let runs: Option<Vec<_>> =
        found.iter().map(|reported| Some(steps(&decoded(reported.histogram?)?))).collect();
    let Some(runs) = runs else { return Some(figures.reported()) };
    let pool = Pool::of(&runs);
    let count = pool.count();
    let pooled = figures.with_percentiles(|percentile| {
        percentile.is_reported(count).then(|| pool.quantile(percentile.quantile())).flatten()
    });
    let pooled = pooled.with_open_share(figures.open_share.unwrap_or(0.0));
    let quantiles = Percentile::ALL.map(Percentile::quantile);
    let intervals = pool.intervals(&quantiles, method.confidence, method.seed);
    let interval = |percentile: Percentile| {
        let at = Percentile::ALL.iter().position(|other| *other == percentile)?;
        intervals.get(at).copied().flatten().filter(|_| percentile.of(&pooled).is_some())
    };
    let intervals = Some(LatencyIntervals::each(interval));
    Some(LatencyFigures {
        intervals: intervals.filter(|intervals| *intervals != LatencyIntervals::default()),
        ..pooled
    })
}

/// A figure that one of the runs does not have is not known of all. Where a number of transactions is not known, the
/// mean is that of the runs.
fn together(found: &[LatencyFigures]) -> LatencyFigures {
    let all = |pick: fn(&LatencyFigures) -> Option<u64>| -> Option<Vec<u64>> {
        found.iter().map(pick).collect()
    };
    let counts = all(|latency| latency.count);
    let count = counts.as_ref().map(|all| all.iter().fold(0, |sum: u64, n| sum.saturating_add(*n)));
    let means: Option<Vec<f64>> = found.iter().map(|latency| latency.mean_ns).collect();
    let mean_ns = means.and_then(|means| match (&counts, count) {
        (Some(_), Some(0)) => Some(0.0),
        (Some(counts), Some(count)) => {
            let total: f64 = means.iter().zip(counts).map(|(mean, n)| mean * *n as f64).sum();
            Some(total / count as f64)
        }
        _ => mean(&means),
    });
    let open = found.iter().map(|of| of.open_share.unwrap_or(0.0) * of.count.unwrap_or(0) as f64);
    let open_share = open.sum::<f64>() / count.unwrap_or(0).max(1) as f64;
    let known = LatencyFigures {
        count,
        open_share: Some(open_share).filter(|share| *share > 0.0),
        mean_ns,
        min_ns: all(|latency| latency.min_ns).and_then(|all| all.into_iter().min()),
        max_ns: all(|latency| latency.max_ns).and_then(|all| all.into_iter().max()),
        ..LatencyFigures::default()
    };
    known.with_percentiles(|percentile| {
        let values = found.iter().map(|latency| Some(percentile.of(latency)? as f64));
        mean(&values.collect::<Option<Vec<f64>>>()?).map(|mean| mean.round() as u64)
    })
}

/// Each workload, in the order of the study file; empty without a mix. `limit` is that of a rate of all together, in
/// bit/s.
pub fn of_mix(
    spec: &RunSpec,
    runs: &[&StoredRun],
    limit: &dyn Fn(Measure) -> Option<f64>,
    method: Method,
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
    method: Method,
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
        Some(ReportedLatency { figures, histogram: part.histogram.as_deref() })
    });
    MixFigures {
        name: part.name.clone(),
        share: part.share,
        throughput: quantity(Unit::BitsPerSecond, limit(way), |part| {
            part.traffic.bits_per_second()
        }),
        completed,
        latency: latency(&reported.collect::<Vec<_>>(), method),
        of_loop: part.workload.loop_of_items(),
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;
    use crate::latencies::{encoded, figures};

    const METHOD: Method = Method { confidence: 0.95, seed: 5 };

    /// A run in which these latencies occurred so often.
    fn run(steps: &[(u64, u64)]) -> (LatencyFigures, Box<str>) {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for (value, count) in steps {
            histogram.record_n(*value, *count).unwrap();
        }
        ((&figures(&histogram).unwrap()).into(), encoded(&histogram).unwrap())
    }

    fn of(runs: &[(LatencyFigures, Box<str>)]) -> LatencyFigures {
        let reported =
            |(figures, histogram): &'_ (LatencyFigures, Box<str>)| (*figures, histogram.clone());
        let owned: Vec<_> = runs.iter().map(reported).collect();
        let reported: Vec<ReportedLatency<'_>> = owned
            .iter()
            .map(|(figures, histogram)| ReportedLatency {
                figures: *figures,
                histogram: Some(histogram),
            })
            .collect();
        latency(&reported, METHOD).unwrap()
    }

    /// Twenty runs of 6,000 transactions, of which one had a stall that met 20 of them. No run can tell p99.99. The
    /// mean of their p99.9, 1.1 ms, is the p99.9 of no transactions.
    #[test]
    fn a_percentile_is_that_of_all_transactions_and_not_a_mean_of_percentiles() {
        let mut runs = vec![run(&[(150_000, 6000)]); 19];
        runs.push(run(&[(150_000, 5980), (20_000_000, 20)]));
        assert!(runs.iter().all(|(figures, _)| figures.p99_9_ns.is_none()));
        let all = of(&runs);
        assert_eq!(all.count, Some(120_000));
        let near =
            |ns: Option<u64>, expected: u64| ns.unwrap().abs_diff(expected) <= expected / 500;
        assert!(near(all.p99_9_ns, 150_000) && near(all.p99_99_ns, 20_000_000), "{all:?}");
        // whether a run with a stall is among the runs is what p99.99 depends on
        let [low, high] = all.intervals.unwrap().p99_99_ns.unwrap();
        assert!(near(Some(low), 150_000) && near(Some(high), 20_000_000), "{all:?}");
        assert_eq!(of(&runs), all, "not the same twice");
    }

    #[test]
    fn few_transactions_have_no_high_percentiles_and_few_runs_no_interval() {
        let one = of(&[run(&[(1000, 100)])]);
        assert_eq!((one.p90_ns.is_some(), one.p99_ns, one.intervals), (true, None, None));
        let runs =
            |count: u64| (0..count).map(|at| run(&[(1000 + 100 * at, 300)])).collect::<Vec<_>>();
        let four = of(&runs(4));
        assert!(four.p99_ns.is_some() && four.intervals.is_none(), "{four:?}");
        let five = of(&runs(5));
        let intervals = five.intervals.unwrap();
        assert!(five.p99_ns.is_some() && five.p99_9_ns.is_none());
        assert!(intervals.p99_ns.is_some() && intervals.p99_9_ns.is_none());
    }

    /// Files of a backup that are larger than the measurement: all are open at its end.
    #[test]
    fn what_never_ended_has_bounds_and_no_percentiles() {
        let (mut figures, histogram) = run(&[(1_300_000_000, 30)]);
        figures = figures.with_open_share(1.0);
        let never = of(&[(figures, histogram.clone())]);
        assert_eq!((never.p50_ns, never.mean_ns, never.intervals), (None, None, None));
        assert!(never.at_least_ns.unwrap().abs_diff(1_300_000_000) < 2_000_000, "{never:?}");
        // of five runs, one of which had a stall at its end, 4 % of all are open
        let mut runs = vec![run(&[(1000, 300)]); 4];
        let (stalled, histogram) = run(&[(1000, 240), (9000, 60)]);
        runs.push((stalled.with_open_share(0.2), histogram));
        let found = of(&runs);
        assert!(found.p90_ns.is_some() && found.p99_ns.is_none(), "{found:?}");
        assert!(found.at_least_ns.unwrap().abs_diff(9000) < 10, "{found:?}");
        let intervals = found.intervals.unwrap();
        assert!(intervals.p90_ns.is_some() && intervals.p99_ns.is_none(), "{found:?}");
    }

    #[test]
    fn without_histograms_percentiles_are_means_of_what_all_tell() {
        let figures = |p50, count| LatencyFigures {
            p50_ns: Some(p50),
            p99_ns: Some(9000),
            count,
            ..LatencyFigures::default()
        };
        let reported = |figures| ReportedLatency { figures, histogram: None };
        let of = |count| {
            let found = [reported(figures(1000, count)), reported(figures(3000, count))];
            latency(&found, METHOD).unwrap()
        };
        assert_eq!((of(None).p50_ns, of(None).p99_ns), (Some(2000), Some(9000)));
        // too few for the 99th percentile, whoever tells it
        assert_eq!((of(Some(100)).p50_ns, of(Some(100)).p99_ns), (Some(2000), None));
        assert_eq!(latency(&[], METHOD), None);
    }
}
