use linkrate_wire::atm::AtmAddress;
use linkrate_wire::link::LinkLaw;
use linkrate_wire::machine::call::{Call, Cause, PartyAction, PartyEvent, Purpose};

use super::*;
use crate::cells::Unit;
use crate::frame::WireFrame;
use crate::pdu::Signal;

/// 1 µs for a cell.
const RATE: BitRate = BitRate(424e6 * 27.0 / 26.0);
const CELL_PS: u64 = 1_000_000;

fn vci(vci: u16) -> Connection {
    Connection { vpi: 0, vci }
}

fn switch(ports: usize) -> AtmSwitch {
    let mut switch = AtmSwitch::default();
    let link = LinkSpec { law: LinkLaw::Atm, rate: Some(RATE) };
    (0..ports).for_each(|number| switch.attach(number, link, 0));
    switch
}

/// The cells of a unit on a connection, by number.
fn run(connection: Connection, cells: u32, range: std::ops::Range<u32>) -> Run {
    let packet = WireFrame::copied(vec![5; cells as usize * 48 - 16]);
    let unit = Arc::new(Unit::new(&[1; 8], packet).unwrap());
    assert_eq!(unit.cells(), cells);
    Run { unit, headers: Headers::of(connection), range, spacing_ps: CELL_PS }
}

/// What has left by a port: time, cells, and the connection that they have there.
fn out(switch: &mut AtmSwitch, port: usize) -> Vec<(u64, usize, Connection)> {
    switch.forward(u64::MAX);
    let in_flight = switch.to(port).unwrap();
    std::iter::from_fn(|| in_flight.arrived(u64::MAX))
        .map(|(at_ps, pdu)| {
            let train = pdu.into_cells().unwrap();
            let connection = Header::read(train.header()).connection;
            (at_ps, train.count(), connection)
        })
        .collect()
}

fn counted(switch: &AtmSwitch, port: usize, name: &str) -> u64 {
    let counters = &switch.ports.get(port).unwrap().counters;
    counters.values().find(|(of, _)| *of == name).unwrap().1
}

#[test]
fn a_connection_leads_both_ways_with_an_identifier_for_each_link() {
    let mut switch = switch(2);
    switch.connect((0, vci(101)), (1, vci(100)));
    switch.enter(0, CellTrain::Run(run(vci(101), 10, 0..10)).into(), 10 * CELL_PS);
    // a cell passes in one cell time, and a train is no store-and-forward
    assert_eq!(out(&mut switch, 1), [(11 * CELL_PS, 10, vci(100))]);
    switch.enter(1, CellTrain::Run(run(vci(100), 10, 0..10)).into(), 30 * CELL_PS);
    assert_eq!(out(&mut switch, 0), [(31 * CELL_PS, 10, vci(101))]);
    switch.enter(1, CellTrain::Run(run(vci(101), 3, 0..3)).into(), 50 * CELL_PS);
    assert_eq!((out(&mut switch, 0), counted(&switch, 1, "switchDropNoConnection")), (vec![], 3));
    switch.detach(0);
    switch.enter(1, CellTrain::Run(run(vci(100), 3, 0..3)).into(), 60 * CELL_PS);
    assert_eq!(
        (switch.forward(u64::MAX), counted(&switch, 1, "switchDropNoConnection")),
        (true, 6)
    );
}

#[test]
fn two_connections_share_a_line_and_it_never_carries_more() {
    let mut switch = switch(3);
    switch.connect((0, vci(40)), (2, vci(50)));
    switch.connect((1, vci(40)), (2, vci(60)));
    for (at, train) in (0..192).step_by(64).enumerate() {
        let end_ps = (at as u64 + 1) * 64 * CELL_PS;
        for from in 0..2 {
            let range = train..train + 64;
            switch.enter(from, CellTrain::Run(run(vci(40), 192, range)).into(), end_ps);
        }
    }
    let came = out(&mut switch, 2);
    let connections: Vec<u16> = came.iter().map(|(_, _, connection)| connection.vci).collect();
    assert_eq!(connections, [50, 60, 50, 60, 50, 60]);
    let times: Vec<u64> = came.iter().map(|(at_ps, ..)| at_ps / CELL_PS).collect();
    assert_eq!(times, [65, 129, 193, 257, 321, 385]);
}

