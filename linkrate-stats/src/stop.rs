//! When a study is over.
//!
//! The rule checks the widths of intervals, never their positions: a study that stopped as soon as an
//! effect became significant would find effects that do not exist.
//!
//! Checking widths also has a cost. A rule that stops at the first narrow interval favours runs whose
//! scatter looks small by chance, and an ordinary interval then covers the truth less often than it
//! says (Anscombe 1953; Chow and Robbins 1965). linkrate pays this cost in two ways: it checks nothing
//! before the fifth block ([`FIRST_LOOK`]), and a study that may stop early computes its intervals at a
//! higher level ([`level`]), as group sequential trials do (Pocock 1977; Jennison and Turnbull 1989).
//! The other ends cost nothing: the maximum of blocks is fixed, and a budget is time, which does not
//! depend on the figures.

use std::fmt;
use std::time::Duration;

use linkrate_model::units::format_duration;
use serde::{Deserialize, Serialize};

use crate::interval::Interval;
use crate::interval::relative_half_width;

/// The first block after which precision is checked, unless the study allows fewer. The scatter of two
/// or three runs is too often far too small by chance.
pub const FIRST_LOOK: u32 = 5;

/// The permitted error of an interval that remains after the cost of looking. At 0.6 a
/// 95 % interval is computed as one of 97 %, and simulated coverage is 94.2 % or more whatever the
/// scatter (see the tests, and `docs/internals/simulations.md` for what else was tried).
const LEFT_AFTER_LOOKING: f64 = 0.6;

/// What the study file asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Fewest blocks.
    pub min_blocks: u32,
    /// Most blocks.
    pub max_blocks: u32,
    /// No block is begun that would end after this much time, or after twice as much while there are fewer than the fewest
    /// blocks: a study that others disturbed would say nothing.
    pub budget: Option<Duration>,
}

impl Rule {
    /// Blocks after which precision is looked at for the first time.
    pub fn first_look(&self) -> u32 {
        self.min_blocks.max(FIRST_LOOK).min(self.max_blocks)
    }

    /// The time at whose end no block may end later, after so many blocks.
    pub fn time_limit(&self, blocks: u32) -> Option<Duration> {
        self.budget.map(|budget| match blocks < self.min_blocks {
            true => budget.saturating_mul(2),
            false => budget,
        })
    }
}

/// The level at which t intervals are computed so that they cover the truth with `confidence`:
/// higher than that for a study that ends, or could have ended, after `blocks` because its figures
/// are precise. After the most blocks it ends whatever the figures are, and nothing was chosen.
pub fn level(confidence: f64, blocks: u32, max_blocks: u32) -> f64 {
    if blocks < max_blocks { 1.0 - (1.0 - confidence) * LEFT_AFTER_LOOKING } else { confidence }
}

/// One figure that must become precise: a cell's throughput, an effect, ...
#[derive(Debug, Clone, PartialEq)]
pub struct StopInput {
    /// What it is, for people (`throughput of TSO, transmit`).
    pub name: String,
    /// Its interval so far.
    pub interval: Interval,
    /// Half-width to reach, as a fraction of the mean.
    pub goal: f64,
}

/// How far the study is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Blocks of which every run is stored.
    pub blocks: u32,
    /// Time since this session began.
    pub elapsed: Duration,
    /// How long a block takes: the mean of those run in this session.
    pub block_time: Option<Duration>,
}

/// What to do after a block.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Run another block.
    Continue(Wanting),
    /// It is enough.
    Stop(StopReason),
}

/// Why another block is needed.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanting {
    /// Too few blocks to look at precision.
    Blocks {
        /// Blocks to go until precision counts.
        missing: u32,
    },
    /// A figure has too few runs for an interval.
    Runs {
        /// Which.
        name: String,
    },
    /// A figure is not precise enough.
    Precision {
        /// The least precise figure.
        name: String,
        /// Its half-width as a fraction of its mean.
        half_width: f64,
        /// Half-width to reach, as a fraction of the mean.
        goal: f64,
    },
}

