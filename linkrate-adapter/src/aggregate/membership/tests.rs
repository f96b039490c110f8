//! Both ends of an aggregate in virtual time.

mod lossy;

use linkrate_model::Balance;
use linkrate_wire::control::lan_monitor;

use super::*;

const UP: PortLink = PortLink { up: true, rate: Some(BitRate(1e9)) };
const DOWN: PortLink = PortLink { up: false, rate: Some(BitRate(1e9)) };

/// A host and a switch with links between them.
struct Ends {
    ends: [Membership; 2],
    now: Duration,
}

impl Ends {
    fn new(mode: AggregateMode, links: usize) -> Self {
        let knobs = AggregateKnobs { mode, aggregate: links as u32, ..AggregateKnobs::default() };
        let end =
            |role, last| Membership::new(role, MacAddress([2, 0, 0, 0, last, 0]), knobs.clone());
        let mut ends =
            Self { ends: [end(Role::Host, 1), end(Role::Switch, 2)], now: Duration::from_secs(5) };
        (0..links).for_each(|link| ends.set_link(link, UP));
        ends
    }

    fn set_link(&mut self, at: usize, link: PortLink) {
        for end in [0, 1] {
            let mut messages = Vec::new();
            self.ends[end].set_link(self.now, at, link, &mut messages);
            self.deliver(end, messages);
        }
    }

    fn deliver(&mut self, from: usize, messages: Vec<Message>) {
        for (at, frame) in messages {
            let mut answers = Vec::new();
            self.ends[1 - from].receive(self.now, at, &frame, &mut answers);
            self.deliver(1 - from, answers);
        }
    }

    /// Runs for a time, as the threads do: each end is polled when it is due.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let due = self.ends.iter().filter_map(Membership::due).min();
            let Some(due) = due.filter(|due| *due <= end) else { break };
            self.now = self.now.max(due);
            for end in [0, 1] {
                let mut messages = Vec::new();
                self.ends[end].poll(self.now, &mut messages);
                self.deliver(end, messages);
            }
        }
        self.now = end;
    }

    fn distributing(&self) -> [&[usize]; 2] {
        [self.ends[0].distributing(), self.ends[1].distributing()]
    }
}

#[test]
fn a_port_whose_link_comes_back_carries_traffic_again() {
    for mode in [AggregateMode::Manual, AggregateMode::Lacp] {
        let mut ends = Ends::new(mode, 3);
        ends.run(Duration::from_secs(5));
        assert_eq!(ends.distributing(), [&[0, 1, 2]; 2], "{mode}");
        ends.set_link(1, DOWN);
        assert_eq!(ends.distributing(), [&[0, 2]; 2], "{mode}");
        ends.run(Duration::from_secs(1));
        ends.set_link(1, UP);
        ends.run(WAIT_TO_RESTORE / 2);
        assert_eq!(ends.distributing(), [&[0, 2]; 2], "{mode}");
        ends.run(Duration::from_secs(5));
        let end_now = ends.now;
        let status = ends.ends.each_ref().map(|end| end.state(end_now, 1).lacp);
        assert_eq!(ends.distributing(), [&[0, 1, 2]; 2], "{mode}: {status:#?}");
    }
}

#[test]
fn the_only_link_is_used_at_once() {
    let mut ends = Ends::new(AggregateMode::Manual, 2);
    ends.set_link(0, DOWN);
    ends.set_link(1, DOWN);
    assert_eq!(ends.distributing(), [&[] as &[usize]; 2]);
    ends.set_link(1, UP);
    assert_eq!(ends.distributing(), [&[1]; 2]);
    // the other one waits
    ends.run(Duration::from_millis(10));
    ends.set_link(0, UP);
    assert_eq!(ends.distributing(), [&[1]; 2]);
    ends.run(WAIT_TO_RESTORE);
    assert_eq!(ends.distributing(), [&[0, 1]; 2]);
}

#[test]
fn frames_are_taken_for_a_while_from_a_port_that_was_told_to_leave() {
    for mode in [AggregateMode::Manual, AggregateMode::Lacp] {
        let mut ends = Ends::new(mode, 2);
        ends.run(Duration::from_secs(5));
        let mut messages = Vec::new();
        ends.ends[0].remove(ends.now, 1, &mut messages);
        ends.deliver(0, messages);
        assert_eq!(ends.ends[0].distributing(), [0], "{mode}");
        assert_eq!(ends.ends[0].collecting(), [0, 1], "{mode}");
        ends.run(GRACE);
        assert_eq!(ends.ends[0].collecting(), [0], "{mode}");
        if mode == AggregateMode::Lacp {
            assert_eq!(ends.ends[1].distributing(), [0], "the partner was told");
        }
    }
}

