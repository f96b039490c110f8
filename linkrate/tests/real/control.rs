//! The control socket of a lab, captures that nobody reads, and the signals that end a lab.

use std::fs::{self, File};
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::processes::OwnCopy;
use crate::common::up::{CLIENT, Up};
use crate::common::{LINKRATE, Running, command, kill, linkrate, wait_until};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Signal, geteuid};

/// Where labs of root have their sockets.
const SOCKETS: &str = "/run/linkrate/labs";

fn socket_of(lab: &str) -> PathBuf {
    Path::new(SOCKETS).join(lab)
}

#[test]
fn no_other_process_can_take_the_name_of_a_lab() {
    needs!(root);
    // the abstract name of earlier versions, which every user and container could take
    let name = format!("taken-{}", std::process::id());
    let address = format!("linkrate-lab.{}.{name}", geteuid().as_raw());
    let address = SocketAddr::from_abstract_name(address).expect("an address");
    let _squatter = UnixListener::bind_addr(&address).expect("listen");
    assert!(!linkrate("lab list").stdout.contains(&name));
    linkrate(&format!("lab up --name {name} -- true")).expect_code(0);
}

#[test]
fn other_users_do_not_reach_the_socket_of_a_lab() {
    needs!(root, "setpriv");
    let lab = Up::start("");
    let socket = socket_of(&lab.name);
    assert!(fs::metadata(&socket).expect("a socket").file_type().is_socket());
    for directory in [Path::new("/run/linkrate"), Path::new(SOCKETS)] {
        let mode = fs::metadata(directory).expect("a directory").permissions().mode();
        assert_eq!(mode & 0o7777, 0o700, "{}", directory.display());
    }
    let words = "--reuid 65534 --regid 65534 --clear-groups ls /run/linkrate";
    let refused = Running::start(&mut command("setpriv", words)).wait();
    assert_ne!(refused.code(), Some(0), "{}", refused.stdout);
    // an abstract socket has no directory that protects it
    for host in ["sut", "client-0"] {
        let sockets = lab.run(host, "cat /proc/net/unix").expect_code(0).stdout;
        assert!(!sockets.contains("@linkrate"), "{sockets}");
    }
    let sockets = fs::read_to_string("/proc/net/unix").expect("a list");
    assert!(!sockets.contains("@linkrate-lab"), "{sockets}");
}

#[test]
fn the_socket_of_a_killed_lab_is_removed() {
    needs!(root);
    let own = OwnCopy::new();
    let killed = Up::of(&own.program(), "");
    let socket = socket_of(&killed.name);
    assert!(socket.exists());
    killed.running.signal(Signal::KILL);
    own.expect_nothing_left();
    assert!(socket.exists(), "no command has looked");
    // the kernel closes the files of a killed process after the process has left the list
    let gone = || !linkrate("lab list").stdout.contains(&killed.name);
    assert!(wait_until(Duration::from_secs(5), gone));
    assert!(!socket.exists(), "looking removes it");
    // the next lab of that name does not need anyone to look
    let name = format!("again-{}", std::process::id());
    let up = || Running::start(&mut command(LINKRATE, &format!("lab up --wait --name {name}")));
    let show = format!("lab show --name {name}");
    let shown = || linkrate(&show).code() == Some(0);
    let first = up();
    assert!(wait_until(Duration::from_secs(20), shown));
    first.signal(Signal::KILL);
    first.wait();
    let second = up();
    assert!(wait_until(Duration::from_secs(20), shown));
    linkrate(&format!("lab down --name {name}")).expect_code(0);
    second.wait().expect_code(0);
    assert!(!socket_of(&name).exists());
}

fn fifo_in(directory: &Path) -> PathBuf {
    let fifo = directory.join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("make a FIFO");
    fifo
}

