//! Imported runs: where they come from, what they lack, and how they are treated.

use linkrate_study::labels;
use linkrate_study::results::{ImportedRun, StudyResults};

use crate::number::{self, moment};
use crate::table::{Field, NAME, SAY, Table};
use crate::words;

/// The origin of each run; `None` for runs of linkrate.
pub fn table(results: &StudyResults) -> Option<Table> {
    let runs = || results.imported.iter();
    let mut table = Table::new("Origin of the imported runs");
    table.push("File", NAME, runs().map(|run| (run.file.clone(), run.place.clone())));
    table.push("Cell", NAME, runs().map(|run| labels::cell(&run.levels)));
    table.push("Test", NAME, runs().map(|run| (run.test.clone(), Some(run.program.clone()))));
    table.push("Begun", NAME, runs().map(|run| Field::or_absent(run.started_unix_ms.map(moment))));
    let lacks = |run: &ImportedRun| words::listed_or(run.lacks.clone(), "nothing of this list");
    table.push("Not known", SAY, runs().map(lacks));
    table.note = "Of imported runs, the testbed, the knobs as read back and the evidence of counters are unknown."
        .to_owned();
    table.filled()
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
        ("Statistics", match results.effects.is_empty() {
            true => format!(
                "Intervals are {confidence} t intervals over the runs of a cell, which are taken as \
                 independent. The runs are in no blocks: which runs belong together, and what else changed \
                 between them, is not known. Therefore no effects are computed."
            ),
            false => format!(
                "Each block ran both commands once, in random order (seed {}). Intervals of a cell are {confidence} t \
                 intervals over its runs; those of the effect are over the ratios within blocks.",
                results.seed.unwrap_or_default()
            ),
        }),
    ];
    if let Some(seconds) = results.run_seconds {
        all.push(("Runs", format!("Each run measured {seconds} s.")));
    }
    all
}
