//! What joins ports: a cable, a switch, or two switches, with the frames or cells under way.

pub(crate) mod atm_switch;
pub(crate) mod bridged;
pub(crate) mod faults;
mod joined;
mod ports;
pub mod router;
mod switch;
pub mod vlans;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use linkrate_model::{BitRate, topology};
use linkrate_wire::atm::Connection;
use linkrate_wire::link::LinkLaw;

pub(crate) use atm_switch::AtmSwitch;
pub(crate) use bridged::Bridged;
pub(crate) use joined::Joined;
pub(crate) use switch::Switch;
pub use switch::groups::{GroupPort, GroupSpec};

use crate::atm::ArpShared;
use crate::atm::lane::LaneStation;
use crate::counters::{AtmSwitchCounters, ElanCounters, SwitchCounters};
use crate::link::LinkSpec;
use crate::pdu::Pdu;
use atm_switch::servers::ElanSpec;
use bridged::BridgeShared;
use vlans::Vlans;

/// A fabric of this kind, without ports, for links under this law. There is one kind of ATM switch.
pub(crate) fn build(kind: topology::Fabric, law: LinkLaw) -> Box<dyn Fabric> {
    match kind {
        topology::Fabric::Cable => Box::new(Cable::default()),
        topology::Fabric::Bridged if law == LinkLaw::Atm => Box::new(Bridged::default()),
        _ if law == LinkLaw::Atm => Box::new(AtmSwitch::default()),
        topology::Fabric::Switch | topology::Fabric::Bridged => Box::new(Switch::default()),
        topology::Fabric::Switches => Box::new(Joined::by_a_link()),
        topology::Fabric::Router(gateways) => Box::new(Joined::by_a_router(gateways)),
    }
}

pub(crate) fn most_ports(kind: topology::Fabric) -> usize {
    match kind {
        topology::Fabric::Cable => 2,
        topology::Fabric::Switch
        | topology::Fabric::Bridged
        | topology::Fabric::Switches
        | topology::Fabric::Router(_) => usize::MAX,
    }
}

pub(crate) fn switches(kind: topology::Fabric) -> usize {
    match kind {
        topology::Fabric::Cable => 0,
        topology::Fabric::Switch | topology::Fabric::Bridged => 1,
        topology::Fabric::Switches | topology::Fabric::Router(_) => 2,
    }
}

/// An end of a connection: the port of the fabric, and the connection on the link there.
pub type End = (usize, Connection);

/// How a full queue of an ATM switch drops cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Discard {
    /// Early packet discard: a queue that is nearly full takes no cell of a new unit.
    pub early: bool,
    /// Partial packet discard: a unit that has lost a cell loses the others too, except the last one.
    pub partial: bool,
}

/// What only some fabrics do. Groups, ports and switches have numbers.
#[derive(Debug)]
pub(crate) enum FabricCommand {
    /// Makes ports a group that leads to one aggregate, or changes the group.
    SetGroup(usize, GroupSpec),
    /// Makes a port a member of other VLANs, and lets it count there.
    SetVlans(usize, Vlans, Arc<SwitchCounters>),
    /// Lets a switch go silent, or begin again with what it was told of ports, VLANs and groups.
    SetSwitchAlive(usize, bool),
    /// Makes a permanent connection, in both directions.
    Connect(End, End),
    /// Makes emulated LANs with these servers, which count here.
    Emulate(Vec<ElanSpec>, Arc<ElanCounters>),
    /// Makes a bridge between Ethernet ports and an emulated LAN: a client with these addresses, on a link
    /// of this kind.
    Bridge(LaneStation, LinkSpec, Arc<BridgeShared>),
    /// Makes an ATMARP server, which counts there and shows what it knows.
    ServeAddresses(Arc<ArpShared>),
    /// Sets how a full queue before a port drops cells.
    SetDiscard(usize, Discard),
    /// Lets a port count cells there.
    CountCells(usize, Arc<AtmSwitchCounters>),
}

/// What carries frames or cells from port to port. Ports have numbers; a port that is gone leaves its
/// number free.
pub(crate) trait Fabric: fmt::Debug + Send {
    /// Adds a port, which a link of this kind leads to, at switch number `switch` of the fabric.
    fn attach(&mut self, port: usize, link: LinkSpec, switch: usize);

