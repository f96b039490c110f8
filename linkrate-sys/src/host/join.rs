//! Joining a running host: a program in its namespaces, or sockets.
//!
//! A process enters namespaces while it has one thread, as setns(2) requires for a user namespace:
//! between fork and exec, or in the calling process just before it executes another program.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use linkrate_model::CpuSet;
use rustix::process::{Pid, PidfdFlags, Resource, Signal, kill_process, pidfd_open};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{SysError, SysResult};
use crate::{open_file_limit, sched};

/// The effective user id of the caller, in its user namespace.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Condition that ends a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// SIGKILL when the thread that started it ends, if it runs that long.
    OfItsParent,
    /// The program ends by itself.
    ItsOwn,
}

/// The namespaces of a host.
#[derive(Debug)]
pub struct Namespaces {
    /// `None` if it is the caller's namespace, which cannot be joined again.
    user: Option<OwnedFd>,
    network: OwnedFd,
    mounts: OwnedFd,
}

impl Namespaces {
    /// The namespaces of process `pid`; fails when the process does not exist, or the caller may not access it.
    pub fn of(pid: u32) -> SysResult<Self> {
        let open = |name: &str| {
            let path = format!("/proc/{pid}/ns/{name}");
            File::open(&path).map_err(|error| SysError::new("open namespace", path, error))
        };
        let user = open("user")?;
        let failed = |error| SysError::new("compare", "user namespaces", error);
        let (theirs, own) =
            (user.metadata().map_err(failed)?, fs::metadata("/proc/self/ns/user").map_err(failed)?);
        let same = (theirs.dev(), theirs.ino()) == (own.dev(), own.ino());
        Ok(Self {
            user: (!same).then(|| user.into()),
            network: open("net")?.into(),
            mounts: open("mnt")?.into(),
        })
    }

    /// Makes `command` run in these namespaces, on `cpus`, in the caller's directory. The caller
    /// may start it as a child, or, while it has one thread, execute it in its place.
    ///
    /// # Errors
    /// When the caller's directory cannot be read.
    pub fn enter_with(
        self,
        command: &mut Command,
        cpus: &CpuSet,
        lifetime: Lifetime,
    ) -> SysResult<()> {
        let directory = std::env::current_dir()
            .map_err(|error| SysError::new("find", "the working directory", error))?;
        // a path the kernel gave has no zero byte
        let directory = CString::new(directory.into_os_string().into_vec()).unwrap_or_default();
        let cpus = sched::kernel_set(cpus);
        let parent = rustix::process::getpid();
        let open_files = open_file_limit::of_programs();
        let enter = move || {
            self.enter(true)?;
            // joining a mount namespace changes the directory to its root
            let _ = rustix::process::chdir(directory.as_c_str());
            rustix::thread::sched_setaffinity(None, &cpus)?;
            if let Some(limit) = &open_files {
                rustix::process::setrlimit(Resource::Nofile, *limit)?;
            }
            if lifetime == Lifetime::OfItsParent {
                // last, because changes of credentials clear it, prctl(2)
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                if rustix::process::getppid() != Some(parent) {
                    // the parent ended before the signal was requested
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
            }
            Ok(())
        };
        // SAFETY: the closure makes raw system calls only: it neither allocates, nor locks, nor
        // panics, so it may run between fork and exec whatever other threads did at the fork. It
        // owns its descriptors.
        unsafe {
            command.pre_exec(enter);
        }
        Ok(())
    }

    /// Creates two UDP sockets in the network namespace, on its loopback interface, which must be
    /// up. A temporary thread creates them.
    ///
    /// # Errors
    /// `EINVAL` for a host of another user namespace, which a process of several threads cannot
    /// join; errors of setns(2) and bind(2).
    pub fn loopback_sockets(&self) -> SysResult<(UdpSocket, UdpSocket)> {
        let make = || {
            self.enter(false)?;
            let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
            Ok((socket()?, socket()?))
        };
        let made = sched::apart(make).flatten();
        made.map_err(|error: io::Error| SysError::new("create sockets in", "a host", error))
    }

    /// Enters the namespaces with the calling thread. Async-signal-safe.
    fn enter(&self, mounts: bool) -> io::Result<()> {
        if let Some(user) = &self.user {
            move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
        }
        move_into_link_name_space(self.network.as_fd(), Some(LinkNameSpaceType::Network))?;
        if mounts {
            move_into_link_name_space(self.mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
        }
        Ok(())
    }
}

/// A program that runs in a host, a child of the caller. Dropping it ends it.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    process: OwnedFd,
}

impl Guest {
    /// Starts `command`, which [`Namespaces::enter_with`] has prepared.
    ///
    /// # Errors
    /// When it cannot be started; the program is in the message.
    pub fn start(command: &mut Command) -> SysResult<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error: io::Error| SysError::new("start", &name, error);
        let mut child = command.spawn().map_err(failed)?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(process) => Ok(Self { child, process }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(failed(error.into()))
            }
        }
    }

    /// The exit status, if the program has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Sends SIGHUP, as a closing terminal does, SIGTERM after half of `timeout`, and SIGKILL
    /// after all of it.
    pub fn end(&mut self, timeout: Duration) -> io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        for signal in [Signal::HUP, Signal::TERM] {
            // it was not waited for yet, so no other process can have its id
            let _ = kill_process(Pid::from_child(&self.child), signal);
            let deadline = Instant::now() + timeout / 2;
            while Instant::now() < deadline {
                if let Some(status) = self.child.try_wait()? {
                    return Ok(status);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl AsFd for Guest {
    /// Readable when it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // drop cannot report an error
        let _ = self.end(Duration::from_secs(2));
    }
}
