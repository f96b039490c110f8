//! Both ends with wires between them that lose, delay and duplicate frames, and that fail in silence. A
//! wire keeps the order of its frames.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;

const HOST: usize = 0;
const SWITCH: usize = 1;
const MS: Duration = Duration::from_millis(1);

/// The times that ports began to carry traffic, and what was wrong with that.
#[derive(Debug, Default)]
struct Watch {
    distributing: [Vec<usize>; 2],
    /// When each end last collected from a link.
    collected: BTreeMap<(usize, usize), Duration>,
}

/// Wires between a host and a switch.
struct Wires {
    ends: [Membership; 2],
    now: Duration,
    /// Frames on their way, by time and number: to which end, by which link.
    frames: BTreeMap<(Duration, u64), (usize, usize, Vec<u8>)>,
    count: u64,
    /// When the last frame from an end arrives, by link: none overtakes it.
    arrivals: Vec<[Duration; 2]>,
    random: ChaCha8Rng,
    /// The chance, in 256, that a frame is lost, and that it comes twice.
    loss: u8,
    duplicates: u8,
    longest: Duration,
    /// Links whose frames from an end are lost.
    silent: Vec<[bool; 2]>,
    /// No frame was lost so far, except by a link that is down.
    reliable: bool,
    watch: Watch,
}

impl Wires {
    fn new(knobs: &AggregateKnobs, links: usize, seed: u64) -> Self {
        let knobs = AggregateKnobs { aggregate: links as u32, ..knobs.clone() };
        let end =
            |role, last| Membership::new(role, MacAddress([2, 0, 0, 0, last, 0]), knobs.clone());
        let mut wires = Self {
            ends: [end(Role::Host, 1), end(Role::Switch, 2)],
            now: Duration::from_secs(5),
            frames: BTreeMap::new(),
            count: 0,
            arrivals: vec![[Duration::ZERO; 2]; links],
            random: ChaCha8Rng::seed_from_u64(seed),
            loss: 0,
            duplicates: 0,
            longest: MS,
            silent: vec![[false; 2]; links],
            reliable: true,
            watch: Watch::default(),
        };
        (0..links).for_each(|link| wires.set_link(link, UP));
        wires
    }

    fn set_link(&mut self, at: usize, link: PortLink) {
        if !link.up {
            // what is on a wire that fails is lost; a session of a new link must not meet it
            self.frames.retain(|_, (_, link, _)| *link != at);
        }
        for end in [0, 1] {
            let mut messages = Vec::new();
            self.ends[end].set_link(self.now, at, link, &mut messages);
            self.send(end, messages);
        }
        self.look();
    }

    fn set_knobs(&mut self, knobs: &AggregateKnobs) {
        for end in [0, 1] {
            let mut messages = Vec::new();
            self.ends[end].set_knobs(self.now, knobs.clone(), &mut messages);
            self.send(end, messages);
        }
        self.look();
    }

    fn is_up(&self, link: usize) -> bool {
        self.ends[HOST].ports[link].is_some_and(|port| port.link.up)
    }

    fn send(&mut self, from: usize, messages: Vec<Message>) {
        for (link, frame) in messages {
            let copies = 1 + u64::from(self.random.next_u32() as u8 >= 255 - self.duplicates);
            for _ in 0..copies {
                let lost = (self.random.next_u32() as u8) < self.loss;
                if lost || self.silent[link][from] || !self.is_up(link) {
                    self.reliable &= !self.is_up(link);
                    continue;
                }
                let span = self.longest.as_nanos() as u64;
                let delay = Duration::from_nanos(self.random.next_u64() % span + 1000);
                self.count += 1;
                let entry = (1 - from, link, frame.clone());
                let arrival = &mut self.arrivals[link][from];
                *arrival = (*arrival).max(self.now + delay);
                self.frames.insert((*arrival, self.count), entry);
            }
        }
    }

    fn deliver(&mut self, to: usize, link: usize, frame: &[u8]) {
        if !self.is_up(link) {
            return;
        }
        if to != HOST && frame.starts_with(&lan_monitor::GROUP.0) {
            // the switch floods polls, as every frame to a group of stations
            let others = (0..self.silent.len()).filter(|other| *other != link);
            let copies = others.map(|other| (other, frame.to_vec())).collect();
            return self.send(to, copies);
        }
        let mut answers = Vec::new();
        self.ends[to].receive(self.now, link, frame, &mut answers);
        self.send(to, answers);
    }

