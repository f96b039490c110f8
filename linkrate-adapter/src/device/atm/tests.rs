//! Two ATM ports back to back, without a TUN and without threads: packets go in, packets come out.

use std::sync::Arc;

use linkrate_model::model::{self, LinkKind};
use linkrate_sys::clock::monotonic_ns;
use linkrate_wire::atm::{CELL, HEADER, PAYLOAD, aal5};
use linkrate_wire::link::LinkLaw;
use linkrate_wire::vnet::{Checksum, Form, VnetHeader};
use proptest::prelude::*;

use super::rig::{self, HostSide};
use super::*;
use crate::bus::{Bus, DESCRIPTOR_BYTES};
use crate::cells::{CellTrain, TRAIN_CELLS, Unit};
use crate::clock::DeviceClock;
use crate::fabric::faults::{FaultInjector, Faults};
use crate::frame::WireFrame;

/// Long after anything that was sent.
const LATER_PS: u64 = 1 << 62;

/// 1 µs for a cell.
const RATE: BitRate = BitRate(424e6 * 27.0 / 26.0);

struct End {
    device: Atm,
    host: HostSide,
    posted_ns: u64,
}

fn limits() -> AtmLimits {
    AtmLimits {
        link: LinkSpec { law: LinkLaw::Atm, rate: Some(RATE) },
        largest_packet: 9180,
        rings: RingSizes { transmit: 256, receive: 256 },
        connections: vec![OF_A_CABLE],
        ..rig::limits()
    }
}

impl End {
    fn new(limits: AtmLimits) -> Self {
        Self::over(limits, None)
    }

    fn over(limits: AtmLimits, bus: Option<Arc<Bus>>) -> Self {
        let (mut device, host) = HostSide::of(limits, bus, DeviceClock::start());
        device.refresh(&mut |_, _| {});
        Self { device, host, posted_ns: monotonic_ns() }
    }

    fn post(&mut self, packet: &[u8]) {
        self.post_with(VnetHeader::default(), packet);
    }

    fn post_with(&mut self, vnet: VnetHeader, packet: &[u8]) {
        let bytes = [&vnet.emit()[..Form::Plain.length()], packet].concat();
        self.host.post(&bytes, self.posted_ns);
    }

    /// Everything it has to send, with the times at which it is sent.
    fn sent(&mut self) -> Vec<(CellTrain, u64)> {
        let mut trains = Vec::new();
        while self.device.send_posted(LATER_PS, &mut |train, at_ps| trains.push((train, at_ps))) {}
        trains
    }

    /// What its host gets of these cells.
    fn received(&mut self, trains: Vec<(CellTrain, u64)>) -> Vec<Vec<u8>> {
        for (train, at_ps) in trains {
            self.device.receive(0, train.into(), at_ps, LATER_PS);
        }
        self.device.interrupt(LATER_PS);
        std::iter::from_fn(|| self.host.rx.pop().ok())
            .map(|descriptor| {
                assert_eq!(descriptor.vnet, VnetHeader::default());
                let mut bytes = Vec::new();
                descriptor.for_each_piece(|piece| bytes.extend_from_slice(piece));
                bytes
            })
            .collect()
    }

    fn counted(&self, name: &str) -> u64 {
        self.device.shared.counters()[name]
    }
}

/// An IPv4 packet of `length` bytes.
fn packet(length: usize, seed: u8) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..length).map(|at| (at * 13) as u8 ^ seed).collect();
    packet[0] = 0x45;
    packet
}

fn faulty(trains: Vec<(CellTrain, u64)>, faults: Faults) -> Vec<(CellTrain, u64)> {
    let mut injector = FaultInjector::new(faults);
    let mut came = Vec::new();
    for (train, at_ps) in trains {
        injector.pass(train.into(), at_ps, |load, at_ps| {
            came.push((load.into_cells().unwrap(), at_ps))
        });
    }
    came
}

