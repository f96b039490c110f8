//! A cluster of Slurm: Debian's munged, slurmctld and a slurmd for each node, every machine of it a
//! network namespace with a name and an address of its own on one switch.
//!
//! All of it is one PID namespace and one mount namespace: it ends with the test, whatever happens, and
//! changes no file of this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::machines::Machine;
use super::processes::readable_by_all;
use super::{Finished, Running, command, wait_until};

/// The programs of the cluster, and where Debian has them.
pub const DAEMONS: [&str; 3] = ["/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd"];

/// How long all nodes may take until they take jobs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The nodes, `n1` and so on.
pub const NODES: usize = 4;

/// The controller's configuration. Nothing in it needs cgroups or a database.
const CONFIGURATION: &str = "ClusterName=test
SlurmctldHost=login(10.77.0.254)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=PLACE/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation=PLACE/state
SlurmdSpoolDir=PLACE/spool-%n
SlurmctldPidFile=PLACE/ctld.pid
SlurmdPidFile=PLACE/slurmd-%n.pid
SlurmctldLogFile=PLACE/ctld.log
SlurmdLogFile=PLACE/slurmd-%n.log
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
KillWait=5
PartitionName=all Nodes=ALL Default=YES State=UP
";

/// What the machine `login` does until its end: it is the switch, it has an address on it, and it starts
/// all others. `$1` is the directory, `$2` the number of nodes.
const SCRIPT: &str = r#"
cd "$1"
hostname login
ip link set lo up
ip link add br0 type bridge
ip link add eth1 type veth peer name up0
ip link set up0 master br0
for name in br0 up0 eth1; do ip link set $name up; done
ip address add 10.77.0.254/24 dev eth1
/usr/sbin/munged --foreground --force --num-threads=2 --key-file="$1/munge.key" \
    --socket="$1/munge.socket" --pid-file="$1/munge.pid" --log-file="$1/munge.log" \
    --seed-file="$1/munge.seed" >munge.out 2>&1 &
/usr/sbin/slurmctld -D -c >ctld.out 2>&1 &
for number in $(seq "$2"); do
    unshare --net --uts --mount sh -ec '
        hostname "n$2"
        mount -t sysfs none /sys
        ip link set lo up
        mkdir "$1/spool-n$2"
        echo $$ >"$1/n$2.anchor"
        until ip link show eth1 >/dev/null 2>&1; do sleep 0.01; done
        ip link set eth1 up
        ip address add "10.77.0.$2/24" dev eth1
        /usr/sbin/slurmd -D >"$1/slurmd-n$2.out" 2>&1 &
        exec sleep infinity' node "$1" "$number" &
    until [ -s "n$number.anchor" ]; do sleep 0.01; done
    ip link add "to-n$number" type veth peer name eth1 netns "$(cat "n$number.anchor")"
    ip link set "to-n$number" master br0 up
done
wait
"#;

/// Ends all processes of a node at once, so that its kernel says so to the others. What holds its
/// namespaces stays.
const KILL: &str = r#"
anchor=$(cat "$1/$2.anchor")
own=$(readlink "/proc/$anchor/ns/net")
for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    [ "$pid" = "$anchor" ] && continue
    # one may have ended meanwhile
    [ "$(readlink "$process/ns/net")" != "$own" ] || kill -KILL "$pid" || true
done
"#;

#[derive(Debug)]
pub struct Cluster {
    running: Running,
    directory: tempfile::TempDir,
    _login: Machine,
}

impl Cluster {
    /// Starts one of [`NODES`] nodes of two CPUs, once all of them take jobs.
    #[track_caller]
    pub fn start() -> Self {
        let login = Machine::start();
        let directory = tempfile::tempdir().expect("make a temporary directory");
        readable_by_all(directory.path());
        let place = directory.path().display().to_string();
        let nodes = format!("NodeName=n[1-{NODES}] NodeAddr=10.77.0.[1-{NODES}] CPUs=2\n");
        let configuration = CONFIGURATION.replace("PLACE", &place) + &nodes;
        let write = |name: &str, bytes: &[u8]| {
            fs::write(directory.path().join(name), bytes).expect("write a file of the cluster");
        };
        write("slurm.conf", configuration.as_bytes());
        // this plugin looks for no cgroups unless something asks it
        write("cgroup.conf", b"CgroupPlugin=cgroup/v1\n");
        // a secret for a network that nobody else is on
        write("munge.key", &[7; 128]);
        fs::create_dir(directory.path().join("state")).expect("make a directory");
        let secret = fs::Permissions::from_mode(0o400);
        fs::set_permissions(directory.path().join("munge.key"), secret).expect("its mode");
        let mut unshare = command("unshare", "--uts --pid --fork --mount-proc --kill-child");
        unshare.args(["sh", "-ec", SCRIPT, "login"]).arg(&place).arg(NODES.to_string());
        login.on(unshare.env("SLURM_CONF", directory.path().join("slurm.conf")));
        let running = Running::start(&mut unshare);
        let cluster = Self { running, directory, _login: login };
        let idle = || {
            let finished = Running::start(&mut cluster.login("sinfo -h -t idle -o %D")).wait();
            finished.stdout.trim() == NODES.to_string()
        };
        assert!(wait_until(TIMEOUT, idle), "the nodes take no jobs: {}", cluster.logs());
        cluster
    }

