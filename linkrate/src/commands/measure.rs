//! `linkrate measure`: one workload, one cell.

use std::sync::atomic::Ordering;
use std::time::Duration;

use linkrate_lab::{Lab, LabOptions};
use linkrate_model::spec::Adapter;
use linkrate_model::units::{format_duration, parse_duration};
use linkrate_model::{ByteSize, Interfaces, MessageSize, RunSpec, TestbedSpec};
use linkrate_report::words;
use linkrate_study::adapter;
use linkrate_study::analysis::analyse;
use linkrate_study::executor::Executor;
use linkrate_study::keys::{self, Setup};
use linkrate_study::labels;
use linkrate_study::levels::{Level, Levels};
use linkrate_study::runner::{Clock, SystemClock, run_study};
use linkrate_study::store::{MemoryStore, RunStore, Store};
use linkrate_study::study::{Cell, Method, Study};
use linkrate_sys::stderr;

use super::study::output::write_results;
use super::study::run::check_new;
use crate::args::measure::MeasureArgs;
use crate::args::testbed::testbed_of;
use crate::exit::{self, Exit, Failure};
use crate::interrupt;
use crate::output::{print, terminal_style};
use crate::program::this_program;
use crate::progress::StudyProgress;

/// What to do where other programs spoil runs.
const BUSY: &str = "hint: stop other programs, or give the system under test its own CPUs: \
                    --sut-cpus; if only functions count: --purpose functions";

/// Runs the workload and prints its figures.
pub fn run(arguments: &MeasureArgs) -> Result<Exit, Failure> {
    arguments.verbosity.apply();
    let mut study = study_of(arguments)?;
    study.method.draw_seed();
    arguments.dir.as_deref().map_or(Ok(()), check_new)?;
    linkrate_lab::congestion::check(study.cells.iter().map(|c| c.spec.socket.congestion.as_str()))?;
    let stop = interrupt::on_signal()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))?;
    let purpose = arguments.purpose;
    let options = LabOptions { purpose, ..arguments.deploy.lab(this_program()?, stop.clone()) };
    let mut lab = Lab::build(&study.testbed, options)?;
    if study.method.profile {
        lab.prepare_profile()?;
    }
    study.cells.first().map_or(Ok(()), |cell| lab.rehearse(&cell.spec))?;
    let clock = SystemClock::start();
    let (facts, started) = (lab.facts(), clock.unix_ms());
    let mut progress = StudyProgress::new(arguments.verbosity);
    let asked = || stop.load(Ordering::Relaxed);
    let mut measured = |store: &mut dyn RunStore| {
        let outcome = run_study(&mut lab, store, &clock, &asked, &mut progress);
        progress.finish();
        outcome.map_err(|error| {
            let hint = error.hint();
            Failure::from_error(Exit::Failure, &error).with_hint(hint)
        })
    };
    let (ended, stored) = match &arguments.dir {
        None => {
            let mut store = MemoryStore::new(study, facts, started);
            (measured(&mut store)?, store.into_study())
        }
        Some(path) => {
            let mut store = Store::create(path, &study, facts, started)?;
            (measured(&mut store)?, Store::read(path)?)
        }
    };
    let results = analyse(&stored);
    if let Some(path) = &arguments.dir {
        write_results(path, &results)?;
    }
    if arguments.json {
        print(&linkrate_report::json::document(&results))?;
    } else {
        let (width, style) = terminal_style();
        print(&linkrate_report::terminal::table(&results, width, style))?;
    }
    if results.failures.iter().any(|run| run.disturbed) {
        stderr::line(BUSY);
    }
    exit::of_runs(&ended, &stored)
}

/// A study of one cell from the arguments.
fn study_of(arguments: &MeasureArgs) -> Result<Study, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let mut testbed = match arguments.existing.interfaces()? {
        Some(on) => on_existing(arguments, on)?,
        None => testbed_of(
            arguments.adapter.as_deref().unwrap_or(adapter::DEFAULT),
            arguments.clients_per_port,
            arguments.scale,
        )?,
    };
    let duration = |option: &str, text: &str| {
        // iperf3 and netperf take seconds without their unit
        let seconds = text.parse::<f64>().is_ok().then(|| format!("{text}s"));
        parse_duration(seconds.as_deref().unwrap_or(text))
            .map_err(|error| usage(format!("{option}: {error}")))
    };
    let interval = duration("--time", &arguments.time)?;
    let warm_up = duration("--warm-up", &arguments.warm_up)?;
    if !(0.1..=3600.0).contains(&interval.as_secs_f64()) {
        let message = format!("--time: {} is out of range; expected 100 ms to 1 h", arguments.time);
        return Err(usage(message));
    }
    if warm_up.as_secs_f64() > 3600.0 {
        let message =
            format!("--warm-up: {} is out of range; expected at most 1 h", arguments.warm_up);
        return Err(usage(message));
    }
    testbed = with_aggregate(arguments, testbed)?;
    let setup = setup_of(arguments, &testbed)?;
    setup.event.check(interval).map_err(|error| usage(error.to_string()))?;
    arguments.cpus.apply(&mut testbed)?;
    let title = title(arguments, &setup, interval);
    let (clients, ports) = (setup.clients, setup.ports.unwrap_or(1));
    let profile = arguments.profile;
    let spec = RunSpec { profile, seed: 1, ..setup.into_run(warm_up, interval) };
    Ok(Study {
        name: "measure".to_owned(),
        title,
        paper: None,
        testbed: TestbedSpec {
            clients,
            ports,
            queues: spec.interface.queues.unwrap_or(1),
            ..testbed
        },
        factors: Vec::new(),
        parts: Vec::new(),
        published: Vec::new(),
        cells: vec![Cell { levels: Levels::default(), spec }],
        method: Method {
            min_blocks: arguments.runs,
            max_blocks: arguments.runs,
            run: interval,
            warm_up,
            idle: Duration::ZERO,
            profile,
            aa: false,
            purpose: arguments.purpose,
            ..Method::default()
        },
        quick: None,
        fleet: None,
        source: String::new(),
    })
}

