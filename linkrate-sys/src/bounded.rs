//! Reads and writes that end, whatever the peer does: at a deadline, or when a flag is set. Both are looked at on each
//! turn, also when octets arrive: a peer that trickles gains no time.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::socket::{receive_now, send_now, wait_ready, wait_writable};

/// Longest time until the flag is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Why a read or a write has ended before it was complete.
#[derive(Debug)]
pub enum Ended {
    /// The flag is set.
    Stopped,
    /// The deadline has passed.
    Late,
    /// The peer has closed its end.
    Closed,
    /// The socket has failed.
    Failed(io::Error),
}

/// When reads and writes end.
#[derive(Debug, Clone, Copy)]
pub struct Bound<'a> {
    deadline: Instant,
    stop: &'a AtomicBool,
}

impl<'a> Bound<'a> {
    /// At `deadline`, or when `stop` is set.
    #[must_use]
    pub fn until(deadline: Instant, stop: &'a AtomicBool) -> Self {
        Self { deadline, stop }
    }

    /// After `timeout`, or when `stop` is set.
    #[must_use]
    pub fn within(timeout: Duration, stop: &'a AtomicBool) -> Self {
        Self::until(Instant::now() + timeout, stop)
    }

    /// Reads what arrives first, at least one octet.
    pub fn read_some(self, socket: impl AsFd, octets: &mut [u8]) -> Result<usize, Ended> {
        let socket = socket.as_fd();
        loop {
            match receive_now(socket, octets) {
                Ok(0) => return Err(Ended::Closed),
                Ok(count) => return Ok(count),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(Ended::Failed(error)),
            }
            wait_ready(socket, false, self.pause()?).map_err(Ended::Failed)?;
        }
    }

    /// Fills `octets`.
    pub fn read_exact(self, socket: impl AsFd, octets: &mut [u8]) -> Result<(), Ended> {
        let socket = socket.as_fd();
        let mut have = 0;
        while have < octets.len() {
            if have > 0 {
                self.pause()?;
            }
            have += self.read_some(socket, &mut octets[have..])?;
        }
        Ok(())
    }

    /// Writes all of `octets`.
    pub fn write_all(self, socket: impl AsFd, mut octets: &[u8]) -> Result<(), Ended> {
        let socket = socket.as_fd();
        while !octets.is_empty() {
            match send_now(socket, octets) {
                Ok(count) => octets = &octets[count..],
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(Ended::Failed(error)),
            }
            if !octets.is_empty() {
                wait_writable(socket, self.pause()?).map_err(Ended::Failed)?;
            }
        }
        Ok(())
    }

    /// How long the next wait may be; an error where there is to be none.
    fn pause(self) -> Result<Duration, Ended> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Ended::Stopped);
        }
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(Ended::Late),
            left => Ok(left.min(POLL_INTERVAL)),
        }
    }
}

/// Whether a call failed for its time, and not for its connection. `TimedOut` is what a connection says whose peer does
/// not answer any more.
#[must_use]
pub fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A peer that sends an octet every 5 ms.
    fn trickle() -> UnixStream {
        let (near, mut far) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            while far.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        near
    }

    #[test]
    fn a_peer_that_trickles_gains_no_time() {
        let near = trickle();
        let begun = Instant::now();
        let stop = AtomicBool::new(false);
        let bound = Bound::within(Duration::from_millis(200), &stop);
        let ended = bound.read_exact(&near, &mut [0; 10_000]).unwrap_err();
        assert!(matches!(ended, Ended::Late), "{ended:?}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                stop.store(true, Ordering::Relaxed);
            });
            let bound = Bound::within(Duration::from_secs(60), &stop);
            let ended = bound.read_exact(&near, &mut [0; 100_000]).unwrap_err();
            assert!(matches!(ended, Ended::Stopped), "{ended:?}");
        });
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }

    #[test]
    fn a_peer_that_takes_little_gains_no_time() {
        let (near, mut far) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            while far.read(&mut [0; 64]).is_ok_and(|count| count > 0) {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let stop = AtomicBool::new(false);
        let begun = Instant::now();
        let bound = Bound::within(Duration::from_millis(200), &stop);
        let ended = bound.write_all(&near, &vec![0; 16 << 20]).unwrap_err();
        assert!(matches!(ended, Ended::Late), "{ended:?}");
        stop.store(true, Ordering::Relaxed);
        let bound = Bound::within(Duration::from_secs(60), &stop);
        let ended = bound.write_all(&near, &vec![0; 16 << 20]).unwrap_err();
        assert!(matches!(ended, Ended::Stopped), "{ended:?}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }

    #[test]
    fn what_is_there_is_read_and_an_end_is_told_from_a_stop() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let stopped = AtomicBool::new(true);
        far.write_all(b"four").unwrap();
        let bound = Bound::within(Duration::ZERO, &stopped);
        let mut octets = [0; 4];
        bound.read_exact(&near, &mut octets).unwrap();
        assert_eq!(&octets, b"four");
        assert!(matches!(bound.read_exact(&near, &mut octets), Err(Ended::Stopped)));
        drop(far);
        assert!(matches!(bound.read_exact(&near, &mut octets), Err(Ended::Closed)));
        assert!(matches!(bound.write_all(&near, b"x"), Err(Ended::Failed(_))));
    }
}
