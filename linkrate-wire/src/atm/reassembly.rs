//! Cells become a unit, or a defect.

use std::time::Duration;

use super::PAYLOAD;
use super::aal5::{self, Crc, Defect, Trailer};
use super::cell::PayloadType;

/// What a cell has completed.
#[derive(Debug, PartialEq, Eq)]
pub enum Completed<'a> {
    /// A unit.
    Unit {
        /// Its octets, without padding and trailer.
        octets: &'a [u8],
        /// The user-to-user indication.
        user_to_user: u8,
    },
    /// The end of cells that are no unit.
    Defect(Defect),
}

/// Puts the units of one connection together. It holds one unit of the longest length at most.
#[derive(Debug)]
pub struct Reassembler {
    octets: Vec<u8>,
    longest: usize,
    patience: Duration,
    /// When the unit must be complete; `None` while no cell has come.
    deadline: Option<Duration>,
    /// The cells so far are more than the longest unit has: their CRC alone is kept. It tells a unit that
    /// is too long from one of an admitted length with a cell too many (I.363.5 and RFC 2515 count
    /// both, under different names).
    beyond: Option<Crc>,
}

impl Reassembler {
    /// For units of up to `longest` octets. The last cell must come within `patience` of the first.
    #[must_use]
    pub fn new(longest: usize, patience: Duration) -> Self {
        let longest = longest.min(aal5::MAX_UNIT);
        Self { octets: Vec::new(), longest, patience, deadline: None, beyond: None }
    }

