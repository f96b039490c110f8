//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

use linkrate_model::clean::short_line;

/// An address of a station or of a group of stations (IEEE 802, 8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress(pub [u8; 6]);

/// How many stations an address stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cast {
    /// One.
    Unicast,
    /// Those of a group.
    Multicast,
    /// All.
    Broadcast,
}

impl MacAddress {
    /// Whether it is one of the group addresses 01-80-C2-00-00-00 to -0F, whose frames no bridge
    /// forwards (IEEE 802.1Q, table 8-1).
    #[must_use]
    pub const fn is_link_local(self) -> bool {
        matches!(self.0, [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
    }

    /// All stations.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// No station: what a request has where the answer is to be.
    pub const UNKNOWN: Self = Self([0; 6]);

    /// How many stations it stands for: the first bit on the line says whether it is a group.
    #[inline]
    #[must_use]
    pub const fn cast(self) -> Cast {
        match self.0 {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => Cast::Broadcast,
            [first, ..] if first & 1 == 1 => Cast::Multicast,
            _ => Cast::Unicast,
        }
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A text that is no Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Ethernet address is \"{given}\", expected six bytes such as 02:00:00:00:00:01")]
pub struct MacError {
    given: String,
}

/// Of a text that was refused, the characters that an error shows.
const MAX_GIVEN: usize = 40;

impl FromStr for MacAddress {
    type Err = MacError;

    /// Reads two hexadecimal digits for each byte, with `:` or `-` between the bytes.
    fn from_str(given: &str) -> Result<Self, MacError> {
        let mut octets = [0; 6];
        let mut parts = given.split([':', '-']);
        let read = |octet: &mut u8| {
            let digits = parts.next().filter(|part| part.len() == 2 && !part.starts_with('+'));
            u8::from_str_radix(digits?, 16).ok().map(|value| *octet = value)
        };
        let whole = octets.iter_mut().map(read).all(|read| read.is_some());
        if whole && parts.next().is_none() {
            return Ok(Self(octets));
        }
        Err(MacError { given: short_line(given, MAX_GIVEN).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bit_says_group() {
        for (octets, cast, text) in [
            ([2, 0, 0, 0, 0, 0xab], Cast::Unicast, "02:00:00:00:00:ab"),
            ([1, 0x80, 0xc2, 0, 0, 2], Cast::Multicast, "01:80:c2:00:00:02"),
            ([0xff, 0xff, 0xff, 0xff, 0xff, 0xfe], Cast::Multicast, "ff:ff:ff:ff:ff:fe"),
            ([0xff; 6], Cast::Broadcast, "ff:ff:ff:ff:ff:ff"),
        ] {
            assert_eq!(MacAddress(octets).cast(), cast);
            assert_eq!(MacAddress(octets).to_string(), text);
        }
        assert_eq!(MacAddress::UNKNOWN.cast(), Cast::Unicast);
    }

    #[test]
    fn text_reads_back_or_is_refused() {
        for text in ["02:00:00:00:00:ab", "02-00-00-00-00-AB"] {
            assert_eq!(text.parse(), Ok(MacAddress([2, 0, 0, 0, 0, 0xab])));
        }
        for text in
            ["", "2:0:0:0:0:1", "02:00:00:00:00", "02:00:00:00:00:00:00", "+2:00:00:00:00:00"]
        {
            let error = text.parse::<MacAddress>().expect_err("refused").to_string();
            assert!(error.starts_with(&format!("Ethernet address is \"{text}\"")), "{error}");
        }
    }
}
