//! What joins the hosts, as a user names it: a word, or the file of a model.

use linkrate_model::model::{self, Model};
use linkrate_model::nearest::{nearest_name, shortened};
use linkrate_model::spec::Adapter;

/// Largest model file, in bytes.
pub const MAX_MODEL_BYTES: u64 = 1 << 16;

/// Reads the file of that name, relative to whatever named it. The text of the error names the
/// file.
pub type LoadFile<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

/// The adapter of studies, measurements and labs that name none.
pub const DEFAULT: &str = "gigabit";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdapterError {
    /// It is neither a word nor a file.
    #[error("unknown adapter {given:?}; {}", self.hint().unwrap_or_default())]
    Unknown { given: String, nearest: Option<String> },
    #[error("{0}")]
    Unreadable(String),
    /// The file is no model; the message has line and key.
    #[error("{file}: {error}")]
    Model { file: String, error: model::ModelError },
}

impl AdapterError {
    /// What would be right, where that is not part of the message.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { nearest: Some(name), .. } => Some(format!("did you mean {name:?}?")),
            Self::Unknown { .. } => {
                let words = words().join(", ");
                Some(format!("expected one of {words}, or the path of a model that ends in .toml"))
            }
            Self::Unreadable(_) | Self::Model { .. } => None,
        }
    }
}

/// The words: veth, and the built-in models.
fn words() -> Vec<String> {
    std::iter::once("veth".to_owned()).chain(models()).collect()
}

/// The names of the built-in models.
pub(crate) fn models() -> Vec<String> {
    model::built_in().map(|model| model.name).collect()
}

/// The adapter: `veth`, a built-in model, or a path that ends in `.toml`, which `load` reads.
pub fn find(given: &str, load: &mut LoadFile<'_>) -> Result<Adapter, AdapterError> {
    if given == "veth" {
        return Ok(Adapter::Veth);
    }
    if let Some(path) = given.strip_suffix(".toml")
        && !path.is_empty()
    {
        let text = load(given).map_err(AdapterError::Unreadable)?;
        let model = Model::parse(&text)
            .map_err(|error| AdapterError::Model { file: shortened(given), error })?;
        return Ok(Adapter::Model(Box::new(model)));
    }
    model::find(given).map(|model| Adapter::Model(Box::new(model))).map_err(|_| {
        let words = words();
        let nearest = nearest_name(given, words.iter().map(String::as_str)).map(str::to_owned);
        AdapterError::Unknown { given: shortened(given), nearest }
    })
}

#[must_use]
pub fn default() -> Adapter {
    model::find(DEFAULT).map_or(Adapter::Veth, |model| Adapter::Model(Box::new(model)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: &str = "name = \"mine\"\ntitle = \"m\"\nsource = \"s\"\nports = 1\nqueues = 1\n\
                        superframe = 65535\nmax-mtu = 9000\ntransmit-ring = 256\n\
                        receive-ring = 256\n";

    fn found(given: &str) -> Result<String, String> {
        let mut load = |path: &str| match path {
            "models/mine.toml" => Ok(MINE.to_owned()),
            "broken.toml" => Ok(MINE.replace("queues = 1", "queues = 0")),
            _ => Err(format!("{path}: no such file")),
        };
        let found = find(given, &mut load).map(|adapter| adapter.name().to_owned());
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn words_and_files_are_adapters() {
        for (given, name) in [
            ("veth", "veth"),
            ("gigabit", "gigabit"),
            ("ten-gigabit", "ten-gigabit"),
            ("models/mine.toml", "mine"),
        ] {
            assert_eq!(found(given).as_deref(), Ok(name));
        }
    }

    #[test]
    fn the_default_is_a_built_in_model() {
        assert_eq!(default().name(), DEFAULT);
        assert_eq!(found(DEFAULT).as_deref(), Ok(DEFAULT));
    }

    #[test]
    fn invalid_values_name_the_expected_ones() {
        for (given, message) in [
            ("gigabti", "unknown adapter \"gigabti\"; did you mean \"gigabit\"?"),
            (
                "token-ring",
                "unknown adapter \"token-ring\"; expected one of veth, gigabit, gigabit-store, ten-gigabit, toe, \
                 atm-155, atm-622, or the path of a model that ends in .toml",
            ),
            ("other.toml", "other.toml: no such file"),
            ("broken.toml", "broken.toml: line 5: queues is 0, expected 1 to 64"),
        ] {
            assert_eq!(found(given), Err(message.to_owned()));
        }
        assert!(found(".toml").is_err());
    }
}
