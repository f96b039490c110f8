//! Selection logic of link aggregation: which ports make the aggregate, and why others do not.

use std::time::Duration;

use crate::ends;
use crate::ends::{GIGABIT, KEY, id, joined, ms, seconds, settings};
use crate::lone::{Lone, READY, all_ready, partner};
use crate::pair::Wire;
use linkrate_wire::control::lacp::Information;
use linkrate_wire::machine::lacp::{
    Action, Event, GroupSettings, Link, Notice, Reason, Selection, mux, receive,
};

const TEN_GIGABIT: Link = Link { bits_per_second: Some(10_000_000_000), full_duplex: true };

fn group() -> GroupSettings {
    GroupSettings::default()
}

fn at_most(max_active: u16) -> GroupSettings {
    GroupSettings { max_active, ..group() }
}

fn restored_after(seconds: u64) -> GroupSettings {
    GroupSettings { wait_to_restore: Duration::from_secs(seconds), ..group() }
}

/// IEEE 802.1AX, 6.4.7 and 6.4.12: with Partner_Admin in sync, a port in DEFAULTED works as an individual link.
#[test]
fn without_a_partner_one_port_works_alone_if_the_group_says_so() {
    let mut lone = Lone::new(2, group());
    lone.after(seconds(10));
    assert_eq!((lone.distributing(), lone.reason(1)), (vec![], Some(Reason::NoPartner)));
    let fallback = GroupSettings { fallback: true, ..group() };
    lone.event(Event::SetGroup { key: KEY, settings: fallback });
    lone.after(seconds(3));
    assert_eq!(lone.distributing(), [1]);
    assert_eq!(lone.reason(2), Some(Reason::BesideIndividual { port: 1 }));
    // it goes on asking for a partner
    let asked = lone.sent(1).len();
    lone.after(seconds(5));
    assert!(lone.sent(1).len() >= asked + 5);
    lone.down(1);
    lone.after(seconds(3));
    assert_eq!(lone.distributing(), [2]);
    // a partner on another port is better than none on this one
    lone.up(1, GIGABIT);
    lone.hear_for(seconds(4), &all_ready(1));
    assert_eq!((lone.distributing(), lone.reason(2)), (vec![1], Some(Reason::NoPartner)));
    lone.hear_for(seconds(4), &all_ready(2));
    assert_eq!(lone.distributing(), [1, 2]);
    // the partner goes away
    lone.after(seconds(12));
    assert_eq!(lone.distributing().len(), 1);
    lone.event(Event::SetGroup { key: KEY, settings: group() });
    assert_eq!(lone.distributing(), [0; 0]);
}

#[test]
fn the_better_system_chooses_the_active_ports() {
    // own priorities favour 3 and 4, the partner's favour 1 and 2
    let choose = |partner_priority: u16| {
        let mut lone = Lone::new(0, at_most(2));
        for port in 1..=4 {
            lone.set(port, |settings| settings.priority = 10 - port);
            lone.up(port, GIGABIT);
        }
        let partners: Vec<(u16, Information)> = (1..=4)
            .map(|port| {
                let mut one = partner(id(partner_priority, 9), port, READY);
                one.port.priority = port;
                (port, one)
            })
            .collect();
        lone.hear_for(seconds(3), &partners);
        lone
    };
    use Selection::{Selected, Standby};
    // own system: priority 200
    let own = choose(300);
    assert_eq!(own.selections(), [Standby, Standby, Selected, Selected]);
    assert_eq!(own.distributing(), [3, 4]);
    let others = choose(100);
    assert_eq!(others.selections(), [Selected, Selected, Standby, Standby]);
    assert_eq!(others.distributing(), [1, 2]);
}

#[test]
fn a_standby_port_takes_over_at_once() {
    let mut lone = Lone::with_partner(3, at_most(2));
    assert_eq!(lone.distributing(), [1, 2]);
    assert_eq!(lone.status(3).mux, mux::State::Waiting);
    lone.down(1);
    assert_eq!(lone.distributing(), [2, 3], "it has waited before");
    lone.up(1, GIGABIT);
    assert_eq!(lone.reason(1), Some(Reason::PartnerSilent), "it is not yet heard");
    assert_eq!(lone.distributing(), [2, 3]);
    lone.hear_for(seconds(3), &all_ready(3));
    assert_eq!(lone.distributing(), [1, 2]);
    // the bound changes while it runs
    lone.event(Event::SetGroup { key: KEY, settings: at_most(1) });
    assert_eq!(lone.distributing(), [1]);
    lone.event(Event::SetGroup { key: KEY, settings: at_most(9) });
    lone.hear_for(seconds(3), &all_ready(3));
    assert_eq!(lone.distributing(), [1, 2, 3]);
}

