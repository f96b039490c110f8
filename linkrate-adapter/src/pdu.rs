//! What travels through a fabric: Ethernet frames, or ATM cells and messages about their calls.

use linkrate_wire::atm::{AtmAddress, Connection};
use linkrate_wire::lro::{Parts, Row};
use linkrate_wire::machine::call::{Call, PartyAction, PartyEvent};

use crate::cells::CellTrain;
use crate::frame::{Burst, WireFrame};

/// Frames or cells that travel together. A link carries one kind alone.
#[derive(Debug, Clone)]
pub(crate) enum Pdu {
    Frames(Burst),
    /// Cells of one connection.
    Cells(CellTrain),
    /// A message about calls, between an ATM device and its switch.
    Signal(Box<Signal>),
}

impl Pdu {
    /// Whether it is a message about calls, which no line loses.
    pub(crate) fn is_signal(&self) -> bool {
        matches!(self, Self::Signal(_))
    }

    /// Frames, or cells.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Signal(_) => 0,
            Self::Frames(burst) => burst.frames() as u64,
            Self::Cells(cells) => cells.count() as u64,
        }
    }

    /// Octets of payload.
    pub(crate) fn payload(&self) -> usize {
        match self {
            Self::Frames(burst) => burst.tail().len(),
            Self::Cells(cells) => cells.count() * linkrate_wire::atm::PAYLOAD,
            Self::Signal(_) => 0,
        }
    }

    /// The memory that it takes, bytes.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Frames(burst) => burst.memory(),
            Self::Cells(cells) => cells.memory(),
            Self::Signal(_) => size_of::<Signal>(),
        }
    }

    /// The same in less memory, where much of it is unused.
    pub(crate) fn compact(self) -> Self {
        match self {
            Self::Frames(burst) => Self::Frames(burst.compact()),
            other => other,
        }
    }

    /// The frames; `None` of others, which no Ethernet link carries.
    pub(crate) fn into_frames(self) -> Option<Burst> {
        match self {
            Self::Frames(burst) => Some(burst),
            Self::Cells(_) | Self::Signal(_) => None,
        }
    }

    /// The cells; `None` of others.
    #[cfg(test)]
    pub(crate) fn into_cells(self) -> Option<CellTrain> {
        match self {
            Self::Frames(_) | Self::Signal(_) => None,
            Self::Cells(cells) => Some(cells),
        }
    }
}

impl From<Burst> for Pdu {
    fn from(burst: Burst) -> Self {
        Self::Frames(burst)
    }
}

impl From<WireFrame> for Pdu {
    fn from(frame: WireFrame) -> Self {
        Self::Frames(frame.into())
    }
}

impl From<CellTrain> for Pdu {
    fn from(cells: CellTrain) -> Self {
        Self::Cells(cells)
    }
}

impl From<Signal> for Pdu {
    fn from(signal: Signal) -> Self {
        Self::Signal(Box::new(signal))
    }
}

/// A message about calls, between a device and the switch at the other end of its link.
///
/// UNI signalling (ITU-T Q.2931 over SSCOP, on VCI 5) and ILMI (on VCI 16) would carry it as cells. Both are left out: a
/// message travels with the cells of its link, in their order, and takes no time of the line. Like SSCOP, it is not lost
/// while the link is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// To the switch: an end system with this address is at the port.
    Register(AtmAddress),
    /// From the switch: the address was not registered. Another port has it, or this one has too many.
    NotRegistered(AtmAddress),
    /// To the switch: an end system at the port wants something done.
    Asked {
        /// The end system.
        party: AtmAddress,
        action: PartyAction,
    },
    /// From the switch: a call has this connection on the link from now on.
    Opened {
        /// The end system at the port.
        party: AtmAddress,
        /// Its name for the call.
        call: Call,
        connection: Connection,
    },
    /// From the switch: the connection is no more.
    Closed(Connection),
    /// From the switch: something has happened to a call.
    Event { party: AtmAddress, event: PartyEvent },
    /// From the switch: it begins again, without the addresses and calls that it had.
    Restarted,
}
