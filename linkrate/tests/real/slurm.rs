//! Nodes of Slurm as clients: Debian's Slurm on network namespaces, with munge and a slurmd a node, and
//! traffic over the addresses of the nodes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common;
use crate::common::processes::OwnCopy;
use crate::common::slurm::Cluster;
use crate::common::small::{await_stored, stored};
use crate::common::{Finished, Running, command, kill, wait_until};
use linkrate_protocol::{HELLO_NUMBER, Refusal, Reply, write_message};
use linkrate_study::store::{RUNS_FILE, StoredRun};
use rustix::process::Signal;

/// A run that is long enough to be interrupted.
const LONG: &str = "--runs 1 --time 60s";

/// The longest time from the death of a node to the end of a run of 1 s with it: the patience of the
/// controller with an agent that has a window to report, and with an `srun` that should end.
const SILENCE: Duration = Duration::from_secs(3 + 16 + 20 + 6);

/// The CPUs of each side as options; all nodes are this machine.
fn on([sut, client]: [u32; 2]) -> String {
    format!("--sut-cpus {sut} --client-cpus {client}")
}

fn own() -> (OwnCopy, PathBuf) {
    let own = OwnCopy::new();
    let program = own.program();
    (own, program)
}

#[test]
fn measures_nodes_of_an_allocation_and_leaves_no_step() {
    let two_cpus = needs!(root, "ethtool", "ip", slurm, two_cpus);
    let cpus = on(two_cpus);
    let (cluster, (own, program)) = (Cluster::start(), own());
    let runs = "--json --runs 2 --time 200ms --offload none";

    // the controller on the machine where people log in
    let words =
        format!("measure --purpose functions --interface eth1 --client slurm:n2 {cpus} {runs}");
    let mut salloc = cluster.salloc("--nodes=2 --nodelist=n[2-3]", &program, &words);
    // what a user likes to see before each line would be in the protocol
    let salloc = salloc.env("SLURM_LABELIO", "1").env("SLURM_NTASKS_PER_NODE", "4");
    let document = Running::start(salloc).wait().expect_code(0).json();
    let throughput = document["cells"][0]["throughput"]["mean"].as_f64().expect("a throughput");
    assert!(throughput > 1e6, "{throughput}");

    // and on the first node of a batch job, with two others as its clients
    let two = "--client slurm:n2 --client slurm:n4,10.77.0.4";
    let words = format!("measure --purpose functions --interface eth1 {two} {cpus} {runs}");
    let options = "--nodes=3 --nodelist=n[1-2,4] --ntasks-per-node=1";
    let batch = cluster.sbatch(options, &program, &words);
    let document = cluster.end_of_batch(batch).expect_code(0).json();
    assert_eq!(document["facts"]["facts"]["port-1-interface"], "eth1");
    assert_eq!(document["cells"][0]["runs"], 2, "{document}");
    cluster.expect_no_step();
    nodes_of_an_allocation_are_a_fleet(&cluster, &program, two_cpus);
    own.expect_nothing_left();
}

/// Without a list of hosts.
fn nodes_of_an_allocation_are_a_fleet(cluster: &Cluster, program: &Path, [sut, client]: [u32; 2]) {
    let text = format!(
        "title = \"Nodes\"\n[testbed]\nsut-cpus = \"{sut}\"\nclient-cpus = \"{client}\"\n\
         [factors]\nmessage = [\"64 KiB\"]\n[method]\npurpose = \"functions\"\nrun = \"200 ms\"\nwarm-up = \"100 ms\"\nidle = \"0 s\"\n\
         blocks = {{ min = 2, max = 2 }}\n"
    );
    fs::write(cluster.place("nodes.toml"), text).expect("write the study");
    let fleet = format!("run {} --fleet slurm", cluster.place("nodes.toml").display());
    let results = cluster.place("nodes-results");
    let words = format!(
        "{fleet} --fleet-interface eth1 --fleet-pattern ring --output {} --json",
        results.display()
    );
    let mut salloc = cluster.salloc("--nodes=3 --nodelist=n[2-4]", program, &words);
    let run = Running::start(&mut salloc).wait();
    // a short run may be refused for what else the machine does
    let document = run.expect_end().json();
    let nodes = document["fleet"]["nodes"].as_array().expect("nodes");
    let names: Vec<_> = nodes.iter().filter_map(|node| node["name"].as_str()).collect();
    assert_eq!(names, ["n2", "n3", "n4"]);
    cluster.expect_no_step();
    a_study_continues_in_the_next_allocation(cluster, program);
    let words = format!("{} {fleet} --fleet-interface eth1", program.display());
    let alone = Running::start(&mut cluster.login(&words)).wait();
    let parts = ["--fleet slurm needs a job of Slurm", "SLURM_JOB_ID is not set", "salloc"];
    expect_refusal(&words, &alone, &parts);
}

