//! The command line as people and scripts meet it: help, plans, and what wrong input gets. Nothing
//! here measures, so it needs no privilege; what would have measured must be refused before.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common;
use crate::common::agent::Agent;
use crate::common::needs::has_or_skips;
use crate::common::{LINKRATE, Running, command, linkrate, linkrate_with, printed, skip};
use insta::assert_snapshot;
use linkrate_model::InterfaceKnobs;
use linkrate_protocol::framing::MAX_FRAME_BYTES;
use linkrate_protocol::{MeasureSpec, PROTOCOL_VERSION, Reply, Request};
use linkrate_sys::host_settings;
use linkrate_sys::tree::Tree;
use serde_json::json;

/// What `linkrate WORDS` says when it refuses.
#[track_caller]
fn refusal(words: &str) -> String {
    linkrate(words).refusal()
}

/// What `show` and `run`, which must agree, say to a study file.
fn refusal_of_study(text: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("asked.toml"), text).unwrap();
    let said = ["show asked.toml", "run asked.toml --output results"].map(|words| {
        Running::start(command(LINKRATE, words).current_dir(directory.path())).wait().refusal()
    });
    assert_eq!(said[0], said[1]);
    assert!(!directory.path().join("results").exists());
    said[0].clone()
}

#[test]
fn help_names_every_command_and_exit_code() {
    assert_snapshot!("help", printed("--help"));
    assert_snapshot!("help_study", printed("study --help"));
    assert_snapshot!("help_study_show", printed("show --help"));
    assert_snapshot!("help_study_run", printed("run --help"));
    assert_snapshot!("help_study_resume", printed("resume --help"));
    assert_snapshot!("help_study_report", printed("report --help"));
    assert_snapshot!("help_measure", printed("measure --help"));
    assert_snapshot!("help_netperf", printed("netperf --help"));
    assert_snapshot!("help_serve", printed("serve --help"));
    assert_snapshot!("help_iperf3", printed("iperf3 --help"));
    assert_snapshot!("help_completions", printed("completions --help"));
}

#[test]
fn short_help_fits_on_a_screen_and_hides_what_few_adapters_have() {
    let short = printed("measure -h");
    assert!(short.lines().count() <= 25, "{short}");
    for (words, has) in [("--help", false), ("--help-all", true), ("--adapter toe --help", true)] {
        assert_eq!(printed(&format!("measure {words}")).contains("--toe-idle"), has, "{words}");
    }
}

#[test]
fn a_test_of_the_kernel_names_a_remote_that_linkrate_does_not_reach() {
    let mut command = command(LINKRATE, "run tso --quick --format ktap");
    command.envs([("NETIF", "eth1"), ("REMOTE_TYPE", "vsock"), ("REMOTE_ARGS", "peer")]);
    let finished = Running::start(&mut command).wait().expect_code(1);
    let said = "error: NETIF=eth1: REMOTE_TYPE=vsock: expected ssh or netns\n";
    assert!(finished.stderr.starts_with(said), "{}", finished.stderr);
    assert_eq!(finished.stdout, "");
}

#[test]
fn colours_are_those_that_are_asked_for() {
    for (when, has) in [("always", true), ("never", false), ("auto", false)] {
        assert_eq!(printed(&format!("models --color {when}")).contains('\u{1b}'), has, "{when}");
    }
}

#[test]
fn without_its_device_a_host_has_no_emulated_adapters() {
    for (words, code) in [
        ("measure --runs 1", 3),
        ("run tso --quick", 3),
        ("lab up", 3),
        // a test of the kernel that is skipped
        ("run tso --quick --format ktap", 4),
    ] {
        let script = format!("mount -t tmpfs none /dev/net && exec {LINKRATE} {words}");
        let mut hidden = Command::new("unshare");
        hidden.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
        let output = hidden.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if !said.contains("/dev/net/tun") {
            return skip(format!("/dev/net cannot be hidden: {said}"));
        }
        assert_eq!(output.status.code(), Some(code), "{words}: {said}");
        assert!(said.contains("hint: `modprobe tun`"), "{words}: {said}");
        let printed = String::from_utf8_lossy(&output.stdout);
        let is_skipped = printed.starts_with("KTAP version 1\n1..0 # SKIP ");
        assert_eq!(is_skipped, code == 4, "{words}: {printed}");
    }
}

