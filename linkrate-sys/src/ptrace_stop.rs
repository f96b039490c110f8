//! A program that is stopped while a descriptor of it is replaced, ptrace(2).
//!
//! Calls that its threads wait in end, and are made again when the program continues: then they look at
//! their descriptors again. A call that has moved some bytes returns them. A wait with a time limit
//! begins again, except poll(2), select(2) and sleeps, whose rest the kernel keeps.
//!
//! Signals that come meanwhile are blocked, and are delivered when the program continues. Only SIGSTOP cannot
//! be blocked: it stops the program as a whole afterwards, and may end a call that a thread was made to make.
//!
//! A thread in vfork(2) cannot stop before its child has executed a program, which may need an answer of the tracer
//! first. So no thread is stopped while there is such a one.
//!
//! One thread must do all of it: the kernel knows tracers by thread. It calls [`detach_late`] now and then.

use std::cell::RefCell;
use std::io;
use std::time::{Duration, Instant};

use crate::process_memory::Memory;
use crate::processes;

/// How long a thread may take to stop, and a call to be made.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Time between two looks whether a thread that does not stop is in vfork(2).
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Calls that let a thread wait for its child, if they are asked to.
const MAKE_CHILD: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    libc::SYS_clone,
    libc::SYS_clone3,
];

/// Rounds of looking for new threads.
const ROUNDS: usize = 8;

/// Most threads.
const MAX_THREADS: usize = 4096;

/// EINTR, and ERESTARTNOHAND of include/linux/errno.h: the kernel makes the call again, unless a handler of a
/// signal runs first. Then it fails with EINTR.
const INTERRUPTED: i64 = -4;
const AGAIN_UNLESS_HANDLED: i64 = -514;

/// PTRACE_EVENT_STOP, include/uapi/linux/ptrace.h.
const EVENT_STOP: libc::c_int = 128;

/// PTRACE_O_TRACESYSGOOD marks stops at calls with this bit.
const AT_CALL: libc::c_int = libc::SIGTRAP | 0x80;

/// What a traced thread has come to, as its wait status says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It stands still, since its tracer or a signal such as SIGSTOP stops it. It is outside of calls.
    Stop,
    /// It stands at the entry or at the return of a call.
    Call,
    /// A signal is about to be delivered; 0 for none.
    Signal(libc::c_int),
    /// It has ended.
    End,
}

impl Event {
    /// Decodes a status of waitpid(2).
    #[must_use]
    pub const fn of(status: libc::c_int) -> Self {
        if !libc::WIFSTOPPED(status) {
            return Self::End;
        }
        match (status >> 16, libc::WSTOPSIG(status)) {
            (EVENT_STOP, _) => Self::Stop,
            (0, AT_CALL) => Self::Call,
            (0, signal) => Self::Signal(signal),
            // other events are not asked for
            _ => Self::Signal(0),
        }
    }
}

thread_local! {
    /// Threads that were to stop and have not yet, or make a call still. Only this thread can detach them.
    static OWING: RefCell<Vec<Traced>> = const { RefCell::new(Vec::new()) };
}

/// Detaches threads that did not stop in time and have stopped since. Whether some have not yet.
pub fn detach_late() -> bool {
    OWING.with_borrow_mut(|owing| {
        owing.retain_mut(|thread| !thread.leaves());
        !owing.is_empty()
    })
}

/// A traced thread.
#[derive(Debug)]
struct Traced {
    id: libc::pid_t,
    is_still: bool,
    /// The signals that its program blocks, while all are blocked.
    blocked: Option<u64>,
    /// Where it stood before it was made to call, until it stands there again.
    before: Option<Registers>,
}

