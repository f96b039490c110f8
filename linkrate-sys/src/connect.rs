//! Connections and connected UDP sockets of IPv4 and IPv6, with the options that count before they are made.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use crate::socket::{
    allow_flow_label, bind_to_device, forbid_fragments, is_in_progress, set_buffers,
    set_congestion, set_max_pacing_rate, set_mss, set_send_timeout,
};
use crate::socket_option::set_int;

/// What a socket is to have before it connects. The default leaves everything to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The address that it comes from.
    pub from: Option<IpAddr>,
    /// The port that it comes from.
    pub from_port: u16,
    /// The interface that alone carries it (SO_BINDTODEVICE).
    pub device: Option<String>,
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
    /// Flow label of IPv6, from 1.
    pub flow_label: Option<u32>,
    /// SO_MAX_PACING_RATE, bytes/s.
    pub pacing_rate: Option<u64>,
    /// Datagrams of IPv4 are not fragmented; of a UDP socket.
    pub dont_fragment: bool,
    /// How long octets may wait for an acknowledgement (TCP_USER_TIMEOUT); of a connection.
    pub user_timeout: Option<Duration>,
    /// MPTCP instead of TCP.
    pub multipath: bool,
    /// Asks an idle peer whether it is there; of a connection.
    pub keepalive: Option<Keepalive>,
}

/// Times of keepalive, tcp(7); the kernel's where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keepalive {
    /// How long a connection is idle before the first question.
    pub idle: Option<Duration>,
    /// Time between two questions.
    pub interval: Option<Duration>,
    /// Questions without an answer that end it.
    pub count: Option<u32>,
}

/// Connects to `server` within `timeout`.
///
/// # Errors
/// `TimedOut` without an answer; otherwise as setsockopt(2), bind(2) and connect(2), for an option with its name.
pub fn tcp(server: SocketAddr, options: &Options, timeout: Duration) -> io::Result<TcpStream> {
    let socket = prepared(server, SocketType::STREAM, options)?;
    if let Some(timeout) = options.user_timeout {
        let ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        named("TCP_USER_TIMEOUT", sockopt::set_tcp_user_timeout(&socket, ms).map_err(Into::into))?;
    }
    if let Some(keepalive) = options.keepalive {
        named("SO_KEEPALIVE", keep_alive(&socket, keepalive))?;
    }
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
    let server = labelled(server, options);
    rustix::net::connect(&socket, &server).map_err(io::Error::from).map_err(|error| {
        if is_in_progress(&error) { io::ErrorKind::TimedOut.into() } else { error }
    })?;
    set_send_timeout(&socket, None)?;
    Ok(socket.into())
}

/// A UDP socket that is connected to `server`.
pub fn udp(server: SocketAddr, options: &Options) -> io::Result<UdpSocket> {
    let socket = prepared(server, SocketType::DGRAM, options)?;
    if options.dont_fragment && server.is_ipv4() {
        named("IP_MTU_DISCOVER", forbid_fragments(&socket))?;
    }
    rustix::net::connect(&socket, &labelled(server, options))?;
    Ok(socket.into())
}

/// The address with the flow label that its packets are to have.
fn labelled(server: SocketAddr, options: &Options) -> SocketAddr {
    match (server, options.flow_label) {
        (SocketAddr::V6(mut server), Some(label)) => {
            server.set_flowinfo(label);
            server.into()
        }
        _ => server,
    }
}

fn keep_alive(socket: &OwnedFd, keepalive: Keepalive) -> io::Result<()> {
    if let Some(idle) = keepalive.idle {
        sockopt::set_tcp_keepidle(socket, idle)?;
    }
    if let Some(interval) = keepalive.interval {
        sockopt::set_tcp_keepintvl(socket, interval)?;
    }
    if let Some(count) = keepalive.count {
        sockopt::set_tcp_keepcnt(socket, count)?;
    }
    Ok(sockopt::set_socket_keepalive(socket, true)?)
}

/// A socket with the options that both protocols have.
fn prepared(server: SocketAddr, kind: SocketType, options: &Options) -> io::Result<OwnedFd> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let protocol = (options.multipath && kind == SocketType::STREAM).then_some(ipproto::MPTCP);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, protocol);
    let socket =
        named(if protocol.is_some() { "MPTCP" } else { "socket" }, socket.map_err(Into::into))?;
    if let Some(device) = &options.device {
        named(&format!("interface {device}"), bind_to_device(&socket, device))?;
    }
    if options.from.is_some() || options.from_port != 0 {
        let any = match server {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let mut from = SocketAddr::new(options.from.unwrap_or(any), options.from_port);
        if let (SocketAddr::V6(from), SocketAddr::V6(server)) = (&mut from, server) {
            // an address of the link is one of an interface
            from.set_scope_id(server.scope_id());
        }
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
    if let Some(rate) = options.pacing_rate {
        named("SO_MAX_PACING_RATE", set_max_pacing_rate(&socket, rate))?;
    }
    match (options.flow_label, server) {
        (None, _) => {}
        (Some(label), SocketAddr::V6(server)) => {
            named("flow label", allow_flow_label(&socket, *server.ip(), label))?;
        }
        (Some(_), SocketAddr::V4(_)) => {
            return Err(io::Error::other(
                "flow label: IPv4 has none, expected a server at an address of IPv6",
            ));
        }
    }
    Ok(socket)
}

fn named<T>(option: &str, set: io::Result<T>) -> io::Result<T> {
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
    use crate::socket::{buffers, congestion, max_pacing_rate};

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
                device: Some("lo".to_owned()),
                pacing_rate: Some(12_500_000),
                flow_label: server.is_ipv6().then_some(5),
                dont_fragment: true,
                user_timeout: Some(Duration::from_secs(9)),
                keepalive: Some(Keepalive {
                    idle: Some(Duration::from_secs(60)),
                    interval: Some(Duration::from_secs(5)),
                    count: Some(4),
                }),
                ..Options::default()
            };
            let stream = tcp(server, &options, Duration::from_secs(5)).unwrap();
            assert_eq!(max_pacing_rate(&stream).unwrap(), Some(12_500_000));
            assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 9000);
            assert!(sockopt::socket_keepalive(&stream).unwrap());
            assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), 4);
            if server.is_ipv6() {
                let labels = std::fs::read_to_string("/proc/net/ip6_flowlabel").unwrap();
                assert!(labels.contains("00005 "), "{labels}");
            }
            assert!(stream.nodelay().unwrap());
            assert_eq!(buffers(&stream).unwrap(), (131_072, 131_072));
            assert_eq!(congestion(&stream).unwrap(), "reno");
            // getpeername(2) tells the flow label too
            let peer = udp(server, &options).unwrap().peer_addr().unwrap();
            assert_eq!((peer.ip(), peer.port()), (server.ip(), server.port()));
        }
    }

    #[test]
    fn an_option_that_cannot_be_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for (options, said) in [
            (
                Options { congestion: Some("nosuch".to_owned()), ..Options::default() },
                "TCP_CONGESTION: ",
            ),
            (
                Options { device: Some("nosuch".to_owned()), ..Options::default() },
                "interface nosuch: ",
            ),
            (Options { flow_label: Some(5), ..Options::default() }, "flow label: "),
        ] {
            let error = tcp(listener.local_addr().unwrap(), &options, Duration::from_secs(1));
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn addresses_of_this_host_are_known() {
        assert!(is_of_this_host("127.0.0.1".parse().unwrap()));
        assert!(!is_of_this_host("192.0.2.77".parse().unwrap()));
    }
}
