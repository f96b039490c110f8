//! What a user reads at a terminal: the [answer](answer()), and behind it every table.
//!
//! Streams and transactions have tables of their own, since they have different figures. In a
//! narrow terminal verdicts have a table of their own and intervals stand below figures. Without
//! colour the text has no escape sequence; sequences in study files are always removed.

use comfy_table::{LineStyle, TableStyle};
use linkrate_model::latency::Percentile;
use linkrate_study::analysis::warnings::EVERY_RUN_FAILED;
use linkrate_study::labels;
use linkrate_study::levels::Levels;
use linkrate_study::quantity::{Measure, Quantity, Unit};
use linkrate_study::results::{CellResult, Effect, StudyResults};

use crate::answer::checks;
use crate::answer::testbed::Testbed;
use crate::layout::{self, GAP, Note, Paper, RULED, clean, filled, shape, trimmed};
use crate::table::{NAME, NUMBER, REASON, Table, TableRow, WHOLE, headed};
use crate::{demand, directions, mix, number, predicted, round_trip, table, words};

mod answer;
mod attribution;
mod sections;

pub use crate::layout::Style;
pub use answer::{answer, has_answer};

/// The report beside the results.
pub const REPORT_FILE: &str = "report.html";

/// A part of all that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The figures of cells.
    Cells,
    /// The effects.
    Effects,
    /// What service demand and latency are made of.
    Parts,
    /// Published figures beside the measured ones.
    Published,
    /// Notes, failed runs and warnings.
    Warnings,
}

impl Detail {
    /// All of them, in the order in which they are printed.
    pub const ALL: [Self; 5] =
        [Self::Cells, Self::Parts, Self::Effects, Self::Published, Self::Warnings];
}

/// Below this width a column of sentences is a ladder of single words.
const SENTENCE: usize = 28;
/// Most effects without an interval that have a row each.
const MAX_BARE: usize = 8;

/// Everything that is known of results: figures by cell, effects, what stopped the study, warnings and failures. `width` is
/// the terminal's in columns; `None` when there is none.
pub fn table(results: &StudyResults, width: Option<u16>, style: Style) -> String {
    details(results, &Detail::ALL, width, style)
}

/// Some parts of it.
pub fn details(
    results: &StudyResults,
    parts: &[Detail],
    width: Option<u16>,
    style: Style,
) -> String {
    let page = Page { results, paper: Paper::new(width, style) };
    let has = |part| parts.contains(&part);
    let text = |table: &Table| table.text(&page.paper);
    let (transactional, streams): (Vec<&CellResult>, Vec<&CellResult>) =
        results.cells.iter().partition(|cell| cell.is_transactional());
    let lines = |text: &str| filled(&clean(text), usize::from(page.paper.width));
    let title = lines(&results.title).iter().map(|line| style.bold(line)).collect::<Vec<_>>();
    let testbed = match results.imported.is_empty() {
        true => lines(&Testbed::of(results).line()),
        false => Vec::new(),
    };
    let mut sections = vec![[title, testbed].concat().join("\n")];
    if has(Detail::Cells) {
        if !streams.is_empty() {
            sections.push(page.cells(&streams, false));
        }
        if !transactional.is_empty() {
            sections.push(page.cells(&transactional, true));
        }
        sections.extend(page.fleet());
        sections.extend(mix::table(results).map(|table| text(&table.named_once())));
        sections.extend(directions::table(results).as_ref().map(text));
        sections.extend(page.failure());
        sections.extend(predicted::table(results).map(|table| text(&table.named_once())));
    }
    if has(Detail::Parts) {
        sections.extend(demand::table(results).as_ref().map(text));
        sections.extend(round_trip::table(results).as_ref().map(text));
        sections.extend(page.attribution());
    }
    if has(Detail::Effects) {
        if !results.effects.is_empty() {
            sections.push(page.effects());
        }
        let worth = results.payback.iter();
        let worth = worth.flat_map(|of| words::payback::tables(of, Levels::to_string)).flatten();
        sections.extend(worth.map(|table| text(&table)));
    }
    if has(Detail::Published) {
        sections.extend(page.published());
    }
    if has(Detail::Warnings) {
        sections.push(page.notes());
    }
    sections.retain(|section| !section.is_empty());
    let mut text = sections.join("\n\n");
    text.push('\n');
    text
}

fn has_interval(effect: &Effect) -> bool {
    effect.ratio.low.is_some() && effect.ratio.high.is_some()
}

struct Page<'a> {
    results: &'a StudyResults,
    paper: Paper,
}

/// One column of a table of cells, before it is laid out.
#[derive(Clone)]
struct Column {
    header: String,
    right: bool,
    fields: Vec<String>,
}