#[test]
fn packets_come_as_they_went_and_octets_are_cells() {
    let (mut one, mut other) = (End::new(limits()), End::new(limits()));
    let packets: Vec<Vec<u8>> =
        [9180, 20, 1500, 256, 257, 32, 33].into_iter().map(|length| packet(length, 3)).collect();
    packets.iter().for_each(|packet| one.post(packet));
    let trains = one.sent();
    let cells: usize = trains.iter().map(|(train, _)| train.count()).sum();
    assert_eq!(cells, 192 + 1 + 32 + 6 + 6 + 1 + 2);
    assert!(trains.iter().all(|(train, _)| train.count() <= TRAIN_CELLS as usize));
    // each cell has its slot, from the first one on
    let start_ps = trains[0].1 - trains[0].0.count() as u64 * 1_000_000;
    let mut so_far = 0;
    for (train, at_ps) in &trains {
        so_far += train.count() as u64;
        assert_eq!(*at_ps - start_ps, so_far * 1_000_000);
    }
    assert_eq!(other.received(trains), packets);
    for (end, way) in [(&one, "Out"), (&other, "In")] {
        assert_eq!(end.counted(&format!("ifHC{way}Octets")), cells as u64 * 53);
        assert_eq!(end.counted(&format!("ifHC{way}UcastPkts")), 7);
    }
    assert_eq!(
        (one.counted("atmTxCells"), other.counted("atmRxCells")),
        (cells as u64, cells as u64)
    );
    assert!(!one.device.shared.counters().contains_key("dot3HCStatsFCSErrors"));
}

#[test]
fn what_is_no_complete_packet_is_not_sent() {
    let mut end = End::new(limits());
    end.post(&packet(9181, 0));
    end.post(&[0x15; 100]);
    let checksum = Some(Checksum { start: 20, offset: 16 });
    end.post_with(VnetHeader { checksum, ..VnetHeader::default() }, &packet(100, 0));
    assert!(end.sent().is_empty());
    assert_eq!((end.counted("txDropOversized"), end.counted("txDropMalformed")), (1, 2));
    assert_eq!(end.counted("ifOutErrors"), 3);
}

#[test]
fn each_fault_shows_in_its_counter() {
    let all = Faults::default();
    for (faults, counter, costs) in [
        (Faults { loss: 0.001, ..all }, "aal5VccCrcErrors", true),
        (Faults { payload_error: 0.001, ..all }, "aal5VccCrcErrors", true),
        (Faults { misinsert: 0.001, ..all }, "aal5VccCrcErrors", true),
        (Faults { header_error: 0.001, ..all }, "atmHecCorrected", false),
        (Faults { double_header_error: 0.001, ..all }, "atmHecDropped", true),
    ] {
        let (mut one, mut other) = (End::new(limits()), End::new(limits()));
        let packets: Vec<Vec<u8>> = (0..100).map(|seed| packet(9000, seed)).collect();
        packets.iter().for_each(|packet| one.post(packet));
        let trains = faulty(one.sent(), faults);
        let came = other.received(trains);
        let strange = came.iter().find(|packet| !packets.contains(packet));
        assert_eq!(strange.map(|packet| packet.len()), None, "{faults:?}");
        assert_eq!(came.len() < 100, costs, "{counter}: {}", came.len());
        assert!(came.len() > 60, "{counter}: {}", came.len());
        assert!(other.counted(counter) > 0, "{counter}");
    }
}

/// The cells of octets that are complete cells already, whatever their trailer says.
fn raw(octets: &[u8]) -> Vec<(CellTrain, u64)> {
    let headers = Headers::of(OF_A_CABLE);
    let payloads = octets.as_chunks::<PAYLOAD>().0;
    let cell = |(number, payload): (usize, &[u8; PAYLOAD])| {
        let mut cell = [0; CELL];
        cell[..HEADER].copy_from_slice(&headers.of_cell(number + 1 == payloads.len()));
        cell[HEADER..].copy_from_slice(payload);
        (CellTrain::Lone(Box::new(cell)), 0)
    };
    payloads.iter().enumerate().map(cell).collect()
}

