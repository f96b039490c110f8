//! What the protocol to an agent goes through.

use std::io;
use std::os::unix::net::UnixStream;
use std::process::ExitStatus;
use std::time::Duration;

use linkrate_sys::host::HostProcess;

#[derive(Debug)]
pub(crate) enum Carrier {
    /// The standard input and output of a process: the agent, or `ssh`.
    Process(HostProcess),
    /// A stream that somebody else holds the other end of.
    #[cfg(any(test, fuzzing))]
    Script(UnixStream),
}

impl Carrier {
    pub(crate) fn socket(&self) -> &UnixStream {
        match self {
            Self::Process(process) => process.socket(),
            #[cfg(any(test, fuzzing))]
            Self::Script(stream) => stream,
        }
    }

    /// The process; `NotFound` for an agent that is none.
    pub(crate) fn process(&self) -> io::Result<&HostProcess> {
        match self {
            Self::Process(process) => Ok(process),
            #[cfg(any(test, fuzzing))]
            Self::Script(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The process id; 0 without a process.
    pub(crate) fn pid(&self) -> u32 {
        self.process().map_or(0, HostProcess::pid)
    }

    pub(crate) fn hang_up(&self) {
        if let Ok(process) = self.process() {
            process.hang_up();
        }
    }

    /// Ends it, within `timeout`, while its agent holds nothing.
    pub(crate) fn give_up(&mut self, timeout: Duration) -> io::Result<ExitStatus> {
        match self {
            Self::Process(process) => process.end(timeout),
            #[cfg(any(test, fuzzing))]
            Self::Script(_) => Ok(ExitStatus::default()),
        }
    }

    /// Ends it as [`HostProcess::end_by_itself`] does.
    pub(crate) fn end(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Process(process) => process.end_by_itself(),
            #[cfg(any(test, fuzzing))]
            Self::Script(_) => Ok(ExitStatus::default()),
        }
    }
}

impl From<HostProcess> for Carrier {
    fn from(process: HostProcess) -> Self {
        Self::Process(process)
    }
}
