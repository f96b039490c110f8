//! flent, which measures with whatever program is called netperf, and draws plots.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Finished, LINKRATE, Running, command};

/// flent with linkrate as its netperf.
pub struct Flent {
    program: PathBuf,
    directory: tempfile::TempDir,
}

impl Flent {
    /// flent from the virtual environment that `cargo xtask test` makes.
    pub fn find() -> Result<Self, &'static str> {
        let environment = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python/flent");
        let program = environment.join("bin/flent");
        if !program.is_file() {
            return Err("flent is not installed; cargo xtask test installs it");
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        symlink(LINKRATE, directory.path().join("netperf")).expect("a link called netperf");
        Ok(Self { program, directory })
    }

    /// Where it works, and writes its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs it with these words.
    #[track_caller]
    pub fn with(&self, words: &str) -> Finished {
        let own = self.directory().as_os_str();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path: OsString = [own, ":".as_ref(), &path].into_iter().collect();
        let mut flent = command(&self.program, words);
        flent.current_dir(self.directory()).env("PATH", path).env("HOME", self.directory());
        Running::start(flent.env("MPLBACKEND", "Agg")).wait()
    }
}
