//! Results as the template needs them: strings that are ready to stand on the page.

use linkrate_study::results::{CellResult, Effect, Levels, Measure, Quantity, StudyResults};
use linkrate_study::store::{Outcome, StoredRun};
use linkrate_terms::Task;
use serde::Serialize;

use super::charts::{self, Drawing, Group, Row, Size};
use crate::number::{self, ABSENT, Scale};
use crate::{ReportError, words};

/// Everything on the page.
#[derive(Debug, Serialize)]
pub struct View<'a> {
    css: &'static str,
    title: &'a str,
    study: &'a str,
    results: &'a str,
    confidence: String,
    minimum: String,
    stopped: &'a str,
    complete: bool,
    size: String,
    highlights: Vec<String>,
    has_effects: bool,
    charts: Vec<Chart>,
    cells: Vec<Cell>,
    columns: Columns,
    evidence: Table,
    effects: Vec<EffectRow>,
    background: Option<String>,
    facts: Vec<(&'a str, &'a str)>,
    warnings: Vec<&'a str>,
    failures: Vec<Failure<'a>>,
    factors: Vec<&'a str>,
    runs: Vec<RunRow>,
}

/// A chart in both sizes, with its text alternative.
#[derive(Debug, Serialize)]
struct Chart {
    id: String,
    title: String,
    note: String,
    description: String,
    wide: Svg,
    narrow: Svg,
}

#[derive(Debug, Serialize)]
struct Svg {
    svg: String,
    width: u32,
    height: u32,
}

impl From<Drawing> for Svg {
    fn from(Drawing { svg, width, height }: Drawing) -> Self {
        Self { svg, width, height }
    }
}

/// A figure, its half-width and the ends of its interval.
#[derive(Debug, Serialize)]
struct Figure {
    mean: String,
    margin: Option<String>,
    ends: Option<String>,
}

/// Which columns the table of cells has.
#[derive(Debug, Serialize)]
struct Columns {
    throughput: bool,
    transactions: bool,
}

#[derive(Debug, Serialize)]
struct Cell {
    name: String,
    runs: u32,
    failed: u32,
    throughput: Option<Figure>,
    transactions: Option<Figure>,
    latency: Option<[String; 3]>,
    cpu: Option<Figure>,
    service_demand: Option<Figure>,
    verdict: String,
}

/// A plain table: column names, then rows of a name and as many fields.
#[derive(Debug, Default, Serialize)]
struct Table {
    header: Vec<&'static str>,
    rows: Vec<(String, Vec<String>)>,
}

#[derive(Debug, Serialize)]
struct EffectRow {
    measure: &'static str,
    step: String,
    at: String,
    change: String,
    ends: Option<String>,
    pairs: u32,
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct Failure<'a> {
    block: u32,
    cell: String,
    reason: &'a str,
}

#[derive(Debug, Serialize)]
struct RunRow {
    sequence: u32,
    block: u32,
    cell: String,
    failure: Option<String>,
    figures: Vec<String>,
}

impl<'a> View<'a> {
    /// The page's values from results.
    ///
    /// # Errors
    /// [`ReportError::Chart`] if a chart cannot be drawn.
    pub fn new(results: &'a StudyResults) -> Result<Self, ReportError> {
        let failed = results.failures.len();
        let stored = results.runs.len();
        let mut size = vec![
            words::count(results.cells.len(), "cell"),
            words::count(results.blocks as usize, "block"),
        ];
        if stored > 0 {
            size.push(words::count(stored, "run"));
        }
        if failed > 0 {
            size.push(format!("{failed} of them failed"));
        }
        Ok(Self {
            css: include_str!("../../templates/report.css"),
            title: &results.title,
            study: &results.study,
            results: &results.results,
            confidence: number::percent(results.confidence),
            minimum: number::percent(results.minimum_effect),
            stopped: &results.stopped,
            complete: results.complete,
            size: size.join(", "),
            highlights: words::highlights(results),
            has_effects: !results.effects.is_empty(),
            charts: charts_of(results)?,
            cells: results.cells.iter().map(cell).collect(),
            columns: Columns {
                // payload per second says nothing about one-byte transactions
                throughput: results.cells.iter().any(|cell| cell.transactions.is_none()),
                transactions: results.cells.iter().any(|cell| cell.transactions.is_some()),
            },
            evidence: evidence(&results.cells),
            effects: results.effects.iter().map(|e| effect(e, results)).collect(),
            background: results.background_cpu.as_ref().map(with_margin),
            facts: results.facts.facts.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect(),
            warnings: words::warnings(results),
            failures: results
                .failures
                .iter()
                .map(|failed| Failure {
                    block: failed.block,
                    cell: name(&failed.levels, "idle run"),
                    reason: &failed.reason,
                })
                .collect(),
            factors: Vec::new(),
            runs: results.runs.iter().map(|run| run_row(run, results)).collect(),
        })
    }
}

