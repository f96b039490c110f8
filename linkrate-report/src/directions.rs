//! The directions of bidirectional cells, as a table.

use linkrate_study::quantity::Measure;
use linkrate_study::results::{CellResult, Effect, StudyResults};
use linkrate_study::verdict::FlowDirection;

use crate::number;
use crate::table::{NUMBER, Table, sentences};
use crate::words::marks;

/// The titles beside the cell's.
const TITLES: [&str; 3] = ["transmit", "receive", "share of transmit"];

/// What the table does not say by itself.
pub const NOTE: &str = "the service demand of a bidirectional cell depends on its measured ratio of transmit to receive";

/// What the effects beside it are.
pub const WITH_EQUAL_MIX: &str = "an effect at equal mix has the second cell at the first one's share of transmit, by \
                                  the service demands of the cells of one direction";

/// Why there is no effect at equal mix.
pub const WITHOUT_EQUAL_MIX: &str =
    "without the cells of each direction alone there is no effect at equal mix";

/// Every bidirectional cell.
pub fn all(results: &StudyResults) -> impl Iterator<Item = &CellResult> {
    results.cells.iter().filter(|cell| !cell.directions.is_empty())
}

/// The table; `None` without a bidirectional cell.
pub fn table(results: &StudyResults) -> Option<Table> {
    let rows = all(results).map(|cell| (cell, fields(results, cell)));
    let titles = TITLES.map(|title| (title, NUMBER));
    let note = sentences(&notes(results));
    Table::of_cells(
        ["Each direction of bidirectional cells", "each direction"],
        titles,
        rows,
        &note,
    )
}

/// The fields beside the cell's name.
fn fields(results: &StudyResults, cell: &CellResult) -> [String; 3] {
    let rate = |direction| cell.directions.iter().find(|way| way.direction == direction);
    let text = |direction| {
        let Some(way) = rate(direction) else { return number::ABSENT.to_owned() };
        let mark = marks::of_direction(results, cell, direction);
        format!("{}{mark}", number::brief_with_margin(&way.rate))
    };
    let mean = |direction| rate(direction).map_or(0.0, |way| way.rate.interval.mean);
    let (transmit, receive) = (mean(FlowDirection::Transmit), mean(FlowDirection::Receive));
    let share = match transmit + receive > 0.0 {
        true => format!("{:.1} %", transmit * 100.0 / (transmit + receive)),
        false => number::ABSENT.to_owned(),
    };
    [text(FlowDirection::Transmit), text(FlowDirection::Receive), share]
}

/// A change at equal mix, and its ends.
pub fn at_equal_mix(effect: &Effect) -> Option<(String, Option<String>)> {
    let change = number::change(&effect.mix_adjusted?);
    Some((change.mean, change.ends))
}

/// What the table of directions says of the effects, as sentences without a full stop.
pub fn notes(results: &StudyResults) -> Vec<&'static str> {
    if all(results).next().is_none() {
        return Vec::new();
    }
    let compared = |effect: &&Effect| effect.measure == Measure::ServiceDemand;
    let mut effects = results.effects.iter().filter(compared).peekable();
    let any = effects.peek().is_some();
    let equal = match effects.any(|effect| effect.mix_adjusted.is_some()) {
        true => Some(WITH_EQUAL_MIX),
        false => any.then_some(WITHOUT_EQUAL_MIX),
    };
    [NOTE].into_iter().chain(equal).collect()
}

#[cfg(test)]
mod tests {
    use linkrate_study::levels::{Level, Levels};
    use linkrate_study::quantity::{Interval, Quantity, Unit};
    use linkrate_study::results::DirectionRate;

    use super::*;
    use crate::layout::Style;
    use crate::paper::tables;
    use crate::terminal;
    use crate::unmeasured::without_runs;

    fn exactly(mean: f64) -> Interval {
        Interval { mean, low: None, high: None }
    }

