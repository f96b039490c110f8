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

use super::change_figures;
use crate::number::{self, ABSENT};
use crate::table::{
    Field, Kind, NAME, NUMBER, REASON, SAY, SHORT, Table, TableRow, columns, mark_of, sentences,
};
use crate::words::{capitalised, marks};
use crate::{demand, directions, predicted, words};

/// A figure of a cell over the half-width of its interval.
fn figure(cell: &CellResult, measure: Measure, quantity: Option<Quantity>) -> Field {
    let Some(quantity) = quantity else { return ABSENT.into() };
    let small = words::margin(cell, measure, &quantity).unwrap_or_default();
    Field { text: number::brief_mean(&quantity), small }
}

/// What limited each cell, with the shares of the resources.
pub fn limits(results: &StudyResults) -> Option<Table> {
    let cells = || results.cells.iter();
    let mut table = Table::new("What limited each cell");
    table.push("Cell", NAME, cells().map(|cell| labels::cell(&cell.levels)));
    table.push("Limit", SAY, cells().map(|cell| capitalised(&cell.verdict.sentence())));
    table.filled()
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
    let shared = if cells.iter().any(|cell| cell.has_shared_cpus()) { " †" } else { "" };
    let timed = transactional || cells.iter().any(|cell| cell.latency.is_some());
    let mut table = Table::new(title);
    if cells.iter().any(|cell| !cell.levels.0.is_empty()) {
        table.push("Cell", NAME, cells.iter().map(|cell| labels::cell(&cell.levels)));
    }
    let mut add = |title: &str, field: &dyn Fn(&CellResult) -> Field| {
        table.push(title, NUMBER, cells.iter().map(|cell| field(cell)));
    };
    let rate = |cell: &CellResult| {
        let mut rate = match transactional {
            true => figure(cell, Measure::Transactions, cell.transactions),
            false => figure(cell, Measure::Throughput, cell.throughput),
        };
        rate.text.push_str(marks::of_cell(results, cell));
        rate
    };
    add(if transactional { "Transactions" } else { "Throughput" }, &rate);
    if cells.iter().any(|cell| cell.completed.is_some()) {
        add("Completed", &|cell| figure(cell, Measure::Transactions, cell.completed));
    }
    if timed {
        let first = capitalised(words::time_of_items(cells));
        let first = words::in_loop(&first, cells.iter().map(|cell| cell.of_loop));
        let first = format!("{first}: p50");
        let latency = |cell: &CellResult, percentile: Percentile| {
            let text = |of: fn(&LatencyFigures, Percentile) -> Option<String>| {
                cell.latency.as_ref().and_then(|latency| of(latency, percentile))
            };
            let small = text(number::percentile_margin).unwrap_or_default();
            Field { small, ..Field::or_absent(text(number::percentile)) }
        };
        add(&first, &|cell| latency(cell, Percentile::P50));
        add("p99", &|cell| latency(cell, Percentile::P99));
        add("p99.9", &|cell| latency(cell, Percentile::P99_9));
    }
    if !transactional && cells.iter().any(|cell| cell.limit.is_some()) {
        add("Of maximum", &|cell| {
            let share = cell.throughput.zip(cell.limit).map(|(rate, limit)| Field {
                text: percentage(rate.interval.mean / limit.interval.mean * 100.0),
                small: format!("of {}", number::brief_mean(&limit)),
            });
            share.unwrap_or_else(|| ABSENT.into())
        });
    }
    add(&format!("CPU{shared}"), &|cell| figure(cell, Measure::Cpu, cell.cpu));
    add(&format!("Service demand{shared}"), &|cell| {
        figure(cell, Measure::ServiceDemand, cell.service_demand)
    });
    add("Runs", &|cell| {
        let failed = (cell.failed > 0).then(|| format!("{} failed", cell.failed));
        (cell.runs.to_string(), failed).into()
    });
    table.push("Limited by", SHORT, cells.iter().map(|cell| cell.verdict.limited_by()));
    let mut notes = Vec::new();
    notes.extend(mark_of(&table.rows));
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
    Table { note: notes.join(" "), ..table }
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
    let others_titles = others.iter().map(|(title, _)| (*title, NUMBER));
    let titles: Vec<(&str, Kind)> = [("Change", NAME), ("Size", NUMBER), ("Interval", NUMBER)]
        .into_iter()
        .chain(others_titles)
        .chain([("Result", REASON), ("Pairs", NUMBER)])
        .collect();
    let row = |effect: &Effect| {
        let change = number::change(&effect.ratio);
        let at = match effect.at.0.is_empty() {
            true => words::step(effect),
            false => labels::cell(&effect.at),
        };
        let mean = format!("{}{}", change.mean, marks::of_effect(effect));
        let mut fields = vec![at.into(), mean.into(), Field::or_absent(change.ends)];
        let under = |(_, of): &Other| of(effect).map_or_else(|| ABSENT.into(), Field::from);
        fields.extend(others.iter().map(under));
        let reason = words::not_claimed(effect, results.minimum_effect);
        fields.push(reason.unwrap_or_else(|| "significant".to_owned()).into());
        fields.push(effect.pairs.to_string().into());
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
            let step = capitalised(&step);
            if step != group {
                rows.push(TableRow::group(step.clone()));
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
    let marked = all.iter().any(|effect| !marks::of_effect(effect).is_empty());
    notes.extend(marked.then(|| {
        format!(
            "{} something other than the adapter limited one of the two cells",
            marks::HOST_LIMITED.trim()
        )
    }));
    let note = sentences(&notes.iter().map(String::as_str).collect::<Vec<_>>());
    Table::of("Changes by measure and step", columns(&titles), rows, note)
}

/// Published values beside measured ones that no figure has.
pub fn published(results: &StudyResults) -> Option<Table> {
    let all = change_figures::not_drawn(results);
    let row = |one: &PublishedResult| {
        let [published, measured, ends] = words::beside(one);
        let (step, at) = words::published_parts(one);
        let step = step.map_or_else(String::new, |step| format!("{step}, "));
        let name = format!("{step}{at}{}", marks::of(results, one)).into();
        let of_limits = predicted::of_limits(one).unwrap_or_default();
        let figures = [published, measured, ends].into_iter().zip(of_limits);
        let figures = figures.map(|(text, share)| match share.as_str() {
            "" | ABSENT => text.into(),
            _ => Field { text, small: format!("{share} of its limit") },
        });
        TableRow::of([name].into_iter().chain(figures))
    };
    let mut rows: Vec<TableRow> = Vec::new();
    let mut last = None;
    for one in &all {
        if last != Some(one.measure) {
            rows.push(TableRow::group(capitalised(one.measure.word())));
        }
        last = Some(one.measure);
        rows.push(row(one));
    }
    let figures = ["Published", "Measured", "Interval"].map(|title| (title, NUMBER));
    let note = format!(
        "{}, not the absolute values. Intervals are those of this measurement.{}",
        capitalised(words::OF_ANOTHER_MACHINE),
        marks::caption(results, all)
    );
    let columns = columns(&[&[("Of", NAME)][..], &figures].concat());
    Table::of("Published and measured values", columns, rows, note)
}

/// Why service demands have no parts, where none has.
pub fn undivided(results: &StudyResults) -> Option<String> {
    let notes = demand::notes(results);
    let none = demand::all(results).next().is_none() && !notes.is_empty();
    none.then(|| sentences(&notes))
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
    let table = |(index, cells)| of_attribution(&title(index), &categories, cells);
    chunks.enumerate().map(table).collect()
}

/// A cell with where its CPU time went.
type Profiled<'a> = (&'a CellResult, &'a Attribution);

fn of_attribution(title: &str, categories: &[&str], cells: &[Profiled<'_>]) -> Table {
    let mut table = Table::new(title);
    let totals = ["busy, by the samples", "busy, by the meter", "samples a run"];
    table.push("Category", NAME, categories.iter().chain(&totals).copied());
    for (cell, of) in cells {
        let shares = categories.iter().map(|category| {
            let share = of.shares.iter().find(|share| share.title == *category);
            Field::or_absent(share.map(|share| percentage(share.percent)))
        });
        let busy = [of.sampled_percent, of.meter_percent].map(percentage);
        let totals = busy.into_iter().chain([number::grouped(of.samples.round())]);
        let fields = shares.chain(totals.map(Field::from));
        table.push(&labels::cell(&cell.levels), NUMBER, fields);
    }
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
    Table { note, ..table }
}

pub(super) fn percentage(value: f64) -> String {
    format!("{value:.1} %")
}

pub(super) fn plain(value: f64) -> String {
    number::significant(value, 3)
}

/// Every run, in order of execution.
pub fn runs(results: &StudyResults) -> Option<Table> {
    let runs = || results.runs.iter();
    let mut table = Table::new("Raw runs, in order of execution");
    table.push("Run", NUMBER, runs().map(|run| run.sequence.to_string()));
    // people count from 1
    let block = |run: &StoredRun| run.imported().is_none().then(|| (run.block + 1).to_string());
    table.push("Block", NUMBER, runs().map(block).map(Field::or_absent));
    table.push("Cell", NAME, runs().map(|run| cell_of(run, results)));
    let quantity = |mean: f64, unit| {
        let interval = linkrate_study::quantity::Interval { mean, low: None, high: None };
        number::brief_mean(&Quantity { interval, unit })
    };
    let measured = |run: &StoredRun, measure: Measure| {
        // an idle run has nothing but its CPU time
        let is_known = run.cell.is_some() || measure == Measure::Cpu;
        let figure = measures::figure(measure, run).filter(|_| is_known)?;
        Some(quantity(figure, measure.unit(run.spec.is_transactional())))
    };
    let rate = |run: &StoredRun| match run.spec.is_transactional() {
        true => measured(run, Measure::Transactions),
        false => measured(run, Measure::Throughput),
    };
    table.push("Rate", NUMBER, runs().map(rate).map(Field::or_absent));
    for (title, measure) in [("Service demand", Measure::ServiceDemand), ("CPU", Measure::Cpu)] {
        let figures = runs().map(|run| measured(run, measure));
        table.push(title, NUMBER, figures.map(Field::or_absent));
    }
    let client = |run: &StoredRun| {
        let percent = match &run.outcome {
            Outcome::Failed(_) => None,
            Outcome::Imported(run) => run.found.client_cpu_percent,
            Outcome::Measured(run) => {
                let cpu = Some(&run.client_cpu).filter(|cpu| !cpu.shared && !cpu.cpus.is_empty());
                cpu.map(CpuUse::percent)
            }
        };
        percent.map(|percent| quantity(percent, Unit::Percent))
    };
    table.push("Client CPU", NUMBER, runs().map(client).map(Field::or_absent));
    table.filled()
}

/// The name of a run's cell, and what is to be said of the run.
fn cell_of(run: &StoredRun, results: &StudyResults) -> (String, Option<String>) {
    let levels = results.cell_of(run).map(|cell| &cell.levels);
    let cell = match (run.cell, levels) {
        (None, _) => "idle".to_owned(),
        (Some(index), levels) => levels.map_or_else(|| format!("cell {index}"), labels::cell),
    };
    let small = match &run.outcome {
        Outcome::Failed(failure) => Some(format!("failed: {failure}")),
        Outcome::Imported(run) => Some(run.source()),
        Outcome::Measured(_) => None,
    };
    (if results.is_aa(run) { format!("{cell} (A/A)") } else { cell }, small)
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
        TableRow::of(texts)
    });
    // what is of no cell, or of one that is there already
    let further = [
        ("Without load", results.counts(|run| run.cell.is_none())),
        ("A/A test", results.counts(|run| results.is_aa(run))),
    ];
    let further = further.into_iter().filter(|(_, counts)| *counts != [0; 3]);
    let further = further.map(|(name, counts)| {
        let texts = [name.to_owned(), String::new()];
        TableRow::of(texts.into_iter().chain(counts.map(|count| count.to_string())))
    });
    let names = ["Factor", "Level"].map(|title| (title, NAME));
    let sums = ["Runs", "Refused or failed", "Left out"].map(|title| (title, NUMBER));
    Table::of(
        "Runs that count, by level",
        columns(&[&names[..], &sums[..]].concat()),
        rows.chain(further),
        "Where something from outside spoils a run, the other runs of its block are left out too, so that no \
         level loses more pairs than another. A full CPU leaves other programs less time, so that fewer of its runs are \
          refused.",
    )
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
    let knees = || results.windows.iter();
    let mut table = Table::new("Where the window fills the line");
    table.push("At", NAME, knees().map(|knee| labels::cell(&knee.at)));
    table.push("Smallest window", NUMBER, knees().map(|knee| knee.smallest.to_string()));
    let round_trip = |knee: &Knee| number::duration(knee.round_trip.as_nanos() as f64);
    table.push("Round trip", NUMBER, knees().map(round_trip));
    // three digits: the sizes between two levels are not known any better
    let fills = |knee: &Knee| ByteSize((knee.fills as f64 / 1024.0).round() as u64 * 1024);
    let fills = knees().map(|knee| fills(knee).to_string());
    table.push("Fills the line, by the round trip", NUMBER, fills);
    let reached = |knee: &Knee| match &knee.reached {
        Some(level) => level.to_string(),
        None => format!("none up to {}", knee.largest),
    };
    table.push("Filled it first", NUMBER, knees().map(reached));
    table.note = "The round trip is the smallest window divided by its throughput. The limit of the links times \
                  this round trip is the window that fills the line. It lies between two windows of the \
                  study: the last one that filled the line to less than 97 %, and the first that filled it."
        .to_owned();
    table.filled()
}
