//! The streams of a test, opened as iperf3 opens them.

use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use linkrate_interop::iperf3::{GREETING, Transport};
use linkrate_interop::payload::Socket;
use linkrate_sys::connect;

use super::options::Options;

/// How long the server may take for the answer to the first datagram. The datagram is sent once: a second one would
/// open a second stream.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a wait looks at the time.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Opens stream `index` of the test with this cookie. Returns it with the time before its first octets: the server cannot
/// know of it earlier.
pub(super) fn stream(
    server: SocketAddr,
    options: &Options,
    index: u32,
    cookie: &[u8],
) -> io::Result<(Socket, Instant)> {
    let mut socket = options.socket.clone();
    if socket.from_port != 0 {
        // one port each, as iperf3 does
        socket.from_port = socket.from_port.saturating_add(index as u16);
    }
    match options.transport {
        Transport::Tcp => {
            let mut stream = connect::tcp(server, &socket, options.timeout())?;
            let before = Instant::now();
            stream.write_all(cookie)?;
            Ok((Socket::Tcp(stream), before))
        }
        Transport::Udp => {
            let socket = connect::udp(server, &socket)?;
            let before = Instant::now();
            greet(&socket)?;
            Ok((Socket::Udp(socket), before))
        }
    }
}

/// Sends the first datagram, and waits for the answer.
fn greet(socket: &UdpSocket) -> io::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    socket.set_read_timeout(Some(POLL_INTERVAL))?;
    socket.send(&GREETING)?;
    loop {
        let mut octets = [0; GREETING.len() + 1];
        match socket.recv(&mut octets) {
            // any four octets are an answer: servers of other orders of octets send theirs
            Ok(count) if count == GREETING.len() => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(error),
            Err(_) => {}
        }
        // also where a server goes on with other datagrams
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}