/// The better port waits as standby, so that the aggregate is not without a port meanwhile.
#[test]
fn a_better_port_displaces_another_without_a_gap() {
    let mut lone = Lone::with_partner(2, at_most(1));
    assert_eq!(lone.distributing(), [1]);
    lone.down(1);
    assert_eq!(lone.distributing(), [2]);
    lone.up(1, GIGABIT);
    for _ in 0..3 {
        lone.hear_for(ms(500), &all_ready(2));
        assert_eq!(lone.distributing(), [2], "at {:?}", lone.now);
    }
    lone.hear_for(seconds(1), &all_ready(2));
    assert_eq!(lone.distributing(), [1]);
    let ended = lone.actions.iter().rev().find_map(|(at, action)| {
        matches!(action, Action::Distributing { port: 2, on: false, .. }).then_some(*at)
    });
    let began = lone.actions.iter().rev().find_map(|(at, action)| {
        matches!(action, Action::Distributing { port: 1, on: true, .. }).then_some(*at)
    });
    assert_eq!(ended, began, "in the same moment");
}

/// One way of link 1 is dead: the first end hears nothing there, and cannot use it. The other end
/// hears it, prefers it, and gives it up for a link that both can use.
#[test]
fn a_link_that_is_dead_in_one_direction_is_not_preferred() {
    let mut pair = joined(3, [2, 2], Wire::good(ms(1)), 1);
    pair.a.cut.insert(1);
    pair.run_until(seconds(60));
    for end in [&pair.a, &pair.b] {
        assert_eq!(end.distributing, [2, 3].into());
    }
    assert_eq!(pair.b.system.port(1).expect("a port").selection, Selection::Standby);
}

#[test]
fn ports_with_another_partner_stay_out() {
    let mut lone = Lone::new(4, group());
    let other = partner(id(100, 10), 4, READY);
    let mut other_key = partner(id(100, 9), 3, READY);
    other_key.key = 51;
    let mut partners = all_ready(2);
    partners.extend([(3, other_key), (4, other)]);
    lone.hear_for(seconds(3), &partners);
    assert_eq!(lone.distributing(), [1, 2]);
    let reason = Reason::OtherPartner { system: id(100, 9), key: 50 };
    assert_eq!((lone.reason(3), lone.reason(4)), (Some(reason), Some(reason)));
    assert_eq!(
        lone.status(4).selection.to_string(),
        "unselected: other partner, expected that of the aggregate: 100,02:00:00:00:00:09 key 50"
    );
    // an aggregate that is in use keeps its partner, however many ports another has
    lone.hear_for(seconds(3), &[partners[0], (2, other), (3, other), (4, other)]);
    assert_eq!(lone.distributing(), [1]);
    // and gives it up with its last port
    lone.hear_for(seconds(7), &[(2, other), (3, other), (4, other)]);
    assert_eq!(lone.distributing(), [2, 3, 4]);
    let changed = Notice::AggregateChanged { key: KEY, partner: Some((id(100, 10), 50)) };
    assert!(lone.notices().iter().any(|(_, notice)| *notice == changed));
}

#[test]
fn mixed_speeds_are_not_aggregated() {
    let mut lone = Lone::new(0, group());
    for (port, link) in [(1, GIGABIT), (2, TEN_GIGABIT), (3, GIGABIT)] {
        lone.set(port, |_| {});
        lone.up(port, link);
    }
    lone.hear_for(seconds(3), &all_ready(3));
    assert_eq!(lone.distributing(), [2], "10 Gb/s are more than 2 × 1 Gb/s");
    let bits_per_second = TEN_GIGABIT.bits_per_second;
    assert_eq!(lone.reason(1), Some(Reason::OtherSpeed { bits_per_second }));
    assert_eq!(
        lone.status(3).selection.to_string(),
        "unselected: other speed, expected that of the aggregate: 10000000000 b/s"
    );
    // it is negotiated again, without the link having been seen down
    lone.up(2, GIGABIT);
    assert_eq!(lone.distributing(), [0; 0]);
    lone.hear_for(seconds(3), &all_ready(3));
    assert_eq!(lone.distributing(), [1, 2, 3]);
    let unknown = Link { bits_per_second: None, full_duplex: true };
    lone.up(3, unknown);
    lone.hear_for(seconds(3), &all_ready(3));
    assert_eq!(lone.distributing(), [1, 2]);
}

