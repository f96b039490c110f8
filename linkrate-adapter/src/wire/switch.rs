//! A learning Ethernet switch with VLANs (IEEE 802.1Q): store and forward, one line out of each
//! port, a bounded queue before it.

use std::collections::HashMap;

use linkrate_terms::BitRate;
use linkrate_wire::lro::Parts;

use super::flight::Flight;
use crate::counters::Counter;
use crate::frame::{Burst, WireFrame};
use crate::pacing::{Line, line_bytes};

/// An address is forgotten when it was not seen for so long (IEEE 802.1Q, 8.8.3).
const AGEING_PS: u64 = 300_000_000_000_000;
/// Addresses the switch knows at most.
const ADDRESSES: usize = 8192;
/// What waits before a port at most, in bytes on the line.
const QUEUE_BYTES: usize = 1 << 20;
/// The VLAN of frames without a tag.
const DEFAULT_VLAN: u16 = 1;
/// Forwarding of a frame is worth waking up for when so many wait, ...
const BATCH: usize = 64;
/// ... or the first has waited so long.
const PATIENCE_PS: u64 = 50_000_000;

/// What a switch counts beside what its ports' devices do.
#[derive(Debug, Default)]
pub struct SwitchCounters {
    /// Frames sent to every port of their VLAN: their address was unknown, or a group.
    pub flooded: Counter,
    /// Frames dropped because the queue before a port was full.
    pub dropped: Counter,
    /// Frames dropped because they are shorter than their headers.
    pub malformed: Counter,
}

#[derive(Debug)]
struct SwitchPort {
    /// From the port's device, until they are stored.
    inwards: Flight,
    /// To the port's device.
    outwards: Flight,
    line: Line,
    queue_ps: u64,
}

/// A switch.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    /// By the number of the wire's port; a port that was removed leaves its place.
    ports: Vec<Option<SwitchPort>>,
    /// Port and time by VLAN and address.
    table: HashMap<(u16, [u8; 6]), (usize, u64)>,
    pub(crate) counters: std::sync::Arc<SwitchCounters>,
}

impl Switch {
    /// Adds the port of that number.
    pub(crate) fn attach(&mut self, number: usize, rate: Option<BitRate>) {
        let line = Line::new(rate);
        let queue_ps = line.time_ps(QUEUE_BYTES);
        let (inwards, outwards) = (Flight::default(), Flight::default());
        if self.ports.len() <= number {
            self.ports.resize_with(number + 1, || None);
        }
        self.ports[number] = Some(SwitchPort { inwards, outwards, line, queue_ps });
    }

    /// Lets the link to a port run at another rate.
    pub(crate) fn set_rate(&mut self, number: usize, rate: Option<BitRate>) {
        if let Some(Some(port)) = self.ports.get_mut(number) {
            port.line.set_rate(rate);
            port.queue_ps = port.line.time_ps(QUEUE_BYTES);
        }
    }

    /// Removes a port and what it was known to lead to.
    pub(crate) fn detach(&mut self, number: usize) {
        if let Some(port) = self.ports.get_mut(number) {
            *port = None;
        }
        self.table.retain(|_, (port, _)| *port != number);
    }

    /// Frames that port `from` has sent by `at_ps`.
    pub(crate) fn enter(&mut self, from: usize, burst: Burst, at_ps: u64) {
        if let Some(Some(port)) = self.ports.get_mut(from) {
            port.inwards.add(at_ps, burst);
        }
    }

    /// Forwards what has come in by now, in the order of its arrival. Says whether there was any.
    pub(crate) fn forward(&mut self, now_ps: u64) -> bool {
        let mut any = false;
        while let Some((at_ps, from)) = self.first().filter(|(at_ps, _)| *at_ps <= now_ps) {
            let Some(Some(port)) = self.ports.get_mut(from) else { break };
            let Some((_, burst)) = port.inwards.arrived(now_ps) else { break };
            burst.each().for_each(|frame| self.forward_one(from, frame, at_ps));
            any = true;
        }
        any
    }

