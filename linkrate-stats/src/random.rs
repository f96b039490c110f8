//! Random numbers that mean the same in every version: the order of runs comes from them.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// ChaCha with 8 rounds, the study's seed as its key and the block as its stream. The key is laid
/// out here and the shuffle below is our own, because the conveniences of the `rand` crates
/// (`seed_from_u64`, `shuffle`) may change their values between versions, and a study must be
/// resumable by a later build.
pub fn generator(seed: u64, block: u32) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(b"linkrate");
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(u64::from(block));
    rng
}

/// Fisher and Yates: every order equally likely.
pub fn shuffle<T>(items: &mut [T], rng: &mut ChaCha8Rng) {
    for last in (1..items.len()).rev() {
        let other = below(rng, last as u64 + 1) as usize;
        items.swap(last, other);
    }
}

/// A number below `bound`, each equally likely: draws that would favour small numbers are repeated.
/// `bound` is at least 1.
pub(crate) fn below(rng: &mut ChaCha8Rng, bound: u64) -> u64 {
    // 2^64 mod bound values at the top would make the smallest remainders likelier
    let excess = (u64::MAX % bound + 1) % bound;
    loop {
        let drawn = rng.next_u64();
        if drawn <= u64::MAX - excess {
            return drawn % bound;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_numbers_stay_below_their_bound() {
        let mut rng = generator(1, 0);
        for bound in [1, 2, 3, 7, 1 << 40, u64::MAX] {
            assert!((0..100).all(|_| below(&mut rng, bound) < bound));
        }
    }
}
