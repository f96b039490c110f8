//! One netlink request, and all replies of the kernel.
//!
//! Every request asks for an acknowledgement, so an exchange always ends with `NLMSG_ERROR`
//! (code zero is success), after any number of replies. Answers are matched by sequence number.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_REQUEST, NLMSG_ALIGNTO, NetlinkBuffer,
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
    NlasIterator, parse_string,
};
use netlink_sys::{Socket, SocketAddr};

use crate::error::{SysError, SysResult};

/// `NLMSGERR_ATTR_MSG`, linux/netlink.h: text of the error.
const ERROR_ATTRIBUTE_MESSAGE: u16 = 1;

/// The length of `struct nlmsghdr`, which an error message repeats from the request.
const HEADER_LENGTH: usize = 16;

/// A refusal of the kernel.
#[derive(Debug)]
pub(crate) struct Refusal {
    cause: io::Error,
    words: String,
}

impl Refusal {
    /// The error for people, with the operation and its subject.
    pub(crate) fn during(self, operation: &str, subject: impl Into<String>) -> SysError {
        SysError::new(operation, subject, self.cause).with_detail(self.words)
    }

    /// The error number, if the kernel gave one.
    pub(crate) fn errno(&self) -> Option<i32> {
        self.cause.raw_os_error()
    }
}

impl From<io::Error> for Refusal {
    fn from(cause: io::Error) -> Self {
        Self { cause, words: String::new() }
    }
}

/// A netlink socket of one protocol, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Exchange {
    socket: Socket,
    sequence: u32,
}

impl Exchange {
    /// Opens a socket of `protocol` (`netlink_sys::protocols`), called `name` in errors.
    pub(crate) fn open(protocol: isize, name: &str) -> SysResult<Self> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(protocol)?;
            socket.bind_auto()?;
            // ask for the text of errors, and for the header only of the repeated request
            socket.set_ext_ack(true)?;
            socket.set_cap_ack(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|cause| SysError::new("open netlink socket", name, cause))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends `message` with `flags` (beside `NLM_F_REQUEST` and `NLM_F_ACK`) and returns the
    /// replies that came before the acknowledgement.
    pub(crate) fn request<Request, Reply>(
        &mut self,
        message: Request,
        flags: u16,
    ) -> Result<Vec<Reply>, Refusal>
    where
        Request: NetlinkSerializable,
        Reply: NetlinkDeserializable,
    {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = serialize(message, flags, self.sequence);
        self.socket.send_to(&bytes, &SocketAddr::new(0, 0), 0)?;
        let mut replies = Vec::new();
        loop {
            let (datagram, from) = match self.socket.recv_from_full() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                received => received?,
            };
            // port 0 is the kernel; anything else is another process
            if from.port_number() == 0 && read(&datagram, self.sequence, &mut replies)? {
                return Ok(replies);
            }
        }
    }
}

