//! An ATM switch: connections by port, VPI and VCI, and a queue of cells before each line out.
//!
//! A switch passes a cell on as soon as it has come, and not a train or a unit at once. The times of a
//! train say so: its first cell leaves when the first cell has come and the line is free, and its last
//! cell at least one cell time after it has come. A train is looked at when its last cell has come.
//! Trains are short, so that two connections to one port share it nearly cell by cell.

pub(crate) mod atmarp;
mod calls;
pub(crate) mod servers;

use std::collections::HashMap;
use std::sync::Arc;

use linkrate_model::BitRate;
use linkrate_wire::atm::cell::{self, Cell, Header, Headers};
use linkrate_wire::atm::hec::{self, Found};
use linkrate_wire::atm::{CELL, Connection, HEADER};
use linkrate_wire::machine::call::{Call, PartyAction};

use super::ports::{InFlightBoth, Ports, SwitchPort};
use super::{Discard, End, Fabric, FabricCommand, InFlight};
use crate::cells::{CellTrain, Run, TRAIN_CELLS, Unit};
use crate::clock::earlier;
use crate::counters::{AtmSwitchCounters, ElanCounters};
use crate::link::LinkSpec;
use crate::pacing::Line;
use crate::pdu::Pdu;
use calls::Calls;
use servers::ElanSpec;

/// The highest VPI and VCI of a link: those of the adapters.
pub(crate) const HIGHEST: Connection = Connection { vpi: 0, vci: 1023 };

/// Cells that a queue holds: about the buffer that switches of 1999 had for a port.
const QUEUE_CELLS: u64 = 8192;

/// The share of the queue from which on early packet discard takes no new unit.
const EARLY: f64 = 0.75;

#[derive(Debug)]
struct Port {
    in_flight: InFlightBoth,
    line: Line,
    discard: Discard,
    /// Checks the headers of the cells that come in.
    headers: hec::Receiver,
    counters: Arc<AtmSwitchCounters>,
}

/// What a server wants done.
#[derive(Debug)]
enum ServerRequest {
    Call(PartyAction),
    Send(Call, Arc<Unit>),
}

impl SwitchPort for Port {
    fn in_flight(&mut self) -> &mut InFlightBoth {
        &mut self.in_flight
    }

    fn in_flight_ref(&self) -> &InFlightBoth {
        &self.in_flight
    }

    fn lost_in_flight(&self, count: u64) {
        self.counters.in_flight.add(count);
    }

    fn lost_dead(&self, count: u64) {
        self.counters.dead.add(count);
    }
}

/// A direction of a connection through the switch.
#[derive(Debug)]
struct Leg {
    to: usize,
    /// The headers of its cells there.
    headers: Headers,
    unit: UnitState,
}

/// What happens to the unit that the next cell of a connection is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum UnitState {
    /// The next cell is the first one of a unit.
    #[default]
    Begins,
    /// It is passed on.
    Passes,
    /// A cell was dropped, and the others go with it, except the last one.
    Torn,
    /// It is not passed on.
    Refused,
}

#[derive(Debug, Default)]
pub(crate) struct AtmSwitch {
    ports: Ports<Port>,
    /// By the port and connection that cells come in by.
    legs: HashMap<End, Leg>,
    /// Its calls, if it has emulated LANs.
    calls: Option<Box<Calls>>,
    /// It passes nothing on.
    dead: bool,
}

impl Fabric for AtmSwitch {
    fn attach(&mut self, number: usize, link: LinkSpec, _switch: usize) {
        let port = Port {
            in_flight: InFlightBoth::default(),
            line: link.line(),
            discard: Discard::default(),
            headers: hec::Receiver::default(),
            counters: Arc::default(),
        };
        self.ports.put(number, port);
        self.carrier(number, true);
    }

    /// Removes a port and its connections.
    fn detach(&mut self, number: usize) {
        self.carrier(number, false);
        if let Some(calls) = &mut self.calls {
            calls.forget(number);
        }
        self.ports.remove(number);
        self.legs.retain(|(from, _), leg| *from != number && leg.to != number);
    }

    fn set_link(&mut self, number: usize, rate: Option<BitRate>, up: bool) {
        if let Some(port) = self.ports.get_mut(number) {
            port.line.set_rate(rate);
            self.carrier(number, up);
        }
    }

    fn cut(&mut self, number: usize, now_ps: u64) {
        self.ports.cut(number, now_ps);
    }

