//! Programs in a host that runs, and how they are ended with it.

use std::io::Read;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::privileges;
use linkrate_model::CpuSet;
use linkrate_sys::host::join::{Guest, Lifetime, Namespaces};
use linkrate_sys::host::{self, HostProcess, end_programs};
use linkrate_sys::sched;

/// A host that does nothing until its input ends.
fn idle(privilege: host::Privilege) -> HostProcess {
    host::spawn("/bin/cat".as_ref(), &[], privilege.isolation()).unwrap()
}

fn cpus() -> CpuSet {
    let all = sched::affinity(sched::current_thread()).unwrap();
    all.iter().take(1).collect()
}

/// What a program in the host writes.
fn output_in(host: &HostProcess, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped());
    let namespaces = Namespaces::of(host.pid()).unwrap();
    namespaces.enter_with(&mut command, &cpus(), Lifetime::OfItsParent).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_program_joins_a_host() {
    for privilege in privileges() {
        let host = idle(privilege);
        let link = |name: &str| {
            let of_host = std::fs::read_link(format!("/proc/{}/ns/{name}", host.pid())).unwrap();
            of_host.to_str().unwrap().to_owned()
        };
        for name in ["user", "net", "mnt"] {
            let inside = output_in(&host, "readlink", &[&format!("/proc/self/ns/{name}")]);
            assert_eq!(inside.trim(), link(name));
        }
        let here = std::env::current_dir().unwrap();
        assert_eq!(output_in(&host, "pwd", &["-P"]).trim(), here.to_str().unwrap());
        let status = output_in(&host, "cat", &["/proc/self/status"]);
        let allowed = format!("Cpus_allowed_list:\t{}\n", cpus());
        assert!(status.contains(&allowed), "{status}");
    }
}

/// The output of what `script` leaves behind in the host, once it has written "begun".
fn left_behind(host: &HostProcess, script: &str) -> ChildStdout {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::null());
    let namespaces = Namespaces::of(host.pid()).unwrap();
    namespaces.enter_with(&mut command, &cpus(), Lifetime::ItsOwn).unwrap();
    let mut shell = command.spawn().unwrap();
    assert!(shell.wait().unwrap().success());
    let mut output = shell.stdout.take().unwrap();
    output.read_exact(&mut [0; 6]).unwrap();
    output
}

#[test]
fn who_is_in_a_host_ends_with_it() {
    for privilege in privileges() {
        let host = idle(privilege);
        // the shell goes, what it started stays, and does not want to go
        let script = "sh -c 'trap : TERM; echo begun; while :; do sleep 1; done' &";
        let mut output = left_behind(&host, script);
        let started = Instant::now();
        end_programs(&[host.pid()], Duration::from_millis(300));
        // every holder of the pipe is gone
        assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert!(started.elapsed() < Duration::from_secs(5));
        // the host itself is not
        assert!(host.network_namespace().is_ok());
        end_programs(&[host.pid()], Duration::ZERO);
    }
}

/// Twenty programs start another one after a moment and go, so some have a child that was not there when
/// they were found.
#[test]
fn who_forks_while_it_is_killed_ends_too() {
    for privilege in privileges() {
        let host = idle(privilege);
        let script = "trap '' TERM; next() { sleep 0.02; next & }; \
                      for each in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do next & done; echo begun";
        let mut output = left_behind(&host, script);
        end_programs(&[host.pid()], Duration::from_millis(50));
        // every holder of the pipe is gone
        let ended = std::thread::spawn(move || output.read_to_end(&mut Vec::new()).unwrap());
        let deadline = Instant::now() + Duration::from_secs(5);
        while !ended.is_finished() {
            assert!(Instant::now() < deadline, "some are left");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn sends_sighup_before_it_kills_a_guest() {
    let guest = |script: &str| Guest::start(Command::new("sh").args(["-c", script])).unwrap();
    let mut quick = guest("exit 3");
    let deadline = Instant::now() + Duration::from_secs(10);
    while quick.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(quick.end(Duration::ZERO).unwrap().code(), Some(3));
    // exec: a shell that waits for a child would leave it behind, with the output of this test
    let status = guest("exec sleep 100").end(Duration::from_secs(4)).unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(1));
    assert!(Guest::start(&mut Command::new("no-such-program")).is_err());
}