    /// When forwarding is worth it again.
    pub(crate) fn due_ps(&self) -> Option<u64> {
        let ports = self.ports.iter().flatten();
        ports
            .filter_map(|port| port.inwards.worth_ps(BATCH, |first_ps| first_ps + PATIENCE_PS))
            .min()
    }

    /// Frames on their way to port `to`.
    pub(crate) fn to(&mut self, to: usize) -> Option<&mut Flight> {
        self.ports.get_mut(to)?.as_mut().map(|port| &mut port.outwards)
    }

    /// The frame that came first of all, by time and port.
    fn first(&self) -> Option<(u64, usize)> {
        let ports = self.ports.iter().enumerate();
        ports.filter_map(|(number, port)| Some((port.as_ref()?.inwards.first_ps()?, number))).min()
    }

    fn forward_one(&mut self, from: usize, frame: WireFrame, at_ps: u64) {
        let Some(addresses) = Addresses::of(frame.head()) else {
            self.counters.malformed.add(1);
            return;
        };
        let Addresses { destination, source, vlan } = addresses;
        if source[0] & 1 == 0 {
            self.learn((vlan, source), from, at_ps);
        }
        let known = self.table.get(&(vlan, destination)).filter(|_| destination[0] & 1 == 0);
        match known {
            Some((to, seen_ps)) if at_ps.saturating_sub(*seen_ps) < AGEING_PS => {
                let to = *to;
                if to != from {
                    self.queue(to, frame, at_ps);
                }
            }
            _ => {
                self.counters.flooded.add(1);
                for to in (0..self.ports.len()).filter(|to| *to != from) {
                    self.queue(to, frame.clone(), at_ps);
                }
            }
        }
    }

    fn learn(&mut self, key: (u16, [u8; 6]), port: usize, now_ps: u64) {
        if self.table.len() >= ADDRESSES && !self.table.contains_key(&key) {
            self.table.retain(|_, (_, seen_ps)| now_ps.saturating_sub(*seen_ps) < AGEING_PS);
        }
        // a full table learns nothing more, and floods
        if self.table.len() < ADDRESSES || self.table.contains_key(&key) {
            self.table.insert(key, (port, now_ps));
        }
    }

    fn queue(&mut self, to: usize, frame: WireFrame, at_ps: u64) {
        let Some(Some(port)) = self.ports.get_mut(to) else { return };
        if port.line.free_at_ps().saturating_sub(at_ps) > port.queue_ps {
            self.counters.dropped.add(1);
            return;
        }
        let out = port.line.occupy(at_ps, line_bytes(frame.len()));
        port.outwards.add(out.end_ps, frame.into());
    }
}

struct Addresses {
    destination: [u8; 6],
    source: [u8; 6],
    vlan: u16,
}

