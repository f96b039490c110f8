//! The pairs of a fleet, and what stands out among them.

use linkrate_study::results::StudyResults;
use linkrate_study::results::fleet::{FleetCell, FleetResults};
use serde::Serialize;

use super::figure::{Figure, Picture};
use crate::ReportError;
use crate::charts::matrix::{Field, matrix};
use crate::words::fleet::{self, FIGURES, Figure as Of};
use crate::words::marks;

/// What the section says.
#[derive(Debug, Serialize)]
pub struct Section {
    /// What stands out, with the evidence, and what limits that.
    pub said: Vec<String>,
    /// A matrix for each figure of each cell.
    pub figures: Vec<Figure>,
}

/// The section; `None` in studies of one pair.
pub fn section(results: &StudyResults) -> Result<Option<Section>, ReportError> {
    let Some(of) = &results.fleet else { return Ok(None) };
    let (mut said, mut figures) = (Vec::new(), Vec::new());
    for cell in &of.cells {
        for line in fleet::sentences(of, cell) {
            said.push(line.trim_start().to_owned());
        }
        for figure in FIGURES.into_iter().filter(|figure| figure.is_known(cell)) {
            figures.push(drawn(results, of, cell, figure)?);
        }
    }
    said.extend(fleet::replaced(of));
    said.extend(of.failures.iter().cloned());
    Ok(Some(Section { said, figures }))
}

fn drawn(
    results: &StudyResults,
    of: &FleetResults,
    cell: &FleetCell,
    figure: Of,
) -> Result<Figure, ReportError> {
    let scale = figure.scale(cell);
    let title = fleet::title(results, cell, figure, &scale);
    let names: Vec<String> = of.nodes.iter().map(|node| node.name.clone()).collect();
    let mut values: Vec<f64> = cell.pairs.iter().filter_map(|pair| figure.of(pair)).collect();
    values.sort_by(f64::total_cmp);
    let median = values.get(values.len() / 2).copied().unwrap_or(0.0);
    // of rates, small ones are bad; of all others, large ones
    let shade = |value: f64| match figure {
        Of::Rate => 1.0 - value / median,
        _ => 1.0 - median / value,
    };
    let field = |sender: usize, receiver: usize| {
        let Some(pair) = fleet::pair(cell, sender, receiver) else { return Field::default() };
        let shade = figure.of(pair).map_or(1.0, shade);
        Field {
            text: figure.text(pair, &scale),
            shade: if shade.is_finite() { shade } else { 0.0 },
            framed: figure == Of::Rate && stands_out(cell, pair.sender, pair.receiver),
        }
    };
    let rows: Vec<Vec<Field>> =
        (0..names.len()).map(|a| (0..names.len()).map(|b| field(a, b)).collect()).collect();
    let described = cell.pairs.iter().map(|pair| {
        let name = |number: u32| names.get(number as usize).map_or("?", String::as_str);
        format!("{} to {} {}", name(pair.sender), name(pair.receiver), figure.text(pair, &scale))
    });
    let picture = Picture {
        description: described.collect::<Vec<_>>().join("; "),
        wide: matrix(&title, &names, &rows)?.into(),
        narrow: None,
        title: title.clone(),
    };
    let mut note =
        "A row for each sender, a column for each receiver; the darker, the further from the median on \
                    the wrong side. What stands out has a frame."
            .to_owned();
    let mark = fleet::mark(results, cell).trim();
    if !mark.is_empty() {
        note.push_str(&format!(" {mark}: {}.", marks::OF_THE_HOST));
    }
    Ok(Figure { number: 0, title, note, panels: vec![picture] })
}

/// Whether a pair stands out, by itself or with one of its nodes.
fn stands_out(cell: &FleetCell, sender: u32, receiver: u32) -> bool {
    cell.named.iter().any(|named| named.subject.concerns(sender, receiver))
}
