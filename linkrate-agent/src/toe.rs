//! An agent's part in moves of connections: that of the host, whose flows they are, or that of the
//! adapter, which takes them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::on_cpu::OnCpuTrace;
use linkrate_sys::sched::{Ahead, ThreadId, current_thread, thread_cpu_ns};
use linkrate_sys::socket_swap::{bound_unsent, descriptor_of, ends, unsent_bound};
use linkrate_sys::unnamed_file::memory_file;
use linkrate_sys::{sock_diag, tcp_repair};
use linkrate_toe::connection::MAX_BYTES;
use linkrate_toe::linux::Linux;
use linkrate_toe::program::{Offered, ParkedSocket, Parking, offload, take_waiting};
use linkrate_toe::round_trip;
use linkrate_toe::{Connection, Engine, Refusal as Obstacle};

use crate::flow::{Control, Counters, Flow};
use crate::session::Session;
use linkrate_protocol::framing::read_frame;
use linkrate_protocol::toe::{FileOf, FlowConnection, HostConnection, Stays, ToeReply, ToeRequest};
use linkrate_protocol::{Refusal, Reply, Request, decode_request, write_message};

/// Bytes that a socket takes from its program and does not send at once, before its connection moves. All
/// of them are copied while the peer's frames wait.
const PREPARED: u32 = 64 << 10;

/// Connections that this agent has moved, and the flows whose connections can move.
#[derive(Debug, Default)]
pub struct Offload {
    /// Of a host.
    flows: Vec<Movable>,
    /// Whether the flows have begun. Before, they use no socket.
    control: Option<Arc<Control>>,
    /// By flow, of a host.
    away: BTreeMap<u32, Away>,
    /// Of an adapter, once it has one.
    engine: Option<Engine>,
    /// Of a connection whose owner has no agent, until it has come.
    opened: Option<Opened>,
    /// The bounds that programs had set to bytes that are not sent, of flows whose connections are to move
    /// soon.
    prepared: BTreeMap<u32, u32>,
    /// CPU time that moves to the adapter have cost so far, by flow, ns, until the adapter has taken the
    /// connection.
    spent: BTreeMap<u32, u64>,
    /// The state of the connection that moved last, which the other agent reads before the next one moves.
    /// Its memory serves all: new memory would take longer than the copy.
    state: Option<File>,
    /// For reading such a file.
    buffer: Vec<u8>,
    /// The controller's end of the second connection, until the next request.
    channel: Option<UnixStream>,
    /// The thread that moves connections to and from an engine is ahead of all others.
    ahead: Option<Ahead>,
    /// For what moves cost this host; `None` where it does not trace.
    pub(crate) trace: Option<Arc<OnCpuTrace>>,
}

/// A flow, as far as its connection can move.
#[derive(Debug)]
struct Movable {
    name: String,
    socket: Option<Arc<OwnedFd>>,
    parking: Arc<Parking>,
    counters: Arc<Counters>,
    thread_id: ThreadId,
    discards: bool,
    since: Instant,
}

/// A connection that has left its socket.
#[derive(Debug)]
struct Away {
    parked_socket: ParkedSocket,
    /// Until the adapter has taken it.
    offered: Option<Waiting>,
}

/// A file for a state, and a stream pair.
#[derive(Debug)]
struct Opened {
    state: File,
    program: OwnedFd,
    adapter: OwnedFd,
}

/// A connection that waits for the adapter.
#[derive(Debug)]
struct Waiting {
    connection: Connection,
    adapter: OwnedFd,
}

/// An [`Offload`] that two threads use.
pub type Shared = Arc<Mutex<Offload>>;

/// The offload behind a lock. A holder that panicked left whole values.
pub fn locked(shared: &Shared) -> MutexGuard<'_, Offload> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Carries out a request. `session` has the flows, if there are any.
///
/// # Errors
/// It cannot be carried out. Unless the reason says that the connection is lost, it stays where it
/// was.
pub fn answer(
    shared: &Shared,
    request: ToeRequest,
    session: Option<&Session>,
) -> Result<Reply, Refusal> {
    let mut offload = locked(shared);
    if let Some(session) = session {
        offload.attend(session);
    }
    match request {
        ToeRequest::Channel => {
            let (there, here) = UnixStream::pair()?;
            let shared = Arc::clone(shared);
            let body = move || serve(&shared, &here);
            std::thread::Builder::new().name("moves".to_owned()).spawn(body)?;
            let descriptor = there.as_raw_fd();
            offload.channel = Some(there);
            Ok(Reply::Toe(ToeReply::Channel { descriptor }))
        }
        request => offload.answer(request),
    }
}

