//! The manual's table of settings, generated from the declarations.

mod book;

use linkrate_model::knobs::{
    AggregateRequest, AtmRequest, Knob, Owner, Unit, Values as KnobValues,
};
use linkrate_model::units::format_duration;
use linkrate_model::{AggregateKnobs, AtmKnobs, ByteSize, InterfaceKnobs, PortKnobs};
use linkrate_study::file;
use linkrate_study::keys::{KEYS, Key, Setup, Values, direction_name, kind_name};

/// The tables, each with the keys that are no knobs, or with the owners of its knobs.
const TABLES: [(&str, &[&str], &[Owner]); 8] = [
    (
        "Traffic",
        &[
            "kind",
            "direction",
            "connections",
            "clients",
            "ports",
            "adapter",
            "message",
            "send-path",
            "receive-path",
            "working-set",
            "receive-batching",
            "transfer",
            "request",
            "response",
            "burst",
            "request-rate",
            "udp-segment",
            "udp-gro",
            "cpu-binding",
            "load",
            "repeat",
        ],
        &[],
    ),
    ("Files of a backup", &["files", "tree", "directory", "cache", "drives", "drive-rate"], &[]),
    ("Loss and failures (models only)", &["loss", "event", "event-at", "event-recover"], &[]),
    ("Sockets, both ends", &["socket", "congestion", "nodelay", "family"], &[]),
    ("Interface of the SUT", &["merge"], &[Owner::Kernel, Owner::Driver]),
    ("Port of an emulated adapter", &[], &[Owner::Port]),
    ("Aggregate", &[], &[Owner::Aggregate]),
    ("ATM port", &[], &[Owner::Atm]),
];

#[test]
fn the_page_has_every_setting() {
    let mut text = String::new();
    let mut listed = 0;
    for (title, names, owners) in TABLES {
        let named = names.iter().map(|name| KEYS.iter().find(|key| key.name == *name).expect(name));
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
        Values::Count { range: (low, high), .. } => format!("{low}–{high}"),
        Values::Rate { range: (low, high), absent, .. } => {
            with(format!("{low}–{high}"), Some(absent))
        }
        Values::Size { range, absent, .. } => with(sizes(*range), *absent),
        Values::Time { range: (low, high), absent, .. } => {
            with(format!("{}–{}", format_duration(*low), format_duration(*high)), *absent)
        }
        Values::Share { range: (low, high), .. } => {
            format!("{}–{} %", f64::from(*low) / 1e4, f64::from(*high) / 1e4)
        }
        Values::Message { range, .. } => with(sizes(*range), Some("range")),
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
    let Setup { workload, socket, event, .. } = Setup::default();
    let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
    let plain = |is_plain: bool| if is_plain { "plain" } else { "" }.to_owned();
    let absent = |value: Option<String>, word: &str| value.unwrap_or_else(|| word.to_owned());
    match key.name {
        "kind" => kind_name(workload.kind).to_owned(),
        "direction" => direction_name(workload.direction).to_owned(),
        "connections" => workload.connections.to_string(),
        "message" => workload.message.to_string(),
        "request" => workload.request.to_string(),
        "response" => workload.response.to_string(),
        "transfer" => workload.transfer.to_string(),
        "files" => workload.backup.files.to_string(),
        "tree" => workload.backup.tree.to_string(),
        "directory" => format!("`{}`", workload.backup.directory),
        "cache" => if workload.backup.cold { "cold" } else { "warm" }.to_owned(),
        "drives" => workload.backup.drives.to_string(),
        "drive-rate" => format!("{} MB", workload.backup.drive_rate.0 / 1_000_000),
        "burst" => workload.burst.to_string(),
        "request-rate" => absent(workload.request_rate_per_s.map(|rate| rate.to_string()), "off"),
        "send-path" => plain(workload.send_path == linkrate_model::SendPath::Plain),
        "receive-path" => plain(workload.receive_path == linkrate_model::ReceivePath::Plain),
        "working-set" => absent(workload.working_set.map(|size| size.to_string()), "auto"),
        "receive-batching" => switch(workload.receive_batching),
        "udp-segment" => absent(workload.udp_segment.map(|size| size.to_string()), "off"),
        "udp-gro" => switch(workload.udp_gro),
        "cpu-binding" => switch(workload.cpu_binding),
        "load" => "loaded".to_owned(),
        "loss" => format!("{} %", Setup::default().loss_ppm),
        "event" => absent(event.fault.map(|fault| fault.word().to_owned()), "none"),
        "event-recover" => absent(event.recover.map(format_duration), "never"),
        "socket" => absent(socket.buffer.map(|size| size.to_string()), "auto"),
        "congestion" => socket.congestion,
        "nodelay" => switch(socket.nodelay),
        "family" => socket.family.to_string(),
        // that of the testbed
        "aggregate" => String::new(),
        _ => match key.values {
            Values::Knob(knob) => default_knob(knob),
            _ => String::new(),
        },
    }
}

fn default_knob(knob: &Knob) -> String {
    let aggregate = AggregateRequest::of(&AggregateKnobs::default());
    let atm = AtmRequest::of(&AtmKnobs::default());
    let value = knob.get(&InterfaceKnobs { aggregate, atm, ..PortKnobs::default().request() });
    value.map(|value| value.to_string()).unwrap_or_default()
}
