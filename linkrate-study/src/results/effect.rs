//! What changes between two levels, and what is shown of it.

use linkrate_stats::interval::excludes;
use schemars::JsonSchema;
use serde::Serialize;

use super::StudyResults;
use crate::levels::{Level, Levels};
use crate::quantity::{Interval, Measure};

/// The probabilities of a measured ratio under both hypotheses, wherever other programs ran.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct Probabilities {
    /// Probability of a ratio as far from 1 if nothing changed (t test on logarithms, two-sided); null without an
    /// interval, and if the row is not judged.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// The same, adjusted for the ratios of its family by Holm's method; null if fewer than five blocks have both runs.
    #[schemars(range(min = 0, max = 1))]
    pub adjusted_p: Option<f64>,
    /// Probability of a ratio at least so far from 1, if the change were the minimum; null where p is.
    #[schemars(range(min = 0, max = 1))]
    pub p_beyond: Option<f64>,
    /// The same, adjusted as adjusted_p is.
    #[schemars(range(min = 0, max = 1))]
    pub adjusted_p_beyond: Option<f64>,
}

/// A ratio between two levels of one factor, all else equal, paired within blocks.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Effect {
    /// The factor that changes.
    pub factor: String,
    /// The level in the denominator.
    pub from: Level,
    /// The level in the numerator.
    pub to: Level,
    /// The levels of the other factors.
    pub at: Levels,
    /// The measure.
    pub measure: Measure,
    /// Geometric mean of the paired ratios; 1 is no change.
    pub ratio: Interval,
    /// The same ratio of service demands with the cell in the numerator at the mix of directions of the other; absent
    /// unless both are bidirectional and the study has the cells of one direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix_adjusted: Option<Interval>,
    /// The same ratio of service demands without the driver threads in either; absent unless both cells had parts, and
    /// an emulated driver without the receive processing of the host. For `toe`, what the host received in the driver
    /// is left out too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_driver: Option<Interval>,
    /// Whether `without_driver` and `ratio` exclude each other; it is then not known, and its ends are the outermost of
    /// both; absent where not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_driver_unknown: bool,
    /// Blocks with both runs.
    pub pairs: u32,
    /// Those of the ratio. Only effects with at least five pairs that are no other effect's fact are of a
    /// [family](crate::study::Family).
    #[serde(flatten)]
    pub probabilities: Probabilities,
    /// Whether there are at least five pairs and adjusted_p_beyond shows that the effect is larger than the minimum;
    /// that at equal mix must agree.
    pub significant: bool,
    /// Whether adjusted_p shows that there is an effect, which may be smaller or larger than the minimum.
    pub different: bool,
    /// Whether there are at least five pairs and the whole interval lies within the minimum. An effect that is neither
    /// claimed nor excluded is open.
    pub equivalent: bool,
    /// The smallest change that would be found in 9 of 10 sessions with the scatter of this one, as a fraction: of which adjusted_p
    /// would show that it exists. Null where it is not judged.
    #[schemars(range(min = 0))]
    pub detectable: Option<f64>,
    /// Whether something other than the adapter limited the throughput of one of both cells, so that the effect is one
    /// of this machine. Null where nothing is known of it, or there is no adapter.
    pub host_limited: Option<bool>,
    /// What decides it, so that it is not judged. Null elsewhere.
    pub same_as: Option<Fact>,
}

/// What an effect on a rate may be the same as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The effect on service demand, which is judged in its place: where a CPU of the SUT is full in both cells, a rate is its
    /// inverse.
    ServiceDemand,
    /// The limits of both cells, which differ, and are what bound them: a rate that the study itself set, and from whose
    /// change the measured one does not differ.
    Limit,
}

impl Effect {
    /// An effect that is not judged: the ratio of `pairs` pairs between two levels of `factor`.
    pub fn of(
        factor: &str,
        [from, to]: [Level; 2],
        at: Levels,
        measure: Measure,
        ratio: Interval,
        pairs: u32,
    ) -> Self {
        Self {
            factor: factor.to_owned(),
            from,
            to,
            at,
            measure,
            ratio,
            mix_adjusted: None,
            without_driver: None,
            without_driver_unknown: false,
            pairs,
            probabilities: Probabilities::default(),
            significant: false,
            different: false,
            equivalent: false,
            detectable: None,
            host_limited: None,
            same_as: None,
        }
    }

    /// Whether the same effect under another condition is shown to go the same way.
    pub fn agrees_with(&self, other: &Interval) -> bool {
        excludes(other, 1.0) && (other.mean < 1.0) == (self.ratio.mean < 1.0)
    }

    /// Whether it is more than a shift between the directions of a bidirectional cell, of which one costs less.
    pub fn holds_at_equal_mix(&self) -> bool {
        self.mix_adjusted.is_none_or(|other| self.agrees_with(&other))
    }

    /// Whether another effect is of the same two cells.
    pub fn is_beside(&self, other: &Self) -> bool {
        (&self.factor, &self.from, &self.to, &self.at)
            == (&other.factor, &other.from, &other.to, &other.at)
    }
}

impl StudyResults {
    /// The effect that is judged in place of another one, because it is the same fact.
    pub fn fact_behind(&self, effect: &Effect) -> Option<&Effect> {
        let demand = Measure::ServiceDemand;
        let of_demand = |one: &&Effect| one.measure == demand && one.is_beside(effect);
        self.effects.iter().filter(|_| effect.same_as == Some(Fact::ServiceDemand)).find(of_demand)
    }

    /// Whether an effect is more than a part of another one: that of a single direction is where the sum of both
    /// directions is not shown to go the same way, and where it may fall by more than the minimum.
    pub fn says_more(&self, effect: &Effect) -> bool {
        if effect.measure.is_whole() {
            return true;
        }
        let is_sum =
            |other: &&Effect| other.measure == Measure::Throughput && other.is_beside(effect);
        let goes_up = |effect: &Effect| effect.ratio.mean > 1.0;
        let is_told = |sum: &&Effect| sum.significant || sum.same_as.is_some();
        let sum = self.effects.iter().find(is_sum).filter(is_told);
        let falls = effect.ratio.mean < 1.0 - self.minimum_effect && !effect.equivalent;
        let is_own = effect.same_as.is_none() && (effect.significant || falls);
        is_own && sum.is_none_or(|sum| goes_up(sum) != goes_up(effect))
    }
}
