//! `linkrate adapter`: models, and the ports of a lab that is up. `look` has the commands that only read.

mod look;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use linkrate_lab::control::client::LabClient;
use linkrate_lab::control::messages::{Reply, Request, Setting};
use linkrate_model::units::format_duration;
use linkrate_report::adapter::{done_document, settings_text};
use linkrate_sys::stderr;
use serde::Serialize;
use serde_json::json;

use crate::args::adapter::{
    AdapterCommand, AggregateCommand, CaptureArgs, Common, LinkState, ModelsArgs, ToeCommand,
};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::print;

/// How often a wait checks for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Longest capture.
const MAX_CAPTURE: Duration = Duration::from_secs(24 * 3600);

/// What a lab replies to a request.
macro_rules! reply {
    ($common:expr, $request:expr, $reply:pat => $value:expr) => {{
        let lab = $common.which.find()?;
        match lab.ask($request)? {
            $reply => $value,
            _ => return Err(lab.unexpected().into()),
        }
    }};
}

/// Lists the models of virtual adapters, or shows one.
pub fn models(arguments: &ModelsArgs) -> Result<Exit, Failure> {
    look::models(arguments.model.as_deref(), arguments.json)
}

pub fn run(command: AdapterCommand) -> Result<Exit, Failure> {
    match command {
        AdapterCommand::Show { port, common } => look::show(port.as_deref(), &common),
        AdapterCommand::Aggregate { command: Some(command), .. } => aggregate(command),
        AdapterCommand::Aggregate { command: None, aggregate, common } => {
            look::aggregate(aggregate.as_deref(), &common)
        }
        AdapterCommand::Top(arguments) => look::top(&arguments),
        AdapterCommand::Set { port, settings, common } => set(port, settings, &common),
        AdapterCommand::Add { ports, common } => add(ports, &common),
        AdapterCommand::Remove { port, common } => remove(port, &common),
        AdapterCommand::Capture(arguments) => capture(arguments),
        AdapterCommand::Link { port, state, common } => set_link(port, state, &common),
        AdapterCommand::Faults { port, faults, common } => set_faults(port, faults, &common),
        AdapterCommand::Toe { command: ToeCommand::Show { common } } => look::connections(&common),
        AdapterCommand::Toe { command: ToeCommand::Offload { connection, common } } => {
            offload(connection, &common)
        }
        AdapterCommand::Vlan { port, vlans, common } => set_vlans(port, vlans, &common),
    }
}

fn aggregate(command: AggregateCommand) -> Result<Exit, Failure> {
    match command {
        AggregateCommand::Create { ports, common } => make_aggregate(ports, &common),
        AggregateCommand::Show { aggregate, common } => {
            look::aggregate(aggregate.as_deref(), &common)
        }
        AggregateCommand::Set { aggregate, settings, common } => set(aggregate, settings, &common),
        AggregateCommand::Remove { aggregate, common } => take_apart(aggregate, &common),
    }
}

/// Prints what has been done, as a document or as text.
fn said(common: &Common, what: &str, value: impl Serialize, text: String) -> Result<Exit, Failure> {
    print(&if common.json { done_document(what, value) } else { text })?;
    Ok(Exit::Success)
}

fn set(port: String, settings: Vec<Setting>, common: &Common) -> Result<Exit, Failure> {
    let report = reply!(common, Request::Set { port, settings }, Reply::Settings(report) => report);
    said(common, "set", &report, settings_text(&report))
}

/// `adapter toe offload`
fn offload((process, descriptor): (u32, i32), common: &Common) -> Result<Exit, Failure> {
    reply!(common, Request::Offload { process, descriptor }, Reply::Done => ());
    let of = json!({ "process": process, "descriptor": descriptor });
    said(common, "offloaded", of, format!("{process}:{descriptor}: at the adapter\n"))
}

fn set_faults(
    port: String,
    faults: Vec<Option<Setting>>,
    common: &Common,
) -> Result<Exit, Failure> {
    let settings = named(faults, "none cannot be combined with faults; it turns all faults off")?;
    let request = Request::SetFaults { port: port.clone(), settings };
    let faults = reply!(common, request, Reply::Faults(faults) => faults);
    reported("faults", &port, &faults, "none", common)
}

fn set_vlans(port: String, vlans: Vec<Option<Setting>>, common: &Common) -> Result<Exit, Failure> {
    let settings = named(
        vlans,
        "all cannot be combined with VLANs; it makes the port a member of every VLAN",
    )?;
    let request = Request::SetVlans { port: port.clone(), settings };
    let vlans = reply!(common, request, Reply::Vlans(vlans) => vlans);
    reported("vlans", &port, &vlans, "all", common)
}

/// Settings without the word that stands for no setting, which must be the only word.
fn named(given: Vec<Option<Setting>>, alone: &str) -> Result<Vec<Setting>, Failure> {
    let count = given.len();
    let settings: Vec<Setting> = given.into_iter().flatten().collect();
    match settings.len() < count && count > 1 {
        true => Err(Failure::new(Exit::Usage, alone.to_owned())),
        false => Ok(settings),
    }
}

/// Prints the current state of a port; `nothing` is printed for an empty one.
fn reported(
    what: &str,
    port: &str,
    now: &BTreeMap<String, String>,
    nothing: &str,
    common: &Common,
) -> Result<Exit, Failure> {
    let listed: Vec<String> = now.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let listed = if listed.is_empty() { nothing.to_owned() } else { listed.join(", ") };
    said(common, what, json!({ "port": port, what: now }), format!("{port}: {listed}\n"))
}

