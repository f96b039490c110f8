//! Axes: from which value to which, and where the labels stand.

use crate::number;

/// An axis in values of what is drawn, or in their logarithms, with labelled marks.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub low: f64,
    pub high: f64,
    /// Places and labels of its marks.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From zero to a mark at or past `largest`, with about `most` marks at round values.
    pub fn from_zero(largest: f64, most: usize) -> Self {
        if largest <= 0.0 || !largest.is_finite() {
            return Self { low: 0.0, high: 1.0, ticks: vec![(0.0, "0".to_owned())] };
        }
        let step = round_step(largest / most as f64);
        // a hair above a mark needs no further one
        let count = (largest / step - 1e-9).ceil() as usize;
        let values = (0..=count).map(|index| index as f64 * step);
        Self { low: 0.0, high: count as f64 * step, ticks: labelled(values, step) }
    }

    /// Linear over `values` of one sign, close to them: what is drawn is how they differ, and zero may be far away.
    /// At least a twentieth of the largest is on the axis, so that values which hardly differ look alike.
    pub fn close_to(values: &[f64], most: usize) -> Self {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(0.0, f64::max));
        if low > high || high <= 0.0 {
            return Self::from_zero(high, most);
        }
        let least = high * 0.05;
        let air = ((high - low) * 0.1).max((least - (high - low)) / 2.0);
        let (low, high) = ((low - air).max(0.0), high + air);
        let step = round_step((high - low) / most as f64);
        let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        let ticks = (first..=last).map(|index| index as f64 * step);
        let (low, high) = (first as f64 * step, last as f64 * step);
        Self { low, high, ticks: labelled(ticks, step) }
    }

    /// Logarithms of positive `values`, marked at 1, 2 and 5 times powers of ten where there is
    /// room for `most` marks, else at the powers.
    pub fn logarithmic(values: &[f64], most: usize, label: fn(f64) -> String) -> Self {
        let positive = || values.iter().copied().filter(|value| *value > 0.0 && value.is_finite());
        let low = positive().fold(f64::INFINITY, f64::min);
        let high = positive().fold(0.0, f64::max);
        if high <= 0.0 {
            return Self { low: 0.0, high: 1.0, ticks: Vec::new() };
        }
        // from mark to mark
        let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let marks = |steps: &'static [f64]| {
            let marks = (from..=to)
                .flat_map(move |power| steps.iter().map(move |step| step * 10f64.powi(power)));
            marks.collect::<Vec<f64>>()
        };
        let fine = marks(&[1.0, 2.0, 5.0]);
        let below = fine.iter().copied().filter(|mark| *mark <= low * 1.0001).fold(0.0, f64::max);
        let above = fine
            .iter()
            .copied()
            .filter(|mark| *mark >= high * 0.9999)
            .fold(f64::INFINITY, f64::min);
        let inside = |mark: &f64| *mark >= below * 0.9999 && *mark <= above * 1.0001;
        let mut chosen: Vec<f64> = fine.iter().copied().filter(inside).collect();
        if chosen.len() > most {
            chosen = marks(&[1.0]).into_iter().filter(inside).collect();
        }
        let ticks = chosen.into_iter().map(|mark| (mark.ln(), label(mark))).collect();
        Self { low: below.ln(), high: above.ln(), ticks }
    }

    /// Logarithms of `ratios` around no change, from mark to mark in per cent.
    pub fn of_changes(ratios: &[f64], minimum: f64, most: usize) -> Self {
        // the band of changes below the minimum is always seen whole
        let least = (1.0 + 2.0 * minimum).ln().max(0.02);
        let low = ratios.iter().map(|ratio| ratio.ln()).fold(-least, f64::min);
        let high = ratios.iter().map(|ratio| ratio.ln()).fold(least, f64::max);
        let ticks = change_ticks(low, high, most);
        let label = |percent: f64| match percent {
            0.0 => "0 %".to_owned(),
            p if p < 0.0 => format!("−{} %", -p),
            p => format!("+{} %", number::grouped(p)),
        };
        let air = (high - low) * 0.03;
        let ends = ticks.iter().map(|percent| log_of(*percent));
        let (low, high) = ends.fold((low, high), |(low, high), at| (low.min(at), high.max(at)));
        let ticks = ticks.into_iter().map(|percent| (log_of(percent), label(percent))).collect();
        Self { low: low - air, high: high + air, ticks }
    }
}

/// Marks with the decimals of their step, whatever their value.
fn labelled(values: impl Iterator<Item = f64>, step: f64) -> Vec<(f64, String)> {
    let places = (-step.log10().floor()).max(0.0) as usize;
    let label = |value: f64| match places {
        0 => number::grouped(value),
        places => format!("{value:.places$}"),
    };
    values.map(|value| (value, label(value))).collect()
}

/// A change in per cent as the logarithm of its ratio.
fn log_of(percent: f64) -> f64 {
    (1.0 + percent / 100.0).ln()
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= least).unwrap_or(power)
}

