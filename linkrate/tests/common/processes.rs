//! The processes of a controller under test, and what they leave behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use super::{LINKRATE, wait_until};

/// How long the kernel may take to end what a killed controller had started.
const GONE: Duration = Duration::from_secs(10);

/// A copy of the program under a name of its own, so that its processes are told from those of
/// every other test and person on this machine.
#[derive(Debug)]
pub struct OwnCopy {
    directory: tempfile::TempDir,
    /// Interfaces of this machine before the program ran.
    interfaces: BTreeSet<String>,
    /// Network namespaces in which its processes were seen, as `/proc/PID/ns/net` names them. They
    /// are held open: the kernel gives the number of a namespace that is gone to the next one that
    /// anybody makes.
    namespaces: Mutex<BTreeMap<String, File>>,
}

impl OwnCopy {
    /// Copies the program into a directory that every user may read, and looks at what is there
    /// before it is run.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("make a temporary directory");
        readable_by_all(directory.path());
        fs::copy(LINKRATE, directory.path().join("linkrate")).expect("copy the program");
        Self { directory, interfaces: interfaces(), namespaces: Mutex::default() }
    }

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
            let is_own = words.first().map(Path::new) == Some(&program);
            is_own.then(|| self.remember_namespace(&entry.path().join("ns/net")));
            is_own.then_some((pid, words))
        })
        .collect()
    }

    /// Keeps the network namespace at `link`, unless it is that of the test itself.
    fn remember_namespace(&self, link: &Path) {
        let (Ok(name), Ok(here)) = (namespace(link), namespace(Path::new("/proc/self/ns/net")))
        else {
            // the process has ended meanwhile
            return;
        };
        if name != here
            && let Ok(file) = File::open(link)
        {
            self.namespaces.lock().expect("nothing panics while it is locked").insert(name, file);
        }
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
            // the first thread, and the one that watches for the end
            threads.is_ok_and(|threads| threads.count() > 2)
        };
        let found = wait_until(Duration::from_secs(60), || {
            let agents = self.agents();
            agents.len() == count && agents.iter().all(busy)
        });
        assert!(found, "no traffic between {count} agents: {:?}", self.processes());
        self.agents()
    }

    /// Checks that no process of the program is left.
    #[track_caller]
    pub fn expect_no_process(&self) {
        self.await_end(GONE);
    }

    /// Checks that all processes of the program end within `timeout`.
    #[track_caller]
    pub fn await_end(&self, timeout: Duration) {
        let gone = wait_until(timeout, || self.processes().is_empty());
        assert!(gone, "left behind: {:?}", self.processes());
    }

    /// Checks that the program has left no process, interface or namespace. What others make
    /// meanwhile on the same machine is left out.
    #[track_caller]
    pub fn expect_nothing_left(&self) {
        self.expect_no_process();
        let new = interfaces();
        let left: Vec<&String> =
            new.difference(&self.interfaces).filter(|name| is_name_of_ours(name)).collect();
        assert!(left.is_empty(), "interfaces left behind: {left:?}");
        // a namespace without a process lives on only where it is mounted
        let mounted = mounted_namespaces();
        let left: Vec<String> = {
            let own = self.namespaces.lock().expect("nothing panics while it is locked");
            own.keys().filter(|name| mounted.contains(*name)).cloned().collect()
        };
        assert!(left.is_empty(), "namespaces left mounted: {left:?}");
        self.namespaces.lock().expect("nothing panics while it is locked").clear();
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

/// Whether linkrate gives its interfaces such a name: `eth` with a number.
fn is_name_of_ours(name: &str) -> bool {
    name.strip_prefix("eth").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The name of the namespace that `link` leads to, `net:[4026531840]`.
fn namespace(link: &Path) -> std::io::Result<String> {
    Ok(fs::read_link(link)?.display().to_string())
}

/// The names of all namespaces that are mounted.
fn mounted_namespaces() -> BTreeSet<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("list mounts");
    // field 4 of proc_pid_mountinfo(5) is what of the file system is mounted
    let namespaces = mounts.lines().filter(|line| line.contains(" - nsfs "));
    namespaces.filter_map(|line| Some(line.split(' ').nth(3)?.to_owned())).collect()
}
