//! Tests of study files: what they mean, and how they are refused.

use std::time::Duration;

use linkrate_model::{ByteSize, Direction, MessageSize, Offload, Task};
use proptest::prelude::*;

use super::*;
use crate::levels::Level;
use crate::study::OnFailure;

const VALID: &str = r#"title = "Does TSO pay?"
paper = "tso"

[testbed]
adapter = "veth"
clients = 2
sut-cpus = 0
client-cpus = "1-3"

[factors]
offload = ["none", "gso", "tso"]
direction = ["transmit", "bidirectional"]
connections = [1, 4]
gro = [true, false]

[workload]
kind = "stream"
message = "1 KiB to 32 KiB"
socket = "128 KiB"

[method]
confidence = 0.99
precision = "1 %"
minimum-effect = "3 %"
blocks = { min = 4, max = 9 }
run = "1 s"
warm-up = "100 ms"
idle = "500 ms"
budget = "1 h"
seed = 7
profile = true
rebuild = true
on-failure = "stop"
"#;

/// The errors of a file, as text.
pub(super) fn errors(text: &str) -> Vec<String> {
    match parse("t", "t.toml", text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
    }
}

/// A file is refused with one error, which has these words.
#[track_caller]
pub(super) fn refused(text: &str, words: &str) {
    let errors = errors(text);
    assert!(errors.len() == 1 && errors[0].contains(words), "{text}: {errors:?}, not {words}");
}

/// The testbed of a veth pair, as lines of a file.
const ON_VETH: &str = "[testbed]\nadapter = \"veth\"\n";

/// A file with one factor and these lines in its tables.
fn with(factors: &str, workload: &str, method: &str) -> String {
    format!("title = \"t\"\n[factors]\n{factors}\n[workload]\n{workload}\n[method]\n{method}\n")
}

#[test]
fn a_file_becomes_a_study() {
    let study = parse("mine", "mine.toml", VALID).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((study.name.as_str(), study.title.as_str()), ("mine", "Does TSO pay?"));
    assert_eq!(study.paper.as_deref(), Some("tso"));
    assert_eq!(study.source, VALID);
    assert_eq!(study.testbed.clients, 2);
    assert_eq!(study.testbed.sut_cpus.as_ref().map(ToString::to_string).as_deref(), Some("0"));
    assert_eq!(study.testbed.client_cpus.as_ref().map(ToString::to_string).as_deref(), Some("1-3"));
    let method = &study.method;
    assert_eq!((method.confidence, method.precision, method.minimum_effect), (0.99, 0.01, 0.03));
    assert_eq!((method.min_blocks, method.max_blocks, method.seed), (4, 9, Some(7)));
    assert_eq!(method.run, Duration::from_secs(1));
    assert_eq!(method.warm_up, Duration::from_millis(100));
    assert_eq!(method.idle, Duration::from_millis(500));
    assert_eq!(method.budget, Some(Duration::from_secs(3600)));
    assert_eq!((method.on_failure, method.rebuild), (OnFailure::Stop, true));
    assert!(method.profile && study.cells.iter().all(|cell| cell.spec.profile));
}

#[test]
fn cells_follow_the_file_and_the_last_factor_varies_fastest() {
    let study = parse("t", "t.toml", VALID).unwrap();
    let names: Vec<&str> = study.factors.iter().map(|factor| factor.name.as_str()).collect();
    assert_eq!(names, ["offload", "direction", "connections", "gro"]);
    assert_eq!(study.cells.len(), 24);
    assert_eq!(study.cells[0].levels.to_string(), "none, transmit, connections 1, gro on");
    assert_eq!(study.cells[1].levels.to_string(), "none, transmit, connections 1, gro off");
    assert_eq!(study.cells[23].levels.to_string(), "tso, bidirectional, connections 4, gro off");
    let spec = &study.cells[23].spec;
    assert_eq!(spec.interface.offload, Some(Offload::Tso));
    assert_eq!(spec.interface.gro, Some(false));
    assert_eq!(spec.socket.buffer, Some(ByteSize(131_072)));
    assert_eq!((spec.clients, spec.duration), (2, Duration::from_secs(1)));
    let Task::Workload(workload) = &spec.task else { panic!("idle cell") };
    assert_eq!((workload.direction, workload.connections), (Direction::Bidirectional, 4));
    let range = MessageSize::Uniform { low: ByteSize(1024), high: ByteSize(32768) };
    assert_eq!(workload.message, range);
}

