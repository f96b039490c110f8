//! Labs that stay up for people, and the requests of other commands to them.
//!
//! The process that holds a lab listens on a socket with an abstract name made of the user and the
//! name of the lab, outside and in the network namespace of the system under test. The socket
//! vanishes with the process, so that a lab that has ended is never found. A connection carries one
//! request and one reply ([`messages`]). [`server`] answers between waiting for the shell and for
//! signals, on the thread that owns the connections to the agents; [`client`] sends requests.
//! [`settings`], [`faults`] and [`vlans`] read the words that people type.

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

/// The begin of every lab's socket name.
const PREFIX: &str = "linkrate-lab";

/// The name of a lab.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabName(String);

/// A text that cannot be the name of a lab.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a valid name of a lab; expected 1 to 32 letters, digits, '-' and '_'")]
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

/// The names under which a user's labs listen.
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

/// Whether `user` may control a lab of `owner`.
fn may_control(user: u32, owner: u32) -> bool {
    user == owner || user == 0
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
    fn a_lab_is_controlled_by_its_owner_and_by_root() {
        assert!(may_control(1000, 1000) && may_control(0, 1000) && may_control(0, 0));
        assert!(!may_control(1001, 1000) && !may_control(1000, 0));
    }
}
