//! The PDU of link aggregation control (IEEE 802.1AX-2020, 6.4).
//!
//! ```text
//! subtype 1 · version · 1, 20, actor · 2, 20, partner · 3, 16, collector delay · 0, 0 · reserved 50
//! ```
//!
//! A receiver does not validate version, types of TLVs or reserved fields; it may validate lengths
//! (IEEE 802.1AX-2014, 6.4.12). So a station of version 1 reads the PDUs of all later versions,
//! which have their additional TLVs after the collector's. This decoder validates the lengths.

use std::fmt;

use super::Reader;
use super::slow::{self, Subtype};
use crate::frame::{FrameError, MacAddress};

/// The version that this module writes.
pub const VERSION: u8 = 1;
/// Bytes of a PDU of version 1, from the subtype on.
pub const LENGTH: usize = 110;

const ACTOR: u8 = 1;
const PARTNER: u8 = 2;
const COLLECTOR: u8 = 3;
const INFORMATION_LENGTH: u8 = 20;
const COLLECTOR_LENGTH: u8 = 16;

/// Which system: the lower value has the higher priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SystemId {
    /// The administrator's part; lower is better.
    pub priority: u16,
    /// An address of the system, which makes the identifier unique.
    pub address: MacAddress,
}

/// Which port of a system: the lower value has the higher priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId {
    /// The administrator's part; lower is better.
    pub priority: u16,
    /// The number of the port, unique in its system and not 0.
    pub number: u16,
}

/// One end of a link as a PDU describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Information {
    /// The system that the port belongs to.
    pub system: SystemId,
    /// Ports of a system with the same key may be aggregated.
    pub key: u16,
    /// The port.
    pub port: PortId,
    /// Settings and state of the port.
    pub state: State,
}

/// Settings and state of a port, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct State {
    /// LACP_Activity: the port sends PDUs unasked ("active"), and not only if its partner does.
    pub activity: bool,
    /// LACP_Timeout: the port wants a PDU every second ("short"), and not every 30 s.
    pub short_timeout: bool,
    /// Aggregation: the link may be aggregated, and is not individual.
    pub aggregation: bool,
    /// Synchronization: the port is attached to the right aggregator.
    pub synchronization: bool,
    /// Collecting: the port takes in frames.
    pub collecting: bool,
    /// Distributing: the port sends frames out.
    pub distributing: bool,
    /// Defaulted: the port heard no partner, and works with default values.
    pub defaulted: bool,
    /// Expired: the port has not heard its partner for too long.
    pub expired: bool,
}

/// A PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lacpdu {
    /// The version of its sender.
    pub version: u8,
    /// The sender's end of the link.
    pub actor: Information,
    /// The receiver's end, as the sender knows it.
    pub partner: Information,
    /// How long the sender's collector may hold a frame, in tens of microseconds.
    pub collector_max_delay: u16,
}

impl SystemId {
    /// No system.
    pub const UNKNOWN: Self = Self { priority: 0, address: MacAddress::UNKNOWN };
}

impl fmt::Display for SystemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.priority, self.address)
    }
}

impl Information {
    /// Of a partner that is not known.
    pub const UNKNOWN: Self = Self {
        system: SystemId::UNKNOWN,
        key: 0,
        port: PortId { priority: 0, number: 0 },
        state: State::of(0),
    };

    fn read(reader: &mut Reader<'_>, length: &'static str) -> Result<Self, FrameError> {
        let [_type] = reader.array()?;
        reader.byte(length, INFORMATION_LENGTH, INFORMATION_LENGTH)?;
        let priority = reader.any_word()?;
        let system = SystemId { priority, address: MacAddress(reader.array()?) };
        let key = reader.any_word()?;
        let port = PortId { priority: reader.any_word()?, number: reader.any_word()? };
        let [state, _reserved @ ..] = reader.array::<4>()?;
        Ok(Self { system, key, port, state: State::of(state) })
    }

    fn emit(&self, kind: u8, message: &mut Vec<u8>) {
        message.extend([kind, INFORMATION_LENGTH]);
        message.extend(self.system.priority.to_be_bytes());
        message.extend(self.system.address.0);
        for word in [self.key, self.port.priority, self.port.number] {
            message.extend(word.to_be_bytes());
        }
        message.extend([self.state.octet(), 0, 0, 0]);
    }
}

impl State {
    /// The state that an octet stands for.
    #[must_use]
    pub const fn of(octet: u8) -> Self {
        Self {
            activity: octet & 0x01 != 0,
            short_timeout: octet & 0x02 != 0,
            aggregation: octet & 0x04 != 0,
            synchronization: octet & 0x08 != 0,
            collecting: octet & 0x10 != 0,
            distributing: octet & 0x20 != 0,
            defaulted: octet & 0x40 != 0,
            expired: octet & 0x80 != 0,
        }
    }

    /// Its octet.
    #[must_use]
    pub fn octet(self) -> u8 {
        self.bits().iter().rev().fold(0, |octet, (_, bit)| octet << 1 | u8::from(*bit))
    }

    /// The bits from the lowest on, each with its name in the standard.
    #[must_use]
    pub const fn bits(self) -> [(&'static str, bool); 8] {
        [
            ("LACP_Activity", self.activity),
            ("LACP_Timeout", self.short_timeout),
            ("Aggregation", self.aggregation),
            ("Synchronization", self.synchronization),
            ("Collecting", self.collecting),
            ("Distributing", self.distributing),
            ("Defaulted", self.defaulted),
            ("Expired", self.expired),
        ]
    }
}

/// The names of the bits that are set, separated by commas; `-` if no bit is.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = self.bits().into_iter().filter(|(_, bit)| *bit).map(|(name, _)| name);
        f.write_str(set.next().unwrap_or("-"))?;
        set.try_for_each(|name| write!(f, ",{name}"))
    }
}

impl Lacpdu {
    /// Reads what follows the subtype of a slow protocol message. Bytes after the collector's TLV are not looked
    /// at. Fails if it is cut off, or a TLV has a wrong length.
    pub fn parse(data: &[u8]) -> Result<Self, FrameError> {
        Self::read(data, 0)
    }

    /// Reads the PDU whose version is byte `at` of a frame.
    pub(super) fn read(frame: &[u8], at: usize) -> Result<Self, FrameError> {
        let mut reader = Reader::new(frame, at, "bytes of LACPDU");
        let [version] = reader.array()?;
        let actor = Information::read(&mut reader, "LACPDU actor information length")?;
        let partner = Information::read(&mut reader, "LACPDU partner information length")?;
        let [_type] = reader.array()?;
        reader.byte("LACPDU collector information length", COLLECTOR_LENGTH, COLLECTOR_LENGTH)?;
        let collector_max_delay = reader.any_word()?;
        reader.array::<12>()?;
        Ok(Self { version, actor, partner, collector_max_delay })
    }

    /// The bytes of the slow protocol message, from the subtype on.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(LENGTH);
        message.extend([Subtype::Lacp.octet(), self.version]);
        self.actor.emit(ACTOR, &mut message);
        self.partner.emit(PARTNER, &mut message);
        message.extend([COLLECTOR, COLLECTOR_LENGTH]);
        message.extend(self.collector_max_delay.to_be_bytes());
        // the rest is reserved, with the terminator (0, 0) in it
        message.resize(LENGTH, 0);
        message
    }

    /// The frame, from the address of the port that sends it; without FCS.
    #[must_use]
    pub fn frame(&self, source: MacAddress) -> Vec<u8> {
        super::frame(slow::GROUP, source, slow::ETHER_TYPE, &self.emit())
    }
}
