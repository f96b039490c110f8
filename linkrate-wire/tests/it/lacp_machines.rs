//! The machines of link aggregation, each by hand: one system, and a partner that says what the
//! test wants.

use std::time::Duration;

use crate::ends::{GIGABIT, KEY, id, ms, seconds};
use crate::lone::{Lone, READY, SYNC, all_ready, partner};
use linkrate_wire::control::Lacpdu;
use linkrate_wire::control::lacp::{Information, State};
use linkrate_wire::machine::lacp::{
    Action, End, Event, GroupSettings, Link, Notice, PortSettings, Reason, Selection, churn, mux,
    periodic, receive,
};

fn group() -> GroupSettings {
    GroupSettings::default()
}

/// The partner on port 1.
fn peer(bits: u8) -> Information {
    partner(id(100, 9), 1, bits)
}

#[test]
fn receive_goes_through_its_states() {
    let mut lone = Lone::new(0, group());
    lone.set(1, |_| {});
    let state = |lone: &Lone| (lone.status(1).receive, lone.status(1).actor.state.expired);
    assert_eq!(state(&lone), (receive::State::PortDisabled, false));
    lone.up(1, GIGABIT);
    assert_eq!(state(&lone), (receive::State::Expired, true));
    lone.at(ms(2999));
    assert_eq!(state(&lone), (receive::State::Expired, true));
    lone.at(seconds(3));
    assert_eq!(state(&lone), (receive::State::Defaulted, false));
    assert!(lone.status(1).actor.state.defaulted);
    assert_eq!((lone.status(1).partner, lone.reason(1)), (None, Some(Reason::NoPartner)));

    lone.hear(1, peer(0));
    assert_eq!(state(&lone), (receive::State::Current, false));
    assert_eq!(lone.status(1).partner, Some(peer(0)));
    assert_eq!(lone.status(1).last_rx, Some(seconds(3)));
    assert!(!lone.status(1).actor.state.defaulted);
    lone.at(ms(5999));
    assert_eq!(state(&lone), (receive::State::Current, false));
    lone.at(seconds(6));
    assert_eq!(state(&lone), (receive::State::Expired, true));
    // what is known of the partner is kept for now
    assert_eq!(lone.status(1).partner.map(|partner| partner.key), Some(50));
    lone.at(seconds(9));
    assert_eq!(state(&lone), (receive::State::Defaulted, false));

    // with long time-out, and after a change of it
    lone.set(1, |settings| settings.short_timeout = false);
    lone.hear(1, peer(0));
    lone.at(ms(98_999));
    assert_eq!(state(&lone), (receive::State::Current, false));
    lone.at(seconds(99));
    assert_eq!(state(&lone), (receive::State::Expired, true));
    lone.hear(1, peer(0));
    lone.at(seconds(110));
    lone.set(1, |settings| settings.short_timeout = true);
    lone.at(seconds(113));
    assert_eq!(state(&lone), (receive::State::Expired, true));

    lone.up(1, Link { full_duplex: false, ..GIGABIT });
    assert_eq!(state(&lone), (receive::State::LacpDisabled, false));
    assert_eq!(lone.reason(1), Some(Reason::HalfDuplex));
    lone.hear(1, peer(0));
    assert_eq!(state(&lone).0, receive::State::LacpDisabled);
    lone.down(1);
    assert_eq!(state(&lone).0, receive::State::PortDisabled);
}

/// Times of PDUs that are sent from `from` on, in whole seconds.
fn times(lone: &Lone, from: Duration) -> Vec<u64> {
    let times = lone.sent(1).into_iter().map(|(at, _)| at).filter(|at| *at > from);
    times.map(|at| at.as_secs()).collect()
}

