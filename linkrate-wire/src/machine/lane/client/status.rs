//! What a client shows.

use std::time::Duration;

use super::cache::{Path, Target};
use super::{Client, ClientConfig, State};
use crate::atm::AtmAddress;
use crate::control::lan_emulation::{FrameSize, Lecid, Name};
use crate::frame::MacAddress;

/// What a client counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientCounters {
    /// Frames that left by data-direct connections.
    pub sent_direct: u64,
    /// Frames to one station that left through the BUS.
    pub sent_unknown: u64,
    /// Frames to groups and to all, which left through the BUS.
    pub sent_to_groups: u64,
    /// Frames of the host that were dropped: not operational, too long, too many that wait, or waited
    /// too long.
    pub dropped: u64,
    /// Frames for the host.
    pub delivered: u64,
    /// Own frames that came back from the BUS.
    pub own: u64,
    /// Frames from the BUS for stations of other clients.
    pub of_others: u64,
    /// Units that are no frames.
    pub malformed: u64,
    /// Frames that nobody waits for, or by a connection that does not carry them.
    pub unexpected: u64,
    /// Control frames that came, of those that are right.
    pub control_in: u64,
    /// Questions for the ATM address of a station, or of the BUS.
    pub asked: u64,
    /// Such questions that came.
    pub asked_by_others: u64,
    /// Answers to them.
    pub answered: u64,
    /// Answers of others that came, asked for or not.
    pub answers: u64,
    /// Questions whether a path is empty.
    pub flushed: u64,
    /// Entries of the cache that expired.
    pub aged: u64,
    /// Data-direct connections that did not come about.
    pub calls_failed: u64,
    /// Questions of others that were not answered, because there were too many.
    pub not_answered: u64,
    /// Times that the client went back to its initial state.
    pub fell_back: u64,
}

/// An entry of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cached {
    /// The station.
    pub mac: MacAddress,
    /// The ATM address of its client; `None` while it is not known.
    pub atm: Option<AtmAddress>,
    /// A proxy has told it.
    pub is_remote: bool,
    /// When the entry expires; `None` while the address is not known.
    pub expires: Option<Duration>,
    /// The path of frames to it.
    pub path: Path,
    /// Frames that wait.
    pub held: usize,
}

impl<U: AsRef<[u8]>> Client<U> {
    /// How far it is.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Its settings.
    #[must_use]
    pub const fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// Its identifier, which its data frames have; 0 before it has joined.
    #[must_use]
    pub const fn lecid(&self) -> Lecid {
        self.joined.lecid
    }

    /// The largest data frame of its ELAN.
    #[must_use]
    pub const fn size(&self) -> FrameSize {
        self.joined.size
    }

    /// The name of its ELAN.
    #[must_use]
    pub const fn elan(&self) -> Name {
        self.joined.elan
    }

    /// The address of the LES.
    #[must_use]
    pub const fn les(&self) -> AtmAddress {
        self.joined.les
    }

    /// The address of the BUS.
    #[must_use]
    pub const fn bus(&self) -> AtmAddress {
        self.joined.bus
    }

    /// Whether bridges change their topology.
    #[must_use]
    pub const fn topology_changes(&self) -> bool {
        self.topology_changes
    }

    /// What it has counted.
    #[must_use]
    pub const fn counters(&self) -> ClientCounters {
        self.counters
    }

    /// The stations behind the bridge of a proxy.
    pub fn behind(&self) -> impl Iterator<Item = MacAddress> + '_ {
        self.behind.iter().copied()
    }

    /// The stations that it knows or asks for.
    pub fn cache(&self) -> impl Iterator<Item = Cached> + '_ {
        self.destinations.iter().map(|(mac, one)| {
            let (is_remote, expires) = match one.target {
                Target::Known { is_remote, expires, .. } => (is_remote, Some(expires)),
                _ => (false, None),
            };
            let (atm, path, held) = (one.atm(), one.path, one.held.len());
            Cached { mac: *mac, atm, is_remote, expires, path, held }
        })
    }
}
