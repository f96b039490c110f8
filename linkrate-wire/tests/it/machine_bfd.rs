//! Sessions of forwarding detection: how they come up, how fast they notice a failure, and that two
//! of them agree over any wire.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::lossy::{MS, SECOND, handled};
use crate::pair::{End, Pair, Wire};
use linkrate_wire::control::bfd::{Bfd, Diagnostic, State};
use linkrate_wire::machine::Machine;
use linkrate_wire::machine::bfd::{Action, Config, Event, Intervals, Session};
use proptest::prelude::*;

impl End for Session {
    type Message = [u8; 24];

    fn message(action: Action) -> Result<Self::Message, Action> {
        match action {
            Action::Send(packet) => Ok(packet.emit()),
            action => Err(action),
        }
    }

    fn arrival(message: Self::Message) -> Event {
        Event::Received(Bfd::parse(&message).expect("a packet of a session"))
    }
}

fn config(discriminator: u32) -> Config {
    Config::new(NonZeroU32::new(discriminator).expect("not 0"))
}

fn sessions(wire: Wire, seed: u64) -> Pair<Session, Session> {
    Pair::new(Session::new(config(1), seed), Session::new(config(2), seed + 1), wire, seed)
}

fn up(pair: &Pair<Session, Session>) -> bool {
    (pair.a.state(), pair.b.state()) == (State::Up, State::Up)
}

/// A pair that is up and has agreed on the fast interval.
fn up_for_a_while(wire: Wire) -> Pair<Session, Session> {
    let mut pair = sessions(wire, 1);
    pair.run_until(5 * SECOND);
    assert!(up(&pair));
    pair.reported_a.clear();
    pair.reported_b.clear();
    pair
}

/// What a session said, without the times.
fn changes(reported: &[(Duration, Action)]) -> Vec<(State, Diagnostic)> {
    let change = |(_, action): &(Duration, Action)| match action {
        Action::Changed { to, diagnostic, .. } => (*to, *diagnostic),
        Action::Send(packet) => panic!("a packet for its owner: {packet:?}"),
    };
    reported.iter().map(change).collect()
}

#[test]
fn three_packets_bring_a_session_up() {
    let mut pair = sessions(Wire::good(MS), 1);
    pair.run_until(10 * MS);
    assert!(up(&pair));
    let ups = [(State::Init, Diagnostic::None), (State::Up, Diagnostic::None)];
    let reported = [changes(&pair.reported_a), changes(&pair.reported_b)];
    assert!(
        reported.iter().all(|reported| *reported == ups || reported[..] == ups[1..]),
        "{reported:?}"
    );
    assert_eq!(pair.a.remote(), NonZeroU32::new(2));
    // polls are answered, so both have the fast interval
    pair.run_until(SECOND);
    for end in [&pair.a, &pair.b] {
        assert_eq!((end.interval(), end.detection_time()), (50 * MS, Some(150 * MS)));
    }
}

#[test]
fn packets_go_out_each_50_ms_less_a_quarter_at_most() {
    let mut pair = up_for_a_while(Wire::good(MS));
    let before = pair.counts.sent;
    pair.run_until(105 * SECOND);
    // two ends, 100 s, 37.5 to 50 ms between two packets and 43.75 on average
    let sent = pair.counts.sent - before;
    assert!((4500..4640).contains(&sent), "{sent}");
}

#[test]
fn a_session_that_is_not_up_sends_once_a_second() {
    let mut session = Session::new(config(1), 7);
    let mut actions = Vec::new();
    let mut times = Vec::new();
    while times.len() < 50 {
        let now = session.due().expect("it goes on sending");
        session.poll(now, &mut actions);
        times.push(now);
    }
    assert_eq!(actions.len(), 50);
    for pair in times.windows(2) {
        let gap = pair[1] - pair[0];
        assert!(gap >= 750 * MS && gap <= SECOND, "{gap:?}");
    }
    let Action::Send(packet) = actions[0] else { panic!("a packet") };
    assert_eq!((packet.state, packet.own, packet.other), (State::Down, 1, 0));
    assert_eq!((packet.desired_min_tx_us, packet.required_min_rx_us), (1_000_000, 50_000));
}

