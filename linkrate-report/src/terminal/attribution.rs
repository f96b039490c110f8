//! Where the CPU time went, for a user at a terminal.

use linkrate_study::labels;
use linkrate_study::results::{Attribution, CategoryShare, CellResult};

use super::{GAP, Page, clean};
use crate::table::{NAME, NUMBER, SAY, Table, WHOLE};

/// Below this many per cent in every cell, a category is not worth a row.
const MIN_ROW_SHARE: f64 = 0.05;
/// Below this many per cent it is not worth a word in a list.
const WORTH_A_WORD: f64 = 0.5;
/// More cells than this are no columns to compare at a glance.
const MAX_COLUMNS: usize = 8;

impl Page<'_> {
    /// Shares by category: a column for each cell where they fit, else a list for each cell.
    /// `None` where no run was profiled.
    pub(super) fn attribution(&self) -> Option<String> {
        let cells: Vec<(&CellResult, &Attribution)> = self
            .results
            .cells
            .iter()
            .filter_map(|cell| Some((cell, cell.attribution.as_ref()?)))
            .collect();
        let (_, first) = cells.first()?;
        let names: Vec<String> =
            cells.iter().map(|(cell, _)| clean(&labels::cell(&cell.levels))).collect();
        let titles = first.shares.iter().map(|share| share.title.chars().count()).max();
        let wide = titles.unwrap_or(0).max(HEADER.len()) + GAP;
        let width =
            wide + names.iter().map(|name| name.chars().count().max(6) + GAP).sum::<usize>();
        let as_columns = cells.len() <= MAX_COLUMNS && width <= usize::from(self.paper.width) + GAP;
        Some(if as_columns { self.columns_of(&cells, names) } else { self.lists_of(&cells, names) })
    }

    fn columns_of(&self, cells: &[(&CellResult, &Attribution)], names: Vec<String>) -> String {
        let share = |of: &Attribution, row: usize| of.shares.get(row).map_or(0.0, |of| of.percent);
        let is_worth_it =
            |row: &usize| cells.iter().any(|(_, of)| share(of, *row) >= MIN_ROW_SHARE);
        let shares = &cells[0].1.shares;
        let rows: Vec<usize> = (0..shares.len()).filter(is_worth_it).collect();
        let mut table = Table::new("");
        table.push(HEADER, WHOLE, rows.iter().map(|row| shares[*row].title.as_str()));
        for ((_, of), name) in cells.iter().zip(&names) {
            let name = if name.is_empty() { "%" } else { name.as_str() };
            table.push(name, NUMBER, rows.iter().map(|row| one_decimal(share(of, *row))));
        }
        table.text(&self.paper)
    }

    fn lists_of(&self, cells: &[(&CellResult, &Attribution)], names: Vec<String>) -> String {
        let list = |(_, of): &(&CellResult, &Attribution)| {
            let mut shares: Vec<&CategoryShare> =
                of.shares.iter().filter(|share| share.percent >= WORTH_A_WORD).collect();
            // idle stays where it is, last
            let busy = shares.len().saturating_sub(usize::from(
                shares.last().is_some_and(|share| share.category == "idle"),
            ));
            shares[..busy].sort_by(|a, b| b.percent.total_cmp(&a.percent));
            let words = shares
                .iter()
                .map(|share| format!("{} {}", share.title, one_decimal(share.percent)));
            words.collect::<Vec<_>>().join(", ")
        };
        let mut table = Table::new("");
        table.push("cell", NAME, names);
        table.push(HEADER, SAY, cells.iter().map(list));
        table.text(&self.paper)
    }
}

const HEADER: &str = "where the CPU time went";

fn one_decimal(percent: f64) -> String {
    format!("{percent:.1}")
}
