//! The controller's end of the protocol.
//!
//! Requests are numbered. A reply to an earlier request, which came too late, is discarded. A
//! connection that was lost once stays lost: its agent may be in any state.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linkrate_protocol::framing::FrameBuffer;
use linkrate_protocol::{
    HELLO_NUMBER, Refusal, Reply, Request, cleaned, decode_reply, write_message,
};
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::socket::{wait_ready, wait_writable};

/// Time that an agent may take for any request except a measurement.
pub const TIMEOUT: Duration = Duration::from_secs(15);

/// How often a wait checks whether the user interrupted.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Why a request has no usable reply.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// It refused, and is ready for the next request.
    #[error("{0}")]
    Refused(Refusal),
    /// It has ended, does not answer, or its replies make no sense.
    #[error("agent of {host}: {reason}")]
    Lost { host: String, reason: String },
    #[error("interrupted")]
    Interrupted,
}

#[derive(Debug)]
pub struct Connection {
    host: String,
    stream: File,
    arrived: FrameBuffer,
    /// The number of the latest request; the first is not numbered.
    asked: Option<u64>,
    /// Why the connection was lost.
    lost: Option<String>,
    stop: Arc<AtomicBool>,
}

impl Connection {
    /// A connection over a socket, whose other end may be the agent or the stdio of any program that
    /// reaches one. `stop` ends every wait.
    pub fn new(host: String, socket: OwnedFd, stop: Arc<AtomicBool>) -> Self {
        Self {
            host,
            stream: socket.into(),
            arrived: FrameBuffer::default(),
            asked: None,
            lost: None,
            stop,
        }
    }

    /// A second connection to the same agent, over `socket`, on which nobody says hello.
    #[must_use]
    pub fn beside(&self, socket: OwnedFd) -> Self {
        let beside = Self::new(self.host.clone(), socket, Arc::clone(&self.stop));
        Self { asked: Some(HELLO_NUMBER), ..beside }
    }

    /// Sends a request without waiting for its reply.
    pub fn send(&mut self, request: &Request) -> Result<(), AgentError> {
        self.check()?;
        let number = self.asked.map_or(HELLO_NUMBER, |number| number + 1);
        self.asked = Some(number);
        self.wait_writable()?;
        write_message(&mut &self.stream, number, request).map_err(|error| self.broken(error))
    }

    /// Waits for the reply to the latest request.
    pub fn receive(&mut self, timeout: Duration) -> Result<Reply, AgentError> {
        self.check()?;
        let deadline = Instant::now() + timeout;
        loop {
            let frame = match self.arrived.take() {
                Ok(Some(frame)) => frame,
                Ok(None) => {
                    self.await_more(deadline, timeout)?;
                    continue;
                }
                Err(error) => return Err(self.broken(error)),
            };
            let (number, reply) = match decode_reply(&frame) {
                Ok(decoded) => decoded,
                Err(error) => return Err(self.lost(cleaned(&error.to_string()))),
            };
            match self.asked {
                Some(asked) if number == asked => {}
                // too late: a refusal elsewhere had ended the run before this reply was read
                Some(asked) if number < asked && number != HELLO_NUMBER => continue,
                _ => return Err(self.lost(format!("it sent reply {number} without a request"))),
            }
            return match reply {
                Reply::Refused(refusal) => Err(AgentError::Refused(refusal)),
                reply => Ok(reply),
            };
        }
    }

    /// Why it was lost, once it was.
    pub fn why_lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Refuses to continue after a loss.
    fn check(&self) -> Result<(), AgentError> {
        match &self.lost {
            Some(reason) => {
                Err(AgentError::Lost { host: self.host.clone(), reason: reason.clone() })
            }
            None => Ok(()),
        }
    }

