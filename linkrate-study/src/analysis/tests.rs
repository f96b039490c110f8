//! Tests on runs with chosen figures.

use std::path::PathBuf;

use linkrate_model::measurement::{IdleSource, Latency, OtherProgram};
use linkrate_model::spec::Task;
use linkrate_model::{Family, Protocol, RunSpec, Workload};

use super::*;
use crate::executor::{Contention, Facts, RunFailure, Stage};
use crate::fixture;
use crate::levels::Level;
use crate::quantity::{Measure, Quantity, Unit};
use crate::store::plan::Session;
use crate::store::{Outcome, StoredPlan, StoredRun};
use crate::study::{Factor, Study};
use linkrate_stats::stop::StopReason;

mod bounds;

fn stored(study: Study, runs: Vec<StoredRun>) -> StoredStudy {
    StoredStudy {
        directory: PathBuf::from("results/ladder"),
        plan: StoredPlan::new(study.clone(), Facts::default(), fixture::STARTED_MS),
        ended: Some(Ended::Rule(StopReason::MaxBlocks { blocks: 4 })),
        ..fixture::under_way(study, runs)
    }
}

/// Four blocks of the ladder.
fn ladder() -> StoredStudy {
    ladder_of(4)
}

/// Blocks of the ladder: 6, 12 and 24 Gbit/s, each block faster than the last; the CPU of the SUT
/// always busy.
fn ladder_of(blocks: u32) -> StoredStudy {
    let mut runs = Vec::new();
    for block in 0..blocks {
        let drift = 1.0 + 0.1 * f64::from(block);
        let mut push = |cell, measurement| {
            let sequence = runs.len() as u32;
            runs.push(fixture::run(sequence, block, cell, measurement));
        };
        push(None, fixture::idle(0.01));
        // an order that is not that of the cells
        for (cell, rate) in [(2, 24e9), (0, 6e9), (1, 12e9)] {
            let mut measurement = fixture::stream(rate * drift, 0.99);
            if cell == 2 {
                measurement.evidence.interface.tx_bytes = 60_000_000;
                measurement.evidence.protocol.insert("IpExt.OutOctets".into(), 59_000_000);
            }
            push(Some(cell), measurement);
        }
    }
    stored(fixture::ladder(), runs)
}

/// Changes every measurement of `cell`.
fn change(
    stored: &mut StoredStudy,
    cell: Option<u32>,
    change: impl Fn(&mut linkrate_model::Measurement),
) {
    for run in stored.runs.iter_mut().filter(|run| run.cell == cell) {
        if let Outcome::Measured(measurement) = &mut run.outcome {
            change(measurement);
        }
    }
}

fn text(level: &str) -> Level {
    Level::Text(level.to_owned())
}

#[test]
fn cells_have_figures_with_units_and_a_verdict() {
    let results = analyse(&ladder());
    assert_eq!((results.blocks, results.complete), (4, true));
    assert_eq!(results.stopped, "4 blocks run, the maximum");
    assert_eq!(results.directory, "results/ladder");
    assert_eq!(results.results, "ladder-20261121-151200");
    let cell = &results.cells[0];
    assert_eq!((cell.runs, cell.failed), (4, 0));
    let throughput = cell.throughput.unwrap();
    assert_eq!(throughput.unit, Unit::BitsPerSecond);
    assert!((throughput.interval.mean / 6.9e9 - 1.0).abs() < 1e-9);
    // 0.99 CPUs · 10⁶ µs over (rate / 8 / 1024) KB
    let demand = cell.service_demand.unwrap();
    let expected: f64 = [1.0, 1.1, 1.2, 1.3].map(|d| 0.99e6 * 8192.0 / (6e9 * d)).iter().sum();
    assert_eq!(demand.unit, Unit::MicrosecondsPerKb);
    assert!((demand.interval.mean / (expected / 4.0) - 1.0).abs() < 1e-6);
    assert!((cell.cpu.unwrap().interval.mean - 99.0).abs() < 1e-9);
    assert_eq!(cell.transactions, None);
    assert_eq!(cell.verdict.sentence(), "limited by the SUT's CPU (99.0 % busy)");
    assert_eq!(cell.evidence.mss_bytes, Some(1448));
    assert_eq!(cell.evidence.family, Some(Family::Ipv4));
    assert_eq!(cell.evidence.stack_packet_bytes, Some(1386.0));
    assert_eq!(cell.evidence.idle_source, Some(IdleSource::TimerList));
    assert!((results.background_cpu.unwrap().interval.mean - 1.0).abs() < 1e-9);
    assert_eq!(results.warnings, Vec::<String>::new());
}

