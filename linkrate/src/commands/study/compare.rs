//! `study compare`: one result set against another of the same study.

use std::path::Path;

use linkrate_report::comparison;
use linkrate_stats::paired::FEWEST_TO_CLAIM;
use linkrate_study::comparison::conditions::IMPORTED;
use linkrate_study::comparison::{ComparisonError, Criteria, Difference, compare};
use linkrate_study::store::Store;
use linkrate_terms::units::parse_percent;

use super::output;
use crate::args::study::{CompareFormat, StudyCompareArgs};
use crate::exit::{Exit, Failure};
use crate::output::terminal_style;

/// Compares and prints; the exit code tells whether a figure has become worse.
pub fn run(arguments: &StudyCompareArgs) -> Result<Exit, Failure> {
    let format = if arguments.json { CompareFormat::Json } else { arguments.format };
    let to = arguments.output.as_deref();
    let minimum_effect = arguments.minimum_effect.as_deref().map(minimum_effect).transpose()?;
    let sets = [&arguments.baseline, &arguments.candidate];
    if let Some(file) = output::file(to) {
        for directory in sets {
            output::check_no_store_file(file, directory)?;
        }
    }
    let [baseline, candidate] = sets.map(|directory| Store::read(directory).map_err(Failure::from));
    let request = Criteria { allow: arguments.allow.clone(), minimum_effect };
    let found =
        compare(&baseline?, &candidate?, &request).map_err(|error| refused(&error, arguments))?;
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
        let reason =
            format!("no row is judged: fewer than {FEWEST_TO_CLAIM} blocks in one of the sets");
        let hint = format!("measure at least {FEWEST_TO_CLAIM} blocks of both sets");
        return Err(Failure::new(Exit::Usage, reason).with_hint(Some(hint)));
    }
    Ok(if found.regressions > 0 { Exit::Regression } else { Exit::Success })
}

/// The fraction that `--minimum-effect` names.
pub fn minimum_effect(given: &str) -> Result<f64, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, format!("--minimum-effect: {message}"));
    let fraction = parse_percent(given).map_err(|error| usage(error.to_string()))?;
    if !(0.0..1.0).contains(&fraction) {
        return Err(usage(format!("{given} is out of range; expected 0 % to below 100 %")));
    }
    Ok(fraction)
}

/// Each difference on its own line, with the option that would allow it.
fn refused(error: &ComparisonError, arguments: &StudyCompareArgs) -> Failure {
    let mut message = error.to_string();
    let hint = match error {
        ComparisonError::Different(differences) => {
            for one in differences {
                message.push_str(&format!("\n  {}", described(one)));
            }
            if differences.iter().any(|one| one.meaning) {
                Some(
                    "the cells mean different things; measure both sets with the same study"
                        .to_owned(),
                )
            } else if differences.iter().any(|one| one.name == IMPORTED) {
                Some(format!(
                    "imported runs do not tell their conditions; if you know that they were those of the \
                     other set: --allow {IMPORTED}"
                ))
            } else {
                let allow: Vec<String> =
                    differences.iter().map(|one| format!("--allow {}", one.name)).collect();
                Some(format!("if this difference is under test: {}", allow.join(" ")))
            }
        }
        ComparisonError::Same => {
            let same = |path: &Path| path.display().to_string();
            Some(format!(
                "{} and {} hold the same runs; name another directory",
                same(&arguments.baseline),
                same(&arguments.candidate)
            ))
        }
        ComparisonError::NothingToCompare => {
            Some("linkrate study resume adds blocks to a study that was interrupted".to_owned())
        }
        ComparisonError::UnknownAllowance { .. } | ComparisonError::NeverAllowed { .. } => None,
    };
    Failure::new(Exit::Usage, message).with_hint(hint)
}

fn described(one: &Difference) -> String {
    let cells = one.cells.as_ref().map_or(String::new(), |cells| format!(" ({cells})"));
    format!(
        "{}: {} in the baseline, {} in the candidate{cells}",
        one.name, one.baseline, one.candidate
    )
}
