//! The buffers of an end of a test.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use linkrate_sys::memory::PageBuffer;

use crate::payload::{payload, shared_payload};

/// Most octets of the buffers of one way, unless one call has more.
const MAX_RING_BYTES: usize = 8 << 20;

const PAGE: usize = 4096;

/// Buffers that a test sends from or receives into, around and around.
///
/// They lie in their pages as those of netperf do, which come from the heap of glibc. Their place decides how fast the kernel copies: to
/// or from the beginning of a page a processor may be five times as fast, or wait for the stores of the copy before,
/// which have the same offset. And a receiver that is faster than its sender waits for each packet: waking it costs the
/// sender more than the copies did.
#[derive(Debug)]
pub struct Ring<M = PageBuffer> {
    memory: M,
    size: RingSize,
    next: usize,
}

/// How many buffers a ring has, and of how many octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSize {
    place: Place,
    call: usize,
    width: usize,
}

/// Where buffers lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Octets from the beginning of a page to the first one.
    first: usize,
    /// Octets from one to the next.
    stride: usize,
}

impl Place {
    /// That of buffers of `call` octets. netperf asks for 8 octets more, to align them.
    fn of(call: usize) -> Self {
        /// From this size on, each buffer has pages of its own.
        const PAGES: usize = 128 << 10;
        /// What the heap puts before a buffer that has pages of its own.
        const HEADER_OF_PAGES: usize = 16;
        /// What it puts before any other.
        const HEADER: usize = 8;
        /// The place of the first buffer that does not, in netperf 2.7.0.
        const FIRST: usize = 0x600;
        let asked = call + 8;
        match asked >= PAGES {
            true => Self {
                first: HEADER_OF_PAGES,
                stride: (asked + HEADER_OF_PAGES).next_multiple_of(PAGE),
            },
            false => Self { first: FIRST, stride: (asked + HEADER).next_multiple_of(16) },
        }
    }
}

impl RingSize {
    /// `width` buffers of `call` octets, or as many as a ring may have.
    #[must_use]
    pub fn of(call: usize, width: usize) -> Self {
        let call = call.max(1);
        let place = Place::of(call);
        let width = width.clamp(1, (MAX_RING_BYTES / place.stride).max(1));
        Self { place, call, width }
    }

    /// Octets of a call.
    #[must_use]
    pub fn call(&self) -> usize {
        self.call
    }

    /// Buffers.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Octets of memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.place.first + self.place.stride * self.width
    }
}

impl Ring {
    /// `width` buffers of `call` octets, or as many as a ring may have.
    pub fn of(call: usize, width: usize) -> io::Result<Self> {
        let size = RingSize::of(call, width);
        Ok(Self { memory: payload(size.bytes())?, size, next: 0 })
    }

    /// As many buffers as netperf has for a stream, where SO_SNDBUF or SO_RCVBUF is `buffer` octets.
    pub fn of_stream(call: u32, buffer: u32) -> io::Result<Self> {
        Self::of(call as usize, Self::width_of_stream(call, buffer) as usize)
    }

    /// One to receive into, whose pages are taken as they are filled.
    pub(crate) fn to_receive(size: RingSize) -> io::Result<Self> {
        Ok(Self { memory: PageBuffer::small(size.bytes())?, size, next: 0 })
    }

    /// The number of buffers that netperf has for a stream.
    #[must_use]
    pub fn width_of_stream(call: u32, buffer: u32) -> u32 {
        (buffer / call.max(1) + 1).max(2)
    }

    /// The buffer of the next call.
    #[must_use]
    pub fn next_buffer(&mut self) -> &mut [u8] {
        let buffer = self.next_range();
        &mut self.memory[buffer]
    }
}

impl Ring<Arc<PageBuffer>> {
    /// One to send from, whose memory all rings of the process share.
    pub(crate) fn to_send(size: RingSize) -> io::Result<Self> {
        Ok(Self { memory: shared_payload(size.bytes())?, size, next: 0 })
    }

    /// The payload of the next call.
    #[must_use]
    pub fn next_payload(&mut self) -> &[u8] {
        let buffer = self.next_range();
        &self.memory[buffer]
    }
}

impl<M> Ring<M> {
    /// Octets of a call.
    #[must_use]
    pub fn call(&self) -> usize {
        self.size.call
    }

    fn next_range(&mut self) -> Range<usize> {
        let RingSize { place, call, width } = self.size;
        let at = place.first + place.stride * self.next;
        self.next = (self.next + 1) % width;
        at..at + call
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where calls found their buffers, from the first one on, and the place of that one in its page.
    fn places(ring: &mut Ring, calls: usize) -> (usize, Vec<usize>) {
        let mut place = || ring.next_buffer().as_ptr() as usize;
        let first = place();
        (first % PAGE, (1..calls).map(|_| place() - first).collect())
    }

    #[test]
    fn buffers_lie_where_those_of_netperf_do() {
        // as strace shows those of netperf 2.7.0
        let mut sends = Ring::of_stream(16 << 10, 16 << 10).unwrap();
        assert_eq!(places(&mut sends, 4), (0x600, vec![0x4010, 0, 0x4010]));
        let mut receives = Ring::of_stream(128 << 10, 128 << 10).unwrap();
        assert_eq!(places(&mut receives, 4), (0x10, vec![0x21000, 0, 0x21000]));
    }

    #[test]
    fn calls_go_around_all_buffers() {
        let mut ring = Ring::of_stream(16 << 10, 40 << 10).unwrap();
        assert_eq!((ring.call(), ring.size.width()), (16 << 10, 3));
        for number in 0..9 {
            let buffer = ring.next_buffer();
            assert_eq!(buffer.len(), 16 << 10);
            let expected = if number < 3 { 0x5a } else { number - 3 };
            assert_eq!((buffer[0], buffer[16_383]), (expected, 0x5a));
            buffer[0] = number;
        }
    }

    #[test]
    fn memory_is_bounded_also_for_small_buffers() {
        let ring = Ring::of(1, usize::MAX).unwrap();
        assert!(ring.memory.len() <= MAX_RING_BYTES + PAGE, "{} octets", ring.memory.len());
        assert_eq!(RingSize::of(MAX_RING_BYTES + 1, 5).width(), 1);
    }

    #[test]
    fn a_ring_to_send_from_goes_around_the_payload() {
        let mut ring = Ring::to_send(RingSize::of(3000, 2)).unwrap();
        let first = ring.next_payload().as_ptr();
        assert_ne!(ring.next_payload().as_ptr(), first);
        let third = ring.next_payload();
        assert_eq!((third.as_ptr(), third.len(), third[2999]), (first, 3000, 0x5a));
    }
}
