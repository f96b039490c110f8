//! Interfaces that are there already: two machines with a cable, of which a controller on the first
//! knows no more than that `ssh lab2` reaches the second, and two interfaces of one machine. Both
//! are network namespaces, `ssh` and its server are OpenSSH's own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::common;
use crate::common::cable::{Cable, THERE};
use crate::common::machines::{FAR_FILES, FAR_PROGRAMS, Lab, measure_the_loop, with_a_loop};
use crate::common::processes::OwnCopy;
use crate::common::small::{await_stored, stored};
use crate::common::{Running, command, kill, skip, wait_until};
use linkrate_protocol::{HELLO_NUMBER, Refusal, Reply, write_message};
use linkrate_study::store::RUNS_FILE;
use rustix::process::{Pid, Signal, kill_process_group};

/// How long the far agent may take to put things back once its controller is gone.
const PUT_BACK: Duration = Duration::from_secs(20);

/// Two levels of offload over the cable.
fn write_study(lab: &Lab, own: &OwnCopy, [sut, client]: [u32; 2], blocks: u32) {
    let text = format!(
        r#"title = "Two machines"
[testbed]
interface = "eth1"
clients = ["ssh:lab2"]
agent = "{}"
sut-cpus = "{sut}"
client-cpus = "{client}"
[factors]
offload = ["none", "tso"]
[method]
purpose = "functions"
run = "300 ms"
warm-up = "200 ms"
idle = "100 ms"
blocks = {{ min = {blocks}, max = {blocks} }}
seed = 7
"#,
        own.program().display()
    );
    fs::write(lab.beside("two.toml"), text).expect("write the study");
}

fn study(lab: &Lab, own: &OwnCopy) -> Command {
    let mut run = lab.command(&own.program(), "run --json --output");
    run.arg(lab.beside("results")).arg(lab.beside("two.toml"));
    run
}

#[test]
fn runs_a_study_between_two_machines_and_restores_them() {
    let cpus = needs!(root, "ethtool", "ip", ssh, two_cpus);
    let (lab, own) = (Lab::start(), OwnCopy::new());
    write_study(&lab, &own, cpus, 3);
    let before = lab.settings();

    let mut show = lab.command(&own.program(), "show");
    let shown = Running::start(show.arg(lab.beside("two.toml"))).wait().expect_code(0).stdout;
    assert!(shown.contains("eth1 of this host, with ssh:lab2"), "{shown}");

    let finished = Running::start(&mut study(&lab, &own)).wait().expect_code(0);
    assert_eq!(lab.settings(), before, "settings are as they were found");
    own.expect_nothing_left();

    let document = finished.json();
    common::schema::check("results", &document);
    assert_eq!((&document["adapter"], &document["complete"]), (&"interface".into(), &true.into()));
    assert_eq!(document["failures"], serde_json::Value::Array(Vec::new()));
    let cells = document["cells"].as_array().expect("cells");
    let demand = |cell: usize| cells[cell]["service_demand"]["mean"].as_f64().expect("a demand");
    assert!(demand(0) > demand(1), "none {} and tso {}", demand(0), demand(1));
    assert!(cells.iter().all(|cell| cell["limit"].is_null()), "a veth has no rate");
    let facts = &document["facts"]["facts"];
    for (name, value) in [("port-1-interface", "eth1"), ("client-cpus", &cpus[1].to_string())] {
        assert_eq!(facts[name], value, "{facts}");
    }
    assert!(facts["port-1-driver"].as_str().is_some_and(|driver| driver.starts_with("veth")));
    assert!(facts["client-driver"].as_str().is_some_and(|driver| driver.starts_with("veth")));
    for run in stored(&lab.beside("results")) {
        let measured = run.measurement().expect("a run with figures");
        // MTU and superframes of the interface as it was found, where the study says nothing
        assert_eq!(measured.effective.interface.mtu, Some(1400));
        assert_eq!(measured.evidence.links.len(), 1);
        assert!(measured.client_cpu.cpus.iter().all(|cpu| cpu.cpu == cpus[1]));
    }
    let page = fs::read_to_string(lab.beside("results").join("report.html")).expect("a report");
    assert!(page.contains("ssh:lab2") && page.contains("eth1 (veth"), "the report's testbed");
}