/// Two cells with a trailer that has this length, and a right CRC.
fn of_length(length: u16) -> Vec<(CellTrain, u64)> {
    let mut octets = [0; 2 * PAYLOAD];
    let trailer = octets.len() - aal5::TRAILER;
    octets[trailer + 2..trailer + 4].copy_from_slice(&length.to_be_bytes());
    let crc = aal5::crc(&octets[..trailer + 4]);
    octets[trailer + 4..].copy_from_slice(&crc.to_be_bytes());
    raw(&octets)
}

#[test]
fn each_defect_of_a_unit_has_its_counter_at_port_and_connection() {
    let mut long = End::new(AtmLimits { largest_packet: 65_527, ..limits() });
    long.post(&packet(9181, 1));
    let mut short = End::new(limits());
    short.post(&packet(9180, 1));
    let mut cut_off = short.sent();
    cut_off.pop();
    for (cells, name) in [
        (raw(&[9; 3 * PAYLOAD]), "aal5VccCrcErrors"),
        (of_length(10), "aal5LengthErrors"),
        (of_length(0), "aal5Aborted"),
        (long.sent(), "aal5VccOverSizedSDUs"),
        (cut_off, "aal5VccSarTimeOuts"),
    ] {
        let mut end = End::new(limits());
        assert!(end.received(cells).is_empty());
        end.device.expire(LATER_PS);
        let all = end.device.shared.counters();
        let counted: Vec<_> =
            all.iter().filter(|(of, count)| of.starts_with("aal5") && **count > 0).collect();
        assert_eq!(counted, [(&name.to_owned(), &1)]);
        assert_eq!(end.counted("ifInErrors"), 1, "{name}");
        let of_connection = end.device.atm.channels()[0].report().defects;
        assert_eq!(of_connection.into_iter().collect::<Vec<_>>(), [(name.to_owned(), 1)]);
    }
}

#[test]
fn a_unit_without_its_end_is_given_up_in_time() {
    let (mut one, mut other) = (End::new(limits()), End::new(limits()));
    one.post(&packet(9180, 1));
    let mut trains = one.sent();
    trains.pop();
    let last_ps = trains.last().unwrap().1;
    assert!(other.received(trains).is_empty());
    let due_ps = other.device.due_ps(last_ps).unwrap();
    assert!(due_ps < last_ps + 1_000_000_000_000);
    assert!(!other.device.expire(due_ps - 1) && other.device.expire(due_ps));
    assert_eq!(other.counted("aal5VccSarTimeOuts"), 1);
}

#[test]
fn cells_of_other_connections_are_counted_and_left() {
    let unknown = Connection { vpi: 0, vci: 77 };
    let (mut one, mut other) =
        (End::new(AtmLimits { connections: vec![unknown], ..limits() }), End::new(limits()));
    one.post(&packet(1500, 1));
    assert!(other.received(one.sent()).is_empty());
    assert_eq!(other.counted("ifInUnknownProtos"), 32);
}

/// A peak rate of one cell in 10 µs, a tenth of the line.
fn shaped(limits: AtmLimits) -> End {
    let mut end = End::new(limits);
    end.device.atm.settings.request(AtmKnobs { peak_rate: 42_400, ..AtmKnobs::default() });
    end.device.refresh(&mut |_, _| {});
    end
}

#[test]
fn a_peak_rate_spreads_cells_and_earns_no_credit() {
    let (mut one, mut other) = (shaped(limits()), End::new(limits()));
    (0..4).for_each(|seed| one.post(&packet(9180, seed)));
    let mut trains = Vec::new();
    // the FIFO is full of what waits for the rate
    assert!(one.device.send_posted(0, &mut |train, at_ps| trains.push((train, at_ps))));
    assert!(trains.len() < 12, "{}", trains.len());
    trains.extend(one.sent());
    let times: Vec<u64> = trains.iter().map(|(_, at_ps)| *at_ps).collect();
    let cells: u64 = trains.iter().map(|(train, _)| train.count() as u64).sum();
    assert_eq!(cells, 4 * 192);
    let seen_ps = times.last().unwrap() - times[0];
    assert_eq!(seen_ps, (cells - trains[0].0.count() as u64) * 10_000_000);
    assert_eq!(one.counted("atmTxCells"), cells);
    assert_eq!(other.received(trains).len(), 4);
}