/// Serves the second connection until it closes.
fn serve(shared: &Shared, carrier: &UnixStream) {
    // a move must not wait for the flows whose connections it moves
    let _ahead = Ahead::now();
    let mut carrier = carrier;
    while let Ok(Some(frame)) = read_frame(&mut carrier) {
        let cpu_ns = own_time(locked(shared).trace.clone());
        let began_ns = cpu_ns();
        let (number, request) = decode_request(&frame);
        let mut offloaded = None;
        let reply = match request {
            Ok(Request::Toe(request)) => {
                offloaded = request.offloads();
                answer(shared, request, None)
            }
            Ok(_) => Err(refusal("this connection is for moves only")),
            Err(error) => Err(refusal(error.to_string())),
        };
        let mut reply = reply.unwrap_or_else(Reply::Refused);
        if let Reply::Toe(ToeReply::Taken { cpu_ns: all }) = &mut reply {
            *all += cpu_ns().saturating_sub(began_ns);
            offloaded = None;
        }
        if write_message(&mut carrier, number, &reply).is_err() {
            return;
        }
        if let Some(flow) = offloaded {
            *locked(shared).spent.entry(flow).or_default() += cpu_ns().saturating_sub(began_ns);
        }
    }
}

/// A reading of the CPU time of the calling thread, ns. Its own clock, which can always be read, also runs while it waits for
/// the CPU whenever another thread has woken it.
fn own_time(trace: Option<Arc<OnCpuTrace>>) -> impl Fn() -> u64 {
    move || {
        let traced = trace.as_ref().and_then(|trace| trace.of_caller().ok());
        traced.or_else(|| thread_cpu_ns(current_thread()).ok()).unwrap_or(0)
    }
}

fn refusal(reason: impl Into<String>) -> Refusal {
    Refusal { reason: reason.into(), hint: None }
}

fn stays(obstacle: &Obstacle) -> Reply {
    let (word, reason) = (obstacle.word().to_owned(), obstacle.to_string());
    Reply::Toe(ToeReply::Stays(Stays { word, reason }))
}

impl Offload {
    /// Learns of the flows of a session.
    pub fn attend(&mut self, session: &Session) {
        let known = self.control.as_ref().is_some_and(|known| Arc::ptr_eq(known, &session.control));
        if known && self.flows.len() == session.flows.len() {
            return;
        }
        self.control = Some(Arc::clone(&session.control));
        let since = Instant::now();
        let movable = |flow: &Flow| Movable {
            name: flow.name.clone(),
            socket: flow.socket.clone(),
            parking: Arc::clone(&flow.parking),
            counters: Arc::clone(&flow.counters),
            thread_id: flow.thread_id,
            discards: flow.discards,
            since,
        };
        self.flows = session.flows.iter().map(movable).collect();
    }

    /// Leaves the flows alone, which are about to end.
    pub fn release_flows(&mut self) {
        self.flows.clear();
        self.prepared.clear();
        self.spent.clear();
        self.control = None;
    }

