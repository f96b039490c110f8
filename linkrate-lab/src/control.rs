//! Labs that stay up for people: their shell, and the door at which other commands knock.
//!
//! The process that holds a lab listens on a socket with an abstract name made of the user and the
//! lab's name, outside and in the system under test's network namespace. The socket
//! vanishes with the process, so no lab that is gone is ever found. A connection carries one
//! request and one reply ([`messages`]); [`server`] answers between waiting for the shell and for
//! signals, on the thread that owns the agents' connections, and [`client`] asks. What is asked comes
//! as words that people typed: [`settings`], [`faults`] and [`vlans`] read them.

mod answer;
pub mod client;
pub mod faults;
pub mod messages;
mod ports;
pub mod server;
pub mod settings;
pub mod vlans;

use std::fmt;
use std::str::FromStr;

/// What every lab's socket name begins with.
const PREFIX: &str = "linkrate-lab";

/// The name of a lab.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabName(String);

/// A text that names no lab.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no name of a lab; expected 1 to 32 letters, digits, '-' and '_'")]
pub struct NameError {
    given: String,
}

impl FromStr for LabName {
    type Err = NameError;

    fn from_str(given: &str) -> Result<Self, NameError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if (1..=32).contains(&given.len()) && given.chars().all(allowed) {
            return Ok(Self(given.to_owned()));
        }
        Err(NameError { given: given.chars().take(40).collect() })
    }
}

impl Default for LabName {
    fn default() -> Self {
        Self("lab".to_owned())
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Under which names a user's labs listen.
#[derive(Debug, Clone, Copy)]
struct Address {
    user: u32,
}

impl Address {
    fn prefix(self) -> String {
        format!("{PREFIX}.{}.", self.user)
    }

    fn of(self, lab: &LabName) -> String {
        format!("{}{lab}", self.prefix())
    }
}

/// Whether `user` may rule a lab of `owner`.
fn may_rule(user: u32, owner: u32) -> bool {
    user == owner || user == 0
}

/// The name of a host as people type it: `client-0`.
fn host_name(name: &str) -> String {
    name.replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_a_socket() {
        for good in ["lab", "a", "Ten-Gigabit_2"] {
            assert_eq!(good.parse::<LabName>().unwrap().to_string(), good);
        }
        for bad in ["", "a b", "a/b", "a.b", "ü", &"x".repeat(33)] {
            assert!(bad.parse::<LabName>().is_err(), "{bad:?}");
        }
        let longest = "x".repeat(32).parse().unwrap();
        // sun_path less its first byte, unix(7)
        assert!(Address { user: u32::MAX }.of(&longest).len() <= 107);
        assert_eq!(Address { user: 0 }.of(&LabName::default()), "linkrate-lab.0.lab");
    }

    #[test]
    fn a_lab_is_ruled_by_its_owner_and_by_root() {
        assert!(may_rule(1000, 1000) && may_rule(0, 1000) && may_rule(0, 0));
        assert!(!may_rule(1001, 1000) && !may_rule(1000, 0));
    }
}
