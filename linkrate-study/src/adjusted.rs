//! A study with some of its method changed, or with some of its cells, as a user asks on the command line.

use std::time::Duration;

use crate::labels;
use crate::levels::Level;
use crate::quick::with_cells;
use crate::study::{Cell, Study};

/// What is changed; what is absent stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Adjusted {
    /// Fewest and most blocks.
    pub blocks: Option<(u32, u32)>,
    /// No block begins that would end after this time.
    pub budget: Option<Duration>,
    /// Half-width of intervals to reach, a fraction.
    pub precision: Option<f64>,
    /// The change to be able to find, a fraction.
    pub find: Option<f64>,
    /// Share of the model's rates at which links and bus run.
    pub scale: Option<f64>,
    /// Levels to keep, by factor; those of one factor add up.
    pub only: Vec<(String, String)>,
}

/// The most blocks of a study that is to find a change, where nobody says how many.
pub const FIND_BLOCKS: u32 = 100;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdjustError {
    #[error("--only: {given:?} is not a factor of this study; expected one of {expected}")]
    Factor { given: String, expected: String },
    #[error("--only: {given:?} is not a level of {factor}; expected one of {expected}")]
    Level { given: String, factor: String, expected: String },
    /// No cell has all of the levels.
    #[error("--only: no cell has all of these levels")]
    NoCell,
    #[error("{0}")]
    Invalid(String),
}

impl Adjusted {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The study with these changes.
    pub fn apply(&self, study: Study) -> Result<Study, AdjustError> {
        let mut study = match self.only.is_empty() {
            true => study,
            false => self.kept(&study)?,
        };
        let method = &mut study.method;
        (method.min_blocks, method.max_blocks) =
            self.blocks.unwrap_or((method.min_blocks, method.max_blocks));
        if self.find.is_some() {
            // as many as it takes, unless somebody says how many
            let most = method.max_blocks.max(FIND_BLOCKS);
            method.max_blocks = self.blocks.map_or(most, |(_, most)| most);
            method.find = self.find;
        }
        method.budget = self.budget.or(method.budget);
        method.precision = self.precision.unwrap_or(method.precision);
        study.testbed.scale = self.scale.unwrap_or(study.testbed.scale);
        study.check().map_err(|error| AdjustError::Invalid(error.to_string()))?;
        Ok(study)
    }

    fn kept(&self, study: &Study) -> Result<Study, AdjustError> {
        let mut wanted: Vec<(&str, Vec<&Level>)> = Vec::new();
        for (name, value) in &self.only {
            let factor = study.factors.iter().find(|factor| factor.name == *name);
            let factor = factor.ok_or_else(|| {
                let all: Vec<&str> =
                    study.factors.iter().map(|factor| factor.name.as_str()).collect();
                AdjustError::Factor { given: name.clone(), expected: all.join(", ") }
            })?;
            let level = factor.levels.iter().find(|level| is_it(&factor.name, level, value));
            let level = level.ok_or_else(|| {
                let all: Vec<String> = factor.levels.iter().map(ToString::to_string).collect();
                AdjustError::Level {
                    given: value.clone(),
                    factor: name.clone(),
                    expected: all.join(", "),
                }
            })?;
            match wanted.iter_mut().find(|(known, _)| known == name) {
                Some((_, levels)) => levels.push(level),
                None => wanted.push((name, vec![level])),
            }
        }
        let has_all = |cell: &&Cell| {
            let has = |(name, levels): &(&str, Vec<&Level>)| {
                cell.levels.get(name).is_some_and(|level| levels.contains(&level))
            };
            wanted.iter().all(has)
        };
        let cells: Vec<Cell> = study.cells.iter().filter(has_all).cloned().collect();
        if cells.is_empty() {
            return Err(AdjustError::NoCell);
        }
        Ok(with_cells(study, cells))
    }
}

/// Whether a user means this level: as the study file or a table has it, whatever the blanks and the case.
fn is_it(factor: &str, level: &Level, given: &str) -> bool {
    let plain = |text: &str| text.replace(' ', "").to_lowercase();
    [level.to_string(), labels::short_level(factor, level)]
        .iter()
        .any(|text| plain(text) == plain(given))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse;

    fn study() -> Study {
        let text = "title = \"t\"\n[testbed]\nadapter = \"gigabit\"\n[factors]\noffload = [\"none\", \"tso\"]\n\
                    ports = [1, 2]\nmessage = [\"1 KiB\", \"64 KiB\"]\n";
        parse("t", "t.toml", text).unwrap()
    }

    fn only(words: &[(&str, &str)]) -> Result<Study, AdjustError> {
        let only = words.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Adjusted { only, ..Adjusted::default() }.apply(study())
    }

    #[test]
    fn cells_are_those_that_have_a_level_of_each_factor() {
        let kept = only(&[("ports", "1"), ("message", "64kib")]).unwrap();
        assert_eq!(kept.cells.len(), 2);
        assert_eq!(kept.factors.iter().map(|of| of.levels.len()).collect::<Vec<_>>(), [2, 1, 1]);
        assert_eq!(kept.testbed.ports, 1);
        assert_eq!(
            only(&[("ports", "1"), ("ports", "2"), ("offload", "TSO")]).unwrap().cells.len(),
            4
        );
        let reported = |words: &[(&str, &str)]| only(words).unwrap_err().to_string();
        assert_eq!(
            reported(&[("port", "1")]),
            "--only: \"port\" is not a factor of this study; expected one of offload, ports, message"
        );
        assert_eq!(
            reported(&[("ports", "8")]),
            "--only: \"8\" is not a level of ports; expected one of 1, 2"
        );
    }

    #[test]
    fn the_method_takes_what_a_study_file_takes() {
        let adjusted = Adjusted {
            blocks: Some((6, 8)),
            budget: Some(Duration::from_secs(60)),
            precision: Some(0.05),
            scale: Some(0.1),
            ..Adjusted::default()
        };
        let changed = adjusted.apply(study()).unwrap();
        assert_eq!((changed.method.min_blocks, changed.method.max_blocks), (6, 8));
        assert_eq!((changed.method.precision, changed.testbed.scale), (0.05, 0.1));
        let wrong = Adjusted { scale: Some(2.0), ..Adjusted::default() };
        assert!(matches!(wrong.apply(study()), Err(AdjustError::Invalid(_))));
        let wrong = Adjusted { blocks: Some((9, 3)), ..Adjusted::default() };
        assert!(matches!(wrong.apply(study()), Err(AdjustError::Invalid(_))));
        assert!(Adjusted::default().is_empty());
    }

    #[test]
    fn a_change_that_is_to_be_found_takes_the_blocks_that_it_takes() {
        let find = |blocks| {
            let adjusted = Adjusted { find: Some(0.01), blocks, ..Adjusted::default() };
            adjusted.apply(study()).map(|study| study.method)
        };
        let method = find(None).unwrap();
        assert_eq!((method.find, method.min_blocks, method.max_blocks), (Some(0.01), 5, 100));
        assert_eq!(find(Some((6, 8))).unwrap().max_blocks, 8);
        let error = find(Some((8, 8))).unwrap_err().to_string();
        assert!(error.contains("find"), "{error}");
        let alone = Adjusted {
            find: Some(0.01),
            only: ["offload=tso", "ports=1", "message=1 KiB"]
                .map(|word| word.split_once('=').unwrap())
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .to_vec(),
            ..Adjusted::default()
        };
        let error = alone.apply(study()).unwrap_err().to_string();
        assert!(error.contains("nothing to compare"), "{error}");
    }
}
