//! `compare`: result sets against others of the same study.

use std::path::{Path, PathBuf};

use linkrate_model::units::parse_percent;
use linkrate_report::comparison;
use linkrate_study::comparison::conditions::{IMPORTED, NOT_VARIED};
use linkrate_study::comparison::rows::MIN_SETS;
use linkrate_study::comparison::{ComparisonError, Criteria, Difference, Finding, compare};
use linkrate_study::keys;
use linkrate_study::store::{Store, StoredStudy};

use super::output;
use crate::args::study::{CompareFormat, StudyCompareArgs};
use crate::exit::{Exit, Failure};
use crate::output::terminal_style;
use linkrate_stats::interval::MIN_TO_CLAIM;

/// Compares and prints; the exit code tells whether a figure has become worse.
pub fn run(arguments: &StudyCompareArgs) -> Result<Exit, Failure> {
    let format = if arguments.json { CompareFormat::Json } else { arguments.format };
    let to = arguments.output.as_deref();
    let fraction = |option: &str, given: &Option<String>| {
        given.as_deref().map(|given| fraction(option, given)).transpose()
    };
    let request = Criteria {
        allow: arguments.allow.clone(),
        minimum_effect: fraction("--minimum-effect", &arguments.minimum_effect)?,
        session_scatter: fraction("--session-scatter", &arguments.session_scatter)?,
    };
    let baselines = read(&arguments.baseline, &arguments.baselines, to)?;
    let candidates = read(&arguments.candidate, &arguments.candidates, to)?;
    let [before, after] = [&baselines, &candidates].map(|sets| sets.iter().collect::<Vec<_>>());
    let found = compare(&before, &after, &request).map_err(|error| {
        let imported = baselines.iter().chain(&candidates).any(|set| set.plan.is_imported());
        refused(&error, arguments, imported)
    })?;
    let text = match format {
        CompareFormat::Table => {
            let (width, style) = match output::file(to) {
                None => terminal_style(),
                // a file has neither a width nor colours
                Some(_) => (None, linkrate_report::terminal::Style::default()),
            };
            comparison::table(&found, width, style)
        }
        CompareFormat::Md => comparison::markdown(&found)
            .map_err(|error| Failure::from_error(Exit::Failure, &error))?,
        CompareFormat::Json => comparison::document(&found),
    };
    output::write(to, text.as_bytes())?;
    if !found.is_judged() {
        let hint =
            comparison::unjudged(&found).first().map(|(reason, _)| remedy(*reason, &baselines));
        return Err(Failure::new(Exit::Usage, comparison::result(&found)).with_hint(hint.flatten()));
    }
    Ok(if found.regressions > 0 { Exit::Regression } else { Exit::Success })
}

/// What would have a row judged.
fn remedy(unjudged: Finding, baselines: &[StoredStudy]) -> Option<String> {
    let (fewest, what) = match baselines.len() {
        1 => (MIN_TO_CLAIM, "blocks of both sets"),
        _ => (MIN_SETS, "sets of each side"),
    };
    match unjudged {
        Finding::TooFew => Some(format!("measure at least {fewest} {what}")),
        Finding::UnknownScatter => Some(format!(
            "measure at least {MIN_SETS} sets of each side, or give their scatter: \
             --session-scatter PERCENT"
        )),
        Finding::TooFewTransactions => Some("measure longer, or more connections".to_owned()),
        Finding::NotMeasured => {
            Some("linkrate resume adds blocks to a study that was interrupted".to_owned())
        }
        // these are judged
        Finding::Better
        | Finding::Worse
        | Finding::BelowMinimum
        | Finding::Different
        | Finding::NotShown
        | Finding::Lost
        | Finding::Gained => None,
    }
}

