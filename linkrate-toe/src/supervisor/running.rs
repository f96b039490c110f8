//! A connection of a program that runs already: its threads stand still, the connection moves to the
//! adapter or back, and one thread makes a call that does nothing, during which its descriptors are
//! replaced. Before the connection moves, such a call shows that they can be.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use linkrate_sys::ptrace_stop::{self, Injected, PtraceStop};
use linkrate_sys::seccomp::{Listener, Waiting};
use linkrate_sys::{descriptors, processes, socket_calls, socket_swap};

use super::{Candidate, Mover, SupervisorLoop, errno};

/// How long the call may take to come to its listener.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Calls that are made to replace descriptors: SIGSTOP ends one.
const MAX_CALLS: u32 = 5;

/// How long a program is waited for whose threads cannot stop yet, and the time between two trials.
const VFORK_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// Time between two polls for it.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// An order to move the connection of a descriptor, with the channel for the answer.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) process: u32,
    pub(super) descriptor: i32,
    pub(super) answer: SyncSender<Result<(), Unmoved>>,
}

/// An order to move a connection back into the socket of its program, with the channel for the answer.
#[derive(Debug)]
pub(super) struct Return {
    pub(super) id: u32,
    pub(super) answer: SyncSender<Result<(), Unmoved>>,
}

/// Why the connection of a running program does not move. It continues where it is.
#[derive(Debug, thiserror::Error)]
pub enum Unmoved {
    #[error("process {process} does not exist")]
    NoProcess { process: u32 },
    #[error("process {process} has no descriptor {descriptor}")]
    NoDescriptor { process: u32, descriptor: i32 },
    #[error("descriptor {descriptor} of process {process} is {found}, expected a TCP connection")]
    NotTcp { process: u32, descriptor: i32, found: &'static str },
    #[error(
        "processes {others:?} have the socket of descriptor {descriptor} of process {process} too"
    )]
    Shared { process: u32, descriptor: i32, others: Vec<u32> },
    /// Its program has closed it, or has ended.
    #[error("the connection has ended")]
    Ended,
    #[error("process {process} was not started in this lab")]
    NotSupervised { process: u32 },
    /// The connection stays, with the reason.
    #[error("{0}")]
    Stays(String),
    /// The program cannot be stopped, or its descriptor cannot be replaced.
    #[error("{step} of process {process}: {cause}")]
    Refused { step: &'static str, process: u32, cause: io::Error },
}

impl Unmoved {
    /// The word for the reason in counters.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::NoProcess { .. }
            | Self::NoDescriptor { .. }
            | Self::NotTcp { .. }
            | Self::Ended => "ended",
            Self::Shared { .. } => "shared",
            Self::NotSupervised { .. } => "not-supervised",
            Self::Stays(_) => "stays",
            Self::Refused { .. } => "system",
        }
    }

    /// Whether it lasts as long as a thread is in vfork(2), whose child has the descriptors of its program.
    fn passes(&self) -> bool {
        match self {
            Self::Refused { cause, .. } => cause.kind() == io::ErrorKind::ResourceBusy,
            Self::Shared { process, others, .. } => {
                others.iter().chain([process]).any(|process| ptrace_stop::is_in_vfork(*process))
            }
            _ => false,
        }
    }
}

impl<M: Mover> SupervisorLoop<M> {
    pub(super) fn move_running(&mut self, of: &Move) {
        let moved = self.try_to_move(of.process, of.descriptor);
        // who asked may have gone
        let _ = of.answer.send(moved);
    }

    fn try_to_move(&mut self, process: u32, descriptor: i32) -> Result<(), Unmoved> {
        let socket = self.connection(process, descriptor)?;
        let refused = |step| move |cause| Unmoved::Refused { step, process, cause };
        let inode = descriptors::inode(&socket).map_err(refused("look at a descriptor"))?;
        let mut still = self.stopped(|| {
            let mut others = holders(inode);
            others.retain(|other| *other != process);
            if !others.is_empty() {
                return Err(Unmoved::Shared { process, descriptor, others });
            }
            PtraceStop::of(process).map_err(refused("stop the threads"))
        })?;
        let held = Replaced::find(process, &socket).map_err(refused("list the descriptors"))?;
        self.check(&mut still, &held, &socket)?;
        let program = processes::program_of(process).map_err(refused("read the name"))?;
        let old = socket.try_clone().map_err(refused("keep a descriptor"))?;
        let candidate =
            Candidate { socket, process, program, descriptor: Some(descriptor), ordered: true };
        let pair = self.mover.offload_candidate(candidate).map_err(Unmoved::Stays)?;
        let replaced = self.replace(&mut still, &held, &old, &pair);
        if let (Err(_), Some(entry)) = (&replaced, self.table.of(&pair)) {
            // one that cannot return is closed for its program
            let _ = self.mover.take_back(entry.id, pair);
        }
        replaced
    }

