//! A lab that is up: its parts, and the two loops that serve it.
//!
//! One thread listens (`listener`): it reads requests, looks at the program in the
//! lab and at signals, and waits for nothing else. The thread that built the lab carries the requests
//! out, one after the other. An agent that does not answer delays these requests, and nothing else.

mod programs;
mod running;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkrate_model::{CpuSet, InterfaceKnobs, TestbedSpec};
use linkrate_sys::host::end_programs;
use linkrate_sys::host::join::Guest;
use linkrate_sys::seccomp::Listener as Calls;
use linkrate_toe::supervisor::Supervisor;

use super::LabName;
use super::caller::Call;
use super::listener::Listener;
use super::messages::{Reply, decode_request};
pub use super::news::Ended;
use super::news::{FAREWELL, MAX_REQUESTS, News};
use super::socket::LabSocket;
use crate::backend::adapters::{Adapters, Faults};
use crate::error::LabError;
use crate::host::Host;
use crate::options::LabOptions;
use crate::placement::CpuSlot;
use crate::testbed::Testbed;
use programs::{Line, Programs, Returns};

/// How long requests that are being finished may take when the lab ends: programs on hosts that were
/// removed, and files of captures.
const FINISHING: Duration = Duration::from_secs(8);

/// How often the end of a lab looks at them.
const END_POLL_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub struct OpenLab {
    pub(super) name: LabName,
    // dropped before the socket: when the name is gone, so is the lab
    pub(super) testbed: Testbed,
    pub(super) spec: TestbedSpec,
    pub(super) options: LabOptions,
    /// Settings made on each port since it was created.
    pub(super) asked: BTreeMap<String, InterfaceKnobs>,
    /// Faults by segment.
    pub(super) faults: BTreeMap<u32, Faults>,
    /// Files of captures by port.
    pub(super) captures: BTreeMap<String, String>,
    /// Connections of programs.
    pub(super) programs: Programs,
    /// Who answers calls of programs, while the lab is served.
    pub(super) supervisor: Option<Supervisor>,
    /// What others tell this thread, while the lab is served.
    pub(super) heard: Option<Receiver<News>>,
    /// News that came while this thread waited for the supervisor.
    pub(super) put_off: VecDeque<News>,
    socket: Arc<LabSocket>,
    /// Threads that finish a request.
    finishing: Vec<JoinHandle<()>>,
    _slot: CpuSlot,
}

pub(super) enum Answer {
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
            std::thread::sleep(END_POLL_INTERVAL);
        }
    }
}

/// The program in a lab, and what its calls come to if they are supervised.
#[derive(Debug)]
pub struct Supervised {
    pub guest: Guest,
    pub calls: Option<Calls>,
}

impl OpenLab {
    /// Builds a lab under a name that no other lab of this user has. Hosts die with the calling
    /// thread, which is bound to the controller's CPUs until the lab is dropped.
    pub fn build(name: LabName, spec: &TestbedSpec, options: LabOptions) -> Result<Self, LabError> {
        let socket = listen(&name)?;
        let slot = CpuSlot::take(spec)?;
        let testbed = Testbed::build(spec, &slot.placement, &options)?;
        let mut lab = Self {
            name,
            testbed,
            spec: spec.clone(),
            options,
            asked: BTreeMap::new(),
            faults: BTreeMap::new(),
            captures: BTreeMap::new(),
            programs: Programs::default(),
            supervisor: None,
            heard: None,
            put_off: VecDeque::new(),
            socket: Arc::new(socket),
            finishing: Vec::new(),
            _slot: slot,
        };
        lab.testbed.keep_ipv6(lab.options.route_congestion.clone());
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
    pub fn serve(&mut self, guest: Option<Supervised>) -> io::Result<Ended> {
        let (news, heard) = sync_channel(MAX_REQUESTS);
        self.heard = Some(heard);
        self.supervise(news.clone())?;
        let (guest, calls) = match guest {
            Some(Supervised { guest, calls }) => (Some(guest), calls),
            None => (None, None),
        };
        if let (Some(supervisor), Some(calls)) = (&self.supervisor, calls) {
            supervisor.admit(calls);
        }
        let over = Arc::new(AtomicBool::new(false));
        let listener = Listener::new(
            Arc::clone(&self.socket),
            guest,
            Arc::clone(&self.options.stop),
            Arc::clone(&over),
        );
        let ended = std::thread::scope(|scope| {
            let listening = std::thread::Builder::new()
                .name("listen".to_owned())
                .spawn_scoped(scope, move || listener.run(&news))?;
            let broken = loop {
                if let Some(reason) = self.broken() {
                    break Some(reason);
                }
                self.tend_programs();
                match self.next_news() {
                    Ok(News::Call(call)) => self.answer_call(*call),
                    Ok(News::Order(order)) => self.carry_out(*order),
                    Ok(News::Ends) | Err(RecvTimeoutError::Disconnected) => break None,
                    Ok(News::Returns) | Err(RecvTimeoutError::Timeout) => {}
                }
            };
            over.store(true, Ordering::Relaxed);
            let ended = listening.join().unwrap_or_else(|_| Err(io::Error::other("panic")));
            // the supervisor waits for no answer any more
            (self.heard, self.put_off) = (None, VecDeque::new());
            broken.map_or(ended, |reason| Ok(Ended::Broken(reason)))
        });
        self.supervisor = None;
        ended
    }

    fn next_news(&mut self) -> Result<News, RecvTimeoutError> {
        if let Some(news) = self.put_off.pop_front() {
            return Ok(news);
        }
        let heard = self.heard.as_ref().ok_or(RecvTimeoutError::Disconnected)?;
        heard.recv_timeout(self.timeout())
    }

    /// Starts the supervisor of programs, if the adapters take their connections.
    fn supervise(&mut self, news: SyncSender<News>) -> io::Result<()> {
        if self.offloads() {
            self.programs.returns = Some(Returns::new(news.clone()));
            let line = Line { news, offloads: Arc::clone(&self.programs.offloads) };
            self.supervisor = Some(Supervisor::start(line, Arc::clone(&self.programs.table))?);
        }
        Ok(())
    }

    /// Whether the adapters have a TCP offload engine.
    pub fn offloads(&self) -> bool {
        self.testbed.backend.adapters().is_some_and(Adapters::has_engine)
    }

    /// A part of it that has ended by itself, as a phrase.
    fn broken(&self) -> Option<String> {
        let testbed = &self.testbed;
        if let Some(reason) = testbed.backend.broken() {
            return Some(reason);
        }
        let clients = testbed.clients.iter().map(|client| &client.host);
        clients.chain([&testbed.sut]).find_map(Host::broken)
    }

    fn answer_call(&mut self, call: Call) {
        let Call { frame, file, reply_to } = call;
        let answer = decode_request(&frame).and_then(|request| self.answer(request, file));
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
