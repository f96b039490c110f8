//! `[quick]`: the cells of a quick run, and how long its runs are.

use std::time::Duration;

use linkrate_model::units::format_duration;
use toml::de::DeValue;

use super::cells::Cells;
use super::effects::known_factor;
use super::published::level_of;
use super::reader::{Reader, Table};
use crate::levels::Level;
use crate::quick::{QUICK_WINDOW, TooLong};
use crate::study::{Method, Quick};

/// The quick form; `None` without the section and after an error.
pub(super) fn read(
    reader: &mut Reader<'_>,
    table: Option<Table<'_>>,
    cells: &Cells,
    method: &Method,
) -> Option<Quick> {
    let mut table = table?;
    let section_at = table.at;
    let at = table.table(reader, "at");
    if reader.has_errors_about("quick.at") {
        return None;
    }
    let at_place = at.as_ref().map_or(section_at, |table| table.at);
    let range = (Duration::from_millis(100), Duration::from_secs(10));
    let interval = table.take("run");
    let warm_up = table.take("warm-up");
    table.finish(reader);
    let run = match &interval {
        Some(entry) => reader.duration(entry, range, false)?,
        None => method.run.min(QUICK_WINDOW),
    };
    let warm_up = match &warm_up {
        Some(entry) => reader.duration(entry, (Duration::ZERO, range.1), true)?,
        None => method.warm_up,
    };
    let wanted = at.map_or_else(|| Some(Vec::new()), |table| levels(reader, table, cells))?;
    let all = (0u32..).zip(&cells.cells).filter(|(_, cell)| {
        // a factor that a part does not vary does not restrict that part
        let matches = |(factor, levels): &(String, Vec<Level>)| {
            cell.levels.get(factor).is_none_or(|level| levels.contains(level))
        };
        wanted.iter().all(matches)
    });
    let chosen: Vec<u32> = all.map(|(index, _)| index).collect();
    if chosen.is_empty() {
        let hint = "name levels that occur together".to_owned();
        reader.error(at_place, "quick.at", "no cell has all of these levels".into(), Some(hint));
        return None;
    }
    let quick = Quick { cells: chosen, run, warm_up };
    if let Err(error) = quick.blocks(method, &cells.cells) {
        let runs = format_duration(run + warm_up);
        let message = format!("{error} (runs of {runs} with warm-up)");
        reader.error(at_place, "quick", message, Some(TooLong::HINT.to_owned()));
        return None;
    }
    Some(quick)
}

/// The levels of `at`, one or several of each factor; `None` after an error.
fn levels(
    reader: &mut Reader<'_>,
    table: Table<'_>,
    cells: &Cells,
) -> Option<Vec<(String, Vec<Level>)>> {
    let mut found = Vec::new();
    let mut sound = true;
    for entry in &table.entries {
        if reader.is_full() {
            return None;
        }
        if !known_factor(reader, entry, entry.key_at(), &entry.name, &cells.factors) {
            sound = false;
            continue;
        }
        let one = |reader: &mut Reader<'_>, value: &DeValue<'_>, at: usize| {
            level_of(reader, (&entry.path(), at), value, &entry.name, cells)
        };
        let levels: Option<Vec<Level>> = match entry.value() {
            DeValue::Array(array) if !array.is_empty() => {
                array.iter().map(|value| one(reader, value.get_ref(), value.span().start)).collect()
            }
            DeValue::Array(_) => {
                let hint = "name at least one level, or leave the factor out";
                reader.refuse(entry, "an empty list of levels".to_owned(), hint);
                None
            }
            value => one(reader, value, entry.value_at()).map(|level| vec![level]),
        };
        match levels {
            Some(levels) => found.push((entry.name.clone(), levels)),
            None => sound = false,
        }
    }
    sound.then_some(found)
}

#[cfg(test)]
mod tests {
    use crate::file::parse;

    const FACTORS: &str = "title = \"t\"\n[factors]\noffload = [\"none\", \"gso\", \"tso\"]\n\
                           message = [\"1 KiB\", \"64 KiB\", \"1 MiB\"]\n";

    fn error(quick: &str) -> String {
        let text = format!("{FACTORS}[quick]\n{quick}\n");
        parse("t", "t.toml", &text)
            .map(|study| panic!("{:?}", study.quick))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn levels_are_those_of_the_factors_however_they_are_written() {
        let text =
            format!("{FACTORS}[quick]\nat = {{ message = [1024, \"64KiB\"] }}\nrun = \"500 ms\"\n");
        let quick = parse("t", "t.toml", &text).unwrap().quick.unwrap();
        assert_eq!(quick.cells, [0, 1, 3, 4, 6, 7]);
        assert_eq!((quick.run.as_millis(), quick.warm_up.as_millis()), (500, 300));
    }

    #[test]
    fn errors_name_the_place_and_the_remedy() {
        for (quick, expected) in [
            (
                "at = { ofload = \"tso\" }",
                "t.toml:6:8: quick.at.ofload: \"ofload\" is not a factor of this study; did you mean \
                 \"offload\"?",
            ),
            (
                "at = { offload = [\"none\", \"tos\"] }",
                "t.toml:6:27: quick.at.offload: \"tos\" is not a level of offload; did you mean \"tso\"?",
            ),
            (
                "at = { offload = [] }",
                "t.toml:6:18: quick.at.offload: an empty list of levels; name at least one level, or \
                 leave the factor out",
            ),
            (
                "at = \"tso\"",
                "t.toml:6:1: quick.at: \"tso\" is not a table; expected for example { direction = \
                 \"transmit\" }",
            ),
            (
                "at = { offload = \"tso\" }\nrun = \"1 h\"",
                "t.toml:7:7: quick.run: \"1 h\" is out of range; expected a time from 100 ms to 10 s",
            ),
            (
                "at = { offload = \"tso\" }\nblocks = 7",
                "t.toml:7:1: quick: unknown key \"blocks\"; expected one of at, run, warm-up",
            ),
            (
                "run = \"1 s\"",
                "t.toml:5:2: quick: 5 blocks of 9 cells take 1 min 19 s, expected at most 50 s (runs \
                 of 1.3 s with warm-up); name fewer cells in at, or shorten run or warm-up",
            ),
        ] {
            assert_eq!(error(quick), expected);
        }
    }
}