/// RFC 5880, 6.8.7: with a multiplier of 1, from 75 to 90 % of the interval.
#[test]
fn a_multiplier_of_one_keeps_a_margin() {
    let mut session = Session::new(Config { detect_multiplier: 1, ..config(1) }, 7);
    let mut last = None;
    for _ in 0..200 {
        let now = session.due().expect("it goes on sending");
        session.poll(now, &mut Vec::new());
        if let Some(gap) = last.map(|last| now - last) {
            assert!(gap >= 750 * MS && gap <= 900 * MS, "{gap:?}");
        }
        last = Some(now);
    }
}

#[test]
fn a_silent_failure_is_noticed_within_150_ms() {
    for seed in 0..20 {
        let mut pair = up_for_a_while(Wire::good(MS));
        pair.run_until(pair.now() + seed * 7 * MS);
        let cut = pair.now();
        pair.set_wire(Wire { lost: 1000, ..Wire::good(MS) });
        pair.run_until(cut + SECOND);
        for reported in [&pair.reported_a, &pair.reported_b] {
            assert_eq!(changes(reported), [(State::Down, Diagnostic::DetectionTimeExpired)]);
            let after = reported[0].0 - cut;
            // a packet that was sent before comes 1 ms later
            assert!(after > 90 * MS && after <= 151 * MS, "{after:?}");
        }
    }
}

/// Loss in one direction: the end that still hears is told so.
#[test]
fn loss_in_one_direction_takes_both_ends_down() {
    let mut pair = up_for_a_while(Wire::good(MS));
    let mut a = pair.a.clone();
    // b never hears a again, and a hears b
    let mut actions = Vec::new();
    let end = pair.now() + 200 * MS;
    while let Some(due) = pair.b.due().filter(|due| *due < end) {
        pair.b.poll(due, &mut actions);
        for action in actions.drain(..) {
            if let Action::Send(packet) = action {
                a.handle(due, Event::Received(packet), &mut Vec::new());
            }
        }
    }
    assert_eq!(
        (pair.b.state(), pair.b.diagnostic()),
        (State::Down, Diagnostic::DetectionTimeExpired)
    );
    assert_eq!((a.state(), a.diagnostic()), (State::Down, Diagnostic::NeighborDown));
}

#[test]
fn a_link_that_works_again_comes_up_again() {
    let mut pair = up_for_a_while(Wire::good(MS));
    pair.set_wire(Wire { lost: 1000, ..Wire::good(MS) });
    pair.run_until(pair.now() + 10 * SECOND);
    assert_eq!((pair.a.remote(), pair.a.detection_time()), (None, None));
    pair.set_wire(Wire::good(MS));
    let mended = pair.now();
    while !up(&pair) {
        assert!(pair.now() < mended + 2 * SECOND, "within two slow packets");
        pair.run_until(pair.now() + 10 * MS);
    }
}

#[test]
fn the_delay_of_the_owner_is_no_silence_of_the_other_end() {
    let pair = up_for_a_while(Wire::good(MS));
    let deadline = |session: &Session| {
        let mut probe = session.clone();
        let mut now = 5 * SECOND;
        while probe.state() == State::Up {
            now = probe.due().expect("a session that is up has a deadline").max(now);
            probe.poll(now, &mut Vec::new());
        }
        now
    };
    let mut delayed = pair.a.clone();
    delayed.handle(5 * SECOND, Event::Delayed(70 * MS), &mut Vec::new());
    assert_eq!(deadline(&delayed), deadline(&pair.a) + 70 * MS);
}

#[test]
fn lost_carrier_is_known_at_once() {
    let mut pair = up_for_a_while(Wire::good(MS));
    pair.handle_a(Event::PathDown);
    assert_eq!(changes(&pair.reported_a), [(State::Down, Diagnostic::PathDown)]);
}

