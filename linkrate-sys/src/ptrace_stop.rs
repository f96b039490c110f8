//! A program that is stopped while a descriptor of it is replaced, ptrace(2).
//!
//! Calls that its threads wait in end, and are made again when the program continues: then they look at
//! their descriptors again. A call that has moved some bytes returns them. A wait with a time limit
//! begins again, except poll(2), select(2) and sleeps, whose rest the kernel keeps.
//!
//! One thread must do all of it: the kernel knows tracers by thread.

use std::io;
use std::time::{Duration, Instant};

use crate::processes;

/// How long a thread may take to stop, and a call to be made.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Rounds of looking for new threads.
const ROUNDS: usize = 8;

/// Most threads.
const MAX_THREADS: usize = 4096;

/// ERESTARTSYS to ERESTART_RESTARTBLOCK, include/linux/errno.h: the call is to be made again.
const RESTARTS: [i64; 3] = [-512, -513, -514];
const RESTARTS_REST: i64 = -516;
const INTERRUPTED: i64 = -4;

/// A process whose threads are stopped. They continue when it is dropped.
#[derive(Debug)]
pub struct PtraceStop {
    process: u32,
    threads: Vec<libc::pid_t>,
    /// The address of a system call instruction in its memory.
    instruction: u64,
}

/// A call that a stopped thread makes.
#[derive(Debug)]
pub struct Injected<'a> {
    _still: &'a PtraceStop,
    thread: libc::pid_t,
    before: Registers,
}

impl PtraceStop {
    /// Stops all threads of a process.
    ///
    /// # Errors
    /// `ESRCH` when it has ended, `EPERM` when the caller may not trace it or another program does;
    /// `TimedOut`; `Unsupported` on machines other than x86-64. The process continues.
    pub fn of(process: u32) -> io::Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut still = Self { process, threads: Vec::new(), instruction: 0 };
        for _ in 0..ROUNDS {
            let all = processes::numbers(&format!("/proc/{process}/task"))?;
            let new: Vec<libc::pid_t> = all
                .into_iter()
                .filter_map(|thread| libc::pid_t::try_from(thread).ok())
                .filter(|thread| !still.threads.contains(thread))
                .collect();
            if new.is_empty() {
                if still.threads.is_empty() {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
                // one that executes another program has no memory for a moment before
                still.instruction = instruction_of(process)?;
                return Ok(still);
            }
            if still.threads.len() + new.len() > MAX_THREADS {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            for thread in new {
                still.stop(thread)?;
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// The process.
    pub fn process(&self) -> u32 {
        self.process
    }

    fn stop(&mut self, thread: libc::pid_t) -> io::Result<()> {
        match trace(libc::PTRACE_SEIZE, thread, 0, libc::PTRACE_O_TRACESYSGOOD as usize) {
            // it has ended meanwhile
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) && !self.threads.is_empty() => {
                return Ok(());
            }
            other => other?,
        }
        self.threads.push(thread);
        trace(libc::PTRACE_INTERRUPT, thread, 0, 0)?;
        if await_stop(thread, Instant::now() + TIMEOUT)?.is_none() {
            self.threads.retain(|of| *of != thread);
        }
        Ok(())
    }

    /// Makes a thread call connect(2) with no descriptor, which does nothing. Under a filter of
    /// [`seccomp`](crate::seccomp), this call waits for an answer.
    pub fn inject(&self) -> io::Result<Injected<'_>> {
        let thread = *self.threads.first().ok_or(io::ErrorKind::NotFound)?;
        let before = Registers::read(thread)?;
        let mut call = before;
        call.make(libc::SYS_connect, [u64::MAX, 0, 0], self.instruction);
        call.write(thread)?;
        // to its entry, and on
        let entered = trace(libc::PTRACE_SYSCALL, thread, 0, 0)
            .and_then(|()| await_stop(thread, Instant::now() + TIMEOUT))
            .and_then(|_| trace(libc::PTRACE_SYSCALL, thread, 0, 0));
        let injected = Injected { _still: self, thread, before };
        entered.map(|()| injected)
    }
}

impl Injected<'_> {
    /// The thread that makes it.
    pub fn thread(&self) -> u32 {
        self.thread as u32
    }

    /// Whether the call has returned.
    pub fn has_returned(&self) -> io::Result<bool> {
        has_stopped(self.thread).map(|stopped| stopped.is_some())
    }

    /// Waits until the call has returned, and lets the thread stand where it stood.
    ///
    /// # Errors
    /// `TimedOut`; as ptrace(2).
    pub fn finish(self) -> io::Result<()> {
        if !self.has_returned()? {
            await_stop(self.thread, Instant::now() + TIMEOUT)?;
        }
        self.restore()
    }

    /// Lets the thread stand where it stood, after [`has_returned`](Self::has_returned) was true.
    pub fn restore(self) -> io::Result<()> {
        let mut after = self.before;
        after.make_again();
        // the signal that ended the call has done so
        after.forget_call();
        after.write(self.thread)?;
        Ok(())
    }
}

impl Drop for PtraceStop {
    fn drop(&mut self) {
        for thread in &self.threads {
            if let Ok(mut registers) = Registers::read(*thread)
                && registers.make_interrupted_again()
            {
                let _ = registers.write(*thread);
            }
            // one that was killed is gone
            let _ = trace(libc::PTRACE_DETACH, *thread, 0, 0);
        }
    }
}

/// Waits until a traced thread stops. `None` when it has ended.
fn await_stop(thread: libc::pid_t, deadline: Instant) -> io::Result<Option<()>> {
    loop {
        if let Some(stopped) = has_stopped(thread)? {
            return Ok(stopped.then_some(()));
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_micros(20));
    }
}

/// Whether a traced thread has stopped: `Some(false)` when it has ended.
fn has_stopped(thread: libc::pid_t) -> io::Result<Option<bool>> {
    let mut status = 0;
    // SAFETY: `status` is writable.
    let found = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
    match found {
        0 => Ok(None),
        found if found > 0 => Ok(Some(libc::WIFSTOPPED(status))),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(Some(false)),
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        },
    }
}

