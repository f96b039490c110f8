//! The quick form of a study: a smaller question, answered within a minute.
//!
//! The full question badly would be no help: many cells with wide intervals and no claim. So a quick
//! run measures the cells that the study file names in `[quick]`, as the full study would, and at
//! least as many blocks of them as a claim takes.

use std::time::Duration;

use linkrate_model::Event;
use linkrate_model::units::format_duration;

use crate::levels::Level;
use crate::schedule::{RUN_OVERHEAD, after_events};
use crate::study::{Cell, Factor, Method, PART, Quick, Study};
use linkrate_stats::interval::MIN_TO_CLAIM;

/// Time for the blocks of a quick run. Building the testbed and writing the report take the rest of
/// a minute.
pub const QUICK_TIME: Duration = Duration::from_secs(50);

/// Longest measurement of a quick run, unless the study file names another.
pub const QUICK_WINDOW: Duration = Duration::from_secs(1);

/// Longest measurement of its idle runs.
const IDLE: Duration = Duration::from_millis(500);

/// Most blocks, even if more fit the time.
const MAX_BLOCKS: u32 = 20;

/// Why a study has no quick form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} blocks of {cells} cells take {}, expected at most {}",
    MIN_TO_CLAIM,
    format_duration(*needed),
    format_duration(QUICK_TIME)
)]
pub struct TooLong {
    /// Cells of the quick form.
    pub cells: usize,
    /// Time of the fewest blocks.
    pub needed: Duration,
}

impl TooLong {
    pub const HINT: &str = "name fewer cells in at, or shorten run or warm-up";
}

impl Quick {
    /// All cells of a study, for one whose file does not name any.
    fn of_all(study: &Study) -> Self {
        let cells = u32::try_from(study.cells.len()).unwrap_or(u32::MAX);
        Self {
            cells: (0..cells).collect(),
            run: study.method.run.min(QUICK_WINDOW),
            warm_up: study.method.warm_up,
        }
    }

    /// The time of one block, set-up and end of each run included.
    fn block(&self, method: &Method, all: &[Cell]) -> Duration {
        let run = self.run.saturating_add(self.warm_up).saturating_add(RUN_OVERHEAD);
        let cells = u32::try_from(self.cells.len()).unwrap_or(u32::MAX);
        let runs = cells.saturating_add(method.aa.into());
        let idle = match method.idle.is_zero() {
            true => Duration::ZERO,
            false => method.idle.min(IDLE) + RUN_OVERHEAD,
        };
        let twice = self.cells.first().filter(|_| method.aa);
        let own = self.cells.iter().chain(twice).filter_map(|index| all.get(*index as usize));
        run.saturating_mul(runs).saturating_add(idle).saturating_add(after_events(own))
    }

    /// Whole blocks that fit the time of a quick run; [`TooLong`] when they are too few to claim anything. `all` are
    /// the cells of the study.
    pub fn blocks(&self, method: &Method, all: &[Cell]) -> Result<u32, TooLong> {
        let block = self.block(method, all);
        let fitting = QUICK_TIME.as_nanos() / block.as_nanos().max(1);
        let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
        if fitting < MIN_TO_CLAIM {
            let needed = block.saturating_mul(MIN_TO_CLAIM);
            return Err(TooLong { cells: self.cells.len(), needed });
        }
        Ok(fitting.min(MAX_BLOCKS))
    }
}

/// The quick form of a study: the cells of its file's `[quick]`, or all of them, in as many blocks as fit the time. Its
/// number of blocks is fixed in advance, so that a slow machine takes longer and still makes enough of them.
/// [`TooLong`] if the file does not name cells and all of them take too long.
pub fn form(study: Study) -> Result<Study, TooLong> {
    let quick = study.quick.clone().unwrap_or_else(|| Quick::of_all(&study));
    let blocks = quick.blocks(&study.method, &study.cells)?;
    let chosen: Vec<Cell> =
        quick.cells.iter().filter_map(|index| study.cells.get(*index as usize).cloned()).collect();
    let mut kept = with_cells(&study, chosen);
    kept.method = Method {
        run: quick.run,
        warm_up: quick.warm_up,
        idle: study.method.idle.min(IDLE),
        min_blocks: MIN_TO_CLAIM,
        max_blocks: blocks,
        budget: None,
        find: None,
        ..study.method.clone()
    };
    for cell in &mut kept.cells {
        // at the same part of the measurement
        let rescaled = |event: Event| event.rescaled(cell.spec.duration, quick.run);
        cell.spec.event = cell.spec.event.map(rescaled);
        (cell.spec.duration, cell.spec.warm_up) = (quick.run, quick.warm_up);
    }
    Ok(kept)
}

