//! Page-aligned memory for payload.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::{io, slice};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Size of a huge page on x86-64 and on arm64 with 4 KiB pages.
const HUGE_PAGE: usize = 2 << 20;

/// Zeroed memory that begins at a page, on huge pages where the kernel grants them. The kernel
/// copies whole aligned pages fastest, and pages of one huge page share a reference count.
#[derive(Debug)]
pub struct PageBuffer {
    memory: NonNull<u8>,
    length: usize,
    mapped: usize,
}

// SAFETY: the mapping belongs to this value alone, as a Vec's allocation does.
unsafe impl Send for PageBuffer {}
// SAFETY: shared access is read-only, through Deref.
unsafe impl Sync for PageBuffer {}

impl PageBuffer {
    /// `length` bytes of zeroes.
    pub fn zeroed(length: usize) -> io::Result<Self> {
        let buffer = Self::mapped(length, length.max(1).next_multiple_of(HUGE_PAGE))?;
        // SAFETY: advice on the mapping just made; without huge pages it is refused, harmlessly.
        let _ =
            unsafe { madvise(buffer.memory.as_ptr().cast(), buffer.mapped, Advice::LinuxHugepage) };
        Ok(buffer)
    }

    /// `length` bytes of zeroes on as few pages as they need, for buffers of which there may be many.
    pub fn small(length: usize) -> io::Result<Self> {
        // munmap(2) takes the whole last page with it
        Self::mapped(length, length.max(1))
    }

    fn mapped(length: usize, mapped: usize) -> io::Result<Self> {
        // SAFETY: a new private mapping at an address of the kernel's choice changes no other
        // memory.
        let memory = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, length, mapped })
    }

    /// A buffer with `content`.
    #[cfg(test)]
    pub(crate) fn of(content: &[u8]) -> io::Result<Self> {
        let mut buffer = Self::zeroed(content.len())?;
        buffer.copy_from_slice(content);
        Ok(buffer)
    }
}

impl Deref for PageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `length` bytes are mapped, initialised by the kernel, and live as long as self.
        unsafe { slice::from_raw_parts(self.memory.as_ptr(), self.length) }
    }
}

impl DerefMut for PageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for Deref, and `self` is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr(), self.length) }
    }
}

impl Drop for PageBuffer {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nothing refers to it any more; pages
        // the kernel still sends keep their own references.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), self.mapped) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Lets the C library keep freed memory instead of giving it back to the kernel.
///
/// Returning and reallocating memory changes the page tables of the process. Each change interrupts
/// every CPU that runs one of its threads (TLB flush), the CPUs of the system under test too.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        const KEPT_BYTES: libc::c_int = 256 << 20;
        const AHEAD_BYTES: libc::c_int = 1 << 20;
        // SAFETY: mallopt takes two integers and has no precondition.
        unsafe {
            libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
            libc::mallopt(libc::M_TOP_PAD, AHEAD_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_begins_at_a_page_and_keeps_its_content() {
        let content: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
        let buffer = PageBuffer::of(&content).unwrap();
        assert_eq!(buffer.as_ptr() as usize % 4096, 0);
        assert_eq!(&buffer[..], content);
        assert_eq!(PageBuffer::zeroed(0).unwrap().len(), 0);
    }
}
