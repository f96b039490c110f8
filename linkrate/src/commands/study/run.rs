//! `run` and `resume`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linkrate_lab::{Lab, LabFleet, LabOptions, peer};
use linkrate_model::spec::Adapter;
use linkrate_model::{Peer, shell};
use linkrate_study::analysis::analyse;
use linkrate_study::executor::{Executor, Facts};
use linkrate_study::fleet::Fleet;
use linkrate_study::fleet::places::Candidate;
use linkrate_study::fleet::runner::{FleetExecutor, run_fleet};
use linkrate_study::runner::{Clock, SystemClock, run_study};
use linkrate_study::store::{Ended, RunStore, Store, directory};
use linkrate_study::study::Study;
use linkrate_sys::stderr;

use super::output::{self, Wanted};
use super::{ktap, source};
use crate::args::VerbosityArgs;
use crate::args::existing::{DeployArgs, ExistingArgs};
use crate::args::fleet::listed;
use crate::args::study::{Details, RunFormat, StudyRunArgs};
use crate::exit::{self, Exit, Failure};
use crate::interrupt;
use crate::output::quoted;
use crate::program::{self, this_program};
use crate::progress::StudyProgress;

/// Where results go unless another directory is named.
pub const RESULTS: &str = "results";

/// Runs a study from its beginning.
pub fn run(arguments: &StudyRunArgs) -> Result<Exit, Failure> {
    if arguments.format == Some(RunFormat::Ktap) {
        return ktap::run(arguments);
    }
    let json = arguments.json || arguments.format == Some(RunFormat::Json);
    let details = Details::chosen(&arguments.details);
    run_on(arguments, &arguments.existing, Wanted { json, details, ..Wanted::default() })
}

/// The same on these interfaces.
pub(super) fn run_on(
    arguments: &StudyRunArgs,
    existing: &ExistingArgs,
    wanted: Wanted,
) -> Result<Exit, Failure> {
    arguments.verbosity.apply();
    let mut study =
        source::chosen(&arguments.study, &arguments.changes, existing, &arguments.fleet)?;
    let cells = study.cells.len();
    if arguments.quick {
        study = source::quick_form(study)?;
    }
    let narrower = match study.cells.len() < cells {
        true => "every cell, narrower intervals",
        false => "narrower intervals",
    };
    study = arguments.changes.apply(study)?;
    if arguments.profile {
        study.profile_runs();
    }
    study.method.seed = arguments.seed.or(study.method.seed);
    study.method.draw_seed();
    arguments.cpus.apply(&mut study.testbed)?;
    arguments.dir.as_deref().map_or(Ok(()), check_new)?;
    linkrate_lab::congestion::check(study.cells.iter().map(|c| c.spec.socket.congestion.as_str()))?;
    let stop = signals()?;
    let mut backend = Backend::of(&study, &arguments.deploy, &stop)?;
    let clock = SystemClock::start();
    let path = match &arguments.dir {
        Some(path) => path.clone(),
        None => directory::fresh(Path::new(RESULTS), &study.name, clock.unix_ms())?,
    };
    let mut store = Store::create(&path, &study, backend.facts(), clock.unix_ms())?;
    let wanted = Wanted {
        next: arguments.quick.then(|| (typed(&["--quick"]), narrower)),
        again: Some((typed(&[]), "again, when nothing else runs here")),
        ..wanted
    };
    conduct(&mut backend, &mut store, &clock, &stop, &wanted, arguments.verbosity)
}

/// Refuses a directory for results that holds something.
pub fn check_new(path: &Path) -> Result<(), Failure> {
    if path.read_dir().map_or(true, |mut entries| entries.next().is_none()) {
        return Ok(());
    }
    let message = format!("--dir: {} is not empty", path.display());
    let here = quoted(path);
    let is_complete = |ended: Option<Ended>| ended.is_some_and(|why| why.is_complete());
    let hint = match Store::read(path).map(|stored| is_complete(stored.ended)) {
        Ok(true) => format!("name a new directory; to see what it holds: linkrate report {here}"),
        Ok(false) => format!("name a new directory, or go on: linkrate resume {here}"),
        Err(_) => "name a new directory".to_owned(),
    };
    Err(Failure::new(Exit::Usage, message).with_hint(Some(hint)))
}

/// Refuses a stored study whose clients are commands, unless `given` repeats them: results may come from anybody.
pub fn may_start(directory: &Path, given: &[Peer]) -> Result<(), Failure> {
    let stored = Store::read(directory)?;
    let clients = match &stored.plan.study.testbed.adapter {
        Adapter::Interfaces(on) => on.clients.as_slice(),
        _ => &[],
    };
    let commands: Vec<&Peer> = clients.iter().filter(|client| client.is_command()).collect();
    if commands.iter().copied().eq(given) {
        return Ok(());
    }
    if commands.is_empty() {
        let message = "--client: no command reaches a client of this study";
        return Err(Failure::new(Exit::Usage, message.to_owned())
            .with_hint(Some("leave it out".to_owned())));
    }
    let repeated = commands.iter().map(|of| format!(" --client {}", shell::word(&of.to_string())));
    let hint = format!(
        "to start what is stored: linkrate resume {}{}",
        quoted(directory),
        repeated.collect::<String>()
    );
    let message =
        "a command reaches a client of this study, and a stored command does not start by itself";
    Err(Failure::new(Exit::Usage, message.to_owned()).with_hint(Some(hint)))
}

