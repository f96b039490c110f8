//! What a failure cost: the tables, and the rates over time with the event drawn in.

use linkrate_model::failure::Failure;
use linkrate_study::analysis::failure::typical;
use linkrate_study::labels;
use linkrate_study::quantity::Unit;
use linkrate_study::results::StudyResults;

use super::figure::{Figure, both};
use crate::ReportError;
use crate::charts::timeline::{self, Curve, Moment};
use crate::number::{self, Scale};
use crate::table::{NAME, NUMBER, Table};
use crate::words::failure::{COLUMNS, Column, NOTICED, cells, note};
use crate::words::{capitalised, listed_or};

/// Most ports with a curve of their own.
const MAX_PORTS: usize = 4;
/// Seconds in a nanosecond.
const SECOND: f64 = 1e-9;

/// The tables: when failures were noticed, and what they cost; empty where no cell has an event.
pub fn tables(results: &StudyResults) -> Vec<Table> {
    let cells = cells(results);
    if cells.is_empty() {
        return Vec::new();
    }
    let named = cells.iter().any(|(cell, _)| !cell.levels.0.is_empty());
    let table = |title: &str, figures: &[Column], note: String| {
        let mut table = Table { note, ..Table::new(title) };
        let names = cells.iter().map(|(cell, of)| match named {
            true => labels::cell(&cell.levels),
            false => capitalised(of.fault.phrase()),
        });
        table.push(if named { "Cell" } else { "Failure" }, NAME, names);
        for (head, pick) in figures {
            let fields = cells.iter().map(|(_, of)| pick(of));
            table.push(&capitalised(head), NUMBER, fields);
        }
        table
    };
    let (noticed, cost) = COLUMNS.split_at(NOTICED);
    let from_fault = "Times are from the fault.".to_owned();
    vec![
        table("When a failure is noticed, and traffic moves", noticed, from_fault),
        table("What a failure costs", cost, note(&cells)),
    ]
}

/// The rates over time of one run of each cell with an event.
pub fn figures(results: &StudyResults) -> Result<Vec<Figure>, ReportError> {
    let mut all = Vec::new();
    for (index, cell) in results.cells.iter().enumerate() {
        let number = u32::try_from(index).ok();
        let of_cell = results.runs.iter().filter(|run| run.cell == number && number.is_some());
        let Some(run) = typical(of_cell.filter_map(|run| run.measurement())) else { continue };
        all.push(figure(&labels::cell(&cell.levels), run)?);
    }
    Ok(all)
}

fn figure(cell: &str, run: &Failure) -> Result<Figure, ReportError> {
    let curves = curves(run);
    let largest = curves.iter().flat_map(|curve| &curve.values).copied().fold(0.0, f64::max);
    let scale = Scale::of(Unit::BitsPerSecond, largest);
    let scaled: Vec<Curve> = curves
        .into_iter()
        .map(|curve| Curve {
            values: curve.values.iter().map(|value| value / scale.divisor).collect(),
            ..curve
        })
        .collect();
    let moments = moments(run);
    let what = match cell.is_empty() {
        true => capitalised(run.event.fault.phrase()),
        false => capitalised(cell),
    };
    let title = format!("{what}: rates over time");
    let reported = moments
        .iter()
        .map(|moment| format!("{} at {}", moment.name, number::duration(moment.at / SECOND)));
    let description = listed_or(reported.collect(), "no event");
    let slot = run.timeline.slot_ns as f64 * SECOND;
    let picture = both(title.clone(), description, |size| {
        timeline::rates(&title, scale.unit, slot, &scaled, &moments, size)
    })?;
    let note = format!(
        "One run, the one with the median gap, in steps of {}. Payload that all flows received, and \
         what was on the line of each port, both ways together. A peak after a gap is payload that \
         waited for a segment that was sent again.",
        number::duration(run.timeline.slot_ns as f64)
    );
    Ok(Figure { number: 0, title, note, panels: vec![picture] })
}

/// Bit/s of the payload of all flows, and of the line of each port. Ports beyond the first ones are
/// one curve, unless it is one of them that failed.
fn curves(run: &Failure) -> Vec<Curve> {
    let per_second = 8.0 / (run.timeline.slot_ns.max(1) as f64 * SECOND);
    let rates = |bytes: &[u64]| bytes.iter().map(|bytes| *bytes as f64 * per_second).collect();
    let mut curves =
        vec![Curve { name: "payload".to_owned(), values: rates(&run.timeline.received) }];
    let failed = |port: &&linkrate_model::failure::PortTimeline| port.port == run.port;
    let others: Vec<_> = run.timeline.ports.iter().filter(|port| !failed(port)).collect();
    for port in run.timeline.ports.iter().filter(failed) {
        let name = format!("{} (fails)", port.port);
        curves.push(Curve { name, values: rates(&port.octets) });
    }
    if others.len() < MAX_PORTS {
        let each = others
            .iter()
            .map(|port| Curve { name: port.port.clone(), values: rates(&port.octets) });
        curves.extend(each);
    } else {
        let slots = others.iter().map(|port| port.octets.len()).max().unwrap_or(0);
        let sum = |slot: usize| {
            let octets = others.iter().filter_map(|port| port.octets.get(slot));
            octets.fold(0_u64, |sum, octets| sum.saturating_add(*octets)) / others.len() as u64
        };
        let mean: Vec<u64> = (0..slots).map(sum).collect();
        let name = format!("mean of the {} others", others.len());
        curves.push(Curve { name, values: rates(&mean) });
    }
    curves
}

/// The fault, and the recovery.
fn moments(run: &Failure) -> Vec<Moment> {
    let moment =
        |name: &str, at_ns: u64| Moment { name: name.to_owned(), at: at_ns as f64 * SECOND };
    let fault = moment(run.event.fault.phrase(), run.at_ns);
    let back = run.recovered_ns.map(|at_ns| moment("back", at_ns));
    std::iter::once(fault).chain(back).collect()
}