/// The trains of each connection, by VCI.
fn by_connection(trains: &[(CellTrain, u64)], vci: u16) -> Vec<(u64, u64)> {
    let of_it = trains.iter().filter(|(train, _)| match train {
        CellTrain::Run(run) => run.headers.connection().vci == vci,
        CellTrain::Lone(_) => false,
    });
    of_it.map(|(train, at_ps)| (*at_ps, train.count() as u64)).collect()
}

#[test]
fn a_slow_connection_keeps_no_other_waiting() {
    let mut one = shaped(AtmLimits {
        connections: [101, 102].map(|vci| Connection { vpi: 0, vci }).to_vec(),
        ..limits()
    });
    // 200 packets for the first connection wait, and then one comes for the second
    let unit = |seed| {
        let packet = WireFrame::copied(packet(9180, seed));
        Arc::new(Unit::new(&snap::header(0x800), packet).unwrap())
    };
    let mut none = |_: CellTrain, _| panic!("nothing leaves before its turn");
    (0..200).for_each(|seed| _ = one.device.put_on_link(unit(seed), 0, 0, &mut none));
    one.device.put_on_link(unit(200), 1, 0, &mut none);
    let trains = one.sent();
    let (first, second) = (by_connection(&trains, 101), by_connection(&trains, 102));
    // a cell in 10 µs, behind at most a train of the other connection
    let (second_ps, cells) = (second.last().unwrap().0, second.iter().map(|(_, cells)| cells));
    assert_eq!(cells.sum::<u64>(), 192);
    assert!((1_910_000_000..2_000_000_000).contains(&second_ps), "{second_ps}");
    let cells: u64 = first.iter().map(|(_, cells)| cells).sum();
    let first_ps = first.last().unwrap().0;
    assert!(first_ps.abs_diff(cells * 10_000_000) < 100_000_000, "{first_ps} for {cells}");
}

#[test]
fn connections_share_a_line_that_is_slower_than_their_peak_rates() {
    let vcis = 101..=115;
    let connections = vcis.clone().map(|vci| Connection { vpi: 0, vci }).collect();
    let mut one = shaped(AtmLimits { connections, ..limits() });
    let unit = Arc::new(Unit::new(&[1; 8], WireFrame::copied(packet(9180, 1))).unwrap());
    for channel in 0..15 {
        (0..20).for_each(|_| {
            one.device.put_on_link(Arc::clone(&unit), channel, 0, &mut |_, _| ());
        });
    }
    let trains = one.sent();
    let cells: u64 = trains.iter().map(|(train, _)| train.count() as u64).sum();
    assert_eq!(cells, 15 * 20 * 192);
    // 15 tenths of the line: it carries a cell in each µs
    let last_ps = trains.iter().map(|(_, at_ps)| *at_ps).max().unwrap();
    assert!(last_ps < cells * 1_000_000 + 2_000_000_000, "{last_ps}");
    for vci in vcis {
        let (end_ps, _) = *by_connection(&trains, vci).last().unwrap();
        assert!(end_ps > last_ps - 15 * 640_000_000, "{vci}: {end_ps} of {last_ps}");
    }
}

