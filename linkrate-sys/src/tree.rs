//! Files of `/proc` and `/sys` below a root: those of this host, or a copy from another one.
//!
//! A file that is missing or cannot be read is `None`; most hosts have only a part of the files.

use std::fs;
use std::path::{Component, Path, PathBuf};

use linkrate_model::CpuSet;

use crate::sysfs::parse_mask;

/// The files below one root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree(PathBuf);

impl Tree {
    /// The files of this host.
    pub fn of_this_host() -> Self {
        Self::below("/")
    }

    /// The files below `root`, which holds `proc` and `sys`.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// The place of `path`, which is given as on the host itself (`/proc/stat`).
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let parts = path.as_ref().components();
        // an absolute path is relative to the root of the tree
        let inside =
            parts.filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
        self.0.join(inside.collect::<PathBuf>())
    }

    /// Whether the file or directory exists.
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// The text of a file, trimmed.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A file with one number.
    pub fn number<N: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<N> {
        self.text(path)?.parse().ok()
    }

    /// A file with numbers separated by blanks, up to the first word that is not a number.
    pub fn numbers(&self, path: impl AsRef<Path>) -> Option<Vec<u64>> {
        Some(self.text(path)?.split_whitespace().map_while(|word| word.parse().ok()).collect())
    }

    /// A file with a list of CPUs (`0-3,8`); an empty file is an empty set.
    pub fn cpu_list(&self, path: impl AsRef<Path>) -> Option<CpuSet> {
        CpuSet::try_from(self.text(path)?).ok()
    }

    /// A file with a mask of CPUs (`00000000,0000000f`).
    pub fn cpu_mask(&self, path: impl AsRef<Path>) -> Option<CpuSet> {
        parse_mask(&self.text(path)?)
    }

    /// The names in a directory, sorted; empty if it is missing.
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        names.sort();
        names
    }

    /// The last part of the target of a symbolic link.
    pub fn link_name(&self, path: impl AsRef<Path>) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// The real path of `path`, with all links followed, as on the host itself.
    pub fn resolve(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let root = fs::canonicalize(&self.0).ok()?;
        let real = fs::canonicalize(self.path(path)).ok()?;
        Some(Path::new("/").join(real.strip_prefix(root).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_host() {
        let tree = Tree::below("/tmp/copy");
        assert_eq!(tree.path("/proc/stat"), Path::new("/tmp/copy/proc/stat"));
        assert_eq!(Tree::of_this_host().path("/proc/stat"), Path::new("/proc/stat"));
    }

    #[test]
    fn this_host_has_a_loopback_interface() {
        let tree = Tree::of_this_host();
        assert!(tree.has("/proc/self/stat"));
        assert_eq!(tree.text("/no/such/file"), None);
        assert!(tree.names("/no/such/directory").is_empty());
        assert!(tree.number::<u64>("/proc/sys/kernel/pid_max").is_some_and(|most| most > 0));
        assert!(
            tree.numbers("/proc/sys/net/ipv4/ip_local_port_range").is_some_and(|n| n.len() == 2)
        );
        let own = tree.resolve("/proc/self").unwrap();
        assert_eq!(own, Path::new(&format!("/proc/{}", std::process::id())));
        assert_eq!(tree.link_name("/proc/self"), Some(std::process::id().to_string()));
    }
}
