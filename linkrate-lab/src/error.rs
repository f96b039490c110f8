use std::io;

use linkrate_sys::error::SysError;

use crate::connection::AgentError;

/// Why there is no testbed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// This host lacks a privilege or a kernel feature.
    #[error("cannot measure here: {what}")]
    CannotMeasure {
        /// What is missing.
        what: String,
        hint: Option<String>,
    },
    /// The request does not fit this host.
    #[error("{what}")]
    Invalid {
        /// What is wrong.
        what: String,
        /// What would be right.
        hint: String,
    },
    /// An agent refused a request or was lost.
    #[error("testbed: {0}")]
    Agent(#[from] AgentError),
    #[error("testbed: {0}")]
    System(#[from] SysError),
    #[error("testbed: {0}")]
    Io(#[from] io::Error),
}

/// Whether an agent was refused for want of a privilege, by the words of the system: EPERM or EACCES.
pub(crate) fn lacks_privilege(reason: &str) -> bool {
    ["(os error 1)", "(os error 13)"].iter().any(|errno| reason.contains(errno))
}

/// The same, or for want of a device, or of a feature of the kernel: ENOENT, ENODEV, EOPNOTSUPP.
fn lacks_something(reason: &str) -> bool {
    let device = ["(os error 2)", "(os error 19)", "(os error 95)"];
    lacks_privilege(reason) || device.iter().any(|errno| reason.contains(errno))
}

impl LabError {
    /// A refusal that means that this host cannot measure.
    pub fn cannot_measure(error: SysError) -> Self {
        Self::CannotMeasure { what: error.to_string(), hint: error.hint().map(str::to_owned) }
    }

    /// The same as a host that cannot measure, where the kernel refused for want of a privilege or of a feature.
    pub(crate) fn of_the_host(self) -> Self {
        use io::ErrorKind::{NotFound, PermissionDenied, Unsupported};
        match self {
            Self::System(error)
                if matches!(error.kind(), NotFound | PermissionDenied | Unsupported) =>
            {
                Self::cannot_measure(error)
            }
            Self::Agent(AgentError::Refused(refusal)) if lacks_something(&refusal.reason) => {
                Self::CannotMeasure { what: refusal.reason, hint: refusal.hint }
            }
            other => other,
        }
    }

    pub fn hint(&self) -> Option<String> {
        match self {
            Self::CannotMeasure { hint, .. } => hint.clone(),
            Self::Invalid { hint, .. } => Some(hint.clone()),
            Self::Agent(AgentError::Refused(refusal)) => refusal.hint.clone(),
            Self::System(error) => error.hint().map(str::to_owned),
            Self::Agent(_) | Self::Io(_) => None,
        }
    }
}