    /// An agent that reads nothing must not block the controller in a write.
    fn wait_writable(&mut self) -> Result<(), AgentError> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(AgentError::Interrupted);
            }
            match wait_writable(self.stream.as_fd(), POLL_INTERVAL) {
                Ok(true) => return Ok(()),
                Ok(false) if Instant::now() >= deadline => {
                    return Err(self.lost(format!("takes no request in {} s", TIMEOUT.as_secs())));
                }
                Ok(false) => {}
                Err(error) => return Err(self.lost(error)),
            }
        }
    }

    /// Waits until more of a frame has arrived. It never blocks inside a frame, so that an agent that
    /// stalls there delays neither an interrupt nor the deadline.
    fn await_more(&mut self, deadline: Instant, timeout: Duration) -> Result<(), AgentError> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(AgentError::Interrupted);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.lost(format!("no answer within {} s", timeout.as_secs())));
            }
            match wait_ready(self.stream.as_fd(), false, left.min(POLL_INTERVAL)) {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => return Err(self.lost(error)),
            }
        }
        let mut part = [0; 16 << 10];
        match self.stream.read(&mut part) {
            Ok(0) => Err(self.lost("died")),
            Ok(count) => {
                self.arrived.add(&part[..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Waits until `deadline_ns` of CLOCK_MONOTONIC; ends early when the user interrupts, or the agent
    /// sends data unasked or dies.
    pub fn pause_until(&mut self, deadline_ns: u64) -> Result<(), AgentError> {
        self.check()?;
        let paused = self.glance_until(deadline_ns, |glance| {
            match wait_ready(self.stream.as_fd(), false, glance) {
                Ok(true) => Ok(Some("died".to_owned())),
                Ok(false) => Ok(None),
                Err(error) => Ok(Some(error.to_string())),
            }
        });
        paused?.map_or(Ok(()), |reason| Err(self.lost(reason)))
    }

    /// Sleeps until `deadline_ns` of CLOCK_MONOTONIC; ends early when the user interrupts.
    pub fn sleep_until(&self, deadline_ns: u64) -> Result<(), AgentError> {
        self.glance_until(deadline_ns, |glance| {
            std::thread::sleep(glance);
            Ok(None)
        })
        .map(drop)
    }

    /// Calls `wait` for [`POLL_INTERVAL`] at most, again and again until the deadline, and checks in between
    /// whether the user interrupted. Returns the reason of `wait` to end early.
    fn glance_until(
        &self,
        deadline_ns: u64,
        wait: impl Fn(Duration) -> Result<Option<String>, AgentError>,
    ) -> Result<Option<String>, AgentError> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(AgentError::Interrupted);
            }
            let left = Duration::from_nanos(deadline_ns.saturating_sub(monotonic_ns()));
            if left.is_zero() {
                return Ok(None);
            }
            if let Some(reason) = wait(left.min(POLL_INTERVAL))? {
                return Ok(Some(reason));
            }
        }
    }

    /// Sends a request and waits for its reply.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, AgentError> {
        self.send(request)?;
        self.receive(TIMEOUT)
    }

    /// The error for a reply of the wrong kind, after which the connection is lost.
    pub fn unexpected(&mut self, asked: &str) -> AgentError {
        self.lost(format!("its reply does not belong to {asked}"))
    }

    /// The carrier of an agent that died breaks in one of several ways: a socket is reset when a
    /// request was still unread.
    fn broken(&mut self, error: io::Error) -> AgentError {
        match error.kind() {
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::UnexpectedEof => self.lost("died"),
            _ => self.lost(error),
        }
    }

    fn lost(&mut self, reason: impl std::fmt::Display) -> AgentError {
        let reason = self.lost.get_or_insert(reason.to_string()).clone();
        AgentError::Lost { host: self.host.clone(), reason }
    }
}