#[test]
fn the_address_family_is_that_of_the_sockets() {
    let mut stored = ladder();
    change(&mut stored, Some(1), |run| run.effective.socket.family = Family::Ipv6);
    change(&mut stored, Some(2), |run| run.effective.granted_send_buffer_bytes = 0);
    let cells = analyse(&stored).cells;
    let families: Vec<_> = cells[..3].iter().map(|cell| cell.evidence.family).collect();
    assert_eq!(families, [Some(Family::Ipv4), Some(Family::Ipv6), None]);
}

#[test]
fn time_of_other_programs_is_no_cost_of_the_traffic() {
    let calm = analyse(&ladder());
    // 7 % of the CPU: a program that may run there only, and one that may run elsewhere
    let disturbed = |bound| {
        let mut stored = ladder();
        change(&mut stored, Some(1), |run| {
            let cpu_ns = 140_000_000;
            run.sut_cpu.cpus[0].busy_ns = 400_000_000 + cpu_ns;
            let bound_ns = if bound { cpu_ns } else { 0 };
            let name = "sh".to_owned();
            run.sut_cpu.background = vec![OtherProgram { pid: 4711, name, cpu_ns, bound_ns }];
        });
        analyse(&stored)
    };
    let mean = |quantity: Option<Quantity>| quantity.expect("a figure").interval.mean;
    let cell = &disturbed(true).cells[1];
    let (demand, cpu) = (mean(cell.service_demand), mean(cell.cpu));
    // 20 % of the CPU instead of 99 %
    assert!((demand / mean(calm.cells[1].service_demand) * 99.0 / 20.0 - 1.0).abs() < 1e-9);
    assert!((cpu - 20.0).abs() < 1e-9, "{cpu}");
    // nothing is hidden
    let evidence = &cell.evidence;
    assert!((evidence.background_cpu_percent.expect("others") - 7.0).abs() < 1e-9);
    assert_eq!(evidence.background_uncertainty_cpu_percent, None);
    let whole = evidence.service_demand_with_others.expect("the whole");
    assert!((whole / demand - 27.0 / 20.0).abs() < 1e-9, "{whole}");

    let cell = &disturbed(false).cells[1];
    assert!((mean(cell.cpu) - 27.0).abs() < 1e-9);
    assert!((mean(cell.service_demand) - whole).abs() < 1e-9);
    let evidence = &cell.evidence;
    assert_eq!(
        (evidence.background_cpu_percent, evidence.service_demand_with_others),
        (None, None)
    );
    assert!((evidence.background_uncertainty_cpu_percent.expect("others") - 7.0).abs() < 1e-9);
}

#[test]
fn stopping_on_precision_widens_intervals() {
    let mut study = ladder();
    study.plan.study.method.max_blocks = 6;
    // or all ratios would agree
    if let Outcome::Measured(run) = &mut study.runs[2].outcome {
        run.traffic.transmit_bytes /= 2;
    }
    let width = |stored: &StoredStudy| {
        let results = analyse(stored);
        assert_eq!(results.confidence, 0.95);
        let cell = results.cells[0].throughput.unwrap().interval;
        let effect = results.effects[0].ratio;
        let level = results.interval_confidence;
        (level, cell.high.unwrap() - cell.low.unwrap(), effect.high.unwrap() - effect.low.unwrap())
    };
    let precise = |blocks| Some(Ended::Rule(StopReason::Precision { blocks, half_width: 0.01 }));
    let plain = width(&study);
    assert_eq!(plain.0, 0.95);
    study.ended = precise(4);
    let chosen = width(&study);
    assert!((chosen.0 - 0.97).abs() < 1e-12);
    // t(0.97, 3) over t(0.95, 3)
    assert!((chosen.1 / plain.1 - 3.8961 / 3.1824).abs() < 1e-4, "{}", chosen.1 / plain.1);
    assert!(chosen.2 > plain.2);
    // neither the maximum of blocks nor Ctrl-C depends on the figures
    for ended in [precise(6), Some(Ended::Interrupted), None] {
        study.ended = ended;
        assert_eq!(width(&study), plain);
    }
}