    /// Removes a port and everything on its way to it.
    fn detach(&mut self, port: usize);

    /// The link to a port runs at another rate, or has got or lost its carrier.
    fn set_link(&mut self, port: usize, rate: Option<BitRate>, up: bool);

    /// The link to a port has no carrier from `now_ps` on: frames that have not arrived at either of its
    /// ends are lost.
    fn cut(&mut self, port: usize, now_ps: u64);

    /// Does what not every fabric does; the others ignore it.
    fn control(&mut self, _command: FabricCommand) {}

    /// Takes frames that have left port `from` by `at_ps`.
    fn enter(&mut self, from: usize, pdu: Pdu, at_ps: u64);

    /// Forwards what has come in by `now_ps`. Says whether there was any.
    fn forward(&mut self, _now_ps: u64) -> bool {
        false
    }

    /// When forwarding is worth it again. `when` says it for the frames that came in by one port.
    fn due_ps(&self, _when: &dyn Fn(&InFlight) -> Option<u64>) -> Option<u64> {
        None
    }

    /// Frames on their way to port `to`.
    fn to(&mut self, to: usize) -> Option<&mut InFlight>;
}

/// A cable between two ports, back to back: both directions.
#[derive(Debug, Default)]
pub(crate) struct Cable {
    to: [InFlight; 2],
}

impl Fabric for Cable {
    fn attach(&mut self, _port: usize, _link: LinkSpec, _switch: usize) {}

    fn detach(&mut self, port: usize) {
        if let Some(in_flight) = self.to.get_mut(port) {
            *in_flight = InFlight::default();
        }
    }

    fn set_link(&mut self, _port: usize, _rate: Option<BitRate>, _up: bool) {}

    /// Both directions are of one cable.
    fn cut(&mut self, _port: usize, now_ps: u64) {
        self.to.iter_mut().for_each(|in_flight| in_flight.cut(now_ps));
    }

    fn enter(&mut self, from: usize, pdu: Pdu, at_ps: u64) {
        if let Some(in_flight) = self.to.get_mut(1 - from.min(1)) {
            in_flight.add(at_ps, pdu);
        }
    }

    fn to(&mut self, to: usize) -> Option<&mut InFlight> {
        self.to.get_mut(to)
    }
}

/// Memory of the frames under way in one direction, at most: as much as 10 Gb/s carries in 100 ms.
const MAX_BYTES: usize = 128 << 20;

/// From so much memory on, short frames are copied out of the blocks that hold them. Before, a copy
/// would cost more than it saves.
const COPY_BYTES: usize = 4 << 20;

/// Memory of an entry beside its frames.
const ENTRY_BYTES: usize = size_of::<Entry>();

/// Frames or cells between two places, with the time at which their last bit arrives. Those that arrive
/// together may be one entry. Those that do not fit into [`MAX_BYTES`] are dropped and
/// counted.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Frames that were dropped since [`take_dropped`](Self::take_dropped).
    dropped: u64,
}

#[derive(Debug)]
struct Entry {
    at_ps: u64,
    pdu: Pdu,
    /// Memory that it takes.
    bytes: usize,
}

impl InFlight {
    /// Adds frames. Those that are to arrive at the same time keep their order.
    pub(crate) fn add(&mut self, at_ps: u64, pdu: impl Into<Pdu>) {
        let pdu = pdu.into();
        let pdu = if self.bytes < COPY_BYTES { pdu } else { pdu.compact() };
        let bytes = ENTRY_BYTES + pdu.memory();
        if self.bytes + bytes > MAX_BYTES {
            self.dropped += pdu.count();
            return;
        }
        self.bytes += bytes;
        let entry = Entry { at_ps, pdu, bytes };
        match self.entries.back() {
            Some(last) if last.at_ps > at_ps => {
                let place = self.entries.partition_point(|other| other.at_ps <= at_ps);
                self.entries.insert(place, entry);
            }
            _ => self.entries.push_back(entry),
        }
    }

    /// The line is cut at `now_ps`: frames whose last bit has not arrived are dropped.
    pub(crate) fn cut(&mut self, now_ps: u64) {
        let arrived = self.entries.partition_point(|entry| entry.at_ps <= now_ps);
        for Entry { pdu, bytes, .. } in self.entries.drain(arrived..) {
            self.bytes -= bytes;
            self.dropped += pdu.count();
        }
    }

