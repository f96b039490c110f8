//! A connection out of a socket, and into one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use linkrate_sys::socket;
use linkrate_sys::socket_swap::{self, Tied};
use linkrate_sys::tcp_repair::{self, Agreed, MIN_MSS, Queue, Standing, Windows};

use crate::connection::{Connection, MAX_QUEUED};

/// Why a connection stays where it is.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It is not established any more, or not yet. The number is the kernel's for the state.
    #[error("the connection is not established (state {0})")]
    Closing(u8),
    /// Explicit congestion notification: its state cannot be moved.
    #[error("the connection uses ECN")]
    Ecn,
    /// Something of the kernel belongs to the socket.
    #[error("the connection {}", match .0 {
        Tied::Multipath => "is one of multipath TCP",
        Tied::UpperLayer => "has a protocol of the kernel on top",
        Tied::ZeroCopy => "sends pages of the program (SO_ZEROCOPY)",
        Tied::Urgent => "has urgent data",
    })]
    Tied(Tied),
    /// The peer takes smaller segments than a socket can be told to send.
    #[error("the peer takes segments of {0} bytes, expected at least {MIN_MSS}")]
    Mss(u32),
    /// More bytes in a queue than a state may have.
    #[error("{0} bytes wait in a queue, expected at most {MAX_QUEUED}")]
    Full(usize),
    #[error("{step}: {cause}")]
    System { step: &'static str, cause: io::Error },
}

impl Refusal {
    /// The word for the reason in counters.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Closing(_) => "closing",
            Self::Ecn => "ecn",
            Self::Tied(Tied::Multipath) => "multipath",
            Self::Tied(Tied::UpperLayer) => "upper-layer",
            Self::Tied(Tied::ZeroCopy) => "zero-copy",
            Self::Tied(Tied::Urgent) => "urgent",
            Self::Mss(_) => "mss",
            Self::Full(_) => "full",
            Self::System { .. } => "system",
        }
    }
}

pub(crate) fn in_step(step: &'static str) -> impl Fn(io::Error) -> Refusal {
    move |cause| Refusal::System { step, cause }
}

/// Reads the state of a connection, which is stopped: nobody reads or writes the socket, and no segment of the peer
/// reaches it. The socket is in repair mode afterwards; [`keep`] ends that. After a refusal the connection
/// continues in its socket.
pub fn dump(socket: impl AsFd) -> Result<Connection, Refusal> {
    let socket = socket.as_fd();
    movable(socket)?;
    // a segment that the host's softirq takes late would change the state while it is read
    socket_swap::deafen(socket).map_err(in_step("shut out segments"))?;
    let entered = tcp_repair::enter(socket).map_err(in_step("enter repair mode"));
    let dumped = entered.and_then(|()| read(socket));
    if dumped.is_err() {
        keep(socket);
    }
    dumped
}

/// Leaves a connection that was [dumped](dump) where it is.
pub fn keep(socket: impl AsFd) {
    let socket = socket.as_fd();
    // the connection of a socket that does not leave repair mode is lost anyway
    let _ = tcp_repair::leave(socket);
    socket_swap::hear(socket);
}

/// Whether the connection of a socket can move.
pub fn movable(socket: impl AsFd) -> Result<(), Refusal> {
    let socket = socket.as_fd();
    let standing = tcp_repair::standing(socket).map_err(in_step("read TCP_INFO"))?;
    if standing.state != Standing::ESTABLISHED {
        return Err(Refusal::Closing(standing.state));
    }
    if standing.ecn {
        return Err(Refusal::Ecn);
    }
    match socket_swap::tied(socket).map_err(in_step("read socket options"))? {
        Some(tied) => Err(Refusal::Tied(tied)),
        None => Ok(()),
    }
}