/// Cells know nothing of the order of blocks; effects and what else is paired within them pay for
/// mirrored ones, and those of older stores are what they were.
#[test]
fn mirrored_blocks_widen_effects_only() {
    let mut study = ladder();
    if let Outcome::Measured(run) = &mut study.runs[2].outcome {
        run.traffic.transmit_bytes /= 2;
    }
    let now = analyse(&study);
    study.plan.study.method.order = linkrate_stats::order::Order::Independent;
    let before = analyse(&study);
    assert!((now.effect_interval_confidence - 0.96).abs() < 1e-12);
    assert_eq!((before.effect_interval_confidence, before.interval_confidence), (0.95, 0.95));
    assert_eq!((now.interval_confidence, &now.cells), (0.95, &before.cells));
    let half = |results: &StudyResults| {
        let ratio = results.effects[1].ratio;
        (ratio.high.unwrap().ln() - ratio.low.unwrap().ln()) / 2.0
    };
    // t(0.96, 3) over t(0.95, 3)
    let wider = half(&now) / half(&before);
    assert!((wider - 3.4819 / 3.1824).abs() < 1e-4, "{wider}");

    // the stop rule looks at the same intervals
    let method = &mut study.plan.study.method;
    (method.order, method.max_blocks) = (linkrate_stats::order::Order::Mirrored, 4);
    let study = &study;
    let runs = RunsByCell::of(&study.plan.study, &study.runs);
    let comparisons = effects::comparisons(&study.plan.study);
    let stop_inputs = stop_inputs::stop_inputs(&study.plan.study, &comparisons, &runs, 4);
    let cells = 2 * study.plan.study.cells.len();
    let looked_at: Vec<Interval> = stop_inputs[cells..].iter().map(|one| one.interval).collect();
    let stated: Vec<Interval> = now.effects.iter().map(|effect| effect.ratio).collect();
    assert_eq!(looked_at, stated);
}

#[test]
fn effects_are_paired_so_that_drift_cancels() {
    let results = analyse(&ladder_of(5));
    let found: Vec<_> = results
        .effects
        .iter()
        .map(|e| {
            (e.from.to_string(), e.to.to_string(), e.measure, e.pairs, e.significant, e.same_as)
        })
        .collect();
    // the CPU is full in all cells, so that the throughput is no fact of its own
    let row = |from: &str, to: &str, measure| {
        let same_as = (measure == Measure::Throughput).then_some(Fact::ServiceDemand);
        (from.to_owned(), to.to_owned(), measure, 5, same_as.is_none(), same_as)
    };
    assert_eq!(
        found,
        [
            row("none", "gso", Measure::ServiceDemand),
            row("none", "gso", Measure::Throughput),
            row("none", "tso", Measure::ServiceDemand),
            row("none", "tso", Measure::Throughput),
            row("gso", "tso", Measure::ServiceDemand),
            row("gso", "tso", Measure::Throughput),
        ]
    );
    // the blocks drift by 40 %, their ratios not at all
    let ratio = results.effects[3].ratio;
    assert!((ratio.mean - 4.0).abs() < 1e-6);
    assert!(ratio.high.unwrap() - ratio.low.unwrap() < 1e-6);
    assert!((results.effects[2].ratio.mean - 0.25).abs() < 1e-6);
}

#[test]
fn a_rate_that_the_study_set_is_no_news() {
    let comparisons = effects::comparisons(&fixture::ladder());
    let mut results = analyse(&ladder());
    let mut of = |bottleneck: verdict::Bottleneck, limits: [f64; 2], ratio: [f64; 3]| {
        for cell in &mut results.cells {
            cell.verdict.directions[0].bottleneck = bottleneck.clone();
        }
        let [low, mean, high] = ratio;
        results.effects[1].ratio = Interval { mean, low: Some(low), high: Some(high) };
        let limit = |cell: usize, _| limits.get(cell).copied();
        of_the_machine(&comparisons[0], &results.cells, &limit, 0.02, &mut results.effects);
        results.effects.iter().map(|effect| effect.same_as).take(2).collect::<Vec<_>>()
    };
    let link = || verdict::Bottleneck::Link { percent: 99.9 };
    let as_set = [3.9, 4.05, 4.2];
    assert_eq!(of(link(), [1e9, 4e9], as_set), [None, Some(Fact::Limit)]);
    assert_eq!(of(link(), [1e9, 1e9], [1.0; 3]), [None, None], "that nothing changes is a result");
    assert_eq!(of(link(), [1e9, 4e9], [3.96, 3.97, 3.98]), [None, Some(Fact::Limit)]);
    assert_eq!(of(link(), [1e9, 4e9], [3.4, 3.5, 3.6]), [None, None], "another change");
    let store = verdict::Bottleneck::Store { percent: 99.9 };
    assert_eq!(of(store, [1e9, 4e9], as_set), [None, None]);
}