/// As the kernel's tests name it: interface and namespace are those of ip(8).
#[test]
fn a_named_namespace_is_the_remote_of_a_kernel_test() {
    let [sut, client] = needs!(root, "ethtool", "ip", two_cpus);
    let (cable, own) = (Cable::start(), OwnCopy::new());
    let file = cable.file("one.toml");
    let text = format!(
        r#"title = "A namespace"
[testbed]
sut-cpus = "{sut}"
client-cpus = "{client}"
[factors]
offload = ["none"]
[method]
purpose = "functions"
run = "300 ms"
warm-up = "200 ms"
idle = "100 ms"
blocks = {{ min = 2, max = 2 }}
seed = 7
"#
    );
    fs::write(&file, text).expect("write the study");
    let (there, program) = (cable.there.pid(), own.program().display().to_string());
    let features = "ethtool --show-features eth1";
    let before = [cable.here.sh(features), cable.there.sh(features)];
    let run = |name: &str| {
        let variables =
            format!("NETIF=eth1 REMOTE_V4={THERE} REMOTE_TYPE=netns REMOTE_ARGS={name}");
        let results = cable.file(name);
        cable.run(&format!(
            "mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && ip netns attach lab2 {there} &&
             {variables} {program} run --format ktap --output {results} {file}"
        ))
    };
    let finished = run("lab2").wait().expect_code(0);
    let named = "--interface eth1 --client netns:lab2,192.0.2.2";
    assert!(finished.stdout.contains(named), "{}", finished.stdout);
    assert!(finished.stdout.contains("\nok 1 cell "), "{}", finished.stdout);
    own.expect_nothing_left();
    assert_eq!([cable.here.sh(features), cable.there.sh(features)], before);
    let absent = run("lab3").wait();
    let said = "netns:lab3: ip entered no such namespace";
    assert!(absent.stdout.contains(said) || absent.stderr.contains(said), "{absent:?}");
}

/// A container is a process in a network namespace.
#[test]
fn the_namespace_of_a_process_has_the_client() {
    let [sut, client] = needs!(root, "ethtool", "ip", two_cpus);
    let (cable, own) = (Cable::start(), OwnCopy::new());
    let (there, program) = (cable.there.pid(), own.program().display().to_string());
    let measure = |pid: u32| {
        let words = "--purpose functions --runs 1 --time 300ms --offload none --json";
        let cpus = format!("--sut-cpus {sut} --client-cpus {client}");
        cable
            .run(&format!("{program} measure --interface eth1 --client pid://{pid} {cpus} {words}"))
    };
    let features = "ethtool --show-features eth1";
    let before = [cable.here.sh(features), cable.there.sh(features)];
    let document = measure(there).wait().expect_code(0).json();
    let throughput = &document["cells"][0]["throughput"]["mean"];
    assert!(throughput.as_f64().is_some_and(|rate| rate > 0.0), "{document}");
    own.expect_nothing_left();
    assert_eq!([cable.here.sh(features), cable.there.sh(features)], before);
    let itself = measure(cable.here.pid()).wait();
    assert!(itself.stderr.contains("is in the network namespace of this host"), "{itself:?}");
}

/// As `docker exec` reaches a container.
#[test]
fn a_command_reaches_the_client_and_is_not_started_from_results() {
    let [sut, client] = needs!(root, "ethtool", "ip", two_cpus);
    let (cable, own) = (Cable::start(), OwnCopy::new());
    let (there, program) = (cable.there.pid(), own.program().display().to_string());
    let file = cable.file("one.toml");
    fs::write(
        &file,
        format!(
            "title = \"A command\"\n[testbed]\nsut-cpus = \"{sut}\"\nclient-cpus = \"{client}\"\n\
             [factors]\noffload = [\"none\"]\n[method]\npurpose = \"functions\"\nrun = \"300 ms\"\n\
             warm-up = \"100 ms\"\nidle = \"0 s\"\nblocks = {{ min = 2, max = 2 }}\n"
        ),
    )
    .expect("write the study");
    let results = cable.file("results");
    let peer = format!("exec:nsenter --target {there} --net sh -c");
    let words = format!("--interface eth1 --client '{peer}' --agent {program}");
    let run = cable.run(&format!("{program} run --output {results} {words} {file}"));
    run.wait().expect_code(0);
    own.expect_nothing_left();
    let resumed = cable.run(&format!("{program} resume {results}")).wait().expect_code(2);
    let said = "a stored command does not start by itself";
    assert!(resumed.stderr.contains(said) && resumed.stderr.contains(&peer), "{resumed:?}");
    cable.run(&format!("{program} resume {results} --client '{peer}'")).wait().expect_code(0);
    let absent = words.replace(&there.to_string(), "4194304");
    let absent = cable.run(&format!("{program} measure {absent} --runs 1")).wait();
    assert!(absent.stderr.contains("before it answered"), "{absent:?}");
}

