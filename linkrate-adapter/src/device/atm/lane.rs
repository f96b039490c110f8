//! The client of an emulated LAN in a port ([`Lane`](crate::atm::lane::Lane)): frames of its host, and cells on its link.

use std::sync::Arc;

use linkrate_wire::control::lane_data;
use linkrate_wire::frame::link;
use linkrate_wire::machine::lane::ClientEvent;
use linkrate_wire::vnet::{Form, VnetHeader};

use super::Atm;
use crate::atm::assembly::Received;
use crate::atm::lane::{Change, Outgoing};
use crate::cells::CellTrain;
use crate::interface::rings::TxDescriptor;
use crate::lane_unit::LaneUnit;
use crate::pdu::Signal;

impl Atm {
    /// The link has got or lost its carrier, or the switch begins again.
    pub(super) fn calls_cleared(&mut self, at_ps: u64) {
        let Some(lane) = &mut self.lane else { return };
        lane.restart(at_ps);
        self.forget_channels();
    }

    fn forget_channels(&mut self) {
        self.channels.clear();
        self.atm.channels().clear();
    }

    pub(super) fn signalled(&mut self, signal: Signal, at_ps: u64) {
        if !self.shared.first_link().is_up() {
            return;
        }
        let Some(lane) = &mut self.lane else { return };
        match lane.signalled(signal, at_ps) {
            Change::Nothing => {}
            Change::Opened(connection, purpose, peer) => {
                self.add_channel(connection, purpose, peer);
            }
            Change::Closed(connection) => self.remove_channel(connection),
            Change::Cleared => self.forget_channels(),
        }
    }

    /// Sends a frame of the host, or lets it wait for its station. Returns the time at which the last bit
    /// of what is sent now has left.
    pub(super) fn send_frame(
        &mut self,
        descriptor: &TxDescriptor,
        ready_ps: u64,
        wire: &mut impl FnMut(CellTrain, u64),
    ) -> u64 {
        let Some(lane) = &mut self.lane else { return ready_ps };
        let bytes = descriptor.block.bytes(0..descriptor.length);
        let counters = &self.shared.counters;
        let dropped = match VnetHeader::parse(bytes, Form::Plain) {
            // the adapter cuts nothing and makes no checksum
            Ok((VnetHeader { gso: None, checksum: None, .. }, frame))
                if frame.len() >= link::ETHERNET =>
            {
                let fits = lane_data::length(frame.len()) <= lane.longest();
                (!fits).then_some(&counters.tx_drop_oversized)
            }
            _ => Some(&counters.tx_drop_malformed),
        };
        if let Some(counter) = dropped {
            counter.add(1);
            self.shared.first_link().counters.out_errors.add(1);
            return ready_ps;
        }
        let unit = LaneUnit::Posted(Arc::clone(&descriptor.block), descriptor.length);
        lane.handle(ready_ps, ClientEvent::Frame(unit));
        self.act(ready_ps, wire)
    }

    /// Takes a unit that a connection has received.
    pub(super) fn take_lane_unit(
        &mut self,
        channel: usize,
        received: Received,
        at_ps: u64,
        now_ps: u64,
    ) {
        let connection = self.channels[channel].headers.connection();
        let Some(lane) = &mut self.lane else { return };
        let frames = lane.received(connection, received, at_ps);
        frames.into_iter().for_each(|unit| self.bring_up(unit.frame(), at_ps, now_ps));
    }

    /// Does what the client wants, from `at_ps` on. Returns the time at which the last bit has left.
    fn act(&mut self, at_ps: u64, wire: &mut impl FnMut(CellTrain, u64)) -> u64 {
        let mut end_ps = at_ps;
        // the port sends what its client wants, and asks the client nothing meanwhile
        let Some(mut lane) = self.lane.take() else { return end_ps };
        let atm = Arc::clone(&self.atm);
        lane.act(atm.lane.get(), |outgoing| match outgoing {
            Outgoing::Frame(unit) => self.bring_up(unit.frame(), at_ps, at_ps),
            Outgoing::Unit(unit) => {
                let channel = unit.and_then(|(connection, unit)| {
                    let mut channels = self.channels.iter();
                    let channel =
                        channels.position(|one| one.headers.connection() == connection)?;
                    Some((channel, unit))
                });
                match channel {
                    Some((channel, unit)) => {
                        end_ps = end_ps.max(self.put_on_link(Arc::new(unit), channel, at_ps, wire));
                    }
                    None => self.atm.counters.unresolved.add(1),
                }
            }
        });
        self.lane = Some(lane);
        end_ps
    }

    /// Does what is due for the client by `now_ps`. Says whether anything was.
    pub(super) fn poll_lane(&mut self, now_ps: u64, wire: &mut impl FnMut(CellTrain, u64)) -> bool {
        let is_up = self.shared.first_link().is_up();
        let Some(lane) = &mut self.lane else { return false };
        let any = lane.poll(now_ps, is_up);
        self.act(now_ps, wire);
        any
    }

    /// The messages of its client for the switch since the last call.
    pub(super) fn take_signals(&mut self, now_ps: u64) -> Vec<Signal> {
        let is_up = self.shared.first_link().is_up();
        let Some(lane) = &mut self.lane else { return Vec::new() };
        lane.take_signals(now_ps, is_up, self.atm.lane.get())
    }
}

#[cfg(test)]
mod tests;
