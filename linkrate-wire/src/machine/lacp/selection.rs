//! Selection logic: which ports of a group make its aggregate (IEEE 802.1AX-2014, 6.4.14 and 6.7).
//!
//! A group has one aggregator. The ports that may be attached to it have the same partner, with the
//! same key, and the same speed; an individual link stands alone. Of several such sets of ports the
//! aggregate keeps the one in use. Otherwise it takes the one with the highest total rate, then with
//! most ports, then the first in an order that both ends see alike. So two systems come to choose
//! the same set, also where each could choose among several.
//!
//! A port that hears no partner may work alone, if its group says so and no port of it has a partner.
//!
//! Of the set at most so many ports are active, and the others are standby. The system with the
//! better identifier decides which, by its port identifiers, and the other follows (6.7.1). Ports on
//! which the partner does not know this end come last: the partner cannot use them. A port that has
//! yet to wait before it can be attached waits as standby, and does not displace one in use until then.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use super::event::{GroupSettings, Link, Reason, Selection};
use super::port::{Port, receive};
use crate::control::lacp::{Information, PortId, SystemId};

/// The ports that may be attached to an aggregator together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Set {
    pub(super) system: SystemId,
    pub(super) key: u16,
    /// The only port, if the link is individual.
    pub(super) individual: Option<u16>,
    pub(super) bits_per_second: Option<u64>,
}

/// A group: its settings, and the ports that its aggregator works with.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) settings: GroupSettings,
    pub(super) chosen: Option<Set>,
}

/// A port that may be selected.
struct Candidate {
    set: Set,
    actor: Information,
    partner: Information,
    known_to_partner: bool,
    /// The partner is heard.
    is_current: bool,
    /// None was: it works with what the administrator has set.
    is_alone: bool,
    /// Frames are taken in.
    in_use: bool,
    /// It has yet to wait before it can be attached.
    waits: bool,
}

impl Candidate {
    /// The candidate that a port is, or the reason why it is none.
    fn of(now: Duration, port: &Port, link: Link, fallback: bool) -> Result<Self, Reason> {
        let (actor, partner) = (port.actor, port.partner);
        if port.settings.retired {
            return Err(Reason::Retired);
        }
        match port.receive.state {
            receive::State::Current => {}
            receive::State::Defaulted if fallback => {}
            receive::State::LacpDisabled => return Err(Reason::HalfDuplex),
            // it keeps what it has, and gets nothing new
            receive::State::Expired if !actor.state.defaulted => {
                if matches!(port.selection, Selection::Unselected(_)) {
                    return Err(Reason::PartnerSilent);
                }
            }
            _ => return Err(Reason::NoPartner),
        }
        if (partner.system, partner.key) == (actor.system, actor.key) {
            return Err(Reason::Loop);
        }
        let aggregates = actor.state.aggregation && partner.state.aggregation;
        Ok(Self {
            set: Set {
                system: partner.system,
                key: partner.key,
                individual: (!aggregates).then_some(actor.port.number),
                bits_per_second: link.bits_per_second,
            },
            actor,
            partner,
            known_to_partner: port.is_known_to_partner(),
            is_current: port.receive.state == receive::State::Current,
            is_alone: port.receive.state == receive::State::Defaulted,
            in_use: actor.state.collecting,
            waits: !actor.state.synchronization && port.mux.ready_at().is_none_or(|at| at > now),
        })
    }

    /// The place among the ports of a set: the first are active.
    fn place(&self) -> (bool, bool, PortId, PortId) {
        let (own, other) = (self.actor.port, self.partner.port);
        let decides = self.actor.system < self.partner.system;
        let (first, second) = if decides { (own, other) } else { (other, own) };
        (!self.known_to_partner, self.waits, first, second)
    }

    /// The link as both ends see it.
    fn ends(&self) -> [(SystemId, u16, Option<PortId>); 2] {
        let individual = self.set.individual.is_some();
        let end = |of: &Information| (of.system, of.key, individual.then_some(of.port));
        let mut ends = [end(&self.actor), end(&self.partner)];
        ends.sort_unstable();
        ends
    }
}

