//! Address resolution of Classical IP over ATM (RFC 2225): the server of a subnet, and its clients.
//!
//! - [`Server`] learns the addresses at the other ends of its connections, and answers.
//! - [`Client`] learns the other ends of its permanent connections, and asks the server for others.
//!
//! Connections are [`Circuit`]s: numbers that the owner of a machine chooses. Messages are
//! [`AtmArp`](crate::control::AtmArp).

mod client;
mod server;

use std::time::Duration;

pub use client::{Client, ClientAction, ClientEvent, Known, Route};
pub use server::{Server, ServerAction, ServerEvent};

/// A connection of an end system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Circuit(pub u32);

/// Most addresses that a machine knows. Others wait until an entry has aged.
pub const MAX_ENTRIES: usize = 4096;

/// Time from a question to the next one, while no answer comes. It doubles with each question.
pub const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest such time.
pub const MAX_RETRY: Duration = Duration::from_secs(60);

/// A question that is asked again until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Question {
    /// Times it was asked.
    asked: u32,
    /// When it is to be asked again.
    again: Duration,
}

impl Question {
    /// A question that is asked at `now`.
    fn new(now: Duration) -> Self {
        Self { asked: 1, again: now + FIRST_RETRY }
    }

    fn repeat(&mut self, now: Duration) {
        let factor = 1_u32.checked_shl(self.asked).unwrap_or(u32::MAX);
        self.again = now + FIRST_RETRY.saturating_mul(factor).min(MAX_RETRY);
        self.asked += 1;
    }
}
