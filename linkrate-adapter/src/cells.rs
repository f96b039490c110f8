//! Cells on a link, without a copy of their payload.
//!
//! A [`Unit`] is a packet as AAL5 carries it: header of the encapsulation, packet, and end, together
//! a multiple of 48 octets. A [`CellTrain`] is some of its cells, one behind the other on the line. It
//! has no entry for each cell: cell number n has octets 48 n to 48 n + 47 of the unit, behind one of
//! the two headers of its connection. A cell that a fault has changed travels alone, with its 53
//! octets.

use std::ops::Range;
use std::sync::Arc;

use linkrate_wire::atm::aal5::{self, End, Uncuttable};
#[cfg(test)]
use linkrate_wire::atm::cell;
use linkrate_wire::atm::cell::{Cell, Headers};
use linkrate_wire::atm::{CELL, HEADER, PAYLOAD};
use linkrate_wire::lro::Parts;

use crate::frame::{Burst, WireFrame};

/// Most cells of a train.
pub(crate) const TRAIN_CELLS: u32 = 64;

/// Octets of the longest header of an encapsulation.
const MAX_HEAD: usize = 16;

/// A packet as AAL5 carries it.
#[derive(Debug)]
pub(crate) struct Unit {
    head: [u8; MAX_HEAD],
    head_length: usize,
    packet: WireFrame,
    end: End,
    cells: u32,
}

impl Unit {
    /// A packet behind the header of its encapsulation, which has at most 16 octets. Fails if AAL5 cannot carry it.
    pub(crate) fn new(head: &[u8], packet: WireFrame) -> Result<Self, Uncuttable> {
        let end = aal5::end(&[head, packet.head(), packet.tail()], 0)?;
        let cells = aal5::cells(head.len() + packet.len()) as u32;
        let (mut room, head_length) = ([0; MAX_HEAD], head.len());
        room[..head_length].copy_from_slice(head);
        Ok(Self { head: room, head_length, packet, end, cells })
    }

    /// The header of the encapsulation.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head[..self.head_length]
    }

    pub(crate) fn packet(&self) -> &WireFrame {
        &self.packet
    }

    pub(crate) fn cells(&self) -> u32 {
        self.cells
    }

    /// All octets, in pieces. The last one has the whole trailer.
    pub(crate) fn pieces(&self) -> [&[u8]; 4] {
        [self.head(), self.packet.head(), self.packet.tail(), &self.end]
    }

    /// The payload of cell number `number`.
    pub(crate) fn payload(&self, number: u32) -> [u8; PAYLOAD] {
        let mut payload = [0; PAYLOAD];
        let (from, mut begin, mut filled) = (number as usize * PAYLOAD, 0, 0);
        for piece in self.pieces() {
            let rest = piece.get((from + filled).saturating_sub(begin)..).unwrap_or_default();
            if from + filled >= begin && filled < PAYLOAD {
                let now = rest.len().min(PAYLOAD - filled);
                payload[filled..filled + now].copy_from_slice(&rest[..now]);
                filled += now;
            }
            begin += piece.len();
        }
        payload
    }
}

/// Cells of one connection, one behind the other on the line. There is at least one.
#[derive(Debug, Clone)]
pub(crate) enum CellTrain {
    /// Cells of a unit.
    Run(Run),
    /// A cell that a fault has changed.
    Lone(Box<Cell>),
}

#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) unit: Arc<Unit>,
    /// The headers of its connection, on the link that it is on.
    pub(crate) headers: Headers,
    /// The numbers of the cells, in the unit.
    pub(crate) range: Range<u32>,
    /// The time from the end of one cell to that of the next.
    pub(crate) spacing_ps: u64,
}

impl Run {
    /// Whether it has the last cell of its unit.
    pub(crate) fn ends(&self) -> bool {
        self.range.end == self.unit.cells
    }

    pub(crate) fn count(&self) -> usize {
        self.range.len()
    }

