//! Netlink messages as bytes: those that are kept and sent again as they came, and those that the
//! packet crates have no types for.

use std::convert::Infallible;

use netlink_packet_core::{
    NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, NlasIterator,
};

/// The type of an attribute without its flags (`NLA_TYPE_MASK`, linux/netlink.h).
const TYPE: u16 = 0x3fff;

/// One message: its type, and all bytes after `struct nlmsghdr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Raw {
    pub kind: u16,
    pub body: Vec<u8>,
}

impl Raw {
    /// A request of `kind` with this header of its family.
    pub fn new(kind: u16, header: impl Into<Vec<u8>>) -> Self {
        Self { kind, body: header.into() }
    }

    /// The attributes behind a header of that many bytes, as (type, value).
    pub fn attributes(&self, header: usize) -> impl Iterator<Item = (u16, &[u8])> {
        attributes(self.body.get(header..).unwrap_or_default())
    }

    /// The value of the first attribute of a type.
    pub fn attribute(&self, header: usize, kind: u16) -> Option<&[u8]> {
        self.attributes(header).find_map(|(found, value)| (found == kind).then_some(value))
    }

    /// The word at this offset of the body, in the byte order of the machine.
    pub fn word(&self, at: usize) -> Option<u32> {
        word(self.body.get(at..)?)
    }

    /// Adds an attribute as it came.
    pub fn push(&mut self, kind: u16, value: &[u8]) {
        // the header has two bytes for the length: a longer value came from no kernel
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.body.extend(length.to_ne_bytes());
        self.body.extend(kind.to_ne_bytes());
        self.body.extend(value);
        self.body.resize(self.body.len().next_multiple_of(4), 0);
    }
}

/// The attributes in these bytes, up to the first that is cut.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let found = NlasIterator::new(bytes).map_while(Result::ok);
    found.map(|attribute| {
        let (kind, length) = (attribute.kind() & TYPE, attribute.value_length());
        let value = attribute.into_inner().get(4..4 + length).unwrap_or_default();
        (kind, value)
    })
}

/// The first word of these bytes, in the byte order of the machine.
pub(crate) fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// A text with or without its terminating zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl NetlinkSerializable for Raw {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.body.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.body);
    }
}

impl NetlinkDeserializable for Raw {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Self::Error> {
        Ok(Self { kind: header.message_type, body: payload.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_read_back_and_a_cut_one_ends_them() {
        let mut message = Raw::new(36, [9, 0, 0, 0]);
        message.push(1, b"fq\0");
        message.push(2 | 0x8000, &7u32.to_ne_bytes());
        assert_eq!((message.word(0), message.attribute(4, 1)), (Some(9), Some(&b"fq\0"[..])));
        assert_eq!(message.attribute(4, 2).and_then(word), Some(7), "flags are no part of it");
        assert_eq!(text(b"fq\0x"), "fq");
        message.body.pop();
        assert_eq!(message.attributes(4).count(), 1);
        assert_eq!((message.attributes(400).count(), word(&[1, 2])), (0, None));
    }
}
