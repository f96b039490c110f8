//! Limits of processes, of open files and of memory, from too little to enough: a command ends in time with one error that
//! names the limit, and leaves nothing behind.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::processes::OwnCopy;
use crate::common::small::SmallStudy;
use crate::common::up::Up;
use crate::common::{Finished, RUNS_FAILED, Running, cases, command, wait_until};
use crate::user::namespaces_of_users;
use rustix::process::Signal;

/// What a command exits with that has met a limit.
const LIMIT: i32 = 6;

/// A user with no other process, so that all of its limit is the command's.
const USER: u32 = 64_123;

/// No command of these tests takes a quarter of it.
const MOST: Duration = Duration::from_secs(40);

const MEASURE: &str = "measure --json --purpose functions --runs 1 --time 200ms --warm-up 0s --adapter veth \
                       --clients 2";

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Met {
    Nothing,
    /// A limit, which its error names.
    Limit,
    /// The kernel has ended the command itself, which then says nothing.
    Killed,
}

/// Runs a command to its end and says whether it met a limit.
#[track_caller]
fn judged(own: &OwnCopy, command: &mut Command, what: &str) -> Met {
    let began = Instant::now();
    let finished = Running::start(command).wait();
    assert!(began.elapsed() < MOST, "{what}: {:?}", began.elapsed());
    let Finished { stderr, .. } = &finished;
    if finished.signal() == Some(Signal::KILL.as_raw()) {
        own.expect_nothing_left();
        return Met::Killed;
    }
    let code = finished.code().unwrap_or_else(|| panic!("{what}: {:?} {stderr}", finished.status));
    assert!((0..=LIMIT).contains(&code), "{what}: {code} {stderr}");
    assert!(!stderr.contains("panicked"), "{what}: {stderr}");
    let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    let names =
        |line: &&str| line.contains("a control group allows ") || line.contains(" may have ");
    match code {
        LIMIT => assert!(matches!(&errors[..], [only] if names(only)), "{what}: {stderr}"),
        // runs on a busy machine fail for other reasons
        0 | RUNS_FAILED => assert!(errors.is_empty(), "{what}: {stderr}"),
        _ => panic!("{what}: {code} {stderr}"),
    }
    own.expect_nothing_left();
    if code == LIMIT { Met::Limit } else { Met::Nothing }
}

/// Tries the main commands at each of the limits: one of them meets the least, and none the most. Returns the limits at which
/// one was killed.
#[track_caller]
fn from_too_little_to_enough(
    limits: &[u64],
    start: impl Fn(u64, &OsStr, &[&str]) -> Command,
) -> Vec<u64> {
    let study = SmallStudy::new();
    let (program, file) = (study.own.program(), study.file());
    let file = file.to_str().expect("a path of text");
    // where the user may write too
    let results = study.own.beside("results");
    fs::create_dir(&results).expect("make a directory");
    fs::set_permissions(&results, Permissions::from_mode(0o777)).expect("open it to all");
    let (mut met, mut killed) = (BTreeMap::new(), Vec::new());
    for limit in limits {
        let quick = format!("run --json --blocks 2 --dir at-{limit}");
        let words = ["list", "doctor", MEASURE, &quick];
        let judged = words.map(|line| {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            words.extend(line.starts_with("run").then_some(file));
            let mut started = start(*limit, program.as_os_str(), &words);
            started.current_dir(&results);
            judged(&study.own, &mut started, &format!("{line} at {limit}"))
        });
        killed.extend(judged.contains(&Met::Killed).then_some(*limit));
        met.insert(*limit, judged.iter().any(|met| *met != Met::Nothing));
    }
    let ends = [met.first_key_value(), met.last_key_value()].map(|end| end.map(|(_, met)| *met));
    assert_eq!(ends, [Some(true), Some(false)], "{met:?}");
    killed
}

/// A control group of its own, which ends with its last process.
struct Group(PathBuf);

