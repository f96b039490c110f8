//! Requests to a lab that is up.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use linkrate_model::nearest::did_you_mean;
use linkrate_protocol::framing::{read_frame, write_frame};
use linkrate_sys::error::SysError;
use linkrate_sys::host::join::user;
use linkrate_sys::local_socket;
use linkrate_sys::seccomp::Receiver;

use super::messages::{CONTROL_VERSION, Envelope, Refused, Reply, Request, decode_reply};
use super::{LabName, socket};

/// Time that a lab may take to answer; adding many ports takes seconds.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Time that a lab may take to end after it confirmed the request.
const GONE: Duration = Duration::from_secs(30);

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No lab has that name.
    #[error("no lab {name} is up here{tail}")]
    NotUp {
        name: String,
        /// A `did you mean` tail or nothing.
        tail: String,
    },
    /// No lab is up.
    #[error("no running lab")]
    None,
    /// Several labs are up, and the command names no lab.
    #[error("several running labs: {}", .names.join(", "))]
    Several { names: Vec<String> },
    /// The process that listens under the lab's name is of another user.
    #[error("lab {name} belongs to another user (uid {found}, yours is {expected})")]
    NotYours {
        name: String,
        /// That user.
        found: u32,
        /// The user of this process.
        expected: u32,
    },
    /// The lab refused the request.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The lab has ended, or its answer makes no sense.
    #[error("lab {name}: {reason}")]
    Lost { name: String, reason: String },
    #[error(transparent)]
    System(#[from] SysError),
}

impl ControlError {
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotUp { .. } => Some("linkrate lab list".to_owned()),
            Self::None => Some("linkrate lab up --adapter gigabit".to_owned()),
            Self::Several { .. } => Some("choose one with --name".to_owned()),
            Self::Refused(refused) => refused.hint.clone(),
            Self::System(error) => error.hint().map(str::to_owned),
            Self::NotYours { .. } | Self::Lost { .. } => None,
        }
    }

    /// Whether the request is wrong, rather than the lab.
    pub fn is_wrong(&self) -> bool {
        matches!(self, Self::Refused(Refused { wrong: true, .. }))
    }
}

/// A lab that takes requests.
#[derive(Debug, Clone)]
pub struct LabClient {
    name: LabName,
    socket: PathBuf,
}

/// The names of this user's labs that are up.
pub fn list() -> Result<Vec<LabName>, ControlError> {
    Ok(socket::list()?.into_iter().map(|(name, _)| name).collect())
}

impl LabClient {
    /// The lab of that name, or without a name the only lab that is up.
    pub fn find(name: Option<LabName>) -> Result<Self, ControlError> {
        let up = socket::list()?;
        let names = || up.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
        let found = match (&name, up.as_slice()) {
            (Some(name), up) => up.iter().find(|(other, _)| other == name),
            (None, []) => return Err(ControlError::None),
            (None, [only]) => Some(only),
            (None, _) => return Err(ControlError::Several { names: names() }),
        };
        match (found, name) {
            (Some((name, socket)), _) => Ok(Self { name: name.clone(), socket: socket.clone() }),
            (None, name) => {
                let name = name.map(|name| name.to_string()).unwrap_or_default();
                let tail = did_you_mean(&name, names().iter().map(String::as_str));
                Err(ControlError::NotUp { name, tail })
            }
        }
    }

    pub fn name(&self) -> &LabName {
        &self.name
    }

    /// Sends a request and waits for the answer.
    pub fn ask(&self, request: Request) -> Result<Reply, ControlError> {
        self.ask_with(request, None)
    }

    /// The same with an open file for the lab.
    pub fn ask_with(
        &self,
        request: Request,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<Reply, ControlError> {
        let mut stream = self.connect()?;
        let lost = |error: io::Error| self.lost(error);
        stream.set_read_timeout(Some(TIMEOUT)).map_err(lost)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(lost)?;
        let mut frame = Vec::new();
        write_frame(&mut frame, &Envelope { version: CONTROL_VERSION, request }).map_err(lost)?;
        local_socket::send(&stream, &frame, file).map_err(lost)?;
        let frame = read_frame(&mut stream).map_err(lost)?;
        let frame = frame.ok_or_else(|| self.lost("it closed the connection without an answer"))?;
        match decode_reply(&frame) {
            Ok(Reply::Refused(refused)) => Err(refused.into()),
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.lost(format!("its answer cannot be decoded: {error}"))),
        }
    }

    /// A connection to it, for the request that makes it answer the calls of a program. The program sends
    /// the request with the listener. `may_have_it`: the program may inherit a listener that the lab has.
    pub fn to_supervise(&self, may_have_it: bool) -> Result<Receiver, ControlError> {
        let (mut message, mut answer) = (Vec::new(), Vec::new());
        let request = Request::Supervise;
        write_frame(&mut message, &Envelope { version: CONTROL_VERSION, request })
            .and_then(|()| write_frame(&mut answer, &Reply::Done))
            .map_err(|error| self.lost(error))?;
        let socket = self.connect()?.into();
        Ok(Receiver { socket, message, answer: Some((answer, TIMEOUT)), may_have_it })
    }

    fn connect(&self) -> Result<UnixStream, ControlError> {
        let stream = local_socket::connect(&self.socket)?;
        let (found, expected) = (local_socket::peer_user(&stream)?, user());
        match found == expected {
            true => Ok(stream),
            false => Err(ControlError::NotYours { name: self.name.to_string(), found, expected }),
        }
    }

    /// Ends it, and waits until its name is free.
    pub fn down(&self) -> Result<(), ControlError> {
        self.ask(Request::Down)?;
        let deadline = Instant::now() + GONE;
        while list()?.contains(&self.name) {
            if Instant::now() > deadline {
                return Err(self.lost(format!("it is still up after {} s", GONE.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The error for an answer of the wrong kind.
    pub fn unexpected(&self) -> ControlError {
        self.lost("its answer belongs to another request")
    }

    fn lost(&self, reason: impl ToString) -> ControlError {
        ControlError::Lost { name: self.name.to_string(), reason: reason.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::super::other_user::{NOBODY, Public, as_nobody};
    use super::*;

    #[test]
    fn a_lab_that_another_user_serves_gets_no_request() {
        let public = Public::new("client");
        let socket = public.socket();
        let Some(listener) = as_nobody(|| UnixListener::bind(&socket).unwrap()) else { return };
        let client = LabClient { name: "theirs".parse().unwrap(), socket };
        let error = client.ask(Request::Lab).unwrap_err().to_string();
        let expected =
            format!("lab theirs belongs to another user (uid {NOBODY}, yours is {})", user());
        assert_eq!(error, expected);
        let (mut stream, _) = listener.accept().unwrap();
        assert_eq!(read_frame(&mut stream).unwrap(), None, "nothing was sent");
    }
}
