//! Sections for a user at a terminal that few studies have: what a failure cost, the matrices of a fleet.

use linkrate_study::labels;
use linkrate_study::results::fleet::{FleetCell, FleetResults};

use super::{Column, GAP, Page, clean, total};
use crate::table::{NUMBER, Table, WHOLE};
use crate::words::failure::{COLUMNS, Figure, cells};
use crate::words::fleet::{self, FIGURES};
use crate::words::marks;

/// Blanks between two columns of a matrix, and the width of one of its figures.
const COLUMN: usize = 8;

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

    /// The matrices of a fleet, and what stands out; `None` in studies of one pair.
    pub(super) fn fleet(&self) -> Option<String> {
        let of = self.results.fleet.as_ref()?;
        let mut sections = Vec::new();
        for cell in &of.cells {
            let widest = of.nodes.iter().map(|node| node.name.len()).max().unwrap_or(0);
            let fits = (of.nodes.len() + 1) * widest.max(COLUMN) < usize::from(self.paper.width);
            for figure in FIGURES.into_iter().filter(|figure| figure.is_known(cell)) {
                sections.push(match fits {
                    true => self.matrix(of, cell, figure),
                    false => self.by_node(of, cell, figure),
                });
            }
            let said = fleet::sentences(of, cell);
            sections.push(said.iter().map(|line| clean(line)).collect::<Vec<_>>().join("\n"));
        }
        if of.cells.iter().any(|cell| !fleet::mark(self.results, cell).is_empty()) {
            sections.push(format!("{} {}", marks::HOST_LIMITED.trim(), marks::OF_THE_HOST));
        }
        sections.extend(fleet::replaced(of).map(|reported| clean(&reported)));
        let failures = of.failures.iter().map(|failure| format!("failed: {}", clean(failure)));
        sections.push(failures.collect::<Vec<_>>().join("\n"));
        sections.retain(|section| !section.is_empty());
        Some(sections.join("\n\n"))
    }

    /// A row for each sender, a column for each receiver.
    fn matrix(&self, of: &FleetResults, cell: &FleetCell, figure: fleet::Figure) -> String {
        let scale = figure.scale(cell);
        let names = || of.nodes.iter().map(|node| node.name.as_str());
        let mut table = Table::new("");
        table.push("from \\ to", WHOLE, names());
        for (receiver, name) in names().enumerate() {
            let pairs = (0..of.nodes.len()).map(|sender| fleet::pair(cell, sender, receiver));
            let text = |pair| figure.text(pair, &scale);
            table.push(name, NUMBER, pairs.map(|pair| pair.map_or_else(String::new, text)));
        }
        let title = clean(&fleet::title(self.results, cell, figure, &scale));
        format!("{title}\n{}", table.text(&self.paper))
    }

    /// A row for each node: medians over its pairs, where a matrix would be too wide.
    fn by_node(&self, of: &FleetResults, cell: &FleetCell, figure: fleet::Figure) -> String {
        let scale = figure.scale(cell);
        let mut table = Table::new("");
        let nodes = &of.nodes;
        let label = |label: &Option<String>| label.clone().unwrap_or_default();
        table.push("node", WHOLE, nodes.iter().map(|node| node.name.as_str()));
        table.push("rack", WHOLE, nodes.iter().map(|node| label(&node.rack)));
        table.push("switch", WHOLE, nodes.iter().map(|node| label(&node.switch)));
        for (title, sends) in [("as a sender", true), ("as a receiver", false)] {
            let medians = (0..nodes.len()).map(|node| figure.median(cell, node, sends, &scale));
            table.push(title, NUMBER, medians);
        }
        let title = clean(&fleet::title(self.results, cell, figure, &scale));
        format!("{title}, medians over the pairs of a node\n{}", table.text(&self.paper))
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