impl Column {
    fn figures(header: &str, cells: &[&CellResult], field: impl Fn(&CellResult) -> String) -> Self {
        Self {
            header: header.to_owned(),
            right: true,
            fields: cells.iter().map(|cell| field(cell)).collect(),
        }
    }

    fn sentences(
        header: &str,
        cells: &[&CellResult],
        field: impl Fn(&CellResult) -> String,
    ) -> Self {
        Self { right: false, ..Self::figures(header, cells, |cell| clean(&field(cell))) }
    }

    /// Width of its longest line.
    fn width(&self) -> usize {
        let lines = self.fields.iter().flat_map(|field| field.lines()).chain([&*self.header]);
        lines.map(|line| line.chars().count()).max().unwrap_or(0)
    }
}

fn total(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.width() + GAP).sum()
}

impl Page<'_> {
    /// The table of one kind of cell. Where it is too wide, first the verdicts move to a table of
    /// their own, then the intervals move below their figures.
    fn cells(&self, cells: &[&CellResult], transactional: bool) -> String {
        let verdicts = Column::sentences("verdict", cells, |cell| cell.verdict.brief());
        let room = usize::from(self.paper.width);
        let beside = columns(self.results, cells, transactional, " ");
        if total(&beside) + verdicts.width().min(SENTENCE) <= room {
            return self.lay_out(beside.into_iter().chain([verdicts]).collect(), false);
        }
        let figures = if total(&beside) <= room + GAP {
            self.lay_out(beside, false)
        } else {
            self.lay_out(columns(self.results, cells, transactional, "\n"), true)
        };
        let names = Column::sentences("cell", cells, |cell| labels::cell(&cell.levels));
        let bound = if cells.iter().all(|cell| cell.levels.0.is_empty()) {
            self.lay_out(vec![verdicts], false)
        } else {
            self.lay_out(vec![names, verdicts], false)
        };
        format!("{figures}\n\n{bound}")
    }

    fn lay_out(&self, columns: Vec<Column>, stacked: bool) -> String {
        let mut table = self.paper.new_table();
        // rows of two lines need air between them
        if stacked {
            table.load_style(RULED.row_separator(LineStyle::none().fill(' ').junction(' ')));
        }
        table.set_header(columns.iter().map(|column| &*column.header));
        let rows = columns.first().map_or(0, |column| column.fields.len());
        for row in 0..rows {
            table.add_row(columns.iter().map(|column| column.fields[row].as_str()));
        }
        for (index, column) in columns.iter().enumerate() {
            // a figure is never broken; names and verdicts wrap
            shape(&mut table, index, column.right, column.right);
        }
        self.paper.print(&table)
    }

    /// Effects under the name of their measure, in the order of the study.
    /// Where many have no interval, how many those are is all there is to say of them.
    fn effects(&self) -> String {
        let all = &self.results.effects;
        let is_bare = |effect: &&Effect| !has_interval(effect) && effect.measure.is_whole();
        let bare = all.iter().filter(is_bare).count();
        let counted = bare > MAX_BARE;
        let is_shown =
            |effect: &&Effect| (!counted || has_interval(effect)) && self.results.says_more(effect);
        let shown: Vec<&Effect> = all.iter().filter(is_shown).collect();
        let mut parts = Vec::new();
        if !shown.is_empty() {
            parts.push(self.effect_rows(&shown));
        }
        let more = if shown.is_empty() { "" } else { " more" };
        let bare = format!("{bare}{more} effects have too few runs for an interval");
        let power = checks::power(self.results).map(|check| check.text);
        for text in Some(bare).filter(|_| counted).into_iter().chain(power) {
            let mut line = self.paper.new_table();
            line.load_style(TableStyle::new());
            line.add_row([text]);
            shape(&mut line, 0, false, false);
            parts.push(trimmed(&line));
        }
        parts.join("\n")
    }

    fn effect_rows(&self, effects: &[&Effect]) -> String {
        let mut rows: Vec<TableRow> = Vec::new();
        let mut longest = 0;
        let absent = |ends: Option<String>| ends.unwrap_or_else(|| number::ABSENT.to_owned());
        for measure in words::measures(effects.iter().copied()) {
            rows.push(TableRow::group(measure.word().to_owned()));
            for effect in effects.iter().filter(|effect| effect.measure == measure) {
                let change = number::change(&effect.ratio);
                let reason = words::not_claimed(effect, self.results.minimum_effect);
                let mark = words::marks::of_effect(effect);
                let claimed = format!("{}{mark}", reason.unwrap_or_else(|| "✓".to_owned()));
                let step = format!("  {}", words::step_at(effect));
                longest = longest.max(step.chars().count());
                rows.push(TableRow::of([step, change.mean, absent(change.ends), claimed]));
                // the report has the second one of all effects
                let without_driver = demand::without_driver(effect).filter(|_| effect.significant);
                let equal_mix = directions::at_equal_mix(effect);
                for (title, change) in
                    [("at equal mix", equal_mix), (demand::EFFECT, without_driver)]
                {
                    let Some((mean, ends)) = change else { continue };
                    rows.push(TableRow::of([format!("    {title}"), mean, absent(ends)]));
                }
            }
        }
        // a wrapped name loses its indent, so it is the reasons that wrap
        let name = if longest <= usize::from(self.paper.width) / 2 { WHOLE } else { NAME };
        let columns =
            [("effect", name), ("change", NUMBER), ("interval", NUMBER), ("significant", REASON)];
        let table = Table::of("", table::columns(&columns), rows, "");
        table.map_or_else(String::new, |table| table.text(&self.paper))
    }

    /// Published figures beside the measured ones, under the name of their measure.
    fn published(&self) -> Option<String> {
        let mut rows: Vec<TableRow> = Vec::new();
        let mut measure = None;
        for published in &self.results.published {
            if measure != Some(published.measure) {
                measure = Some(published.measure);
                rows.push(TableRow::group(published.measure.word().to_owned()));
            }
            let marks = words::marks::of(self.results, published);
            let name = format!("  {}{marks}", words::published_at(published));
            rows.push(TableRow::of([name].into_iter().chain(words::beside(published))));
            let shares = predicted::of_limits(published);
            let name = "    of its limit".to_owned();
            rows.extend(shares.map(|shares| TableRow::of([name].into_iter().chain(shares))));
        }
        let titles = ["published", "measured", "interval"].map(|title| (title, NUMBER));
        let columns = headed(["", "published vs measured"], titles);
        Table::of("", columns, rows, "").map(|table| table.text(&self.paper))
    }

    /// Notes, each after the word that names its kind.
    fn notes(&self) -> String {
        let results = self.results;
        let mut notes: Vec<Note> = Vec::new();
        let mut note = |word, text| notes.push(Note { word, text });
        for text in failed_runs(results) {
            note("failed", text);
        }
        // the lines above have the reasons
        let says_why = |warning: &&str| !warning.starts_with(EVERY_RUN_FAILED);
        for warning in words::warnings(results).into_iter().filter(says_why) {
            note("warning", warning.to_owned());
        }
        if words::has_intervals(results) {
            let confidence = number::percent(results.confidence);
            note(
                "±",
                format!(
                    "half-width of the {confidence} confidence interval; pp: percentage points"
                ),
            );
        }
        if results.cells.iter().any(CellResult::has_shared_cpus) {
            let text = "the system under test and its clients together, which share their CPUs";
            note("†", text.to_owned());
        }
        if let Some(runs) = same_runs(results) {
            note("runs", format!("{runs} of each cell"));
        }
        for (mark, meaning) in words::marks::meanings(results) {
            note(mark, meaning);
        }
        if !results.published.is_empty() {
            note("paper", words::OF_ANOTHER_MACHINE.to_owned());
            for source in words::marks::sources(&results.published) {
                note("source", source.to_owned());
            }
        }
        for text in demand::notes(results) {
            note("parts", text.to_owned());
        }
        if round_trip::all(results).next().is_some() {
            note("parts", round_trip::note());
        }
        for text in directions::notes(results) {
            note("mix", text.to_owned());
        }
        if predicted::all(results).next().is_some() {
            note("ports", predicted::NOTE.to_owned());
        }
        for reason in predicted::reasons(results) {
            note("ports", reason);
        }
        if results.cells.iter().any(|cell| cell.attribution.is_some()) {
            let text = "shares of the SUT's CPUs in per cent, by samples";
            note("profile", text.to_owned());
        }
        let failures = words::failure::cells(results);
        if !failures.is_empty() {
            note("failure", words::failure::note(&failures));
        }
        for sentence in results.payback.iter().flat_map(words::payback::sentences) {
            note("worth", sentence);
        }
        if let Some(background) = &results.background_cpu {
            let figure = number::with_margin(background);
            let text = format!("{figure} of the SUT's CPUs without load");
            note("idle", text);
        }
        if let Some(found) = words::aa(results) {
            note("A/A", found);
        }
        if !results.stopped.is_empty() {
            let word = match (results.imported.is_empty(), results.complete) {
                (false, _) => "origin",
                (true, true) => "stopped",
                (true, false) => "incomplete",
            };
            note(word, results.stopped.clone());
        }
        for (file, runs) in words::imported_files(results) {
            note("file", format!("{file}: {runs}"));
        }
        if !results.directory.is_empty() {
            note("results", results.directory.clone());
        }
        let left_out = results.left_out();
        if left_out > 0 {
            let why = "good runs of blocks in which something from outside spoiled another run";
            note("left out", format!("{left_out} {why}"));
        }
        layout::notes(&notes, &self.paper, TableStyle::new())
    }
}