/// Why the stop rule ended a study.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// Every figure is as precise as was asked.
    Precision {
        /// Blocks run.
        blocks: u32,
        /// The widest half-width, as a fraction of its mean.
        half_width: f64,
    },
    /// The most blocks have been run.
    MaxBlocks {
        /// Blocks run.
        blocks: u32,
    },
    /// The next block would end past the budget.
    Budget {
        /// Blocks run.
        blocks: u32,
        /// The budget.
        budget: Duration,
    },
    /// So many blocks were disturbed that the others are fewer than the study asks for.
    Disturbed {
        /// Blocks that were not.
        blocks: u32,
    },
    /// There are enough blocks but not one good run in them.
    NothingMeasured {
        /// Blocks run.
        blocks: u32,
    },
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |blocks: &u32| match blocks {
            1 => "1 block".to_owned(),
            n => format!("{n} blocks"),
        };
        match self {
            Self::Precision { blocks, half_width } => write!(
                f,
                "precision reached after {}: every half-width is within {:.2} % of its mean",
                count(blocks),
                half_width * 100.0
            ),
            Self::MaxBlocks { blocks } => {
                write!(f, "{} run, the maximum", count(blocks))
            }
            Self::Disturbed { blocks } => {
                write!(f, "{} run, and too many others were disturbed", count(blocks))
            }
            Self::Budget { blocks, budget } => write!(
                f,
                "stopped after {}: another would exceed the time limit of {}",
                count(blocks),
                format_duration(*budget)
            ),
            Self::NothingMeasured { blocks } => {
                write!(f, "no run succeeded in {}", count(blocks))
            }
        }
    }
}

/// Decides after a block. `stop_inputs` are the figures of the cells and effects that have good runs;
/// those without any can never become precise and must be left out. Their intervals are of the
/// [`level`] that holds after so many blocks.
///
/// Precision is asked first, so that a study whose last allowed block reached it says so.
pub fn decide(rule: &Rule, progress: &Progress, stop_inputs: &[StopInput]) -> Decision {
    let blocks = progress.blocks;
    let first_look = rule.first_look();
    let wanting = if stop_inputs.is_empty() && blocks >= rule.min_blocks {
        return Decision::Stop(StopReason::NothingMeasured { blocks });
    } else if blocks < first_look {
        Wanting::Blocks { missing: first_look - blocks }
    } else {
        match widest(stop_inputs) {
            Widest::Unknown(name) => Wanting::Runs { name },
            // a fixed number of blocks ends for that reason alone
            Widest::Known { half_width, goal, .. }
                if half_width <= goal && rule.min_blocks < rule.max_blocks =>
            {
                return Decision::Stop(StopReason::Precision { blocks, half_width });
            }
            Widest::Known { name, half_width, goal } => {
                Wanting::Precision { name, half_width, goal }
            }
        }
    };
    if blocks >= rule.max_blocks {
        return Decision::Stop(StopReason::MaxBlocks { blocks });
    }
    match rule.time_limit(blocks) {
        Some(budget) if progress.elapsed + progress.block_time.unwrap_or_default() > budget => {
            Decision::Stop(StopReason::Budget { blocks, budget })
        }
        _ => Decision::Continue(wanting),
    }
}

enum Widest {
    Unknown(String),
    Known { name: String, half_width: f64, goal: f64 },
}

/// The figure that is furthest from its goal.
fn widest(stop_inputs: &[StopInput]) -> Widest {
    let mut found: Option<(&str, f64, f64)> = None;
    for StopInput { name, interval, goal } in stop_inputs {
        match relative_half_width(interval) {
            // not a number is as good as no interval, and must not compare as precise
            None => return Widest::Unknown(name.clone()),
            Some(half) if half.is_nan() => return Widest::Unknown(name.clone()),
            Some(half) if found.is_none_or(|(_, most, of)| half / goal > most / of) => {
                found = Some((name, half, *goal));
            }
            Some(_) => {}
        }
    }
    let (name, half_width, goal) = found.unwrap_or(("", 0.0, 1.0));
    Widest::Known { name: name.to_owned(), half_width, goal }
}

