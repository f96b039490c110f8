//! What the families of generic netlink have in common: their numbers, and attributes.

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLA_F_NESTED, NlasIterator, ParseableParametrized,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlHeader, GenlMessage};

use super::exchange::{Exchange, Refusal};

/// The number of the family with this name.
///
/// # Errors
/// `ENOENT` on a kernel without it.
pub(crate) fn family(exchange: &mut Exchange, name: &str) -> Result<u16, Refusal> {
    let request = GenlMessage::from_payload(GenlCtrl {
        cmd: GenlCtrlCmd::GetFamily,
        nlas: vec![GenlCtrlAttrs::FamilyName(name.to_owned())],
    });
    let replies: Vec<GenlMessage<GenlCtrl>> = exchange.request(request, 0)?;
    let mut attributes = replies.iter().flat_map(|reply| &reply.payload.nlas);
    let number = attributes.find_map(|attribute| match attribute {
        GenlCtrlAttrs::FamilyId(id) => Some(*id),
        _ => None,
    });
    number.ok_or_else(|| std::io::Error::from_raw_os_error(libc::ENOENT).into())
}

/// The attributes of a reply, undecoded.
#[derive(Debug)]
pub(crate) struct Reply(pub(crate) Vec<u8>);

impl ParseableParametrized<[u8], GenlHeader> for Reply {
    fn parse_with_param(payload: &[u8], _header: GenlHeader) -> Result<Self, DecodeError> {
        Ok(Self(payload.to_vec()))
    }
}

/// Passes kind and value of each attribute in `bytes` to `take`.
pub(crate) fn each_attribute(
    bytes: &[u8],
    mut take: impl FnMut(u16, &[u8]) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    for attribute in NlasIterator::new(bytes) {
        let attribute = attribute?;
        take(attribute.kind(), attribute.value())?;
    }
    Ok(())
}

/// An attribute that holds attributes.
pub(crate) fn nested(kind: u16, attributes: &[DefaultNla]) -> DefaultNla {
    DefaultNla::new(kind | NLA_F_NESTED, bytes_of(attributes))
}

/// A u32 attribute.
pub(crate) fn number(kind: u16, value: u32) -> DefaultNla {
    DefaultNla::new(kind, value.to_ne_bytes().to_vec())
}

/// A string attribute, with its terminating zero.
pub(crate) fn text(kind: u16, value: &str) -> DefaultNla {
    DefaultNla::new(kind, [value.as_bytes(), &[0]].concat())
}

/// `attributes` as a message carries them.
pub(crate) fn bytes_of(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}
