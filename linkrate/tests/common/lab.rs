//! A lab of the library's own, for tests that look into its namespaces.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linkrate_lab::{Lab, LabOptions};
use linkrate_model::{InterfaceKnobs, Measurement, RunSpec, Task, TestbedSpec, Workload};
use linkrate_study::executor::{Executor, RunFailure};
use linkrate_study::study::Purpose;

use super::LINKRATE;

/// The end of client 0's wire in the system under test.
pub const SUT_INTERFACE: &str = "eth0";
/// The other end.
pub const CLIENT_INTERFACE: &str = "eth0";

/// One client, wired with two queues. `congestion` is for third-party programs.
#[track_caller]
pub fn lab(congestion: Option<&str>) -> Lab {
    lab_of(&TestbedSpec { queues: 2, ..TestbedSpec::default() }, congestion)
}

/// What `spec` asks for. Its runs are for functions, so other tests may run beside them.
#[track_caller]
pub fn lab_of(spec: &TestbedSpec, congestion: Option<&str>) -> Lab {
    lab_for(Purpose::Functions, spec, congestion)
}

/// The same for runs of that purpose.
#[track_caller]
pub fn lab_for(purpose: Purpose, spec: &TestbedSpec, congestion: Option<&str>) -> Lab {
    Lab::build(spec, options_for(purpose, congestion)).unwrap_or_else(|error| panic!("{error}"))
}

/// Options of a lab for runs of that purpose.
pub fn options_for(purpose: Purpose, congestion: Option<&str>) -> LabOptions {
    LabOptions {
        route_congestion: congestion.map(str::to_owned),
        purpose,
        ..LabOptions::new(PathBuf::from(LINKRATE), Arc::new(AtomicBool::new(false)))
    }
}

/// A run that nothing from outside has spoiled: what other programs disturb is measured again, ten times at most.
pub fn undisturbed(lab: &mut Lab, spec: &RunSpec) -> Result<Measurement, RunFailure> {
    let mut left = 10;
    loop {
        left -= 1;
        match lab.run(spec) {
            Err(failure) if failure.disturbed && left > 0 => {}
            ended => return ended,
        }
    }
}

/// The same, and a failure ends the test.
#[track_caller]
pub fn run_undisturbed(lab: &mut Lab, spec: &RunSpec) -> Measurement {
    undisturbed(lab, spec).unwrap_or_else(|failure| panic!("{failure}"))
}

/// A run of `task` with everything else as it comes.
pub fn run_spec(task: Task, interface: InterfaceKnobs, window: Duration) -> RunSpec {
    RunSpec { interface, seed: 1, ..RunSpec::new(task, window) }
}

/// One run of `workload`.
#[track_caller]
pub fn measured(
    lab: &mut Lab,
    workload: Workload,
    interface: InterfaceKnobs,
    window: Duration,
) -> Measurement {
    let spec = run_spec(Task::Workload(workload), interface, window);
    lab.run(&spec).unwrap_or_else(|failure| panic!("{failure}"))
}

/// A program in the network namespace of process `pid`.
pub fn inside(pid: u32, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{pid}/ns/net")).arg(program);
    command
}
