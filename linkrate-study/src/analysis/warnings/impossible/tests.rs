//! Tests on runs with chosen rates.

use linkrate_model::evidence::OutOfOrder;
use linkrate_model::knobs::Toe;

use crate::file::parse;
use crate::fixture;
use crate::study::Study;

use super::*;

/// The limit of a Gigabit link with MTU 1500 and TCP timestamps, bit/s.
const LIMIT: f64 = 1e9 * 1448.0 / 1538.0;

fn study(direction: &str) -> Study {
    let text = format!(
        "title = \"t\"\n[testbed]\nadapter = \"gigabit\"\n[factors]\nlro = [true]\n[workload]\n\
         direction = \"{direction}\""
    );
    parse("t", "t", &text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The warnings of a cell whose runs of two seconds sent and received these percentages of the limit.
fn found(direction: &str, percents: &[(f64, f64)]) -> Vec<String> {
    let study = study(direction);
    let bytes = |percent: f64| (LIMIT / 8.0 * 2.0 * percent / 100.0) as u64;
    let run = |(block, &(transmit, receive)): (u32, &(f64, f64))| {
        let mut measured = fixture::stream(0.0, 0.5);
        let traffic = &mut measured.traffic;
        (traffic.transmit_bytes, traffic.transmit_seconds) = (bytes(transmit), 2.0);
        (traffic.receive_bytes, traffic.receive_seconds) = (bytes(receive), 2.0);
        fixture::run(block, block, Some(0), measured)
    };
    let runs: Vec<StoredRun> = (0..).zip(percents).map(run).collect();
    let runs: Vec<&StoredRun> = runs.iter().collect();
    warnings("cell", &study.cells[0], &study.testbed, &runs, 0.95)
}

#[test]
fn a_run_above_the_limit_is_named_with_its_direction_and_value() {
    // the mean of the cell is below the limit
    let runs = [(99.9, 0.0), (100.7, 0.0), (99.8, 0.0), (99.9, 0.0), (99.9, 0.0)];
    assert_eq!(
        found("transmit", &runs),
        ["cell: runs moved more than is possible, which is an error of the instrument: \
          transmit in block 2 100.70 % of the limit."]
    );
    let five = found("transmit", &[(100.7, 0.0); 5]);
    assert!(five[0].ends_with("block 3 100.70 %, and 2 more of the limit."), "{five:?}");
}

/// A run at `percent` of the limit, in whose window `opened` and `closed` per cent of it waited behind lost segments.
fn repaired(percent: f64, opened: f64, closed: f64) -> Vec<String> {
    let study = study("transmit");
    let bytes = |percent: f64| (LIMIT / 8.0 * 2.0 * percent / 100.0) as u64;
    let mut measured = fixture::stream(0.0, 0.5);
    let traffic = &mut measured.traffic;
    (traffic.transmit_bytes, traffic.transmit_seconds) = (bytes(percent), 2.0);
    measured.evidence.senders.out_of_order =
        OutOfOrder { opened_bytes: bytes(opened), closed_bytes: bytes(closed) };
    let run = fixture::run(0, 0, Some(0), measured);
    warnings("cell", &study.cells[0], &study.testbed, &[&run], 0.95)
}

#[test]
fn an_interval_that_begins_or_ends_in_a_repair_is_named() {
    assert_eq!(repaired(99.0, 0.0, 0.0), [""; 0]);
    assert_eq!(repaired(99.0, 0.6, 0.55), [""; 0], "as much waits at both edges");
    let [low] = repaired(90.0, 0.0, 0.45).try_into().unwrap();
    assert!(low.contains("wrong interval: transmit in block 1 -0.50 %. A longer"), "{low}");
    let [gap, over] = repaired(100.6, 0.7, 0.0).try_into().unwrap();
    assert!(gap.contains("transmit in block 1 +0.70 %"), "{gap}");
    assert!(over.ends_with("transmit in block 1 100.60 % (TCP repaired a loss) of the limit."));
    // the repair explains a third of what is too much
    let [gap, over] = repaired(100.6, 0.2, 0.0).try_into().unwrap();
    assert!(gap.contains("+0.20 %"), "{gap}");
    assert!(over.ends_with("transmit in block 1 100.60 % of the limit."), "{over}");
}

#[test]
fn one_direction_above_its_limit_is_not_excused_by_the_other() {
    let runs = [(88.0, 100.6), (90.0, 99.0)];
    let found = found("bidirectional", &runs);
    assert!(found[0].contains("receive in block 1 100.60 % of"), "{found:?}");
}

/// Each direction has a half of the bus to spare, and both together have more than it carries.
#[test]
fn both_directions_together_are_compared_with_the_bus() {
    let text = "title = \"t\"\n[testbed]\nadapter = \"ten-gigabit\"\n[factors]\nlro = [true]\n[workload]\n\
                direction = \"bidirectional\"\nmtu = 9000";
    let study = parse("t", "t", text).unwrap_or_else(|errors| panic!("{errors}"));
    let found = |percent: f64| {
        let bytes = (12.55e9 / 2.0 * percent / 100.0 / 8.0 * 2.0) as u64;
        let mut measured = fixture::stream(0.0, 0.5);
        let traffic = &mut measured.traffic;
        (traffic.transmit_bytes, traffic.transmit_seconds) = (bytes, 2.0);
        (traffic.receive_bytes, traffic.receive_seconds) = (bytes, 2.0);
        let run = |block| fixture::run(block, block, Some(0), measured.clone());
        let runs: Vec<StoredRun> = (0..5).map(run).collect();
        let runs: Vec<&StoredRun> = runs.iter().collect();
        warnings("cell", &study.cells[0], &study.testbed, &runs, 0.95)
    };
    assert_eq!(found(99.9), [""; 0]);
    let run = &found(111.6)[0];
    assert!(run.contains("the sum of both directions in block 1 111.60 %, "), "{run}");
    let mean = &found(100.01)[0];
    assert!(mean.starts_with("cell: the sum of both directions is 100.010 %"), "{mean}");
}

/// What may be on its way when a measurement opens explains single runs, and no mean.
#[test]
fn a_mean_that_lies_above_the_limit_is_not_chance() {
    let above = [100.008, 100.012, 100.010, 100.008, 100.012].map(|percent| (percent, 0.0));
    let warning = &found("transmit", &above)[0];
    assert!(
        warning.starts_with("cell: transmit is 100.010 % (100.008 to 100.012) of"),
        "{warning}"
    );
    let four = found("transmit", &above[..4]);
    assert!(four.len() == 1 && four[0].contains(CAUSE), "four runs may agree by chance: {four:?}");
    let around = [99.99, 100.005, 100.01, 99.98, 100.012].map(|percent| (percent, 0.0));
    let around = found("transmit", &around);
    assert!(around.len() == 1 && around[0].contains(CAUSE), "{around:?}");
}

/// What explains a figure that is a little above its limit.
const CAUSE: &str = "because payload had crossed them before the measurement began";

#[test]
fn a_figure_above_its_limit_by_however_little_has_its_cause_beside_it() {
    assert_eq!(
        found("transmit", &[(99.9, 0.0), (100.002, 0.0)]),
        ["cell: figures are above what links can carry, because payload had crossed them before \
             the measurement began, and reached TCP after that: transmit in block 2 100.002 % of \
             the limit. Up to 0.30 ms of payload may do so."]
    );
    let [receive] = found("bidirectional", &[(90.0, 100.005)]).try_into().unwrap();
    assert!(receive.contains("that: receive in block 1 100.005 % of"), "{receive}");
    assert_eq!(found("transmit", &[(100.0, 0.0), (99.999, 0.0)]), [""; 0]);
}

/// What a run may have had on its way is a time, and little of a long measurement. Readings around the edges tell most of it.
#[test]
fn a_part_of_a_millisecond_may_be_on_its_way() {
    let one = |percent| found("transmit", &[(percent, 0.0)])[0].contains(CAUSE);
    assert_eq!((one(100.014), one(100.016)), (true, false));
}

/// A connection that moves under traffic has its frames held meanwhile.
#[test]
fn more_may_be_on_its_way_while_a_connection_moves() {
    let study = study("receive");
    let is_explained = |toe, percent: f64| {
        let mut measured = fixture::stream(0.0, 0.5);
        measured.traffic.receive_bytes = (LIMIT / 8.0 * 2.0 * percent / 100.0) as u64;
        measured.traffic.receive_seconds = 2.0;
        measured.effective.interface.port.toe = Some(toe);
        let mut counted = fixture::counted(90.0, 1.0);
        counted.ports[0].counters.insert("toeMovedUs".to_owned(), 3_000);
        measured.evidence.adapter = Some(counted);
        let run = fixture::run(0, 0, Some(0), measured);
        let found = warnings("cell", &study.cells[0], &study.testbed, &[&run], 0.95);
        found.iter().any(|warning| warning.contains(CAUSE))
    };
    // twice 3 ms and 1 ms of 2 s
    assert!(is_explained(Toe::Auto, 100.34) && !is_explained(Toe::Auto, 100.36));
    // moved before the traffic
    assert!(is_explained(Toe::On, 100.04) && !is_explained(Toe::On, 100.06));
}

/// A millisecond where nothing tells: more connections than are read.
#[test]
fn more_may_be_on_its_way_where_no_readings_tell() {
    let mut study = study("transmit");
    let linkrate_model::Task::Workload(workload) = &mut study.cells[0].spec.task else {
        panic!("a workload");
    };
    workload.connections = 65;
    let one = |percent: f64| {
        let mut measured = fixture::stream(0.0, 0.5);
        measured.traffic.transmit_bytes = (LIMIT / 8.0 * 2.0 * percent / 100.0) as u64;
        let run = fixture::run(0, 0, Some(0), measured);
        let [one] =
            warnings("cell", &study.cells[0], &study.testbed, &[&run], 0.95).try_into().unwrap();
        one.contains(CAUSE) && one.ends_with("Up to 1.00 ms of payload may do so.")
    };
    assert_eq!((one(100.049), one(100.06)), (true, false));
}

#[test]
fn tape_drives_are_a_limit_that_a_sink_may_be_ahead_of() {
    let text = "title = \"t\"\n[testbed]\nadapter = \"gigabit\"\n[factors]\nlro = [true]\n[workload]\n\
                kind = \"backup\"";
    let study = parse("t", "t", text).unwrap_or_else(|errors| panic!("{errors}"));
    let drives = 8.0 * 80e6;
    let found = |percents: [f64; 5]| {
        let runs = (0..).zip(percents).map(|(block, percent)| {
            let mut measured = fixture::stream(0.0, 0.5);
            measured.traffic.receive_bytes = (drives / 8.0 * 0.4 * percent / 100.0) as u64;
            measured.traffic.receive_seconds = 0.4;
            fixture::run(block, block, Some(0), measured)
        });
        let runs: Vec<StoredRun> = runs.collect();
        let runs: Vec<&StoredRun> = runs.iter().collect();
        let cell = &study.cells[0];
        assert_eq!(
            crate::analysis::limit::of_cell(&cell.spec, &study.testbed, &runs),
            Some(drives)
        );
        warnings("cell", cell, &study.testbed, &runs, 0.95)
    };
    assert_eq!(found([99.9; 5]), [""; 0]);
    let [ahead] = found([99.0, 101.0, 98.9, 99.8, 99.3]).try_into().unwrap();
    assert!(
        ahead
            .contains("above what tape drives take, because of payload that the sink had accepted"),
        "{ahead}"
    );
    // more than once is no credit
    let [error] = found([100.9; 5]).try_into().unwrap();
    assert!(error.contains("which is an error of the instrument"), "{error}");
    let [error] = found([104.0; 5]).try_into().unwrap();
    assert!(error.contains("runs moved more than is possible"), "{error}");
}
