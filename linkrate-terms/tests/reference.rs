//! The book's page about knobs against the declaration.

use std::fs;
use std::path::{Path, PathBuf};

use linkrate_terms::knobs::{AggregateRequest, AtmRequest, Change, Ends, KNOBS, Knob};
use linkrate_terms::{AggregateKnobs, AtmKnobs, InterfaceKnobs, PortKnobs};

fn book(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src").join(page)
}

/// The line of the page's table.
fn line(knob: &Knob) -> String {
    let owner = knob.owner.name();
    let change = match knob.change {
        Change::Live => "yes",
        Change::BetweenRuns => "no",
    };
    let ends = match knob.ends {
        Ends::One => "one",
        Ends::Both => "both",
    };
    let aggregate = AggregateRequest::of(&AggregateKnobs::default());
    let atm = AtmRequest::of(&AtmKnobs::default());
    let default = knob.get(&InterfaceKnobs { aggregate, atm, ..PortKnobs::default().request() });
    let default = default.map_or_else(String::new, |value| format!("`{value}`"));
    let (key, help, expected) = (knob.key, knob.help, knob.values.expected());
    format!("| `{key}` | {help} | {expected} | {owner} | {change} | {ends} | {default} |")
}

#[test]
fn the_page_lists_the_knobs_as_they_are_declared() {
    let page = fs::read_to_string(book("reference/knobs.md")).unwrap();
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let declared: Vec<String> = KNOBS.iter().map(line).collect();
    assert_eq!(listed, declared, "the page should have:\n{}", declared.join("\n"));
}

#[test]
fn the_guides_name_every_knob() {
    for page in ["guide/study-file.md", "guide/adapter.md"] {
        let text = fs::read_to_string(book(page)).unwrap();
        for knob in KNOBS {
            assert!(text.contains(&format!("`{}`", knob.key)), "{page}: {}", knob.key);
        }
    }
}
