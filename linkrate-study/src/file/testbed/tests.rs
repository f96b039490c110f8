use linkrate_model::spec::Adapter;
use linkrate_model::{BitRate, TestbedSpec};

use crate::file::parse;
use crate::study::Study;

fn study(testbed: &str, rest: &str) -> Study {
    let text = format!("title = \"t\"\n[testbed]\n{testbed}\n{rest}");
    parse("t", "t", &text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn refused(testbed: &str, rest: &str) -> String {
    let text = format!("title = \"t\"\n[testbed]\n{testbed}\n{rest}");
    parse("t", "t", &text).map(|study| panic!("{:?}", study.testbed)).unwrap_err().to_string()
}

const BOTH: &str = "[factors]\nadapter = [\"gigabit\", \"ten-gigabit\"]\n";

/// Name, rate and bus of the model that a cell runs on.
fn on(study: &Study, cell: usize) -> (String, Option<BitRate>, bool) {
    match &study.testbed.of_run(&study.cells[cell].spec).adapter {
        Adapter::Model(model) => (model.name.clone(), model.rate, model.bus.is_some()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_cell_runs_on_the_model_that_it_names() {
    let study = study("adapter = \"gigabit\"\nclients-per-port = 2", BOTH);
    assert_eq!(on(&study, 0), ("gigabit".to_owned(), Some(BitRate(1e9)), true));
    assert_eq!(on(&study, 1), ("ten-gigabit".to_owned(), Some(BitRate(10e9)), true));
    // all else is that of the testbed
    let of_run = study.testbed.of_run(&study.cells[1].spec);
    assert_eq!((of_run.clients_per_port, of_run.clients), (2, 2));
    // a model that no cell names does not travel with the plan
    let plain = super::super::parse("t", "t", "title = \"t\"\n[factors]\ngro = [true]\n").unwrap();
    assert_eq!(plain.testbed.others, Vec::new());
    assert!(plain.cells[0].spec.adapter.is_none());
}

#[test]
fn the_limits_of_a_model_are_those_of_the_cells_that_name_it() {
    let eight = "[workload]\nqueues = 4\n";
    let error = refused("adapter = \"ten-gigabit\"", &format!("{BOTH}{eight}"));
    assert!(error.contains("cell \"gigabit\": queues 4 is above the maximum of adapter gigabit"));
    assert!(!error.contains("ten-gigabit\":"), "{error}");
}

#[test]
fn one_line_rate_is_that_of_every_model() {
    let study = study("adapter = \"gigabit\"\nline-rate = \"622.08 Mb/s\"", BOTH);
    for cell in [0, 1] {
        assert_eq!(on(&study, cell).1, Some(BitRate(622.08e6)));
    }
    for (rate, expected) in [
        ("\"fast\"", "\"fast\" is not a rate of a link; expected a rate from 1 Mb/s to 100 Gb/s"),
        ("\"0 b/s\"", "is not a rate of a link"),
        ("1000", "expected a rate"),
    ] {
        let error = refused(&format!("adapter = \"gigabit\"\nline-rate = {rate}"), BOTH);
        assert!(error.contains("testbed.line-rate") && error.contains(expected), "{error}");
    }
    let error = refused("adapter = \"veth\"\nline-rate = \"1 Gb/s\"", "[factors]\ngro = [true]\n");
    assert!(error.contains("veth pairs have no line-rate"), "{error}");
}

#[test]
fn only_virtual_adapters_differ_between_cells() {
    let error = refused("adapter = \"veth\"", BOTH);
    assert!(error.contains("only virtual adapters can differ between cells"), "{error}");
    let error = refused("adapter = \"gigabit\"", "[factors]\nadapter = [\"gigabti\"]\n");
    assert!(error.contains("unknown level \"gigabti\"; did you mean \"gigabit\"?"), "{error}");
}

#[test]
fn a_plan_that_names_a_model_it_does_not_have_is_refused() {
    let mut study = study("adapter = \"gigabit\"", BOTH);
    assert_eq!(study.check(), Ok(()));
    let testbed: TestbedSpec =
        serde_json::from_str(&serde_json::to_string(&study.testbed).unwrap()).unwrap();
    assert_eq!(testbed, study.testbed);
    study.testbed.others.clear();
    let error = study.check().unwrap_err();
    assert!(error.contains("adapter \"gigabit\", which the testbed does not have"), "{error}");
}

#[test]
fn clients_are_bridged_into_an_emulated_lan_of_ethernet_frames() {
    let gro = "[factors]\nnodelay = [true]\n";
    let lane = "adapter = \"atm-155-lane-1516\"\nclients-per-port = 2";
    assert_eq!(study(lane, gro).testbed.bridged_clients, 0);
    assert_eq!(study(&format!("{lane}\nbridged-clients = 1"), gro).testbed.bridged_clients, 1);
    for (testbed, said) in [
        (format!("{lane}\nbridged-clients = 3"), "3 clients of each port, which has 2"),
        (
            "adapter = \"atm-155-lane-9234\"\nbridged-clients = 1".to_owned(),
            "adapter atm-155-lane-9234 has no emulated LAN with the frames of Ethernet",
        ),
        ("adapter = \"veth\"\nbridged-clients = 1".to_owned(), "atm-155-lane-1516"),
    ] {
        let error = refused(&testbed, gro);
        assert!(error.contains("testbed.bridged-clients") && error.contains(said), "{error}");
    }
    // nor has the model of a cell any other
    let cells = "[factors]\nadapter = [\"atm-155-lane-1516\", \"atm-155\"]\n";
    let error = refused(&format!("{lane}\nbridged-clients = 1"), cells);
    assert!(error.contains("adapter atm-155 has no emulated LAN"), "{error}");
}
