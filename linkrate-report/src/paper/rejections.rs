//! The runs that count and those that do not, by the levels of each factor: figures of levels of which more runs were refused
//! than of others deserve doubt.

use linkrate_study::labels;
use linkrate_study::levels::Level;
use linkrate_study::results::{CellResult, StudyResults};

use super::tables::{Field, Table, TableRow, columns};
use crate::words::capitalised;

/// The table; `None` where every run counts, and in a study without factors.
pub fn table(results: &StudyResults) -> Option<Table> {
    let counts = |cell: &CellResult| cell.failed == 0 && cell.left_out == 0;
    let levels = levels(&results.cells);
    if levels.is_empty() || results.cells.iter().all(counts) {
        return None;
    }
    let rows = levels.into_iter().map(|(factor, level)| {
        let of_level = results.cells.iter().filter(|cell| cell.levels.get(&factor) == Some(&level));
        let sums = of_level.fold([0u32; 3], |[runs, failed, left_out], cell| {
            [runs + cell.runs, failed + cell.failed, left_out + cell.left_out]
        });
        let names = [capitalised(&labels::factor(&factor)), labels::level(&factor, &level)];
        let texts = names.into_iter().chain(sums.map(|sum| sum.to_string()));
        TableRow::of(texts.map(Field::of))
    });
    Some(Table {
        title: "Runs that count, by level".to_owned(),
        columns: columns(&[
            ("Factor", "name"),
            ("Level", "name"),
            ("Runs", "number"),
            ("Refused or failed", "number"),
            ("Left out", "number"),
        ]),
        rows: rows.collect(),
        note: "Where something from outside spoils a run, the other runs of its block are left out too, so that no \
               level loses more pairs than another."
            .to_owned(),
    })
}

/// Every level of every factor with more than one, in the order of the cells.
fn levels(cells: &[CellResult]) -> Vec<(String, Level)> {
    let mut found: Vec<(String, Level)> = Vec::new();
    for (factor, level) in cells.iter().flat_map(|cell| &cell.levels.0) {
        if !found.iter().any(|(name, one)| name == factor && one == level) {
            found.push((factor.clone(), level.clone()));
        }
    }
    let count = |factor: &str| found.iter().filter(|(name, _)| name == factor).count();
    let several: Vec<bool> = found.iter().map(|(factor, _)| count(factor) > 1).collect();
    let mut sorted: Vec<_> =
        found.into_iter().zip(several).filter_map(|(one, keep)| keep.then_some(one)).collect();
    // levels of one factor stand together
    let order: Vec<String> = sorted.iter().map(|(factor, _)| factor.clone()).collect();
    sorted.sort_by_key(|(factor, _)| order.iter().position(|name| name == factor));
    sorted
}
