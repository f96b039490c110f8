//! Two machines that are network namespaces of this one, and a cable between them: enough for a
//! controller that knows nothing of the other but how to reach it by `ssh`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use linkrate_sys::host::join::{Lifetime, Namespaces};
use linkrate_sys::host::{HostProcess, Isolation, spawn};
use linkrate_sys::sched;

use super::ends::{connected_ports, listening_ports};
use super::processes::readable_by_all;
use super::ssh::{self, make_keys, server_script};
use super::{Running, command, enter_namespace, wait_until};

/// The address of each machine on the cable.
pub const ADDRESSES: [&str; 2] = ["198.51.100.1", "198.51.100.2"];

/// The programs of the second machine: those of the tests, and those that a copy needs.
const FAR_TOOLS: [&str; 9] =
    ["cat", "chmod", "head", "mktemp", "rm", "touch", "true", "uname", "wc"];

/// The directory, beside the keys, where the second machine looks for programs.
pub const FAR_PROGRAMS: &str = "far-programs";

/// The directory of its temporary files.
pub const FAR_FILES: &str = "far-files";

/// Removes what counts frames from the settings of a queueing discipline.
const NO_COUNTERS: &str = "sed 's/direct_packets_stat [0-9]*//'";

/// A machine: namespaces that live as long as this does.
#[derive(Debug)]
pub struct Machine(HostProcess);

impl Machine {
    /// One with a loopback interface and nothing else.
    pub fn start() -> Self {
        Self(spawn("/bin/cat".as_ref(), &[], Isolation::Root).expect("a namespace"))
    }

    /// Makes `command` run on it.
    pub fn on(&self, command: &mut Command) {
        let cpus = sched::affinity(sched::current_thread()).expect("an affinity");
        Namespaces::of(self.0.pid())
            .and_then(|host| host.enter_with(command, &cpus, Lifetime::OfItsParent))
            .expect("enter the machine");
    }

    /// Runs a script on it, which must succeed, and returns what it printed.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-ec", script]);
        self.on(&mut shell);
        Running::start(&mut shell).wait().expect_code(0).stdout
    }

    /// Calls `act` on a thread in the network namespace of the machine.
    #[track_caller]
    pub fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let pid = self.pid();
        let act = || {
            enter_namespace(pid);
            act()
        };
        std::thread::scope(|scope| scope.spawn(act).join().expect("no panic on the machine"))
    }

    /// The TCP ports on which programs of the machine listen.
    #[track_caller]
    pub fn listening_ports(&self) -> Vec<u16> {
        listening_ports(&self.sh("cat /proc/net/tcp"))
    }

    /// The local ports of its open TCP connections.
    #[track_caller]
    pub fn connected_ports(&self) -> Vec<u16> {
        connected_ports(&self.sh("cat /proc/net/tcp"))
    }

    /// Its process id, which names its namespaces.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Everything that is set on an interface, with its addresses, routes and steering.
    #[track_caller]
    pub fn settings(&self, interface: &str) -> String {
        self.sh(&format!(
            "ip -details link show dev {interface} | sed 's/^[0-9]*: //; s/qlen.*//'
             ip -4 address show dev {interface} | grep inet
             ip -4 route show table all dev {interface}
             tc qdisc show dev {interface} | {NO_COUNTERS}
             ip neighbour show dev {interface} nud permanent
             ip neighbour show proxy dev {interface}
             ethtool -k {interface}
             ethtool -l {interface} || true
             cat /sys/class/net/{interface}/tx_queue_len
             cat /sys/class/net/{interface}/queues/rx-*/rps_cpus"
        ))
    }
}

