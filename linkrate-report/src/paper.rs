//! The report: everything that HTML and Markdown put in place, as text and drawings.
//!
//! First the answer, with one figure, how far to trust it, and what a paper published; then the rest.
//!
//! - [`advice`]: what to do, at which cost and under which condition
//! - [`fleet`]: the pairs of a fleet, and what stands out among them
//! - [`imported`]: where imported runs come from, and what they lack
//! - [`steps`]: effects of one step put into words, for the advice
//! - [`cell_figures`]: figures of cells: bars, sweeps, latency
//! - [`change_figures`]: figures of published changes and of CPU time
//! - [`failure`]: what a failure cost, and rates over time
//! - [`tables`]: the tables
//! - [`mod@evidence`]: what counters prove
//! - [`mod@line`]: where the time of the lines went
//! - [`method`]: how it was measured, in prose
//! - [`testbed`]: the testbed as a picture
//!
//! The order of the story is the order of the fields of [`Paper`]: figures and tables are numbered
//! by it, and both templates follow it.

use linkrate_study::labels;
use linkrate_study::results::StudyResults;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;

use crate::answer::checks::{self, Check};
use crate::answer::testbed::Testbed;
use crate::table::Table;
use crate::words::payback;
use crate::{ReportError, answer, demand, directions, mix, number, predicted, round_trip, words};

pub mod advice;
pub mod cell_figures;
pub mod change_figures;
pub mod evidence;
pub mod failure;
pub mod figure;
pub mod fleet;
pub mod imported;
pub mod line;
pub mod method;
pub mod steps;
pub mod tables;
pub mod testbed;

use advice::Advice;
use evidence::Evidence;
use figure::Figure;

/// A run without figures.
#[derive(Debug, Serialize)]
pub struct Failure {
    /// Block, from 1.
    pub block: u32,
    pub cell: String,
    pub reason: String,
}

/// Whether connection offloads to a TCP offload engine pay.
#[derive(Debug, Serialize)]
pub struct Paybacks {
    /// The conclusion, and what is behind it.
    pub said: Vec<String>,
    /// After how many bytes connection offloads have paid, and what they cost.
    pub tables: Vec<Numbered>,
}

/// A table with its number; 0 until it has its place.
#[derive(Debug, Serialize)]
pub struct Numbered {
    /// From 1, by the order of the story.
    pub number: usize,
    #[serde(flatten)]
    pub table: Table,
}

