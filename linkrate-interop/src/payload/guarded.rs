//! A test over one connection, whose end another thread watches.
//!
//! A time-out of a socket costs the kernel a timer for each call that sleeps, and a look at the clock before each call
//! costs too: some per cent of a fast stream. So the calls of such a test wait as long as they like. The other thread
//! looks, and shuts the connection down when the test is over: then a call that waits returns.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Runs `test` over `socket`, which loses its time-outs. Another thread asks `watch`, which says how long it need not be
/// asked again, or that the test is over: then the connection is shut down. `way` is what the test waits for: to
/// receive, to send, or both. The test begins when the other thread has asked for the first time: a thread that begins
/// takes the CPU from the first calls, which the kernel sizes the receive buffer by.
pub fn guarded<T>(
    socket: &mut TcpStream,
    way: Shutdown,
    mut watch: impl FnMut() -> ControlFlow<(), Duration> + Send,
    test: impl FnOnce(&mut TcpStream) -> T,
) -> io::Result<T> {
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)?;
    let (has_left, theirs) = (AtomicBool::new(false), socket.try_clone()?);
    let has_begun = Barrier::new(2);
    thread::scope(|scope| {
        let watcher = thread::Builder::new().name("watch".to_owned());
        let watcher = watcher.spawn_scoped(scope, || {
            let mut next = watch();
            has_begun.wait();
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
        has_begun.wait();
        let ended = test(socket);
        has_left.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        Ok(ended)
    })
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
    fn a_test_that_ends_by_itself_does_not_wait_for_the_watch() {
        let (mut near, mut far) = pair();
        let watch = || ControlFlow::Continue(Duration::from_secs(3600));
        assert_eq!(guarded(&mut near, Shutdown::Both, watch, |_| 7).unwrap(), 7);
        near.write_all(b"x").unwrap();
        assert_eq!(far.read(&mut [0]).unwrap(), 1, "the connection is open");
    }
}
