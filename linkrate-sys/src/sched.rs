//! CPU affinity, scheduling policy and CPU time of threads.

use std::fmt;
use std::fs;
use std::io;
use std::num::NonZeroU64;

use linkrate_model::CpuSet;
use rustix::thread::{Pid, sched_getaffinity, sched_setaffinity};

use crate::error::SysError;

/// A thread of this process, by its kernel id.
pub type ThreadId = i32;

/// Runs `body` on a thread of its own: what it does to its namespaces and descriptors ends with that thread.
///
/// # Errors
/// `EAGAIN` at a limit of threads; when `body` panics.
pub fn apart<T: Send>(body: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, body)?;
        thread.join().map_err(|_| io::Error::other("a thread panicked"))
    })
}

/// The calling thread's kernel id.
pub fn current_thread() -> ThreadId {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Binds `thread` of this process to `cpus`; `EINVAL` when none of the CPUs is online or allowed.
pub fn set_affinity(thread: ThreadId, cpus: &CpuSet) -> Result<(), SysError> {
    sched_setaffinity(Pid::from_raw(thread), &kernel_set(cpus)).map_err(|error| {
        let error = SysError::new(format!("bind to CPUs {cpus} thread"), thread.to_string(), error);
        match error.errno() {
            Some(libc::EINVAL) => {
                error.with_hint("they are not online, or a cpuset does not allow them any more")
            }
            _ => error,
        }
    })
}

/// The set in the kernel's format.
pub(crate) fn kernel_set(cpus: &CpuSet) -> rustix::thread::CpuSet {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| (*cpu as usize) < rustix::thread::CpuSet::MAX_CPU) {
        set.set(cpu as usize);
    }
    set
}

/// The CPUs `thread` may run on; `ESRCH` if the thread does not exist.
pub fn affinity(thread: ThreadId) -> Result<CpuSet, SysError> {
    let set = sched_getaffinity(Pid::from_raw(thread))
        .map_err(|error| SysError::new("read affinity of thread", thread.to_string(), error))?;
    let cpus = 0..rustix::thread::CpuSet::MAX_CPU;
    Ok(cpus.filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect())
}

/// Real-time priority of a NAPI poll, and that of meters and the controller, which go before it.
const NAPI: libc::c_int = 1;
const AHEAD: libc::c_int = 2;

/// Whether the caller may place threads of the kernel, as root of the whole machine may.
pub fn may_place_kernel_threads() -> bool {
    // kthreadd, which continues where it is; in a PID namespace of its own, a container has another process
    // there
    const KTHREADD: ThreadId = 2;
    let is_it = std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd");
    is_it && affinity(KTHREADD).is_ok_and(|cpus| set_affinity(KTHREADD, &cpus).is_ok())
}

/// Lets the calling thread run like a softirq (SCHED_FIFO, sched(7)): a program that it wakes does
/// not take the CPU from it. Threads that it starts do not inherit the priority.
///
/// # Errors
/// `EPERM` without CAP_SYS_NICE, or where the control group has no real-time run time.
pub fn become_napi() -> Result<(), SysError> {
    set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, NAPI)
        .map_err(|error| SysError::new("give real-time priority to", "the calling thread", error))
}

/// Lets the calling thread take its turn with all others (SCHED_OTHER, sched(7)).
pub fn become_normal() -> Result<(), SysError> {
    set_policy(libc::SCHED_OTHER, 0)
        .map_err(|error| SysError::new("end real-time priority of", "the calling thread", error))
}

/// Gives the calling thread priority over all others on its CPUs until dropped: SCHED_FIFO,
/// sched(7). A low nice value is not enough: among some dozens of busy threads, such a thread
/// waited up to 0.4 s. Without the privilege (CAP_SYS_NICE), the thread keeps its policy. Threads
/// that it starts meanwhile do not inherit the priority.
#[derive(Debug)]
pub struct Ahead {
    /// The thread; 0 for the calling one.
    of: ThreadId,
    /// Its policy before, which returns; `None` if it was not changed.
    before: Option<libc::c_int>,
}

