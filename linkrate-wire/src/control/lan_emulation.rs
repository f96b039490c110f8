//! Control frames of LAN Emulation (ATM Forum LANE 1.0, section 4.2): 108 octets, after which type,
//! length and value triples may follow.
//!
//! | field | octets |
//! |---|---|
//! | marker 0xFF00, protocol 1, version 1 | 4 |
//! | operation, status | 4 |
//! | transaction | 4 |
//! | requester's LECID, flags | 4 |
//! | source and target LAN destination | 16 |
//! | source ATM address | 20 |
//! | LAN type, maximum frame size, number of triples, size of the ELAN's name | 4 |
//! | target ATM address | 20 |
//! | name of the ELAN | 32 |
//!
//! Of frames that ask or say whether a connection is ready there is no more than the operation.

use std::fmt;

use super::Reader;
use crate::atm::AtmAddress;
use crate::frame::{FrameError, MacAddress};

/// Octets of a control frame without triples.
pub const LENGTH: usize = 108;

/// Octets of a frame that asks or says whether a connection is ready.
pub const READY_LENGTH: usize = 6;

/// What a control frame begins with where a data frame has a LECID: no client has this one.
pub const MARKER: u16 = 0xff00;

const PROTOCOL: u8 = 1;
const VERSION: u8 = 1;
/// A response has the operation of its request, and this bit.
const RESPONSE: u16 = 0x0100;
const MAX_NAME: u8 = 32;

/// A LAN emulation client identifier; 0 before the server has given one.
pub type Lecid = u16;

/// What a frame asks for or answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Which server has the ELAN?
    Configure,
    /// A client joins.
    Join,
    /// Is the other end of this connection ready? Its answer is no response: it says that it is.
    Ready,
    /// A client has one more LAN destination.
    Register,
    /// A client has one less.
    Unregister,
    /// Which ATM address has this LAN destination?
    Arp,
    /// Proof that a path is empty of earlier frames.
    Flush,
    /// A LAN destination has moved.
    NegativeArp,
    /// The topology of bridges has changed, or no longer changes.
    Topology,
}

const OPERATIONS: [(Operation, u16); 9] = [
    (Operation::Configure, 1),
    (Operation::Join, 2),
    (Operation::Ready, 3),
    (Operation::Register, 4),
    (Operation::Unregister, 5),
    (Operation::Arp, 6),
    (Operation::Flush, 7),
    (Operation::NegativeArp, 8),
    (Operation::Topology, 9),
];

/// The status of a response (LANE 1.0, table 13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub u16);

impl Status {
    /// Done.
    pub const SUCCESS: Self = Self(0);
    /// The version is not supported.
    pub const VERSION: Self = Self(1);
    /// The parameters contradict those of the ELAN.
    pub const PARAMETERS: Self = Self(2);
    /// The LAN destination is registered by another client.
    pub const DUPLICATE_DESTINATION: Self = Self(4);
    /// The ATM address is that of another client.
    pub const DUPLICATE_ATM: Self = Self(5);
    /// No room for another client.
    pub const RESOURCES: Self = Self(6);
    /// The client may not join.
    pub const ACCESS_DENIED: Self = Self(7);
    /// The LECID is not that of a client.
    pub const REQUESTER: Self = Self(8);
    /// The LAN destination is invalid.
    pub const DESTINATION: Self = Self(9);
    /// The ATM address is invalid.
    pub const ATM_ADDRESS: Self = Self(10);
    /// There is no configuration for the client.
    pub const NO_CONFIGURATION: Self = Self(20);
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::SUCCESS => "done",
            Self::VERSION => "the version is not supported",
            Self::PARAMETERS => "the settings contradict those of the ELAN",
            Self::DUPLICATE_DESTINATION => "another client has the Ethernet address",
            Self::DUPLICATE_ATM => "another client has the ATM address",
            Self::RESOURCES => "there is no room for another client",
            Self::ACCESS_DENIED => "the client may not join",
            Self::REQUESTER => "the identifier is not that of the client",
            Self::DESTINATION => "the Ethernet address is invalid",
            Self::ATM_ADDRESS => "the ATM address is invalid",
            Self::NO_CONFIGURATION => "there is no such ELAN",
            Self(other) => return write!(f, "status {other}"),
        })
    }
}

/// A LAN destination in a control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Destination {
    /// The field is not used.
    #[default]
    Absent,
    /// An Ethernet address.
    Mac(MacAddress),
    /// A route descriptor of source routing: ring and bridge.
    Route([u8; 2]),
}

