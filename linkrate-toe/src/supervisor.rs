//! The supervisor of programs: it answers their calls that open connections and that ask TCP.
//!
//! It makes connect(2) and accept(2) for the program, hands the connection to the adapter, and puts the
//! program's end of the stream pair under the descriptor, before the call returns. From then on it
//! answers calls that only a TCP socket understands. Calls that send and receive never come here.
//!
//! Whatever goes wrong, the connection continues at the host, or the kernel carries the call out. A
//! call that a signal ends, or whose program dies, is forgotten. The calls of a program whose
//! supervisor has gone fail with `ENOSYS`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use linkrate_sys::epoll::{Epoll, Readable, Watch};
use linkrate_sys::error::SysResult;
use linkrate_sys::seccomp::{CallMemory, Listener, Waiting};
use linkrate_sys::{processes, ptrace_stop, socket, socket_calls, socket_swap};

use crate::call::{Asked, At, address, address_bytes, room};
use crate::table::Table;
use crate::worker::{Orders, Worker};

mod names;
mod options;
mod running;

use names::Names;
pub use running::Unmoved;
use running::{Move, Return};

/// Time between two checks whether programs whose calls wait are still there.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time between two checks whether threads that did not stop in time have stopped: they stand still until then.
const LATE_INTERVAL: Duration = Duration::from_millis(5);

/// How long a connect(2) that does not wait may take nevertheless. One that takes longer continues at
/// the host, and moves when the program asks for its outcome (SO_ERROR).
const GRACE: Duration = Duration::from_millis(20);

/// Most calls of one program that are answered before those of others.
const MAX_TURN: usize = 16;

/// Most sockets that are kept for a program whose accept(2) was ended by a signal.
const MAX_KEPT: usize = 64;

/// The errors that calls of programs fail with, include/uapi/asm-generic/errno.h.
mod errno {
    pub(super) const NOT_PERMITTED: i32 = 1;
    pub(super) const BAD_DESCRIPTOR: i32 = 9;
    pub(super) const AGAIN: i32 = 11;
    pub(super) const FAULT: i32 = 14;
    pub(super) const INVALID: i32 = 22;
    pub(super) const NOT_SUPPORTED: i32 = 95;
    pub(super) const IS_CONNECTED: i32 = 106;
    pub(super) const ALREADY: i32 = 114;
    pub(super) const IN_PROGRESS: i32 = 115;
}

/// A connection that may move, and the program it belongs to.
#[derive(Debug)]
pub struct Candidate {
    pub socket: OwnedFd,
    pub process: u32,
    /// The name of the program.
    pub program: String,
    /// The descriptor; `None` where it has none yet.
    pub descriptor: Option<i32>,
    /// It moves by order, whatever the knob says.
    pub ordered: bool,
}

/// The adapter, as a supervisor uses it.
pub trait Mover: Send + 'static {
    /// Whether an interface offloads connections. Otherwise the kernel carries out every call that
    /// opens one.
    fn offloads(&self) -> bool;

    /// Moves a connection to the adapter. Returns the program's end of the stream pair, whose connection is in the
    /// table then, or why the connection stays at the host.
    fn offload_candidate(&self, candidate: Candidate) -> Result<OwnedFd, String>;

    /// Takes a connection back into its socket. `pair` is the program's end of the stream pair. The error says why
    /// the connection stays at the adapter, or is lost.
    fn take_back(&self, id: u32, pair: OwnedFd) -> Result<(), String>;

    /// The socket of a connection in the adapter's TCP, for options.
    fn adapter_socket(&self, id: u32) -> Option<OwnedFd>;
}

/// A running supervisor. It ends when it is dropped; calls that wait then fail.
#[derive(Debug)]
pub struct Supervisor {
    worker: Worker<Order>,
}