/// What is measured: `Stream, transmit, MTU 9000; 3 runs of 2 s`.
fn title(arguments: &MeasureArgs, setup: &Setup, interval: Duration) -> String {
    let kind = setup.workload.kind;
    let mut parts = vec![keys::kind_name(kind).to_owned()];
    if !kind.is_transactional() {
        parts.push(keys::direction_name(setup.workload.direction).to_owned());
    }
    let given = arguments.given().into_iter();
    let others = given.filter(|(key, _)| !["kind", "direction"].contains(key));
    parts.extend(others.map(|(key, value)| labels::level(key, &Level::Text(value))));
    let runs = words::count(arguments.runs as usize, "run");
    let what = words::capitalised(&parts.join(", "));
    format!("{what}; {runs} of {}", format_duration(interval))
}

/// The testbed on existing interfaces; options of an adapter are refused.
fn on_existing(arguments: &MeasureArgs, on: Interfaces) -> Result<TestbedSpec, Failure> {
    let given = [
        ("--adapter", arguments.adapter.is_some()),
        ("--clients-per-port", arguments.clients_per_port.is_some()),
        ("--scale", arguments.scale.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
        let message = format!(
            "{option} cannot be combined with --interface; an existing interface has no model"
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(TestbedSpec::default().on_interfaces(on))
}

/// The testbed with as many ports in an aggregate as the settings ask for.
fn with_aggregate(arguments: &MeasureArgs, testbed: TestbedSpec) -> Result<TestbedSpec, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let given = arguments.settings.0.iter().find(|(key, _)| *key == "aggregate");
    let (Some((key, value)), Adapter::Model(_)) = (given, &testbed.adapter) else {
        return arguments.fabric.apply(testbed);
    };
    if arguments.clients_per_port.is_some() {
        let message = "--clients-per-port cannot be combined with --aggregate; all clients are on \
                       one switch, so set --clients";
        return Err(usage(message.to_owned()));
    }
    let mut setup = Setup::default();
    keys::apply(&mut setup, key, &Level::Text(value.clone()))
        .map_err(|error| usage(format!("--{key}: {error}")))?;
    let aggregate = setup.interface.aggregate.aggregate.unwrap_or(1);
    let clients = arguments.settings.0.iter().find(|(key, _)| *key == "clients");
    let clients = match clients {
        None => aggregate,
        Some((key, value)) => {
            keys::apply(&mut setup, key, &Level::Text(value.clone()))
                .map_err(|error| usage(format!("--{key}: {error}")))?;
            setup.clients
        }
    };
    arguments.fabric.apply(TestbedSpec { aggregate, ports: aggregate, clients, ..testbed })
}

/// The settings of the one cell.
fn setup_of(arguments: &MeasureArgs, testbed: &TestbedSpec) -> Result<Setup, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let mut setup = Setup::default();
    let given = &arguments.given();
    let twice = given
        .iter()
        .enumerate()
        .find(|(at, (key, _))| given[..*at].iter().any(|(earlier, _)| earlier == key));
    if let Some((_, (key, _))) = twice {
        return Err(usage(format!(
            "{key} is set twice; give --{key}, or one of the letters that set it"
        )));
    }
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
    // the clients of an aggregate are those of the testbed
    let of_the_testbed = |key: &str| testbed.aggregate > 0 && key == "clients";
    for (key, value) in given.iter().filter(|(key, _)| !of_the_testbed(key)) {
        if let Some((message, hint)) = keys::misplaced(key, testbed) {
            return Err(usage(format!("--{key}: {message}; {hint}")));
        }
        let other = given.iter().find(|(other, _)| other != key && keys::overlap(other, key));
        if let Some((other, _)) = other {
            return Err(usage(format!(
                "--{key} and --{other} set the same thing; give one of the two"
            )));
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
            return Err(usage(format!(
                "--{key} has no effect on kind {kind}; leave it out, or set another --kind"
            )));
        }
    }
    setup.settle(testbed);
    keys::check(&setup, testbed).map_err(|error| usage(error.to_string()))?;
    Ok(setup)
}
