//! A study over many hosts: nodes are network namespaces on one bridge, reached by OpenSSH's own `ssh`
//! from a controller that is on the same bridge.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::common;
use crate::common::fleet::Cluster;
use crate::common::processes::OwnCopy;
use crate::common::small::{await_stored, stored};
use crate::common::{Finished, RUNS_FAILED, Running, wait_until};
use linkrate_study::fleet::two_way::MIN_BLOCKS;
use linkrate_study::store::RUNS_FILE;
use linkrate_sys::host_settings;
use linkrate_sys::tree::Tree;
use rustix::process::Signal;
use serde_json::Value;

/// Writes a study of short runs.
fn study(
    cluster: &Cluster,
    own: &OwnCopy,
    cpus: [u32; 2],
    fleet: &str,
    blocks: u32,
    messages: &str,
) -> PathBuf {
    let text = format!(
        "title = \"A fleet\"\n\
         [fleet]\nagent = \"{}\"\n{fleet}\n\
         [testbed]\nsut-cpus = \"{}\"\nclient-cpus = \"{}\"\n\
         [factors]\nmessage = [{messages}]\n\
         [method]\nrun = \"500 ms\"\nwarm-up = \"100 ms\"\nidle = \"0 s\"\nminimum-effect = \"20 %\"\npurpose = \"functions\"\n\
         blocks = {{ min = {blocks}, max = {blocks} }}\n",
        own.program().display(),
        cpus[0],
        cpus[1]
    );
    fs::write(cluster.beside("fleet.toml"), text).expect("write the study");
    cluster.beside("fleet.toml")
}

fn words(cluster: &Cluster, study: &std::path::Path) -> String {
    let (list, results) = (cluster.list(), cluster.beside("results"));
    format!("run {} --fleet {} --output {}", study.display(), list.display(), results.display())
}

#[test]
fn a_ring_of_four_nodes_is_measured_and_shown() {
    let cpus = needs!(root, "ip", "tc", ssh, two_cpus);
    let (cluster, own) = (Cluster::start(4), OwnCopy::new());
    let file = study(&cluster, &own, cpus, "pattern = \"ring\"\nat-once = 1", 2, "\"64 KiB\"");
    let words = words(&cluster, &file);
    let run = Running::start(&mut cluster.command(&own.program(), &words)).wait().expect_code(0);
    own.expect_nothing_left();
    let text = run.stdout;
    assert!(text.contains("Throughput of each pair"), "{text}");
    let runs = stored(&cluster.beside("results"));
    assert_eq!(runs.len(), 8, "a cell, four pairs, two blocks");
    for block in 0..2 {
        let of_block = runs.iter().filter(|run| run.block / 4 == block);
        let pairs: BTreeSet<_> =
            of_block.filter_map(|run| run.pair.map(|pair| (pair.sender, pair.receiver))).collect();
        assert_eq!(pairs, BTreeSet::from([(0, 1), (1, 2), (2, 3), (3, 0)]));
    }
    assert!(runs.iter().all(|run| run.measurement().is_some()), "{text}");
    settings_of_all_nodes_are_reported(&cluster);
    all_others_send_to_one_node(&cluster, &own, cpus);
}

/// What a node behind `ssh` says of its CPUs and kernel is what the kernel that all nodes share says here.
fn settings_of_all_nodes_are_reported(cluster: &Cluster) {
    let here = host_settings::of_host(&Tree::of_this_host());
    let nodes = fs::read_to_string(cluster.beside("results/results.json")).expect("results");
    let nodes: Value = serde_json::from_str(&nodes).expect("JSON");
    let nodes = nodes["fleet"]["nodes"].as_array().expect("nodes");
    assert!(nodes.len() == 4 && here.contains_key("kernel-command-line"), "{here:?}");
    for node in nodes {
        for (name, value) in &here {
            assert_eq!(node["facts"][name], **value, "{name}: {node}");
        }
    }
}

/// Runs an incast of all nodes, with more `options`, into `incast` beside the list of nodes.
fn incast(cluster: &Cluster, own: &OwnCopy, cpus: [u32; 2], options: &str) -> Finished {
    let file = study(cluster, own, cpus, "pattern = \"ring\"", 2, "\"64 KiB\"");
    let words = format!(
        "run {} --fleet {} --fleet-pattern incast --output {} {options}",
        file.display(),
        cluster.list().display(),
        cluster.beside("incast").display()
    );
    let run = Running::start(&mut cluster.command(&own.program(), words.trim_end())).wait();
    own.expect_nothing_left();
    run
}