impl Supervisor {
    /// Starts a supervisor without programs.
    pub fn start(mover: impl Mover, table: Arc<Table>) -> SysResult<Self> {
        let worker = Worker::start("supervisor", |ordered| {
            let epoll = Epoll::new()?;
            epoll.add(&ordered, 0, Watch::Always)?;
            let served = SupervisorLoop {
                mover,
                table,
                epoll,
                ordered,
                groups: Vec::new(),
                put_off: Vec::new(),
                pending: Vec::new(),
                polls: false,
            };
            Ok(move || served.run())
        });
        Ok(Self { worker: worker? })
    }

    /// Supervises a program and its children.
    pub fn admit(&self, listener: Listener) {
        // without the thread, their calls fail at once
        self.worker.order(Order::Admit(listener));
    }

    /// Moves the connection of a running program to the adapter. The answer comes over the channel.
    pub fn move_running(&self, process: u32, descriptor: i32) -> Receiver<Result<(), Unmoved>> {
        let (answer, answered) = sync_channel(1);
        self.worker.order(Order::Move(Move { process, descriptor, answer }));
        answered
    }

    /// Moves the connection with that number back into the socket of its program, which may run. The answer
    /// comes over the channel.
    pub fn return_running(&self, id: u32) -> Receiver<Result<(), Unmoved>> {
        let (answer, answered) = sync_channel(1);
        self.worker.order(Order::Return(Return { id, answer }));
        answered
    }
}

#[derive(Debug)]
enum Order {
    Admit(Listener),
    Move(Move),
    Return(Return),
}

/// A program and its children.
#[derive(Debug)]
struct Group {
    listener: Arc<Listener>,
    names: Names,
    /// Sockets whose accept(2) a signal has ended, by the listening socket.
    kept: Vec<(u64, OwnedFd)>,
    /// Sockets that are connected, whose connect(2) a signal has ended.
    connected: Vec<u64>,
    /// Sockets whose connect(2) has returned before they were connected.
    late: Vec<u64>,
}

