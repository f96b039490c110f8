//! eBPF programs and their data, bpf(2): instructions
//! (Documentation/bpf/standardization/instruction-set.rst), a value that a program and this process
//! share, and attachment of programs.

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub(crate) mod loaded;
pub(crate) mod per_cpu;
pub(crate) mod per_cpu_hash;

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP_ELEM: libc::c_long = 1;
const PROG_LOAD: libc::c_long = 5;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const MAP_TYPE_ARRAY: u32 = 2;

/// The value can be mapped into memory.
const F_MMAPABLE: u32 = 1 << 10;

/// The kind of object that a program is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramType {
    SocketFilter = 1,
    RawTracepoint = 17,
}

/// Tracepoints of interrupts that do not exist on each machine, beginning and end. Those of
/// `irq_vectors` exist on x86 only.
pub(crate) const INTERRUPTS: [(&CStr, &CStr); 7] = [
    (c"irq_handler_entry", c"irq_handler_exit"),
    (c"local_timer_entry", c"local_timer_exit"),
    (c"reschedule_entry", c"reschedule_exit"),
    (c"call_function_entry", c"call_function_exit"),
    (c"call_function_single_entry", c"call_function_single_exit"),
    (c"irq_work_entry", c"irq_work_exit"),
    (c"x86_platform_ipi_entry", c"x86_platform_ipi_exit"),
];

/// `PWR_EVENT_EXIT` (include/trace/events/power.h), the state of the tracepoint `cpu_idle` at the end of an idle state.
pub(crate) const EXIT_STATE: i32 = -1;

/// The functions that programs call.
pub(crate) mod function {
    pub(crate) const MAP_LOOKUP_ELEM: i32 = 1;
    pub(crate) const MAP_UPDATE_ELEM: i32 = 2;
    pub(crate) const KTIME_GET_NS: i32 = 5;
    pub(crate) const GET_SMP_PROCESSOR_ID: i32 = 8;
    pub(crate) const GET_CURRENT_PID_TGID: i32 = 14;
    pub(crate) const GET_CURRENT_COMM: i32 = 16;
}

/// The operations in use, as `code` of an [`Instruction`].
pub(crate) mod code {
    pub(crate) const JUMP: u8 = 0x05;
    pub(crate) const ADD_NUMBER: u8 = 0x07;
    pub(crate) const ADD: u8 = 0x0f;
    pub(crate) const JUMP_IF_EQUAL: u8 = 0x15;
    pub(crate) const LOAD_MAP_VALUE: u8 = 0x18;
    pub(crate) const SUBTRACT: u8 = 0x1f;
    pub(crate) const JUMP_IF_NOT_LESS: u8 = 0x35;
    pub(crate) const JUMP_IF_NOT_EQUAL: u8 = 0x55;
    pub(crate) const AND_NUMBER: u8 = 0x57;
    pub(crate) const SHIFT_LEFT: u8 = 0x67;
    pub(crate) const SHIFT_RIGHT: u8 = 0x77;
    pub(crate) const LOAD: u8 = 0x79;
    pub(crate) const STORE: u8 = 0x7b;
    pub(crate) const CALL: u8 = 0x85;
    pub(crate) const EXIT: u8 = 0x95;
    pub(crate) const JUMP_IF_LESS: u8 = 0xa5;
    pub(crate) const MOV_WORD_NUMBER: u8 = 0xb4;
    pub(crate) const MOV_NUMBER: u8 = 0xb7;
    pub(crate) const MOV_WORD: u8 = 0xbc;
    pub(crate) const MOV_REGISTER: u8 = 0xbf;
    pub(crate) const ATOMIC_ADD: u8 = 0xdb;
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

pub(crate) fn step(
    code: u8,
    destination: u8,
    source: u8,
    offset: i16,
    immediate: i32,
) -> Instruction {
    Instruction { code, registers: registers(destination, source), offset, immediate }
}

/// The end of a program whose result is not used.
pub(crate) fn end() -> [Instruction; 2] {
    [step(code::MOV_NUMBER, 0, 0, 0, 0), step(code::EXIT, 0, 0, 0, 0)]
}

/// Two fields of four bits, in the order of the machine (include/uapi/linux/bpf.h).
fn registers(destination: u8, source: u8) -> u8 {
    if cfg!(target_endian = "little") {
        destination | source << 4
    } else {
        destination << 4 | source
    }
}

/// `union bpf_attr` for BPF_MAP_CREATE.
#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// `union bpf_attr` for BPF_MAP_LOOKUP_ELEM.
#[repr(C)]
#[derive(Default)]
struct MapLookup {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// `union bpf_attr` for BPF_PROG_LOAD.
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
    name: [u8; NAME_BYTES],
}

/// `BPF_OBJ_NAME_LEN`, linux/bpf.h.
const NAME_BYTES: usize = 16;

/// The name of each program of linkrate.
const NAME: [u8; NAME_BYTES] = *b"linkrate\0\0\0\0\0\0\0\0";

/// `union bpf_attr` for BPF_RAW_TRACEPOINT_OPEN.
#[repr(C)]
struct RawTracepoint {
    name: u64,
    program_fd: u32,
    padding: u32,
}

/// A value shared with eBPF programs, initially zero: an array map with one entry.
#[derive(Debug)]
pub(crate) struct SharedValue {
    map: OwnedFd,
    bytes: u32,
}

impl SharedValue {
    /// # Errors
    /// `EPERM` without CAP_BPF or CAP_SYS_ADMIN, `ENOSYS` on a kernel without bpf(2).
    pub(crate) fn new(bytes: u32) -> io::Result<Self> {
        let attributes = MapCreate {
            map_type: MAP_TYPE_ARRAY,
            key_size: size_of::<u32>() as u32,
            value_size: bytes,
            max_entries: 1,
            map_flags: F_MMAPABLE,
        };
        // SAFETY: the attributes are those of this command; it keeps no pointer.
        let map = unsafe { bpf(MAP_CREATE, &attributes) };
        Ok(Self { map: owned(map)?, bytes })
    }

