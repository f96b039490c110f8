//! Address resolution for IPv4 over ATM: ATMARP and InATMARP (RFC 2225, 8.1).
//!
//! | field | octets | |
//! |---|---|---|
//! | hardware type | 2 | 19 |
//! | protocol type | 2 | 0x0800 |
//! | type and length of the source's ATM number | 1 | 20, or 0 where it is unknown |
//! | type and length of its subaddress | 1 | 0 |
//! | operation | 2 | |
//! | length of the source's IP address | 1 | 4, or 0 |
//! | the same three lengths of the target | 3 | |
//! | source ATM number, source IP address, target ATM number, target IP address | each as long as said | |

use std::net::Ipv4Addr;

use super::Reader;
use crate::atm::AtmAddress;
use crate::frame::{FrameError, ipv4};

const HARDWARE: u16 = 19;
const IP_LENGTH: u8 = 4;
const ATM_LENGTH: u8 = AtmAddress::LENGTH as u8;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtmArp {
    /// Question or answer.
    pub operation: Operation,
    /// The end system that sends the message; in a refusal, the one that asked.
    pub source: Station,
    /// The end system that is asked for, or told.
    pub target: Station,
}

/// Question or answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Which ATM address has the target's IP address?
    Request,
    /// The source has it.
    Reply,
    /// Which IP address has the other end of this connection?
    InverseRequest,
    /// The source's.
    InverseReply,
    /// The server does not know the target.
    Refusal,
}

const OPERATIONS: [(Operation, u16); 5] = [
    (Operation::Request, 1),
    (Operation::Reply, 2),
    (Operation::InverseRequest, 8),
    (Operation::InverseReply, 9),
    (Operation::Refusal, 10),
];

/// The addresses of an end system, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Station {
    /// The ATM address.
    pub atm: Option<AtmAddress>,
    /// The IPv4 address.
    pub ip: Option<Ipv4Addr>,
}

impl Station {
    /// Both addresses.
    #[must_use]
    pub const fn new(atm: AtmAddress, ip: Ipv4Addr) -> Self {
        Self { atm: Some(atm), ip: Some(ip) }
    }

    /// The IP address alone.
    #[must_use]
    pub const fn of_ip(ip: Ipv4Addr) -> Self {
        Self { atm: None, ip: Some(ip) }
    }
}

impl AtmArp {
    /// Reads a message. Octets after it are ignored. Fails if it is cut off, is not of IPv4 over ATM, has another
    /// operation, or an address of another kind.
    pub fn parse(message: &[u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(message, 0, "bytes of ATMARP message");
        reader.word("ATMARP hardware type", HARDWARE, HARDWARE)?;
        reader.word("ATMARP protocol type", ipv4::ETHER_TYPE, ipv4::ETHER_TYPE)?;
        let source = has_number(&mut reader)?;
        let at = 6;
        let number = reader.word("ATMARP operation", 1, 10)?;
        let known = OPERATIONS.iter().find(|(_, other)| *other == number);
        let Some((operation, _)) = known else {
            // 3 to 7 are those of other protocols of ARP
            let (lowest, found) = (8, number.into());
            return Err(FrameError {
                field: "ATMARP operation",
                at,
                lowest,
                highest: Some(10),
                found,
            });
        };
        let source_ip = has_ip(&mut reader)?;
        let target = has_number(&mut reader)?;
        let target_ip = has_ip(&mut reader)?;
        let mut station = |atm: bool, ip: bool| {
            let atm = atm.then(|| reader.array().map(AtmAddress)).transpose()?;
            let ip = ip.then(|| reader.array().map(Ipv4Addr::from)).transpose()?;
            Ok(Station { atm, ip })
        };
        let (source, target) = (station(source, source_ip)?, station(target, target_ip)?);
        Ok(Self { operation: *operation, source, target })
    }

    /// The octets of the message.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let Self { operation, source, target } = self;
        let number = OPERATIONS.iter().find(|(one, _)| one == operation);
        let number = number.map_or(0, |(_, number)| *number);
        let atm = |station: &Station| if station.atm.is_some() { ATM_LENGTH } else { 0 };
        let ip = |station: &Station| if station.ip.is_some() { IP_LENGTH } else { 0 };
        let mut message = Vec::with_capacity(12 + 2 * (AtmAddress::LENGTH + 4));
        message.extend(HARDWARE.to_be_bytes());
        message.extend(ipv4::ETHER_TYPE.to_be_bytes());
        message.extend([atm(source), 0]);
        message.extend(number.to_be_bytes());
        message.extend([ip(source), atm(target), 0, ip(target)]);
        for station in [source, target] {
            message.extend(station.atm.iter().flat_map(|address| address.0));
            message.extend(station.ip.iter().flat_map(Ipv4Addr::octets));
        }
        message
    }
}

