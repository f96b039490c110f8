//! How the frames of an aggregate are spread over its ports.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{KnobType, Value};
use crate::clean::short_line;
use crate::knobs::value::Word;
use crate::nearest::did_you_mean;

words! {
    /// What chooses the port of an aggregate that a frame leaves by.
    Balance {
        /// The low bytes of both Ethernet addresses: for a host, those of the destination alone
        /// (LB_MAC of HP APA).
        Mac = "mac", "balancing by MAC address", "by MAC";
        /// The IP addresses; the Ethernet address of a frame without any (LB_IP).
        Ip = "ip", "balancing by IP address", "by IP";
        /// IP addresses and transport ports; the Ethernet address of a frame without ports, and
        /// the IP addresses of a fragment (LB_PORT).
        Port = "port", "balancing by transport port", "by port";
        /// The queue of the driver, and so the CPU that sends.
        Cpu = "cpu", "balancing by CPU", "by CPU";
        /// Each frame to the next port, which reorders flows.
        RoundRobin = "round-robin", "round robin", "round robin";
        /// By transport port at first; flows move to less loaded ports where that cannot reorder
        /// them.
        Adaptive = "adaptive", "adaptive balancing", "adaptive";
    }
}

/// A word that is no [`Balance`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "balancing is \"{given}\", expected one of {}{}",
    Balance::words().collect::<Vec<_>>().join(", "),
    did_you_mean(given, Balance::words())
)]
pub struct BalanceError {
    given: String,
}

/// Of a word that was refused, the characters that an error shows.
const MAX_GIVEN: usize = 40;

impl Balance {
    /// All of them, in the order of [`WORDS`](Self::WORDS).
    pub const ALL: [Self; 6] =
        [Self::Mac, Self::Ip, Self::Port, Self::Cpu, Self::RoundRobin, Self::Adaptive];

    /// Whether frames of one flow may leave by several ports at once, and so overtake each other.
    #[must_use]
    pub fn reorders(self) -> bool {
        self == Self::RoundRobin
    }

    fn words() -> impl Iterator<Item = &'static str> {
        Self::WORDS.iter().map(|word| word.word)
    }
}

impl FromStr for Balance {
    type Err = BalanceError;

    fn from_str(given: &str) -> Result<Self, BalanceError> {
        let error = || BalanceError { given: short_line(given, MAX_GIVEN).into_owned() };
        Self::ALL.into_iter().find(|balance| balance.name() == given).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_in_text_and_json() {
        assert_eq!(Balance::ALL.len(), Balance::WORDS.len());
        for (balance, word) in Balance::ALL.into_iter().zip(Balance::WORDS) {
            assert_eq!((balance.name(), balance.to_string()), (word.word, word.word.to_owned()));
            assert_eq!(word.word.parse(), Ok(balance));
            let json = serde_json::to_string(&balance).expect("a word");
            assert_eq!(json, format!("\"{}\"", word.word));
            assert_eq!(serde_json::from_str::<Balance>(&json).expect("the same"), balance);
        }
    }

    #[test]
    fn a_mistyped_word_names_the_words() {
        let error = "adaptiv".parse::<Balance>().unwrap_err().to_string();
        assert_eq!(
            error,
            "balancing is \"adaptiv\", expected one of mac, ip, port, cpu, round-robin, adaptive; \
             did you mean \"adaptive\"?"
        );
        let error = "x".repeat(1000).parse::<Balance>().unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
    }
}