/// Without speeds, as between virtual adapters, the number of links decides.
#[test]
fn the_partner_with_most_links_is_chosen() {
    let mut lone = Lone::new(0, group());
    for port in 1..=3 {
        lone.set(port, |_| {});
        lone.up(port, Link { bits_per_second: None, full_duplex: true });
    }
    let [better, worse] = [(1, 4), (100, 9)].map(|(priority, last)| id(priority, last));
    let two = [(2, partner(worse, 2, READY)), (3, partner(worse, 3, READY))];
    lone.hear_for(seconds(3), &[(1, partner(better, 1, READY)), two[0], two[1]]);
    assert_eq!(lone.distributing(), [2, 3]);
}

#[test]
fn reasons_of_ports_that_are_out() {
    let mut lone = Lone::new(8, group());
    lone.down(1);
    lone.up(2, Link { full_duplex: false, ..GIGABIT });
    lone.set(3, |settings| settings.retired = true);
    lone.set(4, |settings| settings.key = 99);
    // 5 hears nothing; 6 hears this very system
    let mut partners = all_ready(8);
    let own = lone.status(7).actor;
    partners[5].1 = Information { port: own.port, ..own };
    partners.remove(4);
    lone.hear_for(seconds(4), &partners);
    assert_eq!(lone.distributing(), [7, 8]);
    let reasons: Vec<String> =
        (1..=6).filter_map(|port| Some(lone.reason(port)?.to_string())).collect();
    assert_eq!(
        reasons,
        [
            "link down",
            "link in half duplex, expected full duplex",
            "retired",
            "no aggregate with its key",
            "no partner heard",
            "loop: the partner is this aggregate itself",
        ]
    );
}

#[test]
fn two_groups_of_one_switch_may_be_joined() {
    let mut lone = Lone::new(1, group());
    lone.event(Event::SetGroup { key: 8, settings: group() });
    lone.set(2, |settings| settings.key = 8);
    lone.up(2, GIGABIT);
    // a cable from port 1 to port 2
    for _ in 0..8 {
        let (one, two) = (lone.status(1).actor, lone.status(2).actor);
        lone.hear(1, two);
        lone.hear(2, one);
        lone.after(ms(500));
    }
    assert_eq!(lone.system.group(8).expect("a group").distributing, [2]);
    assert_eq!(lone.distributing(), [1]);
}

#[test]
fn an_individual_link_stands_alone() {
    let mut lone = Lone::new(0, group());
    for port in 1..=3 {
        lone.set(port, |settings| settings.aggregatable = port != 1);
        lone.up(port, GIGABIT);
    }
    let alone = all_ready(1);
    lone.hear_for(seconds(3), &alone);
    assert_eq!(lone.distributing(), [1]);
    assert_eq!(lone.system.group(KEY).expect("a group").individual, Some(1));
    lone.hear_for(seconds(3), &all_ready(3));
    assert_eq!(lone.reason(2), Some(Reason::BesideIndividual { port: 1 }));
    lone.down(1);
    lone.hear_for(seconds(3), &all_ready(3));
    lone.up(1, GIGABIT);
    lone.hear_for(seconds(3), &all_ready(3));
    assert_eq!(lone.distributing(), [2, 3]);
    assert_eq!(lone.reason(1), Some(Reason::Individual));
}

#[test]
fn a_flapping_link_does_not_flap_the_aggregate() {
    let mut lone = Lone::with_partner(2, restored_after(20));
    assert_eq!(lone.distributing(), [1, 2], "what did not fail need not wait");
    for _ in 0..5 {
        lone.down(1);
        assert_eq!(lone.distributing(), [2]);
        lone.up(1, GIGABIT);
        lone.hear_for(seconds(5), &all_ready(2));
        assert_eq!(lone.distributing(), [2]);
    }
    assert_eq!(lone.reason(1), Some(Reason::WaitToRestore { until: lone.now + seconds(15) }));
    lone.hear_for(seconds(14), &all_ready(2));
    assert_eq!(lone.distributing(), [2]);
    lone.hear_for(seconds(4), &all_ready(2));
    assert_eq!(lone.distributing(), [1, 2]);
    // also after silence: port 1 is silent for 4 s
    lone.hear_for(seconds(4), &all_ready(2)[1..]);
    assert_eq!(lone.status(1).receive, receive::State::Expired);
    lone.hear_for(seconds(10), &all_ready(2));
    assert_eq!(lone.distributing(), [2]);
    // the last port that is in order is used at once
    lone.down(2);
    lone.hear_for(seconds(3), &all_ready(1));
    assert_eq!(lone.distributing(), [1]);
}