/// Sends `$request` and matches the reply with `$pattern`; a reply of another kind is an error.
macro_rules! expect_reply {
    ($connection:expr, $request:expr, $pattern:pat => $value:expr) => {
        match $connection.ask(&$request) {
            Ok($pattern) => Ok($value),
            Ok(_) => Err($connection.unexpected(stringify!($pattern))),
            Err(error) => Err(error),
        }
    };
}
pub(crate) use expect_reply;

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair(stop: bool) -> (Connection, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        let stop = Arc::new(AtomicBool::new(stop));
        (Connection::new("sut".to_owned(), here.into(), stop), there)
    }

    #[test]
    fn an_agent_that_dies_is_lost_by_name() {
        let (mut connection, there) = pair(false);
        drop(there);
        let error = connection.ask(&Request::Clock).unwrap_err();
        assert_eq!(error.to_string(), "agent of sut: died");
    }

    #[test]
    fn an_agent_that_dies_with_a_request_unread_is_lost_by_the_same_name() {
        let (mut connection, there) = pair(false);
        connection.send(&Request::Clock).unwrap();
        drop(there);
        let error = connection.receive(TIMEOUT).unwrap_err();
        assert_eq!(error.to_string(), "agent of sut: died");
    }

    #[test]
    fn an_agent_that_dies_in_the_middle_of_a_reply_is_lost_by_the_same_name() {
        let (mut connection, mut there) = pair(false);
        there.write_all(&[0, 0, 0, 9, b'{']).unwrap();
        drop(there);
        let error = connection.receive(TIMEOUT).unwrap_err();
        assert_eq!(error.to_string(), "agent of sut: died");
    }

    #[test]
    fn an_agent_that_lies_about_a_length_is_lost() {
        let (mut connection, mut there) = pair(false);
        there.write_all(&[0xff; 16]).unwrap();
        let error = connection.receive(TIMEOUT).unwrap_err();
        assert!(error.to_string().contains("frame of 4294967295 bytes"), "{error}");
    }

    fn clock(at: u64) -> Reply {
        Reply::Clock { monotonic_ns: at }
    }

    #[test]
    fn a_reply_to_an_earlier_request_does_not_answer_a_later_one() {
        let (mut connection, mut there) = pair(false);
        for _ in 0..3 {
            connection.send(&Request::Clock).unwrap();
        }
        for number in 0..3 {
            write_message(&mut there, number, &clock(number)).unwrap();
        }
        // the first is hello, whose number none may repeat
        let error = connection.receive(TIMEOUT).unwrap_err();
        assert_eq!(error.to_string(), "agent of sut: it sent reply 0 without a request");

        let (mut connection, mut there) = pair(false);
        for _ in 0..3 {
            connection.send(&Request::Clock).unwrap();
        }
        write_message(&mut there, 1, &clock(1)).unwrap();
        write_message(&mut there, 2, &clock(2)).unwrap();
        assert_eq!(connection.receive(TIMEOUT).unwrap(), clock(2));
    }

    #[test]
    fn a_reply_after_the_deadline_answers_nothing_and_the_connection_stays_lost() {
        let (mut connection, mut there) = pair(false);
        connection.send(&Request::Clock).unwrap();
        assert!(connection.receive(Duration::from_millis(1)).is_err());
        write_message(&mut there, 0, &clock(1)).unwrap();
        for _ in 0..2 {
            let error = connection.ask(&Request::Clock).unwrap_err();
            assert_eq!(error.to_string(), "agent of sut: no answer within 0 s");
        }
    }

    #[test]
    fn an_agent_that_reads_nothing_does_not_block_the_controller() {
        let (mut connection, _there) = pair(false);
        let stop = Arc::clone(&connection.stop);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
        });
        let error = loop {
            if let Err(error) = connection.send(&Request::Clock) {
                break error;
            }
        };
        assert!(matches!(error, AgentError::Interrupted), "{error}");
    }

    #[test]
    fn an_agent_that_says_nothing_runs_out_of_patience() {
        let (mut connection, _there) = pair(false);
        let error = connection.receive(Duration::from_millis(1)).unwrap_err();
        assert!(matches!(error, AgentError::Lost { .. }));
    }

    #[test]
    fn an_agent_that_stalls_inside_a_frame_runs_out_of_patience_too() {
        let (mut connection, mut there) = pair(false);
        there.write_all(&[0, 0, 0, 9, b'{']).unwrap();
        let error = connection.receive(Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("no answer"), "{error}");
    }

    #[test]
    fn a_pause_ends_when_the_agent_dies() {
        let (mut connection, there) = pair(false);
        drop(there);
        let error = connection.pause_until(u64::MAX).unwrap_err();
        assert_eq!(error.to_string(), "agent of sut: died");
    }

    #[test]
    fn a_wait_ends_when_the_user_interrupts() {
        let (mut connection, _there) = pair(true);
        assert!(matches!(connection.receive(TIMEOUT), Err(AgentError::Interrupted)));
    }
}
