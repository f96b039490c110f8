//! What a user reads at a terminal: the [answer](answer()), and behind it every table.
//!
//! Streams and transactions have tables of their own, since they have different figures. In a
//! narrow terminal verdicts have a table of their own and intervals stand below figures. Without
//! colour the text has no escape sequence; sequences in study files are always removed.

use comfy_table::{LineStyle, TableStyle};
use linkrate_model::latency::Percentile;
use linkrate_study::analysis::warnings::EVERY_RUN_FAILED;
use linkrate_study::labels;
use linkrate_study::quantity::{Measure, Quantity, Unit};
use linkrate_study::results::{CellResult, Effect, StudyResults};

use crate::answer::testbed::Testbed;
use crate::layout::{GAP, Paper, RULED, clean, filled, shape, trimmed};
use crate::{demand, directions, mix, number, predicted, round_trip, words};

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
    let (transactional, streams): (Vec<&CellResult>, Vec<&CellResult>) =
        results.cells.iter().partition(|cell| cell.is_transactional());
    let lines = |text: &str| filled(&clean(text), usize::from(page.paper.width));
    let title = lines(&results.title).iter().map(|line| page.paper.bold(line)).collect::<Vec<_>>();
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
        sections.extend(page.mix());
        sections.extend(page.ways());
        sections.extend(page.failure());
        sections.extend(page.predicted());
    }
    if has(Detail::Parts) {
        sections.extend(page.demand());
        sections.extend(page.round_trip());
        sections.extend(page.attribution());
    }
    if has(Detail::Effects) {
        if !results.effects.is_empty() {
            sections.push(page.effects());
        }
        sections.extend(page.worth());
    }
    if has(Detail::Published) && !results.published.is_empty() {
        sections.push(page.published());
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
        if counted {
            let more = if shown.is_empty() { "" } else { " more" };
            let mut line = self.paper.new_table();
            line.load_style(TableStyle::new());
            line.add_row([format!("{bare}{more} effects have too few runs for an interval")]);
            shape(&mut line, 0, false, false);
            parts.push(trimmed(&line));
        }
        parts.join("\n")
    }

    fn effect_rows(&self, effects: &[&Effect]) -> String {
        let mut table = self.paper.new_table();
        table.set_header(["effect", "change", "interval", "significant"]);
        let mut longest = 0;
        for measure in words::measures(effects.iter().copied()) {
            table.add_row([measure.word()]);
            for effect in effects.iter().filter(|effect| effect.measure == measure) {
                let change = number::change(&effect.ratio);
                let reason = words::not_claimed(effect, self.results.minimum_effect);
                let mark = words::marks::of_effect(self.results, effect);
                let claimed = format!("{}{mark}", reason.unwrap_or_else(|| "✓".to_owned()));
                let step = format!("  {}", clean(&words::step_at(effect)));
                longest = longest.max(step.chars().count());
                table.add_row([
                    step,
                    change.mean,
                    change.ends.unwrap_or_else(|| number::ABSENT.to_owned()),
                    claimed,
                ]);
                // the report has the second one of all effects
                let without_driver = demand::without_driver(effect).filter(|_| effect.significant);
                let equal_mix = directions::at_equal_mix(effect);
                for (title, change) in
                    [("at equal mix", equal_mix), (demand::EFFECT, without_driver)]
                {
                    let Some((mean, ends)) = change else { continue };
                    table.add_row([
                        format!("    {title}"),
                        mean,
                        ends.unwrap_or_else(|| number::ABSENT.to_owned()),
                    ]);
                }
            }
        }
        // a wrapped name loses its indent, so it is the reasons that wrap
        shape(&mut table, 0, false, longest <= usize::from(self.paper.width) / 2);
        shape(&mut table, 1, true, true);
        shape(&mut table, 2, true, true);
        self.paper.print(&table)
    }

    /// How balancing spreads the flows of each cell over the ports of an aggregate.
    fn predicted(&self) -> Option<String> {
        let mut table = self.paper.new_table();
        let titles = ["ports of the aggregate"].into_iter().chain(predicted::TITLES);
        table.set_header(titles);
        let mut last = None;
        for (cell, one) in predicted::all(self.results) {
            let name = clean(&labels::cell(&cell.levels));
            // a cell in both directions is named once
            let shown = if last.as_ref() == Some(&name) { String::new() } else { name.clone() };
            last = Some(name);
            table.add_row([shown].into_iter().chain(predicted::fields(one)));
        }
        for column in 0..=predicted::TITLES.len() {
            shape(&mut table, column, (2..5).contains(&column), column > 4);
        }
        (!table.is_empty()).then(|| self.paper.print(&table))
    }

    /// Each workload of a mix.
    fn mix(&self) -> Option<String> {
        let mut table = self.paper.new_table();
        table.set_header(["workloads of the mix"].into_iter().chain(mix::TITLES));
        let mut last = None;
        for (cell, figures) in mix::all(self.results) {
            let name = clean(&labels::cell(&cell.levels));
            // a cell is named once
            let shown = if last.as_ref() == Some(&name) { String::new() } else { name.clone() };
            last = Some(name);
            let fields = mix::fields(self.results, cell, figures).map(|field| clean(&field));
            table.add_row([shown].into_iter().chain(fields));
        }
        for column in 0..=mix::TITLES.len() {
            shape(&mut table, column, column > 1, column > 1);
        }
        (!table.is_empty()).then(|| self.paper.print(&table))
    }

    /// The parts of service demands.
    fn demand(&self) -> Option<String> {
        let mut table = self.paper.new_table();
        table.set_header(["parts of service demand"].into_iter().chain(demand::TITLES));
        for cell in demand::all(self.results) {
            let name = clean(&labels::cell(&cell.levels));
            table.add_row([name].into_iter().chain(demand::fields(cell).into_iter().flatten()));
        }
        for column in 0..=demand::TITLES.len() {
            shape(&mut table, column, column > 0, false);
        }
        (!table.is_empty()).then(|| self.paper.print(&table))
    }

    /// The parts of the latency of transactions.
    fn round_trip(&self) -> Option<String> {
        let mut table = self.paper.new_table();
        table.set_header(["latency"].into_iter().chain(round_trip::TITLES));
        for (cell, parts) in round_trip::all(self.results) {
            let name = clean(&labels::cell(&cell.levels));
            table.add_row([name].into_iter().chain(round_trip::fields(parts)));
        }
        for column in 0..=round_trip::TITLES.len() {
            shape(&mut table, column, column > 0, column > 0);
        }
        (!table.is_empty()).then(|| self.paper.print(&table))
    }

    /// The directions of bidirectional cells.
    fn ways(&self) -> Option<String> {
        let mut table = self.paper.new_table();
        table.set_header(["each direction"].into_iter().chain(directions::TITLES));
        for cell in directions::all(self.results) {
            let name = clean(&labels::cell(&cell.levels));
            table.add_row([name].into_iter().chain(directions::fields(self.results, cell)));
        }
        for column in 0..=directions::TITLES.len() {
            shape(&mut table, column, column > 0, column > 0);
        }
        (!table.is_empty()).then(|| self.paper.print(&table))
    }

    /// Published figures beside the measured ones, under the name of their measure.
    fn published(&self) -> String {
        let mut table = self.paper.new_table();
        table.set_header(["published vs measured", "published", "measured", "interval"]);
        let mut measure = None;
        for published in &self.results.published {
            if measure != Some(published.measure) {
                measure = Some(published.measure);
                table.add_row([published.measure.word()]);
            }
            let marks = words::marks::of(self.results, published);
            let name = format!("  {}{marks}", clean(&words::published_at(published)));
            table.add_row([name].into_iter().chain(words::beside(published)));
            if let Some(shares) = predicted::of_limits(published) {
                table.add_row(["    of its limit".to_owned()].into_iter().chain(shares));
            }
        }
        shape(&mut table, 0, false, false);
        for column in 1..4 {
            shape(&mut table, column, true, true);
        }
        self.paper.print(&table)
    }

    /// Notes, each after the word that names its kind.
    fn notes(&self) -> String {
        let results = self.results;
        let mut table = self.paper.new_table();
        table.load_style(TableStyle::new());
        for text in failed_runs(results) {
            table.add_row(["failed".to_owned(), text]);
        }
        // the lines above have the reasons
        let says_why = |warning: &&str| !warning.starts_with(EVERY_RUN_FAILED);
        for warning in words::warnings(results).into_iter().filter(says_why) {
            table.add_row(["warning".to_owned(), clean(warning)]);
        }
        if words::has_intervals(results) {
            let confidence = number::percent(results.confidence);
            table.add_row([
                "±".to_owned(),
                format!(
                    "half-width of the {confidence} confidence interval; pp: percentage points"
                ),
            ]);
        }
        if results.cells.iter().any(CellResult::has_shared_cpus) {
            let text = "the system under test and its clients together, which share their CPUs";
            table.add_row(["†".to_owned(), text.to_owned()]);
        }
        if let Some(runs) = same_runs(results) {
            table.add_row(["runs".to_owned(), format!("{runs} of each cell")]);
        }
        for (mark, meaning) in words::marks::meanings(results) {
            table.add_row([mark.to_owned(), meaning]);
        }
        if !results.published.is_empty() {
            table.add_row(["paper".to_owned(), words::OF_ANOTHER_MACHINE.to_owned()]);
        }
        for note in demand::notes(results) {
            table.add_row(["parts".to_owned(), note.to_owned()]);
        }
        if round_trip::all(results).next().is_some() {
            table.add_row(["parts".to_owned(), round_trip::note()]);
        }
        for note in directions::notes(results) {
            table.add_row(["mix".to_owned(), note.to_owned()]);
        }
        if predicted::all(results).next().is_some() {
            table.add_row(["ports".to_owned(), predicted::NOTE.to_owned()]);
        }
        for reason in predicted::reasons(results) {
            table.add_row(["ports".to_owned(), reason]);
        }
        if results.cells.iter().any(|cell| cell.attribution.is_some()) {
            let text = "shares of the SUT's CPUs in per cent, by samples";
            table.add_row(["profile".to_owned(), text.to_owned()]);
        }
        let failures = words::failure::cells(results);
        if !failures.is_empty() {
            table.add_row(["failure".to_owned(), clean(&words::failure::note(&failures))]);
        }
        for sentence in results.payback.iter().flat_map(words::payback::sentences) {
            table.add_row(["worth".to_owned(), clean(&sentence)]);
        }
        if let Some(background) = &results.background_cpu {
            let figure = number::with_margin(background);
            let text = format!("{figure} of the SUT's CPUs without load");
            table.add_row(["idle".to_owned(), text]);
        }
        if let Some(found) = words::aa(results) {
            table.add_row(["A/A".to_owned(), clean(&found)]);
        }
        if !results.stopped.is_empty() {
            let word = match (results.imported.is_empty(), results.complete) {
                (false, _) => "origin",
                (true, true) => "stopped",
                (true, false) => "incomplete",
            };
            table.add_row([word.to_owned(), clean(&results.stopped)]);
        }
        for (file, runs) in words::imported_files(results) {
            table.add_row(["file".to_owned(), clean(&format!("{file}: {runs}"))]);
        }
        if !results.directory.is_empty() {
            table.add_row(["results".to_owned(), clean(&results.directory)]);
        }
        let left_out = results.left_out();
        if left_out > 0 {
            let why = "good runs of blocks in which something from outside spoiled another run";
            table.add_row(["left out".to_owned(), format!("{left_out} {why}")]);
        }
        if table.is_empty() {
            return String::new();
        }
        shape(&mut table, 0, false, true);
        if let Some(column) = table.column_mut(0) {
            column.set_padding((0, GAP as u16));
        }
        let text = trimmed(&table);
        if !self.paper.style.color {
            return text;
        }
        let dress = |line: &str| match line.split_once(' ') {
            Some(("warning", rest)) => format!("\u{1b}[1;33mwarning\u{1b}[0m {rest}"),
            Some((word @ ("failed" | "incomplete"), rest)) => {
                format!("\u{1b}[1;31m{word}\u{1b}[0m {rest}")
            }
            _ => line.to_owned(),
        };
        text.lines().map(dress).collect::<Vec<_>>().join("\n")
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
