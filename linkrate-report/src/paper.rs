//! The white paper: everything that HTML and Markdown put in place, as text and drawings.
//!
//! - [`highlights`]: the claimed effects in sentences, and the steps without one
//! - [`advice`]: recommended use, each sentence tied to its effects
//! - [`fleet`]: the pairs of a fleet, and what stands out among them
//! - [`imported`]: where imported runs come from, and what they lack
//! - [`steps`]: effects of one step put into words, for both
//! - [`cell_figures`]: figures of cells: bars, scaling, sweeps, latency
//! - [`effect_figures`]: figures of effects, published figures and CPU time
//! - [`failure`]: what a failure cost, and rates over time
//! - [`tables`]: the tables
//! - [`mod@line`]: where the time of the lines went
//! - [`method`]: how it was measured, in prose
//! - [`testbed`]: the testbed as a picture
//! - [`window`]: where a larger window stops to help
//! - [`payback`]: whether connection offloads to a TCP offload engine pay
//!
//! The order of the story is the order of the fields of [`Paper`]: figures and tables are numbered
//! by it, and both templates follow it.

use linkrate_study::results::StudyResults;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;

use crate::{ReportError, number, words};

pub mod advice;
pub mod cell_figures;
pub mod effect_figures;
pub mod failure;
pub mod figure;
pub mod fleet;
pub mod highlights;
pub mod imported;
pub mod line;
pub mod method;
pub mod payback;
pub mod rejections;
pub mod steps;
pub mod tables;
pub mod testbed;
pub mod window;

use figure::Figure;
use tables::{Evidence, Table};

/// A sentence with the effects behind it.
#[derive(Debug, Serialize)]
pub struct Said {
    /// The sentence.
    pub text: String,
    /// The effects, by name and anchor.
    pub effects: Vec<EffectLink>,
}

/// A reference to a row of a table.
#[derive(Debug, Serialize)]
pub struct EffectLink {
    /// `E7`.
    pub name: String,
    /// `effect-7`.
    pub id: String,
}

/// Advice on one setting.
#[derive(Debug, Serialize)]
pub struct Recommended {
    /// The part of the advice that begins here: `System`; empty within a part, and where there is one
    /// part alone.
    pub heading: &'static str,
    /// What to do.
    pub say: String,
    /// What it gains.
    pub gain: String,
    /// What it costs.
    pub cost: String,
    /// What bounds it.
    pub bound: String,
    /// The effects behind it.
    pub effects: Vec<EffectLink>,
}

/// A run without figures.
#[derive(Debug, Serialize)]
pub struct Failure<'a> {
    /// Block, from 1.
    pub block: u32,
    /// Which cell.
    pub cell: String,
    /// Why.
    pub reason: &'a str,
}

/// A table with its number; 0 until it has its place.
#[derive(Debug, Serialize)]
pub struct Numbered {
    /// From 1, by the order of the story.
    pub number: usize,
    /// The table.
    #[serde(flatten)]
    pub table: Table,
}