#[test]
fn restores_both_machines_after_the_controller_is_killed() {
    let cpus = needs!(root, "ethtool", "ip", ssh, two_cpus);
    let (lab, own) = (Lab::start(), OwnCopy::new());
    write_study(&lab, &own, cpus, 60);
    let before = lab.settings();
    for signal in [Signal::INT, Signal::KILL] {
        let _ = fs::remove_dir_all(lab.beside("results"));
        let running = Running::start(study(&lab, &own).process_group(0));
        await_stored(&lab.beside("results").join(RUNS_FILE), 3);
        assert_eq!(own.agents().len(), 2, "{:?}", own.processes());
        assert_ne!(lab.settings(), before, "something is there to be put back");
        let group = Pid::from_raw(running.pid() as i32).expect("a process id");
        kill_process_group(group, signal).expect("signal the group");
        let finished = running.wait();
        if signal == Signal::INT {
            let runs = stored(&lab.beside("results"));
            assert!(runs.iter().all(|run| run.failure().is_none()), "{}", finished.stderr);
            assert_eq!(lab.settings(), before, "an orderly end comes after its settings");
        }
        own.expect_nothing_left();
        let put_back = wait_until(PUT_BACK, || lab.settings() == before);
        assert!(put_back, "after {signal:?}: {:?} instead of {before:?}", lab.settings());
    }
}

#[test]
fn names_unreachable_hosts_with_a_remedy() {
    needs!(root, "ethtool", "ip", ssh, two_cpus);
    let (lab, own) = (Lab::start(), OwnCopy::new());
    let before = lab.settings();
    let program = own.program().display().to_string();
    let agent = format!("--agent {program}");
    let silent = "--sut-cpus 0 --client-cpus 1";
    for (words, said) in [
        ("--interface eth9 --client ssh:lab2", "read link \"eth9\": No such device"),
        (
            "--interface eth1 --client ssh:nobody.invalid",
            "ssh:nobody.invalid: ssh made no connection",
        ),
        (
            "--interface eth1 --client ssh:lab2 --agent /no/such/linkrate",
            "ssh:lab2: program /no/such/linkrate is missing",
        ),
        (
            "--interface eth1 --client ssh:lab2 --agent /bin/true",
            "ssh:lab2: agent of ssh:lab2: died",
        ),
        (
            &format!("--interface eth1 --client ssh:lab2 {agent} --sut-cpus 0 --client-cpus 0"),
            "ssh:lab2 is this machine, and its CPUs 0 overlap with CPUs 0",
        ),
        (
            &format!("--interface eth1 --client ssh:lab2,198.51.100.77 {agent} {silent}"),
            "ssh:lab2 has no address 198.51.100.77; it has 198.51.100.2/24 on eth1",
        ),
        (
            &format!("--interface lo --client ssh:lab2 {agent} {silent}"),
            "ssh:lab2 has no address in a network of lo (none)",
        ),
    ] {
        let mut measure =
            lab.command(&own.program(), "measure --purpose functions --runs 1 --time 100ms");
        let finished = Running::start(measure.args(words.split_whitespace())).wait();
        assert_ne!(finished.code(), Some(0), "{words}");
        let (stderr, hint) = (&finished.stderr, "hint: ");
        assert!(stderr.contains(said) && stderr.contains(hint), "{words}\n{stderr}");
    }
    own.expect_nothing_left();
    assert_eq!(lab.settings(), before);
}

