//! Why a virtual adapter cannot be built or changed.

use std::io;

use linkrate_sys::error::SysError;

/// Why a virtual adapter cannot be built or changed.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// The kernel refused.
    #[error(transparent)]
    System(#[from] SysError),
    /// A thread could not be started, or a file not be written.
    #[error("{what}: {cause}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        cause: io::Error,
    },
    /// A cable has two ends.
    #[error("a cable joins 2 ports; port {name} would be number 3")]
    CableFull {
        /// The port.
        name: String,
    },
    /// A cable has no VLANs of its own.
    #[error("port {name} is on a cable; only a switch has VLANs")]
    NoSwitch {
        /// The port.
        name: String,
    },
    /// The device thread has ended.
    #[error("{why}")]
    Ended {
        /// The thread and the reason.
        why: String,
    },
    /// The device did not answer a request for settings.
    #[error("the device of port {name} did not acknowledge its settings")]
    NotAcknowledged {
        /// The port.
        name: String,
    },
}