fn set_link(port: String, state: LinkState, common: &Common) -> Result<Exit, Failure> {
    let named = port.clone();
    let (request, state) = match state {
        LinkState::Up => (Request::SetLink { port, up: true }, "up".to_owned()),
        LinkState::Down => (Request::SetLink { port, up: false }, "down".to_owned()),
        LinkState::Rate(rate) => {
            // a whole number of bits: the fraction of an ATM rate is negligible
            let bits_per_second = rate.0 as u64;
            (Request::SetLinkRate { port, bits_per_second }, rate.to_string())
        }
    };
    reply!(common, request, Reply::Done => ());
    let text = format!("{named}: link {state}\n");
    said(common, "link", json!({ "port": named, "state": state }), text)
}

fn add(ports: u32, common: &Common) -> Result<Exit, Failure> {
    let request = Request::Add { ports };
    let (ports, clients) =
        reply!(common, request, Reply::Added { ports, clients } => (ports, clients));
    let with = match clients.is_empty() {
        true => String::new(),
        false => format!(" with {}", clients.join(", ")),
    };
    let text = format!("added {}{with}\n", ports.join(", "));
    said(common, "added", json!({ "ports": ports, "clients": clients }), text)
}

fn remove(port: String, common: &Common) -> Result<Exit, Failure> {
    reply!(common, Request::Remove { port: port.clone() }, Reply::Done => ());
    said(common, "removed", &port, format!("removed {port}\n"))
}

/// `adapter aggregate create`
fn make_aggregate(ports: Vec<String>, common: &Common) -> Result<Exit, Failure> {
    let of = ports.join(", ");
    let made =
        reply!(common, Request::MakeAggregate { ports }, Reply::Added { ports, .. } => ports);
    let made = made.join(", ");
    said(common, "created", json!({ "aggregate": made }), format!("created {made} of {of}\n"))
}

/// `adapter aggregate remove`
fn take_apart(aggregate: String, common: &Common) -> Result<Exit, Failure> {
    let request = Request::TakeApart { aggregate: aggregate.clone() };
    let ports = reply!(common, request, Reply::Added { ports, .. } => ports);
    let text = format!("removed {aggregate}; its ports are {}\n", ports.join(", "));
    said(common, "removed", json!({ "aggregate": aggregate, "ports": ports }), text)
}

fn capture(arguments: CaptureArgs) -> Result<Exit, Failure> {
    let CaptureArgs { port, file, duration, common, .. } = arguments;
    if let Some(duration) = duration
        && (duration.is_zero() || duration > MAX_CAPTURE)
    {
        let message = format!(
            "--duration: {} is out of range; expected up to {}",
            format_duration(duration),
            format_duration(MAX_CAPTURE)
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    let lab = common.which.find()?;
    let Some(file) = file else { return end_capture(&lab, port, &common) };
    let failed =
        |error: io::Error| Failure::new(Exit::Failure, format!("{}: {error}", file.display()));
    let path = std::path::absolute(&file).map_err(failed)?;
    let Some(path) = path.to_str() else {
        let message = format!("{}: expected a path in UTF-8", file.display());
        return Err(Failure::new(Exit::Usage, message));
    };
    let target = Target::open(&file).map_err(failed)?;
    // not before: Ctrl-C ends the wait for the reader of a FIFO
    let stop = interrupt::on_signal().map_err(failed)?;
    let request = Request::StartCapture { port: port.clone(), file: path.to_owned() };
    match lab.ask_with(request, Some(target.file.as_fd())) {
        Ok(Reply::Done) => {}
        Ok(_) => return Err(lab.unexpected().into()),
        Err(error) => {
            target.remove_if_new();
            return Err(error.into());
        }
    }
    // the lab has a descriptor of its own: a reader of a FIFO sees its end when the lab closes that
    drop(target);
    let Some(duration) = duration else {
        if common.json {
            print(&done_document("capture", json!({ "port": port, "file": path })))?;
        } else {
            stderr::line(format_args!(
                "capturing {port} until `linkrate adapter capture {port} --stop`"
            ));
        }
        return Ok(Exit::Success);
    };
    let end = Instant::now() + duration;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now())));
    }
    // the capture until Ctrl-C is a complete file too
    let ended = end_capture(&lab, port, &common)?;
    Ok(if stop.load(Ordering::Relaxed) { Exit::Interrupted } else { ended })
}

/// The file of a capture, opened with the rights of this command. The lab gets the descriptor and
/// opens nothing.
struct Target {
    path: PathBuf,
    file: File,
    /// Whether this command has created it.
    new: bool,
}

impl Target {
    /// Opens a file, and creates it if it is not there. Nothing is written. A FIFO without a reader
    /// is waited for.
    fn open(path: &Path) -> io::Result<Self> {
        let (path, mut options) = (path.to_owned(), File::options());
        match options.write(true).create_new(true).open(&path) {
            Ok(file) => return Ok(Self { path, file, new: true }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        // without O_NONBLOCK, so that it waits for the reader of a FIFO
        let file = File::options().write(true).open(&path)?;
        Ok(Self { path, file, new: false })
    }

    /// Removes it if this command has created it.
    fn remove_if_new(self) {
        if self.new {
            // an empty file is left; the first error is the one to report
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn end_capture(lab: &LabClient, port: String, common: &Common) -> Result<Exit, Failure> {
    let (packets, lost, file) = match lab.ask(Request::StopCapture { port: port.clone() })? {
        Reply::Captured { packets, lost, file } => (packets, lost, file),
        _ => return Err(lab.unexpected().into()),
    };
    let tail = match lost {
        0 => String::new(),
        lost => format!("; {lost} more were lost, because the file took them too slowly"),
    };
    let text = format!("{port}: {packets} packets in {file}{tail}\n");
    let document = json!({ "port": port, "packets": packets, "lost": lost, "file": file });
    said(common, "captured", document, text)
}
