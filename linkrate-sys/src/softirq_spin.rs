//! A softirq of known length: a socket whose filter spins and notes for how long.
//!
//! The filter is an eBPF program. For each
//! datagram it runs where the socket's receive processing runs, reads CLOCK_MONOTONIC over and over until
//! 4 ms have passed, adds the time it really took to a sum, and drops the datagram, so that no
//! process is woken. The sum is what the kernel spent in these softirqs by a clock, whatever its
//! books of CPU time say.

use std::mem::size_of;
use std::net::UdpSocket;

use crate::bpf::{Instruction, Program, ProgramType, SharedValue, code, function, step};
use crate::error::{SysError, SysResult};

/// How long the filter spins for each datagram, ns; the last look at the clock comes a little later.
pub const SPIN_NS: u64 = 4_000_000;

/// Rounds after which the filter gives up: the verifier walks through all of them.
const MOST_ROUNDS: i32 = 8000;

/// Looks at the clock in a round, so that few rounds take long.
const CLOCK_READS: usize = 32;

/// What the filter has done since it was attached.
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
    /// Makes the filter and attaches it to `socket`, which from then on receives nothing.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF or CAP_SYS_ADMIN, `ENOSYS` on a kernel without bpf(2).
    pub fn attach(socket: &UdpSocket) -> SysResult<Self> {
        let failed = |operation: &str, error| SysError::new(operation, "a spinning filter", error);
        let sums = SharedValue::new(size_of::<Spun>() as u32);
        let sums = sums.map_err(|error| failed("make sums for", error))?;
        let filter = Program::load(ProgramType::SocketFilter, &program(&sums));
        let filter = filter.map_err(|error| failed("load", error))?;
        filter.filter(socket).map_err(|error| failed("attach", error))?;
        Ok(Self { sums })
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// As bpf(2).
    pub fn spun(&self) -> SysResult<Spun> {
        let failed = |error| SysError::new("read the sums of", "a spinning filter", error);
        let sums = self.sums.read().map_err(failed)?;
        Ok(Spun { ns: sums[0], datagrams: sums[1] })
    }
}

/// r6: when it began, r7: rounds, r8: time spent.
fn program(sums: &SharedValue) -> Vec<Instruction> {
    use code::*;
    let clock = step(CALL, 0, 0, 0, function::KTIME_GET_NS);
    let mut program = vec![clock, step(MOV_REGISTER, 6, 0, 0, 0), step(MOV_NUMBER, 7, 0, 0, 0)];
    // one round; its length is what the jump back goes over
    let round = CLOCK_READS as i16 + 5;
    program.extend([clock; CLOCK_READS]);
    program.extend([
        step(MOV_REGISTER, 8, 0, 0, 0),
        step(SUBTRACT, 8, 6, 0, 0),
        step(JUMP_IF_NOT_LESS, 8, 0, 2, SPIN_NS as i32),
        step(ADD_NUMBER, 7, 0, 0, 1),
        step(JUMP_IF_LESS, 7, 0, -round, MOST_ROUNDS),
    ]);
    program.extend(sums.load_address(1));
    program.extend([
        step(ATOMIC_ADD, 1, 8, 0, 0),
        step(MOV_NUMBER, 2, 0, 0, 1),
        step(ATOMIC_ADD, 1, 2, 8, 0),
        // keep no byte of the datagram
        step(MOV_NUMBER, 0, 0, 0, 0),
        step(EXIT, 0, 0, 0, 0),
    ]);
    program
}

/// Runs `body` on `cpu`, with what sends a datagram from there to a socket with the filter, and the filter.
#[cfg(test)]
pub(crate) fn sending_on(cpu: u32, body: impl FnOnce(&dyn Fn(), &SoftirqSpin) + Send + 'static) {
    use crate::sched;
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let spin = SoftirqSpin::attach(&receiver).unwrap();
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

    #[test]
    fn each_datagram_takes_its_time_and_is_dropped() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        let spin = match SoftirqSpin::attach(&receiver) {
            Ok(spin) => spin,
            Err(error) => {
                println!("SKIPPED each_datagram_takes_its_time_and_is_dropped: {error}");
                return;
            }
        };
        assert_eq!(spin.spun().unwrap(), Spun::default());
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = monotonic_ns();
        for _ in 0..3 {
            sender.send_to(&[1], receiver.local_addr().unwrap()).unwrap();
        }
        // another CPU may still be at it
        while spin.spun().unwrap().datagrams < 3 && monotonic_ns() < before + 1_000_000_000 {}
        let (spun, took) = (spin.spun().unwrap(), monotonic_ns() - before);
        assert_eq!(spun.datagrams, 3);
        assert!(spun.ns >= 3 * SPIN_NS && spun.ns <= took, "{spun:?} in {took} ns");
        assert!(receiver.recv(&mut [0]).is_err(), "the datagram must not arrive");
    }
}
