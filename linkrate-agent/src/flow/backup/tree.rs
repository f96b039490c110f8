//! The files of a backup's client.
//!
//! They are regular files of the file system that the study names, and have no names there: they vanish
//! with the process that made them, also after a kill. Their paths are in the headers alone.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use linkrate_model::backup::Backup;
use linkrate_sys::{open_file_limit, unnamed_file};

use super::header::{FilePath, checksum_of};
use crate::flow::send_path::payload;

/// The contents of all files are pieces of so many bytes.
const PATTERN: usize = 1 << 20;

/// The files, in the order in which they are sent.
#[derive(Debug)]
pub struct Tree {
    files: Vec<TreeFile>,
    cold: bool,
}

#[derive(Debug)]
pub struct TreeFile {
    file: File,
    /// Bytes of its content.
    pub length: u64,
    /// CRC-32 of its content.
    pub checksum: u32,
    pub path: FilePath,
}

impl TreeFile {
    /// Reads a part of the content at `offset`, at least one byte; `UnexpectedEof` if the file is shorter than it was.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.length - offset).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        match self.file.read_at(&mut buffer[..most], offset)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }
}

impl Tree {
    /// Makes the tree, whose contents follow from `seed`. An error has the directory and what would be right.
    pub fn new(backup: &Backup, seed: u64) -> io::Result<Self> {
        let directory = Path::new(&backup.directory);
        let refused = |error: io::Error| {
            let reason = format!("files of a backup in {}: {error}", backup.directory);
            io::Error::new(error.kind(), reason)
        };
        open_file_limit::allow(backup.extent().0).map_err(refused)?;
        // any other piece begins at another place
        let mut pattern = payload(PATTERN);
        pattern.extend_from_within(..);
        let mut files = Vec::new();
        for (number, size) in backup.sizes().enumerate() {
            let made = made(directory, &pattern, size.0, place(seed, number));
            let (file, checksum) = made.map_err(refused)?;
            if backup.cold && unnamed_file::is_in_memory(&file).map_err(refused)? {
                let reason = "cache cold has no effect in memory; name a directory on a disk";
                return Err(refused(io::Error::new(io::ErrorKind::Unsupported, reason)));
            }
            files.push(TreeFile { file, length: size.0, checksum, path: FilePath::of(number) });
        }
        Ok(Self { files, cold: backup.cold })
    }

    pub fn files(&self) -> &[TreeFile] {
        &self.files
    }

    /// Takes a file out of the page cache, if that is asked.
    pub fn prepare(&self, file: &TreeFile) -> io::Result<()> {
        if self.cold { unnamed_file::leave_cache(&file.file) } else { Ok(()) }
    }
}

/// Where the content of a file begins in the pattern.
fn place(seed: u64, number: usize) -> usize {
    // an odd multiplier spreads neighbours over the whole range
    let mixed = (seed ^ number as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % PATTERN
}

fn made(directory: &Path, pattern: &[u8], length: u64, from: usize) -> io::Result<(File, u32)> {
    let mut file = unnamed_file::create(directory)?;
    let mut checksum = checksum_of();
    let mut left = length;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(PATTERN).min(PATTERN);
        let piece = &pattern[from..from + most];
        file.write_all(piece)?;
        checksum.update(piece);
        left -= most as u64;
    }
    Ok((file, checksum.finalize() as u32))
}

#[cfg(test)]
mod tests {
    use linkrate_model::ByteSize;
    use linkrate_model::backup::FileSizes;

    use super::*;

    fn backup(bytes: u64, tree: u64) -> Backup {
        let directory = std::env::temp_dir().display().to_string();
        let files = FileSizes::One(ByteSize(bytes));
        Backup { files, tree: ByteSize(tree), directory, ..Backup::default() }
    }

    #[test]
    fn files_differ_and_a_seed_makes_them_again() {
        let [one, again, other] = [7, 7, 8].map(|seed| {
            let tree = Tree::new(&backup(5000, 50_000), seed).unwrap();
            tree.files().iter().map(|file| file.checksum).collect::<Vec<_>>()
        });
        assert_eq!((one.len(), &one), (10, &again));
        assert_ne!(one, other);
        let mut different = one;
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 10);
    }

    #[test]
    fn content_is_read_back_with_its_checksum() {
        let tree = Tree::new(&backup(3 << 20, 1), 7).unwrap();
        let file = &tree.files()[0];
        let (mut buffer, mut offset, mut checksum) = (vec![0; 100_000], 0, checksum_of());
        while offset < file.length {
            let read = file.read(&mut buffer, offset).unwrap();
            checksum.update(&buffer[..read]);
            offset += read as u64;
        }
        assert_eq!((offset, checksum.finalize() as u32), (3 << 20, file.checksum));
    }

    #[test]
    fn a_directory_that_is_not_there_and_a_cold_cache_in_memory_are_refused() {
        let directory = "/no/such/place".to_owned();
        let missing = Backup { directory, ..backup(10, 10) };
        let error = Tree::new(&missing, 1).unwrap_err().to_string();
        assert!(error.starts_with("files of a backup in /no/such/place: "), "{error}");
        let directory = "/dev/shm".to_owned();
        let cold = Backup { directory, cold: true, ..backup(10, 10) };
        let error = Tree::new(&cold, 1).unwrap_err().to_string();
        assert!(error.contains("cache cold has no effect in memory"), "{error}");
    }
}