/// A line for each reason for which runs of a cell failed, with their blocks.
fn failed_runs(results: &StudyResults) -> Vec<String> {
    let mut found: Vec<(String, String, Vec<String>)> = Vec::new();
    for failed in &results.failures {
        let (who, block) = (clean(&words::failed_run(failed)), (failed.block + 1).to_string());
        let reason = clean(&words::reason(failed));
        match found.iter_mut().find(|(of, why, _)| *of == who && *why == reason) {
            Some((.., blocks)) => blocks.push(block),
            None => found.push((who, reason, vec![block])),
        }
    }
    let line = |(who, reason, blocks): (String, String, Vec<String>)| {
        let named = if blocks.len() == 1 { "block" } else { "blocks" };
        format!("{named} {}, {who}: {reason}", blocks.join(", "))
    };
    found.into_iter().map(line).collect()
}

/// The columns of figures, with `separator` between a figure and its interval.
fn columns(
    results: &StudyResults,
    cells: &[&CellResult],
    transactional: bool,
    separator: &str,
) -> Vec<Column> {
    let figure = |header, measure, value: fn(&CellResult) -> Option<Quantity>| {
        Column::figures(header, cells, |cell| figure(cell, measure, value(cell), separator))
    };
    let mut columns = Vec::new();
    if cells.iter().any(|cell| !cell.levels.0.is_empty()) {
        columns.push(Column::sentences("cell", cells, |cell| labels::cell(&cell.levels)));
    }
    let mut rate = match transactional {
        true => figure("transactions", Measure::Transactions, |cell| cell.transactions),
        false => figure("throughput", Measure::Throughput, |cell| cell.throughput),
    };
    for (field, cell) in rate.fields.iter_mut().zip(cells) {
        let end = field.find('\n').unwrap_or(field.len());
        field.insert_str(end, words::marks::of_cell(results, cell));
    }
    columns.push(rate);
    let of_files = |cell: &&CellResult| {
        cell.completed.is_some_and(|completed| completed.unit == Unit::FilesPerSecond)
    };
    if cells.iter().any(of_files) {
        columns.push(figure("files", Measure::Transactions, |cell| cell.completed));
    }
    if cells.iter().any(|cell| cell.latency.is_some()) {
        let header = words::time_of_items(cells);
        let header = words::in_loop(header, cells.iter().map(|cell| cell.of_loop));
        let separator = if separator == "\n" { "\n" } else { ", " };
        columns.push(Column::figures(&header, cells, |cell| latency(cell, separator)));
    }
    let shared = cells.iter().any(|cell| cell.has_shared_cpus());
    columns.push(figure(if shared { "CPU †" } else { "CPU" }, Measure::Cpu, |cell| cell.cpu));
    let demand = if shared { "service demand †" } else { "service demand" };
    columns.push(figure(demand, Measure::ServiceDemand, |cell| cell.service_demand));
    // a column of one and the same number is a note
    let first = cells.first().map(|cell| cell.runs);
    if cells.iter().any(|cell| cell.failed > 0 || Some(cell.runs) != first) {
        columns.push(Column::figures("runs", cells, |cell| cell.runs.to_string()));
    }
    columns
}

