//! Models of adapters: the properties of a virtual adapter, as data.
//!
//! A model is a TOML file. The built-in models are in `linkrate-model/models/`; anyone can write
//! another. A testbed keeps the whole model, so that results say what they were measured on even
//! after the file has changed.

mod encapsulation;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use encapsulation::Encapsulation;

use crate::clean::{lines, short_line};
use crate::is_zero;
use crate::knobs::{
    KNOBS, Knob, MAX_MTU, MAX_TOE_CONNECTIONS, MIN_MTU, Owner, PortKnobs, Value, Values,
};
use crate::nearest::did_you_mean;
use crate::units::BitRate;

/// Largest superframe: an IP packet with its Ethernet header must fit the TAP's 65,589 bytes.
pub const MAX_SUPERFRAME: u32 = 65_535;

/// The MTU of Ethernet (IEEE 802.3).
const ETHERNET_MTU: u32 = 1500;

/// Most characters of a title.
const MAX_TITLE: usize = 200;
/// Most characters of a source.
const MAX_SOURCE: usize = 4000;

/// The properties of a virtual adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Model {
    /// Short name (`gigabit`).
    pub name: String,
    /// One line about the adapter.
    pub title: String,
    /// Where its values come from.
    pub source: String,
    /// Ports of one adapter.
    pub ports: u32,
    /// What the link of each port carries.
    #[serde(default, skip_serializing_if = "LinkKind::is_ethernet")]
    pub link: LinkKind,
    /// How an ATM port carries IP packets.
    #[serde(default, skip_serializing_if = "Encapsulation::is_classical")]
    pub encapsulation: Encapsulation,
    /// How the connections of an ATM port with Classical IP come about.
    #[serde(default, skip_serializing_if = "Connections::is_permanent")]
    pub connections: Connections,
    /// Bits per second of each port's link, in each direction; absent: frames take no time.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "rate_text")]
    pub rate: Option<BitRate>,
    /// Bits per second that the bus carries for all ports and both directions together; absent:
    /// the bus no limit.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "rate_text")]
    pub bus: Option<BitRate>,
    /// Queue pairs of each port.
    pub queues: u32,
    /// Largest IP packet the host may hand over to be cut (the virtual MTU), bytes.
    pub superframe: u32,
    /// Largest MTU, bytes.
    pub max_mtu: u32,
    /// Descriptors of each transmit queue; one holds a superframe.
    pub transmit_ring: u32,
    /// Descriptors of each receive queue; one holds a frame, or a superframe that was merged.
    pub receive_ring: u32,
    /// Connections that the TCP offload engine of each port holds; absent: the port has no such engine.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub toe_connections: u32,
    /// The adapter stores a superframe as a whole before it sends the first segment of it, and has room for
    /// one: while it fetches the next one over the bus, the link is idle. Otherwise it fetches each segment
    /// when the link is free for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stores_superframes: bool,
    /// Packets pass as the host made them: superframes are not cut and checksums are not computed.
    /// No adapter does that; it is the reference for the cost of the offloads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hand_through: bool,
    /// The knobs of a fresh port.
    #[serde(default)]
    pub defaults: PortKnobs,
}

/// What a link carries. The law of the link follows from it (`LinkLaw::of` in `linkrate-wire`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// Ethernet frames (IEEE 802.3).
    #[default]
    Ethernet,
    /// ATM cells over SONET. The rate of the model is that of the SONET line: 155.52 Mbit/s for
    /// OC-3c, 622.08 Mbit/s for OC-12c.
    Atm,
}

impl LinkKind {
    /// The word for it in a model.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "ethernet",
            Self::Atm => "atm",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    fn is_ethernet(&self) -> bool {
        *self == Self::Ethernet
    }
}

/// A model that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No built-in model has that name.
    #[error("unknown model {given:?}; {}", did_you_mean(.given, built_in_names()))]
    Unknown {
        /// What was given.
        given: String,
    },
    /// The text is not a model; the message names the key.
    #[error("line {line}: {message}")]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// The reason.
        message: String,
    },
    /// A value is out of its range.
    #[error("line {line}: {key} is {value}, expected {expected}")]
    OutOfRange {
        /// The line, from 1: that of the key, or the first where a default is refused.
        line: usize,
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What would be right.
        expected: String,
    },
}

const BUILT_IN: [&str; 6] = [
    include_str!("../models/gigabit.toml"),
    include_str!("../models/gigabit-store.toml"),
    include_str!("../models/ten-gigabit.toml"),
    include_str!("../models/toe.toml"),
    include_str!("../models/atm-155.toml"),
    include_str!("../models/atm-622.toml"),
];

/// The built-in models.
pub fn built_in() -> impl Iterator<Item = Model> {
    // a test reads every one of them
    BUILT_IN.iter().filter_map(|text| Model::parse(text).ok())
}