/// An estimate of the blocks still to run: half-widths shrink with the square root of the number
/// of runs. For progress bars; the rule itself never looks at it.
pub fn blocks_to_go(rule: &Rule, progress: &Progress, stop_inputs: &[StopInput]) -> u32 {
    let blocks = progress.blocks;
    let at_most = rule.max_blocks.saturating_sub(blocks);
    let to_min = rule.first_look().saturating_sub(blocks);
    let for_precision = if stop_inputs.is_empty() {
        0
    } else {
        match widest(stop_inputs) {
            Widest::Unknown(_) => 1,
            Widest::Known { half_width, goal, .. } if half_width <= goal => 0,
            Widest::Known { half_width, goal, .. } => {
                let factor = (half_width / goal).powi(2);
                // a float beyond u32 becomes the largest u32, and the most blocks cap it
                (((f64::from(blocks) * factor).ceil() as u32).saturating_sub(blocks)).max(1)
            }
        }
    };
    let wanted = to_min.max(for_precision).min(at_most);
    match (rule.time_limit(blocks), progress.block_time) {
        (Some(budget), Some(block)) if !block.is_zero() => {
            let left = budget.saturating_sub(progress.elapsed);
            let affordable = left.as_nanos() / block.as_nanos();
            wanted.min(u32::try_from(affordable).unwrap_or(u32::MAX))
        }
        _ => wanted,
    }
}

