//! A connection at an ATM port, and what others may know of it.

use std::sync::{Arc, Mutex, PoisonError};

use linkrate_model::BitRate;
use linkrate_model::lab::ConnectionReport;
use linkrate_wire::atm::cell::Headers;
use linkrate_wire::atm::{AtmAddress, Connection};
use linkrate_wire::control::atmarp::Station;
use linkrate_wire::machine::call::Purpose;

use super::Atm;
use super::assembly::Assembly;
use super::shaping::Shaping;
use crate::counters::{Counter, DefectCounters};

/// A connection, in the hands of its device.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) headers: Headers,
    pub(super) assembly: Assembly,
    /// Holds its cells to its peak rate; `None` where the line alone does.
    pub(super) shaping: Option<Shaping>,
    pub(super) number: usize,
    pub(super) shared: Arc<ChannelShared>,
}

/// What others may know of a connection.
#[derive(Debug)]
pub(crate) struct ChannelShared {
    connection: Connection,
    /// Cells. Written by the device thread.
    pub(crate) tx_cells: Counter,
    pub(crate) rx_cells: Counter,
    pub(crate) defects: DefectCounters,
    peer: Mutex<Station>,
    /// The use of a call.
    purpose: Option<Purpose>,
}

impl Atm {
    /// A call has a connection.
    pub(super) fn add_channel(
        &mut self,
        connection: Connection,
        purpose: Purpose,
        peer: AtmAddress,
    ) {
        let shared = Arc::new(ChannelShared::of_call(connection, purpose, peer));
        self.shared.channels().push(Arc::clone(&shared));
        let rate = BitRate(f64::from(self.atm_knobs.peak_rate) * 1e3);
        self.channels.push(Channel {
            headers: Headers::of(connection),
            assembly: Assembly::new(self.longest_unit),
            shaping: Shaping::new(rate),
            number: self.channels.len(),
            shared,
        });
    }

    /// A connection is no more.
    pub(super) fn remove_channel(&mut self, connection: Connection) {
        self.channels.retain(|channel| channel.headers.connection() != connection);
        for (number, channel) in self.channels.iter_mut().enumerate() {
            channel.number = number;
        }
        let known = self.channels.iter().map(|channel| Arc::clone(&channel.shared));
        *self.shared.channels() = known.collect();
    }
}

impl ChannelShared {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            tx_cells: Counter::default(),
            rx_cells: Counter::default(),
            defects: DefectCounters::default(),
            peer: Mutex::default(),
            purpose: None,
        }
    }

    /// A call to or from `peer`.
    pub(crate) fn of_call(connection: Connection, purpose: Purpose, peer: AtmAddress) -> Self {
        let peer = Mutex::new(Station { atm: Some(peer), ip: None });
        Self { peer, purpose: Some(purpose), ..Self::new(connection) }
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
            purpose: self.purpose.map(|purpose| purpose.name().to_owned()),
            address: peer.ip,
            atm_address: peer.atm.map(|address| address.to_string()),
            tx_cells: self.tx_cells.get(),
            rx_cells: self.rx_cells.get(),
            defects: self
                .defects
                .values()
                .filter(|(_, count)| *count > 0)
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
        }
    }
}
