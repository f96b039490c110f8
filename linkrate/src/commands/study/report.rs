//! `report`: the results again, as a table or as one document.

use std::io;
use std::path::Path;

use linkrate_report::ReportError;
use linkrate_report::markdown::Markdown;
use linkrate_report::redact::redacted;
use linkrate_study::analysis::analyse;
use linkrate_study::results::StudyResults;
use linkrate_study::store::Store;
use linkrate_sys::stderr;
use rustix::fs::{Access, access};

use super::output::{self, Wanted};
use crate::args::study::{Details, ReportFormat, StudyReportArgs};
use crate::exit::{Exit, Failure};

/// Prints the table and writes the directory's files again, or writes only the requested document.
pub fn run(arguments: &StudyReportArgs) -> Result<Exit, Failure> {
    let format = format(arguments)?;
    let directory = &arguments.directory;
    if let Some(file) = output::file(arguments.output.as_deref()) {
        output::check_no_store_file(file, directory)?;
    }
    let failed = |error: &dyn std::error::Error| Failure::from_error(Exit::Failure, error);
    let mut stored = Store::read(directory)?;
    if arguments.redact {
        stored = redacted(&stored).map_err(|error| failed(&error))?;
    }
    let results = analyse(&stored);
    let Some(format) = format else {
        // the table first: a directory that cannot be written to can still be read
        let details = Details::chosen(&arguments.details);
        output::present(&results, &Wanted { details, ..Wanted::default() })?;
        match access(directory, Access::WRITE_OK) {
            // what is redacted is for others
            _ if arguments.redact => {}
            Ok(()) => output::write_results(directory, &results)?,
            Err(error) => stderr::note(format_args!(
                "the files in {} stay as they are: {}",
                directory.display(),
                io::Error::from(error)
            )),
        }
        return Ok(Exit::Success);
    };
    let to = arguments.output.as_deref();
    match format {
        ReportFormat::Html => {
            let page = linkrate_report::html::page(&results).map_err(|error| failed(&error))?;
            output::write(to, page.as_bytes())?;
        }
        ReportFormat::Md => markdown(to, &results)?,
        ReportFormat::Csv => {
            let rows = linkrate_report::csv::runs(&results).map_err(|error| failed(&error))?;
            output::write(to, &rows)?;
        }
        ReportFormat::Json => {
            output::write(to, linkrate_report::json::document(&results).as_bytes())?;
        }
        ReportFormat::HdrLog => {
            let log =
                linkrate_report::hdr_log::document(&results).map_err(|error| lacking(&error))?;
            output::write(to, &log)?;
        }
        ReportFormat::Flent => flent(to, &results)?,
        ReportFormat::Openmetrics => {
            output::write(to, linkrate_report::openmetrics::results(&results).as_bytes())?;
        }
        ReportFormat::Ktap => {
            output::write(to, linkrate_report::ktap::document(&results, &[]).text.as_bytes())?;
        }
    }
    Ok(Exit::Success)
}

/// The requested format, by name or by the ending of the file.
fn format(arguments: &StudyReportArgs) -> Result<Option<ReportFormat>, Failure> {
    if arguments.json {
        return Ok(Some(ReportFormat::Json));
    }
    if arguments.format.is_some() {
        return Ok(arguments.format);
    }
    let Some(output) = &arguments.output else { return Ok(None) };
    let ending = output.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    match ending.as_str() {
        "html" | "htm" => Ok(Some(ReportFormat::Html)),
        "md" | "markdown" => Ok(Some(ReportFormat::Md)),
        "csv" => Ok(Some(ReportFormat::Csv)),
        "json" => Ok(Some(ReportFormat::Json)),
        "hlog" => Ok(Some(ReportFormat::HdrLog)),
        // as node_exporter has it
        "prom" => Ok(Some(ReportFormat::Openmetrics)),
        _ => {
            let message = format!("--output: the ending of {} names no format", output.display());
            let hint = "end it in .html, .md, .csv, .json, .hlog or .prom, or add --format";
            Err(Failure::new(Exit::Usage, message).with_hint(Some(hint)))
        }
    }
}