#[test]
fn periodic_follows_the_time_out_of_the_partner() {
    let mut lone = Lone::new(1, group());
    assert_eq!(lone.sent(1).len(), 1, "at once when the link comes up");
    assert_eq!(lone.status(1).periodic, periodic::State::FastPeriodic);
    lone.set(1, |settings| settings.short_timeout = false);
    // a partner with long time-out
    let mut slow = peer(0);
    slow.state.short_timeout = false;
    lone.hear_for(seconds(10), &[(1, slow)]);
    assert_eq!(lone.status(1).periodic, periodic::State::SlowPeriodic);
    lone.at(seconds(10));
    let quiet_from = lone.now;
    lone.hear(1, slow);
    lone.at(seconds(70));
    assert_eq!(times(&lone, quiet_from), [30, 60]);
    // it wants PDUs fast: at once, then each second
    lone.hear(1, peer(0));
    lone.at(seconds(73));
    assert_eq!(times(&lone, seconds(69)), [70, 71, 72, 73]);
    assert_eq!(lone.status(1).periodic, periodic::State::FastPeriodic);
    // a slow partner that falls silent is asked each second
    lone.set(1, |settings| settings.short_timeout = true);
    lone.hear(1, slow);
    let silent_from = lone.now;
    lone.at(seconds(80));
    assert_eq!(lone.status(1).receive, receive::State::Defaulted);
    assert_eq!(times(&lone, silent_from), [76, 77, 78, 79, 80]);
}

/// The partner need not wait for a PDU that is due in half a minute.
#[test]
fn new_settings_are_reported_at_once() {
    let mut lone = Lone::new(1, group());
    let mut slow = peer(READY);
    slow.state.short_timeout = false;
    lone.hear_for(seconds(10), &[(1, slow)]);
    let changes: [fn(&mut PortSettings); 2] =
        [|own| own.short_timeout = false, |own| own.active = false];
    for change in changes {
        lone.after(seconds(1));
        lone.hear(1, slow);
        let sent = lone.sent(1).len();
        lone.set(1, change);
        let pdus = lone.sent(1);
        assert_eq!((pdus.len(), pdus[sent].0), (sent + 1, lone.now));
        assert_eq!(pdus[sent].1.actor, lone.status(1).actor);
    }
}

#[test]
fn two_passive_ends_are_silent() {
    let mut lone = Lone::new(0, group());
    lone.set(1, |settings| settings.active = false);
    lone.up(1, GIGABIT);
    lone.at(seconds(100));
    assert_eq!(lone.sent(1), []);
    assert_eq!(lone.status(1).periodic, periodic::State::NoPeriodic);
    // an active partner is answered
    let begins = Lacpdu { partner: Information::UNKNOWN, ..lone.pdu(1, peer(0)) };
    lone.event(Event::Lacpdu { port: 1, pdu: begins });
    assert_eq!(lone.sent(1).len(), 1);
    assert_eq!(lone.status(1).periodic, periodic::State::FastPeriodic);
    // two passive ends do not maintain a link
    let mut passive = peer(READY);
    passive.state.activity = false;
    lone.hear_for(seconds(4), &[(1, passive)]);
    assert_eq!(lone.distributing(), [0; 0]);
    assert_eq!(lone.status(1).partner.map(|one| one.state.synchronization), Some(false));
    lone.hear(1, peer(READY));
    assert_eq!(lone.distributing(), [1]);
}

#[test]
fn mux_opens_one_direction_after_the_other() {
    let mut lone = Lone::new(1, group());
    let mux = |lone: &Lone| (lone.status(1).mux, lone.status(1).mux_cause);
    assert_eq!(mux(&lone), (mux::State::Detached, mux::Cause::Begin));
    lone.hear(1, peer(0));
    assert_eq!(mux(&lone), (mux::State::Waiting, mux::Cause::Selected));
    lone.at(ms(1999));
    lone.hear(1, peer(0));
    assert_eq!(mux(&lone).0, mux::State::Waiting);
    lone.at(seconds(2));
    assert_eq!(mux(&lone), (mux::State::Attached, mux::Cause::Ready));
    assert!(lone.status(1).actor.state.synchronization);
    lone.hear(1, peer(SYNC));
    assert_eq!(mux(&lone), (mux::State::Collecting, mux::Cause::PartnerInSync));
    assert_eq!(lone.distributing(), [0; 0], "the partner does not collect");
    lone.hear(1, peer(SYNC | 0x10));
    assert_eq!(mux(&lone), (mux::State::Distributing, mux::Cause::PartnerCollects));
    lone.hear(1, peer(SYNC));
    assert_eq!(mux(&lone), (mux::State::Collecting, mux::Cause::PartnerDoesNotCollect));
    lone.hear(1, peer(READY));
    lone.hear(1, peer(0x30));
    assert_eq!(mux(&lone), (mux::State::Attached, mux::Cause::PartnerOutOfSync));
    lone.hear(1, peer(READY));
    lone.actions.clear();
    lone.down(1);
    assert_eq!(mux(&lone), (mux::State::Detached, mux::Cause::Unselected));
    let mut steps = lone.actions.iter().map(|(_, action)| action);
    assert_eq!(steps.next(), Some(&Action::Distributing { port: 1, key: KEY, on: false }));
    assert_eq!(steps.next(), Some(&Action::Collecting { port: 1, key: KEY, on: false }));
    let counters = lone.status(1).counters;
    assert_eq!((counters.actor_sync_transitions, counters.partner_sync_transitions), (1, 2));
}

