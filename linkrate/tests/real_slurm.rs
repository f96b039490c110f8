//! Nodes of Slurm as clients: Debian's Slurm on network namespaces, with munge and a slurmd a node, and
//! traffic over the addresses of the nodes.

mod common;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::Running;
use common::processes::OwnCopy;
use common::slurm::{Cluster, has_slurm_or_skips};
use common::up::ready;
use common::{has_or_skips, kill, skip};
use common::machines::two_cpus;
use rustix::process::Signal;

/// A run that is long enough to be interrupted.
const LONG: &str = "--runs 1 --time 30s";

/// What these tests need, with the CPUs of each side; all nodes are this machine.
fn needs(test: &str) -> Option<String> {
    if !ready(test, &[]) || !has_or_skips(test, "ip", "iproute2") || !has_slurm_or_skips(test) {
        return None;
    }
    match two_cpus() {
        Some([sut, client]) => Some(format!("--sut-cpu {sut} --client-cpu {client}")),
        None => {
            skip(test, "needs two CPUs, one for each machine");
            None
        }
    }
}

fn own() -> (OwnCopy, PathBuf) {
    let own = OwnCopy::new();
    let program = own.program();
    (own, program)
}

#[test]
fn measures_nodes_of_an_allocation_and_leaves_no_step() {
    let test = "measures_nodes_of_an_allocation_and_leaves_no_step";
    let Some(cpus) = needs(test) else { return };
    let (cluster, (own, program)) = (Cluster::start(), own());
    let runs = "--json --runs 2 --time 200ms --offload none";

    // the controller on the machine where people log in
    let words = format!("measure --interface eth1 --client slurm:n2 {cpus} {runs}");
    let mut salloc = cluster.salloc("--nodes=2 --nodelist=n[2-3]", &program, &words);
    let document = Running::start(&mut salloc).wait().expect_code(0).json();
    let throughput = document["cells"][0]["throughput"]["mean"].as_f64().expect("a throughput");
    assert!(throughput > 1e6, "{throughput}");
    assert_eq!(document["far_ends"], serde_json::json!(["slurm:n2"]));

    // and on the first node of a batch job, with two others as its clients
    let two = "--client slurm:n2 --client slurm:n4,10.77.0.4";
    let words = format!("measure --interface eth1 {two} {cpus} {runs}");
    let options = "--nodes=3 --nodelist=n[1-2,4] --ntasks-per-node=1";
    let document = cluster.sbatch(options, &program, &words).expect_code(0).json();
    assert_eq!(document["far_ends"], serde_json::json!(["slurm:n2", "slurm:n4,10.77.0.4"]));
    assert_eq!(document["facts"]["facts"]["port-1-interface"], "eth1");
    cluster.expect_no_step();
    own.expect_nothing_left();
}
