//! The file of runs: appended to one synced line at a time.
//!
//! A line that is not whole can only be the last one, left by a crash or a power cut between
//! write and sync; that is a *torn* end, and only the run in flight is lost with it. Anything
//! wrong earlier in the file is *damage* and is never repaired behind the user's back.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::fleet::Fleet;
use crate::store::StoredRun;
use crate::store::error::{IoContext, StoreError};
use crate::store::line::{self, MAX_LINE_BYTES};
use crate::study::Study;

/// Longest file of runs: some hundred thousand runs.
pub const MAX_RUNS_BYTES: u64 = 4 << 30;

/// What the log asks of its file; tests put one in that fails.
pub trait Backing: Write {
    /// Brings the written bytes to the disk.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file to `bytes`.
    fn cut(&mut self, bytes: u64) -> io::Result<()>;
}

impl Backing for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)?;
        self.sync_all()
    }
}

/// The writing end.
#[derive(Debug)]
pub struct RunLog<F> {
    file: F,
    path: PathBuf,
    whole_bytes: u64,
    torn: bool,
}

impl<F: Backing> RunLog<F> {
    /// A log over `file`, which is open for appending and has `whole_bytes` of whole lines.
    pub fn new(file: F, path: PathBuf, whole_bytes: u64) -> Self {
        Self { file, path, whole_bytes, torn: false }
    }

    /// Writes and syncs one run; gives it back as it reads from the disk. `sequence` is the
    /// number the run must carry.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] before anything is written. [`StoreError::Io`] after a failed
    /// write or sync: the line is taken back, and if that fails as well every later call answers
    /// [`StoreError::Torn`], for a line behind a torn one would turn a crash into damage.
    pub fn append(&mut self, run: &StoredRun, sequence: u32) -> Result<StoredRun, StoreError> {
        if self.torn {
            return Err(StoreError::Torn { path: self.path.clone() });
        }
        let unreadable = |reason| StoreError::Unreadable { path: self.path.clone(), reason };
        if run.sequence != sequence {
            return Err(unreadable(format!("run {} is not run {sequence}", run.sequence)));
        }
        let line = line::encode(run).map_err(unreadable)?;
        // JSON has no NaN: it would be written as null and damage the store unnoticed
        let stored = line::decode(&line[..line.len() - 1]).map_err(unreadable)?;

        let written = self
            .file
            .write_all(&line)
            .during("writing", &self.path)
            .and_then(|()| self.file.sync().during("syncing", &self.path));
        match written {
            Ok(()) => self.whole_bytes += line.len() as u64,
            Err(error) => {
                self.torn = self.file.cut(self.whole_bytes).is_err();
                return Err(error);
            }
        }
        Ok(stored)
    }
}

impl RunLog<File> {
    /// Checks that the file is still where it was opened. Bytes that are written to a file that was
    /// removed are lost, and no write fails.
    pub fn check_place(&self) -> Result<(), StoreError> {
        let open = self.file.metadata().during("checking", &self.path)?;
        match fs::symlink_metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == (open.dev(), open.ino()) => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).during("checking", &self.path)
            }
            _ => Err(StoreError::Gone { path: self.path.clone() }),
        }
    }
}

/// What a file of runs holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    pub runs: Vec<StoredRun>,
    /// Bytes of the whole lines.
    pub whole_bytes: u64,
    /// The torn end; empty when there is none.
    pub torn: Vec<u8>,
}

/// Reads a file of runs to its end. [`StoreError::Damaged`] has the line: a bad one that is not the last, a whole one
/// out of sequence, or a run that `study` does not have.
pub fn scan(file: &mut impl Read, path: &Path, study: &Study) -> Result<Scan, StoreError> {
    let mut reader = BufReader::new(file);
    let mut scan = Scan { runs: Vec::new(), whole_bytes: 0, torn: Vec::new() };
    let mut slots = HashSet::new();
    let mut total = 0;
    for number in 1u64.. {
        let damaged = |reason| StoreError::Damaged { path: path.to_owned(), line: number, reason };
        let mut bytes = Vec::new();
        let read = reader
            .by_ref()
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut bytes)
            .during("reading", path)?;
        if read == 0 {
            break;
        }
        total += read as u64;
        if total > MAX_RUNS_BYTES {
            return Err(damaged(format!("the file is longer than {MAX_RUNS_BYTES} bytes")));
        }
        let last = reader.fill_buf().during("reading", path)?.is_empty();
        let decoded = match bytes.strip_suffix(b"\n") {
            Some(line) => line::decode(line),
            None if last => Err("the line has no end".to_owned()),
            None => Err(format!("it is longer than {MAX_LINE_BYTES} bytes")),
        };
        match decoded {
            Ok(run) => {
                check(&run, number - 1, study, &mut slots).map_err(damaged)?;
                scan.runs.push(run);
                scan.whole_bytes += read as u64;
            }
            Err(_) if last => scan.torn = bytes,
            Err(reason) => return Err(damaged(reason)),
        }
    }
    Ok(scan)
}