    /// Moves the connection of a program that may run back into its socket.
    pub(super) fn return_running(&mut self, of: &Return) {
        let returned = self.try_to_return(of.id);
        // who asked may have gone
        let _ = of.answer.send(returned);
    }

    fn try_to_return(&mut self, id: u32) -> Result<(), Unmoved> {
        let Some(entry) = self.table.get(id) else { return Err(Unmoved::Ended) };
        let inode = entry.pair();
        let mut still = self.stopped(|| {
            let mut others = holders(inode);
            let Some(process) = others.pop() else { return Err(Unmoved::Ended) };
            let descriptor = entry.descriptor().unwrap_or(-1);
            if !others.is_empty() {
                return Err(Unmoved::Shared { process, descriptor, others });
            }
            let step = "stop the threads";
            PtraceStop::of(process).map_err(|cause| Unmoved::Refused { step, process, cause })
        })?;
        let process = still.process();
        let refused = |step| move |cause| Unmoved::Refused { step, process, cause };
        let taken = refused("take a descriptor");
        let held = descriptors::of_socket(process, inode).map_err(&taken)?;
        // its last descriptor may have been closed meanwhile
        let Some(first) = held.first() else { return Err(Unmoved::Ended) };
        let pair = socket_swap::descriptor_of(process, first.number);
        let pair = pair.map_err(|error| taken(error.into()))?;
        let held = Replaced::find(process, &pair).map_err(refused("list the descriptors"))?;
        let socket = entry.socket.try_clone().map_err(&taken)?;
        let old = pair.try_clone().map_err(&taken)?;
        socket_swap::copy_waiting(&pair, &socket).map_err(refused("copy the way it waits"))?;
        self.check(&mut still, &held, &old)?;
        self.mover.take_back(id, pair).map_err(Unmoved::Stays)?;
        self.replace(&mut still, &held, &old, &socket)
    }

    /// Stops a program, once none of its threads is in vfork(2). It goes on until then, and calls are answered: the
    /// child may make one before it executes its program.
    fn stopped(
        &mut self,
        stop: impl Fn() -> Result<PtraceStop, Unmoved>,
    ) -> Result<PtraceStop, Unmoved> {
        let deadline = Instant::now() + VFORK_TIMEOUT;
        loop {
            match stop() {
                Err(reason) if Instant::now() < deadline && reason.passes() => {
                    self.answer_all();
                    std::thread::sleep(PAUSE);
                }
                stopped => return stopped,
            }
        }
    }

    /// Whether the descriptors of a program can be replaced: its calls come here, and the kernel takes their numbers.
    /// Each names the same file again.
    fn check(
        &mut self,
        still: &mut PtraceStop,
        held: &Replaced,
        file: &OwnedFd,
    ) -> Result<(), Unmoved> {
        if held.is_empty() {
            // another process has the number
            return Err(Unmoved::Ended);
        }
        let process = still.process();
        let step = "let a thread go on";
        self.in_a_call(still, |listener, waiting| held.all_to(listener, waiting, file))?
            .map_err(|cause| Unmoved::Refused { step, process, cause })
    }

    /// Lets the descriptors of a program name `new`.
    fn replace(
        &mut self,
        still: &mut PtraceStop,
        held: &Replaced,
        old: &OwnedFd,
        new: &OwnedFd,
    ) -> Result<(), Unmoved> {
        // a thread that does not stand where it stood is detached late
        self.in_a_call(still, |listener, waiting| held.put(listener, waiting, old, new)).map(drop)
    }

    /// Lets a thread of a stopped process wait in a call, during which `body` replaces descriptors, and in another
    /// one where that fails. Returns whether the thread stands again where it stood.
    fn in_a_call(
        &mut self,
        still: &mut PtraceStop,
        body: impl Fn(&Listener, Waiting) -> io::Result<()>,
    ) -> Result<io::Result<()>, Unmoved> {
        let process = still.process();
        let refused = |step| move |cause| Unmoved::Refused { step, process, cause };
        let mut calls = 0;
        loop {
            calls += 1;
            let mut call = still.inject().map_err(refused("make a call"))?;
            let Some((listener, waiting)) = self.await_call(&mut call) else {
                let has_returned = call.has_returned().unwrap_or(false);
                call.finish().map_err(refused("let a thread go on"))?;
                // a signal may have ended it before it came here
                if has_returned && calls < MAX_CALLS {
                    continue;
                }
                return Err(Unmoved::NotSupervised { process });
            };
            let done = body(&listener, waiting);
            listener.answer(waiting.id, Err(errno::BAD_DESCRIPTOR));
            let finished = call.finish();
            match done {
                Ok(()) => return Ok(finished),
                Err(cause) if calls == MAX_CALLS => {
                    return Err(refused("replace a descriptor")(cause));
                }
                Err(_) => finished.map_err(refused("let a thread go on"))?,
            }
        }
    }

