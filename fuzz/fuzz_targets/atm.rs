//! Whatever octets come as cells, the receiver of a line and the reassembly of a connection never
//! panic, hold one unit at most, and complete only units that AAL5 admits. A message of ATMARP that is
//! read is written again as it was.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use linkrate_wire::atm::cell::{self, Cell, Header};
use linkrate_wire::atm::hec::{Found, Receiver};
use linkrate_wire::atm::reassembly::Completed;
use linkrate_wire::atm::{CELL, Connection, Reassembler, Segmenter};
use linkrate_wire::control::AtmArp;

const MAX_LENGTH: usize = 2000;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = AtmArp::parse(bytes) {
        let again = message.emit();
        assert_eq!(bytes[..again.len()], again);
    }
    let (octets, _) = bytes.as_chunks::<CELL>();
    for unit in take(octets) {
        assert!((1..=MAX_LENGTH).contains(&unit.len()));
    }
    // the same octets as a unit
    let mut cells = Vec::new();
    let cut = Segmenter::new(Connection { vpi: 0, vci: 32 }).cut(&[bytes], 0, &mut cells);
    assert_eq!(cut.is_ok(), (1..=65_535).contains(&bytes.len()));
    let fits = cut.is_ok() && bytes.len() <= MAX_LENGTH;
    assert_eq!(take(&cells), if fits { vec![bytes.to_vec()] } else { Vec::new() });
});

/// The units that cells of one connection become.
fn take(cells: &[Cell]) -> Vec<Vec<u8>> {
    let (mut line, mut units) = (Receiver::default(), Vec::new());
    let mut reassembler = Reassembler::new(MAX_LENGTH, Duration::from_millis(1));
    for (number, octets) in cells.iter().enumerate() {
        let header = match line.check(cell::header(octets), number as u64, 1) {
            Found::Right => cell::header(octets),
            Found::Corrected(header) => {
                assert_eq!(Receiver::default().check(header, 0, 1), Found::Right);
                header
            }
            Found::Wrong => continue,
        };
        let header = Header::read(header);
        assert_eq!(Header::read(header.emit()), header);
        let now = Duration::from_micros(number as u64);
        reassembler.expire(now);
        if !header.payload_type.is_data() {
            continue;
        }
        let completed = reassembler.take(now, header.payload_type, cell::payload(octets));
        if let Some(Completed::Unit { octets, .. }) = completed {
            units.push(octets.to_vec());
        }
        assert_eq!(reassembler.due().is_some(), !header.payload_type.is_last());
    }
    units
}