#[test]
fn omitted_keys_have_defaults_and_levels_stay_as_written() {
    let study = parse("t", "t", &with("message = [\"1 KiB\", 2048]", "", "")).unwrap();
    let method = &study.method;
    assert_eq!((method.confidence, method.precision, method.minimum_effect), (0.95, 0.025, 0.02));
    assert_eq!((method.min_blocks, method.max_blocks, method.seed), (5, 30, None));
    assert_eq!(method.run, Duration::from_secs(2));
    assert_eq!(method.warm_up, Duration::from_millis(300));
    assert_eq!(method.idle, Duration::from_secs(1));
    assert_eq!((method.budget, method.on_failure), (None, OnFailure::Continue));
    assert!(!method.rebuild);
    assert!(!method.profile && !study.cells[0].spec.profile);
    assert_eq!(study.factors[0].levels, [Level::Text("1 KiB".to_owned()), Level::Number(2048)]);
}

#[test]
fn the_testbed_has_the_clients_that_the_cells_need() {
    let clients = |text: &str| parse("t", "t", text).unwrap().testbed.clients;
    let on_veth = |text: &str| clients(&format!("{text}{ON_VETH}"));
    assert_eq!(on_veth(&with("clients = [1, 4, 2]", "", "")), 4);
    assert_eq!(on_veth(&with("gro = [true]", "clients = 3", "")), 3);
    let five = format!("title = \"t\"\n[factors]\ngro = [true]\n{ON_VETH}clients = 5\n");
    assert_eq!(clients(&five), 5);
    assert_eq!(clients(&with("gro = [true]", "", "")), 1);
}

#[test]
fn an_error_has_its_file_line_column_key_and_remedy() {
    let text = VALID.replace("\"gso\", \"tso\"", "\"gso\", \"tos\"");
    assert_eq!(
        errors(&text),
        ["t.toml:11:27: factors.offload: unknown level \"tos\"; did you mean \"tso\"?"]
    );
    let text = VALID.replace("socket =", "sokcet =");
    assert_eq!(
        errors(&text),
        ["t.toml:19:1: workload: unknown key \"sokcet\"; did you mean \"socket\"?"]
    );
}

#[test]
fn reports_all_errors_in_the_order_of_the_file() {
    let text = VALID
        .replace("paper = \"tso\"", "papper = \"tso\"")
        .replace("\"veth\"", "\"vteh\"")
        .replace("[1, 4]", "[1, 4000]")
        .replace("confidence = 0.99", "confidence = 99")
        .replace("min = 4", "min = 1")
        .replace("run = \"1 s\"", "run = 1");
    let starts: Vec<String> = errors(&text)
        .iter()
        .map(|error| error.split(": ").take(2).collect::<Vec<_>>().join(": "))
        .collect();
    let expected = [
        "t.toml:2:1: unknown key \"papper\"; did you mean \"paper\"?",
        "t.toml:5:11: testbed.adapter",
        "t.toml:13:19: factors.connections",
        "t.toml:22:14: method.confidence",
        "t.toml:25:18: method.blocks.min",
        "t.toml:26:7: method.run",
    ];
    assert_eq!(starts, expected);
}

#[test]
fn repeat_is_a_factor_without_a_setting() {
    let study = parse("t", "t.toml", &with("repeat = [\"a\", 2]", "", "")).unwrap();
    let shown: Vec<String> = study.cells.iter().map(|cell| cell.levels.to_string()).collect();
    assert_eq!(shown, ["a", "repeat 2"]);
    assert_eq!(study.cells[0].spec, study.cells[1].spec);
    let refused = errors(&with("offload = [\"tso\"]", "repeat = \"a\"", ""));
    assert_eq!(
        refused,
        ["t.toml:5:1: workload.repeat: sets nothing; name it under [factors], with a level for \
          each repetition"]
    );
    for twice in ["[\"a\", \"a\"]", "[\"a\", \"b\\u001b\"]", "[\"a\", true]"] {
        assert_eq!(errors(&with(&format!("repeat = {twice}"), "", "")).len(), 1, "{twice}");
    }
}

