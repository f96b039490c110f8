//! What stands before each file of a backup.

use linkrate_model::backup::MAX_LENGTH;
use std::io;

use crc_fast::{CrcAlgorithm, Digest};

pub const HEADER_BYTES: usize = 64;

/// Length of a path, bytes; shorter ones end with zeros.
const PATH_BYTES: usize = 40;

/// The first bytes of every header.
const MAGIC: [u8; 4] = *b"lrbk";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Number of the file on its connection, from 0.
    pub number: u64,
    /// Bytes of its content.
    pub length: u64,
    /// CRC-32 of its content, as of Ethernet.
    pub checksum: u32,
    pub path: FilePath,
}

/// Where a file is in its tree: `d0012/f000345`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePath([u8; PATH_BYTES]);

impl FilePath {
    /// The path of a file by its number in the tree; a directory has 64 files.
    pub fn of(number: usize) -> Self {
        let name = format!("d{:04}/f{number:06}", number / 64);
        let mut path = [0; PATH_BYTES];
        let length = name.len().min(PATH_BYTES);
        path[..length].copy_from_slice(&name.as_bytes()[..length]);
        Self(path)
    }

    /// The path as text.
    pub fn name(&self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(PATH_BYTES);
        String::from_utf8_lossy(&self.0[..end]).into_owned()
    }

    /// Letters, digits and slashes, and then zeros.
    fn is_valid(&self) -> bool {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(PATH_BYTES);
        let (name, rest) = self.0.split_at(end);
        !name.is_empty()
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'/')
            && rest.iter().all(|byte| *byte == 0)
    }
}

impl Header {
    /// Magic, checksum, number, length in network byte order, path.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.checksum.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_be_bytes());
        bytes[24..].copy_from_slice(&self.path.0);
        bytes
    }

    /// Reads a header; `InvalidData` with the field that no header has.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> io::Result<Self> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(word)
        };
        let mut path = FilePath([0; PATH_BYTES]);
        path.0.copy_from_slice(&bytes[24..]);
        let [checksum, number, length] = [word(0) & 0xffff_ffff, word(8), word(16)];
        if bytes[..4] != MAGIC {
            return Err(wrong("no header where a file should begin".to_owned()));
        }
        if !path.is_valid() {
            return Err(wrong(format!("file {number} has no valid path")));
        }
        if length == 0 || length > MAX_LENGTH {
            return Err(wrong(format!(
                "file {number} has {length} bytes, expected 1 to {MAX_LENGTH}"
            )));
        }
        Ok(Self { number, length, checksum: checksum as u32, path })
    }
}

/// The checksum of contents before their first byte.
pub fn checksum_of() -> Digest {
    Digest::new(CrcAlgorithm::Crc32IsoHdlc)
}

pub(super) fn wrong(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_is_read_as_written(
            number: u64, length in 1..=MAX_LENGTH, checksum: u32, place in 0_usize..100_000,
        ) {
            let header = Header { number, length, checksum, path: FilePath::of(place) };
            prop_assert_eq!(Header::from_bytes(&header.to_bytes()).unwrap(), header);
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let header = Header { number: 3, length: 9, checksum: 7, path: FilePath::of(70) };
        assert_eq!(header.path.name(), "d0001/f000070");
        let good = header.to_bytes();
        for (at, byte, expected) in [
            (0, b'x', "no header where a file should begin"),
            (16, 0xff, "file 3 has 18374686479671623689 bytes, expected 1 to 1099511627776"),
            (23, 0, "file 3 has 0 bytes, expected 1 to 1099511627776"),
            (24, 0, "file 3 has no valid path"),
            (30, 0x1b, "file 3 has no valid path"),
            (60, b'a', "file 3 has no valid path"),
        ] {
            let mut bytes = good;
            bytes[at] = byte;
            assert_eq!(Header::from_bytes(&bytes).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn the_checksum_is_that_of_ethernet() {
        let mut checksum = checksum_of();
        checksum.update(b"123456789");
        // the check value of CRC-32/ISO-HDLC
        assert_eq!(checksum.finalize(), 0xcbf4_3926);
    }
}
