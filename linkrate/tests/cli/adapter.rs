//! `linkrate lab` and `linkrate adapter` as people and scripts meet them where no lab is up: help,
//! models, and what wrong input gets. Nothing here builds a lab.

use std::fs;

use crate::common::{LINKRATE, Running, command, linkrate, printed};
use insta::assert_snapshot;

/// Standard error of a command that ends with `code` and nothing on standard output.
#[track_caller]
fn refused(words: &str, code: i32) -> String {
    let finished = linkrate(words).expect_code(code);
    assert_eq!(finished.stdout, "", "{words}");
    finished.stderr
}

#[test]
fn help_names_every_command() {
    assert_snapshot!("help_lab", printed("lab --help"));
    assert_snapshot!("help_lab_up", printed("lab up --help"));
    assert_snapshot!("help_lab_exec", printed("lab exec --help"));
    assert_snapshot!("help_adapter", printed("adapter --help"));
    assert_snapshot!("help_adapter_set", printed("adapter set --help"));
    assert_snapshot!("help_adapter_capture", printed("adapter capture --help"));
    assert_snapshot!("help_adapter_faults", printed("adapter faults --help"));
    assert_snapshot!("help_adapter_vlan", printed("adapter vlan --help"));
    assert_snapshot!("help_adapter_aggregate", printed("adapter aggregate --help"));
    assert_snapshot!("help_adapter_top", printed("adapter top --help"));
}

#[test]
fn models_are_listed_with_their_source() {
    assert_snapshot!("adapter_models", printed("models"));
    let document: serde_json::Value = serde_json::from_str(&printed("models --json")).unwrap();
    let names: Vec<&str> = document["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["gigabit", "gigabit-store", "ten-gigabit", "toe", "atm-155", "atm-622"]);
    for name in names {
        assert!(printed(&format!("models {name}")).starts_with(name));
    }
}

#[test]
fn checks_and_shows_a_model_file() {
    let directory = tempfile::tempdir().unwrap();
    let said = |text: &str, code: i32| {
        fs::write(directory.path().join("mine.toml"), text).unwrap();
        let mut models = command(LINKRATE, "models mine.toml");
        let finished = Running::start(models.current_dir(directory.path())).wait();
        let finished = finished.expect_code(code);
        format!("{}{}", finished.stdout, finished.stderr)
    };
    let model = "name = \"mine\"\ntitle = \"A model of my own\"\nsource = \"thin air\"\nports = 4\n\
                 queues = 2\nsuperframe = 65535\nmax-mtu = 9000\ntransmit-ring = 256\n\
                 receive-ring = 1024\n";
    assert_snapshot!("own_model", said(model, 0));
    let wrong = model.replace("queues = 2", "queues = 0");
    assert_eq!(said(&wrong, 2), "error: mine.toml: line 5: queues is 0, expected 1 to 64\n");
    let wrong = refused("models gigabti", 2);
    assert_eq!(wrong, "error: unknown adapter \"gigabti\"; did you mean \"gigabit\"?\n");
    assert!(refused("models absent.toml", 2).contains("absent.toml"));
    assert!(refused("models veth", 2).contains("veth"));
}

#[test]
fn refuses_adapter_commands_without_a_lab() {
    let name = format!("absent-{}", std::process::id());
    let document: serde_json::Value = serde_json::from_str(&printed("lab list --json")).unwrap();
    assert!(document["labs"].is_array());
    for words in [
        "lab show",
        "lab down",
        "lab exec sut -- true",
        "adapter show",
        "adapter top",
        "adapter set eth0 lro=on",
        "adapter add",
        "adapter remove eth0",
        "adapter capture eth0 --stop",
        "adapter link eth0 up",
        "adapter faults eth0 none",
    ] {
        let words = match words.split_once(" -- ") {
            Some((before, program)) => format!("{before} --name {name} -- {program}"),
            None => format!("{words} --name {name}"),
        };
        let said = refused(&words, 1);
        assert!(said.starts_with(&format!("error: no lab {name} is up here")), "{words}: {said}");
        assert!(said.contains("hint: linkrate lab list"), "{words}: {said}");
    }
}

#[test]
fn refuses_wrong_arguments_before_any_lab_is_built() {
    for (words, said) in [
        ("lab up --adapter gigabti", "did you mean \"gigabit\"?"),
        ("lab up --adapter veth --scale 0.5", "--scale does not apply to a veth pair"),
        ("lab up --scale 7", "--scale: 7 is out of range"),
        ("lab up --ports 0", "0 is not in 1..=64"),
        ("lab up --ports 64 --clients-per-port 16", "1024 clients; at most 64 are possible"),
        ("lab up --name a/b", "is not a valid name of a lab; expected 1 to 32 letters"),
        ("lab up --congestion cubik", "cubik"),
        ("lab up --sut-cpus x", "--sut-cpus: "),
        ("lab up --aggregate 2 --mode bonding", "expected one of manual, lacp, failover"),
        ("lab up --aggregate 2 --balance hash", "balance: unknown value \"hash\""),
        ("lab up --mode lacp", "--aggregate"),
        ("lab up --wait -- true", "cannot be used with"),
        ("lab exec sut", "PROGRAM"),
        ("adapter set eth0", "KEY=VALUE"),
        ("adapter set eth0 lro", "expected KEY=VALUE, for example lro=on"),
        ("adapter faults eth0 nothing", "expected KEY=VALUE, for example loss=1%, or none"),
        ("adapter faults eth0 none loss=1%", "none cannot be combined with faults"),
        ("adapter link eth0 sideways", "expected up, down or a rate"),
        ("adapter top --interval 1ms", "--interval: 1ms is out of range"),
        ("adapter capture eth0", "<FILE>"),
        ("adapter capture eth0 a.pcapng --duration 0s", "--duration: 0 ms is out of range"),
        ("adapter capture eth0 a.pcapng --stop", "cannot be used with"),
    ] {
        let refused = refused(words, 2);
        assert!(refused.contains(said), "{words}: {refused}");
    }
}