    fn answer(&mut self, request: ToeRequest) -> Result<Reply, Refusal> {
        let done = Ok(Reply::Toe(ToeReply::Done));
        self.channel = None;
        match request {
            ToeRequest::Channel => Err(refusal("a connection for moves cannot open another one")),
            ToeRequest::Connections => Ok(Reply::Toe(ToeReply::Connections(self.connections()))),
            ToeRequest::Prepare { flow } => {
                let descriptor = self.flow(flow)?.descriptor()?;
                let (bound, unsent) =
                    (unsent_bound(descriptor)?, tcp_repair::queued(descriptor)?.unsent as u64);
                bound_unsent(descriptor, PREPARED)?;
                // a later call finds our own bound
                self.prepared.entry(flow).or_insert(bound);
                Ok(Reply::Toe(ToeReply::Prepared { unsent }))
            }
            ToeRequest::Offload { flow } => self.offload(flow),
            ToeRequest::Taken { flow } => {
                let Some(away) = self.away.get_mut(&flow) else { return Err(not_away(flow)) };
                away.offered = None;
                let cpu_ns = self.spent.remove(&flow).unwrap_or(0);
                Ok(Reply::Toe(ToeReply::Taken { cpu_ns }))
            }
            ToeRequest::Halt { flow } => {
                self.halt(flow)?;
                done
            }
            ToeRequest::Resume { flow } => {
                self.flow(flow)?.parking.release();
                done
            }
            ToeRequest::Reclaim { flow, state, unsent } => {
                let reclaimed = self.reclaim(flow, state, unsent);
                self.flow(flow)?.parking.release();
                reclaimed?;
                done
            }
            ToeRequest::Neighbour { name, address, hardware_address } => {
                RouteSocket::open()?.set_neighbour(&name, address, hardware_address)?;
                done
            }
            ToeRequest::RoundTrip { own, far } => {
                round_trip::leave_one(own, far)?;
                done
            }
            ToeRequest::Import { id, state, pair, unsent } => {
                let mut connection = self.read_state(state)?;
                connection.take_back(unsent);
                let pair = descriptor_of(pair.pid, pair.descriptor)?;
                let imported = self.engine()?.import(id, pair, connection);
                imported.map_err(|error| refusal(error.to_string()))?;
                done
            }
            ToeRequest::Export { id } => match self.engine()?.export(id) {
                Ok(connection) => {
                    let state = self.write_state(&connection)?;
                    Ok(Reply::Toe(ToeReply::Exported { state }))
                }
                Err(obstacle) => Ok(stays(&obstacle)),
            },
            ToeRequest::Open => {
                let state = memory_file(&[])?;
                let (program, adapter) = UnixStream::pair()?;
                let opened = Opened { state, program: program.into(), adapter: adapter.into() };
                let reply = ToeReply::Opened {
                    state: opened.state.as_raw_fd(),
                    pair: opened.program.as_raw_fd(),
                };
                self.opened = Some(opened);
                Ok(Reply::Toe(reply))
            }
            ToeRequest::ImportOpened { id } => {
                let opened = self.opened.take().ok_or_else(|| refusal("no state was opened"))?;
                let connection = read_file(opened.state)?;
                let imported = self.engine()?.import(id, opened.adapter, connection);
                imported.map_err(|error| refusal(error.to_string()))?;
                done
            }
            ToeRequest::Status(asked) => {
                let all = self.engine()?.look(asked).map_err(|error| refusal(error.to_string()))?;
                Ok(Reply::Toe(ToeReply::Status(all)))
            }
            ToeRequest::HostConnections { closing } => {
                let all = match closing {
                    true => sock_diag::unfinished_connections()?,
                    false => sock_diag::connections()?,
                };
                Ok(Reply::Toe(ToeReply::HostConnections(all.into_iter().map(at_host).collect())))
            }
            ToeRequest::Forget => {
                if let Some(engine) = &self.engine {
                    engine.forget();
                }
                (self.state, self.opened) = (None, None);
                done
            }
        }
    }

    /// Forgets connections of flows that have ended.
    pub fn forget(&mut self) {
        self.away.clear();
    }

    fn engine(&mut self) -> Result<&Engine, Refusal> {
        if self.engine.is_none() {
            self.engine = Some(Engine::start(Linux)?);
            // flows stand still until this thread has answered
            self.ahead = Some(Ahead::now());
        }
        self.engine.as_ref().ok_or_else(|| refusal("no engine"))
    }

    /// The TCP connections of the flows.
    fn connections(&self) -> Vec<FlowConnection> {
        let connection = |(flow, of): (u32, &Movable)| {
            let socket = of.socket.as_deref()?;
            let (own, far) = ends(socket).ok()?;
            // a datagram socket has no connection that could move
            tcp_repair::standing(socket).ok()?;
            let carried = of.counters.sent().saturating_add(of.counters.received());
            let age_ms = u64::try_from(of.since.elapsed().as_millis()).unwrap_or(u64::MAX);
            Some(FlowConnection { flow, own, far, carried, age_ms })
        };
        (0..).zip(&self.flows).filter_map(connection).collect()
    }

    fn flow(&self, flow: u32) -> Result<&Movable, Refusal> {
        let count = self.flows.len();
        let of = self.flows.get(flow as usize);
        of.ok_or_else(|| refusal(format!("flow {flow} of {count}, expected less than {count}")))
    }

    /// Makes a flow stand still. Before the flows begin, they do.
    fn halt(&self, flow: u32) -> Result<(), Refusal> {
        let of = self.flow(flow)?;
        if !self.control.as_ref().is_some_and(|control| control.has_begun()) {
            return Ok(());
        }
        let parked = of.parking.park(of.thread_id);
        let still = |error| refusal(format!("flow \"{}\" cannot be stopped: {error}", of.name));
        parked.map_err(still)
    }

