//! The existing interfaces that an agent holds, shared with the thread that gives them back when
//! the rest of the agent hangs.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use linkrate_sys::error::SysError;
use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::{host, network_namespace, stderr};

use super::preconditions;
use super::record::{self, Found, Record, Unlocked};
use super::settings::Settings;
use linkrate_protocol::Refusal;

/// How long giving back waits for a change that is under way.
const CHANGE: Duration = Duration::from_secs(5);

/// The interfaces that an agent holds. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Lease(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Locked while an interface is changed; true once all are given back for good.
    ended: Mutex<bool>,
    held: Mutex<BTreeMap<String, Held>>,
}

#[derive(Debug)]
struct Held {
    record: Record,
    settings: Settings,
}

/// A change of interfaces that is under way.
#[derive(Debug)]
pub struct Change<'a>(#[expect(dead_code, reason = "held for its lock")] MutexGuard<'a, bool>);

impl Lease {
    /// Begins a change of interfaces. Fails when the agent is ending.
    pub fn change(&self) -> Result<Change<'_>, Refusal> {
        let ended = self.0.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if *ended {
            let reason = "the agent is ending and has restored its interfaces".to_owned();
            return Err(Refusal { reason, hint: None });
        }
        Ok(Change(ended))
    }

    /// Holds `interface` from now on: locks it, restores what an earlier process has left, and
    /// writes its settings down. Fails when another process uses it, it is missing, or its settings cannot be written
    /// down.
    pub fn keep(&self, interface: &str) -> Result<(), Refusal> {
        if self.holds(interface) {
            // only the first reading has the settings from before
            return Ok(());
        }
        check_own_name(interface)?;
        record::remove_past();
        let mut record = Record::lock(interface).map_err(|error| in_use(interface, error))?;
        let lent = record.lent();
        if let Some(found) = record.found() {
            let mut refused = restore(&found.interface, &found.settings, &lent);
            if refused.iter().any(|error| !error.is_missing_device()) {
                // what it lacks may need another interface, such as a route over both
                restore_all(Duration::ZERO)?;
                refused = restore(&found.interface, &found.settings, &lent);
            }
            if let Some(error) = refused.into_iter().find(|error| !error.is_missing_device()) {
                return Err(Refusal {
                    reason: format!("{interface} has settings of {}: {error}", found.holder),
                    hint: Some("linkrate restore".to_owned()),
                });
            }
        }
        if lent.exists() {
            network_namespace::release(&lent)?;
        }
        let settings = match Settings::read(interface) {
            Ok(settings) => settings,
            Err(error) => {
                // nothing is changed, so nothing is to be written down
                record.remove()?;
                return Err(error.into());
            }
        };
        record.write(interface, &settings)?;
        self.held().insert(interface.to_owned(), Held { record, settings });
        Ok(())
    }

    /// Moves a held interface to the network namespace of process `pid`, with its addresses. Fails when it is not held,
    /// has no IPv4 address, cannot move or would lose something that cannot be restored, or the caller may not enter
    /// the namespace.
    pub fn lend(&self, interface: &str, pid: u32) -> Result<(), Refusal> {
        let held = self.held();
        let Some(Held { record, settings }) = held.get(interface) else {
            let reason = format!("interface {interface} is not kept");
            return Err(Refusal { reason, hint: None });
        };
        if !settings.has_ipv4() {
            return Err(Refusal {
                reason: format!("interface {interface} has no IPv4 address, which runs need"),
                hint: Some(format!("add one: ip address add ADDRESS/LENGTH dev {interface}")),
            });
        }
        preconditions::check(interface)?;
        let theirs = host::network_namespace_of(pid)?;
        let addressing = settings.addressing()?;
        // it lives on under this name even if its processes are killed, and the interface in it
        network_namespace::keep(theirs.as_fd(), &record.lent())?;
        RouteSocket::open()?.move_to(interface, theirs.as_fd()).map_err(|error| Refusal {
            reason: error.to_string(),
            hint: Some(
                "run as root, and use an interface that can move to another network namespace"
                    .to_owned(),
            ),
        })?;
        let mut there = RouteSocket::open_in(theirs.as_fd())?;
        there.set_up("lo")?;
        there.restore_addressing(interface, &addressing, false)?;
        there.set_up(interface)?;
        Ok(())
    }

    pub fn holds(&self, interface: &str) -> bool {
        self.held().contains_key(interface)
    }

    /// Restores all interfaces and takes no more. Whoever calls it second waits for the first.
    pub fn give_back(&self) {
        let deadline = Instant::now() + CHANGE;
        let mut ended = loop {
            match self.0.ended.try_lock() {
                Ok(ended) => break Some(ended),
                Err(TryLockError::Poisoned(ended)) => break Some(ended.into_inner()),
                // a change that hangs must not keep the other interfaces
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => break None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if let Some(ended) = &mut ended {
            **ended = true;
        }
        let mut held = self.held();
        let mut again = Vec::new();
        while let Some((interface, one)) = held.pop_last() {
            let refused = restore(&interface, &one.settings, &one.record.lent());
            again.push((interface, one, refused));
        }
        for (interface, Held { record, settings }, mut refused) in again {
            if !refused.is_empty() {
                // what it lacks may need another interface, such as a route over both
                refused = restore(&interface, &settings, &record.lent());
            }
            if refused.is_empty() {
                refused.extend(record.remove().err());
            }
            for error in refused {
                stderr::line(format_args!(
                    "warning: {interface}: a setting is not restored: {error}\n\
                     hint: linkrate restore"
                ));
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, Held>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses an alternative name: records and locks go by the name of an interface, of which it has
/// one. A missing interface may be with a client, from which its record brings it back.
fn check_own_name(interface: &str) -> Result<(), Refusal> {
    let mut route = RouteSocket::open()?;
    let Ok(link) = route.link(interface) else { return Ok(()) };
    let links = route.links()?;
    match links.iter().find(|entry| entry.link.index == link.index) {
        Some(entry) if entry.name != interface => Err(Refusal {
            reason: format!("{interface} is another name of interface {}", entry.name),
            hint: Some(format!("name it {}", entry.name)),
        }),
        _ => Ok(()),
    }
}

fn in_use(interface: &str, error: Unlocked) -> Refusal {
    match error {
        Unlocked::InUse(holder) => Refusal {
            reason: format!("interface {interface} is in use by {holder}"),
            hint: Some("wait until it has ended, or end it".to_owned()),
        },
        Unlocked::Refused(error) => error.into(),
    }
}

/// Moves an interface home if it is lent, and restores its settings. Returns all refusals.
fn restore(interface: &str, settings: &Settings, lent: &Path) -> Vec<SysError> {
    let moved = lent.exists();
    let home = if moved { bring_home(interface, lent) } else { Ok(()) };
    let mut refused = settings.restore(interface, moved);
    match home {
        Err(error) => refused.insert(0, error),
        Ok(()) if moved && refused.is_empty() => {
            refused.extend(network_namespace::release(lent).err())
        }
        Ok(()) => {}
    }
    refused
}

/// Moves an interface from the network namespace at `lent` to this one, unless it is here.
fn bring_home(interface: &str, lent: &Path) -> Result<(), SysError> {
    let failed = |error| SysError::new("open", lent.display().to_string(), error);
    let there = File::open(lent).map_err(failed)?;
    let home = network_namespace::own().map_err(failed)?;
    if RouteSocket::open()?.link(interface).is_ok() {
        return Ok(());
    }
    // a file that is no mount leads nowhere: the interface never left
    let Ok(mut there) = RouteSocket::open_in(there.as_fd()) else { return Ok(()) };
    there.move_to(interface, home.as_fd())
}

/// An interface that an earlier process has left changed.
#[derive(Debug)]
pub struct Left {
    pub interface: String,
    pub outcome: Outcome,
}

/// What became of an interface that was left changed.
#[derive(Debug)]
pub enum Outcome {
    /// All settings are as that process found them.
    Restored,
    /// A process still uses it, and restores it when it ends.
    InUse(String),
    /// It has disappeared, with its settings.
    Gone,
    /// Some settings are not restored.
    Refused(Vec<SysError>),
}

/// Restores the interfaces of this network namespace that ended processes have left changed. Waits
/// `timeout` for a process that is about to end.
pub fn restore_all(timeout: Duration) -> Result<Vec<Left>, SysError> {
    record::remove_past();
    let (directory, prefix) = record::directory()?;
    let failed = |error| SysError::new("read", directory.display().to_string(), error);
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let interface = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        names.extend(interface.filter(|name| !name.ends_with(record::LENT)).map(str::to_owned));
    }
    names.sort();
    let mut all: Vec<Left> = Vec::new();
    // the second time for what needs another interface, such as a route over both
    for _ in 0..2 {
        for interface in std::mem::take(&mut names) {
            let path = directory.join(format!("{prefix}{interface}"));
            let outcome = match Record::lock_file(&path, timeout) {
                Err(Unlocked::InUse(holder)) => Outcome::InUse(holder.to_string()),
                Err(Unlocked::Refused(error)) => Outcome::Refused(vec![error]),
                Ok(record) => match record.found() {
                    Some(found) => restore_one(record, &found),
                    None => {
                        record.remove()?;
                        continue;
                    }
                },
            };
            if matches!(outcome, Outcome::Refused(_)) {
                names.push(interface.clone());
            }
            all.retain(|left| left.interface != interface);
            all.push(Left { interface, outcome });
        }
    }
    all.sort_by(|one, other| one.interface.cmp(&other.interface));
    Ok(all)
}

fn is_missing(interface: &str) -> bool {
    let link = RouteSocket::open().and_then(|mut route| route.link(interface));
    link.is_err_and(|error| error.is_missing_device())
}

fn restore_one(record: Record, found: &Found) -> Outcome {
    let lent = record.lent();
    let refused = restore(&found.interface, &found.settings, &lent);
    // a route may lack another interface, which comes home later
    let is_gone = refused.iter().any(SysError::is_missing_device) && is_missing(&found.interface);
    if !refused.is_empty() && !is_gone {
        return Outcome::Refused(refused);
    }
    let removed = if lent.exists() { network_namespace::release(&lent) } else { Ok(()) };
    match removed.and_then(|()| record.remove()) {
        Err(error) => Outcome::Refused(vec![error]),
        Ok(()) if is_gone => Outcome::Gone,
        Ok(()) => Outcome::Restored,
    }
}