/// Reads the sets of one side; none of their files is the one to write to.
fn read(first: &Path, others: &[PathBuf], to: Option<&Path>) -> Result<Vec<StoredStudy>, Failure> {
    let all = std::iter::once(first).chain(others.iter().map(PathBuf::as_path));
    let one = |directory: &Path| {
        if let Some(file) = output::file(to) {
            output::check_no_store_file(file, directory)?;
        }
        Store::read(directory).map_err(Failure::from)
    };
    all.map(one).collect()
}

/// The fraction that an option names.
pub fn fraction(option: &str, given: &str) -> Result<f64, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, format!("{option}: {message}"));
    let fraction = parse_percent(given).map_err(|error| usage(error.to_string()))?;
    if !(0.0..1.0).contains(&fraction) {
        return Err(usage(format!("{given} is out of range; expected 0 % to below 100 %")));
    }
    Ok(fraction)
}

/// Each difference on its own line, with the option that would allow it.
fn refused(error: &ComparisonError, arguments: &StudyCompareArgs, imported: bool) -> Failure {
    let mut message = error.to_string();
    let hint = match error {
        ComparisonError::Different(differences) => {
            for one in differences {
                message.push_str(&format!("\n  {}", described(one)));
            }
            if differences.iter().any(|one| one.meaning) {
                Some(match imported {
                    true => "measure the imported test again: linkrate run IMPORTED/study.toml"
                        .to_owned(),
                    false => by_meaning(differences),
                })
            } else if differences.iter().any(|one| one.name == IMPORTED) {
                Some(format!(
                    "imported runs do not record their conditions; if you know that they were the \
                     same as in the other set: --allow {IMPORTED}"
                ))
            } else {
                let allow: Vec<String> =
                    differences.iter().map(|one| format!("--allow {}", one.name)).collect();
                Some(format!("if this difference is under test: {}", allow.join(" ")))
            }
        }
        ComparisonError::Same => {
            let first = [&arguments.baseline, &arguments.candidate];
            let all = first.into_iter().chain(&arguments.baselines).chain(&arguments.candidates);
            let all: Vec<String> = all.map(|path| path.display().to_string()).collect();
            Some(format!("two of {} are the same results; name another directory", all.join(", ")))
        }
        ComparisonError::OneAgainstSeveral => Some(
            "name several sets of the other side too: --baseline DIR, --candidate DIR".to_owned(),
        ),
        ComparisonError::NothingToCompare => Some(match imported {
            true => "import at least five files of each test".to_owned(),
            false => "linkrate resume adds blocks to a study that was interrupted".to_owned(),
        }),
        ComparisonError::UnknownAllowance { .. } | ComparisonError::NeverAllowed { .. } => None,
    };
    Failure::new(Exit::Usage, message).with_hint(hint)
}

/// How to compare settings that differ: as levels of one study, whose runs are paired.
fn by_meaning(differences: &[Difference]) -> String {
    let level = |text: &str| match text.parse::<u64>() {
        Ok(_) => text.to_owned(),
        Err(_) => format!("{text:?}"),
    };
    let settings = differences.iter().filter(|one| one.meaning && keys::find(&one.name).is_ok());
    let factors: Vec<String> = settings
        .filter(|one| {
            [&one.baseline, &one.candidate]
                .into_iter()
                .all(|of| of != NOT_VARIED && !of.contains(", "))
        })
        .map(|one| format!("{} = [{}, {}]", one.name, level(&one.baseline), level(&one.candidate)))
        .collect();
    match factors.is_empty() {
        true => "the cells mean different things; measure both sets with the same study".to_owned(),
        false => format!(
            "to compare settings, make them levels of one study: in [factors] of its file, {} (linkrate show STUDY \
             --toml prints a file)",
            factors.join(" and ")
        ),
    }
}

fn described(one: &Difference) -> String {
    let cells = one.cells.as_ref().map_or(String::new(), |cells| format!(" ({cells})"));
    format!(
        "{}: {} in the baseline, {} in the candidate{cells}",
        one.name, one.baseline, one.candidate
    )
}