fn read(socket: impl AsFd) -> Result<Connection, Refusal> {
    let socket = socket.as_fd();
    let standing = tcp_repair::standing(socket).map_err(in_step("read TCP_INFO"))?;
    // a FIN or RST may have come since the first look
    if standing.state != Standing::ESTABLISHED {
        return Err(Refusal::Closing(standing.state));
    }
    let (own, far) = socket_swap::ends(socket).map_err(in_step("read the addresses"))?;
    let failed = in_step("read the state of the connection");
    let queued = tcp_repair::queued(socket).map_err(&failed)?;
    if let Some(full) = [queued.send, queued.receive].into_iter().find(|bytes| *bytes > MAX_QUEUED)
    {
        return Err(Refusal::Full(full));
    }
    let mss = tcp_repair::mss(socket).map_err(&failed)?;
    if mss < MIN_MSS {
        return Err(Refusal::Mss(mss));
    }
    let send_end = tcp_repair::sequence(socket, Queue::Send).map_err(&failed)?;
    let mut sent = tcp_repair::peek(socket, Queue::Send, queued.send).map_err(&failed)?;
    let unsent = sent.split_off(queued.send.saturating_sub(queued.unsent));
    Ok(Connection {
        own,
        far,
        unacknowledged: send_end.wrapping_sub(queued.send as u32),
        receive_next: tcp_repair::sequence(socket, Queue::Receive).map_err(&failed)?,
        windows: tcp_repair::windows(socket).map_err(&failed)?,
        agreed: Agreed { mss, ..standing.agreed },
        has_out_of_order: standing.has_out_of_order,
        sent_again: standing.sent_again,
        timestamp: tcp_repair::timestamp(socket).map_err(&failed)?,
        settings: socket_swap::settings(socket, own.ip().to_canonical().is_ipv4())
            .map_err(&failed)?,
        sent,
        unsent,
        unread: tcp_repair::peek(socket, Queue::Receive, queued.receive).map_err(&failed)?,
    })
}

/// Takes the connection from a socket that was [dumped](dump). The socket keeps its port and its options, sends
/// nothing, and waits for [`restore`]. If the kernel refuses, the connection is lost.
pub fn park(socket: impl AsFd, connection: &Connection) -> Result<(), Refusal> {
    let socket = socket.as_fd();
    let failed = in_step("shelve the socket");
    tcp_repair::disconnect(socket).map_err(&failed)?;
    tcp_repair::bind(socket, &connection.own).map_err(failed)
}

/// Puts a connection into a new socket in the network namespace of the calling thread. Bytes that were not sent are
/// the caller's to send. If a step fails, nothing was sent.
pub fn restore_anew(connection: &Connection) -> Result<OwnedFd, Refusal> {
    let socket = socket_swap::tcp_socket(&connection.own).map_err(in_step("make a socket"))?;
    restore(&socket, connection)?;
    Ok(socket)
}

