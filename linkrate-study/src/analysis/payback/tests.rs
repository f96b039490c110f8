//! Connection offloads of known cost, to adapters that save a known amount.

use linkrate_model::cpu_use::CpuParts;

use super::*;
use crate::analysis::analyse;
use crate::fixture;
use crate::results::StudyResults;

const STUDY: &str = "
title = \"t\"
[testbed]
adapter = \"toe\"
[workload]
connections = 4
[[part]]
name = \"large\"
[part.factors]
direction = [\"transmit\", \"receive\"]
toe = [\"off\", \"on\", \"auto\"]
[[part]]
name = \"short\"
[part.workload]
kind = \"connect-request-response\"
[part.factors]
toe = [\"off\", \"auto\"]
[method]
effects = [\"toe\"]
";

/// Runs of six blocks. At the host each KB costs 1 µs, at the adapter `at_adapter`, and a connection with one
/// request costs 100 µs. A connection offload costs 50 µs before traffic and 300 µs under it. Blocks differ
/// by 2 % each, and the cells of a block by a little.
fn results(at_adapter: f64) -> StudyResults {
    with_others(at_adapter, [0.0; 2])
}

/// The same, where other programs may have had these shares of each run with its connections at the host and at the adapter.
fn with_others(at_adapter: f64, others: [f64; 2]) -> StudyResults {
    let (study, runs) = runs(at_adapter, others);
    analyse(&fixture::under_way(study, runs))
}

fn runs(at_adapter: f64, [of_host, of_adapter]: [f64; 2]) -> (Study, Vec<StoredRun>) {
    let study = crate::file::parse("t", "t.toml", STUDY).unwrap();
    let mut runs = Vec::new();
    for block in 0..6_u32 {
        for (index, cell) in (0..).zip(&study.cells) {
            let noise = 1.0 + 1e-4 * f64::from((block * 7 + index * 3) % 5);
            let level = (1.0 + 0.02 * f64::from(block)) * noise;
            let toe = toe(cell);
            let mut run = if cell.spec.is_transactional() {
                // 2000 in each of the fixture's two seconds
                fixture::transactions(2000.0, 0.2 * level)
            } else {
                let demand = if toe == Toe::Off { 1.0 } else { at_adapter };
                // 100 MiB in them, of 102,400 KB
                let mut run = fixture::stream(1e9, demand * level * 102_400.0 / 2e6);
                run.traffic.transmit_bytes = 100 << 20;
                run
            };
            let mut adapter = fixture::counted(50.0, 50.0);
            let cost_ns = match toe {
                Toe::Off => 0.0,
                Toe::On => 50_000.0,
                Toe::Auto => 300_000.0,
            };
            if cost_ns > 0.0 && !cell.spec.is_transactional() {
                let counters = &mut adapter.ports[0].counters;
                counters.insert("toeMoves.down".to_owned(), 4);
                counters.insert("toeDownCpuNs".to_owned(), (4.0 * cost_ns * level) as u64);
                counters.insert("toeMovedUs".to_owned(), 1000);
                counters.insert("toeStoodUs".to_owned(), 200);
            }
            // the driver has TCP in its part, so that all is saved there
            let busy_ns = run.sut_cpu.busy_ns();
            let application_ns = busy_ns.min(20_000_000);
            let driver_ns = busy_ns - application_ns;
            let parts = CpuParts { application_ns, driver_ns, ..CpuParts::default() };
            // with parts, the time of others is known
            run.sut_cpu.parts = (of_host + of_adapter == 0.0).then_some(parts);
            adapter.receives_in_drivers = true;
            adapter.driver_threads = adapter.device_threads.clone();
            run.evidence.adapter = Some(adapter);
            let share = if toe == Toe::Off { of_host } else { of_adapter };
            let cpu_ns = (run.sut_cpu.busy_ns() as f64 * share) as u64;
            run.sut_cpu.background = fixture::roaming(cpu_ns);
            runs.push(fixture::run_of(&study, runs.len() as u32, block, index, run));
        }
    }
    (study, runs)
}

/// The effect has six blocks, and connections were offloaded under traffic in four of them.
#[test]
fn a_payback_of_too_few_blocks_is_open() {
    let (study, mut runs) = runs(0.4, [0.0; 2]);
    let is_busy = |run: &StoredRun| {
        run.cell.is_some_and(|cell| toe(&study.cells[cell as usize]) == Toe::Auto)
    };
    runs.retain(|run| run.block < 4 || !is_busy(run));
    let worth = analyse(&fixture::under_way(study, runs)).payback.unwrap();
    for payback in &worth.paybacks {
        let (outcome, pairs) = if payback.busy { (Outcome::Open, 4) } else { (Outcome::Pays, 6) };
        assert_eq!((payback.outcome, payback.pairs), (outcome, pairs), "{payback:?}");
        assert_eq!(payback.bytes.is_none(), payback.busy);
    }
}

#[test]
fn a_offload_pays_after_its_cost_over_what_a_kb_saves() {
    let worth = results(0.4).payback.unwrap();
    let costs: Vec<(bool, f64, f64)> = worth
        .costs
        .iter()
        .map(|of| (of.busy, of.per_run, (of.cpu.interval.mean / 1e4).round() * 1e4))
        .collect();
    // five per cent more than in block 0, as all figures
    let (fresh, busy) = ((false, 4.0, 50_000.0), (true, 4.0, 320_000.0));
    assert_eq!(costs, [fresh, busy, fresh, busy]);
    assert_eq!(worth.costs[0].peer_wait.unwrap().interval.mean, 1e6);
    assert_eq!(worth.costs[0].stall.unwrap().interval.mean, 2e5);
    assert_eq!(worth.paybacks.len(), 4);
    for payback in &worth.paybacks {
        assert_eq!((payback.outcome, payback.pairs), (Outcome::Pays, 6), "{payback:?}");
        assert!((payback.saved.interval.mean - 0.6 * 1.05).abs() < 0.01, "{payback:?}");
        let kilobytes = if payback.busy { 500.0 } else { 50.0 / 0.6 };
        let bytes = payback.bytes.unwrap().interval;
        let (low, high) = (bytes.low.unwrap(), bytes.high.unwrap());
        assert!((bytes.mean / 1024.0 / kilobytes - 1.0).abs() < 0.002, "{payback:?}");
        assert!(low < bytes.mean && bytes.mean < high && high / low < 1.01, "{bytes:?}");
    }
    // 50 µs on 100 µs
    let [short] = &worth.short_lived[..] else { panic!("one cell of short connections") };
    assert!((short.connection.interval.mean - 105.0).abs() < 1.0, "{short:?}");
    assert!((short.with_offload.mean - 1.5).abs() < 0.002, "{short:?}");
}

#[test]
fn a_payback_is_as_uncertain_as_what_other_programs_leave_of_the_costs() {
    let ends = |interval: Interval| [interval.low.unwrap(), interval.high.unwrap()];
    let calm = results(0.4).payback.unwrap();
    // of 1 µs/KB and of 0.4, on 0.6 that are saved
    let (at_host, at_adapter) = (with_others(0.4, [0.06, 0.0]), with_others(0.4, [0.0, 0.06]));
    for (worth, longer, shorter) in
        [(at_host.payback, 0.6 / (0.6 - 0.06), 1.0), (at_adapter.payback, 1.0, 0.6 / (0.6 + 0.024))]
    {
        let worth = worth.unwrap();
        for (payback, calm) in worth.paybacks.iter().zip(&calm.paybacks) {
            let [bytes, sure] = [payback, calm].map(|of| of.bytes.unwrap().interval);
            assert_eq!(bytes.mean, sure.mean);
            let ([low, high], [sure_low, sure_high]) = (ends(bytes), ends(sure));
            assert!((low / sure_low / shorter - 1.0).abs() < 0.005, "{bytes:?} {sure:?}");
            assert!((high / sure_high / longer - 1.0).abs() < 0.005, "{bytes:?} {sure:?}");
            let [saved, sure] = [payback, calm].map(|of| of.saved.interval);
            let [less, more] =
                [sure.mean * (1.0 / longer - 1.0), sure.mean * (1.0 / shorter - 1.0)];
            let ([low, high], [sure_low, sure_high]) = (ends(saved), ends(sure));
            assert!((low - sure_low - less).abs() < 0.001, "{saved:?} {sure:?}");
            assert!((high - sure_high - more).abs() < 0.001, "{saved:?} {sure:?}");
        }
    }
    let worth = with_others(0.4, [0.06, 0.0]).payback.unwrap();
    let ([short], [sure]) = (&worth.short_lived[..], &calm.short_lived[..]) else {
        panic!("one cell each")
    };
    assert!((short.with_offload.high.unwrap() - (1.0 + 0.5 / 0.94)).abs() < 0.005, "{short:?}");
    assert_eq!(
        (short.with_offload.mean, short.with_offload.low),
        (sure.with_offload.mean, sure.with_offload.low)
    );
    let [low, sure] = [short, sure].map(|of| of.connection.interval.low.unwrap());
    assert!((low - sure + 0.06 * 105.0).abs() < 0.1, "{low} {sure}");
}

#[test]
fn a_offload_never_pays_where_the_adapter_saves_nothing() {
    let worth = results(1.3).payback.unwrap();
    assert_eq!(worth.paybacks.len(), 4);
    for payback in &worth.paybacks {
        assert_eq!((payback.outcome, payback.bytes), (Outcome::Never, None), "{payback:?}");
        assert!(payback.saved.interval.mean < 0.0);
    }
}

#[test]
fn nothing_is_said_where_no_change_is_claimed() {
    // less than the smallest effect that is claimed
    let worth = results(0.995).payback.unwrap();
    let open = |of: &Payback| of.outcome == Outcome::Open && of.bytes.is_none();
    assert!(worth.paybacks.len() == 4 && worth.paybacks.iter().all(open), "{worth:?}");
}

#[test]
fn other_studies_have_no_such_question() {
    let results = analyse(&fixture::under_way(fixture::ladder(), Vec::new()));
    assert_eq!(results.payback, None);
}
