//! Published figures, to stand beside the measured ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::levels::{Level, Levels};
use crate::quantity::Measure;

/// One published figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// What was measured.
    pub measure: Measure,
    /// The cells it is about: all that have these levels.
    pub at: Levels,
    /// What was found.
    pub figure: PublishedFigure,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Basis::is_printed")]
    pub basis: Basis,
    /// Who published it, where that is not the paper of the study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Where a published figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The paper prints it.
    #[default]
    Printed,
    /// It was computed from figures that the paper prints.
    Derived,
    /// The model of the adapter was made from it, so agreement is no prediction.
    Parameter,
}

impl Basis {
    /// All, by the words that study files use.
    pub const ALL: [(&'static str, Self); 3] =
        [("printed", Self::Printed), ("derived", Self::Derived), ("parameter", Self::Parameter)];

    fn is_printed(&self) -> bool {
        *self == Self::Printed
    }
}

/// The figure, in the unit of its [`Measure`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedFigure {
    /// Of one cell.
    Value(f64),
    /// From one level to another, as a ratio: 0.53 for −47 %. Over several combinations of the
    /// other factors it is their mean.
    Effect(Step, f64),
    /// From one level to another at one combination of the other factors, as a difference.
    Difference(Step, f64),
}

/// From one level of a factor to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The factor that changes.
    pub factor: String,
    /// The level before.
    pub from: Level,
    /// The level after.
    pub to: Level,
}

impl Published {
    /// The step, unless it is a value.
    pub fn step(&self) -> Option<&Step> {
        match &self.figure {
            PublishedFigure::Value(_) => None,
            PublishedFigure::Effect(step, _) | PublishedFigure::Difference(step, _) => Some(step),
        }
    }

    /// Indices among `cells` of those that have the levels of `at`.
    pub fn cells(&self, cells: &[&Levels]) -> Vec<usize> {
        cells_at(&self.at, cells.iter().copied()).collect()
    }

    /// Pairs among `cells` that differ in the step alone, before and after.
    pub fn pairs(&self, cells: &[&Levels]) -> Vec<(usize, usize)> {
        self.step().map(|step| pairs_at(&self.at, step, cells)).unwrap_or_default()
    }
}

/// Indices of the cells that have the levels of `at`.
pub(crate) fn cells_at<'c>(
    at: &Levels,
    cells: impl IntoIterator<Item = &'c Levels>,
) -> impl Iterator<Item = usize> {
    let all = move |levels: &Levels| at.0.iter().all(|(key, level)| levels.get(key) == Some(level));
    cells.into_iter().enumerate().filter(move |(_, levels)| all(levels)).map(|(index, _)| index)
}

/// Pairs of cells that have the levels of `at` and differ in `step` alone.
pub(crate) fn pairs_at(at: &Levels, step: &Step, cells: &[&Levels]) -> Vec<(usize, usize)> {
    cells_at(at, cells.iter().copied())
        .filter(|from| cells[*from].get(&step.factor) == Some(&step.from))
        .filter_map(|from| {
            let wanted = cells[from].with(&step.factor, &step.to);
            Some((from, cells.iter().position(|levels| **levels == wanted)?))
        })
        .collect()
}