    fn offload(&mut self, flow: u32) -> Result<Reply, Refusal> {
        let of = self.flow(flow)?;
        if self.away.contains_key(&flow) {
            return Err(refusal(format!("the connection of flow {flow} is at the adapter")));
        }
        if of.discards {
            let word = "discards".to_owned();
            let reason = "the flow discards in the socket what it receives".to_owned();
            return Ok(Reply::Toe(ToeReply::Stays(Stays { word, reason })));
        }
        let descriptor = of.descriptor()?;
        let began = Instant::now();
        self.halt(flow)?;
        if let Some(bound) = self.prepared.get(&flow) {
            bound_unsent(descriptor, *bound)?;
        }
        // it continues at once: what it sends waits in the pair for the adapter
        let offloaded = offload(descriptor).and_then(|offloaded| offloaded.swap(descriptor));
        of.parking.release();
        let stalled_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.prepared.remove(&flow);
        let Offered { connection, adapter, parked_socket } = match offloaded {
            Ok(offloaded) => offloaded,
            Err(obstacle) => return Ok(stays(&obstacle)),
        };
        let (pair, send_next) = (adapter.as_raw_fd(), connection.send_next());
        let state = self.write_state(&connection);
        let offered = Some(Waiting { connection, adapter });
        self.away.insert(flow, Away { parked_socket, offered });
        Ok(Reply::Toe(ToeReply::Offloaded { state: state?, pair, send_next, stalled_us }))
    }

    /// Writes a state for another agent, and returns the descriptor of its file.
    fn write_state(&mut self, connection: &Connection) -> io::Result<i32> {
        let mut file = match self.state.take() {
            Some(file) => file,
            None => memory_file(&[])?,
        };
        file.rewind()?;
        let length = connection.write(&mut file)?;
        file.set_len(length as u64)?;
        Ok(self.state.insert(file).as_raw_fd())
    }

    /// Reads a state out of a file of another agent.
    fn read_state(&mut self, state: FileOf) -> Result<Connection, Refusal> {
        let file = File::from(descriptor_of(state.pid, state.descriptor)?);
        read_over(file, &mut self.buffer)
    }

    fn reclaim(
        &mut self,
        flow: u32,
        state: Option<FileOf>,
        unsent: Option<Range<u32>>,
    ) -> Result<(), Refusal> {
        let Some(away) = self.away.remove(&flow) else { return Err(not_away(flow)) };
        let mut connection = match (state, away.offered) {
            (Some(state), _) => self.read_state(state)?,
            (None, Some(offered)) => {
                // what the program has sent meanwhile
                let mut connection = offered.connection;
                take_waiting(offered.adapter, &mut connection);
                connection
            }
            _ => return Err(refusal(format!("the connection of flow {flow} has another state"))),
        };
        connection.take_back(unsent);
        let reclaimed = away.parked_socket.reclaim(self.flow(flow)?.descriptor()?, connection);
        reclaimed.map_err(|error| refusal(format!("the connection is lost: {error}")))
    }
}

impl Movable {
    fn descriptor(&self) -> Result<BorrowedFd<'_>, Refusal> {
        let socket = self.socket.as_ref().map(AsFd::as_fd);
        socket.ok_or_else(|| refusal(format!("flow \"{}\" keeps no connection", self.name)))
    }
}

fn not_away(flow: u32) -> Refusal {
    refusal(format!("the connection of flow {flow} is not at the adapter"))
}

/// Reads a state out of a file, from its beginning. Fails where it is no state.
pub fn read_file(file: File) -> Result<Connection, Refusal> {
    read_over(file, &mut Vec::new())
}

/// The same, over the memory of `buffer`.
fn read_over(mut file: File, buffer: &mut Vec<u8>) -> Result<Connection, Refusal> {
    file.rewind()?;
    buffer.clear();
    // what is longer does not decode
    file.take(MAX_BYTES as u64).read_to_end(buffer)?;
    Connection::decode(buffer).map_err(|error| refusal(format!("state of a connection: {error}")))
}

fn at_host(of: sock_diag::Connection) -> HostConnection {
    HostConnection {
        own: of.local,
        far: of.remote,
        inode: of.inode,
        sent: of.path.bytes_acked,
        received: of.path.bytes_received,
        tcp: of.path.into(),
    }
}
