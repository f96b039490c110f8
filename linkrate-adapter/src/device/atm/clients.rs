//! An ATM port with several clients of emulated LANs: each has an interface of the host, and all share the
//! link.
//!
//! Each client is an [`Atm`] of its own, with its interface, its connections and its counters. What belongs
//! to the link goes with the client that is at work: the line, the state of the header check, and the time
//! up to which cells were sent.

use linkrate_wire::atm::CELL;
use linkrate_wire::atm::cell::{self, Header};
use linkrate_wire::atm::hec::Found;

use super::Atm;
use crate::cells::CellTrain;
use crate::clock::earlier;
use crate::device::{Device, FrameSink};
use crate::fabric::InFlight;
use crate::interface::Interface;
use crate::link::Link;
use crate::pdu::{Pdu, Signal};

/// The clients of one port.
#[derive(Debug)]
pub(crate) struct Clients {
    /// At least one.
    clients: Vec<Atm>,
    /// The one that has the link.
    active: usize,
    /// The one that sends first: the one behind that which sent last, since each fills the FIFO.
    first: usize,
}

impl Clients {
    /// Clients whose ports share the link of the first one.
    pub(crate) fn new(first: Atm, others: impl IntoIterator<Item = Atm>) -> Self {
        let clients = std::iter::once(first).chain(others).collect();
        Self { clients, active: 0, first: 0 }
    }

    /// Client `number`, with the link.
    fn client(&mut self, number: usize) -> &mut Atm {
        let (from, to) = (self.active.min(number), self.active.max(number));
        if let (true, (low, [high, ..])) = (from != to, self.clients.split_at_mut(to)) {
            let low = &mut low[from];
            std::mem::swap(&mut low.links, &mut high.links);
            std::mem::swap(&mut low.headers, &mut high.headers);
            let ahead_ps = low.ahead_ps.max(high.ahead_ps);
            (low.ahead_ps, high.ahead_ps) = (ahead_ps, ahead_ps);
        }
        self.active = number;
        &mut self.clients[number]
    }

    /// The client that cells are for; the first one, which counts them, if none has their connection.
    fn of_cells(&self, train: &CellTrain, at_ps: u64) -> usize {
        let connection = match train {
            CellTrain::Run(run) => run.headers.connection(),
            CellTrain::Lone(cell) => {
                // the client itself will check it and count
                let active = &self.clients[self.active];
                let (mut check, cell_ps) = (active.headers, active.links[0].time_ps(CELL as u64));
                match check.check(cell::header(cell), at_ps, cell_ps) {
                    Found::Corrected(header) => Header::read(header).connection,
                    Found::Right | Found::Wrong => Header::read(cell::header(cell)).connection,
                }
            }
        };
        let has = |client: &Atm| {
            client.channels.iter().any(|channel| channel.headers.connection() == connection)
        };
        self.clients.iter().position(has).unwrap_or(0)
    }

    /// The client that a message about calls is for; `None` where it is for all.
    fn of_signal(&self, signal: &Signal) -> Option<usize> {
        let is_party = |client: &Atm| {
            let of = client.lane.as_ref().map(|lane| lane.address());
            match signal {
                Signal::Register(party)
                | Signal::NotRegistered(party)
                | Signal::Asked { party, .. }
                | Signal::Opened { party, .. }
                | Signal::Event { party, .. } => of == Some(*party),
                Signal::Closed(connection) => {
                    let mut channels = client.channels.iter();
                    channels.any(|channel| channel.headers.connection() == *connection)
                }
                Signal::Restarted => false,
            }
        };
        self.clients.iter().position(is_party)
    }
}

impl Device for Clients {
    fn refresh(&mut self, other_rate: &mut dyn FnMut(usize, &Link)) {
        self.clients.iter_mut().for_each(Atm::refresh_settings);
        let active = &mut self.clients[self.active];
        if active.links[0].refresh() {
            other_rate(0, &active.links[0]);
            (0..self.clients.len()).for_each(|number| self.client(number).follow_link());
        }
    }

    fn transmit(&mut self, now_ps: u64, out: &mut FrameSink<'_>) -> bool {
        let (count, first, mut any) = (self.clients.len(), self.first, false);
        for number in (0..count).map(|number| (first + number) % count) {
            if self.client(number).transmit(now_ps, out) {
                self.first = (number + 1) % count;
                any = true;
            }
        }
        any
    }

    fn receive(&mut self, link: usize, pdu: Pdu, at_ps: u64, now_ps: u64) {
        let number = match &pdu {
            Pdu::Cells(train) => self.of_cells(train, at_ps),
            Pdu::Signal(signal) => match self.of_signal(signal) {
                Some(number) => number,
                None => {
                    for number in 0..self.clients.len() {
                        self.client(number).receive(link, pdu.clone(), at_ps, now_ps);
                    }
                    return;
                }
            },
            Pdu::Frames(_) => return,
        };
        self.client(number).receive(link, pdu, at_ps, now_ps);
    }

    fn poll(&mut self, now_ps: u64, out: &mut FrameSink<'_>) -> bool {
        (0..self.clients.len())
            .fold(false, |any, number| self.client(number).poll(now_ps, out) | any)
    }

    fn due_ps(&mut self, now_ps: u64) -> Option<u64> {
        let each = (0..self.clients.len()).map(|number| self.client(number).due_ps(now_ps));
        each.fold(None, earlier)
    }

    fn arrival_due_ps(&self, link: usize, in_flight: &InFlight) -> Option<u64> {
        let each = self.clients.iter().map(|client| client.arrival_due_ps(link, in_flight));
        each.fold(None, earlier)
    }

    /// That of the first client: the queues of all of them have drivers, which the device thread does not
    /// look at.
    fn interface(&mut self) -> &mut Interface {
        &mut self.clients[0].host.interface
    }

    fn links(&self) -> &[Link] {
        &self.clients[self.active].links
    }
}

#[cfg(test)]
mod tests;