    /// The socket of a descriptor, which is a TCP connection.
    fn connection(&self, process: u32, descriptor: i32) -> Result<OwnedFd, Unmoved> {
        let socket = socket_swap::descriptor_of(process, descriptor).map_err(|error| {
            match (error.errno(), processes::program_of(process)) {
                (_, Err(_)) => Unmoved::NoProcess { process },
                (Some(errno::BAD_DESCRIPTOR), _) => Unmoved::NoDescriptor { process, descriptor },
                _ => {
                    let cause = io::Error::from(error);
                    Unmoved::Refused { step: "take a descriptor", process, cause }
                }
            }
        })?;
        let found = if self.table.of(&socket).is_some() {
            "a connection at the adapter already"
        } else if socket_calls::cookie(&socket).is_err() {
            "not a socket"
        } else if !socket_calls::is_tcp(&socket) {
            "a socket of another protocol"
        } else if socket_swap::ends(&socket).is_err() {
            "a TCP socket that is not connected"
        } else {
            return Ok(socket);
        };
        Err(Unmoved::NotTcp { process, descriptor, found })
    }

    /// Waits for the call of a stopped thread. Calls of others wait until afterwards.
    fn await_call(&mut self, call: &mut Injected<'_>) -> Option<(Arc<Listener>, Waiting)> {
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            for group in &self.groups {
                while let Ok(Some(waiting)) = group.listener.take() {
                    if waiting.thread == call.thread() {
                        return Some((Arc::clone(&group.listener), waiting));
                    }
                    self.put_off.push((Arc::clone(&group.listener), waiting));
                }
            }
            if call.has_returned().unwrap_or(true) {
                return None;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        None
    }
}

/// The processes of others that have a descriptor of a socket.
fn holders(inode: u64) -> Vec<u32> {
    let mut all = descriptors::holders(inode);
    all.retain(|process| *process != std::process::id());
    all
}

/// The descriptors of a process that name one socket, and the epoll sets that wait for them.
#[derive(Debug)]
pub(super) struct Replaced {
    thread: u32,
    held: Vec<descriptors::Held>,
    registrations: Vec<descriptors::Registration>,
}

impl Replaced {
    /// That with this number alone, if it names the socket. Fails when the process has ended.
    pub(super) fn at(thread: u32, descriptor: i32, socket: impl AsFd) -> io::Result<Self> {
        let held = descriptors::of_number(thread, descriptor, descriptors::inode(socket)?)?;
        Ok(Self { thread, held: held.into_iter().collect(), registrations: Vec::new() })
    }

    /// Fails when the process has ended.
    pub(super) fn find(thread: u32, socket: impl AsFd) -> io::Result<Self> {
        let held = descriptors::of_socket(thread, descriptors::inode(socket)?)?;
        let numbers: Vec<i32> = held.iter().map(|held| held.number).collect();
        let registrations = descriptors::registrations(thread, &numbers)?;
        Ok(Self { thread, held, registrations })
    }

    fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Lets all of them name a file.
    fn all_to(&self, listener: &Listener, waiting: Waiting, file: &OwnedFd) -> io::Result<()> {
        self.held.iter().try_for_each(|held| {
            listener.replace(waiting.id, held.number, file, held.close_on_exec)
        })
    }

    /// Lets all of them name `new`. If one cannot be replaced, all are as before.
    pub(super) fn put(
        &self,
        listener: &Listener,
        waiting: Waiting,
        old: &OwnedFd,
        new: &OwnedFd,
    ) -> io::Result<()> {
        if let Err(error) = self.all_to(listener, waiting, new) {
            // those that were replaced name the socket again, as long as the call waits
            let _ = self.all_to(listener, waiting, old);
            return Err(error);
        }
        for of in &self.registrations {
            // a set that cannot be changed tells the program that the old socket has hung up
            if let Ok(set) = socket_swap::descriptor_of_thread(self.thread, of.set) {
                let _ = descriptors::move_registration(set.as_fd(), *of, old.as_fd(), new.as_fd());
            }
        }
        Ok(())
    }
}
