//! What is shown of a difference: that it is larger than the smallest which counts, that it exists, that it is
//! smaller, or nothing.
//!
//! A study asks many questions at once. Of 36 effects that do not exist, some scatter beyond their 95 %
//! interval in most studies. So the effects of a [`Family`] are judged together: their
//! probabilities are adjusted by Holm's method, and the chance that any claim in the family is false is that
//! of one interval. The false discovery rate would permit more claims, a share of which is false; a
//! reader who takes one row out of a report would not know which. Intervals are not adjusted: each is
//! still that of its own effect.
//!
//! Two hypotheses are tested of each: that nothing changed, and that the change is at most the minimum. An effect is
//! claimed only if the second is rejected. A mean beyond the minimum is not enough: of a true change that is
//! the minimum, every second mean is (simulated, see the tests).

use crate::analysis::uncertainty::Reach;
use crate::quantity::Interval;
use crate::results::{Effect, Probabilities};
use crate::study::{Family, PART};
use linkrate_stats::independent::holm;
use linkrate_stats::interval::MIN_TO_CLAIM;
use linkrate_stats::mean_test::MeanTest;
use linkrate_stats::power;

impl Probabilities {
    /// Those of a ratio that reaches so far, not adjusted. `minimum` is a fraction.
    pub fn of(test: Option<MeanTest>, reach: Reach, minimum: f64) -> Self {
        Self {
            p: test.map(|test| reach.p_beyond(test, 0.0)),
            p_beyond: test.map(|test| reach.p_beyond(test, minimum)),
            ..Self::default()
        }
    }

    /// Adjusts those of a family that have any. The error is shared by so many families.
    pub fn adjust(family: &mut [&mut Self], families: f64) {
        let adjusted = |pick: fn(&Self) -> Option<f64>| {
            let adjusted = holm(&family.iter().filter_map(|one| pick(one)).collect::<Vec<f64>>());
            adjusted.into_iter().map(move |p| (p * families).min(1.0)).collect::<Vec<f64>>()
        };
        let both = adjusted(|one| one.p).into_iter().zip(adjusted(|one| one.p_beyond));
        for (one, (p, p_beyond)) in family.iter_mut().filter(|one| one.p.is_some()).zip(both) {
            (one.adjusted_p, one.adjusted_p_beyond) = (Some(p), Some(p_beyond));
        }
    }

    /// What they show of `ratio` with confidence `level`, in (0, 1).
    pub fn shown(&self, ratio: &Interval, level: f64, minimum: f64) -> Shown {
        let is_rejected = |p: Option<f64>| p.is_some_and(|p| p <= 1.0 - level);
        if is_rejected(self.adjusted_p_beyond) {
            Shown::Beyond
        } else if self.adjusted_p.is_some() && is_within(ratio, minimum) {
            Shown::Within
        } else if is_rejected(self.adjusted_p) {
            Shown::Different
        } else {
            Shown::Nothing
        }
    }
}

/// What is shown of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// It is larger than the minimum.
    Beyond,
    /// It is no larger than the minimum.
    Within,
    /// It exists. Whether it is larger than the minimum is open.
    Different,
    Nothing,
}