#[test]
fn a_study_file_that_is_not_there_has_a_neighbour() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("mtu.toml"), "").unwrap();
    for words in ["run mtu.tml", "run mtu", "show ./mtu.tom"] {
        let said = Running::start(command(LINKRATE, words).current_dir(directory.path())).wait();
        let said = said.refusal();
        assert!(said.contains("did you mean") && said.contains("mtu.toml?"), "{words}: {said}");
    }
}

#[test]
fn the_version_tells_commit_and_build() {
    let version = env!("CARGO_PKG_VERSION");
    let short = printed("-V");
    let commit = short.trim_end().strip_prefix(&format!("linkrate {version} ("));
    let commit = commit.and_then(|rest| rest.strip_suffix(')')).expect("a commit");
    let long = printed("--version");
    let lines: Vec<&str> = long.lines().collect();
    assert_eq!(lines[..2], [format!("linkrate {version}"), format!("commit: {commit}")]);
    let build: Vec<&str> =
        lines[2].strip_prefix("build:  ").expect("a build").split(", ").collect();
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    assert_eq!(build[0], profile, "{long}");
    assert!(build[1].contains("linux"), "{long}");
    let libc = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    assert_eq!(build[2], libc, "{long}");
    assert!(build[3].starts_with("rustc 1."), "{long}");
    // a commit of this repository, where the sources are one
    let is_commit = |word: &str| word.len() >= 12 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let first = commit.split(',').next().unwrap_or_default();
    assert!(["debug build", "commit not known"].contains(&commit) || is_commit(first), "{commit}");
}

#[test]
fn completions_are_read_by_their_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let text = printed(&format!("completions {shell}"));
        for word in ["run", "resume", "--balance", "--switch-balance"] {
            // fish names options without hyphens
            assert!(text.contains(word.trim_start_matches('-')), "{shell}: {word}");
        }
        if !has_or_skips(shell) {
            continue;
        }
        let mut reader = Command::new(shell)
            .arg("-n")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        reader.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let read = reader.wait_with_output().unwrap();
        assert!(read.status.success(), "{shell}: {}", String::from_utf8_lossy(&read.stderr));
        assert_eq!(String::from_utf8_lossy(&read.stderr), "", "{shell}");
    }
    let reported = refusal("completions tcsh");
    assert!(reported.contains("'tcsh'") && reported.contains("bash, zsh, fish"), "{reported}");
}

#[test]
fn each_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    let mut man = command(LINKRATE, "man");
    Running::start(man.arg(&pages)).wait().expect_code(0);
    for name in ["linkrate", "linkrate-run", "linkrate-lab-up", "linkrate-serve"] {
        let page = fs::read_to_string(pages.join(format!("{name}.1"))).expect(name);
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
    }
    // what only linkrate itself starts
    assert!(!pages.join("linkrate-agent.1").exists());
}

#[test]
fn studies_are_listed_for_people_and_scripts() {
    assert_snapshot!("study_list", printed("list"));
    assert_snapshot!("study_list_json", printed("list --json"));
    assert_snapshot!("study_list_settings", printed("list --settings"));
    let document: serde_json::Value = serde_json::from_str(&printed("list --json")).unwrap();
    for study in document["studies"].as_array().unwrap() {
        printed(&format!("show {}", study["study"].as_str().unwrap()));
    }
}