/// The built-in models, and the ATM ones with each emulated LAN.
pub fn with_emulated() -> impl Iterator<Item = Model> {
    let atm = built_in().filter(|model| model.link == LinkKind::Atm);
    let emulating = |model: Model| {
        Encapsulation::EMULATED.into_iter().map(move |one| model.clone().emulating(one))
    };
    built_in().chain(atm.flat_map(emulating))
}

fn built_in_names() -> [&'static str; 6] {
    ["gigabit", "gigabit-store", "ten-gigabit", "toe", "atm-155", "atm-622"]
}

/// The built-in model of that name. The name of an ATM model may have the word of an emulated LAN behind it:
/// `atm-622-lane-9234`.
pub fn find(name: &str) -> Result<Model, ModelError> {
    built_in()
        .find(|model| model.name == name)
        .or_else(|| find_emulated(name))
        .or_else(|| find_switched(name))
        .ok_or_else(|| ModelError::Unknown { given: name.to_owned() })
}

/// The built-in ATM model with LAN Emulation that a name stands for.
fn find_emulated(name: &str) -> Option<Model> {
    let (base, encapsulation) = Encapsulation::of_name(name);
    let model = built_in().find(|model| model.name == base && model.link == LinkKind::Atm)?;
    Some(model.emulating(encapsulation))
}

/// The built-in ATM model with switched connections that a name stands for: `atm-622-switched`.
fn find_switched(name: &str) -> Option<Model> {
    let connections = Connections::Switched;
    let base = name.strip_suffix(connections.name())?.strip_suffix('-')?;
    let model = built_in().find(|model| model.name == base && model.link == LinkKind::Atm)?;
    let title = format!("{}, switched connections", model.title);
    Some(Model { name: name.to_owned(), title, connections, ..model })
}

impl Model {
    /// Whether two ports alone need a switch: it has the servers that they call.
    #[must_use]
    pub const fn needs_switch(&self) -> bool {
        self.encapsulation.is_emulated() || self.connections.is_switched()
    }

    /// Octets of the largest unit of its emulated LAN; `None` without one.
    #[must_use]
    pub const fn emulated_octets(&self) -> Option<u16> {
        self.encapsulation.emulated_octets()
    }