/// Whether there is an ATM number. It is an address of an end system, whose subaddress is empty. Bit 7
/// of its length would say that it is an E.164 number.
fn has_number(reader: &mut Reader<'_>) -> Result<bool, FrameError> {
    let number = is_there(reader, "type and length of ATM number", ATM_LENGTH)?;
    reader.byte("type and length of ATM subaddress", 0, 0)?;
    Ok(number)
}

fn has_ip(reader: &mut Reader<'_>) -> Result<bool, FrameError> {
    is_there(reader, "length of IP address", IP_LENGTH)
}

/// Reads the length of a field that has `length` octets or is not there.
fn is_there(reader: &mut Reader<'_>, field: &'static str, length: u8) -> Result<bool, FrameError> {
    let at = reader.at();
    let found = reader.byte(field, 0, length)?;
    if found != 0 {
        FrameError::within(field, at, found.into(), length.into(), length.into())?;
    }
    Ok(found != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn station() -> impl Strategy<Value = Station> {
        let atm = prop::option::of(any::<[u8; 20]>().prop_map(AtmAddress));
        let ip = prop::option::of(any::<[u8; 4]>().prop_map(Ipv4Addr::from));
        (atm, ip).prop_map(|(atm, ip)| Station { atm, ip })
    }

    fn message() -> impl Strategy<Value = AtmArp> {
        let operation = prop::sample::select(OPERATIONS.map(|(operation, _)| operation).to_vec());
        (operation, station(), station()).prop_map(|(operation, source, target)| AtmArp {
            operation,
            source,
            target,
        })
    }

    #[test]
    fn a_request_has_its_fields_in_their_places() {
        let source = Station::new(AtmAddress([7; 20]), Ipv4Addr::new(10, 0, 0, 1));
        let target = Station::of_ip(Ipv4Addr::new(10, 0, 0, 2));
        let octets = AtmArp { operation: Operation::Request, source, target }.emit();
        assert_eq!(octets[..12], [0, 19, 8, 0, 20, 0, 0, 1, 4, 0, 0, 4]);
        assert_eq!((&octets[12..32], &octets[32..36]), (&[7; 20][..], &[10, 0, 0, 1][..]));
        assert_eq!((&octets[36..], octets.len()), (&[10, 0, 0, 2][..], 40));
    }

    #[test]
    fn wrong_fields_are_named() {
        let source = Station::new(AtmAddress([7; 20]), Ipv4Addr::new(10, 0, 0, 1));
        let whole = AtmArp { operation: Operation::Refusal, source, target: source }.emit();
        for (at, octet, said) in [
            (1, 1, "ATMARP hardware type at byte 0 is 1, expected 19"),
            (4, 19, "type and length of ATM number at byte 4 is 19, expected 20"),
            // an E.164 number
            (4, 0x4f, "type and length of ATM number at byte 4 is 79, expected 0 to 20"),
            (5, 4, "type and length of ATM subaddress at byte 5 is 4, expected 0"),
            (7, 3, "ATMARP operation at byte 6 is 3, expected 8 to 10"),
            (8, 3, "length of IP address at byte 8 is 3, expected 4"),
        ] {
            let mut octets = whole.clone();
            octets[at] = octet;
            assert_eq!(AtmArp::parse(&octets).unwrap_err().to_string(), said);
        }
        assert!(AtmArp::parse(&whole[..whole.len() - 1]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read(message in message(), more in 0_usize..40) {
            let mut octets = message.emit();
            octets.resize(octets.len() + more, 0);
            prop_assert_eq!(AtmArp::parse(&octets), Ok(message));
        }

        #[test]
        fn any_octets_are_read_or_refused(octets in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(message) = AtmArp::parse(&octets) {
                let again = message.emit();
                prop_assert_eq!(&octets[..again.len()], &again[..]);
            }
        }
    }
}
