//! Models of adapters: the properties of a virtual adapter, as data.
//!
//! A model is a TOML file. The built-in models are in `linkrate-terms/models/`; anyone can write
//! another. A testbed keeps the whole model, so that results say what they were measured on even
//! after the file has changed.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::clean::{lines, short_line};
use crate::knobs::{KNOBS, Knob, Owner, PortKnobs, Value, Values};
use crate::nearest::did_you_mean;
use crate::units::BitRate;

/// Smallest MTU an IPv4 host must accept (RFC 791).
pub const SMALLEST_MTU: u32 = 68;
/// Largest MTU: an IP packet's length field holds no more.
pub const LARGEST_MTU: u32 = 65_535;
/// Largest superframe: an IP packet with its Ethernet header must fit the TAP's 65,589 bytes.
pub const LARGEST_SUPERFRAME: u32 = 65_535;

/// The MTU of Ethernet (IEEE 802.3) and that of Classical IP over ATM (RFC 2225, 7), unless both ends
/// agree on another.
const ETHERNET_MTU: u32 = 1500;
const CLASSICAL_IP_MTU: u32 = 9180;

/// Most characters of a title.
const LONGEST_TITLE: usize = 200;
/// Most characters of a source.
const LONGEST_SOURCE: usize = 4000;

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

const BUILT_IN: [&str; 4] = [
    include_str!("../models/gigabit.toml"),
    include_str!("../models/ten-gigabit.toml"),
    include_str!("../models/atm-155.toml"),
    include_str!("../models/atm-622.toml"),
];

/// The built-in models.
pub fn built_in() -> impl Iterator<Item = Model> {
    // a test reads every one of them
    BUILT_IN.iter().filter_map(|text| Model::parse(text).ok())
}

fn built_in_names() -> [&'static str; 4] {
    ["gigabit", "ten-gigabit", "atm-155", "atm-622"]
}

/// The built-in model of that name.
///
/// # Errors
/// [`ModelError::Unknown`] with the nearest name.
pub fn find(name: &str) -> Result<Model, ModelError> {
    built_in()
        .find(|model| model.name == name)
        .ok_or_else(|| ModelError::Unknown { given: name.to_owned() })
}

impl Model {
    /// Reads a model from TOML.
    ///
    /// # Errors
    /// [`ModelError`] with the line and the key.
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

    /// The MTU of a fresh port, bytes.
    #[must_use]
    pub fn default_mtu(&self) -> u32 {
        let usual = match self.link {
            LinkKind::Ethernet => ETHERNET_MTU,
            LinkKind::Atm => CLASSICAL_IP_MTU,
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

    /// Checks a model that was not read by [`Model::parse`]: one from a stored plan.
    ///
    /// # Errors
    /// [`ModelError::OutOfRange`] in line 1, with the key.
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
        let texts =
            [("title", &self.title, LONGEST_TITLE), ("source", &self.source, LONGEST_SOURCE)];
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
            ("superframe", self.superframe, 2 * SMALLEST_MTU, LARGEST_SUPERFRAME),
            ("max-mtu", self.max_mtu, SMALLEST_MTU, LARGEST_MTU),
            ("transmit-ring", self.transmit_ring, 2, 4096),
            ("receive-ring", self.receive_ring, 2, 16_384),
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
