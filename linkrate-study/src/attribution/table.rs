//! The table of categories.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use serde::Deserialize;

const TEXT: &str = include_str!("categories.toml");

/// One category.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Category {
    /// Its name in JSON.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Its functions by pattern, with the reason for each.
    #[serde(default)]
    pub functions: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    category: Vec<Category>,
}

/// The categories in their order, and what each pattern leads to.
#[derive(Debug, Clone, Default)]
pub struct Table {
    categories: Vec<Category>,
    whole: HashMap<String, usize>,
    /// By beginning.
    prefixes: HashMap<String, usize>,
    longest_prefix: usize,
    modules: HashMap<String, usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("categories: {0}")]
pub struct TableError(String);

impl Table {
    /// Reads a table; refuses a pattern that is malformed, stands twice, has no reason, or changes nothing.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let file: File = toml::from_str(text).map_err(|error| TableError(error.to_string()))?;
        let mut table = Self { categories: file.category, ..Self::default() };
        for (index, category) in table.categories.iter().enumerate() {
            if table.categories[..index].iter().any(|earlier| earlier.name == category.name) {
                return Err(TableError(format!("{} occurs twice", category.name)));
            }
            for (pattern, reason) in &category.functions {
                let (map, key) = match (pattern.strip_prefix("* ["), pattern.strip_suffix('*')) {
                    (Some(module), _) => (&mut table.modules, module.trim_end_matches(']')),
                    (None, Some(prefix)) => (&mut table.prefixes, prefix),
                    (None, None) => (&mut table.whole, pattern.as_str()),
                };
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                if key.is_empty() || !key.chars().all(is_name) {
                    return Err(TableError(format!("{pattern:?} is not a pattern")));
                }
                if reason.trim().is_empty() {
                    return Err(TableError(format!("{pattern:?} has no reason")));
                }
                if map.insert(key.to_owned(), index).is_some() {
                    return Err(TableError(format!("{pattern:?} occurs twice")));
                }
            }
        }
        table.longest_prefix = table.prefixes.keys().map(String::len).max().unwrap_or(0);
        table.check_each_counts()?;
        Ok(table)
    }

    /// A pattern whose names would be counted alike without it only hides what decides.
    fn check_each_counts(&self) -> Result<(), TableError> {
        let whole = self.whole.iter().map(|(name, index)| (name, name.len(), index));
        let prefixes =
            self.prefixes.iter().map(|(name, index)| (name, name.len().saturating_sub(1), index));
        for (name, longest, index) in whole.chain(prefixes) {
            if self.prefix(name, longest) == Some(*index) {
                return Err(TableError(format!("{name:?} changes nothing")));
            }
        }
        Ok(())
    }

    /// The category of the longest beginning of `name` of at most so many bytes.
    fn prefix(&self, name: &str, longest: usize) -> Option<usize> {
        let longest = longest.min(self.longest_prefix).min(name.len());
        let mut ends = (1..=longest).rev();
        ends.find_map(|end| self.prefixes.get(name.get(..end)?).copied())
    }

    /// The categories in the order of reports.
    pub fn categories(&self) -> impl Iterator<Item = &Category> {
        self.categories.iter()
    }

    /// The name of the category of a function as the kernel lists it (`f.isra.0`, `f [module]`).
    pub fn category(&self, symbol: &str) -> Option<&str> {
        let name = plain(symbol);
        let module = || symbol.split_once(" [").map(|(_, module)| module.trim_end_matches(']'));
        let index = self
            .whole
            .get(name)
            .copied()
            .or_else(|| self.prefix(name, name.len()))
            .or_else(|| self.modules.get(module()?).copied())?;
        Some(&self.categories[index].name)
    }
}

/// A function's name without its module, and without what compilers append.
pub fn plain(symbol: &str) -> &str {
    let name = symbol.split_once(' ').map_or(symbol, |(name, _)| name);
    name.split_once('.').map_or(name, |(name, _)| name)
}

