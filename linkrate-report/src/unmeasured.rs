//! Results of studies without runs, for tests that put their own figures in.

use std::path::PathBuf;

use linkrate_study::analysis::analyse;
use linkrate_study::file::parse;
use linkrate_study::results::StudyResults;
use linkrate_study::store::{StoredPlan, StoredStudy};

/// The results of the study with this text.
#[track_caller]
pub fn without_runs(text: &str) -> StudyResults {
    let study = parse("t", "t.toml", text).unwrap();
    analyse(&StoredStudy {
        directory: PathBuf::new(),
        plan: StoredPlan::new(study, Default::default(), 0),
        runs: Vec::new(),
        torn: false,
        ended: None,
    })
}