#[test]
fn a_plan_is_shown_without_running_anything() {
    // what this machine limits is no part of the plan
    let plan = |words: &str| {
        let text = printed(words);
        let lines = text.lines().filter(|line| !line.starts_with("warning"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_snapshot!("study_show", plan("show tso"));
    assert_snapshot!("study_show_quick", plan("show tso --quick"));
    assert_snapshot!("study_show_parts", plan("show ten-gigabit"));
}

#[test]
fn a_model_lies_beside_the_study_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let model = "name = \"mine\"\ntitle = \"Mine\"\nsource = \"none\"\nports = 1\nqueues = 2\n\
                 superframe = 65535\nmax-mtu = 4000\ntransmit-ring = 256\nreceive-ring = 256\n";
    fs::write(path("mine.toml"), model).unwrap();
    let study = |mtu: u32| {
        let text = format!(
            "title = \"t\"\n[testbed]\nadapter = \"mine.toml\"\nscale = 0.5\n\
             [factors]\nmtu = [1500, {mtu}]\n"
        );
        fs::write(path("study.toml"), text).unwrap();
    };
    study(4000);
    let output = linkrate_with("show", &[&path("study.toml")]);
    let plan = output.stdout;
    assert!(plan.contains("mine, 1 port with 1 client, links at 0.5 of their rate"), "{plan}");
    study(9000);
    let said = linkrate_with("show", &[&path("study.toml")]).refusal();
    assert!(
        said.contains("mtu 9000 is above the maximum of adapter mine; set at most 4000"),
        "{said}"
    );
    fs::write(path("mine.toml"), model.replace("ports = 1", "prots = 1")).unwrap();
    let said = linkrate_with("show", &[&path("study.toml")]).refusal();
    assert!(
        said.contains("study.toml:3:11: testbed.adapter: mine.toml: line 4: unknown"),
        "{said}"
    );
    let said = linkrate_with("measure --adapter", &[&path("mine.toml")]).refusal();
    assert!(said.contains("mine.toml: line 4: unknown field"), "{said}");
    fs::remove_file(path("mine.toml")).unwrap();
    let said = linkrate_with("show", &[&path("study.toml")]).refusal();
    assert!(said.contains("mine.toml: No such file"), "{said}");
}

#[test]
fn a_plan_on_existing_interfaces_names_both_ends() {
    let on = "--interface eth1 --interface eth2 --client ssh:lab2 --client ssh:me@lab3,10.0.0.3";
    let plan = printed(&format!("show offload-ladder {on}"));
    assert!(
        plan.contains("eth1, eth2 of this host, with ssh:lab2, ssh:me@lab3,10.0.0.3"),
        "{plan}"
    );
    let document: serde_json::Value =
        serde_json::from_str(&printed(&format!("show offload-ladder --json {on}"))).unwrap();
    assert_eq!(document["adapter"], "interface");
    assert_eq!(document["interfaces"], serde_json::json!(["eth1", "eth2"]));
    assert_eq!(document["peers"], serde_json::json!(["ssh:lab2", "ssh:me@lab3,10.0.0.3"]));
    assert_eq!((&document["ports"], &document["clients"]), (&2.into(), &2.into()));
    let plan = printed("show offload-ladder --interface eth1 --client iperf3://192.0.2.7:5202");
    assert!(plan.contains("eth1 of this host, with iperf3:192.0.2.7:5202"), "{plan}");
}

#[test]
fn refuses_interfaces_that_make_no_testbed() {
    for (words, part) in [
        ("measure --interface eth1", "--client <CLIENT>"),
        ("measure --client ssh:a", "--interface <NAME>"),
        ("measure --interface eth1 --client lab2", "it names no way to reach the client"),
        (
            "measure --interface eth1 --client ssh:-oProxyCommand=x",
            "the text after ssh: is not a host",
        ),
        (
            "measure --interface e1 --interface e2 --client ssh:a",
            "1 clients cannot be divided among 2 interfaces",
        ),
        ("measure --interface e1 --client interface:e1", "interface e1 is named twice"),
        (
            "measure --interface e1 --client ssh:a --adapter veth",
            "--adapter cannot be combined with",
        ),
        ("measure --interface e1 --client ssh:a --scale 0.5", "--scale cannot be combined with"),
        ("measure --interface e1 --client ssh:a --lro on", "--lro: linkrate does not set lro"),
        (
            "measure --interface e1 --client ssh:a --clients 2",
            "the number of clients follows from the ports",
        ),
        ("measure --interface e1 --client ssh:a --ports 2", "more than the number of interfaces"),
        ("run tso --interface e1 --client ssh:a", "more than the number of interfaces"),
    ] {
        let said = common::linkrate(words).refusal();
        assert!(said.contains(part), "{words}: {said}");
    }
}

#[test]
fn the_document_of_a_plan_has_the_same_values() {
    let document =
        |words: &str| -> serde_json::Value { serde_json::from_str(&printed(words)).unwrap() };
    let (full, quick) = (document("show tso --json"), document("show tso --quick --json"));
    for (plan, cells, ports) in [(&full, 27, 4), (&quick, 3, 2)] {
        assert_eq!((&plan["format"], &plan["study"]), (&1.into(), &"tso".into()));
        assert_eq!(plan["cells"].as_array().unwrap().len(), cells);
        assert_eq!((&plan["adapter"], &plan["ports"]), (&"gigabit".into(), &ports.into()));
        assert_eq!(plan["cells"][0]["offload"], "none");
        // one idle run in each block, and that of the A/A test
        assert_eq!(plan["runs_per_block"], cells + 2);
        let seconds = |key: &str| plan[key].as_f64().unwrap();
        assert!(seconds("shortest_seconds") <= seconds("longest_seconds"));
    }
    // what the project promises of this study
    assert!(full["longest_seconds"].as_f64().unwrap() < 300.0);
    assert!(quick["longest_seconds"].as_f64().unwrap() < 60.0);
    assert_eq!(quick["min_blocks"], 5);
}

#[test]
fn refuses_a_missing_study() {
    assert_snapshot!("unknown_study", refusal("show tos"));
    assert_eq!(refusal("run tos"), refusal("show tos"));
    assert_snapshot!("missing_file", refusal("show absent/study.toml"));
    assert_eq!(refusal("run absent/study.toml"), refusal("show absent/study.toml"));
}

#[test]
fn every_error_of_a_study_file_has_its_place() {
    assert_snapshot!(
        "study_errors",
        refusal_of_study(
            "title = \"Wrong in many ways\"\n\
             tilte = \"twice\"\n\
             \n\
             [testbed]\n\
             adapter = \"vteh\"\n\
             clients = 0\n\
             \n\
             [factors]\n\
             offload = [\"none\", \"tos\"]\n\
             ofload = [\"none\"]\n\
             \n\
             [workload]\n\
             message = \"32 KiBi\"\n\
             socket = \"1 B\"\n\
             \n\
             [method]\n\
             run = \"2 parsecs\"\n\
             blocks = { min = 9, max = 3 }\n"
        )
    );
    assert_snapshot!("study_without_cells", refusal_of_study("title = \"Nothing varies\"\n"));
    assert_snapshot!(
        "study_empty_factor",
        refusal_of_study("title = \"No levels\"\n[factors]\noffload = []\n")
    );
    assert_snapshot!(
        "study_impossible_cell",
        refusal_of_study(
            "title = \"TSO needs checksums\"\n[factors]\noffload = [\"gso\", \"tso\"]\n\
             [workload]\ntx-checksum = false\n"
        )
    );
    assert_snapshot!("study_no_toml", refusal_of_study("title = \"half a line\n"));
}

#[test]
fn does_not_read_a_huge_study_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("huge.toml");
    // sparse: nothing of it is on the disk
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let said = linkrate_with("show", &[path.to_str().unwrap()]).refusal();
    assert!(said.contains("huge.toml: 1099511627776 bytes, expected a study file of at most"));
}

#[test]
fn refuses_a_study_path_that_is_not_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let said = linkrate_with("show", &[&format!("{}/", directory.path().display())]).refusal();
    assert!(said.contains("directory"), "{said}");
    let binary = directory.path().join("binary.toml");
    fs::write(&binary, [0xff; 64]).unwrap();
    let said = linkrate_with("show", &[binary.to_str().unwrap()]).refusal();
    assert!(said.contains("binary.toml: ") && said.contains("UTF-8"), "{said}");
}

