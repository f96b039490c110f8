//! Which effects are claimed, which are excluded, and which are open.
//!
//! A study asks many questions at once. Of 36 effects that do not exist, some scatter beyond their 95 %
//! interval in most studies, and the minimum effect keeps only those away whose scatter is small
//! (simulated, see the tests). So the effects of a [`Family`] are claimed together: their
//! probabilities are adjusted by Holm's method, and the chance that any claim in the family is false is that
//! of one interval. The false discovery rate would permit more claims, a share of which is false; a
//! reader who takes one row out of a report would not know which. Intervals are not adjusted: each is
//! still that of its own effect.

use crate::quantity::Interval;
use crate::results::Effect;
use crate::study::{Family, PART};
use linkrate_stats::independent::holm;
use linkrate_stats::interval::excludes;
use linkrate_stats::paired::FEWEST_TO_CLAIM;

/// Says of each effect whether it is claimed or excluded. `minimum` is a fraction, `level` that of the
/// intervals.
pub fn claim(effects: &mut [Effect], family: Family, minimum: f64, level: f64) {
    let enough = |effect: &&mut Effect| effect.pairs >= FEWEST_TO_CLAIM && effect.p.is_some();
    let mut families: Vec<(Option<String>, Vec<&mut Effect>)> = Vec::new();
    for (number, effect) in effects.iter_mut().filter(enough).enumerate() {
        let name = match family {
            Family::Study => None,
            Family::Part => effect.at.get(PART).map(ToString::to_string),
            Family::Effect => Some(number.to_string()),
        };
        match families.iter_mut().find(|of| of.0 == name) {
            Some(of) => of.1.push(effect),
            None => families.push((name, vec![effect])),
        }
    }
    for (_, of_family) in families {
        let p: Vec<f64> = of_family.iter().filter_map(|effect| effect.p).collect();
        for (effect, adjusted) in of_family.into_iter().zip(holm(&p)) {
            effect.adjusted_p = Some(adjusted);
            let is_large = (effect.ratio.mean - 1.0).abs() > minimum;
            // other programs may have made a difference that chance does not explain
            let is_shown = adjusted <= 1.0 - level && excludes(&effect.ratio, 1.0);
            effect.claimed = is_large && is_shown;
            effect.excluded = is_within(&effect.ratio, minimum);
        }
    }
}

