//! A lab that is up: its parts, and the loop that serves it.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use linkrate_agent::framing::{FrameBuffer, write_frame};
use linkrate_sys::host::join::{self, Guest, Namespaces};
use linkrate_sys::host::{Privilege, end_programs};
use linkrate_sys::{local_socket, wait};
use linkrate_terms::{CpuSet, InterfaceKnobs, TestbedSpec};

use super::messages::{Refused, Reply, Request, decode_request};
use super::{Address, LabName, may_control};
use crate::error::LabError;
use crate::ground::adapters::Faults;
use crate::options::LabOptions;
use crate::placement::Seat;
use crate::testbed::Testbed;

/// Time for another command to send its request, and to take its reply. The lab serves no other
/// command meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the loop looks for events that no descriptor reports: signals taken by another thread,
/// drivers that have ended.
const GLANCE: Duration = Duration::from_millis(500);

/// How long programs may take to end when their host goes.
pub(super) const FAREWELL: Duration = Duration::from_secs(4);

/// A lab that is up.
#[derive(Debug)]
pub struct OpenLab {
    pub(super) name: LabName,
    // dropped before the sockets: when the name is gone, so is the lab
    pub(super) testbed: Testbed,
    pub(super) spec: TestbedSpec,
    pub(super) options: LabOptions,
    /// Settings made on each port since it was created.
    pub(super) asked: BTreeMap<String, InterfaceKnobs>,
    /// Faults by port of the system under test.
    pub(super) faults: BTreeMap<String, Faults>,
    /// Files of captures by port.
    pub(super) captures: BTreeMap<String, String>,
    user: u32,
    listeners: Vec<UnixListener>,
    _seat: Seat,
}

impl Drop for OpenLab {
    fn drop(&mut self) {
        let clients = self.testbed.clients.iter().map(|client| client.host.pid());
        let hosts: Vec<u32> = clients.chain([self.testbed.sut.pid()]).collect();
        end_programs(&hosts, FAREWELL);
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
        let user = join::user();
        let outside = listen_outside(&name, user)?;
        let seat = Seat::take(spec)?;
        let testbed = Testbed::build(spec, &seat.placement, &options)?;
        // root of a user namespace is this user outside
        let user_inside = match testbed.privilege() {
            None | Some(Privilege::Root) => user,
            Some(Privilege::UserNamespace) => 0,
        };
        let inside =
            Namespaces::of(testbed.sut.pid())?.listen(&Address { user: user_inside }.of(&name))?;
        let mut lab = Self {
            name,
            testbed,
            spec: spec.clone(),
            options,
            asked: BTreeMap::new(),
            faults: BTreeMap::new(),
            captures: BTreeMap::new(),
            user,
            listeners: vec![outside, inside],
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
            let mut descriptors: Vec<BorrowedFd<'_>> =
                self.listeners.iter().map(AsFd::as_fd).collect();
            descriptors.extend(guest.as_ref().map(AsFd::as_fd));
            let ready = wait::wait(&descriptors, Some(GLANCE.as_nanos() as u64))?;
            for index in 0..self.listeners.len() {
                // one at a time: while it waits, more come
                if ready.contains(index)
                    && let Ok((stream, _)) = self.listeners[index].accept()
                    && self.serve_one(stream)
                {
                    end(guest)?;
                    return Ok(Ended::Down);
                }
            }
        }
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

    /// Answers one connection. True when the lab is to end. An error of the connection is for the
    /// other command to report.
    fn serve_one(&mut self, mut stream: UnixStream) -> bool {
        let request = match local_socket::peer_user(&stream) {
            Ok(user) if may_control(user, self.user) => {
                let deadline = Instant::now() + PATIENCE;
                match read_request(&mut stream, deadline) {
                    Some(frame) => decode_request(&frame),
                    None => return false,
                }
            }
            Ok(user) => Err(Refused::failed(format!(
                "user {user} may not control this lab; its owner and root may"
            ))),
            Err(_) => return false,
        };
        let (reply, down) = match request {
            Ok(request) => {
                let down = request == Request::Down;
                (self.answer(request).unwrap_or_else(Reply::Refused), down)
            }
            Err(refused) => (Reply::Refused(refused), false),
        };
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let _ = write_frame(&mut stream, &reply);
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

fn listen_outside(name: &LabName, user: u32) -> Result<UnixListener, LabError> {
    local_socket::listen(&Address { user }.of(name)).map_err(|error| {
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

/// One frame; `None` when it is incomplete or late.
fn read_request(stream: &mut UnixStream, deadline: Instant) -> Option<Vec<u8>> {
    let mut arrived = FrameBuffer::default();
    let mut part = [0; 4096];
    loop {
        if let Some(frame) = arrived.take().ok()? {
            return Some(frame);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        // the kernel refuses a time-out of zero; here zero means that the time is up
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(&mut part) {
            Ok(0) => return None,
            Ok(count) => arrived.add(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}
