//! Protocol machines: what a protocol does with its messages, without I/O and without a clock.
//!
//! A machine is a value. An event goes in with the time at which it happened; the machine changes
//! its state and tells what is to be done. Time is a number that the caller chooses, so that tests
//! run hours in milliseconds, and the same seed gives the same run. Sending, receiving and waiting
//! are the caller's part:
//!
//! ```text
//! event, now ──▶ Machine::handle ──▶ actions
//!                Machine::due    ──▶ when to call poll
//!         now ──▶ Machine::poll   ──▶ actions
//! ```

use std::time::Duration;

/// A protocol machine.
///
/// `now` is the time since an origin that the caller keeps, and never goes back from call to call.
/// Actions are appended in the order in which they are to be done.
pub trait Machine {
    /// What happens to it: a message that arrived, a link that went down, a wish of its owner.
    type Event;
    /// What it wants done: a message to send, a news for its owner.
    type Action;

    /// Takes an event.
    fn handle(&mut self, now: Duration, event: Self::Event, actions: &mut Vec<Self::Action>);

    /// When [`poll`](Self::poll) has something to do, if no event comes before. After `poll` at this
    /// time it is later, or `None`.
    fn due(&self) -> Option<Duration>;

    /// Does what is due at `now`. Before [`due`](Self::due) it does nothing.
    fn poll(&mut self, now: Duration, actions: &mut Vec<Self::Action>);
}