/// Continues a study, on other nodes of a fleet where some are not there.
pub fn resume(
    directory: &Path,
    json: bool,
    list: Option<&Path>,
    deploy: &DeployArgs,
    verbosity: VerbosityArgs,
) -> Result<Exit, Failure> {
    verbosity.apply();
    let mut store = Store::resume(directory)?;
    if let Some(recovered) = store.recovered() {
        stderr::note(recovered);
    }
    let stop = signals()?;
    let mut study = store.plan().study.clone();
    let moved = moved(study.fleet.as_ref(), list, store.next_sequence())?;
    if let Some(fleet) = &moved {
        study.fleet = Some(fleet.clone());
    }
    let mut backend = Backend::of(&study, deploy, &stop)?;
    if let Some(fleet) = moved {
        store.set_fleet(fleet)?;
    }
    let wanted = Wanted { json, ..Wanted::default() };
    conduct(&mut backend, &mut store, &SystemClock::start(), &stop, &wanted, verbosity)
}

/// The command as it was typed, without its directory, which is taken, and without some options.
fn typed(without: &[&str]) -> String {
    let mut words = vec!["linkrate".to_owned()];
    let given = program::words();
    let mut given = given.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = given.next() {
        match word.split_once('=').map_or(&*word, |(option, _)| option) {
            "--dir" if word == "--dir" => drop(given.next()),
            "--dir" => {}
            option if without.contains(&option) => {}
            _ => words.push(shell::word(&word)),
        }
    }
    words.join(" ")
}

pub(super) fn signals() -> Result<Arc<AtomicBool>, Failure> {
    interrupt::on_signal()
        .map_err(|error| Failure::new(Exit::Failure, format!("signal handlers: {error}")))
}

/// Where a study runs.
enum Backend {
    Lab(Box<Lab>),
    Fleet(Box<LabFleet>),
}

impl Backend {
    fn of(study: &Study, deploy: &DeployArgs, stop: &Arc<AtomicBool>) -> Result<Self, Failure> {
        let purpose = study.method.purpose;
        let options = LabOptions { purpose, ..deploy.lab(this_program()?, Arc::clone(stop)) };
        if let Some(fleet) = &study.fleet {
            let fleet = LabFleet::survey(fleet, &study.testbed, options)?;
            for warning in &FleetExecutor::facts(&fleet).warnings {
                stderr::line(format_args!("warning: {warning}"));
            }
            return Ok(Self::Fleet(Box::new(fleet)));
        }
        let mut lab = Lab::build(&study.testbed, options)?;
        if study.method.profile {
            lab.prepare_profile()?;
        }
        study.cells.first().map_or(Ok(()), |cell| lab.rehearse(&cell.spec))?;
        Ok(Self::Lab(Box::new(lab)))
    }

    fn facts(&self) -> Facts {
        match self {
            Self::Lab(lab) => lab.facts(),
            Self::Fleet(fleet) => FleetExecutor::facts(&**fleet),
        }
    }
}

/// Makes the missing runs, then prints and writes the results.
fn conduct(
    backend: &mut Backend,
    store: &mut Store,
    clock: &(dyn Clock + Sync),
    stop: &Arc<AtomicBool>,
    wanted: &Wanted,
    verbosity: VerbosityArgs,
) -> Result<Exit, Failure> {
    let directory = store.directory().to_owned();
    let mut progress = match wanted.json || wanted.ktap.is_some() {
        true => StudyProgress::new(verbosity),
        false => StudyProgress::with_lines(verbosity),
    };
    let asked = || stop.load(Ordering::Relaxed);
    let outcome = match backend {
        Backend::Lab(lab) => run_study(&mut **lab, store, clock, &asked, &mut progress),
        Backend::Fleet(fleet) => run_fleet(&**fleet, store, clock, &asked, &mut progress),
    };
    progress.finish();
    let ended = outcome.map_err(|error| {
        let resume = format!(
            "every finished run is kept; to continue: linkrate resume {}",
            quoted(&directory)
        );
        let hint = error.hint().map_or(resume.clone(), |hint| format!("{hint}; {resume}"));
        Failure::from_error(Exit::Failure, &error).with_hint(Some(hint))
    })?;
    let stored = Store::read(&directory)?;
    let results = analyse(&stored);
    output::write_results(&directory, &results)?;
    let exit = exit::of_runs(&ended, &stored);
    if let Some(environment) = &wanted.ktap {
        return ktap::present(&results, environment, exit);
    }
    output::present(&results, wanted)?;
    if matches!(ended, Ended::Interrupted | Ended::TestbedLost(_)) {
        stderr::line(format_args!("hint: linkrate resume {}", quoted(&directory)));
    }
    exit
}

/// The fleet with other nodes at some places from run `next_run` on; `None` if nothing changes.
pub fn moved(
    fleet: Option<&Fleet>,
    list: Option<&Path>,
    next_run: u32,
) -> Result<Option<Fleet>, Failure> {
    let Some(fleet) = fleet else {
        return match list {
            None => Ok(None),
            Some(_) => Err(Failure::new(
                Exit::Usage,
                "--fleet: this is not the study of a fleet".to_owned(),
            )),
        };
    };
    let present = match list {
        Some(list) => Some(listed(list)?.into_iter().map(Candidate::Listed).collect()),
        None if peer::is_in_allocation() => fleet.present_in(&peer::allocated_nodes()?),
        None => None,
    };
    let Some(present) = present else { return Ok(None) };
    let refused = |reason| Failure::new(Exit::Usage, format!("the nodes of the fleet: {reason}"));
    let (moved, changes) = fleet.moved(&present, next_run).map_err(refused)?;
    for change in changes {
        stderr::note(change);
    }
    Ok(moved)
}