#[test]
fn an_effect_is_claimed_only_if_it_is_significant_and_large() {
    let claimed = |ratios: [f64; 5]| {
        let mut study = fixture::ladder();
        study.factors[0].levels.truncate(2);
        study.cells.truncate(2);
        let runs = (0..10u32).map(|n| {
            let (block, cell) = (n / 2, n % 2);
            let rate = if cell == 1 { 1e9 * ratios[block as usize] } else { 1e9 };
            fixture::run(n, block, Some(cell), fixture::stream(rate, 0.5))
        });
        analyse(&stored(study, runs.collect())).effects[1].significant
    };
    assert!(claimed([1.05, 1.06, 1.05, 1.04, 1.05]));
    // significant but below the minimum of 2 %
    assert!(!claimed([1.010, 1.011, 1.010, 1.009, 1.010]));
    // large but not significant
    assert!(!claimed([0.5, 2.0, 1.9, 0.8, 1.2]));
}

#[test]
fn a_study_whose_end_was_not_planned_is_marked() {
    let marked = |blocks, ended, resumed: bool| {
        let mut stored = ladder_of(blocks);
        stored.ended = ended;
        if resumed {
            let before = Some(&Ended::Interrupted);
            let session = Session::new(Facts::default(), 1_795_273_979_999, before);
            stored.plan.resumed.push(session);
        }
        let mark = |warning: &String| {
            let (end, _) = warning.split_once(" If you stopped it because")?;
            Some(end.to_owned())
        };
        analyse(&stored).warnings.iter().find_map(mark)
    };
    let by_hand = Some("The study was ended by hand after 6 blocks.".to_owned());
    assert_eq!(marked(6, Some(Ended::Interrupted), false), by_hand);
    let budget = || {
        let budget = std::time::Duration::from_secs(60);
        Some(Ended::Rule(StopReason::Budget { blocks: 6, budget }))
    };
    assert_eq!(marked(6, budget(), true), by_hand, "another budget");
    assert_eq!(marked(6, budget(), false), None, "as it was planned");
    let lost = RunFailure { fatal: true, ..RunFailure::at(Stage::Measure, "it ended") };
    let lost = Some(Ended::TestbedLost(lost));
    let said = marked(6, lost, false);
    assert_eq!(said.as_deref(), Some("The study lost its testbed after 6 blocks."));
    let failed = RunFailure::at(Stage::Measure, "it did");
    let said = marked(6, Some(Ended::RunFailed(failed)), false);
    assert_eq!(said.as_deref(), Some("The study was ended by a run that failed after 6 blocks."));
    let said = marked(6, None, false);
    assert_eq!(said.as_deref(), Some("The study is still running, or was killed, after 6 blocks."));
    // nothing is claimed from these
    assert_eq!(marked(4, Some(Ended::Interrupted), false), None);
    assert_eq!(marked(4, None, false), None);
    let rule = Some(Ended::Rule(StopReason::MaxBlocks { blocks: 6 }));
    assert_eq!(marked(6, rule, true), None);
}