    /// Reads a model from TOML; a [`ModelError`] has the line and the key.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let model: Self = toml::from_str(text).map_err(|error| ModelError::Malformed {
            line: error.span().map_or(1, |span| line_at(text, span.start)),
            message: error.message().trim().replace('\n', " "),
        })?;
        model.ranges().map_err(|(key, value, expected)| ModelError::OutOfRange {
            line: line_of(text, &key),
            key,
            value,
            expected,
        })?;
        Ok(model)
    }

    /// The ATM model with another encapsulation, and with the name and the largest MTU that follow from
    /// it.
    fn emulating(self, encapsulation: Encapsulation) -> Self {
        let title = self.title.strip_suffix("Classical IP").unwrap_or(&self.title);
        Self {
            name: format!("{}-{}", self.name, encapsulation.name()),
            title: format!("{title}{}", encapsulation.title()),
            max_mtu: encapsulation.mtu(),
            encapsulation,
            ..self
        }
    }

    /// The MTU of a fresh port, bytes.
    #[must_use]
    pub fn default_mtu(&self) -> u32 {
        let usual = match self.link {
            LinkKind::Ethernet => ETHERNET_MTU,
            LinkKind::Atm => self.encapsulation.mtu(),
        };
        usual.min(self.max_mtu)
    }

    /// The model with its link and bus at `scale` of their rates, and interrupts moderated for as
    /// many frames as before.
    #[must_use]
    pub fn scaled(mut self, scale: f64) -> Self {
        let scaled = |rate: BitRate| BitRate(rate.0 * scale);
        self.rate = self.rate.map(scaled);
        self.bus = self.bus.map(scaled);
        let mut defaults = self.defaults.request();
        for knob in KNOBS.iter().filter(|knob| knob.is_time()) {
            if let (Some(Value::Number(usecs)), Values::Number { high, .. }) =
                (knob.get(&defaults), knob.values)
            {
                let longer = (f64::from(usecs) / scale).round().min(f64::from(high));
                knob.set(&mut defaults, Value::Number(longer as u32));
            }
        }
        self.defaults = self.defaults.with(&defaults);
        self
    }

    /// Checks a model that was not read by [`Model::parse`], one from a stored plan: an error is in line 1.
    pub fn check(&self) -> Result<(), ModelError> {
        self.ranges().map_err(|(key, value, expected)| ModelError::OutOfRange {
            line: 1,
            key,
            value,
            expected,
        })
    }

    /// The first key with a value out of its range, the value, and what would be right.
    fn ranges(&self) -> Result<(), (String, String, String)> {
        let name = !self.name.is_empty()
            && self.name.len() <= 32
            && self.name != "veth"
            && self.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !name {
            let expected = "1 to 32 letters, digits, '-' and '_', and not \"veth\"".to_owned();
            return Err(("name".to_owned(), format!("{:?}", self.name), expected));
        }
        let texts = [("title", &self.title, MAX_TITLE), ("source", &self.source, MAX_SOURCE)];
        for (key, text, most) in texts {
            if text.chars().count() > most || *text != lines(text) {
                let value = format!("{:?}", short_line(text, 64));
                let expected = format!("at most {most} characters without control characters");
                return Err((key.to_owned(), value, expected));
            }
        }
        let ranges = [
            ("ports", self.ports, 1, 64),
            ("queues", self.queues, 1, 64),
            ("superframe", self.superframe, 2 * MIN_MTU, MAX_SUPERFRAME),
            ("max-mtu", self.max_mtu, MIN_MTU, MAX_MTU),
            ("transmit-ring", self.transmit_ring, 2, 4096),
            ("receive-ring", self.receive_ring, 2, 16_384),
            ("toe-connections", self.toe_connections, 0, MAX_TOE_CONNECTIONS),
        ];
        let defaults = self.defaults.request();
        let of_knob = |knob: &Knob| match (knob.get(&defaults)?, knob.values) {
            (Value::Number(value), Values::Number { low, high, .. }) => {
                Some((format!("defaults.{}", knob.key), value, low, high))
            }
            _ => None,
        };
        let knobs = KNOBS.iter().filter(|knob| knob.owner == Owner::Port).filter_map(of_knob);
        let ranges = ranges.map(|(key, value, low, high)| (key.to_owned(), value, low, high));
        for (key, value, low, high) in ranges.into_iter().chain(knobs) {
            if !(low..=high).contains(&value) {
                return Err((key, value.to_string(), format!("{low} to {high}")));
            }
        }
        if self.connections.is_switched()
            && (self.link != LinkKind::Atm || self.encapsulation.is_emulated())
        {
            let expected = "a model with link = \"atm\" and Classical IP; with LAN Emulation, all \
                            connections are calls anyway";
            let value = format!("{:?}", self.connections.name());
            return Err(("connections".to_owned(), value, expected.to_owned()));
        }
        if self.encapsulation.is_emulated() {
            let (word, most) = (self.encapsulation.name(), self.encapsulation.mtu());
            if self.link != LinkKind::Atm {
                let expected = "a model with link = \"atm\"".to_owned();
                return Err(("encapsulation".to_owned(), format!("{word:?}"), expected));
            }
            if self.max_mtu > most {
                let expected = format!("at most {most} with {word}");
                return Err(("max-mtu".to_owned(), self.max_mtu.to_string(), expected));
            }
        }
        for (key, rate) in [("rate", self.rate), ("bus", self.bus)] {
            let Some(rate) = rate else { continue };
            if !(1e3..=1e12).contains(&rate.0) {
                let expected = "1 kbit/s to 1000 Gbit/s".to_owned();
                return Err((key.to_owned(), rate.to_string(), expected));
            }
        }
        Ok(())
    }
}

/// The line of a byte offset, from 1.
fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The line of a key of the model (`defaults.vlan`); the first line if the key is absent.
fn line_of(text: &str, key: &str) -> usize {
    let Ok(document) = toml::de::DeTable::parse(text) else { return 1 };
    let mut table = document.into_inner();
    let mut names = key.split('.').peekable();
    while let Some(name) = names.next() {
        let Some((found, value)) = table.remove_entry(name) else { return 1 };
        match value.into_inner() {
            toml::de::DeValue::Table(inner) if names.peek().is_some() => table = inner,
            _ => return line_at(text, found.span().start),
        }
    }
    1
}

/// Rates as people write them (`10 Gbit/s`); a number is bits per second.
mod rate_text {
    use super::{BitRate, Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }

    #[expect(clippy::ref_option, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(
        rate: &Option<BitRate>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        rate.map(|rate| rate.0).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<BitRate>, D::Error> {
        Ok(Some(match Written::deserialize(from)? {
            Written::Number(bits) => BitRate(bits),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom)?,
        }))
    }
}

/// The connections of a port with Classical IP. A port keeps them from its making to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// One to each other end of the segment, which tell each other their addresses (InATMARP).
    #[default]
    Permanent,
    /// Calls to the end systems that packets are for. An ATMARP server in the switch knows them.
    Switched,
}