/// A job that ends in mid-study, and the next one, which has another node in place of n4.
fn a_study_continues_in_the_next_allocation(cluster: &Cluster, program: &Path) {
    let results = cluster.place("moved-results");
    let text = fs::read_to_string(cluster.place("nodes.toml")).expect("read the study");
    let text = text.replace("min = 2, max = 2", "min = 6, max = 6");
    fs::write(cluster.place("moved.toml"), text).expect("write the study");
    let words = format!(
        "run {} --fleet slurm --fleet-interface eth1 --fleet-pattern ring --output {}",
        cluster.place("moved.toml").display(),
        results.display()
    );
    let running = Running::start(&mut cluster.salloc("--nodelist=n[2-4]", program, &words));
    await_stored(&results.join(RUNS_FILE), 4);
    cluster.cancel(&cluster.job_on("n3"));
    let cut = running.wait();
    assert_ne!(cut.code(), Some(0));
    let before = stored(&results);
    let failed = before.iter().filter(|run| run.failure().is_some()).count();
    assert!((4..18).contains(&before.len()) && failed < 4, "{} runs: {}", before.len(), cut.stderr);
    cluster.expect_no_step();

    let words = format!("resume {} --json", results.display());
    let mut salloc = cluster.salloc("--nodelist=n[1-3]", program, &words);
    let resumed = Running::start(&mut salloc).wait();
    let note = "note: node n1 takes the place of n4";
    assert!(resumed.stderr.contains(note), "{}", resumed.stderr);
    let document = resumed.expect_end().json();
    common::schema::check("results", &document);
    let nodes = document["fleet"]["nodes"].as_array().expect("nodes");
    let names: Vec<_> = nodes.iter().filter_map(|node| node["name"].as_str()).collect();
    assert_eq!(names, ["n2", "n3", "n4", "n1"]);
    assert_eq!(document["fleet"]["replaced"].as_array().map(Vec::len), Some(1));
    let after = stored(&results);
    assert_eq!(after.len(), 18, "six blocks of three pairs");
    let with = |run: &&StoredRun, node| {
        run.pair.is_some_and(|pair| pair.sender == node || pair.receiver == node)
    };
    let (old, new) = after.split_at(before.len());
    assert!(old.iter().all(|run| !with(&run, 3)) && new.iter().all(|run| !with(&run, 2)));
    assert!(new.iter().any(|run| with(&run, 3) && run.is_good()), "n1 has figures");
    cluster.expect_no_step();
}

