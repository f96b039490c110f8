//! A test of a netserver: one control connection, and one connection for payload.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::{ClientError, Control};
use crate::netperf::{
    Classic, Dialect, Kind, MESSAGE_BYTES, Message, OmniRequest, OmniResponse, OmniResults,
    SHORT_MESSAGE_BYTES,
};

/// What is waited for first.
const ASKING: &str = "asking for a test";

/// How long the octets behind a short message may be on their way: a server of long messages writes both in one call.
const BEHIND: Duration = Duration::from_secs(2);

/// A test of a netserver, which listens for the connection of its payload.
#[derive(Debug)]
pub struct NetperfTest {
    control: Control,
    response: OmniResponse,
    /// What was asked, where it was by a classic test.
    classic: Option<Box<(Classic, OmniRequest)>>,
}

impl NetperfTest {
    /// Asks for a test, and waits until the server listens for its connection.
    pub fn ask(
        server: impl Into<SocketAddr>,
        asked: &OmniRequest,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, ClientError> {
        Self::ask_on(server, asked, None, None, stop)
    }

    /// The same with the CPU that the server's program is to run on, and the passphrase that a server of `-Z` waits for.
    pub fn ask_on(
        server: impl Into<SocketAddr>,
        asked: &OmniRequest,
        cpu: Option<u32>,
        passphrase: Option<&str>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, ClientError> {
        let server = server.into();
        let mut control = connect(server, passphrase, stop)?;
        let mut message = asked.message(server.is_ipv6());
        message.set_cpu(cpu);
        control.send(message.octets(), ASKING)?;
        let answer = answer(&mut control, MESSAGE_BYTES, None, ASKING)?;
        let response = OmniResponse::parse(&answer)?;
        Ok(Self { control, response, classic: None })
    }

    /// Asks a server that speaks `dialect`.
    pub fn ask_in(
        dialect: Dialect,
        server: impl Into<SocketAddr>,
        asked: &OmniRequest,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, ClientError> {
        let server = server.into();
        if dialect == Dialect::Long {
            return Self::ask(server, asked, stop);
        }
        let test = Classic::for_request(asked).ok_or_else(|| {
            ClientError::Refused("netserver before 2.6 does not have this test".to_owned())
        })?;
        let mut control = Control::connect(server, stop)?;
        let message = test.message_for(asked, server.is_ipv6());
        control.send(&message.octets()[..SHORT_MESSAGE_BYTES], ASKING)?;
        let answer = answer(&mut control, SHORT_MESSAGE_BYTES, None, ASKING)?;
        let response = test.read_response(&answer)?;
        Ok(Self { control, response, classic: Some(Box::new((test, asked.clone()))) })
    }

    /// Finds out what a server speaks, over a connection of its own. One that takes long to answer is taken for one of
    /// long messages.
    pub fn dialect(
        server: impl Into<SocketAddr>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Dialect, ClientError> {
        const DURING: &str = "asking for the version";
        let mut control = Control::connect(server, stop)?;
        control.send(Dialect::question().octets(), DURING)?;
        match control.fill(&mut [0; SHORT_MESSAGE_BYTES], DURING) {
            // it measures the speed of its CPUs
            Err(ClientError::Silent { .. }) => return Ok(Dialect::Long),
            other => other?,
        }
        let mut behind = [0; 8];
        match control.fill_within(&mut behind, BEHIND, DURING) {
            Ok(()) => Ok(Dialect::of(Some(behind))),
            Err(ClientError::Silent { .. } | ClientError::Ended { .. }) => Ok(Dialect::of(None)),
            Err(error) => Err(error),
        }
    }

    /// Asks how fast the meter of the server's CPUs counts, by a unit of its own.
    pub fn cpu_rate(
        server: impl Into<SocketAddr>,
        passphrase: Option<&str>,
        stop: &Arc<AtomicBool>,
    ) -> Result<f32, ClientError> {
        const DURING: &str = "asking for the rate of the CPU";
        let mut control = connect(server.into(), passphrase, stop)?;
        control.send(Message::new(Kind::CpuCalibrate).octets(), DURING)?;
        let mut octets = [0; MESSAGE_BYTES];
        control.fill(&mut octets, DURING)?;
        Ok(Message::of(&octets).cpu_rate())
    }

    /// The maximum segment size of a connection to the server, octets.
    pub fn mss(
        server: impl Into<SocketAddr>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<u32>, ClientError> {
        Ok(Control::connect(server, stop)?.mss())
    }

    #[must_use]
    pub fn response(&self) -> &OmniResponse {
        &self.response
    }

    /// Waits before the payload begins.
    pub fn pause(&self, length: Duration) -> Result<(), ClientError> {
        self.control.pause(length)
    }

    /// Waits for the results of the server, at most for `timeout`. It sends them when its connection has
    /// ended: that of a stream from the client and of transactions when the client has closed it, that of a
    /// stream to the client when its own time is over.
    pub fn end(mut self, timeout: Duration) -> Result<OmniResults, ClientError> {
        const DURING: &str = "waiting for results";
        let Some((test, asked)) = self.classic.as_deref() else {
            let message = answer(&mut self.control, MESSAGE_BYTES, Some(timeout), DURING)?;
            return Ok(OmniResults::parse(&message)?);
        };
        let message = answer(&mut self.control, SHORT_MESSAGE_BYTES, Some(timeout), DURING)?;
        Ok(test.read_results(&message, asked)?)
    }
}

/// A control connection, on which the passphrase is said first.
fn connect(
    server: SocketAddr,
    passphrase: Option<&str>,
    stop: &Arc<AtomicBool>,
) -> Result<Control, ClientError> {
    let mut control = Control::connect(server, stop)?;
    if let Some(passphrase) = passphrase {
        control.send(Message::passphrase(passphrase).octets(), "saying the passphrase")?;
    }
    Ok(control)
}

/// The next message of a server, of `length` octets, that is no refusal.
fn answer(
    control: &mut Control,
    length: usize,
    timeout: Option<Duration>,
    during: &'static str,
) -> Result<Message, ClientError> {
    let mut octets = [0; MESSAGE_BYTES];
    match timeout {
        Some(timeout) => control.fill_within(&mut octets[..length], timeout, during)?,
        None => control.fill(&mut octets[..length], during)?,
    }
    let message = Message::of(&octets);
    match message.error() {
        Some(errno) => {
            let reason = std::io::Error::from_raw_os_error(errno.cast_signed());
            Err(ClientError::Refused(reason.to_string()))
        }
        None => Ok(message),
    }
}