/// The partner may say that it is in sync and collects: with an end that it takes this one for.
#[test]
fn a_partner_in_sync_with_another_end_is_not_in_sync() {
    let mut lone = Lone::with_partner(1, group());
    assert_eq!(lone.distributing(), [1]);
    let own = lone.status(1).actor;
    let mut others = [own; 5];
    others[0].system = id(1, 77);
    others[1].key += 1;
    others[2].port.number += 1;
    others[3].port.priority += 1;
    others[4].state.aggregation = false;
    for other in others {
        lone.after(seconds(1));
        let pdu = lone.pdu(1, peer(READY));
        lone.event(Event::Lacpdu { port: 1, pdu });
        assert_eq!(lone.distributing(), [1]);
        let stale = lone.status(1).counters.stale_rx;
        lone.event(Event::Lacpdu { port: 1, pdu: Lacpdu { partner: other, ..pdu } });
        assert_eq!(lone.distributing(), [0; 0], "{other:?}");
        assert_eq!(lone.status(1).counters.stale_rx, stale + 1);
    }
    // an individual link needs no agreement on the aggregate
    let mut alone = peer(READY);
    alone.state.aggregation = false;
    for _ in 0..6 {
        let pdu = Lacpdu { partner: others[0], ..lone.pdu(1, alone) };
        lone.event(Event::Lacpdu { port: 1, pdu });
        lone.after(ms(500));
    }
    assert_eq!(lone.distributing(), [1]);
}

/// A PDU that was lost is sent again as soon as the partner shows that it lacks it.
#[test]
fn a_partner_that_missed_a_pdu_gets_another_at_once() {
    let mut lone = Lone::with_partner(1, group());
    lone.set(1, |settings| settings.short_timeout = false);
    let mut slow = peer(READY);
    slow.state.short_timeout = false;
    lone.hear_for(seconds(5), &[(1, slow)]);
    let (quiet, sent) = (lone.now, lone.sent(1).len());
    let right = lone.pdu(1, slow);
    for bit in 0..8 {
        lone.at(quiet + seconds(2 * bit));
        let mut pdu = right;
        pdu.partner.state = State::of(right.partner.state.octet() ^ 1 << bit);
        let before = lone.sent(1).len();
        lone.event(Event::Lacpdu { port: 1, pdu });
        // activity, time-out, aggregation, synchronization; the partner needs no other bit
        assert_eq!(lone.sent(1).len() - before, usize::from(bit < 4), "bit {bit}");
        let stale = lone.status(1).counters.stale_rx;
        lone.event(Event::Lacpdu { port: 1, pdu: right });
        assert_eq!(lone.status(1).counters.stale_rx, stale);
    }
    assert!(lone.sent(1).len() <= sent + 8);
}

#[test]
fn churn_is_reported_after_a_minute_and_counted() {
    let mut lone = Lone::new(1, group());
    lone.at(ms(59_999));
    assert_eq!(lone.status(1).actor_churn, churn::State::Monitor);
    lone.at(seconds(60));
    assert_eq!(lone.status(1).actor_churn.name(End::Actor), "ACTOR_CHURN");
    assert_eq!(lone.status(1).partner_churn.name(End::Partner), "PARTNER_CHURN");
    let detected = |end| (seconds(60), Notice::ChurnDetected { port: 1, end });
    let notices = lone.notices();
    assert!(notices.contains(&detected(End::Actor)) && notices.contains(&detected(End::Partner)));
    lone.hear_for(seconds(3), &[(1, peer(0))]);
    let counters = lone.status(1).counters;
    assert_eq!((counters.actor_churn, counters.partner_churn), (1, 1));
    assert_eq!(lone.status(1).actor_churn, churn::State::NoChurn);
    assert_eq!(lone.status(1).partner_churn, churn::State::Churn);
    let ended = Notice::ChurnEnded { port: 1, end: End::Partner };
    assert!(!lone.notices().iter().any(|(_, notice)| *notice == ended));
    lone.hear(1, peer(SYNC));
    assert!(lone.notices().contains(&(lone.now, ended)));
}