#[test]
fn a_capture_that_nobody_reads_hangs_no_lab() {
    needs!(root, "ping");
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let fifo = fifo_in(directory.path());
    let lab = Up::start("");
    let quickly = |words: &str| {
        let began = Instant::now();
        let finished = lab.linkrate(words);
        assert!(began.elapsed() < Duration::from_secs(8), "{words}: {:?}", began.elapsed());
        finished
    };
    let words = format!("adapter capture eth0 --name {}", lab.name);
    let capture = Running::start(command(LINKRATE, &words).arg(&fifo));
    std::thread::sleep(Duration::from_millis(500));
    // without a reader the command waits, and the lab does not
    quickly("lab show");
    // a reader that does not read
    let mut options = File::options();
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    let mut reader = options.read(true).custom_flags(nonblocking).open(&fifo).expect("open");
    capture.wait().expect_code(0);
    lab.run("sut", &format!("ping -q -c 100 -i 0.01 -s 1400 {CLIENT}")).expect_code(0);
    quickly("adapter show eth0");
    let stopped = quickly("adapter capture eth0 --stop --json").json();
    let number = |name: &str| stopped["captured"][name].as_u64().expect("a number");
    // 400 packets of 1.4 KB; a FIFO holds 64 KiB (pipe(7))
    assert!(number("packets") > 10 && number("packets") < 300, "{stopped}");
    assert!(number("packets") + number("lost") >= 400, "{stopped}");
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).expect("read");
    // the section header of pcapng
    assert_eq!(bytes.get(..4), Some(&[0x0a, 0x0d, 0x0d, 0x0a][..]));
    lab.down().expect_code(0);
}

#[test]
fn a_lab_that_ends_finishes_what_it_was_asked_for() {
    needs!(root, "ping");
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let fifo = fifo_in(directory.path());
    let lab = Up::start("");
    let mut reader = File::options().read(true).write(true).open(&fifo).expect("open");
    let capture = |more: &str| command(LINKRATE, &format!("adapter capture eth0 {more}"));
    let name = format!("--name {}", lab.name);
    Running::start(capture(&name).arg(&fifo)).wait().expect_code(0);
    lab.run("sut", &format!("ping -q -c 100 -i 0.01 -s 1400 {CLIENT}")).expect_code(0);
    let stop = Running::start(&mut capture(&format!("--stop --json {name}")));
    std::thread::sleep(Duration::from_millis(300));
    let down = Running::start(&mut command(LINKRATE, &format!("lab down {name}")));
    std::thread::sleep(Duration::from_millis(1000));
    // from now on the file takes the packets
    let reading = std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 20];
        while reader.read(&mut bytes).is_ok_and(|count| count > 0) {}
    });
    let stopped = stop.wait().expect_code(0).json();
    let number = |name: &str| stopped["captured"][name].as_u64().expect("a number");
    assert!(number("packets") >= 400 && number("lost") == 0, "{stopped}");
    down.wait().expect_code(0);
    lab.running.wait().expect_code(0);
    // it reads from its own end of the FIFO, for ever
    drop(reading);
}