#[test]
fn explains_each_error_of_a_study_file() {
    for (text, message) in [
        ("[factors]\ngro = [true]", "t.toml:1:1: title: missing; give one line"),
        ("title = \"t\"", "factors: the study has no cells; give at least one factor"),
        ("title = \"t\"\n[factors]\n", "t.toml:2:2: factors: the study has no cells"),
        (&with("offload = []", "", ""), "factors.offload: the factor has no levels"),
        ("title = 1\n[factors]\ngro = [true]", "title: 1 is not text"),
        ("title = \" \"\n[factors]\ngro = [true]", "the title is empty"),
        ("title = \"t\"\npaper = \"tcp\"\n[factors]\ngro = [true]", "unknown value \"tcp\""),
        ("title = \"t\"\nfactors = 3", "factors: 3 is not a table; expected [factors]"),
        (&with("offload = \"tso\"", "", ""), "\"tso\" is not an array of levels"),
        (&with("offload = [\"tso\", \"tso\"]", "", ""), "level tso occurs twice; leave one out"),
        (&with("message = [\"1 KiB\", 1024]", "", ""), "level 1024 is the same as 1 KiB"),
        (&with("mtu = [1500, 9000.5]", "", ""), "9000.5 is not a value of a setting"),
        (&with("mtu = [-1]", "", ""), "-1 is not a value of a setting"),
        (&with("gro = [true]", "mtu = [1500]", ""), "put several levels into [factors]"),
        (&with("gro = [true]", "gro = false", ""), "is both a factor and set in [workload]"),
        (
            &with("colour = [1]", "", ""),
            "factors: unknown key \"colour\"; expected one of the settings",
        ),
        (&with("message = [\"1 parsec\"]", "", ""), "unknown unit \"parsec\""),
        (&with("gro = [true]", "", "precision = 2.5"), "2.5 is not text; expected a percentage"),
        (&with("gro = [true]", "", "precision = \"0 %\""), "expected a percentage from 0.01 %"),
        (&with("gro = [true]", "", "precision = \"200 %\""), "out of range"),
        (&with("gro = [true]", "", "confidence = 1.0"), "1.0 is not a confidence level"),
        (&with("gro = [true]", "", "run = \"10 ms\""), "expected a time from 100 ms to 1 h"),
        (&with("gro = [true]", "", "idle = \"50 ms\""), "to 1 h, or \"0 s\""),
        (&with("gro = [true]", "", "run = \"2 m/s\""), "method.run: "),
        (&with("gro = [true]", "", "seed = -1"), "-1 is out of range"),
        (&with("gro = [true]", "", "profile = \"yes\""), "expected on or off"),
        (&with("gro = [true]", "", "blocks = { min = 9, max = 8 }"), "max 8 is below min 9"),
        (&with("gro = [true]", "", "blocks = { mni = 9 }"), "did you mean \"min\"?"),
        (&with("gro = [true]", "", "blocks = \"5\""), "or for example { min = 5, max = 30 }"),
        (&with("gro = [true]", "", "blocks = 1"), "1 is out of range"),
        (&with("gro = [true]", "", "on-failure = \"halt\""), "expected one of continue, stop"),
        (&with("gro = [true, false]", "", "budget = \"20 s\""), "20 s cannot hold 5 blocks of 2"),
        (&with("gro = [true]", "", "run = 2 s"), "t.toml:7:7: string values must be quoted"),
        (&with("gro = [true]\ngro = [false]", "", ""), "t.toml:4:1: duplicate key"),
    ] {
        refused(text, message);
    }
}