/// Says of each effect what is shown of it, and what would have been. `minimum` is a fraction, `level` that of the intervals.
pub fn claim(effects: &mut [Effect], family: Family, minimum: f64, level: f64) {
    // what another effect says already is no question
    let judged = |effect: &&mut Effect| effect.pairs >= MIN_TO_CLAIM && effect.same_as.is_none();
    let mut families: Vec<(Option<String>, Vec<&mut Effect>)> = Vec::new();
    for (number, effect) in effects.iter_mut().filter(judged).enumerate() {
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
    for (_, mut of_family) in families {
        let mut all: Vec<_> =
            of_family.iter_mut().map(|effect| &mut effect.probabilities).collect();
        Probabilities::adjust(&mut all, 1.0);
        let tests = of_family.len();
        for effect in of_family {
            let shown = effect.probabilities.shown(&effect.ratio, level, minimum);
            let holds = effect.holds_at_equal_mix();
            effect.significant = shown == Shown::Beyond && holds;
            effect.different = shown == Shown::Different && holds;
            effect.equivalent = shown == Shown::Within;
            effect.detectable = power::detectable(&effect.ratio, effect.pairs, level, tests);
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

    const MINIMUM: f64 = 0.02;

    fn effect(pairs: impl IntoIterator<Item = (f64, f64)>, part: &str, minimum: f64) -> Effect {
        let pairs = pairs.into_iter().map(|(from, to)| (Some(from), Some(to)));
        let found = paired::ratio(pairs, 0.95).unwrap();
        let ends = ["none", "tso"].map(|level| Level::Text(level.to_owned()));
        let at = Levels(vec![(PART.to_owned(), Level::Text(part.to_owned()))]);
        Effect {
            probabilities: Probabilities::of(found.test, Reach::NONE, minimum),
            ..Effect::of("offload", ends, at, Measure::Throughput, found.ratio, found.pairs)
        }
    }

    /// A study of `count` effects that do not exist, with `blocks` of a scatter.
    fn nothing(simulator: &mut Simulator, count: usize, blocks: u32, scatter: f64) -> Vec<Effect> {
        let mut pair = || (simulator.lognormal(scatter), simulator.lognormal(scatter));
        let mut of_blocks = || (0..blocks).map(|_| pair()).collect::<Vec<_>>();
        (0..count).map(|_| effect(of_blocks(), "a", 0.0)).collect()
    }

    #[test]
    fn a_study_without_effects_rarely_claims_one() {
        for (blocks, scatter, seed) in [(5, 0.03, 1), (10, 0.03, 2), (10, 0.1, 3)] {
            let mistaken = |family| {
                let mut simulator = Simulator::new(seed);
                share(400, || {
                    let mut effects = nothing(&mut simulator, 36, blocks, scatter);
                    claim(&mut effects, family, 0.0, 0.95);
                    effects.iter().any(|effect| effect.significant)
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
                let mut effects = [effect(pairs[..*blocks].to_vec(), "a", 0.0)];
                claim(&mut effects, Family::Study, 0.0, 0.95);
                effects[0].significant
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
    fn who_continues_until_there_is_a_claim_finds_more_of_what_does_not_exist() {
        let mistaken = claimed_at_a_look(6, 4000, &[10, 20]);
        let said = f64::from(GONE_ON_PERCENT) / 100.0;
        assert!((said - 0.01..said + 0.01).contains(&mistaken), "{mistaken}");
    }

    #[test]
    fn a_large_effect_is_claimed_among_many() {
        let mut simulator = Simulator::new(4);
        let mut effects = nothing(&mut simulator, 35, 10, 0.03);
        let mut pair = || (simulator.lognormal(0.03), 0.8 * simulator.lognormal(0.03));
        effects.push(effect((0..10).map(|_| pair()).collect::<Vec<_>>(), "a", MINIMUM));
        claim(&mut effects, Family::Study, MINIMUM, 0.95);
        assert!(effects[35].significant);
        let found = effects[35].probabilities;
        assert!(found.adjusted_p > found.p && found.p_beyond > found.p, "{found:?}");
    }

    #[test]
    fn a_change_of_the_mix_of_directions_is_no_claim() {
        let claimed = |low, high| {
            let pairs = [0.8, 0.81, 0.79, 0.8, 0.805].map(|to| (1.0, to));
            let mut effects = [effect(pairs, "a", MINIMUM)];
            let mix = Interval { mean: (low + high) / 2.0, low: Some(low), high: Some(high) };
            effects[0].mix_adjusted = Some(mix);
            claim(&mut effects, Family::Study, MINIMUM, 0.95);
            effects[0].significant
        };
        assert!(claimed(0.8, 0.9));
        assert!(!claimed(0.9, 1.1) && !claimed(1.1, 1.2));
    }

    #[test]
    fn a_claim_says_larger_than_the_minimum() {
        for (truth, scatter, seed) in [(1.02, 0.005, 7), (1.02, 0.02, 8), (1.015, 0.02, 9)] {
            let mut simulator = Simulator::new(seed);
            let (mut different, studies) = (0, 1000);
            let claimed = share(studies, || {
                let mut pair = || (1.0, truth * simulator.lognormal(scatter));
                let ten: Vec<_> = (0..10).map(|_| pair()).collect();
                let mut effects = [effect(ten, "a", MINIMUM)];
                claim(&mut effects, Family::Study, 0.02, 0.95);
                different += u32::from(effects[0].different);
                effects[0].significant
            });
            assert!(claimed <= 0.07, "{truth}, {scatter}: {claimed}");
            // that there is a difference is shown as often as before
            let different = f64::from(different) / f64::from(studies);
            assert!(scatter > 0.01 || different > 0.9, "{truth}, {scatter}: {different}");
        }
    }

    #[test]
    fn parts_are_families_of_their_own() {
        // t of 3.5 with 4 degrees of freedom: p = 0.024
        let pairs = [1.015, 1.045, 1.075, 1.105, 1.135].map(|to| (1.0, to));
        let two = |family| {
            let mut effects = ["a", "b", "b"].map(|part| effect(pairs, part, 0.0));
            claim(&mut effects, family, 0.0, 0.95);
            effects.map(|effect| effect.significant)
        };
        let p = effect(pairs, "a", 0.0).probabilities.p_beyond.unwrap();
        assert!((0.0167..0.025).contains(&p), "{p}");
        assert_eq!(two(Family::Effect), [true; 3]);
        assert_eq!(two(Family::Study), [false; 3]);
        assert_eq!(two(Family::Part), [true; 3]);
    }

    #[test]
    fn a_difference_is_beyond_or_within_the_minimum_or_exists_or_is_open() {
        let of = |low: f64, high: f64, adjusted_p, adjusted_p_beyond| {
            let ratio = Interval { mean: (low + high) / 2.0, low: Some(low), high: Some(high) };
            let (p, beyond) = (Some(adjusted_p), Some(adjusted_p_beyond));
            let probabilities = Probabilities {
                adjusted_p: p,
                adjusted_p_beyond: beyond,
                ..Probabilities::default()
            };
            probabilities.shown(&ratio, 0.95, 0.02)
        };
        assert_eq!(of(1.03, 1.05, 0.01, 0.02), Shown::Beyond);
        assert_eq!(of(1.01, 1.05, 0.01, 0.2), Shown::Different);
        assert_eq!(of(1.03, 1.05, 0.06, 0.07), Shown::Nothing, "after adjustment");
        assert_eq!(of(0.985, 0.998, 0.01, 1.0), Shown::Within);
        assert_eq!(of(0.985, 1.015, 0.9, 1.0), Shown::Within);
        assert_eq!(of(0.97, 1.03, 0.9, 1.0), Shown::Nothing);
        let few = Interval { mean: 1.0, low: Some(0.99), high: Some(1.01) };
        assert_eq!(Probabilities::default().shown(&few, 0.95, 0.02), Shown::Nothing);
    }

    #[test]
    fn what_others_may_have_made_is_not_shown() {
        let test = MeanTest::of(&[1.09f64, 1.1, 1.11, 1.09, 1.1].map(f64::ln)).unwrap();
        let p = |from: f64, to: f64| {
            let found = Probabilities::of(
                Some(test),
                Reach::of_ratio([from, to].map(|share| Reach::of_shares(share, 0.0))),
                0.02,
            );
            (found.p.unwrap(), found.p_beyond.unwrap())
        };
        let (known, denominator) = (p(0.0, 0.0), p(0.2, 0.0));
        assert!(known.1 < 0.001 && known.0 < known.1, "{known:?}");
        // a denominator that is too high only hides a rise
        assert!(denominator.0 < 0.001 && denominator.1 < 0.001, "{denominator:?}");
        assert!(p(0.0, 0.05).0 < 0.01 && p(0.0, 0.08).1 > 0.05 && p(0.0, 0.1).0 > 0.05);
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
