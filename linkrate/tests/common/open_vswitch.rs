//! Open vSwitch of one's own: a database and a userspace datapath, without those of the machine.

// each user takes a part of it
#![allow(dead_code)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// How long a daemon may take to begin, and to end.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An error of the switch or of a program.
pub type Failed = Box<dyn Error>;

/// Its daemons, in the network namespace of the caller. They end with it.
pub struct OpenVSwitch {
    directory: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl OpenVSwitch {
    /// Starts the daemons. `settings` are those of the table `Open_vSwitch`, before the datapath
    /// begins.
    pub fn start(settings: &[&str]) -> Result<Self, Failed> {
        let mut switch = Self { directory: tempfile::tempdir()?, daemons: Vec::new() };
        let (database, socket) = (switch.path("conf.db"), switch.socket());
        switch.run("ovsdb-tool", &["create", &database, SCHEMA])?;
        switch.daemon("ovsdb-server", &[&database, &format!("--remote=p{socket}")])?;
        // its process is known before it listens
        await_file(&PathBuf::from(switch.path("db.sock")), |path| path.exists())?;
        switch.configure(&["--no-wait", "init"])?;
        for setting in settings {
            switch.configure(&["--no-wait", "set", "Open_vSwitch", ".", setting])?;
        }
        switch.daemon("ovs-vswitchd", &[&socket])?;
        Ok(switch)
    }

    /// Changes the configuration, and waits until the datapath follows.
    pub fn configure(&self, words: &[&str]) -> Result<(), Failed> {
        let database = format!("--db={}", self.socket());
        let all: Vec<&str> = [&*database].into_iter().chain(words.iter().copied()).collect();
        self.run("ovs-vsctl", &all)
    }

    /// The answer of the datapath's daemon.
    pub fn ask(&self, words: &[&str]) -> Result<String, Failed> {
        output(self.command("ovs-appctl", words))
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn socket(&self) -> String {
        format!("unix:{}", self.path("db.sock"))
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(variable, self.directory.path());
        }
        command.args(words);
        command
    }

    fn run(&self, program: &str, words: &[&str]) -> Result<(), Failed> {
        output(self.command(program, words)).map(drop)
    }

    /// Starts a daemon that ends with the thread that calls this, whatever happens to it.
    fn daemon(&mut self, program: &str, words: &[&str]) -> Result<(), Failed> {
        let pid_file = PathBuf::from(self.path(&format!("{program}.pid")));
        let log = format!("--log-file={}", self.path(&format!("{program}.log")));
        let pid = format!("--pidfile={}", pid_file.display());
        let mut all = vec!["--pdeathsig", "TERM", program];
        all.extend(words);
        all.extend([&*pid, &*log, "-vconsole:off"]);
        let mut command = self.command("setpriv", &all);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(command.spawn()?);
        await_file(&pid_file, |path| {
            std::fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n'))
        })
    }
}

/// Waits until a daemon has made this file.
fn await_file(path: &Path, is_there: impl Fn(&Path) -> bool) -> Result<(), Failed> {
    let deadline = Instant::now() + TIMEOUT;
    while !is_there(path) {
        if Instant::now() > deadline {
            return Err(format!("a daemon has not begun: no {}", path.display()).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

impl Drop for OpenVSwitch {
    fn drop(&mut self) {
        // the switch before its database
        for daemon in self.daemons.iter_mut().rev() {
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
            let deadline = Instant::now() + TIMEOUT;
            while matches!(daemon.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Standard output of a program that must succeed.
pub fn output(mut command: Command) -> Result<String, Failed> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}
