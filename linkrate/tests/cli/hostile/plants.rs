//! Things that are no regular files, in the place of files.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linkrate_stats::simulate::times;
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::common::simulated::Set;

/// What lies in the place of a file.
#[derive(Debug, Clone)]
pub enum Plant {
    /// What was there stays.
    Nothing,
    Absent,
    Empty,
    Directory,
    Fifo,
    Socket,
    LinkTo(PathBuf),
    /// A terabyte of zeros that takes no room.
    Sparse,
    Bytes(Vec<u8>),
}

/// Removes a file or directory that may be there.
pub fn remove(path: &Path) {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    // what is not there needs no removing
    let _ = if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

impl Plant {
    /// Puts it in the place of `path`.
    pub fn put(&self, path: &Path) {
        if matches!(self, Self::Nothing) {
            return;
        }
        remove(path);
        match self {
            Self::Nothing | Self::Absent => {}
            Self::Empty => fs::write(path, "").expect("an empty file"),
            Self::Directory => fs::create_dir(path).expect("a directory"),
            Self::Fifo => {
                mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
            }
            Self::Socket => drop(UnixListener::bind(path).expect("a socket")),
            Self::LinkTo(target) => symlink(target, path).expect("a link"),
            Self::Sparse => {
                let file = fs::File::create(path).expect("a file");
                // file systems differ in the largest file
                let sizes = [1u64 << 40, 1 << 36, 1 << 33];
                assert!(sizes.iter().any(|size| file.set_len(*size).is_ok()), "a sparse file");
            }
            Self::Bytes(bytes) => fs::write(path, bytes).expect("bytes"),
        }
    }
}

fn plant() -> impl Strategy<Value = Plant> {
    const LINKS: [&str; 6] =
        ["/dev/zero", "/dev/full", "plan.json", "runs.jsonl", "..", "/proc/self/mem"];
    prop_oneof![
        6 => Just(Plant::Nothing),
        1 => Just(Plant::Absent),
        1 => Just(Plant::Empty),
        1 => Just(Plant::Directory),
        1 => Just(Plant::Fifo),
        1 => Just(Plant::Socket),
        1 => Just(Plant::Sparse),
        2 => prop::sample::select(&LINKS[..]).prop_map(|to| Plant::LinkTo(to.into())),
        1 => proptest::collection::vec(any::<u8>(), 0..400).prop_map(Plant::Bytes),
    ]
}

const FILES: [&str; 9] = [
    "plan.json",
    "runs.jsonl",
    "ended.json",
    "study.toml",
    "results.json",
    "runs.csv",
    "report.html",
    "report.html.new",
    "results.json.new",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: times(12, 24), failure_persistence: None,
        max_shrink_time: Duration::from_secs(60).as_millis() as u32, ..ProptestConfig::default() })]

    #[test]
    fn a_generated_directory_ends_every_command(
        planted in proptest::collection::vec(plant(), FILES.len()),
        finished in any::<bool>(),
    ) {
        let home = tempfile::tempdir().expect("a directory");
        Set::default().store(&home.path().join("good"));
        let bad = home.path().join("bad");
        Set { seed: 2, ..Set::default() }.store(&bad);
        if !finished {
            fs::remove_file(bad.join("ended.json")).expect("remove it");
        }
        for (name, plant) in FILES.iter().zip(&planted) {
            plant.put(&bad.join(name));
        }
        for words in super::READERS {
            super::bounded(home.path(), words);
        }
    }
}
