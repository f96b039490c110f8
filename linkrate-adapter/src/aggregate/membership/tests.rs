//! Both ends of an aggregate in virtual time.

use linkrate_terms::Balance;

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
