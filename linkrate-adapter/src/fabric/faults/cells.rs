//! Faults of ATM cells. A cell that has none stays in its train; a train is split around the others.

use linkrate_wire::atm::cell::Cell;
use linkrate_wire::atm::{HEADER, PAYLOAD};
use rand_chacha::rand_core::Rng;

use super::{FaultInjector, duration_ps};
use crate::cells::{CellTrain, Run};
use crate::pdu::Pdu;

/// Bits of a header.
const HEADER_BITS: usize = 8 * HEADER;

/// What happens to a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lost,
    /// Bits of the header are flipped: so many.
    Header(usize),
    /// One bit of the payload is flipped.
    Payload,
    /// A cell of another connection comes behind it, with the header of its connection.
    Followed,
}

impl FaultInjector {
    /// Calls `arrives` for the cells that are not lost, with the time of the last bit of the last one.
    pub(super) fn pass_cells(
        &mut self,
        train: CellTrain,
        at_ps: u64,
        arrives: &mut impl FnMut(Pdu, u64),
    ) {
        let at_ps = at_ps + duration_ps(self.faults.delay);
        match train {
            CellTrain::Lone(cell) => match self.fate() {
                Some(fate) => self.meet(fate, *cell, at_ps, arrives),
                None => arrives(CellTrain::Lone(cell).into(), at_ps),
            },
            CellTrain::Run(run) => self.pass_run(&run, at_ps, arrives),
        }
    }

    fn pass_run(&mut self, run: &Run, at_ps: u64, arrives: &mut impl FnMut(Pdu, u64)) {
        let (first, count) = (run.range.start, run.count() as u32);
        let time_ps = |index: u32| at_ps - u64::from(count - 1 - index) * run.spacing_ps;
        let mut whole = 0;
        let pass = |from: u32, to: u32, arrives: &mut dyn FnMut(Pdu, u64)| {
            if from < to {
                let range = first + from..first + to;
                let part = Run { unit: run.unit.clone(), range, ..*run };
                arrives(CellTrain::Run(part).into(), time_ps(to - 1));
            }
        };
        for index in 0..count {
            let Some(fate) = self.fate() else { continue };
            pass(whole, index, arrives);
            whole = index + 1;
            self.meet(fate, run.cell(index), time_ps(index), arrives);
        }
        pass(whole, count, arrives);
    }

    /// The fate of the next cell; `None` of one without a fault.
    fn fate(&mut self) -> Option<Fate> {
        let faults = self.faults;
        let fates = [
            (faults.loss, Fate::Lost),
            (faults.header_error, Fate::Header(1)),
            (faults.double_header_error, Fate::Header(2)),
            (faults.payload_error, Fate::Payload),
            (faults.misinsert, Fate::Followed),
        ];
        fates.into_iter().find_map(|(share, fate)| self.chance(share).then_some(fate))
    }

    fn meet(&mut self, fate: Fate, mut cell: Cell, at_ps: u64, arrives: &mut impl FnMut(Pdu, u64)) {
        let mut other = cell;
        match fate {
            Fate::Lost => {
                self.lost += 1;
                return;
            }
            Fate::Header(bits) => {
                let first = self.below(HEADER_BITS);
                flip(&mut cell, first);
                if bits > 1 {
                    flip(&mut cell, (first + 1 + self.below(HEADER_BITS - 1)) % HEADER_BITS);
                }
            }
            Fate::Payload => {
                let bit = HEADER_BITS + self.below(8 * PAYLOAD);
                flip(&mut cell, bit);
            }
            Fate::Followed => {
                for octet in &mut other[HEADER..] {
                    *octet = self.random.next_u64() as u8;
                }
            }
        }
        arrives(CellTrain::Lone(Box::new(cell)).into(), at_ps);
        if fate == Fate::Followed {
            arrives(CellTrain::Lone(Box::new(other)).into(), at_ps);
        }
    }

    fn below(&mut self, count: usize) -> usize {
        self.random.next_u64() as usize % count
    }
}