/// The paper.
#[derive(Debug, Serialize)]
pub struct Paper<'a> {
    /// Name of the study.
    pub study: &'a str,
    /// Title of the study.
    pub title: &'a str,
    /// The question, where the study file asks one.
    pub question: Option<String>,
    /// What the study file says behind its question.
    pub background: Vec<String>,
    /// The results directory.
    pub results: &'a str,
    /// How a scaled testbed is marked.
    pub scaled: Option<String>,
    /// How large the study is.
    pub size: String,
    /// Whether it ran to its stop rule.
    pub complete: bool,
    /// Why it stopped, as a sentence; empty where that is not known.
    pub stopped: String,
    /// What was shown.
    pub highlights: Vec<Said>,
    /// Whether anything is claimed, and whether anything was compared.
    pub claims: bool,
    /// See `claims`.
    pub compares: bool,
    /// What a reader must know.
    pub warnings: Vec<&'a str>,
    /// Recommended use.
    pub advice: Vec<Recommended>,
    /// Figures of cells.
    pub cell_figures: Vec<Figure>,
    /// Figures of effects.
    pub effect_figures: Vec<Figure>,
    /// The claims.
    pub claimed: Option<Numbered>,
    /// Published figures beside the measured ones.
    pub published_figures: Vec<Figure>,
    /// The same as a table.
    pub published: Option<Numbered>,
    /// The pairs of a fleet.
    pub fleet: Option<fleet::Section>,
    /// Whether connection offloads to a TCP offload engine pay.
    pub worth: Option<payback::Section>,
    /// Where a larger window stops to help.
    pub window: Option<Numbered>,
    /// Rates over time, with the events.
    pub failure_figures: Vec<Figure>,
    /// What failures cost.
    pub failure: Vec<Numbered>,
    /// Where the time of lines of cells went.
    pub line_figures: Vec<Figure>,
    /// The same as a table.
    pub line: Option<Numbered>,
    /// Where the CPU time went.
    pub attribution_figure: Option<Figure>,
    /// The same as a table.
    pub attribution: Vec<Numbered>,
    /// Results and verdicts.
    pub cells: Vec<Numbered>,
    /// How it was measured.
    pub method: Vec<String>,
    /// The testbed.
    pub testbed: Option<Figure>,
    /// Failed runs.
    pub failures: Vec<Failure<'a>>,
    /// The runs that count, by level.
    pub refusals: Option<Numbered>,
    /// Effects that were not shown.
    pub not_shown: Option<Numbered>,
    /// Evidence that is the same in every cell.
    pub common: Vec<(&'static str, String)>,
    /// The evidence.
    pub evidence: Vec<Numbered>,
    /// Facts about the testbed.
    pub facts: Vec<(&'a str, &'a str)>,
    /// The study file.
    pub source: Option<&'a str>,
    /// Raw runs, not numbered: they are not printed.
    pub runs: Option<Table>,
    /// How many there are, in words.
    pub runs_count: String,
}