    /// Two bidirectional cells without runs, which have these rates.
    fn results() -> StudyResults {
        let text = "title = \"t\"\n[workload]\ndirection = \"bidirectional\"\n[factors]\noffload = [\"none\", \"tso\"]\n";
        let mut results = without_runs(text);
        for (cell, transmit) in results.cells.iter_mut().zip([4.6e8, 5.2e8]) {
            let way = |direction, rate| DirectionRate {
                direction,
                rate: Quantity { interval: exactly(rate), unit: Unit::BitsPerSecond },
            };
            cell.directions = vec![
                way(FlowDirection::Transmit, transmit),
                way(FlowDirection::Receive, 1e9 - transmit),
            ];
        }
        let offload = |level: &str| Level::Text(level.to_owned());
        let ends = [offload("none"), offload("tso")];
        let (measure, ratio) = (Measure::ServiceDemand, exactly(0.755));
        results.effects = vec![Effect::of("offload", ends, Levels::default(), measure, ratio, 1)];
        results
    }

    #[test]
    fn each_direction_has_its_rate_and_share() {
        let results = results();
        let fields: Vec<_> = all(&results).map(|cell| fields(&results, cell)).collect();
        assert_eq!(fields[0], ["460 Mb/s", "540 Mb/s", "46.0 %"]);
        assert_eq!(fields[1], ["520 Mb/s", "480 Mb/s", "52.0 %"]);
        let text = terminal::table(&results, None, Style::default());
        assert!(text.contains("each direction") && text.contains("46.0 %"), "{text}");
    }

    #[test]
    fn an_effect_at_equal_mix_is_beside_the_raw_one() {
        let mut results = results();
        assert_eq!(notes(&results), [NOTE, WITHOUT_EQUAL_MIX]);
        let terminal = |results: &StudyResults| terminal::table(results, None, Style::default());
        assert!(!terminal(&results).contains("    at equal mix"));
        results.effects[0].mix_adjusted = Some(exactly(0.8));
        assert_eq!(notes(&results), [NOTE, WITH_EQUAL_MIX]);
        let text = terminal(&results);
        let line = text.lines().find(|line| line.contains("  at equal mix")).expect("a row");
        assert!(line.contains("−20 %"), "{text}");
        let beside = |results: &StudyResults| -> Vec<(String, String)> {
            let table = tables::effects(results).expect("a table");
            let row = table.rows.into_iter().find(|row| row.group.is_empty()).expect("a row");
            let fields = row.fields.into_iter().map(|field| field.text);
            table.columns.into_iter().map(|column| column.title).zip(fields).collect()
        };
        let field = |title: &str, text: &str| (title.to_owned(), text.to_owned());
        let [size, mix] = [field("Size", "−24 %"), field("At equal mix", "−20 %")];
        assert!(beside(&results).contains(&size) && beside(&results).contains(&mix));
        // a claimed one is below it without the driver too
        assert!(!beside(&results).iter().any(|(title, _)| title == "Without driver"));
        results.effects[0].without_driver = Some(exactly(0.5));
        // the note says so too, in the middle of a sentence
        let row = format!("    {}  ", crate::demand::EFFECT);
        assert!(!terminal(&results).contains(&row), "not claimed");
        results.effects[0].significant = true;
        let text = terminal(&results);
        let line = text.lines().find(|line| line.contains(&row)).expect("a row");
        assert!(line.contains("−50 %"), "{text}");
        assert!(beside(&results).contains(&field("Without driver", "−50 %")));
        assert!(crate::demand::notes(&results).contains(&crate::demand::WITHOUT_DRIVER));
        results.effects[0].without_driver_unknown = true;
        let text = terminal(&results);
        let line = text.lines().find(|line| line.contains(&row)).expect("a row");
        assert!(line.contains("not known") && !line.contains("−50 %"), "{text}");
        assert!(beside(&results).contains(&field("Without driver", "not known")));
        // a study of one direction says nothing of mixes
        results.cells.iter_mut().for_each(|cell| cell.directions.clear());
        assert_eq!(notes(&results), [""; 0]);
    }
}
