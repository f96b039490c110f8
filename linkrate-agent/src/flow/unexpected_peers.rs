//! Connections and datagrams of a test socket that do not belong to the run.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use linkrate_protocol::bounds;

/// Who belongs to a run: its clients, with its number.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// Number of the run.
    pub nonce: u64,
    pub clients: Arc<BTreeSet<IpAddr>>,
    pub unexpected_peers: Arc<UnexpectedPeers>,
}

impl Guard {
    pub fn new(nonce: u64, clients: impl IntoIterator<Item = IpAddr>) -> Self {
        let clients = Arc::new(clients.into_iter().collect());
        Self { nonce, clients, unexpected_peers: Arc::default() }
    }

    /// Whether a packet from `address` may be of this run. If not, it is counted.
    pub fn admits(&self, address: IpAddr) -> bool {
        let admitted = self.clients.contains(&address);
        if !admitted {
            self.unexpected_peers.refuse(address);
        }
        admitted
    }
}

/// The refused connections and datagrams of a run.
#[derive(Debug, Default)]
pub struct UnexpectedPeers(Mutex<linkrate_protocol::UnexpectedPeers>);

impl UnexpectedPeers {
    /// Counts a connection or a datagram from `address`.
    pub fn refuse(&self, address: IpAddr) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.refused = all.refused.saturating_add(1);
        if all.addresses.len() < bounds::UNEXPECTED_PEERS && !all.addresses.contains(&address) {
            all.addresses.push(address);
        }
    }

    pub fn report(&self) -> linkrate_protocol::UnexpectedPeers {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unexpected_peers_are_counted_and_the_first_are_named() {
        let client = IpAddr::from([198, 51, 100, 2]);
        let guard = Guard::new(7, [client]);
        assert!(guard.admits(client));
        for last in 1..=20 {
            assert!(!guard.admits(IpAddr::from([203, 0, 113, last])));
        }
        assert!(!guard.admits(IpAddr::from([203, 0, 113, 1])));
        let report = guard.unexpected_peers.report();
        assert_eq!((report.refused, report.addresses.len()), (21, bounds::UNEXPECTED_PEERS));
        assert_eq!(report.addresses[0], IpAddr::from([203, 0, 113, 1]));
    }
}
