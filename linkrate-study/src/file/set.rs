//! Settings of the command line in the text of a study file.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// Keys of `[method]`; all others are those of `[workload]`.
const OF_METHOD: [&str; 4] = ["run", "warm-up", "idle", "purpose"];

/// The text with `KEY = "VALUE"` in `[workload]`, or in `[method]` for keys of the method, in place of what the
/// file has there. A text that is no TOML stays as it is: its reader says why.
pub fn with_setting(text: &str, key: &str, value: &str) -> String {
    let table = if OF_METHOD.contains(&key) { "method" } else { "workload" };
    let value = toml::Value::from(value).to_string();
    let Ok(document) = DeTable::parse(text) else { return text.to_owned() };
    let found = document.get_ref().iter().find(|(name, _)| name.get_ref() == table);
    let (at, new): (Range<usize>, String) = match found.map(|(name, of)| (name, of.get_ref())) {
        Some((name, DeValue::Table(entries))) => {
            match entries.iter().find(|(name, _)| name.get_ref() == key) {
                Some((_, old)) => (old.span(), value),
                None => {
                    let header = name.span().end;
                    let line = text[header..].find('\n').map_or(text.len(), |end| header + end);
                    (line..line, format!("\n{key} = {value}"))
                }
            }
        }
        _ => (text.len()..text.len(), format!("\n[{table}]\n{key} = {value}\n")),
    };
    format!("{}{new}{}", &text[..at.start], &text[at.end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_takes_the_place_of_another_or_gets_one_of_its_own() {
        let text =
            "title = \"t\"\n[factors]\nmtu = [1500]\n[workload] # all\nmessage = \"1 KiB\"\n";
        let set = |key, value| with_setting(text, key, value);
        assert_eq!(set("message", "8K"), text.replace("1 KiB", "8K"));
        assert_eq!(set("socket", "auto"), text.replace("# all\n", "# all\nsocket = \"auto\"\n"));
        assert_eq!(set("run", "5 s"), format!("{text}\n[method]\nrun = \"5 s\"\n"));
        assert_eq!(with_setting("no toml", "run", "5 s"), "no toml");
        // whatever the value is, it stays one value
        let quoted: toml::Table = with_setting("[method]", "run", "a\"\n[x]").parse().unwrap();
        assert_eq!(quoted["method"]["run"].as_str(), Some("a\"\n[x]"));
        assert_eq!(quoted.len(), 1);
    }
}