/// The largest data frame of an ELAN, in octets of the AAL5 unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum FrameSize {
    /// Not said.
    #[default]
    Unspecified,
    /// 1516: Ethernet's MTU of 1500.
    Octets1516,
    /// 4544.
    Octets4544,
    /// 9234: an MTU of 9218.
    Octets9234,
    /// 18190.
    Octets18190,
}

const SIZES: [(FrameSize, u16); 5] = [
    (FrameSize::Unspecified, 0),
    (FrameSize::Octets1516, 1516),
    (FrameSize::Octets4544, 4544),
    (FrameSize::Octets9234, 9234),
    (FrameSize::Octets18190, 18190),
];

impl FrameSize {
    /// Octets of the AAL5 unit; 0 where it is not said.
    #[must_use]
    pub fn octets(self) -> u16 {
        SIZES.iter().find(|(size, _)| *size == self).map_or(0, |(_, octets)| *octets)
    }

    /// The size with so many octets.
    #[must_use]
    pub fn of(octets: u16) -> Option<Self> {
        SIZES[1..].iter().find(|(_, known)| *known == octets).map(|(size, _)| *size)
    }

    /// The largest packet, in octets: a data frame less LECID and Ethernet header.
    #[must_use]
    pub fn mtu(self) -> u16 {
        self.octets().saturating_sub(crate::link::atm::LANE_HEADER as u16)
    }

    fn code(self) -> u8 {
        SIZES.iter().position(|(size, _)| *size == self).unwrap_or(0) as u8
    }
}

/// The type of the emulated LAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LanType {
    /// Not said.
    #[default]
    Unspecified,
    /// Ethernet (IEEE 802.3).
    Ethernet,
    /// Token ring (IEEE 802.5).
    TokenRing,
}

/// The name of an ELAN: up to 32 octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Name {
    octets: [u8; MAX_NAME as usize],
    length: u8,
}

impl Name {
    /// A name; `None` if it is too long.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let mut octets = [0; MAX_NAME as usize];
        octets.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(Self { octets, length: name.len() as u8 })
    }

    /// Its octets.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }
}

/// A control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneControl {
    /// What it is about.
    pub operation: Operation,
    /// It answers a request.
    pub is_response: bool,
    /// How the request went; success in a request.
    pub status: Status,
    /// Chosen by the requester; the response has the same.
    pub transaction: u32,
    /// The client that asked.
    pub requester: Lecid,
    /// Flags, by operation.
    pub flags: Flags,
    /// The LAN destination of the sender.
    pub source: Destination,
    /// The LAN destination that it is about.
    pub target: Destination,
    /// The ATM address of the client that asked.
    pub source_atm: AtmAddress,
    /// The ATM address that the answer tells.
    pub target_atm: AtmAddress,
    /// The type of the LAN.
    pub lan: LanType,
    /// The largest data frame.
    pub size: FrameSize,
    /// The name of the ELAN.
    pub elan: Name,
}

/// Flags of a control frame (LANE 1.0, table 12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// The address of an answer to an ARP is not the target's own: it was found by a proxy.
    pub const REMOTE: Self = Self(0x0001);
    /// A client that joins may answer for others.
    pub const PROXY: Self = Self(0x0080);
    /// The topology of bridges changes.
    pub const TOPOLOGY_CHANGE: Self = Self(0x0100);

    /// Whether all flags of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags, if `set`.
    #[must_use]
    pub const fn when(self, set: bool) -> Self {
        if set { self } else { Self(0) }
    }
}

/// Whether an AAL5 unit of LAN Emulation is a control frame, and not a data frame of a client.
#[must_use]
pub fn is_control(unit: &[u8]) -> bool {
    unit.starts_with(&MARKER.to_be_bytes())
}

impl LaneControl {
    /// A request with nothing but its operation.
    #[must_use]
    pub fn request(operation: Operation) -> Self {
        Self {
            operation,
            is_response: false,
            status: Status::SUCCESS,
            transaction: 0,
            requester: 0,
            flags: Flags::default(),
            source: Destination::Absent,
            target: Destination::Absent,
            source_atm: AtmAddress::UNKNOWN,
            target_atm: AtmAddress::UNKNOWN,
            lan: LanType::Unspecified,
            size: FrameSize::Unspecified,
            elan: Name::default(),
        }
    }