impl Connections {
    /// The word for them in a model.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Switched => "switched",
        }
    }

    /// Whether they are calls.
    #[must_use]
    pub const fn is_switched(self) -> bool {
        matches!(self, Self::Switched)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    fn is_permanent(&self) -> bool {
        !self.is_switched()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_models_are_sound() {
        assert_eq!(BUILT_IN.len(), built_in_names().len());
        for (text, name) in BUILT_IN.iter().zip(built_in_names()) {
            let model = Model::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(model.name, name);
            assert_eq!(find(name), Ok(model));
        }
        assert_eq!(find("gigabit").unwrap().superframe, 32_160);
        let scaled = find("ten-gigabit").unwrap().scaled(0.1);
        assert_eq!(scaled.rate, Some(BitRate(1e9)));
        // times grow as links get slower, up to the longest; counts stay
        let PortKnobs { rx_usecs, tx_usecs, rx_frames, .. } = scaled.defaults;
        assert_eq!((rx_usecs, tx_usecs, rx_frames), (500, 500, 128));
        assert_eq!(find("gigabit").unwrap().scaled(0.001).defaults.rx_usecs, 10_000);
    }

    #[test]
    fn an_atm_model_may_emulate_a_lan() {
        let model = find("atm-622-lane-9234").unwrap();
        assert_eq!((model.encapsulation, model.default_mtu()), (Encapsulation::Lane9234, 9218));
        assert_eq!((model.name.as_str(), model.max_mtu), ("atm-622-lane-9234", 9218));
        assert!(model.title.ends_with("with LAN Emulation, units of up to 9234 bytes"));
        let stored = serde_json::to_string(&model).unwrap();
        assert_eq!(serde_json::from_str::<Model>(&stored).unwrap(), model);
        assert_eq!(model.check(), Ok(()));
        let all: Vec<Model> = with_emulated().collect();
        assert_eq!(all.len(), 6 + 2 * 4);
        assert!(all.into_iter().all(|model| find(&model.name) == Ok(model)));
        for unknown in ["gigabit-lane-1516", "atm-622-lane-1517", "atm-622lane-1516", "lane-1516"] {
            assert!(find(unknown).is_err(), "{unknown}");
        }
        let classical = find("atm-622").unwrap();
        assert!(!serde_json::to_string(&classical).unwrap().contains("encapsulation"));
        let too_long = Model { encapsulation: Encapsulation::Lane1516, ..classical };
        let error = too_long.check().unwrap_err().to_string();
        assert!(
            error.contains("max-mtu is 65527, expected at most 1500 with lane-1516"),
            "{error}"
        );
        let ethernet = Model { encapsulation: Encapsulation::Lane1516, ..find("gigabit").unwrap() };
        let error = ethernet.check().unwrap_err().to_string();
        assert!(error.contains("encapsulation is \"lane-1516\""), "{error}");
    }

    #[test]
    fn other_texts_are_refused_by_key() {
        let good = BUILT_IN[0];
        let cases = [
            ("ports = 2", "ports = 0", "ports is 0, expected 1 to 64"),
            ("ports = 2", "prots = 2", "unknown field `prots`"),
            ("source = \"", "source = \"\\u001b", "source is"),
            ("steering = \"off\"", "vlan = 5000", "defaults.vlan is 5000, expected 0 to 4094"),
            ("ports = 2", "ports = ", ""),
            ("\"1 Gbit/s\"", "\"1 furlong\"", "1 furlong"),
            ("name = \"gigabit\"", "name = \"veth\"", "name is \"veth\""),
        ];
        for (from, to, expected) in cases {
            let text = good.replace(from, to);
            assert_ne!(text, good, "{from}");
            let error = Model::parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            let line = good.lines().take_while(|line| !line.contains(from)).count() + 1;
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
        }
        let error = find("gigabti").unwrap_err().to_string();
        assert!(error.contains("gigabit"), "{error}");
    }

    #[test]
    fn a_model_survives_json() {
        for model in built_in() {
            for link in [LinkKind::Ethernet, LinkKind::Atm] {
                let model = Model { link, ..model.clone() };
                let text = serde_json::to_string(&model).unwrap();
                assert_eq!(serde_json::from_str::<Model>(&text).unwrap(), model);
                assert_eq!(text.contains("\"link\""), link != LinkKind::Ethernet, "{text}");
            }
        }
    }

    #[test]
    fn a_model_without_a_kind_of_link_is_an_ethernet_adapter() {
        let text = BUILT_IN[0];
        assert!(!text.contains("\nlink = "));
        assert_eq!(Model::parse(text).unwrap().link, LinkKind::Ethernet);
        let with = |kind: &str| {
            Model::parse(&text.replace("ports = 2", &format!("ports = 2\nlink = {kind:?}")))
        };
        for kind in [LinkKind::Ethernet, LinkKind::Atm] {
            assert_eq!(with(kind.name()).unwrap().link, kind);
        }
        let error = with("token-ring").unwrap_err().to_string();
        assert!(error.contains("`token-ring`, expected `ethernet` or `atm`"), "{error}");
    }
}
