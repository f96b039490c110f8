//! A learning Ethernet switch with VLANs (IEEE 802.1Q): store and forward, one line out of each
//! port, a bounded queue before it.

use std::collections::HashMap;
use std::sync::Arc;

use linkrate_terms::BitRate;
use linkrate_wire::frame::link::{Addresses, TagControl, retagged};
use linkrate_wire::frame::{Cast, MacAddress};
use linkrate_wire::lro::{Parts, Row};

use super::vlans::{Tagging, Vlans};
use super::{Fabric, Flight};
use crate::counters::SwitchCounters;
use crate::frame::{Burst, WireFrame};
use crate::link::LinkSpec;
use crate::pacing::Line;

/// An address that was not seen for this time is forgotten (IEEE 802.1Q, 8.8.3).
const AGEING_PS: u64 = 300_000_000_000_000;
/// Most addresses that the switch knows.
const ADDRESSES: usize = 8192;
/// The longest queue before a port, in bytes on the line.
const QUEUE_BYTES: u64 = 1 << 20;

#[derive(Debug)]
struct SwitchPort {
    /// From the port's device, until they are stored.
    inwards: Flight,
    /// To the port's device.
    outwards: Flight,
    line: Line,
    queue_ps: u64,
    vlans: Vlans,
    counters: Arc<SwitchCounters>,
    /// Where the last frame from this port went: the next frames of a train go there too.
    recent: Option<Recent>,
}

/// A forwarding decision that holds until the table changes, for a while.
#[derive(Debug, Clone, Copy)]
struct Recent {
    addresses: Addresses,
    vlan: u16,
    to: usize,
    at_ps: u64,
    changes: u64,
}

/// How long a decision holds. The source's entry is that much older at most.
const RECENT_PS: u64 = 1_000_000_000_000;

/// A switch.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    /// By number; a port that was removed leaves its place.
    ports: Vec<Option<SwitchPort>>,
    /// Port and time by VLAN and address.
    table: HashMap<(u16, MacAddress), (usize, u64)>,
    /// Grows when an address comes, moves or goes, and when a port changes.
    changes: u64,
}

impl Fabric for Switch {
    fn attach(&mut self, number: usize, link: LinkSpec) {
        self.changes += 1;
        let line = link.line();
        let queue_ps = line.time_ps(QUEUE_BYTES);
        let (inwards, outwards) = (Flight::default(), Flight::default());
        if self.ports.len() <= number {
            self.ports.resize_with(number + 1, || None);
        }
        let (vlans, counters) = (Vlans::default(), Arc::default());
        self.ports[number] =
            Some(SwitchPort { inwards, outwards, line, queue_ps, vlans, counters, recent: None });
    }

    /// Removes a port and the addresses behind it.
    fn detach(&mut self, number: usize) {
        self.changes += 1;
        if let Some(port) = self.ports.get_mut(number) {
            *port = None;
        }
        self.table.retain(|_, (port, _)| *port != number);
    }

    fn set_rate(&mut self, number: usize, rate: Option<BitRate>) {
        if let Some(Some(port)) = self.ports.get_mut(number) {
            port.line.set_rate(rate);
            port.queue_ps = port.line.time_ps(QUEUE_BYTES);
        }
    }

    /// Changes the VLANs of a port. The switch forgets the addresses behind it.
    fn set_vlans(&mut self, number: usize, vlans: Vlans, counters: Arc<SwitchCounters>) {
        self.changes += 1;
        self.table.retain(|_, (port, _)| *port != number);
        if let Some(Some(port)) = self.ports.get_mut(number) {
            port.vlans = vlans;
            port.counters = counters;
        }
    }

    fn enter(&mut self, from: usize, burst: Burst, at_ps: u64) {
        if let Some(Some(port)) = self.ports.get_mut(from) {
            port.inwards.add(at_ps, burst);
            match port.inwards.take_dropped() {
                0 => {}
                dropped => port.counters.in_flight.add(dropped),
            }
        }
    }

    /// Forwards in the order of arrival at any port.
    fn forward(&mut self, now_ps: u64) -> bool {
        let mut any = false;
        while let Some((at_ps, from)) = self.first().filter(|(at_ps, _)| *at_ps <= now_ps) {
            let Some(Some(port)) = self.ports.get_mut(from) else { break };
            let Some((_, burst)) = port.inwards.arrived(now_ps) else { break };
            if burst.is_damaged() {
                // store and forward: the check sequence comes before all other checks
                port.counters.fcs.add(burst.frames() as u64);
            } else {
                burst.each().for_each(|frame| self.forward_one(from, frame, at_ps));
            }
            any = true;
        }
        any
    }

    fn due_ps(&self, when: &dyn Fn(&Flight) -> Option<u64>) -> Option<u64> {
        self.ports.iter().flatten().filter_map(|port| when(&port.inwards)).min()
    }

    fn to(&mut self, to: usize) -> Option<&mut Flight> {
        self.ports.get_mut(to)?.as_mut().map(|port| &mut port.outwards)
    }
}