/// An incast on the same nodes: three senders at once, whose shares add up to what the node receives.
fn all_others_send_to_one_node(cluster: &Cluster, own: &OwnCopy, cpus: [u32; 2]) {
    let run = incast(cluster, own, cpus, "--json");
    let document = run.expect_end().json();
    common::schema::check("results", &document);
    let cell = &document["fleet"]["cells"][0];
    let hubs = cell["hubs"].as_array().expect("nodes in the middle");
    assert_eq!((hubs.len(), cell["pairs"].as_array().map(Vec::len)), (4, Some(12)), "{cell}");
    let mut measured = 0;
    for hub in hubs {
        let Some(sum) = hub["rate"]["mean"].as_f64() else { continue };
        let pairs = cell["pairs"].as_array().expect("pairs").iter();
        let its = pairs.filter(|pair| pair["receiver"] == hub["node"]);
        let parts: Vec<f64> = its.filter_map(|pair| pair["rate"]["mean"].as_f64()).collect();
        let together: f64 = parts.iter().sum();
        assert_eq!(parts.len(), 3, "{cell}");
        assert!((0.8..1.25).contains(&(together / sum)), "{parts:?} of {sum}");
        measured += 1;
    }
    assert!(measured >= 3, "{measured} of 4 turns have figures: {}", run.stderr);
}

