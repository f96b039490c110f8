//! The contract of protocol machines, shown with the smallest protocol that needs time: stop and
//! wait. It sends one message, waits for its acknowledgement, and sends it again when none comes.

use std::collections::VecDeque;
use std::time::Duration;

use crate::lossy::MS;
use crate::pair::{self, End, Pair, Wire};
use linkrate_wire::machine::Machine;
use proptest::prelude::*;

/// Time that the sender waits for an acknowledgement, first and at most. It doubles in between.
const RETRANSMIT_TIMEOUT: Duration = Duration::from_millis(50);
const MAX_RETRANSMIT_TIMEOUT: Duration = Duration::from_millis(400);
/// Times that a message is sent before the sender gives up.
const ATTEMPTS: u32 = 12;

/// The bytes of a message: its number, then what it carries; of an acknowledgement the number.
type Bytes = Vec<u8>;

fn message(number: u16, letter: u8) -> Bytes {
    let [high, low] = number.to_be_bytes();
    vec![high, low, letter]
}

fn number(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

#[derive(Debug)]
enum Event {
    /// Its owner has a letter to send.
    Submit(u8),
    Arrived(Bytes),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Send(Bytes),
    /// A letter for the receiver's owner.
    Deliver(u8),
    /// The sender has sent a message too often.
    GiveUp,
}

#[derive(Debug)]
struct Sender {
    /// How many numbers there are before they begin again.
    numbers: u16,
    next: u16,
    waiting: VecDeque<u8>,
    under_way: Option<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    bytes: Bytes,
    attempts: u32,
    patience: Duration,
    due: Duration,
}

impl Sender {
    fn new(numbers: u16) -> Self {
        Self { numbers, next: 0, waiting: VecDeque::new(), under_way: None }
    }

    fn send_next(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.under_way.is_none()
            && let Some(letter) = self.waiting.pop_front()
        {
            let bytes = message(self.next, letter);
            actions.push(Action::Send(bytes.clone()));
            let due = now + RETRANSMIT_TIMEOUT;
            self.under_way =
                Some(UnderWay { bytes, attempts: 1, patience: RETRANSMIT_TIMEOUT, due });
        }
    }
}

impl Machine for Sender {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Duration, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Submit(letter) => self.waiting.push_back(letter),
            Event::Arrived(bytes) => {
                if self.under_way.is_some() && number(&bytes) == self.next {
                    self.under_way = None;
                    self.next = (self.next + 1) % self.numbers;
                }
            }
        }
        self.send_next(now, actions);
    }

    fn due(&self) -> Option<Duration> {
        self.under_way.as_ref().map(|under_way| under_way.due)
    }

    fn poll(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let Some(under_way) = self.under_way.as_mut().filter(|under_way| under_way.due <= now)
        else {
            return;
        };
        if under_way.attempts == ATTEMPTS {
            *self = Self::new(self.numbers);
            actions.push(Action::GiveUp);
            return;
        }
        under_way.attempts += 1;
        under_way.patience = (under_way.patience * 2).min(MAX_RETRANSMIT_TIMEOUT);
        under_way.due = now + under_way.patience;
        actions.push(Action::Send(under_way.bytes.clone()));
    }
}

#[derive(Debug)]
struct Receiver {
    numbers: u16,
    expected: u16,
}

impl Machine for Receiver {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, _: Duration, event: Event, actions: &mut Vec<Action>) {
        let Event::Arrived(bytes) = event else { return };
        // also of one that came again: its acknowledgement may have been lost
        actions.push(Action::Send(bytes[..2].to_vec()));
        if number(&bytes) == self.expected {
            self.expected = (self.expected + 1) % self.numbers;
            actions.push(Action::Deliver(bytes[2]));
        }
    }

    fn due(&self) -> Option<Duration> {
        None
    }

    fn poll(&mut self, _: Duration, _: &mut Vec<Action>) {}
}

macro_rules! end {
    ($machine:ty) => {
        impl End for $machine {
            type Message = Bytes;

            fn message(action: Action) -> Result<Bytes, Action> {
                match action {
                    Action::Send(bytes) => Ok(bytes),
                    action => Err(action),
                }
            }

            fn arrival(message: Bytes) -> Event {
                Event::Arrived(message)
            }
        }
    };
}

end!(Sender);
end!(Receiver);

const LETTERS: &[u8] = b"stop and wait";

/// Both machines with all letters submitted.
fn begun(numbers: u16, wire: Wire, seed: u64) -> Pair<Sender, Receiver> {
    let receiver = Receiver { numbers, expected: 0 };
    let mut pair = Pair::new(Sender::new(numbers), receiver, wire, seed);
    LETTERS.iter().for_each(|letter| pair.handle_a(Event::Submit(*letter)));
    pair
}

fn delivered(pair: &Pair<Sender, Receiver>) -> Vec<u8> {
    let letters = pair.reported_b.iter().filter_map(|(_, action)| match action {
        Action::Deliver(letter) => Some(*letter),
        _ => None,
    });
    letters.collect()
}

