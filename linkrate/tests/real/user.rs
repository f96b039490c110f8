//! An ordinary user measures through a user namespace, is told what that cannot give, and leaves
//! nothing behind.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

use crate::common::needs::program;
use crate::common::small::{CELLS, SmallStudy, planned, slots, stored};
use crate::common::{LINKRATE, Running, command, skip};
use rustix::process::{Signal, geteuid};
use serde_json::Value;

/// Nobody's ids.
const USER: u32 = 65534;

/// A command line as an ordinary user: as this one, or from root as nobody.
fn as_user(program: impl AsRef<OsStr>, words: &str) -> Command {
    if !geteuid().is_root() {
        return command(program.as_ref(), words);
    }
    let ids = format!("--reuid {USER} --regid {USER} --clear-groups");
    let mut as_user = command("setpriv", &ids);
    as_user.arg(program).args(words.split_whitespace());
    as_user
}

/// Whether an ordinary user may have namespaces here.
pub fn namespaces_of_users() -> Result<(), String> {
    if geteuid().is_root() {
        program("setpriv")?;
    }
    match as_user("unshare", "--user --map-root-user --net --mount true").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            Err(format!("users may have no namespaces here ({said}); see linkrate doctor"))
        }
        Err(error) => Err(format!("unshare: {error}; apt-get install util-linux")),
    }
}

/// The sentences and facts that tell a user's figures from root's.
#[track_caller]
fn check_facts(document: &Value) {
    let facts = &document["facts"];
    let fact = |name: &str| facts["facts"][name].as_str().unwrap_or_else(|| panic!("{facts}"));
    assert_eq!(fact("idle-time"), "/proc/stat");
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("/proc/stat in steps of 10 ms"), "{warnings}");
    let warnings = facts["warnings"].to_string();
    if fact("sut-cpus") != fact("client-cpus") {
        assert_eq!(fact("receive-processing"), "not steered: on the CPU of the sender");
        assert!(
            warnings.contains("could not be steered to the CPUs of the receiving host"),
            "{warnings}"
        );
    }
}

#[test]
fn a_user_measures_through_a_user_namespace() {
    or_skip!(namespaces_of_users());
    let study = SmallStudy::new();
    for options in ["", "--clients 2 --connections 2", "--offload none --mtu 9000 --gro off"] {
        let words = format!(
            "measure --json --purpose functions --runs 1 --time 300ms --warm-up 100ms --adapter veth {options}"
        );
        let running = Running::start(&mut as_user(study.own.program(), &words));
        let document = running.wait().expect_code(0).json();
        check_facts(&document);
        let cell = &document["cells"][0];
        assert_eq!((&cell["runs"], &cell["failed"]), (&1.into(), &0.into()), "{options}");
        assert!(cell["throughput"]["mean"].as_f64().is_some_and(|mean| mean > 0.0), "{cell}");
        assert_eq!(cell["evidence"]["idle_source"], "proc-stat");
        study.own.expect_nothing_left();
    }
}

#[test]
fn a_user_measures_over_a_virtual_adapter() {
    or_skip!(namespaces_of_users());
    let readable = as_user("test", "-r /dev/net/tun -a -w /dev/net/tun").status();
    if !readable.is_ok_and(|status| status.success()) {
        return skip("users may not open /dev/net/tun here; chmod a+rw /dev/net/tun allows it");
    }
    let study = SmallStudy::new();
    let words = "measure --json --purpose functions --runs 1 --time 300ms --warm-up 100ms --adapter gigabit \
                 --offload tso --clients-per-port 2";
    let running = Running::start(&mut as_user(study.own.program(), words));
    let document = running.wait().expect_code(0).json();
    let cell = &document["cells"][0];
    assert_eq!((&cell["runs"], &cell["failed"]), (&1.into(), &0.into()), "{document}");
    let adapter = &cell["evidence"]["adapter"];
    assert!(adapter["segments_per_superframe"].as_f64().is_some_and(|n| n > 5.0), "{adapter}");
    let facts = &document["facts"]["facts"];
    if facts["sut-cpus"] != facts["client-cpus"] {
        let said = "in the driver threads, on the CPUs of the receiving host: threads of the kernel may not be placed \
                    here, which takes root of the machine";
        assert_eq!(facts["receive-processing"], said);
    }
    study.own.expect_nothing_left();
}

/// Root of a machine whose kernel does not say which threads began, as an old one or that of a container.
#[test]
fn without_napi_threads_the_reason_is_a_fact() {
    needs!(root);
    let words = "measure --json --purpose functions --runs 1 --time 300ms --warm-up 100ms --adapter gigabit";
    let with = |knobs: &str| {
        let mut hidden = command("unshare", "--mount sh -c");
        let run = format!(
            "mount --bind /dev/null /proc/loadavg && exec {LINKRATE} {words} --ports 2 {knobs}"
        );
        Running::start(hidden.arg(run)).wait()
    };
    let document = with("").expect_code(0).json();
    let facts = &document["facts"]["facts"];
    if facts["sut-cpus"] == facts["client-cpus"] {
        return skip("the system under test shares its CPUs");
    }
    let fact = facts["receive-processing"].as_str().expect("a fact");
    let said = "in the driver threads, on the CPUs of the receiving host: find NAPI threads of";
    assert!(fact.starts_with(said) && fact.contains("/proc/loadavg"), "{fact}");
    let cell = &document["cells"][0];
    assert_eq!((&cell["runs"], &cell["failed"]), (&1.into(), &0.into()), "{document}");
    for knob in ["--gro on", "--napi-defer-hard-irqs 2"] {
        let refused = with(knob).expect_code(4).json().to_string();
        assert!(refused.contains("it has no effect on these virtual adapters"), "{refused}");
    }
}

#[test]
fn finds_the_processes_of_a_user() {
    or_skip!(namespaces_of_users());
    let study = SmallStudy::new();
    let words = "measure --purpose functions --adapter veth --json --runs 20 --time 300ms";
    let running = Running::start(&mut as_user(study.own.program(), words));
    let expected = if geteuid().is_root() { USER } else { geteuid().as_raw() };
    for agent in study.own.await_traffic(2) {
        let status = fs::read_to_string(format!("/proc/{agent}/status")).expect("read its status");
        let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("its ids");
        assert!(ids.split_whitespace().all(|id| id == expected.to_string()), "{ids}");
    }
    running.signal(Signal::KILL);
    assert_eq!(running.wait().signal(), Some(9));
    study.own.expect_nothing_left();
}

#[test]
fn a_user_runs_a_study_and_resumes_it() {
    or_skip!(namespaces_of_users());
    let study = SmallStudy::new();
    let home = study.own.beside("home");
    fs::create_dir(&home).expect("make a directory");
    if geteuid().is_root() {
        chown(&home, Some(USER), Some(USER)).expect("give the directory away");
    }
    let results = home.join("results");
    let mut run = as_user(study.own.program(), "run --json --output");
    let running = Running::start(run.arg(&results).arg(study.file()));
    study.own.await_traffic(2);
    running.signal(Signal::INT);
    let interrupted = running.wait().expect_code(130).json();
    assert_eq!(interrupted["complete"], false);
    study.own.expect_nothing_left();
    let mut resume = as_user(study.own.program(), "resume --json");
    let document = Running::start(resume.arg(&results)).wait().expect_code(0).json();
    check_facts(&document);
    assert_eq!(document["complete"], true);
    assert_eq!(document["cells"].as_array().expect("cells").len(), CELLS);
    assert_eq!(slots(&stored(&results)), planned(&results));
    study.own.expect_nothing_left();
}
