//! Fields for each CPU, one cache line apart: eBPF programs write them, and this process reads them
//! from mapped memory.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{Instruction, SharedValue, code, function, step};
use crate::cpus;

/// Binary logarithm of the bytes that each CPU has: whole cache lines, so CPUs do not share lines.
const CPU_BYTES_LOG2: i32 = 8;

/// The fields of all possible CPUs, initially zero.
#[derive(Debug)]
pub(crate) struct PerCpuFields {
    value: SharedValue,
    memory: NonNull<AtomicU64>,
    mapped: usize,
    cpus: u32,
}

// SAFETY: the mapping belongs to this value and is read through atomics only.
unsafe impl Send for PerCpuFields {}
// SAFETY: as for Send.
unsafe impl Sync for PerCpuFields {}

impl PerCpuFields {
    /// # Errors
    /// `EPERM` without CAP_BPF, `ENOSYS` on a kernel without bpf(2).
    pub(crate) fn new() -> io::Result<Self> {
        let cpus = cpus::possible().map_err(io::Error::other)?;
        let cpus = cpus.iter().last().map_or(1, |last| last + 1).next_power_of_two();
        let bytes = cpus << CPU_BYTES_LOG2;
        let value = SharedValue::new(bytes)?;
        let mapped = (bytes as usize).next_multiple_of(rustix::param::page_size());
        // SAFETY: a new shared mapping at an address of the kernel's choice touches nothing.
        let memory = unsafe {
            let flags = MapFlags::SHARED;
            mmap(std::ptr::null_mut(), mapped, ProtFlags::READ, flags, value.descriptor(), 0)?
        };
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { value, memory, mapped, cpus })
    }

    /// Loads the address of the fields of the CPU that runs the program into r7; uses r0.
    pub(crate) fn find(&self) -> Vec<Instruction> {
        use code::*;
        let mut body = vec![
            step(CALL, 0, 0, 0, function::GET_SMP_PROCESSOR_ID),
            // CPU numbers are always below; the mask proves it to the verifier
            step(AND_NUMBER, 0, 0, 0, self.cpus as i32 - 1),
            step(SHIFT_LEFT, 0, 0, 0, CPU_BYTES_LOG2),
        ];
        body.extend(self.value.load_address(7));
        body.push(step(ADD, 7, 0, 0, 0));
        body
    }

    /// The field at `offset` bytes of `cpu`; `None` for an impossible CPU.
    pub(crate) fn read(&self, cpu: u32, offset: i16) -> Option<u64> {
        if cpu >= self.cpus {
            return None;
        }
        let bytes = ((cpu as usize) << CPU_BYTES_LOG2) + offset as usize;
        // SAFETY: the fields of a CPU below `cpus` lie within the mapping, which is aligned to a
        // page and lives as long as self; they are aligned 64-bit numbers that eBPF programs write
        // whole.
        Some(unsafe { self.memory.byte_add(bytes).as_ref() }.load(Ordering::Relaxed))
    }
}

/// Adds to field `sum` at r7 the time from field `since` until r0, unless `since` is zero; uses r1
/// to r3.
pub(crate) fn add_since(since: i16, sum: i16) -> [Instruction; 7] {
    use code::*;
    [
        step(LOAD, 1, 7, since, 0),
        // zero: it began before tracing started
        step(JUMP_IF_EQUAL, 1, 0, 5, 0),
        step(MOV_REGISTER, 3, 0, 0, 0),
        step(SUBTRACT, 3, 1, 0, 0),
        step(LOAD, 2, 7, sum, 0),
        step(ADD, 2, 3, 0, 0),
        step(STORE, 7, 2, sum, 0),
    ]
}

impl Drop for PerCpuFields {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nothing refers to it any more.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), self.mapped) };
        debug_assert!(unmapped.is_ok());
    }
}
