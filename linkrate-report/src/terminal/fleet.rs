//! Matrices of a fleet, for a user at a terminal.

use super::{Page, clean, shape};
use crate::words::fleet::{self, FIGURES, Figure};
use linkrate_study::results::fleet::{FleetCell, FleetResults};

/// Blanks between two columns of a matrix, and the width of one of its figures.
const COLUMN: usize = 8;

impl Page<'_> {
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
        sections.extend(fleet::replaced(of).map(|reported| clean(&reported)));
        let failures = of.failures.iter().map(|failure| format!("failed: {}", clean(failure)));
        sections.push(failures.collect::<Vec<_>>().join("\n"));
        sections.retain(|section| !section.is_empty());
        Some(sections.join("\n\n"))
    }

    /// A row for each sender, a column for each receiver.
    fn matrix(&self, of: &FleetResults, cell: &FleetCell, figure: Figure) -> String {
        let scale = figure.scale(cell);
        let mut table = self.paper.new_table();
        let names = of.nodes.iter().map(|node| node.name.clone());
        table.set_header(["from \\ to".to_owned()].into_iter().chain(names));
        for (sender, node) in of.nodes.iter().enumerate() {
            let fields = (0..of.nodes.len()).map(|receiver| {
                let pair = fleet::pair(cell, sender, receiver);
                pair.map_or_else(String::new, |pair| figure.text(pair, &scale))
            });
            table.add_row([node.name.clone()].into_iter().chain(fields));
        }
        for column in 0..=of.nodes.len() {
            shape(&mut table, column, column > 0, true);
        }
        let title = clean(&fleet::title(of, cell, figure, &scale));
        format!("{title}\n{}", self.paper.print(&table))
    }

    /// A row for each node: medians over its pairs, where a matrix would be too wide.
    fn by_node(&self, of: &FleetResults, cell: &FleetCell, figure: Figure) -> String {
        let scale = figure.scale(cell);
        let mut table = self.paper.new_table();
        table.set_header(["node", "rack", "switch", "as a sender", "as a receiver"]);
        for (number, node) in of.nodes.iter().enumerate() {
            let median = |sends: bool| figure.median(cell, number, sends, &scale);
            let label = |label: &Option<String>| label.clone().unwrap_or_default();
            table.add_row([
                node.name.clone(),
                label(&node.rack),
                label(&node.switch),
                median(true),
                median(false),
            ]);
        }
        for column in 0..5 {
            shape(&mut table, column, column > 2, true);
        }
        let title = clean(&fleet::title(of, cell, figure, &scale));
        format!("{title}, medians over the pairs of a node\n{}", self.paper.print(&table))
    }
}
