//! Work of known length: a socket filter that spins, and records for how long; and the same in one thread or process.
//!
//! The filter is an eBPF program. For each datagram it runs on the CPU of the receive processing.
//! It reads CLOCK_MONOTONIC until its time has passed, adds the measured time to a sum, and drops
//! the datagram, so that no process is woken, or lets it arrive. The sum is the time in these softirqs by a clock that is
//! independent of the CPU times of the kernel.

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;

use crate::bpf::{Instruction, Program, ProgramType, SharedValue, code, end, function, step};
use crate::error::{SysError, SysResult};

/// What a filter does with each datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spin {
    /// How long it spins, ns, up to [`MAX_NS`]; the last reading of the clock is slightly later.
    pub ns: u32,
    /// Whether the datagram arrives at its socket afterwards, and wakes who waits there.
    pub arrives: bool,
}

/// The longest spin, ns.
pub const MAX_NS: u32 = 4_000_000;

/// The most rounds of the filter; the verifier follows each of them.
const MAX_ROUNDS: i32 = 8000;

/// Readings of the clock in a round, so that few rounds take long enough.
const CLOCK_READS: usize = 32;

/// Work of the filter since it was attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spun {
    /// CLOCK_MONOTONIC from the beginning of each spin to its end, summed, ns.
    pub ns: u64,
    /// Datagrams.
    pub datagrams: u64,
}

/// The filter of a socket.
#[derive(Debug)]
pub struct SoftirqSpin {
    sums: SharedValue,
}

impl SoftirqSpin {
    /// Creates the filter and attaches it to `socket`, in place of one that was there.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF or CAP_SYS_ADMIN, `ENOSYS` on a kernel without bpf(2).
    pub fn attach(socket: &UdpSocket, spin: Spin) -> SysResult<Self> {
        let failed = |operation: &str, error| SysError::new(operation, "a spinning filter", error);
        let sums = SharedValue::new(size_of::<Spun>() as u32);
        let sums = sums.map_err(|error| failed("create sums for", error))?;
        let filter = Program::load(ProgramType::SocketFilter, &program(&sums, spin));
        let filter = filter.map_err(|error| failed("load", error))?;
        filter.filter(socket).map_err(|error| failed("attach", error))?;
        Ok(Self { sums })
    }

    /// Its work so far.
    pub fn spun(&self) -> SysResult<Spun> {
        spun(&self.sums)
    }
}

fn spun(sums: &SharedValue) -> SysResult<Spun> {
    let failed = |error| SysError::new("read the sums of", "a spinning filter", error);
    let sums = sums.read().map_err(failed)?;
    Ok(Spun { ns: sums[0], datagrams: sums[1] })
}

/// Who spins at a tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spinner {
    /// This thread.
    Thread(u32),
    /// All threads of this process.
    Process(u32),
}

/// A spin in the work of a thread or process, as long as this value lives.
#[derive(Debug)]
pub struct ThreadSpin {
    sums: SharedValue,
    _attached: OwnedFd,
}

impl ThreadSpin {
    /// Spins for `ns` each time `spinner` passes the tracepoint.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF and CAP_PERFMON, `ENOENT` on a kernel without this tracepoint.
    pub fn attach(tracepoint: &CStr, spinner: Spinner, ns: u32) -> SysResult<Self> {
        let attach = || -> io::Result<Self> {
            let sums = SharedValue::new(size_of::<Spun>() as u32)?;
            let program =
                Program::load(ProgramType::RawTracepoint, &thread_program(&sums, spinner, ns))?;
            Ok(Self { _attached: program.trace(tracepoint)?, sums })
        };
        attach().map_err(|error| SysError::new("attach", "a spinning program", error))
    }

    /// Its work so far, each pass as a datagram.
    pub fn spun(&self) -> SysResult<Spun> {
        spun(&self.sums)
    }
}

fn thread_program(sums: &SharedValue, spinner: Spinner, ns: u32) -> Vec<Instruction> {
    use code::*;
    let (half, id) = match spinner {
        Spinner::Thread(thread) => (step(MOV_WORD, 0, 0, 0, 0), thread),
        Spinner::Process(process) => (step(SHIFT_RIGHT, 0, 0, 0, 32), process),
    };
    let mut program = vec![step(CALL, 0, 0, 0, function::GET_CURRENT_PID_TGID), half];
    program.push(step(JUMP_IF_EQUAL, 0, 0, 2, id as i32));
    program.extend(end());
    program.extend(spin_for(sums, ns));
    program.extend(end());
    program
}