#[test]
fn the_mode_changes_under_way() {
    let mut ends = Ends::new(AggregateMode::Manual, 2);
    let set = |ends: &mut Ends, mode: AggregateMode| {
        for end in [0, 1] {
            let knobs = AggregateKnobs { mode, balance: Balance::Ip, ..AggregateKnobs::default() };
            let mut messages = Vec::new();
            ends.ends[end].set_knobs(ends.now, knobs, &mut messages);
            ends.deliver(end, messages);
        }
    };
    set(&mut ends, AggregateMode::Lacp);
    assert_eq!(ends.distributing(), [&[] as &[usize]; 2]);
    ends.run(Duration::from_secs(4));
    assert_eq!(ends.distributing(), [&[0, 1]; 2]);
    assert!(ends.ends[0].state(ends.now, 0).lacp.is_some());
    set(&mut ends, AggregateMode::Manual);
    assert_eq!(ends.distributing(), [&[0, 1]; 2]);
    assert!(ends.ends[0].state(ends.now, 0).lacp.is_none());
}

#[test]
fn a_flow_is_quiet_when_its_frames_have_left_the_slowest_port() {
    let mut ends = Ends::new(AggregateMode::Manual, 2);
    ends.set_link(1, PortLink { rate: Some(BitRate(1e8)), ..UP });
    assert_eq!(ends.ends[0].quiet_ps(1250), MARGIN_PS + 100_000_000);
    let none = Membership::new(Role::Host, MacAddress([2; 6]), AggregateKnobs::default());
    assert_eq!(none.quiet_ps(1250), MARGIN_PS);
}

/// The host's end alone, in LACP with three links, with other settings.
fn lacp(change: impl FnOnce(&mut AggregateKnobs)) -> Ends {
    let mut ends = Ends::new(AggregateMode::Lacp, 3);
    ends.run(Duration::from_secs(5));
    assert_eq!(ends.distributing(), [&[0, 1, 2]; 2]);
    let mut knobs = ends.ends[0].knobs().clone();
    change(&mut knobs);
    for end in [0, 1] {
        let mut messages = Vec::new();
        ends.ends[end].set_knobs(ends.now, knobs.clone(), &mut messages);
        ends.deliver(end, messages);
    }
    ends.run(Duration::from_secs(8));
    ends
}

#[test]
fn of_most_active_ports_the_preferred_one_is_active_and_others_stand_by() {
    let mut ends = lacp(|knobs| (knobs.max_active, knobs.preferred_port) = (1, 2));
    assert_eq!(ends.distributing(), [&[2]; 2]);
    let selection = |ends: &Ends, at| {
        ends.ends[0].state(ends.now, at).lacp.map(|lacp| lacp.selection.to_string())
    };
    assert_eq!(selection(&ends, 0).as_deref(), Some("standby"));
    ends.set_link(2, DOWN);
    ends.run(Duration::from_secs(3));
    assert_eq!(ends.distributing(), [&[0]; 2]);
    ends.set_link(2, UP);
    ends.run(Duration::from_secs(8));
    assert_eq!(ends.distributing(), [&[2]; 2], "the preferred port takes its place again");
    // and all of them with the knob lifted
    let knobs = AggregateKnobs { max_active: 0, ..ends.ends[0].knobs().clone() };
    let mut messages = Vec::new();
    ends.ends[0].set_knobs(ends.now, knobs, &mut messages);
    ends.deliver(0, messages);
    ends.run(Duration::from_secs(8));
    assert_eq!(ends.distributing(), [&[0, 1, 2]; 2]);
}

#[test]
fn the_priority_of_the_system_is_told_to_the_partner() {
    let ends = lacp(|knobs| knobs.system_priority = 7);
    assert_eq!(ends.distributing(), [&[0, 1, 2]; 2]);
    let seen = ends.ends[1].state(ends.now, 0).lacp.and_then(|lacp| lacp.partner);
    assert_eq!(seen.map(|partner| partner.system.priority), Some(7));
    let own = ends.ends[1].state(ends.now, 0).lacp.map(|lacp| lacp.actor.system.priority);
    assert_eq!(own, Some(PRIORITY), "the switch keeps its own");
}

#[test]
fn a_link_of_another_speed_stays_out_and_says_so() {
    let mut ends = Ends::new(AggregateMode::Lacp, 3);
    ends.set_link(2, PortLink { rate: Some(BitRate(1e8)), ..UP });
    ends.run(Duration::from_secs(8));
    assert_eq!(ends.distributing(), [&[0, 1]; 2]);
    let selection = ends.ends[0].state(ends.now, 2).lacp.map(|lacp| lacp.selection.to_string());
    assert!(selection.as_ref().is_some_and(|why| why.contains("speed")), "{selection:?}");
}

#[test]
fn a_marker_ends_with_the_answer_of_the_partner_or_without() {
    let mut ends = lacp(|knobs| knobs.marker = true);
    assert!(ends.ends[0].asks_partner());
    let ask = |ends: &mut Ends, at, transaction| {
        let mut messages = Vec::new();
        ends.ends[0].request_marker(ends.now, at, transaction, &mut messages);
        messages
    };
    let messages = ask(&mut ends, 1, 7);
    assert_eq!((messages.len(), messages[0].0), (1, 1));
    assert!(ends.ends[0].take_ended_markers().is_empty(), "nobody has answered");
    ends.deliver(0, messages);
    assert_eq!(ends.ends[0].take_ended_markers(), [7]);
    let counters = ends.ends[0].state(ends.now, 1).lacp.map(|lacp| lacp.counters);
    let of_markers = counters.map(|one| (one.marker_pdus_tx, one.marker_response_pdus_rx));
    assert_eq!(of_markers, Some((1, 1)));
    // a partner that does not answer, and a port that is gone
    drop(ask(&mut ends, 0, 8));
    ends.run(GRACE);
    assert_eq!(ends.ends[0].take_ended_markers(), [8]);
    drop(ask(&mut ends, 9, 9));
    assert_eq!(ends.ends[0].take_ended_markers(), [9]);
}