#[test]
fn a_study_that_continued_after_its_planned_end_is_marked() {
    let marked_at = |began_unix_ms, blocks, ends: &[Ended]| {
        let mut stored = ladder_of(blocks);
        stored.ended = Some(Ended::Rule(StopReason::MaxBlocks { blocks: 6 }));
        let sessions =
            ends.iter().map(|end| Session::new(Facts::default(), began_unix_ms, Some(end)));
        stored.plan.resumed.extend(sessions);
        let warnings = analyse(&stored).warnings;
        let mark = warnings.iter().find_map(|warning| warning.split_once(" If its figures were"));
        mark.map(|(mark, _)| mark.to_owned())
    };
    let marked = |blocks, ends: &[Ended]| marked_at(0, blocks, ends);
    let budget = std::time::Duration::from_secs(60);
    let spent = Ended::Rule(StopReason::Budget { blocks: 5, budget });
    let once = "The study went on after its stop rule had ended it, once.";
    assert_eq!(marked(6, std::slice::from_ref(&spent)).as_deref(), Some(once));
    let twice = marked(6, &[spent.clone(), Ended::Interrupted, spent.clone()]).unwrap();
    assert!(twice.ends_with(", 2 times."), "{twice}");
    // an end by hand, which is marked where it is the last one
    assert_eq!(marked(6, &[Ended::Interrupted]), None);
    // nothing is claimed from these
    assert_eq!(marked(4, std::slice::from_ref(&spent)), None);
    // there was nothing to do
    assert_eq!(marked_at(u64::MAX, 6, &[spent]), None);
}

#[test]
fn nothing_is_claimed_from_fewer_than_five_blocks() {
    for blocks in [2, 4] {
        let results = analyse(&ladder_of(blocks));
        assert_eq!(results.effects.len(), 6);
        for effect in results.effects {
            assert!(effect.ratio.high.is_some() && effect.pairs == blocks && !effect.significant);
        }
    }
    // a block without one of the two runs makes no pair
    let mut stored = ladder_of(5);
    stored.runs.retain(|run| (run.block, run.cell) != (3, Some(2)));
    let claimed: Vec<bool> =
        analyse(&stored).effects.iter().map(|effect| effect.significant).collect();
    assert_eq!(claimed, [true, false, false, false, false, false]);
}

#[test]
fn effects_are_made_at_every_combination_of_the_other_factors() {
    let mut study = fixture::ladder();
    let ports = |n| ("ports".to_owned(), Level::Number(n));
    study.factors.push(Factor {
        name: "ports".to_owned(),
        levels: vec![Level::Number(1), Level::Number(2)],
        effects: true,
    });
    study.cells = study
        .cells
        .iter()
        .flat_map(|cell| [1, 2].map(|n| (cell, n)))
        .map(|(cell, n)| {
            let mut cell = cell.clone();
            cell.levels.0.push(ports(n));
            cell
        })
        .collect();
    let comparisons = effects::comparisons(&study);
    let named: Vec<String> = comparisons
        .iter()
        .map(|c| {
            format!("{} {}->{} at {} [{}>{}]", c.factor, c.from, c.to, c.at, c.from_cell, c.to_cell)
        })
        .collect();
    assert_eq!(
        named,
        [
            "offload none->gso at ports 1 [0>2]",
            "offload none->gso at ports 2 [1>3]",
            "offload none->tso at ports 1 [0>4]",
            "offload none->tso at ports 2 [1>5]",
            "offload gso->tso at ports 1 [2>4]",
            "offload gso->tso at ports 2 [3>5]",
            "ports 1->2 at none [0>1]",
            "ports 1->2 at gso [2>3]",
            "ports 1->2 at tso [4>5]",
        ]
    );
    study.factors[0].effects = false;
    let asked: Vec<String> = effects::comparisons(&study).into_iter().map(|c| c.factor).collect();
    assert_eq!(asked, ["ports"; 3]);
}

fn transactional(cells: std::ops::Range<usize>) -> Study {
    let mut study = fixture::ladder();
    for cell in &mut study.cells[cells] {
        let kind = Protocol::RequestResponse;
        cell.spec.task = Task::Workload(Workload { kind, ..Workload::default() });
    }
    study
}

