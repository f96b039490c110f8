//! Where the CPU time went, for a user at a terminal.

use linkrate_study::labels;
use linkrate_study::results::{Attribution, CategoryShare, CellResult};

use super::{GAP, Page, clean, shape};

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
        let mut table = self.paper.new_table();
        let names =
            names.into_iter().map(|name| if name.is_empty() { "%".to_owned() } else { name });
        table.set_header([HEADER.to_owned()].into_iter().chain(names));
        for (row, share) in cells[0].1.shares.iter().enumerate() {
            let of = |(_, attribution): &(&CellResult, &Attribution)| {
                attribution.shares.get(row).map_or(0.0, |share| share.percent)
            };
            if cells.iter().map(of).any(|percent| percent >= MIN_ROW_SHARE) {
                let fields = cells.iter().map(|cell| one_decimal(of(cell)));
                table.add_row([clean(&share.title)].into_iter().chain(fields));
            }
        }
        for column in 0..=cells.len() {
            shape(&mut table, column, column > 0, true);
        }
        self.paper.print(&table)
    }

    fn lists_of(&self, cells: &[(&CellResult, &Attribution)], names: Vec<String>) -> String {
        let mut table = self.paper.new_table();
        table.set_header(["cell", HEADER]);
        for ((_, attribution), name) in cells.iter().zip(names) {
            let mut shares: Vec<&CategoryShare> =
                attribution.shares.iter().filter(|share| share.percent >= WORTH_A_WORD).collect();
            // idle stays where it is, last
            let busy = shares.len().saturating_sub(usize::from(
                shares.last().is_some_and(|share| share.category == "idle"),
            ));
            shares[..busy].sort_by(|a, b| b.percent.total_cmp(&a.percent));
            let words = shares
                .iter()
                .map(|share| format!("{} {}", clean(&share.title), one_decimal(share.percent)));
            table.add_row([name, words.collect::<Vec<_>>().join(", ")]);
        }
        shape(&mut table, 0, false, false);
        shape(&mut table, 1, false, false);
        self.paper.print(&table)
    }
}

const HEADER: &str = "where the CPU time went";

fn one_decimal(percent: f64) -> String {
    format!("{percent:.1}")
}
