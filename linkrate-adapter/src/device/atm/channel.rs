//! A connection at an ATM port, and what others may know of it.

use std::sync::{Mutex, PoisonError};

use linkrate_terms::lab::ConnectionReport;
use linkrate_wire::atm::Connection;
use linkrate_wire::atm::cell::Headers;
use linkrate_wire::atm::rate::Shaper;
use linkrate_wire::control::atmarp::Station;

use super::assembly::Assembly;
use crate::counters::Counter;

/// A connection, in the hands of its device.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) headers: Headers,
    pub(super) assembly: Assembly,
    /// Holds its cells to its peak rate; `None` where the line alone does.
    pub(super) shaper: Option<Shaper>,
    pub(super) number: usize,
}

/// What others may know of a connection.
#[derive(Debug)]
pub(crate) struct ChannelShared {
    connection: Connection,
    /// Cells. Written by the device thread.
    pub(crate) tx_cells: Counter,
    pub(crate) rx_cells: Counter,
    peer: Mutex<Station>,
}

impl ChannelShared {
    pub(crate) fn new(connection: Connection) -> Self {
        let (tx_cells, rx_cells) = (Counter::default(), Counter::default());
        Self { connection, tx_cells, rx_cells, peer: Mutex::default() }
    }

    /// The other end has told its addresses.
    pub(crate) fn set_peer(&self, peer: Station) {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = peer;
    }

    pub(crate) fn report(&self) -> ConnectionReport {
        let peer = *self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        ConnectionReport {
            vpi: self.connection.vpi,
            vci: self.connection.vci,
            address: peer.ip,
            atm_address: peer.atm.map(|address| address.to_string()),
            tx_cells: self.tx_cells.get(),
            rx_cells: self.rx_cells.get(),
        }
    }
}
