//! Calls of a program that another process answers: seccomp user notification, seccomp_unotify(2).
//!
//! A filter decides in the kernel which calls wait for an answer; all others cost a few comparisons.
//! It covers the program, what it executes, and their children. Calls of another instruction set than
//! that of this process are not seen. Needs Linux 5.14.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};

use crate::process_memory::Memory;

mod filter;
mod supervise;

pub use supervise::{Receiver, supervise};

/// The descriptor to which the calls of programs come.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// The calls that wait for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// connect(2).
    Connect,
    /// accept(2).
    Accept,
    /// accept4(2).
    Accept4,
    /// getsockname(2).
    OwnName,
    /// getpeername(2).
    FarName,
    /// getsockopt(2).
    GetOption,
    /// setsockopt(2).
    SetOption,
    /// dup(2), dup2(2), dup3(2), fcntl(2) with `F_DUPFD`.
    Duplicate,
    /// epoll_create(2), epoll_create1(2).
    MakeSet,
}

impl Call {
    const ALL: &[(Self, libc::c_long)] = &[
        (Self::Connect, libc::SYS_connect),
        (Self::Accept, libc::SYS_accept),
        (Self::Accept4, libc::SYS_accept4),
        (Self::OwnName, libc::SYS_getsockname),
        (Self::FarName, libc::SYS_getpeername),
        (Self::GetOption, libc::SYS_getsockopt),
        (Self::SetOption, libc::SYS_setsockopt),
        (Self::Duplicate, libc::SYS_dup),
        #[cfg(target_arch = "x86_64")]
        (Self::Duplicate, libc::SYS_dup2),
        (Self::Duplicate, libc::SYS_dup3),
        (Self::Duplicate, libc::SYS_fcntl),
        #[cfg(target_arch = "x86_64")]
        (Self::MakeSet, libc::SYS_epoll_create),
        (Self::MakeSet, libc::SYS_epoll_create1),
    ];

    /// The call with that number.
    fn of(number: i32) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, of)| *of == libc::c_long::from(number));
        found.map(|(call, _)| *call)
    }

    /// Whether it is about an option: it waits only if the level of the option says so.
    const fn is_about_option(self) -> bool {
        matches!(self, Self::GetOption | Self::SetOption)
    }
}

/// A call that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Its number at this listener.
    pub id: u64,
    /// The thread that makes it.
    pub thread: u32,
    /// What it calls; `None` for a call that the filter does not name.
    pub call: Option<Call>,
    /// Its arguments. Those that are addresses are of the memory of the program.
    pub arguments: [u64; 6],
}

/// The memory of a program whose call waits.
#[derive(Debug)]
pub struct CallMemory<'a> {
    listener: &'a Listener,
    id: u64,
    memory: Memory,
}

impl CallMemory<'_> {
    /// Reads bytes of the program; as [`Memory::read`].
    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.memory.read(address, into)
    }

    /// Writes bytes into the program.
    ///
    /// # Errors
    /// `ENOENT` when the call waits no longer: the program may use the memory for something else. As
    /// [`Memory::write`].
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.listener.check(self.id)?;
        self.memory.write(address, bytes)
    }
}

/// Whether this kernel and this machine can do it.
pub fn is_supported() -> bool {
    let action: u32 = libc::SECCOMP_RET_USER_NOTIF;
    // SAFETY: the call reads one u32, which lives through it.
    let result = unsafe {
        let operation = libc::SECCOMP_GET_ACTION_AVAIL;
        libc::syscall(libc::SYS_seccomp, operation, 0, &raw const action)
    };
    filter::ARCHITECTURE.is_some() && result == 0
}