#[test]
fn what_ssh_says_reaches_the_terminal_as_clean_lines() {
    needs!(root, "ethtool", "ip", two_cpus);
    let (machine, own) = (with_a_loop(), OwnCopy::new());
    let ssh = own.beside("ssh");
    let script = "#!/bin/sh\nprintf 'banner \\033]0;title\\007\\n' >&2\nyes noise | head -c 100000 >&2\n\
                  printf 'Permission denied\\r\\n' >&2\nexit 255\n";
    fs::write(&ssh, script).expect("write a script");
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).expect("its mode");
    let words = "measure --interface eth1 --client ssh:lab2 --runs 1";
    let mut measure = command(own.program(), words);
    let path = std::env::var("PATH").unwrap_or_default();
    measure.env("PATH", format!("{}:{path}", own.beside("").display()));
    machine.on(&mut measure);
    let refused = Running::start(&mut measure).wait();
    assert_ne!(refused.code(), Some(0));
    let stderr = &refused.stderr;
    assert!(!stderr.contains(|c: char| c.is_control() && c != '\n'), "{stderr:?}");
    assert!(stderr.contains("ssh:lab2: banner \u{fffd}]0;title\u{fffd}\n"), "{stderr}");
    assert!(stderr.contains("ssh:lab2: more lines are left out\n"), "{stderr}");
    assert!(stderr.len() < 10_000, "{}", stderr.len());
    let (said, reason) = (stderr.find("more lines"), stderr.find("ssh made no connection"));
    assert!(said.is_some() && said < reason, "the reason of ssh comes first: {stderr}");
    own.expect_nothing_left();
}

