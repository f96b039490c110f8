//! Sockets of either family whose buffers are set before they have an address: TCP chooses its window scale by
//! SO_RCVBUF when a connection begins, tcp(7).

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Sizes that a socket is to have, bytes; `None` leaves what the system gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Buffers {
    /// SO_SNDBUF.
    pub send: Option<u32>,
    /// SO_RCVBUF.
    pub receive: Option<u32>,
}

/// A TCP socket that listens at `address` with a queue of `backlog`. Connections inherit its buffers, time-outs and
/// options. Its port can be bound again while earlier connections linger.
pub fn listener(address: SocketAddr, buffers: Buffers, backlog: i32) -> io::Result<TcpListener> {
    let socket = unbound(address, SocketType::STREAM, buffers)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, backlog)?;
    Ok(socket.into())
}

/// A UDP socket at `address`.
pub fn datagrams(address: SocketAddr, buffers: Buffers) -> io::Result<UdpSocket> {
    let socket = unbound(address, SocketType::DGRAM, buffers)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket.into())
}

fn unbound(address: SocketAddr, kind: SocketType, buffers: Buffers) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    // the maximum of the system holds, for a peer that names the sizes
    if let Some(bytes) = buffers.send {
        sockopt::set_socket_send_buffer_size(socket.as_fd(), bytes as usize)?;
    }
    if let Some(bytes) = buffers.receive {
        sockopt::set_socket_recv_buffer_size(socket.as_fd(), bytes as usize)?;
    }
    Ok(socket)
}

/// A UDP socket at `address` (udp(7), SO_REUSEPORT of socket(7)), beside others there of the same user: with SO_REUSEADDR
/// another user could take the port over. The kernel gives a datagram to the socket that is connected to its sender, and
/// without one to any of those without a peer. On `::` it also receives IPv4, unless the host is set otherwise.
pub fn shared(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;
    use crate::socket;

    #[test]
    fn connections_inherit_buffers_and_time_outs() {
        let asked = Buffers { send: Some(40_000), receive: Some(50_000) };
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = listener(address.parse().unwrap(), asked, 5).unwrap();
            socket::set_receive_timeout(&listener, Duration::from_millis(20)).unwrap();
            let refused = listener.accept().unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            assert_eq!(socket::buffers(&accepted).unwrap(), (80_000, 100_000));
            assert_eq!(accepted.peek(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_datagram_socket_has_its_buffers() {
        let asked = Buffers { send: None, receive: Some(50_000) };
        let socket = datagrams("127.0.0.1:0".parse().unwrap(), asked).unwrap();
        assert_eq!(socket::buffers(&socket).unwrap().1, 100_000);
        assert_ne!(socket.local_addr().unwrap().port(), 0);
    }

    #[test]
    fn no_other_socket_takes_a_shared_port_over() {
        let here = "127.0.0.1:0".parse().unwrap();
        let first = shared(here).unwrap();
        let here = first.local_addr().unwrap();
        let unbound = unbound(here, SocketType::DGRAM, Buffers::default()).unwrap();
        // what another user may set
        sockopt::set_socket_reuseaddr(&unbound, true).unwrap();
        assert_eq!(rustix::net::bind(&unbound, &here), Err(rustix::io::Errno::ADDRINUSE));
        shared(here).unwrap();
    }

    #[test]
    fn a_connected_socket_takes_the_datagrams_of_its_peer() {
        let here = "127.0.0.1:0".parse().unwrap();
        let listener = shared(here).unwrap();
        let here = listener.local_addr().unwrap();
        let [known, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let connected = shared(here).unwrap();
        connected.connect(known.local_addr().unwrap()).unwrap();
        known.send_to(b"known", here).unwrap();
        other.send_to(b"other", here).unwrap();
        for (socket, expected) in [(&connected, b"known"), (&listener, b"other")] {
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut buffer = [0; 16];
            let count = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..count], expected);
        }
        listener.set_nonblocking(true).unwrap();
        assert!(listener.recv(&mut [0; 16]).is_err(), "each datagram has one receiver");
    }
}
