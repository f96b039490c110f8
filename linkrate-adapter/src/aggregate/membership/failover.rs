//! The failover group of a host: one port is active, the others stand by, as in HP LAN Monitor.

use std::time::Duration;

use linkrate_model::knobs::AggregateKnobs;
use linkrate_wire::balance::PortIndex;
use linkrate_wire::control::Poll;
use linkrate_wire::frame::MacAddress;
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::lan_monitor::{Action, Config, Event, Failover, Reason};

use super::{Address, Message};

/// The number of the group: a host has one for each aggregate, whose address is in the polls too.
const GROUP: u32 = 1;

/// A failover group, by the numbers of the aggregate's ports.
#[derive(Debug)]
pub(super) struct Group {
    machine: Failover,
    address: MacAddress,
    /// Why it moved last.
    reason: Option<Reason>,
}

fn index(port: usize) -> PortIndex {
    PortIndex(u8::try_from(port).unwrap_or(u8::MAX))
}

fn config(address: MacAddress, knobs: &AggregateKnobs) -> Config {
    let preferred = index(knobs.preferred_port as usize);
    Config {
        interval: Duration::from_millis(knobs.poll_interval.into()),
        dead_count: knobs.dead_count,
        preferred: knobs.revert.then_some(preferred),
        ..Config::new(address, GROUP)
    }
}

impl Group {
    pub(super) fn new(address: MacAddress, knobs: &AggregateKnobs) -> Self {
        Self { machine: Failover::new(config(address, knobs)), address, reason: None }
    }

    pub(super) fn active(&self) -> Option<usize> {
        self.machine.active().map(PortIndex::at)
    }

    pub(super) fn moves(&self) -> u64 {
        self.machine.moves()
    }

    pub(super) fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Whether a port hears others, and whether others hear it.
    pub(super) fn health(&self, port: usize) -> Option<(bool, bool)> {
        self.machine.health(index(port))
    }

    /// For how much longer a port is held down after a failure.
    pub(super) fn held(&self, now: Duration, port: usize) -> Option<Duration> {
        Some(self.machine.held_until(now, index(port))? - now)
    }

    pub(super) fn set_knobs(
        &mut self,
        now: Duration,
        knobs: &AggregateKnobs,
        messages: &mut Vec<Message>,
    ) {
        self.handle(now, Event::Configure(config(self.address, knobs)), messages);
    }

    pub(super) fn set_addresses(&mut self, now: Duration, addresses: Vec<Address>) {
        self.handle(now, Event::Addresses(addresses), &mut Vec::new());
    }

    /// A port came, or its link has changed. `mac` is the address of the port itself.
    pub(super) fn set_link(
        &mut self,
        now: Duration,
        at: usize,
        mac: MacAddress,
        carrier: bool,
        messages: &mut Vec<Message>,
    ) {
        self.handle(now, Event::Join { port: index(at), mac, carrier }, messages);
    }

    pub(super) fn remove(&mut self, now: Duration, at: usize, messages: &mut Vec<Message>) {
        self.handle(now, Event::Leave(index(at)), messages);
    }

    pub(super) fn polled(
        &mut self,
        now: Duration,
        at: usize,
        poll: Poll,
        messages: &mut Vec<Message>,
    ) {
        self.handle(now, Event::Polled { on: index(at), poll }, messages);
    }

    pub(super) fn heard(&mut self, now: Duration, at: usize) {
        self.handle(now, Event::Heard(index(at)), &mut Vec::new());
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.machine.due()
    }

    /// Does the work that is due. Says whether another port is active now.
    pub(super) fn poll(&mut self, now: Duration, messages: &mut Vec<Message>) -> bool {
        let before = self.machine.active();
        let mut actions = Vec::new();
        self.machine.poll(now, &mut actions);
        self.carry_out(actions, messages);
        self.machine.active() != before
    }

    fn handle(&mut self, now: Duration, event: Event, messages: &mut Vec<Message>) {
        let mut actions = Vec::new();
        self.machine.handle(now, event, &mut actions);
        self.carry_out(actions, messages);
    }

    fn carry_out(&mut self, actions: Vec<Action>, messages: &mut Vec<Message>) {
        for action in actions {
            match action {
                Action::Send { port, frame } => messages.push((port.at(), frame)),
                Action::Activate { reason, .. } => self.reason = Some(reason),
            }
        }
    }
}