#[derive(Debug, Serialize)]
pub struct Paper<'a> {
    /// Title of the study, with what all cells have in common.
    pub title: String,
    /// Whether software stands in for the adapter.
    pub emulated: bool,
    /// What was measured, on what, when and by which version.
    pub header: Vec<(&'static str, String)>,
    /// What was found.
    pub answer: Vec<String>,
    /// What to do.
    pub advice: Vec<Advice>,
    /// Cost beside throughput.
    pub lead: Option<Figure>,
    /// How far to trust it.
    pub trust: Vec<Check>,
    /// How many warnings and failed runs there are; empty without any.
    pub troubles: String,
    /// How published figures and measured ones agree, as a sentence; empty without any.
    pub agreement: String,
    /// Published changes beside measured ones.
    pub published_figure: Option<Figure>,
    /// The pairs of a fleet.
    pub fleet: Option<fleet::Section>,
    /// Whether connection offloads to a TCP offload engine pay.
    pub worth: Option<Paybacks>,
    /// Where a larger window stops to help.
    pub window: Option<Numbered>,
    /// Rates over time, with the events.
    pub failure_figures: Vec<Figure>,
    /// What failures cost.
    pub failure: Vec<Numbered>,
    /// What the study asks, and why.
    pub background: Vec<method::Paragraph>,
    pub method: Vec<(&'static str, String)>,
    pub testbed: Option<Figure>,
    /// Figures of cells that are not in the answer.
    pub cell_figures: Vec<Figure>,
    pub cells: Vec<Numbered>,
    pub effects: Option<Numbered>,
    /// Published values that are in no figure.
    pub published: Option<Numbered>,
    /// Where the CPU time went.
    pub attribution_figure: Option<Figure>,
    /// The same as a table.
    pub attribution: Vec<Numbered>,
    /// Where the time of lines of cells went.
    pub line_figures: Vec<Figure>,
    /// The same as a table.
    pub line: Option<Numbered>,
    /// What limited each cell.
    pub limits: Option<Numbered>,
    /// Evidence that is the same in every cell.
    pub common: Vec<(&'static str, String)>,
    pub evidence: Vec<Numbered>,
    /// What a reader must know.
    pub warnings: Vec<&'a str>,
    pub failures: Vec<Failure>,
    /// The runs that count, by level.
    pub refusals: Option<Numbered>,
    pub facts: Vec<(&'a str, String)>,
    /// The study file.
    pub source: Option<&'a str>,
    /// Raw runs, not numbered: they are not printed.
    pub runs: Option<Table>,
    /// How many there are, in words.
    pub runs_count: String,
    /// The results directory.
    pub results: &'a str,
}

impl<'a> Paper<'a> {
    /// The paper of some results.
    pub fn new(results: &'a StudyResults) -> Result<Self, ReportError> {
        let plan = results.plan.as_deref();
        let Evidence { mut common, tables: proofs } = evidence::of(&results.cells);
        common.extend(tables::undivided(results).map(|why| ("parts of the service demand", why)));
        let (line_figures, line_table) = (line::figures(results)?, line::table(results));
        let numbered = |table: Table| Numbered { number: 0, table };
        let mut of_cells = cell_figures::figures(results)?.into_iter();
        let published_figure = change_figures::published(results)?;
        let (agreement, mut trust): (Vec<Check>, Vec<Check>) =
            checks::all(results).into_iter().partition(|check| check.name == checks::PUBLISHED);
        trust.extend(checks::limited(results));
        let power = checks::power(results);
        trust.extend(power.filter(|power| trust.iter().all(|check| check.name != power.name)));
        let testbed = Testbed::of(results);
        let mut fleet = fleet::section(results)?;
        // what stands out among pairs is the answer of a fleet
        let answer = match fleet.as_mut().map(|of| std::mem::take(&mut of.said)) {
            Some(said) if !said.is_empty() => said,
            _ => answer::sentences(results),
        };
        let mut paper = Self {
            title: answer::title(results),
            emulated: testbed.is_emulated,
            header: header(results, testbed),
            answer,
            advice: advice::all(results),
            lead: of_cells.next(),
            trust,
            troubles: checks::warnings(results).unwrap_or_default(),
            agreement: agreement.into_iter().next().map_or_else(String::new, |check| check.text),
            published_figure,
            fleet,
            worth: results.payback.as_ref().map(|of| Paybacks {
                said: payback::sentences(of),
                tables: payback::tables(of, |at| words::capitalised(&labels::cell(at)))
                    .into_iter()
                    .flatten()
                    .map(numbered)
                    .collect(),
            }),
            window: tables::windows(results).map(numbered),
            failure_figures: failure::figures(results)?,
            failure: failure::tables(results).into_iter().map(numbered).collect(),
            line: (!line_figures.is_empty()).then(|| line_table.clone()).flatten().map(numbered),
            background: plan.map_or_else(Vec::new, |plan| method::background(&plan.study.source)),
            method: method::paragraphs(results),
            testbed: testbed::figure(results)?,
            cell_figures: of_cells.collect(),
            cells: tables::cells(results)
                .into_iter()
                .chain(imported::table(results))
                .chain(demand::table(results))
                .chain(round_trip::table(results))
                .chain(mix::table(results))
                .chain(directions::table(results))
                .map(numbered)
                .collect(),
            effects: tables::effects(results).map(numbered),
            published: tables::published(results).map(numbered),
            attribution_figure: change_figures::attribution(results)?,
            attribution: tables::attribution(results).into_iter().map(numbered).collect(),
            limits: tables::limits(results).map(numbered),
            common,
            evidence: predicted::table(results)
                .into_iter()
                .chain(line_table.filter(|_| line_figures.is_empty()))
                .chain(proofs)
                .map(numbered)
                .collect(),
            warnings: words::warnings(results),
            failures: failures(results),
            refusals: tables::rejections(results).map(numbered),
            facts: facts(results),
            line_figures,
            source: plan.map(|plan| plan.study.source.trim_end()).filter(|text| !text.is_empty()),
            runs: tables::runs(results),
            runs_count: words::count(results.runs.len(), "run"),
            results: &results.results,
        };
        for (index, figure) in paper.figures_mut().enumerate() {
            figure.number = index + 1;
        }
        for (index, table) in paper.tables_mut().enumerate() {
            table.number = index + 1;
        }
        Ok(paper)
    }

    /// Every figure in the order of the story.
    pub fn figures_mut(&mut self) -> impl Iterator<Item = &mut Figure> {
        self.lead
            .iter_mut()
            .chain(&mut self.published_figure)
            .chain(self.fleet.iter_mut().flat_map(|fleet| &mut fleet.figures))
            .chain(&mut self.failure_figures)
            .chain(&mut self.testbed)
            .chain(&mut self.cell_figures)
            .chain(&mut self.attribution_figure)
            .chain(&mut self.line_figures)
    }

    fn tables_mut(&mut self) -> impl Iterator<Item = &mut Numbered> {
        self.worth
            .iter_mut()
            .flat_map(|worth| &mut worth.tables)
            .chain(&mut self.window)
            .chain(&mut self.failure)
            .chain(&mut self.cells)
            .chain(&mut self.effects)
            .chain(&mut self.published)
            .chain(&mut self.attribution)
            .chain(&mut self.line)
            .chain(&mut self.limits)
            .chain(&mut self.evidence)
            .chain(&mut self.refusals)
    }
}

fn header(results: &StudyResults, testbed: Testbed) -> Vec<(&'static str, String)> {
    let when = number::moment(results.started_unix_ms);
    let version = format!("linkrate {}, study {}", results.linkrate_version, results.study);
    let rows = [
        ("Adapter", testbed.adapter),
        ("Host", testbed.host),
        ("Measured", testbed.size),
        ("When", when),
        ("By", version),
    ];
    rows.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// Facts about the testbed. Of the command line of the kernel only what bears on performance: the rest is nobody's business.
fn facts(results: &StudyResults) -> Vec<(&str, String)> {
    let all = results.facts.facts.iter().chain(&results.facts.measured);
    let shown = all.map(|(name, value)| match name.ends_with(COMMAND_LINE) {
        true => (name.as_str(), linkrate_model::host::of_performance(value)),
        false => (name.as_str(), value.clone()),
    });
    shown.filter(|(_, value)| !value.is_empty()).collect()
}

/// The fact with the command line of the kernel; of a node of a fleet behind its name.
pub(crate) const COMMAND_LINE: &str = "kernel-command-line";

fn failures(results: &StudyResults) -> Vec<Failure> {
    results
        .failures
        .iter()
        .map(|failed| Failure {
            block: failed.block + 1,
            cell: words::failed_run(failed),
            reason: words::reason(failed),
        })
        .collect()
}

/// A drawing with its text alternative, which the pages import.
const DRAWING: &str = include_str!("../templates/drawing.html");

/// What marks Markdown for the formatter.
const MARKDOWN: &str = "markdown";

/// Fills a template. What a value may do to the text around it depends on the ending of `name`:
/// HTML and SVG are escaped as such, Markdown with backslashes.
pub fn render(name: &str, template: &str, values: &impl Serialize) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build()?,
    );
    environment.set_auto_escape_callback(|name| match name.rsplit('.').next() {
        Some("md") => AutoEscape::Custom(MARKDOWN.into()),
        _ => AutoEscape::Html,
    });
    environment.set_formatter(|out, state, value| {
        let markdown = matches!(state.auto_escape(), AutoEscape::Custom(name) if name == MARKDOWN);
        match value.as_str().filter(|_| markdown && !value.is_safe()) {
            Some(text) => Ok(out.write_str(&crate::escape::escaped(text))?),
            None if markdown => Ok(out.write_str(&value.to_string())?),
            None => match value.as_str().filter(|_| !value.is_safe()) {
                Some(text) => {
                    minijinja::escape_formatter(out, state, &Value::from(number::unbroken(text)))
                }
                None => minijinja::escape_formatter(out, state, value),
            },
        }
    });
    environment.add_filter("fenced", crate::escape::fenced);
    environment.add_template("drawing.html", DRAWING)?;
    environment.add_template(name, template)?;
    Ok(environment.get_template(name)?.render(Serde(values))?)
}