/// The study of some of its cells: their levels, parts and published figures.
pub(crate) fn with_cells(study: &Study, cells: Vec<Cell>) -> Study {
    let mut kept = Study { cells, quick: None, ..study.clone() };
    let has = |factor: &str, level: &Level, part: Option<&str>| {
        kept.cells.iter().any(|cell| {
            let in_part = part.is_none_or(
                |part| matches!(cell.levels.get(PART), Some(Level::Text(name)) if name == part),
            );
            in_part && cell.levels.get(factor) == Some(level)
        })
    };
    let restricted = |factors: &[Factor], part: Option<&str>| -> Vec<Factor> {
        let factors = factors.iter().cloned().map(|mut factor| {
            factor.levels.retain(|level| has(&factor.name, level, part));
            factor
        });
        factors.filter(|factor| !factor.levels.is_empty()).collect()
    };
    let factors = restricted(&study.factors, None);
    let mut parts = study.parts.clone();
    parts.retain(|part| has(PART, &Level::Text(part.name.clone()), None));
    for part in &mut parts {
        part.factors = restricted(&part.factors, Some(&part.name));
    }
    (kept.factors, kept.parts) = (factors, parts);
    // a mean over fewer cells is another figure
    let (all, some) = (study.levels(), kept.levels());
    let published = study.published.iter().filter(|published| {
        let count = |cells: &[&_]| match published.step() {
            Some(_) => published.pairs(cells).len(),
            None => published.cells(cells).len(),
        };
        count(&some) > 0 && count(&some) == count(&all)
    });
    kept.published = published.cloned().collect();
    kept.testbed = kept.fitted(&study.testbed);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse;

    const TWO: &str = "title = \"t\"\n[testbed]\nadapter = \"gigabit\"\n[factors]\n\
                       offload = [\"none\", \"gso\", \"tso\"]\nports = [1, 2, 4]\n\
                       direction = [\"transmit\", \"receive\"]\n";

    fn quick(text: &str) -> Study {
        let study = parse("t", "t.toml", text).unwrap_or_else(|errors| panic!("{errors}"));
        form(study).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn measures_only_the_named_cells() {
        let published = |at: &str| {
            format!(
                "[[published]]\nmeasure = \"throughput\"\nat = {{ {at} }}\nfactor = \"offload\"\n\
                 from = \"none\"\nto = \"tso\"\neffect = \"-47 %\"\n"
            )
        };
        let study = quick(&format!(
            "{TWO}[quick]\nat = {{ ports = [1, 2], direction = \"transmit\", offload = [\"none\", \
             \"tso\"] }}\n{}{}",
            published("direction = \"transmit\", ports = 2"),
            published("direction = \"transmit\"")
        ));
        let cells: Vec<String> = study.cells.iter().map(|cell| cell.levels.to_string()).collect();
        assert_eq!(
            cells,
            [
                "none, ports 1, transmit",
                "none, ports 2, transmit",
                "tso, ports 1, transmit",
                "tso, ports 2, transmit"
            ]
        );
        let levels: Vec<usize> = study.factors.iter().map(|factor| factor.levels.len()).collect();
        assert_eq!(levels, [2, 2, 1]);
        assert_eq!((study.testbed.ports, study.testbed.clients), (2, 2));
        // the mean over three numbers of ports is not that over two
        assert_eq!(study.published.len(), 1);
        assert_eq!(crate::analysis::effects::comparisons(&study).len(), 4);
        assert_eq!(study.quick, None);
    }

    #[test]
    fn parts_keep_their_own_levels() {
        let study = quick(
            "title = \"t\"\n[[part]]\nname = \"one\"\n[part.factors]\nmtu = [1500, 9000]\n\
             [[part]]\nname = \"two\"\n[part.factors]\nmtu = [1500, 9000]\ngro = [true, false]\n\
             [[part]]\nname = \"three\"\n[part.factors]\nmessage = [1, 2]\n\
             [quick]\nat = { part = [\"one\", \"two\"], mtu = 9000 }\n",
        );
        let cells: Vec<String> = study.cells.iter().map(|cell| cell.levels.to_string()).collect();
        assert_eq!(cells, ["one, mtu 9000", "two, mtu 9000, gro on", "two, mtu 9000, gro off"]);
        let parts: Vec<(&str, usize)> =
            study.parts.iter().map(|part| (part.name.as_str(), part.factors.len())).collect();
        assert_eq!(parts, [("one", 1), ("two", 2)]);
        let factors: Vec<&str> = study.factors.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(factors, [PART, "mtu", "gro"]);
    }

    #[test]
    fn at_least_five_blocks_fit_and_their_number_is_fixed() {
        let study =
            quick(&format!("{TWO}[quick]\nat = {{ ports = 1, direction = \"transmit\" }}\n"));
        assert_eq!((study.method.min_blocks, study.method.max_blocks), (5, 7));
        assert_eq!(study.method.budget, None);
        assert!(study.cells.iter().all(|cell| cell.spec.duration == QUICK_WINDOW));
        let time = crate::schedule::estimate(&study, RUN_OVERHEAD);
        assert!(time.longest <= QUICK_TIME && time.longest + time.block > QUICK_TIME, "{time:?}");
        // six cells of a second are the most, without an A/A test
        let six = quick(&format!(
            "{TWO}[quick]\nat = {{ ports = [1, 2], direction = \"receive\" }}\n[method]\naa = false\n"
        ));
        assert_eq!((six.cells.len(), six.method.min_blocks, six.method.max_blocks), (6, 5, 5));
        let few = quick("title = \"t\"\n[factors]\ngro = [true]\n[quick]\nrun = \"100 ms\"\n");
        assert_eq!(
            (few.method.max_blocks, few.cells[0].spec.duration),
            (20, Duration::from_millis(100))
        );
    }

    #[test]
    fn a_study_without_the_section_is_measured_whole_or_not_at_all() {
        let three =
            quick("title = \"t\"\n[factors]\nmessage = [1, 2, 3]\n[method]\nrun = \"300 ms\"\n");
        assert_eq!((three.cells.len(), three.method.run), (3, Duration::from_millis(300)));
        let error = form(parse("t", "t.toml", TWO).unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "5 blocks of 18 cells take 2 min 26 s, expected at most 50 s"
        );
    }
}
