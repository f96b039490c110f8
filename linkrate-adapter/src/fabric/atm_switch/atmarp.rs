//! The ATMARP server of an IP subnet (RFC 2225) that lives in an ATM switch: an end system that takes
//! calls, asks each caller for its addresses, and answers.

use std::sync::Arc;
use std::time::Duration;

use linkrate_wire::atm::snap;
use linkrate_wire::control::arp;
use linkrate_wire::control::atmarp::{AtmArp, Operation, Station};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::atmarp::{Circuit, Server, ServerAction, ServerEvent as Event};
use linkrate_wire::machine::call::{Call, Cause, PartyAction, PartyEvent, Purpose};
use linkrate_wire::machine::lane::ServerEvent;

use super::ServerRequest;
use crate::atm::{ArpShared, message_unit, server_address};
use crate::cells::Unit;
use crate::lane_unit::LaneUnit;

/// Octets of the longest unit that the server takes: a message behind LLC/SNAP.
pub(super) const MAX_LENGTH: usize = 1024;

/// The server at its place in a switch.
#[derive(Debug)]
pub(super) struct ArpServer {
    server: Server,
    shared: Arc<ArpShared>,
    /// Callers that are asked for their addresses as soon as their connections are open.
    fresh: Vec<Circuit>,
    /// The latest time that it was called at.
    now: Duration,
}

impl ArpServer {
    pub(super) fn new(shared: Arc<ArpShared>) -> Self {
        let own = Station { atm: Some(server_address()), ip: None };
        Self { server: Server::new(own), shared, fresh: Vec::new(), now: Duration::ZERO }
    }

    pub(super) fn handle(
        &mut self,
        now: Duration,
        event: ServerEvent<LaneUnit>,
    ) -> Vec<ServerRequest> {
        self.now = now;
        let circuit = |call: Call| Circuit(call.number);
        match event {
            ServerEvent::Call(PartyEvent::Offered { call, purpose, .. }) => {
                if purpose != Purpose::ClassicalIp {
                    let cause = Cause::Rejected;
                    return vec![ServerRequest::Call(PartyAction::Release { call, cause })];
                }
                self.fresh.push(circuit(call));
                vec![ServerRequest::Call(PartyAction::Accept(call))]
            }
            ServerEvent::Call(PartyEvent::Released { call, .. }) => {
                self.fresh.retain(|fresh| *fresh != circuit(call));
                self.with(Event::Closed(circuit(call)))
            }
            // it begins no calls
            ServerEvent::Call(PartyEvent::Connected(_)) => Vec::new(),
            ServerEvent::Received { call, unit } => {
                let octets = unit.octets();
                let message = snap::split(&octets)
                    .filter(|(ether_type, _)| *ether_type == arp::ETHER_TYPE)
                    .and_then(|(_, message)| AtmArp::parse(message).ok());
                let Some(message) = message else {
                    self.shared.counters.server_malformed.add(1);
                    return Vec::new();
                };
                match message.operation {
                    Operation::Request => &self.shared.counters.server_in_requests,
                    Operation::InverseReply => &self.shared.counters.server_in_inverse_replies,
                    _ => &self.shared.counters.server_in_others,
                }
                .add(1);
                self.with(Event::Received { circuit: circuit(call), message })
            }
        }
    }

    pub(super) fn due(&self) -> Option<Duration> {
        if self.fresh.is_empty() { self.server.due() } else { Some(self.now) }
    }

    pub(super) fn poll(&mut self, now: Duration) -> Vec<ServerRequest> {
        self.now = now;
        let fresh = std::mem::take(&mut self.fresh);
        let mut requests: Vec<ServerRequest> =
            fresh.into_iter().flat_map(|circuit| self.with(Event::Opened(circuit))).collect();
        let mut actions = Vec::new();
        self.server.poll(now, &mut actions);
        requests.extend(self.requests(actions));
        requests
    }

    fn with(&mut self, event: Event) -> Vec<ServerRequest> {
        let mut actions = Vec::new();
        self.server.handle(self.now, event, &mut actions);
        self.requests(actions)
    }

    fn requests(&self, actions: Vec<ServerAction>) -> Vec<ServerRequest> {
        let counters = &self.shared.counters;
        self.shared.show(self.server.known());
        let wish = |action| match action {
            ServerAction::Send { circuit: Circuit(call), message } => {
                match message.operation {
                    Operation::Reply => &counters.server_out_replies,
                    Operation::Refusal => &counters.server_out_refusals,
                    Operation::InverseRequest => &counters.server_out_inverse_requests,
                    _ => &counters.server_out_others,
                }
                .add(1);
                let unit: Unit = message_unit(&message)?;
                Some(ServerRequest::Send(Call::incoming(call), Arc::new(unit)))
            }
            ServerAction::Conflict { .. } => {
                counters.server_duplicates.add(1);
                None
            }
            ServerAction::Full(_) => {
                counters.server_full.add(1);
                None
            }
        };
        actions.into_iter().filter_map(wish).collect()
    }
}