#[test]
fn measure_refuses_wrong_values() {
    let refusals: String = [
        ("--message 0", None),
        ("--message", Some("64 KiB to 1 KiB")),
        ("--message 65MiB", None),
        ("--connections 99999", None),
        ("--connections -1", None),
        ("--congestion", Some("a b")),
        ("--adapter vteh", None),
        ("--adapter gigabti", None),
        ("--adapter absent/model.toml", None),
        ("--adapter gigabit --scale 2", None),
        ("--adapter gigabit --clients-per-port 17", None),
        ("--offload tos", None),
        ("--gro maybe", None),
        ("--mtu 10", None),
        ("--runs 0", None),
        ("--time 1ms", None),
        ("--time", Some("2 lightyears")),
        ("--warm-up soon", None),
        ("--sut-cpus x", None),
        ("--sut-cpus 99999999", None),
        ("--client-cpus 3-1", None),
        ("--ofload tso", None),
    ]
    .into_iter()
    .map(|(option, value)| {
        let said = linkrate_with(&format!("measure {option}"), value.as_slice()).refusal();
        format!("{option} {}\n{said}\n", value.unwrap_or_default())
    })
    .collect();
    assert_snapshot!("measure_values", refusals);
}

#[test]
fn measure_refuses_impossible_combinations() {
    let refusals: String = [
        "--offload tso --tx-checksum off",
        "--offload none --gso-max-size 16000",
        "--gso-max-size 1500 --mtu 9000",
        "--adapter veth --gro-max-size 185000",
        "--kind udp-stream --message 65508",
        "--kind udp-stream --udp-segment 1473",
        "--kind udp-stream --udp-segment 100 --message 65000",
        "--zero-copy --send-path splice",
        "--merge gro --lro on",
        "--adapter veth --merge gro",
        "--threaded on",
        "--kind request-response --zero-copy",
        "--burst 4",
        "--request 4",
        "--udp-gro on",
        "--kind request-response --direction receive",
        "--kind request-response --message 4",
        "--kind connect-request-response --burst 2",
        "--request-rate 100",
        "--kind connect-request-response --request-rate 100",
        "--kind request-response --request-rate 100 --burst 2",
        "--load idle",
        "--adapter veth --txqueuelen 100",
        "--kind udp-stream --congestion cubic",
        "--kind udp-request-response --nodelay on",
        "--adapter veth --scale 0.5",
        "--adapter veth --clients-per-port 2",
        "--adapter veth --ports 2",
        "--adapter veth --lro on",
        "--clients 2",
        "--adapter gigabit --mtu 9001",
        "--adapter gigabit --queues 2",
        "--adapter gigabit --gso-max-size 64000",
        "--adapter ten-gigabit --gso-max-size 185000",
        "--adapter ten-gigabit --gro off --gro-max-size 185000",
        "--adapter gigabit --snap on",
        "--adapter gigabit --ports 5 --clients-per-port 16",
        "--adapter ten-gigabit --kind udp-stream --lro on",
    ]
    .map(|options| format!("{options}\n{}\n", refusal(&format!("measure {options}"))))
    .concat();
    assert_snapshot!("measure_combinations", refusals);
}

