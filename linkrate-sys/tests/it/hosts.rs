//! Hosts: what they get of their own, how they are wired, and that nothing is left of them.

use std::fs;
use std::io::BufReader;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Agent, answer, arguments, identity, privileges, spawn};
use crate::skip::{skip, test_path};
use linkrate_sys::host::{self, Isolation, Privilege};

const AGENT: &str = "hosts::inside::agent";

/// Waits until `condition` holds.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether some process is in the network namespace; a zombie is not. The caller holds the namespace
/// open: the kernel gives the number of one that is gone to the next that anybody makes.
fn inhabited(namespace: &OwnedFd) -> bool {
    let link = format!("net:[{}]", identity(namespace));
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        fs::read_link(entry.path().join("ns/net")).is_ok_and(|found| found == Path::new(&link))
    })
}

#[test]
fn two_hosts_are_wired_by_one_of_them() {
    for privilege in privileges() {
        let mut one = Agent::start(AGENT, privilege.isolation());
        let shared = one.host.user_namespace().unwrap();
        let isolation = match privilege {
            Privilege::Root => Isolation::Root,
            Privilege::UserNamespace => Isolation::UserNamespace { join: Some(shared.as_fd()) },
        };
        let mut two = Agent::start(AGENT, isolation);

        // three network namespaces
        let mine = identity(fs::File::open("/proc/self/ns/net").unwrap());
        let ones = one.host.network_namespace().unwrap();
        let twos = two.host.network_namespace().unwrap();
        let all = [mine, identity(&ones), identity(&twos)];
        assert!(all[0] != all[1] && all[1] != all[2] && all[2] != all[0], "{all:?}");
        assert_eq!(
            one.ask("uid"),
            if privilege == Privilege::Root { my_uid() } else { "0".into() }
        );

        assert_eq!(one.ask(&format!("wire {}", two.host.pid())), "ok");
        assert_eq!(one.ask("links"), "lo near");
        assert_eq!(two.ask("links"), "far lo");
        assert_eq!(one.ask("up near"), "ok");
        assert_eq!(two.ask("up far"), "ok");
        assert_eq!(one.ask("up lo"), "ok");
        // nothing of it is to be seen outside
        assert!(!Path::new("/sys/class/net/near").exists());

        // one end's host takes the wire with it, once the kernel has cleaned up
        drop(one);
        eventually("the end of the first host", || !inhabited(&ones));
        drop(ones);
        let mut links = String::new();
        for _ in 0..1000 {
            links = two.ask("links");
            if links == "lo" {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(links, "lo");
        let pid = two.host.pid();
        drop(two);
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "waited for");
        eventually("the end of the second host", || !inhabited(&twos));
    }
}

fn my_uid() -> String {
    rustix::process::geteuid().as_raw().to_string()
}

#[test]
fn hosts_do_not_outlive_a_killed_controller() {
    for privilege in privileges() {
        let name = match privilege {
            Privilege::Root => "hosts::inside::root_controller",
            Privilege::UserNamespace => "hosts::inside::user_controller",
        };
        let mut controller = Command::new(std::env::current_exe().unwrap())
            .args(arguments(name))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(controller.stdout.take().unwrap());
        let pids = answer(&mut lines).expect("the controller starts");
        let namespaces: Vec<OwnedFd> = pids
            .split_whitespace()
            .map(|pid| host::network_namespace_of(pid.parse().unwrap()).unwrap())
            .collect();
        assert_eq!(namespaces.len(), 2);
        assert!(namespaces.iter().all(inhabited));
        controller.kill().unwrap();
        controller.wait().unwrap();
        for namespace in &namespaces {
            eventually("the end of a host", || !inhabited(namespace));
        }
    }
}

#[test]
fn a_host_that_does_not_listen_is_killed() {
    for privilege in privileges() {
        let host = host::spawn("/bin/sleep".as_ref(), &["1000".as_ref()], privilege.isolation());
        let host = host.unwrap();
        let pid = host.pid();
        let started = Instant::now();
        drop(host);
        assert!(started.elapsed() < Duration::from_secs(5));
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}

#[test]
fn a_host_without_isolation_stays_where_the_caller_is() {
    let mut agent = Agent::start(AGENT, Isolation::None);
    let mine = identity(fs::File::open("/proc/self/ns/net").unwrap());
    assert_eq!(identity(agent.host.network_namespace().unwrap()), mine);
    assert_eq!(agent.ask("uid"), my_uid());
    let status = agent.host.end(Duration::from_secs(10)).unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(agent.host.try_wait().unwrap(), Some(status));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    for isolation in [Isolation::None, Isolation::UserNamespace { join: None }] {
        let error = host::spawn("/no/such/program".as_ref(), &[], isolation).unwrap_err();
        println!("{error}");
        assert!(error.to_string().contains("/no/such/program"), "{error}");
    }
}

#[test]
fn joining_what_is_no_user_namespace_names_the_step() {
    let other = fs::File::open("/proc/self/ns/net").unwrap();
    let isolation = Isolation::UserNamespace { join: Some(other.as_fd()) };
    let error = host::spawn("/bin/true".as_ref(), &[], isolation).unwrap_err();
    println!("{error}; hint: {:?}", error.hint());
    assert!(error.to_string().starts_with("join user namespace for host /bin/true: "), "{error}");
    assert_eq!(error.errno(), Some(libc::EINVAL));
}

#[test]
fn a_limit_that_forbids_namespaces_is_named() {
    if privileges().contains(&Privilege::UserNamespace) {
        let isolation = Isolation::UserNamespace { join: None };
        let mut agent = Agent::start(AGENT, isolation);
        assert_eq!(agent.ask("can-isolate"), "Root");
        assert_eq!(agent.ask("forbid max_user_namespaces"), "ok");
        assert_eq!(agent.ask("forbid max_net_namespaces"), "ok");
        let refusal = agent.ask("can-isolate");
        println!("{refusal}");
        assert!(refusal.starts_with("unshare namespaces for a test host: "), "{refusal}");
        assert!(refusal.contains("sysctl -w user.max_user_namespaces="), "{refusal}");
    }
}

/// Runs the test binaries as an ordinary user.
#[test]
fn an_ordinary_user_can_do_it_all() {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return skip("this is an ordinary user already");
    }
    // where that user may reach it
    let program = std::env::temp_dir().join(format!("linkrate-sys-test-{}", std::process::id()));
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(&program)
        .args(["hosts::", "interfaces::", "taps::", "--nocapture", "--skip", &test_path()])
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .output();
    fs::remove_file(&program).unwrap();
    let output = or_skip!(output);
    println!("{}", String::from_utf8_lossy(&output.stdout));
    println!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}", output.status);
}