/// Each node has a slow link in turn, and none has, many times.
#[test]
#[ignore = "exhaustive: forty studies"]
fn a_slow_node_is_named_in_twenty_tries_and_no_node_in_twenty_without() {
    const TRIES: usize = 20;
    let cpus = needs!(root, "ip", "tc", ssh, two_cpus);
    let (cluster, own) = (Cluster::start(4), OwnCopy::new());
    let mut wrong = Vec::new();
    for number in 0..TRIES {
        for slow in [Some(number % cluster.nodes.len()), None] {
            let reported = a_try(&cluster, &own, cpus, slow);
            println!("try {number}, slow: {slow:?}: {reported:?}");
            wrong.extend(reported.err().map(|reported| (number, slow, reported)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Runs a study in which one node has a slow link, or none has; says what is wrong with its findings.
fn a_try(
    cluster: &Cluster,
    own: &OwnCopy,
    cpus: [u32; 2],
    slow: Option<usize>,
) -> Result<(), String> {
    for node in 0..cluster.nodes.len() {
        cluster.limit(node, if slow == Some(node) { "50mbit" } else { "200mbit" });
    }
    let fleet = "pattern = \"all-pairs\"\nat-once = 2";
    // a run that is refused takes its pair out of a block
    let file = study(cluster, own, cpus, fleet, MIN_BLOCKS + 2, "\"64 KiB\"");
    let text = fs::read_to_string(&file).expect("the study");
    fs::write(&file, text.replace("\"functions\"", "\"rates\"")).expect("write the study");
    let words = format!("{} --json", words(cluster, &file));
    let run = Running::start(&mut cluster.command(&own.program(), &words)).wait();
    own.expect_nothing_left();
    let runs = stored(&cluster.beside("results"));
    let refused: Vec<_> = runs
        .iter()
        .filter_map(|run| Some((run.block, run.pair?, &run.failure()?.reason)))
        .collect();
    fs::remove_dir_all(cluster.beside("results")).expect("remove the results");
    // nodes share this machine, so a run may be refused because other programs used its CPUs
    let document = run.expect_end().json();
    common::schema::check("results", &document);
    let cell = &document["fleet"]["cells"][0];
    assert_eq!(cell["pairs"].as_array().map(Vec::len), Some(12), "{cell}");
    let named = cell["named"].as_array().expect("what stands out");
    let is_node = |named: &Value, slow: usize| {
        (&named["subject"]["kind"], &named["subject"]["node"]) == (&"node".into(), &slow.into())
    };
    let ratio = |named: &Value| named["ratio"]["mean"].as_f64().unwrap_or(f64::NAN);
    match (slow, named.as_slice()) {
        (None, []) => Ok(()),
        (Some(slow), [only]) if is_node(only, slow) && (0.15..0.4).contains(&ratio(only)) => Ok(()),
        _ => Err(format!("{named:?}, runs without figures: {refused:#?}")),
    }
}

#[test]
#[ignore = "exhaustive: waits for a minute and a half"]
fn a_node_that_is_gone_costs_its_own_pairs() {
    let cpus = needs!(root, "ip", "tc", ssh, two_cpus);
    let (cluster, own) = (Cluster::start(4), OwnCopy::new());
    cluster.unplug(3);
    let file = study(&cluster, &own, cpus, "pattern = \"ring\"\nat-once = 2", 2, "\"64 KiB\"");
    let mut command = cluster.command(&own.program(), &words(&cluster, &file));
    let run = Running::start(&mut command).wait();
    own.expect_nothing_left();
    assert!(run.stderr.contains("warning: node n3 cannot be reached"), "{}", run.stderr);
    assert_eq!(run.code(), Some(RUNS_FAILED), "{}", run.stderr);
    let runs = stored(&cluster.beside("results"));
    assert_eq!(runs.len(), 8);
    let (its, others): (Vec<_>, Vec<_>) = runs
        .iter()
        .partition(|run| run.pair.is_some_and(|pair| pair.sender == 3 || pair.receiver == 3));
    let reasons: Vec<&str> =
        its.iter().filter_map(|run| Some(run.failure()?.reason.as_str())).collect();
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    let skipped = reasons.iter().filter(|reason| reason.contains("node n3 is lost")).count();
    assert!(skipped >= 3, "only the pairs of one round wait for it: {reasons:?}");
    let good = others.iter().filter(|run| run.is_good()).count();
    assert_eq!(good, 4, "runs of other nodes have figures");
    the_others_send_without_it(&cluster, &own, cpus);
}

/// An incast on the same nodes, of which one is still gone.
fn the_others_send_without_it(cluster: &Cluster, own: &OwnCopy, cpus: [u32; 2]) {
    let run = incast(cluster, own, cpus, "");
    assert_eq!(run.code(), Some(RUNS_FAILED), "{}", run.stderr);
    assert!(run.stdout.contains("n3 was absent from "), "{}", run.stdout);
    let runs = stored(&cluster.beside("incast"));
    assert_eq!(runs.len(), 8);
    let (good, failed): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run.is_good());
    // two turns around the node that is gone, and the one that found it gone
    assert!((2..=3).contains(&failed.len()), "{:?}", failed);
    for run in good {
        let parts = &run.measurement().expect("figures").evidence.clients;
        assert_eq!((run.missing_nodes.as_slice(), parts.len()), (&[3][..], 2));
    }
}

#[test]
#[ignore = "exhaustive: waits for a minute and a half"]
fn a_node_that_hangs_in_a_run_costs_its_own_pairs() {
    let cpus = needs!(root, "ip", "tc", ssh, two_cpus);
    let (cluster, own) = (Cluster::start(4), OwnCopy::new());
    let file = study(&cluster, &own, cpus, "pattern = \"ring\"\nat-once = 2", 2, "\"64 KiB\"");
    // long enough that a busy machine sees the first one
    let text = fs::read_to_string(&file).expect("the study");
    fs::write(&file, text.replace("run = \"200 ms\"", "run = \"1 s\"")).expect("write the study");
    let mut command = cluster.command(&own.program(), &words(&cluster, &file));
    let running = Running::start(&mut command);
    // agents of two pairs are there, and one of them is on the node
    assert!(wait_until(Duration::from_secs(20), || own.agents().len() >= 4));
    cluster.unplug(3);
    let run = running.wait();
    assert_eq!(run.code(), Some(RUNS_FAILED), "{}", run.stderr);
    own.expect_nothing_left();
    let runs = stored(&cluster.beside("results"));
    assert_eq!(runs.len(), 8);
    let mut its_failed = 0;
    for run in &runs {
        let pair = run.pair.expect("a pair");
        let its = pair.sender == 3 || pair.receiver == 3;
        if let Some(failure) = run.failure() {
            assert!(its, "{pair:?}: {failure}");
            its_failed += 1;
        }
    }
    // the run in flight may have ended a moment before
    assert!(its_failed >= 3, "{its_failed} of 4 runs of the node that hangs have failed");
}

#[test]
fn a_study_that_was_killed_continues() {
    let cpus = needs!(root, "ip", "tc", ssh, two_cpus);
    let (cluster, own) = (Cluster::start(4), OwnCopy::new());
    let file = study(&cluster, &own, cpus, "pattern = \"ring\"\nat-once = 2", 2, "\"64 KiB\"");
    let mut command = cluster.command(&own.program(), &words(&cluster, &file));
    let running = Running::start(&mut command);
    await_stored(&cluster.beside("results").join(RUNS_FILE), 2);
    running.signal(Signal::KILL);
    running.wait();
    own.expect_nothing_left();
    let before = stored(&cluster.beside("results")).len();
    let resume = format!("resume {}", cluster.beside("results").display());
    Running::start(&mut cluster.command(&own.program(), &resume)).wait().expect_end();
    own.expect_nothing_left();
    let runs = stored(&cluster.beside("results"));
    assert!(before < 8 && runs.len() == 8, "{before} runs, then {}", runs.len());
    let pairs: BTreeSet<_> =
        runs.iter().filter_map(|run| run.pair.map(|pair| (run.block / 4, pair.sender))).collect();
    assert_eq!(pairs.len(), 8, "each pair once in each block");
}
