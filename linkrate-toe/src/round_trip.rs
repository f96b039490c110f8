//! The first time-outs of a connection that is restored.
//!
//! TCP of Linux measures a round trip when a connection begins. One that is restored has measured none: its
//! first retransmission time-out is 3 s, and its first probe of a lost tail comes after 1 s
//! (`TCP_TIMEOUT_FALLBACK` and `TCP_TIMEOUT_INIT`, include/net/tcp.h; `tcp_schedule_loss_probe`,
//! net/ipv4/tcp_output.c). If an earlier connection between the same addresses has left a round trip time in
//! its network namespace, both come after this time and the least time-out, 200 ms (`tcp_update_metrics` and
//! `tcp_init_metrics`, net/ipv4/tcp_metrics.c). The kernel keeps it for an hour after the last connection
//! that has measured one. A route that has a round trip time does not serve: since Linux 6.8 the kernel does
//! not look at it before a connection has left its own.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use linkrate_sys::netlink::RouteSocket;
use linkrate_sys::{socket_swap, tcp_repair};

/// The interface that leads back to the same TCP.
const LOOPBACK: &str = "lo";

/// How long the connection may take; all of it is within this TCP.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Leaves a round trip time between `own` and `far` in the network namespace of the calling thread, by a connection
/// over the loopback interface. The interface has the address `far` meanwhile. So this is for the time before
/// anything is sent to the peer. Fails where `own` is no address of this namespace, or CAP_NET_ADMIN over the
/// namespace is missing.
pub fn leave_one(own: IpAddr, far: IpAddr) -> io::Result<()> {
    let mut route = RouteSocket::open()?;
    route.set_up(LOOPBACK)?;
    // it stands alone
    let bits = if far.is_ipv4() { 32 } else { 128 };
    route.add_address(LOOPBACK, far, bits)?;
    let left = match far {
        IpAddr::V4(_) => connect_and_close(own, far),
        // its packets would leave for the peer otherwise
        IpAddr::V6(far) => {
            route.await_address(far)?;
            connect_and_close(own, far.into())
        }
    };
    route.delete_address(LOOPBACK, far, bits)?;
    left
}

/// The end of the connection whose socket saw both FINs keeps the round trip time.
fn connect_and_close(own: IpAddr, far: IpAddr) -> io::Result<()> {
    let listener = TcpListener::bind((far, 0))?;
    let to = listener.local_addr()?;
    let near = socket_swap::tcp_socket(&to)?;
    tcp_repair::bind(&near, &SocketAddr::new(own, 0))?;
    socket_swap::connect(&near, &to)?;
    let (there, _) = listener.accept()?;
    // what waits for late segments afterwards is at the far address
    drop(there);
    let mut near = TcpStream::from(near);
    near.set_read_timeout(Some(TIMEOUT))?;
    near.read(&mut [0]).map(drop)
}
