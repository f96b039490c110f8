//! A test over one connection, whose end another thread watches.
//!
//! A time-out of a socket costs the kernel a timer for each call that sleeps, and a look at the clock before each call
//! costs too: some per cent of a fast stream. So the calls of such a test wait as long as they like. The other thread
//! looks, and shuts the connection down when the test is over: then a call that waits returns.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Runs `test` over `socket`, which loses its time-outs. Another thread asks `watch`, which says how long it need not be
/// asked again, or that the test is over: then the connection is shut down. `way` is what the test waits for: to
/// receive, to send, or both. The test begins when the other thread has asked for the first time: a thread that begins
/// takes the CPU from the first calls, which the kernel sizes the receive buffer by. A `watch` that panics ends the
/// test too, which is an error then.
pub fn guarded<T>(
    socket: &mut TcpStream,
    way: Shutdown,
    mut watch: impl FnMut() -> ControlFlow<(), Duration> + Send,
    test: impl FnOnce(&mut TcpStream) -> T,
) -> io::Result<T> {
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)?;
    let (has_left, theirs) = (AtomicBool::new(false), socket.try_clone()?);
    let (begun, has_begun) = channel();
    let has_left = &has_left;
    thread::scope(|scope| {
        let watcher = thread::Builder::new().name("watch".to_owned());
        let watcher = watcher.spawn_scoped(scope, move || {
            let _on_panic = ShutOnPanic(&theirs, way);
            let mut next = watch();
            // the other thread waits for exactly this
            let _ = begun.send(());
            while !has_left.load(Ordering::Relaxed) {
                match next {
                    ControlFlow::Continue(pause) => thread::park_timeout(pause),
                    ControlFlow::Break(()) => {
                        // one that is closed needs no end
                        let _ = theirs.shutdown(way);
                        return;
                    }
                }
                next = watch();
            }
        })?;
        let ended = has_begun.recv().map(|()| test(socket));
        has_left.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        match (ended, watcher.join()) {
            (Ok(ended), Ok(())) => Ok(ended),
            _ => Err(io::Error::other("the thread that watches the test panicked")),
        }
    })
}

/// Shuts a connection down when its thread panics.
struct ShutOnPanic<'a>(&'a TcpStream, Shutdown);

impl Drop for ShutOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // one that is closed needs no end
            let _ = self.0.shutdown(self.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn calls_that_wait_return_when_the_watch_ends_the_test() {
        for way in [Shutdown::Read, Shutdown::Write] {
            let (mut near, _far) = pair();
            let until = Instant::now() + Duration::from_millis(50);
            let watch = || match until.saturating_duration_since(Instant::now()) {
                Duration::ZERO => ControlFlow::Break(()),
                left => ControlFlow::Continue(left),
            };
            let ended = guarded(&mut near, way, watch, |near| match way {
                Shutdown::Read => near.read(&mut [0]).map(|octets| octets > 0),
                // nobody reads it, so a call waits sooner or later
                _ => loop {
                    if let Err(error) = near.write(&[0; 65_536]) {
                        break Err(error);
                    }
                },
            });
            match ended.unwrap() {
                Ok(has_received) => assert!(!has_received && way == Shutdown::Read),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::BrokenPipe),
            }
            assert!(Instant::now() >= until);
        }
    }

    #[test]
    fn a_watch_that_panics_ends_the_test() {
        for looks in [0, 1] {
            let (mut near, _far) = pair();
            let mut left = looks;
            let watch = move || {
                assert!(left > 0, "no look is left");
                left -= 1;
                ControlFlow::Continue(Duration::from_millis(1))
            };
            let ended = guarded(&mut near, Shutdown::Read, watch, |near| near.read(&mut [0]));
            assert!(ended.is_err(), "after {looks} looks");
        }
    }

    #[test]
    fn a_test_that_ends_by_itself_does_not_wait_for_the_watch() {
        let (mut near, mut far) = pair();
        let watch = || ControlFlow::Continue(Duration::from_secs(3600));
        assert_eq!(guarded(&mut near, Shutdown::Both, watch, |_| 7).unwrap(), 7);
        near.write_all(b"x").unwrap();
        assert_eq!(far.read(&mut [0]).unwrap(), 1, "the connection is open");
    }
}
