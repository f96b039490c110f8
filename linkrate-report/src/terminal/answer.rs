//! The answer of a study: what it found, in as few lines as carry it.
//!
//! Title and testbed; at most three sentences; one table in which the compared levels stand side by side; at most four
//! lines on how far to trust it; where the rest is. [`super::details`] has the rest.

use linkrate_model::latency::Percentile;
use linkrate_model::shell;
use linkrate_study::labels;
use linkrate_study::levels::Level;
use linkrate_study::quantity::{Measure, Quantity};
use linkrate_study::results::{CellResult, Effect, Fact, StudyResults};

use super::{Column, GAP, Page, Style, clean, total};
use crate::answer::checks;
use crate::answer::grid::{Grid, Row};
use crate::answer::testbed::Testbed;
use crate::answer::{self, FEW_CELLS};
use crate::layout::{Paper, filled};
use crate::number;
use crate::words::{self, marks};
use linkrate_stats::interval::MIN_TO_CLAIM;

/// Columns of the names of checks and links.
const NAMES: usize = 10;
/// Most lines on how far to trust the answer.
const MAX_CHECKS: usize = 4;
/// Most rows of a table that compares.
const MAX_ROWS: usize = 12;
/// The column of what limited a cell.
const LIMITED_BY: &str = "limited by";
/// What a level without its cell has.
const NONE: &str = number::ABSENT;
/// Columns, where a terminal is wider: lines that the eye follows.
const WIDEST: u16 = 100;
/// What stands before sentences and tables.
const INDENT: &str = "  ";

/// What `run` and `report` print. `next` is a command worth running next, and why.
pub fn answer(
    results: &StudyResults,
    next: Option<(&str, &str)>,
    width: Option<u16>,
    style: Style,
) -> String {
    let paper = Paper::new(Some(width.unwrap_or(WIDEST).min(WIDEST)), style);
    let page = Page { results, paper };
    let inner = Paper { width: paper.width.saturating_sub(INDENT.len() as u16), ..paper };
    let inside = Page { results, paper: inner };
    let grids = Grid::all(results);
    let mut sections = vec![together([page.heading(), inside.sentences()])];
    sections.extend(inside.compared(&grids).into_iter().map(|table| indented(&table)));
    sections.push(together([page.checks(), page.links(next)]));
    sections.retain(|section| !section.is_empty());
    let mut text = sections.join("\n\n");
    text.push('\n');
    text
}

/// Whether the results have an answer of this form: something is compared on one pair of hosts, or would be if runs counted.
pub fn has_answer(results: &StudyResults) -> bool {
    let nothing_counts = results.cells.iter().all(|cell| cell.runs == 0);
    results.fleet.is_none() && (!results.effects.is_empty() || nothing_counts)
}

/// Lines without a blank one between them.
fn together(sections: [String; 2]) -> String {
    let lines: Vec<&str> =
        sections.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    lines.join("\n")
}

/// A table behind the indent, without the rule below its head.
fn indented(text: &str) -> String {
    text.lines()
        .filter(|line| !line.starts_with('─'))
        .map(|line| format!("{INDENT}{line}").trim_end().to_owned() + "\n")
        .collect::<String>()
        .trim_end()
        .to_owned()
}

