//! Trains of a connection become units.
//!
//! As long as the trains are the cells of one unit in their order, nothing is copied: the unit is
//! there, and its CRC is looked at once. A cell that was lost, inserted or changed ends that: the cells
//! so far are copied, and the octets decide. Either way an assembly holds one unit at most.

use std::sync::Arc;
use std::time::Duration;

use linkrate_wire::atm::cell::PayloadType;
use linkrate_wire::atm::reassembly::Completed;
use linkrate_wire::atm::{Defect, PAYLOAD, Reassembler, aal5};

use crate::cells::{Run, Unit};
use crate::clock::time;

/// How long after its first cell the last cell of a unit may come.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
const TIMEOUT_PS: u64 = TIMEOUT.as_nanos() as u64 * 1000;

/// A unit that has come.
#[derive(Debug)]
pub(crate) enum Received {
    /// As it was sent.
    Whole(Arc<Unit>),
    /// Its octets, without padding and trailer.
    Copied(Vec<u8>),
}

/// The cells of one connection so far.
#[derive(Debug)]
pub(crate) struct Assembly {
    longest: usize,
    /// The first cells of a unit, in their order.
    begun: Option<Begun>,
    /// Other cells.
    octets: Reassembler,
}

#[derive(Debug)]
struct Begun {
    unit: Arc<Unit>,
    cells: u32,
    at_ps: u64,
}

impl Assembly {
    /// For units of up to `longest` octets.
    pub(crate) fn new(longest: usize) -> Self {
        Self { longest, begun: None, octets: Reassembler::new(longest, TIMEOUT) }
    }

    /// When [`expire`](Self::expire) has something to do.
    pub(crate) fn due_ps(&self) -> Option<u64> {
        match &self.begun {
            Some(begun) => Some(begun.at_ps + TIMEOUT_PS),
            None => self.octets.due().map(|due| due.as_nanos() as u64 * 1000),
        }
    }

    /// Gives up a unit whose last cell did not come in time.
    pub(crate) fn expire(&mut self, now_ps: u64) -> Option<Defect> {
        if self.due_ps().is_none_or(|due_ps| due_ps > now_ps) {
            return None;
        }
        self.begun = None;
        self.octets.expire(time(now_ps));
        Some(Defect::TimeOut)
    }

    /// Takes cells of a unit, the last of them at `at_ps`. Says what they have completed.
    pub(crate) fn take_run(&mut self, run: Run, at_ps: u64) -> Option<Result<Received, Defect>> {
        let is_next = match &self.begun {
            Some(begun) => Arc::ptr_eq(&begun.unit, &run.unit) && begun.cells == run.range.start,
            None => {
                let fits = run.unit.cells() as usize <= aal5::cells(self.longest);
                self.octets.due().is_none() && run.range.start == 0 && fits
            }
        };
        if !is_next {
            self.copy_begun();
            let count = run.range.len() as u32;
            return (0..count).find_map(|index| {
                let (payload, is_last) = run.payload(index);
                self.take_octets(&payload, is_last, at_ps)
            });
        }
        if run.ends() {
            self.begun = None;
            let judged = aal5::judge(&run.unit.pieces(), self.longest);
            return Some(judged.map(|_| Received::Whole(run.unit)));
        }
        let at_ps = self.begun.as_ref().map_or(at_ps, |begun| begun.at_ps);
        self.begun = Some(Begun { unit: run.unit, cells: run.range.end, at_ps });
        None
    }

    /// Takes a cell by itself.
    pub(crate) fn take_cell(
        &mut self,
        payload: &[u8; PAYLOAD],
        is_last: bool,
        at_ps: u64,
    ) -> Option<Result<Received, Defect>> {
        self.copy_begun();
        self.take_octets(payload, is_last, at_ps)
    }

    /// Copies the cells so far: another one than the next comes behind them.
    fn copy_begun(&mut self) {
        let Some(Begun { unit, cells, at_ps }) = self.begun.take() else { return };
        for number in 0..cells {
            // none of them is the last one
            self.take_octets(&unit.payload(number), false, at_ps);
        }
    }

    fn take_octets(
        &mut self,
        payload: &[u8; PAYLOAD],
        is_last: bool,
        at_ps: u64,
    ) -> Option<Result<Received, Defect>> {
        let kind = if is_last { PayloadType::LAST } else { PayloadType::DATA };
        Some(match self.octets.take(time(at_ps), kind, payload)? {
            Completed::Unit { octets, .. } => Ok(Received::Copied(octets.to_vec())),
            Completed::Defect(defect) => Err(defect),
        })
    }
}

#[cfg(test)]
mod tests {
    use linkrate_wire::atm::Connection;
    use linkrate_wire::atm::cell::{self, Headers};
    use proptest::prelude::*;

    use super::*;
    use crate::cells::CellTrain;
    use crate::frame::WireFrame;

    const MAX_LENGTH: usize = 9188;

    fn run(octets: usize, seed: u8) -> Run {
        let packet: Vec<u8> = (0..octets).map(|at| (at * 31) as u8 ^ seed).collect();
        let unit = Arc::new(Unit::new(&[seed; 8], WireFrame::copied(packet)).unwrap());
        let headers = Headers::of(Connection { vpi: 0, vci: 100 });
        Run { range: 0..unit.cells(), unit, headers, spacing_ps: 1 }
    }

