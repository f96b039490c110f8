//! A unit becomes cells.

use super::aal5::{self, Uncuttable};
use super::cell::{Cell, Connection, Headers};
use super::{CELL, HEADER, PAYLOAD};

/// Cuts the units of a connection into cells. The headers of its cells are computed once.
#[derive(Debug, Clone, Copy)]
pub struct Segmenter {
    headers: Headers,
}

impl Segmenter {
    /// Of a connection.
    #[must_use]
    pub const fn new(connection: Connection) -> Self {
        Self { headers: Headers::of(connection) }
    }

    /// Appends the cells of a unit, which lies in pieces, to `cells`. Returns how many there are. Fails if the unit
    /// is empty or too long; `cells` is then as before.
    pub fn cut(
        &self,
        unit: &[&[u8]],
        user_to_user: u8,
        cells: &mut Vec<Cell>,
    ) -> Result<usize, Uncuttable> {
        let end = aal5::end(unit, user_to_user)?;
        let octets: usize = unit.iter().map(|piece| piece.len()).sum();
        let count = aal5::cells(octets);
        let first = cells.len();
        cells.resize(first + count, [0; CELL]);
        let mut filling = Filling { cells: &mut cells[first..], at: 0 };
        unit.iter().for_each(|piece| filling.add(piece));
        filling.add(&end);
        for cell in &mut cells[first..] {
            cell[..HEADER].copy_from_slice(&self.headers.data);
        }
        if let Some(cell) = cells.last_mut() {
            cell[..HEADER].copy_from_slice(&self.headers.last);
        }
        Ok(count)
    }
}

/// Cells that are being filled with payload.
struct Filling<'a> {
    cells: &'a mut [Cell],
    /// Octets of payload so far.
    at: usize,
}

impl Filling<'_> {
    /// Adds octets, which fit.
    fn add(&mut self, mut octets: &[u8]) {
        let begun = self.at % PAYLOAD;
        if begun > 0 {
            let (now, later) = octets.split_at(octets.len().min(PAYLOAD - begun));
            self.cells[self.at / PAYLOAD][HEADER + begun..][..now.len()].copy_from_slice(now);
            self.at += now.len();
            octets = later;
        }
        let (whole, rest) = octets.as_chunks::<PAYLOAD>();
        let cells = &mut self.cells[self.at.div_ceil(PAYLOAD)..];
        for (cell, payload) in cells.iter_mut().zip(whole) {
            cell[HEADER..].copy_from_slice(payload);
        }
        if let Some(cell) = cells.get_mut(whole.len()) {
            cell[HEADER..][..rest.len()].copy_from_slice(rest);
        }
        self.at += octets.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atm::cell::{Header, PayloadType, header, payload};

    const CONNECTION: Connection = Connection { vpi: 0, vci: 100 };

    #[test]
    fn a_unit_of_forty_octets_is_one_cell() {
        let mut cells = Vec::new();
        let unit = [7; 40];
        assert_eq!(Segmenter::new(CONNECTION).cut(&[&unit], 3, &mut cells), Ok(1));
        let expected = Header::data(CONNECTION, PayloadType::LAST).emit();
        assert_eq!((header(&cells[0]), &payload(&cells[0])[..40]), (expected, &unit[..]));
        assert_eq!(payload(&cells[0])[40..44], [3, 0, 0, 40]);
    }

    #[test]
    fn pieces_make_the_cells_of_the_whole() {
        let unit: Vec<u8> = (0..300).map(|at| at as u8).collect();
        let segmenter = Segmenter::new(CONNECTION);
        let mut whole = Vec::new();
        segmenter.cut(&[&unit], 0, &mut whole).unwrap();
        assert_eq!(whole.len(), 7);
        for (first, second) in [(0, 0), (1, 2), (8, 48), (47, 49), (48, 96), (299, 300)] {
            let mut pieces = Vec::new();
            let unit = [&unit[..first], &unit[first..second], &unit[second..]];
            segmenter.cut(&unit, 0, &mut pieces).unwrap();
            assert_eq!(pieces, whole, "{first}, {second}");
        }
    }

    #[test]
    fn an_empty_or_too_long_unit_is_refused() {
        let mut cells = Vec::new();
        let segmenter = Segmenter::new(CONNECTION);
        assert_eq!(segmenter.cut(&[&[], &[]], 0, &mut cells), Err(Uncuttable { found: 0 }));
        let long = vec![0; aal5::MAX_UNIT];
        let refused = segmenter.cut(&[&long, &[0]], 0, &mut cells).unwrap_err();
        assert_eq!(refused.to_string(), "a unit of 65536 octets; AAL5 carries 1 to 65535 octets");
        assert!(cells.is_empty());
        assert_eq!(segmenter.cut(&[&long], 0, &mut cells), Ok(1366));
    }
}