impl Switch {
    /// The earliest frame of all ports, as time and port.
    fn first(&self) -> Option<(u64, usize)> {
        let ports = self.ports.iter().enumerate();
        ports.filter_map(|(number, port)| Some((port.as_ref()?.inwards.first_ps()?, number))).min()
    }

    fn forward_one(&mut self, from: usize, frame: WireFrame, at_ps: u64) {
        let Some(Some(port)) = self.ports.get(from) else { return };
        let Some(addresses) = Addresses::of(frame.head()) else {
            port.counters.malformed.add(1);
            return;
        };
        let recent = port.recent.filter(|recent| {
            recent.changes == self.changes
                && recent.addresses == addresses
                && at_ps.saturating_sub(recent.at_ps) < RECENT_PS
        });
        if let Some(Recent { vlan, to, .. }) = recent {
            self.queue(to, frame, (vlan, addresses.tag), at_ps);
            return;
        }
        let Addresses { destination, source, tag } = addresses;
        let Some(vlan) = port.vlans.of_incoming(tag.map(TagControl::vlan)) else {
            port.counters.vlan.add(1);
            return;
        };
        let counters = Arc::clone(&port.counters);
        let tags = (vlan, tag);
        if source.cast() == Cast::Unicast {
            self.learn((vlan, source), from, at_ps);
        }
        let known =
            self.table.get(&(vlan, destination)).filter(|_| destination.cast() == Cast::Unicast);
        match known {
            Some((to, seen_ps)) if at_ps.saturating_sub(*seen_ps) < AGEING_PS => {
                let to = *to;
                if to != from {
                    let changes = self.changes;
                    if let Some(Some(port)) = self.ports.get_mut(from) {
                        port.recent = Some(Recent { addresses, vlan, to, at_ps, changes });
                    }
                    self.queue(to, frame, tags, at_ps);
                }
            }
            _ => {
                counters.flooded.add(1);
                for to in (0..self.ports.len()).filter(|to| *to != from) {
                    self.queue(to, frame.clone(), tags, at_ps);
                }
            }
        }
    }

    fn learn(&mut self, key: (u16, MacAddress), port: usize, now_ps: u64) {
        if self.table.len() >= ADDRESSES && !self.table.contains_key(&key) {
            self.table.retain(|_, (_, seen_ps)| now_ps.saturating_sub(*seen_ps) < AGEING_PS);
            self.changes += 1;
        }
        // a full table learns nothing more, and floods
        if self.table.len() < ADDRESSES || self.table.contains_key(&key) {
            let before = self.table.insert(key, (port, now_ps));
            self.changes += u64::from(before.is_none_or(|(before, _)| before != port));
        }
    }

    /// Queues a frame before a port, if the port is a member of its VLAN. `tags` are that VLAN and
    /// the tag that the frame came with.
    fn queue(&mut self, to: usize, frame: WireFrame, tags: (u16, Option<TagControl>), at_ps: u64) {
        let Some(Some(port)) = self.ports.get_mut(to) else { return };
        let (vlan, tag) = tags;
        let Some(tagging) = port.vlans.of_outgoing(vlan, tag.map(TagControl::vlan)) else { return };
        let frame = tagged(frame, tagging, tags);
        if port.line.free_at_ps().saturating_sub(at_ps) > port.queue_ps {
            port.counters.full.add(1);
            return;
        }
        let out = port.line.occupy(at_ps, frame.len());
        port.outwards.add(out.end_ps, frame.into());
    }
}

/// The frame with the tag that it leaves with.
fn tagged(frame: WireFrame, tagging: Tagging, (vlan, tag): (u16, Option<TagControl>)) -> WireFrame {
    let wanted = match (tagging, tag) {
        (Tagging::Tagged, None) => Some(TagControl(vlan)),
        // it had a priority, which it keeps
        (Tagging::Tagged, Some(had)) if had.vlan() != vlan => Some(had.with_vlan(vlan)),
        (Tagging::Untagged, Some(_)) => None,
        _ => return frame,
    };
    match retagged(frame.head(), wanted) {
        Some(head) => frame.with_head(head),
        None => frame,
    }
}

