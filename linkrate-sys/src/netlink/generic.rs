//! What the families of generic netlink have in common: a socket that knows the family's number, requests,
//! and attributes.

use std::io;
use std::marker::PhantomData;

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLA_F_NESTED, NlasIterator, ParseableParametrized,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};

use super::exchange::{Exchange, Refusal};
use crate::error::{SysError, SysResult};

/// A family as its kernel header defines it.
pub(crate) trait Family: std::fmt::Debug {
    /// The name by which the kernel tells the number.
    const NAME: &'static str;
    /// The version of its commands.
    const VERSION: u8;
}

/// A socket for requests of one family, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Socket<F> {
    exchange: Exchange,
    number: u16,
    family: PhantomData<F>,
}

impl<F: Family> Socket<F> {
    /// Opens the socket and looks up the number of the family; `ENOENT` on a kernel without the family.
    pub(crate) fn open() -> SysResult<Self> {
        let mut exchange = Exchange::open(netlink_sys::protocols::NETLINK_GENERIC, "generic")?;
        let number = number_of_family(&mut exchange, F::NAME).map_err(|refusal| {
            refusal.during("look up netlink family", format!("\"{}\"", F::NAME))
        })?;
        Ok(Self { exchange, number, family: PhantomData })
    }

    /// Sends a request. Returns the attributes of each reply, undecoded.
    pub(crate) fn request(&mut self, request: Request<F>) -> Result<Vec<Vec<u8>>, Refusal> {
        let mut message = GenlMessage::from_payload(request);
        message.set_resolved_family_id(self.number);
        let replies: Vec<GenlMessage<Reply>> = self.exchange.request(message, 0)?;
        Ok(replies.into_iter().map(|reply| reply.payload.0).collect())
    }

    /// Sends a request and passes kind and value of each attribute of the replies to `take`. `operation` and
    /// `subject` name the request in errors.
    pub(crate) fn read(
        &mut self,
        request: Request<F>,
        (operation, subject): (&str, &str),
        mut take: impl FnMut(u16, &[u8]) -> Result<(), DecodeError>,
    ) -> SysResult<()> {
        let replies =
            self.request(request).map_err(|refusal| refusal.during(operation, subject))?;
        for attributes in replies {
            each_attribute(&attributes, &mut take).map_err(|error| {
                let cause = io::Error::new(io::ErrorKind::InvalidData, error.to_string());
                SysError::new(operation, subject, cause)
            })?;
        }
        Ok(())
    }
}

fn number_of_family(exchange: &mut Exchange, name: &str) -> Result<u16, Refusal> {
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
    number.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT).into())
}

/// One request of a family.
#[derive(Debug)]
pub(crate) struct Request<F> {
    command: u8,
    attributes: Vec<DefaultNla>,
    family: PhantomData<F>,
}

impl<F> Request<F> {
    pub(crate) fn new(command: u8, attributes: Vec<DefaultNla>) -> Self {
        Self { command, attributes, family: PhantomData }
    }
}

impl<F: Family> GenlFamily for Request<F> {
    fn family_name() -> &'static str {
        F::NAME
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        F::VERSION
    }
}

impl<F> Emitable for Request<F> {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer);
    }
}

/// The attributes of a reply, undecoded.
#[derive(Debug)]
struct Reply(Vec<u8>);

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
