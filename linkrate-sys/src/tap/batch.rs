//! Packets that are written to a queue of a TAP by one system call (io_uring(7)).

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};

use io_uring::{IoUring, opcode, types};

use super::write_vectored;

/// A packet behind its header, in pieces.
pub trait Packet {
    /// Calls `piece` for each piece, in order.
    fn for_each_piece<'a>(&'a self, piece: impl FnMut(&'a [u8]));
}

/// Pieces of a packet that go to the kernel without an allocation.
const PIECES: usize = 64;

/// Writes one packet.
pub fn write_packet(queue: impl AsFd, packet: &impl Packet) -> io::Result<usize> {
    let mut slices = [IoSlice::new(&[]); PIECES];
    let mut count = 0;
    let mut rest = Vec::new();
    packet.for_each_piece(|piece| {
        if piece.is_empty() {
            return;
        }
        match slices.get_mut(count) {
            Some(place) => {
                *place = IoSlice::new(piece);
                count += 1;
            }
            None => rest.push(IoSlice::new(piece)),
        }
    });
    if rest.is_empty() {
        return write_vectored(queue, &slices[..count]);
    }
    write_vectored(queue, &slices.into_iter().chain(rest).collect::<Vec<_>>())
}

/// A ring for writes to one queue, of the thread that opened it.
pub struct WriteRing(IoUring);

impl std::fmt::Debug for WriteRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteRing").finish_non_exhaustive()
    }
}

impl WriteRing {
    /// Most packets of one call.
    pub const MAX_PACKETS: usize = 64;

    /// A ring for writes to `queue` by the calling thread.
    ///
    /// # Errors
    /// Before Linux 6.1, where `kernel.io_uring_disabled` forbids it, and beyond the limit of descriptors.
    pub fn open(queue: impl AsFd) -> io::Result<Self> {
        // completions are taken by the thread that submits, and none of them interrupts it
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(Self::MAX_PACKETS as u32)?;
        ring.submitter().register_files(&[queue.as_fd().as_raw_fd()])?;
        Ok(Self(ring))
    }

    /// Writes up to [`MAX_PACKETS`](Self::MAX_PACKETS) packets, in order as long as the queue takes each at once, as a TAP does. Calls `written` with the place of each and what the write
    /// returned, as [`super::write_vectored`] does.
    pub fn write<P: Packet>(
        &mut self,
        packets: &[P],
        mut written: impl FnMut(usize, io::Result<usize>),
    ) {
        assert!(packets.len() <= Self::MAX_PACKETS, "{} packets", packets.len());
        let mut slices = Vec::with_capacity(4 * packets.len());
        let mut ends = [0; Self::MAX_PACKETS];
        for (packet, end) in packets.iter().zip(&mut ends) {
            packet.for_each_piece(|piece| {
                if !piece.is_empty() {
                    slices.push(IoSlice::new(piece));
                }
            });
            *end = slices.len();
        }
        let mut from = 0;
        for (place, end) in ends[..packets.len()].iter().enumerate() {
            let parts = &slices[from..*end];
            from = *end;
            // IoSlice has the layout of struct iovec
            let write =
                opcode::Writev::new(types::Fixed(0), parts.as_ptr().cast(), parts.len() as u32)
                    .build()
                    .user_data(place as u64);
            // SAFETY: the slices and what they borrow live until all have completed, below. The ring has room for
            // MOST entries, and was empty.
            unsafe { self.0.submission().push(&write) }.expect("room in the ring");
        }
        let mut left = packets.len();
        while left > 0 {
            match self.0.submit_and_wait(left) {
                Ok(_) => {}
                Err(error) if is_passing(&error) => {}
                // the kernel may still read what was submitted, so this thread must not continue
                Err(_) => std::process::abort(),
            }
            for completion in self.0.completion() {
                left -= 1;
                let result = match usize::try_from(completion.result()) {
                    Ok(bytes) => Ok(bytes),
                    Err(_) => Err(io::Error::from_raw_os_error(-completion.result())),
                };
                written(completion.user_data() as usize, result);
            }
        }
    }
}

/// Whether another try of the same call may succeed: a signal came, or memory is short for a moment.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::Once;

    use proptest::prelude::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::skip::skip;

    impl Packet for Vec<Vec<u8>> {
        fn for_each_piece<'a>(&'a self, piece: impl FnMut(&'a [u8])) {
            self.iter().map(Vec::as_slice).for_each(piece);
        }
    }

    /// A ring, unless this kernel has none, which is said once for all cases.
    fn ring(queue: impl AsFd) -> Option<WriteRing> {
        static SAID: Once = Once::new();
        let say = |error: &_| SAID.call_once(|| skip(format!("io_uring: {error}")));
        WriteRing::open(queue).inspect_err(say).ok()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn packets_arrive_whole_and_in_order(
            packets in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..80),
                // all of them fit into the buffer of a socket: one that waited would be overtaken
                0..=WriteRing::MAX_PACKETS / 2,
            ),
        ) {
            let pair = |kind| socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
            let (near, far) = pair(SocketType::SEQPACKET).unwrap();
            let Some(mut ring) = ring(&near) else { return Ok(()) };
            let packets: Vec<_> = packets.into_iter().filter(|packet| !packet.concat().is_empty()).collect();
            let reader = std::thread::spawn({
                let count = packets.len();
                move || -> Vec<Vec<u8>> {
                    let mut read = |_| {
                        let mut bytes = vec![0; 4096];
                        let length = rustix::io::read(&far, &mut bytes).unwrap();
                        bytes.truncate(length);
                        bytes
                    };
                    (0..2 * count).map(&mut read).collect()
                }
            });
            for packet in &packets {
                prop_assert_eq!(write_packet(&near, packet).unwrap(), packet.concat().len());
            }
            let mut lengths = vec![0; packets.len()];
            ring.write(&packets, |place, written| lengths[place] = written.unwrap());
            let sent: Vec<_> = packets.iter().map(|packet| packet.concat()).collect();
            prop_assert_eq!(lengths, sent.iter().map(Vec::len).collect::<Vec<_>>());
            prop_assert_eq!(reader.join().unwrap(), [&sent[..], &sent[..]].concat());
        }
    }

    #[test]
    fn each_packet_has_its_own_error() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let Some(mut ring) = ring(&near) else { return };
        let packet = vec![vec![1, 2, 3]];
        let mut results = Vec::new();
        ring.write(&[packet.clone(), packet.clone()], |_, result| results.push(result.unwrap()));
        assert_eq!(results, [3, 3]);
        far.read_exact(&mut [0; 6]).unwrap();
        drop(far);
        let mut errors = Vec::new();
        ring.write(&[packet.clone(), packet], |place, result| {
            errors.push((place, result.unwrap_err().kind()));
        });
        assert_eq!(errors, [(0, io::ErrorKind::BrokenPipe), (1, io::ErrorKind::BrokenPipe)]);
    }
}
