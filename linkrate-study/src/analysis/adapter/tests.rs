//! Tests on runs with chosen counts.

use linkrate_model::RunSpec;

use crate::analysis::analyse;
use crate::file::parse;
use crate::fixture;
use crate::published::Basis;
use crate::quantity::Unit;
use crate::results::{CellResult, StudyResults};
use crate::store::StoredRun;

use super::*;

/// Two blocks of a study on adapter `gigabit`, whose cells all run at `megabits` and count what
/// `counted` says.
fn results(
    testbed: &str,
    rest: &str,
    megabits: f64,
    counted: impl Fn(&RunSpec) -> Box<AdapterEvidence>,
) -> StudyResults {
    let text = format!("title = \"t\"\n[testbed]\nadapter = \"gigabit\"\n{testbed}\n{rest}");
    let study = parse("t", "t", &text).unwrap_or_else(|errors| panic!("{errors}"));
    let mut runs: Vec<StoredRun> = Vec::new();
    for block in 0..2 {
        for (cell, of_cell) in (0u32..).zip(&study.cells) {
            let mut measured = fixture::stream(megabits * 1e6, 0.5);
            measured.evidence.adapter = Some(counted(&of_cell.spec));
            runs.push(fixture::run_of(&study, runs.len() as u32, block, cell, measured));
        }
    }
    analyse(&fixture::under_way(study, runs))
}

const DIRECTIONS: &str = "[factors]\ndirection = [\"transmit\", \"receive\", \"bidirectional\"]";

fn of(results: &StudyResults, cell: usize) -> (&CellResult, &AdapterFigures) {
    let cell = &results.cells[cell];
    (cell, cell.evidence.adapter.as_ref().unwrap())
}

#[test]
fn counters_become_figures() {
    let found = results("ports = 2", DIRECTIONS, 900.0, |_| fixture::counted(98.0, 4.0));
    assert_eq!((found.adapter.as_str(), found.scale), ("gigabit", 1.0));
    let (cell, figures) = of(&found, 0);
    assert_eq!(figures.sent_frame_bytes, Some(1518.0));
    assert_eq!(figures.received_frame_bytes, Some(70.0));
    assert_eq!(
        (figures.segments_per_superframe, figures.merges_per_superframe),
        (Some(20.0), None)
    );
    assert_eq!((figures.tx_link_percent, figures.rx_link_percent), (Some(98.0), Some(4.0)));
    assert_eq!(
        (figures.ports[1].port.as_str(), figures.ports[1].tx_link_percent),
        ("eth1", Some(98.0))
    );
    assert_eq!(figures.bus_percent, Some(23.0));
    assert!((figures.device_cpus.unwrap() - 0.4).abs() < 1e-12);
    assert!((figures.device_busiest_percent.unwrap() - 40.0).abs() < 1e-12);
    assert!(figures.device_shares_cpus);
    assert_eq!((figures.drops.len(), figures.checksum_failures), (0, Some(0.0)));
    let limit = cell.limit.unwrap();
    assert_eq!(limit.unit, Unit::BitsPerSecond);
    assert!((limit.interval.mean / 2.0 / 941.48e6 - 1.0).abs() < 1e-5);
    assert_eq!(found.warnings, Vec::<String>::new());
}

#[test]
fn judges_the_link_in_the_loaded_direction() {
    let found = results("ports = 2", DIRECTIONS, 900.0, |_| fixture::counted(98.0, 4.0));
    let verdicts: Vec<String> = found.cells.iter().map(|cell| cell.verdict.brief()).collect();
    // senders of these runs had something under way for 1.9 of 2 s
    let missing = "(missing: nothing to send for 5.0 %)";
    assert_eq!(verdicts[0], format!("limited by the link: transmit 98.0 % {missing}"));
    assert!(verdicts[1].ends_with("; links 4.0 %"), "{}", verdicts[1]);
    let transmit = "transmit limited by the link: 98.0 % (missing: no cause found); receive";
    assert!(verdicts[2].starts_with(transmit), "{verdicts:?}");
    assert!(verdicts[2].ends_with("; links receive 4.0 %"), "{verdicts:?}");
    let both = results("ports = 2", DIRECTIONS, 900.0, |_| fixture::counted(99.8, 99.7));
    assert_eq!(
        both.cells[2].verdict.brief(),
        "limited by the link: transmit 99.8 %, receive 99.7 %"
    );
}