#[test]
fn headers_are_checked_and_made_anew() {
    let mut switch = switch(2);
    switch.connect((0, vci(101)), (1, vci(100)));
    let cell = run(vci(101), 10, 0..10).cell(9);
    let expected = run(vci(100), 10, 0..10).cell(9);
    for (bits, passes) in [(&[][..], true), (&[13], true), (&[13, 30], false)] {
        // the receiver corrects again behind a right cell
        switch.enter(0, CellTrain::Run(run(vci(101), 10, 0..1)).into(), 0);
        out(&mut switch, 1);
        let mut sent = cell;
        bits.iter().for_each(|bit| sent[bit / 8] ^= 0x80 >> (bit % 8));
        switch.enter(0, CellTrain::Lone(Box::new(sent)).into(), 0);
        switch.forward(u64::MAX);
        let came = switch.to(1).unwrap().arrived(u64::MAX);
        let came = came.map(|(_, pdu)| pdu.into_cells().unwrap().cells().next().unwrap());
        assert_eq!(came, passes.then_some(expected), "{bits:?}");
    }
    let counts = ["switchHecCorrected", "switchDropHec"].map(|name| counted(&switch, 0, name));
    assert_eq!(counts, [1, 1]);
}

/// Units of 100 cells from two ports at once for one line.
fn overloaded(discard: Discard) -> (AtmSwitch, Vec<(u64, usize, Connection)>) {
    let mut switch = switch(3);
    switch.control(FabricCommand::SetDiscard(2, discard));
    switch.connect((0, vci(40)), (2, vci(50)));
    switch.connect((1, vci(40)), (2, vci(60)));
    for unit in 1..=200 {
        for from in 0..2 {
            for half in [0, 50] {
                let end_ps = (unit * 100 - 50 + u64::from(half)) * CELL_PS;
                let train = run(vci(40), 100, half..half + 50);
                switch.enter(from, CellTrain::Run(train).into(), end_ps);
            }
        }
    }
    let came = out(&mut switch, 2);
    (switch, came)
}

#[test]
fn a_full_queue_drops_cells_or_units() {
    let drops = ["switchDropQueueFull", "switchDropEarly", "switchDropPartial"];
    let passed = |came: &[(u64, usize, Connection)]| {
        came.iter().map(|(_, cells, _)| *cells as u64).sum::<u64>()
    };
    for (early, partial) in [(false, false), (false, true), (true, true)] {
        let (switch, came) = overloaded(Discard { early, partial });
        let dropped = drops.map(|name| counted(&switch, 2, name));
        assert_eq!(passed(&came) + dropped.iter().sum::<u64>(), 40_000);
        // twice the rate for 20,000 cell times, into a queue of 8192
        assert!(passed(&came) >= 20_000 + QUEUE_CELLS * 3 / 4 - 200, "{}", passed(&came));
        assert!(passed(&came) <= 20_000 + QUEUE_CELLS + 2, "{}", passed(&came));
        assert_eq!(dropped.map(|count| count > 0), [!early, early, partial && !early]);
    }
}

#[test]
fn a_torn_unit_ends_with_its_last_cell() {
    let mut unit = UnitState::default();
    let mut switch = switch(1);
    let port = switch.ports.get_mut(0).unwrap();
    port.discard.partial = true;
    let arrival = |begins, ends, cells, first_ps| Arrival {
        begins,
        ends,
        cells,
        first_ps,
        last_ps: first_ps,
    };
    port.line.occupy_octets(0, (QUEUE_CELLS - 10) * CELL as u64);
    let some = |cells| Passed { cells, last_alone: false };
    assert_eq!(port.admit(&mut unit, arrival(true, false, 50, 0)), some(10));
    assert_eq!(port.admit(&mut unit, arrival(false, false, 50, 100 * CELL_PS)), some(0));
    let last = port.admit(&mut unit, arrival(false, true, 50, 200 * CELL_PS));
    assert_eq!(last, Passed { cells: 0, last_alone: true });
    assert_eq!(port.admit(&mut unit, arrival(true, true, 50, 300 * CELL_PS)), some(50));
}