/// The table that belongs to this program.
pub fn built_in() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| match Table::parse(TEXT) {
        Ok(table) => table,
        // a test reads it
        Err(error) => unreachable!("{error}"),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_line_of_the_category_table_is_used() {
        let table = Table::parse(TEXT).unwrap_or_else(|error| panic!("{error}"));
        let names: Vec<&str> = table.categories().map(|category| category.name.as_str()).collect();
        assert_eq!(names.last(), Some(&"idle"));
        for name in [
            "application",
            "system-call",
            "data-copy",
            "tcp-ip",
            "skb",
            "checksum",
            "driver",
            "adapter-driver",
            "memory",
            "scheduling",
            "locks",
            "interrupts",
            "other-programs",
            "unknown",
            "idle",
        ] {
            assert!(names.contains(&name), "{name}");
        }
        assert!(table.categories().all(|category| !category.about.is_empty()));
    }

    #[test]
    fn functions_are_found_by_name_beginning_and_module() {
        let table = built_in();
        for (symbol, category) in [
            ("tcp_ack", Some("tcp-ip")),
            ("tcp_v4_send_check", Some("checksum")),
            ("tcp_gso_segment", Some("driver")),
            ("_copy_from_iter", Some("data-copy")),
            ("_copy_from_user", Some("system-call")),
            ("rep_movs_alternative", Some("data-copy")),
            ("skb_clone", Some("skb")),
            ("skb_segment", Some("driver")),
            ("kfree_skb_reason", Some("skb")),
            ("kfree", Some("memory")),
            ("finish_task_switch.isra.0", Some("scheduling")),
            ("native_queued_spin_lock_slowpath", Some("locks")),
            ("__pv_queued_spin_lock_slowpath", Some("locks")),
            ("entry_SYSCALL_64_after_hwframe", Some("system-call")),
            ("tick_nohz_idle_exit", Some("scheduling")),
            ("pv_native_safe_halt", Some("idle")),
            ("intel_idle_irq", Some("idle")),
            ("veth_xmit [veth]", Some("driver")),
            ("some_static_helper [mlx5_core]", Some("driver")),
            ("some_static_helper [floppy]", None),
            ("zz_never_heard_of", None),
            ("", None),
        ] {
            assert_eq!(table.category(symbol), category, "{symbol}");
        }
    }

    #[test]
    fn a_wrong_line_is_refused_by_its_pattern() {
        let table = |functions: &str| {
            let head = "[[category]]\nname = \"a\"\ntitle = \"a\"\nabout = \"x\"\n";
            Table::parse(&format!("{head}[category.functions]\n{functions}"))
                .map_err(|error| error.to_string())
        };
        assert!(table("\"tcp_*\" = \"x\"\n").is_ok());
        for (functions, said) in [
            ("\"tcp_*\" = \" \"", "\"tcp_*\" has no reason"),
            ("\"tcp_*\" = \"x\"\n\"tcp_ack\" = \"x\"", "\"tcp_ack\" changes nothing"),
            ("\"tcp_*\" = \"x\"\n\"tcp_a*\" = \"x\"", "\"tcp_a\" changes nothing"),
            ("\"a_*_b\" = \"x\"", "\"a_*_b\" is not a pattern"),
            ("\"*\" = \"x\"", "\"*\" is not a pattern"),
            ("\"a\" = \"x\"\n\"a\" = \"y\"", "duplicate key"),
        ] {
            let error = table(functions).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let twice =
            format!("{TEXT}\n[[category]]\nname = \"idle\"\ntitle = \"b\"\nabout = \"x\"\n");
        assert!(Table::parse(&twice).unwrap_err().to_string().contains("idle occurs twice"));
    }

    proptest! {
        #[test]
        fn any_name_has_an_answer(symbol in "\\PC{0,40}") {
            let _ = built_in().category(&symbol);
        }
    }
}
