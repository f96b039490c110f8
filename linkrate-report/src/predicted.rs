//! The shares that balancing gives the ports of an aggregate, beside the measured ones, as a table.

use linkrate_study::labels;
use linkrate_study::quantity::Quantity;
use linkrate_study::results::{
    CellResult, Predicted, PredictedPort, PublishedResult, StudyResults,
};
use linkrate_study::verdict::FlowDirection;

use crate::number::{self, ABSENT};
use crate::table::{Kind, NUMBERS, STEP, STEPS, Table, WHOLE, sentences};
use crate::words;

/// What the columns of a prediction are called, after the cell.
const TITLES: [(&str, Kind); 5] = [
    ("chosen", STEP),
    ("flows", NUMBERS),
    ("predicted", STEPS),
    ("measured", NUMBERS),
    ("limit", WHOLE),
];

/// What a reader must know of them.
pub const NOTE: &str = "from the fullest to the emptiest: flows and shares that the hash predicts, \
                        and measured shares of the octets; limit: each port with a flow at its \
                        limit. Transmit: the host chooses; receive: the switch";

/// The predictions of all cells, each with its cell.
pub fn all(results: &StudyResults) -> impl Iterator<Item = (&CellResult, &Predicted)> {
    results.cells.iter().flat_map(|cell| cell.predicted.iter().map(move |one| (cell, one)))
}

/// The table; `None` without an aggregate.
pub fn table(results: &StudyResults) -> Option<Table> {
    let rows = all(results).map(|(cell, one)| (cell, fields(one)));
    let reasons = reasons(results);
    let notes: Vec<&str> = [NOTE].into_iter().chain(reasons.iter().map(String::as_str)).collect();
    let note = sentences(&notes);
    Table::of_cells(["Ports of the aggregate", "ports of the aggregate"], TITLES, rows, &note)
}

/// The fields of one prediction, as [`TITLES`] names them.
fn fields(predicted: &Predicted) -> [String; 5] {
    let who = match predicted.direction {
        FlowDirection::Transmit => "transmit",
        FlowDirection::Receive => "receive",
    };
    let of = |pick: fn(&PredictedPort) -> Option<f64>| -> Option<Vec<f64>> {
        predicted.ports.iter().map(pick).collect()
    };
    let shares = match &predicted.unpredictable {
        Some(_) => "not predicted".to_owned(),
        None => or_absent(of(|port| port.share_percent).map(|shares| percents(&shares))),
    };
    [
        format!("{who}: {}", predicted.balance),
        or_absent(of(|port| port.flows).map(|flows| repeated(&flows, 1))),
        shares,
        or_absent(of(|port| port.measured_percent).map(|shares| percents(&shares))),
        or_absent(predicted.limit.as_ref().map(number::mean)),
    ]
}

/// Why balancings are not predicted, each once: `round-robin is not predicted: each frame takes the
/// next port`; and what a balancing that reorders flows did.
pub fn reasons(results: &StudyResults) -> Vec<String> {
    let unpredictable = all(results).filter_map(|(_, predicted)| {
        let reason = predicted.unpredictable.as_ref()?;
        Some(format!("{} is not predicted: {reason}", predicted.balance))
    });
    let mut reasons = words::each_once(unpredictable);
    let counted = results.cells.iter().filter(|cell| cell.failure.is_none()).filter_map(|cell| {
        let count = cell.evidence.adapter.as_ref()?.frames_overtaken?;
        Some(format!("{}: {}", labels::cell(&cell.levels), number::significant(count, 3)))
    });
    let overtaken: Vec<String> = counted.collect();
    if !overtaken.is_empty() {
        let of = overtaken.join("; ");
        reasons.push(format!("frames that later ones of their connection overtook, per run: {of}"));
    }
    reasons
}

/// A published figure and the measured one in per cent of their own limits, with the interval; `None`
/// where there is no limit.
pub fn of_limits(published: &PublishedResult) -> Option<[String; 3]> {
    let measured = published.measured_percent_of_limit;
    let measured = measured
        .map(|interval| Quantity { interval, unit: linkrate_study::quantity::Unit::Percent });
    Some([
        percent(published.published_percent_of_limit?),
        or_absent(measured.map(|measured| percent(measured.interval.mean))),
        or_absent(measured.as_ref().and_then(number::ends)),
    ])
}

fn or_absent(text: Option<String>) -> String {
    text.unwrap_or_else(|| ABSENT.to_owned())
}

fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

/// `4 × 25 %`, `62, 3 × 12 %`.
pub fn percents(values: &[f64]) -> String {
    format!("{} %", repeated(values, 0))
}

/// Figures in sequence with at most so many decimals, equal ones together: `4 × 2`, `5, 3 × 1`. Halves
/// are exact, or eight ports would have 96 %.
fn repeated(values: &[f64], decimals: usize) -> String {
    let mut groups: Vec<(String, usize)> = Vec::new();
    for value in values {
        let decimals = match value.fract() {
            0.0 => 0,
            0.5 => 1,
            _ => decimals,
        };
        let text = format!("{value:.decimals$}");
        match groups.last_mut() {
            Some((last, count)) if *last == text => *count += 1,
            _ => groups.push((text, 1)),
        }
    }
    let group = |(text, count): &(String, usize)| match count {
        1 => text.clone(),
        _ => format!("{count} × {text}"),
    };
    groups.iter().map(group).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use linkrate_study::quantity::{Interval, Unit};

    use super::*;

    fn predicted(shares: &[f64]) -> Predicted {
        let port = |share: &f64| PredictedPort {
            flows: Some(share / 12.5),
            share_percent: Some(*share),
            measured_percent: Some(100.0 / shares.len() as f64),
        };
        Predicted {
            direction: FlowDirection::Transmit,
            balance: "port".to_owned(),
            ports: shares.iter().map(port).collect(),
            limit: Some(Quantity {
                interval: Interval { mean: 376.6e6, low: None, high: None },
                unit: Unit::BitsPerSecond,
            }),
            unpredictable: None,
        }
    }

    #[test]
    fn equal_ports_are_one_figure() {
        assert_eq!(
            fields(&predicted(&[25.0; 4])),
            ["transmit: port", "4 × 2", "4 × 25 %", "4 × 25 %", "377 Mb/s"]
        );
        let uneven = fields(&predicted(&[62.5, 37.5, 0.0, 0.0]));
        assert_eq!(uneven[1..3], ["5, 3, 2 × 0", "62.5, 37.5, 2 × 0 %"]);
        assert_eq!(fields(&predicted(&[12.5; 8]))[2], "8 × 12.5 %");
    }

    #[test]
    fn where_nothing_is_predicted_the_reason_stands() {
        let mut robin = predicted(&[]);
        (robin.balance, robin.limit) = ("round-robin".to_owned(), None);
        robin.unpredictable = Some("each frame takes the next port".to_owned());
        let port = PredictedPort { flows: None, share_percent: None, measured_percent: Some(50.0) };
        robin.ports = vec![port.clone(), port];
        let text = fields(&robin);
        assert_eq!(text[1..3], ["–", "not predicted"]);
        assert_eq!(text[3..], ["2 × 50 %", "–"]);
    }
}