impl Ahead {
    /// Raises the priority now.
    pub fn now() -> Self {
        Self::of(0)
    }

    /// Raises the priority of another thread of this process, which waits for nothing else: before it is
    /// asked for something urgent.
    pub fn of(thread: ThreadId) -> Self {
        Self::raised(thread, AHEAD)
    }

    /// Raises the priority of another thread of this process above all that have none, and not above the
    /// calling one if that is ahead itself: before the calling one waits for a lock of the kernel that the
    /// other may hold. Otherwise it would wait until the scheduler lets the other one run.
    pub fn lent_to(thread: ThreadId) -> Self {
        Self::raised(thread, NAPI)
    }

    fn raised(of: ThreadId, priority: libc::c_int) -> Self {
        // a thread with a priority of its own keeps it
        let ordinary =
            |policy: &libc::c_int| matches!(*policy, libc::SCHED_OTHER | libc::SCHED_BATCH);
        let before = policy_of(of).ok().filter(ordinary);
        let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        Self { of, before: before.filter(|_| set_policy_of(of, policy, priority).is_ok()) }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // lowering the priority needs no privilege
            let _ = set_policy_of(self.of, before, 0);
        }
    }
}

/// How a thread gets its CPU, sched(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Its policy, by the kernel's number.
    policy: libc::c_int,
    /// Its nice value, which only ordinary and batch threads obey.
    nice: i32,
}

impl Schedule {
    /// That of a thread of any process; `ESRCH` when it has ended.
    pub fn of(thread: ThreadId) -> Result<Self, SysError> {
        let read = || -> io::Result<Self> {
            let policy = policy_of(thread)?;
            let nice = rustix::process::getpriority_process(Pid::from_raw(thread))?;
            Ok(Self { policy, nice })
        };
        read().map_err(|error| SysError::new("read schedule of thread", thread.to_string(), error))
    }
}

impl fmt::Display for Schedule {
    /// `SCHED_OTHER, nice 10`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = match self.policy {
            libc::SCHED_OTHER => "SCHED_OTHER",
            libc::SCHED_FIFO => "SCHED_FIFO",
            libc::SCHED_RR => "SCHED_RR",
            libc::SCHED_BATCH => "SCHED_BATCH",
            libc::SCHED_IDLE => "SCHED_IDLE",
            other => return write!(f, "policy {other}, nice {}", self.nice),
        };
        write!(f, "{policy}, nice {}", self.nice)
    }
}

/// Makes the calling thread a batch thread, sched(7): when it wakes it waits for the running one
/// instead of taking its CPU.
pub fn become_batch() -> Result<(), SysError> {
    set_policy(libc::SCHED_BATCH, 0)
        .map_err(|error| SysError::new("set SCHED_BATCH for", "the calling thread", error))
}

/// Makes the calling thread run only when no other thread of its control group is ready on its CPU
/// (SCHED_IDLE, sched(7)). Against threads of other groups, the weight of the group counts. It
/// needs no privilege.
pub fn become_idle() -> Result<(), SysError> {
    set_policy(libc::SCHED_IDLE, 0)
        .map_err(|error| SysError::new("set SCHED_IDLE for", "the calling thread", error))
}

/// Sets the nice value of the calling thread, -20 to 19 (setpriority(2)).
///
/// # Errors
/// `EACCES` for a lower value than now without the privilege (CAP_SYS_NICE).
pub fn set_nice(nice: i32) -> Result<(), SysError> {
    // on Linux a nice value is a thread's, and no process number is the calling thread
    rustix::process::setpriority_process(None, nice)
        .map_err(|error| SysError::new("set nice value of", "the calling thread", error))
}

/// Sets the nice value of a thread of any process, -20 to 19 (setpriority(2)).
///
/// # Errors
/// `ESRCH` when it has ended, `EACCES` for a lower value than now without the privilege (CAP_SYS_NICE).
pub fn set_nice_of(thread: ThreadId, nice: i32) -> Result<(), SysError> {
    rustix::process::setpriority_process(Pid::from_raw(thread), nice)
        .map_err(|error| SysError::new("set nice value of thread", thread.to_string(), error))
}