impl Traced {
    /// What it has come to since the last look; `None` while it runs.
    fn event(&self) -> io::Result<Option<Event>> {
        let mut status = 0;
        // SAFETY: `status` is writable.
        let found =
            unsafe { libc::waitpid(self.id, &raw mut status, libc::__WALL | libc::WNOHANG) };
        match found {
            0 => Ok(None),
            found if found > 0 => Ok(Some(Event::of(status))),
            _ => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::ECHILD) => Ok(Some(Event::End)),
                error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
                error => Err(error),
            },
        }
    }

    fn await_event(&self, deadline: Instant) -> io::Result<Event> {
        loop {
            if let Some(event) = self.event()? {
                return Ok(event);
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Lets it go on, to the next stop that `request` has.
    fn resume(&mut self, request: libc::c_uint, signal: libc::c_int) -> io::Result<()> {
        self.is_still = false;
        trace(request, self.id, 0, signal as usize)
    }

    /// Brings it nearer to where it is to stand still. Whether it lives, once it stands there or has ended.
    fn approach(&mut self, event: Event) -> io::Result<Option<bool>> {
        let signal = match event {
            Event::Stop => {
                self.is_still = true;
                self.stand_as_before()?;
                return Ok(Some(true));
            }
            Event::End => return Ok(Some(false)),
            Event::Signal(signal) => signal,
            Event::Call => 0,
        };
        self.stand_as_before()?;
        // any stop takes the place of one that was asked for
        trace(libc::PTRACE_INTERRUPT, self.id, 0, 0)?;
        self.resume(libc::PTRACE_CONT, signal).map(|()| None)
    }

    /// Waits until it stands still. Whether it lives.
    fn await_still(&mut self) -> io::Result<bool> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let event = match self.await_event(deadline.min(Instant::now() + POLL_INTERVAL)) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    if awaits_child(self.id) {
                        return Err(busy());
                    }
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                    continue;
                }
                event => event?,
            };
            if let Some(lives) = self.approach(event)? {
                return Ok(lives);
            }
        }
    }

    fn stand_as_before(&self) -> io::Result<()> {
        self.before.as_ref().map_or(Ok(()), |before| before.write(self.id))
    }

    fn block_signals(&mut self) -> io::Result<()> {
        let (mut blocked, mut all) = (0, u64::MAX);
        set_of_signals(libc::PTRACE_GETSIGMASK, self.id, &mut blocked)?;
        set_of_signals(libc::PTRACE_SETSIGMASK, self.id, &mut all)?;
        self.blocked = Some(blocked);
        Ok(())
    }

    /// Lets it go, as it stands still. One that was killed is gone.
    fn detach(&self) {
        let _ = self.stand_as_before();
        if let Ok(mut registers) = Registers::read(self.id)
            && registers.wait_again()
        {
            let _ = registers.write(self.id);
        }
        if let Some(mut blocked) = self.blocked {
            let _ = set_of_signals(libc::PTRACE_SETSIGMASK, self.id, &mut blocked);
        }
        let _ = trace(libc::PTRACE_DETACH, self.id, 0, 0);
    }

    /// Lets it go if it has come to stand still. Whether it is gone.
    fn leaves(&mut self) -> bool {
        let event = self.event();
        match event.and_then(|event| event.map_or(Ok(None), |event| self.approach(event))) {
            Ok(None) => return false,
            Ok(Some(true)) => self.detach(),
            // the kernel has forgotten it
            Ok(Some(false)) | Err(_) => {}
        }
        true
    }
}

/// A process whose threads are stopped. They continue when it is dropped.
#[derive(Debug)]
pub struct PtraceStop {
    process: u32,
    threads: Vec<Traced>,
    /// The address of a system call instruction in its memory.
    instruction: u64,
}

/// A call that a stopped thread makes. When it is dropped, the thread stands where it stood.
#[derive(Debug)]
pub struct Injected<'a> {
    thread: &'a mut Traced,
    has_entered: bool,
    has_returned: bool,
}

