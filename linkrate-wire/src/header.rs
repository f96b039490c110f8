//! Bytes of headers in memory of their own.

use std::ops::Deref;

/// The longest headers that are cut. Ethernet with two tags and SNAP, IPv4 and TCP with all options
/// have 150 bytes; the rest is room for IPv6 extension headers.
pub const MAX_HEADER: usize = 256;

/// The headers of a frame, or some of them, owned without an allocation.
#[derive(Clone, PartialEq, Eq)]
pub struct Header<const MAX_LENGTH: usize = MAX_HEADER> {
    bytes: [u8; MAX_LENGTH],
    length: usize,
}

impl<const MAX_LENGTH: usize> Default for Header<MAX_LENGTH> {
    fn default() -> Self {
        Self { bytes: [0; MAX_LENGTH], length: 0 }
    }
}

impl<const MAX_LENGTH: usize> Header<MAX_LENGTH> {
    /// The bytes of `parts`, one after the other, or none if they are too many.
    pub(crate) fn concat(parts: &[&[u8]]) -> Option<Self> {
        let mut header = Self::default();
        for part in parts {
            let end = header.length + part.len();
            header.bytes.get_mut(header.length..end)?.copy_from_slice(part);
            header.length = end;
        }
        Some(header)
    }

    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

impl<const MAX_LENGTH: usize> Deref for Header<MAX_LENGTH> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<const MAX_LENGTH: usize> std::fmt::Debug for Header<MAX_LENGTH> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Header").field(&&**self).finish()
    }
}

/// A segment is never longer than its superframe, whose lengths are 16 bits wide.
#[expect(clippy::cast_possible_truncation, reason = "at most the length of the superframe")]
pub(crate) const fn narrow(length: usize) -> u16 {
    debug_assert!(length <= 0xffff);
    length as u16
}
