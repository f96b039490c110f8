//! The header of a program file: the machine that it is for, and whether it needs a loader there.

/// How a program file begins, elf(5).
const MAGIC: &[u8] = b"ELF";

/// Where the header has the place, the number and the names of the sections, elf(5).
const SECTIONS: [std::ops::Range<usize>; 3] = [40..48, 60..62, 62..64];

/// Bytes of a file that [`Elf::read`] needs: the header and the table of segments, which linkers put
/// right behind it.
pub(super) const HEAD_BYTES: u64 = 4096;

/// Machines as `uname -m` names them, and their `e_machine` (`include/uapi/linux/elf-em.h`), 64 bits and
/// little-endian.
const MACHINES: [(&str, u16); 5] =
    [("x86_64", 62), ("aarch64", 183), ("riscv64", 243), ("ppc64le", 21), ("loongarch64", 258)];

/// What the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Elf {
    machine: u16,
    /// No segment names a loader (`PT_INTERP` of elf(5)): the program runs without libraries.
    pub(super) is_static: bool,
    /// Bytes of the file that its segments take. Behind them are symbols, debug information and the table of
    /// sections, which no kernel and no loader reads.
    pub(super) loaded: u64,
}

impl Elf {
    /// Reads the first [`HEAD_BYTES`] of a file. `None` for a file that is no program of 64 bits,
    /// little-endian.
    pub(super) fn read(head: &[u8]) -> Option<Self> {
        const MAGIC_64_LITTLE: &[u8] = b"\x7fELF\x02\x01";
        const PT_INTERP: u64 = 3;
        let number = |at: usize, octets: usize| {
            let bytes = head.get(at..at.checked_add(octets)?)?;
            Some(bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)))
        };
        if !head.starts_with(MAGIC_64_LITTLE) {
            return None;
        }
        let machine = u16::try_from(number(18, 2)?).ok()?;
        let table = usize::try_from(number(32, 8)?).ok()?;
        let (size, count) = (number(54, 2)? as usize, number(56, 2)? as usize);
        let mut is_static = true;
        let mut loaded = table.checked_add(size * count)? as u64;
        for entry in 0..count {
            let at = table.checked_add(entry * size)?;
            is_static &= number(at, 4)? != PT_INTERP;
            loaded = loaded
                .max(number(at.checked_add(8)?, 8)?.checked_add(number(at.checked_add(32)?, 8)?)?);
        }
        Some(Self { machine, is_static, loaded })
    }

    /// Removes the place of the sections from a header whose file ends before them.
    pub(super) fn strip(head: &mut [u8]) {
        if head.starts_with(MAGIC) {
            for field in SECTIONS {
                if let Some(bytes) = head.get_mut(field) {
                    bytes.fill(0);
                }
            }
        }
    }

    /// Whether it is for the machine that `uname -m` calls `name`.
    pub(super) fn is_for(self, name: &str) -> bool {
        MACHINES.contains(&(name, self.machine))
    }

    /// The machine, as `uname -m` names it.
    pub(super) fn machine_name(self) -> &'static str {
        let known = MACHINES.iter().find(|(_, machine)| *machine == self.machine);
        known.map_or("an unknown architecture", |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A header for `machine` with a table of segments of these types behind it.
    fn head(machine: u16, segments: &[u8]) -> Vec<u8> {
        let mut head = vec![0; 64 + 56 * segments.len()];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[18..20].copy_from_slice(&machine.to_le_bytes());
        (head[32], head[54], head[56]) = (64, 56, segments.len() as u8);
        for (entry, kind) in segments.iter().enumerate() {
            head[64 + 56 * entry] = *kind;
        }
        head
    }

    #[test]
    fn a_header_tells_machine_and_loader() {
        let elf = Elf::read(&head(183, &[6, 1, 1])).unwrap();
        assert!(elf.is_static && elf.is_for("aarch64") && !elf.is_for("x86_64"));
        assert_eq!(elf.machine_name(), "aarch64");
        let elf = Elf::read(&head(62, &[6, 3, 1])).unwrap();
        assert!(!elf.is_static && elf.is_for("x86_64"));
        let unknown = Elf::read(&head(7, &[1])).unwrap();
        assert!(!unknown.is_for("x86_64") && !unknown.is_for("an unknown architecture"));
        for other in [&b"#!/bin/sh\n"[..], b"\x7fELF\x01\x01", b"", &head(62, &[1])[..66]] {
            assert_eq!(Elf::read(other), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(tail in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Elf::read(&[b"\x7fELF\x02\x01", &tail[..]].concat());
        }
    }
}