fn serialize<Request: NetlinkSerializable>(message: Request, flags: u16, sequence: u32) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Takes the messages of one datagram that answer `sequence`; true when the exchange has ended.
fn read<Reply: NetlinkDeserializable>(
    mut datagram: &[u8],
    sequence: u32,
    replies: &mut Vec<Reply>,
) -> Result<bool, Refusal> {
    let malformed = |error: netlink_packet_core::DecodeError| {
        Refusal::from(io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
    };
    while !datagram.is_empty() {
        let (length, answers) = {
            let buffer = NetlinkBuffer::new_checked(datagram).map_err(malformed)?;
            (buffer.length() as usize, buffer.sequence_number() == sequence)
        };
        let message = datagram.get(..length).unwrap_or(datagram);
        datagram =
            datagram.get(length.next_multiple_of(NLMSG_ALIGNTO.into())..).unwrap_or_default();
        if !answers {
            continue;
        }
        let message = NetlinkMessage::<Reply>::deserialize(message).map_err(malformed)?;
        match message.payload {
            NetlinkPayload::InnerMessage(reply) => replies.push(reply),
            NetlinkPayload::Error(error) => {
                return match error.code {
                    None => Ok(true),
                    Some(code) => Err(Refusal {
                        cause: io::Error::from_raw_os_error(code.get().saturating_neg()),
                        words: words(message.header.flags, &error.header),
                    }),
                };
            }
            NetlinkPayload::Done(_) => return Ok(true),
            _ => {}
        }
    }
    Ok(false)
}

/// The text of the extended acknowledgement; `body` follows the error code.
fn words(flags: u16, body: &[u8]) -> String {
    if flags & NLM_F_ACK_TLVS == 0 || body.len() < HEADER_LENGTH {
        return String::new();
    }
    let repeated = if flags & NLM_F_CAPPED != 0 {
        HEADER_LENGTH
    } else {
        let length = u32::from_ne_bytes([body[0], body[1], body[2], body[3]]) as usize;
        length.next_multiple_of(NLMSG_ALIGNTO.into())
    };
    NlasIterator::new(body.get(repeated..).unwrap_or_default())
        .flatten()
        .find(|attribute| attribute.kind() == ERROR_ATTRIBUTE_MESSAGE)
        .and_then(|attribute| parse_string(attribute.value()).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{DefaultNla, Emitable};
    use netlink_packet_route::RouteNetlinkMessage;
    use netlink_packet_route::link::LinkMessage;

    use super::*;

    fn refusal(sequence: u32, errno: i32, capped: bool) -> Vec<u8> {
        let request = serialize(RouteNetlinkMessage::GetLink(LinkMessage::default()), 0, sequence);
        let mut body = (-errno).to_ne_bytes().to_vec();
        body.extend_from_slice(if capped { &request[..HEADER_LENGTH] } else { &request });
        let words = DefaultNla::new(ERROR_ATTRIBUTE_MESSAGE, b"too large\0".to_vec());
        let mut attribute = vec![0; words.buffer_len()];
        words.emit(&mut attribute);
        body.extend_from_slice(&attribute);
        let flags = NLM_F_ACK_TLVS | if capped { NLM_F_CAPPED } else { 0 };
        let mut datagram = ((HEADER_LENGTH + body.len()) as u32).to_ne_bytes().to_vec();
        datagram.extend_from_slice(&2u16.to_ne_bytes());
        datagram.extend_from_slice(&flags.to_ne_bytes());
        datagram.extend_from_slice(&sequence.to_ne_bytes());
        datagram.extend_from_slice(&0u32.to_ne_bytes());
        datagram.extend_from_slice(&body);
        datagram
    }

    #[test]
    fn a_refusal_carries_number_and_words() {
        for capped in [true, false] {
            let mut replies = Vec::<RouteNetlinkMessage>::new();
            let error = read(&refusal(7, libc::ERANGE, capped), 7, &mut replies).unwrap_err();
            assert_eq!(error.errno(), Some(libc::ERANGE));
            assert_eq!(error.words, "too large", "capped {capped}");
        }
    }

    #[test]
    fn answers_to_another_request_are_passed_over() {
        let mut datagram = refusal(6, libc::ERANGE, true);
        let mut replies = Vec::<RouteNetlinkMessage>::new();
        assert!(!read(&datagram, 7, &mut replies).unwrap());
        datagram.extend_from_slice(&refusal(7, 0, true));
        assert!(read(&datagram, 7, &mut replies).unwrap());
        assert!(replies.is_empty());
    }

    #[test]
    fn a_cut_datagram_is_an_error_and_not_a_panic() {
        let datagram = refusal(7, libc::ERANGE, true);
        for length in 1..datagram.len() {
            let mut replies = Vec::<RouteNetlinkMessage>::new();
            assert!(read(&datagram[..length], 7, &mut replies).is_err(), "{length}");
        }
    }
}