    /// Runs until `end`: frames arrive, and each end is polled when it is due.
    fn run_until(&mut self, end: Duration) {
        loop {
            let due = self.ends.iter().filter_map(Membership::due).min();
            let arrival = self.frames.keys().next().map(|(at, _)| *at);
            let next = [due, arrival].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.frames.first_entry().filter(|one| one.key().0 <= self.now)
            {
                let (to, link, frame) = entry.remove();
                self.deliver(to, link, &frame);
                self.look();
            }
            for from in [0, 1] {
                let mut messages = Vec::new();
                self.ends[from].poll(self.now, &mut messages);
                assert!(
                    self.ends[from].due().is_none_or(|due| due > self.now),
                    "still due after a poll"
                );
                self.send(from, messages);
                self.look();
            }
        }
        self.now = end;
    }

    fn run(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    /// Checks what holds at every moment.
    fn look(&mut self) {
        let failover = self.ends[HOST].knobs().mode == AggregateMode::Failover;
        for end in [0, 1] {
            for link in 0..self.silent.len() {
                if self.ends[end].collects(link) {
                    self.watch.collected.insert((end, link), self.now);
                }
            }
        }
        let alike = self.ends[HOST].knobs().bfd == self.ends[SWITCH].knobs().bfd;
        for end in [0, 1] {
            let distributing = self.ends[end].distributing().to_vec();
            for link in &distributing {
                assert!(self.is_up(*link), "end {end} sends on link {link}, which is down");
                assert!(
                    self.ends[end].collects(*link),
                    "end {end} sends on {link} and takes nothing"
                );
                let begins = !self.watch.distributing[end].contains(link);
                let partner = self.watch.collected.get(&(1 - end, *link));
                // the partner may have stopped while its last word was on the way; and where its next word
                // is lost, the last one holds until the time-out of LACP, or the detection time of BFD
                let believed = match (self.reliable, self.ends[HOST].speaks_lacp()) {
                    (true, _) => Duration::ZERO,
                    (false, true) => Duration::from_secs(3),
                    (false, false) => 150 * MS,
                };
                let latest = 2 * self.longest + believed;
                let accepted = partner.is_some_and(|at| *at + latest >= self.now);
                // an end without BFD does not know that the other one lacks a session
                let knows = alike || self.ends[end].knobs().bfd;
                assert!(
                    !begins || failover || accepted || !knows,
                    "end {end}, link {link}: {partner:?}"
                );
            }
            if failover {
                assert!(distributing.len() <= 1, "end {end}: {distributing:?}");
            }
            self.watch.distributing[end] = distributing;
        }
    }

    /// Whether every end agrees that all links are used, or with failover that one is.
    fn is_in_order(&self) -> bool {
        let all: Vec<usize> = (0..self.silent.len()).collect();
        match self.ends[HOST].knobs().mode {
            AggregateMode::Failover => self.ends[HOST].distributing().len() == 1,
            AggregateMode::Lacp | AggregateMode::Manual => {
                self.ends.iter().all(|end| end.distributing() == all && end.collecting() == all)
            }
        }
    }

    fn states(&self) -> String {
        let links = 0..self.silent.len();
        let of = |end: &Membership| links.clone().map(|at| end.state(self.now, at)).collect();
        let [host, switch]: [Vec<PortState>; 2] = self.ends.each_ref().map(of);
        format!("host {host:#?}\nswitch {switch:#?}")
    }
}

fn knobs(mode: AggregateMode, bfd: bool) -> AggregateKnobs {
    AggregateKnobs { mode, bfd, poll_interval: 100, ..AggregateKnobs::default() }
}

const MODES: [AggregateMode; 3] =
    [AggregateMode::Manual, AggregateMode::Lacp, AggregateMode::Failover];

#[derive(Debug, Clone, Copy)]
enum Fault {
    Down,
    Up,
    Silent([bool; 2]),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::Down),
        Just(Fault::Up),
        Just(Fault::Silent([true, false])),
        Just(Fault::Silent([false, true])),
        Just(Fault::Silent([true, true])),
        Just(Fault::Silent([false, false])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever happens to the links, no end sends on a port that the other has not accepted, and when it
    /// is over both agree.
    #[test]
    fn ends_agree_in_the_end(
        mode in prop::sample::select(&MODES[..]),
        bfd in any::<bool>(),
        links in 2_usize..5,
        seed in any::<u64>(),
        (loss, duplicates) in (0_u8..60, 0_u8..60),
        faults in prop::collection::vec((0_u64..4000, 0_usize..5, fault()), 0..12),
    ) {
        let mut wires = Wires::new(&knobs(mode, bfd), links, seed);
        (wires.loss, wires.duplicates, wires.longest) = (loss, duplicates, 5 * MS);
        for (after_ms, link, fault) in faults {
            wires.run(Duration::from_millis(after_ms));
            let link = link % links;
            match fault {
                Fault::Down => wires.set_link(link, DOWN),
                Fault::Up => wires.set_link(link, UP),
                Fault::Silent(silent) => wires.silent[link] = silent,
            }
        }
        (wires.loss, wires.duplicates) = (0, 0);
        for link in 0..links {
            wires.silent[link] = [false; 2];
            wires.set_link(link, UP);
        }
        wires.run(Duration::from_secs(20));
        prop_assert!(wires.is_in_order(), "{}", wires.states());
    }

    /// A link that fails in silence one way or both carries nothing 150 ms later, at both ends.
    #[test]
    fn bfd_finds_a_silent_failure_within_150_ms(
        mode in prop::sample::select(&MODES[..]),
        silent in prop::sample::select(vec![[true, false], [false, true], [true, true]]),
        at_us in 0_u64..200_000,
        seed in any::<u64>(),
    ) {
        let mut wires = Wires::new(&knobs(mode, true), 3, seed);
        wires.run(Duration::from_secs(8) + Duration::from_micros(at_us));
        prop_assert!(wires.is_in_order(), "{}", wires.states());
        let gone = wires.ends[HOST].distributing()[0];
        wires.silent[gone] = silent;
        wires.run(150 * MS);
        for end in 0..2 {
            let distributing = wires.ends[end].distributing();
            prop_assert!(!distributing.contains(&gone), "end {}: {}", end, wires.states());
        }
        // the others continue
        let rest = if mode == AggregateMode::Failover { 1 } else { 2 };
        prop_assert_eq!(wires.ends[HOST].distributing().len(), rest);
        wires.silent[gone] = [false; 2];
        wires.run(Duration::from_secs(10));
        prop_assert!(wires.is_in_order(), "{}", wires.states());
    }

    /// A failover group leaves a port that fails in silence after the dead count.
    #[test]
    fn polls_find_a_silent_failure_after_the_dead_count(
        silent in prop::sample::select(vec![[true, false], [false, true], [true, true]]),
        links in 3_usize..6,
        seed in any::<u64>(),
    ) {
        let knobs = knobs(AggregateMode::Failover, false);
        let mut wires = Wires::new(&knobs, links, seed);
        wires.run(Duration::from_secs(20));
        prop_assert_eq!(wires.ends[HOST].moves(), 0, "the polls keep the group where it is");
        let gone = wires.ends[HOST].distributing()[0];
        wires.silent[gone] = silent;
        wires.run(100 * MS);
        prop_assert_eq!(wires.ends[HOST].distributing(), [gone]);
        wires.run(400 * MS);
        let now = wires.ends[HOST].distributing();
        prop_assert!(now.len() == 1 && now[0] != gone, "{:?}: {}", now, wires.states());
    }
}

#[test]
fn an_end_that_did_not_run_takes_no_session_for_lost() {
    let mut wires = Wires::new(&knobs(AggregateMode::Manual, true), 2, 1);
    wires.run(Duration::from_secs(5));
    assert!(wires.is_in_order(), "{}", wires.states());
    // the machine stalls for a second, and what was on the way comes after that
    wires.now += Duration::from_secs(1);
    let mut messages = Vec::new();
    wires.ends[HOST].poll(wires.now, &mut messages);
    wires.send(HOST, messages);
    wires.run(Duration::from_secs(1));
    let down = |end: &Membership| end.state(wires.now, 0).bfd.map(|bfd| bfd.losses);
    assert_eq!(wires.ends.each_ref().map(down), [Some(0); 2], "{}", wires.states());
    assert!(wires.is_in_order());
}

#[test]
fn the_intervals_of_bfd_are_knobs_that_change_under_way() {
    let timed = |bfd_interval, bfd_multiplier| AggregateKnobs {
        bfd_interval,
        bfd_multiplier,
        ..knobs(AggregateMode::Manual, true)
    };
    let mut wires = Wires::new(&timed(200, 5), 2, 1);
    wires.run(Duration::from_secs(10));
    let session = |wires: &Wires, end: usize| {
        let bfd = wires.ends[end].state(wires.now, 0).bfd.unwrap();
        (bfd.interval, bfd.detection_time, bfd.losses)
    };
    assert_eq!(session(&wires, HOST), (200 * MS, Some(1000 * MS), 0));
    for (interval, multiplier) in [(20, 3), (500, 2), (40, 4)] {
        wires.set_knobs(&timed(interval, multiplier));
        wires.run(Duration::from_secs(10));
        let time = Duration::from_millis(interval.into());
        for end in 0..2 {
            assert_eq!(session(&wires, end), (time, Some(time * multiplier), 0), "end {end}");
        }
        assert!(wires.is_in_order(), "{}", wires.states());
    }
    // found after the time that was asked for, and not before
    wires.silent[0] = [true; 2];
    wires.run(110 * MS);
    assert_eq!(wires.ends[HOST].distributing(), [0, 1]);
    wires.run(60 * MS);
    assert_eq!(wires.ends[HOST].distributing(), [1]);
}

/// A partner has a session only for a link that LACP works on (RFC 7130, 3). After a failure both come
/// back: LACP first, and then the session.
#[test]
fn a_partner_that_begins_bfd_after_lacp_is_met_again_after_a_failure() {
    let (both, lacp_alone) = (knobs(AggregateMode::Lacp, true), knobs(AggregateMode::Lacp, false));
    let mut wires = Wires::new(&both, 2, 1);
    wires.run(Duration::from_secs(10));
    assert!(wires.is_in_order(), "{}", wires.states());
    wires.silent[0] = [true; 2];
    wires.run(Duration::from_secs(1));
    assert_eq!(wires.ends[HOST].distributing(), [1]);
    // the partner gives the session up, as LACP does not work on the link
    let mut messages = Vec::new();
    wires.ends[SWITCH].set_knobs(wires.now, lacp_alone, &mut messages);
    wires.send(SWITCH, messages);
    wires.run(Duration::from_secs(6));
    wires.silent[0] = [false; 2];
    wires.run(Duration::from_secs(10));
    let lacp = wires.ends[HOST].state(wires.now, 0).lacp;
    assert_eq!(wires.ends[SWITCH].distributing(), [0, 1], "LACP of the partner: {lacp:?}");
    assert_eq!(wires.ends[HOST].distributing(), [] as [usize; 0], "without a session");
    let mut messages = Vec::new();
    wires.ends[SWITCH].set_knobs(wires.now, both, &mut messages);
    wires.send(SWITCH, messages);
    wires.run(Duration::from_secs(10));
    assert!(wires.is_in_order(), "{}", wires.states());
}

/// A session that is switched off tells nothing of the link (RFC 5880, 6.2).
#[test]
fn a_partner_that_switches_bfd_off_is_no_failure_of_the_link() {
    let mut wires = Wires::new(&knobs(AggregateMode::Lacp, true), 2, 1);
    wires.run(Duration::from_secs(10));
    assert!(wires.is_in_order(), "{}", wires.states());
    let losses =
        |wires: &Wires| [0, 1].map(|at| wires.ends[HOST].state(wires.now, at).bfd.unwrap().losses);
    let before = losses(&wires);
    let mut messages = Vec::new();
    let lacp_alone = knobs(AggregateMode::Lacp, false);
    wires.ends[SWITCH].set_knobs(wires.now, lacp_alone, &mut messages);
    wires.send(SWITCH, messages);
    // until the last packet is long ago
    for _ in 0..500 {
        wires.run(10 * MS);
        for at in 0..2 {
            let lacp = wires.ends[HOST].state(wires.now, at).lacp.unwrap();
            assert_eq!(lacp.selection.to_string(), "selected", "{}", wires.states());
        }
        assert_eq!(wires.ends[SWITCH].distributing(), [0, 1]);
    }
    assert_eq!(losses(&wires), before.map(|losses| losses + 1), "{}", wires.states());
    // the same of a port whose session failed before is a failure still
    wires.set_knobs(&knobs(AggregateMode::Lacp, true));
    wires.run(Duration::from_secs(10));
    assert!(wires.is_in_order(), "{}", wires.states());
    wires.silent[1] = [true; 2];
    wires.run(Duration::from_secs(1));
    let lacp = wires.ends[HOST].state(wires.now, 1).lacp.unwrap();
    assert_ne!(lacp.selection.to_string(), "selected");
}

#[test]
fn a_port_without_a_session_says_so() {
    let mut wires = Wires::new(&knobs(AggregateMode::Manual, false), 2, 1);
    assert_eq!(wires.ends[HOST].distributing(), [0, 1]);
    assert!(wires.ends[HOST].state(wires.now, 0).bfd.is_none());
    wires.silent[1] = [true; 2];
    wires.set_knobs(&knobs(AggregateMode::Manual, true));
    wires.run(Duration::from_secs(5));
    assert_eq!(wires.ends[HOST].distributing(), [0]);
    assert_eq!(wires.ends[HOST].collecting(), [0], "nothing is taken from it either");
    let bfd = wires.ends[HOST].state(wires.now, 1).bfd.unwrap();
    assert_eq!((bfd.state.to_string().as_str(), bfd.detection_time), ("Down", None));
    wires.set_knobs(&knobs(AggregateMode::Manual, false));
    assert_eq!(wires.ends[HOST].distributing(), [0, 1]);
}
