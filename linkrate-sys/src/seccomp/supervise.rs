//! A program starts with a filter whose listener another process has, or without a filter.
//!
//! A filter stays for good, and the calls that wait at one without a listener fail with `ENOSYS`. So a thread that
//! lives for this only takes the filter, sends its listener, and waits for the answer. Only then does the thread of
//! the program take the filter too: the kernel gives a thread's filters to the others of its process
//! (`SECCOMP_FILTER_FLAG_TSYNC`). Where anything fails, the filter ends with its thread.

use std::ffi::{c_int, c_ulong, c_void};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};

use super::filter;
use crate::stderr;

/// Bytes of the stack of the thread that takes the filter first. A handler of a signal may run there.
const STACK: usize = 64 << 10;

/// Longest warning, bytes.
const MAX_WARNING: usize = 256;

/// Who takes the listener of a program.
#[derive(Debug)]
pub struct Receiver {
    /// A stream socket.
    pub socket: OwnedFd,
    /// What goes over it together with the listener.
    pub message: Vec<u8>,
    /// What comes back once the calls are answered, and how long that may take; `None` for a receiver that does not
    /// outlive the start of the program without it.
    pub answer: Option<(Vec<u8>, Duration)>,
    /// It may have a listener of the program already, whose filter the program inherits. Nothing is said then.
    pub may_have_it: bool,
}

