//! The options of a stream's socket that its client asks for.

use std::io;

use linkrate_sys::socket::{
    ask_for_buffers, forbid_fragments, set_listed_congestion, set_max_pacing_rate, set_nodelay,
    set_type_of_service,
};

use crate::iperf3::{Parameters, Transport};
use crate::payload::Socket;

/// iperf3's numbers of the errors.
mod number {
    pub(super) const NODELAY: u32 = 122;
    pub(super) const BUFFER: u32 = 124;
    pub(super) const TYPE_OF_SERVICE: u32 = 125;
    pub(super) const CONGESTION: u32 = 134;
    pub(super) const PACING: u32 = 140;
    pub(super) const OTHER_BUFFER: u32 = 141;
    pub(super) const FRAGMENTS: u32 = 145;
}

/// iperf3's number of an error, and the reason.
pub(super) type Refused = (u32, String);

/// Sets what `request` names, and leaves the rest to the kernel. Buffers are granted within the limits that the host
/// has for everyone, because memory is not a client's to take.
///
/// The MSS is left out: that of a connection which is already made follows from the client's. Returns the name of the field
/// that this host cannot grant and iperf3's server goes on without: a congestion control that is not loaded.
pub(super) fn set(socket: &Socket, asked: &Parameters) -> Result<Option<&'static str>, Refused> {
    let failed =
        |number, option: String| move |error: io::Error| (number, format!("{option}: {error}"));
    if let Some(window) = asked.window {
        let (send, receive) = ask_for_buffers(socket, window as usize)
            .map_err(failed(number::BUFFER, format!("buffers of {window} bytes")))?;
        let granted = send.min(receive);
        if granted < u64::from(window) {
            let reason = format!("buffers of {window} bytes, expected at most {granted}");
            return Err((number::OTHER_BUFFER, reason));
        }
    }
    if asked.tos > 0 {
        let option = format!("type of service {}", asked.tos);
        set_type_of_service(socket, asked.tos).map_err(failed(number::TYPE_OF_SERVICE, option))?;
    }
    if asked.pacing_rate > 0 {
        let option = format!("a pacing rate of {} bit/s", asked.pacing_rate);
        set_max_pacing_rate(socket, asked.pacing_rate / 8)
            .map_err(failed(number::PACING, option))?;
    }
    if asked.transport == Transport::Udp {
        if asked.dont_fragment {
            forbid_fragments(socket)
                .map_err(failed(number::FRAGMENTS, "IP_MTU_DISCOVER".to_owned()))?;
        }
        return Ok(None);
    }
    if asked.nodelay {
        set_nodelay(socket, true).map_err(failed(number::NODELAY, "TCP_NODELAY".to_owned()))?;
    }
    let Some(congestion) = &asked.congestion else { return Ok(None) };
    match set_listed_congestion(socket, congestion) {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some("congestion")),
        Err(error) => {
            Err(failed(number::CONGESTION, format!("congestion control {congestion}"))(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use linkrate_sys::socket::{buffers, congestion, max_pacing_rate, nodelay};

    use super::*;

    fn connection() -> Socket {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        drop(client);
        Socket::Tcp(server)
    }

    #[test]
    fn options_are_those_that_the_client_asks_for() {
        let socket = connection();
        let asked = Parameters {
            window: Some(20_000),
            nodelay: true,
            congestion: Some("reno".to_owned()),
            tos: 16,
            pacing_rate: 100_000_000,
            ..Parameters::default()
        };
        assert_eq!(max_pacing_rate(&socket).unwrap(), None);
        assert_eq!(set(&socket, &asked), Ok(None));
        assert_eq!(max_pacing_rate(&socket).unwrap(), Some(12_500_000));
        assert_eq!(buffers(&socket).unwrap(), (40_000, 40_000));
        assert!(nodelay(&socket).unwrap());
        assert_eq!(congestion(&socket).unwrap(), "reno");
    }

    #[test]
    fn what_the_host_does_not_grant_is_refused_with_iperf3s_number() {
        let window = Parameters { window: Some(512 << 20), ..Parameters::default() };
        let (number, reason) = set(&connection(), &window).unwrap_err();
        assert_eq!(number, number::OTHER_BUFFER);
        assert!(reason.starts_with("buffers of 536870912 bytes, expected at most"), "{reason}");
        let unknown =
            Parameters { congestion: Some("none-such".to_owned()), ..Parameters::default() };
        // the kernel is not asked: it would look for a module of that name
        assert_eq!(set(&connection(), &unknown), Ok(Some("congestion")));
    }
}