/// Puts a connection into a socket without one: a new socket, or one that was [parked](park). Bytes that were not
/// sent are the caller's to send. If bytes may be lost, the peer is asked which it has. If a step fails, nothing
/// was sent.
pub fn restore(socket: impl AsFd, connection: &Connection) -> Result<(), Refusal> {
    let socket = socket.as_fd();
    let is_v4 = connection.own.ip().to_canonical().is_ipv4();
    tcp_repair::enter(socket).map_err(in_step("enter repair mode"))?;
    socket_swap::set_settings(socket, is_v4, &connection.settings)
        .map_err(in_step("set the options of the socket"))?;
    let unread_at = connection.receive_next.wrapping_sub(connection.unread.len() as u32);
    for (queue, at) in [(Queue::Send, connection.unacknowledged), (Queue::Receive, unread_at)] {
        tcp_repair::set_sequence(socket, queue, at).map_err(in_step("set a sequence number"))?;
    }
    tcp_repair::bind(socket, &connection.own).map_err(in_step("bind"))?;
    // otherwise the MSS stays 524; options and timestamps take their part of it
    tcp_repair::set_mss(socket, connection.agreed.mss).map_err(in_step("set the MSS"))?;
    socket_swap::connect(socket, &connection.far).map_err(in_step("connect in repair mode"))?;
    tcp_repair::set_agreed(socket, &connection.agreed).map_err(in_step("set TCP options"))?;
    tcp_repair::set_timestamp(socket, connection.timestamp).map_err(in_step("set timestamps"))?;
    let resized = in_step("resize the buffers");
    let (sent, unread) = (connection.sent.len(), connection.unread.len());
    let before = socket_swap::make_room(socket, sent, unread).map_err(&resized)?;
    for (queue, bytes) in [(Queue::Receive, &connection.unread), (Queue::Send, &connection.sent)] {
        tcp_repair::fill(socket, queue, bytes).map_err(in_step("fill a queue"))?;
    }
    let offered = connection.windows.offered(connection.receive_next);
    socket_swap::shrink_send_buffer(socket, before)
        .and_then(|()| socket_swap::shrink_receive_buffer(socket, before, offered as usize))
        .map_err(resized)?;
    let windows = settable(connection.windows, connection.receive_next);
    tcp_repair::set_windows(socket, &windows).map_err(in_step("set the windows"))?;
    // what the peer has of these bytes is not part of the state; TCP would wait for a time-out otherwise
    let left = match connection.has_out_of_order && !connection.sent.is_empty() {
        true => tcp_repair::leave_and_ask(socket),
        false => tcp_repair::leave(socket),
    };
    left.map_err(in_step("leave repair mode"))?;
    // a socket that was parked heard nothing
    socket_swap::hear(socket);
    Ok(())
}

/// Windows that the kernel accepts (`tcp_repair_set_window`, net/ipv4/tcp.c). A socket without memory closes its window
/// (`tcp_select_window`, net/ipv4/tcp_output.c), although the segment that last updated the send window may lie beyond,
/// behind a gap. An earlier segment in its place only lets more segments update the window.
fn settable(windows: Windows, receive_next: u32) -> Windows {
    let end = receive_next.wrapping_add(windows.receive);
    let is_beyond = windows.updated_by.wrapping_sub(end).cast_signed() > 0;
    Windows { updated_by: if is_beyond { end } else { windows.updated_by }, ..windows }
}

/// Sends what the connection had not sent, and lets its buffers be those of the program again. Fails with
/// `WouldBlock` when the buffer has no room for it.
pub fn go_on(restored: impl AsFd, connection: &Connection) -> Result<(), Refusal> {
    let stream = restored.as_fd();
    let resized = in_step("resize the buffers");
    let sends = connection.sent.len() + connection.unsent.len();
    let before = socket_swap::make_room(stream, sends, 0).map_err(&resized)?;
    let mut rest = &connection.unsent[..];
    while !rest.is_empty() {
        let sent = socket::send_now(stream, rest).map_err(in_step("send the rest"))?;
        rest = &rest[sent..];
    }
    socket_swap::shrink_send_buffer(stream, before)
        .and_then(|()| socket_swap::settle_buffers(stream, &connection.settings))
        .map_err(resized)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_closed_before_the_segment_that_updated_it_can_be_set() {
        let windows = |updated_by, receive| Windows {
            updated_by,
            receive,
            send: 9,
            send_largest: 9,
            receive_at: 100,
        };
        // a segment behind a gap has updated the window, and then there was no memory
        assert_eq!(settable(windows(150, 0), 100), windows(100, 0));
        assert_eq!(settable(windows(150, 50), 100), windows(150, 50));
        assert_eq!(settable(windows(90, 0), 100), windows(90, 0));
        // sequence numbers wrap
        assert_eq!(settable(windows(5, 0), u32::MAX), windows(u32::MAX, 0));
        assert_eq!(settable(windows(5, 10), u32::MAX), windows(5, 10));
    }
}
