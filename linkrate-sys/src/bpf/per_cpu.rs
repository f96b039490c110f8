//! A cache line of numbers for each CPU, which eBPF programs write and this process reads as memory.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{Instruction, SharedValue, code, function, step};
use crate::cpus;

/// Bytes of a line.
const LINE_BYTES_LOG2: i32 = 6;

/// The lines of all CPUs that may ever be there, zero at first.
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
        let bytes = cpus << LINE_BYTES_LOG2;
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

    /// Puts the address of the line of the CPU that runs the program into r7; uses r0.
    pub(crate) fn find(&self) -> Vec<Instruction> {
        use code::*;
        let mut body = vec![
            step(CALL, 0, 0, 0, function::GET_SMP_PROCESSOR_ID),
            // there is none above; the verifier has to see it
            step(AND_NUMBER, 0, 0, 0, self.cpus as i32 - 1),
            step(SHIFT_LEFT, 0, 0, 0, LINE_BYTES_LOG2),
        ];
        body.extend(self.value.load_address(7));
        body.push(step(ADD, 7, 0, 0, 0));
        body
    }

    /// The number that is `offset` bytes from the beginning of the line of `cpu`; `None` for a CPU that
    /// cannot be there.
    pub(crate) fn read(&self, cpu: u32, offset: i16) -> Option<u64> {
        if cpu >= self.cpus {
            return None;
        }
        let bytes = ((cpu as usize) << LINE_BYTES_LOG2) + offset as usize;
        // SAFETY: the line of a CPU below `cpus` lies within the mapping, which is aligned to a page
        // and lives as long as self; its fields are aligned numbers of 64 bits that the kernel's
        // programs write whole.
        Some(unsafe { self.memory.byte_add(bytes).as_ref() }.load(Ordering::Relaxed))
    }
}

/// In the line of r7: adds to the field `sum` what has passed since the moment in the field `since`, if
/// there is one, until that in r0; uses r1 to r3.
pub(crate) fn add_since(since: i16, sum: i16) -> [Instruction; 7] {
    use code::*;
    [
        step(LOAD, 1, 7, since, 0),
        // it began before anybody watched
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
