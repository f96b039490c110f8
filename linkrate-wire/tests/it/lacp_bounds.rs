//! Partners of link aggregation that repeat themselves, lie, or send too fast: work is bounded and
//! counted. Markers.

use std::time::Duration;

use crate::ends;
use crate::ends::{GIGABIT, KEY, id, joined, lacpdu, ms, seconds};
use crate::lone::{Lone, READY, all_ready, partner};
use crate::pair::Wire;
use linkrate_wire::control::lacp::{Information, State};
use linkrate_wire::control::marker::{Kind, Marker, Requester};
use linkrate_wire::control::{Lacpdu, frame, slow};
use linkrate_wire::frame::{Headers, MacAddress};
use linkrate_wire::machine::lacp::{Action, Event, GroupSettings, MarkerOutcome, mux};

const STATION: MacAddress = MacAddress([2, 0, 0, 0, 9, 9]);

fn group() -> GroupSettings {
    GroupSettings::default()
}

#[test]
fn frames_are_counted_by_what_is_wrong_with_them() {
    let mut lone = Lone::new(1, group());
    let pdu = lone.pdu(1, partner(id(100, 9), 1, READY));
    let good = pdu.frame(STATION);
    let slow = |message: &[u8]| frame(slow::GROUP, STATION, slow::ETHER_TYPE, message);
    let marker = Marker {
        kind: Kind::Information,
        requester: Requester { port: 1, system: STATION, transaction: 1 },
    };
    let mut cases = vec![
        (good.clone(), true, "dot3adAggPortStatsLACPDUsRx"),
        (marker.frame(STATION), true, "dot3adAggPortStatsMarkerPDUsRx"),
        (slow(&[3, 0, 0]), true, "dot3adAggPortStatsUnknownRx"),
        (slow(&[0, 1]), true, "dot3adAggPortStatsIllegalRx"),
        (slow(&[]), true, "dot3adAggPortStatsIllegalRx"),
        (good[..60].to_vec(), true, "dot3adAggPortStatsIllegalRx"),
        (slow(&[2, 1, 9]), true, "dot3adAggPortStatsIllegalRx"),
        (frame(slow::GROUP, STATION, 0x1234, &[1]), true, "dot3adAggPortStatsUnknownRx"),
        (slow::GROUP.0.to_vec(), true, "dot3adAggPortStatsIllegalRx"),
        (frame(STATION, STATION, 0x1234, &[1]), false, ""),
        (vec![1, 2, 3], false, ""),
    ];
    // a version to come, with more TLVs
    let mut later = good.clone();
    later[15] = 2;
    later[14 + 58..14 + 62].copy_from_slice(&[4, 6, 1, 2]);
    cases.push((later, true, "dot3adAggPortStatsLACPDUsRx"));
    for (frame, is_slow, counter) in cases {
        lone.after(seconds(1));
        let before = lone.status(1).counters.named();
        let mut actions = Vec::new();
        assert_eq!(lone.system.receive(lone.now, 1, &frame, &mut actions), is_slow, "{frame:?}");
        let after = lone.status(1).counters.named();
        for ((name, before), (_, after)) in before.into_iter().zip(after) {
            if name == counter {
                assert_eq!(after, before + 1, "{name} {frame:?}");
            } else if name.contains("Rx") && name.contains("Stats") {
                assert_eq!(after, before, "{name} {frame:?}");
            }
        }
    }
    assert_eq!(lone.status(1).partner_version, Some(2));
}

#[test]
fn what_comes_too_fast_is_dropped_unread() {
    let mut lone = Lone::with_partner(1, group());
    lone.after(seconds(1));
    let frame = lone.pdu(1, partner(id(100, 9), 1, READY)).frame(STATION);
    let (before, end) = (lone.status(1).counters, lone.now + seconds(10));
    let mut sent = 0;
    while lone.now < end {
        lone.event(Event::Frame { port: 1, frame: frame.clone() });
        sent += 1;
        lone.after(Duration::from_micros(100));
    }
    let after = lone.status(1).counters;
    let read = after.lacpdus_rx - before.lacpdus_rx;
    assert_eq!((sent, read, after.too_fast_rx), (100_000, 100, 100_000 - 100));
    assert_eq!(lone.distributing(), [1], "the partner is heard");
}

