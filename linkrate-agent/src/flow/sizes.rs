//! Message sizes: fixed, or drawn from a range in a sequence both ends can repeat.

use linkrate_terms::MessageSize;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Sizes drawn before traffic starts, so that drawing costs nothing while it flows.
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
            MessageSize::Uniform { low, high } => {
                let span = high.0.saturating_sub(low.0) + 1;
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                // the upper half of a 128-bit product maps 64 random bits to the span with a bias
                // below 2^-38 for any span a message can have
                let draw = |bits: u64| low.0 + ((u128::from(bits) * u128::from(span)) >> 64) as u64;
                (0..DRAWN).map(|_| draw(random.next_u64()) as usize).collect()
            }
        };
        Self { table, next: 0 }
    }

    /// The next size.
    #[inline]
    pub fn draw(&mut self) -> usize {
        let size = self.table[self.next];
        self.next += 1;
        if self.next == self.table.len() {
            self.next = 0;
        }
        size
    }

    /// The largest size in the sequence.
    pub fn largest(&self) -> usize {
        self.table.iter().copied().max().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use linkrate_terms::ByteSize;

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
    fn a_fixed_size_stays() {
        let mut sizes = Sizes::new(MessageSize::Fixed(ByteSize(9)), 1);
        assert_eq!((sizes.draw(), sizes.draw(), sizes.largest()), (9, 9, 9));
    }
}
