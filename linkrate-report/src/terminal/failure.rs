//! What a failure cost, for a user at a terminal.

use linkrate_study::labels;

use super::{Column, GAP, Page, clean, total};
use crate::words::failure::{COLUMNS, Figure, cells};

impl Page<'_> {
    /// A row for each cell with an event; `None` where no cell has one. Where it is too wide,
    /// intervals stand below their figures, and in a narrow terminal there are several tables.
    pub(super) fn failure(&self) -> Option<String> {
        let cells = cells(self.results);
        if cells.is_empty() {
            return None;
        }
        let columns = |separator: &str| -> Vec<Column> {
            let named = Column {
                header: "failure".to_owned(),
                right: false,
                fields: cells
                    .iter()
                    .map(|(cell, of)| match cell.levels.0.is_empty() {
                        true => of.fault.phrase().to_owned(),
                        false => clean(&labels::cell(&cell.levels)),
                    })
                    .collect(),
            };
            let figures = COLUMNS.iter().map(|(header, pick)| Column {
                header: (*header).to_owned(),
                right: true,
                fields: cells.iter().map(|(_, of)| joined(pick(of), separator)).collect(),
            });
            std::iter::once(named).chain(figures).collect()
        };
        let beside = columns(" ");
        let room = usize::from(self.paper.width);
        if total(&beside) <= room + GAP {
            return Some(self.lay_out(beside, false));
        }
        let mut rest = columns("\n").into_iter();
        let named = rest.next()?;
        // as many figures beside the names as fit, the others in tables below
        let mut tables: Vec<Vec<Column>> = Vec::new();
        for column in rest {
            let fits = |table: &Vec<Column>| total(table) + column.width() <= room;
            match tables.last_mut().filter(|table| fits(table)) {
                Some(table) => table.push(column),
                None => tables.push(vec![named.clone(), column]),
            }
        }
        let tables: Vec<String> =
            tables.into_iter().map(|columns| self.lay_out(columns, true)).collect();
        Some(tables.join("\n\n"))
    }
}

/// A figure and its interval. What did not happen is a sentence, of which every line is short.
fn joined((text, margin): Figure, separator: &str) -> String {
    let text = match (separator, margin.is_none()) {
        ("\n", true) => text.replace(" within", "\nwithin"),
        _ => text,
    };
    match margin {
        Some(margin) => format!("{text}{separator}{margin}"),
        None => text,
    }
}