#[test]
fn an_owner_switches_the_session_off_and_on() {
    let mut pair = up_for_a_while(Wire::good(MS));
    pair.handle_a(Event::Disable);
    pair.run_until(pair.now() + 5 * SECOND);
    let off = (State::AdminDown, Diagnostic::AdministrativelyDown);
    assert_eq!(changes(&pair.reported_a), [off]);
    assert_eq!(changes(&pair.reported_b), [(State::Down, Diagnostic::NeighborDown)]);
    assert!(pair.reported_b[0].0 < pair.reported_a[0].0 + 2 * MS, "told, not timed out");
    assert_eq!((pair.a.is_switched_off(), pair.b.is_switched_off()), (false, true));
    // twice makes no difference
    pair.handle_a(Event::Disable);
    assert_eq!(pair.reported_a.len(), 1);
    pair.handle_a(Event::Enable);
    pair.run_until(pair.now() + 3 * SECOND);
    assert!(up(&pair) && !pair.b.is_switched_off());
}

/// The slower end decides in each direction (RFC 5880, 6.8.2).
#[test]
fn each_direction_has_the_larger_of_two_intervals() {
    let intervals = |tx, rx| Intervals { desired_min_tx_us: tx, required_min_rx_us: rx };
    let a = Config { intervals: intervals(20_000, 100_000), detect_multiplier: 5, ..config(1) };
    let b = Config { intervals: intervals(30_000, 70_000), ..config(2) };
    let mut pair = Pair::new(Session::new(a, 1), Session::new(b, 2), Wire::good(MS), 1);
    pair.run_until(5 * SECOND);
    assert!(up(&pair));
    assert_eq!((pair.a.interval(), pair.b.interval()), (70 * MS, 100 * MS));
    let detection = (pair.a.detection_time(), pair.b.detection_time());
    assert_eq!(detection, (Some(300 * MS), Some(350 * MS)));
}

/// Slower packets begin when the other end has said that it knows, so that it does not time out.
#[test]
fn new_intervals_take_a_poll_and_no_failure() {
    for us in [500_000, 5_000, 50_000] {
        let mut pair = up_for_a_while(Wire::good(20 * MS));
        pair.handle_a(Event::Set(Intervals::both(us)));
        pair.handle_b(Event::Set(Intervals::both(us)));
        assert_eq!(pair.a.interval(), 50 * MS);
        pair.run_until(pair.now() + 10 * SECOND);
        assert!(pair.reported_a.is_empty() && pair.reported_b.is_empty(), "{us}");
        let interval = Duration::from_micros(us.into());
        assert_eq!((pair.a.interval(), pair.b.interval()), (interval, interval));
        assert_eq!(pair.a.detection_time(), Some(3 * interval));
    }
}

/// The other end waits for as many packets as the last packet said.
#[test]
fn a_new_multiplier_takes_effect_with_the_next_packet() {
    let mut pair = up_for_a_while(Wire::good(MS));
    pair.handle_a(Event::SetMultiplier(10));
    pair.run_until(pair.now() + SECOND);
    assert!(pair.reported_a.is_empty() && pair.reported_b.is_empty());
    let detection = (pair.a.detection_time(), pair.b.detection_time());
    assert_eq!(detection, (Some(150 * MS), Some(500 * MS)));
    pair.handle_a(Event::SetMultiplier(0));
    pair.run_until(pair.now() + SECOND);
    assert_eq!(pair.b.detection_time(), Some(50 * MS), "0 would be no packet");
}

fn packet(state: State, other: u32) -> Bfd {
    Bfd {
        diagnostic: Diagnostic::None,
        state,
        poll: false,
        is_final: false,
        control_plane_independent: false,
        demand: false,
        detect_multiplier: 3,
        own: 9,
        other,
        desired_min_tx_us: 50_000,
        required_min_rx_us: 50_000,
        required_min_echo_rx_us: 0,
    }
}