    /// The number of frames that were dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// The next frames that have arrived by `now_ps`.
    pub(crate) fn arrived(&mut self, now_ps: u64) -> Option<(u64, Pdu)> {
        if self.first_ps()? > now_ps {
            return None;
        }
        let Entry { at_ps, pdu, bytes } = self.entries.pop_front()?;
        self.bytes -= bytes;
        Some((at_ps, pdu))
    }

    /// When the next frame arrives.
    pub(crate) fn first_ps(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.at_ps)
    }

    /// When frames must be taken: at the arrival of burst number `batch`, but no later than `latest`
    /// says for the arrival of the first.
    pub(crate) fn take_by_ps(&self, batch: usize, latest: impl Fn(u64) -> u64) -> Option<u64> {
        let latest_ps = latest(self.first_ps()?);
        let batch_ps = self.entries.get(batch.max(1) - 1).map(|entry| entry.at_ps);
        Some(batch_ps.map_or(latest_ps, |at_ps| at_ps.min(latest_ps)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use linkrate_wire::lro::Parts;
    use linkrate_wire::segment::Cut;

    use super::*;
    use crate::frame::{Block, Burst, Train, WireFrame};

    /// A frame of `header` and `payload` bytes whose payload lies in a block of its own.
    fn in_block(header: usize, payload: usize) -> Burst {
        let cuts = vec![Cut { header: 0..header as u32, payload: 0..payload as u32, sum: None }];
        let (headers, block) = (vec![1; header], Some(Arc::new(Block::new())));
        let train = Train { headers, cuts, block, base: 12, ..Train::default() };
        Burst::of(&Arc::new(train), 0..1)
    }

    #[test]
    fn frames_that_are_long_under_way_are_bounded_in_bytes() {
        for (frames, payload) in [(600_000, 300), (200_000, 1448), (20_000, 60_000)] {
            let mut in_flight = InFlight::default();
            (0..frames).for_each(|number| in_flight.add(number, in_block(54, payload)));
            let (held, dropped) = (in_flight.entries.len() as u64, in_flight.take_dropped());
            assert_eq!((held + dropped, in_flight.take_dropped()), (frames, 0));
            assert!(dropped > 0, "{payload}");
            let in_blocks = |entry: &Entry| {
                let burst = entry.pdu.clone().into_frames().unwrap();
                burst.place().map_or(0, |(block, _)| block.size())
            };
            let blocks: usize = in_flight.entries.iter().map(in_blocks).sum();
            assert!(blocks < MAX_BYTES, "{payload}: {blocks}");
            // and most of the memory is frames
            assert!(held as usize * (54 + payload) > MAX_BYTES / 3, "{payload}: {held} frames");
            while in_flight.arrived(u64::MAX).is_some() {}
            assert_eq!(in_flight.bytes, 0);
            in_flight.add(0, in_block(54, payload));
            assert_eq!(in_flight.take_dropped(), 0);
        }
    }

    #[test]
    fn a_line_that_is_cut_loses_what_has_not_arrived() {
        let mut in_flight = InFlight::default();
        for (at_ps, name) in [(5, b'a'), (7, b'b'), (9, b'c')] {
            in_flight.add(at_ps, WireFrame::copied(vec![name]));
        }
        in_flight.cut(7);
        assert_eq!(in_flight.take_dropped(), 1);
        let rest = std::iter::from_fn(|| in_flight.arrived(u64::MAX)).count();
        assert_eq!((rest, in_flight.bytes), (2, 0));
    }

    #[test]
    fn frames_come_in_the_order_of_their_times() {
        let mut in_flight = InFlight::default();
        for (at_ps, name) in [(5, b'a'), (7, b'b'), (5, b'c'), (1, b'd')] {
            in_flight.add(at_ps, WireFrame::copied(vec![name]));
        }
        assert_eq!(in_flight.take_by_ps(2, |first| first + 100), Some(5));
        assert_eq!(in_flight.take_by_ps(9, |first| first + 3), Some(4));
        assert!(in_flight.arrived(0).is_none());
        let order: Vec<u8> = std::iter::from_fn(|| in_flight.arrived(6))
            .map(|(_, pdu)| pdu.into_frames().unwrap().head()[0])
            .collect();
        assert_eq!(order, *b"dac");
        assert_eq!(in_flight.first_ps(), Some(7));
    }
}
