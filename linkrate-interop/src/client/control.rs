//! A control connection with bounded waits.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linkrate_sys::bounded::{Bound, Ended};
use linkrate_sys::connect;
use linkrate_sys::socket::wait_ready;
use linkrate_sys::tcp_info::tcp_info;

use super::ClientError;

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
        let sent = Bound::within(TIMEOUT, &self.stop).write_all(&self.stream, octets);
        sent.map_err(|ended| failed(ended, during, TIMEOUT))
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
        let filled = Bound::within(timeout, &self.stop).read_exact(&self.stream, octets);
        filled.map_err(|ended| failed(ended, during, timeout))
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

fn failed(ended: Ended, during: &'static str, timeout: Duration) -> ClientError {
    match ended {
        Ended::Stopped => ClientError::Interrupted,
        Ended::Late => ClientError::Silent { during, seconds: timeout.as_secs() },
        Ended::Closed => ClientError::Ended { during, reason: "the server closed it".to_owned() },
        Ended::Failed(error) => ClientError::Ended { during, reason: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_trickles_is_silent_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stop = Arc::default();
        let mut control = Control::connect(listener.local_addr().unwrap(), &stop).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        std::thread::spawn(move || {
            while server.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let begun = Instant::now();
        let timeout = Duration::from_millis(200);
        let error = control.fill_within(&mut [0; 10_000], timeout, "waiting").unwrap_err();
        assert!(matches!(error, ClientError::Silent { during: "waiting", .. }), "{error}");
        stop.store(true, Ordering::Relaxed);
        let error = control.fill(&mut [0; 100_000], "waiting").unwrap_err();
        assert!(matches!(error, ClientError::Interrupted), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}