    /// When [`expire`](Self::expire) has something to do.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        self.deadline
    }

    /// Takes a cell of user data of this connection.
    pub fn take(
        &mut self,
        now: Duration,
        payload_type: PayloadType,
        payload: &[u8; PAYLOAD],
    ) -> Option<Completed<'_>> {
        self.add(now, payload);
        if payload_type.is_last() { Some(self.complete()) } else { None }
    }

    /// Gives up a unit whose last cell did not come in time. Says whether there was one.
    pub fn expire(&mut self, now: Duration) -> bool {
        let is_late = self.deadline.is_some_and(|deadline| deadline <= now);
        if is_late {
            self.deadline = None;
        }
        is_late
    }

    /// Octets of the longest unit with padding and trailer.
    fn most(&self) -> usize {
        aal5::cells(self.longest) * PAYLOAD
    }

    fn add(&mut self, now: Duration, payload: &[u8; PAYLOAD]) {
        if self.deadline.is_none() {
            // the octets of the unit before stayed for its receiver
            self.octets.clear();
            self.beyond = None;
            self.deadline = Some(now + self.patience);
        }
        if self.beyond.is_none() && self.octets.len() + PAYLOAD > self.most() {
            let mut crc = Crc::default();
            crc.update(&self.octets);
            self.beyond = Some(crc);
            self.octets.clear();
        }
        match &mut self.beyond {
            Some(crc) => crc.update(payload),
            None => self.octets.extend_from_slice(payload),
        }
    }

    /// The last cell has come.
    fn complete(&mut self) -> Completed<'_> {
        self.deadline = None;
        match self.judge() {
            Ok(Trailer { user_to_user, length }) => {
                Completed::Unit { octets: &self.octets[..usize::from(length)], user_to_user }
            }
            Err(defect) => Completed::Defect(defect),
        }
    }

    fn judge(&self) -> Result<Trailer, Defect> {
        match self.beyond {
            Some(crc) if crc.is_of_a_unit() => Err(Defect::TooLong),
            Some(_) => Err(Defect::Crc),
            None => aal5::judge(&[&self.octets], self.longest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atm::cell::{self, Cell, Connection, Header};
    use crate::atm::segmentation::Segmenter;
    use proptest::prelude::*;

    const CONNECTION: Connection = Connection { vpi: 0, vci: 32 };
    const TIMEOUT: Duration = Duration::from_millis(100);

    fn cells(unit: &[u8]) -> Vec<Cell> {
        let mut cells = Vec::new();
        Segmenter::new(CONNECTION).cut(&[unit], 0, &mut cells).unwrap();
        cells
    }

    /// Units and defects that cells complete.
    fn of(reassembler: &mut Reassembler, cells: &[Cell]) -> Vec<Result<Vec<u8>, Defect>> {
        let completed = cells.iter().filter_map(|octets| {
            let header = Header::read(cell::header(octets));
            let completed =
                reassembler.take(Duration::ZERO, header.payload_type, cell::payload(octets))?;
            Some(match completed {
                Completed::Unit { octets, .. } => Ok(octets.to_vec()),
                Completed::Defect(defect) => Err(defect),
            })
        });
        completed.collect()
    }

    fn fresh() -> Reassembler {
        Reassembler::new(9188, TIMEOUT)
    }

    #[test]
    fn each_defect_has_its_name() {
        let unit = vec![5; 1000];
        let whole = cells(&unit);
        let mut lost = whole.clone();
        lost.remove(3);
        assert_eq!(of(&mut fresh(), &lost), [Err(Defect::Crc)]);
        assert_eq!(of(&mut fresh(), &cells(&vec![5; 9189])), [Err(Defect::TooLong)]);
        assert_eq!(of(&mut fresh(), &cells(&vec![5; 20_000])), [Err(Defect::TooLong)]);
        // trailers with a right CRC and a wrong length
        for (length, defect) in
            [(0_u16, Defect::Aborted), (41, Defect::Length), (9, Defect::Length)]
        {
            let mut octets = [0; 2 * PAYLOAD];
            let at = octets.len() - aal5::TRAILER;
            octets[at + 2..at + 4].copy_from_slice(&length.to_be_bytes());
            let crc = aal5::crc(&octets[..at + 4]);
            octets[at + 4..].copy_from_slice(&crc.to_be_bytes());
            let length_fits = aal5::cells(usize::from(length)) == 2;
            assert_eq!(length_fits, length == 41, "{length}");
            let payloads = octets.as_chunks::<PAYLOAD>().0;
            let mut reassembler = fresh();
            assert_eq!(reassembler.take(Duration::ZERO, PayloadType::DATA, &payloads[0]), None);
            let last = reassembler.take(Duration::ZERO, PayloadType::LAST, &payloads[1]);
            match length_fits {
                true => assert!(
                    matches!(last, Some(Completed::Unit { octets, .. }) if octets.len() == 41)
                ),
                false => assert_eq!(last, Some(Completed::Defect(defect))),
            }
        }
    }

    #[test]
    fn a_cell_too_many_in_the_longest_unit_is_no_long_unit() {
        for at in [0, 100, 191] {
            let mut inserted = cells(&vec![5; 9188]);
            let other = cells(&[7; 100])[0];
            inserted.insert(at, other);
            assert_eq!(of(&mut fresh(), &inserted), [Err(Defect::Crc)], "{at}");
        }
        // a lost last cell joins two units
        let mut joined = cells(&vec![5; 9188]);
        joined.pop();
        joined.extend(cells(&vec![6; 9188]));
        assert_eq!(of(&mut fresh(), &joined), [Err(Defect::Crc)]);
        assert_eq!(of(&mut fresh(), &cells(&vec![5; 9189 + 48])), [Err(Defect::TooLong)]);
    }

    #[test]
    fn a_late_unit_is_given_up() {
        let mut reassembler = fresh();
        let whole = cells(&[1; 100]);
        assert_eq!(reassembler.due(), None);
        let first = cell::payload(&whole[0]);
        assert_eq!(reassembler.take(Duration::from_secs(1), PayloadType::DATA, first), None);
        let due = Duration::from_secs(1) + TIMEOUT;
        assert_eq!(reassembler.due(), Some(due));
        assert!(!reassembler.expire(due - Duration::from_nanos(1)));
        assert!(reassembler.expire(due));
        assert_eq!(reassembler.due(), None);
        assert_eq!(of(&mut reassembler, &whole), [Ok(vec![1; 100])]);
    }

    #[test]
    fn a_unit_that_is_too_long_costs_no_memory_and_no_other_unit() {
        let mut reassembler = fresh();
        let mut all = cells(&vec![1; 65_535]);
        all.extend(cells(&[2; 50]));
        assert_eq!(of(&mut reassembler, &all), [Err(Defect::TooLong), Ok(vec![2; 50])]);
        assert!(reassembler.octets.capacity() < 3 * 9188, "{}", reassembler.octets.capacity());
    }

    proptest! {
        #[test]
        fn a_unit_comes_whole_or_not_at_all(
            lengths in prop::collection::vec(1_usize..9189, 1..6),
            lost in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        ) {
            let units: Vec<Vec<u8>> = lengths
                .iter()
                .enumerate()
                .map(|(number, length)| (0..*length).map(|at| (at * 31 + number) as u8).collect())
                .collect();
            let mut all: Vec<Cell> = units.iter().flat_map(|unit| cells(unit)).collect();
            for index in &lost {
                if !all.is_empty() {
                    all.remove(index.index(all.len()));
                }
            }
            let mut expected = units.iter();
            let mut came = 0;
            for unit in of(&mut fresh(), &all).into_iter().flatten() {
                came += 1;
                prop_assert!(expected.any(|sent| *sent == unit), "a unit that was never sent");
            }
            prop_assert!(came + lost.len() * 2 >= units.len(), "{came} of {}", units.len());
        }

        #[test]
        fn a_wrong_bit_never_passes(length in 1_usize..2000, bit: prop::sample::Index) {
            let mut all = cells(&vec![3; length]);
            let bit = bit.index(all.len() * PAYLOAD * 8);
            all[bit / (PAYLOAD * 8)][5 + bit % (PAYLOAD * 8) / 8] ^= 1 << (bit % 8);
            let judged = of(&mut fresh(), &all);
            prop_assert!(judged.iter().all(|outcome| outcome.is_err()), "{judged:?}");
        }
    }
}
