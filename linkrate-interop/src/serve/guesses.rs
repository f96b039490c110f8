//! Passwords that were wrong: each client hears of a few a second.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::admission::network;

/// Time from one answer to the next.
const BETWEEN: Duration = Duration::from_millis(200);
/// How long answers may be owed: while more are, nothing is looked at.
const MOST: Duration = Duration::from_secs(2);

/// When each client may hear of its next wrong password.
#[derive(Debug, Default)]
pub(super) struct Guesses(Mutex<HashMap<IpAddr, Instant>>);

impl Guesses {
    /// Whether a password of `client` is looked at.
    pub(super) fn may_guess(&self, client: IpAddr) -> bool {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        next.get(&network(client)).is_none_or(|next| *next < Instant::now() + MOST)
    }

    /// When `client` is told that its password is wrong.
    pub(super) fn wrong(&self, client: IpAddr) -> Instant {
        let now = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, next| *next > now);
        let next = all.entry(network(client)).or_insert(now);
        *next += BETWEEN;
        *next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_hears_of_few_wrong_passwords_in_a_second() {
        let guesses = Guesses::default();
        let [client, other]: [IpAddr; 2] =
            ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());
        let begun = Instant::now();
        let mut asked = 0;
        while guesses.may_guess(client) {
            asked += 1;
            assert!(guesses.wrong(client) >= begun + BETWEEN * asked);
        }
        assert!((10..=12).contains(&asked), "{asked}");
        assert!(guesses.may_guess(other));
        assert!(guesses.wrong(other) < begun + MOST);
    }
}