    /// Two instructions that load the address of the value into a register.
    pub(crate) fn load_address(&self, register: u8) -> [Instruction; 2] {
        const PSEUDO_MAP_VALUE: u8 = 2;
        [
            step(code::LOAD_MAP_VALUE, register, PSEUDO_MAP_VALUE, 0, self.map.as_raw_fd()),
            step(0, 0, 0, 0, 0),
        ]
    }

    /// The present value as 64-bit numbers.
    pub(crate) fn read(&self) -> io::Result<Vec<u64>> {
        let key = 0u32;
        let mut value = vec![0u64; self.bytes as usize / size_of::<u64>()];
        let attributes = MapLookup {
            map_fd: self.map.as_raw_fd() as u32,
            key: &raw const key as u64,
            value: value.as_mut_ptr() as u64,
            ..MapLookup::default()
        };
        // SAFETY: the attributes are those of this command; key and value have the sizes that the
        // map was made with (`bytes` is a multiple of 8) and outlive the call.
        match unsafe { bpf(MAP_LOOKUP_ELEM, &attributes) } {
            0 => Ok(value),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.map
    }
}

/// A program that the kernel has verified.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// # Errors
    /// `EPERM` without privilege, `EINVAL` or `EACCES` if the verifier refuses the program.
    pub(crate) fn load(kind: ProgramType, instructions: &[Instruction]) -> io::Result<Self> {
        let attributes = ProgramLoad {
            program_type: kind as u32,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: c"MIT".as_ptr() as u64,
            name: NAME,
            ..ProgramLoad::default()
        };
        // SAFETY: the attributes are those of this command; the instructions and the licence they
        // point to live until it returns, and the kernel copies them.
        let program = unsafe { bpf(PROG_LOAD, &attributes) };
        Ok(Self(owned(program)?))
    }

    /// Attaches the program to `socket` as its filter.
    pub(crate) fn filter(&self, socket: &UdpSocket) -> io::Result<()> {
        let number = self.0.as_raw_fd();
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
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Attaches the program to the tracepoint `name` until the result is dropped.
    ///
    /// # Errors
    /// `ENOENT` if the kernel has no such tracepoint, `EPERM` without CAP_PERFMON.
    pub(crate) fn trace(&self, name: &CStr) -> io::Result<OwnedFd> {
        let attributes = RawTracepoint {
            name: name.as_ptr() as u64,
            program_fd: self.0.as_raw_fd() as u32,
            padding: 0,
        };
        // SAFETY: the attributes are those of this command; the name outlives the call.
        owned(unsafe { bpf(RAW_TRACEPOINT_OPEN, &attributes) })
    }
}

/// # Safety
/// `attributes` must be what `command` reads and writes, and what it points to must be valid.
unsafe fn bpf_mut<T>(command: libc::c_long, attributes: &mut T) -> libc::c_long {
    // SAFETY: as the caller promises; the size is that of the attributes.
    unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *mut T, size_of::<T>()) }
}

/// # Safety
/// `attributes` must be what `command` reads, and what it points to must be valid.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> libc::c_long {
    // SAFETY: as the caller promises; the size is that of the attributes.
    unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *const T, size_of::<T>()) }
}

fn owned(descriptor: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(descriptor) {
        // SAFETY: the kernel has just created the descriptor for this process; it has no other
        // owner.
        Ok(number) if number >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
        _ => Err(io::Error::last_os_error()),
    }
}
