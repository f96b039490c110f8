//! Connections of programs, which have no agent: the controller takes them out of their sockets itself.
//!
//! The adapter's agent makes the stream pair and the file for the state. So the controller takes
//! descriptors from an agent here as always, and no agent takes any from the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use linkrate_adapter::{ConnectionEnds, Notify};
use linkrate_model::InterfaceKnobs;
use linkrate_model::knobs::Toe;
use linkrate_model::lab::{Asked, ConnectionStatus};
use linkrate_protocol::toe::{FlowConnection, HostConnection, Stays, ToeReply, ToeRequest};
use linkrate_sys::socket_swap;
use linkrate_toe::moving::Side;
use linkrate_toe::program::rest_of;
use linkrate_toe::{Connection, Refusal as Obstacle, migrate};

use super::super::{Adapters, Segment};
use super::stay::Stay;
use super::{Back, OffloadPort, Place, Reason, State, done, is_of, rules, toe};
use crate::connection::AgentError;
use crate::error::LabError;
use crate::host::Host;

/// How long a connection that has ended is remembered at least, so that its last segments go to the
/// adapter.
const LINGERING: Duration = Duration::from_secs(3);

/// The address as the wire has it: that of IPv4 where a socket of IPv6 carries IPv4.
pub(crate) fn on_the_wire(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V6(mapped) => {
            let plain = mapped.to_ipv4_mapped().map_or(address.ip(), IpAddr::V4);
            SocketAddr::new(plain, address.port())
        }
        IpAddr::V4(_) => address,
    }
}