#[test]
fn a_dead_switch_passes_nothing_on() {
    let mut switch = switch(2);
    switch.connect((0, vci(40)), (1, vci(40)));
    switch.set_alive(false);
    switch.enter(0, CellTrain::Run(run(vci(40), 10, 0..10)).into(), 0);
    assert_eq!((out(&mut switch, 1), counted(&switch, 0, "switchDropDead")), (vec![], 10));
    switch.set_alive(true);
    switch.enter(0, CellTrain::Run(run(vci(40), 10, 0..10)).into(), 0);
    assert_eq!(out(&mut switch, 1).len(), 1);
}

/// The messages that a port has got, and what it has of cells besides.
fn signals(switch: &mut AtmSwitch, port: usize) -> Vec<Signal> {
    switch.forward(CELL_PS);
    let in_flight = switch.to(port).unwrap();
    std::iter::from_fn(|| in_flight.arrived(u64::MAX))
        .filter_map(|(_, pdu)| match pdu {
            Pdu::Signal(signal) => Some(*signal),
            _ => None,
        })
        .collect()
}

#[test]
fn calls_get_circuits_that_are_free_and_are_cleared_with_their_port() {
    let mut switch = switch(3);
    switch.emulate(Vec::new(), Arc::default());
    switch.connect((0, vci(32)), (1, vci(32)));
    // in use, and reserved
    switch.connect((0, vci(32)), (2, vci(50)));
    switch.connect((1, vci(5)), (2, vci(51)));
    assert_eq!((switch.legs.len(), switch.legs[&(0, vci(32))].to), (2, 1));
    let [one, other, stranger] = [1, 2, 3].map(|end| AtmAddress::local(1, [2, 0, 0, 0, 0, end], 0));
    let (call, purpose) = (Call::outgoing(7), Purpose::DataDirect);
    let send = |switch: &mut AtmSwitch, port, signal: Signal| {
        switch.enter(port, signal.into(), 0);
        switch.forward(CELL_PS);
    };
    send(&mut switch, 0, Signal::Register(one));
    send(&mut switch, 1, Signal::Register(other));
    send(&mut switch, 2, Signal::Register(one));
    assert_eq!(signals(&mut switch, 2), [Signal::NotRegistered(one)]);
    let set_up =
        |party| Signal::Asked { party, action: PartyAction::SetUp { call, to: other, purpose } };
    // nobody speaks for an end system at another port, or for one that nobody knows
    for party in [one, stranger] {
        send(&mut switch, 2, set_up(party));
        let event = PartyEvent::Released { call, cause: Cause::OutOfOrder };
        assert_eq!(signals(&mut switch, 2), [Signal::Event { party, event }]);
    }
    send(&mut switch, 0, set_up(one));
    let offered = signals(&mut switch, 1);
    let [Signal::Event { event: PartyEvent::Offered { call: incoming, .. }, .. }] = offered[..]
    else {
        panic!("{offered:?}")
    };
    send(&mut switch, 1, Signal::Asked { party: other, action: PartyAction::Accept(incoming) });
    let opened = Signal::Opened { party: one, call, connection: vci(33) };
    let connected = Signal::Event { party: one, event: PartyEvent::Connected(call) };
    assert_eq!(signals(&mut switch, 0), [opened, connected]);
    assert_eq!((switch.legs.len(), switch.legs[&(0, vci(33))].to), (4, 1));
    // the port of the other end is gone
    switch.set_link(1, Some(RATE), false);
    let event = PartyEvent::Released { call, cause: Cause::OutOfOrder };
    let reported = Signal::Event { party: one, event };
    assert_eq!(signals(&mut switch, 0), [Signal::Closed(vci(33)), reported]);
    assert_eq!(switch.legs.len(), 2);
    // its permanent connection still has its circuits when it comes back
    switch.set_link(1, Some(RATE), true);
    switch.connect((1, vci(32)), (2, vci(50)));
    assert_eq!((switch.legs.len(), switch.legs[&(1, vci(32))].to), (2, 0));
    // a switch that lives again has its permanent connections, and tells that it forgot the others
    switch.set_alive(false);
    switch.set_alive(true);
    assert_eq!(signals(&mut switch, 0), [Signal::Restarted]);
    assert_eq!(switch.legs.len(), 2);
}