#[test]
fn explains_errors_of_the_testbed() {
    for (line, message) in [
        ("adapter = \"gigabti\"", "unknown adapter \"gigabti\"; did you mean \"gigabit\"?"),
        ("adapter = 3", "3 is not text; expected veth, or a model"),
        ("adapter = \"gigabti\"\nscale = 0.5\nclients = 2", "did you mean \"gigabit\"?"),
        ("adapter = \"mine.toml\"", "testbed.adapter: mine.toml: no file can be read here"),
        (
            "adapter = \"gigabit\"\nclients = 2",
            "testbed.clients: adapter gigabit takes its clients",
        ),
        (
            "adapter = \"gigabit\"\nscale = 2",
            "2 is not a share of the model's rates; expected a nu",
        ),
        ("adapter = \"gigabit\"\nscale = nan", "nan is not a share"),
        ("adapter = \"gigabit\"\nclients-per-port = 17", "17 is out of range; expected a number"),
        (
            "adapter = \"veth\"\nscale = 0.5",
            "testbed.scale: veth pairs have no scale; set clients, or adapter",
        ),
        ("adapter = \"veth\"\nports = 2", "testbed.ports: veth pairs have no ports; set clients"),
        ("adapter = \"veth\"\nclients-per-port = 2", "veth pairs have no clients-per-port"),
        ("clients = 2", "testbed.clients: adapter gigabit takes its clients"),
        ("adapter = \"veth\"\nclients = 65", "65 is out of range; expected a number from 1 to 64"),
        ("adapter = \"veth\"\nclients = \"two\"", "\"two\" is not a whole number"),
        ("sut-cpus = \"3-1\"", "\"3-1\" is not a CPU list"),
        ("sut-cpus = true", "true is not a CPU list"),
        ("sut-cpus = \"0-1\"\nclient-cpus = \"1-2\"", "CPUs 1-2 overlap with sut-cpus 0-1"),
        ("sut-cpu = 0", "testbed: unknown key \"sut-cpu\"; did you mean \"sut-cpus\"?"),
    ] {
        let text = format!("title = \"t\"\n[testbed]\n{line}\n[factors]\ngro = [true]\n");
        refused(&text, message);
    }
    let shared = "title = \"t\"\n[testbed]\nsut-cpus = 0\nclient-cpus = 0\n[factors]\ngro = [true]";
    assert_eq!(errors(shared), Vec::<String>::new());
}

#[test]
fn an_impossible_cell_is_named_at_its_level() {
    let factors = "direction = [\"transmit\", \"receive\"]\noffload = [\"gso\", \"tso\"]";
    let error = errors(&with(factors, "tx-checksum = false", ""));
    assert_eq!(
        error,
        [
            "t.toml:4:19: factors.offload: cell \"transmit, tso\" and 1 other: tx-checksum off cannot \
          be combined with offload tso; TSO needs transmit checksum offload, so set tx-checksum \
          on, or offload to none or gso"
        ]
    );
    let words = "t.toml:5:1: workload.burst: cell \"gro on\" and 1 other: burst";
    refused(&with("gro = [true, false]", "burst = 3", ""), words);
}

#[test]
fn refuses_settings_without_effect() {
    let words = "workload.request: workloads of kind stream do not use it";
    refused(&with("gro = [true]", "request = \"1 KiB\"", ""), words);
    let words = "factors.request: workloads of kind stream do not use it";
    refused(&with("request = [1, 2]", "", ""), words);
    // a setting that some cells use stands
    let kinds = "kind = [\"stream\", \"request-response\"]";
    assert_eq!(errors(&with(kinds, "message = 1024\nrequest = 7", "")), Vec::<String>::new());
}

#[test]
fn a_datagram_stream_needs_a_message_that_fits() {
    let error = errors(&with("gro = [true]", "kind = \"udp-stream\"", ""));
    assert!(error[0].contains("message 128 KiB does not fit into a datagram"), "{error:?}");
    assert!(error[0].starts_with("t.toml:5:1: workload.kind: "), "{error:?}");
}

#[test]
fn sizes_are_bounded() {
    let many: Vec<String> = (1..=65).map(|size| size.to_string()).collect();
    let levels = format!("message = [{}]", many.join(","));
    refused(&with(&levels, "", ""), "65 levels, more than 64");
    let some = many[..64].join(",");
    let factors = format!("message = [{some}]\nconnections = [{some}]\ngro = [true, false]");
    refused(&with(&factors, "", ""), "8192 cells, more than 4096");
    refused(&" ".repeat(MAX_FILE_BYTES + 1), "bytes, more than");
}

#[test]
fn refuses_a_large_file_of_errors_quickly_and_briefly() {
    let lines: Vec<String> = (0..60_000).map(|index| format!("key-{index} = 1")).collect();
    for table in ["", "[workload]", "[factors]", "[method]"] {
        let text = format!("title = \"t\"\n{table}\n{}", lines.join("\n"));
        assert_eq!(errors(&text).len(), 64, "{table}");
    }
    let one_line: Vec<String> = (0..60_000).map(|index| format!("k{index}=1")).collect();
    let inline = format!("title = \"t\"\nmethod = {{{}}}", one_line.join(","));
    assert!(errors(&inline).len() <= 64);
    let long = format!("title = \"t\"\n[factors]\n{} = 1", "k".repeat(500_000));
    assert!(errors(&long).iter().all(|error| error.len() < 1000));
    let cpus = "0-8191,".repeat(100_000);
    let list = format!("title = \"t\"\n[testbed]\nsut-cpus = \"{cpus}\"\n[factors]\ngro = [true]");
    assert!(errors(&list).iter().all(|error| error.len() < 400));
}

