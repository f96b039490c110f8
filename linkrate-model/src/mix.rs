//! Several workloads at once: which flows run which of them.

use crate::units::ByteSize;
pub use crate::workload::MixPart;
use crate::workload::{Direction, MessageSize, Protocol, Workload};

/// Most workloads of a mix.
pub const MAX_PARTS: usize = 16;

/// Largest share of a workload.
pub const MAX_SHARE: u32 = 1000;

/// Who runs what: the part of each connection, dealt out in turn so that every part is spread evenly
/// over clients and ports.
///
/// Connections are counted through all clients: connection *j* of client *c* is number
/// *c* × connections + *j*. The parts repeat in a fixed order in which each occurs as often as its share
/// in lowest terms.
fn turns(shares: &[u32]) -> Vec<usize> {
    let divisor = shares.iter().copied().fold(0, greatest_divisor).max(1);
    let shares: Vec<i64> = shares.iter().map(|share| i64::from(share / divisor)).collect();
    let all: i64 = shares.iter().sum();
    let mut credit = vec![0; shares.len()];
    let mut turns = Vec::new();
    for _ in 0..all {
        for (credit, share) in credit.iter_mut().zip(&shares) {
            *credit += share;
        }
        // the first of those with the most credit
        let most = credit.iter().copied().max().unwrap_or(0);
        let Some(next) = credit.iter().position(|own| *own == most) else { break };
        credit[next] -= all;
        turns.push(next);
    }
    turns
}

fn greatest_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

impl Workload {
    /// The workload that stands for a mix as a whole. Its kind, direction and sizes span those of the
    /// parts: transactions beside streams are counted as payload in both directions.
    #[must_use]
    pub fn of_mix(&self, mix: Vec<MixPart>) -> Self {
        let parts = || mix.iter().map(|part| &part.workload);
        let same = |kind: Protocol| parts().all(|part| part.kind == kind);
        let transactional = parts().all(|part| part.kind.is_transactional());
        let kind = match parts().next() {
            None => return self.clone(),
            Some(first) if same(first.kind) => first.kind,
            Some(_) if transactional => Protocol::RequestResponse,
            Some(_) => Protocol::Stream,
        };
        let ways = |part: &Workload| {
            let both = !transactional && part.kind.is_transactional();
            if both { Direction::Bidirectional } else { part.direction }
        };
        let first = parts().next().map_or(self.direction, ways);
        let direction =
            if parts().all(|part| ways(part) == first) { first } else { Direction::Bidirectional };
        let span = |size: fn(&Workload) -> MessageSize| {
            let low = parts().map(|part| size(part).smallest()).min().unwrap_or(ByteSize(1));
            let high = parts().map(|part| size(part).largest()).max().unwrap_or(ByteSize(1));
            if low == high { MessageSize::Fixed(low) } else { MessageSize::Uniform { low, high } }
        };
        Self {
            kind,
            direction,
            message: span(|part| part.message),
            request: span(|part| part.request),
            response: span(|part| part.response),
            transfer: parts().map(|part| part.transfer).max().unwrap_or(self.transfer),
            connections: self.connections,
            mix: mix.clone(),
            ..Self::default()
        }
    }

    /// Flows of the mix among `clients` that its shares do not divide: the number of connections, and
    /// the number that it must be a multiple of. `None` where the shares are met, and without a mix.
    pub fn indivisible(&self, clients: u32) -> Option<(u64, u64)> {
        let shares: Vec<u32> = self.mix.iter().map(|part| part.share).collect();
        let turns = turns(&shares).len() as u64;
        let all = u64::from(self.connections).saturating_mul(clients.into());
        (turns > 0 && all % turns != 0).then_some((all, turns))
    }

    /// The workloads of each client, part by part: their connections are that client's. A workload that
    /// is no mix is the only part.
    pub fn by_client(&self, clients: u32) -> Vec<Vec<Self>> {
        if self.mix.is_empty() {
            return vec![vec![self.clone(); clients as usize]];
        }
        let shares: Vec<u32> = self.mix.iter().map(|part| part.share).collect();
        let turns = turns(&shares);
        let part_of = |number: u64| turns[(number % turns.len().max(1) as u64) as usize];
        let each = u64::from(self.connections);
        let of_client = |part: usize, client: u64| {
            let numbers = client * each..(client + 1) * each;
            let connections = numbers.filter(|number| part_of(*number) == part).count() as u32;
            Self { connections, ..self.mix[part].workload.clone() }
        };
        (0..self.mix.len())
            .map(|part| (0..u64::from(clients)).map(|client| of_client(part, client)).collect())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(parts: &[(u32, Protocol, Direction)], connections: u32) -> Workload {
        let part = |(number, (share, kind, direction)): (usize, &(u32, Protocol, Direction))| {
            let workload = Workload { kind: *kind, direction: *direction, ..Workload::default() };
            MixPart { name: format!("{number}"), share: *share, workload }
        };
        let parts = parts.iter().enumerate().map(part).collect();
        Workload { connections, ..Workload::default() }.of_mix(parts)
    }

    #[test]
    fn parts_take_turns_by_their_shares() {
        assert_eq!(turns(&[1, 1]), [0, 1]);
        assert_eq!(turns(&[50, 25, 25]), [0, 1, 2, 0]);
        assert_eq!(turns(&[3, 1]), [0, 0, 1, 0]);
        assert_eq!(turns(&[7]), [0]);
        assert_eq!(turns(&[]), [0; 0]);
    }

    #[test]
    fn shares_hold_over_all_clients() {
        use Direction::Transmit;
        use Protocol::{Stream, Transfer};
        let of = |connections, clients| {
            let mix = mix(&[(2, Stream, Transmit), (1, Transfer, Transmit)], connections);
            let by_client = mix.by_client(clients);
            let count = |part: &Vec<Workload>| part.iter().map(|w| w.connections).collect();
            (mix.indivisible(clients), by_client.iter().map(count).collect::<Vec<Vec<u32>>>())
        };
        assert_eq!(of(3, 2), (None, vec![vec![2, 2], vec![1, 1]]));
        // a client each
        assert_eq!(of(1, 3), (None, vec![vec![1, 0, 1], vec![0, 1, 0]]));
        assert_eq!(of(2, 2).0, Some((4, 3)));
        assert_eq!(Workload::default().by_client(2)[0].len(), 2);
        assert_eq!(Workload::default().indivisible(2), None);
    }

    #[test]
    fn the_whole_spans_its_parts() {
        use Direction::{Bidirectional, Receive, Transmit};
        use Protocol::{RequestResponse, Stream, Transfer, UdpRequestResponse};
        let of = |parts: &[(Protocol, Direction)]| {
            let parts: Vec<_> = parts.iter().map(|(kind, way)| (1, *kind, *way)).collect();
            let whole = mix(&parts, 1);
            (whole.kind, whole.direction)
        };
        assert_eq!(of(&[(Transfer, Receive), (Transfer, Receive)]), (Transfer, Receive));
        assert_eq!(of(&[(Transfer, Transmit), (Stream, Receive)]), (Stream, Bidirectional));
        let requests = (RequestResponse, Transmit);
        assert_eq!(of(&[(Stream, Transmit), requests]), (Stream, Bidirectional));
        assert_eq!(of(&[(UdpRequestResponse, Transmit), requests]), (RequestResponse, Transmit));
    }
}