/// IEEE 802.3, 57A.2: ten frames a second are of one slow protocol.
#[test]
fn other_slow_protocols_do_not_starve_lacp() {
    let mut lone = Lone::with_partner(1, group());
    lone.after(seconds(1));
    let good = lone.pdu(1, partner(id(100, 9), 1, READY)).frame(STATION);
    let oam = frame(slow::GROUP, STATION, slow::ETHER_TYPE, &[3, 0, 0]);
    let requester = Requester { port: 1, system: STATION, transaction: 1 };
    let marker = Marker { kind: Kind::Information, requester }.frame(STATION);
    let before = lone.status(1).counters;
    for _ in 0..100 {
        for frame in [&oam, &oam, &oam, &marker, &marker] {
            lone.event(Event::Frame { port: 1, frame: frame.clone() });
        }
        lone.after(ms(50));
    }
    lone.event(Event::Frame { port: 1, frame: good });
    let after = lone.status(1).counters;
    assert_eq!(after.lacpdus_rx - before.lacpdus_rx, 1);
    assert_eq!(after.unknown_rx - before.unknown_rx, 300);
    // of 40 markers a second
    assert_eq!((after.marker_pdus_rx - before.marker_pdus_rx, after.too_fast_rx), (50, 150));
}

/// Whatever a partner says, and how often: three PDUs a second, and not more notices than PDUs read.
#[test]
fn a_partner_that_contradicts_itself_is_answered_within_the_limit() {
    let mut lone = Lone::with_partner(2, group());
    let sent = lone.sent(1).len();
    lone.actions.clear();
    for round in 0..10_000_u32 {
        let mut one = partner(id(100, (round % 7) as u8), 1, (round % 256) as u8);
        one.state = State::of((round % 256) as u8);
        let mut pdu = lone.pdu(1, one);
        if round % 2 == 0 {
            pdu.partner = Information::UNKNOWN;
        }
        lone.event(Event::Lacpdu { port: 1, pdu });
        if round % 300 == 0 {
            lone.hear(2, all_ready(2)[1].1);
        }
        lone.after(ms(5));
    }
    let times: Vec<Duration> = lone.sent(1).into_iter().map(|(at, _)| at).collect();
    assert!(times.windows(4).all(|four| four[3] - four[0] >= seconds(1)), "{times:?}");
    assert!(times.len() <= 3 * 51 + sent && times.len() > 100, "{}", times.len());
    let notices = lone.notices().len();
    assert!(notices <= 20 * 51 * 4, "{notices}");
    assert_eq!(lone.distributing(), [2], "the other port is unharmed");
}

/// It repeats its first PDU for ever: it is heard, and never accepts.
#[test]
fn a_partner_that_repeats_an_old_pdu_is_not_sent_to() {
    let mut lone = Lone::new(1, group());
    let mut old = lone.pdu(1, partner(id(100, 9), 1, READY));
    old.partner = Information::UNKNOWN;
    for _ in 0..600 {
        lone.event(Event::Lacpdu { port: 1, pdu: old });
        lone.after(ms(100));
    }
    assert_eq!((lone.distributing(), lone.status(1).mux), (vec![], mux::State::Attached));
    assert_eq!(lone.status(1).counters.stale_rx, 600);
    assert!(lone.sent(1).len() <= 3 * 61, "{}", lone.sent(1).len());

    // one that was in order, and then repeats what was true once: it is taken at its word, until
    // the own end changes
    let mut lone = Lone::with_partner(1, group());
    let old = lone.pdu(1, partner(id(100, 9), 1, READY));
    lone.set(1, |settings| settings.priority = 5);
    for _ in 0..60 {
        lone.event(Event::Lacpdu { port: 1, pdu: old });
        lone.after(seconds(1));
        assert_eq!(lone.distributing(), [0; 0]);
    }
}

