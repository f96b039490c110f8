//! A lab that is up: its parts, and the loop that serves it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkrate_sys::host::end_programs;
use linkrate_sys::host::join::{Guest, user};
use linkrate_sys::{local_socket, wait};
use linkrate_terms::{CpuSet, InterfaceKnobs, TestbedSpec};

use super::LabName;
use super::caller::{Call, Caller, Heard};
use super::messages::{Refused, Reply, Request, decode_request};
use super::socket::LabSocket;
use crate::error::LabError;
use crate::ground::adapters::Faults;
use crate::options::LabOptions;
use crate::placement::Seat;
use crate::testbed::Testbed;

/// The most commands whose requests are read at a time; others wait to be accepted.
const MOST_CALLERS: usize = 8;

/// How often the loop looks for events that no descriptor reports: signals taken by another thread,
/// threads that have ended.
const GLANCE: Duration = Duration::from_millis(500);

/// How long programs may take to end when their host goes.
pub(super) const FAREWELL: Duration = Duration::from_secs(4);

/// How long requests that are being finished may take when the lab ends: programs on hosts that were
/// removed, and files of captures.
const FINISHING: Duration = Duration::from_secs(8);

/// How often the end of a lab looks at them.
const LOOK: Duration = Duration::from_millis(5);

/// A lab that is up.
#[derive(Debug)]
pub struct OpenLab {
    pub(super) name: LabName,
    // dropped before the socket: when the name is gone, so is the lab
    pub(super) testbed: Testbed,
    pub(super) spec: TestbedSpec,
    pub(super) options: LabOptions,
    /// Settings made on each port since it was created.
    pub(super) asked: BTreeMap<String, InterfaceKnobs>,
    /// Faults by port of the system under test.
    pub(super) faults: BTreeMap<String, Faults>,
    /// Files of captures by port.
    pub(super) captures: BTreeMap<String, String>,
    socket: LabSocket,
    callers: Vec<Caller>,
    /// Threads that finish a request.
    finishing: Vec<JoinHandle<()>>,
    _seat: Seat,
}

/// The answer to a request.
pub(super) enum Answer {
    /// The reply.
    Now(Reply),
    /// A reply that a thread of its own waits for.
    Later(Box<dyn FnOnce() -> Reply + Send>),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(reply) => f.debug_tuple("Now").field(reply).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

impl Drop for OpenLab {
    fn drop(&mut self) {
        let clients = self.testbed.clients.iter().map(|client| client.host.pid());
        let hosts: Vec<u32> = clients.chain([self.testbed.sut.pid()]).collect();
        end_programs(&hosts, FAREWELL);
        // what a file or a command still gets, it gets before this process ends
        let deadline = Instant::now() + FINISHING;
        while self.finishing.iter().any(|thread| !thread.is_finished()) && Instant::now() < deadline
        {
            std::thread::sleep(LOOK);
        }
    }
}

/// Why a lab has ended.
#[derive(Debug)]
pub enum Ended {
    /// The program in it ended with this status.
    Program(ExitStatus),
    /// Another command ended it.
    Down,
    /// This process was told to end.
    Stopped,
    /// A part of it broke.
    Broken(String),
}

impl OpenLab {
    /// Builds a lab under a name that no other lab of this user has. Hosts die with the calling
    /// thread, which is bound to the controller's CPUs until the lab is dropped.
    ///
    /// # Errors
    /// [`LabError`] with the remedy where there is one.
    pub fn build(name: LabName, spec: &TestbedSpec, options: LabOptions) -> Result<Self, LabError> {
        let socket = listen(&name)?;
        let seat = Seat::take(spec)?;
        let testbed = Testbed::build(spec, &seat.placement, &options)?;
        let mut lab = Self {
            name,
            testbed,
            spec: spec.clone(),
            options,
            asked: BTreeMap::new(),
            faults: BTreeMap::new(),
            captures: BTreeMap::new(),
            socket,
            callers: Vec::new(),
            finishing: Vec::new(),
            _seat: seat,
        };
        for port in lab.testbed.sut_interfaces(usize::MAX) {
            lab.testbed.set_port_knobs(&port, &InterfaceKnobs::default())?;
        }
        Ok(lab)
    }

    /// Process id of the system under test, and its CPUs.
    pub fn sut(&self) -> (u32, &CpuSet) {
        (self.testbed.sut.pid(), &self.testbed.placement.sut)
    }

