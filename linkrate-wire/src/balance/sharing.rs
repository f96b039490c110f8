//! Which entries change their port when ports come and go.
//!
//! Entries are not equal: that of a connection which has nothing to send is one of the table as well.
//! If entries were merely counted, a port that joins could get such entries alone, and carry nothing
//! while another port is full. So what entries carried lately is spread evenly, and those that carried
//! nothing are spread evenly by number.

use super::{ENTRIES, MAX_PORTS, NONE, PortIndex};

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// What it carried lately.
    pub(super) load: u64,
    /// The port that it has, and then the one that it shall have.
    pub(super) port: PortIndex,
}

impl Part {
    /// An entry that is not in use.
    pub(super) const NONE: Self = Self { load: 0, port: NONE };

    fn is_used(&self) -> bool {
        self.port != NONE
    }
}

/// Gives the entries in use to `ports`, on which all of them are.
pub(super) fn share_out(entries: &mut [Part; ENTRIES], ports: &[PortIndex]) {
    even_out(entries, ports, |entry| entry.load);
    even_out(entries, ports, |entry| u64::from(entry.load == 0));
}

/// Steps towards an even share; far fewer are needed.
const MAX_STEPS: usize = 2 * ENTRIES;

/// Moves entries from the port that has most of `of` to the one that has least, as long as neither has
/// then as much as the first one had. Each time it is the entry that comes nearest to half the
/// difference, so that few change.
fn even_out(entries: &mut [Part; ENTRIES], ports: &[PortIndex], of: impl Fn(&Part) -> u64) {
    let mut sums = [0_u64; MAX_PORTS];
    for entry in entries.iter().filter(|entry| entry.is_used()) {
        sums[entry.port.at() % MAX_PORTS] += of(entry);
    }
    // less than an entry carries where all carry the same
    let enough = sums.iter().sum::<u64>() / ENTRIES as u64;
    let mut ports = ports.to_vec();
    for _ in 0..MAX_STEPS {
        let by_sum = |port: &&PortIndex| sums[port.at()];
        let (most, least) = (ports.iter().max_by_key(by_sum), ports.iter().min_by_key(by_sum));
        let (Some(most), Some(least)) = (most.copied(), least.copied()) else { return };
        let difference = sums[most.at()] - sums[least.at()];
        if difference <= enough {
            return;
        }
        let gains = |entry: &&mut Part| entry.port == most && (1..difference).contains(&of(entry));
        let moves = entries.iter_mut().filter(gains);
        match moves.min_by_key(|entry| of(entry).abs_diff(difference / 2)) {
            Some(entry) => {
                entry.port = least;
                sums[most.at()] -= of(entry);
                sums[least.at()] += of(entry);
            }
            // one flow fills it: the others may still be uneven
            None => ports.retain(|port| *port != most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of these ports and loads, in the order of the table.
    fn shared<const N: usize>(parts: [(u8, u64); N], ports: &[u8]) -> [u8; N] {
        let mut entries = [Part::NONE; ENTRIES];
        for (entry, (port, load)) in entries.iter_mut().zip(parts) {
            *entry = Part { load, port: PortIndex(port) };
        }
        let ports: Vec<PortIndex> = ports.iter().copied().map(PortIndex).collect();
        share_out(&mut entries, &ports);
        assert!(entries[N..].iter().all(|entry| *entry == Part::NONE));
        std::array::from_fn(|at| entries[at].port.0)
    }

    #[test]
    fn a_port_that_joins_gets_traffic_and_not_idle_entries_alone() {
        assert_eq!(shared([(0, 0), (0, 900), (0, 1000)], &[0, 1]), [0, 1, 0]);
        assert_eq!(shared([(0, 1), (0, 900), (0, 2), (0, 900)], &[0, 1]), [0, 1, 0, 0]);
    }

    #[test]
    fn idle_entries_are_spread_by_number() {
        let ports = shared([(0, 0); 8], &[0, 1, 2]);
        let count = |port| ports.iter().filter(|of| **of == port).count();
        assert_eq!([count(0), count(1), count(2)], [3, 3, 2]);
    }

    #[test]
    fn what_is_even_stays() {
        let even = [(0, 10), (1, 10), (0, 10), (1, 10), (2, 20), (1, 0), (0, 0), (2, 0)];
        assert_eq!(shared(even, &[0, 1, 2]), even.map(|(port, _)| port));
    }

    #[test]
    fn a_flow_that_fills_a_port_does_not_keep_the_others_uneven() {
        assert_eq!(shared([(0, 1000), (1, 10), (1, 10), (2, 0)], &[0, 1, 2]), [0, 2, 1, 2]);
    }
}
