//! Labs that stay up for people, and the requests of other commands to them.
//!
//! The process that holds a lab listens on a socket in a private directory of its user (`control/socket.rs`).
//! The file system is the same in all hosts of a lab, so commands reach the lab from every host. Both
//! ends check that the other end is the same user. A connection carries one request and one reply
//! ([`messages`]); a request may come with the descriptor of a file that the sender has opened.
//! [`server`] answers on the thread that owns the connections to the agents; [`client`] sends
//! requests. `programs` serves the supervisor of programs whose connections move. [`settings`], [`faults`] and [`vlans`] read the words that people type.

mod answer;
mod caller;
mod captures;
pub mod client;
pub mod faults;
mod listener;
pub mod messages;
mod news;
#[cfg(test)]
mod other_user;
mod ports;
pub mod server;
pub mod settings;
mod socket;
mod toe;
pub mod vlans;

use std::fmt;
use std::str::FromStr;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_name_of_a_file() {
        for good in ["lab", "a", "Ten-Gigabit_2"] {
            assert_eq!(good.parse::<LabName>().unwrap().to_string(), good);
        }
        for bad in ["", "a b", "a/b", "..", "a.b", "ü", &"x".repeat(33)] {
            assert!(bad.parse::<LabName>().is_err(), "{bad:?}");
        }
    }
}
