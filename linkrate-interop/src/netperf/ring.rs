//! The buffers of an end of a test.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::sync::Arc;

use linkrate_sys::memory::PageBuffer;

use crate::payload::{Fill, payload, shared_payload};

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

/// Where each buffer begins: as many octets behind a multiple of others as netperf's `-o` and `-a` say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// A power of two, up to a page.
    pub alignment: u32,
    /// At most [`MAX_OFFSET`](Self::MAX_OFFSET).
    pub offset: u32,
}

impl Placement {
    /// Most octets of an offset.
    pub const MAX_OFFSET: u32 = 64 << 10;

    /// One within its bounds.
    #[must_use]
    pub fn of(alignment: u32, offset: u32) -> Option<Self> {
        let is_bounded =
            alignment.is_power_of_two() && alignment as usize <= PAGE && offset <= Self::MAX_OFFSET;
        is_bounded.then_some(Self { alignment, offset })
    }
}

impl Default for Placement {
    fn default() -> Self {
        Self { alignment: 8, offset: 0 }
    }
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
    /// That of buffers of `call` octets. netperf asks for more, to align them.
    fn of(call: usize, placement: Placement) -> Self {
        /// From this size on, each buffer has pages of its own.
        const PAGES: usize = 128 << 10;
        /// What the heap puts before a buffer that has pages of its own.
        const HEADER_OF_PAGES: usize = 16;
        /// What it puts before any other.
        const HEADER: usize = 8;
        /// The place of the first buffer that does not, in netperf 2.7.0.
        const FIRST: usize = 0x600;
        let [alignment, offset] = [placement.alignment, placement.offset].map(|part| part as usize);
        let asked = call + alignment + offset;
        let (first, stride) = match asked >= PAGES {
            true => (HEADER_OF_PAGES, (asked + HEADER_OF_PAGES).next_multiple_of(PAGE)),
            false => (FIRST, (asked + HEADER).next_multiple_of(alignment.max(16))),
        };
        Self { first: first.next_multiple_of(alignment) + offset, stride }
    }
}

impl RingSize {
    /// `width` buffers of `call` octets, or as many as a ring may have.
    #[must_use]
    pub fn of(call: usize, width: usize, placement: Placement) -> Self {
        let call = call.max(1);
        let place = Place::of(call, placement);
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
    /// One of this size.
    pub fn of(size: RingSize) -> io::Result<Self> {
        Ok(Self { memory: payload(size.bytes(), Fill::Constant)?, size, next: 0 })
    }

    /// Fills all buffers from a file, which begins again where it is shorter.
    pub fn fill_from(&mut self, file: &mut File) -> io::Result<()> {
        for _ in 0..self.size.width {
            let mut buffer = self.next_buffer();
            let mut is_at_beginning = false;
            while !buffer.is_empty() {
                match file.read(buffer) {
                    Ok(0) if is_at_beginning => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(0) => {
                        file.rewind()?;
                        is_at_beginning = true;
                    }
                    Ok(octets) => {
                        buffer = &mut buffer[octets..];
                        is_at_beginning = false;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// One to receive into, whose pages are taken as they are filled.
    pub(crate) fn to_receive(size: RingSize) -> io::Result<Self> {
        Ok(Self { memory: PageBuffer::small(size.bytes())?, size, next: 0 })
    }

    /// The number of buffers that netperf has for a stream, where SO_SNDBUF or SO_RCVBUF is `buffer` octets.
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
        Ok(Self { memory: shared_payload(size.bytes(), Fill::Constant)?, size, next: 0 })
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
    use linkrate_sys::unnamed_file::memory_file;

    use super::*;

    /// As netperf has it for a stream.
    fn of_stream(call: u32, buffer: u32) -> Ring {
        let width = Ring::width_of_stream(call, buffer) as usize;
        Ring::of(RingSize::of(call as usize, width, Placement::default())).unwrap()
    }

    /// Where calls found their buffers, from the first one on, and the place of that one in its page.
    fn places(ring: &mut Ring, calls: usize) -> (usize, Vec<usize>) {
        let mut place = || ring.next_buffer().as_ptr() as usize;
        let first = place();
        (first % PAGE, (1..calls).map(|_| place() - first).collect())
    }

    #[test]
    fn buffers_lie_where_those_of_netperf_do() {
        // as strace shows those of netperf 2.7.0
        let mut sends = of_stream(16 << 10, 16 << 10);
        assert_eq!(places(&mut sends, 4), (0x600, vec![0x4010, 0, 0x4010]));
        let mut receives = of_stream(128 << 10, 128 << 10);
        assert_eq!(places(&mut receives, 4), (0x10, vec![0x21000, 0, 0x21000]));
    }

    #[test]
    fn calls_go_around_all_buffers() {
        let mut ring = of_stream(16 << 10, 40 << 10);
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
    fn a_file_fills_all_buffers_again_and_again() {
        let of = |content: &[u8]| {
            let mut ring = Ring::of(RingSize::of(5, 2, Placement::default())).unwrap();
            ring.fill_from(&mut memory_file(content).unwrap())
                .map(|()| [(); 3].map(|()| String::from_utf8(ring.next_buffer().to_vec()).unwrap()))
        };
        assert_eq!(of(b"linkrate").unwrap(), ["linkr", "ateli", "linkr"]);
        assert_eq!(of(b"").unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn buffers_begin_where_they_are_asked_to() {
        for (alignment, offset, call) in [(4096, 16, 1400), (64, 3, 200_000), (1, 0, 1)] {
            let placement = Placement::of(alignment, offset).unwrap();
            let mut ring = Ring::of(RingSize::of(call, 3, placement)).unwrap();
            for _ in 0..4 {
                let place = ring.next_buffer().as_ptr() as u32;
                assert_eq!(place % alignment, offset % alignment, "{alignment} {offset} {call}");
            }
        }
        assert_eq!(
            [(0, 0), (12, 0), (8192, 0), (8, 1 << 20)].map(|(to, at)| Placement::of(to, at)),
            [None; 4]
        );
    }

    #[test]
    fn memory_is_bounded_also_for_small_buffers() {
        let ring = Ring::of(RingSize::of(1, usize::MAX, Placement::default())).unwrap();
        assert!(ring.memory.len() <= MAX_RING_BYTES + PAGE, "{} octets", ring.memory.len());
        assert_eq!(RingSize::of(MAX_RING_BYTES + 1, 5, Placement::default()).width(), 1);
    }

    #[test]
    fn a_ring_to_send_from_goes_around_the_payload() {
        let mut ring = Ring::to_send(RingSize::of(3000, 2, Placement::default())).unwrap();
        let first = ring.next_payload().as_ptr();
        assert_ne!(ring.next_payload().as_ptr(), first);
        let third = ring.next_payload();
        assert_eq!((third.as_ptr(), third.len(), third[2999]), (first, 3000, 0x5a));
    }
}