fn name(levels: &Levels, without: &str) -> String {
    if levels.0.is_empty() { without.to_owned() } else { levels.to_string() }
}

fn with_margin(quantity: &Quantity) -> String {
    match number::margin(quantity) {
        Some(margin) => format!("{} {margin}", number::mean(quantity)),
        None => number::mean(quantity),
    }
}

fn figure(quantity: Quantity) -> Figure {
    Figure {
        mean: number::mean(&quantity),
        margin: number::margin(&quantity),
        ends: number::ends(&quantity),
    }
}

fn cell(cell: &CellResult) -> Cell {
    Cell {
        name: name(&cell.levels, "the only cell"),
        runs: cell.runs,
        failed: cell.failed,
        throughput: cell.throughput.map(figure),
        transactions: cell.transactions.map(figure),
        latency: cell.latency.map(|latency| {
            [latency.p50_ns, latency.p99_ns, latency.p99_99_ns]
                .map(|ns| number::duration(ns as f64))
        }),
        cpu: cell.cpu.map(figure),
        service_demand: cell.service_demand.map(figure),
        verdict: cell.verdict.clone(),
    }
}

fn effect(effect: &Effect, results: &StudyResults) -> EffectRow {
    let change = number::change(&effect.ratio);
    EffectRow {
        measure: words::measure(effect.measure),
        step: words::step(effect),
        at: effect.at.to_string(),
        change: change.mean,
        ends: change.ends,
        pairs: effect.pairs,
        reason: words::not_claimed(effect, results.minimum_effect),
    }
}