/// A call that waits for its socket.
#[derive(Debug)]
struct Pending {
    group: Arc<Listener>,
    call: Waiting,
    socket: OwnedFd,
    wants: Wants,
    deadline: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
enum Wants {
    Connection { descriptor: i32 },
    Accept { address: At, length_at: At, nonblocking: bool, close_on_exec: bool },
}

struct SupervisorLoop<M> {
    mover: M,
    table: Arc<Table>,
    epoll: Epoll,
    ordered: Orders<Order>,
    groups: Vec<Group>,
    /// Calls that came while another one was awaited.
    put_off: Vec<(Arc<Listener>, Waiting)>,
    pending: Vec<Pending>,
    /// There is something to look after that no descriptor reports.
    polls: bool,
}

impl<M: Mover> SupervisorLoop<M> {
    fn run(mut self) {
        let mut readable = Readable::default();
        loop {
            let interval = match ptrace_stop::detach_late() {
                true => Some(LATE_INTERVAL),
                false => (self.polls || !self.pending.is_empty()).then_some(POLL_INTERVAL),
            };
            let timeout = interval.map(|interval| interval.as_nanos() as u64);
            if self.epoll.wait(&mut readable, timeout).is_err() {
                return;
            }
            self.ordered.quieten();
            loop {
                match self.ordered.next() {
                    Ok(Some(Order::Admit(listener))) => self.admit(listener),
                    Ok(Some(Order::Move(of))) => self.move_running(&of),
                    Ok(Some(Order::Return(of))) => self.return_running(&of),
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
            self.answer_all();
        }
    }

    /// Answers the calls that can be answered.
    fn answer_all(&mut self) {
        self.answer_groups();
        self.look_at_pending();
    }

    fn admit(&mut self, listener: Listener) {
        // without its listener, the program's calls would fail
        self.polls |= self.epoll.add(&listener, 0, Watch::Always).is_err();
        self.groups.push(Group::new(listener));
    }

    /// Answers every call that waits, and forgets programs that have ended.
    fn answer_groups(&mut self) {
        for (listener, call) in std::mem::take(&mut self.put_off) {
            if let Some(group) = self.group_of(&listener) {
                self.answer(group, &listener, call);
            }
        }
        let mut at = 0;
        while at < self.groups.len() {
            if self.answer_group(at) {
                at += 1;
            } else {
                let gone = self.groups.swap_remove(at).listener;
                self.pending.retain(|pending| !Arc::ptr_eq(&pending.group, &gone));
            }
        }
    }

    /// Answers calls of one group, as many as are its turn. Whether it has a program left.
    fn answer_group(&mut self, at: usize) -> bool {
        let listener = Arc::clone(&self.groups[at].listener);
        for _ in 0..MAX_TURN {
            match listener.take() {
                Ok(Some(call)) => self.answer(at, &listener, call),
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        true
    }

    fn group_of(&self, listener: &Arc<Listener>) -> Option<usize> {
        self.groups.iter().position(|of| Arc::ptr_eq(&of.listener, listener))
    }

    fn answer(&mut self, group: usize, listener: &Arc<Listener>, call: Waiting) {
        let asked = call.call.and_then(|name| Asked::of(name, &call.arguments));
        let answered = match asked {
            Some(Asked::Connect { descriptor, address, length }) => {
                self.connect(group, listener, call, descriptor, (address, length))
            }
            Some(Asked::Accept { descriptor, address, length_at, nonblocking, close_on_exec }) => {
                let wants = Wants::Accept { address, length_at, nonblocking, close_on_exec };
                self.accept(group, listener, call, descriptor, wants)
            }
            Some(Asked::Name { descriptor, far, address, length_at }) => {
                self.name(listener, call, descriptor, far, (address, length_at))
            }
            Some(Asked::GetOption { descriptor, option, value, length_at }) => {
                self.move_late(group, listener, call, descriptor, option);
                self.get_option(listener, call, descriptor, option, (value, length_at))
            }
            Some(Asked::SetOption { descriptor, option, value, length }) => {
                self.set_option(listener, call, descriptor, option, (value, length))
            }
            Some(Asked::Duplicate { descriptor }) => {
                self.groups[group].names.duplicates(call.thread, descriptor);
                None
            }
            Some(Asked::MakeSet) => {
                self.groups[group].names.makes_set();
                None
            }
            None => None,
        };
        match answered {
            Some(Answer::Now(result)) => listener.answer(call.id, result),
            Some(Answer::Later) => {}
            None => listener.go_on(call.id),
        }
    }

    /// Makes a connect(2). `None` where the kernel is to make it.
    fn connect(
        &mut self,
        group: usize,
        listener: &Arc<Listener>,
        call: Waiting,
        descriptor: i32,
        (at, length): (At, usize),
    ) -> Option<Answer> {
        if !self.mover.offloads() {
            return None;
        }
        let socket = socket_swap::descriptor_of_thread(call.thread, descriptor).ok()?;
        let mut bytes = vec![0; length];
        // otherwise the socket may be that of another program with that number
        let memory = listener.memory(&call).ok()?;
        memory.read(at, &mut bytes).ok()?;
        let to = address(&bytes)?;
        if !socket_calls::is_tcp(&socket) {
            return None;
        }
        let cookie = socket_calls::cookie(&socket).ok()?;
        let nonblocking = socket_calls::is_nonblocking(&socket).ok()?;
        match socket_calls::connect_now(&socket, &to) {
            Ok(()) => Some(self.complete(group, listener, call, socket, descriptor)),
            Err(error) => match error.raw_os_error()? {
                errno::IS_CONNECTED if forget(&mut self.groups[group].connected, cookie) => {
                    Some(self.complete(group, listener, call, socket, descriptor))
                }
                errno::ALREADY if nonblocking => Some(Answer::Now(Err(errno::ALREADY))),
                errno::IN_PROGRESS | errno::ALREADY => {
                    let limit = match nonblocking {
                        true => Some(GRACE),
                        false => socket_calls::send_timeout(&socket).ok()?,
                    };
                    let wants = Wants::Connection { descriptor };
                    self.wait(listener, call, socket, wants, limit)
                }
                other => Some(Answer::Now(Err(other))),
            },
        }
    }

    /// Makes an accept(2). `None` where the kernel is to make it.
    fn accept(
        &mut self,
        group: usize,
        listener: &Arc<Listener>,
        call: Waiting,
        descriptor: i32,
        wants: Wants,
    ) -> Option<Answer> {
        let socket = socket_swap::descriptor_of_thread(call.thread, descriptor).ok()?;
        if !listener.still_waits(call.id) {
            return Some(Answer::Later);
        }
        let cookie = socket_calls::cookie(&socket).ok()?;
        let kept = &mut self.groups[group].kept;
        let kept = kept.iter().position(|(of, _)| *of == cookie).map(|at| kept.swap_remove(at).1);
        // a kept connection is nobody else's to give
        if (!self.mover.offloads() && kept.is_none()) || !socket_calls::is_tcp(&socket) {
            return None;
        }
        if let Some(accepted) = kept {
            return Some(self.hand_out(group, listener, call, cookie, accepted, wants));
        }
        match socket_calls::accept_now(&socket) {
            Ok(accepted) => Some(self.hand_out(group, listener, call, cookie, accepted, wants)),
            Err(error) if error.raw_os_error()? == errno::AGAIN => {
                if socket_calls::is_nonblocking(&socket).ok()? {
                    return Some(Answer::Now(Err(errno::AGAIN)));
                }
                let limit = socket_calls::receive_timeout(&socket).ok()?;
                self.wait(listener, call, socket, wants, limit)
            }
            Err(error) => Some(Answer::Now(Err(error.raw_os_error()?))),
        }
    }

    fn wait(
        &mut self,
        listener: &Arc<Listener>,
        call: Waiting,
        socket: OwnedFd,
        wants: Wants,
        limit: Option<Duration>,
    ) -> Option<Answer> {
        let how = match wants {
            Wants::Connection { .. } => Watch::Writable,
            Wants::Accept { .. } => Watch::Always,
        };
        self.epoll.add(&socket, 0, how).ok()?;
        let deadline = limit.map(|limit| Instant::now() + limit);
        let group = Arc::clone(listener);
        self.pending.push(Pending { group, call, socket, wants, deadline });
        Some(Answer::Later)
    }

    /// Answers the calls whose sockets are ready, or whose time is up.
    fn look_at_pending(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            let Some(group) = self.group_of(&pending.group) else { continue };
            if !pending.group.still_waits(pending.call.id) {
                self.forget_interrupted(group, &pending);
                continue;
            }
            let late = pending.deadline.is_some_and(|deadline| Instant::now() >= deadline);
            let Pending { group: listener, call, socket, .. } = &pending;
            let answer = match pending.wants {
                Wants::Connection { descriptor } => match has_connected(socket.as_fd()) {
                    Some(Ok(())) => match socket.try_clone() {
                        Ok(socket) => {
                            Some(self.complete(group, listener, *call, socket, descriptor))
                        }
                        Err(_) => Some(Answer::Now(Ok(0))),
                    },
                    Some(Err(errno)) => Some(Answer::Now(Err(errno))),
                    None if late => {
                        if let Ok(cookie) = socket_calls::cookie(socket) {
                            keep(&mut self.groups[group].late, cookie);
                        }
                        Some(Answer::Now(Err(errno::IN_PROGRESS)))
                    }
                    None => None,
                },
                wants @ Wants::Accept { .. } => match socket_calls::accept_now(socket) {
                    Ok(accepted) => {
                        let cookie = socket_calls::cookie(socket).unwrap_or(0);
                        Some(self.hand_out(group, listener, *call, cookie, accepted, wants))
                    }
                    Err(error) => match error.raw_os_error().unwrap_or(errno::INVALID) {
                        errno::AGAIN if !late => None,
                        other => Some(Answer::Now(Err(other))),
                    },
                },
            };
            match answer {
                Some(answer) => {
                    if let Answer::Now(result) = answer {
                        pending.group.answer(pending.call.id, result);
                    }
                    // the descriptor is closed, and its file is not
                    let _ = self.epoll.remove(&pending.socket);
                }
                None => self.pending.push(pending),
            }
        }
    }

    /// A signal has ended the call, or its program has died.
    fn forget_interrupted(&mut self, group: usize, pending: &Pending) {
        let _ = self.epoll.remove(&pending.socket);
        if let Wants::Connection { .. } = pending.wants
            && let Ok(cookie) = socket_calls::cookie(&pending.socket)
        {
            keep(&mut self.groups[group].connected, cookie);
        }
    }

    /// A socket is connected: its connection moves, and connect(2) returns.
    fn complete(
        &mut self,
        group: usize,
        listener: &Listener,
        call: Waiting,
        socket: OwnedFd,
        descriptor: i32,
    ) -> Answer {
        if let Ok(cookie) = socket_calls::cookie(&socket)
            && self.offload_under(group, listener, call, socket, descriptor).is_err()
        {
            // the call is made again when the signal was handled
            keep(&mut self.groups[group].connected, cookie);
        }
        Answer::Now(Ok(0))
    }

    /// Moves a connection, and puts the pair under the descriptor of the program. If the descriptor cannot be
    /// replaced, the connection is back in its socket.
    fn offload_under(
        &mut self,
        group: usize,
        listener: &Listener,
        call: Waiting,
        socket: OwnedFd,
        descriptor: i32,
    ) -> io::Result<()> {
        let Ok(old) = socket.try_clone() else { return Ok(()) };
        let names = self.groups[group].names_of(call.thread, descriptor, &socket);
        let Ok(held) = names else { return Ok(()) };
        let Ok(candidate) = candidate(call.thread, socket, Some(descriptor)) else { return Ok(()) };
        let Ok(pair) = self.mover.offload_candidate(candidate) else { return Ok(()) };
        let replaced = held.put(listener, call, &old, &pair);
        if replaced.is_err()
            && let Some(entry) = self.table.of(&pair)
        {
            // one that cannot return is closed for its program
            let _ = self.mover.take_back(entry.id, pair);
        }
        replaced
    }

    /// A connection was accepted: it moves, and accept(2) returns its descriptor.
    fn hand_out(
        &mut self,
        group: usize,
        listener: &Listener,
        call: Waiting,
        listening: u64,
        accepted: OwnedFd,
        wants: Wants,
    ) -> Answer {
        let Wants::Accept { address, length_at, nonblocking, close_on_exec } = wants else {
            return Answer::Now(Err(errno::INVALID));
        };
        if address != 0 {
            let far = socket_swap::ends(&accepted).map(|(_, far)| far);
            let written = far.map_or(Ok(()), |far| {
                let memory = listener.memory(&call).map_err(|_| errno::FAULT)?;
                write_counted(&memory, &address_bytes(&far), address, length_at)
            });
            if let Err(errno) = written {
                // as the kernel does, the connection is closed, unless a signal has ended the call
                if !listener.still_waits(call.id) {
                    self.groups[group].keep_accepted(listening, accepted);
                }
                return Answer::Now(Err(errno));
            }
        }
        if nonblocking {
            // a socket takes this flag
            let _ = socket::set_nonblocking(&accepted, true);
        }
        let Ok(socket) = accepted.try_clone() else { return Answer::Now(Err(errno::AGAIN)) };
        let pair = match candidate(call.thread, socket, None) {
            Ok(candidate) if self.mover.offloads() => self.mover.offload_candidate(candidate).ok(),
            _ => None,
        };
        let entry = pair.as_ref().and_then(|pair| self.table.of(pair));
        let file = pair.as_ref().map_or(accepted.as_fd(), AsFd::as_fd);
        match listener.give(call.id, file, close_on_exec) {
            Ok(descriptor) => {
                if let Some(entry) = entry {
                    entry.set_descriptor(descriptor);
                }
                Answer::Later
            }
            Err(error) => {
                if let (Some(entry), Some(pair)) = (entry, pair) {
                    // one that cannot return is closed for its program
                    let _ = self.mover.take_back(entry.id, pair);
                }
                self.groups[group].keep_accepted(listening, accepted);
                Answer::Now(Err(error.raw_os_error().unwrap_or(errno::AGAIN)))
            }
        }
    }

    /// Moves a connection whose connect(2) had returned before it was connected, when the program asks
    /// for the outcome.
    fn move_late(
        &mut self,
        group: usize,
        listener: &Listener,
        call: Waiting,
        descriptor: i32,
        option: crate::call::OptionName,
    ) {
        if option != options::ERROR || self.groups[group].late.is_empty() {
            return;
        }
        let socket = socket_swap::descriptor_of_thread(call.thread, descriptor);
        let Ok(socket) = socket else { return };
        let Ok(cookie) = socket_calls::cookie(&socket) else { return };
        if forget(&mut self.groups[group].late, cookie)
            && listener.still_waits(call.id)
            && has_connected(socket.as_fd()) == Some(Ok(()))
        {
            // if it cannot move it continues where it is
            let _ = self.offload_under(group, listener, call, socket, descriptor);
        }
    }

    /// Tells the address of an end, which the program's end of the pair does not know.
    fn name(
        &self,
        listener: &Listener,
        call: Waiting,
        descriptor: i32,
        far: bool,
        (address, length_at): (At, At),
    ) -> Option<Answer> {
        let entry = self.table.of_thread(call.thread, descriptor)?;
        let memory = listener.memory(&call).ok()?;
        let address_of = if far { entry.far } else { entry.own };
        let written = write_counted(&memory, &address_bytes(&address_of), address, length_at);
        Some(Answer::Now(written.map(|()| 0)))
    }
}

#[derive(Debug)]
enum Answer {
    Now(Result<i64, i32>),
    /// The call waits, or was answered.
    Later,
}

/// Takes a number out of a list. Whether it was there.
fn forget(list: &mut Vec<u64>, number: u64) -> bool {
    let at = list.iter().position(|of| *of == number);
    at.map(|at| list.swap_remove(at)).is_some()
}

fn candidate(thread: u32, socket: OwnedFd, descriptor: Option<i32>) -> io::Result<Candidate> {
    let process = processes::process_of(thread)?;
    let program = processes::program_of(process)?;
    Ok(Candidate { socket, process, program, descriptor, ordered: false })
}

/// Keeps a cookie. A program that never comes back to its sockets leaves the newest.
fn keep(cookies: &mut Vec<u64>, cookie: u64) {
    if cookies.len() >= MAX_KEPT {
        cookies.remove(0);
    }
    cookies.push(cookie);
}

/// Whether a socket that connects is connected, or has failed with an error number; `None` while it
/// connects.
fn has_connected(socket: BorrowedFd<'_>) -> Option<Result<(), i32>> {
    if !socket::wait_writable(socket, Duration::ZERO).unwrap_or(true) {
        return None;
    }
    Some(socket::take_error(socket).map_err(|error| error.raw_os_error().unwrap_or(errno::INVALID)))
}

/// Writes a value into the memory of a program, as much as there is room for, and its length.
fn write_counted(memory: &CallMemory<'_>, bytes: &[u8], at: At, length_at: At) -> Result<(), i32> {
    let fault = |_| errno::FAULT;
    let mut said = [0; 4];
    memory.read(length_at, &mut said).map_err(fault)?;
    let room = room(said, bytes.len()).ok_or(errno::INVALID)?;
    memory.write(at, &bytes[..room]).map_err(fault)?;
    memory.write(length_at, &(bytes.len() as u32).to_ne_bytes()).map_err(fault)
}