#[cfg(test)]
mod tests {
    use linkrate_wire::link::LinkLaw;

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
        let link = LinkSpec { law: LinkLaw::Ethernet, rate };
        (0..ports).for_each(|number| switch.attach(number, link));
        switch
    }

    /// A counter of all ports together.
    fn total(switch: &Switch, name: &str) -> u64 {
        let all = switch.ports.iter().flatten().flat_map(|port| port.counters.values());
        all.filter(|(of, _)| *of == name).map(|(_, count)| count).sum()
    }

    fn configured(vlans: impl IntoIterator<Item = Vlans>) -> Switch {
        let vlans: Vec<Vlans> = vlans.into_iter().collect();
        let mut switch = switch(vlans.len(), None);
        for (number, vlans) in vlans.into_iter().enumerate() {
            switch.set_vlans(number, vlans, Arc::default());
        }
        switch
    }

    /// What is in the tag of the frame that has left by a port, if it has one.
    fn tag_out(switch: &mut Switch, port: usize) -> Option<u16> {
        switch.forward(u64::MAX);
        let (_, burst) = switch.to(port).unwrap().arrived(u64::MAX).expect("a frame");
        let frame = burst.first();
        assert_eq!(frame.len(), 100 + if frame.head()[12..14] == [0x81, 0] { 4 } else { 0 });
        Addresses::of(frame.head()).unwrap().tag.map(|TagControl(tci)| tci)
    }

    #[test]
    fn ports_of_other_vlans_are_out_of_reach() {
        let mut switch = configured([Vlans::Access(10), Vlans::Access(10), Vlans::Access(20)]);
        switch.enter(0, frame(9, 1, None), 10);
        assert_eq!(out(&mut switch), [0, 1, 0]);
        // a frame with the tag of a VLAN that its port is not in
        switch.enter(2, frame(1, 3, Some(10)), 20);
        assert_eq!(out(&mut switch), [0, 0, 0]);
        assert_eq!(total(&switch, "switchDropVlan"), 1);
        // no port has the address in this VLAN
        switch.enter(2, frame(1, 3, None), 30);
        assert_eq!(out(&mut switch), [0, 0, 0]);
        switch.set_vlans(2, Vlans::Access(10), Arc::default());
        switch.enter(2, frame(1, 3, None), 40);
        assert_eq!(out(&mut switch), [1, 0, 0]);
    }

    #[test]
    fn tags_are_put_on_taken_off_and_kept() {
        let trunk = Vlans::Trunk { tagged: "10,20".parse().unwrap(), native: Some(5) };
        let mut switch = configured([trunk, Vlans::Access(10), Vlans::Access(5), Vlans::All]);
        let mut passes = |from: usize, to: usize, tag: Option<u16>| {
            let length = if tag.is_some() { 104 } else { 100 };
            let mut bytes = frame(to as u8, from as u8 + 100, tag).first().to_vec();
            bytes.resize(length, 0);
            switch.enter(from, WireFrame::copied(bytes).into(), 0);
            let left = tag_out(&mut switch, to);
            out(&mut switch);
            left
        };
        assert_eq!(passes(0, 1, Some(10)), None);
        assert_eq!(passes(1, 0, None), Some(10));
        assert_eq!(passes(0, 2, None), None);
        assert_eq!(passes(2, 0, Some(0)), None);
        assert_eq!(passes(0, 3, Some(20)), Some(20));
        assert_eq!(passes(1, 3, None), Some(10));
        // a priority, 3 in the upper bits, stays where there is a tag to keep it in
        assert_eq!(passes(1, 0, Some(0x6000)), Some(0x600a));
    }

    proptest::proptest! {
        /// No frame leaves by a port that is no member of its VLAN.
        #[test]
        fn no_vlan_leaks(
            entries in proptest::collection::vec((0usize..4, 0u8..6, proptest::option::of(0u16..5)), 1..40),
        ) {
            let trunk = Vlans::Trunk { tagged: "1-2".parse().unwrap(), native: None };
            let members = [trunk, Vlans::Access(1), Vlans::Access(2), Vlans::Access(3)];
            let mut switch = configured(members.clone());
            for (at_ps, (from, to, tag)) in entries.into_iter().enumerate() {
                let vlan = members[from].of_incoming(tag);
                switch.enter(from, frame(to, from as u8, tag), at_ps as u64);
                for (port, count) in out(&mut switch).into_iter().enumerate() {
                    let may = vlan.is_some_and(|vlan| members[port].of_outgoing(vlan, tag).is_some());
                    proptest::prop_assert!(count == 0 || (may && port != from));
                }
            }
        }
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
        // a frame for an address behind its own port is not forwarded
        switch.enter(0, frame(1, 9, None), 40);
        assert_eq!(out(&mut switch), [0, 0, 0]);
        assert_eq!(total(&switch, "switchFlooded"), 1);
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
        assert!(times.len().abs_diff(kept as usize) <= 1, "{} of {kept}", times.len());
        assert_eq!(total(&switch, "switchDropQueueFull") as usize, 10_000 - times.len());
    }

    #[test]
    fn frames_that_are_long_under_way_are_bounded_and_counted() {
        let mut switch = switch(2, None);
        let jumbo = || WireFrame::copied(vec![0; 1 << 20]).into();
        (0..200).for_each(|number| switch.enter(0, jumbo(), 1_000_000 + number));
        let dropped = total(&switch, "switchDropInFlight");
        assert!((60..100).contains(&dropped), "{dropped}");
        switch.forward(u64::MAX);
        switch.enter(0, jumbo(), 2_000_000);
        assert_eq!(total(&switch, "switchDropInFlight"), dropped);
    }

    #[test]
    fn a_frame_without_a_header_is_dropped() {
        let mut switch = switch(2, None);
        switch.enter(0, WireFrame::copied(vec![0; 13]).into(), 0);
        let mut tagged = vec![0; 15];
        tagged[12] = 0x81;
        switch.enter(0, WireFrame::copied(tagged).into(), 0);
        assert_eq!(out(&mut switch), [0, 0]);
        assert_eq!(total(&switch, "switchDropMalformed"), 2);
    }
}
