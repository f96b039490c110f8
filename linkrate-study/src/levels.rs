//! Factors and their levels: the key of a cell.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One level of one factor, as the study file has it.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, Deserialize,
)]
#[serde(untagged)]
pub enum Level {
    /// A whole number (`ports = [1, 2]`).
    Number(u64),
    /// A switch (`gro = [true, false]`).
    Switch(bool),
    /// Anything else (`offload = ["none", "tso"]`).
    Text(String),
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Switch(true) => f.write_str("on"),
            Self::Switch(false) => f.write_str("off"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The levels of one cell, in the order of the study file's factors. Serialised as a map.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, JsonSchema)]
#[schemars(into = "std::collections::BTreeMap<String, Level>")]
pub struct Levels(pub Vec<(String, Level)>);

impl Levels {
    pub fn get(&self, factor: &str) -> Option<&Level> {
        self.0.iter().find(|(name, _)| name == factor).map(|(_, level)| level)
    }

    /// The same levels with another one of `factor`.
    pub fn with(&self, factor: &str, level: &Level) -> Self {
        let replaced = self.0.iter().map(|(name, old)| {
            (name.clone(), if name == factor { level.clone() } else { old.clone() })
        });
        Self(replaced.collect())
    }

    pub fn without(&self, factor: &str) -> Self {
        Self(self.0.iter().filter(|(name, _)| name != factor).cloned().collect())
    }
}

impl fmt::Display for Levels {
    /// `tso, transmit`; a level that does not speak for itself takes its factor's name with it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (factor, level)) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            match level {
                Level::Text(text) => f.write_str(text)?,
                _ => write!(f, "{factor} {level}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for Levels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (factor, level) in &self.0 {
            map.serialize_entry(factor, level)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Levels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Levels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from factor to level")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Levels, A::Error> {
                let mut levels = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    levels.push(entry);
                }
                Ok(Levels(levels))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}
