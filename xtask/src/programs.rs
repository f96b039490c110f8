//! The programs that tests can start: those of the peers, and those of every Debian system.
//!
//! A program that is on no list works on the machine of a test's author and fails on a fresh one. So tests run with a
//! PATH of links to the listed programs alone. A test that starts a peer asks for it first, and skips itself by name
//! where it could not be installed.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::cargo::target_directory;
use crate::peers::Peer;
use crate::process;

/// Programs that every Debian system has: their packages are marked essential, or `mount`, which
/// every installation has as well.
const EVERYWHERE: &[&str] = &[
    // bash, dash
    "bash",
    "sh", //
    // coreutils
    "arch",
    "b2sum",
    "base32",
    "base64",
    "basename",
    "cat",
    "chgrp",
    "chmod",
    "chown",
    "chroot",
    "cksum",
    "comm",
    "cp",
    "csplit",
    "cut",
    "date",
    "dd",
    "df",
    "dir",
    "dircolors",
    "dirname",
    "du",
    "echo",
    "env",
    "expand",
    "expr",
    "factor",
    "false",
    "fmt",
    "fold",
    "groups",
    "head",
    "hostid",
    "id",
    "install",
    "join",
    "link",
    "ln",
    "logname",
    "ls",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mknod",
    "mktemp",
    "mv",
    "nice",
    "nl",
    "nohup",
    "nproc",
    "numfmt",
    "od",
    "paste",
    "pathchk",
    "pinky",
    "pr",
    "printenv",
    "printf",
    "ptx",
    "pwd",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "seq",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "shred",
    "shuf",
    "sleep",
    "sort",
    "split",
    "stat",
    "stdbuf",
    "stty",
    "sum",
    "sync",
    "tac",
    "tail",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "truncate",
    "tsort",
    "tty",
    "uname",
    "unexpand",
    "uniq",
    "unlink",
    "users",
    "vdir",
    "wc",
    "who",
    "whoami",
    "yes", //
    // diffutils, findutils, gzip, tar; an awk
    "awk",
    "cmp",
    "diff",
    "find",
    "gzip",
    "tar",
    "xargs", //
    // dpkg
    "dpkg",
    "dpkg-deb", //
    // grep, sed
    "grep",
    "sed", //
    // hostname
    "hostname", //
    // mount, util-linux
    "dmesg",
    "findmnt",
    "flock",
    "ionice",
    "losetup",
    "lsns",
    "mount",
    "mountpoint",
    "nsenter",
    "prlimit",
    "renice",
    "script",
    "setpriv",
    "setsid",
    "taskset",
    "umount",
    "unshare",
];

/// What every checkout is built with; the tests of `xtask` start it.
const OF_DEVELOPERS: &[&str] = &["cargo", "git", "rustc"];

/// A directory of links to these programs, made anew: the PATH of tests.
pub fn directory(peers: &[Peer]) -> io::Result<PathBuf> {
    let directory = target_directory().join("programs");
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(&directory)?,
    }
    link(&directory, peers)?;
    Ok(directory)
}

fn link(directory: &Path, peers: &[Peer]) -> io::Result<()> {
    let of_peers = peers.iter().flat_map(|peer| peer.programs);
    for program in EVERYWHERE.iter().chain(OF_DEVELOPERS).chain(of_peers) {
        let at = directory.join(program);
        if let (Some(found), false) = (process::find(program), at.is_symlink()) {
            symlink(found, at)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::OF_TESTS;

    #[test]
    fn the_path_of_tests_has_what_is_listed_alone() {
        let directory = tempfile::tempdir().unwrap();
        link(directory.path(), OF_TESTS).unwrap();
        let has = |program: &str| directory.path().join(program).is_file();
        assert!(has("sh") && has("unshare") && has("git") && !has("perl"));
    }
}
