//! Steps of a host between fork and exec, with raw system calls only.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::pipe::{PipeFlags, pipe_with};

use super::{Isolation, Life};

/// A step into the namespaces of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    JoinUserNamespace = 1,
    Unshare,
    MapUser,
    PrivateMounts,
    DieWithParent,
    Loopback,
}

impl Step {
    const ALL: [Self; 6] = [
        Self::JoinUserNamespace,
        Self::Unshare,
        Self::MapUser,
        Self::PrivateMounts,
        Self::DieWithParent,
        Self::Loopback,
    ];

    /// Name for error messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::JoinUserNamespace => "join user namespace",
            Self::Unshare => "unshare namespaces",
            Self::MapUser => "map the user into its namespace",
            Self::PrivateMounts => "make mounts private",
            Self::DieWithParent => "request a signal at the end of the parent",
            Self::Loopback => "configure the network",
        }
    }
}

/// Carries the refused step from the child, whose error is only a number, to the parent.
#[derive(Debug)]
pub(super) struct StepReport {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl StepReport {
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { reader, writer })
    }

    /// The end to write to, while this report lives.
    pub(super) fn writer(&self) -> RawFd {
        self.writer.as_raw_fd()
    }

    /// The refused step, if the child reported one.
    pub(super) fn refused(&self) -> Option<Step> {
        let byte = self.byte()?;
        Step::ALL.into_iter().find(|step| *step as u8 == byte)
    }

    /// The finding of a child without a refused step.
    pub(super) fn found(&self) -> Option<u8> {
        self.byte()
    }

    fn byte(&self) -> Option<u8> {
        let mut byte = [0u8; 1];
        let length = rustix::io::read(&self.reader, &mut byte).ok()?;
        (length == 1).then_some(byte[0])
    }
}

/// Everything the child needs, allocated before the fork.
#[derive(Debug)]
pub(super) struct Steps {
    user: User,
    isolated: bool,
    /// `None` for a child that outlives its parent.
    parent: Option<libc::pid_t>,
    report: RawFd,
}

#[derive(Debug)]
enum User {
    Same,
    Join(RawFd),
    New { uid_map: CString, gid_map: CString },
}

impl Steps {
    /// Steps for a child of the calling process; `report` must stay open until the child has
    /// executed.
    pub(super) fn new(isolation: Isolation<'_>, life: Life, report: RawFd) -> Self {
        let user = match isolation {
            Isolation::Root | Isolation::None => User::Same,
            Isolation::UserNamespace { join: Some(namespace) } => User::Join(namespace.as_raw_fd()),
            Isolation::UserNamespace { join: None } => {
                let map = |id: u32| CString::new(format!("0 {id} 1")).unwrap_or_default();
                User::New {
                    uid_map: map(rustix::process::geteuid().as_raw()),
                    gid_map: map(rustix::process::getegid().as_raw()),
                }
            }
        };
        Self {
            user,
            isolated: !matches!(isolation, Isolation::None),
            parent: (life == Life::WithItsParent)
                .then(|| rustix::process::getpid().as_raw_nonzero().get()),
            report,
        }
    }

    /// Enters the namespaces. Async-signal-safe.
    pub(super) fn run(&mut self) -> io::Result<()> {
        self.enter().map_err(|(step, error)| {
            self.tell(step as u8);
            error
        })
    }

    /// As [`run`](Self::run); then calls `act` and writes its finding to the report.
    pub(super) fn rehearse(&mut self, act: fn() -> io::Result<u8>) -> io::Result<()> {
        self.run()?;
        self.tell(act()?);
        Ok(())
    }

    fn tell(&self, byte: u8) {
        // SAFETY: one byte is read from a valid address; the descriptor is the report's, which
        // the parent keeps open until after this child has executed or ended.
        unsafe { libc::write(self.report, (&raw const byte).cast(), 1) };
    }