/// Why a program is not supervised: the step that failed.
type Failed = (&'static str, io::Error);

fn in_step(step: &'static str) -> impl Fn(io::Error) -> Failed {
    move |error| (step, error)
}

/// Makes the calls of `command` that can change what TCP does, or give a file another number, wait for
/// answers at a listener, from the moment it is executed. Without the permission to filter, below a filter that has a
/// listener already, or where nobody takes the listener, the program runs as it is, and a line on its standard
/// error says why. Whoever goes later leaves calls that fail with `ENOSYS`.
pub fn supervise(command: &mut Command, to: Receiver) {
    let filters = [filter::of_tcp(), filter::of_nothing()];
    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let take = move || {
        let mut done = Ok(());
        let started = in_a_thread(&mut stack, || done = hand_over(&filters, &to));
        if let Err((step, error)) = started.map_err(in_step("start a thread")).and(done) {
            let is_known = to.may_have_it && error.raw_os_error() == Some(libc::EBUSY);
            if !is_known {
                warn(step, &error);
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes raw system calls only: it neither allocates, nor locks, nor panics, so
    // it may run between fork and exec whatever other threads did at the fork. It owns what it uses.
    unsafe {
        command.pre_exec(take);
    }
}

/// Runs `body` in a thread of its own while the calling one stands still. Async-signal-safe if `body` is, which
/// must not panic.
fn in_a_thread<F: FnOnce()>(stack: &mut [u128], body: F) -> io::Result<()> {
    extern "C" fn run<F: FnOnce()>(body: *mut c_void) -> c_int {
        // SAFETY: it is the `body` below, which nobody else uses before this thread has ended.
        if let Some(body) = unsafe { (*body.cast::<Option<F>>()).take() } {
            body();
        }
        0
    }
    let mut body = Some(body);
    let top = stack.as_mut_ptr_range().end;
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_VFORK;
    // SAFETY: `stack` is used by the thread alone, and grows down from its aligned end. The caller does not run until
    // the thread has ended (CLONE_VFORK), so both may have the same thread-local storage, and `body` lives.
    let started = unsafe { libc::clone(run::<F>, top.cast(), flags, (&raw mut body).cast()) };
    if started < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// By a thread that then ends: takes the filter, and gives it to the other threads of this process once the receiver
/// has the listener. Async-signal-safe.
fn hand_over(filters: &[Vec<libc::sock_filter>; 2], to: &Receiver) -> Result<(), Failed> {
    let [of_calls, of_nothing] = filters;
    let listener = with_permission(|| install(of_calls, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER));
    let listener = listener.map_err(in_step("filter its calls"))?;
    // SAFETY: the kernel has just made this descriptor, and nobody else has it.
    let listener = unsafe { OwnedFd::from_raw_fd(listener) };
    pass_on(to.socket.as_fd(), &to.message, listener.as_fd())
        .map_err(in_step("send its calls to the lab"))?;
    if let Some((answer, within)) = &to.answer {
        await_answer(to.socket.as_fd(), answer, *within)
            .map_err(in_step("await the answer of the lab"))?;
    }
    // with the last filter go those before
    let given = with_permission(|| install(of_nothing, libc::SECCOMP_FILTER_FLAG_TSYNC));
    match given.map_err(in_step("filter its calls"))? {
        0 => Ok(()),
        // the number of a thread with a filter of its own
        _ => Err(in_step("filter its calls")(io::ErrorKind::ResourceBusy.into())),
    }
}

/// Installs a filter for the calling thread. Returns what the flags ask for. Async-signal-safe.
fn install(filter: &[libc::sock_filter], flags: c_ulong) -> io::Result<c_int> {
    let program = libc::sock_fprog {
        len: filter.len() as libc::c_ushort,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: `program` names live instructions, which the kernel only reads.
    let result = unsafe {
        let operation = libc::SECCOMP_SET_MODE_FILTER;
        libc::syscall(libc::SYS_seccomp, operation, flags, &raw const program)
    };
    match c_int::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Without CAP_SYS_ADMIN, programs that gain privileges must be ruled out before a filter is installed.
fn with_permission(install: impl Fn() -> io::Result<c_int>) -> io::Result<c_int> {
    match install() {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            rustix::thread::set_no_new_privs(true)?;
            install()
        }
        other => other,
    }
}

/// Sends a descriptor. Async-signal-safe.
fn pass_on(to: BorrowedFd<'_>, message: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let part = [io::IoSlice::new(message)];
    sendmsg(to, &part, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for these bytes. Async-signal-safe.
///
/// # Errors
/// `ConnectionRefused` for others, `UnexpectedEof` at the end of the stream, `TimedOut`.
fn await_answer(from: BorrowedFd<'_>, expected: &[u8], within: Duration) -> io::Result<()> {
    let deadline = Instant::now() + within;
    let (mut rest, mut buffer) = (expected, [0; 64]);
    while !rest.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        let most = rest.len().min(buffer.len());
        let count = match recv(from, &mut buffer[..most], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((count, _)) => count,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
            Err(error) => return Err(error.into()),
        };
        rest = match rest.strip_prefix(&buffer[..count]) {
            Some(rest) => rest,
            None => return Err(io::ErrorKind::ConnectionRefused.into()),
        };
    }
    Ok(())
}

/// Says why a program runs as it is. Async-signal-safe.
fn warn(step: &str, error: &io::Error) {
    let mut line = [0; MAX_WARNING];
    let mut rest = &mut line[..];
    // a longer line is cut
    let _ = write!(rest, "warning: connections of this program stay at the host: {step}: ");
    // the text of an error number is in memory of its own
    let _ = match error.raw_os_error() {
        Some(number) => writeln!(rest, "{} (os error {number})", error.kind()),
        None => writeln!(rest, "{}", error.kind()),
    };
    let length = MAX_WARNING - rest.len();
    stderr::raw(str::from_utf8(&line[..length]).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::process::Stdio;
    use std::thread::{sleep, spawn};

    use super::super::tests::connecting;
    use super::*;
    use crate::local_socket;

    const ANSWER: &[u8] = b"taken";

    /// What a program says that connects to a port where nobody listens, if `receive` has its listener.
    fn said(
        answer: Option<Duration>,
        may_have_it: bool,
        receive: impl FnOnce(UnixStream) + Send + 'static,
    ) -> String {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let receiving = spawn(move || receive(ours));
        if answer.is_none() {
            // it is gone before
            sleep(Duration::from_millis(50));
        }
        let mut command = Command::new("bash");
        command.args(["-c", "exec 3<>/dev/tcp/127.0.0.1/9"]).stderr(Stdio::piped());
        let answer = answer.map(|within| (ANSWER.to_vec(), within));
        let (socket, message) = (theirs.into(), b"x".to_vec());
        supervise(&mut command, Receiver { socket, message, answer, may_have_it });
        let child = command.spawn().unwrap();
        drop(command);
        receiving.join().unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap()
    }

    fn listener(ours: &UnixStream) -> OwnedFd {
        let mut files = Vec::new();
        local_socket::receive(ours, &mut [0; 8], &mut files).unwrap();
        files.pop().unwrap()
    }

    const TIMEOUT: Duration = Duration::from_secs(10);

    #[test]
    fn a_program_whose_listener_nobody_takes_runs_as_it_is_and_says_why() {
        let gone_before = said(None, false, drop);
        let gone_between = said(Some(TIMEOUT), false, |ours| {
            listener(&ours);
            // the child has a copy of it until it executes the program
            ours.shutdown(Shutdown::Both).unwrap();
        });
        let refused = said(Some(TIMEOUT), false, |ours| {
            listener(&ours);
            local_socket::send(&ours, b"no!!!", None).unwrap();
        });
        let silent = said(Some(Duration::from_millis(100)), false, |ours| {
            let _listener = listener(&ours);
            sleep(Duration::from_millis(500));
        });
        for (said, why) in [
            (gone_before, "send its calls to the lab: broken pipe (os error 32)"),
            (gone_between, "await the answer of the lab: unexpected end of file"),
            (refused, "await the answer of the lab: connection refused"),
            (silent, "await the answer of the lab: timed out"),
        ] {
            let warnings: Vec<&str> =
                said.lines().filter(|line| line.starts_with("warning: ")).collect();
            let whole = format!("warning: connections of this program stay at the host: {why}");
            assert_eq!(warnings, [whole], "{said}");
            // the kernel has carried its call out
            assert!(said.contains("Connection refused"), "{said}");
        }
    }

    #[test]
    fn a_program_is_supervised_once_its_receiver_says_so() {
        let said = said(Some(TIMEOUT), false, |ours| {
            let listener = super::super::Listener::from(listener(&ours));
            local_socket::send(&ours, ANSWER, None).unwrap();
            loop {
                crate::wait::wait(&[listener.as_fd()], Some(10_000_000_000)).unwrap();
                match listener.take() {
                    Ok(Some(call)) if call.call == Some(super::super::Call::Connect) => {
                        listener.answer(call.id, Err(libc::ENETDOWN));
                    }
                    Ok(Some(call)) => listener.go_on(call.id),
                    Ok(None) => {}
                    Err(_) => break,
                }
            }
        });
        assert!(said.contains("Network is down") && !said.contains("warning"), "{said}");
    }

    #[test]
    fn a_program_below_a_listener_keeps_that_one() {
        for may_have_it in [false, true] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (below, to) = UnixStream::pair().unwrap();
            let mut command = connecting();
            command.stderr(Stdio::piped());
            for (socket, message) in [(theirs, b"x"), (to, b"y")] {
                let (socket, message) = (socket.into(), message.to_vec());
                supervise(&mut command, Receiver { socket, message, answer: None, may_have_it });
            }
            let child = command.spawn().unwrap();
            drop(command);
            drop(listener(&ours));
            let mut files = Vec::new();
            assert_eq!(local_socket::receive(&below, &mut [0; 8], &mut files).unwrap(), 0);
            let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
            let warns = said.contains("filter its calls: resource busy (os error 16)");
            assert!(warns != may_have_it && said.contains("not implemented"), "{said}");
        }
    }
}