/// Everything that the kernel removes from an interface that moves, on eth1 and eth2.
#[track_caller]
pub fn lost_in_a_move(machine: &Machine) -> String {
    machine.sh(&format!(
        "for name in eth1 eth2; do
             [ -e /proc/sys/net/ipv4/conf/$name ] || continue
             tc qdisc show dev $name | {NO_COUNTERS}
             ip neighbour show dev $name nud permanent | sort
             ip neighbour show proxy dev $name; ip -6 neighbour show proxy dev $name
             bridge fdb show dev $name | sed '/^33:33/d; /^01:00/d'
             sed -n \"s/^[0-9]* *$name  *[0-9][0-9]*  *[1-9][0-9]*  */group /p\" /proc/net/dev_mcast
         done
         ip address show | sed -n '/inet.*nodad/p' | sort
         ip -4 route show table all | sed 's/ *linkdown//' | sort
         ip -6 route show table all | sed '/multicast/d; /^local fe80::.*ff:fe/d' | sort
         grep . /proc/sys/net/ipv6/conf/eth[12]/forwarding"
    ))
}

/// The lines that are only in one of two texts.
pub fn difference(before: &str, after: &str) -> String {
    let only = |a: &str, b: &str| {
        // a line that stands there twice must stand there twice
        let count = |text: &str, line: &str| text.lines().filter(|other| *other == line).count();
        let lines = a.lines().filter(|line| count(a, line) > count(b, line));
        lines.map(str::to_owned).collect::<Vec<_>>().join("\n  ")
    };
    let (gone, new) = (only(before, after), only(after, before));
    if gone.is_empty() && new.is_empty() && before != after {
        return format!("in another order: {before}\nafter:\n{after}");
    }
    format!("before:\n  {gone}\nafter:\n  {new}")
}