#[test]
fn a_message_over_a_good_wire_takes_one_round_trip() {
    let mut pair = begun(1000, Wire::good(7 * MS), 1);
    assert!(pair.run_until(Duration::from_secs(3600)));
    assert_eq!(delivered(&pair), LETTERS);
    let messages = LETTERS.len() as u64;
    assert_eq!((pair.counts.sent, pair.counts.overtaken), (2 * messages, 0));
    assert_eq!(pair.now(), 14 * MS * LETTERS.len() as u32);
    assert!(pair.reported_a.is_empty());
}

#[test]
fn gives_up_a_dead_wire_after_its_timeout() {
    let mut pair = begun(1000, Wire { lost: 1000, ..Wire::good(MS) }, 1);
    assert!(pair.run_until(Duration::from_secs(3600)));
    // 50 + 100 + 200 ms, then 9 × 400 ms
    assert_eq!(pair.reported_a, [(3950 * MS, Action::GiveUp)]);
    assert_eq!((pair.counts.sent, pair.counts.lost), (12, 12));
}

#[test]
fn a_repaired_wire_carries_frames_again() {
    let mut pair = begun(1000, Wire { lost: 1000, ..Wire::good(MS) }, 1);
    assert!(!pair.run_until(1000 * MS));
    assert_eq!((pair.now(), delivered(&pair).len()), (1000 * MS, 0));
    pair.set_wire(Wire::good(MS));
    assert!(pair.run_until(Duration::from_secs(3600)));
    assert_eq!(delivered(&pair), LETTERS);
}

/// A wire with all four faults.
fn bad() -> Wire {
    Wire { lost: 200, doubled: 200, delay: MS..=120 * MS }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| {
        let mut pair = begun(1000, bad(), seed);
        assert!(pair.run_until(Duration::from_secs(3600)));
        (pair.now(), pair.counts, pair.reported_b)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn the_wire_delivers_loses_and_reorders_as_configured() {
    let mut total = pair::Counts::default();
    for seed in 0..50 {
        let mut pair = begun(1000, bad(), seed);
        pair.run_until(Duration::from_secs(3600));
        total.sent += pair.counts.sent;
        total.lost += pair.counts.lost;
        total.doubled += pair.counts.doubled;
        total.overtaken += pair.counts.overtaken;
    }
    let permille = |count: u64| count * 1000 / total.sent;
    assert!(total.sent > 2000 && total.overtaken > 100, "{total:?}");
    assert!(permille(total.lost).abs_diff(200) < 30, "{total:?}");
    assert!(permille(total.doubled).abs_diff(160) < 30, "{total:?}");
}

/// The pair finds what is wrong: two numbers are enough on a wire that keeps the order, and not on
/// one where an old message may come after a new one.
#[test]
fn two_numbers_fail_if_messages_are_reordered() {
    let wrong = (0..50).filter(|seed| {
        let mut pair = begun(2, bad(), *seed);
        pair.run_until(Duration::from_secs(3600));
        delivered(&pair) != LETTERS
    });
    assert!(wrong.count() > 5);
    let in_order = Wire { lost: 300, ..Wire::good(MS) };
    for seed in 0..50 {
        let mut pair = begun(2, in_order.clone(), seed);
        assert!(pair.run_until(Duration::from_secs(3600)));
        assert_eq!(delivered(&pair), LETTERS, "seed {seed}");
    }
}

/// A machine that wants to be polled again at once is one that would keep a thread busy.
#[test]
#[should_panic(expected = "after its poll")]
fn finds_a_machine_that_is_due_again_after_its_poll() {
    struct Restless(Receiver);

    impl Machine for Restless {
        type Event = Event;
        type Action = Action;

        fn handle(&mut self, now: Duration, event: Event, actions: &mut Vec<Action>) {
            self.0.handle(now, event, actions);
        }

        fn due(&self) -> Option<Duration> {
            Some(MS)
        }

        fn poll(&mut self, _: Duration, _: &mut Vec<Action>) {}
    }

    end!(Restless);
    let restless = Restless(Receiver { numbers: 2, expected: 0 });
    Pair::new(Sender::new(2), restless, Wire::good(MS), 1).run_until(2 * MS);
}

proptest! {
    /// Whatever the wire does, letters arrive once and in order, or the sender gives up.
    #[test]
    fn letters_arrive_once_and_in_order(
        seed: u64, lost in 0u64..500, doubled in 0u64..500,
        least in 0u32..50, more in 0u32..200,
    ) {
        let wire = Wire { lost, doubled, delay: least * MS..=(least + more) * MS };
        let mut pair = begun(1000, wire, seed);
        prop_assert!(pair.run_until(Duration::from_secs(3600)));
        let letters = delivered(&pair);
        prop_assert!(LETTERS.starts_with(&letters));
        let gave_up = pair.reported_a.iter().any(|(_, action)| *action == Action::GiveUp);
        prop_assert!(gave_up || letters == LETTERS);
    }
}
