//! What flows over the ports of an aggregate get, if their peers have links of their own.
//!
//! A port and the link of a peer carry the same: a flow is bound by both.

use super::Named;

impl Named {
    /// The throughput of all flows at most, in limits of one port: as many ports as can be paired with
    /// peers, each port with one that it has a flow to. `peers` has the peer of each flow, by
    /// number. Round robin is bound by the number of ports and peers alone.
    #[must_use]
    pub fn most(&self, peers: &[usize]) -> usize {
        let flows = || self.flows.iter().zip(peers);
        let ports = self.per_port.len();
        let known = peers.iter().max().map_or(0, |most| most + 1);
        let mut reaches = vec![vec![false; known]; ports];
        for (place, peer) in flows() {
            match place.port {
                Some(port) => reaches[port.at()][*peer] = true,
                None => reaches.iter_mut().for_each(|of_port| of_port[*peer] = true),
            }
        }
        // links are equal, so the largest flow is a largest matching (Ford and Fulkerson, 1956)
        let mut pairs: Vec<Option<usize>> = vec![None; known];
        (0..ports).filter(|port| pair(*port, &reaches, &mut pairs, &mut vec![false; known])).count()
    }

    /// The throughput of each port, in limits of one port, if greedy flows share each link evenly: all
    /// grow alike, and each stops when its port or the link of its peer is full. Zero for each port
    /// with round robin, whose flows have no port.
    #[must_use]
    pub fn shared(&self, peers: &[usize]) -> Vec<f64> {
        let ports = self.per_port.len();
        let known = peers.iter().max().map_or(0, |most| most + 1);
        // the links: ports, then peers
        let mut room = vec![1.0_f64; ports + known];
        let flows = self.flows.iter().zip(peers);
        let mut growing: Vec<(usize, usize)> =
            flows.filter_map(|(place, far)| Some((place.port?.at(), ports + far))).collect();
        let mut rates = vec![0.0; ports];
        while !growing.is_empty() {
            let mut users = vec![0_u32; room.len()];
            for (port, far) in &growing {
                users[*port] += 1;
                users[*far] += 1;
            }
            let used = room.iter().zip(&users).filter(|(_, users)| **users > 0);
            let step = used.map(|(room, users)| room / f64::from(*users)).fold(1.0, f64::min);
            for (port, _) in &growing {
                rates[*port] += step;
            }
            for (room, users) in room.iter_mut().zip(&users) {
                *room -= step * f64::from(*users);
            }
            growing.retain(|(port, far)| room[*port] > FULL && room[*far] > FULL);
        }
        rates
    }
}

/// A link with less room is full; what is left is an error of rounding.
const FULL: f64 = 1e-9;

/// Finds a peer for `port`, if need be by moving other ports to other peers.
fn pair(
    port: usize,
    reaches: &[Vec<bool>],
    pairs: &mut Vec<Option<usize>>,
    seen: &mut Vec<bool>,
) -> bool {
    for peer in 0..pairs.len() {
        if !reaches[port][peer] || seen[peer] {
            continue;
        }
        seen[peer] = true;
        if pairs[peer].is_none_or(|other| pair(other, reaches, pairs, seen)) {
            pairs[peer] = Some(port);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use crate::balance::PortIndex;
    use crate::limits::aggregate::Place;

    use super::*;

    fn named(ports: usize, of_flows: &[Option<u8>]) -> Named {
        let place = |port: &Option<u8>| Place { entry: None, port: port.map(PortIndex) };
        let mut per_port = vec![0; ports];
        of_flows.iter().flatten().for_each(|port| per_port[usize::from(*port)] += 1);
        Named { flows: of_flows.iter().map(place).collect(), per_port }
    }

    #[test]
    fn a_peer_with_several_ports_has_one_link() {
        let four = named(4, &[0, 1, 2, 3].map(Some));
        assert_eq!(
            (four.most(&[0, 1, 2, 3]), four.most(&[0; 4]), four.most(&[0, 0, 1, 1])),
            (4, 1, 2)
        );
        assert_eq!(four.shared(&[0; 4]), [0.25; 4]);
        assert_eq!(four.shared(&[0, 1, 2, 2]), [1.0, 1.0, 0.5, 0.5]);
    }

    #[test]
    fn ports_are_paired_so_that_most_are_used() {
        // port 0 reaches both peers, port 1 the first alone
        let two = named(2, &[0, 0, 1].map(Some));
        assert_eq!(two.most(&[0, 1, 0]), 2);
        // even shares are less: the first peer is full when the second is not
        let shared = two.shared(&[0, 1, 0]);
        assert!((shared[0] - 1.0).abs() < 1e-6 && (shared[1] - 0.5).abs() < 1e-6, "{shared:?}");
    }

    #[test]
    fn a_port_without_a_flow_gets_nothing_and_round_robin_has_no_shares() {
        let lone = named(4, &[2, 2].map(Some));
        assert_eq!((lone.most(&[0, 1]), lone.shared(&[0, 1])), (1, vec![0.0, 0.0, 1.0, 0.0]));
        let robin = named(4, &[None, None]);
        assert_eq!((robin.most(&[0, 1]), robin.shared(&[0, 1])), (2, vec![0.0; 4]));
    }

    proptest::proptest! {
        /// Even shares are possible: no port and no peer carries more than its link, and all
        /// together no more than the most.
        #[test]
        fn even_shares_are_no_more_than_the_most(
            flows in proptest::collection::vec((0u8..6, 0usize..5), 1..40),
        ) {
            let (ports, peers): (Vec<_>, Vec<_>) = flows.into_iter().unzip();
            let named = named(6, &ports.into_iter().map(Some).collect::<Vec<_>>());
            let (shared, most) = (named.shared(&peers), named.most(&peers));
            let sum: f64 = shared.iter().sum();
            proptest::prop_assert!(shared.iter().all(|rate| *rate <= 1.0 + 1e-6));
            // even shares fill every peer or port that bounds a flow, half of the most at least
            proptest::prop_assert!(sum <= most as f64 + 1e-6 && sum >= most as f64 / 2.0 - 1e-6);
        }
    }
}