    /// A command on the machine that people log in to.
    pub fn login(&self, words: &str) -> Command {
        let pid = self.running.pid();
        let mut enter = command("nsenter", "--mount --net --uts");
        enter.arg(format!("--target={pid}"));
        enter.arg(format!("--pid=/proc/{pid}/ns/pid_for_children")).arg("--");
        enter.args(words.split_whitespace()).env("SLURM_CONF", self.place("slurm.conf"));
        enter
    }

    /// A program there under the options of `salloc`, within the allocation.
    pub fn salloc(&self, options: &str, program: &Path, words: &str) -> Command {
        let mut salloc = self.login(&format!("salloc --quiet {options}"));
        salloc.arg(program).args(words.split_whitespace());
        salloc
    }

    /// A program as a batch job, which runs on the first node of its allocation.
    pub fn sbatch(&self, options: &str, program: &Path, words: &str) -> Running {
        let (out, err) = (self.place("job.out"), self.place("job.err"));
        let script = self.place("job.sh");
        let text = format!("#!/bin/sh\nexec '{}' {words}\n", program.display());
        fs::write(&script, text).expect("write the script");
        let mut sbatch = self.login(&format!("sbatch --quiet --wait {options}"));
        sbatch.arg("--output").arg(&out).arg("--error").arg(&err).arg(&script);
        Running::start(&mut sbatch)
    }

    /// The end of a batch job, with what it wrote to standard output and to standard error.
    #[track_caller]
    pub fn end_of_batch(&self, sbatch: Running) -> Finished {
        let finished = sbatch.wait();
        let text = |name: &str| {
            let bytes = fs::read(self.place(name)).unwrap_or_default();
            String::from_utf8(bytes).expect("its output is text")
        };
        let stderr = finished.stderr + &text("job.err");
        Finished { status: finished.status, stdout: text("job.out"), stderr }
    }

    /// The steps of all jobs, without those of batch scripts, and the jobs.
    #[track_caller]
    pub fn steps_and_jobs(&self) -> (String, String) {
        let listed = |words| Running::start(&mut self.login(words)).wait().expect_code(0).stdout;
        let steps = listed("squeue --noheader --steps --format %i");
        let steps: Vec<&str> = steps
            .lines()
            .filter(|step| !step.ends_with("batch") && !step.ends_with("extern"))
            .collect();
        (steps.join("\n"), listed("squeue --noheader --format %i"))
    }

    /// Checks that no step and no job is left, soon.
    #[track_caller]
    pub fn expect_no_step(&self) {
        let none = || self.steps_and_jobs() == (String::new(), String::new());
        assert!(wait_until(TIMEOUT, none), "left: {:?}", self.steps_and_jobs());
    }

    /// Kills all processes of a node, with Slurm's.
    #[track_caller]
    pub fn kill_node(&self, node: &str) {
        let mut kill = self.login("sh -ec");
        kill.args([KILL, "kill"]).arg(self.directory.path()).arg(node);
        Running::start(&mut kill).wait().expect_code(0);
    }

    /// The number of the job that has a node.
    #[track_caller]
    pub fn job_on(&self, node: &str) -> String {
        let words = format!("squeue --noheader --format %i --nodelist {node}");
        let jobs = Running::start(&mut self.login(&words)).wait().expect_code(0).stdout;
        jobs.trim().to_owned()
    }

    #[track_caller]
    pub fn cancel(&self, job: &str) {
        Running::start(&mut self.login(&format!("scancel {job}"))).wait().expect_code(0);
    }

    /// Takes the directory of a file away from a node.
    #[track_caller]
    pub fn hide(&self, file: &Path, node: &str) {
        let directory = file.parent().expect("the directory of a file");
        self.on(node, &format!("mount -t tmpfs none '{}'", directory.display()));
    }

    /// What is set on the interface of a node.
    #[track_caller]
    pub fn settings(&self, node: &str) -> String {
        self.on(node, "ip -details link show dev eth1 | sed 's/qlen.*//'; ethtool -k eth1")
    }

    /// Runs a script in the namespaces of a node, which must succeed, and returns what it printed.
    #[track_caller]
    fn on(&self, node: &str, script: &str) -> String {
        let anchor = fs::read_to_string(self.place(&format!("{node}.anchor"))).expect("its anchor");
        let enter = format!("nsenter --net --mount --target {} sh -ec", anchor.trim());
        Running::start(self.login(&enter).arg(script)).wait().expect_code(0).stdout
    }

    /// A place for files.
    pub fn place(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What the daemons said.
    fn logs(&self) -> String {
        let files = fs::read_dir(self.directory.path()).expect("list the directory").flatten();
        let logs = files.filter(|file| file.path().extension().is_some_and(|name| name == "out"));
        logs.filter_map(|file| fs::read_to_string(file.path()).ok()).collect()
    }
}
