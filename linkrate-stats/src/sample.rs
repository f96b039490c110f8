//! Mean and variance of a sample.

/// A summary of numbers: how many, their mean and their variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    count: usize,
    mean: f64,
    variance: Option<f64>,
}

impl Sample {
    /// Summarises `values`; `None` when there are none.
    ///
    /// Two passes. The first shifts by the first value, so that rates of 10^11 bit/s that differ
    /// in the last digits lose none of them; the second is the corrected two-pass sum of Chan,
    /// Golub and LeVeque (1983), whose second term cancels the rounding error of the mean.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (first, count) = (*values.first()?, values.len());
        let n = count as f64;
        let mean = first + values.iter().map(|value| value - first).sum::<f64>() / n;
        let (mut squares, mut residue) = (0.0, 0.0);
        for value in values {
            let deviation = value - mean;
            squares += deviation * deviation;
            residue += deviation;
        }
        let variance =
            (count >= 2).then(|| ((squares - residue * residue / n) / (n - 1.0)).max(0.0));
        Some(Self { count, mean, variance })
    }

    /// How many values.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The arithmetic mean, in the unit of the values.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The unbiased variance (divisor n - 1), in the squared unit of the values. `None` for a
    /// single value.
    pub fn variance(&self) -> Option<f64> {
        self.variance
    }

    /// The standard error of the mean, in the unit of the values. `None` for a single value.
    pub fn standard_error(&self) -> Option<f64> {
        self.variance.map(|variance| (variance / self.count as f64).sqrt())
    }
}

/// The arithmetic mean; `None` when there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    Sample::of(values).map(|sample| sample.mean())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sample_worked_by_hand() {
        let sample = Sample::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(sample.count(), 8);
        assert_eq!(sample.mean(), 5.0);
        assert!((sample.variance().unwrap() - 32.0 / 7.0).abs() < 1e-14);
        assert!((sample.standard_error().unwrap() - (4.0f64 / 7.0).sqrt()).abs() < 1e-14);
    }

    #[test]
    fn none_and_one() {
        assert_eq!(Sample::of(&[]), None);
        let one = Sample::of(&[3.5]).unwrap();
        assert_eq!((one.mean(), one.variance(), one.standard_error()), (3.5, None, None));
    }

    #[test]
    fn a_large_offset_keeps_the_digits_of_the_variance() {
        // the textbook formula, sum of squares less n times the squared mean, gives 0 or worse
        let sample = Sample::of(&[1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]).unwrap();
        assert_eq!(sample.mean(), 1e9 + 10.0);
        assert_eq!(sample.variance(), Some(30.0));
    }

    #[test]
    fn equal_values_have_exactly_no_variance() {
        let sample = Sample::of(&[0.1; 10]).unwrap();
        assert_eq!((sample.mean(), sample.variance()), (0.1, Some(0.0)));
    }

    proptest! {
        #[test]
        fn shifting_moves_the_mean_and_keeps_the_variance(
            values in proptest::collection::vec(-1e3f64..1e3, 2..40),
            shift in -1e6f64..1e6,
        ) {
            let sample = Sample::of(&values).unwrap();
            let shifted: Vec<f64> = values.iter().map(|value| value + shift).collect();
            let moved = Sample::of(&shifted).unwrap();
            prop_assert!((moved.mean() - sample.mean() - shift).abs() < 1e-8);
            let (before, after) = (sample.variance().unwrap(), moved.variance().unwrap());
            prop_assert!((before - after).abs() <= 1e-6 * (1.0 + before));
        }
    }
}
