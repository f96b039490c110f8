//! `trend`: result sets of one study over time.

use std::path::Path;

use linkrate_report::otava::Otava;
use linkrate_report::{trend as report, words};
use linkrate_study::store::{Store, StoredStudy};
use linkrate_study::trend::{Criteria, StudyTrend, TrendError, trend};
use linkrate_sys::stderr;

use super::{compare, output};
use crate::args::study::{StudyTrendArgs, TrendFormat};
use crate::exit::{Exit, Failure};
use crate::output::terminal_style;

/// Prints the trend; the exit code tells whether the newest change of a figure is for the worse.
pub fn run(arguments: &StudyTrendArgs) -> Result<Exit, Failure> {
    let format = format(arguments)?;
    let to = arguments.output.as_deref();
    let minimum_effect = arguments
        .minimum_effect
        .as_deref()
        .map(|given| compare::fraction("--minimum-effect", given))
        .transpose()?;
    if let Some(file) = output::file(to) {
        for directory in &arguments.directories {
            output::check_no_store_file(file, directory)?;
        }
    }
    let sets: Vec<StoredStudy> = arguments
        .directories
        .iter()
        .map(|directory| Store::read(directory).map_err(Failure::from))
        .collect::<Result<_, _>>()?;
    let request = Criteria { minimum_effect, recent: arguments.recent };
    let found = trend(&sets, &request).map_err(|error| refused(&error))?;
    let document = document(&found, format, output::file(to))?;
    output::write(to, &document)?;
    Ok(if found.worse > 0 { Exit::Regression } else { Exit::Success })
}

/// The requested format, by name or by the ending of the file.
fn format(arguments: &StudyTrendArgs) -> Result<TrendFormat, Failure> {
    if arguments.json {
        return Ok(TrendFormat::Json);
    }
    let Some(file) =
        output::file(arguments.output.as_deref()).filter(|_| arguments.format.is_none())
    else {
        return Ok(arguments.format.unwrap_or(TrendFormat::Table));
    };
    let ending = file.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    match ending.as_str() {
        "html" | "htm" => Ok(TrendFormat::Html),
        "md" | "markdown" => Ok(TrendFormat::Md),
        "csv" => Ok(TrendFormat::Otava),
        "json" => Ok(TrendFormat::Json),
        "txt" => Ok(TrendFormat::Table),
        _ => {
            let message = format!("--output: the ending of {} names no format", file.display());
            let hint = "end it in .html, .md, .csv, .json or .txt, or add --format";
            Err(Failure::new(Exit::Usage, message).with_hint(Some(hint)))
        }
    }
}

fn document(
    found: &StudyTrend,
    format: TrendFormat,
    file: Option<&Path>,
) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::from_error(Exit::Failure, &error);
    let text = match format {
        TrendFormat::Table => {
            // a file has neither a width nor colours
            let (width, style) = match file {
                None => terminal_style(),
                Some(_) => Default::default(),
            };
            report::table(found, width, style)
        }
        TrendFormat::Md => report::markdown(found).map_err(failed)?,
        TrendFormat::Html => report::page(found).map_err(failed)?,
        TrendFormat::Json => report::document(found),
        TrendFormat::Otava => return otava(found, file),
    };
    Ok(text.into_bytes())
}

/// The table for Otava. Beside one in a file its configuration is written too.
fn otava(found: &StudyTrend, file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let table = Otava::new(found).map_err(|error| Failure::from_error(Exit::Failure, &error))?;
    if !table.left_out.is_empty() {
        let columns = words::count(table.left_out.len(), "column");
        let names = table.left_out.join(", ");
        stderr::note(format_args!(
            "{columns} left out, because a set has no value for them: {names}"
        ));
    }
    if let Some(file) = file.filter(|file| file.extension().is_some_and(|ending| ending == "csv")) {
        let name = file.display().to_string();
        let configuration = table.configuration(&found.study, &name);
        output::write_file(&file.with_extension("yaml"), configuration.as_bytes())?;
    }
    Ok(table.csv)
}

fn refused(error: &TrendError) -> Failure {
    let mut message = error.to_string();
    let hint = match error {
        TrendError::TooFew => "name the results directories of several runs of one study",
        TrendError::Same { .. } => "name each result set once",
        TrendError::Imported { .. } => "a trend takes result sets of study run",
        TrendError::Different { differences, .. } => {
            for one in differences {
                let (name, before, newest) = (&one.name, &one.baseline, &one.candidate);
                message.push_str(&format!("\n  {name}: {before}, {newest} in the newest set"));
            }
            "leave this set out, or make a separate trend of it"
        }
    };
    Failure::new(Exit::Usage, message).with_hint(Some(hint))
}