    /// Reads a control frame. Triples after it are ignored. Fails if it is cut off, of another protocol or version,
    /// or a field has a value that is not defined.
    pub fn parse(unit: &[u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(unit, 0, "octets of LANE control frame");
        reader.word("LANE marker", MARKER, MARKER)?;
        reader.byte("LANE protocol", PROTOCOL, PROTOCOL)?;
        reader.byte("LANE version", VERSION, VERSION)?;
        let at = reader.at();
        let code = reader.any_word()?;
        let number = code & !RESPONSE;
        FrameError::within("LANE operation", at, number.into(), 1, OPERATIONS.len())?;
        let (operation, _) = OPERATIONS[usize::from(number) - 1];
        let is_response = code & RESPONSE != 0;
        if operation == Operation::Ready {
            return Ok(Self { is_response, ..Self::request(operation) });
        }
        let status = Status(reader.any_word()?);
        let transaction = u32::from_be_bytes(reader.array()?);
        let requester = reader.any_word()?;
        let flags = Flags(reader.any_word()?);
        let (source, target) = (destination(&mut reader)?, destination(&mut reader)?);
        let source_atm = AtmAddress(reader.array()?);
        let lan = match reader.byte("LANE LAN type", 0, 2)? {
            0 => LanType::Unspecified,
            1 => LanType::Ethernet,
            _ => LanType::TokenRing,
        };
        let size = reader.byte("LANE maximum frame size", 0, SIZES.len() as u8 - 1)?;
        let (size, _) = SIZES[usize::from(size)];
        let [_triples] = reader.array()?;
        let length = reader.byte("size of the ELAN's name", 0, MAX_NAME)?;
        let target_atm = AtmAddress(reader.array()?);
        let mut octets: [u8; MAX_NAME as usize] = reader.array()?;
        octets[usize::from(length)..].fill(0);
        Ok(Self {
            operation,
            is_response,
            status,
            transaction,
            requester,
            flags,
            source,
            target,
            source_atm,
            target_atm,
            lan,
            size,
            elan: Name { octets, length },
        })
    }

    /// The octets of the frame, without triples.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let number = OPERATIONS.iter().position(|(operation, _)| *operation == self.operation);
        let number = number.map_or(0, |at| at as u16 + 1);
        let code = number | if self.is_response { RESPONSE } else { 0 };
        let lan = match self.lan {
            LanType::Unspecified => 0,
            LanType::Ethernet => 1,
            LanType::TokenRing => 2,
        };
        let fields: [&[u8]; 13] = [
            &MARKER.to_be_bytes(),
            &[PROTOCOL, VERSION],
            &code.to_be_bytes(),
            &self.status.0.to_be_bytes(),
            &self.transaction.to_be_bytes(),
            &self.requester.to_be_bytes(),
            &self.flags.0.to_be_bytes(),
            &emitted(self.source),
            &emitted(self.target),
            &self.source_atm.0,
            &[lan, self.size.code(), 0, self.elan.length],
            &self.target_atm.0,
            &self.elan.octets,
        ];
        let mut frame = fields.concat();
        if self.operation == Operation::Ready {
            frame.truncate(READY_LENGTH);
        }
        frame
    }

    /// The response to this request.
    #[must_use]
    pub fn answered(self, status: Status) -> Self {
        Self { is_response: true, status, ..self }
    }
}

/// Tags of a LAN destination.
const ABSENT: u16 = 0;
const MAC: u16 = 1;
const ROUTE: u16 = 2;

fn destination(reader: &mut Reader<'_>) -> Result<Destination, FrameError> {
    let tag = reader.word("tag of LAN destination", ABSENT, ROUTE)?;
    let octets: [u8; 6] = reader.array()?;
    Ok(match tag {
        MAC => Destination::Mac(MacAddress(octets)),
        ROUTE => Destination::Route([octets[4], octets[5]]),
        _ => Destination::Absent,
    })
}