#[test]
fn refusals_name_the_node_and_the_remedy() {
    let cpus = on(needs!(root, "ethtool", "ip", slurm, two_cpus));
    let (cluster, (own, program)) = (Cluster::start(), own());
    have_another_version(&own);
    let (other, empty) = (own.beside("other"), own.beside("empty"));
    fs::create_dir(&empty).expect("make a directory");
    let on = format!(
        "measure --purpose functions --runs 1 --time 100ms --interface eth1 {cpus} --client"
    );
    let other = other.display();
    for (words, parts) in [
        ("slurm:n4", ["slurm:n4 is not a node of job", "which has n[2-3]", "--nodelist of salloc"]),
        (
            "slurm:n2 --agent /no/such/linkrate",
            ["slurm:n2: program /no/such/linkrate is missing", "", "--agent"],
        ),
        (
            &format!("slurm:n2 --agent {other}"),
            ["slurm:n2: protocol version 9, this agent speaks 3", "", ""],
        ),
        (
            "slurm:n2 --slurm-options --gres=gpu:1",
            ["slurm:n2: srun: ", "slurm:n2: srun started no step", "try: srun '--gres=gpu:1'"],
        ),
    ] {
        let words = format!("{on} {words}");
        let mut salloc = cluster.salloc("--nodelist=n[2-3]", &program, &words);
        expect_refusal(&words, &Running::start(&mut salloc).wait(), &parts);
    }
    let alone = format!("{} {on}", program.display());
    for (words, parts) in [
        (
            format!("{alone} slurm:n2"),
            ["slurm:n2 needs a job of Slurm", "SLURM_JOB_ID is not set", "--slurm-options"],
        ),
        (
            format!("{alone} slurm:n2 --slurm-options --partition=slow"),
            [
                "invalid partition",
                "slurm:n2: srun started no step",
                "srun '--partition=slow' --nodes=1",
            ],
        ),
        (
            format!("{alone} slurm:n9 --slurm-options --time=1"),
            ["slurm:n9: srun: error: ", "slurm:n9: srun started no step", ""],
        ),
        (
            format!(
                "env PATH={0} SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n2 {alone} slurm:n2",
                empty.display()
            ),
            ["the nodes of job 7", "scontrol: ", "install the package slurm-client"],
        ),
        (
            format!("env PATH={0} {alone} slurm:n2 --slurm-options --time=1", empty.display()),
            ["slurm:n2: start host", "srun", "install the package slurm-client"],
        ),
    ] {
        expect_refusal(&words, &Running::start(&mut cluster.login(&words)).wait(), &parts);
    }
    cluster.expect_no_step();
    own.expect_nothing_left();
}

/// A program `other` that refuses whatever it is told, as an agent of another version does.
fn have_another_version(own: &OwnCopy) {
    let reason = "protocol version 9, this agent speaks 3".to_owned();
    let mut bytes = Vec::new();
    let refusal = Reply::Refused(Refusal { reason, hint: None });
    write_message(&mut bytes, HELLO_NUMBER, &refusal).expect("write to memory");
    fs::write(own.beside("refusal"), bytes).expect("write the refusal");
    let script = format!("#!/bin/sh\ncat '{}'\ncat >&2\n", own.beside("refusal").display());
    fs::write(own.beside("other"), script).expect("write the program");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(own.beside("other"), mode).expect("its mode");
}

#[track_caller]
fn expect_refusal(words: &str, finished: &Finished, parts: &[&str]) {
    assert_ne!(finished.code(), Some(0), "{words}");
    for part in ["error: ", "hint: "].iter().chain(parts) {
        let is_optional = *part == "hint: " && parts.last() == Some(&"");
        let stderr = &finished.stderr;
        assert!(is_optional || stderr.contains(part), "{words}: {part}\n{stderr}");
    }
}

#[test]
fn without_an_allocation_each_agent_is_a_job_and_brings_its_program() {
    let cpus = on(needs!(root, "ethtool", "ip", "strip", slurm, two_cpus));
    let (cluster, (own, program)) = (Cluster::start(), own());
    let small = cluster.place("linkrate-for-nodes");
    let mut strip = command("strip", "--strip-all -o");
    Running::start(strip.arg(&small).arg(&program)).wait().expect_code(0);
    // the file system of this node is its own
    cluster.hide(&program, "n3");
    let words = format!(
        "{} measure --json --purpose functions --interface eth1 --client slurm:n2 --client slurm:n3 {cpus} --runs 1 \
         --time 200ms --offload none --deploy {} --slurm-options",
        program.display(),
        small.display(),
    );
    let mut measure = cluster.login(&words);
    let finished = Running::start(measure.arg("--time=2 -J nic")).wait();
    let finished = finished.expect_code(0);
    let throughput = finished.json()["cells"][0]["throughput"]["mean"].as_f64();
    assert!(throughput.is_some_and(|throughput| throughput > 1e6), "{throughput:?}");
    let note = format!("note: slurm:n3 has no linkrate that can be run: {}", small.display());
    assert!(finished.stderr.contains(&note), "{}", finished.stderr);
    cluster.expect_no_step();
    own.expect_nothing_left();
}