#[test]
fn refuses_a_missing_cpu() {
    for words in [
        "measure --sut-cpus 4000",
        "measure --client-cpus 4000",
        "run tso --output absent/results --sut-cpus 4000",
    ] {
        let said = refusal(words);
        assert!(said.contains("CPU 4000, which this process may not use"), "{said}");
        assert!(said.contains("\nhint: usable here: "), "{said}");
    }
}

#[test]
fn refuses_a_directory_without_results() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let absent = format!("{path}/absent");
    for words in ["report", "resume"] {
        for there in [path, &absent] {
            let said = linkrate_with(words, &[there]).refusal();
            assert!(said.contains("is not a results directory"), "{said}");
            assert!(said.contains("hint: "), "{said}");
        }
    }
    assert_eq!(fs::read_dir(path).unwrap().count(), 0);
}

#[test]
fn refuses_agent_without_stdio() {
    assert_snapshot!("agent_alone", refusal("agent"));
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    // as `linkrate list | head -0`
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command(LINKRATE, "list").stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn an_agent_answers_over_plain_pipes_until_its_input_ends() {
    let mut agent = Agent::start();
    let Reply::Hello(hello) = agent.ask(&Request::Hello { version: PROTOCOL_VERSION }) else {
        panic!("no hello");
    };
    assert_eq!((hello.version, hello.pid), (PROTOCOL_VERSION, agent.pid()));
    // the settings of its host, which a controller elsewhere cannot read
    assert_eq!(hello.settings, host_settings::of_host(&Tree::of_this_host()));
    assert!(!hello.settings.is_empty());
    let mut clock = || match agent.ask(&Request::Clock) {
        Reply::Clock { monotonic_ns } => monotonic_ns,
        other => panic!("no clock: {other:?}"),
    };
    assert!(clock() < clock());
    assert_eq!(agent.end(), (Some(0), String::new()));
}

#[test]
fn an_agent_refuses_another_version_with_both_numbers() {
    let mut agent = Agent::start();
    let reason = agent.refuses(&Request::Hello { version: PROTOCOL_VERSION + 1 });
    assert_eq!(
        reason,
        format!("protocol version {}, this agent speaks {PROTOCOL_VERSION}", PROTOCOL_VERSION + 1)
    );
    assert_eq!(agent.end(), (Some(0), String::new()));
}

#[test]
fn an_agent_refuses_invalid_requests_and_continues() {
    let mut agent = Agent::start();
    let far = MeasureSpec { start_ns: 0, end_ns: u64::MAX, readers: 1, ..MeasureSpec::default() };
    for (message, reason) in [
        (json!("no-such-request"), "cannot decode agent message: unknown variant"),
        (json!({"hello": {"version": -1}}), "cannot decode agent message: invalid value"),
        (json!({"await-link": {"name": "../etc"}}), "interface name is"),
        (json!({"await-link": {"name": "a name of more than fifteen bytes"}}), "interface name is"),
        (json!({"place": {"cpus": "4000"}}), "4000"),
        (json!(Request::Measure(far)), "expected at most"),
        (json!("await-flows"), "await-flows came before listen"),
        (json!("begin"), "begin came before the flows"),
        (json!("finish"), "finish came before the flows"),
    ] {
        let said = agent.refuses(&message);
        assert!(said.contains(reason), "{message}: {said}");
    }
    for garbage in [&b"\0\0\0\0"[..], b"\0\0\0\x04{{{{", b"\0\0\0\x02\xff\xfe"] {
        agent.send(garbage);
        assert!(matches!(agent.answer(), Reply::Refused(_)), "{garbage:?}");
    }
    assert!(matches!(agent.ask(&Request::Clock), Reply::Clock { .. }));
    assert_eq!(agent.end(), (Some(0), String::new()));
}

#[test]
fn an_agent_ends_when_it_cannot_decode_its_input() {
    let mut oversized = Agent::start();
    oversized.send(&(MAX_FRAME_BYTES as u32 + 1).to_be_bytes());
    let (code, said) = oversized.end();
    assert_eq!(code, Some(1));
    assert!(said.contains(&format!("frame of {} bytes", MAX_FRAME_BYTES + 1)), "{said}");

    let mut torn = Agent::start();
    torn.send(b"\0\0\0\x20{\"hello\":");
    let (code, said) = torn.end();
    assert_eq!(code, Some(1));
    assert!(said.starts_with("error: agent: "), "{said}");
}

#[test]
fn an_agent_without_a_lab_refuses_what_only_labs_need() {
    let mut agent = Agent::start_with("--interface eth1");
    for (message, reason) in [
        (
            json!({"create-tap": {"name": "t0", "carries": "frames", "queues": 1, "address": null, "tx_queue_length": 1, "napi": false}}),
            "create-tap is for labs",
        ),
        (json!({"lend": {"name": "lo", "pid": 1}}), "lend is for the system under test"),
        (json!({"keep": {"names": ["lo"]}}), "this agent may use eth1 only, not lo"),
        (
            json!({"set-knobs": {"interfaces": ["lo"], "knobs": InterfaceKnobs::default()}}),
            "interface lo is not managed",
        ),
        (json!({"prepare-profile": {"cpus": "0"}}), "prepare-profile is for"),
    ] {
        let said = agent.refuses(&message);
        assert!(said.contains(reason), "{message}: {said}");
    }
    assert_eq!(agent.end(), (Some(0), String::new()));
}

#[test]
fn an_agent_ends_at_a_signal_in_the_middle_of_a_window() {
    let mut agent = Agent::start();
    let now = linkrate_sys::clock::monotonic_ns();
    let window = MeasureSpec {
        start_ns: now,
        end_ns: now + 60_000_000_000,
        readers: 1,
        ..MeasureSpec::default()
    };
    agent.post(&Request::Measure(window));
    std::thread::sleep(std::time::Duration::from_millis(300));
    common::kill(agent.pid(), rustix::process::Signal::TERM);
    assert_eq!(agent.ended(std::time::Duration::from_secs(5)), Some(0));
}

#[test]
fn a_study_is_changed_on_the_command_line() {
    let plan = printed(
        "show tso --only ports=4 --only direction=transmit --blocks 6..8 --budget 1min --precision 5% --scale 0.3 --json",
    );
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["cells"].as_array().unwrap().len(), 3);
    assert_eq!((&plan["min_blocks"], &plan["max_blocks"]), (&6.into(), &8.into()));
    assert_eq!((&plan["budget_seconds"], &plan["precision"]), (&60.0.into(), &0.05.into()));
    assert_eq!(plan["scale"], 0.3);
    let plan = printed("show tso --only ports=1 --set run=500ms --set congestion=reno --json");
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["run_seconds"], 0.5);
    for (words, reported) in [
        (
            "--only port=4",
            "\"port\" is not a factor of this study; expected one of offload, direction, ports",
        ),
        ("--only ports=3", "\"3\" is not a level of ports; expected one of 1, 2, 4"),
        ("--only ports", "expected KEY=VALUE, for example ports=4"),
        (
            "--set ports=4",
            "ports is a factor of this study\nhint: choose among its levels with --only",
        ),
        ("--set mtu=9", "--set mtu=9: "),
        ("--set mtv=1500", "did you mean \"mtu\"?"),
        ("--blocks 1", "expected 2 or more, or a range such as 5..20"),
        ("--scale 3", "3"),
    ] {
        let refused = refusal(&format!("show tso {words}"));
        assert!(refused.contains(reported), "{words}: {refused}");
    }
}

