//! A test of a netserver: one control connection, and one connection for payload.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::{ClientError, Control};
use crate::netperf::{Kind, MESSAGE_BYTES, Message, OmniRequest, OmniResponse, OmniResults};

/// A test of a netserver, which listens for the connection of its payload.
#[derive(Debug)]
pub struct NetperfTest {
    control: Control,
    response: OmniResponse,
}

impl NetperfTest {
    /// Asks for a test, and waits until the server listens for its connection.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask(
        server: impl Into<SocketAddr>,
        asked: &OmniRequest,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, ClientError> {
        Self::ask_on(server, asked, None, stop)
    }

    /// The same with the CPU that the server's program is to run on.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask_on(
        server: impl Into<SocketAddr>,
        asked: &OmniRequest,
        cpu: Option<u32>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, ClientError> {
        const DURING: &str = "asking for a test";
        let server = server.into();
        let mut control = Control::connect(server, stop)?;
        let mut message = asked.message_for(server.is_ipv6());
        message.set_cpu(cpu);
        control.send(message.octets(), DURING)?;
        let mut octets = [0; MESSAGE_BYTES];
        control.fill(&mut octets, DURING)?;
        let answer = Message::of(&octets);
        if let Some(errno) = answer.error() {
            let reason = std::io::Error::from_raw_os_error(errno.cast_signed());
            return Err(ClientError::Refused(reason.to_string()));
        }
        let response = OmniResponse::parse(&answer)?;
        Ok(Self { control, response })
    }

    /// Asks how fast the meter of the server's CPUs counts, by a unit of its own.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn cpu_rate(
        server: impl Into<SocketAddr>,
        stop: &Arc<AtomicBool>,
    ) -> Result<f32, ClientError> {
        const DURING: &str = "asking for the rate of the CPU";
        let mut control = Control::connect(server, stop)?;
        control.send(Message::new(Kind::CpuCalibrate).octets(), DURING)?;
        let mut octets = [0; MESSAGE_BYTES];
        control.fill(&mut octets, DURING)?;
        Ok(Message::of(&octets).cpu_rate())
    }

    /// The maximum segment size of a connection to the server, octets.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn mss(
        server: impl Into<SocketAddr>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<u32>, ClientError> {
        Ok(Control::connect(server, stop)?.mss())
    }

    /// What the server answered.
    #[must_use]
    pub fn response(&self) -> &OmniResponse {
        &self.response
    }

    /// Waits for the results of the server, at most for `patience`. It sends them when its connection has
    /// ended: that of a stream from the client and of transactions when the client has closed it, that of a
    /// stream to the client when its own time is over.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn end(mut self, patience: Duration) -> Result<OmniResults, ClientError> {
        let mut octets = [0; MESSAGE_BYTES];
        self.control.fill_within(&mut octets, patience, "waiting for results")?;
        let message = Message::of(&octets);
        if let Some(errno) = message.error() {
            let reason = std::io::Error::from_raw_os_error(errno.cast_signed());
            return Err(ClientError::Refused(reason.to_string()));
        }
        Ok(OmniResults::parse(&message)?)
    }
}