    /// Limits of its placement, as sentences.
    pub fn warnings(&self) -> Vec<String> {
        self.testbed.placement.warnings()
    }

    /// Serves the lab until `guest`, if there is one, has ended, or something else ends the lab;
    /// the guest is then ended too.
    ///
    /// # Errors
    /// When waiting fails.
    pub fn serve(&mut self, mut guest: Option<Guest>) -> io::Result<Ended> {
        loop {
            if let Some(guest) = &mut guest
                && let Some(status) = guest.try_wait()?
            {
                return Ok(Ended::Program(status));
            }
            if self.options.stop.load(Ordering::Relaxed) {
                end(guest)?;
                return Ok(Ended::Stopped);
            }
            if let Some(reason) = self.broken() {
                end(guest)?;
                return Ok(Ended::Broken(reason));
            }
            if self.serve_callers(guest.as_ref())? {
                end(guest)?;
                return Ok(Ended::Down);
            }
        }
    }

    /// Waits for [`GLANCE`] at most, and answers what has arrived. True when the lab is to end.
    fn serve_callers(&mut self, guest: Option<&Guest>) -> io::Result<bool> {
        let mut descriptors: Vec<BorrowedFd<'_>> = self.callers.iter().map(AsFd::as_fd).collect();
        let has_room = descriptors.len() < MOST_CALLERS;
        if has_room {
            descriptors.push(self.socket.listener().as_fd());
        }
        descriptors.extend(guest.map(AsFd::as_fd));
        let ready = wait::wait(&descriptors, Some(GLANCE.as_nanos() as u64))?;
        let mut down = false;
        let callers = std::mem::take(&mut self.callers);
        let count = callers.len();
        for (index, caller) in callers.into_iter().enumerate() {
            match caller.hear(ready.contains(index)) {
                Heard::Waiting(caller) => self.callers.push(caller),
                Heard::Call(call) => down |= self.answer_call(call),
                Heard::Gone => {}
            }
        }
        // a listener that fails, for want of descriptors for one, is asked again
        if has_room
            && ready.contains(count)
            && let Ok((stream, _)) = self.socket.listener().accept()
            && let Ok(caller) = Caller::new(stream)
        {
            self.callers.push(caller);
        }
        Ok(down)
    }

    /// A part of it that has ended by itself, as a phrase.
    fn broken(&self) -> Option<String> {
        let testbed = &self.testbed;
        if let Some(reason) = testbed.ground.broken() {
            return Some(reason);
        }
        let clients = testbed.clients.iter().map(|client| &client.host);
        // a process that has ended, waited for or not, has no namespaces
        let dead = clients.chain([&testbed.sut]).find(|host| host.network_namespace().is_err())?;
        Some(format!("the agent of {} has died", dead.name))
    }

    /// Answers one request. True when the lab is to end.
    fn answer_call(&mut self, call: Call) -> bool {
        let Call { frame, file, reply_to } = call;
        let request = match local_socket::peer_user(reply_to.stream()) {
            Ok(found) if found == user() => decode_request(&frame),
            Ok(found) => Err(Refused::failed(format!(
                "user {found} may not control this lab; expected user {}",
                user()
            ))),
            Err(_) => return false,
        };
        let down = request == Ok(Request::Down);
        let answer = request.and_then(|request| self.answer(request, file));
        match answer.unwrap_or_else(|refused| Answer::Now(Reply::Refused(refused))) {
            Answer::Now(reply) => reply_to.send(&reply),
            Answer::Later(reply) => {
                self.finishing.retain(|thread| !thread.is_finished());
                // without a thread the command sees the end of the connection
                let started = std::thread::Builder::new()
                    .name("reply".to_owned())
                    .spawn(move || reply_to.send(&reply()));
                self.finishing.extend(started);
            }
        }
        down
    }
}

/// Ends a program in the lab, if there is one.
fn end(guest: Option<Guest>) -> io::Result<()> {
    match guest {
        Some(mut guest) => guest.end(FAREWELL).map(drop),
        None => Ok(()),
    }
}

fn listen(name: &LabName) -> Result<LabSocket, LabError> {
    LabSocket::listen(name).map_err(|error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            return LabError::Invalid {
                what: format!("lab {name} is up already"),
                hint: format!(
                    "end it with `linkrate lab down --name {name}`, or choose another --name"
                ),
            };
        }
        LabError::System(error)
    })
}