/// What the tests above start.
mod inside {
    use std::fs::File;
    use std::io::{Read, stdin};
    use std::os::fd::AsFd;

    use linkrate_sys::netlink::RouteSocket;

    use super::{AGENT, Isolation, host, spawn};
    use crate::common::in_a_host;

    #[test]
    #[ignore = "runs in a host"]
    fn agent() {
        if !in_a_host() {
            return;
        }
        for line in stdin().lines().map_while(Result::ok) {
            println!("\n@{}", obey(&line).unwrap_or_else(|error| error));
        }
    }

    fn obey(line: &str) -> Result<String, String> {
        let mut route = RouteSocket::open().map_err(|error| error.to_string())?;
        let (word, operand) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "uid" => return Ok(rustix::process::geteuid().as_raw().to_string()),
            "wire" => {
                let peer = host::network_namespace_of(operand.parse().unwrap())
                    .map_err(|error| error.to_string())?;
                route.create_veth("near", "far", peer.as_fd(), 1)
            }
            "up" => route.set_up(operand),
            "can-isolate" => {
                return match host::can_isolate() {
                    Ok(privilege) => Ok(format!("{privilege:?}")),
                    Err(error) => Err(format!("{error}; hint: {}", error.hint().unwrap())),
                };
            }
            // a limit of this user namespace, which must not be the machine's
            "forbid" => {
                let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
                assert_eq!(map.split_whitespace().last(), Some("1"), "a user namespace");
                let path = format!("/proc/sys/user/{operand}");
                return std::fs::write(path, "0")
                    .map(|()| "ok".to_owned())
                    .map_err(|e| e.to_string());
            }
            "links" => {
                let list = File::open("/proc/net/dev").and_then(|mut file| {
                    let mut text = String::new();
                    file.read_to_string(&mut text).map(|_| text)
                });
                let list = list.map_err(|error| error.to_string())?;
                let names = list.lines().skip(2).filter_map(|line| line.split_once(':'));
                let mut names: Vec<&str> = names.map(|(name, _)| name.trim()).collect();
                names.sort_unstable();
                return Ok(names.join(" "));
            }
            _ => return Err(format!("{word}?")),
        }
        .map(|()| "ok".to_owned())
        .map_err(|error| error.to_string())
    }

    /// Starts two hosts, names them and waits to be killed.
    fn control(first: Isolation<'_>) {
        if !in_a_host() {
            return;
        }
        let one = spawn(AGENT, first);
        let shared = one.user_namespace().unwrap();
        let second = match first {
            Isolation::UserNamespace { .. } => {
                Isolation::UserNamespace { join: Some(shared.as_fd()) }
            }
            other => other,
        };
        let two = spawn(AGENT, second);
        println!("\n@{} {}", one.pid(), two.pid());
        let _ = stdin().read(&mut [0]);
    }

    #[test]
    #[ignore = "runs as a controller"]
    fn root_controller() {
        control(Isolation::Root);
    }

    #[test]
    #[ignore = "runs as a controller"]
    fn user_controller() {
        control(Isolation::UserNamespace { join: None });
    }
}