impl Page<'_> {
    /// Title and testbed.
    fn heading(&self) -> String {
        let mut lines = self.filled(&clean(&answer::title(self.results)), "", "");
        lines.iter_mut().for_each(|line| *line = self.paper.style.bold(line));
        lines.extend(self.filled(&clean(&Testbed::of(self.results).line()), "", ""));
        lines.join("\n")
    }

    /// What the study shows.
    fn sentences(&self) -> String {
        let sentences = answer::sentences(self.results).into_iter();
        let lines = sentences.flat_map(|one| self.filled(&clean(&one), INDENT, "    "));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Text in lines, each behind an indent; the first one is not shorter than the others.
    fn filled(&self, text: &str, first: &str, next: &str) -> Vec<String> {
        let indent = first.chars().count().max(next.chars().count());
        let lines = filled(text, usize::from(self.paper.width).saturating_sub(indent)).into_iter();
        let behind = |(index, line)| format!("{}{line}", if index == 0 { first } else { next });
        lines.enumerate().map(behind).collect()
    }

    /// The tables, one for each part.
    fn compared(&self, grids: &[Grid<'_>]) -> Vec<String> {
        if let Some(failures) = self.failure() {
            return vec![failures];
        }
        let cells: usize = grids.iter().map(|grid| grid.cells().count()).sum();
        let tables = grids.iter().map(|grid| {
            let table = match cells <= FEW_CELLS {
                true => self.by_cell(grid),
                false => self.side_by_side(grid).unwrap_or_else(|| self.steps(grid, grids.len())),
            };
            // a study of one part has it in its heading
            let common = grid.common();
            match common.is_empty() || grids.len() == 1 {
                true => table,
                false => format!("{}\n{table}", clean(&words::capitalised(&common))),
            }
        });
        let mut tables: Vec<String> = tables.collect();
        let is_marked = |text: &String| text.contains(marks::HOST_LIMITED.trim_start());
        if tables.iter().any(is_marked)
            && let Some(last) = tables.last_mut()
        {
            last.push_str(&format!("\n{} {}", marks::HOST_LIMITED.trim(), marks::OF_THE_HOST));
        }
        tables
    }

    /// A row for each cell.
    fn by_cell(&self, grid: &Grid<'_>) -> String {
        let mut rows: Vec<(&Row<'_>, usize, &CellResult)> = Vec::new();
        for row in &grid.rows {
            let cells = row.cells.iter().enumerate();
            rows.extend(cells.filter_map(|(index, cell)| Some((row, index, (*cell)?))));
        }
        let column =
            |header: &str, right: bool, field: &dyn Fn(&Row<'_>, usize, &CellResult) -> String| {
                Column {
                    header: header.to_owned(),
                    right,
                    fields: rows
                        .iter()
                        .map(|(row, index, cell)| clean(&field(row, *index, cell)))
                        .collect(),
                }
            };
        let mut columns = self.places(grid, rows.iter().map(|(row, ..)| *row));
        let name = |level: &Level| labels::short_level(grid.factor, level);
        columns.push(column(&labels::factor(grid.factor), false, &|_, index, _| {
            name(grid.levels[index])
        }));
        let is_transactional = grid.cells().any(CellResult::is_transactional);
        let rate = if is_transactional { "transactions" } else { "throughput" };
        columns.push(column(rate, true, &|_, _, cell| self.rate(cell)));
        if grid.cells().any(|cell| cell.limit.is_some()) && !is_transactional {
            columns.push(column("of max.", true, &|_, _, cell| of_limit(cell)));
        }
        let p99 = |cell: &CellResult| number::percentile(cell.latency.as_ref()?, Percentile::P99);
        // too few transactions have none
        if grid.cells().any(|cell| p99(cell).is_some()) {
            let header = words::in_loop("p99 of\nall runs", grid.cells().map(|cell| cell.of_loop));
            columns.push(column(&header.replacen(", ", ",\n", 1), true, &|_, _, cell| {
                p99(cell).unwrap_or_else(|| NONE.to_owned())
            }));
        }
        columns.push(column("CPU", true, &|_, _, cell| {
            cell.cpu.as_ref().map_or_else(|| NONE.to_owned(), number::mean)
        }));
        columns.push(column("service demand", true, &|_, _, cell| {
            cell.service_demand.as_ref().map_or_else(
                || NONE.to_owned(),
                |demand| {
                    let margin = words::margin(cell, Measure::ServiceDemand, demand);
                    let margin = margin.unwrap_or_default();
                    format!("{} {margin}", number::brief_mean(demand)).trim_end().to_owned()
                },
            )
        }));
        let first = grid.levels.first().map(|level| name(level)).unwrap_or_default();
        columns.push(column(&format!("vs {first}"), false, &|row, index, _| match index {
            0 => String::new(),
            _ => self.change(grid, row, index, Measure::ServiceDemand, true),
        }));
        columns.push(column(LIMITED_BY, false, &|_, _, cell| limit_of(cell)));
        self.fitted(columns, &["CPU", "of max."], rows.iter().map(|(.., cell)| *cell))
    }

    /// A row for each combination of the other factors, with the levels beside each other; `None` where that is too wide.
    fn side_by_side(&self, grid: &Grid<'_>) -> Option<String> {
        if grid.rows.len() > MAX_ROWS || grid.cells().any(CellResult::is_transactional) {
            return None;
        }
        let mut columns = self.places(grid, grid.rows.iter());
        let mut group = |title: &str, field: &dyn Fn(&CellResult) -> String| {
            for (index, level) in grid.levels.iter().enumerate() {
                let above = if index == 0 { title } else { "" };
                let cells = grid.rows.iter().map(|row| row.cells[index]);
                columns.push(Column {
                    header: format!("{above}\n{}", labels::short_level(grid.factor, level)),
                    right: true,
                    fields: cells.map(|cell| cell.map_or_else(|| NONE.to_owned(), field)).collect(),
                });
            }
        };
        group("µs/KB", &|cell| {
            cell.service_demand.as_ref().map_or_else(|| NONE.to_owned(), number::mean_without_unit)
        });
        let largest =
            grid.cells().filter_map(|cell| cell.throughput).map(|rate| rate.interval.mean);
        let scale = number::Scale::of(
            linkrate_study::quantity::Unit::BitsPerSecond,
            largest.fold(0.0, f64::max),
        );
        let rate =
            |quantity: &Quantity| number::significant(quantity.interval.mean / scale.divisor, 3);
        group(scale.unit, &|cell| {
            let mark = marks::of_cell(self.results, cell).trim_start();
            cell.throughput
                .as_ref()
                .map_or_else(|| NONE.to_owned(), |of| format!("{}{mark}", rate(of)))
        });
        // one of each level where levels change it
        let limits = grid.rows.iter().map(|row| {
            let of = |cell: &Option<&CellResult>| {
                let limit = cell.and_then(|cell| cell.limit);
                limit.as_ref().map_or_else(|| NONE.to_owned(), rate)
            };
            let mut limits: Vec<String> = row.cells.iter().map(of).collect();
            if limits.windows(2).all(|pair| pair[0] == pair[1]) {
                limits.truncate(1);
            }
            limits.join("/")
        });
        let limits: Vec<String> = limits.collect();
        if limits.iter().any(|limit| limit.chars().any(char::is_numeric)) {
            columns.push(Column { header: "\nmax.".to_owned(), right: true, fields: limits });
        }
        let last = grid.levels.len().checked_sub(1).filter(|last| *last > 0)?;
        let [from, to] =
            [0, last].map(|index| labels::short_level(grid.factor, grid.levels[index]));
        let changes = |with_open_ends: bool| {
            let change = |row| self.change(grid, row, last, Measure::ServiceDemand, with_open_ends);
            Column {
                header: format!("{to} vs {from}\nµs/KB"),
                right: false,
                fields: grid.rows.iter().map(change).collect(),
            }
        };
        let at = (grid.varied().len() + grid.levels.len()).min(columns.len());
        columns.insert(at, changes(true));
        let fits = |columns: &[Column]| total(columns) <= usize::from(self.paper.width) + GAP;
        if !fits(&columns) {
            columns.retain(|column| column.header != "\nmax.");
        }
        if !fits(&columns) {
            columns[at] = changes(false);
        }
        fits(&columns).then(|| self.lay_out(columns, false))
    }

    /// A row for each step from the first level to another one.
    fn steps(&self, grid: &Grid<'_>, parts: usize) -> String {
        let most = (MAX_ROWS / parts.max(1)).max(3);
        let mut steps: Vec<(&Row<'_>, usize)> = Vec::new();
        for row in &grid.rows {
            let levels = 1..row.cells.len();
            steps.extend(
                levels.filter(|index| row.cells[*index].is_some()).map(|index| (row, index)),
            );
        }
        let hidden = steps.len().saturating_sub(most);
        steps.truncate(most);
        let first = grid.levels.first().map(|level| labels::short_level(grid.factor, level));
        let column =
            |header: &str, right: bool, field: &dyn Fn(&Row<'_>, usize) -> String| Column {
                header: header.to_owned(),
                right,
                fields: steps.iter().map(|(row, index)| clean(&field(row, *index))).collect(),
            };
        let mut columns = self.places(grid, steps.iter().map(|(row, _)| *row));
        let header = format!("{}, vs {}", labels::factor(grid.factor), first.unwrap_or_default());
        columns.push(column(&header, false, &|_, index| {
            labels::short_level(grid.factor, grid.levels[index])
        }));
        columns.push(column("service demand", false, &|row, index| {
            self.change(grid, row, index, Measure::ServiceDemand, true)
        }));
        let is_transactional = grid.cells().any(CellResult::is_transactional);
        let (title, measure) = match is_transactional {
            true => ("transactions", Measure::Transactions),
            false => ("throughput", Measure::Throughput),
        };
        columns
            .push(column(title, false, &|row, index| self.change(grid, row, index, measure, true)));
        columns.push(column(LIMITED_BY, false, &|row, index| {
            row.cells[index].map(limit_of).unwrap_or_default()
        }));
        let cells = steps.iter().filter_map(|(row, index)| row.cells[*index]);
        let mut text = self.fitted(columns, &[], cells);
        if hidden > 0 {
            text.push_str(&format!("\n… {hidden} more"));
        }
        text
    }

    /// The table without the named columns, as many of them as it takes to fit the page. If that does not do, what limits
    /// its cells is counted below it.
    fn fitted<'r>(
        &self,
        mut columns: Vec<Column>,
        dispensable: &[&str],
        cells: impl Iterator<Item = &'r CellResult>,
    ) -> String {
        let fits = |columns: &[Column]| total(columns) <= usize::from(self.paper.width) + GAP;
        let mut left_out: Vec<&str> = Vec::new();
        for title in dispensable {
            if fits(&columns) {
                break;
            }
            if columns.iter().any(|column| column.header == *title) {
                columns.retain(|column| column.header != *title);
                left_out.push(title);
            }
        }
        let has_limits = fits(&columns);
        columns.retain(|column| has_limits || column.header != LIMITED_BY);
        let mut lines = vec![self.lay_out(columns, false)];
        if !has_limits {
            let limits = format!("{LIMITED_BY}: {}", limits_of(cells));
            lines.extend(self.filled(&limits, "", "  "));
        }
        if !left_out.is_empty() {
            lines.push(format!("not shown: {} (--details cells)", left_out.join(", ")));
        }
        lines.join("\n")
    }

    /// The levels of the other factors; one that repeats is printed once.
    fn places<'g>(
        &self,
        grid: &'g Grid<'_>,
        rows: impl Iterator<Item = &'g Row<'g>> + Clone,
    ) -> Vec<Column> {
        let column = |name: &str| {
            let mut last = String::new();
            let fields = rows.clone().map(|row| {
                let level = row.at.get(name).map(|level| labels::short_level(name, level));
                let level = clean(&level.unwrap_or_default());
                if level == last {
                    return String::new();
                }
                last.clone_from(&level);
                level
            });
            Column { header: labels::factor(name), right: false, fields: fields.collect() }
        };
        grid.varied().into_iter().map(column).collect()
    }

    fn rate(&self, cell: &CellResult) -> String {
        let rate = cell.rate();
        let mark = marks::of_cell(self.results, cell).trim_start();
        rate.as_ref()
            .map_or_else(|| NONE.to_owned(), |rate| format!("{}{mark}", number::brief_mean(rate)))
    }

    /// The change from the first level: `−62 % (−66 to −58)`, or that there is none that matters. Of one that is open the
    /// ends may be left to the details.
    fn change(
        &self,
        grid: &Grid<'_>,
        row: &Row<'_>,
        to: usize,
        measure: Measure,
        with_open_ends: bool,
    ) -> String {
        let is_it = |effect: &&Effect| {
            (effect.measure, effect.factor.as_str(), &effect.from, &effect.to)
                == (measure, grid.factor, grid.levels[0], grid.levels[to])
                && effect.at == row.at
        };
        let Some(effect) = self.results.effects.iter().find(is_it) else { return NONE.to_owned() };
        let mark = marks::of_effect(effect).trim_start();
        let (change, ends) = number::brief_change(&effect.ratio);
        // what is shown of an effect that is the same fact as another is what is shown of that
        let judged = self.results.fact_behind(effect).unwrap_or(effect);
        let text = match (judged.significant, judged.equivalent) {
            _ if judged.same_as == Some(Fact::Limit) => {
                format!("{change} ({})", words::AS_THE_LIMIT)
            }
            (true, _) => format!("{change}{ends}"),
            _ if judged.different => format!("{change}{ends}, may be small"),
            (_, true) => format!("within ±{}", number::percent(self.results.minimum_effect)),
            _ => {
                let few = judged.pairs < MIN_TO_CLAIM;
                let word = if few { "too few runs" } else { words::open(judged) };
                format!("{word}{}", if with_open_ends { ends.as_str() } else { "" })
            }
        };
        format!("{text}{mark}")
    }

    /// How far to trust it.
    fn checks(&self) -> String {
        let mut checks = checks::all(self.results);
        checks.truncate(MAX_CHECKS);
        let lines = checks.iter().flat_map(|check| {
            let flag = if check.is_bad { '!' } else { ' ' };
            let first = format!("{INDENT}{flag} {:NAMES$}", check.name);
            let next = " ".repeat(first.chars().count() + 2);
            let mut lines = self.filled(&clean(&check.text), &format!("{first}  "), &next);
            if check.is_bad && self.paper.style.color {
                lines
                    .iter_mut()
                    .take(1)
                    .for_each(|line| *line = line.replacen('!', "\u{1b}[1;33m!\u{1b}[0m", 1));
            }
            lines
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// A line of a name, what to open or to run, and why; a line more where that is too wide.
    fn link(&self, name: &str, what: &str, why: &str) -> Vec<String> {
        let first = format!("{INDENT}  {name:NAMES$}  {what}");
        let beside = first.chars().count() + why.chars().count() + 4;
        match why.is_empty() || beside <= usize::from(self.paper.width) {
            true => vec![format!("{first}    {why}").trim_end().to_owned()],
            false => vec![first, format!("{INDENT}  {:NAMES$}  {why}", "")],
        }
    }

    /// Where the rest is.
    fn links(&self, next: Option<(&str, &str)>) -> String {
        let mut lines = Vec::new();
        if !self.results.directory.is_empty() {
            let directory = &self.results.directory;
            let report = shell::word(&format!("{directory}/{}", super::REPORT_FILE));
            let warnings = checks::warnings(self.results);
            lines.extend(self.link("Report", &report, &warnings.unwrap_or_default()));
            // one command is enough to go on with
            if next.is_none() {
                let directory = shell::word(directory);
                lines.push(format!(
                    "{INDENT}  {:NAMES$}  linkrate report {directory} --details",
                    "Details"
                ));
            }
        }
        lines.extend(next.into_iter().flat_map(|(command, why)| self.link("Next", command, why)));
        lines.join("\n")
    }
}

/// What limited a cell; where a third of its runs had another limit, in how many it was so.
fn limit_of(cell: &CellResult) -> String {
    let limits = cell.verdict.limited_by();
    let doubted = cell.verdict.directions.iter().map(|way| way.agreeing);
    match doubted.min_by_key(|(agree, _)| *agree) {
        Some((agree, runs)) if agree * 3 < runs * 2 => format!("{limits} ({agree} of {runs})"),
        _ => limits,
    }
}

/// What limited cells, the most frequent first: `link in 3 cells, client CPU in 1`; one alone has no number.
fn limits_of<'r>(cells: impl Iterator<Item = &'r CellResult>) -> String {
    let counts = words::occurrences(cells.map(|cell| cell.verdict.limited_by()));
    match &counts[..] {
        [] => String::new(),
        [(only, _)] => only.clone(),
        [(first, count), rest @ ..] => {
            let first = format!("{first} in {}", words::count(*count, "cell"));
            let rest = rest.iter().map(|(name, count)| format!("{name} in {count}"));
            std::iter::once(first).chain(rest).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The share of the theoretical maximum.
fn of_limit(cell: &CellResult) -> String {
    let share = |cell: &CellResult| {
        Some(cell.throughput?.interval.mean / cell.limit?.interval.mean * 100.0)
    };
    share(cell).map_or_else(|| NONE.to_owned(), |percent| format!("{percent:.0} %"))
}
