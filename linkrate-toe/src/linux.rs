//! A second instance of Linux' own TCP, in the network namespace of the calling thread.

use std::io;
use std::os::fd::OwnedFd;

use linkrate_sys::{socket, socket_swap, tcp_repair};

use crate::connection::Connection;
use crate::migrate::{self, Refusal, in_step};
use crate::stack::Stack;

/// Bytes that a connection takes before it sends them. They go back to the host with the connection,
/// whose buffer must have room for them.
const UNSENT: u32 = 256 << 10;

/// TCP of the kernel. Needs CAP_NET_ADMIN over the namespace, and in it the address of each
/// connection and neighbours that nobody has to ask for.
#[derive(Debug, Default)]
pub struct Linux;

impl Stack for Linux {
    type Handle = OwnedFd;

    fn import(&mut self, connection: &mut Connection) -> Result<OwnedFd, Refusal> {
        // What the program has not read waits before the pair, and what was not sent behind it. The last
        // byte passes TCP: a window that is closed opens, and the peer is told, when TCP gives bytes to
        // its reader (`tcp_cleanup_rbuf`, net/ipv4/tcp.c).
        let before = connection.unread.len().saturating_sub(1);
        let last = connection.unread.split_off(before);
        let unsent = std::mem::take(&mut connection.unsent);
        let unread = std::mem::replace(&mut connection.unread, last);
        let socket = migrate::restore_anew(connection).and_then(|socket| {
            migrate::go_on(&socket, connection)?;
            socket_swap::bound_unsent(&socket, UNSENT).map_err(in_step("bound the send queue"))?;
            Ok(socket)
        });
        (connection.unsent, connection.unread) = (unsent, unread);
        socket
    }

    fn room(&self, handle: &OwnedFd) -> usize {
        // a socket that cannot tell says at the send why
        let unsent = tcp_repair::unsent(handle).unwrap_or(0);
        (UNSENT as usize).saturating_sub(unsent)
    }

    fn send(&mut self, handle: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
        socket::send_now(handle, bytes)
    }

    fn receive(&mut self, handle: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
        socket::receive_now(handle, buffer)
    }

    fn waiting(&self, handle: &OwnedFd) -> usize {
        // at the end of the stream there is something to read, and no byte
        tcp_repair::readable(handle).unwrap_or(0)
    }

    fn has_unacknowledged(&self, handle: &OwnedFd) -> bool {
        tcp_repair::queued(handle).is_ok_and(|queued| queued.send > 0)
    }

    fn timeouts(&self, handle: &OwnedFd) -> u8 {
        // a socket without a state has no connection that could be in trouble
        tcp_repair::standing(handle).map_or(0, |standing| standing.timeouts)
    }

    fn failure(&self, handle: &OwnedFd) -> Option<io::Error> {
        socket::take_error(handle).err()
    }

    fn finish(&mut self, handle: &OwnedFd) {
        socket_swap::end_sending(handle);
    }

    fn close(&mut self, handle: OwnedFd, reset: bool) {
        if reset {
            // otherwise it ends with FIN, which the peer takes for a complete stream
            let _ = socket_swap::reset_on_close(&handle);
        }
    }

    fn export(&mut self, handle: OwnedFd) -> Result<Connection, (Refusal, OwnedFd)> {
        let exported = migrate::dump(&handle);
        match exported {
            Ok(connection) => {
                // in repair mode this sends nothing; so does the close
                let _ = tcp_repair::disconnect(&handle);
                Ok(connection)
            }
            Err(refusal) => Err((refusal, handle)),
        }
    }
}