#[test]
fn a_full_queue_holds_the_only_connection_and_drops_beside_others() {
    let more = shaping::MAX_WAITING + 40;
    for connections in [1, 2] {
        let vcis = (0..connections).map(|number| Connection { vpi: 0, vci: 101 + number });
        let station = (connections > 1)
            .then(|| (AtmAddress::local(1, [2, 0, 0, 0, 0, 1], 0), Ipv4Addr::new(198, 18, 0, 1)));
        let mut one = shaped(AtmLimits {
            connections: vcis.collect(),
            station,
            rings: RingSizes { transmit: 512, receive: 256 },
            ..limits()
        });
        if connections == 2 {
            let unit = Arc::new(Unit::new(&[1; 8], WireFrame::copied(packet(9180, 1))).unwrap());
            for _ in 0..more {
                one.device.put_on_link(Arc::clone(&unit), 0, 0, &mut |_, _| ());
            }
            assert_eq!((one.counted("txDropPeakRate"), one.counted("ifOutDiscards")), (40, 40));
            assert!(!one.device.is_held());
            continue;
        }
        (0..more).for_each(|seed| one.post(&packet(9180, seed as u8)));
        while one.device.send_posted(0, &mut |_, _| ()) {}
        assert!(one.device.is_held());
        // it is not called again and again for what it cannot take
        assert!(one.device.due_ps(0).unwrap() > 0);
        let cells: usize = one.sent().iter().map(|(train, _)| train.count()).sum();
        assert!(cells > more * 192 - 1000, "{cells}");
        assert_eq!(one.counted("txDropPeakRate"), 0);
    }
}

#[test]
fn both_directions_share_the_bus() {
    let bus = Arc::new(Bus::new(BitRate(8e6)));
    let (mut one, mut other) = (End::over(limits(), Some(Arc::clone(&bus))), End::new(limits()));
    one.post(&packet(1000, 1));
    let trains = one.sent();
    // 1 µs for a byte, descriptor included
    let bytes = 1000 + DESCRIPTOR_BYTES as u64;
    assert_eq!(bus.busy_ns(), bytes * 1000);
    let ready_ps = one.device.host.clock.at_ps(one.posted_ns);
    assert!(trains.last().unwrap().1 - ready_ps >= bytes * 1_000_000);
    assert_eq!(other.received(trains).len(), 1);
    other.post(&packet(1000, 2));
    assert_eq!(one.received(other.sent()).len(), 1);
    assert_eq!(bus.busy_ns(), 2 * bytes * 1000);
    // its FIFO takes little more than the bus carries
    let sent: Vec<_> = (0..40)
        .flat_map(|seed| {
            other.post(&packet(9000, seed));
            other.sent()
        })
        .collect();
    for (train, at_ps) in sent {
        one.device.receive(0, train.into(), at_ps, at_ps);
    }
    let lost = one.counted("rxDropFifoFull");
    assert!((1..40).contains(&lost), "{lost}");
    assert!(one.device.bus.due_ps().is_some() && one.device.carried(LATER_PS));
    assert_eq!(one.received(Vec::new()).len() as u64, 40 - lost);
}

/// Two ports with connections to two others each.
fn station(vcis: [u16; 2], last: u8) -> AtmLimits {
    let address = AtmAddress::local(1, [2, 0, 0, 0, 0, last], 0);
    AtmLimits {
        connections: vcis.map(|vci| Connection { vpi: 0, vci }).to_vec(),
        station: Some((address, Ipv4Addr::new(198, 18, 0, last))),
        ..limits()
    }
}

#[test]
fn the_other_ends_tell_their_addresses_and_packets_take_their_connection() {
    let (mut one, mut other) = (End::new(station([101, 102], 1)), End::new(station([102, 101], 7)));
    let mut to_seven = packet(600, 1);
    to_seven[16..20].copy_from_slice(&[198, 18, 0, 7]);
    one.post(&to_seven);
    assert!(one.sent().is_empty());
    assert_eq!(one.counted("txDropNoConnection"), 1);
    // questions and answers, until there are none
    for now_ps in [0, 1_000_000_000] {
        for _ in 0..3 {
            let mut trains = Vec::new();
            one.device.resolve(now_ps, &mut |train, at_ps| trains.push((train, at_ps)));
            assert!(other.received(std::mem::take(&mut trains)).is_empty());
            other.device.resolve(now_ps, &mut |train, at_ps| trains.push((train, at_ps)));
            assert!(one.received(trains).is_empty());
        }
    }
    let known: Vec<_> = one.device.atm.channels().iter().map(|channel| channel.report()).collect();
    assert!(known.iter().all(|channel| channel.address == Some(Ipv4Addr::new(198, 18, 0, 7))));
    one.post(&to_seven);
    let trains = one.sent();
    assert_eq!(other.received(trains), [to_seven]);
}

