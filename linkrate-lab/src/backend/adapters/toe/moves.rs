//! Moves of connections between the SUT's flows and the adapter's TCP.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use linkrate_adapter::{Asks, ConnectionEnds};
use linkrate_model::InterfaceKnobs;
use linkrate_model::knobs::Toe;
use linkrate_model::lab::{Asked, ConnectionStatus};
use linkrate_protocol::toe::{FileOf, FlowConnection, Stays, ToeReply, ToeRequest};
use linkrate_protocol::{Ipv6Setup, Refusal, Reply, Request};
use linkrate_toe::moving::Side;

use super::rules::{self, Back, Reason, Use};
use super::stay::Stay;
use super::{Away, Engine, OffloadPort, Place, Prepared, State, done, is_of, toe};
use crate::backend::adapters::{Adapters, Segment};
use crate::connection::{AgentError, Connection, TIMEOUT};
use crate::error::LabError;
use crate::host::Host;

/// How long a socket may take to send what it has taken, before its connection moves, and the time
/// between two checks whether it has.
const PREPARATION: Duration = Duration::from_millis(100);
const PREPARATION_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Bytes that are few enough to be moved, while the frames of the peer wait.
const FEW: u64 = 128 << 10;

/// Time between two polls of the connections at the adapter, which cost its CPUs one call for each
/// connection, and at the flows of the SUT, which cost the SUT one wake-up.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl State {
    fn sut(&mut self) -> Result<&mut Connection, AgentError> {
        let (host, reason) = ("sut".to_owned(), "no connection for moves".to_owned());
        self.sut.as_mut().map(|(sut, _)| sut).ok_or(AgentError::Lost { host, reason })
    }

    /// Asks the SUT's agent, which may be measuring.
    fn ask(&mut self, request: ToeRequest) -> Result<ToeReply, AgentError> {
        self.sut()?.send(&Request::Toe(request))?;
        self.reply()
    }

    /// The reply of the SUT's agent to the latest request.
    fn reply(&mut self) -> Result<ToeReply, AgentError> {
        let sut = self.sut()?;
        match sut.receive(TIMEOUT)? {
            Reply::Toe(reply) => Ok(reply),
            _ => Err(sut.unexpected("toe")),
        }
    }

    fn order(&mut self, request: ToeRequest) -> Result<(), AgentError> {
        match self.ask(request)? {
            ToeReply::Done => Ok(()),
            _ => Err(self.unexpected("toe")),
        }
    }

    /// The reply of the SUT's agent, which was told that the adapter has a connection: the CPU time of the move, ns.
    fn taken(&mut self) -> Result<u64, AgentError> {
        match self.reply()? {
            ToeReply::Taken { cpu_ns } => Ok(cpu_ns),
            _ => Err(self.unexpected("taken")),
        }
    }

    /// Takes a connection out of the adapter's TCP. Returns the descriptor of its state there.
    pub(super) fn export(&mut self, id: u32) -> Result<i32, Stay> {
        match toe(&mut self.host, ToeRequest::Export { id })? {
            ToeReply::Exported { state } => Ok(state),
            ToeReply::Stays(stays) => Err(Stay::Agent(stays)),
            _ => Err(self.host.connection.unexpected("export").into()),
        }
    }

    fn unexpected(&mut self, asked: &str) -> AgentError {
        self.sut().map_or_else(|lost| lost, |sut| sut.unexpected(asked))
    }

    /// The TCP connections of the SUT's flows.
    fn connections(&mut self) -> Result<Vec<FlowConnection>, AgentError> {
        match self.ask(ToeRequest::Connections)? {
            ToeReply::Connections(connections) => Ok(connections),
            _ => Err(self.unexpected("connections")),
        }
    }

    /// Lets the socket of a flow send what it has taken, before its connection moves. Returns how many bytes
    /// it has not sent.
    fn prepare(&mut self, flow: u32) -> Result<u64, AgentError> {
        if self.away.contains_key(&flow) {
            return Ok(0);
        }
        match self.ask(ToeRequest::Prepare { flow }) {
            Ok(ToeReply::Prepared { unsent }) => Ok(unsent),
            // lowering it will say why
            Err(AgentError::Refused(_)) => Ok(0),
            Ok(_) => Err(self.unexpected("prepare")),
            Err(error) => Err(error),
        }
    }

    /// Counts a connection that stays at the host, once.
    fn stays(&mut self, flow: u32, word: &str) {
        if self.stays.insert(flow) {
            *self.stayed.entry(word.to_owned()).or_default() += 1;
        }
    }

    /// The connection whose place in the full table of a port one takes that has carried `lately` bytes.
    fn victim(&self, at: u32, lately: u64, now: Instant) -> Option<u32> {
        let table = self.away.iter().filter(|(_, away)| away.place.at == at && !away.place.stuck);
        rules::victim(table.map(|(flow, away)| (*flow, &away.use_of)), lately, now)
    }

    pub(super) fn count(&mut self, at: u32, kind: &str) {
        *self.moves.entry((at, kind.to_owned())).or_default() += 1;
    }

    /// Notes how the connections at the adapter fare. Idle ones cost nothing.
    fn look(&mut self, now: Instant) -> Result<(), AgentError> {
        let all = self.statuses(Asked::News)?;
        let reported: BTreeSet<u32> = all.iter().map(|of| of.id).collect();
        for quiet in self.told.difference(&reported) {
            if let Some(away) = self.away.get_mut(quiet) {
                away.use_of.is_idle();
            }
        }
        for of in all {
            if let Some(away) = self.away.get_mut(&of.id) {
                let carried = of.sent.saturating_add(of.received);
                away.use_of.looked_at(carried, of.timeouts, of.ended, now);
            }
        }
        self.told = reported;
        Ok(())
    }

    /// Asks the adapter how connections fare.
    pub(super) fn statuses(&mut self, asked: Asked) -> Result<Vec<ConnectionStatus>, AgentError> {
        match toe(&mut self.host, ToeRequest::Status(asked))? {
            ToeReply::Status(all) => Ok(all),
            _ => Err(self.host.connection.unexpected("status")),
        }
    }
}