    /// How long before its last cell the first one comes.
    pub(crate) fn length_ps(&self) -> u64 {
        (self.count() as u64 - 1) * self.spacing_ps
    }

    /// Its first `count` cells, which are not all, and the rest.
    #[cfg(test)]
    pub(crate) fn split(self, count: u32) -> (Self, Self) {
        let at = self.range.start + count;
        let first = Self { range: self.range.start..at, unit: Arc::clone(&self.unit), ..self };
        (first, Self { range: at..self.range.end, ..self })
    }

    /// The payload of its cell `index`, and whether that is the last one of its unit.
    pub(crate) fn payload(&self, index: u32) -> ([u8; PAYLOAD], bool) {
        let number = self.range.start + index;
        (self.unit.payload(number), number + 1 == self.unit.cells)
    }

    /// The octets of its cell `index`.
    pub(crate) fn cell(&self, index: u32) -> Cell {
        let (payload, is_last) = self.payload(index);
        let mut cell = [0; CELL];
        cell[..HEADER].copy_from_slice(&self.headers.of_cell(is_last));
        cell[HEADER..].copy_from_slice(&payload);
        cell
    }
}

impl CellTrain {
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Run(run) => run.count(),
            Self::Lone(_) => 1,
        }
    }

    /// The octets of the cells.
    #[cfg(test)]
    pub(crate) fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        let count = self.count() as u32;
        (0..count).map(|index| match self {
            Self::Run(run) => run.cell(index),
            Self::Lone(cell) => **cell,
        })
    }

    /// The memory that it takes, bytes. Trains of one unit share its block.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Run(run) => {
                let of_unit = size_of::<Unit>() + Burst::from(run.unit.packet.clone()).memory();
                size_of::<Run>() + of_unit * run.count() / run.unit.cells.max(1) as usize
            }
            Self::Lone(_) => CELL,
        }
    }

    /// The header of its first cell.
    #[cfg(test)]
    pub(crate) fn header(&self) -> [u8; HEADER] {
        match self {
            Self::Run(run) => run.headers.of_cell(run.range.start + 1 == run.unit.cells),
            Self::Lone(cell) => cell::header(cell),
        }
    }
}

#[cfg(test)]
mod tests {
    use linkrate_wire::atm::{Connection, Segmenter};
    use proptest::prelude::*;

    use super::*;

    pub(crate) const CONNECTION: Connection = Connection { vpi: 0, vci: 100 };

    proptest! {
        /// The cells of a run are those of a segmentation with copies.
        #[test]
        fn a_run_is_the_cells_of_its_unit(
            head in prop::collection::vec(any::<u8>(), 0..=16),
            packet in prop::collection::vec(any::<u8>(), 1..3000),
            cut: prop::sample::Index,
        ) {
            let mut expected = Vec::new();
            let cells = Segmenter::new(CONNECTION).cut(&[&head, &packet], 0, &mut expected).unwrap();
            let unit = Arc::new(Unit::new(&head, WireFrame::copied(packet)).unwrap());
            prop_assert_eq!(unit.cells() as usize, cells);
            let headers = Headers::of(CONNECTION);
            let run = Run { range: 0..unit.cells(), unit, headers, spacing_ps: 7 };
            prop_assert_eq!(run.length_ps(), 7 * (cells as u64 - 1));
            let all = CellTrain::Run(run.clone());
            prop_assert_eq!(all.cells().collect::<Vec<_>>(), expected.clone());
            if cells > 1 {
                let (first, rest) = run.split(1 + cut.index(cells - 1) as u32);
                prop_assert!(!first.ends() && rest.ends());
                let parts = [CellTrain::Run(first), CellTrain::Run(rest)];
                prop_assert_eq!(parts[0].header(), cell::header(&expected[0]));
                prop_assert!(parts.iter().flat_map(CellTrain::cells).eq(expected));
            }
        }
    }
}