fn flip(cell: &mut Cell, bit: usize) {
    cell[bit / 8] ^= 0x80 >> (bit % 8);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use linkrate_wire::atm::Connection;
    use linkrate_wire::atm::cell::Headers;

    use super::super::Faults;
    use super::*;
    use crate::cells::Unit;
    use crate::frame::WireFrame;

    const SPACING_PS: u64 = 1000;

    /// The cells of a unit, and what is left of them behind faults, with the times.
    fn passed(faults: Faults, octets: usize) -> (Vec<Cell>, Vec<(Cell, u64)>) {
        let unit = Arc::new(Unit::new(&[1; 8], WireFrame::copied(vec![7; octets])).unwrap());
        let headers = Headers::of(Connection { vpi: 0, vci: 100 });
        let run = Run { range: 0..unit.cells(), unit, headers, spacing_ps: SPACING_PS };
        let train = CellTrain::Run(run);
        let sent: Vec<Cell> = train.cells().collect();
        let end_ps = sent.len() as u64 * SPACING_PS;
        let mut came = Vec::new();
        FaultInjector::new(faults).pass(train.into(), end_ps, |pdu, at_ps| {
            let train = pdu.into_cells().unwrap();
            let count = train.count() as u64;
            let times = (0..count).map(|index| at_ps - (count - 1 - index) * SPACING_PS);
            came.extend(train.cells().zip(times));
        });
        (sent, came)
    }

    fn wrong_bits(cell: &Cell, right: &Cell) -> u32 {
        cell.iter().zip(right).map(|(one, other)| (one ^ other).count_ones()).sum()
    }

    #[test]
    fn what_is_not_lost_keeps_its_place_and_its_time() {
        let (sent, came) = passed(Faults { loss: 0.05, ..Faults::default() }, 60_000);
        assert!(came.len() < sent.len() && came.len() > sent.len() * 9 / 10, "{}", came.len());
        for (cell, at_ps) in came {
            assert_eq!(at_ps % SPACING_PS, 0);
            assert_eq!(cell, sent[(at_ps / SPACING_PS) as usize - 1]);
        }
    }

    #[test]
    fn each_fault_touches_the_bits_that_it_names() {
        let all = Faults::default();
        for (faults, in_header, in_payload) in [
            (Faults { header_error: 0.1, ..all }, 1, 0),
            (Faults { double_header_error: 0.1, ..all }, 2, 0),
            (Faults { payload_error: 0.1, ..all }, 0, 1),
        ] {
            let (sent, came) = passed(faults, 60_000);
            assert_eq!(came.len(), sent.len());
            let mut wrong = 0;
            for ((cell, _), right) in
                came.iter().zip(&sent).filter(|((cell, _), right)| cell != *right)
            {
                let bits = wrong_bits(cell, right);
                let header = (0..HEADER).map(|at| (cell[at] ^ right[at]).count_ones()).sum::<u32>();
                assert_eq!((header, bits - header), (in_header, in_payload));
                wrong += 1;
            }
            assert!((60..200).contains(&wrong), "{wrong}");
        }
    }

    #[test]
    fn a_misinserted_cell_has_the_header_of_the_connection() {
        let (sent, came) = passed(Faults { misinsert: 0.01, ..Faults::default() }, 60_000);
        assert!(came.len() > sent.len());
        let header = |cell: &Cell| linkrate_wire::atm::cell::header(cell);
        assert!(
            came.iter()
                .all(|(cell, _)| header(cell) == header(&sent[0]) || cell == sent.last().unwrap())
        );
    }

    #[test]
    fn a_delay_moves_all_cells() {
        let delay = Duration::from_micros(3);
        let (sent, came) = passed(Faults { delay, ..Faults::default() }, 100);
        let expected = (1..=sent.len() as u64).map(|number| number * SPACING_PS + 3_000_000);
        assert!(came.iter().map(|(_, at_ps)| *at_ps).eq(expected));
    }
}
