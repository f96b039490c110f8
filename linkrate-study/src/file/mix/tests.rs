//! Tests of mixes in study files.

use linkrate_model::backup::{Backup, FileSizes};
use linkrate_model::{ByteSize, Direction, MessageSize, Protocol, Task, Workload};

use crate::file::parse;
use crate::file::tests::errors;
use crate::study::Study;

const MIX: &str = r#"title = "t"
[testbed]
adapter = "gigabit"
clients-per-port = 2
[factors]
transfer = ["64 KiB", "1 MiB"]
[workload]
kind = "transfer"
connections = 2
[[mix]]
name = "small"
share = 2
message = "sm-mix"
[[mix]]
name = "files"
kind = "backup"
files = "mixed"
[[mix]]
name = "requests"
kind = "request-response"
burst = 4
"#;

fn study(text: &str) -> Study {
    parse("t", "t.toml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn workload(study: &Study, cell: usize) -> &Workload {
    match &study.cells[cell].spec.task {
        Task::Workload(workload) => workload,
        Task::Idle => panic!("idle"),
    }
}

#[test]
fn each_workload_is_the_common_one_with_its_own_settings() {
    let study = study(MIX);
    let [small, files, requests] = &workload(&study, 0).mix[..] else { panic!("{study:?}") };
    assert_eq!((small.name.as_str(), small.share, files.share), ("small", 2, 1));
    assert_eq!(Some(small.workload.message), MessageSize::named("sm-mix"));
    // the level of the factor
    assert_eq!(small.workload.transfer, ByteSize(64 << 10));
    assert_eq!(workload(&study, 1).mix[0].workload.transfer, ByteSize(1 << 20));
    assert_eq!(
        (files.workload.kind, files.workload.direction),
        (Protocol::Backup, Direction::Receive)
    );
    let expected = Backup { files: FileSizes::Mixed, ..Backup::default() };
    assert_eq!(files.workload.backup, expected);
    assert_eq!((requests.workload.kind, requests.workload.burst), (Protocol::RequestResponse, 4));
    let whole = workload(&study, 0);
    assert_eq!((whole.kind, whole.direction), (Protocol::Stream, Direction::Bidirectional));
    assert_eq!(whole.item(), None);
    // a plan that is read again
    let plan = serde_json::to_string(&study).unwrap();
    assert_eq!(serde_json::from_str::<Study>(&plan).unwrap(), study);
    study.check().unwrap();
}

const LOAD: &str = r#"title = "t"
[testbed]
adapter = "veth"
[factors]
load = ["idle", "loaded"]
[workload]
kind = "stream"
connections = 4
[[mix]]
name = "streams"
share = 3
[[mix]]
name = "requests"
kind = "request-response"
request-rate = 500
"#;

#[test]
fn without_load_the_transactions_of_a_mix_are_alone() {
    let study = study(LOAD);
    let (idle, loaded) = (workload(&study, 0), workload(&study, 1));
    let expected = Workload {
        kind: Protocol::RequestResponse,
        request_rate_per_s: Some(500),
        ..Workload::default()
    };
    assert_eq!(idle, &expected);
    assert_eq!(loaded.mix[1].workload, Workload { connections: 4, ..expected });
    assert_eq!(loaded.loop_of_items(), Some(linkrate_model::workload::Loop::Open));
    study.check().unwrap();
}

#[test]
fn load_is_that_of_a_mix_with_transactions() {
    let refused = |from: &str, to: &str| errors(&LOAD.replace(from, to)).join("\n");
    assert!(refused("share = 3", "share = 4").contains("make it a multiple of 5"));
    let streams = "kind = \"request-response\"\nrequest-rate = 500\n";
    let reported = refused(streams, "message = \"1 KiB\"\n");
    assert!(reported.contains("no workload of the mix has any"), "{reported}");
    let mix = &LOAD[LOAD.find("[[mix]]").unwrap()..];
    let reported = refused(mix, "");
    assert!(
        reported.contains("load idle leaves out the streams of a mix, and there is none"),
        "{reported}"
    );
}

#[test]
fn a_mix_that_is_none_is_refused() {
    let two = "[[mix]]\nname = \"a\"\n[[mix]]\nname = \"b\"\n";
    let with = |workload: &str, mix: &str| {
        let head = "title = \"t\"\n[testbed]\nadapter = \"veth\"\n[factors]\ngro = [true, false]\n";
        errors(&format!("{head}[workload]\n{workload}\n{mix}"))
    };
    assert_eq!(with("connections = 2", two), [""; 0]);
    for (workload, mix, expected) in [
        ("", "[[mix]]\nname = \"a\"\n", "mix: 1 workloads, expected 2 to 16"),
        ("", "[[mix]]\n[[mix]]\nname = \"b\"\n", "mix.name: missing"),
        ("", "[[mix]]\nname = \"a\"\n[[mix]]\nname = \"a\"\n", "two workloads have the name \"a\""),
        ("", &format!("{two}share = 0\n"), "mix.share: "),
        ("", &format!("{two}connections = 3\n"), "mix.connections: is the same for all workloads"),
        ("", &format!("{two}burst = 3\n"), "mix.burst: workloads of kind stream do not use it"),
        (
            "",
            two,
            "connections 1 of 1 clients are 1 in all, which the shares of the mix do not divide; make \
             it a multiple of 2",
        ),
        (
            "connections = 2",
            &format!("{two}kind = \"udp-stream\"\n"),
            "workload \"b\" of the mix: message 128 KiB does not fit into a datagram",
        ),
    ] {
        let found = with(workload, mix).join("\n");
        assert!(found.contains(expected), "{found}");
    }
    let twice = MIX.replace("transfer = [\"64 KiB\", \"1 MiB\"]", "message = [1, 2]");
    let twice = twice.replace("kind = \"backup\"\nfiles = \"mixed\"", "message = 3");
    let twice = twice.replace("kind = \"request-response\"\nburst = 4", "message = 4");
    let found = errors(&twice).join("\n");
    assert!(found.contains("factors.message: is set by every [[mix]]"), "{found}");
}
