//! Where a larger window stops to help.

use linkrate_model::ByteSize;
use linkrate_study::labels;
use linkrate_study::results::{Knee, StudyResults};

use super::tables::{Field, Table, TableRow, column};
use crate::number;

/// A row for each sweep of the window; `None` without one.
pub fn table(results: &StudyResults) -> Option<Table> {
    let knees = &results.windows;
    if knees.is_empty() {
        return None;
    }
    let row = |knee: &Knee| {
        let reached = match &knee.reached {
            Some(level) => level.to_string(),
            None => format!("none up to {}", knee.largest),
        };
        // three digits: the sizes between two levels are not known any better
        let fills = ByteSize((knee.fills as f64 / 1024.0).round() as u64 * 1024);
        let fields = [
            labels::cell(&knee.at),
            knee.smallest.to_string(),
            number::duration(knee.round_trip.as_nanos() as f64),
            fills.to_string(),
            reached,
        ];

        TableRow::of(fields.map(Field::of))
    };
    Some(Table {
        title: "Where the window fills the line".to_owned(),
        columns: vec![
            column("At", "name"),
            column("Smallest window", "number"),
            column("Round trip", "number"),
            column("Fills the line, by the round trip", "number"),
            column("Filled it first", "number"),
        ],
        rows: knees.iter().map(row).collect(),
        note: "The round trip is the smallest window divided by its throughput. The limit of the links times \
               this round trip is the window that fills the line. It lies between two windows of the \
               study: the last one that filled the line to less than 97 %, and the first that filled it."
            .to_owned(),
    })
}