#[test]
fn a_built_in_study_is_printed_as_its_file() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../studies/tso.toml"));
    assert_eq!(printed("show tso --toml"), text.unwrap());
}

#[test]
fn letters_of_other_programs_set_the_same_once() {
    for words in
        ["-R --direction transmit", "--test TCP_MAERTS -R", "-u --kind stream", "-4 --family ipv6"]
    {
        let refused = refusal(&format!("measure {words}"));
        assert!(refused.contains("is set twice"), "{words}: {refused}");
    }
    assert!(refusal("measure --test TCP_RRR").contains("TCP_RR"));
}

#[test]
fn letters_of_other_programs_lead_to_what_does_their_work() {
    for (words, tip) in [
        ("measure -c lab2", "--interface NAME --client iperf3://HOST"),
        ("measure -H lab2", "--client netperf://HOST"),
        ("measure -b 100M", "--request-rate NUMBER"),
        ("measure -s", "linkrate serve"),
        ("measure --output x.json", "--json > FILE"),
    ] {
        let said = refusal(words);
        assert!(said.contains("tip: ") && said.contains(tip), "{words}: {said}");
    }
    // of another command the same letter is what it is
    assert!(!refusal("limit -c lab2").contains("--client"));
}

#[test]
fn seconds_need_no_unit() {
    let said = refusal("measure -t 0 --adapter veth");
    assert!(said.contains("--time: 0 is out of range; expected 100 ms to 1 h"), "{said}");
    let said = refusal("measure -t 4000 --adapter veth");
    assert!(said.contains("--time: 4000 is out of range"), "{said}");
}

#[test]
fn a_word_that_is_not_utf_8_is_named() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let mut run = Command::new(LINKRATE);
    run.arg("run").arg(OsStr::from_bytes(b"a\xff.toml"));
    let said = Running::start(&mut run).wait().refusal();
    assert_eq!(said, "error: \"a\\xFF.toml\" is not UTF-8\nhint: give the file another name\n");
}

#[test]
fn a_client_that_is_a_bare_name_may_be_a_host_of_ssh() {
    let said = refusal("measure --interface lo --client lab2");
    assert!(said.contains("did you mean \"ssh://lab2\"?"), "{said}");
}