#[test]
fn transactions_have_their_own_figures() {
    let study = transactional(0..3);
    let latency = |count, mean_ns, p99_ns| Latency {
        count,
        mean_ns,
        min_ns: 10_000 - count,
        p50_ns: Some(20_000),
        p90_ns: Some(30_000),
        p99_ns: Some(p99_ns),
        p99_9_ns: Some(50_000),
        p99_99_ns: Some(60_000),
        max_ns: 70_000 + count,
        open_share: 0.0,
    };
    let mut runs = Vec::new();
    for n in 0..6u32 {
        let cell = n % 3;
        let mut measurement = fixture::transactions(10_000.0 * f64::from(cell + 1), 0.3);
        measurement.latency = Some(match n / 3 {
            0 => latency(1000, 20_000.0, 40_001),
            _ => latency(3000, 24_000.0, 40_004),
        });
        runs.push(fixture::run_of(&study, n, n / 3, cell, measurement));
    }
    let mut stored = stored(study, runs);
    let results = analyse(&stored);
    let cell = &results.cells[1];
    assert_eq!(cell.throughput, None);
    let rate = cell.transactions.unwrap();
    assert_eq!((rate.interval.mean, rate.unit), (20_000.0, Unit::TransactionsPerSecond));
    let demand = cell.service_demand.unwrap();
    assert_eq!(demand.unit, Unit::MicrosecondsPerTransaction);
    assert!((demand.interval.mean - 15.0).abs() < 1e-6);
    let latency = cell.latency.unwrap();
    assert_eq!((latency.count, latency.mean_ns), (Some(4000), Some(23_000.0)));
    assert_eq!(
        (latency.p99_ns, latency.min_ns, latency.max_ns),
        (Some(40_003), Some(7_000), Some(73_000))
    );
    let measures: Vec<Measure> = results.effects.iter().map(|effect| effect.measure).collect();
    assert_eq!(measures[..2], [Measure::ServiceDemand, Measure::Transactions]);
    assert!((results.effects[1].ratio.mean - 2.0).abs() < 1e-9);
    // a slow run of the second cell, which two of the three effects are of
    let Outcome::Measured(slow) = &mut stored.runs[1].outcome else { panic!() };
    slow.latency.as_mut().unwrap().p99_ns = None;
    let few = analyse(&stored);
    let of_p99 = |results: &StudyResults| {
        results.effects.iter().filter(|effect| effect.measure == Measure::LatencyP99).count()
    };
    assert_eq!((of_p99(&results), of_p99(&few)), (3, 1));
    assert!(few.warnings[0].contains("GSO: 1 run has too few"), "{:?}", few.warnings);
}

#[test]
fn latency_is_not_compared_where_ports_bring_requests() {
    let with = |connections, burst, request_rate_per_s| {
        let mut spec = transactional(0..1).cells[0].spec.clone();
        let kind = Protocol::RequestResponse;
        let own = Workload { kind, connections, burst, request_rate_per_s, ..Workload::default() };
        spec.task = Task::Workload(own);
        spec
    };
    let of = |factor: &str, other: RunSpec| {
        let mut study = transactional(0..2);
        study.factors[0].name = factor.to_owned();
        study.factors[0].levels.truncate(2);
        study.cells.truncate(2);
        for (cell, spec) in study.cells.iter_mut().zip([with(1, 4, None), other]) {
            cell.levels.0[0].0 = factor.to_owned();
            cell.spec = spec;
        }
        effects::comparisons(&study)[0].measures.len()
    };
    assert_eq!(of("ports", with(4, 1, None)), 4);
    assert_eq!(of("ports", with(4, 4, None)), 2, "latency follows from the number");
    assert_eq!(of("connections", with(4, 4, None)), 4, "the number is what the study asks for");
    assert!(!effects::changes_load("ports", &with(1, 1, Some(100)), &with(4, 1, Some(100))));
}

#[test]
fn a_stream_is_not_compared_with_transactions() {
    let named: Vec<String> = effects::comparisons(&transactional(0..1))
        .iter()
        .map(|c| format!("{}->{}", c.from, c.to))
        .collect();
    assert_eq!(named, ["gso->tso"]);
}

#[test]
fn failed_runs_are_absent_with_their_reason() {
    let mut stored = ladder();
    for run in stored.runs.iter_mut().filter(|run| run.cell == Some(1)) {
        run.outcome = fixture::failed("tx-tcp-segmentation reads on").into();
    }
    stored.runs[2].outcome = fixture::failed("gone").into();
    let results = analyse(&stored);
    let cell = &results.cells[1];
    assert_eq!((cell.runs, cell.failed, cell.throughput), (0, 4, None));
    assert_eq!(cell.verdict.brief(), "no run succeeded");
    assert_eq!((results.cells[0].runs, results.cells[0].failed), (3, 1));
    // only none to tso is left, with the blocks that have both
    let pairs: Vec<(Level, u32)> =
        results.effects.iter().map(|effect| (effect.to.clone(), effect.pairs)).collect();
    assert_eq!(pairs, [(text("tso"), 3), (text("tso"), 3)]);
    assert_eq!(results.failures.len(), 5);
    let failure = &results.failures[0];
    assert_eq!((failure.stage, failure.reason.as_str()), (Stage::Knob, "gone"));
    assert_eq!(failure.levels.get("offload"), Some(&text("none")));
    // a failed run is still a run of its block
    assert_eq!(results.blocks, 4);
    assert_eq!(
        results.warnings,
        [
            "5 of 16 runs have failed and are not in the results.",
            "Every run of GSO failed; the first because: knob: tx-tcp-segmentation reads \
             on.",
        ]
    );
}