    fn octets(received: &Received) -> Vec<u8> {
        match received {
            Received::Whole(unit) => [unit.head(), &unit.packet().to_vec()].concat(),
            Received::Copied(octets) => octets.clone(),
        }
    }

    fn unit_octets(run: &Run) -> Vec<u8> {
        octets(&Received::Whole(Arc::clone(&run.unit)))
    }

    fn take(
        assembly: &mut Assembly,
        train: CellTrain,
        at_ps: u64,
    ) -> Option<Result<Received, Defect>> {
        match train {
            CellTrain::Run(run) => assembly.take_run(run, at_ps),
            CellTrain::Lone(cell) => {
                let is_last = cell::header(&cell)[3] & 2 != 0;
                assembly.take_cell(cell::payload(&cell), is_last, at_ps)
            }
        }
    }

    #[test]
    fn trains_in_their_order_are_a_unit_without_a_copy() {
        let mut assembly = Assembly::new(MAX_LENGTH);
        let (first, rest) = run(9180, 1).split(64);
        let (second, third) = rest.split(64);
        assert!(assembly.take_run(first.clone(), 7).is_none());
        assert_eq!(assembly.due_ps(), Some(7 + TIMEOUT_PS));
        assert!(assembly.take_run(second, 8).is_none());
        let received = assembly.take_run(third, 9).unwrap().unwrap();
        assert!(matches!(received, Received::Whole(unit) if Arc::ptr_eq(&unit, &first.unit)));
        assert_eq!(assembly.due_ps(), None);
    }

    #[test]
    fn a_late_unit_is_given_up_and_the_next_one_comes() {
        for alone in [false, true] {
            let mut assembly = Assembly::new(MAX_LENGTH);
            let (first, _) = run(9180, 1).split(64);
            if alone {
                assert!(assembly.take_cell(&[0; 48], false, 5).is_none());
            } else {
                assert!(assembly.take_run(first, 5).is_none());
            }
            assert_eq!(assembly.expire(TIMEOUT_PS - 1000), None);
            assert_eq!(assembly.expire(TIMEOUT_PS + 5000), Some(Defect::TimeOut));
            assert_eq!((assembly.due_ps(), assembly.expire(u64::MAX)), (None, None));
            assert!(matches!(assembly.take_run(run(500, 2), 0), Some(Ok(Received::Whole(_)))));
        }
    }

    #[test]
    fn a_unit_that_is_too_long_is_a_defect_of_its_own() {
        let mut assembly = Assembly::new(1500);
        let judged = assembly.take_run(run(9180, 1), 0).unwrap();
        assert_eq!(judged.unwrap_err(), Defect::TooLong);
        // one octet too many that needs no further cell
        let judged = assembly.take_run(run(1493, 1), 0).unwrap();
        assert_eq!(judged.unwrap_err(), Defect::TooLong);
        assert!(matches!(assembly.take_run(run(1492, 1), 0), Some(Ok(Received::Whole(_)))));
    }

    proptest! {
        /// Whatever is lost or changed, and however trains are split: a unit comes as it was sent, or
        /// not at all.
        #[test]
        fn a_unit_comes_whole_or_not_at_all(
            lengths in prop::collection::vec(1_usize..3000, 1..6),
            cuts in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..4), 0..8),
        ) {
            let runs: Vec<Run> =
                lengths.iter().enumerate().map(|(at, length)| run(*length, at as u8)).collect();
            let sent: Vec<Vec<u8>> = runs.iter().map(unit_octets).collect();
            let mut trains: Vec<CellTrain> = runs.into_iter().map(CellTrain::Run).collect();
            let mut touched = 0;
            for (at, fault) in cuts {
                let index = at.index(trains.len());
                let CellTrain::Run(run) = trains[index].clone() else { continue };
                let (count, middle) = (run.count() as u32, at.index(run.count()) as u32);
                let cell = run.cell(middle);
                let mut parts = Vec::new();
                let (start, end) = (run.range.start, run.range.end);
                let part = |from, to| CellTrain::Run(Run { range: from..to, ..run.clone() });
                if middle > 0 {
                    parts.push(part(start, start + middle));
                }
                match fault {
                    // a train is split, a cell travels alone, is lost, or is changed
                    0 => parts.push(part(start + middle, start + middle + 1)),
                    1 => parts.push(CellTrain::Lone(Box::new(cell))),
                    2 => touched += 1,
                    _ => {
                        let mut cell = cell;
                        cell[5 + at.index(48)] ^= 1 << at.index(8);
                        parts.push(CellTrain::Lone(Box::new(cell)));
                        touched += 1;
                    }
                }
                if middle + 1 < count {
                    parts.push(part(start + middle + 1, end));
                }
                trains.splice(index..=index, parts);
                if trains.is_empty() {
                    break;
                }
            }
            let mut assembly = Assembly::new(MAX_LENGTH);
            let (mut came, mut expected) = (0, sent.iter());
            for train in trains {
                if let Some(Ok(received)) = take(&mut assembly, train, 0) {
                    came += 1;
                    let found = octets(&received);
                    prop_assert!(expected.any(|unit| *unit == found), "a unit that was never sent");
                }
            }
            // a lost last cell costs the unit behind it too
            prop_assert!(came + 2 * touched >= sent.len(), "{came} of {}", sent.len());
            prop_assert!(touched > 0 || came == sent.len());
        }
    }
}