    fn control(&mut self, command: FabricCommand) {
        match command {
            FabricCommand::SetSwitchAlive(0, alive) => self.set_alive(alive),
            FabricCommand::Connect(one, other) => self.connect(one, other),
            FabricCommand::Emulate(elans, counters) => self.emulate(elans, counters),
            FabricCommand::ServeAddresses(shared) => {
                if self.calls.is_none() {
                    self.emulate(Vec::new(), Arc::default());
                }
                if let Some(calls) = &mut self.calls {
                    calls.serve_addresses(shared);
                }
            }
            FabricCommand::SetDiscard(port, discard) => {
                if let Some(port) = self.ports.get_mut(port) {
                    port.discard = discard;
                }
            }
            FabricCommand::CountCells(port, counters) => {
                if let Some(port) = self.ports.get_mut(port) {
                    port.counters = counters;
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, from: usize, pdu: Pdu, at_ps: u64) {
        self.ports.enter(from, pdu, at_ps, self.dead);
    }

    /// Passes on in the order of arrival at any port.
    fn forward(&mut self, now_ps: u64) -> bool {
        let mut any = false;
        while let Some((at_ps, from, pdu)) = self.ports.first_arrived(now_ps) {
            match pdu {
                Pdu::Cells(CellTrain::Run(run)) => self.pass_run(from, run, at_ps),
                Pdu::Cells(CellTrain::Lone(cell)) => self.pass_cell(from, *cell, at_ps),
                Pdu::Signal(signal) => self.signalled(from, *signal, at_ps),
                Pdu::Frames(_) => {}
            }
            any = true;
        }
        self.poll_calls(now_ps) || any
    }

    fn due_ps(&self, when: &dyn Fn(&InFlight) -> Option<u64>) -> Option<u64> {
        let calls = self.calls.as_ref().and_then(|calls| calls.due_ps());
        earlier(self.ports.due_ps(when), calls)
    }

    fn to(&mut self, to: usize) -> Option<&mut InFlight> {
        self.ports.to(to)
    }
}

impl AtmSwitch {
    pub(super) fn connect(&mut self, one: End, other: End) {
        if self.calls.as_mut().is_none_or(|calls| calls.permanent([one, other])) {
            self.lead(one, other);
        }
    }

    pub(crate) fn emulate(&mut self, elans: Vec<ElanSpec>, counters: Arc<ElanCounters>) {
        let ports = self.ports.numbers().filter(|number| self.ports.get(*number).is_some());
        self.calls = Some(Box::new(Calls::new(elans, counters, ports)));
    }

    pub(super) fn set_alive(&mut self, alive: bool) {
        if alive != self.dead {
            return;
        }
        self.dead = !alive;
        self.ports.lose_in_flight();
        self.legs.values_mut().for_each(|leg| leg.unit = UnitState::default());
        if alive {
            self.restart_calls();
        }
    }

    /// Cells on their way out of a port.
    pub(super) fn outwards(&self, port: usize) -> Option<&InFlight> {
        Some(&self.ports.get(port)?.in_flight.outwards)
    }

    /// Connects two ends, both ways.
    fn lead(&mut self, one: End, other: End) {
        for (from, to) in [(one, other), (other, one)] {
            let leg = Leg { to: to.0, headers: Headers::of(to.1), unit: UnitState::default() };
            self.legs.insert(from, leg);
        }
    }

    /// Puts a unit of the switch's own on the way to a port.
    fn send_unit(
        &mut self,
        (port, headers): (usize, Headers),
        state: &mut UnitState,
        unit: &Arc<Unit>,
        at_ps: u64,
    ) {
        let Some(port) = self.ports.get_mut(port) else { return };
        let spacing_ps = port.line.time_ps(CELL as u64);
        for start in (0..unit.cells()).step_by(TRAIN_CELLS as usize) {
            let range = start..(start + TRAIN_CELLS).min(unit.cells());
            let run = Run { unit: Arc::clone(unit), headers, range, spacing_ps };
            let (begins, ends, cells) = (start == 0, run.ends(), run.count() as u64);
            let arrival = Arrival { begins, ends, cells, first_ps: at_ps, last_ps: at_ps };
            port.pass(state, headers, run, arrival);
        }
    }

    fn pass_run(&mut self, from: usize, run: Run, at_ps: u64) {
        if let Some(port) = self.ports.get_mut(from) {
            // both ends of the line have computed its headers
            port.headers.right();
        }
        let connection = run.headers.connection();
        let arrival = Arrival {
            begins: run.range.start == 0,
            ends: run.ends(),
            cells: run.count() as u64,
            first_ps: at_ps.saturating_sub(run.length_ps()),
            last_ps: at_ps,
        };
        if self.takes((from, connection)) {
            return self.serve_run((from, connection), run, at_ps);
        }
        let Some((leg, port)) = self.leg(from, connection, arrival.cells) else { return };
        port.pass(&mut leg.unit, leg.headers, run, arrival);
    }

    /// Whether a connection ends at a server of the switch.
    fn takes(&self, end: End) -> bool {
        self.calls.as_ref().is_some_and(|calls| calls.takes(end))
    }

    /// Passes on a cell whose header may be wrong.
    fn pass_cell(&mut self, from: usize, mut cell: Cell, at_ps: u64) {
        let Some(port) = self.ports.get_mut(from) else { return };
        let cell_ps = port.line.time_ps(CELL as u64);
        let header = match port.headers.check(cell::header(&cell), at_ps, cell_ps) {
            Found::Right => cell::header(&cell),
            Found::Corrected(header) => {
                port.counters.hec_corrected.add(1);
                header
            }
            Found::Wrong => {
                port.counters.hec_dropped.add(1);
                return;
            }
        };
        cell[..HEADER].copy_from_slice(&header);
        let header = Header::read(header);
        if self.takes((from, header.connection)) {
            return self.serve_cell((from, header.connection), &cell, at_ps);
        }
        let Some((leg, port)) = self.leg(from, header.connection, 1) else { return };
        let ends = header.payload_type.is_last();
        let arrival = Arrival {
            begins: leg.unit == UnitState::Begins,
            ends,
            cells: 1,
            first_ps: at_ps,
            last_ps: at_ps,
        };
        let translated = Header { connection: leg.headers.connection(), ..header }.emit();
        cell[..HEADER].copy_from_slice(&translated);
        let passed = port.admit(&mut leg.unit, arrival);
        if passed.cells > 0 || passed.last_alone {
            port.send(CellTrain::Lone(Box::new(cell)), 1, arrival);
        }
    }

    /// The way of a connection, and the port that it leads to.
    fn leg(
        &mut self,
        from: usize,
        connection: Connection,
        cells: u64,
    ) -> Option<(&mut Leg, &mut Port)> {
        let Some(leg) = self.legs.get_mut(&(from, connection)) else {
            if let Some(port) = self.ports.get(from) {
                port.counters.unknown.add(cells);
            }
            return None;
        };
        let port = self.ports.get_mut(leg.to)?;
        Some((leg, port))
    }
}

/// Cells that have come in.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    /// The first of them is the first one of a unit, the last of them the last one.
    begins: bool,
    ends: bool,
    cells: u64,
    /// When the first and the last of them had come.
    first_ps: u64,
    last_ps: u64,
}

/// The cells that a queue takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Passed {
    /// From the first on.
    cells: u64,
    /// And the last one, although others before it are dropped.
    last_alone: bool,
}

impl Port {
    /// Puts cells of a unit into the queue, as far as it takes them.
    fn pass(&mut self, unit: &mut UnitState, headers: Headers, run: Run, arrival: Arrival) {
        let passed = self.admit(unit, arrival);
        if passed.cells > 0 {
            let end = run.range.start + passed.cells as u32;
            let first = Run { range: run.range.start..end, headers, ..run.clone() };
            self.send(CellTrain::Run(first), passed.cells, arrival);
        }
        if passed.last_alone {
            // what is left of a unit ends where it ended, so that the next one is not lost with it
            let range = run.range.end - 1..run.range.end;
            let last = Run { range, headers, ..run };
            self.send(CellTrain::Run(last), 1, Arrival { first_ps: arrival.last_ps, ..arrival });
        }
    }

