//! OpenSSH's server on a host of a test, with keys that are thrown away afterwards.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::processes::readable_by_all;
use super::up::Up;
use super::{Running, command, wait_until};

/// Where Debian has the server, which is in no user's search path.
pub const SSHD: &str = "/usr/sbin/sshd";

/// How long the server may take until it answers.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes of the file that crosses.
const FILE: usize = 8 << 20;

/// Makes a key for a server at `address` and one for its user in a directory, with the configuration
/// of both ends: the client's calls the server `lab2`.
#[track_caller]
pub fn make_keys(directory: &Path, address: &str) {
    let at = |name: &str| directory.join(name).display().to_string();
    for key in ["host", "user"] {
        let words = "-q -t ed25519 -N";
        let mut keygen = command("ssh-keygen", words);
        Running::start(keygen.args(["", "-f", &at(key)])).wait().expect_code(0);
    }
    fs::copy(at("user.pub"), at("authorized")).expect("copy the key");
    let host_key = fs::read_to_string(at("host.pub")).expect("read the key");
    fs::write(at("known"), format!("{address} {host_key}")).expect("write the known hosts");
    let server = format!(
        "ListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
         PasswordAuthentication no\nPermitRootLogin prohibit-password\nPidFile none\n",
        at("host"),
        at("authorized")
    );
    fs::write(at("sshd_config"), server).expect("write the server's configuration");
    let client = format!(
        "Host lab2\n  HostName {address}\nHost *\n  User root\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
         UserKnownHostsFile {}\n  StrictHostKeyChecking yes\n",
        at("user"),
        at("known")
    );
    fs::write(at("ssh_config"), client).expect("write the client's configuration");
}

/// The script that becomes the server, on a host with mounts of its own.
pub fn server_script(directory: &Path) -> String {
    let configuration = directory.join("sshd_config");
    format!(
        "mount -t tmpfs none /run && mkdir /run/sshd && exec {SSHD} -D -e -f '{}'",
        configuration.display()
    )
}

/// A server on a host of a lab that is up, and a file to send.
#[derive(Debug)]
pub struct Ssh<'a> {
    lab: &'a Up,
    directory: tempfile::TempDir,
    _server: Running,
}

impl<'a> Ssh<'a> {
    /// The server on `host`, at its address in the lab, once it answers the system under test.
    #[track_caller]
    pub fn start(lab: &'a Up, host: &str, address: &str) -> Self {
        let directory = tempfile::tempdir().expect("make a temporary directory");
        readable_by_all(directory.path());
        make_keys(directory.path(), address);
        // bytes of a generator without a pattern that a compression could use
        let mut state: u32 = 1;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let bytes: Vec<u8> = (0..FILE).map(|_| byte()).collect();
        fs::write(directory.path().join("file"), bytes).expect("write the file");
        let script = server_script(directory.path());
        let server = Running::start(lab.exec(host, "/bin/sh -ec").arg(&script));
        let ssh = Self { lab, directory, _server: server };
        let answers = || Running::start(&mut ssh.client("-o BatchMode=yes lab2 true")).wait();
        assert!(wait_until(TIMEOUT, || answers().code() == Some(0)), "sshd does not answer");
        ssh
    }

    fn client(&self, script: &str) -> Command {
        let mut client = self.lab.exec("sut", "/bin/sh -ec");
        let configuration = self.directory.path().join("ssh_config");
        client.arg(format!("/usr/bin/ssh -F '{}' {script}", configuration.display()));
        client
    }

    /// Sends the file from the system under test to the server and back, and compares its checksums.
    #[track_caller]
    pub fn carries_a_file_both_ways(&self) {
        let file = self.directory.path().join("file").display().to_string();
        let own = Running::start(command("cksum", "").arg(&file)).wait().expect_code(0).stdout;
        // checksum and length
        let sum = own.trim_end().strip_suffix(&file).expect("the name of the file").trim_end();
        for script in [format!("lab2 cksum < '{file}'"), format!("lab2 cat '{file}' | cksum")] {
            let out = Running::start(&mut self.client(&script)).wait().expect_code(0);
            assert_eq!(out.stdout.trim_end(), sum, "{script}");
        }
    }
}
