//! The tables, as text that both HTML and Markdown put in place.

use linkrate_model::ByteSize;
use linkrate_model::latency::{LatencyFigures, Percentile};
use linkrate_model::measurement::CpuUse;
use linkrate_study::analysis::measures;
use linkrate_study::labels;
use linkrate_study::levels::Level;
use linkrate_study::quantity::{Measure, Quantity, Unit};
use linkrate_study::results::{
    Attribution, CellResult, Effect, Knee, PublishedResult, StudyResults,
};
use linkrate_study::store::{Outcome, StoredRun};
use serde::Serialize;

use super::change_figures;
use crate::number::{self, ABSENT};
use crate::words::{capitalised, marks};
use crate::{demand, directions, mix, predicted, round_trip, words};

/// A table: names of columns and rows of fields.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// What it is, for its caption.
    pub title: String,
    pub columns: Vec<Column>,
    pub rows: Vec<TableRow>,
    pub note: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Column {
    pub title: String,
    /// What is in it: `name`, `number`, `say` (a sentence) or `claim`.
    pub kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TableRow {
    /// What the rows below have in common, in a row of its own; empty in rows with fields.
    pub group: String,
    /// The fields, as many as columns.
    pub fields: Vec<Field>,
}

impl TableRow {
    pub(super) fn of(fields: impl IntoIterator<Item = Field>) -> Self {
        Self { group: String::new(), fields: fields.into_iter().collect() }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Field {
    pub text: String,
    /// The text beside or below it in smaller type.
    pub small: String,
}

impl Field {
    pub(super) fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), small: String::new() }
    }

    pub(super) fn or_absent(text: Option<String>) -> Self {
        Self::of(text.unwrap_or_else(|| ABSENT.to_owned()))
    }

    /// A figure of a cell over the half-width of its interval.
    fn figure(cell: &CellResult, measure: Measure, quantity: Option<Quantity>) -> Self {
        let Some(quantity) = quantity else { return Self::of(ABSENT) };
        let small = words::margin(cell, measure, &quantity).unwrap_or_default();
        Self { text: number::brief_mean(&quantity), small }
    }
}

pub(super) fn column(title: &str, kind: &'static str) -> Column {
    Column { title: title.to_owned(), kind }
}

