//! What a study file may set: an example, and every setting with its values.

use std::fmt::Write as _;

use linkrate_study::keys::KEYS;

use super::NARROWEST;
use crate::layout::filled;

/// A study file with a section of each kind.
const EXAMPLE: &str = r#"title = "Does TCP_NODELAY cost CPU time?"

[testbed]
adapter = "gigabit"         # linkrate models lists them

[factors]                   # every combination of these levels is a cell
nodelay = ["off", "on"]

[workload]                  # one value for all cells
message = "1 KiB"

[method]
precision = "5 %"
budget = "2 min"
"#;

/// Every setting, below an example.
pub fn settings(width: Option<u16>) -> String {
    let widest = KEYS.iter().map(|key| key.name.len()).max().unwrap_or(0);
    let before = widest + 2;
    let room = width.map_or(usize::MAX, usize::from).saturating_sub(before).max(NARROWEST);
    let mut text = format!(
        "A study file; linkrate show FILE checks it, linkrate run FILE runs it:\n\n{EXAMPLE}\n\
         Settings of [factors] and [workload], of --only and --set:\n\n"
    );
    for key in KEYS {
        let meaning = filled(&format!("{}: {}", key.help, key.values.expected()), room);
        let meaning = meaning.join(&format!("\n{:before$}", ""));
        // writing to a String does not fail
        let _ = writeln!(text, "{:<widest$}  {meaning}", key.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_study() {
        let study = linkrate_study::file::parse("example", "example.toml", EXAMPLE);
        assert_eq!(study.unwrap_or_else(|errors| panic!("{errors}")).cells.len(), 2);
    }

    #[test]
    fn every_setting_has_its_values_at_any_width() {
        for width in [Some(40), Some(80), None] {
            let text = settings(width);
            for key in KEYS {
                assert!(
                    text.lines().any(|line| line.starts_with(&format!("{}  ", key.name))),
                    "{}",
                    key.name
                );
            }
        }
        assert!(settings(Some(80)).lines().all(|line| line.chars().count() <= 80));
    }
}
