//! Results as the template needs them: strings that are ready to stand on the page.

use linkrate_study::results::{AdapterFigures, CellResult, Effect, Levels, Quantity, StudyResults};
use linkrate_study::store::{Outcome, StoredRun};
use linkrate_terms::Task;
use serde::Serialize;

use super::pictures::{self, Picture};
use crate::number::{self, ABSENT};
use crate::{ReportError, words};

/// Everything on the page.
#[derive(Debug, Serialize)]
pub struct View<'a> {
    css: &'static str,
    title: &'a str,
    study: &'a str,
    results: &'a str,
    confidence: String,
    has_intervals: bool,
    minimum: String,
    stopped: &'a str,
    complete: bool,
    size: String,
    highlights: Vec<String>,
    has_effects: bool,
    charts: Vec<Picture>,
    cells: Vec<Cell>,
    columns: Columns,
    evidence: Table,
    effects: Vec<EffectRow>,
    published: Vec<PublishedRow>,
    of_another_machine: String,
    /// How a scaled testbed is marked.
    scaled: Option<String>,
    /// Behind figures that are of the SUT and its clients together.
    shared_mark: &'static str,
    background: Option<String>,
    facts: Vec<(&'a str, &'a str)>,
    warnings: Vec<&'a str>,
    failures: Vec<Failure<'a>>,
    runs: Vec<RunRow>,
    runs_count: String,
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
    cell: bool,
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
    /// What is the same in every row, by name.
    common: Vec<(&'static str, String)>,
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
struct PublishedRow {
    measure: &'static str,
    at: String,
    figures: [String; 3],
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
            has_intervals: words::has_intervals(results),
            minimum: number::percent(results.minimum_effect),
            stopped: &results.stopped,
            complete: results.complete,
            size: size.join(", "),
            highlights: words::highlights(results),
            has_effects: !results.effects.is_empty(),
            charts: pictures::all(results)?,
            cells: results.cells.iter().map(cell).collect(),
            columns: Columns {
                cell: results.cells.iter().any(|cell| !cell.levels.0.is_empty()),
                // payload per second says nothing about one-byte transactions
                throughput: results.cells.iter().any(|cell| cell.transactions.is_none()),
                transactions: results.cells.iter().any(|cell| cell.transactions.is_some()),
            },
            evidence: evidence(&results.cells),
            effects: results.effects.iter().map(|e| effect(e, results)).collect(),
            published: results
                .published
                .iter()
                .map(|published| PublishedRow {
                    measure: words::measure(published.measure),
                    at: words::published_at(published),
                    figures: words::beside(published),
                })
                .collect(),
            of_another_machine: words::capitalised(words::OF_ANOTHER_MACHINE),
            scaled: words::scaled(results),
            shared_mark: if results.cells.iter().any(|cell| cell.shared_cpus) {
                " †"
            } else {
                ""
            },
            background: results.background_cpu.as_ref().map(number::with_margin),
            facts: results.facts.facts.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect(),
            warnings: words::warnings(results),
            failures: results
                .failures
                .iter()
                .map(|failed| Failure {
                    block: failed.block + 1,
                    cell: words::failed_run(failed),
                    reason: &failed.reason,
                })
                .collect(),
            runs: results.runs.iter().map(|run| run_row(run, results)).collect(),
            runs_count: words::count(stored, "run"),
        })
    }
}

fn name(levels: &Levels, without: &str) -> String {
    if levels.0.is_empty() { without.to_owned() } else { levels.to_string() }
}