/// A machine with a cable from its interface eth1 to its interface eth2. Both have settings that no
/// program would guess.
#[track_caller]
pub fn with_a_loop() -> Machine {
    let machine = Machine::start();
    machine.sh("ip link set lo up
         ip link add eth1 type veth peer name eth2
         ip address add 198.51.100.1/24 dev eth1
         ip address add 198.51.100.2/24 dev eth2
         ip address add 203.0.113.1/28 dev eth2
         ip link set eth1 mtu 1400 up
         ip link set eth2 mtu 1400 gso_max_segs 4000 up
         ip route add 192.0.2.0/24 via 203.0.113.2 dev eth2
         ethtool -K eth2 gro off");
    machine
}

/// [`with_a_loop`], with static neighbours, forwarding entries, groups, routes and disciplines.
#[track_caller]
pub fn with_a_furnished_loop() -> Machine {
    let machine = with_a_loop();
    machine.sh("for name in eth1 eth2; do
             ip address add 2001:db8:${name#eth}::1/64 dev $name nodad
             ip address add fe80::1:${name#eth}/64 dev $name nodad
             ip neighbour add 198.51.100.77 lladdr 02:00:00:00:00:77 dev $name nud permanent
             ip neighbour add 2001:db8::77 lladdr 02:00:00:00:00:77 dev $name nud permanent router
             ip neighbour add proxy 198.51.100.88 dev $name
             ip neighbour add proxy 2001:db8::88 dev $name
             bridge fdb add 02:00:00:00:00:99 dev $name self
             ip maddress add 01:00:5e:00:00:99 dev $name
             echo 1 > /proc/sys/net/ipv6/conf/$name/forwarding
         done
         ip route add 10.1.0.0/16 dev eth1 src 198.51.100.2
         ip route add 10.2.0.0/16 nexthop via 198.51.100.1 dev eth1 nexthop via 203.0.113.2 dev eth2
         ip -6 route add 2001:db8:6::/64 nexthop via fe80::99 dev eth1 nexthop via fe80::98 dev eth2
         tc qdisc add dev eth2 root handle 7: tbf rate 8gbit burst 2mb latency 50ms
         tc qdisc add dev eth2 clsact");
    machine
}

/// `linkrate measure` on eth1 of that machine, with eth2 as the client's interface.
pub fn measure_the_loop(machine: &Machine, program: &Path, more: &str) -> Command {
    let words = "measure --json --interface eth1 --client interface:eth2 --warm-up 100ms \
                 --purpose functions";
    let mut measure = command(program, words);
    machine.on(measure.args(more.split_whitespace()));
    measure
}

/// `linkrate run` of a long study on the same interfaces. Its file and its results are in
/// `directory`.
pub fn study_of_the_loop(machine: &Machine, program: &Path, directory: &Path) -> Command {
    let file = directory.join("loop.toml");
    let text = "title = \"Knobs of an existing interface\"\n\
                [testbed]\ninterface = [\"eth1\"]\nclients = [\"interface:eth2\"]\n\
                [factors]\noffload = [\"none\", \"gso\"]\nmtu = [1300, 1400]\n\
                [method]\nrun = \"150 ms\"\nwarm-up = \"100 ms\"\npurpose = \"functions\"\n\
                blocks = { min = 500, max = 500 }\n";
    fs::write(&file, text).expect("a study file");
    let mut study = command(program, "run");
    machine.on(study.arg(&file).arg("--output").arg(directory.join("results")));
    study
}

/// Two machines, the second with an OpenSSH server, and keys that are thrown away with them.
#[derive(Debug)]
pub struct Lab {
    /// Where the controller runs.
    pub here: Machine,
    /// What it reaches as `lab2`.
    pub there: Machine,
    directory: tempfile::TempDir,
    _server: Running,
}

impl Lab {
    /// Starts them. Interfaces are called `eth1` at both ends, and have settings that no program
    /// would guess.
    #[track_caller]
    pub fn start() -> Self {
        let (here, there) = (Machine::start(), Machine::start());
        here.sh(&format!("ip link add eth1 type veth peer name eth1 netns {}", there.pid()));
        for (machine, address) in [&here, &there].into_iter().zip(ADDRESSES) {
            machine.sh(&format!(
                "ip link set lo up
                 ip address add {address}/24 dev eth1
                 ip link set eth1 mtu 1400 gso_max_segs 4000 up
                 ethtool -K eth1 tso off gro off"
            ));
        }
        let directory = tempfile::tempdir().expect("make a temporary directory");
        readable_by_all(directory.path());
        let at = |name: &str| directory.path().join(name).display().to_string();
        make_keys(directory.path(), ADDRESSES[1]);
        for name in [FAR_PROGRAMS, FAR_FILES] {
            fs::create_dir(at(name)).expect("make a directory");
        }
        // nothing else: a linkrate that is installed here is none of that machine
        for program in FAR_TOOLS {
            let link = Path::new(&at(FAR_PROGRAMS)).join(program);
            symlink(Path::new("/usr/bin").join(program), link).expect("make a link");
        }
        let set = format!("SetEnv PATH={} TMPDIR={}\n", at(FAR_PROGRAMS), at(FAR_FILES));
        let server = fs::read_to_string(at("sshd_config")).expect("read the configuration");
        fs::write(at("sshd_config"), server + &set).expect("write the configuration");
        fs::create_dir(at("bin")).expect("make a directory");
        let wrapper = format!("#!/bin/sh\nexec /usr/bin/ssh -F '{}' \"$@\"\n", at("ssh_config"));
        fs::write(at("bin/ssh"), wrapper).expect("write the wrapper");
        fs::set_permissions(at("bin/ssh"), fs::Permissions::from_mode(0o755)).expect("its mode");
        let mut sshd = Command::new("/bin/sh");
        let script = server_script(directory.path());
        there.on(sshd.args(["-ec", &script]));
        let server = Running::start(&mut sshd);
        let lab = Self { here, there, directory, _server: server };
        let answers = wait_until(ssh::TIMEOUT, || {
            let mut hello = lab.command(Path::new("ssh"), "-o BatchMode=yes lab2 true");
            Running::start(&mut hello).wait().code() == Some(0)
        });
        assert!(answers, "sshd does not answer");
        lab
    }

    /// A command on the first machine, whose `ssh` has the keys.
    pub fn command(&self, program: &Path, words: &str) -> Command {
        let bin = self.directory.path().join("bin");
        let path = std::env::var("PATH").unwrap_or_default();
        // a program by its name is looked for in the caller's path
        let program =
            if program == Path::new("ssh") { bin.join("ssh") } else { program.to_owned() };
        let mut command = command(program, words);
        command.env("PATH", format!("{}:{path}", bin.display()));
        self.here.on(&mut command);
        command
    }

    /// A place for files.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What is set at both ends.
    #[track_caller]
    pub fn settings(&self) -> [String; 2] {
        [self.here.settings("eth1"), self.there.settings("eth1")]
    }
}