pub(super) fn columns(titles: &[(&str, &'static str)]) -> Vec<Column> {
    titles.iter().map(|(title, kind)| column(title, kind)).collect()
}

/// What the mark of figures of this host means, where one of the rows has it.
fn mark_of(rows: &[TableRow]) -> Option<String> {
    let mut fields = rows.iter().flat_map(|row| &row.fields);
    let marked = fields.any(|field| field.text.contains(marks::HOST_LIMITED));
    marked.then(|| format!("{} {}.", marks::HOST_LIMITED.trim(), marks::OF_THE_HOST))
}

/// A note, and what the mark of figures of this host means where one of the rows has it.
pub(super) fn noted(note: String, rows: &[TableRow]) -> String {
    let notes = [Some(note).filter(|note| !note.is_empty()), mark_of(rows)];
    notes.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// What limited each cell, with the shares of the resources.
pub fn limits(results: &StudyResults) -> Option<Table> {
    let row = |cell: &CellResult| {
        let fields = [labels::cell(&cell.levels), words::capitalised(&cell.verdict.sentence())];
        TableRow::of(fields.map(Field::of))
    };
    (!results.cells.is_empty()).then(|| Table {
        title: "What limited each cell".to_owned(),
        columns: columns(&[("Cell", "name"), ("Limit", "say")]),
        rows: results.cells.iter().map(row).collect(),
        note: String::new(),
    })
}

/// Streams and transactions, a table each.
pub fn cells(results: &StudyResults) -> Vec<Table> {
    let (transactions, streams): (Vec<&CellResult>, Vec<&CellResult>) =
        results.cells.iter().partition(|cell| cell.is_transactional());
    let both = !transactions.is_empty() && !streams.is_empty();
    let mut tables = Vec::new();
    for (cells, transactional) in [(streams, false), (transactions, true)] {
        if !cells.is_empty() {
            let title = match (both, transactional) {
                (false, _) => "Results by cell",
                (true, false) => "Streams: results by cell",
                (true, true) => "Transactions: results by cell",
            };
            tables.push(of_cells(results, &cells, transactional, title));
        }
    }
    tables
}

fn of_cells(
    results: &StudyResults,
    cells: &[&CellResult],
    transactional: bool,
    title: &str,
) -> Table {
    let named = cells.iter().any(|cell| !cell.levels.0.is_empty());
    let limited = !transactional && cells.iter().any(|cell| cell.limit.is_some());
    let shared = if cells.iter().any(|cell| cell.has_shared_cpus()) { " †" } else { "" };
    let mut titles: Vec<Column> = Vec::new();
    if named {
        titles.push(column("Cell", "name"));
    }
    let timed = transactional || cells.iter().any(|cell| cell.latency.is_some());
    let completed = cells.iter().any(|cell| cell.completed.is_some());
    titles.push(column(if transactional { "Transactions" } else { "Throughput" }, "number"));
    if completed {
        titles.push(column("Completed", "number"));
    }
    if timed {
        let first = words::capitalised(words::time_of_items(cells));
        let first = words::in_loop(&first, cells.iter().map(|cell| cell.of_loop));
        let first = format!("{first}: p50");
        titles.extend(columns(&[(&first, "number"), ("p99", "number"), ("p99.9", "number")]));
    }
    if limited {
        titles.push(column("Of maximum", "number"));
    }
    titles.push(column(&format!("CPU{shared}"), "number"));
    titles.push(column(&format!("Service demand{shared}"), "number"));
    titles.push(column("Runs", "number"));
    titles.push(column("Limited by", "short"));
    let row = |cell: &&CellResult| {
        let mut fields = Vec::new();
        if named {
            fields.push(Field::of(labels::cell(&cell.levels)));
        }
        let mut rate = match transactional {
            true => Field::figure(cell, Measure::Transactions, cell.transactions),
            false => Field::figure(cell, Measure::Throughput, cell.throughput),
        };
        rate.text.push_str(marks::of_cell(results, cell));
        fields.push(rate);
        if completed {
            fields.push(Field::figure(cell, Measure::Transactions, cell.completed));
        }
        if timed {
            let latency = |percentile: Percentile| {
                let text = |of: fn(&LatencyFigures, Percentile) -> Option<String>| {
                    cell.latency.as_ref().and_then(|latency| of(latency, percentile))
                };
                Field {
                    text: text(number::percentile).unwrap_or_else(|| ABSENT.to_owned()),
                    small: text(number::percentile_margin).unwrap_or_default(),
                }
            };
            fields.extend([Percentile::P50, Percentile::P99, Percentile::P99_9].map(latency));
        }
        if limited {
            let share = cell.throughput.zip(cell.limit).map(|(rate, limit)| Field {
                text: percentage(rate.interval.mean / limit.interval.mean * 100.0),
                small: format!("of {}", number::brief_mean(&limit)),
            });
            fields.push(share.unwrap_or_else(|| Field::of(ABSENT)));
        }
        fields.push(Field::figure(cell, Measure::Cpu, cell.cpu));
        fields.push(Field::figure(cell, Measure::ServiceDemand, cell.service_demand));
        let failed = match cell.failed {
            0 => String::new(),
            failed => format!("{failed} failed"),
        };
        fields.push(Field { text: cell.runs.to_string(), small: failed });
        fields.push(Field::of(cell.verdict.limited_by()));
        TableRow::of(fields)
    };
    let rows: Vec<TableRow> = cells.iter().map(row).collect();
    let mut notes = Vec::new();
    notes.extend(mark_of(&rows));
    if cells.iter().any(|cell| !cell.two_groups.is_empty()) {
        let text = "Two groups: the runs are in two groups, and the mean is that of neither.";
        notes.push(text.to_owned());
    }
    if words::has_intervals(results) {
        notes.push(format!(
            "± is the half-width of the {} confidence interval over runs; pp: percentage points.",
            number::percent(results.confidence)
        ));
    }
    if timed {
        notes.push(words::latency_note(cells));
    }
    if !shared.is_empty() {
        notes.push(
            "†: the system under test and its clients together, which share their CPUs.".to_owned(),
        );
    }
    Table { title: title.to_owned(), columns: titles, rows, note: notes.join(" ") }
}

/// An effect under another condition: the change, and its ends.
type Other = (&'static str, fn(&Effect) -> Option<(String, Option<String>)>);

/// The conditions, with the heads of their columns.
const OTHERS: [Other; 2] =
    [("Without driver", demand::without_driver), ("At equal mix", directions::at_equal_mix)];

/// All effects, by measure and step: the change, and the same under other conditions where that is known.
pub fn effects(results: &StudyResults) -> Option<Table> {
    let all = &results.effects;
    let is_known = |(_, of): &Other| all.iter().any(|effect| of(effect).is_some());
    let others: Vec<Other> = OTHERS.into_iter().filter(is_known).collect();
    let mut titles = columns(&[("Change", "name"), ("Size", "number"), ("Interval", "number")]);
    titles.extend(others.iter().map(|(title, _)| column(title, "number")));
    titles.extend(columns(&[("Result", "reason"), ("Pairs", "number")]));
    let row = |effect: &Effect| {
        let change = number::change(&effect.ratio);
        let at = match effect.at.0.is_empty() {
            true => words::step(effect),
            false => labels::cell(&effect.at),
        };
        let mean = format!("{}{}", change.mean, marks::of_effect(results, effect));
        let mut fields = vec![Field::of(at), Field::of(mean), Field::or_absent(change.ends)];
        fields.extend(others.iter().map(|(_, of)| {
            let Some((text, ends)) = of(effect) else { return Field::of(ABSENT) };
            Field { text, small: ends.unwrap_or_default() }
        }));
        let reason = words::not_claimed(effect, results.minimum_effect);
        fields.push(Field::of(reason.unwrap_or_else(|| "significant".to_owned())));
        fields.push(Field::of(effect.pairs.to_string()));
        TableRow::of(fields)
    };
    let mut rows: Vec<TableRow> = Vec::new();
    let mut group = String::new();
    for measure in words::measures(all) {
        for effect in all.iter().filter(|effect| effect.measure == measure) {
            let step = match effect.at.0.is_empty() {
                true => words::compared(measure),
                false => format!("{}: {}", words::compared(measure), words::step(effect)),
            };
            let step = words::capitalised(&step);
            if step != group {
                rows.push(TableRow { group: step.clone(), fields: Vec::new() });
                group = step;
            }
            rows.push(row(effect));
        }
    }
    let mut notes = vec![format!(
        "an effect is significant if a test shows that it is larger than {}. Inconclusive is not the same as no \
             difference: the interval says how large one may be",
        number::percent(results.minimum_effect)
    )];
    notes.extend(others.iter().map(|(title, _)| match *title {
        "Without driver" => demand::WITHOUT_DRIVER.to_owned(),
        _ => directions::WITH_EQUAL_MIX.to_owned(),
    }));
    let marked = all.iter().any(|effect| !marks::of_effect(results, effect).is_empty());
    notes.extend(marked.then(|| {
        format!(
            "{} something other than the adapter limited one of the two cells",
            marks::HOST_LIMITED.trim()
        )
    }));
    (!rows.is_empty()).then(|| Table {
        title: "Changes by measure and step".to_owned(),
        columns: titles,
        rows,
        note: sentences(&notes.iter().map(String::as_str).collect::<Vec<_>>()),
    })
}

/// Published values beside measured ones that no figure has.
pub fn published(results: &StudyResults) -> Option<Table> {
    let all = change_figures::not_drawn(results);
    let row = |one: &PublishedResult| {
        let [published, measured, ends] = words::beside(one);
        let (step, at) = words::published_parts(one);
        let step = step.map_or_else(String::new, |step| format!("{step}, "));
        let name = Field::of(format!("{step}{at}{}", marks::of(results, one)));
        let of_limits = predicted::of_limits(one).unwrap_or_default();
        let figures = [published, measured, ends].into_iter().zip(of_limits);
        let figures = figures.map(|(text, share)| match share.as_str() {
            "" | ABSENT => Field::of(text),
            _ => Field { text, small: format!("{share} of its limit") },
        });
        TableRow::of([name].into_iter().chain(figures))
    };
    let mut rows: Vec<TableRow> = Vec::new();
    let mut last = None;
    for one in &all {
        if last != Some(one.measure) {
            let group = words::capitalised(one.measure.word());
            rows.push(TableRow { group, fields: Vec::new() });
        }
        last = Some(one.measure);
        rows.push(row(one));
    }
    (!rows.is_empty()).then(|| Table {
        title: "Published and measured values".to_owned(),
        columns: columns(&[
            ("Of", "name"),
            ("Published", "number"),
            ("Measured", "number"),
            ("Interval", "number"),
        ]),
        rows,
        note: {
            let marks = marks::caption(results, all);
            format!(
                "{}, not the absolute values. Intervals are those of this measurement.{marks}",
                words::capitalised(words::OF_ANOTHER_MACHINE)
            )
        },
    })
}

/// How balancing spreads the flows over the ports of an aggregate, beside the measured shares.
pub fn predicted(results: &StudyResults) -> Option<Table> {
    let row = |(cell, one): (&CellResult, &linkrate_study::results::Predicted)| {
        let fields = [labels::cell(&cell.levels)].into_iter().chain(predicted::fields(one));
        TableRow::of(fields.map(Field::of))
    };
    let rows: Vec<TableRow> = predicted::all(results).map(row).collect();
    let titles = predicted::TITLES.map(|title| match title {
        "chosen" | "predicted" => column(&words::capitalised(title), "step"),
        title => column(&words::capitalised(title), "number"),
    });
    (!rows.is_empty()).then(|| Table {
        title: "Ports of the aggregate".to_owned(),
        columns: [column("Cell", "name")].into_iter().chain(titles).collect(),
        rows,
        note: [predicted::NOTE.to_owned()]
            .into_iter()
            .chain(predicted::reasons(results))
            .map(|sentence| format!("{}.", words::capitalised(&sentence)))
            .collect::<Vec<_>>()
            .join(" "),
    })
}

/// The parts of service demands; `None` where none has parts.
pub fn demand(results: &StudyResults) -> Option<Table> {
    let row = |cell: &CellResult| {
        let fields = demand::fields(cell)?;
        let fields = [labels::cell(&cell.levels)].into_iter().chain(fields);
        Some(TableRow::of(fields.map(Field::of)))
    };
    let rows: Vec<TableRow> = demand::all(results).filter_map(row).collect();
    let titles = demand::TITLES.map(|title| column(&words::capitalised(title), "number"));
    (!rows.is_empty()).then(|| Table {
        title: "Parts of the service demand".to_owned(),
        columns: [column("Cell", "name")].into_iter().chain(titles).collect(),
        rows,
        note: sentences(&demand::notes(results)),
    })
}

/// The parts of the latency of transactions; `None` without any.
pub fn round_trip(results: &StudyResults) -> Option<Table> {
    let row = |(cell, parts)| {
        let cell: &CellResult = cell;
        let fields = [labels::cell(&cell.levels)].into_iter().chain(round_trip::fields(parts));
        TableRow::of(fields.map(Field::of))
    };
    let rows: Vec<TableRow> = round_trip::all(results).map(row).collect();
    let titles = round_trip::TITLES.map(|title| column(&words::capitalised(title), "number"));
    (!rows.is_empty()).then(|| Table {
        title: "Parts of the latency".to_owned(),
        columns: [column("Cell", "name")].into_iter().chain(titles).collect(),
        rows,
        note: sentences(&[&round_trip::note()]),
    })
}

/// Why service demands have no parts, where none has.
pub fn undivided(results: &StudyResults) -> Option<String> {
    let notes = demand::notes(results);
    let none = demand::all(results).next().is_none() && !notes.is_empty();
    none.then(|| sentences(&notes))
}

/// Sentences without their capitals and full stops, as a text.
fn sentences(sentences: &[&str]) -> String {
    let sentences = sentences.iter().map(|sentence| format!("{}.", words::capitalised(sentence)));
    sentences.collect::<Vec<_>>().join(" ")
}

/// The directions of bidirectional cells; `None` without one.
pub fn ways(results: &StudyResults) -> Option<Table> {
    let row = |cell: &CellResult| {
        let fields =
            [labels::cell(&cell.levels)].into_iter().chain(directions::fields(results, cell));
        TableRow::of(fields.map(Field::of))
    };
    let rows: Vec<TableRow> = directions::all(results).map(row).collect();
    let titles = directions::TITLES.map(|title| column(&words::capitalised(title), "number"));
    (!rows.is_empty()).then(|| Table {
        title: "Each direction of bidirectional cells".to_owned(),
        columns: [column("Cell", "name")].into_iter().chain(titles).collect(),
        note: noted(sentences(&directions::notes(results)), &rows),
        rows,
    })
}

/// The workloads of mixes; `None` without a mix.
pub fn mix(results: &StudyResults) -> Option<Table> {
    let row = |(cell, figures): (&CellResult, &linkrate_study::results::MixFigures)| {
        let name = labels::cell(&cell.levels);
        let fields = [name].into_iter().chain(mix::fields(results, cell, figures));
        TableRow::of(fields.map(Field::of))
    };
    let rows: Vec<TableRow> = mix::all(results).map(row).collect();
    let titles = mix::TITLES.map(|title| match title {
        "workload" => column("Workload", "name"),
        title => column(&words::capitalised(title), "number"),
    });
    (!rows.is_empty()).then(|| Table {
        title: "The workloads of the mix".to_owned(),
        columns: [column("Cell", "name")].into_iter().chain(titles).collect(),
        note: noted(format!("{}.", mix::NOTE), &rows),
        rows,
    })
}

/// Most cells beside each other in a table of CPU time.
const CELLS_ABREAST: usize = 6;

/// Where the CPU time went: a row for each category, a column for each profiled cell, in as many
/// tables as that takes.
pub fn attribution(results: &StudyResults) -> Vec<Table> {
    let profiled: Vec<Profiled<'_>> =
        results.cells.iter().filter_map(|cell| Some((cell, cell.attribution.as_ref()?))).collect();
    let mut categories: Vec<&str> = Vec::new();
    for share in profiled.iter().flat_map(|(_, attribution)| &attribution.shares) {
        if !categories.contains(&share.title.as_str()) {
            categories.push(&share.title);
        }
    }
    let chunks = profiled.chunks(CELLS_ABREAST);
    let all = chunks.len();
    let title = |index: usize| match all {
        1 => "Where the CPU time went".to_owned(),
        _ => format!("Where the CPU time went ({} of {all})", index + 1),
    };
    let table = |(index, cells)| of_attribution(title(index), &categories, cells);
    chunks.enumerate().map(table).collect()
}

/// A cell with where its CPU time went.
type Profiled<'a> = (&'a CellResult, &'a Attribution);

fn of_attribution(title: String, categories: &[&str], cells: &[Profiled<'_>]) -> Table {
    let row = |name: &str, value: &dyn Fn(&Attribution) -> Option<String>| {
        let values = cells.iter().map(|(_, attribution)| Field::or_absent(value(attribution)));
        TableRow::of([Field::of(name)].into_iter().chain(values))
    };
    let mut rows: Vec<TableRow> = categories
        .iter()
        .map(|category| {
            row(category, &|attribution| {
                let share = attribution.shares.iter().find(|share| share.title == *category);
                share.map(|share| percentage(share.percent))
            })
        })
        .collect();
    rows.push(row("busy, by the samples", &|a| Some(percentage(a.sampled_percent))));
    rows.push(row("busy, by the meter", &|a| Some(percentage(a.meter_percent))));
    rows.push(row("samples a run", &|a| Some(number::grouped(a.samples.round()))));
    let mut columns = vec![column("Category", "name")];
    columns.extend(cells.iter().map(|(cell, _)| column(&labels::cell(&cell.levels), "number")));
    let mut unknown: Vec<String> = Vec::new();
    for (symbol, percent) in
        cells.iter().flat_map(|(_, attribution)| attribution.unknown.iter().take(3))
    {
        let reported = format!("{symbol} ({percent:.1} %)");
        if !unknown.contains(&reported) {
            unknown.push(reported);
        }
    }
    let unknown = match unknown.is_empty() {
        true => String::new(),
        false => format!(" Most frequent symbols without a category: {}.", unknown.join(", ")),
    };
    let note = format!(
        "Per cent of the CPUs of the system under test, means over profiled runs.{unknown}"
    );
    Table { title, columns, rows, note }
}

pub(super) fn percentage(value: f64) -> String {
    format!("{value:.1} %")
}

pub(super) fn plain(value: f64) -> String {
    number::significant(value, 3)
}

/// Every run, in order of execution.
pub fn runs(results: &StudyResults) -> Option<Table> {
    (!results.runs.is_empty()).then(|| Table {
        title: "Raw runs, in order of execution".to_owned(),
        columns: columns(&[
            ("Run", "number"),
            ("Block", "number"),
            ("Cell", "name"),
            ("Rate", "number"),
            ("Service demand", "number"),
            ("CPU", "number"),
            ("Client CPU", "number"),
        ]),
        rows: results.runs.iter().map(|run| run_row(run, results)).collect(),
        note: String::new(),
    })
}

fn run_row(run: &StoredRun, results: &StudyResults) -> TableRow {
    let levels = results.cell_of(run).map(|cell| &cell.levels);
    let cell = match (run.cell, levels) {
        (None, _) => "idle".to_owned(),
        (Some(index), levels) => levels.map_or_else(|| format!("cell {index}"), labels::cell),
    };
    let cell = if results.is_aa(run) { format!("{cell} (A/A)") } else { cell };
    let block = match run.imported() {
        Some(_) => ABSENT.to_owned(),
        // people count from 1
        None => (run.block + 1).to_string(),
    };
    let mut fields = vec![Field::of(run.sequence.to_string()), Field::of(block)];
    let quantity = |mean: f64, unit| {
        let interval = linkrate_study::quantity::Interval { mean, low: None, high: None };
        number::brief_mean(&Quantity { interval, unit })
    };
    let (small, client) = match &run.outcome {
        Outcome::Failed(failure) => (format!("failed: {failure}"), None),
        Outcome::Imported(run) => (run.source(), run.found.client_cpu_percent),
        Outcome::Measured(run) => {
            let cpu = Some(&run.client_cpu).filter(|cpu| !cpu.shared && !cpu.cpus.is_empty());
            (String::new(), cpu.map(CpuUse::percent))
        }
    };
    fields.push(Field { text: cell, small });
    let transactional = run.spec.is_transactional();
    let rate = if transactional { Measure::Transactions } else { Measure::Throughput };
    let figures = [rate, Measure::ServiceDemand, Measure::Cpu].map(|measure| {
        // an idle run has nothing but its CPU time
        let figure = measures::figure(measure, run)
            .filter(|_| run.cell.is_some() || measure == Measure::Cpu)?;
        Some(quantity(figure, measure.unit(transactional)))
    });
    let client = client.map(|percent| quantity(percent, Unit::Percent));
    fields.extend(figures.into_iter().chain([client]).map(Field::or_absent));
    TableRow::of(fields)
}

/// The runs that count and those that do not, by the levels of each factor: figures of levels of which more runs were
/// refused than of others deserve doubt. `None` where every run counts, and in a study without factors.
pub fn rejections(results: &StudyResults) -> Option<Table> {
    let counts = |cell: &CellResult| cell.failed == 0 && cell.left_out == 0;
    let levels = levels_of(&results.cells);
    if levels.is_empty() || results.cells.iter().all(counts) {
        return None;
    }
    let rows = levels.into_iter().map(|(factor, level)| {
        let of_level = results.cells.iter().filter(|cell| cell.levels.get(&factor) == Some(&level));
        let sums = of_level.fold([0u32; 3], |[runs, failed, left_out], cell| {
            [runs + cell.runs, failed + cell.failed, left_out + cell.left_out]
        });
        let names = [capitalised(&labels::factor(&factor)), labels::level(&factor, &level)];
        let texts = names.into_iter().chain(sums.map(|sum| sum.to_string()));
        TableRow::of(texts.map(Field::of))
    });
    let idle: Vec<&StoredRun> = results.runs.iter().filter(|run| run.cell.is_none()).collect();
    let good = idle.iter().filter(|run| run.is_good()).count();
    let idle = (!idle.is_empty()).then(|| {
        let sums = [good, idle.len() - good].map(|sum| sum.to_string());
        let texts = ["Without load".to_owned(), String::new()].into_iter().chain(sums);
        TableRow::of(texts.chain([String::new()]).map(Field::of))
    });
    Some(Table {
        title: "Runs that count, by level".to_owned(),
        columns: columns(&[
            ("Factor", "name"),
            ("Level", "name"),
            ("Runs", "number"),
            ("Refused or failed", "number"),
            ("Left out", "number"),
        ]),
        rows: rows.chain(idle).collect(),
        note: "Where something from outside spoils a run, the other runs of its block are left out too, so that no \
               level loses more pairs than another. A full CPU leaves other programs less time, so that fewer of its runs are refused."
            .to_owned(),
    })
}

/// Every level of every factor with more than one, in the order of the cells.
fn levels_of(cells: &[CellResult]) -> Vec<(String, Level)> {
    let mut found: Vec<(String, Level)> = Vec::new();
    for (factor, level) in cells.iter().flat_map(|cell| &cell.levels.0) {
        if !found.iter().any(|(name, one)| name == factor && one == level) {
            found.push((factor.clone(), level.clone()));
        }
    }
    let count = |factor: &str| found.iter().filter(|(name, _)| name == factor).count();
    let several: Vec<bool> = found.iter().map(|(factor, _)| count(factor) > 1).collect();
    let mut sorted: Vec<_> =
        found.into_iter().zip(several).filter_map(|(one, keep)| keep.then_some(one)).collect();
    // levels of one factor stand together
    let order: Vec<String> = sorted.iter().map(|(factor, _)| factor.clone()).collect();
    sorted.sort_by_key(|(factor, _)| order.iter().position(|name| name == factor));
    sorted
}

/// Where a larger window stops to help: a row for each sweep of the window; `None` without one.
pub fn windows(results: &StudyResults) -> Option<Table> {
    let knees = &results.windows;
    if knees.is_empty() {
        return None;
    }
    let row = |knee: &Knee| {
        let reached = match &knee.reached {
            Some(level) => level.to_string(),
            None => format!("none up to {}", knee.largest),
        };
        // three digits: the sizes between two levels are not known any better
        let fills = ByteSize((knee.fills as f64 / 1024.0).round() as u64 * 1024);
        let fields = [
            labels::cell(&knee.at),
            knee.smallest.to_string(),
            number::duration(knee.round_trip.as_nanos() as f64),
            fills.to_string(),
            reached,
        ];

        TableRow::of(fields.map(Field::of))
    };
    Some(Table {
        title: "Where the window fills the line".to_owned(),
        columns: vec![
            column("At", "name"),
            column("Smallest window", "number"),
            column("Round trip", "number"),
            column("Fills the line, by the round trip", "number"),
            column("Filled it first", "number"),
        ],
        rows: knees.iter().map(row).collect(),
        note: "The round trip is the smallest window divided by its throughput. The limit of the links times \
               this round trip is the window that fills the line. It lies between two windows of the \
               study: the last one that filled the line to less than 97 %, and the first that filled it."
            .to_owned(),
    })
}