/// What the counters prove, without the columns that no cell has.
fn evidence(cells: &[CellResult]) -> Table {
    type Field = fn(&CellResult) -> Option<String>;
    let columns: [(&'static str, Field); 11] = [
        ("packet built by TCP", |cell| cell.evidence.stack_packet_bytes.map(bytes)),
        ("packet given to driver", |cell| cell.evidence.driver_packet_bytes.map(bytes)),
        ("client CPU", |cell| cell.evidence.client_cpu_percent.map(percentage)),
        ("limited by receive window", |cell| cell.evidence.rwnd_limited_percent.map(percentage)),
        ("limited by send buffer", |cell| cell.evidence.sndbuf_limited_percent.map(percentage)),
        ("retransmits a run", |cell| cell.evidence.retransmits.map(plain)),
        ("drops a run", |cell| cell.evidence.drops.map(plain)),
        ("send buffer", |cell| cell.evidence.granted_send_buffer_bytes.map(size)),
        ("receive buffer", |cell| cell.evidence.granted_receive_buffer_bytes.map(size)),
        ("MSS", |cell| cell.evidence.mss_bytes.map(|mss| format!("{mss} B"))),
        ("idle time from", |cell| {
            use linkrate_terms::measurement::IdleSource;
            cell.evidence.idle_source.map(|source| match source {
                IdleSource::TimerList => "timer_list".to_owned(),
                IdleSource::ProcStat => "/proc/stat".to_owned(),
            })
        }),
    ];
    let used = columns.iter().filter(|(_, field)| cells.iter().any(|cell| field(cell).is_some()));
    let used: Vec<&(&'static str, Field)> = used.collect();
    if used.is_empty() {
        return Table::default();
    }
    let fields = |cell: &CellResult| {
        used.iter().map(|(_, field)| field(cell).unwrap_or_else(|| ABSENT.to_owned())).collect()
    };
    Table {
        header: used.iter().map(|(name, _)| *name).collect(),
        rows: cells
            .iter()
            .map(|cell| (name(&cell.levels, "the only cell"), fields(cell)))
            .collect(),
    }
}

fn bytes(value: f64) -> String {
    format!("{} B", number::grouped(value.round()))
}

fn size(value: u64) -> String {
    linkrate_terms::ByteSize(value).to_string()
}

fn percentage(value: f64) -> String {
    format!("{value:.1} %")
}

fn plain(value: f64) -> String {
    number::significant(value, 3)
}

fn run_row(run: &StoredRun, results: &StudyResults) -> RunRow {
    let levels = run.cell.and_then(|cell| results.cells.get(cell as usize)).map(|c| &c.levels);
    let cell = match (run.cell, levels) {
        (None, _) => "idle".to_owned(),
        (Some(index), levels) => {
            levels.map_or_else(|| format!("cell {index}"), |l| name(l, "the only cell"))
        }
    };
    let (failure, figures) = match &run.outcome {
        Outcome::Failed(failure) => (Some(failure.to_string()), Vec::new()),
        Outcome::Measured(measured) => {
            let transactional =
                matches!(&run.spec.task, Task::Workload(w) if w.kind.is_transactional());
            let quantity = |mean: f64, unit| {
                let interval = linkrate_study::results::Interval { mean, low: None, high: None };
                number::mean(&Quantity { interval, unit })
            };
            let (rate, demand) = match (&run.spec.task, transactional) {
                (Task::Idle, _) => (None, None),
                (_, true) => (
                    Some(quantity(measured.traffic.transactions_per_second(), "transaction/s")),
                    measured
                        .service_demand_us_per_transaction()
                        .map(|demand| quantity(demand, "us/transaction")),
                ),
                (_, false) => (
                    Some(quantity(measured.traffic.bits_per_second(), "bit/s")),
                    measured.service_demand_us_per_kb().map(|demand| quantity(demand, "us/KB")),
                ),
            };
            let client = (!measured.client_cpu.shared && !measured.client_cpu.cpus.is_empty())
                .then(|| quantity(measured.client_cpu.percent(), "%"));
            let cpu = Some(quantity(measured.sut_cpu.percent(), "%"));
            let figures =
                [rate, demand, cpu, client].map(|f| f.unwrap_or_else(|| ABSENT.to_owned()));
            (None, figures.into())
        }
    };
    RunRow { sequence: run.sequence, block: run.block, cell, failure, figures }
}

/// A figure of a cell that gets a chart.
type Field = fn(&CellResult) -> Option<Quantity>;

fn charts_of(results: &StudyResults) -> Result<Vec<Chart>, ReportError> {
    let mut all = Vec::new();
    let fields: [(&str, &str, Field, &[&str]); 3] = [
        (
            "Service demand",
            "less is better",
            |cell| cell.service_demand,
            &["us/KB", "us/transaction"],
        ),
        (
            "Throughput",
            "more is better",
            |cell| cell.throughput.filter(|_| cell.transactions.is_none()),
            &["bit/s"],
        ),
        ("Transactions", "more is better", |cell| cell.transactions, &["transaction/s"]),
    ];
    for (title, better, field, units) in fields {
        for &unit in units {
            let of_unit = |cell: &CellResult| field(cell).filter(|figure| figure.unit == unit);
            // a single bar compares nothing
            if results.cells.iter().filter(|cell| of_unit(cell).is_some()).count() > 1 {
                all.push(bar_chart(results, title, better, &of_unit, all.len())?);
            }
        }
    }
    for measure in words::measures(results) {
        all.push(effect_chart(results, measure, all.len())?);
    }
    Ok(all)
}

fn bar_chart(
    results: &StudyResults,
    title: &str,
    better: &str,
    field: &dyn Fn(&CellResult) -> Option<Quantity>,
    index: usize,
) -> Result<Chart, ReportError> {
    let figures = || results.cells.iter().filter_map(field);
    let largest = figures().map(|figure| figure.interval.mean).fold(0.0, f64::max);
    let scale = figures()
        .next()
        .map_or(Scale { divisor: 1.0, unit: "" }, |figure| Scale::of(figure.unit, largest));
    let mut groups: Vec<(Levels, Group)> = Vec::new();
    let mut kinds: Vec<String> = Vec::new();
    let mut sentences = Vec::new();
    for cell in &results.cells {
        let Some((factor, level)) = cell.levels.0.first() else { continue };
        let Some(figure) = field(cell) else { continue };
        let row_name = words::level(factor, level);
        let kind = kinds.iter().position(|kind| *kind == row_name).unwrap_or_else(|| {
            kinds.push(row_name.clone());
            kinds.len() - 1
        });
        sentences.push(format!("{}: {}", cell.levels, with_margin(&figure)));
        let row = Row {
            name: row_name,
            figure: with_margin(&figure),
            short_figure: number::mean(&figure)
                .replace("/transaction", "")
                .replace("transactions", ""),
            value: Some(figure.interval.mean / scale.divisor),
            ends: figure
                .interval
                .low
                .zip(figure.interval.high)
                .map(|(low, high)| (low / scale.divisor, high / scale.divisor)),
            kind,
        };
        let others = cell.levels.without(factor);
        match groups.iter_mut().find(|(levels, _)| *levels == others) {
            Some((_, group)) => group.rows.push(row),
            None => {
                let group = Group { name: others.to_string(), rows: vec![row] };
                groups.push((others, group));
            }
        }
    }
    let groups: Vec<Group> = groups.into_iter().map(|(_, group)| group).collect();
    let tick = |value: f64| number::significant(value, 3).trim_end_matches(".00").to_owned();
    Ok(Chart {
        id: format!("chart-{index}"),
        title: format!("{title}, {}", scale.unit),
        note: better.to_owned(),
        description: sentences.join("; "),
        wide: charts::bars(title, &groups, Size::Wide, &tick)?.into(),
        narrow: charts::bars(title, &groups, Size::Narrow, &tick)?.into(),
    })
}

fn effect_chart(
    results: &StudyResults,
    measure: Measure,
    index: usize,
) -> Result<Chart, ReportError> {
    let mut groups: Vec<Group> = Vec::new();
    let mut sentences = Vec::new();
    for effect in results.effects.iter().filter(|effect| effect.measure == measure) {
        let change = number::change(&effect.ratio);
        let ends = change.ends.as_ref().map(|ends| format!(" ({ends})")).unwrap_or_default();
        let claimed = if effect.claimed { "" } else { ", not claimed" };
        sentences.push(format!("{}: {}{ends}{claimed}", words::step_at(effect), change.mean));
        let without_others = effect.at.0.is_empty();
        let row = Row {
            name: if without_others { words::step(effect) } else { effect.at.to_string() },
            figure: format!("{}{ends}", change.mean),
            short_figure: change.mean,
            value: Some(effect.ratio.mean),
            ends: effect.ratio.low.zip(effect.ratio.high),
            kind: usize::from(effect.claimed),
        };
        let heading = if without_others { String::new() } else { words::step(effect) };
        match groups.iter_mut().find(|group| group.name == heading) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { name: heading, rows: vec![row] }),
        }
    }
    let title = format!("Change in {}", words::measure(measure));
    Ok(Chart {
        id: format!("chart-{index}"),
        note: format!(
            "{}; filled: claimed, hollow: not claimed; grey band: below the {} minimum",
            words::better(measure),
            number::percent(results.minimum_effect)
        ),
        description: sentences.join("; "),
        wide: charts::effects(&title, &groups, Size::Wide, results.minimum_effect)?.into(),
        narrow: charts::effects(&title, &groups, Size::Narrow, results.minimum_effect)?.into(),
        title,
    })
}
