//! What ATM ports, ATM switches and bridges have in common, and what others may know of an ATM port, of its connections
//! and of address resolution.

pub(crate) mod assembly;
pub(crate) mod lane;

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use linkrate_model::AtmKnobs;
use linkrate_model::lab::{AtmArpEntry, ConnectionReport};
use linkrate_wire::atm::{AtmAddress, Connection, snap};
use linkrate_wire::control::arp;
use linkrate_wire::control::atmarp::{AtmArp, Station};
use linkrate_wire::machine::call::Purpose;

use crate::cells::Unit;
use crate::counters::{ArpCounters, AtmCounters, Counter, DefectCounters};
use crate::frame::WireFrame;
use crate::settings::Settings;
use lane::LaneShared;

/// What the device of an ATM port shares with the controller, beside what every device does.
#[derive(Debug, Default)]
pub(crate) struct AtmShared {
    pub(crate) settings: Settings<AtmKnobs>,
    /// Those of cells and units.
    pub(crate) counters: AtmCounters,
    /// The units that it did not receive.
    pub(crate) defects: DefectCounters,
    channels: Mutex<Vec<Arc<ChannelShared>>>,
    pub(crate) lane: OnceLock<LaneShared>,
    /// The client of an ATMARP server.
    pub(crate) atmarp: OnceLock<ArpShared>,
}

impl AtmShared {
    /// The connections, as its device has them.
    pub(crate) fn channels(&self) -> MutexGuard<'_, Vec<Arc<ChannelShared>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let lane = self.lane.get().into_iter().flat_map(|lane| lane.counters.values());
        let atmarp = self.atmarp.get().into_iter().flat_map(|atmarp| atmarp.counters.values());
        let of_client = atmarp.filter(|(name, _)| !name.starts_with(OF_SERVER));
        self.counters.values().chain(self.defects.values()).chain(lane).chain(of_client)
    }
}

/// The names of the counters of a server of ATMARP begin with this.
pub(crate) const OF_SERVER: &str = "ipoaArpSrvr";

/// An IP address, the ATM address behind it, and when a machine learnt that.
pub(crate) type Learnt = (Ipv4Addr, AtmAddress, Duration);

/// What others may know of a client or a server of ATMARP.
#[derive(Debug, Default)]
pub(crate) struct ArpShared {
    pub(crate) counters: ArpCounters,
    known: Mutex<Vec<Learnt>>,
    trouble: Mutex<Option<String>>,
}

impl ArpShared {
    pub(crate) fn show(&self, known: impl Iterator<Item = Learnt>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known.collect();
    }

    pub(crate) fn set_trouble(&self, trouble: Option<&str>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble.map(str::to_owned);
    }

    /// Why the client has no connection to its server; `None` if it has one.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is known, with its age at `now`.
    pub(crate) fn entries(&self, now: Duration) -> Vec<AtmArpEntry> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = |(address, atm, learnt): &Learnt| AtmArpEntry {
            address: *address,
            atm_address: atm.to_string(),
            age_seconds: now.saturating_sub(*learnt).as_secs(),
        };
        known.iter().map(entry).collect()
    }
}

/// The unit that carries a message of ATMARP.
pub(crate) fn message_unit(message: &AtmArp) -> Option<Unit> {
    Unit::new(&snap::header(arp::ETHER_TYPE), WireFrame::copied(message.emit())).ok()
}

/// The address of the ATMARP server: a local one of switch 0, where no host is.
pub(crate) fn server_address() -> AtmAddress {
    AtmAddress::local(0, [2, 0, 0, 0xa7, 0, 0], 0)
}

/// What others may know of a connection at an ATM port.
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
