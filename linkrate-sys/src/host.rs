//! Hosts: child processes in separate network namespaces.
//!
//! Only its processes keep a host alive. It ends with the thread that started it. Its namespaces
//! and their interfaces end with its last process, so nothing is left behind. Its standard input
//! and output are one end of a socket pair; standard error stays the parent's, or is a pipe to it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, PipeReader};
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::error::{SysError, SysResult};

mod enter;
pub mod join;
mod probe;
mod programs;

pub(crate) use probe::try_in_a_host;
pub use probe::{Privilege, can_isolate};
pub use programs::end_programs;

/// How long a host may take to end by itself once its input has ended.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Condition that ends a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// SIGKILL when the thread that started it ends.
    WithItsParent,
    /// The end of its input. The host can then restore what it has changed outside of itself. It
    /// must end soon afterwards, since nothing else ends it.
    WithItsInput {
        /// How long that may take.
        patience: Duration,
        /// Whether it may hold settings that it restores: it then never gets SIGKILL, and continues beyond `patience`
        /// if it must.
        holds: bool,
    },
}

/// The namespaces that a host does not share with its caller.
#[derive(Debug, Clone, Copy)]
pub enum Isolation<'a> {
    /// Network and mount namespaces, created with the caller's CAP_SYS_ADMIN.
    Root,
    /// The same namespaces, owned by a user namespace in which the caller's user is root.
    UserNamespace {
        /// The user namespace of an earlier host to share, from
        /// [`HostProcess::user_namespace`]; a new one if `None`. Hosts on one link
        /// must share it: moving an interface needs privilege over both network namespaces.
        join: Option<BorrowedFd<'a>>,
    },
    /// None: the process shares all namespaces with the caller.
    None,
}

/// A running host. Dropping it ends it.
#[derive(Debug)]
pub struct HostProcess {
    child: Child,
    socket: UnixStream,
    patience: Duration,
    /// Whether it may hold settings that only it restores.
    holds: bool,
    /// It did not end in time, and was left alone.
    given_up: bool,
}

/// Starts `program` with `args` as a host.
///
/// In its own mount namespace, `/sys` shows the host's own interfaces, where the kernel permits
/// that mount. The loopback interface is down.
///
/// The host gets SIGKILL when the calling *thread* ends (`PR_SET_PDEATHSIG`), so start hosts from
/// a thread that outlives them. A host that changes its user or executes a privileged program
/// loses that guard.
///
/// # Errors
/// The refused step, the program, and the remedy in the hint.
pub fn spawn(program: &Path, args: &[&OsStr], isolation: Isolation<'_>) -> SysResult<HostProcess> {
    spawn_for(Life::WithItsParent, program, args, isolation)
}

/// As [`spawn`], for as long as `life` says.
pub fn spawn_for(
    life: Life,
    program: &Path,
    args: &[&OsStr],
    isolation: Isolation<'_>,
) -> SysResult<HostProcess> {
    start(life, program, args, &[], isolation, Stdio::inherit())
}

/// As [`spawn_for`], and returns what the host writes to standard error, to be read. The host gets no
/// environment variable named `without`.
pub fn spawn_heard(
    life: Life,
    program: &Path,
    args: &[&OsStr],
    without: &[&str],
    isolation: Isolation<'_>,
) -> SysResult<(HostProcess, PipeReader)> {
    let failed = |error| SysError::new("start host", program.display().to_string(), error);
    let (heard, stderr) = io::pipe().map_err(failed)?;
    Ok((start(life, program, args, without, isolation, Stdio::from(stderr))?, heard))
}