#[test]
fn removing_a_port_does_not_hold_up_the_lab() {
    needs!(root, "ping");
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let fifo = fifo_in(directory.path());
    let lab = Up::start("--ports 2");
    // a reader that does not read, and a program that does not end
    let mut options = File::options();
    let reader = options.read(true).write(true).open(&fifo).expect("open");
    let words = format!("adapter capture eth1 --name {}", lab.name);
    Running::start(command(LINKRATE, &words).arg(&fifo)).wait().expect_code(0);
    lab.run("sut", "ping -q -c 100 -i 0.01 -s 1400 198.18.1.2").expect_code(0);
    let mut stubborn = lab.exec("client-1", "sh -c");
    let stubborn = Running::start(stubborn.arg("trap '' TERM; echo ready; sleep 60; sleep 60"));
    std::thread::sleep(Duration::from_millis(500));

    let removal =
        Running::start(&mut command(LINKRATE, &format!("adapter remove eth1 --name {}", lab.name)));
    std::thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    let hosts = lab.linkrate("lab show").stdout;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(!hosts.contains("client-1"), "{hosts}");
    // the command waits for the program, which is killed
    removal.wait().expect_code(0);
    assert!(began.elapsed() > Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(stubborn.wait().signal(), Some(9));
    // a new port gets the name of the old one
    let added = lab.linkrate("adapter add --json").json();
    assert_eq!(added["added"]["ports"][0], "eth1", "{added}");
    drop(reader);
    lab.down().expect_code(0);
}

#[test]
fn an_agent_that_does_not_answer_holds_up_no_end() {
    needs!(root);
    let lab = Up::start("");
    let hosts = lab.linkrate("lab show --json").json();
    let client = hosts["lab"]["hosts"][1]["pid"].as_u64().expect("a process") as u32;
    kill(client, Signal::STOP);
    // it asks the kernel of the client, through the agent
    let words = format!("adapter show --name {}", lab.name);
    let waiting = Running::start(&mut command(LINKRATE, &words));
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    let down = Running::start(&mut command(LINKRATE, &format!("lab down --name {}", lab.name)));
    // the request that waits for the agent ends with the lab, and not after 15 s
    assert_ne!(waiting.wait().code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    kill(client, Signal::CONT);
    down.wait().expect_code(0);
    lab.running.wait().expect_code(0);
}

#[test]
fn a_refused_capture_changes_no_file() {
    needs!(root);
    let directory = tempfile::tempdir().expect("make a temporary directory");
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    fs::write(&old, "kept").expect("write a file");
    let lab = Up::start("");
    for file in [&old, &new] {
        let words = format!("adapter capture eth9 --name {}", lab.name);
        let refused = Running::start(command(LINKRATE, &words).arg(file)).wait().expect_code(2);
        assert!(refused.stderr.contains("no port \"eth9\""), "{}", refused.stderr);
    }
    assert_eq!(fs::read_to_string(&old).expect("a file"), "kept");
    assert!(!new.exists());
    let words = format!("adapter capture eth0 --duration 200ms --name {}", lab.name);
    Running::start(command(LINKRATE, &words).arg(&old)).wait().expect_code(0);
    assert_eq!(fs::read(&old).expect("a file").get(..4), Some(&[0x0a, 0x0d, 0x0d, 0x0a][..]));
}

#[test]
fn each_signal_that_ends_a_lab_leaves_nothing() {
    needs!(root);
    let own = OwnCopy::new();
    for signal in [Signal::HUP, Signal::TERM, Signal::INT] {
        let lab = Up::of(&own.program(), "");
        let Up { name, running } = lab;
        running.signal(signal);
        running.wait().expect_code(0);
        own.expect_nothing_left();
        assert!(!socket_of(&name).exists());
    }
    // the program is ended with the lab
    let name = format!("program-{}", std::process::id());
    let words = format!("lab up --name {name} -- sleep 1000");
    for signal in [Signal::HUP, Signal::TERM] {
        let up = Running::start(&mut command(own.program(), &words));
        let shown = || linkrate(&format!("lab show --name {name}")).code() == Some(0);
        assert!(wait_until(Duration::from_secs(20), shown));
        up.signal(signal);
        up.wait().expect_code(128 + signal.as_raw());
        own.expect_nothing_left();
    }
}

/// `lab up --wait` in a shell that sets something up before, until it is shown.
fn up_after(setup: &str, name: &str) -> Running {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{setup} exec {LINKRATE} lab up --wait --name {name}")]);
    let running = Running::start(&mut shell);
    let shown = || linkrate(&format!("lab show --name {name}")).code() == Some(0);
    assert!(wait_until(Duration::from_secs(20), shown), "not up");
    running
}

#[test]
fn a_lab_under_nohup_stays_when_its_terminal_goes() {
    needs!(root);
    let name = format!("nohup-{}", std::process::id());
    // as nohup(1) does
    let lab = up_after("trap '' HUP;", &name);
    lab.signal(Signal::HUP);
    // which is a write that fails, and never an end
    lab.signal(Signal::PIPE);
    std::thread::sleep(Duration::from_millis(1500));
    linkrate(&format!("lab show --name {name}")).expect_code(0);
    lab.signal(Signal::TERM);
    lab.wait().expect_code(0);
}

#[test]
fn a_lab_needs_no_reader_of_its_output() {
    needs!(root);
    for (number, setup) in ["exec >&- 2>&-;", "exec > /dev/full 2>&1;"].into_iter().enumerate() {
        let name = format!("mute-{}-{number}", std::process::id());
        let lab = up_after(setup, &name);
        linkrate(&format!("lab down --name {name}")).expect_code(0);
        lab.wait().expect_code(0);
    }
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let name = format!("piped-{}", std::process::id());
    let mut up = command(LINKRATE, &format!("lab up --wait --name {name}"));
    up.stdout(writer.try_clone().expect("a pipe")).stderr(writer);
    let mut lab = up.spawn().expect("start linkrate");
    let shown = || linkrate(&format!("lab show --name {name}")).code() == Some(0);
    assert!(wait_until(Duration::from_secs(20), shown), "not up");
    linkrate(&format!("lab down --name {name}")).expect_code(0);
    assert_eq!(lab.wait().expect("its end").code(), Some(0));
    // programs in the lab end by SIGPIPE as anywhere else
    let mut up = command(LINKRATE, &format!("lab up --name {name} -- sh -c"));
    let ended = Running::start(up.arg("kill -PIPE $$; exit 0")).wait();
    assert_eq!(ended.code(), Some(128 + 13), "{}", ended.stderr);
}
