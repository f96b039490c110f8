//! Commands that change the ports of a lab.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use linkrate_lab::control::client::{ControlError, LabClient};
use linkrate_lab::control::messages::{Reply, Request, Setting};
use linkrate_model::units::format_duration;
use linkrate_report::adapter::{done_document, settings_text};
use linkrate_sys::stderr;
use serde_json::json;

use crate::args::adapter::{CaptureArgs, Common, LinkState};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::print;

/// How often a wait checks for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Longest capture.
const MAX_CAPTURE: Duration = Duration::from_secs(24 * 3600);

pub fn set(port: String, settings: Vec<Setting>, common: &Common) -> Result<Exit, Failure> {
    let lab = common.which.find()?;
    let report = match lab.ask(Request::Set { port, settings })? {
        Reply::Settings(report) => report,
        _ => return Err(lab.unexpected().into()),
    };
    let document = || done_document("set", &report);
    print(&if common.json { document() } else { settings_text(&report) })?;
    Ok(Exit::Success)
}

/// `adapter toe offload`
pub fn offload((process, descriptor): (u32, i32), common: &Common) -> Result<Exit, Failure> {
    let lab = common.which.find()?;
    match lab.ask(Request::Offload { process, descriptor })? {
        Reply::Done if common.json => {
            let of = json!({ "process": process, "descriptor": descriptor });
            print(&done_document("offloaded", &of))?;
        }
        Reply::Done => print(&format!("{process}:{descriptor}: at the adapter\n"))?,
        _ => return Err(lab.unexpected().into()),
    }
    Ok(Exit::Success)
}

pub fn faults(
    port: String,
    faults: Vec<Option<Setting>>,
    common: &Common,
) -> Result<Exit, Failure> {
    let settings = named(faults, "none cannot be combined with faults; it turns all faults off")?;
    let lab = common.which.find()?;
    match lab.ask(Request::SetFaults { port: port.clone(), settings })? {
        Reply::Faults(faults) => reported("faults", &port, &faults, "none", common),
        _ => Err(lab.unexpected().into()),
    }
}

pub fn vlan(port: String, vlans: Vec<Option<Setting>>, common: &Common) -> Result<Exit, Failure> {
    let settings = named(
        vlans,
        "all cannot be combined with VLANs; it makes the port a member of every VLAN",
    )?;
    let lab = common.which.find()?;
    match lab.ask(Request::SetVlans { port: port.clone(), settings })? {
        Reply::Vlans(vlans) => reported("vlans", &port, &vlans, "all", common),
        _ => Err(lab.unexpected().into()),
    }
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
    if common.json {
        print(&done_document(what, json!({ "port": port, what: now })))?;
        return Ok(Exit::Success);
    }
    let listed: Vec<String> = now.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let listed = if listed.is_empty() { nothing.to_owned() } else { listed.join(", ") };
    print(&format!("{port}: {listed}\n"))?;
    Ok(Exit::Success)
}

pub fn link(port: String, state: LinkState, common: &Common) -> Result<Exit, Failure> {
    let lab = common.which.find()?;
    let request = |port| match state {
        LinkState::Up => Request::SetLink { port, up: true },
        LinkState::Down => Request::SetLink { port, up: false },
        // a whole number of bits: the fraction of an ATM rate is negligible
        LinkState::Rate(rate) => Request::SetLinkRate { port, bits_per_second: rate.0 as u64 },
    };
    done(&lab, request(port.clone()))?;
    let state = match state {
        LinkState::Up => "up".to_owned(),
        LinkState::Down => "down".to_owned(),
        LinkState::Rate(rate) => rate.to_string(),
    };
    if common.json {
        print(&done_document("link", json!({ "port": port, "state": state })))?;
    } else {
        print(&format!("{port}: link {state}\n"))?;
    }
    Ok(Exit::Success)
}

pub fn add(ports: u32, common: &Common) -> Result<Exit, Failure> {
    let lab = common.which.find()?;
    let (ports, clients) = match lab.ask(Request::Add { ports })? {
        Reply::Added { ports, clients } => (ports, clients),
        _ => return Err(lab.unexpected().into()),
    };
    if common.json {
        print(&done_document("added", json!({ "ports": ports, "clients": clients })))?;
    } else {
        let with = match clients.is_empty() {
            true => String::new(),
            false => format!(" with {}", clients.join(", ")),
        };
        print(&format!("added {}{with}\n", ports.join(", ")))?;
    }
    Ok(Exit::Success)
}

pub fn remove(port: String, common: &Common) -> Result<Exit, Failure> {
    let lab = common.which.find()?;
    done(&lab, Request::Remove { port: port.clone() })?;
    if common.json {
        print(&done_document("removed", &port))?;
    } else {
        print(&format!("removed {port}\n"))?;
    }
    Ok(Exit::Success)
}

/// `adapter aggregate create`
pub fn make_aggregate(ports: Vec<String>, common: &Common) -> Result<Exit, Failure> {
    let said = ports.join(", ");
    let made = interfaces(Request::MakeAggregate { ports }, common)?;
    if common.json {
        print(&done_document("created", json!({ "aggregate": made.join(", ") })))?;
    } else {
        print(&format!("created {} of {said}\n", made.join(", ")))?;
    }
    Ok(Exit::Success)
}

/// `adapter aggregate remove`
pub fn take_apart(aggregate: String, common: &Common) -> Result<Exit, Failure> {
    let ports = interfaces(Request::TakeApart { aggregate: aggregate.clone() }, common)?;
    if common.json {
        print(&done_document("removed", json!({ "aggregate": aggregate, "ports": ports })))?;
    } else {
        print(&format!("removed {aggregate}; its ports are {}\n", ports.join(", ")))?;
    }
    Ok(Exit::Success)
}

/// The interfaces that there are after a request.
fn interfaces(request: Request, common: &Common) -> Result<Vec<String>, Failure> {
    let lab = common.which.find()?;
    match lab.ask(request)? {
        Reply::Added { ports, .. } => Ok(ports),
        _ => Err(lab.unexpected().into()),
    }
}

pub fn capture(arguments: CaptureArgs) -> Result<Exit, Failure> {
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
    let Some(file) = file else { return end_capture(&lab, port, common.json) };
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
    let ended = end_capture(&lab, port, common.json)?;
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

fn end_capture(lab: &LabClient, port: String, json: bool) -> Result<Exit, Failure> {
    let (packets, lost, file) = match lab.ask(Request::StopCapture { port: port.clone() })? {
        Reply::Captured { packets, lost, file } => (packets, lost, file),
        _ => return Err(lab.unexpected().into()),
    };
    if json {
        let document = json!({ "port": port, "packets": packets, "lost": lost, "file": file });
        print(&done_document("captured", document))?;
    } else {
        let lost = match lost {
            0 => String::new(),
            lost => format!("; {lost} more were lost, because the file took them too slowly"),
        };
        print(&format!("{port}: {packets} packets in {file}{lost}\n"))?;
    }
    Ok(Exit::Success)
}

/// Sends a request that is answered without data.
fn done(lab: &LabClient, request: Request) -> Result<(), ControlError> {
    match lab.ask(request)? {
        Reply::Done => Ok(()),
        _ => Err(lab.unexpected()),
    }
}
