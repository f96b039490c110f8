//! What a failure cost, in words.

use linkrate_study::analysis::failure::{FailureFigures, Moment};
use linkrate_study::quantity::Quantity;
use linkrate_study::results::{CellResult, StudyResults};

use crate::number::{self, ABSENT};

/// What stands for a failure that no end of the aggregate noticed.
const NOT_DETECTED: &str = "not detected within the run";
/// What stands for a rate that did not come back.
const NOT_RESTORED: &str = "not within the run";

/// A figure of a failure and the half-width of its interval.
pub type Figure = (String, Option<String>);

/// Heads of the figures of a failure, and the figures of one cell.
pub const COLUMNS: [(&str, fn(&FailureFigures) -> Figure); 7] = [
    ("detected by host", |of| detection(of, &of.host_detection)),
    ("by switch", |of| detection(of, &of.switch_detection)),
    ("longest gap", |of| figure(of.gap)),
    ("of one flow", |of| figure(of.flow_gap)),
    ("frames lost", |of| figure(of.frames_lost)),
    ("sent again", |of| figure(of.resent)),
    ("95 % of the rate", |of| moment(&of.restored, of.runs, NOT_RESTORED)),
];

/// The cells that have an event and figures of it.
pub fn cells(results: &StudyResults) -> Vec<(&CellResult, &FailureFigures)> {
    let cells = results.cells.iter();
    cells.filter_map(|cell| Some((cell, cell.failure.as_ref()?))).collect()
}

/// When and where the failure was, as a sentence without its full stop.
pub fn event(of: &FailureFigures) -> String {
    let at = number::duration(of.at_seconds * 1e9);
    let back = match of.recover_seconds {
        Some(seconds) => format!(", back after {}", number::duration(seconds * 1e9)),
        None => ", not back within the run".to_owned(),
    };
    format!("{}: {} after {at}{back}", of.port, of.fault.phrase())
}

/// How to read the figures, in sentences.
pub fn note(of: &[&FailureFigures]) -> String {
    let bytes: u64 = of.iter().fold(0, |sum, of| sum.saturating_add(of.verified_bytes));
    let reordered: f64 =
        of.iter().filter_map(|of| of.frames_reordered).map(|count| count.interval.mean).sum();
    let order = match reordered > 0.0 {
        true => "",
        false => " No frame overtook another of its connection.",
    };
    format!(
        "Times are from the fault. The gap is the longest time without a received byte, of all flows \
         together and of the flow that was hit worst. Every byte arrived once and in its place: {} \
         were compared.{order}",
        number::amount(bytes as f64)
    )
}

fn figure(quantity: Option<Quantity>) -> Figure {
    let Some(quantity) = quantity else { return (ABSENT.to_owned(), None) };
    (number::plain(&quantity), number::margin(&quantity))
}

fn detection(of: &FailureFigures, detection: &Moment) -> Figure {
    match of.aggregated {
        true => moment(detection, of.runs, NOT_DETECTED),
        // nothing could take over
        false => (ABSENT.to_owned(), None),
    }
}

fn moment(moment: &Moment, runs: u32, never: &str) -> Figure {
    match moment.after {
        None => (never.to_owned(), None),
        Some(_) if moment.runs < runs => {
            let (text, _) = figure(moment.after);
            (format!("{text} in {} of {runs} runs", moment.runs), None)
        }
        after => figure(after),
    }
}

#[cfg(test)]
mod tests {
    use linkrate_study::quantity::{Interval, Unit};

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
        assert_eq!(figure(Some(3.1e6), 2), ("3.10 ms in 2 of 5 runs".to_owned(), None));
        assert_eq!(figure(Some(3.1e6), 5), ("3.10 ms".to_owned(), Some("±10 %".to_owned())));
    }
}
