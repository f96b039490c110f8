//! The cells of a study side by side: the levels of what is compared by the combinations of the other factors.

use linkrate_study::labels;
use linkrate_study::levels::{Level, Levels};
use linkrate_study::results::{CellResult, StudyResults};
use linkrate_study::study::PART;

/// The cells of one part by the levels of one factor.
pub struct Grid<'r> {
    /// What is compared.
    pub factor: &'r str,
    /// Its levels, in the order of the cells.
    pub levels: Vec<&'r Level>,
    /// A row for each combination of the other factors.
    pub rows: Vec<Row<'r>>,
}

/// The cells that differ in the factor alone.
pub struct Row<'r> {
    /// The levels of the other factors.
    pub at: Levels,
    /// A cell for each level.
    pub cells: Vec<Option<&'r CellResult>>,
}

impl<'r> Grid<'r> {
    /// By the first factor that is compared, for each part.
    pub fn all(results: &'r StudyResults) -> Vec<Self> {
        let mut parts: Vec<Option<&Level>> = Vec::new();
        for cell in &results.cells {
            let part = cell.levels.get(PART);
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        parts.into_iter().filter_map(|part| Self::of(results, part)).collect()
    }

    fn of(results: &'r StudyResults, part: Option<&Level>) -> Option<Self> {
        let of_part = |levels: &Levels| levels.get(PART) == part;
        let effect = results.effects.iter().find(|effect| of_part(&effect.at))?;
        let factor = effect.factor.as_str();
        let mut grid = Self { factor, levels: Vec::new(), rows: Vec::new() };
        for cell in results.cells.iter().filter(|cell| of_part(&cell.levels)) {
            let Some(level) = cell.levels.get(factor) else { continue };
            if !grid.levels.contains(&level) {
                grid.levels.push(level);
            }
            let at = cell.levels.without(factor);
            if !grid.rows.iter().any(|row| row.at == at) {
                grid.rows.push(Row { at, cells: Vec::new() });
            }
        }
        for row in &mut grid.rows {
            let cell_at = |level: &&Level| {
                let levels = |cell: &&CellResult| {
                    cell.levels.get(factor) == Some(level) && cell.levels.without(factor) == row.at
                };
                results.cells.iter().find(levels)
            };
            row.cells = grid.levels.iter().map(cell_at).collect();
        }
        Some(grid)
    }

    /// The cells, row by row.
    pub fn cells(&self) -> impl Iterator<Item = &'r CellResult> + '_ {
        self.rows.iter().flat_map(|row| row.cells.iter().copied().flatten())
    }

    /// The factors that differ between rows, in their order.
    pub fn varied(&self) -> Vec<&str> {
        let Some(first) = self.rows.first() else { return Vec::new() };
        let names = first.at.0.iter().map(|(name, _)| name.as_str()).filter(|name| *name != PART);
        let differs =
            |name: &&str| self.rows.iter().any(|row| row.at.get(name) != first.at.get(name));
        names.filter(differs).collect()
    }

    /// What all rows have in common: `transmit, ports 2`; empty where that is nothing.
    pub fn common(&self) -> String {
        let varied = self.varied();
        let Some(first) = self.rows.first() else { return String::new() };
        let same = first.at.0.iter().filter(|(name, _)| !varied.contains(&name.as_str()));
        let texts: Vec<String> = same
            .map(|(name, level)| match name.as_str() {
                PART => level.to_string(),
                name => labels::level(name, level),
            })
            .collect();
        texts.join(", ")
    }
}