/// The address as a socket of the family of `like` has it.
fn in_socket(address: SocketAddr, like: &SocketAddr) -> SocketAddr {
    let mapped = |address: SocketAddr| match address.ip() {
        IpAddr::V4(plain) => SocketAddr::new(plain.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    };
    if like.is_ipv6() { mapped(address) } else { address }
}

impl Adapters {
    /// Whether a port of the SUT takes connections of programs.
    pub(crate) fn offloads_programs(&self) -> bool {
        let is_on = |offload_port: OffloadPort<'_>| {
            offload_port.applied_knobs().is_ok_and(|knobs| knobs.toe == Toe::On)
        };
        self.engine.is_some() && self.offload_ports().any(is_on)
    }

    /// Whether the adapters have a TCP offload engine.
    pub(crate) fn has_engine(&self) -> bool {
        self.engine.is_some()
    }

    /// Moves the connection of a program's socket to the adapter under the number `id`. The program
    /// does not use it meanwhile. With `always`, the knob does not matter. Returns the program's end
    /// of the stream pair. After an error the connection continues in the socket.
    pub(crate) fn offload_program(
        &self,
        id: u32,
        socket: BorrowedFd<'_>,
        always: bool,
    ) -> Result<OwnedFd, Stay> {
        let offloaded = self.try_offload_program(id, socket, always);
        if let (Err(stay), Some(engine)) = (&offloaded, &self.engine) {
            *engine.lock().stayed.entry(stay.word().to_owned()).or_default() += 1;
        }
        offloaded
    }

    fn try_offload_program(
        &self,
        id: u32,
        socket: BorrowedFd<'_>,
        always: bool,
    ) -> Result<OwnedFd, Stay> {
        let (own, far) = socket_swap::ends(socket)?;
        let ends = ConnectionEnds { own: on_the_wire(own), far: on_the_wire(far) };
        let is_client = self.is_client(ends.own.ip(), ends.far.ip());
        let offload_port = is_client.then(|| self.offload_port_of(ends.own.ip())).flatten();
        let (Some(offload_port), Some(engine)) = (offload_port, &self.engine) else {
            return Err(Stay::OtherInterface { own, far });
        };
        if !always && offload_port.applied_knobs()?.toe != Toe::On {
            return Err(Stay::Off { port: offload_port.name.to_owned() });
        }
        if offload_port.is_full() {
            return Err(Stay::TableFull {
                port: offload_port.name.to_owned(),
                most: offload_port.most(),
            });
        }
        self.follow_ports()?;
        let in_use = offload_port.in_use();
        migrate::movable(socket)?;
        let mut state = engine.lock();
        let (file, pair) = match toe(&mut state.host, ToeRequest::Open)? {
            ToeReply::Opened { state: file, pair } => {
                let file = File::from(state.host.take_descriptor(file)?);
                (file, state.host.take_descriptor(pair)?)
            }
            _ => return Err(state.host.connection.unexpected("open").into()),
        };
        socket_swap::copy_waiting(socket, &pair)?;
        let take_out = |_: &mut State| {
            let mut connection = migrate::dump(socket)?;
            migrate::park(socket, &connection)?;
            (connection.own, connection.far) = (ends.own, ends.far);
            let send_next = connection.send_next();
            Ok((connection, send_next))
        };
        let put_in = |state: &mut State, connection: &mut Connection, side, unsent| {
            connection.take_back(unsent);
            match side {
                Side::Host => put_back(socket, connection, &own),
                Side::Adapter => {
                    (&file).write_all(&connection.encode())?;
                    Ok(done(&mut state.host, ToeRequest::ImportOpened { id })?)
                }
            }
        };
        let moved = offload_port.carry_out(ends, Side::Adapter, &mut state, take_out, put_in);
        let (_, send_next) = moved?;
        let at = offload_port.number;
        state.programs.insert(id, Place { at, ends, send_next, in_use, stuck: false });
        state.count(at, "down");
        Ok(pair)
    }

    /// Whether `far` is a client of the port with the address `own`: the adapter's TCP knows no other
    /// neighbours.
    fn is_client(&self, own: IpAddr, far: IpAddr) -> bool {
        self.segments.iter().map(|segment| &segment.topology).any(|segment| {
            let mut clients = 0..segment.clients.len();
            clients.any(|client| {
                let port = segment.port_of(client);
                is_of(own, segment.port_address(port)) && is_of(far, segment.client_address(client))
            })
        })
    }

    /// Takes a connection back into the socket it came from. `own` is its address as the socket had it,
    /// and `pair` the program's end of the stream pair, which the program does not use meanwhile. After an error the
    /// connection stays at the adapter, or is lost.
    pub(crate) fn reclaim_program(
        &self,
        id: u32,
        socket: BorrowedFd<'_>,
        own: &SocketAddr,
        pair: BorrowedFd<'_>,
    ) -> Result<(), Stay> {
        let Some(engine) = &self.engine else { return Ok(()) };
        let mut state = engine.lock();
        let Some(Place { at, ends, .. }) = state.programs.get(&id).copied() else {
            return Ok(());
        };
        let Some(offload_port) = self.offload_port(at) else { return Ok(()) };
        let take_out = |state: &mut State| {
            let file = state.export(id).map_err(|stay| match stay {
                Stay::Agent(Stays { reason, .. }) => {
                    let cause = std::io::Error::other(reason);
                    Stay::from(Obstacle::System { step: "take it from the adapter", cause })
                }
                other => other,
            })?;
            let file = File::from(state.host.take_descriptor(file)?);
            let mut connection = linkrate_agent::toe::read_file(file)
                .map_err(|refusal| Stay::Lab(AgentError::Refused(refusal).into()))?;
            connection.unread.splice(..0, rest_of(pair));
            Ok((connection, 0))
        };
        let put_in = |_: &mut State, connection: &mut Connection, _, unsent| {
            connection.take_back(unsent);
            put_back(socket, connection, own)
        };
        offload_port.carry_out(ends, Side::Host, &mut state, take_out, put_in)?;
        state.programs.remove(&id);
        state.ended.remove(&id);
        Ok(())
    }

    /// The connections of programs, by their numbers, that return before a port gets other settings.
    /// `asks_off`: `toe` is among them.
    pub(crate) fn programs_before_setting(
        &self,
        interface: &str,
        asked: &InterfaceKnobs,
        asks_off: bool,
    ) -> Vec<(u32, Reason)> {
        let mut ports = self.changed_by(&[interface.to_owned()], asked);
        // one that has moved by order stays when other settings change
        ports.retain(|(_, reason)| *reason != Reason::Off || asks_off);
        ports.into_iter().flat_map(|(at, reason)| self.programs_at(at, reason)).collect()
    }

    /// The connections of programs, by their numbers, that return before the segment of a port goes.
    pub(crate) fn programs_before_removal(&self, interface: &str) -> Vec<(u32, Reason)> {
        let offload_ports = self.segment(interface).into_iter().flat_map(Segment::offload_ports);
        offload_ports
            .flat_map(|offload_port| self.programs_at(offload_port.number, Reason::Removal))
            .collect()
    }

    fn programs_at(&self, at: u32, reason: Reason) -> Vec<(u32, Reason)> {
        let Some(engine) = &self.engine else { return Vec::new() };
        let state = engine.lock();
        // one that has ended cannot return
        let there = state.programs.iter().filter(|(id, _)| !state.ended.contains_key(id));
        there.filter(|(_, of)| of.at == at).map(|(id, _)| (*id, reason)).collect()
    }

    /// Counts a connection of a program that is at the host again. `at` is the number of its port.
    pub(crate) fn program_returned(&self, at: u32, reason: Reason) {
        if let Some(engine) = &self.engine {
            engine.lock().count(at, &format!("up.{}", reason.word()));
        }
    }

    /// Counts a connection of a program that was to return and stays at the adapter.
    pub(crate) fn program_stays(&self, word: &str) {
        if let Some(engine) = &self.engine {
            *engine.lock().stayed.entry(format!("adapter-{word}")).or_default() += 1;
        }
    }

    /// Whether connections of programs at the host may go to the adapter while they are used. `returned`:
    /// some have come from there.
    pub(crate) fn tends_programs(&self, returned: bool) -> bool {
        let wanted = |toe| toe == Toe::Auto || returned && toe == Toe::On;
        self.engine.is_some()
            && self.offload_ports().any(|offload_port| wanted(offload_port.knobs().toe))
    }

    /// Whether a connection of a program at the host, which is `age` old, is to go to the adapter. `back` is
    /// there if it came from there.
    pub(crate) fn program_goes(
        &self,
        of: &HostConnection,
        age: Duration,
        back: Option<&Back>,
    ) -> bool {
        let Some(offload_port) = self.offload_port_of(of.own.ip()) else { return false };
        let knobs = offload_port.knobs();
        // with `on`, others have moved when they were opened, or cannot
        if !self.is_client(of.own.ip(), of.far.ip()) || (knobs.toe == Toe::On && back.is_none()) {
            return false;
        }
        let flow = FlowConnection {
            flow: 0,
            own: of.own,
            far: of.far,
            carried: of.sent.saturating_add(of.received),
            age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
        };
        if !rules::goes(&flow, back, &knobs, offload_port.in_use() != 0, Instant::now()) {
            return false;
        }
        let is_full = offload_port.is_full();
        if let (true, Some(engine)) = (is_full, &self.engine) {
            *engine.lock().stayed.entry("table-full".to_owned()).or_default() += 1;
        }
        !is_full
    }

    /// The number of the port of a connection of a program at the adapter.
    pub(crate) fn program_at(&self, id: u32) -> Option<u32> {
        Some(self.engine.as_ref()?.lock().programs.get(&id)?.at)
    }

    /// Moves by their kinds, of all ports together, also of those that were removed.
    pub(crate) fn moves(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        if let Some(engine) = &self.engine {
            for ((_, kind), count) in &engine.lock().moves {
                *all.entry(kind.clone()).or_default() += count;
            }
        }
        all
    }

    /// The state of all connections of programs at the adapter, and of those that have ended and are not
    /// forgotten yet.
    pub(crate) fn connections_status(&self) -> Result<Vec<ConnectionStatus>, LabError> {
        let Some(engine) = &self.engine else { return Ok(Vec::new()) };
        let mut state = engine.lock();
        state.note_ended()?;
        let mut all = state.statuses(Asked::All)?;
        all.retain(|of| state.programs.contains_key(&of.id));
        all.extend(state.ended.values().map(|(of, _)| of.clone()));
        Ok(all)
    }

    /// Forgets connections of programs that have ended, once their last segments are through. Returns
    /// their numbers. Idle connections cost nothing.
    pub(crate) fn reap_programs(&self) -> Result<Vec<u32>, LabError> {
        let Some(engine) = &self.engine else { return Ok(Vec::new()) };
        self.follow_ports()?;
        let mut state = engine.lock();
        if state.programs.is_empty() {
            return Ok(Vec::new());
        }
        state.note_ended()?;
        let old = state.ended.iter().filter(|(_, (_, at))| at.elapsed() >= LINGERING);
        let old: Vec<u32> = old.map(|(id, _)| *id).collect();
        if old.is_empty() {
            return Ok(old);
        }
        let request = ToeRequest::HostConnections { closing: true };
        let ToeReply::HostConnections(all) = toe(&mut state.host, request)? else {
            return Err(state.host.connection.unexpected("host-connections").into());
        };
        let unfinished: BTreeSet<_> = all.iter().map(|of| (of.own, of.far)).collect();
        let mut gone = Vec::new();
        for id in old {
            let Some(Place { at, ends, .. }) = state.programs.get(&id).copied() else {
                continue;
            };
            if unfinished.contains(&(ends.own, ends.far)) {
                continue;
            }
            if let Some(offload_port) = self.offload_port(at) {
                offload_port.to_host(ends)?;
            }
            state.programs.remove(&id);
            state.ended.remove(&id);
            gone.push(id);
        }
        Ok(gone)
    }

    /// Connections of programs, by their numbers, that are to return, as the devices have asked since the last
    /// call. A frame of each waits until it has returned, or was [released](Self::release_program).
    pub(crate) fn programs_asked(&self) -> Result<Vec<(u32, Reason)>, LabError> {
        let Some(engine) = &self.engine else { return Ok(Vec::new()) };
        let mut state = engine.lock();
        let mut all = Vec::new();
        for offload_port in self.offload_ports() {
            for (ends, why) in offload_port.asked() {
                let is_it = |of: &Place| (of.at, of.ends) == (offload_port.number, ends);
                let found = state.programs.iter().find(|(_, of)| is_it(of));
                match found {
                    // one that has ended cannot return
                    Some((id, _)) if state.ended.contains_key(id) => offload_port.release(ends)?,
                    Some((id, _)) => all.push((*id, Reason::from(why))),
                    None => {}
                }
            }
            let (in_use, has_carriers) = (offload_port.in_use(), offload_port.has_all_carriers());
            let State { programs, ended, .. } = &mut *state;
            let there = programs.iter_mut().filter(|(id, of)| {
                of.at == offload_port.number && !of.stuck && !ended.contains_key(id)
            });
            for (id, of) in there {
                if let Some(reason) = rules::lost(of.in_use, in_use, has_carriers) {
                    // once: one that cannot return continues by another port, or waits
                    of.stuck = true;
                    all.push((*id, reason));
                }
            }
        }
        Ok(all)
    }

    /// Lets frames through that wait in a device for the return of a connection of a program, unless it has
    /// returned.
    pub(crate) fn release_program(&self, id: u32) -> Result<(), LabError> {
        let place =
            self.engine.as_ref().and_then(|engine| engine.lock().programs.get(&id).copied());
        let Some(Place { at, ends, .. }) = place else { return Ok(()) };
        self.offload_port(at).map_or(Ok(()), |offload_port| Ok(offload_port.release(ends)?))
    }

    /// Lets `notify` know when a device asks that connections return, on each port that tells nobody yet.
    pub(crate) fn notify_of_returns(&self, notify: &Notify) {
        self.offload_ports().for_each(|offload_port| offload_port.notify_of_returns(notify));
    }

    /// The established TCP connections of the SUT that are at the host, over ports with an engine. Each
    /// comes with the name of its port.
    pub(crate) fn host_connections(
        &self,
        sut: &mut Host,
    ) -> Result<Vec<(String, HostConnection)>, LabError> {
        let ToeReply::HostConnections(all) =
            toe(sut, ToeRequest::HostConnections { closing: false })?
        else {
            return Err(sut.connection.unexpected("host-connections").into());
        };
        let over =
            |of: HostConnection| Some((self.offload_port_of(of.own.ip())?.name.to_owned(), of));
        Ok(all.into_iter().filter_map(over).collect())
    }

    /// The name of the port of a connection of a program at the adapter.
    pub(crate) fn program_port(&self, id: u32) -> Option<String> {
        let at = self.program_at(id)?;
        self.offload_port(at).map(|offload_port| offload_port.name.to_owned())
    }

    /// Connections that were to move and stayed at the host, by the reason.
    pub(crate) fn stayed(&self) -> BTreeMap<String, u64> {
        self.engine.as_ref().map(|engine| engine.lock().stayed.clone()).unwrap_or_default()
    }

    /// The socket of a connection of a program in the adapter's TCP.
    pub(crate) fn program_socket(&self, id: u32) -> Option<OwnedFd> {
        let mut state = self.engine.as_ref()?.lock();
        let descriptor = state.statuses(Asked::One(id)).ok()?.first()?.descriptor?;
        let ends = state.programs.get(&id)?.ends;
        let socket = state.host.take_descriptor(descriptor).ok()?;
        // the number may have been another one's meanwhile
        let found = socket_swap::ends(&socket).ok()?;
        (found == (ends.own, ends.far)).then_some(socket)
    }
}

impl State {
    /// Learns which connections of programs have ended.
    fn note_ended(&mut self) -> Result<(), AgentError> {
        let now = Instant::now();
        let ended = self.statuses(Asked::News)?.into_iter().filter(|of| of.ended);
        for of in ended {
            if self.programs.contains_key(&of.id) {
                self.ended.insert(of.id, (of, now));
            }
        }
        Ok(())
    }
}

/// Puts a connection into the socket it came from, whose own address was `own`.
fn put_back(
    socket: BorrowedFd<'_>,
    connection: &mut Connection,
    own: &SocketAddr,
) -> Result<(), Stay> {
    connection.own = in_socket(connection.own, own);
    connection.far = in_socket(connection.far, own);
    migrate::restore(socket, connection)?;
    Ok(migrate::go_on(socket, connection)?)
}
