//! `linkrate measure`: one workload, one cell.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use linkrate_lab::{Lab, LabOptions};
use linkrate_study::adapter;
use linkrate_study::analysis::analyse;
use linkrate_study::executor::{Executor, Stage};
use linkrate_study::keys::{self, Setup};
use linkrate_study::levels::{Level, Levels};
use linkrate_study::order::Order;
use linkrate_study::runner::{Clock, SystemClock};
use linkrate_study::schedule::block_order;
use linkrate_study::store::{Outcome, StoredPlan, StoredRun, StoredStudy};
use linkrate_study::study::{Cell, Method, OnFailure, Study};
use linkrate_terms::units::parse_duration;
use linkrate_terms::{ByteSize, Interfaces, MessageSize, RunSpec, Task, TestbedSpec};

use super::testbed::testbed_of;
use crate::args::cpus::parse_cpus;
use crate::args::measure::MeasureArgs;
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::{print, terminal_style};
use crate::program::this_program;
use crate::progress::RunBar;

/// Runs the workload and prints what it gave.
pub fn run(arguments: &MeasureArgs) -> Result<Exit, Failure> {
    let study = study_of(arguments)?;
    linkrate_lab::congestion::check(study.cells.iter().map(|c| c.spec.socket.congestion.as_str()))?;
    let stop = interrupt::on_signal()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    let options =
        LabOptions { program: this_program()?, stop: stop.clone(), route_congestion: None };
    let mut lab = Lab::build(&study.testbed, options)?;
    if study.method.profile {
        lab.prepare_profile()?;
    }
    let clock = SystemClock::start();
    let started_unix_ms = clock.unix_ms();
    let mut runs = Vec::new();
    let bar = RunBar::new(u64::from(arguments.runs), study.method.warm_up + study.method.run);
    for block in 0..study.method.max_blocks {
        for slot in block_order(&study, block) {
            let cell = &study.cells[0];
            let spec = RunSpec { seed: slot.seed, ..cell.spec.clone() };
            let started_unix_ms = clock.unix_ms();
            let outcome = match lab.run(&spec) {
                Ok(measurement) => Outcome::Measured(Box::new(measurement)),
                Err(failure) if failure.stage == Stage::Interrupted => break,
                Err(failure) => Outcome::Failed(failure),
            };
            let sequence = runs.len() as u32;
            runs.push(StoredRun {
                sequence,
                block,
                cell: slot.cell,
                started_unix_ms,
                spec,
                outcome,
            });
            bar.step();
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    bar.finish();
    let failed = runs.iter().any(|run| run.failure().is_some());
    let stored = StoredStudy {
        directory: PathBuf::new(),
        plan: StoredPlan::new(study, lab.facts(), started_unix_ms),
        runs,
        torn: false,
        ended: None,
    };
    let mut results = analyse(&stored);
    // nothing is stored, so there is nothing to name
    results.results.clear();
    results.complete = !stop.load(Ordering::Relaxed);
    results.stopped = if results.complete {
        format!("{} as asked", linkrate_report::words::count(stored.runs.len(), "run"))
    } else {
        "interrupted".to_owned()
    };
    if arguments.json {
        print(&linkrate_report::json::document(&results))?;
    } else {
        let (width, style) = terminal_style();
        print(&linkrate_report::terminal::table(&results, width, style))?;
    }
    Ok(match (stop.load(Ordering::Relaxed), failed) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::RunsFailed,
        (false, false) => Exit::Success,
    })
}

/// A study of one cell from the arguments.
fn study_of(arguments: &MeasureArgs) -> Result<Study, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let testbed = match arguments.existing.interfaces()? {
        Some(on) => on_existing(arguments, on)?,
        None => testbed_of(
            arguments.adapter.as_deref().unwrap_or(adapter::DEFAULT),
            arguments.clients_per_port,
            arguments.scale,
        )?,
    };
    let duration = |option: &str, text: &str| {
        parse_duration(text).map_err(|error| usage(format!("{option}: {error}")))
    };
    let window = duration("--time", &arguments.time)?;
    let warm_up = duration("--warm-up", &arguments.warm_up)?;
    if !(0.1..=3600.0).contains(&window.as_secs_f64()) {
        let message = format!("--time: {} is out of range; expected 100 ms to 1 h", arguments.time);
        return Err(usage(message));
    }
    if warm_up.as_secs_f64() > 3600.0 {
        let message =
            format!("--warm-up: {} is out of range; expected at most 1 h", arguments.warm_up);
        return Err(usage(message));
    }
    let setup = setup_of(arguments, &testbed)?;
    let spec = RunSpec {
        task: Task::Workload(setup.workload),
        interface: setup.interface,
        socket: setup.socket,
        clients: setup.clients,
        ports: setup.ports,
        warm_up,
        window,
        profile: arguments.profile,
        seed: 1,
    };
    Ok(Study {
        name: "measure".to_owned(),
        title: "One workload".to_owned(),
        paper: None,
        testbed: TestbedSpec {
            clients: setup.clients,
            ports: setup.ports.unwrap_or(1),
            queues: spec.interface.queues.unwrap_or(1),
            sut_cpus: parse_cpus("--sut-cpu", &arguments.sut_cpu)?,
            client_cpus: parse_cpus("--client-cpu", &arguments.client_cpu)?,
            cpu_meter: arguments.cpu_meter.unwrap_or_default(),
            ..testbed
        },
        factors: Vec::new(),
        parts: Vec::new(),
        published: Vec::new(),
        cells: vec![Cell { levels: Levels::default(), spec }],
        method: Method {
            confidence: 0.95,
            precision: 0.025,
            minimum_effect: 0.02,
            min_blocks: arguments.runs,
            max_blocks: arguments.runs,
            run: window,
            warm_up,
            idle: std::time::Duration::ZERO,
            budget: None,
            profile: arguments.profile,
            order: Order::Mirrored,
            seed: 1,
            on_failure: OnFailure::Continue,
        },
        source: String::new(),
    })
}

