//! Two machines joined by a wire that loses, delays, duplicates and reorders, in virtual time. The
//! same seed gives the same run.
//!
//! While it runs, the pair holds both machines to the contract of [`Machine`]: a poll before the
//! due time does nothing, and after a poll the next due time is later.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use linkrate_wire::machine::Machine;

pub use crate::lossy::Wire;
use crate::lossy::{Random, handled, polled};

/// A machine as one end of a wire.
pub trait End: Machine<Action: Debug> {
    /// What the wire carries, in most protocols the bytes of a frame.
    type Message: Clone;

    /// The message that an action sends, or the action again if it is for the machine's owner.
    fn message(action: Self::Action) -> Result<Self::Message, Self::Action>;

    /// The event that a message is at its arrival.
    fn arrival(message: Self::Message) -> Self::Event;
}

/// What a wire did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub sent: u64,
    pub lost: u64,
    pub doubled: u64,
    /// Messages that arrived after one that was sent later in the same direction.
    pub overtaken: u64,
}

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    A,
    B,
}

/// A message on its way: the number of its sending, the end that it goes to.
struct Flight<M> {
    sent: u64,
    to: Side,
    message: M,
}

/// Two machines and the wire between them.
pub struct Pair<A: End, B: End<Message = A::Message>> {
    pub a: A,
    pub b: B,
    /// What the machines told their owners, and when.
    pub reported_a: Vec<(Duration, A::Action)>,
    pub reported_b: Vec<(Duration, B::Action)>,
    pub counts: Counts,
    now: Duration,
    wire: Wire,
    random: Random,
    /// By the time of arrival, those of the same time in the order in which they were sent.
    flights: BTreeMap<(Duration, u64), Flight<A::Message>>,
    /// The numbers of the last messages that arrived at either end.
    last: [u64; 2],
    numbers: u64,
}

impl<A: End, B: End<Message = A::Message>> Pair<A, B> {
    pub fn new(a: A, b: B, wire: Wire, seed: u64) -> Self {
        Self {
            a,
            b,
            reported_a: Vec::new(),
            reported_b: Vec::new(),
            counts: Counts::default(),
            now: Duration::ZERO,
            wire,
            random: Random(seed),
            flights: BTreeMap::new(),
            last: [0; 2],
            numbers: 0,
        }
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    /// An event at the first machine.
    pub fn handle_a(&mut self, event: A::Event) {
        let actions = handled(&mut self.a, self.now, event);
        self.carry_out_a(actions);
    }

    /// An event at the second machine.
    pub fn handle_b(&mut self, event: B::Event) {
        let actions = handled(&mut self.b, self.now, event);
        self.carry_out_b(actions);
    }

    /// Changes the wire for the messages to come.
    pub fn set_wire(&mut self, wire: Wire) {
        self.wire = wire;
    }

    /// Runs until nothing is on its way and no machine waits, or up to `end`. Says whether all came
    /// to rest.
    pub fn run_until(&mut self, end: Duration) -> bool {
        while let Some(next) = self.next() {
            if next > end {
                self.now = end;
                return false;
            }
            self.now = self.now.max(next);
            self.step();
        }
        true
    }

    /// When something happens next.
    fn next(&self) -> Option<Duration> {
        let arrival = self.flights.keys().next().map(|(at, _)| *at);
        [arrival, self.a.due(), self.b.due()].into_iter().flatten().min()
    }

    /// Does one thing that is due now, by chance if there are several.
    fn step(&mut self) {
        self.poll_early();
        let arrives = self.flights.keys().next().is_some_and(|(at, _)| *at <= self.now);
        let due = |due: Option<Duration>| due.is_some_and(|due| due <= self.now);
        let may = [arrives, due(self.a.due()), due(self.b.due())];
        let choices: Vec<usize> = (0..3).filter(|choice| may[*choice]).collect();
        match choices[self.random.below(choices.len() as u64) as usize] {
            0 => self.arrive(),
            1 => {
                let actions = polled(&mut self.a, self.now);
                self.carry_out_a(actions);
            }
            _ => {
                let actions = polled(&mut self.b, self.now);
                self.carry_out_b(actions);
            }
        }
    }

    /// A caller may poll whenever it likes.
    fn poll_early(&mut self) {
        let now = self.now;
        let is_early = |due: Option<Duration>| due.is_none_or(|due| due > now);
        if is_early(self.a.due()) {
            polled(&mut self.a, now);
        }
        if is_early(self.b.due()) {
            polled(&mut self.b, now);
        }
    }

    fn arrive(&mut self) {
        let Some((_, Flight { sent, to, message })) = self.flights.pop_first() else { return };
        let last = &mut self.last[to as usize];
        self.counts.overtaken += u64::from(sent < *last);
        *last = sent.max(*last);
        match to {
            Side::A => self.handle_a(A::arrival(message)),
            Side::B => self.handle_b(B::arrival(message)),
        }
    }

    fn carry_out_a(&mut self, actions: Vec<A::Action>) {
        for action in actions {
            match A::message(action) {
                Ok(message) => self.send(Side::B, message),
                Err(action) => self.reported_a.push((self.now, action)),
            }
        }
    }

    fn carry_out_b(&mut self, actions: Vec<B::Action>) {
        for action in actions {
            match B::message(action) {
                Ok(message) => self.send(Side::A, message),
                Err(action) => self.reported_b.push((self.now, action)),
            }
        }
    }

    fn send(&mut self, to: Side, message: A::Message) {
        self.counts.sent += 1;
        self.numbers += 1;
        let sent = self.numbers;
        if self.random.below(1000) < self.wire.lost {
            self.counts.lost += 1;
            return;
        }
        let doubled = self.random.below(1000) < self.wire.doubled;
        self.counts.doubled += u64::from(doubled);
        for _ in 0..=u8::from(doubled) {
            let delay = self.wire.delay(&mut self.random);
            self.numbers += 1;
            let flight = Flight { sent, to, message: message.clone() };
            self.flights.insert((self.now + delay, self.numbers), flight);
        }
    }
}
