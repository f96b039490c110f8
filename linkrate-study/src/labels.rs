//! Names of factors, levels, steps and cells in sentences.
//!
//! Study files say `offload = "tso"`; a paper says TSO. The names of settings come from their
//! declarations. A name that is no setting's keeps its form.

use linkrate_model::knobs::{self, Merge, Values, Word};
use linkrate_model::{ByteSize, MessageSize};

use crate::keys::{self, Things};
use crate::levels::{Level, Levels};
use crate::study::PART;

/// A step between two levels as the subject of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// `TSO`, or `4 ports instead of 1`.
    pub text: String,
    /// Whether its verb stands in the plural.
    pub plural: bool,
}

/// How the level of a setting ends that the output of an imported run does not report.
pub const UNKNOWN: &str = " not known";

/// Whether a level stands for a setting that is not told.
fn is_unknown(text: &str) -> bool {
    text.ends_with(UNKNOWN)
}

/// The factor as the title of an axis: `message size`, `ports`.
pub fn factor(name: &str) -> String {
    keys::get(name).and_then(|key| key.title).unwrap_or(name).to_owned()
}

/// What its levels are, in sentences.
fn things(name: &str) -> Things {
    keys::get(name).map_or(Things::Titled, |key| key.things)
}

/// The declared word of a knob that takes words, where the level is one of them.
fn word(name: &str, level: &Level) -> Option<Word> {
    let Level::Text(text) = level else { return None };
    let words = match (name, knobs::find(name).map(|knob| knob.values)) {
        ("merge", _) => Merge::WORDS,
        (_, Some(Values::Words(words))) => words,
        _ => return None,
    };
    words.iter().find(|word| word.word == text).copied()
}

/// A level that is understood without its factor: `TSO`, `4 ports`, `64 KiB messages`.
pub fn level(name: &str, level: &Level) -> String {
    if let Some(word) = word(name, level) {
        return word.prose.to_owned();
    }
    match (name, level) {
        // of imported runs: the level names the setting itself
        (_, Level::Text(text)) if is_unknown(text) => text.clone(),
        // of a study file, or of other programs
        (_, Level::Text(text)) if keys::get(name).is_none() && name != PART => text.clone(),
        ("send-path", Level::Text(text)) => match text.as_str() {
            "plain" => "plain send".to_owned(),
            "msg-zerocopy" => "MSG_ZEROCOPY".to_owned(),
            other => other.to_owned(),
        },
        ("receive-path", Level::Text(text)) => match text.as_str() {
            "plain" => "plain recv".to_owned(),
            "truncate" => "MSG_TRUNC".to_owned(),
            other => other.to_owned(),
        },
        ("message", Level::Text(text)) if MessageSize::named(text).is_some() => named(text),
        ("cache", level) => format!("{level} page cache"),
        ("direction" | "kind" | "congestion" | "adapter" | PART, level) => level.to_string(),
        ("load", level) => level.to_string(),
        ("request-rate", Level::Text(text)) if text == "off" => "closed loop".to_owned(),
        ("vlan", Level::Number(0)) => "no VLAN tag".to_owned(),
        ("socket", Level::Text(text)) if text == "auto" => "autotuned socket buffers".to_owned(),
        ("socket", level) => format!("socket buffers of {level}"),
        ("gso-max-size", level) => format!("superframes of up to {level}"),
        ("gro-max-size", level) => format!("merged packets of up to {level}"),
        (_, Level::Switch(true)) => factor(name),
        (_, Level::Switch(false)) => format!("no {}", factor(name)),
        (_, level) => match things(name) {
            Things::Counted(one, _) if *level == Level::Number(1) => format!("1 {one}"),
            Things::Counted(_, things) | Things::Sized(things) => format!("{level} {things}"),
            Things::Titled => format!("{} {level}", factor(name)),
        },
    }
}

/// The name of a message size in prose: `SmMix`.
fn named(word: &str) -> String {
    let known = MessageSize::NAMED.into_iter().find(|(name, ..)| *name == word);
    known.map_or(word, |(_, prose, _)| prose).to_owned()
}

/// A level to be reached: `messages of 64 KiB or larger`, `4 connections or more`.
pub fn at_least(name: &str, of: &Level, or_more: &str) -> String {
    match things(name) {
        Things::Sized(things) if !or_more.is_empty() => format!("{things} of {of}{or_more}"),
        _ => format!("{}{or_more}", level(name, of)),
    }
}

/// A level beside its factor's name, for axes and lists: `64 KiB`, `TSO`, `on`.
pub fn short_level(name: &str, level: &Level) -> String {
    match (word(name, level), name) {
        (Some(word), _) => word.label.to_owned(),
        (_, "send-path" | "receive-path") => self::level(name, level),
        _ => level.to_string(),
    }
}

/// A level beside its factor's name that is called as it is in prose: `64 KiB`, `no offload`.
pub fn on_axis(name: &str, of: &Level) -> String {
    if number(of).is_some() { of.to_string() } else { level(name, of) }
}

/// The level as a number, where it is one or a size: 65536 for `64 KiB`.
pub fn number(level: &Level) -> Option<f64> {
    match level {
        Level::Number(number) => Some(*number as f64),
        Level::Switch(_) => None,
        Level::Text(text) => text.parse::<ByteSize>().ok().map(|size| size.0 as f64),
    }
}

/// Whether the level is a size written with its unit.
pub fn is_size(level: &Level) -> bool {
    matches!(level, Level::Text(_)) && number(level).is_some()
}