#[test]
#[ignore = "exhaustive: two minutes"]
fn nodes_and_controllers_that_die_leave_nothing() {
    let cpus = on(needs!(root, "ethtool", "ip", slurm, two_cpus));
    let (cluster, (own, program), (dying, victim)) = (Cluster::start(), own(), own());

    // all processes of a node end at once: nothing tells so but its silence
    let words = format!(
        "measure --purpose functions --interface eth1 --client slurm:n2 {cpus} --runs 1 --warm-up 1s --time 1s"
    );
    let batch = cluster.sbatch("--nodes=2 --nodelist=n[1-2]", &victim, &words);
    dying.await_traffic(2);
    let killed = Instant::now();
    cluster.kill_node("n2");

    // the job continues without its controller: the end of the steps is not the end of the job
    let words = format!(
        "measure --purpose functions --interface eth1 --client slurm:n3 --client slurm:n4 {cpus} {LONG}"
    );
    let script = format!("{} {words}; sleep 60", program.display());
    let mut salloc = cluster.login("salloc --quiet --nodes=2 --nodelist=n[3-4] sh -c");
    let running = Running::start(salloc.arg(&script));
    let agents = own.await_traffic(3);
    let is_controller = |words: &[String]| words.get(1).is_some_and(|word| word == "measure");
    let controllers = own.processes().into_iter().filter(|(_, words)| is_controller(words));
    let controllers: Vec<u32> = controllers.map(|(pid, _)| pid).collect();
    assert_eq!((controllers.len(), agents.len()), (1, 3));
    let job = cluster.job_on("n3");
    kill(controllers[0], Signal::KILL);
    own.expect_nothing_left();
    let no_step = || !cluster.steps_and_jobs().0.contains(&format!("{job}."));
    assert!(wait_until(Duration::from_secs(10), no_step), "{:?}", cluster.steps_and_jobs());
    assert_eq!(cluster.job_on("n3"), job, "the job is there");
    cluster.cancel(&job);
    running.wait();

    // an agent that is killed is known at once
    let running =
        Running::start(&mut cluster.salloc("--nodes=2 --nodelist=n[3-4]", &program, &words));
    let agent = own.await_traffic(3)[1];
    kill(agent, Signal::KILL);
    // the end of the job is Slurm's, which may take its time
    let have_ended = wait_until(Duration::from_secs(50), || own.processes().is_empty());
    assert!(have_ended, "{:?}", own.processes());
    let finished = running.wait();
    assert!(finished.stderr.contains("agent of slurm:n3: died"), "{}", finished.stderr);
    own.expect_nothing_left();

    // a job that ends in the middle ends the agents, which restore what they have changed
    let before = cluster.settings("n3");
    let changes = format!("{words} --mtu 1300");
    let running =
        Running::start(&mut cluster.salloc("--nodes=2 --nodelist=n[3-4]", &program, &changes));
    own.await_traffic(3);
    assert_ne!(cluster.settings("n3"), before);
    cluster.cancel(&cluster.job_on("n3"));
    assert_ne!(running.wait().code(), Some(0));
    own.expect_nothing_left();
    assert_eq!(cluster.settings("n3"), before);

    // Slurm keeps the job for the node, and the script that has ended is all that tells
    let said = || fs::read_to_string(cluster.place("job.err")).unwrap_or_default();
    dying.await_end(SILENCE.saturating_sub(killed.elapsed()));
    assert!(said().contains("agent of slurm:n2: no answer within"), "{}", said());
    drop(batch);
}
