//! Imported runs: where they come from, what they lack, and how they are treated.

use linkrate_study::labels;
use linkrate_study::results::StudyResults;

use super::tables::{Field, Table, TableRow, columns};
use crate::number::{self, ABSENT, moment};
use crate::words;

/// The origin of each run; `None` for runs of linkrate.
pub fn table(results: &StudyResults) -> Option<Table> {
    let rows: Vec<TableRow> = results
        .imported
        .iter()
        .map(|run| {
            let at = run.place.clone().unwrap_or_default();
            let fields = vec![
                Field { text: run.file.clone(), small: at },
                Field::of(labels::cell(&run.levels)),
                Field { text: run.test.clone(), small: run.program.clone() },
                Field::of(run.started_unix_ms.map_or_else(|| ABSENT.to_owned(), moment)),
                Field::of(words::listed_or(run.lacks.clone(), "nothing of this list")),
            ];
            TableRow::of(fields)
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: "Origin of the imported runs".to_owned(),
        columns: columns(&[
            ("File", "name"),
            ("Cell", "name"),
            ("Test", "name"),
            ("Begun", "name"),
            ("Not known", "say"),
        ]),
        rows,
        note: "Of no imported run the testbed, the knobs as read back and the evidence of counters are \
               known."
            .to_owned(),
    })
}

/// How imported runs were measured, as far as it is known, and how they are treated.
pub fn method(results: &StudyResults) -> Vec<(&'static str, String)> {
    let files = words::imported_files(results);
    let mut programs: Vec<&str> = Vec::new();
    for run in &results.imported {
        if !programs.contains(&run.program.as_str()) {
            programs.push(&run.program);
        }
    }
    let confidence = number::percent(results.confidence);
    let listed: Vec<String> = programs.into_iter().map(str::to_owned).collect();
    let mut all = vec![
        ("Origin", format!(
            "linkrate {} imported {} from {}. The results are those that {} reported. linkrate did not \
             measure them, and computed none of them again from counts.",
            results.linkrate_version,
            words::count(results.imported.len(), "run"),
            words::count(files.len(), "file"),
            labels::listed(&listed),
        )),
        ("Cells", "The system under test is the machine on which the program wrote its output; the clients are its \
         peer. Runs of the same test with the same settings are one cell."
            .to_owned()),
        ("Statistics", format!(
            "Intervals are {confidence} t intervals over the runs of a cell, which are taken as \
             independent. The runs are in no blocks: which runs belong together, and what else changed \
             between them, is not known. Therefore no effects are computed."
        )),
    ];
    if let Some(seconds) = results.run_seconds {
        all.push(("Runs", format!("Each run measured {seconds} s.")));
    }
    all
}
