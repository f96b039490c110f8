//! A TCP of an adapter, as its [engine](crate::engine) uses it.
//!
//! Segments and timers are not in here. They pass the TAP and the kernel of the only stack so far. A
//! stack that is part of a device takes them from the device thread that serves its port.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use crate::connection::Connection;
use crate::migrate::Refusal;

/// A TCP that connections can be handed to.
pub trait Stack: fmt::Debug + Send + 'static {
    /// A connection in it. Its descriptor is readable when [`receive`](Self::receive) has something to
    /// say.
    type Handle: AsFd + fmt::Debug + Send;

    /// Takes a connection. Bytes that were not sent are the caller's. So are those that were not read and that it
    /// leaves in the connection; the others come first out of [`receive`](Self::receive). At a refusal no payload
    /// was sent.
    fn import(&mut self, connection: &mut Connection) -> Result<Self::Handle, Refusal>;

    /// Bytes for which there is room now; [`send`](Self::send) may take fewer or more.
    fn room(&self, handle: &Self::Handle) -> usize;

    /// Takes bytes to be sent, as many as there is room for. Fails with `WouldBlock` without room, otherwise with
    /// the error of the connection.
    fn send(&mut self, handle: &Self::Handle, bytes: &[u8]) -> io::Result<usize>;

    /// Gives bytes that have arrived in order; 0 behind the last byte of the peer. Fails with `WouldBlock` when
    /// there are none, otherwise with the error of the connection.
    fn receive(&mut self, handle: &Self::Handle, buffer: &mut [u8]) -> io::Result<usize>;

    /// Bytes that [`receive`](Self::receive) would give at once; 0 where nobody can tell.
    fn waiting(&self, handle: &Self::Handle) -> usize;

    /// Whether bytes were sent that the peer has not acknowledged, or are to be sent.
    fn has_unacknowledged(&self, handle: &Self::Handle) -> bool;

    /// Retransmission time-outs in sequence without an acknowledgement.
    fn timeouts(&self, handle: &Self::Handle) -> u8;

    /// The error of a connection that has failed behind the last byte of the peer; `None` while it
    /// continues.
    fn failure(&self, handle: &Self::Handle) -> Option<io::Error>;

    /// Sends FIN behind the last byte.
    fn finish(&mut self, handle: &Self::Handle);

    /// Ends a connection as the close of a program does: with FIN, or with RST where bytes were not
    /// read, or if `reset` says so.
    fn close(&mut self, handle: Self::Handle, reset: bool);

    /// Gives a connection back. A refusal comes with the handle; the connection continues.
    fn export(&mut self, handle: Self::Handle) -> Result<Connection, (Refusal, Self::Handle)>;
}