/// What a whole line must also be: the next in sequence, of the study, and the first of its slot.
fn check(
    run: &StoredRun,
    sequence: u64,
    study: &Study,
    slots: &mut HashSet<(u32, Option<u32>)>,
) -> Result<(), String> {
    if u64::from(run.sequence) != sequence {
        return Err(format!("the line holds run {}, expected run {sequence}", run.sequence));
    }
    let blocks = study.most_turns();
    let nodes = study.fleet.as_ref().map_or(0, Fleet::count);
    match run.pair {
        Some(pair) if pair.sender.max(pair.receiver) >= nodes => {
            return Err(format!(
                "a run between nodes {} and {} of a study with {nodes} nodes",
                pair.sender, pair.receiver
            ));
        }
        Some(_) if run.missing_nodes.iter().any(|node| *node >= nodes) => {
            return Err(format!(
                "a run without nodes {:?} of a study with {nodes}",
                run.missing_nodes
            ));
        }
        None if nodes > 0 => return Err("a run without its nodes in a study of a fleet".to_owned()),
        _ => {}
    }
    if run.block >= blocks {
        return Err(format!("block {} of a study with {blocks} blocks", run.block));
    }
    if let Some(cell) = run.cell.filter(|cell| study.cell(*cell).is_none()) {
        return Err(format!("cell {cell} of a study with {} cells", study.cells.len()));
    }
    if !slots.insert((run.block, run.cell)) {
        return Err(format!(
            "block {} has a second run of {}",
            run.block,
            run.cell.map_or_else(|| "idle".to_owned(), |cell| format!("cell {cell}"))
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use proptest::prelude::*;

    fn runs(count: u32) -> Vec<StoredRun> {
        (0..count)
            .map(|n| fixture::run(n, n / 3, Some(n % 3), fixture::stream(1e9 + f64::from(n), 0.5)))
            .collect()
    }

    fn lines(runs: &[StoredRun]) -> Vec<u8> {
        runs.iter().flat_map(|run| line::encode(run).unwrap()).collect()
    }

    fn scanned(bytes: &[u8]) -> Result<Scan, StoreError> {
        scan(&mut &bytes[..], Path::new("runs.jsonl"), &fixture::ladder())
    }

    #[test]
    fn damage_before_the_last_line_names_the_line() {
        let mut bytes = lines(&runs(3));
        let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 40;
        bytes[second] ^= 1;
        let error = scanned(&bytes).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { line: 2, .. }), "{error}");
        assert!(error.to_string().starts_with("runs.jsonl:2: damaged run"), "{error}");
    }

    #[test]
    fn a_last_line_of_the_right_length_but_wrong_content_is_torn() {
        // what a power cut leaves when the length reached the disk and the data did not
        let runs = runs(2);
        let mut bytes = lines(&runs);
        let whole = lines(&runs[..1]).len();
        bytes[whole..].fill(0);
        let scan = scanned(&bytes).unwrap();
        assert_eq!((scan.runs.len(), scan.whole_bytes as usize), (1, whole));
        assert_eq!(scan.torn.len(), bytes.len() - whole);
    }

    #[test]
    fn runs_that_do_not_belong_are_damage() {
        let all = runs(4);
        for (which, runs) in [
            ("a line lost", vec![all[0].clone(), all[2].clone()]),
            ("a line twice", vec![all[0].clone(), StoredRun { sequence: 1, ..all[0].clone() }]),
            ("a cell too many", vec![StoredRun { cell: Some(3), ..all[0].clone() }]),
        ] {
            assert!(matches!(scanned(&lines(&runs)), Err(StoreError::Damaged { .. })), "{which}");
        }
    }

    /// A disk of limited size, whose truncation may fail too.
    struct Disk {
        bytes: Vec<u8>,
        size: usize,
        cuts: bool,
        syncs: bool,
    }

    impl Write for Disk {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let room = (self.size - self.bytes.len()).min(buf.len());
            if room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes.extend(&buf[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Backing for &mut Disk {
        fn sync(&mut self) -> io::Result<()> {
            if self.syncs { Ok(()) } else { Err(io::Error::other("I/O error")) }
        }

        fn cut(&mut self, bytes: u64) -> io::Result<()> {
            if !self.cuts {
                return Err(io::Error::other("I/O error"));
            }
            self.bytes.truncate(bytes as usize);
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_leaves_whole_lines_only() {
        let runs = runs(3);
        let size = lines(&runs[..2]).len() + 100;
        let mut disk = Disk { bytes: Vec::new(), size, cuts: true, syncs: true };
        let mut log = RunLog::new(&mut disk, "full/runs.jsonl".into(), 0);
        log.append(&runs[0], 0).unwrap();
        log.append(&runs[1], 1).unwrap();
        let error = log.append(&runs[2], 2).unwrap_err();
        assert_eq!(error.to_string(), "writing full/runs.jsonl");
        assert!(error.hint().unwrap().starts_with("free some space"));
        drop(log);
        assert_eq!(disk.bytes, lines(&runs[..2]));

        // with free space the log continues at the same place
        disk.size *= 2;
        let whole = disk.bytes.len() as u64;
        RunLog::new(&mut disk, "runs.jsonl".into(), whole).append(&runs[2], 2).unwrap();
        assert_eq!(scanned(&disk.bytes).unwrap().runs, runs);
    }

    #[test]
    fn removes_a_line_that_was_not_synced() {
        let runs = runs(1);
        let mut disk = Disk { bytes: Vec::new(), size: 1 << 20, cuts: true, syncs: false };
        let mut log = RunLog::new(&mut disk, "runs.jsonl".into(), 0);
        let error = log.append(&runs[0], 0).unwrap_err();
        assert_eq!(error.to_string(), "syncing runs.jsonl");
        drop(log);
        assert_eq!(disk.bytes, b"");
    }

    #[test]
    fn writes_nothing_after_a_line_that_could_not_be_removed() {
        let runs = runs(2);
        let size = lines(&runs[..1]).len() + 10;
        let mut disk = Disk { bytes: Vec::new(), size, cuts: false, syncs: true };
        let mut log = RunLog::new(&mut disk, "runs.jsonl".into(), 0);
        log.append(&runs[0], 0).unwrap();
        assert!(matches!(log.append(&runs[1], 1), Err(StoreError::Io { .. })));
        assert!(matches!(log.append(&runs[1], 1), Err(StoreError::Torn { .. })));
        drop(log);
        let scan = scanned(&disk.bytes).unwrap();
        assert_eq!((scan.runs.len(), scan.torn.len()), (1, 10));
    }

    #[test]
    fn refuses_to_write_a_figure_that_is_not_finite() {
        let mut disk = Disk { bytes: Vec::new(), size: 1 << 20, cuts: true, syncs: true };
        let mut log = RunLog::new(&mut disk, "runs.jsonl".into(), 0);
        let mut measurement = fixture::stream(1e9, 0.5);
        measurement.traffic.transmit_seconds = f64::NAN;
        let run = fixture::run(0, 0, Some(0), measurement);
        assert!(matches!(log.append(&run, 0), Err(StoreError::Unreadable { .. })));
        drop(log);
        assert_eq!(disk.bytes, b"");
    }

    proptest! {
        #[test]
        fn cut_anywhere_exactly_the_whole_lines_are_left(
            count in 0u32..6,
            at in any::<prop::sample::Index>(),
        ) {
            let runs = runs(count);
            let bytes = lines(&runs);
            let at = at.index(bytes.len() + 1);
            let whole = bytes[..at].iter().filter(|byte| **byte == b'\n').count();
            let scan = scanned(&bytes[..at]).unwrap();
            prop_assert_eq!(&scan.runs[..], &runs[..whole]);
            prop_assert_eq!(scan.whole_bytes as usize + scan.torn.len(), at);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = scanned(&bytes);
        }
    }
}
