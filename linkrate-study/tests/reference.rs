//! The manual's table of settings, generated from the declarations.

mod book;

use linkrate_model::knobs::{
    AggregateRequest, AtmRequest, Knob, Owner, Unit, Values as KnobValues,
};
use linkrate_model::units::format_duration;
use linkrate_model::{AggregateKnobs, AtmKnobs, ByteSize, InterfaceKnobs, PortKnobs};
use linkrate_study::file;
use linkrate_study::keys::{self, KEYS, Key, Setup, Values};

/// The tables, each with the keys that are no knobs, or with the owners of its knobs.
const TABLES: [(&str, &str, &[Owner]); 8] = [
    (
        "Traffic",
        "kind direction connections clients ports adapter message send-path receive-path working-set \
         receive-batching transfer request response burst request-rate udp-segment udp-gro cpu-binding load repeat",
        &[],
    ),
    ("Files of a backup", "files tree directory cache drives drive-rate", &[]),
    ("Loss and failures (models only)", "loss event event-at event-recover", &[]),
    ("Sockets, both ends", "socket congestion nodelay family", &[]),
    ("Interface of the SUT", "merge", &[Owner::Kernel, Owner::Driver]),
    ("Port of an emulated adapter", "", &[Owner::Port]),
    ("Aggregate", "", &[Owner::Aggregate]),
    ("ATM port", "", &[Owner::Atm]),
];

#[test]
fn the_page_has_every_setting() {
    let mut text = String::new();
    let mut listed = 0;
    for (title, names, owners) in TABLES {
        let named = names.split_whitespace().map(|name| keys::get(name).expect(name));
        let is_owned =
            |key: &&Key| matches!(key.values, Values::Knob(knob) if owners.contains(&knob.owner));
        let keys: Vec<&Key> = named.chain(KEYS.iter().filter(is_owned)).collect();
        listed += keys.len();
        let rows = keys.iter().map(|key| {
            [format!("`{}`", key.name), key.help.to_owned(), values(&key.values), default(key)]
        });
        let table = book::table(["key", "meaning", "values", "default"], rows);
        text.push_str(&format!("### {title}\n\n{table}\n"));
    }
    assert_eq!(listed, KEYS.len(), "a key is in no table, or in two");
    book::check("reference/study-file.md", "linkrate-study/tests/reference.rs", &text);
}

#[test]
fn the_example_is_a_study() {
    let page = book::text("reference/study-file.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let study = file::parse("example", "example.toml", example.unwrap());
    assert_eq!(study.unwrap_or_else(|errors| panic!("{errors}")).cells.len(), 6);
}

/// The values in few words: `1–1024`, `4 KiB–1 GiB, auto`.
fn values(values: &Values) -> String {
    let with = |range: String, absent: Option<&str>| match absent {
        Some(word) => format!("{range}, {word}"),
        None => range,
    };
    let sizes = |(low, high): (u64, u64)| format!("{}–{}", ByteSize(low), ByteSize(high));
    match values {
        Values::Switch(_) => "switch".to_owned(),
        Values::Word(_) => values.words().join(", "),
        Values::Count((low, high), _) => format!("{low}–{high}"),
        Values::Rate((low, high), field) => with(format!("{low}–{high}"), field.absent()),
        Values::Size(range, field) => with(sizes(*range), field.absent()),
        Values::Time((low, high), field) => {
            with(format!("{}–{}", format_duration(*low), format_duration(*high)), field.absent())
        }
        Values::Share((low, high), _) => {
            format!("{}–{} %", f64::from(*low) / 1e4, f64::from(*high) / 1e4)
        }
        Values::Message(range, _) => with(sizes(*range), Some("range")),
        Values::Congestion(_) => "name".to_owned(),
        Values::Directory(_) => "absolute path".to_owned(),
        Values::Model(_) => "built-in model".to_owned(),
        Values::Label(_) => "names".to_owned(),
        Values::Knob(knob) => match knob.values {
            KnobValues::Number { low, high, unit: Unit::Bytes } => sizes((low.into(), high.into())),
            KnobValues::Number { low, high, unit } => format!("{low}–{high}{}", unit_name(unit)),
            KnobValues::Switch => "switch".to_owned(),
            KnobValues::Words(_) => knob.values.words().join(", "),
        },
    }
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => " ns",
        Unit::Microseconds => " µs",
        Unit::Milliseconds => " ms",
        Unit::None | Unit::Bytes | Unit::Frames => "",
    }
}

/// The value of a setting that is left out; empty where it depends on the testbed.
fn default(key: &Key) -> String {
    let setup = Setup::default();
    match (key.name, &key.values) {
        // that of the testbed
        ("clients" | "aggregate", _) => String::new(),
        ("directory", _) => format!("`{}`", setup.workload.backup.directory),
        ("drive-rate", _) => format!("{} MB", setup.workload.backup.drive_rate.0 / 1_000_000),
        (_, Values::Knob(knob)) => default_knob(knob),
        (_, values) => values.level(&setup).map(|level| level.to_string()).unwrap_or_default(),
    }
}

fn default_knob(knob: &Knob) -> String {
    let aggregate = AggregateRequest::of(&AggregateKnobs::default());
    let atm = AtmRequest::of(&AtmKnobs::default());
    let value = knob.get(&InterfaceKnobs { aggregate, atm, ..PortKnobs::default().request() });
    value.map(|value| value.to_string()).unwrap_or_default()
}
