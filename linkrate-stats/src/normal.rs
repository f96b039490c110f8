//! The standard normal distribution.

use super::student_t;

/// Degrees of freedom at which Student's t is the normal distribution to six digits.
const MANY: f64 = 1e9;

/// The probability of a value of at most `z`.
pub fn cumulative(z: f64) -> f64 {
    student_t::cumulative(z, MANY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_tables() {
        for (z, probability) in [(0.0, 0.5), (1.0, 0.841_344_746), (-1.96, 0.024_997_895)] {
            assert!((cumulative(z) - probability).abs() < 1e-6, "{z}: {}", cumulative(z));
        }
    }
}
