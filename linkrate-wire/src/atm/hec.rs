//! The header error control of a cell (ITU-T I.432.1, 4.3.2): CRC-8 with the polynomial
//! x^8 + x^2 + x + 1 over four octets, exclusive or with 0x55.

use super::HEADER;

const POLYNOMIAL: u8 = 0x07;
const COSET: u8 = 0x55;

const TABLE: [u8; 256] = table();

const fn table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < 256 {
        let mut rest = octet as u8;
        let mut bit = 0;
        while bit < 8 {
            rest = (rest << 1) ^ if rest & 0x80 != 0 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[octet] = rest;
        octet += 1;
    }
    table
}

/// The fifth octet of a header, from the first four.
#[must_use]
pub const fn of(fields: [u8; 4]) -> u8 {
    let mut rest = 0;
    let mut at = 0;
    while at < 4 {
        rest = TABLE[(rest ^ fields[at]) as usize];
        at += 1;
    }
    rest ^ COSET
}

/// What a header has too much, as a remainder: 0 where it is right.
const fn syndrome([a, b, c, d, hec]: [u8; HEADER]) -> u8 {
    of([a, b, c, d]) ^ hec
}

/// The bit whose error makes each remainder, from the highest bit of the first octet; 40 where none
/// does.
const BITS: [u8; 256] = bits();

const NO_BIT: u8 = 8 * HEADER as u8;

const fn bits() -> [u8; 256] {
    let mut bits = [NO_BIT; 256];
    let right = [0, 0, 0, 0, of([0; 4])];
    let mut bit = 0;
    while bit < NO_BIT {
        bits[syndrome(flipped(right, bit)) as usize] = bit;
        bit += 1;
    }
    bits
}

const fn flipped(mut header: [u8; HEADER], bit: u8) -> [u8; HEADER] {
    header[(bit / 8) as usize] ^= 0x80 >> (bit % 8);
    header
}

/// What a receiver found in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// No error.
    Right,
    /// One bit was wrong; this is the header without the error.
    Corrected([u8; HEADER]),
    /// The cell is to be dropped: several bits are wrong, or one shortly after another error.
    Wrong,
}

/// The receiver of a line (ITU-T I.432.1, figure 5): it corrects one bit, and after each error it
/// drops cells with errors until one comes without. Errors of a burst are thus not mistaken for single
/// bits. A line without data carries idle cells, which do not exist here: their headers are right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Receiver {
    /// When the last cell came, if it had an error, ps.
    wrong_ps: Option<u64>,
}

impl Receiver {
    /// Looks at the header of the next cell, the last bit of which came at `at_ps`. A cell takes `cell_ps` on the
    /// line; 0 where nothing takes time.
    #[inline]
    pub fn check(&mut self, header: [u8; HEADER], at_ps: u64, cell_ps: u64) -> Found {
        let syndrome = syndrome(header);
        let wrong_ps = std::mem::replace(&mut self.wrong_ps, (syndrome != 0).then_some(at_ps));
        // the time of this cell and of an idle one
        let idle_ps = cell_ps.max(1).saturating_mul(2);
        let detecting = wrong_ps.is_some_and(|wrong_ps| at_ps.saturating_sub(wrong_ps) < idle_ps);
        match BITS[usize::from(syndrome)] {
            _ if syndrome == 0 => Found::Right,
            bit if bit < NO_BIT && !detecting => Found::Corrected(flipped(header, bit)),
            _ => Found::Wrong,
        }
    }

    /// A cell came whose header is known to be right, because it is one of a known connection.
    #[inline]
    pub fn right(&mut self) {
        self.wrong_ps = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(fields: [u8; 4]) -> [u8; HEADER] {
        let [a, b, c, d] = fields;
        [a, b, c, d, of(fields)]
    }

    #[test]
    fn published_values() {
        // CRC-8/I-432-1 (its check value over "123456789" is 0xa1)
        let mut rest = 0;
        for octet in b"123456789" {
            rest = TABLE[usize::from(rest ^ octet)];
        }
        assert_eq!(rest ^ COSET, 0xa1);
        // the idle cell of I.432.1 and the unassigned cell of I.361
        assert_eq!(of([0, 0, 0, 1]), 0x52);
        assert_eq!(of([0, 0, 0, 0]), 0x55);
    }

    #[test]
    fn each_single_bit_is_corrected_once_in_a_row() {
        for fields in [[0; 4], [0xff; 4], [0, 0, 2, 0], [0x12, 0x34, 0x56, 0x78]] {
            let right = header(fields);
            for bit in 0..NO_BIT {
                let mut receiver = Receiver::default();
                let mut check = |header, at_ps| receiver.check(header, at_ps, 10);
                let wrong = flipped(right, bit);
                assert_eq!(check(wrong, 10), Found::Corrected(right), "bit {bit}");
                assert_eq!(check(wrong, 20), Found::Wrong, "bit {bit} again");
                assert_eq!(check(right, 30), Found::Right);
                assert_eq!(check(wrong, 40), Found::Corrected(right), "bit {bit} later");
                // less than an idle cell is between them, and then one
                assert_eq!(check(wrong, 59), Found::Wrong, "bit {bit} soon");
                assert_eq!(check(wrong, 79), Found::Corrected(right), "bit {bit} on an idle line");
                receiver.right();
                assert_eq!(receiver.check(wrong, 80, 10), Found::Corrected(right), "bit {bit}");
                // all at once
                assert_eq!(receiver.check(wrong, 80, 0), Found::Wrong, "bit {bit}");
            }
        }
    }

    proptest! {
        /// The code has a distance of four: two wrong bits are never taken for one.
        #[test]
        fn two_wrong_bits_are_found(fields: [u8; 4], one in 0..NO_BIT, other in 0..NO_BIT) {
            prop_assume!(one != other);
            let wrong = flipped(flipped(header(fields), one), other);
            prop_assert_eq!(Receiver::default().check(wrong, 0, 0), Found::Wrong);
        }
    }
}