/// The testbed on existing interfaces; options of an adapter are refused.
fn on_existing(arguments: &MeasureArgs, on: Interfaces) -> Result<TestbedSpec, Failure> {
    let given = [
        ("--adapter", arguments.adapter.is_some()),
        ("--clients-per-port", arguments.clients_per_port.is_some()),
        ("--scale", arguments.scale.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
        let message =
            format!("{option} cannot go with --interface: an existing interface has no model");
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(TestbedSpec::default().on_interfaces(on))
}

/// The settings of the one cell.
fn setup_of(arguments: &MeasureArgs, testbed: &TestbedSpec) -> Result<Setup, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let mut setup = Setup::default();
    let given = &arguments.settings.0;
    let names = |key: &str| given.iter().any(|(name, _)| *name == key);
    if arguments.zero_copy {
        for (key, word) in [("send-path", "splice"), ("receive-path", "truncate")] {
            if names(key) {
                return Err(usage(format!("--zero-copy sets {key}; give one of the two")));
            }
            keys::apply(&mut setup, key, &Level::Text(word.to_owned()))
                .map_err(|error| usage(format!("--{key}: {error}")))?;
        }
    }
    for (key, value) in given {
        if let Some((message, hint)) = keys::misplaced(key, &testbed.adapter) {
            return Err(usage(format!("--{key}: {message}; {hint}")));
        }
        keys::apply(&mut setup, key, &Level::Text(value.clone()))
            .map_err(|error| usage(format!("--{key}: {error}")))?;
    }
    if setup.workload.kind.is_udp() && !names("message") {
        // what fills one packet of the standard MTU; the TCP default fits no datagram
        setup.workload.message = MessageSize::Fixed(ByteSize(1472));
    }
    for (key, _) in given {
        if !keys::is_used(key, setup.workload.kind) {
            let kind = keys::kind_name(setup.workload.kind);
            return Err(usage(format!("--{key} means nothing to a {kind} workload")));
        }
    }
    setup.settle(testbed);
    keys::check(&setup, testbed).map_err(|error| usage(error.to_string()))?;
    Ok(setup)
}