impl<'a> Paper<'a> {
    /// The paper of some results.
    ///
    /// # Errors
    /// [`ReportError::Chart`] or [`ReportError::Template`] if a figure cannot be drawn; neither
    /// depends on the figures.
    pub fn new(results: &'a StudyResults) -> Result<Self, ReportError> {
        let plan = results.plan.as_deref();
        let asked = plan.and_then(|plan| method::question(&plan.study.source));
        let (question, background) =
            asked.map_or((None, Vec::new()), |(question, rest)| (Some(question), rest));
        let Evidence { mut common, tables: evidence } = tables::evidence(&results.cells);
        common.extend(tables::undivided(results).map(|why| ("parts of the service demand", why)));
        let (line_figures, line_table) = (line::figures(results)?, line::table(results));
        let numbered = |table: Table| Numbered { number: 0, table };
        let mut paper = Self {
            study: &results.study,
            title: &results.title,
            question,
            background,
            results: &results.results,
            scaled: words::scaled(results),
            size: size(results),
            complete: results.complete,
            stopped: stopped(results),
            highlights: highlights::all(results)
                .into_iter()
                .map(|said| Said { text: said.text, effects: links(&said.effects) })
                .collect(),
            claims: results.effects.iter().any(|effect| effect.significant),
            compares: !results.effects.is_empty(),
            warnings: words::warnings(results),
            advice: advice::all(results)
                .into_iter()
                .map(|advice| Recommended {
                    heading: advice.heading,
                    effects: links(&advice.effects),
                    say: advice.say,
                    gain: advice.gain,
                    cost: advice.cost,
                    bound: advice.bound,
                })
                .collect(),
            cell_figures: cell_figures::figures(results)?,
            effect_figures: effect_figures::effects(results)?,
            claimed: tables::effects(results, true).map(numbered),
            published_figures: effect_figures::published(results)?,
            published: tables::published(results).map(numbered),
            fleet: fleet::section(results)?,
            worth: payback::section(results),
            window: window::table(results).map(numbered),
            failure_figures: failure::figures(results)?,
            failure: failure::tables(results).into_iter().map(numbered).collect(),
            line: (!line_figures.is_empty()).then(|| line_table.clone()).flatten().map(numbered),
            attribution_figure: effect_figures::attribution(results)?,
            attribution: tables::attribution(results).into_iter().map(numbered).collect(),
            cells: tables::cells(results)
                .into_iter()
                .chain(imported::table(results))
                .chain(tables::demand(results))
                .chain(tables::without_driver(results))
                .chain(tables::round_trip(results))
                .chain(tables::mix(results))
                .chain(tables::ways(results))
                .chain(tables::equal_mix(results))
                .map(numbered)
                .collect(),
            method: method::paragraphs(results),
            testbed: testbed::figure(results)?,
            failures: failures(results),
            refusals: rejections::table(results).map(numbered),
            not_shown: tables::effects(results, false).map(numbered),
            common,
            evidence: tables::predicted(results)
                .into_iter()
                .chain(line_table.filter(|_| line_figures.is_empty()))
                .chain(evidence)
                .map(numbered)
                .collect(),
            facts: {
                let all = results.facts.facts.iter().chain(&results.facts.measured);
                all.map(|(name, value)| (name.as_str(), value.as_str())).collect()
            },
            line_figures,
            source: plan.map(|plan| plan.study.source.trim_end()).filter(|text| !text.is_empty()),
            runs: tables::runs(results),
            runs_count: words::count(results.runs.len(), "run"),
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
        self.cell_figures
            .iter_mut()
            .chain(&mut self.effect_figures)
            .chain(&mut self.published_figures)
            .chain(self.fleet.iter_mut().flat_map(|fleet| &mut fleet.figures))
            .chain(&mut self.failure_figures)
            .chain(&mut self.line_figures)
            .chain(&mut self.attribution_figure)
            .chain(&mut self.testbed)
    }

    fn tables_mut(&mut self) -> impl Iterator<Item = &mut Numbered> {
        self.claimed
            .iter_mut()
            .chain(&mut self.published)
            .chain(self.worth.iter_mut().flat_map(|worth| &mut worth.tables))
            .chain(&mut self.window)
            .chain(&mut self.failure)
            .chain(&mut self.line)
            .chain(&mut self.attribution)
            .chain(&mut self.cells)
            .chain(&mut self.refusals)
            .chain(&mut self.not_shown)
            .chain(&mut self.evidence)
    }
}

fn size(results: &StudyResults) -> String {
    let mut size = vec![words::count(results.cells.len(), "cell")];
    if results.imported.is_empty() {
        size.push(words::count(results.blocks as usize, "block"));
    }
    if !results.runs.is_empty() {
        size.push(words::count(results.runs.len(), "run"));
    }
    if !results.failures.is_empty() {
        size.push(format!("{} of them failed", results.failures.len()));
    }
    size.join(", ")
}

fn stopped(results: &StudyResults) -> String {
    match results.stopped.trim_end_matches('.') {
        "" => String::new(),
        _ if !results.imported.is_empty() => {
            "Imported from the output of other programs.".to_owned()
        }
        reason => format!("Stopped: {reason}."),
    }
}

fn links(effects: &[usize]) -> Vec<EffectLink> {
    let link = |index: &usize| EffectLink {
        name: tables::effect_name(*index),
        id: format!("effect-{}", index + 1),
    };
    effects.iter().map(link).collect()
}

fn failures(results: &StudyResults) -> Vec<Failure<'_>> {
    results
        .failures
        .iter()
        .map(|failed| Failure {
            block: failed.block + 1,
            cell: words::failed_run(failed),
            reason: &failed.reason,
        })
        .collect()
}

/// A drawing with its text alternative, which the pages import.
const DRAWING: &str = include_str!("../templates/drawing.html");

/// What marks Markdown for the formatter.
const MARKDOWN: &str = "markdown";

/// Fills a template. What a value may do to the text around it depends on the ending of `name`:
/// HTML and SVG are escaped as such, Markdown with backslashes.
///
/// # Errors
/// [`ReportError::Template`] if the template does not fit its values.
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
