//! ATM end system addresses: twenty octets (ATM Forum UNI 3.1, 5.1.3).

use std::fmt;

/// The address of an end system. The first thirteen octets are the prefix of its switch, then come
/// six octets of the end system's own, and a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AtmAddress(pub [u8; AtmAddress::LENGTH]);

impl AtmAddress {
    /// Octets of an address.
    pub const LENGTH: usize = 20;

    /// No end system: what a request has where the answer is to be.
    pub const UNKNOWN: Self = Self([0; Self::LENGTH]);

    /// An address in the format of locally assigned numbers (AFI 39, data country code), at switch
    /// `switch`.
    #[must_use]
    pub const fn local(switch: u16, end_system: [u8; 6], selector: u8) -> Self {
        let [high, low] = switch.to_be_bytes();
        let [a, b, c, d, e, f] = end_system;
        Self([0x39, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low, a, b, c, d, e, f, selector])
    }
}

impl fmt::Display for AtmAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, octet) in self.0.iter().enumerate() {
            // prefix, end system, selector
            let point = if at == 13 || at == 19 { "." } else { "" };
            write!(f, "{point}{octet:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_its_parts() {
        let address = AtmAddress::local(1, [2, 0, 0, 0, 0, 7], 3);
        assert_eq!(address.to_string(), "39000000000000000000000001.020000000007.03");
    }
}