fn trace(request: libc::c_uint, thread: libc::pid_t, at: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests passed here take integers, and touch no memory of this process.
    let result = unsafe { libc::ptrace(request, thread, at, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The address of a system call instruction: every process has one in its vdso.
fn instruction_of(process: u32) -> io::Result<u64> {
    const INSTRUCTION: [u8; 2] = [0x0f, 0x05];
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
    let missing = || io::Error::new(io::ErrorKind::Unsupported, "it has no vdso");
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).ok_or_else(missing)?;
    let (from, rest) = line.split_once('-').ok_or_else(missing)?;
    let to = rest.split(' ').next().unwrap_or_default();
    let parse = |text| u64::from_str_radix(text, 16).map_err(|_| missing());
    let (from, to) = (parse(from)?, parse(to)?);
    let length = to.checked_sub(from).filter(|length| *length <= 1 << 20).ok_or_else(missing)?;
    let mut text = vec![0; length as usize];
    crate::process_memory::read(process, from, &mut text)?;
    let at = text.windows(2).position(|pair| pair == INSTRUCTION).ok_or_else(missing)?;
    Ok(from + at as u64)
}

#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
struct Registers(libc::user_regs_struct);

#[cfg(target_arch = "x86_64")]
impl Registers {
    fn read(thread: libc::pid_t) -> io::Result<Self> {
        // SAFETY: the structure is plain data for which all zeroes is a valid value; the kernel fills
        // all of it.
        let result = unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            let into = &raw mut registers;
            (libc::ptrace(libc::PTRACE_GETREGS, thread, 0usize, into), registers)
        };
        if result.0 == -1 { Err(io::Error::last_os_error()) } else { Ok(Self(result.1)) }
    }

    fn write(&self, thread: libc::pid_t) -> io::Result<()> {
        // SAFETY: the kernel reads the structure, which is live.
        let result =
            unsafe { libc::ptrace(libc::PTRACE_SETREGS, thread, 0usize, &raw const self.0) };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// A system call at `instruction`.
    fn make(&mut self, number: libc::c_long, arguments: [u64; 3], instruction: u64) {
        self.0.rip = instruction;
        self.0.rax = number as u64;
        [self.0.rdi, self.0.rsi, self.0.rdx] = arguments;
        self.forget_call();
    }

    /// The kernel is not to make the interrupted call again by itself.
    fn forget_call(&mut self) {
        self.0.orig_rax = u64::MAX;
    }

    /// Makes the interrupted call again, as the kernel would.
    fn make_again(&mut self) {
        let (number, result) = (self.0.orig_rax as i64, self.0.rax as i64);
        if number < 0 {
            return;
        }
        if result == RESTARTS_REST {
            self.0.rip -= 2;
            self.0.rax = libc::SYS_restart_syscall as u64;
        } else if RESTARTS.contains(&result) || (result == INTERRUPTED && waits(number)) {
            self.0.rip -= 2;
            self.0.rax = self.0.orig_rax;
        }
    }

    /// Makes a call again that the kernel would let fail. Whether it was such a call.
    fn make_interrupted_again(&mut self) -> bool {
        let (number, result) = (self.0.orig_rax as i64, self.0.rax as i64);
        let is_one = number >= 0 && result == INTERRUPTED && waits(number);
        if is_one {
            self.make_again();
            self.forget_call();
        }
        is_one
    }
}

/// Calls that fail when they are interrupted, and that have done nothing then: those of epoll, and those
/// on sockets with a time limit.
fn waits(number: i64) -> bool {
    const WAITING: [libc::c_long; 11] = [
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait,
        #[cfg(not(target_arch = "x86_64"))]
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_readv,
        libc::SYS_writev,
    ];
    WAITING.contains(&number)
}

#[cfg(not(target_arch = "x86_64"))]
#[derive(Debug, Clone, Copy)]
struct Registers;

#[cfg(not(target_arch = "x86_64"))]
impl Registers {
    fn read(_: libc::pid_t) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write(&self, _: libc::pid_t) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn make(&mut self, _: libc::c_long, _: [u64; 3], _: u64) {}

    fn forget_call(&mut self) {}

    fn make_again(&mut self) {}

    fn make_interrupted_again(&mut self) -> bool {
        false
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_program_continues_where_it_stood() {
        // cat waits in read, tail of the loop is never in a call for long
        let mut cat =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = cat.stdin.take().unwrap();
        let mut stdout = BufReader::new(cat.stdout.take().unwrap());
        for round in 0..5 {
            // it has been executed by then
            writeln!(stdin, "before").unwrap();
            stdout.read_line(&mut String::new()).unwrap();
            let still = PtraceStop::of(cat.id()).unwrap();
            assert_eq!(still.process(), cat.id());
            let call = still.inject().unwrap();
            assert_eq!(call.thread(), cat.id());
            call.finish().unwrap();
            drop(still);
            writeln!(stdin, "round {round}").unwrap();
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            assert_eq!(line, format!("round {round}\n"));
        }
        drop(stdin);
        assert!(cat.wait().unwrap().success());
    }

    #[test]
    fn a_program_that_only_computes_stalls_and_continues() {
        let mut shell = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 7"])
            .spawn()
            .unwrap();
        for _ in 0..20 {
            let Ok(still) = PtraceStop::of(shell.id()) else { break };
            still.inject().unwrap().finish().unwrap();
        }
        assert_eq!(shell.wait().unwrap().code(), Some(7));
    }

    #[test]
    fn a_process_that_has_ended_is_an_error() {
        let mut gone = Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        assert!(PtraceStop::of(gone.id()).is_err());
    }
}