/// Changes in per cent to mark for the logarithms `low` to `high`: no change, the ends at or beyond both, and between them
/// where there is room, the rounder ones first.
fn change_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    const FALLS: [f64; 14] = [
        -50.0, -20.0, -10.0, -80.0, -90.0, -5.0, -30.0, -70.0, -40.0, -60.0, -95.0, -99.0, -2.0,
        -1.0,
    ];
    const RISES: [f64; 17] = [
        100.0, 50.0, 20.0, 10.0, 200.0, 500.0, 1000.0, 5.0, 300.0, 400.0, 30.0, 75.0, 2000.0,
        5000.0, 10000.0, 2.0, 1.0,
    ];
    let beyond = |values: &[f64], end: f64| {
        let reach = values.iter().copied().filter(|percent| log_of(*percent).abs() >= end.abs());
        reach.min_by(|a, b| log_of(*a).abs().total_cmp(&log_of(*b).abs()))
    };
    let ends = [beyond(&FALLS, low), beyond(&RISES, high)].into_iter().flatten();
    let ends: Vec<f64> = ends.collect();
    let (from, to) = ends
        .iter()
        .fold((low, high), |(from, to), end| (from.min(log_of(*end)), to.max(log_of(*end))));
    let room = (to - from) / most as f64;
    let mut ticks: Vec<f64> = vec![0.0];
    for percent in ends.into_iter().chain(FALLS).chain(RISES) {
        let inside = (from..=to).contains(&log_of(percent));
        if inside && ticks.iter().all(|tick| (log_of(*tick) - log_of(percent)).abs() >= room) {
            ticks.push(percent);
        }
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_close_to_its_values_has_marks_and_hides_no_scatter() {
        let axis = Axis::close_to(&[1.59, 1.61], 6);
        assert!(axis.low < 1.57 && axis.high > 1.63, "{axis:?}");
        assert!(axis.ticks.len() >= 2, "{axis:?}");
        let axis = Axis::close_to(&[850.0, 940.0], 6);
        assert!((800.0..850.0).contains(&axis.low) && axis.high > 940.0, "{axis:?}");
        assert!(axis.ticks.iter().all(|(value, _)| (axis.low..=axis.high).contains(value)));
        assert_eq!(Axis::close_to(&[], 6), Axis::from_zero(0.0, 6));
    }

    #[test]
    fn steps_are_round() {
        for (least, step) in [(0.21, 0.5), (3.0, 5.0), (5.1, 10.0), (1.0, 1.0)] {
            assert!((round_step(least) - step).abs() < 1e-9, "{least}");
        }
    }

    #[test]
    fn changes_are_marked_on_both_sides_of_none() {
        let ticks = change_ticks((0.15f64).ln(), (4.5f64).ln(), 7);
        assert!(ticks.contains(&0.0));
        assert!(ticks.iter().any(|t| *t < 0.0) && ticks.iter().any(|t| *t > 0.0));
        assert!(ticks.len() <= 8, "{ticks:?}");
    }

    #[test]
    fn a_logarithmic_axis_begins_and_ends_at_a_mark() {
        let axis = Axis::logarithmic(&[73.0, 130.0, 3400.0], 7, number::grouped);
        let labels: Vec<&str> = axis.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["50", "100", "200", "500", "1000", "2000", "5000"]);
        assert!(axis.low <= 73f64.ln() && axis.high >= 3400f64.ln());
        let wide = Axis::logarithmic(&[1.0, 1e6], 7, number::grouped);
        assert_eq!(wide.ticks.len(), 7);
    }

    /// No value lies beyond the outermost marks.
    #[test]
    fn axes_end_at_or_beyond_their_data() {
        let last = |axis: &Axis| axis.ticks.last().map_or(f64::NAN, |(value, _)| *value);
        for largest in [0.584, 0.941, 1.88, 3.77, 7.53, 40.0, 97.3, 99.9, 1234.0] {
            let axis = Axis::from_zero(largest, 6);
            assert!(last(&axis) >= largest && axis.high >= largest, "{largest}: {axis:?}");
            assert!((3..=9).contains(&axis.ticks.len()), "{largest}: {axis:?}");
            let close = Axis::close_to(&[largest * 0.9, largest], 6);
            assert!(last(&close) >= largest && close.ticks[0].0 <= largest * 0.9, "{close:?}");
        }
        for (low, high) in [(0.39, 1.02), (0.15, 4.5), (0.98, 1.01), (0.9, 1.74)] {
            for most in [4, 9] {
                let axis = Axis::of_changes(&[low, high], 0.02, most);
                let marks = || axis.ticks.iter().map(|(value, _)| *value);
                let (least, largest) = (marks().fold(0.0, f64::min), marks().fold(0.0, f64::max));
                // labels have no room beside that of no change, which is as good as an end there
                let room = (axis.high - axis.low) / most as f64;
                assert!(least <= low.ln() || -low.ln() < room, "{low}, {most}: {axis:?}");
                assert!(largest >= high.ln() || high.ln() < room, "{high}, {most}: {axis:?}");
                assert!(axis.ticks.len() >= 3, "{axis:?}");
            }
        }
    }
}