/// It claims to be this system, and all addresses and values that could confuse.
#[test]
fn a_partner_with_impossible_values_harms_only_its_own_link() {
    let mut lone = Lone::with_partner(2, group());
    let own = lone.status(1).actor;
    let extreme = Information { key: u16::MAX, ..Information::UNKNOWN };
    for lie in [own, lone.status(2).actor, Information::UNKNOWN, extreme, all_ready(2)[1].1] {
        for _ in 0..10 {
            lone.hear(1, lie);
            lone.hear(2, all_ready(2)[1].1);
            lone.after(ms(500));
        }
        assert!(lone.distributing().contains(&2), "{lie:?}");
    }
}

#[test]
fn markers_are_answered_at_once_up_to_a_bound() {
    let mut lone = Lone::with_partner(1, group());
    let requester = Requester { port: 0x1234, system: STATION, transaction: 0xdead_beef };
    let pdu = Marker { kind: Kind::Information, requester };
    lone.actions.clear();
    lone.event(Event::Marker { port: 1, pdu });
    let answer = Marker { kind: Kind::Response, requester };
    let frame = answer.frame(lone.status(1).settings.address);
    assert!(!lone.actions[0].1.is_in_order());
    assert_eq!(lone.actions, [(lone.now, Action::Send { port: 1, frame })]);
    lone.actions.clear();
    for _ in 0..15 {
        lone.event(Event::Marker { port: 1, pdu });
    }
    let counters = lone.status(1).counters;
    assert_eq!((counters.marker_pdus_rx, counters.marker_response_pdus_tx), (10, 5));
    assert_eq!((counters.markers_unanswered, counters.too_fast_rx), (5, 6));
    assert_eq!(lone.actions.len(), 4);
    // a link that is down carries no frame
    lone.after(seconds(1));
    lone.down(1);
    lone.actions.clear();
    let counters = lone.status(1).counters;
    lone.event(Event::Marker { port: 1, pdu });
    lone.hear(1, partner(id(100, 9), 1, READY));
    assert_eq!((lone.actions.len(), lone.status(1).counters), (0, counters));
}

/// The markers that port 1 sent.
fn markers(lone: &Lone) -> Vec<Marker> {
    let sent = lone.actions.iter().filter_map(|(_, action)| match action {
        Action::Send { frame, .. } if lacpdu(frame).is_none() => {
            let headers = Headers::parse(frame).expect("a frame");
            Some(Marker::parse(&frame[headers.payload + 1..]).expect("a marker"))
        }
        _ => None,
    });
    sent.collect()
}

fn outcomes(lone: &Lone) -> Vec<(u32, MarkerOutcome)> {
    let ended = lone.actions.iter().filter_map(|(_, action)| match action {
        Action::Marker { transaction, outcome, .. } => Some((*transaction, *outcome)),
        _ => None,
    });
    ended.collect()
}

#[test]
fn a_flow_moves_after_the_answer_or_after_a_quiet_time() {
    let mut lone = Lone::with_partner(1, group());
    let ask = |lone: &mut Lone, transaction, patience| {
        lone.event(Event::RequestMarker { port: 1, transaction, patience });
    };
    lone.actions.clear();
    ask(&mut lone, 70, ms(100));
    ask(&mut lone, 71, ms(300));
    let sent = markers(&lone);
    assert_eq!(sent.len(), 2);
    assert!(lone.actions.iter().all(|(_, action)| action.is_in_order()), "behind the flow");
    assert_eq!(sent[0].requester.port, 1);
    assert_eq!(sent[0].requester.system, lone.system.id().address);
    lone.after(ms(40));
    let answer = sent[1].answer().expect("an answer");
    lone.event(Event::Marker { port: 1, pdu: answer });
    assert_eq!(outcomes(&lone), [(71, MarkerOutcome::Answered { after: ms(40) })]);
    // an answer that is repeated, of another port, of another system, that was never asked for
    for change in [
        answer.requester,
        Requester { port: 2, ..sent[0].requester },
        Requester { system: STATION, ..sent[0].requester },
        Requester { transaction: 70, ..sent[0].requester },
    ] {
        lone.event(Event::Marker { port: 1, pdu: Marker { requester: change, ..answer } });
    }
    assert_eq!(outcomes(&lone).len(), 1);
    assert_eq!(lone.status(1).counters.marker_responses_unexpected, 4);
    lone.after(ms(59));
    assert_eq!(outcomes(&lone).len(), 1);
    lone.after(ms(1));
    assert_eq!(outcomes(&lone)[1..], [(70, MarkerOutcome::TimedOut)]);

    // the link goes down; a port that is none
    ask(&mut lone, 72, seconds(1));
    lone.down(1);
    assert_eq!(outcomes(&lone)[2..], [(72, MarkerOutcome::PortLost)]);
    ask(&mut lone, 73, seconds(1));
    lone.event(Event::RequestMarker { port: 9, transaction: 74, patience: ms(1) });
    let lost = [73, 74].map(|transaction| (transaction, MarkerOutcome::PortLost));
    assert_eq!(outcomes(&lone)[3..], lost);
}