#[test]
fn every_output_marks_a_scaled_testbed() {
    let found = results("scale = 0.1", DIRECTIONS, 94.0, |_| fixture::counted(99.8, 1.0));
    assert_eq!(found.scale, 0.1);
    assert!(
        found.warnings[0].starts_with("Links and buses ran at 0.1 of the rates of adapter gigabit")
    );
    for cell in &found.cells {
        let sentence = cell.verdict.sentence();
        assert!(sentence.ends_with("; links at 0.1 of their rate"), "{sentence}");
    }
    let limit = found.cells[0].limit.unwrap().interval.mean;
    assert!((limit / 94.148e6 - 1.0).abs() < 1e-4, "{limit}");
}

#[test]
fn warns_of_counters_that_contradict_the_request() {
    let rest = "[factors]\nlro = [false, true]\n[workload]\ndirection = \"receive\"";
    let found = results("", rest, 900.0, |spec| {
        let mut counted = fixture::counted(2.0, 90.0);
        let port = &mut counted.ports[0].counters;
        if spec.interface.port.lro == Some(false) {
            port.extend([("rxMergedFrames".to_owned(), 90), ("rxSuperframes".to_owned(), 10)]);
        }
        port.insert("rxDropRingFull".to_owned(), 5);
        port.insert("rxChecksumBad".to_owned(), 1);
        port.insert("ifHCInOctets".to_owned(), 9_000_000);
        counted
    });
    for (cell, sentence) in [
        ("no LRO", "the adapter dropped frames, per run: rxDropRingFull 5."),
        ("no LRO", "1 received frames per run had a wrong checksum."),
        ("no LRO", "lro off was asked for, but the adapter merged 9.0 frames into one on average."),
        (
            "no LRO",
            "frames received on the wire have 4535 bytes on average, more than an MTU of 1500 allows.",
        ),
        ("LRO", "lro was on, but the adapter merged no received segments."),
    ] {
        let expected = format!("{cell}: {sentence}");
        assert!(found.warnings.contains(&expected), "{expected}: {:#?}", found.warnings);
    }
    assert_eq!(found.cells[0].evidence.adapter.as_ref().unwrap().drops["rxDropRingFull"], 5.0);
}