#[test]
fn the_same_runs_give_the_same_bytes() {
    let mut other = ladder();
    other.runs.reverse();
    let json = |stored: &StoredStudy| serde_json::to_string(&analyse(stored)).unwrap();
    assert_eq!(json(&ladder()), json(&ladder()));
    assert_eq!(json(&ladder()), json(&other));
}

#[test]
fn does_not_count_an_unfinished_block() {
    let mut stored = ladder();
    stored.runs.truncate(14);
    stored.ended = None;
    let results = analyse(&stored);
    assert_eq!((results.blocks, results.complete), (3, false));
    assert_eq!(results.stopped, "still running, or killed");
}

#[test]
fn nothing_stored_gives_no_figures() {
    let results = analyse(&stored(fixture::ladder(), Vec::new()));
    assert_eq!((results.blocks, results.effects.len(), results.cells.len()), (0, 0, 3));
    assert!(results.cells.iter().all(|cell| cell.runs == 0 && cell.service_demand.is_none()));
    assert_eq!(results.background_cpu, None);
    assert_eq!(results.warnings, Vec::<String>::new());
}

#[test]
fn a_group_without_cpus_has_no_service_demand() {
    let mut stored = ladder();
    change(&mut stored, Some(0), |run| run.sut_cpu.cpus.clear());
    let cell = &analyse(&stored).cells[0];
    assert_eq!((cell.service_demand, cell.cpu), (None, None));
    assert!(cell.throughput.is_some());
}

