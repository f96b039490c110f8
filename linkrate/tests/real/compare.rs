//! Result sets of live traffic, compared: two honest ones, and one with a load on the SUT's CPU
//! that linkrate was not told of.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::common::processes::OwnCopy;
use crate::common::{Finished, Running, command, schema};
use linkrate_model::CpuSet;
use linkrate_sys::host_settings;
use linkrate_sys::tree::Tree;
use rustix::thread::{CpuSet as Mask, sched_setaffinity};
use serde_json::Value;

/// Two cells in five blocks: some five seconds.
const STUDY: &str = r#"title = "Two rungs"
[testbed]
adapter = "veth"
[factors]
offload = ["none", "tso"]
[method]
run = "300 ms"
warm-up = "100 ms"
idle = "100 ms"
blocks = { min = 5, max = 5 }
"#;

/// More than a quiet machine does from one minute to the next.
const MINIMUM: &str = "30 %";

struct Sets(OwnCopy);

impl Sets {
    fn new() -> Self {
        let own = OwnCopy::new();
        fs::write(own.beside("two.toml"), STUDY).expect("write the study file");
        Self(own)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.beside(name)
    }

    /// Measures a set, which must end with one of these exit codes.
    #[track_caller]
    fn measure(&self, name: &str, codes: &[i32]) -> Value {
        let mut run = command(self.0.program(), "run --json --output");
        run.arg(self.path(name)).arg(self.path("two.toml"));
        let finished = Running::start(&mut run).wait();
        assert!(finished.code().is_some_and(|code| codes.contains(&code)), "{}", finished.stderr);
        let document = finished.json();
        schema::check("results", &document);
        document
    }

    fn compare(&self, baseline: &str, candidate: &str) -> Finished {
        let mut compare = command(self.0.program(), "compare --json --minimum-effect");
        compare.arg(MINIMUM).arg(self.path(baseline)).arg(self.path(candidate));
        Running::start(&mut compare).wait()
    }
}

/// A thread that does nothing but keep a CPU busy.
struct Hog {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    fn on(cpus: &CpuSet) -> Self {
        let mut mask = Mask::new();
        cpus.iter().for_each(|cpu| mask.set(cpu as usize));
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            sched_setaffinity(None, &mask).expect("the SUT's CPUs are there");
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // it has nothing to say
            let _ = thread.join();
        }
    }
}

/// What sets of results are refused for when it differs is recorded with each.
#[track_caller]
fn records_the_settings_of_this_host(facts: &Value) {
    let host = Tree::of_this_host();
    for (name, value) in host_settings::of_host(&host) {
        assert_eq!(facts["facts"][&name], value, "{name}");
    }
    // those of the machine, and those of the namespace of the system under test
    for name in ["net.core.busy_poll", "net.ipv4.tcp_rmem"] {
        assert!(facts["sysctls"][name].is_string(), "{name}: {facts}");
    }
}

#[test]
#[ignore = "exhaustive: half a minute alone on the machine"]
fn equal_sets_show_no_regression_and_a_hidden_load_is_one() {
    needs!(root);
    let sets = Sets::new();
    let document = sets.measure("first", &[0]);
    sets.measure("second", &[0]);
    records_the_settings_of_this_host(&document["facts"]);
    let cpus = document["facts"]["facts"]["sut-cpus"].as_str().expect("a fact").parse();
    let hog = Hog::on(&cpus.expect("a list of CPUs"));
    // runs that are seen to be spoilt are refused; what is not seen makes them dearer
    sets.measure("loaded", &[0, 4]);
    drop(hog);

    let alike = sets.compare("first", "second").expect_code(0).json();
    schema::check("comparison", &alike);
    assert_eq!((&alike["regressions"], &alike["differences"]), (&0.into(), &Value::Array(vec![])));

    // a load that is seen in each run leaves nothing to compare
    let loaded = sets.compare("first", "loaded");
    if loaded.code() == Some(2) {
        let said = ["nothing can be compared", "no row is judged"];
        assert!(said.iter().any(|said| loaded.stderr.contains(said)), "{}", loaded.stderr);
        return sets.0.expect_nothing_left();
    }
    let worse = loaded.expect_code(5).json();
    schema::check("comparison", &worse);
    let cells = worse["cells"].as_array().expect("cells").iter().map(|cell| &cell["rows"]);
    let mut demands = cells
        .chain([&worse["overall"]])
        .flat_map(|rows| rows.as_array().expect("rows"))
        .filter(|row| row["measure"] == "service_demand");
    assert!(demands.any(|row| row["verdict"] == "worse" || row["verdict"] == "lost"), "{worse:#}");
    sets.0.expect_nothing_left();
}
