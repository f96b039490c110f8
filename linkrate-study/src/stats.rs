//! Statistics of runs: means, intervals, paired effects and the rule that ends a study.
//!
//! The unit of replication is the run. Nothing here ever sees a slice of one, and nothing here
//! knows what a run is: figures come in as numbers and leave as numbers, which is why all of it
//! is tested on simulated data with known truth.
//!
//! - [`sample`]: mean and variance that survive large offsets
//! - [`student_t`]: the distribution behind every interval
//! - [`interval`]: the interval of a mean
//! - [`normal`]: the distribution of what is a sum of many
//! - [`mirroring`]: what mirrored blocks cost the intervals of effects
//! - [`paired`]: the ratio of two levels, paired within blocks
//! - [`quotient`]: the quotient of two figures, paired within blocks
//! - [`independent`]: the ratio of two sets of runs that share no blocks
//! - [`stop`]: when it is enough
//! - [`trend`]: whether figures drift
//! - [`change_point`]: where the level of a series changes

pub mod change_point;
pub mod independent;
pub mod interval;
pub mod mirroring;
pub mod normal;
pub mod paired;
pub mod quotient;
pub mod sample;
pub mod stop;
pub mod student_t;
pub mod trend;
pub mod wander;

#[cfg(test)]
pub(crate) mod simulate;

#[cfg(test)]
mod truth;