#[test]
fn each_warning_appears_under_its_condition() {
    type Case = (&'static str, fn(&mut StoredStudy));
    let cases: [Case; 15] = [
        (
            "The SUT shares its CPUs (CPU 0) with another role: CPU use and service demand \
             contain the work of both.",
            |s| change(s, Some(1), |run| run.sut_cpu.shared = true),
        ),
        (
            "Idle time was read from /proc/stat in steps of 10 ms of an interval of 2 s (0.5 %); \
             root can read the exact time in /proc/timer_list.",
            |s| change(s, Some(1), |run| run.sut_cpu.source = IdleSource::ProcStat),
        ),
        (
            "Threads of idle priority counted the idle time, so no CPU slept: latency and the CPU \
             time of waking are lower than on CPUs that sleep.",
            |s| change(s, Some(1), |run| run.sut_cpu.source = IdleSource::IdleCounter),
        ),
        ("The SUT's CPUs are 3.5 % busy without load; all service demands include that.", |s| {
            change(s, None, |run| run.sut_cpu.cpus[0].busy_ns = 70_000_000)
        }),
        (
            "The hypervisor took CPU from the SUT for more than 1 % of the time in 4 runs, 1.5 % \
             at most.",
            |s| change(s, Some(0), |run| run.sut_cpu.cpus[0].steal_ns = 30_000_000),
        ),
        (
            "The hypervisor took CPU from the SUT for more than 1 % of the time in 4 runs, 1.5 % \
             at most; how much of that was idle time is unknown, so CPU time is uncertain by \
             ±2.0 %.",
            |s| {
                change(s, Some(0), |run| {
                    let cpu = &mut run.sut_cpu.cpus[0];
                    (cpu.steal_ns, cpu.uncertainty_ns) = (30_000_000, cpu.busy_ns / 50);
                });
            },
        ),
        (
            "The hypervisor took CPU from the SUT for more than 1 % of the time in 4 runs, 2.5 % \
             at most.",
            |s| {
                // without load, all of the busy time may be idle time
                change(s, None, |run| {
                    let cpu = &mut run.sut_cpu.cpus[0];
                    (cpu.steal_ns, cpu.uncertainty_ns) = (50_000_000, cpu.busy_ns);
                });
            },
        ),
        (
            "The hypervisor took CPU from the SUT for more than 1 % of the time in 1 run, 1.5 % \
             at most.",
            |s| {
                // the second run of an A/A test
                s.plan.study.method.aa = true;
                let cell = s.plan.study.aa_cell();
                let mut other = s.runs[0].clone();
                (other.cell, other.sequence) = (cell, 0);
                let Outcome::Measured(run) = &mut other.outcome else { panic!() };
                run.sut_cpu.cpus[0].steal_ns = 30_000_000;
                s.runs.push(other);
            },
        ),
        (
            "TSO: offload tso was asked for, but packets handed to the driver have 1518 bytes on \
             average, no more than an MTU of 1500 allows.",
            |s| change(s, Some(2), |run| run.evidence.interface.tx_bytes = 1_518_000),
        ),
        (
            "GSO: offload gso was asked for, but packets handed to the driver have 1519 bytes on \
             average, more than an MTU of 1500 allows.",
            |s| change(s, Some(1), |run| run.evidence.interface.tx_bytes = 1_519_000),
        ),
        (
            "no offload: offload none was asked for, but packets that TCP built have 1501 bytes on \
             average, more than the MTU of 1500.",
            |s| {
                change(s, Some(0), |run| {
                    run.evidence.protocol.insert("IpExt.OutOctets".into(), 1_501_000);
                });
            },
        ),
        (
            "GSO: some flows did not move steadily when the measurement began, in 4 runs, 3 at \
             most.",
            |s| change(s, Some(1), |run| run.evidence.unsettled_flows = 3),
        ),
        ("GSO: the SUT's interface dropped 12 packets in 4 runs.", |s| {
            change(s, Some(1), |run| {
                run.evidence.interface.tx_dropped = 1;
                run.evidence.interface.rx_dropped = 2;
            });
        }),
        ("Turbo was on. (8 runs)", |s| {
            for cell in [1, 2] {
                change(s, Some(cell), |run| run.remarks.push("Turbo was on.".into()));
            }
        }),
        (
            "The last stored run is incomplete, after a crash or because it is being stored now; \
             it is left out.",
            |s| s.torn = true,
        ),
    ];
    for (warning, change) in cases {
        let mut stored = ladder();
        change(&mut stored);
        assert_eq!(analyse(&stored).warnings, [warning]);
    }
}

#[test]
fn only_bulk_transmission_can_contradict_tso() {
    let mut stored = ladder();
    change(&mut stored, Some(2), |run| run.evidence.interface.tx_bytes = 66_000);
    for run in stored.runs.iter_mut().filter(|run| run.cell == Some(2)) {
        let direction = linkrate_model::Direction::Receive;
        run.spec.task = Task::Workload(Workload { direction, ..Workload::default() });
    }
    assert_eq!(analyse(&stored).warnings, Vec::<String>::new());
}

#[test]
fn reports_another_testbed_on_resume() {
    let mut stored = ladder();
    stored.plan.facts.facts.insert("kernel".into(), "6.12".into());
    let mut facts = Facts::default();
    facts.facts.insert("kernel".into(), "6.13".into());
    stored.plan.resumed.push(Session {
        started_unix_ms: 1_795_273_979_999,
        linkrate_version: "0.1.0".into(),
        facts,
        after_rule: false,
    });
    assert_eq!(
        analyse(&stored).warnings,
        [
            "Resumed 20261121-1512 UTC on another testbed: kernel was 6.12 when the study began, now \
          6.13."
        ]
    );
}

#[test]
fn a_machine_that_slows_the_sut_by_more_than_the_precision_is_reported() {
    let warned = |slowdown_ppm| {
        let mut study = stored(fixture::ladder(), Vec::new());
        let (low_ppm, high_ppm) = (slowdown_ppm - 1000, slowdown_ppm + 1000);
        let contention = Contention { loop_ns: 2_000_000, slowdown_ppm, low_ppm, high_ppm };
        study.plan.facts.contention = Some(contention);
        let warnings = analyse(&study).warnings;
        warnings.into_iter().find(|warning| warning.contains("copy memory"))
    };
    let precision_ppm =
        (stored(fixture::ladder(), Vec::new()).plan.study.method.precision * 1e6) as i64;
    assert_eq!(warned(precision_ppm - 100), None);
    assert_eq!(warned(-precision_ppm), None);
    let warning = warned(72_000).unwrap();
    assert!(warning.contains("takes 7.2 % (7.1 to 7.3) more CPU time"), "{warning}");
}