fn emitted(destination: Destination) -> [u8; 8] {
    let (tag, octets) = match destination {
        Destination::Absent => (ABSENT, [0; 6]),
        Destination::Mac(address) => (MAC, address.0),
        Destination::Route([one, two]) => (ROUTE, [0, 0, 0, 0, one, two]),
    };
    let mut field = [0; 8];
    field[..2].copy_from_slice(&tag.to_be_bytes());
    field[2..].copy_from_slice(&octets);
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn destination() -> impl Strategy<Value = Destination> {
        prop_oneof![
            Just(Destination::Absent),
            any::<[u8; 6]>().prop_map(|octets| Destination::Mac(MacAddress(octets))),
            any::<[u8; 2]>().prop_map(Destination::Route),
        ]
    }

    fn frame() -> impl Strategy<Value = LaneControl> {
        let operation = prop::sample::select(OPERATIONS.map(|(operation, _)| operation).to_vec());
        let size = prop::sample::select(SIZES.map(|(size, _)| size).to_vec());
        let lan =
            prop::sample::select(vec![LanType::Unspecified, LanType::Ethernet, LanType::TokenRing]);
        let atm = || any::<[u8; 20]>().prop_map(AtmAddress);
        let head = (operation, any::<bool>(), any::<u16>(), any::<u32>(), any::<u16>());
        (head, any::<u16>(), destination(), destination(), atm(), atm(), lan, size, "[ -~]{0,32}")
            .prop_map(|(head, flags, source, target, source_atm, target_atm, lan, size, elan)| {
                let (operation, is_response, status, transaction, requester) = head;
                if operation == Operation::Ready {
                    return LaneControl { is_response, ..LaneControl::request(operation) };
                }
                LaneControl {
                    operation,
                    is_response,
                    status: Status(status),
                    transaction,
                    requester,
                    flags: Flags(flags),
                    source,
                    target,
                    source_atm,
                    target_atm,
                    lan,
                    size,
                    elan: Name::new(&elan).expect("up to 32 octets"),
                }
            })
    }

    #[test]
    fn a_request_to_join_has_its_fields_in_their_places() {
        let frame = LaneControl {
            operation: Operation::Join,
            is_response: true,
            status: Status::SUCCESS,
            transaction: 0x0102_0304,
            requester: 7,
            flags: Flags::PROXY,
            source: Destination::Mac(MacAddress([2, 0, 0, 0, 0, 9])),
            target: Destination::Absent,
            source_atm: AtmAddress([1; 20]),
            target_atm: AtmAddress([2; 20]),
            lan: LanType::Ethernet,
            size: FrameSize::Octets9234,
            elan: Name::new("blue").unwrap(),
        };
        let octets = frame.emit();
        assert_eq!(octets[..8], [0xff, 0, 1, 1, 0x01, 0x02, 0, 0]);
        assert_eq!(octets[8..16], [1, 2, 3, 4, 0, 7, 0, 0x80]);
        assert_eq!(octets[16..24], [0, 1, 2, 0, 0, 0, 0, 9]);
        assert_eq!(octets[24..52], [&[0; 8][..], &[1; 20]].concat());
        assert_eq!(octets[52..56], [1, 3, 0, 4]);
        assert_eq!((&octets[56..76], &octets[76..80]), (&[2; 20][..], &b"blue"[..]));
        assert!(is_control(&octets) && frame.size.octets() == 9234);
        assert_eq!(Name::new(&"x".repeat(33)), None);
        assert!(frame.flags.has(Flags::PROXY) && !frame.flags.has(Flags::REMOTE));
        let sizes = [1500, 1516, 4544, 9234, 18190, 0].map(FrameSize::of);
        assert_eq!(
            sizes.map(|size| size.map(FrameSize::mtu)),
            [None, Some(1500), Some(4528), Some(9218), Some(18174), None,]
        );
    }

    #[test]
    fn wrong_fields_are_named() {
        let whole = [0xff, 0, 1, 1, 0, 1].iter().copied().chain([0; 102]).collect::<Vec<u8>>();
        assert!(LaneControl::parse(&whole).is_ok());
        for (at, octet, said) in [
            (3, 2, "LANE version at byte 3 is 2, expected 1"),
            (5, 10, "LANE operation at byte 4 is 10, expected 1 to 9"),
            (17, 3, "tag of LAN destination at byte 16 is 3, expected 0 to 2"),
            (53, 5, "LANE maximum frame size at byte 53 is 5, expected 0 to 4"),
            (55, 33, "size of the ELAN's name at byte 55 is 33, expected 0 to 32"),
        ] {
            let mut octets = whole.clone();
            octets[at] = octet;
            assert_eq!(LaneControl::parse(&octets).unwrap_err().to_string(), said);
        }
        assert!(LaneControl::parse(&whole[..107]).is_err());
        let ready = LaneControl::request(Operation::Ready).emit();
        assert_eq!(ready, [0xff, 0, 1, 1, 0, 3]);
        assert!(LaneControl::parse(&ready).is_ok() && LaneControl::parse(&ready[..5]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read(frame in frame()) {
            prop_assert_eq!(LaneControl::parse(&frame.emit()), Ok(frame));
        }

        #[test]
        fn any_octets_are_read_or_refused(octets in prop::collection::vec(any::<u8>(), 0..130)) {
            let _ = LaneControl::parse(&octets);
        }
    }
}
