//! `trend`: result sets of one study over time.

use linkrate_report::trend as report;
use linkrate_study::store::{Store, StoredStudy};
use linkrate_study::trend::{Criteria, StudyTrend, TrendError, trend};

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
    let text = text(&found, format, output::file(to).is_none())?;
    output::write(to, text.as_bytes())?;
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
        "json" => Ok(TrendFormat::Json),
        "txt" => Ok(TrendFormat::Table),
        _ => {
            let message = format!("--output: the ending of {} names no format", file.display());
            let hint = "end it in .html, .md, .json or .txt, or add --format";
            Err(Failure::new(Exit::Usage, message).with_hint(Some(hint)))
        }
    }
}

fn text(found: &StudyTrend, format: TrendFormat, on_terminal: bool) -> Result<String, Failure> {
    let failed = |error| Failure::from_error(Exit::Failure, &error);
    match format {
        TrendFormat::Table => {
            // a file has neither a width nor colours
            let (width, style) =
                if on_terminal { terminal_style() } else { (None, Default::default()) };
            Ok(report::table(found, width, style))
        }
        TrendFormat::Md => report::markdown(found).map_err(failed),
        TrendFormat::Html => report::page(found).map_err(failed),
        TrendFormat::Json => Ok(report::document(found)),
    }
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
            "leave the set out, or make a trend of its own"
        }
    };
    Failure::new(Exit::Usage, message).with_hint(Some(hint))
}
