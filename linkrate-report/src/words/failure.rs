//! What a failure cost, in words.

use linkrate_study::labels;
use linkrate_study::quantity::{Interval, Quantity};
use linkrate_study::results::figures::{FailureFigures, Moment};
use linkrate_study::results::{CellResult, StudyResults};

use crate::number::{self, ABSENT};

/// What stands for a failure that no end of the aggregate noticed.
const NOT_DETECTED: &str = "not detected within the run";
/// What stands for traffic that stayed with the port.
const NOT_MOVED: &str = "not within the run";
/// What stands for a rate that did not come back.
const NOT_RESTORED: &str = "not within the run";

/// A figure of a failure and the ends of its interval, or the number of runs that have the figure.
pub type Figure = (String, Option<String>);

/// A head, and the figure of a cell below it.
pub type Column = (&'static str, fn(&FailureFigures) -> Figure);

/// The first of these figures say when a failure was noticed, the others what it cost.
pub const NOTICED: usize = 4;

/// Heads of the figures of a failure, and the figures of one cell.
pub const COLUMNS: [Column; 11] = [
    ("detected by host", |of| event(of.host_detection.as_ref(), of.runs, NOT_DETECTED)),
    ("by switch", |of| event(of.switch_detection.as_ref(), of.runs, NOT_DETECTED)),
    ("moved by host", |of| event(of.host_move.as_ref(), of.runs, NOT_MOVED)),
    ("by switch", |of| event(of.switch_move.as_ref(), of.runs, NOT_MOVED)),
    ("longest gap", |of| gap(of, of.gap)),
    ("of a flow", |of| gap(of, of.flow_gap)),
    ("before", |of| figure(of.gap_before)),
    ("frames lost", |of| figure(of.frames_lost)),
    ("resent", |of| figure(of.resent)),
    ("after fault", |of| figure(of.resent_after)),
    ("95 % again", |of| moment(&of.restored, of.runs, NOT_RESTORED)),
];

/// The cells that have an event and figures of it.
pub fn cells(results: &StudyResults) -> Vec<(&CellResult, &FailureFigures)> {
    let cells = results.cells.iter();
    cells.filter_map(|cell| Some((cell, cell.failure.as_ref()?))).collect()
}

/// When the faults of all cells come, as a sentence.
fn moments(cells: &[(&CellResult, &FailureFigures)]) -> String {
    let mut moments: Vec<String> = Vec::new();
    for (_, of) in cells {
        let at = number::duration(of.at_seconds * 1e9);
        if !moments.contains(&at) {
            moments.push(at);
        }
    }
    format!("Faults come {} after the beginning of the measurement.", moments.join(" or "))
}

/// How to read the figures, in sentences.
pub fn note(cells: &[(&CellResult, &FailureFigures)]) -> String {
    let bytes = cells.iter().fold(0_u64, |sum, (_, of)| sum.saturating_add(of.verified_bytes));
    // a median is 0 where frames were overtaken in few runs
    let overtaken = cells.iter().filter(|(_, of)| of.reordered_runs > 0).map(|(cell, of)| {
        let name = labels::cell(&cell.levels);
        let frames = figure(of.frames_reordered).0;
        format!("{name}: {frames}, in {} of {} runs", of.reordered_runs, of.runs)
    });
    let overtaken: Vec<String> = overtaken.collect();
    let order = match overtaken.is_empty() {
        true => "No frame overtook another of its connection.".to_owned(),
        false => format!("Frames that were overtaken: {}.", overtaken.join("; ")),
    };
    let compared = match bytes {
        0 => "Bytes were not compared.".to_owned(),
        bytes => {
            let amount = number::amount(bytes as f64);
            format!("Every byte arrived once and in its place: {amount} were compared.")
        }
    };
    format!(
        "{} Figures are medians over the runs, from five runs on with the confidence interval of the median (of five runs, that of 94 %). Times are from the fault. A gap is a time without a received byte: the longest one of all \
         flows together, of the flow that was hit worst, and of a flow before the fault. {compared} \
         {order}",
        moments(cells)
    )
}

/// A median and the ends of its interval, which are order statistics and may lie at any distance from it.
fn figure(quantity: Option<Quantity>) -> Figure {
    let Some(quantity) = quantity else { return (ABSENT.to_owned(), None) };
    let at = |mean: f64| {
        let interval = Interval { mean, low: None, high: None };
        number::plain(&Quantity { interval, ..quantity })
    };
    let ends = quantity.interval.low.zip(quantity.interval.high);
    let ends = ends.map(|(low, high)| {
        let (low, high) = (at(low), at(high));
        // one unit for both
        match low.split_once(' ').zip(high.split_once(' ')) {
            Some(((value, unit), (_, other))) if unit == other => format!("{value} to {high}"),
            _ => format!("{low} to {high}"),
        }
    });
    (number::plain(&quantity), ends)
}

/// A gap, which has not ended in so many runs that the median is among them or may be.
fn gap(of: &FailureFigures, gap: Option<Quantity>) -> Figure {
    let (text, ends) = figure(gap);
    match is_open(of) && gap.is_some() {
        true => (format!("> {text}"), ends),
        false => (text, ends),
    }
}

/// Whether nothing arrived at the end of so many runs that the median of the gaps is a bound.
pub fn is_open(of: &FailureFigures) -> bool {
    of.open_runs > 0 && of.open_runs.saturating_mul(2) >= of.runs
}

/// `None` where it could not be: nothing could take over.
fn event(of: Option<&Moment>, runs: u32, never: &str) -> Figure {
    of.map_or((ABSENT.to_owned(), None), |of| moment(of, runs, never))
}

fn moment(moment: &Moment, runs: u32, never: &str) -> Figure {
    match moment.after {
        None => (never.to_owned(), None),
        Some(_) if moment.runs < runs => {
            let (text, _) = figure(moment.after);
            (text, Some(format!("in {} of {runs} runs", moment.runs)))
        }
        after => figure(after),
    }
}

#[cfg(test)]
mod tests {
    use linkrate_study::quantity::Unit;

    use super::*;

    fn after(mean: f64) -> Option<Quantity> {
        let interval = Interval { mean, low: Some(mean * 0.9), high: Some(mean * 1.1) };
        Some(Quantity { interval, unit: Unit::Nanoseconds })
    }

    #[test]
    fn what_did_not_happen_is_said_and_is_no_number() {
        let figure = |mean: Option<f64>, of_runs| {
            let moment = Moment { after: mean.and_then(after), runs: of_runs };
            super::moment(&moment, 5, NOT_DETECTED)
        };
        assert_eq!(figure(None, 0), (NOT_DETECTED.to_owned(), None));
        let in_two = Some("in 2 of 5 runs".to_owned());
        assert_eq!(figure(Some(3.1e6), 2), ("3.10 ms".to_owned(), in_two));
        assert_eq!(
            figure(Some(3.1e6), 5),
            ("3.10 ms".to_owned(), Some("2.79 to 3.41 ms".to_owned()))
        );
    }
}
