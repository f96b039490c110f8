//! Connections of a port's TCP offload engine, as the controller moves them. An order fails when the device does
//! not answer.

use super::Port;
use crate::AdapterError;
use crate::flow_steering::{Asks, Notify, Order};
use crate::interface::tx_revoke::{ConnectionEnds, Span};

impl Port {
    /// Connections that its TCP offload engine has, and how many it can have; 0 without an engine.
    #[must_use]
    pub fn connections_offloaded(&self) -> (usize, usize) {
        (self.shared.orders.known(), self.most_connections)
    }

    /// Keeps the frames of a connection's peer, until it is at the adapter or at the host. What came before has
    /// been taken when this returns. Fails when the table is full.
    pub fn hold(&self, ends: ConnectionEnds) -> Result<(), AdapterError> {
        self.give(Order::Hold(ends)).map(|_| ())
    }

    /// Keeps the frames of a connection at the adapter until it is at the host, or
    /// [stays](Self::release). Packets of the host pass from now on: it sends as soon as it has the
    /// connection.
    pub fn hold_to_return(&self, ends: ConnectionEnds) -> Result<(), AdapterError> {
        self.give(Order::Return(ends)).map(|_| ())
    }

    /// Takes back the packets of a connection that have not left, once the TCP that sent them has it no more.
    /// Returns their payload, which the TCP that has the connection next sends.
    pub fn take_back(&self, ends: ConnectionEnds) -> Result<Vec<Span>, AdapterError> {
        let number = self.give(Order::TakeBack(ends))?;
        Ok(self.shared.orders.taken_back(number))
    }

    /// Hands frames of a connection to the adapter's TCP from now on, those that were kept first. The
    /// host had sent all before sequence number `send_next`.
    pub fn to_adapter(&self, ends: ConnectionEnds, send_next: u32) -> Result<(), AdapterError> {
        self.give(Order::ToAdapter(ends, send_next)).map(|_| ())
    }

    /// Hands frames of a connection to the host from now on, those that were kept first.
    pub fn to_host(&self, ends: ConnectionEnds) -> Result<(), AdapterError> {
        self.give(Order::ToHost(ends)).map(|_| ())
    }

    /// Lets the frames of a connection that was held continue where it is.
    pub fn release(&self, ends: ConnectionEnds) -> Result<(), AdapterError> {
        self.give(Order::Release(ends)).map(|_| ())
    }

    /// The connections that are to return to the host, as the device has asked since the last call. A
    /// frame of each waits until [`to_host`](Self::to_host) or [`release`](Self::release).
    #[must_use]
    pub fn connections_to_return(&self) -> Vec<(ConnectionEnds, Asks)> {
        self.shared.orders.asked()
    }

    /// Calls `notify`, in the device thread, whenever the device asks that a connection returns. Who listens
    /// first continues to be told.
    pub fn notify_of_returns(&self, notify: &Notify) {
        self.shared.orders.notify(notify);
    }

    /// Hands all frames to the host from now on, and drops those that were kept.
    pub fn forget_connections(&self) -> Result<(), AdapterError> {
        self.give(Order::Forget).map(|_| ())
    }

    /// Gives an order, and waits until it was carried out. Returns its number.
    fn give(&self, order: Order) -> Result<u64, AdapterError> {
        let (name, most) = (self.name().to_owned(), self.most_connections);
        let Some(number) = self.shared.orders.give(order, most) else {
            return Err(AdapterError::TableFull { name, most });
        };
        self.thread.doorbell.ring();
        let answered = self.shared.orders.wait(number, || self.thread.why_ended().is_some());
        answered.map_err(|_| AdapterError::NotAcknowledged { name })?;
        Ok(number)
    }
}
