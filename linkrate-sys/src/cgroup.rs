//! The share of the CPUs that control groups leave to this process.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// A quota of CPU time, cgroups(7).
#[derive(Debug, Clone, PartialEq)]
pub struct CpuQuota {
    /// CPUs: the time of each period over its length.
    pub cpus: f64,
    /// The file that sets it.
    pub file: PathBuf,
}

impl fmt::Display for CpuQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpus, file } = self;
        write!(
            f,
            "a control group allows this process the time of {cpus} CPUs ({})",
            file.display()
        )
    }
}

/// The smallest quota of the groups that this process is in; `None` without one.
pub fn cpu_quota() -> Option<CpuQuota> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    smallest(&groups, &|path| fs::read_to_string(path).ok())
}

/// The same of the text of `/proc/self/cgroup`.
fn smallest(groups: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<CpuQuota> {
    let found = directories(groups, "cpu").into_iter().filter_map(|group| quota(&group, read));
    found.min_by(|a, b| a.cpus.total_cmp(&b.cpus))
}

/// The directories of the groups that this process is in, of version 2 or of version 1, and of those above them, for a
/// controller. `groups` is the text of `/proc/self/cgroup`, whose lines are `NUMBER:CONTROLLERS:PATH`.
pub(crate) fn directories(groups: &str, controller: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let mounts: &[&str] = match controllers {
            "" => &["", "unified"],
            // it can be mounted together with others
            of if of.split(',').any(|one| one == controller) => &[controller, of],
            _ => continue,
        };
        for mount in mounts {
            let root = Path::new(MOUNT).join(mount);
            // within a cgroup namespace the group is the root of the mount
            for group in Path::new(group.trim_start_matches('/')).ancestors() {
                found.push(root.join(group));
            }
        }
    }
    found
}

/// The quota of one group, in the files of version 2 or of version 1.
fn quota(group: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Option<CpuQuota> {
    let both = group.join("cpu.max");
    let (file, text) = match read(&both) {
        Some(text) => (both, text),
        None => {
            let file = group.join("cpu.cfs_quota_us");
            let (quota, period) = (read(&file)?, read(&group.join("cpu.cfs_period_us"))?);
            (file, format!("{} {period}", quota.trim()))
        }
    };
    let mut numbers = text.split_whitespace().map(|word| word.parse::<f64>().ok());
    // "max", and -1 in version 1, are no quota
    let (time, period) = (numbers.next()??, numbers.next()??);
    (time > 0.0 && period > 0.0).then(|| CpuQuota { cpus: time / period, file })
}

/// The directory of the group of version 2 that this process is in, to which programs of BPF can be attached.
pub fn own_group() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = ["", "unified"].map(|mount| Path::new(MOUNT).join(mount).join(group));
    mounts.into_iter().find(|path| path.join("cgroup.controllers").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(groups: &str, files: &[(&str, &str)]) -> Option<(f64, String)> {
        let read = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(MOUNT).join(name) == *path);
            found.map(|(_, text)| format!("{text}\n"))
        };
        smallest(groups, &read).map(|quota| (quota.cpus, quota.file.display().to_string()))
    }

    #[test]
    fn the_smallest_quota_of_all_groups_above_counts() {
        let files = [("a/b/cpu.max", "max 100000"), ("a/cpu.max", "50000 100000")];
        let expected = (0.5, "/sys/fs/cgroup/a/cpu.max".to_owned());
        assert_eq!(of("0::/a/b\n", &files), Some(expected));
        assert_eq!(of("0::/\n", &files), None);
        let files = [("cpu.max", "150000 100000")];
        assert_eq!(of("0::/a\n", &files).unwrap().0, 1.5);
    }

    #[test]
    fn version_1_has_two_files() {
        let files = [("cpu/x/cpu.cfs_quota_us", "25000"), ("cpu/x/cpu.cfs_period_us", "100000")];
        let groups = "2:cpuset:/x\n1:cpu,cpuacct:/x\n0::/\n";
        assert_eq!(of(groups, &files).unwrap().0, 0.25);
        let none = [("cpu/cpu.cfs_quota_us", "-1"), ("cpu/cpu.cfs_period_us", "100000")];
        assert_eq!(of(groups, &none), None);
        assert_eq!(of("", &none), None);
    }
}
