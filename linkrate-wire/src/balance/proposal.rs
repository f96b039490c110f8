//! Which entry shall change its port when loads are uneven and no flow is silent.
//!
//! Such a change costs a flow a short wait. So the rule is coarser than that of changes in gaps: loads that
//! differ by at most a quarter are even enough, and a change must leave at most half of the difference, or
//! the entries of one port would go to and fro.

use super::{ENTRIES, PortIndex};

/// A change of port that would even out the loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebalanceProposal {
    /// The entry.
    pub entry: u8,
    /// Its port.
    pub from: PortIndex,
    /// The port that it shall have.
    pub to: PortIndex,
}

/// The change that comes nearest to an even load of `ports`, of which each has a load, as entries have with
/// their ports. A port that one entry fills keeps it, and the others are looked at.
pub(super) fn of(
    ports: &[PortIndex],
    load: impl Fn(PortIndex) -> u64,
    entries: &[(u8, PortIndex, u64)],
) -> Option<RebalanceProposal> {
    let to = ports.iter().copied().min_by_key(|port| load(*port))?;
    let mut ports: Vec<PortIndex> = ports.to_vec();
    ports.sort_by_key(|port| std::cmp::Reverse(load(*port)));
    ports.into_iter().find_map(|from| {
        let difference = load(from) - load(to);
        if difference <= load(from) / 4 {
            return None;
        }
        // less is less than an entry carries where all carry the same
        let useful = load(from) / ENTRIES as u64 + 1..=difference - difference / 4;
        let able = entries.iter().filter(|(_, port, own)| *port == from && useful.contains(own));
        let (entry, ..) = able.min_by_key(|(.., own)| own.abs_diff(difference / 2))?;
        Some(RebalanceProposal { entry: *entry, from, to })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entry that shall change, and its new port; entries have ports and loads, in the order of the table.
    fn proposed<const N: usize>(ports: &[u8], entries: [(u8, u64); N]) -> Option<(u8, u8)> {
        let ports: Vec<PortIndex> = ports.iter().copied().map(PortIndex).collect();
        let entries: Vec<_> =
            (0..).zip(entries).map(|(at, (port, own))| (at, PortIndex(port), own)).collect();
        let sum = |port| entries.iter().filter(|one| one.1 == port).map(|one| one.2).sum();
        of(&ports, sum, &entries).map(|proposal| (proposal.entry, proposal.to.0))
    }

    #[test]
    fn the_entry_changes_that_comes_nearest_to_an_even_load() {
        assert_eq!(proposed(&[0, 1], [(0, 100), (0, 500), (0, 400), (1, 10)]), Some((1, 1)));
        assert_eq!(
            proposed(&[0, 1, 2], [(0, 10), (1, 100), (1, 500), (1, 400), (2, 0)]),
            Some((2, 2))
        );
    }

    #[test]
    fn loads_that_differ_by_a_quarter_are_even_enough() {
        assert_eq!(proposed(&[0, 1], [(0, 300), (0, 100), (1, 300)]), None);
        assert_eq!(proposed(&[0, 1], [(0, 310), (0, 80), (1, 260)]), Some((1, 1)));
        // a change that would leave more than half of the difference
        assert_eq!(proposed(&[0, 1], [(0, 300), (0, 100), (1, 280)]), None);
    }

    /// It would go to and fro.
    #[test]
    fn an_entry_that_is_the_load_of_its_port_stays() {
        assert_eq!(proposed(&[0, 1], [(0, 1000), (0, 3), (1, 0)]), None);
        // the others are evened out all the same
        assert_eq!(proposed(&[0, 1, 2], [(0, 1000), (1, 200), (1, 200), (2, 0)]), Some((1, 2)));
    }

    #[test]
    fn without_ports_or_loads_nothing_changes() {
        assert_eq!(proposed(&[], [(0, 1)]), None);
        assert_eq!(proposed(&[0], [(0, 9)]), None);
        assert_eq!(proposed(&[0, 1], [(0, 0), (0, 0)]), None);
    }
}
