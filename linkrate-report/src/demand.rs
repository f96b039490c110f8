//! The parts of service demands, as rows that the terminal and the white paper share.

use linkrate_study::quantity::{Interval, Quantity};
use linkrate_study::results::{CellResult, StudyResults, TapPart};

use crate::number;

/// The titles beside the cell's.
pub const TITLES: [&str; 4] =
    ["service demand", "application and stack", "driver", "of it at the TAP"];

/// What the table does not say by itself.
pub const NOTE: &str = "in brackets: the share of the service demand; at the TAP: the driver's system calls and copies, which a real \
                        adapter does not cost its host, by the prices of this lab with their quartiles";

/// Where the work of the stack in the driver's threads is, as in a NAPI poll.
const DIVIDED: &str =
    "the stack's work in the driver's threads, such as receive processing, is the stack's part";
const UNDIVIDED: &str = "the driver's part has the stack's work in the driver's threads, such as receive processing: runs of earlier versions do \
                         not tell it";

/// Why cells have no parts.
const NO_DRIVER: &str = "service demand has no parts: no emulated driver ran, so there is no work of an \
                         emulation in it";
const SHARED: &str =
    "service demand has no parts: the SUT shares its CPUs with clients and devices";
const NO_PRICES: &str =
    "the part at the TAP was not measured: these runs have no prices of calls to a TAP";

/// What effects without the driver are.
pub const WITHOUT_DRIVER: &str = "a real adapter has another driver: a change in service demand carries over to it as far as the \
                                  change without the driver is the same";

/// The title of an effect without the driver, below the effect.
pub const EFFECT: &str = "without the driver";

/// Every cell with parts.
pub fn all(results: &StudyResults) -> impl Iterator<Item = &CellResult> {
    results.cells.iter().filter(|cell| cell.service_demand_parts.is_some())
}

/// The fields beside the cell's name.
pub fn fields(cell: &CellResult) -> Option<[String; 4]> {
    let (whole, parts) = (cell.service_demand?, cell.service_demand_parts?);
    let figure = |part: f64| {
        let interval = Interval { mean: part, low: None, high: None };
        number::mean_without_unit(&Quantity { interval, ..whole })
    };
    let percent = |part: f64| format!("{:.0}", part * 100.0 / whole.interval.mean);
    let of_whole = |part: f64| format!("{} ({} %)", figure(part), percent(part));
    let with_interval = |interval: Interval| {
        let part = Quantity { interval, ..whole };
        let margin = number::margin(&part).map_or_else(String::new, |margin| format!(" {margin}"));
        let mean = number::mean_without_unit(&part);
        format!("{mean}{margin} ({} %)", percent(interval.mean))
    };
    let tap = |tap: TapPart| match (percent(tap.low), percent(tap.high)) {
        (low, high) if low == high => of_whole(tap.mean),
        (low, high) => format!("{} ({low} to {high} %)", figure(tap.mean)),
    };
    Some([
        number::brief_mean(&whole),
        with_interval(parts.intervals.application_and_stack),
        with_interval(parts.intervals.driver),
        parts.tap.map_or_else(|| "not measured".to_owned(), tap),
    ])
}

/// What a reader must know of the parts, or why there are none; as sentences without a full stop.
pub fn notes(results: &StudyResults) -> Vec<&'static str> {
    let demanding = || results.cells.iter().filter(|cell| cell.service_demand.is_some());
    let undivided = || demanding().filter(|cell| cell.service_demand_parts.is_none());
    let mut notes = Vec::new();
    if all(results).next().is_some() {
        notes.push(NOTE);
        let divided = |cell: &CellResult| {
            cell.service_demand_parts.is_some_and(|parts| parts.stack_in_driver.is_some())
        };
        notes.push(if all(results).all(divided) { DIVIDED } else { UNDIVIDED });
    }
    if results.effects.iter().any(|effect| effect.without_driver.is_some()) {
        notes.push(WITHOUT_DRIVER);
    }
    if undivided().any(|cell| cell.evidence.adapter.is_none()) {
        notes.push(NO_DRIVER);
    }
    if undivided().any(|cell| cell.evidence.adapter.is_some() && cell.has_shared_cpus()) {
        notes.push(SHARED);
    }
    let unpriced =
        |cell: &CellResult| cell.service_demand_parts.is_some_and(|parts| parts.tap.is_none());
    if demanding().any(unpriced) {
        notes.push(NO_PRICES);
    }
    notes
}

#[cfg(test)]
mod tests {
    use linkrate_study::quantity::Unit;
    use linkrate_study::results::{AdapterFigures, DemandParts, PartIntervals};

    use super::*;
    use crate::layout::Style;
    use crate::paper::tables;
    use crate::terminal;
    use crate::unmeasured::without_runs;

    /// One cell of 2 µs/KB with these parts, on a virtual adapter or not.
    fn results(parts: Option<DemandParts>, on_adapter: bool) -> StudyResults {
        let mut results = without_runs("title = \"t\"\n[factors]\noffload = [\"none\", \"tso\"]\n");
        results.cells.truncate(1);
        let cell = &mut results.cells[0];
        let interval = Interval { mean: 2.0, low: Some(1.9), high: Some(2.1) };
        cell.service_demand = Some(Quantity { interval, unit: Unit::MicrosecondsPerKb });
        cell.service_demand_parts = parts;
        cell.evidence.adapter = on_adapter.then(AdapterFigures::default);
        results
    }

    fn parts(tap: Option<TapPart>) -> DemandParts {
        let around = |mean: f64| Interval { mean, low: Some(mean * 0.97), high: Some(mean * 1.03) };
        let intervals = PartIntervals { application_and_stack: around(0.7), driver: around(1.3) };
        let stack_in_driver = tap.map(|_| 0.2);
        DemandParts { application_and_stack: 0.7, driver: 1.3, stack_in_driver, tap, intervals }
    }

    #[test]
    fn each_part_has_its_share() {
        let tap = TapPart { mean: 0.42, low: 0.4, high: 0.45 };
        let results = results(Some(parts(Some(tap))), true);
        let fields = fields(&results.cells[0]).unwrap();
        assert_eq!(
            fields,
            ["2.00 µs/KB", "0.700 ±3.0 % (35 %)", "1.30 ±3.0 % (65 %)", "0.420 (20 to 22 %)"]
        );
        assert_eq!(notes(&results), [NOTE, DIVIDED]);
        let text = terminal::table(&results, Some(120), Style { color: false });
        assert!(text.contains("1.30 ±3.0 % (65 %)") && text.contains("is the stack's"), "{text}");
        let table = tables::demand(&results).unwrap();
        assert_eq!(table.rows[0].fields[4].text, fields[3]);
    }

    #[test]
    fn what_has_no_parts_says_why_and_is_never_zero() {
        for (parts, on_adapter, shared, reason) in [
            (None, false, false, NO_DRIVER),
            (None, false, true, NO_DRIVER),
            (None, true, true, SHARED),
            (Some(parts(None)), true, false, NO_PRICES),
        ] {
            let mut results = results(parts, on_adapter);
            results.cells[0].shared_cpus = Some(shared);
            assert_eq!(notes(&results).last(), Some(&reason));
            assert_eq!(notes(&results).contains(&UNDIVIDED), reason == NO_PRICES);
            let text = terminal::table(&results, Some(400), Style { color: false });
            assert!(text.contains(reason), "{text}");
            assert!(!text.contains(" 0 %"), "{text}");
        }
        assert_eq!(fields(&results(Some(parts(None)), true).cells[0]).unwrap()[3], "not measured");
    }
}
