//! The processes of a controller under test, and what they leave behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{LINKRATE, wait_until};

/// How long the kernel may take to end what a killed controller had started.
const GONE: Duration = Duration::from_secs(10);

/// A copy of the program under a name of its own, so that its processes are told from those of
/// every other test and person on this machine.
#[derive(Debug)]
pub struct OwnCopy {
    directory: tempfile::TempDir,
    interfaces: BTreeSet<String>,
    mounts: usize,
}

impl OwnCopy {
    /// Copies the program into a directory that every user may read, and looks at what is there
    /// before it is run.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("make a temporary directory");
        readable_by_all(directory.path());
        fs::copy(LINKRATE, directory.path().join("linkrate")).expect("copy the program");
        Self { directory, interfaces: interfaces(), mounts: namespace_mounts() }
    }

    /// The program.
    pub fn program(&self) -> PathBuf {
        self.directory.path().join("linkrate")
    }

    /// A place beside it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Its processes, agents and controllers, each with its arguments.
    pub fn processes(&self) -> Vec<(u32, Vec<String>)> {
        let program = self.program();
        let all = fs::read_dir("/proc").expect("list /proc").flatten();
        all.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            // a process that has ended, waited for or not, has no command line
            let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
            let words: Vec<String> = line.split_terminator('\0').map(str::to_owned).collect();
            (words.first().map(Path::new) == Some(&program)).then_some((pid, words))
        })
        .collect()
    }

    /// The hosts' agents, in the order they were started: the system under test first.
    pub fn agents(&self) -> Vec<u32> {
        let is_agent = |words: &[String]| words.get(1).is_some_and(|word| word == "agent");
        let processes = self.processes().into_iter();
        let mut agents: Vec<u32> =
            processes.filter(|(_, words)| is_agent(words)).map(|(pid, _)| pid).collect();
        agents.sort_by_key(|pid| (started(*pid), *pid));
        agents
    }

    /// Waits until there are `count` agents with traffic between them.
    #[track_caller]
    pub fn await_traffic(&self, count: usize) -> Vec<u32> {
        let busy = |pid: &u32| {
            let threads = fs::read_dir(format!("/proc/{pid}/task"));
            threads.is_ok_and(|threads| threads.count() > 1)
        };
        let found = wait_until(Duration::from_secs(30), || {
            let agents = self.agents();
            agents.len() == count && agents.iter().all(busy)
        });
        assert!(found, "no traffic between {count} agents: {:?}", self.processes());
        self.agents()
    }

    /// Checks that no process, interface or namespace is left.
    #[track_caller]
    pub fn expect_nothing_left(&self) {
        let gone = wait_until(GONE, || self.processes().is_empty());
        assert!(gone, "left behind: {:?}", self.processes());
        assert_eq!(interfaces(), self.interfaces, "interfaces left behind");
        assert_eq!(namespace_mounts(), self.mounts, "namespaces left mounted");
    }
}

/// Lets every user enter a directory.
pub fn readable_by_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let permissions = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, permissions).expect("change the mode of a directory");
}

/// When a process was started, in clock ticks since boot: field 22 of proc_pid_stat(5).
fn started(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // the name in brackets may hold anything
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_whitespace().nth(19).and_then(|field| field.parse().ok()).unwrap_or(0)
}

fn interfaces() -> BTreeSet<String> {
    let entries = fs::read_dir("/sys/class/net").expect("list /sys/class/net").flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// A namespace without a process lives on only where somebody has mounted it.
fn namespace_mounts() -> usize {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("list mounts");
    mounts.lines().filter(|line| line.contains(" - nsfs ")).count()
}
