//! How long octets take.

use linkrate_model::BitRate;

/// Binary places of a fraction of a picosecond: enough for every frame length.
const PLACES: u32 = 32;

/// The time of an octet, prepared once, so that a frame costs two multiplications of whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Whole picoseconds of an octet.
    whole_ps: u64,
    /// The rest, in 2⁻³² ps.
    fraction: u64,
}

impl Pace {
    /// Nothing takes any time.
    pub const NO_TIME: Self = Self { whole_ps: 0, fraction: 0 };

    /// Octets at `rate`, all of which is for them. [`LinkLaw::pace`](super::LinkLaw::pace) is for
    /// the octets of a line.
    #[must_use]
    pub fn of(rate: BitRate) -> Self {
        // 8e12: bits of an octet, picoseconds of a second
        let octet_ps = 8e12 / rate.0;
        let fraction = (octet_ps.fract() * (1u64 << PLACES) as f64).round();
        // a rate of zero takes as long as can be said
        Self { whole_ps: octet_ps as u64, fraction: fraction as u64 }
    }

    /// The time of `octets`, in picoseconds, rounded to the nearest.
    #[inline]
    #[must_use]
    pub const fn time_ps(self, octets: u64) -> u64 {
        const HALF: u128 = 1 << (PLACES - 1);
        let fractions = octets as u128 * self.fraction as u128 + HALF;
        // below 2⁶⁴: a fraction is less than a picosecond
        let rest_ps = (fractions >> PLACES) as u64;
        octets.saturating_mul(self.whole_ps).saturating_add(rest_ps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times() {
        assert_eq!(Pace::of(BitRate(10e9)).time_ps(1538), 1_230_400);
        assert_eq!(Pace::of(BitRate(100e9)).time_ps(84), 6_720);
        // a third of a picosecond is not lost: 3 Gb/s is 2666.67 ps an octet
        assert_eq!(Pace::of(BitRate(3e9)).time_ps(3_000_000), 8_000_000_000);
        assert_eq!(Pace::NO_TIME.time_ps(u64::MAX), 0);
        assert_eq!(Pace::of(BitRate(1.0)).time_ps(u64::MAX), u64::MAX);
        assert_eq!(Pace::of(BitRate(0.0)).time_ps(1), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_time_is_exact_to_half_a_picosecond(rate in 1e3..1e12f64, octets in 0u64..1 << 20) {
            let exact = octets as f64 * 8e12 / rate;
            let error = (Pace::of(BitRate(rate)).time_ps(octets) as f64 - exact).abs();
            // and what a double loses of the exact value
            prop_assert!(error <= 0.501 + exact * 1e-15, "{error}");
        }
    }
}
