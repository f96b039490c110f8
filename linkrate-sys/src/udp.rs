//! UDP sockets that share a port, udp(7) and SO_REUSEADDR of socket(7).

use std::io;
use std::net::{SocketAddr, UdpSocket};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// A UDP socket at `address`, beside others there that have been opened with this function. The kernel gives
/// a datagram to the socket that is connected to its sender, and without one to the socket without a peer
/// that was bound last. On `::` it also receives IPv4, unless the host is set otherwise.
pub fn shared(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