impl Addresses {
    fn of(head: &[u8]) -> Option<Self> {
        let header = head.first_chunk::<14>()?;
        let mut destination = [0; 6];
        let mut source = [0; 6];
        destination.copy_from_slice(&header[..6]);
        source.copy_from_slice(&header[6..12]);
        let tagged = header[12..14] == [0x81, 0];
        let vlan = match head.get(14..16) {
            // a tag of VLAN 0 has a priority and no VLAN
            Some(tci) if tagged => match u16::from_be_bytes([tci[0], tci[1]]) & 0xfff {
                0 => DEFAULT_VLAN,
                vlan => vlan,
            },
            _ if tagged => return None,
            _ => DEFAULT_VLAN,
        };
        Some(Self { destination, source, vlan })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: u8, from: u8, vlan: Option<u16>) -> Burst {
        let mut bytes = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from];
        if let Some(vlan) = vlan {
            bytes.extend([0x81, 0]);
            bytes.extend(vlan.to_be_bytes());
        }
        bytes.extend([8, 0]);
        bytes.resize(100, 0);
        WireFrame::copied(bytes).into()
    }

    fn switch(ports: usize, rate: Option<BitRate>) -> Switch {
        let mut switch = Switch::default();
        (0..ports).for_each(|number| switch.attach(number, rate));
        switch
    }

    /// Where frames are by now.
    fn out(switch: &mut Switch) -> Vec<usize> {
        switch.forward(u64::MAX);
        let mut counts = Vec::new();
        for port in 0..switch.ports.len() {
            let flight = switch.to(port);
            counts.push(
                flight.map_or(0, |flight| std::iter::from_fn(|| flight.arrived(u64::MAX)).count()),
            );
        }
        counts
    }

    #[test]
    fn an_unknown_address_is_flooded_and_then_learnt() {
        let mut switch = switch(3, None);
        switch.enter(0, frame(2, 1, None), 10);
        assert_eq!(out(&mut switch), [0, 1, 1]);
        switch.enter(1, frame(1, 2, None), 20);
        assert_eq!(out(&mut switch), [1, 0, 0]);
        switch.enter(0, frame(2, 1, None), 30);
        assert_eq!(out(&mut switch), [0, 1, 0]);
        // one that is on the port it came from needs no forwarding
        switch.enter(0, frame(1, 9, None), 40);
        assert_eq!(out(&mut switch), [0, 0, 0]);
        assert_eq!(switch.counters.flooded.get(), 1);
    }

    #[test]
    fn vlans_do_not_know_each_others_addresses() {
        let mut switch = switch(3, None);
        switch.enter(1, frame(9, 2, Some(7)), 10);
        out(&mut switch);
        switch.enter(0, frame(2, 1, Some(7)), 20);
        assert_eq!(out(&mut switch), [0, 1, 0]);
        switch.enter(0, frame(2, 1, Some(8)), 30);
        assert_eq!(out(&mut switch), [0, 1, 1]);
    }

    #[test]
    fn addresses_age_and_go_with_their_port() {
        let mut switch = switch(3, None);
        switch.enter(1, frame(9, 2, None), 0);
        out(&mut switch);
        switch.enter(0, frame(2, 1, None), AGEING_PS + 1);
        assert_eq!(out(&mut switch), [0, 1, 1]);
        switch.enter(1, frame(9, 2, None), AGEING_PS + 2);
        out(&mut switch);
        switch.detach(1);
        switch.enter(0, frame(2, 1, None), AGEING_PS + 3);
        assert_eq!(out(&mut switch), [0, 0, 1]);
    }

    #[test]
    fn two_senders_share_the_line_out_and_the_queue_is_bounded() {
        let mut switch = switch(3, Some(BitRate(1e9)));
        switch.enter(2, frame(9, 3, None), 0);
        out(&mut switch);
        for number in 0..5000 {
            switch.enter(0, frame(3, 1, None), 1_000_000 + number);
            switch.enter(1, frame(3, 2, None), 1_000_000 + number);
        }
        switch.forward(u64::MAX);
        let flight = switch.to(2).unwrap();
        let times: Vec<u64> =
            std::iter::from_fn(|| flight.arrived(u64::MAX)).map(|(at_ps, _)| at_ps).collect();
        // 124 bytes on the line at 1 Gb/s
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 992_000));
        let kept = QUEUE_BYTES / 124 + 2;
        assert!(times.len().abs_diff(kept) <= 1, "{} of {kept}", times.len());
        assert_eq!(switch.counters.dropped.get() as usize, 10_000 - times.len());
    }

    #[test]
    fn a_frame_without_a_header_is_dropped() {
        let mut switch = switch(2, None);
        switch.enter(0, WireFrame::copied(vec![0; 13]).into(), 0);
        let mut tagged = vec![0; 15];
        tagged[12] = 0x81;
        switch.enter(0, WireFrame::copied(tagged).into(), 0);
        assert_eq!(out(&mut switch), [0, 0]);
        assert_eq!(switch.counters.malformed.get(), 2);
    }
}
