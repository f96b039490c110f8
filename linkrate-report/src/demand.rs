//! The parts of service demands, as a table.

use linkrate_study::results::{CellResult, Effect, StudyResults};

use crate::number;
use crate::table::{NUMBERS, Table, sentences};
use crate::words::marks;

/// The titles beside the cell's.
const TITLES: [&str; 7] = [
    "service demand",
    "application",
    "driver",
    "NAPI",
    "interrupts",
    "idle loop",
    "not attributed",
];

/// What the table does not say by itself.
pub const NOTE: &str = "shares of the time on the CPU by what ran; the application with what the stack does in its calls; \
                        interrupts with softirqs, other threads of the kernel and linkrate's meters; idle loop: the kernel's \
                        way out of idle; what is not attributed widens the intervals";

/// Why cells have no parts.
const SHARED: &str =
    "service demand has no parts: the SUT shares its CPUs with clients and devices";
const NOT_TRACED: &str =
    "service demand has no parts: what ran on the SUT's CPUs was not traced, which takes root";

/// What effects without the driver are.
pub const WITHOUT_DRIVER: &str = "a real adapter has another driver: a change in service demand carries over to it as far as the \
                                  change without the driver is the same";

/// The title of an effect without the driver, below the effect.
pub const EFFECT: &str = "without the driver";

/// A change without the driver, and its ends.
pub fn without_driver(effect: &Effect) -> Option<(String, Option<String>)> {
    let change = number::change(&effect.without_driver?);
    Some(match effect.without_driver_unknown {
        true => ("not known".to_owned(), change.ends),
        false => (change.mean, change.ends),
    })
}

/// Every cell with parts.
pub fn all(results: &StudyResults) -> impl Iterator<Item = &CellResult> {
    results.cells.iter().filter(|cell| cell.service_demand_parts.is_some())
}

/// The table; `None` where no cell has parts.
pub fn table(results: &StudyResults) -> Option<Table> {
    let rows = all(results).filter_map(|cell| Some((cell, fields(results, cell)?)));
    let titles = TITLES.map(|title| (title, NUMBERS));
    let mut notes: Vec<String> = notes(results).into_iter().map(str::to_owned).collect();
    if all(results).any(|cell| !marks::of_cell(results, cell).is_empty()) {
        notes.push(format!("{} {}", marks::HOST_LIMITED.trim(), marks::OF_THE_HOST));
    }
    let note = sentences(&notes.iter().map(String::as_str).collect::<Vec<_>>());
    Table::of_cells(["Parts of the service demand", "parts of service demand"], titles, rows, &note)
}

/// The fields beside the cell's name.
fn fields(results: &StudyResults, cell: &CellResult) -> Option<[String; 7]> {
    let (whole, parts) = (cell.service_demand?, cell.service_demand_parts?);
    let percent = |part: f64| format!("{:.0}", part * 100.0 / whole.interval.mean);
    let field = |part: f64| format!("{} %", percent(part));
    let between = [parts.softirqs, parts.interrupts, parts.kernel, parts.linkrate];
    Some([
        number::brief_mean(&whole) + marks::of_cell(results, cell),
        field(parts.application.mean),
        parts.driver.map_or_else(|| number::ABSENT.to_owned(), |driver| field(driver.mean)),
        match parts.receives_in_driver {
            true => "in driver".to_owned(),
            false => field(parts.napi.mean),
        },
        field(between.iter().map(|part| part.mean).sum()),
        field(parts.idle_loop.mean),
        field(parts.not_attributed),
    ])
}

/// What a reader must know of the parts, or why there are none; as sentences without a full stop.
pub fn notes(results: &StudyResults) -> Vec<&'static str> {
    let demanding = || results.cells.iter().filter(|cell| cell.service_demand.is_some());
    let whole = || demanding().filter(|cell| cell.service_demand_parts.is_none());
    let mut notes = Vec::new();
    if all(results).next().is_some() {
        notes.push(NOTE);
    }
    if results.effects.iter().any(|effect| effect.without_driver.is_some()) {
        notes.push(WITHOUT_DRIVER);
    }
    if whole().any(CellResult::has_shared_cpus) {
        notes.push(SHARED);
    }
    if whole().any(|cell| !cell.has_shared_cpus()) {
        notes.push(NOT_TRACED);
    }
    notes
}

#[cfg(test)]
mod tests {
    use linkrate_study::quantity::{Interval, Quantity, Unit};
    use linkrate_study::results::DemandParts;

    use super::*;
    use crate::layout::Style;
    use crate::terminal;
    use crate::unmeasured::without_runs;

    /// One cell of 2 µs/KB with these parts.
    fn results(parts: Option<DemandParts>) -> StudyResults {
        let mut results = without_runs("title = \"t\"\n[factors]\noffload = [\"none\", \"tso\"]\n");
        results.cells.truncate(1);
        let cell = &mut results.cells[0];
        let interval = Interval { mean: 2.0, low: Some(1.9), high: Some(2.1) };
        cell.service_demand = Some(Quantity { interval, unit: Unit::MicrosecondsPerKb });
        cell.service_demand_parts = parts;
        results
    }

    fn parts(driver: Option<f64>) -> DemandParts {
        let part = |mean: f64| Interval { mean, low: Some(mean * 0.97), high: Some(mean * 1.03) };
        DemandParts {
            application: part(0.7),
            driver: driver.map(part),
            receives_in_driver: false,
            napi: part(0.5),
            softirqs: part(0.02),
            interrupts: part(0.01),
            idle_loop: part(0.06),
            kernel: part(0.0),
            linkrate: part(0.01),
            not_attributed: 0.04,
        }
    }

    #[test]
    fn each_part_has_its_share() {
        let results = results(Some(parts(Some(0.8))));
        let fields = fields(&results, &results.cells[0]).unwrap();
        let expected = ["2.00 µs/KB", "35 %", "40 %", "25 %", "2 %", "3 %", "2 %"];
        assert_eq!(fields, expected);
        assert_eq!(notes(&results), [NOTE]);
        let text = terminal::table(&results, Some(120), Style { color: false });
        assert!(text.contains(" 40 %") && text.contains("widens"), "{text}");
        let table = table(&results).unwrap();
        assert_eq!(table.rows[0].fields[3].text, fields[2]);
    }

    #[test]
    fn receive_processing_in_the_driver_is_no_zero() {
        let parts = DemandParts { receives_in_driver: true, ..parts(Some(0.8)) };
        let results = results(Some(parts));
        let fields = fields(&results, &results.cells[0]).unwrap();
        assert_eq!(fields[2..4], ["40 %", "in driver"]);
    }

    #[test]
    fn what_has_no_parts_says_why_and_is_never_zero() {
        for (shared, reason) in [(false, NOT_TRACED), (true, SHARED)] {
            let mut results = results(None);
            results.cells[0].shared_cpus = Some(shared);
            assert_eq!(notes(&results), [reason]);
            let text = terminal::table(&results, Some(400), Style { color: false });
            assert!(text.contains(reason), "{text}");
            assert!(!text.contains(" 0 %"), "{text}");
        }
        let results = results(Some(parts(None)));
        let fields = fields(&results, &results.cells[0]).unwrap();
        assert_eq!(fields[2], number::ABSENT);
    }
}
