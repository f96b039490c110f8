//! What this host can measure, how exactly, and how it could be tuned.
//!
//! [`examine`] lists what this host can and cannot measure, each finding with its remedy. It reads
//! the reports of the kernel, and tries only steps that it can undo; it changes nothing on the host.
//! `cpus` examines placement, idle time and load, `kernel` the features of the kernel, `interfaces`
//! the interfaces of this host. A trial testbed shows whether runs are possible.
//!
//! [`tuning`] says which settings cost throughput or CPU time, and prints the commands that change
//! them. [`self_test`] checks the CPU meters against loads of known size.

#![forbid(unsafe_code)]
// used by this workspace alone: a doc says what the name does not
#![allow(missing_docs)]
// printing panics when nobody reads: lines to the user go through linkrate_sys::stderr
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cpus;
mod interfaces;
mod kernel;
pub mod self_test;
pub mod tuning;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use linkrate_lab::testbed::{LabOptions, ReceiveSteering, Testbed};
use linkrate_lab::{LabError, Placement};
use linkrate_model::TestbedSpec;
use linkrate_model::spec::Adapter;
use linkrate_model::units::format_duration;
use linkrate_sys::host::{Privilege, can_isolate};
use serde::Serialize;

/// Name of the finding without which no run is possible.
const TESTBED: &str = "testbed";

/// Name of the finding without which no emulated adapter is possible.
const TUN: &str = "tun";

/// Whether a facility of the host suffices to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nothing is missing.
    Good,
    /// Runs are possible. Some figures are less exact, or some knobs cannot be set.
    Limited,
    /// The facility is missing; runs or options that need it fail.
    Missing,
}

impl State {
    /// The word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }
}

/// One facility of the host, and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The facility, one word that scripts may rely on.
    pub name: &'static str,
    /// Its state.
    pub state: State,
    /// What was found.
    pub detail: String,
    /// The remedy; every finding that is not good has one.
    pub remedy: Option<String>,
}

impl Finding {
    fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, state: State::Good, detail: detail.into(), remedy: None }
    }

    fn limited(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into());
        Self { name, state: State::Limited, detail: detail.into(), remedy }
    }

    fn missing(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { state: State::Missing, ..Self::limited(name, detail, remedy) }
    }
}

/// Examines this host, which takes about a second. `program` is the linkrate program; the hosts of
/// a trial testbed run its `agent` command. If `stop` is set meanwhile, discard the findings.
///
/// Call it from the main thread: hosts end with the thread that built them.
pub fn examine(program: &Path, stop: Arc<AtomicBool>) -> Vec<Finding> {
    let placement = match Placement::choose(&TestbedSpec::default()) {
        Ok(placement) => placement,
        Err(error) => {
            let remedy = "mount /proc and /sys, and allow this process at least one CPU";
            let detail = error.to_string();
            return vec![
                Finding::missing("placement", detail, remedy),
                Finding::missing(TESTBED, "not tried: no CPUs are available", remedy),
            ];
        }
    };
    // before the trial testbed, whose end would count as background load
    let load = cpus::load_findings(&placement, &stop);
    let isolation = isolation();
    let trial = match isolation.state {
        State::Missing => {
            vec![Finding::missing(
                TESTBED,
                "not tried: it needs isolation",
                "see the hint for isolation",
            )]
        }
        State::Good | State::Limited => trial(program, stop, &placement),
    };
    let mut findings = vec![isolation];
    findings.extend(trial);
    findings.push(cpus::placement_finding(&placement));
    findings.extend(cpus::quota());
    findings.push(cpus::idle_time());
    findings.extend(load);
    findings.push(cpus::frequency(&placement));
    findings.extend(kernel::findings());
    findings.push(interfaces::finding());
    findings
}

/// Whether runs are possible, however limited.
pub fn can_measure(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.name == TESTBED && finding.state != State::Missing)
}

/// Whether emulated adapters are among what can be measured.
pub fn can_emulate(findings: &[Finding]) -> bool {
    let is_there = |finding: &Finding| finding.name == TUN && finding.state != State::Missing;
    can_measure(findings) && findings.iter().any(is_there)
}

