//! The name of a test, by which a server knows the streams of a client.

use std::fmt;

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