fn set_policy(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    set_policy_of(0, policy, priority)
}

/// The policy of a thread, without what its children inherit; 0 is the calling one.
fn policy_of(thread: ThreadId) -> io::Result<libc::c_int> {
    // SAFETY: the call takes a number only.
    let policy = unsafe { libc::sched_getscheduler(thread) };
    if policy < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(policy & !libc::SCHED_RESET_ON_FORK)
}

/// Sets the policy of a thread; 0 is the calling one.
fn set_policy_of(thread: ThreadId, policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` is valid for the duration of the call, which takes nothing else but numbers.
    let result = unsafe { libc::sched_setscheduler(thread, policy, &parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the timer slack of the calling thread, ns (`PR_SET_TIMERSLACK`, prctl(2)): how late the
/// kernel may wake it to combine wake-ups. Zero restores the initial value, usually 50 µs. Threads
/// that it starts inherit it.
pub fn set_timer_slack_ns(ns: u64) -> Result<(), SysError> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(ns)).map_err(|error| {
        SysError::new(format!("set timer slack {ns} ns of"), "the calling thread", error)
    })
}

/// CPU time of `thread` of this process, user and system, ns. It includes softirqs that interrupted
/// the thread, unless the kernel accounts interrupts separately (CONFIG_IRQ_TIME_ACCOUNTING).
///
/// # Errors
/// When the thread has ended.
pub fn thread_cpu_ns(thread: ThreadId) -> Result<u64, SysError> {
    // MAKE_THREAD_CPUCLOCK with CPUCLOCK_SCHED, include/linux/posix-timers.h
    cpu_clock_ns((!thread << 3) | 6)
        .map_err(|error| SysError::new("read CPU time of thread", thread.to_string(), error))
}

/// CPU time of all threads of process `pid`, of any user, ns, including threads that have ended.
///
/// # Errors
/// If the process does not exist.
pub fn process_cpu_ns(pid: u32) -> Result<u64, SysError> {
    // MAKE_PROCESS_CPUCLOCK with CPUCLOCK_SCHED
    cpu_clock_ns((!pid.cast_signed() << 3) | 2)
        .map_err(|error| SysError::new("read CPU time of process", pid.to_string(), error))
}

/// CPU time of all threads of this process, s: user and system, getrusage(2).
pub fn own_cpu_seconds() -> io::Result<[f64; 2]> {
    usage(libc::RUSAGE_SELF)
}

/// The same of the calling thread.
pub fn own_thread_cpu_seconds() -> io::Result<[f64; 2]> {
    usage(libc::RUSAGE_THREAD)
}

fn usage(whose: libc::c_int) -> io::Result<[f64; 2]> {
    // SAFETY: rusage is plain data for which all zeroes is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid, writable rusage for the duration of the call.
    let result = unsafe { libc::getrusage(whose, &raw mut usage) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok([seconds(usage.ru_utime), seconds(usage.ru_stime)])
}

fn cpu_clock_ns(clock: libc::clockid_t) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec for the duration of the call.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    if result == 0 {
        Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// User time of `thread` of this process, ns in steps of one tick; the kernel scales sampled ticks
/// to the exact sum (kernel/sched/cputime.c, cputime_adjust).
///
/// # Errors
/// When the thread has ended.
pub fn thread_user_ns(thread: ThreadId) -> Result<u64, SysError> {
    let path = format!("/proc/self/task/{thread}/stat");
    let text = fs::read_to_string(&path).map_err(|error| SysError::new("read", &path, error))?;
    let ticks = parse_user_ticks(&text).ok_or_else(|| {
        SysError::new("read", &path, io::Error::new(io::ErrorKind::InvalidData, "no utime field"))
    })?;
    Ok(ticks * (1_000_000_000 / crate::procstat::ticks_per_second()))
}

/// utime of `/proc/PID/stat`, proc_pid_stat(5).
fn parse_user_ticks(stat: &str) -> Option<u64> {
    crate::processes::stat_field(stat, 14)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_policy_and_nice_value() {
        let own = || Schedule::of(current_thread()).unwrap();
        let (before, was) = (own(), own().nice);
        set_nice(was + 1).unwrap();
        assert_ne!(own(), before);
        become_batch().unwrap();
        assert_eq!(own().to_string(), format!("SCHED_BATCH, nice {}", was + 1));
        assert!(Schedule::of(0x3fff_fff0).is_err());
    }

    #[test]
    fn who_goes_ahead_goes_back() {
        // SAFETY: it takes a thread, 0 for the calling one, and only reads its policy.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        assert_eq!(policy(), libc::SCHED_OTHER);
        let ahead = Ahead::now();
        // without the privilege the policy stays as it was
        let expected = if ahead.before.is_some() { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
        assert_eq!(policy() & !libc::SCHED_RESET_ON_FORK, expected);
        let child = std::thread::spawn(move || {
            // SAFETY: as above.
            unsafe { libc::sched_getscheduler(0) }
        });
        assert_eq!(child.join().unwrap(), libc::SCHED_OTHER);
        drop(ahead);
        assert_eq!(policy(), libc::SCHED_OTHER);
    }

    #[test]
    fn a_batch_thread_that_went_ahead_is_a_batch_thread_again() {
        let policies = std::thread::spawn(|| {
            // SAFETY: it takes a thread, 0 for the calling one, and only reads its policy.
            let policy = || unsafe { libc::sched_getscheduler(0) };
            become_batch().unwrap();
            let lent = Ahead::lent_to(current_thread());
            let during = policy() & !libc::SCHED_RESET_ON_FORK;
            // a second one changes nothing, and neither does its end
            let is_lent = lent.before.is_some();
            drop(Ahead::of(current_thread()));
            assert_eq!(policy() & !libc::SCHED_RESET_ON_FORK, during);
            drop(lent);
            (during == libc::SCHED_FIFO, is_lent, policy())
        });
        let (is_ahead, is_lent, after) = policies.join().unwrap();
        assert_eq!((is_ahead, after), (is_lent, libc::SCHED_BATCH));
    }

    #[test]
    fn affinity_reads_back() {
        let before = affinity(current_thread()).unwrap();
        let one: CpuSet = before.iter().take(1).collect();
        set_affinity(current_thread(), &one).unwrap();
        assert_eq!(affinity(current_thread()).unwrap(), one);
        set_affinity(current_thread(), &before).unwrap();
        let none: CpuSet = [1000].into_iter().collect();
        let error = set_affinity(current_thread(), &none).unwrap_err();
        assert!(error.to_string().contains("CPUs 1000"), "{error}");
    }

    #[test]
    fn cpu_time_of_a_thread_grows_with_work() {
        let before = thread_cpu_ns(current_thread()).unwrap();
        let mut sum = 0u64;
        while thread_cpu_ns(current_thread()).unwrap() < before + 1_000_000 {
            sum = sum.wrapping_add(std::hint::black_box(1));
        }
        assert!(sum > 0);
        assert!(thread_user_ns(current_thread()).is_ok());
        assert!(thread_cpu_ns(0x3fff_fff0).is_err());
        assert!(process_cpu_ns(std::process::id()).unwrap() >= before);
        assert!(process_cpu_ns(0x3fff_fff0).is_err());
        let [user, system] = own_cpu_seconds().unwrap();
        assert!((user + system) * 1e9 >= before as f64 * 0.5, "{user} {system}");
        let of_thread: f64 = own_thread_cpu_seconds().unwrap().iter().sum();
        assert!(of_thread > 0.0 && of_thread <= user + system + 0.1, "{of_thread}");
    }

    #[test]
    fn a_hostile_thread_name_does_not_shift_the_fields() {
        let stat = "7 (a) b) c) S 1 1 1 0 -1 0 0 0 0 0 42 17 0 0 20 0 1 0 1 0 0";
        assert_eq!(parse_user_ticks(stat), Some(42));
        assert_eq!(parse_user_ticks("7 (x"), None);
    }
}
