//! What travels through a fabric: Ethernet frames, or ATM cells and messages about their calls.

use linkrate_wire::lro::{Parts, Row};

use crate::cells::CellTrain;
use crate::frame::{Burst, WireFrame};
use crate::signal::Signal;

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