impl Group {
    /// A group of a controller, of version 1 or 2, with one of these files, which is the other result.
    fn new(controller: &str, files: [&str; 2]) -> Result<(Self, PathBuf), String> {
        let made = [controller, ""].into_iter().zip(files).find_map(|(mount, file)| {
            let name = format!("linkrate-limits-{}", std::process::id());
            let path = PathBuf::from("/sys/fs/cgroup").join(mount).join(name);
            fs::create_dir(&path).ok()?;
            let group = Self(path);
            let file = group.0.join(file);
            file.exists().then_some((group, file))
        });
        made.ok_or_else(|| format!("no control group with a limit of {controller} can be made"))
    }

    /// A command in it.
    fn start(&self, program: &OsStr, words: &[&str]) -> Command {
        let mut shell = command("sh", "");
        shell.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(self.0.join("cgroup.procs"));
        shell.arg(program).args(words);
        shell
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        wait_until(Duration::from_secs(10), || fs::remove_dir(&self.0).is_ok());
    }
}

/// Limits that a controller of control groups sets by one of these files. Returns those at which a command was killed.
#[track_caller]
fn of_a_group(controller: &str, files: [&str; 2], limits: &[u64]) -> Result<Vec<u64>, String> {
    let (group, file) = Group::new(controller, files)?;
    Ok(from_too_little_to_enough(limits, |limit, program, words| {
        fs::write(&file, limit.to_string()).expect("set the limit");
        group.start(program, words)
    }))
}

/// A limit of processes of a control group.
#[track_caller]
fn processes_of_a_group(limits: &[u64]) -> Result<(), String> {
    let killed = of_a_group("pids", ["pids.max", "pids.max"], limits)?;
    assert!(killed.is_empty(), "{killed:?}");
    Ok(())
}

#[test]
fn a_limit_of_processes_of_a_control_group_is_named() {
    needs!(root);
    or_skip!(processes_of_a_group(cases(&[8, 300, 1, 2, 3, 4, 6, 10, 12, 40], 2)));
}

/// The files of a limit of memory.
const MEMORY: [&str; 2] = ["memory.limit_in_bytes", "memory.max"];

/// A limit of memory of a control group, in MiB.
#[track_caller]
fn memory_of_a_group(mebibytes: &[u64]) -> Result<(), String> {
    let limits: Vec<u64> = mebibytes.iter().map(|limit| limit << 20).collect();
    let killed = of_a_group("memory", MEMORY, &limits)?;
    // less than the command needs for itself
    assert!(killed.iter().all(|limit| *limit <= 24 << 20), "{killed:?}");
    Ok(())
}

#[test]
#[ignore = "exhaustive: another limit"]
fn a_limit_of_memory_of_a_control_group_is_named() {
    needs!(root);
    or_skip!(memory_of_a_group(cases(&[20, 512, 1, 8, 12, 16, 18, 22, 24, 32], 2)));
}

#[test]
fn a_lab_whose_agents_a_control_group_ends_names_its_memory() {
    needs!(root);
    let (group, file) = or_skip!(Group::new("memory", MEMORY));
    let own = OwnCopy::new();
    fs::write(&file, (256 << 20).to_string()).expect("set the limit");
    let lab = Up::started("--adapter gigabit", |words| {
        group.start(own.program().as_os_str(), &words.split_whitespace().collect::<Vec<_>>())
    });
    for agent in own.agents() {
        fs::write(format!("/proc/{agent}/oom_score_adj"), "1000").expect("prefer the agents");
    }
    // it takes what is left of the memory
    let greedy = Running::start(&mut group.start(OsStr::new("tail"), &["/dev/zero"]));
    let Finished { status, stderr, .. } = lab.running.wait();
    assert_eq!(status.code(), Some(LIMIT), "{status:?} {stderr}");
    let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    let said = format!("has died: a control group allows {} bytes of memory", 256 << 20);
    assert!(matches!(&errors[..], [only] if only.contains(&said)), "{stderr}");
    drop(greedy);
    own.expect_nothing_left();
}