#[test]
fn a_port_that_is_retired_leaves_and_comes_back() {
    let mut lone = Lone::with_partner(2, group());
    lone.set(1, |settings| settings.retired = true);
    assert_eq!((lone.distributing(), lone.reason(1)), (vec![2], Some(Reason::Retired)));
    lone.hear_for(seconds(60), &all_ready(2));
    assert_eq!(lone.distributing(), [2]);
    let last = lone.sent(1).pop().expect("a PDU").1;
    assert_eq!(last.actor.state.octet() & READY, 0, "the partner is told");
    lone.set(1, |_| {});
    lone.hear_for(seconds(3), &all_ready(2));
    assert_eq!(lone.distributing(), [1, 2]);
}

#[test]
fn a_port_moves_to_another_group() {
    let mut lone = Lone::with_partner(2, group());
    lone.event(Event::SetGroup { key: 8, settings: group() });
    lone.set(2, |settings| settings.key = 8);
    assert_eq!(lone.distributing(), [1]);
    let mut partners = all_ready(2);
    partners[1].1.key = 51;
    lone.hear_for(seconds(3), &partners);
    assert_eq!(lone.system.group(8).expect("a group").distributing, [2]);
    lone.event(Event::RemoveGroup { key: 8 });
    let changed = Notice::AggregateChanged { key: 8, partner: None };
    assert!(lone.notices().contains(&(lone.now, changed)));
    assert_eq!(lone.reason(2), Some(Reason::NoGroup));
    assert_eq!(lone.status(2).mux, mux::State::Detached);
}

#[test]
fn another_system_priority_is_negotiated() {
    let mut pair = joined(2, [8, 8], Wire::good(ms(1)), 1);
    pair.run_until(seconds(10));
    pair.handle_b(Event::SetSystemPriority { priority: 1 });
    assert_eq!(pair.b.distributing.len(), 0);
    pair.run_until(seconds(20));
    ends::assert_agreed(&pair, 1..=2);
    assert_eq!(pair.b.system.id().priority, 1);
}

/// Its partner is heard on another port: what was kept of it is forgotten.
#[test]
fn a_cable_moves_to_another_port() {
    let mut lone = Lone::with_partner(2, group());
    lone.down(1);
    assert_eq!(lone.status(1).partner.map(|partner| partner.port.number), Some(101));
    lone.hear(2, partner(id(100, 9), 1, READY));
    assert_eq!(lone.status(1).partner, None);
    assert_eq!(lone.status(1).receive, receive::State::PortDisabled);
}

/// One port begins to wait again and again, because its partner changes all the time.
#[test]
fn a_partner_that_changes_all_the_time_keeps_no_other_port_out() {
    let mut lone = Lone::new(2, group());
    let mut restless = partner(id(100, 9), 1, READY);
    for round in 0..50 {
        restless.port.number = 100 + round % 2;
        lone.hear(1, restless);
        lone.hear(2, all_ready(2)[1].1);
        lone.after(ms(200));
    }
    assert_eq!(lone.distributing(), [2]);
    assert_eq!(lone.status(1).mux, mux::State::Waiting);
}

#[test]
fn ports_that_come_up_together_are_attached_together() {
    let mut lone = Lone::new(2, group());
    lone.hear(1, all_ready(2)[0].1);
    lone.at(ms(1500));
    lone.hear(1, all_ready(2)[0].1);
    lone.hear(2, all_ready(2)[1].1);
    lone.at(ms(3400));
    assert_eq!(lone.distributing(), [0; 0], "the first waits for the second");
    lone.at(ms(3500));
    assert_eq!(lone.distributing(), [1, 2]);
}

#[test]
fn settings_that_change_nothing_do_nothing() {
    let mut lone = Lone::with_partner(1, group());
    lone.actions.clear();
    lone.set(1, |_| {});
    lone.up(1, GIGABIT);
    lone.event(Event::SetGroup { key: KEY, settings: group() });
    assert_eq!(lone.actions, []);
    // an address does not matter to the aggregate
    lone.set(1, |own| own.address = settings(5, 99).address);
    assert_eq!(lone.distributing(), [1]);
}