impl PtraceStop {
    /// Stops all threads of a process.
    ///
    /// # Errors
    /// `ESRCH` when it has ended, `EPERM` when the caller may not trace it or another program does;
    /// `TimedOut`; `ResourceBusy` while a thread is in vfork(2), or has not stopped since an earlier one;
    /// `Unsupported` on machines other than x86-64. The process continues.
    pub fn of(process: u32) -> io::Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        detach_late();
        let mut still = Self { process, threads: Vec::new(), instruction: 0 };
        for _ in 0..ROUNDS {
            let all = processes::numbers(&format!("/proc/{process}/task"))?;
            let new: Vec<libc::pid_t> = all
                .into_iter()
                .filter_map(|thread| libc::pid_t::try_from(thread).ok())
                .filter(|thread| !still.threads.iter().any(|of| of.id == *thread))
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
            if new.iter().any(|thread| awaits_child(*thread)) {
                return Err(busy());
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

    fn stop(&mut self, id: libc::pid_t) -> io::Result<()> {
        if OWING.with_borrow(|owing| owing.iter().any(|of| of.id == id)) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        match trace(libc::PTRACE_SEIZE, id, 0, libc::PTRACE_O_TRACESYSGOOD as usize) {
            // it has ended meanwhile
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) && !self.threads.is_empty() => {
                return Ok(());
            }
            other => other?,
        }
        let mut thread = Traced { id, is_still: false, blocked: None, before: None };
        let stopped =
            trace(libc::PTRACE_INTERRUPT, id, 0, 0).and_then(|()| thread.await_still()).and_then(
                |lives| if lives { thread.block_signals().map(|()| true) } else { Ok(false) },
            );
        if !matches!(stopped, Ok(false)) {
            self.threads.push(thread);
        }
        stopped.map(drop)
    }

    /// Makes a thread call connect(2) with no descriptor, which does nothing. Under a filter of
    /// [`seccomp`](crate::seccomp), this call waits for an answer.
    pub fn inject(&mut self) -> io::Result<Injected<'_>> {
        let thread = self.threads.first_mut().ok_or(io::ErrorKind::NotFound)?;
        let before = Registers::read(thread.id)?;
        let mut call = before;
        call.make(libc::SYS_connect, [u64::MAX, 0, 0], self.instruction);
        thread.before = Some(before);
        call.write(thread.id)?;
        let mut injected = Injected { thread, has_entered: false, has_returned: false };
        injected.thread.resume(libc::PTRACE_SYSCALL, 0)?;
        let deadline = Instant::now() + TIMEOUT;
        while !injected.has_entered {
            let event = injected.thread.await_event(deadline)?;
            injected.see(event)?;
        }
        Ok(injected)
    }
}

impl Injected<'_> {
    /// The thread that makes it.
    pub fn thread(&self) -> u32 {
        self.thread.id as u32
    }

    /// Whether the call has returned.
    ///
    /// # Errors
    /// `ESRCH` when its thread has ended.
    pub fn has_returned(&mut self) -> io::Result<bool> {
        if !self.has_returned
            && let Some(event) = self.thread.event()?
        {
            self.see(event)?;
        }
        Ok(self.has_returned)
    }

    /// Notes that the call was entered or has returned, and lets the thread go on before.
    fn see(&mut self, event: Event) -> io::Result<()> {
        let signal = match event {
            Event::Call if self.has_entered => {
                self.has_returned = true;
                return Ok(());
            }
            Event::Call => {
                self.has_entered = true;
                0
            }
            Event::End => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            // the kernel stops a process again that was stopped as a whole, when its threads are detached
            Event::Stop => 0,
            Event::Signal(signal) => signal,
        };
        self.thread.resume(libc::PTRACE_SYSCALL, signal)
    }

    /// Lets the thread stand where it stood. A call that has not returned ends.
    ///
    /// # Errors
    /// `TimedOut`; as ptrace(2).
    pub fn finish(mut self) -> io::Result<()> {
        self.put_back()
    }

    fn put_back(&mut self) -> io::Result<()> {
        if self.thread.before.is_none() {
            return Ok(());
        }
        let deadline = Instant::now() + TIMEOUT;
        while !self.has_returned {
            trace(libc::PTRACE_INTERRUPT, self.thread.id, 0, 0)?;
            match self.thread.await_event(deadline)? {
                Event::Stop if !self.has_entered => break,
                event => self.see(event)?,
            }
        }
        let at = if self.has_returned { Event::Call } else { Event::Stop };
        if self.thread.approach(at)?.is_none() {
            self.thread.await_still()?;
        }
        self.thread.before = None;
        Ok(())
    }
}

impl Drop for Injected<'_> {
    fn drop(&mut self) {
        // a thread that does not return is detached late
        let _ = self.put_back();
    }
}

impl Drop for PtraceStop {
    fn drop(&mut self) {
        let (still, owing): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.threads).into_iter().partition(|thread| thread.is_still);
        still.into_iter().for_each(|thread| thread.detach());
        OWING.with_borrow_mut(|all| all.extend(owing));
    }
}

/// Whether a thread of a process waits in vfork(2) or the like until its child executes a program or ends.
pub fn is_in_vfork(process: u32) -> bool {
    let all = processes::numbers(&format!("/proc/{process}/task")).unwrap_or_default();
    all.into_iter().filter_map(|thread| libc::pid_t::try_from(thread).ok()).any(awaits_child)
}

fn awaits_child(thread: libc::pid_t) -> bool {
    let read = |name| std::fs::read_to_string(format!("/proc/{thread}/{name}")).unwrap_or_default();
    // an uninterruptible wait, in which few threads are
    processes::stat_field(&read("stat"), 3) == Some("D") && is_call_for_child(&read("syscall"))
}

