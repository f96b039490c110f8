//! A control connection with bounded waits.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linkrate_sys::connect;
use linkrate_sys::socket::wait_ready;
use linkrate_sys::tcp_info::tcp_info;

use super::ClientError;
use crate::payload::is_passing;

/// How often a wait checks whether the user interrupts.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a server may take for one answer, and a connection to be made.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Control {
    stream: TcpStream,
    stop: Arc<AtomicBool>,
}

impl Control {
    /// Connects. `stop` ends each wait.
    pub fn connect(
        server: impl Into<SocketAddr>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, ClientError> {
        Self::connect_with(server.into(), &connect::Options::default(), TIMEOUT, stop)
    }

    /// Connects within `timeout`, from an address and with options.
    pub fn connect_with(
        server: SocketAddr,
        options: &connect::Options,
        timeout: Duration,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, ClientError> {
        let unreachable = |reason| ClientError::Unreachable { server, reason };
        let stream = connect::tcp(server, options, timeout).map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        stream.set_read_timeout(Some(POLL_INTERVAL)).map_err(unreachable)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(unreachable)?;
        Ok(Self { stream, stop: Arc::clone(stop) })
    }

    /// The maximum segment size of its connection, octets.
    pub(super) fn mss(&self) -> Option<u32> {
        tcp_info(&self.stream).ok().map(|info| info.snd_mss)
    }

    /// Continues although the user has interrupted; each wait keeps its bound.
    pub(super) fn persist(&mut self) {
        self.stop = Arc::default();
    }

    /// Whether octets wait, or the end of the connection.
    pub(super) fn has_news(&self) -> bool {
        wait_ready(&self.stream, false, Duration::ZERO).unwrap_or(true)
    }

    pub(super) fn send(&mut self, octets: &[u8], during: &'static str) -> Result<(), ClientError> {
        let sent = self.stream.write_all(octets);
        sent.map_err(|error| ClientError::Ended { during, reason: error.to_string() })
    }

    /// Fills `octets` within ten seconds.
    pub(super) fn fill(
        &mut self,
        octets: &mut [u8],
        during: &'static str,
    ) -> Result<(), ClientError> {
        self.fill_within(octets, TIMEOUT, during)
    }

    /// Fills `octets` within `timeout`.
    pub(super) fn fill_within(
        &mut self,
        octets: &mut [u8],
        timeout: Duration,
        during: &'static str,
    ) -> Result<(), ClientError> {
        let ended = |reason| ClientError::Ended { during, reason };
        let deadline = Instant::now() + timeout;
        let mut have = 0;
        while have < octets.len() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(ClientError::Interrupted);
            }
            match self.stream.read(&mut octets[have..]) {
                Ok(0) => return Err(ended("the server closed it".to_owned())),
                Ok(count) => have += count,
                Err(error) if is_passing(&error) => {
                    if Instant::now() > deadline {
                        return Err(ClientError::Silent { during, seconds: timeout.as_secs() });
                    }
                }
                Err(error) => return Err(ended(error.to_string())),
            }
        }
        Ok(())
    }

    /// Sleeps, but not through an interruption.
    pub(super) fn pause(&self, length: Duration) -> Result<(), ClientError> {
        let until = Instant::now() + length;
        while Instant::now() < until {
            if self.stop.load(Ordering::Relaxed) {
                return Err(ClientError::Interrupted);
            }
            std::thread::sleep(POLL_INTERVAL.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }
}
