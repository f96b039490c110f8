//! A softirq of known length: a socket whose filter spins and notes for how long.
//!
//! The filter is an eBPF program (bpf(2), Documentation/bpf/standardization/instruction-set.rst). For each
//! datagram it runs where the socket's receive processing runs, reads CLOCK_MONOTONIC over and over until
//! 2 ms have passed, adds the time it really took to a sum, and drops the datagram, so that no
//! process is woken. The sum is what the kernel spent in these softirqs by a clock, whatever its
//! books of CPU time say.

use std::io;
use std::mem::size_of;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::error::{SysError, SysResult};

/// How long the filter spins for each datagram, ns; the last look at the clock comes a little later.
pub const SPIN_NS: u64 = 2_000_000;

/// Rounds after which the filter gives up: the verifier walks through all of them.
const MOST_ROUNDS: i32 = 4000;

/// Looks at the clock in a round, so that few rounds take long.
const CLOCK_READS: usize = 32;

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;
const BPF_FUNC_KTIME_GET_NS: i32 = 5;

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// `union bpf_attr` as BPF_MAP_CREATE reads it.
#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// The same for BPF_MAP_LOOKUP_ELEM.
#[repr(C)]
#[derive(Default)]
struct MapLookup {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The same for BPF_PROG_LOAD.
#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buffer: u64,
    kernel_version: u32,
    flags: u32,
}

/// What the filter has done since it was attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Spun {
    /// CLOCK_MONOTONIC from the beginning of each spin to its end, summed, ns.
    pub ns: u64,
    /// Datagrams.
    pub datagrams: u64,
}

impl Spun {
    /// What was done since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            ns: self.ns.saturating_sub(earlier.ns),
            datagrams: self.datagrams.saturating_sub(earlier.datagrams),
        }
    }
}

/// The filter of a socket.
#[derive(Debug)]
pub struct SoftirqSpin {
    sums: OwnedFd,
}

impl SoftirqSpin {
    /// Makes the filter and attaches it to `socket`, which from then on receives nothing.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF or CAP_SYS_ADMIN, `ENOSYS` on a kernel without bpf(2).
    pub fn attach(socket: &UdpSocket) -> SysResult<Self> {
        let failed = |operation: &str, error| SysError::new(operation, "a spinning filter", error);
        let attributes = MapCreate {
            map_type: BPF_MAP_TYPE_ARRAY,
            key_size: size_of::<u32>() as u32,
            value_size: size_of::<Spun>() as u32,
            max_entries: 1,
            map_flags: 0,
        };
        // SAFETY: the attributes are those of this command; it keeps no pointer.
        let sums = unsafe { bpf(BPF_MAP_CREATE, &attributes) };
        let sums = owned(sums).map_err(|error| failed("make sums for", error))?;
        let program = program(sums.as_raw_fd());
        let attributes = ProgramLoad {
            program_type: BPF_PROG_TYPE_SOCKET_FILTER,
            instruction_count: program.len() as u32,
            instructions: program.as_ptr() as u64,
            license: c"MIT".as_ptr() as u64,
            ..ProgramLoad::default()
        };
        // SAFETY: the attributes are those of this command; the instructions and the licence they
        // point to live until it returns, and the kernel copies them.
        let filter = unsafe { bpf(BPF_PROG_LOAD, &attributes) };
        let filter = owned(filter).map_err(|error| failed("load", error))?;
        let number = filter.as_raw_fd();
        // SAFETY: the option's value is the int that `number` is, valid during the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_BPF,
                (&raw const number).cast(),
                size_of::<i32>() as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(failed("attach", io::Error::last_os_error()));
        }
        Ok(Self { sums })
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// As bpf(2).
    pub fn spun(&self) -> SysResult<Spun> {
        let key = 0u32;
        let mut spun = Spun::default();
        let attributes = MapLookup {
            map_fd: self.sums.as_raw_fd() as u32,
            key: &raw const key as u64,
            value: &raw mut spun as u64,
            ..MapLookup::default()
        };
        // SAFETY: the attributes are those of this command; key and value have the sizes that the
        // map was made with and outlive the call.
        let result = unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &attributes) };
        match result {
            0 => Ok(spun),
            _ => Err(SysError::last_os("read the sums of", "a spinning filter")),
        }
    }
}

/// # Safety
/// `attributes` must be what `command` reads, and what it points to must be valid.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> libc::c_long {
    // SAFETY: as the caller promises; the size is that of the attributes.
    unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *const T, size_of::<T>()) }
}

fn owned(descriptor: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(descriptor) {
        // SAFETY: the kernel has just made it for this process, and nobody else knows of it.
        Ok(number) if number >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// r6: when it began, r7: rounds, r8: time spent.
fn program(sums: i32) -> Vec<Instruction> {
    const MOV_REGISTER: u8 = 0xbf;
    const MOV_NUMBER: u8 = 0xb7;
    const SUBTRACT: u8 = 0x1f;
    const ADD_NUMBER: u8 = 0x07;
    const CALL: u8 = 0x85;
    const JUMP_IF_LESS: u8 = 0xa5;
    const JUMP_IF_NOT_LESS: u8 = 0x35;
    const LOAD_MAP_VALUE: u8 = 0x18;
    const ATOMIC_ADD: u8 = 0xdb;
    const EXIT: u8 = 0x95;
    const PSEUDO_MAP_VALUE: u8 = 2;
    let step = |code, destination: u8, source: u8, offset, immediate| Instruction {
        code,
        registers: registers(destination, source),
        offset,
        immediate,
    };
    let clock = step(CALL, 0, 0, 0, BPF_FUNC_KTIME_GET_NS);
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
        step(LOAD_MAP_VALUE, 1, PSEUDO_MAP_VALUE, 0, sums),
        step(0, 0, 0, 0, 0),
        step(ATOMIC_ADD, 1, 8, 0, 0),
        step(MOV_NUMBER, 2, 0, 0, 1),
        step(ATOMIC_ADD, 1, 2, 8, 0),
        // keep no byte of the datagram
        step(MOV_NUMBER, 0, 0, 0, 0),
        step(EXIT, 0, 0, 0, 0),
    ]);
    program
}

/// Two bit fields of four, whose order is the machine's (include/uapi/linux/bpf.h).
fn registers(destination: u8, source: u8) -> u8 {
    if cfg!(target_endian = "little") {
        destination | source << 4
    } else {
        destination << 4 | source
    }
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