#[test]
fn a_controller_that_a_control_group_ends_leaves_a_word() {
    needs!(root);
    let (group, file) = or_skip!(Group::new("memory", MEMORY));
    let own = OwnCopy::new();
    fs::write(&file, (256 << 20).to_string()).expect("set the limit");
    let lab = Up::started("--adapter gigabit", |words| {
        group.start(own.program().as_os_str(), &words.split_whitespace().collect::<Vec<_>>())
    });
    let file = format!("/proc/{}/oom_score_adj", lab.running.pid());
    fs::write(file, "1000").expect("prefer the controller");
    let greedy = Running::start(&mut group.start(OsStr::new("tail"), &["/dev/zero"]));
    let finished = lab.running.wait();
    let Finished { status, stderr, .. } = &finished;
    assert_eq!(finished.signal(), Some(Signal::KILL.as_raw()), "{status:?} {stderr}");
    let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    let said =
        format!("the kernel has killed linkrate: a control group allows {} bytes", 256 << 20);
    assert!(matches!(&errors[..], [only] if only.contains(&said)), "{stderr}");
    drop(greedy);
    own.expect_nothing_left();
    // nobody's limit has ended this one
    let lab = Up::started("--adapter gigabit", |words| {
        group.start(own.program().as_os_str(), &words.split_whitespace().collect::<Vec<_>>())
    });
    lab.running.signal(Signal::KILL);
    let stderr = lab.running.wait().stderr;
    assert!(!stderr.contains("error: "), "{stderr}");
    own.expect_nothing_left();
}

#[test]
fn a_limit_of_locked_memory_ends_no_command() {
    needs!(root, "prlimit", "setpriv");
    or_skip!(namespaces_of_users());
    let own = OwnCopy::new();
    for more in ["", " --send-path msg-zerocopy --message 64K"] {
        let line = format!("{MEASURE}{more}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut measure = as_user("--memlock=0", own.program().as_os_str(), &words);
        assert_eq!(judged(&own, &mut measure, &line), Met::Nothing);
    }
}

#[test]
#[ignore = "exhaustive: another limit"]
fn a_quota_of_cpu_time_is_named_where_runs_fail() {
    needs!(root);
    let (group, file) = or_skip!(Group::new("cpu", ["cpu.cfs_quota_us", "cpu.max"]));
    let own = OwnCopy::new();
    for per_cent in [3, 30] {
        fs::write(&file, (per_cent * 1000).to_string()).expect("set the quota");
        let words: Vec<&str> = MEASURE.split_whitespace().collect();
        let mut measure = group.start(own.program().as_os_str(), &words);
        assert_ne!(judged(&own, &mut measure, &format!("{per_cent} % of a CPU")), Met::Killed);
    }
}

/// A command as the user with the limit that prlimit(1) sets.
fn as_user(limit: &str, program: &OsStr, words: &[&str]) -> Command {
    let mut limited = command("setpriv", &format!("--reuid {USER} --regid {USER} --clear-groups"));
    limited.arg("prlimit").arg(limit).arg(program).args(words);
    limited
}

/// A limit of a user, which an option of prlimit(1) sets.
#[track_caller]
fn of_a_user(option: &str, limits: &[u64]) -> Result<(), String> {
    namespaces_of_users()?;
    let killed = from_too_little_to_enough(limits, |limit, program, words| {
        as_user(&format!("--{option}={limit}"), program, words)
    });
    assert!(killed.is_empty(), "{killed:?}");
    Ok(())
}

#[test]
#[ignore = "exhaustive: each command at many limits"]
fn processes_of_a_user_at_every_limit() {
    needs!(root, "prlimit", "setpriv");
    or_skip!(of_a_user("nproc", &[2, 3, 4, 6, 7, 8, 10, 12, 300]));
}

#[test]
fn a_limit_of_open_files_is_named() {
    needs!(root, "prlimit", "setpriv");
    or_skip!(of_a_user("nofile", cases(&[8, 4096, 12, 14, 16, 24, 64], 2)));
}