#[test]
fn a_far_agent_that_is_killed_is_named_with_its_interface() {
    let [sut, client] = needs!(root, "ethtool", "ip", ssh, two_cpus);
    let (lab, own) = (Lab::start(), OwnCopy::new());
    let before = lab.settings();
    let words = format!(
        "measure --purpose functions --interface eth1 --client ssh:lab2 --agent {} --sut-cpus {sut} --client-cpus {client} \
         --runs 1 --time 5s --offload none --mtu 1300",
        own.program().display()
    );
    let running = Running::start(&mut lab.command(&own.program(), &words));
    kill(own.await_traffic(2)[1], Signal::KILL);
    let stderr = running.wait().stderr;
    for part in ["the agent of ssh:lab2", "restored eth1", "`linkrate restore`"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert_ne!(lab.settings(), before, "something is to be restored");
    let mut doctor = lab.command("ssh".as_ref(), "-o BatchMode=yes lab2");
    let doctor = doctor.arg(format!("{} restore", own.program().display()));
    Running::start(doctor).wait().expect_code(0);
    assert_eq!(lab.settings(), before);
    own.expect_nothing_left();
}

#[test]
fn borrows_and_returns_a_second_interface() {
    needs!(root, "ethtool", "ip", two_cpus);
    let (machine, own) = (with_a_loop(), OwnCopy::new());
    let settings = || [machine.settings("eth1"), machine.settings("eth2")];
    let before = settings();
    assert!(before[1].contains("192.0.2.0/24 via 203.0.113.2"), "{}", before[1]);

    let program = own.program();
    let words = "--runs 2 --time 200ms --offload none --mtu 1300";
    let finished = Running::start(&mut measure_the_loop(&machine, &program, words)).wait();
    let document = finished.expect_code(0).json();
    let throughput = document["cells"][0]["throughput"]["mean"].as_f64().expect("a throughput");
    assert!(throughput > 1e6, "{throughput}");
    assert_eq!(document["facts"]["facts"]["port-1-interface"], "eth1");
    assert_eq!(settings(), before, "after an orderly end");
    own.expect_nothing_left();

    let words = "--runs 100 --time 200ms --offload none --mtu 1300";
    let running = Running::start(&mut measure_the_loop(&machine, &program, words));
    own.await_traffic(2);
    let links = machine.sh("ip -o link show");
    assert!(!links.contains("eth2:") && !links.contains("eth2@eth1"), "it is lent: {links}");
    running.signal(Signal::KILL);
    assert_eq!(running.wait().signal(), Some(9));
    own.expect_nothing_left();
    let back = wait_until(PUT_BACK, || machine.sh("ip -o link show").contains("eth2@eth1"));
    assert!(back, "{}", machine.sh("ip -o link show"));
    assert_eq!(settings(), before, "after kill -9 of the controller");
}

#[test]
fn refuses_to_borrow_an_interface_with_uppers() {
    needs!(root, "ethtool", "ip", two_cpus);
    let own = OwnCopy::new();
    for (kind, script, said) in [
        ("macvlan", "ip link add link eth2 name over type macvlan", "it carries over"),
        (
            "bridge",
            "ip link add over type bridge\nip link set eth2 master over",
            "it is part of over",
        ),
    ] {
        let machine = with_a_loop();
        // kernels are built without one or the other
        if machine.sh(&format!("({script}) 2>&1 || echo refused")).contains("refused") {
            skip(format!("this kernel has no {kind}"));
            continue;
        }
        let mut measure = measure_the_loop(&machine, &own.program(), "--runs 1");
        let finished = Running::start(&mut measure).wait();
        let said = format!("eth2 cannot be moved into a client's namespace: {said}");
        assert!(finished.code() != Some(0) && finished.stderr.contains(&said), "{finished:?}");
        machine.sh("ip link show dev over");
        own.expect_nothing_left();
    }
}

#[test]
fn a_key_with_a_forced_command_starts_the_agent_and_nothing_else() {
    let [sut, client] = needs!(root, "ethtool", "ip", ssh, two_cpus);
    let (lab, own) = (Lab::start(), OwnCopy::new());
    let before = lab.settings();
    let key = fs::read_to_string(lab.beside("user.pub")).expect("read the key");
    let force = |options: &str| {
        let program = own.program();
        let command = format!("{} agent --stdio {options}", program.display());
        fs::write(lab.beside("authorized"), format!("restrict,command=\"{command}\" {key}"))
            .expect("write the authorized key");
    };
    let words = format!(
        "measure --json --purpose functions --interface eth1 --client ssh:lab2 --agent /any/thing --sut-cpus {sut} \
         --client-cpus {client} --runs 2 --time 200ms --offload none --mtu 1300"
    );

    force("--interface eth1");
    let measured = Running::start(&mut lab.command(&own.program(), &words)).wait().expect_code(0);
    assert!(measured.json()["cells"][0]["throughput"]["mean"].as_f64().is_some());
    assert_eq!(lab.settings(), before);

    let marker = lab.beside("marker");
    let mut other = lab.command("ssh".as_ref(), "-o BatchMode=yes lab2 touch");
    Running::start(other.arg(&marker)).wait();
    assert!(!marker.exists(), "a forced command is the only command");

    force("--interface eth9");
    let refused = Running::start(&mut lab.command(&own.program(), &words)).wait();
    assert_ne!(refused.code(), Some(0));
    let reason = "ssh:lab2: this agent may use eth9 only, not eth1";
    assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    assert_eq!(lab.settings(), before);
    own.expect_nothing_left();
}

/// The processes that run a file which was copied to the peer.
fn of_a_copy(lab: &Lab) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("list /proc").flatten();
    let runs_a_copy = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|program| program.starts_with(lab.beside(FAR_FILES)))
    };
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(runs_a_copy).collect()
}

/// What has a name among the temporary files of the peer.
fn far_files(lab: &Lab) -> Vec<PathBuf> {
    let files = fs::read_dir(lab.beside(FAR_FILES)).expect("list the files").flatten();
    files.map(|file| file.path()).collect()
}

#[track_caller]
fn expect_no_copy(lab: &Lab) {
    let gone = wait_until(PUT_BACK, || of_a_copy(lab).is_empty());
    assert!(gone, "processes left at the peer: {:?}", of_a_copy(lab));
    assert_eq!(far_files(lab), Vec::<PathBuf>::new(), "files left at the peer");
}