fn start(
    life: Life,
    program: &Path,
    args: &[&OsStr],
    without: &[&str],
    isolation: Isolation<'_>,
    stderr: Stdio,
) -> SysResult<HostProcess> {
    let name = program.display().to_string();
    let failed = |error| SysError::new("start host", &name, error);
    let (socket, theirs) = UnixStream::pair().map_err(failed)?;
    let theirs = OwnedFd::from(theirs);
    let stdin = theirs.try_clone().map_err(failed)?;
    let report = enter::StepReport::new().map_err(failed)?;
    let mut steps = enter::Steps::new(isolation, life, report.writer());
    let mut command = Command::new(program);
    without.iter().for_each(|name| _ = command.env_remove(name));
    command.args(args).stdin(Stdio::from(stdin)).stdout(Stdio::from(theirs)).stderr(stderr);
    // SAFETY: `run` makes raw system calls only: it neither allocates, nor locks, nor panics, so
    // it may run between fork and exec even when other threads held locks at the fork. The
    // descriptors it uses (`join`, the report) are borrowed or owned until `spawn` returns below.
    unsafe {
        command.pre_exec(move || steps.run());
    }
    let child = command.spawn().map_err(|cause| match report.refused() {
        Some(step) => probe::refused(step, isolation, format!("for host {name}"), cause),
        None => SysError::new("start host", &name, cause),
    })?;
    let (timeout, holds) = match life {
        Life::WithItsParent => (TIMEOUT, false),
        Life::WithItsInput { patience: timeout, holds } => (timeout, holds),
    };
    Ok(HostProcess { child, socket, patience: timeout, holds, given_up: false })
}

impl HostProcess {
    /// The process id in the caller's namespace.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The other end of the host's standard input and output.
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// The host's network namespace, which lives as long as the descriptor.
    ///
    /// # Errors
    /// When the host has ended and was waited for, or the caller may not access it.
    pub fn network_namespace(&self) -> io::Result<OwnedFd> {
        network_namespace_of(self.pid())
    }

    /// The user namespace that owns the host's other namespaces, for [`Isolation::UserNamespace`].
    pub fn user_namespace(&self) -> io::Result<OwnedFd> {
        File::open(format!("/proc/{}/ns/user", self.pid())).map(OwnedFd::from)
    }

    /// Takes a descriptor that the host has open under the number `descriptor`, close-on-exec:
    /// both then hold the same file (pidfd_getfd(2)). The host must not close it meanwhile.
    ///
    /// The caller needs the permission to trace the host: the same user, or CAP_SYS_PTRACE over it.
    /// The creator of a user namespace has every capability in it, so the parent of a host may
    /// trace it.
    ///
    /// # Errors
    /// `EBADF` when the host has no such descriptor, `ESRCH` when it has ended, `EPERM` where
    /// tracing is forbidden, `ENOSYS` on kernels before 5.6.
    pub fn take_descriptor(&self, descriptor: RawFd) -> SysResult<OwnedFd> {
        let refused = |error| {
            let subject = format!("{descriptor} of host process {}", self.pid());
            let error = SysError::new("take descriptor", subject, error);
            match error.errno() {
                Some(libc::EPERM) => error.with_hint(
                    "tracing is restricted here: allow it with `sysctl -w \
                     kernel.yama.ptrace_scope=1`, or run as root",
                ),
                Some(libc::ENOSYS) => error.with_hint("it needs Linux 5.6 or later"),
                _ => error,
            }
        };
        let process = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty());
        let process = process.map_err(refused)?;
        pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty()).map_err(refused)
    }

    /// The exit status, if the host has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Ends the host's input, and does not wait. Several hosts so end at the same time.
    pub fn hang_up(&self) {
        // the host may have closed its end already
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Ends the host's input, so that the host ends, within the patience of its [`Life`].
    pub fn end_by_itself(&mut self) -> io::Result<ExitStatus> {
        self.end(self.patience)
    }

    /// Ends the host's input, so that the host ends, and kills it after `timeout` unless it may
    /// hold settings. Returns its exit status. Later output of the host can still be read from the
    /// socket.
    ///
    /// # Errors
    /// `TimedOut` for a host that may hold settings and has not ended; otherwise as waitpid(2).
    pub fn end(&mut self, timeout: Duration) -> io::Result<ExitStatus> {
        self.hang_up();
        let deadline = Instant::now() + timeout;
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if self.holds && (self.given_up || Instant::now() >= deadline) {
                self.given_up = true;
                return Err(io::ErrorKind::TimedOut.into());
            }
            if Instant::now() >= deadline {
                self.child.kill()?;
                return self.child.wait();
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        // drop cannot report an error
        let _ = self.end(self.patience);
    }
}

/// The network namespace of process `pid`, for a host that creates a link to another.
///
/// # Errors
/// `NotFound` when there is no such process, `PermissionDenied` without privilege over its user
/// namespace.
pub fn network_namespace_of(pid: u32) -> io::Result<OwnedFd> {
    File::open(format!("/proc/{pid}/ns/net")).map(OwnedFd::from)
}
