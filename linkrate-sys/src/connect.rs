//! Connections and connected UDP sockets of IPv4 and IPv6, with the options that count before they are made.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::socket::{is_in_progress, set_buffers, set_congestion, set_mss, set_send_timeout};
use crate::socket_option::set_int;

/// What a socket is to have before it connects. The default leaves everything to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The address that it comes from.
    pub from: Option<IpAddr>,
    /// The port that it comes from.
    pub from_port: u16,
    /// SO_SNDBUF and SO_RCVBUF, octets; the kernel doubles them.
    pub buffers: Option<usize>,
    /// TCP_MAXSEG, octets; of a connection.
    pub mss: Option<u32>,
    /// TCP_NODELAY; of a connection.
    pub nodelay: bool,
    /// TCP_CONGESTION; of a connection.
    pub congestion: Option<String>,
    /// IP_TOS or IPV6_TCLASS.
    pub tos: u8,
}

/// Connects to `server` within `timeout`.
///
/// # Errors
/// `TimedOut` without an answer; otherwise as setsockopt(2), bind(2) and connect(2), for an option with its name.
pub fn tcp(server: SocketAddr, options: &Options, timeout: Duration) -> io::Result<TcpStream> {
    let socket = prepared(server, SocketType::STREAM, options)?;
    if let Some(mss) = options.mss {
        named("TCP_MAXSEG", set_mss(&socket, mss))?;
    }
    if options.nodelay {
        named("TCP_NODELAY", sockopt::set_tcp_nodelay(&socket, true).map_err(io::Error::from))?;
    }
    if let Some(congestion) = &options.congestion {
        named("TCP_CONGESTION", set_congestion(&socket, congestion))?;
    }
    // the kernel takes a time-out of zero for none
    set_send_timeout(&socket, Some(timeout.max(Duration::from_millis(1))))?;
    rustix::net::connect(&socket, &server).map_err(io::Error::from).map_err(|error| {
        if is_in_progress(&error) { io::ErrorKind::TimedOut.into() } else { error }
    })?;
    set_send_timeout(&socket, None)?;
    Ok(socket.into())
}

/// A UDP socket that is connected to `server`.
pub fn udp(server: SocketAddr, options: &Options) -> io::Result<UdpSocket> {
    let socket = prepared(server, SocketType::DGRAM, options)?;
    rustix::net::connect(&socket, &server)?;
    Ok(socket.into())
}

/// A socket with the options that both protocols have.
fn prepared(server: SocketAddr, kind: SocketType, options: &Options) -> io::Result<OwnedFd> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if options.from.is_some() || options.from_port != 0 {
        let any = match server {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let from = SocketAddr::new(options.from.unwrap_or(any), options.from_port);
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &from)?;
    }
    if let Some(bytes) = options.buffers {
        named("SO_SNDBUF and SO_RCVBUF", set_buffers(&socket, bytes).map(|_| ()))?;
    }
    if options.tos != 0 {
        let (level, name) = match server {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        named("IP_TOS", set_int(&socket, level, name, i32::from(options.tos)))?;
    }
    Ok(socket)
}

fn named(option: &str, set: io::Result<()>) -> io::Result<()> {
    set.map_err(|error| io::Error::new(error.kind(), format!("{option}: {error}")))
}

/// Whether an address is one of this host: a socket can be bound to it.
#[must_use]
pub fn is_of_this_host(address: IpAddr) -> bool {
    UdpSocket::bind(SocketAddr::new(address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::socket::{buffers, congestion};

    #[test]
    fn options_are_in_effect() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // a host may have no IPv6
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let server = listener.local_addr().unwrap();
            let options = Options {
                from: Some(server.ip()),
                buffers: Some(65_536),
                nodelay: true,
                congestion: Some("reno".to_owned()),
                tos: 0x10,
                ..Options::default()
            };
            let stream = tcp(server, &options, Duration::from_secs(5)).unwrap();
            assert!(stream.nodelay().unwrap());
            assert_eq!(buffers(&stream).unwrap(), (131_072, 131_072));
            assert_eq!(congestion(&stream).unwrap(), "reno");
            assert_eq!(udp(server, &options).unwrap().peer_addr().unwrap(), server);
        }
    }

    #[test]
    fn an_option_that_cannot_be_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = Options { congestion: Some("nosuch".to_owned()), ..Options::default() };
        let error = tcp(listener.local_addr().unwrap(), &options, Duration::from_secs(1));
        assert!(error.unwrap_err().to_string().starts_with("TCP_CONGESTION: "));
    }

    #[test]
    fn addresses_of_this_host_are_known() {
        assert!(is_of_this_host("127.0.0.1".parse().unwrap()));
        assert!(!is_of_this_host("192.0.2.77".parse().unwrap()));
    }
}