fn isolation() -> Finding {
    let name = "isolation";
    match can_isolate() {
        Ok(Privilege::Root) => Finding::good(name, "network namespaces, created as root"),
        Ok(Privilege::UserNamespace) => {
            Finding::good(name, "network namespaces, created in an unprivileged user namespace")
        }
        Err(error) => {
            let remedy = error.hint().unwrap_or("run as root").to_owned();
            Finding::missing(name, error.to_string(), remedy)
        }
    }
}

/// Builds a testbed, reports its abilities, and takes it down.
fn trial(program: &Path, stop: Arc<AtomicBool>, placement: &Placement) -> Vec<Finding> {
    let options = LabOptions::new(program.to_owned(), stop);
    let began = Instant::now();
    let steered = match Testbed::build(&TestbedSpec::default(), placement, &options) {
        Ok(testbed) => testbed.receive_steering.clone(),
        Err(error) => return vec![refused(&error)],
    };
    let took = format_duration(began.elapsed());
    let detail = format!("built a system under test and a client on a veth pair in {took}");
    let mut findings = vec![Finding::good(TESTBED, detail), steering(&steered)];
    if let Ok(model) = linkrate_model::model::find("gigabit") {
        let adapter = Adapter::Model(Box::new(model));
        let emulated = TestbedSpec { adapter, ..TestbedSpec::default() };
        // another finding says why there are no emulated adapters
        let testbed = Testbed::build(&emulated, placement, &options).ok();
        findings.extend(testbed.map(|testbed| napi(&testbed.receive_steering)));
    }
    findings
}

/// Whether emulated adapters receive as real ones do.
fn napi(steering: &ReceiveSteering) -> Finding {
    let name = "napi";
    match steering {
        ReceiveSteering::Drivers(why) => Finding::limited(
            name,
            format!(
                "emulated adapters process what they receive in their drivers, without GRO: {why}"
            ),
            "run as root on Linux 5.12 or later, with two CPUs or more",
        ),
        _ => Finding::good(name, "emulated adapters receive in NAPI threads, and have GRO"),
    }
}

fn refused(error: &LabError) -> Finding {
    let remedy = error.hint().unwrap_or_else(|| {
        "run as root on a kernel with veth (`modprobe veth`), and allow at least 64 processes \
         (`ulimit -u`)"
            .to_owned()
    });
    let detail = match error {
        // the summary says "cannot measure"
        LabError::CannotMeasure { what, .. } => what.clone(),
        _ => error.to_string(),
    };
    Finding::missing(TESTBED, detail, remedy)
}

fn steering(steering: &ReceiveSteering) -> Finding {
    let name = "steering";
    match steering {
        ReceiveSteering::Rps => {
            Finding::good(name, "receive processing runs on the CPUs of the receiving host (RPS)")
        }
        ReceiveSteering::Napi
        | ReceiveSteering::Drivers(_)
        | ReceiveSteering::WholeMachines
        | ReceiveSteering::Interrupts => {
            Finding::good(name, "receive processing runs on the CPUs of the receiving host")
        }
        ReceiveSteering::NotNeeded => {
            Finding::good(name, "not needed: all hosts run on the same CPUs")
        }
        ReceiveSteering::Unavailable(reason) => Finding::limited(
            name,
            format!("receive processing runs on the CPU of the sender: {reason}"),
            "run as root to steer it (RPS), or compare only runs without steering",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_measures_when_its_testbed_can_be_built() {
        let good = Finding::good(TESTBED, "");
        let limited = Finding::limited("steering", "", "run as root");
        let missing = Finding::missing("perf", "", "none");
        assert!(can_measure(&[good, limited, missing.clone()]));
        assert!(!can_measure(&[missing]));
        assert!(!can_measure(&[Finding::missing(TESTBED, "", "run as root")]));
    }

    #[test]
    fn emulated_adapters_without_napi_threads_are_limited() {
        assert_eq!(napi(&ReceiveSteering::Napi).state, State::Good);
        let without = napi(&ReceiveSteering::Drivers("no such file".to_owned()));
        assert_eq!(without.state, State::Limited);
        assert!(without.detail.ends_with(": no such file"), "{without:?}");
    }

    #[test]
    fn a_missing_program_is_reported_with_a_remedy() {
        let placement = Placement::choose(&TestbedSpec::default()).unwrap();
        let findings = trial(Path::new("/no/such/linkrate"), Arc::default(), &placement);
        assert_eq!((findings.len(), findings[0].state), (1, State::Missing));
        assert!(findings[0].remedy.is_some());
    }
}