#[test]
fn a_model_gives_its_port_what_it_has() {
    let model = model::find("atm-622").unwrap();
    assert_eq!((model.link, model.default_mtu()), (LinkKind::Atm, 9180));
    let limits = AtmLimits::of(&model);
    assert_eq!(limits.largest_packet, 65_527);
    let mut end = End::new(limits.clone());
    end.post(&packet(65_527, 1));
    let trains = end.sent();
    assert_eq!(trains.iter().map(|(train, _)| train.count()).sum::<usize>(), 1366);
    assert_eq!(End::new(limits).received(trains), [packet(65_527, 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any packets over any line: each comes whole, in order, or not at all.
    #[test]
    fn packets_come_whole_or_not_at_all(
        lengths in prop::collection::vec(20_usize..9181, 1..12),
        loss in 0.0..0.02,
        header_error in 0.0..0.02,
        payload_error in 0.0..0.02,
        seed: u64,
    ) {
        let (mut one, mut other) = (End::new(limits()), End::new(limits()));
        let packets: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(at, length)| packet(*length, at as u8)).collect();
        packets.iter().for_each(|packet| one.post(packet));
        let faults = Faults { loss, header_error, payload_error, seed, ..Faults::default() };
        let came = other.received(faulty(one.sent(), faults));
        let mut sent = packets.iter();
        for packet in came {
            prop_assert!(sent.any(|one| *one == packet), "a packet that was never sent");
        }
    }

    /// Packets on several connections whose cells come in any order among each other: each connection's
    /// come whole and in order, whatever the other lost.
    #[test]
    fn connections_in_any_order_do_not_touch_each_other(
        lengths in prop::collection::vec((20_usize..3000, any::<bool>()), 1..12),
        order in prop::collection::vec(any::<bool>(), 0..400),
        lost in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let connections = [101, 102].map(|vci| Connection { vpi: 0, vci });
        let mut sent = [Vec::new(), Vec::new()];
        let mut waiting = [Vec::new(), Vec::new()];
        for (at, (length, second)) in lengths.iter().enumerate() {
            let number = usize::from(*second);
            let one = AtmLimits { connections: vec![connections[number]], ..limits() };
            let mut end = End::new(one);
            end.post(&packet(*length, at as u8));
            sent[number].push(packet(*length, at as u8));
            waiting[number].extend(end.sent().iter().flat_map(|(train, _)| train.cells()));
        }
        // the first connection loses cells, the second one none
        for index in lost {
            if !waiting[0].is_empty() {
                let at = index.index(waiting[0].len());
                waiting[0].remove(at);
            }
        }
        let mut order = order.into_iter();
        let mut waiting = waiting.map(|cells| cells.into_iter().peekable());
        let mut cells = Vec::new();
        loop {
            let first = order.next().unwrap_or(waiting[1].peek().is_none());
            let [one, other] = &mut waiting;
            let (chosen, spare) = if first { (one, other) } else { (other, one) };
            let Some(cell) = chosen.next().or_else(|| spare.next()) else { break };
            cells.push((CellTrain::Lone(Box::new(cell)), 0));
        }
        let both = AtmLimits { connections: connections.to_vec(), ..limits() };
        let came = End::new(both).received(cells);
        let of = |packets: &[Vec<u8>]| -> Vec<Vec<u8>> {
            came.iter().filter(|packet| packets.contains(packet)).cloned().collect()
        };
        prop_assert_eq!(of(&sent[1]), sent[1].clone());
        let mut all = sent[0].iter();
        for packet in of(&sent[0]) {
            prop_assert!(all.any(|one| *one == packet), "out of order");
        }
        prop_assert!(came.iter().all(|one| sent.iter().flatten().any(|packet| packet == one)));
    }
}
