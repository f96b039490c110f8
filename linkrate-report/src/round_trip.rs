//! The parts of the latency of transactions, as a table.

use linkrate_study::results::figures::RoundTripParts;
use linkrate_study::results::{CellResult, StudyResults};
use linkrate_study::verdict::UNEXPLAINED_PERCENT;

use crate::number;
use crate::table::{NUMBER, Table, sentences};

/// The titles beside the cell's.
const TITLES: [&str; 7] = ["mean", "interrupts", "device", "wire", "SUT", "clients", "rest"];

/// What the table does not say by itself.
pub fn note() -> String {
    format!(
        "latency by its parts. Interrupts: the wait by the rules of moderation at both ends; device: how late \
         interrupts came; SUT and clients: CPU time for each transaction. The rest is unexplained; the round \
         trip is a bound only if the rest is at most {UNEXPLAINED_PERCENT:.0} %"
    )
}

/// Every cell with parts.
pub fn all(results: &StudyResults) -> impl Iterator<Item = (&CellResult, &RoundTripParts)> {
    results.cells.iter().filter_map(|cell| Some((cell, cell.round_trip.as_ref()?)))
}

/// The table; `None` without transactions.
pub fn table(results: &StudyResults) -> Option<Table> {
    let rows = all(results).map(|(cell, parts)| (cell, fields(parts)));
    let titles = TITLES.map(|title| (title, NUMBER));
    Table::of_cells(["Parts of the latency", "latency"], titles, rows, &sentences(&[&note()]))
}

/// The fields beside the cell's name.
fn fields(parts: &RoundTripParts) -> [String; 7] {
    let time = |us: Option<f64>| match us {
        Some(us) => number::duration(us * 1000.0),
        None => "not measured".to_owned(),
    };
    let left = match parts.unexplained_us < 0.0 {
        true => format!("−{}", number::duration(-parts.unexplained_us * 1000.0)),
        false => number::duration(parts.unexplained_us * 1000.0),
    };
    [
        time(Some(parts.latency_us)),
        time(parts.moderation_us),
        time(parts.device_us),
        time(parts.wire_us),
        time(Some(parts.sut_us)),
        time(parts.clients_us),
        left,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Style;
    use crate::terminal;
    use crate::unmeasured::without_runs;

    #[test]
    fn each_part_of_a_latency_has_a_column() {
        let text = "title = \"t\"\n[workload]\nkind = \"request-response\"\n[factors]\n\
                    connections = [1, 8]\n";
        let mut results = without_runs(text);
        results.cells.truncate(1);
        assert_eq!(table(&results), None);
        results.cells[0].round_trip = Some(RoundTripParts {
            latency_us: 500.25,
            moderation_us: Some(431.0),
            device_us: None,
            wire_us: Some(3.2),
            sut_us: 33.0,
            clients_us: Some(40.0),
            unexplained_us: -6.95,
        });
        let parts = results.cells[0].round_trip.unwrap();
        assert!(note().ends_with("the rest is at most 25 %"), "{}", note());
        let expected =
            ["500 µs", "431 µs", "not measured", "3.20 µs", "33.0 µs", "40.0 µs", "−6.95 µs"];
        assert_eq!(fields(&parts), expected);
        let text = terminal::table(&results, Some(130), Style { color: false });
        assert!(text.contains("interrupts") && text.contains("−6.95 µs"), "{text}");
        let table = table(&results).unwrap();
        assert_eq!(table.rows[0].fields[2].text, "431 µs");
    }
}