#[test]
fn markers_are_sent_within_the_limit_and_each_ends() {
    let mut lone = Lone::with_partner(1, group());
    lone.actions.clear();
    let begin = lone.now;
    for transaction in 0..100 {
        lone.event(Event::RequestMarker { port: 1, transaction, patience: ms(10) });
    }
    assert_eq!(markers(&lone).len(), 5);
    let refused = outcomes(&lone);
    assert_eq!(refused.len(), 36);
    assert!(refused.iter().all(|(_, outcome)| *outcome == MarkerOutcome::Refused));
    lone.at(begin + seconds(30));
    assert_eq!(markers(&lone).len(), 64);
    assert_eq!(outcomes(&lone).len(), 100);
    let last =
        lone.actions.iter().rev().find(|(_, action)| matches!(action, Action::Marker { .. }));
    assert_eq!(last.map(|(at, _)| *at - begin), Some(ms(12_010)));
    // no patience: each still ends, also those that wait for the limit
    for transaction in 200..212 {
        lone.event(Event::RequestMarker { port: 1, transaction, patience: Duration::ZERO });
    }
    lone.after(seconds(3));
    assert_eq!(outcomes(&lone).len(), 112);
    assert_eq!(outcomes(&lone).last(), Some(&(211, MarkerOutcome::TimedOut)));
    lone.event(Event::RequestMarker { port: 1, transaction: 8, patience: Duration::MAX });
    lone.after(seconds(100_000));
    assert_eq!(outcomes(&lone).len(), 112);
}

/// Sixty-four links between two systems: all in use after 2 s and for an hour, in which each end
/// sends what keeps the other content, and no more.
#[test]
fn sixty_four_links() {
    let wire = Wire { lost: 100, doubled: 50, delay: ms(1)..=ms(200) };
    let mut pair = joined(64, [64, 64], wire, 3);
    pair.run_until(seconds(600));
    pair.set_wire(Wire::good(ms(1)));
    pair.run_until(seconds(700));
    ends::assert_agreed(&pair, 1..=64);
    for port in 1..=64 {
        pair.handle_a(Event::LinkDown { port });
        pair.handle_b(Event::LinkDown { port });
        assert_eq!(pair.a.distributing.len(), 64 - usize::from(port));
    }
    for port in 1..=64 {
        ends::link_up(&mut pair, port, GIGABIT);
    }
    let sent = pair.counts.sent;
    pair.run_until(seconds(703));
    ends::assert_agreed(&pair, 1..=64);
    assert!(pair.counts.sent - sent <= 64 * 2 * 3 * 3, "{}", pair.counts.sent - sent);
    let steady = pair.counts.sent;
    pair.run_until(seconds(4303));
    assert_eq!(pair.counts.sent - steady, 64 * 2 * 120, "one in 30 s at each end");
    assert_eq!(pair.a.system.group(KEY).expect("a group").distributing.len(), 64);
}

/// All versions are read: the fields of the first are in all.
#[test]
fn later_versions_are_partners_too() {
    let mut lone = Lone::new(1, group());
    for _ in 0..5 {
        let pdu = Lacpdu { version: 2, ..lone.pdu(1, all_ready(1)[0].1) };
        lone.event(Event::Lacpdu { port: 1, pdu });
        lone.after(ms(600));
    }
    assert_eq!((lone.distributing(), lone.status(1).partner_version), (vec![1], Some(2)));
}