#[test]
fn packets_for_another_session_are_ignored() {
    let mut session = Session::new(config(1), 7);
    let ignored = handled(&mut session, MS, Event::Received(packet(State::Init, 8)));
    assert_eq!((session.state(), ignored.len(), session.remote()), (State::Down, 0, None));
    handled(&mut session, MS, Event::Received(packet(State::Init, 1)));
    assert_eq!(session.state(), State::Up);
}

/// A partner in demand mode wants no periodic packets, and one that requires 0 never any.
#[test]
fn a_partner_can_ask_for_silence() {
    let quiet = [
        Bfd { demand: true, ..packet(State::Up, 1) },
        Bfd { required_min_rx_us: 0, ..packet(State::Up, 1) },
    ];
    for quiet in quiet {
        let mut session = Session::new(config(1), 7);
        let mut actions = Vec::new();
        session.handle(MS, Event::Received(packet(State::Init, 1)), &mut actions);
        let answered = Bfd { is_final: true, ..quiet };
        session.handle(2 * MS, Event::Received(answered), &mut actions);
        actions.clear();
        let due = session.due().expect("the detection time");
        assert_eq!(due, 152 * MS);
        session.poll(due - MS, &mut actions);
        assert_eq!(actions, []);
        // a poll is answered all the same, for as long as it takes
        for round in 0..100 {
            let poll = Bfd { poll: true, ..quiet };
            session.handle((100 + 50 * round) * MS, Event::Received(poll), &mut actions);
        }
        let answers = actions.iter().filter(
            |action| matches!(action, Action::Send(packet) if packet.is_final && !packet.poll),
        );
        assert_eq!(answers.count(), 100);
    }
}

/// RFC 5880, 6.5 and 6.8.3: the answer to a poll is for the intervals that the poll told, and not for
/// those that were set since.
#[test]
fn a_final_acknowledges_the_intervals_of_its_poll_alone() {
    let mut session = Session::new(config(1), 7);
    let mut actions = Vec::new();
    let answer = Bfd { is_final: true, ..packet(State::Up, 1) };
    session.handle(MS, Event::Received(packet(State::Init, 1)), &mut actions);
    session.handle(2 * MS, Event::Received(answer), &mut actions);
    let polled = |session: &mut Session| {
        let mut actions = Vec::new();
        let due = session.due().expect("a packet");
        session.poll(due, &mut actions);
        let [Action::Send(packet)] = actions[..] else { panic!("{actions:?}") };
        assert!(packet.poll);
        (packet.desired_min_tx_us, due)
    };
    session.handle(3 * MS, Event::Set(Intervals::both(100_000)), &mut actions);
    let (told, at) = polled(&mut session);
    assert_eq!(told, 100_000);
    session.handle(at, Event::Set(Intervals::both(1_000_000)), &mut actions);
    // the poll goes on as it began
    let (told, at) = polled(&mut session);
    assert_eq!((told, session.interval()), (100_000, 50 * MS));
    session.handle(at, Event::Received(answer), &mut actions);
    assert_eq!(session.interval(), 100 * MS);
    // the answer to its second packet is none to the poll that follows, which has not gone out
    session.handle(at + MS, Event::Received(answer), &mut actions);
    assert_eq!(session.interval(), 100 * MS);
    let (told, at) = polled(&mut session);
    assert_eq!(told, 1_000_000);
    session.handle(at, Event::Received(answer), &mut actions);
    assert_eq!(session.interval(), SECOND);
    // an interval that shrinks is used at once, also under a poll
    session.handle(at, Event::Set(Intervals::both(2_000_000)), &mut actions);
    let (_, at) = polled(&mut session);
    session.handle(at, Event::Set(Intervals::both(60_000)), &mut actions);
    assert_eq!(session.interval(), 60 * MS);
    session.handle(at, Event::Received(answer), &mut actions);
    assert_eq!(session.interval(), 60 * MS);
}