/// Whether the level means that something is not there.
fn is_off(name: &str, level: &Level) -> bool {
    match level {
        Level::Switch(on) => !on,
        Level::Number(number) => name == "vlan" && *number == 0,
        Level::Text(text) => word(name, level).is_some() && (text == "none" || text == "off"),
    }
}

/// The step as a subject: `TSO` where there was nothing before, else `MTU 9000 instead of 1500`.
pub fn subject(name: &str, from: &Level, to: &Level) -> Subject {
    let things = things(name) != Things::Titled
        || matches!(name, "socket" | "gso-max-size" | "gro-max-size");
    let plural = things && *to != Level::Number(1);
    let text = match (is_off(name, from), number(from), to) {
        (true, ..) => level(name, to),
        // the thing itself is called once
        (_, Some(_), _) => format!("{} instead of {from}", level(name, to)),
        _ => format!("{} instead of {}", level(name, to), level(name, from)),
    };
    Subject { text, plural }
}

/// Where something holds, for levels of one factor: `on 1, 2 and 4 ports`, `with no offload`,
/// `at MTU 9000`.
pub fn place(name: &str, levels: &[&Level]) -> String {
    let Some((last, before)) = levels.split_last() else { return String::new() };
    let preposition = match name {
        "ports" => "on",
        "mtu" => "at",
        _ => "with",
    };
    if before.is_empty() {
        return format!("{preposition} {}", level(name, last));
    }
    let all_numbers = levels.iter().all(|level| number(level).is_some());
    let listed = match (all_numbers, before) {
        (true, [first, _, _, ..]) => format!("{first} to {}", level(name, last)),
        (true, _) => {
            let before: Vec<String> = before.iter().map(ToString::to_string).collect();
            format!("{} and {}", before.join(", "), level(name, last))
        }
        _ => {
            let before: Vec<String> = before.iter().map(|l| level(name, l)).collect();
            format!("{} and {}", before.join(", "), level(name, last))
        }
    };
    // `MTU` stands before its numbers
    match name {
        "mtu" => format!("{preposition} MTU {}", listed.replace("MTU ", "")),
        _ => format!("{preposition} {listed}"),
    }
}

/// A cell by its levels: `TSO, transmit, 2 ports`.
pub fn cell(levels: &Levels) -> String {
    let names: Vec<String> = levels.0.iter().map(|(name, l)| level(name, l)).collect();
    if names.is_empty() { "the only cell".to_owned() } else { names.join(", ") }
}

/// `a`, `a and b`, `a, b and c`.
pub fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// `a`, `a or b`, `a, b or c`.
pub fn either(items: &[String]) -> String {
    match items {
        [before @ .., last] if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        all => all.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(level: &str) -> Level {
        Level::Text(level.to_owned())
    }

    #[test]
    fn levels_have_the_fields_names() {
        for (name, of, expected) in [
            ("offload", text("tso"), "TSO"),
            ("offload", text("none"), "no offload"),
            ("ports", Level::Number(1), "1 port"),
            ("ports", Level::Number(4), "4 ports"),
            ("aggregate", Level::Number(8), "8 ports in the aggregate"),
            ("message", text("64 KiB"), "64 KiB messages"),
            ("mtu", Level::Number(9000), "MTU 9000"),
            ("lro", Level::Switch(true), "LRO"),
            ("lro", Level::Switch(false), "no LRO"),
            ("merge", text("none"), "no merging"),
            ("merge", text("gro"), "GRO"),
            ("burst", Level::Number(8), "8 requests outstanding"),
            ("rx-usecs", Level::Number(50), "rx-usecs 50"),
            ("direction", text("transmit"), "transmit"),
        ] {
            assert_eq!(level(name, &of), expected);
        }
    }

    #[test]
    fn steps_are_subjects() {
        for (name, from, to, expected, plural) in [
            ("offload", text("none"), text("tso"), "TSO", false),
            ("offload", text("gso"), text("tso"), "TSO instead of GSO", false),
            ("ports", Level::Number(1), Level::Number(4), "4 ports instead of 1", true),
            ("mtu", Level::Number(1500), Level::Number(9000), "MTU 9000 instead of 1500", false),
            ("lro", Level::Switch(false), Level::Switch(true), "LRO", false),
            ("merge", text("none"), text("lro"), "LRO", false),
            ("merge", text("gro"), text("lro"), "LRO instead of GRO", false),
            ("lro", Level::Switch(true), Level::Switch(false), "no LRO instead of LRO", false),
            ("message", text("1 KiB"), text("4 KiB"), "4 KiB messages instead of 1 KiB", true),
        ] {
            let subject = subject(name, &from, &to);
            assert_eq!((subject.text.as_str(), subject.plural), (expected, plural));
        }
    }

    #[test]
    fn places_list_their_levels() {
        let ports = [Level::Number(1), Level::Number(2), Level::Number(4), Level::Number(8)];
        let ports: Vec<&Level> = ports.iter().collect();
        assert_eq!(place("ports", &ports[..1]), "on 1 port");
        assert_eq!(place("ports", &ports[..2]), "on 1 and 2 ports");
        assert_eq!(place("ports", &ports[..3]), "on 1, 2 and 4 ports");
        assert_eq!(place("ports", &ports), "on 1 to 8 ports");
        let mtus = [Level::Number(1500), Level::Number(9000)];
        assert_eq!(place("mtu", &[&mtus[0], &mtus[1]]), "at MTU 1500 and 9000");
        assert_eq!(place("offload", &[&text("none"), &text("tso")]), "with no offload and TSO");
    }
}