/// A figure and its interval.
fn figure(
    cell: &CellResult,
    measure: Measure,
    quantity: Option<Quantity>,
    separator: &str,
) -> String {
    let Some(quantity) = quantity else { return number::ABSENT.to_owned() };
    let text = number::brief_mean(&quantity);
    match words::margin(cell, measure, &quantity) {
        Some(margin) => format!("{text}{separator}{margin}"),
        None => text,
    }
}

fn latency(cell: &CellResult, separator: &str) -> String {
    let Some(latency) = &cell.latency else { return number::ABSENT.to_owned() };
    let known: Vec<String> = SHOWN
        .into_iter()
        .filter_map(|(name, percentile)| {
            Some(format!("{name} {}", number::percentile(latency, percentile)?))
        })
        .collect();
    match (known.is_empty(), latency.mean_ns) {
        (false, _) => known.join(separator),
        (true, Some(mean)) => format!("mean {}", number::duration(mean)),
        (true, None) => number::ABSENT.to_owned(),
    }
}

/// The percentiles of latency that have room. The highest takes 10,000 transactions.
const SHOWN: [(&str, Percentile); 3] =
    [("p50", Percentile::P50), ("p99", Percentile::P99), ("p99.9", Percentile::P99_9)];

/// Runs of each cell in words, when that is one number above 1 and no run failed.
fn same_runs(results: &StudyResults) -> Option<u32> {
    let runs = results.cells.first()?.runs;
    let same = results.cells.iter().all(|cell| cell.runs == runs && cell.failed == 0);
    (same && runs > 1).then_some(runs)
}