    fn enter(&self) -> Result<(), (Step, io::Error)> {
        if self.isolated {
            self.enter_namespaces()?;
        }
        let Some(parent) = self.parent else {
            // Ctrl-C of a terminal must reach the parent only, which then ends the input of the
            // child; setsid fails only for the leader of a process group, and a forked child is none.
            // SAFETY: setsid takes no pointers.
            unsafe { libc::setsid() };
            return Ok(());
        };
        // Last, because changes of credentials clear it, prctl(2).
        // SAFETY: no pointers are passed.
        let set = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) };
        checked(set, Step::DieWithParent)?;
        // SAFETY: getppid has no preconditions.
        if unsafe { libc::getppid() } != parent {
            // the parent ended before the signal was requested
            return Err((Step::DieWithParent, io::Error::from_raw_os_error(libc::ESRCH)));
        }
        Ok(())
    }

    fn enter_namespaces(&self) -> Result<(), (Step, io::Error)> {
        let mut namespaces = libc::CLONE_NEWNET | libc::CLONE_NEWNS;
        match &self.user {
            User::Same => {}
            User::Join(namespace) => {
                // SAFETY: no pointers are passed; the caller of `spawn` keeps the descriptor open.
                let joined = unsafe { libc::setns(*namespace, libc::CLONE_NEWUSER) };
                checked(joined, Step::JoinUserNamespace)?;
            }
            User::New { .. } => namespaces |= libc::CLONE_NEWUSER,
        }
        // SAFETY: no pointers are passed; a forked child has one thread.
        checked(unsafe { libc::unshare(namespaces) }, Step::Unshare)?;
        if let User::New { uid_map, gid_map } = &self.user {
            // without privilege, setgroups(2) must be disabled before groups are mapped,
            // user_namespaces(7)
            write_file(c"/proc/self/setgroups", c"deny").map_err(|e| (Step::MapUser, e))?;
            write_file(c"/proc/self/uid_map", uid_map).map_err(|e| (Step::MapUser, e))?;
            write_file(c"/proc/self/gid_map", gid_map).map_err(|e| (Step::MapUser, e))?;
        }
        let none = std::ptr::null();
        // SAFETY: both strings are zero-terminated, the others may be null for a change of
        // propagation.
        let private = unsafe {
            let flags = libc::MS_REC | libc::MS_PRIVATE;
            libc::mount(c"none".as_ptr(), c"/".as_ptr(), none, flags, none.cast())
        };
        checked(private, Step::PrivateMounts)?;
        // A container may forbid a new sysfs. Only RPS needs it, and RPS reports a missing interface, so a failure is
        // ignored here.
        // SAFETY: the three strings are zero-terminated, sysfs takes no data.
        unsafe {
            let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
            let sysfs = c"sysfs".as_ptr();
            libc::mount(sysfs, c"/sys".as_ptr(), sysfs, flags, none.cast());
        }
        Ok(())
    }
}

fn checked(result: libc::c_int, step: Step) -> Result<(), (Step, io::Error)> {
    if result < 0 { Err((step, io::Error::last_os_error())) } else { Ok(()) }
}

/// Writes `content` to an existing file in one call.
fn write_file(path: &CStr, content: &CStr) -> io::Result<()> {
    // SAFETY: `path` is zero-terminated.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    let length = content.count_bytes();
    // SAFETY: `length` bytes are readable at `content`, and `file` was just opened.
    let written = unsafe { libc::write(file, content.as_ptr().cast(), length) };
    let result = if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: `file` was opened above and nobody else has it.
    unsafe { libc::close(file) };
    result
}

/// Brings the loopback interface up, which needs privilege over the network. A security module may
/// permit namespaces without privilege over them; only this step shows it.
pub(super) fn bring_loopback_up() -> io::Result<()> {
    // SAFETY: no pointers are passed.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `ifreq` is plain data, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: `request` is a valid `ifreq` with a zero-terminated name, as SIOCSIFFLAGS reads.
    let result = unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request) };
    let result = if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: `socket` was opened above and nobody else has it.
    unsafe { libc::close(socket) };
    result
}