fn program(sums: &SharedValue, spin: Spin) -> Vec<Instruction> {
    use code::*;
    let mut program = spin_for(sums, spin.ns);
    program.extend([
        // the number of bytes to keep of the datagram
        step(MOV_NUMBER, 0, 0, 0, if spin.arrives { i32::from(u16::MAX) } else { 0 }),
        step(EXIT, 0, 0, 0, 0),
    ]);
    program
}

/// r6: start time, r7: rounds, r8: time spent.
fn spin_for(sums: &SharedValue, ns: u32) -> Vec<Instruction> {
    use code::*;
    let clock = step(CALL, 0, 0, 0, function::KTIME_GET_NS);
    let mut program = vec![clock, step(MOV_REGISTER, 6, 0, 0, 0), step(MOV_NUMBER, 7, 0, 0, 0)];
    // one round; its length is the distance of the backward jump
    let round = CLOCK_READS as i16 + 5;
    program.extend([clock; CLOCK_READS]);
    program.extend([
        step(MOV_REGISTER, 8, 0, 0, 0),
        step(SUBTRACT, 8, 6, 0, 0),
        step(JUMP_IF_NOT_LESS, 8, 0, 2, ns.min(MAX_NS) as i32),
        step(ADD_NUMBER, 7, 0, 0, 1),
        step(JUMP_IF_LESS, 7, 0, -round, MAX_ROUNDS),
    ]);
    program.extend(sums.load_address(1));
    program.extend([
        step(ATOMIC_ADD, 1, 8, 0, 0),
        step(MOV_NUMBER, 2, 0, 0, 1),
        step(ATOMIC_ADD, 1, 2, 8, 0),
    ]);
    program
}

/// A long spin that drops.
#[cfg(test)]
pub(crate) const LONG: Spin = Spin { ns: MAX_NS, arrives: false };

/// Calls `body` on `cpu` with a function that sends a datagram to a socket with the filter, and
/// with the filter.
#[cfg(test)]
pub(crate) fn sending_on(cpu: u32, body: impl FnOnce(&dyn Fn(), &SoftirqSpin) + Send + 'static) {
    use crate::sched;
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let spin = SoftirqSpin::attach(&receiver, LONG).unwrap();
    let address = receiver.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        sched::set_affinity(sched::current_thread(), &[cpu].into_iter().collect()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let send = || assert_eq!(sender.send_to(&[1], address).unwrap(), 1);
        body(&send, &spin);
    });
    thread.join().unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_ns;
    use crate::sched;

    #[test]
    fn each_datagram_takes_its_time_and_is_dropped() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        let spin = or_skip!(SoftirqSpin::attach(&receiver, LONG));
        assert_eq!(spin.spun().unwrap(), Spun::default());
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = monotonic_ns();
        for _ in 0..3 {
            sender.send_to(&[1], receiver.local_addr().unwrap()).unwrap();
        }
        // the filter may still run on another CPU
        while spin.spun().unwrap().datagrams < 3 && monotonic_ns() < before + 1_000_000_000 {}
        let (spun, took) = (spin.spun().unwrap(), monotonic_ns() - before);
        assert_eq!(spun.datagrams, 3);
        assert!(spun.ns >= 3 * u64::from(MAX_NS) && spun.ns <= took, "{spun:?} in {took} ns");
        assert!(receiver.recv(&mut [0]).is_err(), "the datagram must not arrive");

        // a short one that lets the datagram arrive takes its place
        let short = SoftirqSpin::attach(&receiver, Spin { ns: 20_000, arrives: true }).unwrap();
        sender.send_to(&[7], receiver.local_addr().unwrap()).unwrap();
        receiver.set_nonblocking(false).unwrap();
        let mut octet = [0];
        assert_eq!((receiver.recv(&mut octet).unwrap(), octet), (1, [7]));
        let spun = short.spun().unwrap();
        assert!(spun.datagrams == 1 && spun.ns >= 20_000, "{spun:?}");
    }

    #[test]
    fn one_thread_or_process_spins() {
        let own = sched::current_thread() as u32;
        for (spinner, passes) in [
            (Spinner::Thread(own), 3),
            (Spinner::Process(std::process::id()), 3),
            (Spinner::Thread(own + 1_000_000), 0),
        ] {
            let spin = or_skip!(ThreadSpin::attach(c"sys_enter", spinner, 20_000));
            (0..3).for_each(|_| std::thread::yield_now());
            let spun = spin.spun().unwrap();
            // reading the sums is a pass too
            assert!(spun.datagrams >= passes, "{spinner:?} {spun:?}");
            assert!(passes > 0 || spun.datagrams == 0, "{spinner:?} {spun:?}");
            assert!(spun.ns >= 20_000 * spun.datagrams, "{spinner:?} {spun:?}");
        }
    }
}
