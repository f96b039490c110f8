//! Agents of this machine: child processes of the controller.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

use linkrate_model::CpuSet;
use linkrate_sys::host::{Isolation, Life, Privilege, can_isolate, spawn_for};

use super::Reach;
use crate::error::LabError;
use crate::host::Host;
use crate::options::LabOptions;

/// The permissions of an agent in namespaces of its own.
pub(crate) const LAB: &str = "--lab";

/// The permissions of the system under test on existing interfaces.
pub(crate) const LENDS: &str = "--lends";

#[derive(Debug)]
pub(crate) struct LocalAgent<'a> {
    /// The event that ends it.
    pub(crate) life: Life,
    /// What it is started for: an option of `linkrate agent`.
    pub(crate) permissions: &'static str,
    pub(crate) isolation: Isolation<'a>,
    pub(crate) cpus: &'a CpuSet,
}

impl Reach for LocalAgent<'_> {
    fn start(&self, name: &str, options: &LabOptions) -> Result<Host, LabError> {
        let arguments = ["agent", "--stdio", self.permissions].map(OsStr::new);
        let process = spawn_for(self.life, &options.program, &arguments, self.isolation)
            .map_err(LabError::cannot_measure)?;
        let mut host = Host::greet(name, process, options).map_err(|failed| failed.0)?;
        host.place(self.cpus)?;
        Ok(host)
    }
}

/// The namespaces of a testbed's hosts. Without root, all hosts share one user namespace: an
/// interface moves only between namespaces over which the process has privilege.
#[derive(Debug)]
pub(crate) struct Namespaces {
    privilege: Privilege,
    /// Once the first host is up.
    shared: Option<OwnedFd>,
}

impl Namespaces {
    /// Namespaces as far as this user may make them.
    pub(crate) fn new() -> Result<Self, LabError> {
        let privilege = can_isolate().map_err(LabError::cannot_measure)?;
        Ok(Self { privilege, shared: None })
    }

    /// What isolation rests on.
    pub(crate) fn privilege(&self) -> Privilege {
        self.privilege
    }

    /// Starts a host that ends with the calling thread.
    pub(crate) fn start(
        &mut self,
        name: &str,
        cpus: &CpuSet,
        options: &LabOptions,
    ) -> Result<Host, LabError> {
        let isolation = match &self.shared {
            Some(shared) => Isolation::UserNamespace { join: Some(shared.as_fd()) },
            None => self.privilege.isolation(),
        };
        let child = LocalAgent { life: Life::WithItsParent, permissions: LAB, isolation, cpus };
        let host = child.start(name, options)?;
        if self.privilege == Privilege::UserNamespace && self.shared.is_none() {
            self.shared = Some(host.user_namespace()?);
        }
        Ok(host)
    }
}