/// The failure for a document of what the runs do not have.
fn lacking(error: &ReportError) -> Failure {
    let hint = match error {
        ReportError::NoLatencies => "latencies are those of transactions",
        ReportError::NoIntervals => "imported runs have none",
        _ => return Failure::from_error(Exit::Failure, error),
    };
    Failure::from_error(Exit::Usage, error).with_hint(Some(hint))
}

/// The data files of all runs in a directory.
fn flent(to: Option<&Path>, results: &StudyResults) -> Result<(), Failure> {
    let Some(directory) = output::file(to) else {
        let message = "--format flent: a data file for each run, expected --output DIRECTORY";
        return Err(Failure::new(Exit::Usage, message));
    };
    let all = linkrate_report::flent::files(results).map_err(|error| lacking(&error))?;
    let name = directory.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        let message = format!("--output: {} names no directory", directory.display());
        Failure::new(Exit::Usage, message).with_hint(Some("name a new directory"))
    })?;
    let files = output::beside(directory)?
        .subdirectory(name)
        .map_err(|error| output::not_written(directory, &error))?;
    for file in &all {
        files
            .write_whole(&file.name, &file.bytes)
            .map_err(|error| output::not_written(&files.path_of(&file.name), &error))?;
    }
    let written = linkrate_report::words::count(all.len(), "data file");
    stderr::note(format_args!("{written} of flent in {}", directory.display()));
    Ok(())
}

/// The text, and its figures in a directory beside it. On standard output the text refers to the
/// files that `--output report.md` would write.
fn markdown(to: Option<&Path>, results: &StudyResults) -> Result<(), Failure> {
    let document = linkrate_report::markdown::document(results)
        .map_err(|error| Failure::from_error(Exit::Failure, &error))?;
    let Some(file) = output::file(to) else {
        let text = in_directory(&document, "report_figures");
        output::write(None, text.as_bytes())?;
        if !document.figures.is_empty() {
            let figures = linkrate_report::words::count(document.figures.len(), "figure");
            let are = if document.figures.len() == 1 { "is" } else { "are" };
            stderr::note(format_args!(
                "the text refers to {figures} in report_figures/, which {are} not written"
            ));
            stderr::line("hint: --output report.md writes both");
        }
        return Ok(());
    };
    let name = format!("{}_figures", file.file_stem().unwrap_or_default().to_string_lossy());
    if !document.figures.is_empty() {
        let figures = output::beside(file)?
            .subdirectory(&name)
            .map_err(|error| output::not_written(&file.with_file_name(&name), &error))?;
        for (figure, svg) in &document.figures {
            figures
                .write_whole(figure, svg.as_bytes())
                .map_err(|error| output::not_written(&figures.path_of(figure), &error))?;
        }
    }
    output::write_file(file, in_directory(&document, &name).as_bytes())
}

/// The text with its references to figures leading into `directory`.
fn in_directory(document: &Markdown, directory: &str) -> String {
    let directory = percent_encoded(directory);
    document.figures.iter().fold(document.text.clone(), |text, (name, _)| {
        // as Markdown has it, and as HTML within Markdown does
        text.replace(&format!("]({name})"), &format!("]({directory}/{name})"))
            .replace(&format!("src=\"{name}\""), &format!("src=\"{directory}/{name}\""))
    })
}

/// A path as a link has it (RFC 3986): whatever is not unreserved is escaped.
fn percent_encoded(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_referred_to_where_they_are_written() {
        let document = Markdown {
            text: "![a](one.svg) and <img src=\"two.svg\">, not one.svg".to_owned(),
            figures: vec![
                ("one.svg".to_owned(), String::new()),
                ("two.svg".to_owned(), String::new()),
            ],
        };
        assert_eq!(
            in_directory(&document, "my report_figures"),
            "![a](my%20report_figures/one.svg) and <img src=\"my%20report_figures/two.svg\">, not \
             one.svg"
        );
    }
}