/// Whether the call in the text of `/proc/TID/syscall` makes a child.
fn is_call_for_child(call: &str) -> bool {
    let number = call.split(' ').next().and_then(|number| number.parse().ok());
    number.is_some_and(|number| MAKE_CHILD.contains(&number))
}

/// A thread cannot stop yet.
fn busy() -> io::Error {
    let reason = "a thread waits in vfork until its child executes a program";
    io::Error::new(io::ErrorKind::ResourceBusy, reason)
}

fn trace(request: libc::c_uint, thread: libc::pid_t, at: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests passed here take integers, and touch no memory of this process.
    let result = unsafe { libc::ptrace(request, thread, at, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads or sets which signals a thread blocks.
fn set_of_signals(request: libc::c_uint, thread: libc::pid_t, signals: &mut u64) -> io::Result<()> {
    // SAFETY: the kernel reads or writes a set of 8 bytes, which is live and writable.
    let result =
        unsafe { libc::ptrace(request, thread, size_of::<u64>(), std::ptr::from_mut(signals)) };
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
    Memory::of(process)?.read(from, &mut text)?;
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
        // the kernel is not to make the interrupted call again by itself
        self.0.orig_rax = u64::MAX;
    }

    /// Lets the kernel make a call again that it would let fail, unless a signal is handled first. Whether it is
    /// such a call.
    fn wait_again(&mut self) -> bool {
        let (number, result) = (self.0.orig_rax as i64, self.0.rax as i64);
        let is_one = number >= 0 && result == INTERRUPTED && waits(number);
        if is_one {
            self.0.rax = AGAIN_UNLESS_HANDLED as u64;
        }
        is_one
    }
}

/// Calls that fail when they are interrupted, and that have done nothing then: those of epoll, of message queues
/// and for signals, and those on sockets with a time limit.
fn waits(number: i64) -> bool {
    const WAITING: &[libc::c_long] = &[
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_readv,
        libc::SYS_writev,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_io_getevents,
        libc::SYS_io_uring_enter,
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

    fn wait_again(&mut self) -> bool {
        false
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

    use super::*;

    #[test]
    fn a_wait_status_is_decoded() {
        let stopped = |signal: i32, event: i32| event << 16 | signal << 8 | 0x7f;
        for (status, event) in [
            (stopped(libc::SIGTRAP, EVENT_STOP), Event::Stop),
            (stopped(libc::SIGSTOP, EVENT_STOP), Event::Stop),
            (stopped(libc::SIGTRAP | 0x80, 0), Event::Call),
            (stopped(libc::SIGTRAP, 0), Event::Signal(libc::SIGTRAP)),
            (stopped(libc::SIGUSR1, 0), Event::Signal(libc::SIGUSR1)),
            (stopped(34, 0), Event::Signal(34)),
            // the stop before an exit, which is not asked for
            (stopped(libc::SIGTRAP, libc::PTRACE_EVENT_EXIT), Event::Signal(0)),
            (7 << 8, Event::End),
            (libc::SIGKILL, Event::End),
            (libc::SIGSEGV | 0x80, Event::End),
        ] {
            assert_eq!(Event::of(status), event, "{status:#x}");
        }
    }

    #[test]
    fn a_thread_that_makes_a_child_is_told_from_others() {
        for (text, expected) in [
            ("58 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f3a\n", true),
            ("56 0x4111 0x7f1 0x0 0x0 0x0 0x0 0x7ffd 0x7f3a\n", true),
            ("435 0x7ffc 0x58 0x0 0x0 0x0 0x0 0x7ffd 0x7f3a\n", true),
            ("257 0xffffff9c 0x55 0x0 0x0 0x0 0x0 0x7ffd 0x7f3a\n", false),
            ("-1 0x7ffd 0x7f3a\n", false),
            ("running\n", false),
            ("", false),
        ] {
            assert_eq!(is_call_for_child(text), expected, "{text}");
        }
    }

    #[test]
    fn a_wait_that_was_interrupted_is_made_again_unless_a_signal_is_handled() {
        // SAFETY: registers are plain data for which all zeroes is a valid value.
        let mut registers = Registers(unsafe { std::mem::zeroed() });
        for (number, result, again) in [
            (libc::SYS_epoll_wait, INTERRUPTED, true),
            (libc::SYS_recvfrom, INTERRUPTED, true),
            (libc::SYS_recvfrom, 7, false),
            (libc::SYS_nanosleep, INTERRUPTED, false),
            // ERESTARTSYS, which the kernel sees to
            (libc::SYS_recvfrom, -512, false),
            // no call
            (-1, INTERRUPTED, false),
        ] {
            (registers.0.orig_rax, registers.0.rax) = (number as u64, result as u64);
            assert_eq!(registers.wait_again(), again, "{number} {result}");
            let left = if again { AGAIN_UNLESS_HANDLED } else { result };
            assert_eq!((registers.0.orig_rax as i64, registers.0.rax as i64), (number, left));
        }
    }

    /// A program that says after each line what it has read, with its ends.
    fn talking(program: &str, arguments: &[&str]) -> (Child, ChildStdin, BufReader<ChildStdout>) {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        (child, stdin, stdout)
    }

    fn line(from: &mut BufReader<ChildStdout>) -> String {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn send(child: &Child, signal: libc::c_int) {
        // SAFETY: the call takes two integers and touches no memory.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
    }

    #[test]
    fn a_program_continues_where_it_stood() {
        // it waits in read
        let (mut cat, mut stdin, mut stdout) = talking("cat", &[]);
        for round in 0..5 {
            // it has been executed by then
            writeln!(stdin, "before").unwrap();
            line(&mut stdout);
            let mut still = PtraceStop::of(cat.id()).unwrap();
            assert_eq!(still.process(), cat.id());
            for _ in 0..2 {
                let call = still.inject().unwrap();
                assert_eq!(call.thread(), cat.id());
                call.finish().unwrap();
            }
            drop(still);
            writeln!(stdin, "round {round}").unwrap();
            assert_eq!(line(&mut stdout), format!("round {round}"));
        }
        drop(stdin);
        assert!(cat.wait().unwrap().success());
    }

    #[test]
    fn signals_that_come_while_a_program_is_stopped_are_handled_afterwards() {
        let script =
            "trap 'echo handled' USR1; echo ready; while :; do read line && echo $line; done";
        let (mut shell, mut stdin, mut stdout) = talking("sh", &["-c", script]);
        assert_eq!(line(&mut stdout), "ready");
        for before in [true, false, true, false] {
            // it waits in read
            std::thread::sleep(Duration::from_millis(30));
            // at the time at which it is stopped, and while it is
            if before {
                send(&shell, libc::SIGUSR1);
            }
            let mut still = PtraceStop::of(shell.id()).unwrap();
            still.inject().unwrap().finish().unwrap();
            if !before {
                send(&shell, libc::SIGUSR1);
            }
            let mut call = still.inject().unwrap();
            call.has_returned().unwrap();
            drop(call);
            drop(still);
            assert_eq!(line(&mut stdout), "handled", "{before}");
        }
        writeln!(stdin, "whole").unwrap();
        assert_eq!(line(&mut stdout), "whole");
        shell.kill().unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn a_program_that_a_signal_has_stopped_stays_so_and_continues() {
        let (mut cat, mut stdin, mut stdout) = talking("cat", &[]);
        writeln!(stdin, "before").unwrap();
        line(&mut stdout);
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", cat.id())).unwrap();
            processes::stat_field(&stat, 3).unwrap().to_owned()
        };
        let is_stopped = || {
            let begun = Instant::now();
            while state() != "T" {
                assert!(begun.elapsed() < TIMEOUT, "{}", state());
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        send(&cat, libc::SIGSTOP);
        is_stopped();
        let mut still = PtraceStop::of(cat.id()).unwrap();
        still.inject().unwrap().finish().unwrap();
        drop(still);
        is_stopped();
        send(&cat, libc::SIGCONT);
        // one that comes while it stands still
        let mut still = PtraceStop::of(cat.id()).unwrap();
        send(&cat, libc::SIGSTOP);
        still.inject().unwrap().finish().unwrap();
        drop(still);
        is_stopped();
        send(&cat, libc::SIGCONT);
        writeln!(stdin, "after").unwrap();
        assert_eq!(line(&mut stdout), "after");
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
            let Ok(mut still) = PtraceStop::of(shell.id()) else { break };
            still.inject().unwrap().finish().unwrap();
        }
        assert_eq!(shell.wait().unwrap().code(), Some(7));
    }

    #[test]
    fn a_process_that_has_ended_is_an_error() {
        let mut gone = Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        assert!(PtraceStop::of(gone.id()).is_err());
        assert!(!detach_late());
    }
}