    /// Decides how many of the cells that came the queue takes.
    fn admit(&self, unit: &mut UnitState, arrival: Arrival) -> Passed {
        let Arrival { begins, ends, cells, .. } = arrival;
        let cell_ps = self.line.time_ps(CELL as u64);
        let end_ps = self.line.free_at_ps().max(arrival.first_ps) + cells * cell_ps;
        let filled = match cell_ps {
            0 => 0,
            cell_ps => end_ps.saturating_sub(arrival.last_ps) / cell_ps,
        };
        if begins {
            let is_early = self.discard.early && filled as f64 > QUEUE_CELLS as f64 * EARLY;
            *unit = if is_early { UnitState::Refused } else { UnitState::Passes };
        }
        let room = cells - filled.saturating_sub(QUEUE_CELLS).min(cells);
        let passed = match *unit {
            UnitState::Refused => {
                self.counters.early.add(cells);
                Passed { cells: 0, last_alone: false }
            }
            UnitState::Torn => {
                let last_alone = ends && room > 0;
                self.counters.partial.add(cells - u64::from(last_alone));
                Passed { cells: 0, last_alone }
            }
            UnitState::Begins | UnitState::Passes => {
                self.counters.full.add(cells - room);
                if room < cells && self.discard.partial {
                    *unit = UnitState::Torn;
                }
                Passed { cells: room, last_alone: false }
            }
        };
        if ends {
            *unit = UnitState::Begins;
        }
        passed
    }

    /// Puts cells on the line out.
    fn send(&mut self, train: CellTrain, cells: u64, arrival: Arrival) {
        let octets = cells * CELL as u64;
        let (all_ps, cell_ps) = (self.line.time_ps(octets), self.line.time_ps(CELL as u64));
        // each cell leaves behind its own arrival
        let ready_ps = arrival.first_ps.max((arrival.last_ps + cell_ps).saturating_sub(all_ps));
        let out = self.line.occupy_octets(ready_ps, octets);
        let train = match train {
            CellTrain::Run(run) => {
                // at the line's own pace, unless the cells came in at a slower one
                let spacing_ps = run.spacing_ps.max(cell_ps);
                CellTrain::Run(Run { spacing_ps, ..run })
            }
            lone => lone,
        };
        self.counters.out.add(cells);
        self.in_flight.outwards.add(out.end_ps, train);
    }
}

#[cfg(test)]
mod tests;
