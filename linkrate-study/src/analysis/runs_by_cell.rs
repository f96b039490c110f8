//! The runs of a study, sorted into its cells.

use std::collections::BTreeSet;

use crate::store::StoredRun;
use crate::study::Study;

/// Stored runs, sorted into the cells of their study, in the order of their blocks.
///
/// Where something from outside spoiled a run, the whole block falls: its other runs are left out too. A disturbance meets long
/// and dear cells more often, and what is left of a block would not be a fair sample. A cell whose runs are all spoiled
/// lets no block fall: the cause is then likely its own.
#[derive(Debug, Clone)]
pub struct RunsByCell<'a> {
    cells: Vec<Vec<&'a StoredRun>>,
    idle: Vec<&'a StoredRun>,
    /// Good runs of each cell in blocks that fell.
    left_out: Vec<u32>,
    fallen: BTreeSet<u32>,
    /// Cells of the study, without that of an A/A test.
    of_figures: usize,
}

/// Blocks in which something from outside spoiled a run of a cell that has good ones, or an idle run.
pub fn fallen_blocks(study: &Study, runs: &[StoredRun]) -> BTreeSet<u32> {
    // the pairs of a fleet are compared with each other, and not within blocks
    if study.fleet.is_some() {
        return BTreeSet::new();
    }
    let sound: BTreeSet<Option<u32>> =
        runs.iter().filter(|run| run.is_good()).map(|run| run.cell).collect();
    let is_disturbed = |run: &&StoredRun| run.failure().is_some_and(|failure| failure.disturbed);
    let fallen = runs.iter().filter(is_disturbed).filter(|run| sound.contains(&run.cell));
    fallen.map(|run| run.block).collect()
}

/// Good runs that are behind no figure, because their blocks fell: idle ones and the second ones of an A/A test too.
pub fn left_out(runs: &[StoredRun], fallen: &BTreeSet<u32>) -> usize {
    runs.iter().filter(|run| run.is_good() && fallen.contains(&run.block)).count()
}

impl<'a> RunsByCell<'a> {
    /// Sorts `runs`. Runs of cells that `study` does not have are left out; a store has none.
    pub fn of(study: &Study, runs: &'a [StoredRun]) -> Self {
        let cells = study.runs_of_cells() as usize;
        let mut sorted = Self {
            cells: vec![Vec::new(); cells],
            idle: Vec::new(),
            left_out: vec![0; cells],
            fallen: fallen_blocks(study, runs),
            of_figures: study.cells.len(),
        };
        for run in runs {
            let falls = run.is_good() && sorted.fallen.contains(&run.block);
            match run.cell.map(|cell| cell as usize) {
                None if falls => {}
                None => sorted.idle.push(run),
                Some(cell) if falls => {
                    sorted.left_out.get_mut(cell).into_iter().for_each(|count| *count += 1);
                }
                Some(cell) => sorted.cells.get_mut(cell).into_iter().for_each(|of| of.push(run)),
            }
        }
        for of_cell in sorted.cells.iter_mut().chain([&mut sorted.idle]) {
            of_cell.sort_by_key(|run| (run.block, run.sequence));
        }
        sorted
    }

    /// The runs of a cell, failed ones included.
    pub fn cell(&self, index: usize) -> &[&'a StoredRun] {
        self.cells.get(index).map_or(&[], Vec::as_slice)
    }

    /// Good runs of a cell that are left out, because their blocks fell.
    pub fn left_out(&self, index: usize) -> u32 {
        self.left_out.get(index).copied().unwrap_or(0)
    }

    pub fn fallen(&self) -> &BTreeSet<u32> {
        &self.fallen
    }

    pub fn idle(&self) -> &[&'a StoredRun] {
        &self.idle
    }

    /// Every run behind a cell's figures, cell by cell, the idle runs last. The second runs of an A/A test are behind none.
    pub fn all(&self) -> impl Iterator<Item = &'a StoredRun> + '_ {
        self.cells.iter().take(self.of_figures).chain([&self.idle]).flatten().copied()
    }

    /// The same and the second runs of an A/A test, whose ratio is a figure too.
    pub fn all_with_aa(&self) -> impl Iterator<Item = &'a StoredRun> + '_ {
        self.cells.iter().chain([&self.idle]).flatten().copied()
    }

    /// Blocks of which every run is stored. A block of a fleet has the turns of all pairs.
    pub fn whole_blocks(&self, study: &Study) -> u32 {
        self.complete_blocks(study) / study.turns()
    }

    /// Blocks, or turns of a fleet, of which every run is stored, without those that fell.
    pub fn complete_blocks(&self, study: &Study) -> u32 {
        let blocks_of = |runs: &Vec<&StoredRun>| -> BTreeSet<u32> {
            runs.iter().map(|run| run.block).filter(|block| !self.fallen.contains(block)).collect()
        };
        let idle = (!study.method.idle.is_zero()).then(|| blocks_of(&self.idle));
        let complete = self
            .cells
            .iter()
            .map(blocks_of)
            .chain(idle)
            .reduce(|some, others| some.intersection(&others).copied().collect());
        complete.map_or(0, |blocks| u32::try_from(blocks.len()).unwrap_or(u32::MAX))
    }
}
