//! Runs parts of a test binary inside hosts: the binary executes itself.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use linkrate_sys::host::{self, HostProcess, Isolation, Privilege};

use crate::skip::skip;

/// Tells the tests of `mod inside` that they run in a host. To the test harness it is one more
/// name to run, which no test has.
const MARKER: &str = "in-a-host";

/// Arguments that make this binary run the one test `name` of `mod inside`.
pub fn arguments(name: &str) -> [&str; 6] {
    ["--ignored", "--exact", "--nocapture", "--test-threads=1", name, MARKER]
}

/// Whether this process was started with [`arguments`]; `cargo test -- --ignored` does not do so.
pub fn in_a_host() -> bool {
    std::env::args().any(|argument| argument == MARKER)
}

/// Starts this binary as a host that runs test `name` of `mod inside`.
pub fn spawn(name: &str, isolation: Isolation<'_>) -> HostProcess {
    let program = std::env::current_exe().unwrap();
    let arguments = arguments(name).map(OsStr::new);
    host::spawn(&program, &arguments, isolation).unwrap()
}

/// Every way of isolation that works here; says so when there is none.
pub fn privileges() -> Vec<Privilege> {
    match host::can_isolate() {
        Ok(Privilege::Root) => {
            // root can take the way of the ordinary user too, unless that is forbidden
            let user =
                host::spawn("/bin/true".as_ref(), &[], Isolation::UserNamespace { join: None });
            match user {
                Ok(_) => vec![Privilege::Root, Privilege::UserNamespace],
                Err(error) => {
                    skip(format!("in a user namespace: {error}"));
                    vec![Privilege::Root]
                }
            }
        }
        Ok(privilege) => vec![privilege],
        Err(error) => {
            skip(format!("{error}; hint: {}", error.hint().unwrap_or("none")));
            Vec::new()
        }
    }
}

/// Runs test `name` of `mod inside` in a host, once for each way of isolation.
pub fn run_inside(name: &str) {
    privileges().into_iter().for_each(|privilege| run_inside_with(name, privilege));
}

/// The same with one way of isolation.
pub fn run_inside_with(name: &str, privilege: Privilege) {
    let mut host = spawn(name, privilege.isolation());
    let mut output = String::new();
    host.socket().read_to_string(&mut output).unwrap();
    let status = host.end(Duration::from_secs(10)).unwrap();
    println!("{privilege:?}:");
    for line in output.lines() {
        match line.find("SKIPPED ") {
            // libtest has begun the line with the name of the test
            Some(at) => println!("{}", &line[at..]),
            // indented behind a bar: its result is not one of this run's
            None => println!("  | {line}"),
        }
    }
    assert!(status.success(), "{name} failed with {privilege:?}: {status}\n{output}");
    assert!(output.contains("1 passed"), "{name} did not run: {output}");
}

/// Talks to a test of `mod inside` that answers lines; its answers start with `@`, so that the
/// harness's own lines do not matter.
pub struct Agent {
    pub host: HostProcess,
    lines: BufReader<UnixStream>,
}

impl Agent {
    pub fn start(name: &str, isolation: Isolation<'_>) -> Self {
        let host = spawn(name, isolation);
        let lines = BufReader::new(host.socket().try_clone().unwrap());
        Self { host, lines }
    }

    pub fn ask(&mut self, question: &str) -> String {
        writeln!(self.host.socket(), "{question}").unwrap();
        answer(&mut self.lines).unwrap_or_else(|| panic!("no answer to {question}"))
    }
}

/// The next line that is an answer.
pub fn answer(lines: &mut impl BufRead) -> Option<String> {
    lines.lines().map_while(Result::ok).find_map(|line| line.strip_prefix('@').map(str::to_owned))
}

/// The inode of a namespace, its identity.
pub fn identity(namespace: impl AsFd) -> u64 {
    rustix::fs::fstat(namespace).unwrap().st_ino
}

/// Moves the calling thread into a network namespace of its own.
pub fn leave_network() {
    // SAFETY: no pointers are passed; the descriptors of other threads stay valid.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// How many queues of an interface this sysfs shows: `rx-` or `tx-`.
pub fn queue_directories(interface: &str, prefix: &str) -> u32 {
    let entries = std::fs::read_dir(format!("/sys/class/net/{interface}/queues")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().starts_with(prefix)).count() as u32
}
