//! The TCP connections of this network namespace, of all processes, through sock_diag(7).

use std::net::{IpAddr, SocketAddr};

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};

use crate::error::SysResult;
use crate::netlink::exchange::Exchange;
use crate::tcp_info::PathInfo;

/// One established TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Address and port of this end.
    pub local: SocketAddr,
    /// Address and port of the peer.
    pub remote: SocketAddr,
    /// Inode of the socket, as in `/proc/PID/fd`.
    pub inode: u32,
    /// Path information of TCP.
    pub path: PathInfo,
}

impl Connection {
    /// Whether both ends are on this host: equal addresses, or a loopback address.
    pub fn stays_here(&self) -> bool {
        self.local.ip() == self.remote.ip() || self.remote.ip().is_loopback()
    }
}

/// Every established TCP connection, IPv4 and IPv6; `ENOENT` on kernels without `inet_diag` and its TCP half.
pub fn connections() -> SysResult<Vec<Connection>> {
    connections_in(StateFlags::ESTABLISHED)
}

/// Every TCP connection that is established or closes, as long as it may send: those in TIME-WAIT are
/// left out (RFC 9293, 3.3.2).
pub fn unfinished_connections() -> SysResult<Vec<Connection>> {
    connections_in(
        StateFlags::ESTABLISHED
            | StateFlags::FIN_WAIT1
            | StateFlags::FIN_WAIT2
            | StateFlags::CLOSE_WAIT
            | StateFlags::LAST_ACK
            | StateFlags::CLOSING,
    )
}

fn connections_in(states: StateFlags) -> SysResult<Vec<Connection>> {
    let mut exchange = Exchange::open(netlink_sys::protocols::NETLINK_SOCK_DIAG, "sock_diag")?;
    let mut connections = Vec::new();
    for (family, socket_id) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
        let request = SockDiagMessage::InetRequest(InetRequest {
            family,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::INFO,
            states: states.clone(),
            socket_id,
        });
        let replies: Vec<SockDiagMessage> = exchange
            .request(request, NLM_F_DUMP)
            .map_err(|refusal| refusal.during("list TCP connections", ""))?;
        connections.extend(replies.iter().filter_map(connection));
    }
    Ok(connections)
}

fn connection(reply: &SockDiagMessage) -> Option<Connection> {
    let SockDiagMessage::InetResponse(response) = reply else { return None };
    let id = &response.header.socket_id;
    let path = response.nlas.iter().find_map(|attribute| match attribute {
        Nla::TcpInfo(bytes) => Some(PathInfo::from_bytes(bytes)),
        _ => None,
    });
    // a connection that is about to end may have none
    let path = path.unwrap_or_default();
    Some(Connection {
        local: SocketAddr::new(plain(id.source_address), id.source_port),
        remote: SocketAddr::new(plain(id.destination_address), id.destination_port),
        inode: response.header.inode,
        path,
    })
}

/// Converts an IPv4-mapped IPv6 address to its IPv4 address.
fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(mapped) => mapped.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_of_ours_is_among_them_with_its_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 4096]).unwrap();
        far.read_exact(&mut [0; 4096]).unwrap();
        // the acknowledgement may not have arrived yet
        far.write_all(&[1]).unwrap();
        near.read_exact(&mut [0; 1]).unwrap();
        let ours = |c: &&Connection| Ok(c.local) == near.local_addr().map_err(|_| ());
        let all = connections().unwrap();
        let found = all.iter().find(ours).unwrap_or_else(|| panic!("not among {all:?}"));
        assert_eq!(found.remote, near.peer_addr().unwrap());
        assert!(found.stays_here() && found.inode > 0);
        // the SYN counts as one
        assert!((4096..=4097).contains(&found.path.bytes_acked), "{found:?}");
        assert!(found.path.min_rtt_us < 1_000_000, "{found:?}");
    }

    #[test]
    fn mapped_addresses_are_the_ones_they_map() {
        let mapped = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped();
        assert_eq!(plain(mapped.into()), IpAddr::from([192, 0, 2, 1]));
        assert_eq!(plain(Ipv6Addr::LOCALHOST.into()), IpAddr::from(Ipv6Addr::LOCALHOST));
    }
}
