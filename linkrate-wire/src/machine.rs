//! Protocol machines: the behaviour of a protocol, without I/O and without a clock.
//!
//! A machine is a value. The caller hands it an event with the time at which the event happened.
//! The machine changes its state and appends the actions that the caller is to carry out. Time is a
//! number that the caller chooses, so tests run hours in milliseconds, and the same seed gives the
//! same run. Sending, receiving and waiting are the caller's part:
//!
//! ```text
//! event, now ──▶ Machine::handle ──▶ actions
//!                Machine::due    ──▶ time of the next poll
//!         now ──▶ Machine::poll   ──▶ actions
//! ```
//!
//! - [`lacp`]: link aggregation control
//! - [`atmarp`]: the ATM addresses of an IP subnet
//! - [`call`]: connections of an ATM network, set up and released on demand
//! - [`lane`]: LAN Emulation
//! - [`bfd`]: failures of a link that nothing else shows
//! - [`lan_monitor`]: one active port of several, and a move when it fails

pub mod atmarp;
pub mod bfd;
pub mod call;
pub mod lacp;
pub mod lan_monitor;
pub mod lane;

use std::time::Duration;

/// A protocol machine.
///
/// `now` is the time since an origin that the caller keeps, and never goes back from call to call.
/// Actions are appended in the order in which they are to be done.
pub trait Machine {
    /// An input: a message that arrived, a link that went down, a request of its owner.
    type Event;
    /// An output: a message to send, a notice for its owner.
    type Action;

    /// Takes an event.
    fn handle(&mut self, now: Duration, event: Self::Event, actions: &mut Vec<Self::Action>);

    /// When [`poll`](Self::poll) has something to do, if no event comes before. After `poll` at
    /// this time it is later, or `None`.
    fn due(&self) -> Option<Duration>;

    /// Does the work that is due at `now`. Before [`due`](Self::due) it does nothing.
    fn poll(&mut self, now: Duration, actions: &mut Vec<Self::Action>);
}