impl Adapters {
    /// Lets the TCP of the adapters reach over IPv6 whom the SUT reaches. Nothing without an engine.
    pub(crate) fn reach_over_ipv6(
        &self,
        sut: &mut Host,
        setup: &Ipv6Setup,
    ) -> Result<(), LabError> {
        match &self.engine {
            Some(engine)
                if self.offload_ports().any(|offload_port| offload_port.name == setup.name) =>
            {
                engine.reach_over_ipv6(sut, setup)
            }
            _ => Ok(()),
        }
    }

    /// Whether every connection is to be at the adapter from the beginning.
    pub(crate) fn offloads(&self, knobs: &InterfaceKnobs) -> bool {
        self.engine.is_some() && knobs.port.toe == Some(Toe::On)
    }

    /// Whether connections may move while traffic flows.
    pub(crate) fn tends(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.lock().sut.is_some())
    }

    /// The process ids of agents of the adapters.
    pub(crate) fn agents(&self) -> impl Iterator<Item = u32> + '_ {
        self.engine.iter().map(Engine::pid)
    }

    /// Prepares for moves of the connections of the SUT's flows while its agent measures.
    pub(crate) fn attend(&self, sut: &mut Host) -> Result<(), LabError> {
        let Some(engine) = &self.engine else { return Ok(()) };
        let mut state = engine.lock();
        if state.sut.as_ref().is_some_and(|(_, pid)| *pid == sut.pid()) {
            return Ok(());
        }
        match toe(sut, ToeRequest::Channel)? {
            ToeReply::Channel { descriptor } => {
                let socket = sut.take_descriptor(descriptor)?;
                state.sut = Some((sut.connection.beside(socket), sut.pid()));
                Ok(())
            }
            _ => Err(sut.connection.unexpected("channel").into()),
        }
    }

    /// Moves every connection of the SUT's flows to the adapter that is not there and can move. Returns how
    /// many are there. Fails when an agent or a device does not answer, or a connection was lost.
    pub(crate) fn offload_all(&self, sut: &mut Host) -> Result<usize, LabError> {
        self.attend(sut)?;
        self.follow_ports()?;
        let Some(engine) = &self.engine else { return Ok(0) };
        // the agent's flows before they begin are known over its own connection alone
        match toe(sut, ToeRequest::Connections)? {
            ToeReply::Connections(connections) => {
                let mut state = engine.lock();
                let prepared = Instant::now() + PREPARATION;
                loop {
                    let mut unsent = 0;
                    for of in
                        connections.iter().filter(|of| self.offload_port_of(of.own.ip()).is_some())
                    {
                        unsent = state.prepare(of.flow)?.max(unsent);
                    }
                    if unsent <= FEW || Instant::now() >= prepared {
                        break;
                    }
                    std::thread::sleep(PREPARATION_POLL_INTERVAL);
                }
                connections.iter().try_for_each(|of| self.offload(&mut state, of))?;
            }
            _ => return Err(sut.connection.unexpected("connections").into()),
        }
        Ok(self.connections_away())
    }

    /// Moves every connection that is at the adapter back to the SUT. Returns how many stay there.
    pub(crate) fn reclaim_all(&self, sut: &mut Host) -> Result<usize, LabError> {
        self.attend(sut)?;
        self.reclaim_where(Reason::Ordered, |_| true)?;
        Ok(self.connections_away())
    }

    fn connections_away(&self) -> usize {
        self.engine.as_ref().map_or(0, |engine| engine.lock().away.len())
    }

    /// Moves the connections that the rules say, if it is time to look.
    pub(crate) fn tend(&self) -> Result<(), LabError> {
        let Some(engine) = &self.engine else { return Ok(()) };
        self.follow_ports()?;
        let mut state = engine.lock();
        if state.sut.is_none() {
            return Ok(());
        }
        let now = Instant::now();
        let looks = now.saturating_duration_since(state.looked) >= POLL_INTERVAL;
        if looks {
            state.looked = now;
            if !state.away.is_empty() {
                state.look(now)?;
            }
        }
        self.return_those_in_need(&mut state, now)?;
        if looks {
            self.prepare_those_that_go(&mut state, now)?;
        }
        self.offload_prepared(&mut state, now)
    }

    fn return_those_in_need(&self, state: &mut State, now: Instant) -> Result<(), LabError> {
        let mut asked: Vec<(ConnectionEnds, Asks)> = Vec::new();
        let mut all = false;
        let mut offload_ports = BTreeMap::new();
        for offload_port in self.offload_ports() {
            asked.extend(offload_port.asked());
            let (knobs, in_use) = (offload_port.knobs(), offload_port.in_use());
            let before = state.in_use.insert(offload_port.number, in_use).unwrap_or_default();
            all |= rules::concerns_idle(&knobs, in_use != 0) || before & !in_use != 0;
            offload_ports
                .insert(offload_port.number, (knobs, in_use, offload_port.has_all_carriers()));
        }
        // no rule applies to the others
        let flows: Vec<u32> = match all || !asked.is_empty() {
            true => state.away.keys().copied().collect(),
            false => state.told.iter().copied().collect(),
        };
        let mut need = Vec::new();
        for flow in flows {
            let Some(Away { place, use_of }) = state.away.get(&flow) else { continue };
            if place.stuck {
                continue;
            }
            let asks = asked.iter().find(|(ends, _)| *ends == place.ends);
            let by_rule = || {
                let (knobs, in_use, has_carriers) = offload_ports.get(&place.at)?;
                let lost = rules::lost(place.in_use, *in_use, *has_carriers);
                rules::returns(use_of, knobs, lost, now)
            };
            let reason = asks.map(|(_, why)| Reason::from(*why)).or_else(by_rule);
            need.extend(reason.map(|reason| (flow, reason)));
        }
        // a frame waits for those that cannot return as well
        for (ends, _) in &asked {
            let mut places = state.away.values().map(|away| away.place);
            let stuck = places.find(|place| place.stuck && place.ends == *ends);
            if let Some(offload_port) = stuck.and_then(|place| self.offload_port(place.at)) {
                offload_port.release(*ends)?;
            }
        }
        need.into_iter().try_for_each(|(flow, reason)| self.reclaim(state, flow, reason))
    }

    fn prepare_those_that_go(&self, state: &mut State, now: Instant) -> Result<(), LabError> {
        let wanted = |toe: Toe| match toe {
            Toe::Off => false,
            Toe::Auto => true,
            // all of them went at the beginning
            Toe::On => !state.back.is_empty(),
        };
        if !self.offload_ports().any(|offload_port| wanted(offload_port.knobs().toe)) {
            return Ok(());
        }
        for of in state.connections()? {
            let before = state.carried.insert(of.flow, of.carried);
            let lately = before.map_or(0, |before| of.carried.saturating_sub(before));
            if state.away.contains_key(&of.flow) || state.prepared.contains_key(&of.flow) {
                continue;
            }
            if let Some(back) = state.back.get_mut(&of.flow) {
                back.carried.get_or_insert(of.carried);
            }
            let Some(offload_port) = self.offload_port_of(of.own.ip()) else { continue };
            let back = state.back.get(&of.flow);
            let stays = state.stays.contains(&of.flow);
            if !rules::goes(&of, back, &offload_port.knobs(), offload_port.in_use() != 0, now)
                || stays
            {
                continue;
            }
            if offload_port.is_full() && state.victim(offload_port.number, lately, now).is_none() {
                *state.stayed.entry("table-full".to_owned()).or_default() += 1;
                continue;
            }
            state.prepared.insert(of.flow, Prepared { of, lately, since: now });
        }
        Ok(())
    }

    fn offload_prepared(&self, state: &mut State, now: Instant) -> Result<(), LabError> {
        for Prepared { of, lately, since } in state.prepared.values().copied().collect::<Vec<_>>() {
            let waited = now.saturating_duration_since(since) >= PREPARATION;
            if state.prepare(of.flow)? > FEW && !waited {
                continue;
            }
            state.prepared.remove(&of.flow);
            let Some(offload_port) = self.offload_port_of(of.own.ip()) else { continue };
            if offload_port.is_full()
                && let Some(flow) = state.victim(offload_port.number, lately, now)
            {
                self.give_place(state, flow)?;
            }
            self.offload(state, &of)?;
        }
        Ok(())
    }

    /// Takes the connection of a flow out of the table: it has ended, or returns to the host.
    fn give_place(&self, state: &mut State, flow: u32) -> Result<(), LabError> {
        let ended = state.away.get(&flow).is_some_and(|away| away.use_of.ended);
        if !ended {
            return self.reclaim(state, flow, Reason::TableFull);
        }
        if let Some(Away { place, .. }) = state.away.remove(&flow)
            && let Some(offload_port) = self.offload_port(place.at)
        {
            offload_port.to_host(place.ends)?;
        }
        Ok(())
    }

    /// Where connections pass: each port by itself, and the ports of an aggregate together.
    pub(super) fn offload_ports(&self) -> impl Iterator<Item = OffloadPort<'_>> {
        self.segments.iter().flat_map(Segment::offload_ports)
    }

    /// Lets the adapter's TCP send by the ports of each aggregate that carry traffic.
    pub(in crate::backend::adapters) fn follow_ports(&self) -> Result<(), LabError> {
        let Some(engine) = &self.engine else { return Ok(()) };
        for segment in &self.segments {
            if let Some(aggregate) = &segment.aggregate {
                engine.send_by(segment.topology.number, aggregate.distributing())?;
            }
        }
        Ok(())
    }

    /// Connections at the adapter and their moves that count at port `port`, as counters. `is_first`: those
    /// of all ports together are among them.
    pub(in crate::backend::adapters) fn counts_at(
        &self,
        port: u32,
        is_first: bool,
    ) -> Vec<(String, u64)> {
        let offload_port =
            self.offload_ports().find(|offload_port| offload_port.counted_at() == port);
        let (Some(engine), Some(offload_port)) = (&self.engine, offload_port) else {
            return Vec::new();
        };
        engine.counts(offload_port.number, is_first)
    }

    pub(super) fn offload_port(&self, number: u32) -> Option<OffloadPort<'_>> {
        self.offload_ports().find(|offload_port| offload_port.number == number)
    }

    /// The one of connections with that address.
    pub(super) fn offload_port_of(&self, own: IpAddr) -> Option<OffloadPort<'_>> {
        // a router is behind the ports of an aggregate without an engine
        let is_direct = |segment: &&Segment| segment.topology.gateways().is_none();
        self.segments.iter().filter(is_direct).find_map(|segment| {
            // an aggregate has the address of its first port
            let mut offload_ports = (0..).zip(segment.offload_ports());
            let has = |index| is_of(own, segment.topology.port_address(index));
            offload_ports.find(|(index, _)| has(*index)).map(|(_, offload_port)| offload_port)
        })
    }

    fn offload(&self, state: &mut State, connection: &FlowConnection) -> Result<(), LabError> {
        let FlowConnection { flow, own, far, .. } = *connection;
        if state.away.contains_key(&flow) {
            return Ok(());
        }
        let Some(offload_port) = self.offload_port_of(own.ip()) else {
            state.stays(flow, "no-engine");
            return Ok(());
        };
        let ends = ConnectionEnds { own, far };
        let in_use = offload_port.in_use();
        if offload_port.is_full() {
            *state.stayed.entry("table-full".to_owned()).or_default() += 1;
            return Ok(());
        }
        let began = Instant::now();
        let take_out = |state: &mut State| match state.ask(ToeRequest::Offload { flow }) {
            Ok(ToeReply::Offloaded { state: file, pair, send_next, stalled_us }) => {
                Ok(((file, pair, stalled_us), send_next))
            }
            Ok(ToeReply::Stays(stays)) => Err(Stay::Agent(stays)),
            // as a flow that has ended meanwhile
            Err(AgentError::Refused(Refusal { reason, .. })) => {
                Err(Stay::Agent(Stays { word: "refused".to_owned(), reason }))
            }
            Ok(_) => Err(state.unexpected("offload").into()),
            Err(error) => Err(error.into()),
        };
        let put_in = |state: &mut State, out: &mut (i32, i32, u64), side, unsent| match side {
            Side::Adapter => {
                let pid = state.sut.as_ref().map_or(0, |(_, pid)| *pid);
                let [file, pair] = [out.0, out.1].map(|descriptor| FileOf { pid, descriptor });
                done(&mut state.host, ToeRequest::Import { id: flow, state: file, pair, unsent })?;
                // The agent answers while the device hands over. If it is lost, reading the answer says so: the
                // adapter has the connection in any case.
                let taken = Request::Toe(ToeRequest::Taken { flow });
                let _ = state.sut().and_then(|sut| sut.send(&taken));
                Ok(())
            }
            // its agent has it still
            Side::Host => {
                state.order(ToeRequest::Halt { flow })?;
                Ok(state.order(ToeRequest::Reclaim { flow, state: None, unsent })?)
            }
        };
        let moved = offload_port.carry_out(ends, Side::Adapter, state, take_out, put_in);
        let ((.., stalled_us), send_next) = match moved {
            Ok(moved) => moved,
            Err(Stay::Lab(error)) => return Err(error),
            Err(stay) => {
                state.stays(flow, stay.word());
                return Ok(());
            }
        };
        state.moved_us.push(began.elapsed().as_micros() as u64);
        state.spent_ns += state.taken()?;
        let at = offload_port.number;
        let place = Place { at, ends, send_next, in_use, stuck: false };
        state.away.insert(flow, Away { place, use_of: Use::new(Instant::now()) });
        state.back.remove(&flow);
        state.count(at, "down");
        state.stalled_us.push(stalled_us);
        Ok(())
    }

    /// Brings the connections back for which `which` holds, by the number of their outlet.
    fn reclaim_where(&self, reason: Reason, which: impl Fn(u32) -> bool) -> Result<(), LabError> {
        let Some(engine) = &self.engine else { return Ok(()) };
        let mut state = engine.lock();
        if state.sut.is_none() {
            return Ok(());
        }
        let away = state.away.iter().filter(|(_, away)| which(away.place.at) && !away.place.stuck);
        let flows: Vec<u32> = away.map(|(flow, _)| *flow).collect();
        flows.into_iter().try_for_each(|flow| self.reclaim(&mut state, flow, reason))
    }

    fn reclaim(&self, state: &mut State, flow: u32, reason: Reason) -> Result<(), LabError> {
        let Some(away) = state.away.get(&flow) else { return Ok(()) };
        let Place { at, ends, .. } = away.place;
        let Some(offload_port) = self.offload_port(at) else { return Ok(()) };
        let take_out = |state: &mut State| {
            state.order(ToeRequest::Halt { flow })?;
            match state.export(flow) {
                Ok(descriptor) => Ok((FileOf { pid: state.host.pid(), descriptor }, 0)),
                Err(stay) => {
                    state.order(ToeRequest::Resume { flow })?;
                    Err(stay)
                }
            }
        };
        let put_in = |state: &mut State, file: &mut FileOf, _, unsent| {
            Ok(state.order(ToeRequest::Reclaim { flow, state: Some(*file), unsent })?)
        };
        match offload_port.carry_out(ends, Side::Host, state, take_out, put_in) {
            Ok(_) => {
                state.away.remove(&flow);
                state.count(at, &format!("up.{}", reason.word()));
                state.back.insert(flow, Back { reason, at: Instant::now(), carried: None });
            }
            Err(Stay::Lab(error)) => return Err(error),
            Err(stay) => {
                *state.stayed.entry(format!("adapter-{}", stay.word())).or_default() += 1;
                if let Some(away) = state.away.get_mut(&flow) {
                    away.place.stuck = true;
                }
            }
        }
        Ok(())
    }

    /// Brings connections back before ports of the SUT get other settings: what both ends of a link must
    /// share is part of the state that the adapter's TCP works with.
    pub(in crate::backend::adapters) fn before_setting(
        &self,
        interfaces: &[String],
        asked: &InterfaceKnobs,
    ) -> Result<(), LabError> {
        let reclaim = |(at, reason)| self.reclaim_where(reason, |of| of == at);
        self.changed_by(interfaces, asked).into_iter().try_for_each(reclaim)
    }

    /// The ports, by their numbers, whose connections return before they get other settings.
    pub(super) fn changed_by(
        &self,
        interfaces: &[String],
        asked: &InterfaceKnobs,
    ) -> Vec<(u32, Reason)> {
        let Some(engine) = &self.engine else { return Vec::new() };
        let mtu = engine.lock().mtu != asked.mtu;
        let fresh = self.model.defaults.with(asked);
        self.offload_ports()
            .filter(|offload_port| interfaces.iter().any(|name| name == offload_port.name))
            .filter_map(|offload_port| {
                let at = offload_port.number;
                let now = offload_port.knobs();
                let framing = now.vlan != fresh.vlan || now.snap != fresh.snap;
                match fresh.toe {
                    Toe::Off => Some((at, Reason::Off)),
                    _ if mtu || framing => Some((at, Reason::Setting)),
                    _ => None,
                }
            })
            .collect()
    }

    /// Brings the connections of a segment back before its ports go.
    pub(in crate::backend::adapters) fn before_removal(
        &self,
        interface: &str,
    ) -> Result<(), LabError> {
        let of = |number| {
            let mut offload_ports =
                self.segment(interface).into_iter().flat_map(Segment::offload_ports);
            offload_ports.any(|offload_port| offload_port.number == number)
        };
        self.reclaim_where(Reason::Removal, of)
    }

    /// Ends what is left of a run's connections at the adapter.
    pub(crate) fn forget_connections(&self) -> Result<(), LabError> {
        let Some(engine) = &self.engine else { return Ok(()) };
        let mut state = engine.lock();
        let empty = state.away.is_empty() && state.stayed.is_empty() && state.moves.is_empty();
        state.back.clear();
        state.carried.clear();
        state.prepared.clear();
        state.stays.clear();
        if empty {
            return Ok(());
        }
        done(&mut state.host, ToeRequest::Forget)?;
        state.away.clear();
        state.stayed.clear();
        state.moves.clear();
        state.spent_ns = 0;
        state.stalled_us.clear();
        state.moved_us.clear();
        self.offload_ports().try_for_each(|offload_port| Ok(offload_port.forget()?))
    }
}
