//! The book's page about knobs against the declaration.

use std::fs;
use std::path::{Path, PathBuf};

use linkrate_terms::knobs::{AggregateRequest, AtmRequest, Change, Ends, KNOBS, Knob};
use linkrate_terms::{AggregateKnobs, AtmKnobs, InterfaceKnobs, PortKnobs, model};

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
fn the_page_of_models_has_their_moderation_and_rings() {
    let page = fs::read_to_string(book("concepts/virtual-adapters.md")).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with("| Model | `rx-usecs`"));
    let rows: Vec<&str> = rows.skip(2).take_while(|line| line.starts_with('|')).collect();
    for model in model::built_in() {
        let quoted = format!("`{}`", model.name);
        let row = rows.iter().find(|row| row.contains(&quoted));
        let row = row.unwrap_or_else(|| panic!("no row of {quoted}"));
        let fields: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, names, usecs, why, rings, why_rings, _] = fields[..] else { panic!("{row}") };
        // a row has one value for all of its models, or one for each
        let place = names.split(", ").position(|name| name == quoted).expect("its name");
        let of_each: Vec<&str> = usecs.split(", ").collect();
        let usecs = of_each.get(place).unwrap_or(&of_each[0]);
        let defaults = &model.defaults;
        assert_eq!(usecs.parse(), Ok(defaults.rx_usecs), "{quoted}");
        assert_eq!(defaults.rx_usecs, defaults.tx_usecs, "{quoted}");
        assert_eq!(rings, format!("{}, {}", model.transmit_ring, model.receive_ring), "{quoted}");
        // each says where it comes from
        for source in [why, why_rings] {
            let said = ["assumed", "paper", "measured"].iter().any(|word| source.starts_with(word));
            assert!(said, "{quoted}: {source}");
        }
    }
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
