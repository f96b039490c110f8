//! The ports of a switch, each with what is under way from and to its device.

use std::collections::BTreeMap;

use super::InFlight;
use crate::pdu::Pdu;

/// What is under way on the link of a port.
#[derive(Debug, Default)]
pub(super) struct InFlightBoth {
    /// From the port's device, until the switch takes it.
    pub(super) inwards: InFlight,
    /// To the port's device.
    pub(super) outwards: InFlight,
}

pub(super) trait SwitchPort {
    fn in_flight(&mut self) -> &mut InFlightBoth;

    fn in_flight_ref(&self) -> &InFlightBoth;

    /// Frames or cells were lost on the way to the switch.
    fn lost_in_flight(&self, count: u64);

    /// Frames or cells came while the switch was dead.
    fn lost_dead(&self, count: u64);
}

/// Ports by number, which is given once.
#[derive(Debug)]
pub(super) struct Ports<P>(BTreeMap<usize, P>);

impl<P> Default for Ports<P> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<P: SwitchPort> Ports<P> {
    pub(super) fn put(&mut self, number: usize, port: P) {
        self.0.insert(number, port);
    }

    pub(super) fn remove(&mut self, number: usize) {
        self.0.remove(&number);
    }

    /// From 0 to the highest number.
    pub(super) fn numbers(&self) -> std::ops::Range<usize> {
        0..self.0.last_key_value().map_or(0, |(highest, _)| highest + 1)
    }

    pub(super) fn get(&self, number: usize) -> Option<&P> {
        self.0.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut P> {
        self.0.get_mut(&number)
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &P> {
        self.0.values()
    }

    /// Takes what has left the device of port `from` by `at_ps`. A dead switch takes nothing.
    pub(super) fn enter(&mut self, from: usize, pdu: Pdu, at_ps: u64, dead: bool) {
        let Some(port) = self.get_mut(from) else { return };
        if dead {
            port.lost_dead(pdu.count());
            return;
        }
        port.in_flight().inwards.add(at_ps, pdu);
        match port.in_flight().inwards.take_dropped() {
            0 => {}
            dropped => port.lost_in_flight(dropped),
        }
    }

    /// The link of a port has no carrier from `now_ps` on.
    pub(super) fn cut(&mut self, number: usize, now_ps: u64) {
        let Some(port) = self.get_mut(number) else { return };
        let InFlightBoth { inwards, outwards } = port.in_flight();
        inwards.cut(now_ps);
        outwards.cut(now_ps);
        let dropped = inwards.take_dropped();
        port.lost_in_flight(dropped);
    }

    /// Everything under way is lost: the switch ends or begins its life.
    pub(super) fn lose_in_flight(&mut self) {
        self.0.values_mut().for_each(|port| *port.in_flight() = InFlightBoth::default());
    }

    /// What came first by `now_ps` at any port, as time, port and load.
    pub(super) fn first_arrived(&mut self, now_ps: u64) -> Option<(u64, usize, Pdu)> {
        let ports = self
            .0
            .iter()
            .filter_map(|(number, port)| Some((port.in_flight_ref().inwards.first_ps()?, *number)));
        let (at_ps, from) = ports.min().filter(|(at_ps, _)| *at_ps <= now_ps)?;
        let (_, pdu) = self.get_mut(from)?.in_flight().inwards.arrived(now_ps)?;
        Some((at_ps, from, pdu))
    }

    /// The earliest time that `when` says for what came in by a port.
    pub(super) fn due_ps(&self, when: &dyn Fn(&InFlight) -> Option<u64>) -> Option<u64> {
        self.0.values().filter_map(|port| when(&port.in_flight_ref().inwards)).min()
    }

    /// What is on its way to the device of a port.
    pub(super) fn to(&mut self, to: usize) -> Option<&mut InFlight> {
        Some(&mut self.get_mut(to)?.in_flight().outwards)
    }
}
