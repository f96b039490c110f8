//! The streams of a test: their numbers, their directions, and the cookie by which a server knows them.

use std::fmt;

/// The end of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

/// Which way payload flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// From the client.
    Forward,
    /// From the server (`--reverse`).
    Reverse,
    /// Both, each on streams of its own (`--bidir`).
    Both,
}

impl Directions {
    /// Streams of a test with `parallel` of them each way.
    #[must_use]
    pub fn streams(self, parallel: u32) -> u32 {
        match self {
            Self::Forward | Self::Reverse => parallel,
            Self::Both => parallel.saturating_mul(2),
        }
    }

    /// Whether `role` sends on one stream or more.
    #[must_use]
    pub fn has_sender(self, role: Role) -> bool {
        self == Self::Both || (self == Self::Forward) == (role == Role::Client)
    }

    /// Whether `role` sends on stream `index`, from 0 in the order in which the client opens them. With both
    /// ways the client opens its own sending streams first.
    #[must_use]
    pub fn sends(self, role: Role, index: u32, parallel: u32) -> bool {
        let client_sends = match self {
            Self::Forward => true,
            Self::Reverse => false,
            Self::Both => index < parallel,
        };
        client_sends == (role == Role::Client)
    }
}

/// The number of stream `index` in results: 1, 3, 4, 5, ... No stream has the number 2.
#[must_use]
pub fn stream_id(index: u32) -> u32 {
    match index {
        0 => 1,
        later => later.saturating_add(2),
    }
}

/// Octets of a cookie: 36 characters and a zero.
pub const COOKIE_BYTES: usize = 37;

/// The alphabet of cookies: RFC 4648, base 32, in lower case.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cookie([u8; COOKIE_BYTES]);

impl Cookie {
    /// A cookie of random octets, of which each gives a character.
    #[must_use]
    pub fn of_random(random: [u8; COOKIE_BYTES - 1]) -> Self {
        let mut octets = [0; COOKIE_BYTES];
        for (octet, random) in octets.iter_mut().zip(random) {
            *octet = ALPHABET[usize::from(random) % ALPHABET.len()];
        }
        Self(octets)
    }

    /// The cookie that a peer has sent: printable characters, and zeros behind them. `None` for other
    /// octets, which no version sends.
    #[must_use]
    pub fn of(octets: [u8; COOKIE_BYTES]) -> Option<Self> {
        let length = octets.iter().position(|octet| *octet == 0)?;
        let (text, rest) = octets.split_at(length);
        let is_text = !text.is_empty() && text.iter().all(u8::is_ascii_graphic);
        (is_text && rest.iter().all(|octet| *octet == 0)).then_some(Self(octets))
    }

    #[must_use]
    pub fn octets(&self) -> &[u8; COOKIE_BYTES] {
        &self.0
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cookie({})", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_end_of_each_stream_sends() {
        for ways in [Directions::Forward, Directions::Reverse, Directions::Both] {
            for index in 0..ways.streams(4) {
                let sends = [Role::Client, Role::Server].map(|role| ways.sends(role, index, 4));
                assert_ne!(sends[0], sends[1], "{ways:?} {index}");
            }
            for role in [Role::Client, Role::Server] {
                let any = (0..ways.streams(4)).any(|index| ways.sends(role, index, 4));
                assert_eq!(ways.has_sender(role), any, "{ways:?} {role:?}");
            }
        }
        let of_client =
            (0..8).filter(|index| Directions::Both.sends(Role::Client, *index, 4)).count();
        assert_eq!(of_client, 4);
        assert!(Directions::Reverse.sends(Role::Server, 0, 1));
    }

    #[test]
    fn streams_are_numbered_as_iperf3_does() {
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
    }

    #[test]
    fn octets_that_no_client_sends_are_no_cookie() {
        assert_eq!(Cookie::of([0; COOKIE_BYTES]), None);
        assert_eq!(Cookie::of([b'a'; COOKIE_BYTES]), None);
        let mut octets = *Cookie::of_random([7; COOKIE_BYTES - 1]).octets();
        // a request of HTTP has line breaks
        octets[5] = b'\n';
        assert_eq!(Cookie::of(octets), None);
        octets[5] = 0;
        assert_eq!(Cookie::of(octets), None);
        let mut short = [0; COOKIE_BYTES];
        short[..4].copy_from_slice(b"host");
        assert!(Cookie::of(short).is_some());
    }

    proptest! {
        #[test]
        fn each_random_cookie_is_one(random in prop::array::uniform32(any::<u8>())) {
            let mut all = [3; COOKIE_BYTES - 1];
            all[..32].copy_from_slice(&random);
            let cookie = Cookie::of_random(all);
            prop_assert_eq!(Cookie::of(*cookie.octets()), Some(cookie));
        }
    }
}
