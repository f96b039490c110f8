//! Effects of senders and receivers that explain the figures of pairs best, by least squares.

use std::collections::BTreeMap;

/// A pivot below this share of its diagonal says that some nodes have no pair in common with the others.
const SINGULAR: f64 = 1e-9;

/// The pairs of a fit, with the inverse of its normal equations. It does not depend on the figures.
#[derive(Debug)]
pub(super) struct Fit {
    pairs: Vec<(u32, u32)>,
    senders: BTreeMap<u32, usize>,
    receivers: BTreeMap<u32, usize>,
    /// Of senders and then of receivers, row by row.
    inverse: Vec<f64>,
    size: usize,
}

/// The effects in one block.
#[derive(Debug)]
pub(super) struct Effects {
    pub(super) senders: BTreeMap<u32, f64>,
    pub(super) receivers: BTreeMap<u32, f64>,
}

impl Fit {
    /// The fit to these pairs; `None` where they do not join all their nodes.
    pub(super) fn of(pairs: Vec<(u32, u32)>) -> Option<Self> {
        let (mut senders, mut receivers) = (BTreeMap::new(), BTreeMap::new());
        for (sender, receiver) in &pairs {
            let next = senders.len();
            senders.entry(*sender).or_insert(next);
            let next = receivers.len();
            receivers.entry(*receiver).or_insert(next);
        }
        let (first, size) = (senders.len(), senders.len() + receivers.len());
        receivers.values_mut().for_each(|place| *place += first);
        let mut normal = vec![0.0; size * size];
        for (sender, receiver) in &pairs {
            let (s, r) = (senders[sender], receivers[receiver]);
            for (row, column) in [(s, s), (s, r), (r, s), (r, r)] {
                normal[row * size + column] += 1.0;
            }
        }
        // what is added to all senders and taken off all receivers explains the same: senders have a mean of zero
        for row in 0..first {
            for column in 0..first {
                normal[row * size + column] += 1.0;
            }
        }
        let inverse = inverse(&normal, size)?;
        Some(Self { pairs, senders, receivers, inverse, size })
    }

    pub(super) fn pairs(&self) -> &[(u32, u32)] {
        &self.pairs
    }

    /// The effects for the figures of a block, which has all pairs of the fit.
    pub(super) fn solve(&self, block: &BTreeMap<(u32, u32), f64>) -> Effects {
        let mut sums = vec![0.0; self.size];
        for nodes in &self.pairs {
            let log = block.get(nodes).copied().unwrap_or(0.0);
            sums[self.senders[&nodes.0]] += log;
            sums[self.receivers[&nodes.1]] += log;
        }
        let effect = |place: &usize| {
            let row = &self.inverse[place * self.size..(place + 1) * self.size];
            row.iter().zip(&sums).map(|(factor, sum)| factor * sum).sum::<f64>()
        };
        let of = |places: &BTreeMap<u32, usize>| {
            places.iter().map(|(node, place)| (*node, effect(place))).collect()
        };
        Effects { senders: of(&self.senders), receivers: of(&self.receivers) }
    }

    /// How far a pair is from what its nodes explain in a fit without this pair; `None` where nothing else
    /// reports on one of its nodes.
    pub(super) fn residual(&self, effects: &Effects, nodes: (u32, u32), log: f64) -> Option<f64> {
        let explained = effects.senders.get(&nodes.0)? + effects.receivers.get(&nodes.1)?;
        let residual = log - explained;
        if self.pairs.binary_search(&nodes).is_err() {
            return Some(residual);
        }
        let (s, r) = (self.senders.get(&nodes.0)?, self.receivers.get(&nodes.1)?);
        let at = |row: &usize, column: &usize| self.inverse[row * self.size + column];
        let leverage = at(s, s) + 2.0 * at(s, r) + at(r, r);
        // a pair that alone reports on a node is always explained
        (1.0 - leverage > 1e-6).then(|| residual / (1.0 - leverage))
    }
}

/// The inverse of a symmetric positive definite matrix, by Cholesky's factors; `None` of another matrix.
fn inverse(matrix: &[f64], size: usize) -> Option<Vec<f64>> {
    let mut lower = vec![0.0; size * size];
    for row in 0..size {
        for column in 0..=row {
            let (a, b) = (
                &lower[row * size..row * size + column],
                &lower[column * size..column * size + column],
            );
            let sum: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
            let rest = matrix[row * size + column] - sum;
            lower[row * size + column] = if row == column {
                if rest <= SINGULAR * matrix[row * size + row] {
                    return None;
                }
                rest.sqrt()
            } else {
                rest / lower[column * size + column]
            };
        }
    }
    // the columns of the inverse of the factor, as rows
    let mut columns = vec![0.0; size * size];
    for column in 0..size {
        for row in column..size {
            let sum: f64 =
                (column..row).map(|k| lower[row * size + k] * columns[column * size + k]).sum();
            let unit = if row == column { 1.0 } else { 0.0 };
            columns[column * size + row] = (unit - sum) / lower[row * size + row];
        }
    }
    let mut inverse = vec![0.0; size * size];
    for row in 0..size {
        for column in 0..=row {
            let (a, b) = (
                &columns[row * size + row..(row + 1) * size],
                &columns[column * size + row..(column + 1) * size],
            );
            let value: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
            inverse[row * size + column] = value;
            inverse[column * size + row] = value;
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(nodes: u32) -> Vec<(u32, u32)> {
        let of = |a| (0..nodes).filter(move |b| a != *b).map(move |b| (a, b));
        (0..nodes).flat_map(of).collect()
    }

    #[test]
    fn effects_that_add_up_are_found_exactly() {
        let truth = |(a, b): &(u32, u32)| 20.0 + f64::from(*a) * 0.5 - f64::from(b * b) * 0.25;
        let pairs: Vec<_> = all(5).into_iter().filter(|pair| *pair != (3, 1)).collect();
        let block: BTreeMap<_, _> = pairs.iter().map(|pair| (*pair, truth(pair))).collect();
        let fit = Fit::of(pairs).unwrap();
        let effects = fit.solve(&block);
        assert!((effects.senders[&4] - effects.senders[&0] - 2.0).abs() < 1e-9);
        assert!((effects.receivers[&4] - effects.receivers[&0] + 4.0).abs() < 1e-9);
        assert!(effects.senders.values().sum::<f64>().abs() < 1e-9);
        // a pair that the fit does not have
        let residual = fit.residual(&effects, (3, 1), truth(&(3, 1)) + 0.125).unwrap();
        assert!((residual - 0.125).abs() < 1e-9);
    }

    #[test]
    fn a_residual_is_that_of_a_fit_without_the_pair() {
        let figure = |(a, b): &(u32, u32)| f64::from((a * 7 + b * 13) % 11);
        let block: BTreeMap<_, _> = all(5).iter().map(|pair| (*pair, figure(pair))).collect();
        let whole = Fit::of(all(5)).unwrap();
        let quick = whole.residual(&whole.solve(&block), (2, 4), block[&(2, 4)]).unwrap();
        let without = Fit::of(all(5).into_iter().filter(|pair| *pair != (2, 4)).collect()).unwrap();
        let slow = without.residual(&without.solve(&block), (2, 4), block[&(2, 4)]).unwrap();
        assert!((quick - slow).abs() < 1e-9, "{quick} {slow}");
    }

    #[test]
    fn nodes_without_a_common_pair_have_no_fit() {
        assert!(Fit::of(vec![(0, 1), (2, 3)]).is_none());
        assert!(Fit::of(vec![(0, 1), (1, 0)]).is_none());
        assert!(Fit::of(all(3)).is_some());
    }
}
