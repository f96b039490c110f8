//! Test sockets: every option is set before the connection exists, and read back.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use linkrate_model::{SocketKnobs, Workload};
use linkrate_sys::socket;
use linkrate_sys::tcp_info::tcp_info;

use linkrate_protocol::FlowFacts;

/// A TCP socket with `knobs`. The congestion control is set while the socket is closed: a socket
/// that was connected with bbr keeps the pacing of bbr after a change. Fails at an option that is refused, or reads
/// back differently.
pub fn tcp(knobs: &SocketKnobs) -> io::Result<OwnedFd> {
    let socket = socket::ip_socket(knobs.family, false)?;
    set_buffers(&socket, knobs)?;
    socket::set_congestion(&socket, &knobs.congestion)
        .map_err(|error| in_option("congestion", &knobs.congestion, &error))?;
    let congestion = socket::congestion(&socket)?;
    if congestion != knobs.congestion {
        return Err(differs("congestion", &knobs.congestion, &congestion));
    }
    if socket::set_nodelay(&socket, knobs.nodelay)? != knobs.nodelay {
        return Err(differs("nodelay", &knobs.nodelay, &!knobs.nodelay));
    }
    Ok(socket)
}

/// A listening TCP socket on a free port of `address`. Connections inherit its options.
pub fn tcp_listener(knobs: &SocketKnobs, address: IpAddr, backlog: u32) -> io::Result<OwnedFd> {
    let listener = tcp(knobs)?;
    socket::set_reuse_address(&listener)?;
    socket::bind(&listener, SocketAddr::new(address, 0))?;
    socket::listen(&listener, i32::try_from(backlog.max(16)).unwrap_or(i32::MAX))?;
    Ok(listener)
}

/// A UDP socket with `knobs` and the workload's datagram offloads, bound to a free port of
/// `address`.
pub fn udp(knobs: &SocketKnobs, workload: &Workload, address: IpAddr) -> io::Result<OwnedFd> {
    let socket = socket::ip_socket(knobs.family, true)?;
    set_buffers(&socket, knobs)?;
    if let Some(segment) = workload.udp_segment {
        let bytes = u16::try_from(segment.0).map_err(io::Error::other)?;
        socket::set_udp_segment(&socket, bytes)
            .map_err(|error| in_option("udp-segment", &segment, &error))?;
    }
    if workload.udp_gro {
        socket::set_udp_gro(&socket).map_err(|error| in_option("udp-gro", &true, &error))?;
    }
    socket::bind(&socket, SocketAddr::new(address, 0))?;
    Ok(socket)
}

/// Reads the options of a socket back, and takes the minimum of them and `facts`.
pub fn add_facts(facts: &mut FlowFacts, socket: &OwnedFd, udp: bool) -> io::Result<()> {
    let (send, receive) = socket::buffers(socket)?;
    let smallest = |now: u64, new: u64| if facts.flows == 0 { new } else { now.min(new) };
    facts.send_buffer_bytes = smallest(facts.send_buffer_bytes, send);
    facts.receive_buffer_bytes = smallest(facts.receive_buffer_bytes, receive);
    facts.family = socket::family(socket)?;
    if !udp {
        facts.congestion = socket::congestion(socket)?;
        facts.nodelay = socket::nodelay(socket)?;
        let mss = u64::from(tcp_info(socket)?.snd_mss);
        facts.mss_bytes = smallest(u64::from(facts.mss_bytes), mss) as u32;
    }
    facts.flows += 1;
    Ok(())
}

fn set_buffers(socket: &OwnedFd, knobs: &SocketKnobs) -> io::Result<()> {
    let Some(asked) = knobs.buffer else { return Ok(()) };
    let (send, receive) = socket::set_buffers(socket, asked.0 as usize)?;
    // the kernel doubles a granted size, socket(7); a smaller one was cut by a system-wide maximum
    let (name, granted) = if send < asked.0 * 2 {
        ("net.core.wmem_max", send)
    } else if receive < asked.0 * 2 {
        ("net.core.rmem_max", receive)
    } else {
        return Ok(());
    };
    let message = format!(
        "socket buffer: requested {asked}, granted {} B; raise sysctl {name} to {} or run as root",
        granted / 2,
        asked.0
    );
    Err(io::Error::other(message))
}

fn in_option(option: &str, value: &dyn std::fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("set {option} to {value}: {error}"))
}

fn differs(
    option: &str,
    asked: &dyn std::fmt::Display,
    effective: &dyn std::fmt::Display,
) -> io::Error {
    io::Error::other(format!("{option}: requested {asked}, effective is {effective}"))
}

#[cfg(test)]
mod tests {
    use linkrate_model::Family;

    use super::*;

    #[test]
    fn options_are_set_before_any_connection_and_read_back() {
        let knobs = SocketKnobs {
            buffer: Some(linkrate_model::ByteSize(64 << 10)),
            congestion: "reno".to_owned(),
            nodelay: true,
            family: Family::Ipv6,
        };
        let mut facts = FlowFacts::default();
        add_facts(&mut facts, &tcp(&knobs).unwrap(), false).unwrap();
        assert_eq!((facts.send_buffer_bytes, facts.receive_buffer_bytes), (131_072, 131_072));
        assert_eq!((facts.congestion.as_str(), facts.nodelay, facts.flows), ("reno", true, 1));
        assert_eq!(facts.family, Family::Ipv6);
    }

    #[test]
    fn an_unknown_congestion_control_is_named() {
        let knobs = SocketKnobs { congestion: "warp".to_owned(), ..SocketKnobs::default() };
        let error = tcp(&knobs).unwrap_err().to_string();
        assert!(error.contains("congestion") && error.contains("warp"), "{error}");
    }
}