#[test]
fn dotted_keys_and_columns_of_characters_are_understood() {
    let text = "title = \"t\"\nfactors.message = [1]\nfactors.gro = [true]\nworkload.mtu = 9000";
    let study = parse("t", "t", text).unwrap();
    assert_eq!(study.factors[0].name, "message");
    assert_eq!(study.factors[1].name, "gro");
    let error = errors("title = \"t\"\nfactors = { message = [\"µµ\", 1], gro = [3] }");
    assert!(error[1].starts_with("t.toml:2:41: factors.gro: "), "{error:?}");
}

fn on_model(testbed: &str, rest: &str) -> String {
    format!("title = \"t\"\n[testbed]\nadapter = \"gigabit\"\n{testbed}\n{rest}")
}

#[test]
fn cells_on_a_model_have_ports_and_their_clients() {
    let text = on_model(
        "clients-per-port = 2\nscale = 0.1\nports = 2",
        "[factors]\nlro = [false, true]\n[workload]\nvlan = 7\nsteering = \"rss\"",
    );
    let study = parse("t", "t", &text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((study.testbed.ports, study.testbed.clients), (2, 4));
    assert_eq!((study.testbed.clients_per_port, study.testbed.scale), (2, 0.1));
    let spec = &study.cells[1].spec;
    assert_eq!((spec.ports, spec.clients), (Some(2), 4));
    let port = &spec.interface.port;
    assert_eq!((port.lro, port.vlan, port.rx_usecs), (Some(true), Some(7), None));
    let study = parse("t", "t", &on_model("", "[factors]\nports = [1, 4, 2]")).unwrap();
    assert_eq!((study.testbed.ports, study.testbed.clients), (4, 4));
    assert_eq!(study.cells[2].spec.clients, 2);
    let veth = format!("{}{ON_VETH}", with("gro = [true]", "", ""));
    let veth = parse("t", "t", &veth).unwrap();
    assert_eq!((veth.cells[0].spec.ports, veth.testbed.ports), (None, 1));
}

#[test]
fn a_study_without_an_adapter_is_measured_on_gigabit() {
    for text in [with("gro = [true]", "", ""), with("ports = [1, 2]", "", "")] {
        let study = parse("t", "t", &text).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(study.testbed.adapter.name(), "gigabit");
        assert_eq!(study.cells[0].spec.ports, Some(1));
    }
}

#[test]
fn refuses_settings_that_the_adapter_lacks() {
    let on_veth =
        |factors: &str, workload: &str| format!("{}{ON_VETH}", with(factors, workload, ""));
    let of = |factors: &str| on_model("", &format!("[factors]\n{factors}"));
    for (text, message) in [
        (
            on_veth("lro = [true, false]", ""),
            "factors.lro: a veth pair has no lro; leave it out, or",
        ),
        (on_veth("gro = [true]", "vlan = 3"), "workload.vlan: a veth pair has no vlan"),
        (of("clients = [1]"), "factors.clients: on adapter gigabit the number of clients"),
        (of("mtu = [9001]"), "mtu 9001 is above the maximum of adapter gigabit; set"),
        (of("queues = [2]"), "queues 2 is above the maximum of adapter gigabit"),
        (
            of("gso-max-size = [32161]"),
            "gso-max-size 32161 is above the superframe of adapter gigabit; set at most 32160",
        ),
        (of("snap = [false, true]"), "snap on cannot be combined with mtu 1500"),
        (
            on_model("clients-per-port = 16", "[factors]\nports = [1, 5]"),
            "ports 5 with 16 clients each are 80 clients; at most 64",
        ),
        (
            of("lro = [true]\n[workload]\nkind = \"udp-stream\"\nmessage = 99"),
            "factors.lro: workloads of kind udp-stream do not use it",
        ),
    ] {
        refused(&text, message);
    }
    let snap = "[factors]\nsnap = [false, true]\n[workload]\nmtu = 1492";
    assert_eq!(errors(&on_model("", snap)), Vec::<String>::new());
}

#[test]
fn reads_the_model_from_the_named_file() {
    let model = "name = \"mine\"\ntitle = \"m\"\nsource = \"s\"\nports = 3\nqueues = 1\n\
                 superframe = 65535\nmax-mtu = 9000\ntransmit-ring = 9\nreceive-ring = 9\n";
    let text = "title = \"t\"\n[testbed]\nadapter = \"m/mine.toml\"\n[factors]\nports = [1]";
    let mut asked = Vec::new();
    let study = parse_with("t", "t", text, &mut |path| {
        asked.push(path.to_owned());
        Ok(model.to_owned())
    });
    assert_eq!(study.unwrap().testbed.adapter.name(), "mine");
    assert_eq!(asked, ["m/mine.toml"]);
    let errors = parse_with("t", "t.toml", text, &mut |_| Ok(model.replace("= 3", "= 99")));
    assert_eq!(
        errors.unwrap_err().to_string(),
        "t.toml:3:11: testbed.adapter: m/mine.toml: line 4: ports is 99, expected 1 to 64"
    );
}

/// A table of settings for the cells that have others.
fn when(is: &str, set: &str) -> String {
    format!("[[when]]\nis = {{ {is} }}\nset = {{ {set} }}")
}

/// A file with `mtu` and `gro` as factors, and these lines after them.
fn coupled(rest: &str) -> String {
    format!("{}\n{rest}", with("mtu = [1500, 9000]\ngro = [true, false]", "message = 1024", ""))
}

#[test]
fn when_sets_other_settings_of_a_level() {
    let text = coupled(&when("mtu = \"9000 B\"", "message = \"128 KiB\", socket = 8192"));
    let study = parse("t", "t", &text).unwrap_or_else(|errors| panic!("{errors}"));
    let of = |index: usize| {
        let spec = &study.cells[index].spec;
        let Task::Workload(workload) = &spec.task else { panic!("idle cell") };
        (workload.message, spec.socket.buffer)
    };
    for (cell, message, socket) in [(0, 1024, None), (1, 1024, None), (2, 131_072, Some(8192))] {
        assert_eq!(of(cell), (MessageSize::Fixed(ByteSize(message)), socket.map(ByteSize)));
    }
    assert_eq!(study.cells[2].levels.to_string(), "mtu 9000, gro on");
    // two may set the same
    let one = when("mtu = 9000", "socket = \"8 KiB\"");
    let other = when("gro = true, message = \"1 KiB\"", "socket = 8192");
    assert_eq!(errors(&coupled(&[one, other].join("\n"))), Vec::<String>::new());
}

#[test]
fn explains_an_invalid_when() {
    for (rest, message) in [
        ("[[when]]\nset = { socket = 8192 }", "t.toml:10:1: when.is: missing; name the cells"),
        ("[[when]]\nis = { mtu = 9000 }", "when.set: missing; name their settings"),
        ("[[when]]\nis = {}\nset = { socket = 8192 }", "when.is: missing"),
        ("[[when]]\nis = 3\nset = { socket = 8192 }", "when.is: 3 is not a table; expected for"),
        (&when("mtu = 1501", "socket = 8192"), "when.is.mtu: no cell has mtu 1501"),
        (&when("burst = 3", "socket = 8192"), "no cell has burst 3"),
        (&when("mut = 3", "socket = 8192"), "when.is: unknown key \"mut\"; did you"),
        (&when("mtu = 9000", "sokcet = 8192"), "when.set: unknown key \"sokcet\""),
        (&when("mtu = 9000", "gro = true"), "when.set.gro: is a factor; remove"),
        (&when("mtu = 9000", "mtu = 1500"), "mtu is itself set by a [[when]]"),
        (
            &format!("{}\n{ON_VETH}", when("mtu = 9000", "vlan = 3")),
            "when.set.vlan: a veth pair has no vlan",
        ),
        (&when("mtu = 9000", "burst = 1"), "burst: workloads of kind stream do not use it"),
        (
            &when("mtu = 9000", "gso-max-size = 2000"),
            "factors.mtu: cell \"mtu 9000, gro on\" and 1 other: gso-max-size 2000 is below mtu 9000",
        ),
        (
            &[when("mtu = 9000", "socket = 8192"), when("gro = true", "socket = 4096")].join("\n"),
            "t.toml:15:9: when.set.socket: cell \"mtu 9000, gro on\": another [[when]] sets socket to \
             8192, this one to 4096",
        ),
        ("when = 3", "method: unknown key \"when\""),
        (&format!("{}\nthen = 3", when("mtu = 9000", "socket = 8192")), "when: unknown key"),
    ] {
        refused(&coupled(rest), message);
    }
}

const PARTS: &str = r#"title = "t"

[workload]
message = "1 KiB"
socket = "64 KiB"

[[when]]
is = { mtu = 9000 }
set = { message = "2 KiB" }

[[part]]
name = "frames"
[part.factors]
mtu = [1500, 9000]
gro = [true, false]

[[part]]
name = "one of them"
[part.workload]
mtu = 9000
socket = "auto"

[[part]]
name = "requests"
[part.factors]
mtu = [9000, 1500]
[part.workload]
kind = "request-response"
"#;

#[test]
fn each_part_has_its_own_cells() {
    let study = parse("t", "t", PARTS).unwrap_or_else(|errors| panic!("{errors}"));
    let cells: Vec<String> = study.cells.iter().map(|cell| cell.levels.to_string()).collect();
    let expected = [
        "frames, mtu 1500, gro on",
        "frames, mtu 1500, gro off",
        "frames, mtu 9000, gro on",
        "frames, mtu 9000, gro off",
        "one of them",
        "requests, mtu 9000",
        "requests, mtu 1500",
    ];
    assert_eq!(cells, expected);
    let of = |index: usize| {
        let spec = &study.cells[index].spec;
        let Task::Workload(workload) = &spec.task else { panic!("idle cell") };
        (workload.message, spec.socket.buffer, spec.interface.mtu)
    };
    let message = |bytes| MessageSize::Fixed(ByteSize(bytes));
    assert_eq!(of(3), (message(2048), Some(ByteSize(65_536)), Some(9000)));
    assert_eq!(of(4), (message(2048), None, Some(9000)));
    let names: Vec<&str> = study.factors.iter().map(|factor| factor.name.as_str()).collect();
    assert_eq!(names, ["part", "mtu", "gro"]);
    assert_eq!(study.parts[2].factors[0].levels, [Level::Number(9000), Level::Number(1500)]);
    // effects stay within a part, from its own first level
    let comparisons = crate::analysis::effects::comparisons(&study);
    let steps: Vec<String> = comparisons
        .iter()
        .map(|c| format!("{} {}-{} ({})", c.factor, c.from_cell, c.to_cell, c.at))
        .collect();
    let expected = [
        "mtu 0-2 (frames, gro on)",
        "mtu 1-3 (frames, gro off)",
        "gro 0-1 (frames, mtu 1500)",
        "gro 2-3 (frames, mtu 9000)",
        "mtu 5-6 (requests)",
    ];
    assert_eq!(steps, expected);
    let json = serde_json::to_string(&study).unwrap();
    assert_eq!(serde_json::from_str::<Study>(&json).unwrap(), study);
}

#[test]
fn one_part_is_a_study_without_parts() {
    let one = "title = \"t\"\n[[part]]\nname = \"only\"\n[part.factors]\ngro = [true, false]";
    let study = parse("t", "t", one).unwrap();
    assert!(study.parts.is_empty());
    assert_eq!(study.cells[1].levels.to_string(), "gro off");
    assert_eq!(study.factors.len(), 1);
}

#[test]
fn explains_an_invalid_part() {
    for (from, to, message) in [
        ("name = \"requests\"", "", "t.toml:23:1: part.name: missing; give a few words"),
        ("name = \"requests\"", "name = \"frames\"", "t.toml:24:8: part.name: two parts have"),
        ("name = \"requests\"", "name = \"\"", "part.name: the name is empty"),
        ("[part.workload]\nkind", "[part.wrkload]\nkind", "part: unknown key \"wrkload\"; did you"),
        ("gro = [true, false]", "gro = true", "part.factors.gro: true is not an array of levels"),
        (
            "mtu = [9000, 1500]",
            "kind = [\"stream\"]",
            "is both a factor and set in [part.workload]",
        ),
        (
            "[workload]",
            "[factors]\ngro = [true]\n[workload]",
            "factors: [factors] cannot be combined with [[part]]",
        ),
        (
            "kind = \"request-response\"",
            "request = 2",
            "part.workload.request: workloads of kind s",
        ),
        ("name = \"requests\"", "name = 3", "part.name: 3 is not text"),
    ] {
        let text = PARTS.replacen(from, to, 1);
        assert_ne!(text, PARTS, "{from}");
        refused(&text, message);
    }
    // a common setting that no part takes says nothing
    let text = PARTS.replace("gro = [true, false]", "socket = [\"1 MiB\"]");
    let text = text.replace("kind = \"request", "socket = \"2 MiB\"\nkind = \"request");
    let error = errors(&text);
    let unused = "t.toml:5:1: workload.socket: no cell uses this setting: each part or level sets its own; \
                  leave it out of [workload]";
    assert_eq!(error, [unused]);
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = parse("t", "t.toml", &text);
    }

    #[test]
    fn no_toml_makes_the_parser_panic(
        lines in prop::collection::vec(
            (
                prop::sample::select(vec![
                    "title", "paper", "offload", "message", "kind", "clients", "run", "budget",
                    "blocks", "sut-cpus", "confidence", "precision", "[factors]", "[workload]",
                    "[method]", "[testbed]", "[[factors]]", "factors.mtu", "[[when]]", "is", "set",
                    "[[part]]", "name", "[part.factors]", "[part.workload]", "[[published]]",
                    "measure", "at", "factor", "from", "to", "effect", "value", "difference",
                    "adapter", "scale", "ports", "clients-per-port", "part", "when",
                    "effects",
                ]),
                prop::sample::select(vec![
                    "1", "-1", "0x10", "1e400", "nan", "true", "\"\"", "\"1e9 s\"", "\"99 %\"",
                    "[\"tso\"]", "[]", "[[1]]", "{ min = 2 }", "\"0-8191\"", "\"1 B to 2 B\"",
                    "18446744073709551615", "99999999999999999999", "1979-05-27", "[1, 1.5, {}]",
                    "\"999999999999999999999999999999 h\"", "'''\n'''", "[1, 9000]", "{ mtu = 9000 }", "\"gigabit\"",
                    "\"mtu\"", "\"throughput\"", "\"1 Gb/s\"", "\"-47 %\"", "0.5",
                ]),
            ),
            0..12,
        )
    ) {
        let text: Vec<String> = lines
            .iter()
            .map(|(key, value)| match key.starts_with('[') {
                true => (*key).to_owned(),
                false => format!("{key} = {value}"),
            })
            .collect();
        let _ = parse("t", "t.toml", &text.join("\n"));
    }

    /// A valid file with a few characters replaced, removed or doubled.
    #[test]
    fn no_slip_of_the_finger_makes_the_parser_panic(
        slips in prop::collection::vec((0..VALID.len(), any::<char>(), 0..3u8), 1..5)
    ) {
        let mut text: Vec<char> = VALID.chars().collect();
        for (at, typed, slip) in slips {
            let at = at % text.len();
            match slip {
                0 => text[at] = typed,
                1 => { text.remove(at); }
                _ => text.insert(at, text[at]),
            }
        }
        let text: String = text.into_iter().collect();
        match parse("t", "t.toml", &text) {
            Ok(study) => {
                prop_assert!(!study.cells.is_empty());
                // too many cells for a quick run are no panic either
                let _ = crate::quick::form(study);
            }
            Err(errors) => {
                prop_assert!(!errors.0.is_empty());
                for error in &errors.0 {
                    let lines = text.split('\n').count();
                    prop_assert!(error.line >= 1 && error.line <= lines, "{}", error);
                    prop_assert!(error.column >= 1, "{}", error);
                }
            }
        }
    }
}

#[test]
fn one_number_of_blocks_is_the_fewest_and_the_most() {
    let text = with("gro = [true, false]", "", "blocks = 7");
    let study = parse("t", "t.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((study.method.min_blocks, study.method.max_blocks), (7, 7));
}

#[test]
fn a_setting_takes_the_place_of_another_or_gets_one_of_its_own() {
    let text = "title = \"t\"\n[factors]\nmtu = [1500]\n[workload] # all\nmessage = \"1 KiB\"\n";
    let set = |key, value| with_setting(text, key, value);
    assert_eq!(set("message", "8K"), text.replace("1 KiB", "8K"));
    assert_eq!(set("socket", "auto"), text.replace("# all\n", "# all\nsocket = \"auto\"\n"));
    assert_eq!(set("run", "5 s"), format!("{text}\n[method]\nrun = \"5 s\"\n"));
    assert_eq!(with_setting("no toml", "run", "5 s"), "no toml");
    // whatever the value is, it stays one value
    let quoted: toml::Table = with_setting("[method]", "run", "a\"\n[x]").parse().unwrap();
    assert_eq!(quoted["method"]["run"].as_str(), Some("a\"\n[x]"));
    assert_eq!(quoted.len(), 1);
}