/// However fast a partner polls or changes its state, packets out of turn are few.
#[test]
fn a_partner_that_floods_gets_few_answers() {
    let states = [State::Down, State::Init, State::Up, State::AdminDown];
    for kinds in [&states[2..3], &states[..], &states[..2]] {
        let mut session = Session::new(config(1), 7);
        let mut actions = Vec::new();
        for round in 0..100_000u32 {
            let now = Duration::from_micros(10) * round;
            let state = kinds[round as usize % kinds.len()];
            let poll = Bfd { poll: true, ..packet(state, 1) };
            session.handle(now, Event::Received(poll), &mut actions);
            if session.due().is_some_and(|due| due <= now) {
                session.poll(now, &mut actions);
            }
        }
        let sent = actions.iter().filter(|action| matches!(action, Action::Send(_))).count();
        // in one second: 20 to 27 in turn, and eight for each interval
        assert!(sent < 200, "{sent} for {kinds:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the wire did, two ends agree a while after it works again, and stay up.
    #[test]
    fn two_ends_agree_in_the_end(
        seed: u64, lost in 0u64..900, doubled in 0u64..300,
        least in 0u32..100, more in 0u32..300, cut in any::<bool>(),
        a_us in 5_000u32..200_000, b_us in 5_000u32..200_000, multiplier in 1u8..6,
    ) {
        let seed = seed % (u64::MAX - 1);
        let wire = Wire { lost, doubled, delay: least * MS..=(least + more) * MS };
        let of = |discriminator, us| Session::new(
            Config {
                intervals: Intervals::both(us), detect_multiplier: multiplier, ..config(discriminator)
            },
            seed + u64::from(discriminator),
        );
        let mut pair = Pair::new(of(1, a_us), of(2, b_us), wire, seed);
        pair.run_until(5 * SECOND);
        if cut {
            pair.handle_a(Event::PathDown);
        }
        let delay = Duration::from_micros(100);
        pair.set_wire(Wire::good(delay));
        pair.run_until(20 * SECOND);
        prop_assert!(up(&pair), "{:?} {:?}", pair.a, pair.b);
        pair.reported_a.clear();
        pair.reported_b.clear();
        pair.run_until(40 * SECOND);
        prop_assert!(pair.reported_a.is_empty() && pair.reported_b.is_empty());
        let interval = Duration::from_micros(a_us.max(b_us).into());
        prop_assert_eq!((pair.a.interval(), pair.b.interval()), (interval, interval));
        prop_assert_eq!(pair.a.detection_time(), Some(interval * multiplier.into()));
    }

    /// No end is up that the other has not heard: before each change to up, the other left down.
    #[test]
    fn no_end_is_up_alone(seed: u64, lost in 0u64..1000, more in 0u32..300) {
        let seed = seed % (u64::MAX - 1);
        let wire = Wire { lost, doubled: 100, delay: MS..=(1 + more) * MS };
        let mut pair = sessions(wire, seed);
        pair.run_until(60 * SECOND);
        let came = |reported: &[(Duration, Action)], state| {
            reported.iter().find(|(_, action)| {
                matches!(action, Action::Changed { to, .. } if state == *to)
            }).map(|(at, _)| *at)
        };
        for (one, other) in [(&pair.reported_a, &pair.reported_b), (&pair.reported_b, &pair.reported_a)] {
            let Some(up) = came(one, State::Up) else { continue };
            let heard = [State::Init, State::Up].into_iter().filter_map(|state| came(other, state));
            prop_assert!(heard.min().is_some_and(|heard| heard < up));
        }
    }

    /// A wire whose delay varies by less than two intervals causes no failure.
    #[test]
    fn a_late_packet_is_no_failure(seed: u64, more in 0u32..90) {
        let seed = seed % (u64::MAX - 1);
        let mut pair = sessions(Wire::good(MS), seed);
        pair.run_until(5 * SECOND);
        prop_assert!(up(&pair));
        pair.reported_a.clear();
        pair.reported_b.clear();
        pair.set_wire(Wire { lost: 0, doubled: 50, delay: MS..=(1 + more) * MS });
        pair.run_until(60 * SECOND);
        prop_assert!(pair.reported_a.is_empty() && pair.reported_b.is_empty());
    }
}
