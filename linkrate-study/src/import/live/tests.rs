use linkrate_stats::simulate::Simulator;

use super::super::tests::run;
use super::*;
use crate::analysis::analyse;
use crate::quantity::Measure;
use crate::results::StudyResults;
use crate::store::{Store, StoreError, write_imported};
use linkrate_model::Direction;

const COMMANDS: [&str; 2] = ["iperf3 -c a -J", "iperf3 -c a -J -Z"];

fn live(blocks: u32) -> Live<'static> {
    Live { commands: COMMANDS, blocks, method: Method { seed: Some(7), ..Method::default() } }
}

/// Ten blocks on a machine that drifts, in which B has `effect` times the rate of A.
fn results(effect: f64) -> StudyResults {
    let mut simulator = Simulator::new(3);
    let mut runs = Vec::new();
    for block in 0..10u32 {
        let drift = 1.0 + 0.05 * f64::from(block);
        for (place, side) in Order::Mirrored.of_block(7, block, 2).0.into_iter().enumerate() {
            let factor = if side == 1 { effect } else { 1.0 };
            let rate = 1e9 * drift * factor * simulator.lognormal(0.003);
            let measured = run(&format!("{side} {block}"), Direction::Transmit, rate);
            runs.push(stored(block, side, 1 + u64::from(block), place, measured));
        }
    }
    let mut set = assemble(&live(10), &runs[..2]).unwrap();
    set.runs = runs;
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("set");
    write_imported(&directory, &set, 1).unwrap();
    let resumed = Store::resume(&directory).unwrap_err();
    assert!(matches!(resumed, StoreError::Imported { .. }), "{resumed}");
    analyse(&Store::read(&directory).unwrap())
}

#[test]
fn an_effect_of_two_per_cent_is_found_beside_a_drift_of_half() {
    let results = results(0.97);
    assert_eq!((results.blocks, results.seed), (10, Some(7)));
    let [effect] = &results.effects[..] else { panic!("{:?}", results.effects) };
    assert_eq!((effect.measure, effect.pairs), (Measure::Throughput, 10));
    assert!(effect.significant && (0.965..0.975).contains(&effect.ratio.mean), "{effect:?}");
    assert_eq!(effect.host_limited, None);
    let said = results.warnings.join("\n");
    assert!(said.contains("printed by two commands") && !said.contains("no blocks"), "{said}");
}

#[test]
fn equal_commands_have_no_effect() {
    let results = results(1.0);
    let [effect] = &results.effects[..] else { panic!("{:?}", results.effects) };
    assert!(!effect.significant && effect.equivalent, "{effect:?}");
}

#[test]
fn tests_of_another_kind_are_refused() {
    let stream = run("a", Direction::Transmit, 1e9);
    let mut transactions = stream.clone();
    transactions.asked.kind = linkrate_model::Protocol::RequestResponse;
    transactions.test = "TCP_RR".to_owned();
    let first = [stored(0, 0, 1, 0, stream), stored(0, 1, 1, 1, transactions)];
    let error = assemble(&live(5), &first).unwrap_err().to_string();
    assert_eq!(error, "A measured TCP_STREAM and B TCP_RR, expected the same kind of test");
    assert_eq!(assemble(&live(5), &first[..1]), Err(LiveError::NoRun("B")));
}