/// Makes the program linkrate of the peer one that refuses the greeting as an agent of another
/// version does, with the bytes of its answer.
fn have_another_version(lab: &Lab) {
    let reason = "protocol version 9, this agent speaks 3".to_owned();
    let refusal = Reply::Refused(Refusal { reason, hint: None });
    let mut bytes = Vec::new();
    write_message(&mut bytes, HELLO_NUMBER, &refusal).expect("write to memory");
    fs::write(lab.beside("refusal"), bytes).expect("write the refusal");
    let program = lab.beside(FAR_PROGRAMS).join("linkrate");
    let script = format!("#!/bin/sh\ncat '{}'\ncat >&2\n", lab.beside("refusal").display());
    fs::write(&program, script).expect("write the program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
}

#[test]
fn a_machine_without_this_version_gets_the_program_for_the_time_of_a_run() {
    let [sut, client] = needs!(root, "ethtool", "ip", ssh, two_cpus);
    let (lab, own) = (Lab::start(), OwnCopy::new());
    let before = lab.settings();
    let words = format!(
        "measure --json --purpose functions --interface eth1 --client ssh:lab2 --sut-cpus {sut} --client-cpus {client} \
         --runs 1 --time 200ms --offload none --mtu 1300"
    );
    let foreign = lab.beside("foreign");
    let mut head = fs::read(own.program()).expect("read the program");
    head.truncate(4096);
    // e_machine of the ELF header: EM_AARCH64, which is not this machine's
    head[18] = 183;
    fs::write(&foreign, head).expect("write the file");
    let foreign = format!("--deploy {}", foreign.display());

    for (found, other) in [
        ("no linkrate that can be run", false),
        ("another version of linkrate (protocol version 9, this agent speaks 3)", true),
    ] {
        if other {
            have_another_version(&lab);
        }
        let mut measure = lab.command(&own.program(), &words);
        let measured = Running::start(&mut measure).wait().expect_code(0);
        assert!(measured.json()["cells"][0]["throughput"]["mean"].as_f64().is_some());
        let note = format!("note: ssh:lab2 has {found}: {}", own.program().display());
        assert!(measured.stderr.contains(&note), "{}", measured.stderr);
        expect_no_copy(&lab);

        for (option, said, hint) in [
            ("--no-deploy", "and --no-deploy forbids a copy", "leave out --no-deploy"),
            (&foreign, "/foreign is for aarch64", "name a static linkrate for"),
            ("--deploy /no/such/file", "/no/such/file cannot be copied", "with --deploy"),
            ("--deploy /etc/passwd", "it is not a program", "with --deploy"),
        ] {
            if cfg!(not(target_arch = "x86_64")) && option == foreign {
                continue;
            }
            let mut measure = lab.command(&own.program(), &words);
            let refused = Running::start(measure.args(option.split_whitespace())).wait();
            assert_ne!(refused.code(), Some(0), "{option}");
            let stderr = &refused.stderr;
            let named = format!("ssh:lab2 has {found}");
            for part in [&named, said, "hint: ", hint] {
                assert!(stderr.contains(part), "{option}: {part}\n{stderr}");
            }
            expect_no_copy(&lab);
        }
    }
    // a program that somebody names there is that one or none
    let mut measure = lab.command(&own.program(), &words);
    let named = Running::start(measure.args(["--agent", "/no/such/linkrate"])).wait();
    assert!(named.stderr.contains("program /no/such/linkrate is missing"), "{}", named.stderr);
    own.expect_nothing_left();
    assert_eq!(lab.settings(), before);
}

#[test]
fn a_copy_is_gone_after_the_controller_is_killed() {
    let cpus = needs!(root, "ethtool", "ip", ssh, two_cpus);
    let (lab, own) = (Lab::start(), OwnCopy::new());
    write_study(&lab, &own, cpus, 60);
    let path = lab.beside("two.toml");
    let text = fs::read_to_string(&path).expect("read the study");
    let copied: Vec<&str> = text.lines().filter(|line| !line.starts_with("agent =")).collect();
    fs::write(&path, copied.join("\n")).expect("write the study");
    let before = lab.settings();
    let running = Running::start(study(&lab, &own).process_group(0));
    await_stored(&lab.beside("results").join(RUNS_FILE), 1);
    let copies = of_a_copy(&lab);
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert_eq!(far_files(&lab), Vec::<PathBuf>::new(), "a copy that runs has no name");
    let group = Pid::from_raw(running.pid() as i32).expect("a process id");
    kill_process_group(group, Signal::KILL).expect("signal the group");
    running.wait();
    let put_back = wait_until(PUT_BACK, || lab.settings() == before);
    assert!(put_back, "{:?} instead of {before:?}", lab.settings());
    expect_no_copy(&lab);
    own.expect_nothing_left();
}
