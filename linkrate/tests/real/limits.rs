//! Limits of processes and of open files, from too little to enough: a command ends in time with one error that names the
//! limit, and leaves nothing behind.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::processes::OwnCopy;
use crate::common::small::SmallStudy;
use crate::common::{Finished, RUNS_FAILED, Running, command, wait_until};
use crate::user::namespaces_of_users;

/// What a command exits with that has met a limit.
const LIMIT: i32 = 6;

/// A user with no other process, so that all of its limit is the command's.
const USER: u32 = 64_123;

/// No command of these tests takes a quarter of it.
const MOST: Duration = Duration::from_secs(40);

const MEASURE: &str = "measure --json --purpose functions --runs 1 --time 200ms --warm-up 0s --adapter veth \
                       --clients 2";

/// Runs a command to its end and says whether it met a limit.
#[track_caller]
fn judged(own: &OwnCopy, command: &mut Command, what: &str) -> bool {
    let began = Instant::now();
    let finished = Running::start(command).wait();
    assert!(began.elapsed() < MOST, "{what}: {:?}", began.elapsed());
    let Finished { stderr, .. } = &finished;
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
    code == LIMIT
}

/// Tries the main commands at each of the limits: at the least one of them meets it, at the most none does.
#[track_caller]
fn from_too_little_to_enough(limits: &[u64], start: impl Fn(u64, &OsStr, &[&str]) -> Command) {
    let study = SmallStudy::new();
    let (program, file) = (study.own.program(), study.file());
    let file = file.to_str().expect("a path of text");
    // where the user may write too
    let results = study.own.beside("results");
    fs::create_dir(&results).expect("make a directory");
    fs::set_permissions(&results, Permissions::from_mode(0o777)).expect("open it to all");
    let mut met = Vec::new();
    for limit in limits {
        let quick = format!("run --json --blocks 2 --dir at-{limit}");
        let words = ["list", "doctor", MEASURE, &quick];
        let of_limit = words.iter().filter(|line| {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            words.extend(line.starts_with("run").then_some(file));
            let mut started = start(*limit, program.as_os_str(), &words);
            started.current_dir(&results);
            judged(&study.own, &mut started, &format!("{line} at {limit}"))
        });
        met.push(of_limit.count());
    }
    assert!(met.first() > Some(&0) && met.last() == Some(&0), "{limits:?}: {met:?}");
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

#[test]
fn a_limit_of_processes_of_a_control_group_is_named() {
    needs!(root);
    let (group, file) = or_skip!(Group::new("pids", ["pids.max", "pids.max"]));
    from_too_little_to_enough(&[1, 2, 3, 4, 6, 8, 10, 12, 40, 300], |limit, program, words| {
        fs::write(&file, limit.to_string()).expect("set the limit");
        group.start(program, words)
    });
}

#[test]
fn a_quota_of_cpu_time_is_named_where_runs_fail() {
    needs!(root);
    let (group, file) = or_skip!(Group::new("cpu", ["cpu.cfs_quota_us", "cpu.max"]));
    let own = OwnCopy::new();
    for per_cent in [3, 30] {
        fs::write(&file, (per_cent * 1000).to_string()).expect("set the quota");
        let words: Vec<&str> = MEASURE.split_whitespace().collect();
        let mut measure = group.start(own.program().as_os_str(), &words);
        judged(&own, &mut measure, &format!("{per_cent} % of a CPU"));
    }
}

/// A command as the user with the limit that prlimit(1) sets.
fn as_user(limit: &str, program: &OsStr, words: &[&str]) -> Command {
    let mut limited = command("setpriv", &format!("--reuid {USER} --regid {USER} --clear-groups"));
    limited.arg("prlimit").arg(limit).arg(program).args(words);
    limited
}

#[test]
fn a_limit_of_processes_of_a_user_is_named() {
    needs!(root, "prlimit", "setpriv");
    or_skip!(namespaces_of_users());
    from_too_little_to_enough(&[2, 3, 4, 6, 7, 8, 10, 12, 300], |limit, program, words| {
        as_user(&format!("--nproc={limit}"), program, words)
    });
}

#[test]
fn a_limit_of_open_files_is_named() {
    needs!(root, "prlimit", "setpriv");
    or_skip!(namespaces_of_users());
    from_too_little_to_enough(&[8, 12, 14, 16, 24, 64, 4096], |limit, program, words| {
        as_user(&format!("--nofile={limit}"), program, words)
    });
}
