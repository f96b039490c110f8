//! Message sizes: fixed, or drawn from a range in a sequence both ends can repeat.

use linkrate_model::MessageSize;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Number of sizes that are drawn before traffic starts, so that drawing costs nothing later.
const DRAWN: usize = 4096;

/// An endless sequence of message sizes in bytes.
#[derive(Debug, Clone)]
pub struct Sizes {
    table: Vec<usize>,
    next: usize,
}

impl Sizes {
    /// The sequence of `size` for `seed`; the same seed gives the same sequence everywhere.
    pub fn new(size: MessageSize, seed: u64) -> Self {
        let table = match size {
            MessageSize::Fixed(bytes) => vec![bytes.0 as usize],
            MessageSize::Uniform { .. } => {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                (0..DRAWN).map(|_| drawn(size, random.next_u64())).collect()
            }
        };
        Self { table, next: 0 }
    }

    #[inline]
    pub fn draw(&mut self) -> usize {
        let size = self.table[self.next];
        self.next += 1;
        if self.next == self.table.len() {
            self.next = 0;
        }
        size
    }

    pub fn smallest(&self) -> usize {
        self.table.iter().copied().min().unwrap_or(1)
    }

    pub fn largest(&self) -> usize {
        self.table.iter().copied().max().unwrap_or(1)
    }
}

/// The sizes of connections with one exchange each. Both ends compute them from the port of the
/// client.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionSizes {
    pub requests: MessageSize,
    pub responses: MessageSize,
    /// Seed of the run.
    pub seed: u64,
}

impl ConnectionSizes {
    /// Whether every connection has the same sizes, so that the port is not needed.
    pub fn are_fixed(&self) -> bool {
        let fixed = |size| matches!(size, MessageSize::Fixed(_));
        fixed(self.requests) && fixed(self.responses)
    }

    /// The request's and the response's size on the connection from `client_port`.
    pub fn of(&self, client_port: u16) -> (usize, usize) {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ u64::from(client_port));
        let request = drawn(self.requests, random.next_u64());
        (request, drawn(self.responses, random.next_u64()))
    }
}

/// The size that 64 random bits choose.
fn drawn(size: MessageSize, bits: u64) -> usize {
    let (low, high) = (size.smallest().0, size.largest().0);
    let span = high.saturating_sub(low) + 1;
    // the upper half of a 128-bit product maps 64 random bits to the span with a bias below 2^-38
    // for any span a message can have
    (low + ((u128::from(bits) * u128::from(span)) >> 64) as u64) as usize
}

#[cfg(test)]
mod tests {
    use linkrate_model::ByteSize;

    use super::*;

    #[test]
    fn both_ends_draw_the_same_sizes() {
        let size = MessageSize::Uniform { low: ByteSize(128), high: ByteSize(4096) };
        let (mut here, mut there) = (Sizes::new(size, 7), Sizes::new(size, 7));
        let drawn: Vec<usize> = (0..10_000).map(|_| here.draw()).collect();
        assert!(drawn.iter().all(|size| *size == there.draw()));
        assert!(drawn.iter().all(|size| (128..=4096).contains(size)));
        let mean = drawn.iter().sum::<usize>() as f64 / drawn.len() as f64;
        assert!((mean - 2112.0).abs() < 60.0, "{mean}");
        assert_ne!(drawn[..50], Sizes::new(size, 8).table[..50]);
    }

    #[test]
    fn a_connection_has_the_sizes_of_its_port() {
        let range = MessageSize::Uniform { low: ByteSize(1), high: ByteSize(100) };
        let one = MessageSize::Fixed(ByteSize(1));
        let sizes = ConnectionSizes { requests: range, responses: one, seed: 3 };
        assert!(!sizes.are_fixed());
        let requests: Vec<usize> = (1024..3024).map(|port| sizes.of(port).0).collect();
        assert!(requests.iter().all(|size| (1..=100).contains(size)));
        let mean = requests.iter().sum::<usize>() as f64 / requests.len() as f64;
        assert!((mean - 50.5).abs() < 2.5, "{mean}");
        assert_eq!(sizes.of(4000), sizes.of(4000));
        assert_eq!(sizes.of(4000).1, 1);
    }

    #[test]
    fn a_fixed_size_stays() {
        let mut sizes = Sizes::new(MessageSize::Fixed(ByteSize(9)), 1);
        assert_eq!((sizes.draw(), sizes.draw(), sizes.largest()), (9, 9, 9));
    }
}