#[test]
fn a_failover_group_moves_at_once_announces_and_returns_if_told() {
    for revert in [false, true] {
        let knobs = AggregateKnobs {
            mode: AggregateMode::Failover,
            revert,
            poll_interval: 100,
            ..AggregateKnobs::default()
        };
        let mut host = Membership::new(Role::Host, MacAddress([2, 0, 0, 0, 1, 0]), knobs);
        let address = Address { ip: [198, 18, 0, 1].into(), vlan: 0 };
        let mut now = Duration::from_secs(5);
        host.set_addresses(now, vec![address]);
        let mut messages = Vec::new();
        (0..2).for_each(|at| host.set_link(now, at, UP, &mut messages));
        assert_eq!((host.collecting(), host.distributing()), (&[0][..], &[0][..]));
        messages.clear();
        host.set_link(now, 0, DOWN, &mut messages);
        assert_eq!((host.collecting(), host.distributing()), (&[1][..], &[1][..]));
        // to all stations, from the address of the aggregate, by the new port
        let announced = |(at, frame): &Message| *at == 1 && frame.starts_with(&[255; 6]);
        assert!(messages.iter().any(announced), "{messages:x?}");
        // the link works again, and all ports hear each other
        host.set_link(now, 0, UP, &mut messages);
        for _ in 0..400 {
            now += Duration::from_millis(10);
            let mut sent = Vec::new();
            host.poll(now, &mut sent);
            for (from, frame) in sent {
                let mut none = Vec::new();
                host.receive(now, 1 - from, &frame, &mut none);
            }
        }
        let expected: &[usize] = if revert { &[0] } else { &[1] };
        assert_eq!(host.distributing(), expected, "revert {revert}");
        assert_eq!(host.moves(), 1 + u64::from(revert));
    }
}

#[test]
fn a_failover_group_that_begins_anew_has_no_past() {
    let mode = AggregateMode::Failover;
    let knobs = AggregateKnobs { mode, poll_interval: 100, ..AggregateKnobs::default() };
    let mut host = Membership::new(Role::Host, MacAddress([2, 0, 0, 0, 1, 0]), knobs);
    let now = Duration::from_secs(5);
    host.set_addresses(now, vec![Address { ip: [198, 18, 0, 1].into(), vlan: 0 }]);
    let mut messages = Vec::new();
    (0..2).for_each(|at| host.set_link(now, at, UP, &mut messages));
    let fail = |host: &mut Membership, at| {
        for link in [DOWN, UP] {
            host.set_link(now, at, link, &mut Vec::new());
        }
        host.state(now, at).failover.and_then(|port| port.held)
    };
    let once = fail(&mut host, 0);
    assert_eq!(fail(&mut host, 0), once.map(|held| 2 * held), "the past counts");
    assert_eq!((host.distributing(), host.moves()), (&[1][..], 1));
    messages.clear();
    host.begin_anew(now, &mut messages);
    assert_eq!((host.distributing(), host.moves()), (&[0][..], 1), "a beginning is no move");
    assert_eq!(host.collecting(), [0, 1], "frames are on their way to the port before");
    let held = |at| host.state(now, at).failover.and_then(|port| port.held);
    assert_eq!([0, 1].map(held), [None; 2]);
    // the switch learns where the group is now
    let announced = |(at, frame): &Message| *at == 0 && frame.starts_with(&[255; 6]);
    assert!(messages.iter().any(announced), "{messages:x?}");
    assert_eq!(fail(&mut host, 0), once);
    assert_eq!((host.distributing(), host.moves()), (&[1][..], 2));
    // no move must follow
    fail(&mut host, 1);
    assert_eq!(host.distributing(), [0]);
    let knobs = AggregateKnobs { revert: true, preferred_port: 1, ..host.knobs().clone() };
    host.set_knobs(now, knobs, &mut messages);
    host.begin_anew(now, &mut messages);
    assert_eq!((host.distributing(), host.moves()), (&[1][..], 3));
    // an aggregate of several active ports has no such past
    let mut ends = Ends::new(AggregateMode::Lacp, 2);
    ends.run(Duration::from_secs(5));
    let (changes, mut messages) = (ends.ends[0].changes(), Vec::new());
    ends.ends[0].begin_anew(ends.now, &mut messages);
    assert_eq!((ends.ends[0].changes(), messages.len()), (changes, 0));
    assert_eq!(ends.distributing(), [&[0, 1]; 2]);
}