#[cfg(test)]
mod coverage;

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule { min_blocks: 3, max_blocks: 10, budget: None };

    fn after(blocks: u32) -> Progress {
        Progress { blocks, elapsed: Duration::ZERO, block_time: None }
    }

    fn stop_inputs(name: &str, mean: f64, half: f64) -> StopInput {
        let interval = Interval { mean, low: Some(mean - half), high: Some(mean + half) };
        StopInput { name: name.to_owned(), interval, goal: 0.025 }
    }

    #[test]
    fn checks_precision_from_the_fifth_block_or_the_minimum() {
        let exact = [stop_inputs("a", 100.0, 0.0)];
        for (min_blocks, max_blocks, first) in [(2, 10, 5), (5, 10, 5), (7, 10, 7), (2, 4, 4)] {
            let rule = Rule { min_blocks, max_blocks, ..RULE };
            assert_eq!(rule.first_look(), first);
            for blocks in 1..first {
                let missing = first - blocks;
                assert_eq!(
                    decide(&rule, &after(blocks), &exact),
                    Decision::Continue(Wanting::Blocks { missing })
                );
                assert_eq!(blocks_to_go(&rule, &after(blocks), &[]), missing);
            }
            assert_eq!(
                decide(&rule, &after(first), &exact),
                Decision::Stop(StopReason::Precision { blocks: first, half_width: 0.0 })
            );
        }
    }

    #[test]
    fn only_studies_that_can_stop_early_pay_for_checking() {
        assert!((level(0.95, 5, 30) - 0.97).abs() < 1e-12);
        assert!((level(0.90, 29, 30) - 0.94).abs() < 1e-12);
        assert_eq!(level(0.95, 30, 30), 0.95);
    }

    #[test]
    fn the_least_precise_figure_decides_and_is_named() {
        let figures =
            [stop_inputs("a", 100.0, 2.5), stop_inputs("b", 10.0, 0.5), stop_inputs("c", 1.0, 0.0)];
        let Decision::Continue(Wanting::Precision { name, half_width, .. }) =
            decide(&RULE, &after(5), &figures)
        else {
            panic!("stopped too early");
        };
        assert_eq!(name, "b");
        assert!((half_width - 0.05).abs() < 1e-12);
        assert!(matches!(
            decide(&RULE, &after(5), &figures[..1]),
            Decision::Stop(StopReason::Precision { .. })
        ));
    }

    #[test]
    fn the_figure_that_is_furthest_from_its_own_goal_decides() {
        let figures = [
            StopInput { goal: 0.05, ..stop_inputs("a", 100.0, 4.0) },
            StopInput { goal: 0.01, ..stop_inputs("b", 100.0, 2.0) },
        ];
        let Decision::Continue(Wanting::Precision { name, goal, .. }) =
            decide(&RULE, &after(5), &figures)
        else {
            panic!("stopped too early");
        };
        assert_eq!((name.as_str(), goal), ("b", 0.01));
        assert_eq!(blocks_to_go(&RULE, &after(5), &figures), 5, "15, but for the most blocks");
    }

    #[test]
    fn a_figure_without_an_interval_is_not_precise() {
        let lone = StopInput {
            interval: Interval { mean: 1.0, low: None, high: None },
            ..stop_inputs("a", 1.0, 0.0)
        };
        let broken = stop_inputs("a", f64::NAN, f64::NAN);
        for figure in [lone, broken] {
            assert_eq!(
                decide(&RULE, &after(5), &[figure]),
                Decision::Continue(Wanting::Runs { name: "a".into() })
            );
        }
    }

    #[test]
    fn the_most_blocks_end_it_but_precision_is_the_better_reason() {
        assert_eq!(
            decide(&RULE, &after(10), &[stop_inputs("a", 1.0, 0.5)]),
            Decision::Stop(StopReason::MaxBlocks { blocks: 10 })
        );
        assert!(matches!(
            decide(&RULE, &after(10), &[stop_inputs("a", 1.0, 0.01)]),
            Decision::Stop(StopReason::Precision { .. })
        ));
    }

    #[test]
    fn begins_no_block_that_would_end_past_the_budget() {
        let budget = Duration::from_secs(60);
        let rule = Rule { budget: Some(budget), min_blocks: 1, ..RULE };
        let wide = [stop_inputs("a", 1.0, 0.5)];
        let at = |elapsed, block| Progress {
            blocks: 1,
            elapsed: Duration::from_secs(elapsed),
            block_time: Some(Duration::from_secs(block)),
        };
        assert!(matches!(decide(&rule, &at(40, 20), &wide), Decision::Continue(_)));
        assert_eq!(
            decide(&rule, &at(41, 20), &wide),
            Decision::Stop(StopReason::Budget { blocks: 1, budget })
        );
        // with too few blocks to say anything there is twice the time
        let rule = Rule { min_blocks: 2, ..rule };
        assert!(matches!(decide(&rule, &at(100, 20), &wide), Decision::Continue(_)));
        let budget = budget * 2;
        assert_eq!(
            decide(&rule, &at(101, 20), &wide),
            Decision::Stop(StopReason::Budget { blocks: 1, budget })
        );
    }

    #[test]
    fn a_study_without_a_good_run_ends_at_the_least_number_of_blocks() {
        assert!(matches!(decide(&RULE, &after(2), &[]), Decision::Continue(_)));
        assert_eq!(
            decide(&RULE, &after(3), &[]),
            Decision::Stop(StopReason::NothingMeasured { blocks: 3 })
        );
    }

    #[test]
    fn blocks_to_go_follow_the_square_root() {
        let rule = Rule { max_blocks: 100, ..RULE };
        assert_eq!(blocks_to_go(&rule, &after(1), &[]), 4);
        assert_eq!(blocks_to_go(&rule, &after(5), &[stop_inputs("a", 1.0, 0.0495)]), 15);
        assert_eq!(blocks_to_go(&rule, &after(5), &[stop_inputs("a", 1.0, 0.02)]), 0);
        assert_eq!(blocks_to_go(&rule, &after(5), &[stop_inputs("a", 0.0, 1.0)]), 95);
        let limited = Rule { budget: Some(Duration::from_secs(100)), ..rule };
        let progress = Progress {
            blocks: 5,
            elapsed: Duration::from_secs(50),
            block_time: Some(Duration::from_secs(20)),
        };
        assert_eq!(blocks_to_go(&limited, &progress, &[stop_inputs("a", 1.0, 0.0495)]), 2);
    }

    #[test]
    fn reasons_are_sentences() {
        let budget = StopReason::Budget { blocks: 1, budget: Duration::from_secs(270) };
        assert_eq!(
            budget.to_string(),
            "stopped after 1 block: another would exceed the time limit of 4 min 30 s"
        );
        let precision = StopReason::Precision { blocks: 7, half_width: 0.02134 };
        assert_eq!(
            precision.to_string(),
            "precision reached after 7 blocks: every half-width is within 2.13 % of its mean"
        );
    }
}