/// Whether a whole interval of a ratio lies within `minimum` of no change. Only then is a larger
/// difference excluded: a small mean alone says nothing.
pub fn is_within(ratio: &Interval, minimum: f64) -> bool {
    let small = |end: Option<f64>| end.is_some_and(|end| (end - 1.0).abs() <= minimum);
    small(ratio.low) && small(ratio.high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::warnings::GONE_ON_PERCENT;
    use crate::levels::{Level, Levels};
    use crate::quantity::Measure;
    use linkrate_stats::paired;
    use linkrate_stats::simulate::{Simulator, share};

    fn effect(pairs: impl IntoIterator<Item = (f64, f64)>, part: &str) -> Effect {
        let pairs = pairs.into_iter().map(|(from, to)| (Some(from), Some(to)));
        let found = paired::ratio(pairs, 0.95).unwrap();
        Effect {
            factor: "offload".to_owned(),
            from: Level::Text("none".to_owned()),
            to: Level::Text("tso".to_owned()),
            at: Levels(vec![(PART.to_owned(), Level::Text(part.to_owned()))]),
            measure: Measure::Throughput,
            ratio: found.ratio,
            pairs: found.pairs,
            p: found.p,
            adjusted_p: None,
            claimed: false,
            excluded: false,
            equal_mix: None,
            without_driver: None,
        }
    }

    /// A study of `count` effects that do not exist, with `blocks` of a scatter.
    fn nothing(simulator: &mut Simulator, count: usize, blocks: u32, scatter: f64) -> Vec<Effect> {
        let mut pair = || (simulator.lognormal(scatter), simulator.lognormal(scatter));
        (0..count).map(|_| effect((0..blocks).map(|_| pair()).collect::<Vec<_>>(), "a")).collect()
    }

    #[test]
    fn a_study_without_effects_rarely_claims_one() {
        for (blocks, scatter, seed) in [(5, 0.03, 1), (10, 0.03, 2), (10, 0.1, 3)] {
            let mistaken = |family| {
                let mut simulator = Simulator::new(seed);
                share(400, || {
                    let mut effects = nothing(&mut simulator, 36, blocks, scatter);
                    claim(&mut effects, family, 0.02, 0.95);
                    effects.iter().any(|effect| effect.claimed)
                })
            };
            let (by_itself, together) = (mistaken(Family::Effect), mistaken(Family::Study));
            assert!(by_itself > 0.3, "{blocks} blocks, {scatter}: {by_itself}");
            assert!(together <= 0.07, "{blocks} blocks, {scatter}: {together}");
        }
    }

    /// The share of studies of one effect that does not exist in which it is claimed after any of these numbers of
    /// blocks, of which the last is the largest.
    fn claimed_at_a_look(seed: u64, studies: u32, looks: &[usize]) -> f64 {
        let mut simulator = Simulator::new(seed);
        let most = looks.last().copied().unwrap_or(0);
        share(studies, || {
            let mut pair = || (simulator.lognormal(0.03), simulator.lognormal(0.03));
            let pairs: Vec<_> = (0..most).map(|_| pair()).collect();
            looks.iter().any(|blocks| {
                let mut effects = [effect(pairs[..*blocks].to_vec(), "a")];
                claim(&mut effects, Family::Study, 0.0, 0.95);
                effects[0].claimed
            })
        })
    }

    #[test]
    fn who_ends_a_study_at_its_first_claim_finds_what_does_not_exist() {
        let mistaken = claimed_at_a_look(5, 2000, &(5..=30).collect::<Vec<_>>());
        // what the warning of a study that was ended by hand says
        assert!((0.15..0.25).contains(&mistaken), "{mistaken}");
    }

    #[test]
    fn who_goes_on_until_there_is_a_claim_finds_more_of_what_does_not_exist() {
        let mistaken = claimed_at_a_look(6, 4000, &[10, 20]);
        let said = f64::from(GONE_ON_PERCENT) / 100.0;
        assert!((said - 0.01..said + 0.01).contains(&mistaken), "{mistaken}");
    }

    #[test]
    fn a_large_effect_is_claimed_among_many() {
        let mut simulator = Simulator::new(4);
        let mut effects = nothing(&mut simulator, 35, 10, 0.03);
        let mut pair = || (simulator.lognormal(0.03), 0.8 * simulator.lognormal(0.03));
        effects.push(effect((0..10).map(|_| pair()).collect::<Vec<_>>(), "a"));
        claim(&mut effects, Family::Study, 0.02, 0.95);
        assert!(effects[35].claimed);
        assert!(effects[35].adjusted_p > effects[35].p);
    }

    #[test]
    fn parts_are_families_of_their_own() {
        // t of 3.5 with 4 degrees of freedom: p = 0.024
        let pairs = [1.015, 1.045, 1.075, 1.105, 1.135].map(|to| (1.0, to));
        let two = |family| {
            let mut effects = vec![effect(pairs, "a"), effect(pairs, "b"), effect(pairs, "b")];
            claim(&mut effects, family, 0.02, 0.95);
            effects.iter().map(|effect| effect.claimed).collect::<Vec<_>>()
        };
        let p = effect(pairs, "a").p.unwrap();
        assert!((0.0167..0.025).contains(&p), "{p}");
        assert_eq!(two(Family::Effect), [true; 3]);
        assert_eq!(two(Family::Study), [false; 3]);
        assert_eq!(two(Family::Part), [true; 3]);
    }

    #[test]
    fn a_difference_is_excluded_by_its_whole_interval_alone() {
        let ratio = |low: f64, high: f64| Interval {
            mean: (low + high) / 2.0,
            low: Some(low),
            high: Some(high),
        };
        assert!(is_within(&ratio(0.985, 1.015), 0.02));
        assert!(is_within(&ratio(0.985, 0.995), 0.02));
        // −1.9 % (−3.6 to −0.2): 3.6 % is not excluded
        assert!(!is_within(&ratio(0.964, 0.998), 0.02));
        assert!(!is_within(&Interval { mean: 1.0, low: None, high: None }, 0.02));
    }
}
