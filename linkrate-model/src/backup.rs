//! A backup: trees of files, and the tape drives that they go to.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::ByteSize;

/// What a backup reads, and how fast it is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Backup {
    /// Sizes of the files.
    pub files: FileSizes,
    /// Bytes of files that each client has; at least one file of each size.
    pub tree: ByteSize,
    /// The directory in whose file system the clients' files are.
    pub directory: String,
    /// Whether a file is read from the disk, and not from the page cache.
    pub cold: bool,
    /// Tape drives of the sink, which take turns with all that arrives.
    pub drives: u32,
    /// Bytes that a drive takes in a second.
    pub drive_rate: ByteSize,
}

/// Sizes of the files of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileSizes {
    /// All the same.
    One(ByteSize),
    /// As many of each of [`MIXED_SIZES`], as far as one of each fits the tree.
    Mixed,
}

/// The sizes of a mixed tree: 8 KiB to 128 MiB, as in HP's "Performance Brief for TCP/IP Offload Engine
/// with the NC370T", May 2006, which does not report those in between.
pub const MIXED_SIZES: [ByteSize; 8] = {
    let mut sizes = [ByteSize(8 << 10); 8];
    let mut at = 1;
    while at < sizes.len() {
        sizes[at] = ByteSize(sizes[at - 1].0 * 4);
        at += 1;
    }
    sizes
};

/// How far tape drives catch up after a time without data: their buffer, as time.
pub const DRIVE_CREDIT_NS: u64 = 5_000_000;

/// The shortest wait for tape drives: shorter ones gather, so that a sink sleeps some hundred times a second at most.
pub const MIN_DRIVE_WAIT_NS: u64 = 2_000_000;

/// What a sink takes from a connection at once, bytes at most.
pub const SINK_CHUNK: usize = 256 << 10;

/// Longest name of a directory, bytes.
pub const MAX_DIRECTORY: usize = 255;

/// The longest file, bytes.
pub const MAX_LENGTH: u64 = 1 << 40;

/// Most files of a tree. Each is an open file of the client.
pub const MAX_FILES: u64 = 65_536;

impl Default for Backup {
    /// One drive of 80 MB/s, which an Ultrium 960 takes without compression.
    fn default() -> Self {
        Self {
            files: FileSizes::One(ByteSize(64 << 10)),
            tree: ByteSize(32 << 20),
            directory: "/dev/shm".to_owned(),
            cold: false,
            drives: 1,
            drive_rate: ByteSize(80_000_000),
        }
    }
}

impl Backup {
    /// Whether it is the default, so that plans of other workloads leave it out.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The sizes of the tree's files, in the order in which they are sent.
    pub fn sizes(&self) -> impl Iterator<Item = ByteSize> + use<> {
        let sizes = match self.files {
            FileSizes::One(size) => vec![size],
            FileSizes::Mixed => {
                let mut sum = 0;
                let fit = MIXED_SIZES.into_iter().enumerate();
                let fit = fit.take_while(|(number, size)| {
                    sum += size.0;
                    *number == 0 || sum <= self.tree.0
                });
                fit.map(|(_, size)| size).collect()
            }
        };
        let round: u64 = sizes.iter().fold(0, |sum, size| size.0.saturating_add(sum));
        let rounds = (self.tree.0 / round.max(1)).max(1);
        (0..rounds).flat_map(move |_| sizes.clone())
    }

    /// The number of the tree's files, and their bytes together.
    pub fn extent(&self) -> (u64, u64) {
        let first = match self.files {
            FileSizes::One(size) => size.0,
            FileSizes::Mixed => MIXED_SIZES[0].0,
        };
        // far too many are not counted one by one
        if self.tree.0 / first.max(1) > MAX_FILES * MIXED_SIZES.len() as u64 {
            return (u64::MAX, self.tree.0);
        }
        self.sizes().fold((0, 0), |(files, bytes), size| (files + 1, bytes + size.0))
    }

    /// Bytes that all drives take in a second.
    pub fn rate(&self) -> u64 {
        self.drive_rate.0.saturating_mul(self.drives.into())
    }

    /// The time by which a measurement may be ahead of its drives at most, seconds: what the drives catch up, what they let
    /// gather, and what one connection takes at once.
    pub fn ahead_s(&self) -> f64 {
        let at_once = SINK_CHUNK as f64 / self.rate().max(1) as f64;
        (DRIVE_CREDIT_NS + MIN_DRIVE_WAIT_NS) as f64 / 1e9 + at_once
    }
}

impl fmt::Display for FileSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(size) => size.fmt(f),
            Self::Mixed => f.write_str("mixed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: FileSizes, mib: u64) -> Backup {
        Backup { files, tree: ByteSize(mib << 20), ..Backup::default() }
    }

    #[test]
    fn trees_have_files_of_one_size_or_as_many_of_each() {
        assert_eq!(MIXED_SIZES[7], ByteSize(128 << 20));
        let one = tree(FileSizes::One(ByteSize(1 << 20)), 3);
        assert_eq!(one.extent(), (3, 3 << 20));
        // at least one
        assert_eq!(tree(FileSizes::One(ByteSize(128 << 20)), 1).extent(), (1, 128 << 20));
        let mixed = tree(FileSizes::Mixed, 2);
        let sizes: Vec<u64> = mixed.sizes().map(|size| size.0 >> 10).collect();
        // 8 + 32 + 128 + 512 KiB fit three times
        assert_eq!(sizes, [8, 32, 128, 512].repeat(3));
        assert_eq!(tree(FileSizes::Mixed, 171).extent().0, 8);
        let most = Backup { tree: ByteSize(u64::MAX), ..Backup::default() };
        assert_eq!(most.extent().0, u64::MAX);
    }
}
