//! Statistics of runs: means, intervals, paired effects, the order of runs and the rule that ends a study.
//!
//! The unit of replication is the run. Nothing here ever sees a slice of one, and nothing here
//! knows what a run is: figures come in as numbers and leave as numbers, which is why all of it
//! is tested on simulated data with known truth.
//!
//! - [`sample`]: mean and variance that survive large offsets
//! - [`student_t`]: the distribution behind every interval, and the normal one
//! - [`interval`]: the interval of a mean
//! - [`mean_test`]: whether a mean lies outside bounds
//! - [`pool`]: quantiles of what all runs observed together
//! - [`paired`]: the ratio of two levels, paired within blocks
//! - [`quotient`]: the quotient of two figures, paired within blocks
//! - [`independent`]: the ratio of two sets of runs that share no blocks
//! - [`power`]: the smallest change that would be found
//! - [`stop`]: when it is enough
//! - [`trend`]: whether figures drift
//! - [`change_point`]: where the level of a series changes
//! - [`dependence`]: whether the occasions of several series depend on those before them
//! - [`autocorrelation`]: whether runs depend on those before them
//! - [`order`]: the order of runs, in randomised complete blocks, and what mirrored ones cost
//! - [`random`]: the generator behind it
//! - [`simulate`]: figures with a known truth, and noise as machines make it, for tests

#![forbid(unsafe_code)]

pub mod autocorrelation;
pub mod change_point;
pub mod dependence;
pub mod independent;
pub mod interval;
pub mod mean_test;
pub mod order;
pub mod paired;
pub mod pool;
pub mod power;
pub mod quotient;
pub mod random;
pub mod sample;
pub mod stop;
pub mod student_t;
pub mod trend;

pub mod simulate;