impl Group {
    pub(super) const fn new(settings: GroupSettings) -> Self {
        Self { settings, chosen: None }
    }

    /// What becomes of each of the ports of the group.
    pub(super) fn select<'a>(
        &mut self,
        now: Duration,
        ports: impl Iterator<Item = &'a mut Port>,
    ) -> Vec<(u16, Selection)> {
        let mut selections = Vec::new();
        let (mut candidates, mut held) = (Vec::new(), Vec::new());
        let fallback = self.settings.fallback;
        for port in ports {
            let number = port.number();
            port.follow_partner_admin(fallback);
            let candidate = port.link.ok_or(Reason::LinkDown);
            match candidate.and_then(|link| Candidate::of(now, port, link, fallback)) {
                Err(reason) => selections.push((number, Selection::Unselected(reason))),
                Ok(candidate) => match self.hold(now, port) {
                    None => candidates.push(candidate),
                    Some(until) => held.push((until, candidate)),
                },
            }
        }
        if !candidates.iter().any(|one: &Candidate| one.is_current) {
            // the aggregate has nothing better
            candidates.extend(held.drain(..).map(|(_, candidate)| candidate));
        }
        if !candidates.iter().all(|one: &Candidate| one.is_alone) {
            for alone in candidates.extract_if(.., |one| one.is_alone) {
                let number = alone.actor.port.number;
                selections.push((number, Selection::Unselected(Reason::NoPartner)));
            }
        }
        for (until, candidate) in held {
            let reason = Reason::WaitToRestore { until };
            selections.push((candidate.actor.port.number, Selection::Unselected(reason)));
        }
        self.chosen = self.choose(&candidates);
        let Some(chosen) = self.chosen else { return selections };

        candidates.sort_by_key(Candidate::place);
        let mut active = 0;
        for candidate in &candidates {
            let selection = match refusal(&chosen, &candidate.set) {
                // once it is out, this is why it stays out
                Some(_) if !candidate.is_current && !candidate.is_alone => {
                    Selection::Unselected(Reason::PartnerSilent)
                }
                Some(reason) => Selection::Unselected(reason),
                None if active < self.settings.max_active => {
                    active += 1;
                    Selection::Selected
                }
                None => Selection::Standby,
            };
            selections.push((candidate.actor.port.number, selection));
        }
        selections
    }

    /// Until when a port that failed, and whose partner is heard again, is to prove itself.
    fn hold(&self, now: Duration, port: &mut Port) -> Option<Duration> {
        if !port.failed || port.receive.state != receive::State::Current {
            return None;
        }
        let wait = self.settings.wait_to_restore;
        let until = *port.restored_at.get_or_insert(now.saturating_add(wait));
        (until > now).then_some(until)
    }

    /// The set that the aggregate works with.
    fn choose(&self, candidates: &[Candidate]) -> Option<Set> {
        let in_use = |set: &Set| candidates.iter().any(|one| one.in_use && one.set == *set);
        if let Some(set) = self.chosen.filter(in_use) {
            return Some(set);
        }
        let mut sets: BTreeMap<Set, Vec<&Candidate>> = BTreeMap::new();
        for candidate in candidates {
            sets.entry(candidate.set).or_default().push(candidate);
        }
        let best = sets.into_iter().min_by_key(|(set, links)| {
            let rate = u128::from(set.bits_per_second.unwrap_or(0)) * links.len() as u128;
            let ends = links.iter().map(|link| link.ends()).min();
            (Reverse(rate), Reverse(links.len()), ends)
        });
        best.map(|(set, _)| set)
    }
}

/// Why a port whose set is `set` cannot be in an aggregate that works with `chosen`.
fn refusal(chosen: &Set, set: &Set) -> Option<Reason> {
    if (chosen.system, chosen.key) != (set.system, set.key) {
        return Some(Reason::OtherPartner { system: chosen.system, key: chosen.key });
    }
    if chosen.individual != set.individual {
        let beside = |port| Reason::BesideIndividual { port };
        return Some(chosen.individual.map_or(Reason::Individual, beside));
    }
    let bits_per_second = chosen.bits_per_second;
    (bits_per_second != set.bits_per_second).then_some(Reason::OtherSpeed { bits_per_second })
}