#[test]
fn published_figures_stand_beside_measured_ones() {
    let rest = "[factors]\noffload = [\"none\", \"tso\"]\nports = [1, 2]\n\
                [[published]]\nmeasure = \"service-demand\"\nfactor = \"offload\"\nfrom = \"none\"\n\
                to = \"tso\"\neffect = \"-47 %\"\n\
                [[published]]\nmeasure = \"throughput\"\nat = { ports = 2 }\nfactor = \"offload\"\n\
                from = \"none\"\nto = \"tso\"\ndifference = \"178.63 Mb/s\"\n\
                [[published]]\nmeasure = \"cpu\"\nat = { ports = 1, offload = \"tso\" }\n\
                value = \"20 %\"";
    let text = format!("title = \"t\"\n[testbed]\nadapter = \"gigabit\"\n{rest}");
    let study = parse("t", "t", &text).unwrap_or_else(|errors| panic!("{errors}"));
    let mut runs = Vec::new();
    for block in 0..3u32 {
        // cells: none 1, none 2, tso 1, tso 2; the costs are 4, 4, 1 and 2 of busy/rate
        for (cell, (megabits, busy)) in
            (0..).zip([(100.0, 0.4), (200.0, 0.8), (100.0, 0.1), (400.0, 0.8)])
        {
            let drift = 1.0 + f64::from(block) * 0.1;
            let measured = fixture::stream(megabits * 1e6 * drift, busy);
            runs.push(fixture::run_of(&study, runs.len() as u32, block, cell, measured));
        }
    }
    let found = analyse(&fixture::under_way(study, runs));
    let measured = |index: usize| found.published[index].measured.unwrap();
    // the mean of 1/4 and 2/4, as ratios have it
    assert!((measured(0).mean - 0.125f64.sqrt()).abs() < 1e-6, "{:?}", measured(0));
    assert!((found.published[0].published - 0.53).abs() < 1e-12);
    assert_eq!((found.published[0].unit, found.published[0].combinations), (Unit::Ratio, 2));
    assert!((measured(1).mean - 220e6).abs() < 1.0 && measured(1).low.is_some());
    assert_eq!(
        (found.published[1].unit, found.published[1].published),
        (Unit::BitsPerSecond, 178.63e6)
    );
    assert!((measured(2).mean - 10.0).abs() < 1e-6);
    assert_eq!(found.published[2].unit, Unit::Percent);
}

#[test]
fn a_mean_leaves_out_what_the_adapter_did_not_limit() {
    let text = "title = \"t\"\n[testbed]\nadapter = \"gigabit\"\n[factors]\n\
                offload = [\"none\", \"tso\"]\nports = [1, 2]\n\
                [[published]]\nmeasure = \"throughput\"\nfactor = \"offload\"\nfrom = \"none\"\n\
                to = \"tso\"\neffect = \"0 %\"\n\
                [[published]]\nmeasure = \"service-demand\"\nfactor = \"offload\"\nfrom = \"none\"\n\
                to = \"tso\"\neffect = \"-47 %\"\n";
    let study = parse("t", "t", text).unwrap_or_else(|errors| panic!("{errors}"));
    // none 1, none 2, tso 1, tso 2
    let found = |busy: [f64; 4]| {
        let rates = [400.0, 500.0, 500.0, 1000.0];
        let runs = (0..12u32).map(|number| {
            let cell = number % 4;
            let busy = busy[cell as usize];
            let mut measured = fixture::stream(rates[cell as usize] * 1e6, busy);
            // the link is full, or a CPU
            let filled = if busy < 0.9 { 99.9 } else { 60.0 };
            measured.evidence.adapter = Some(fixture::counted(filled, 10.0));
            fixture::run_of(&study, number, number / 4, cell, measured)
        });
        let found = analyse(&fixture::under_way(study.clone(), runs.collect()));
        let of = |index: usize| {
            let one = &found.published[index];
            (one.measured.unwrap().mean, one.left_out)
        };
        // a rate that the links of a model keep is what the model was given
        let is_kept = (0..2).any(|ports| busy[ports] < 0.9 && busy[ports + 2] < 0.9);
        let basis = if is_kept { Basis::Parameter } else { Basis::Printed };
        assert_eq!((found.published[0].basis, found.published[1].basis), (basis, Basis::Printed));
        [of(0), of(1)]
    };
    let is = |(mean, left_out): (f64, u32), expected: f64, out| {
        assert!((mean - expected).abs() < 1e-6 && left_out == out, "{mean}, {left_out}");
    };
    let all = 2.5f64.sqrt();
    is(found([0.5; 4])[0], all, 0);
    is(found([0.5, 0.5, 0.5, 0.99])[0], 1.25, 1);
    is(found([0.99, 0.5, 0.5, 0.5])[0], 2.0, 1);
    is(found([0.99, 0.99, 0.5, 0.5])[0], all, 0);
    // a cost at a full CPU has the waiting of a full CPU in it
    assert_eq!(found([0.5, 0.5, 0.5, 0.99])[1].1, 1);
}