fn figure(quantity: Quantity) -> Figure {
    Figure {
        mean: number::brief_mean(&quantity),
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
    let columns: [(&'static str, Field); 25] = [
        ("packet built by TCP", |cell| cell.evidence.stack_packet_bytes.map(bytes)),
        ("packet given to driver", |cell| cell.evidence.driver_packet_bytes.map(bytes)),
        ("frame sent on the wire", |cell| counted(cell)?.sent_frame_bytes.map(bytes)),
        ("frame received from the wire", |cell| counted(cell)?.received_frame_bytes.map(bytes)),
        ("frames cut of a superframe", |cell| counted(cell)?.segments_per_superframe.map(plain)),
        ("frames merged into one", |cell| counted(cell)?.merges_per_superframe.map(plain)),
        ("links occupied outwards", |cell| counted(cell)?.tx_link_percent.map(percentage)),
        ("links occupied inwards", |cell| counted(cell)?.rx_link_percent.map(percentage)),
        ("by port, out and in", |cell| by_port(counted(cell)?)),
        ("bus occupied", |cell| counted(cell)?.bus_percent.map(percentage)),
        ("limit of links and bus", |cell| cell.limit.as_ref().map(number::mean)),
        ("device CPU", |cell| counted(cell)?.device_cpus.map(|cpus| percentage(cpus * 100.0))),
        ("busiest device thread", |cell| counted(cell)?.device_busiest_percent.map(percentage)),
        ("adapter drops a run", |cell| Some(plain(counted(cell)?.drops.values().sum()))),
        ("wrong checksums a run", |cell| counted(cell)?.checksum_failures.map(plain)),
        ("client CPU", |cell| cell.evidence.client_cpu_percent.map(percentage)),
        ("limited by receive window", |cell| cell.evidence.rwnd_limited_percent.map(percentage)),
        ("limited by send buffer", |cell| cell.evidence.sndbuf_limited_percent.map(percentage)),
        ("datagrams lost", |cell| {
            cell.evidence.lost_percent.map(|lost| number::percent(lost / 100.0))
        }),
        ("retransmits a run", |cell| cell.evidence.retransmits.map(plain)),
        ("drops a run", |cell| cell.evidence.drops.map(plain)),
        ("send buffer", |cell| cell.evidence.granted_send_buffer_bytes.map(size)),
        ("receive buffer", |cell| cell.evidence.granted_receive_buffer_bytes.map(size)),
        ("MSS", |cell| cell.evidence.mss_bytes.map(|mss| format!("{mss} B"))),
        ("idle time from", |cell| cell.evidence.idle_source.map(|source| source.name().to_owned())),
    ];
    let mut table = Table::default();
    let mut varying: Vec<Field> = Vec::new();
    for (name, field) in columns {
        let fields: Vec<Option<String>> = cells.iter().map(field).collect();
        match fields.first() {
            // a column of one and the same value only makes the table wide
            Some(Some(first)) if fields.iter().all(|f| f.as_ref() == Some(first)) => {
                table.common.push((name, first.clone()));
            }
            _ if fields.iter().all(Option::is_none) => {}
            _ => {
                table.header.push(name);
                varying.push(field);
            }
        }
    }
    if !varying.is_empty() {
        let fields = |cell: &CellResult| {
            varying.iter().map(|f| f(cell).unwrap_or_else(|| ABSENT.to_owned())).collect()
        };
        let row = |cell: &CellResult| (name(&cell.levels, "the only cell"), fields(cell));
        table.rows = cells.iter().map(row).collect();
    }
    table
}

fn counted(cell: &CellResult) -> Option<&AdapterFigures> {
    cell.evidence.adapter.as_ref()
}

/// `eth0 98.2/1.1 %, eth1 97.9/1.0 %`, where there are several ports.
fn by_port(adapter: &AdapterFigures) -> Option<String> {
    let share = |share: Option<f64>| share.map_or(ABSENT.to_owned(), |share| format!("{share:.1}"));
    let ports: Vec<String> = adapter
        .ports
        .iter()
        .filter(|port| port.tx_link_percent.is_some() || port.rx_link_percent.is_some())
        .map(|port| {
            format!(
                "{} {}/{} %",
                port.port,
                share(port.tx_link_percent),
                share(port.rx_link_percent)
            )
        })
        .collect();
    (ports.len() > 1).then(|| ports.join(", "))
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
