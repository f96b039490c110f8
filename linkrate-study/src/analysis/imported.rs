//! Where imported runs come from, and what they lack.

use std::collections::BTreeSet;

use linkrate_model::Imported;

use crate::import::live;
use crate::levels::Levels;
use crate::results::ImportedRun;
use crate::store::{StoredRun, StoredStudy};

/// What no output of another program tells, as a sentence.
const NEVER_TOLD: &str = "Their testbed, the knobs of its interfaces as read back, and the evidence of its \
                          counters are not known, so that no bottleneck is named.";

/// Why nothing is claimed, as a sentence.
const NOT_PAIRED: &str = "The runs are not in blocks, and what else changed between them is not \
                          known. So no effects are computed and nothing is claimed; an interval \
                          shows only the scatter of the runs of its cell.";

/// The imported runs of a set, in their order; empty for runs of linkrate.
pub fn runs(stored: &StoredStudy) -> Vec<ImportedRun> {
    let cells = &stored.plan.study.cells;
    let levels = |run: &StoredRun| {
        let cell = cells.get(run.cell? as usize)?;
        Some(cell.levels.clone())
    };
    let imported = stored.runs.iter().filter_map(|run| Some((run, run.imported()?)));
    imported
        .map(|(run, imported)| ImportedRun {
            file: imported.file.clone(),
            place: imported.place.clone(),
            program: imported.program.clone(),
            test: imported.test.clone(),
            levels: levels(run).unwrap_or_else(|| Levels(Vec::new())),
            started_unix_ms: imported.started_unix_ms,
            lacks: imported.lacks().into_iter().map(str::to_owned).collect(),
        })
        .collect()
}

/// What all imported runs tell alike; `None` where they differ, or one does not report it.
pub fn of_all(stored: &StoredStudy, reported: fn(&Imported) -> Option<f64>) -> Option<f64> {
    let mut all = stored.runs.iter().filter_map(|run| run.imported()).map(reported);
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

/// What a reader must know of imported runs, as full sentences; empty for runs of linkrate.
pub fn warnings(stored: &StoredStudy) -> Vec<String> {
    let all: Vec<&Imported> = stored.runs.iter().filter_map(|run| run.imported()).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let mut files: Vec<&str> = Vec::new();
    // the number of runs that lack it, in the order in which a run names what it lacks
    let mut lacks: Vec<(&str, usize)> = Vec::new();
    for run in &all {
        if !files.contains(&run.file.as_str()) {
            files.push(&run.file);
        }
        for what in run.lacks() {
            match lacks.iter_mut().find(|(known, _)| *known == what) {
                Some((_, count)) => *count += 1,
                None => lacks.push((what, 1)),
            }
        }
    }
    let plural = |count: usize, thing: &str| {
        if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
    };
    let listed = |whole: bool| -> String {
        let those = lacks.iter().filter(|(_, count)| (*count == all.len()) == whole);
        let names: Vec<String> = those
            .map(|(what, count)| match whole {
                true => (*what).to_owned(),
                false => format!("{what} (in {})", plural(*count, "run")),
            })
            .collect();
        names.join(", ")
    };
    let is_live = live::is_live(&stored.plan.study);
    let from = match is_live {
        true => format!("printed by two commands in {}", plural(all.len(), "run")),
        false => {
            let (runs, files) = (plural(all.len(), "run"), plural(files.len(), "file"));
            format!("those of other programs, imported as {runs} from {files}")
        }
    };
    let mut found = vec![format!("The figures are {from}. {NEVER_TOLD}")];
    let (none, some) = (listed(true), listed(false));
    if !none.is_empty() {
        found.push(format!("No imported run has: {none}."));
    }
    if !some.is_empty() {
        found.push(format!("Some imported runs do not report: {some}."));
    }
    if !is_live {
        found.push(NOT_PAIRED.to_owned());
    }
    let mut known = BTreeSet::new();
    let copies = all.iter().filter(|run| !known.insert(run.fingerprint())).count();
    if copies > 0 {
        found.push(format!(
            "{} another in all that the output has. With copies, intervals are too narrow.",
            if copies == 1 {
                "1 imported run equals".to_owned()
            } else {
                format!("{copies} imported runs equal")
            }
        ));
    }
    let mut remarks: Vec<&str> = Vec::new();
    for remark in all.iter().flat_map(|run| &run.remarks) {
        if !remarks.contains(&remark.as_str()) {
            remarks.push(remark);
        }
    }
    found.extend(remarks.into_iter().map(str::to_owned));
    found
}