impl From<OwnedFd> for Listener {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl AsFd for Listener {
    /// Readable when a call waits, or when no program is left.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Listener {
    /// The next call that waits; `None` when there is none.
    ///
    /// # Errors
    /// `BrokenPipe` when no program is left; `ENOTTY` for a descriptor that is no listener.
    pub fn take(&self) -> io::Result<Option<Waiting>> {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&now))?;
        let found = polled[0].revents();
        if !found.contains(PollFlags::IN) {
            return match found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
                true => Err(io::ErrorKind::BrokenPipe.into()),
                false => Ok(None),
            };
        }
        // SAFETY: seccomp_notif is plain data for which all zeroes is a valid value, as the kernel
        // demands of what it fills.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        match self.control(libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) {
            Ok(_) => Ok(Some(Waiting {
                id: call.id,
                thread: call.pid,
                call: Call::of(call.data.nr),
                arguments: call.data.args,
            })),
            // its program was killed, or a signal has ended it
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a call still waits: its program lives, and no signal has ended it. What was read of the
    /// program before is the program's then.
    pub fn still_waits(&self, id: u64) -> bool {
        self.check(id).is_ok()
    }

    /// `ENOENT` unless a call still waits.
    fn check(&self, mut id: u64) -> io::Result<()> {
        self.control(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw mut id).map(drop)
    }

    /// The memory of the program that makes a call.
    ///
    /// # Errors
    /// `ENOENT` when the call waits no longer: its thread's number may be that of another program. As
    /// [`Memory::of`].
    pub fn memory(&self, call: &Waiting) -> io::Result<CallMemory<'_>> {
        let memory = Memory::of(call.thread)?;
        self.check(call.id)?;
        Ok(CallMemory { listener: self, id: call.id, memory })
    }

    /// Answers a call with its result or its error number. An answer to a call that waits no longer is
    /// lost.
    pub fn answer(&self, id: u64, result: Result<i64, i32>) {
        let (val, error) = result.map_or_else(|errno| (0, -errno), |value| (value, 0));
        self.respond(libc::seccomp_notif_resp { id, val, error, flags: 0 });
    }

    /// Lets the kernel carry a call out as if there were no filter. The kernel reads the memory of the
    /// program again.
    pub fn go_on(&self, id: u64) {
        let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        self.respond(libc::seccomp_notif_resp { id, val: 0, error: 0, flags });
    }

    fn respond(&self, mut response: libc::seccomp_notif_resp) {
        // ENOENT: it waits no longer
        let _ = self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response);
    }

    /// Lets the program's descriptor `target` name `file` from now on. The call continues to wait.
    ///
    /// # Errors
    /// `ENOENT` when it waits no longer; `EMFILE`, `EBADF` as dup2(2).
    pub fn replace(
        &self,
        id: u64,
        target: i32,
        file: impl AsFd,
        close_on_exec: bool,
    ) -> io::Result<()> {
        let newfd =
            u32::try_from(target).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let flags = libc::SECCOMP_ADDFD_FLAG_SETFD as u32;
        self.add(id, flags, newfd, file, close_on_exec).map(|_| ())
    }

    /// Gives the program a new descriptor of `file`, whose number is the result of the call.
    ///
    /// # Errors
    /// `ENOENT` when it waits no longer; `EMFILE`.
    pub fn give(&self, id: u64, file: impl AsFd, close_on_exec: bool) -> io::Result<i32> {
        self.add(id, libc::SECCOMP_ADDFD_FLAG_SEND as u32, 0, file, close_on_exec)
    }

    fn add(
        &self,
        id: u64,
        flags: u32,
        newfd: u32,
        file: impl AsFd,
        close_on_exec: bool,
    ) -> io::Result<i32> {
        let srcfd = u32::try_from(file.as_fd().as_raw_fd()).unwrap_or(u32::MAX);
        let newfd_flags = if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 };
        let mut addition = libc::seccomp_notif_addfd { id, flags, srcfd, newfd, newfd_flags };
        self.control(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut addition)
    }

    fn control<T>(&self, request: libc::Ioctl, data: *mut T) -> io::Result<i32> {
        // SAFETY: every caller passes the structure that belongs to its request, which is live and
        // writable.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request, data) };
        if result >= 0 { Ok(result) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::local_socket;

    /// A shell that connects once. One that does not know its user, its home or its shell asks a
    /// name service first, by a connection of its own.
    pub(super) fn connecting() -> Command {
        let mut command = Command::new("bash");
        command.env("SHELL", "/bin/bash").env("HOME", "/");
        command.args(["-c", "exec 3<>/dev/tcp/192.0.2.1/9 && echo connected"]);
        command
    }

    /// Lets a command send its listener, and wait for no answer.
    fn to(socket: UnixStream) -> Receiver {
        Receiver { socket: socket.into(), message: b"x".to_vec(), answer: None, may_have_it: false }
    }

    #[test]
    fn a_call_of_a_program_is_answered_and_others_pass() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = connecting();
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        supervise(&mut command, to(theirs));
        let child = command.spawn().unwrap();
        drop(command);
        let mut files = Vec::new();
        local_socket::receive(&ours, &mut [0; 8], &mut files).unwrap();
        let listener = Listener::from(files.pop().unwrap());
        let mut connects = 0;
        loop {
            crate::wait::wait(&[listener.as_fd()], Some(10_000_000_000)).unwrap();
            match listener.take() {
                Ok(Some(call)) if call.call == Some(Call::Connect) => {
                    connects += 1;
                    assert!(listener.still_waits(call.id));
                    listener.answer(call.id, Err(libc::ENETDOWN));
                    assert!(!listener.still_waits(call.id));
                }
                Ok(Some(call)) => listener.go_on(call.id),
                Ok(None) => {}
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
                    break;
                }
            }
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(connects == 1 && said.contains("Network is down"), "{connects} {said}");
    }

    #[test]
    fn nothing_is_written_for_a_call_that_waits_no_longer() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = connecting();
        command.stderr(Stdio::null());
        supervise(&mut command, to(theirs));
        let mut child = command.spawn().unwrap();
        let mut files = Vec::new();
        local_socket::receive(&ours, &mut [0; 8], &mut files).unwrap();
        let listener = Listener::from(files.pop().unwrap());
        let call = loop {
            crate::wait::wait(&[listener.as_fd()], Some(10_000_000_000)).unwrap();
            match listener.take().unwrap() {
                Some(call) if call.call == Some(Call::Connect) => break call,
                Some(call) => listener.go_on(call.id),
                None => {}
            }
        };
        let memory = listener.memory(&call).unwrap();
        let (at, mut address) = (call.arguments[1], [0; 16]);
        memory.read(at, &mut address).unwrap();
        assert_eq!(address[4..8], [192, 0, 2, 1]);
        memory.write(at, &address).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let refused = [memory.write(at, &address), listener.memory(&call).map(drop)];
        assert_eq!(refused[0].as_ref().unwrap_err().raw_os_error(), Some(libc::ENOENT));
        assert_eq!(refused[1].as_ref().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_program_whose_listener_has_gone_does_not_hang() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = connecting();
        command.stderr(Stdio::piped());
        supervise(&mut command, to(theirs));
        let child = command.spawn().unwrap();
        drop((command, ours));
        let said = child.wait_with_output().unwrap().stderr;
        assert!(String::from_utf8_lossy(&said).contains("Function not implemented"));
    }
}