#[test]
fn a_port_that_is_removed_says_so() {
    let mut lone = Lone::with_partner(2, group());
    lone.after(seconds(1));
    all_ready(2).into_iter().for_each(|(port, partner)| lone.hear(port, partner));
    assert!(lone.actions.iter().all(|(_, action)| !action.is_in_order()));
    lone.actions.clear();
    lone.event(Event::RemovePort { port: 1 });
    let (at, last) = lone.sent(1)[0];
    assert_eq!((at, last.actor.state.octet() & 0x38), (lone.now, 0));
    assert_eq!((lone.system.port(1), lone.distributing()), (None, vec![2]));
    assert!(lone.actions.contains(&(at, Action::Distributing { port: 1, key: KEY, on: false })));
    // events of a port that is gone do nothing
    lone.actions.clear();
    lone.up(1, GIGABIT);
    lone.down(1);
    lone.event(Event::RemovePort { port: 1 });
    lone.event(Event::RemoveGroup { key: 99 });
    assert_eq!(lone.actions, []);
}

#[test]
fn the_state_is_readable_by_the_names_of_the_standard() {
    let lone = Lone::with_partner(1, group());
    let status = lone.status(1);
    let states = [status.receive.to_string(), status.periodic.to_string(), status.mux.to_string()];
    assert_eq!(states, ["CURRENT", "FAST_PERIODIC", "DISTRIBUTING"]);
    assert_eq!(status.selection, Selection::Selected);
    assert_eq!(status.seen_as.map(|own| own.port), Some(status.actor.port));
    assert_eq!(
        status.actor.state.to_string(),
        "LACP_Activity,LACP_Timeout,Aggregation,Synchronization,Collecting,Distributing"
    );
    let counters = status.counters.named();
    let value = |wanted: &str| counters.iter().find(|(name, _)| *name == wanted).map(|one| one.1);
    assert_eq!(value("dot3adAggPortStatsLACPDUsRx"), Some(6));
    assert_eq!(value("dot3adAggPortStatsLACPDUsTx"), Some(lone.sent(1).len() as u64));
    let group = lone.system.group(KEY).expect("a group");
    assert_eq!((group.partner, group.individual), (Some((id(100, 9), 50)), None));
    assert_eq!((group.collecting, group.distributing), (vec![1], vec![1]));
}

#[test]
fn the_owner_is_told_what_happens() {
    let mut lone = Lone::new(1, group());
    lone.hear(1, peer(0));
    // that it is in sync is no other partner
    lone.hear(1, peer(READY));
    lone.after(seconds(6));
    let (known, was) = (Some(peer(0)), Some((id(100, 9), 50)));
    let selection = |from, to| Notice::SelectionChanged { port: 1, from, to };
    let out = Selection::Unselected;
    let at_once = |notice| (seconds(0), notice);
    let later = |notice| (seconds(6), notice);
    let notices = lone.notices();
    assert_eq!(
        notices[..4],
        [
            at_once(selection(out(Reason::LinkDown), out(Reason::NoPartner))),
            at_once(Notice::AggregateChanged { key: KEY, partner: was }),
            at_once(Notice::PartnerChanged { port: 1, from: None, to: known }),
            at_once(selection(out(Reason::NoPartner), Selection::Selected)),
        ]
    );
    assert_eq!(
        notices[4..],
        [
            later(Notice::AggregateChanged { key: KEY, partner: None }),
            later(Notice::PartnerChanged { port: 1, from: known, to: None }),
            later(selection(Selection::Selected, out(Reason::NoPartner))),
        ]
    );
}
