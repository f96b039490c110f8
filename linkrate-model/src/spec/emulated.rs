//! Checks of a testbed with emulated LANs: several at one port, and clients behind a bridge.

use super::{Adapter, TestbedSpec};
use crate::model::{Encapsulation, Model};

/// Octets of the longest name of an emulated LAN (LANE 1.0, 4.2.2).
const MAX_NAME: usize = 32;

/// Why clients cannot be behind a bridge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BridgeError {
    /// The adapter has no emulated LAN whose frames Ethernet takes.
    #[error("adapter {adapter} has no emulated LAN with the frames of Ethernet")]
    Adapter {
        /// Its name.
        adapter: String,
    },
    /// There are not so many clients.
    #[error("{bridged} clients of each port, which has {clients}")]
    TooMany {
        /// Clients that were to be bridged.
        bridged: u32,
        /// Clients of each port.
        clients: u32,
    },
}

impl BridgeError {
    /// What would be right.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Adapter { .. } => {
                "choose a model with units of 1516 bytes, for example atm-155-lane-1516: all stations \
                 of a LAN have one MTU, and that of Ethernet is 1500"
            }
            Self::TooMany { .. } => "set at most clients-per-port",
        }
    }
}

/// Why a port cannot be a client of these emulated LANs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElanError {
    /// The adapter has none.
    #[error("adapter {adapter} has no LAN Emulation")]
    Adapter {
        /// Its name.
        adapter: String,
    },
    /// One is named twice.
    #[error("emulated LAN {name:?} is named twice on one adapter")]
    Twice {
        /// Its name.
        name: String,
    },
    /// A name that no emulated LAN may have.
    #[error("name {name:?} of an emulated LAN")]
    Name {
        /// The name.
        name: String,
    },
    /// One has another size than the adapter.
    #[error(
        "emulated LAN {name:?} with units of {size} bytes, where adapter {adapter} has {of_adapter}"
    )]
    Size {
        /// Its name.
        name: String,
        /// Its size as it was written.
        size: String,
        /// The adapter.
        adapter: String,
        /// The size of the adapter's units, bytes.
        of_adapter: u16,
    },
    /// The testbed has something that does not go together with several.
    #[error("several emulated LANs at a port together with {with}")]
    Together {
        /// The other key.
        with: &'static str,
    },
}

impl ElanError {
    /// What would be right.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Adapter { .. } => {
                "choose a model with an emulated LAN, for example atm-155-lane-1516".to_owned()
            }
            Self::Twice { .. } => "give each emulated LAN a name of its own".to_owned(),
            Self::Name { .. } => {
                format!("expected 1 to {MAX_NAME} letters, digits, '-', '_' and '.'")
            }
            Self::Size { of_adapter, .. } => format!(
                "all emulated LANs of an adapter have the size of its model: leave the size out, or \
                 write {of_adapter}, or choose another model"
            ),
            Self::Together { with } => format!("leave one of them out: elans or {with}"),
        }
    }
}

/// The name of an emulated LAN as it was written, and the size behind it.
fn split(written: &str) -> (&str, Option<&str>) {
    written.split_once(':').map_or((written, None), |(name, size)| (name, Some(size)))
}

impl TestbedSpec {
    /// Checks that its bridged clients have an emulated LAN that they can be bridged into.
    pub fn check_bridge(&self) -> Result<(), BridgeError> {
        let (bridged, clients) = (self.bridged_clients, self.clients_per_port);
        let adapter = self.adapter.name();
        let encapsulation = match &self.adapter {
            _ if bridged == 0 => return Ok(()),
            Adapter::Model(model) => model.encapsulation,
            Adapter::Veth | Adapter::Interfaces(_) | Adapter::Unknown => Encapsulation::ClassicalIp,
        };
        if encapsulation != Encapsulation::Lane1516 {
            return Err(BridgeError::Adapter { adapter: adapter.to_owned() });
        }
        if self.aggregate > 0 || bridged > clients {
            return Err(BridgeError::TooMany { bridged, clients });
        }
        Ok(())
    }

    /// This testbed with ports that are clients of these emulated LANs: `blue`, or `blue:1516` with the
    /// size of the units.
    pub fn with_elans(self, written: &[String]) -> Result<Self, ElanError> {
        let adapter = || self.adapter.name().to_owned();
        let octets = match &self.adapter {
            Adapter::Model(model) => Model::emulated_octets(model),
            Adapter::Veth | Adapter::Interfaces(_) | Adapter::Unknown => None,
        };
        let Some(of_adapter) = octets else {
            return Err(ElanError::Adapter { adapter: adapter() });
        };
        let others =
            [("aggregate", self.aggregate > 0), ("bridged-clients", self.bridged_clients > 0)];
        if let Some((with, _)) = others.into_iter().find(|(_, is_set)| *is_set) {
            return Err(ElanError::Together { with });
        }
        let mut elans: Vec<String> = Vec::new();
        for (name, size) in written.iter().map(|one| split(one)) {
            let name = name.to_owned();
            let may = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(may) {
                return Err(ElanError::Name { name });
            }
            if let Some(size) = size.filter(|size| *size != of_adapter.to_string()) {
                let (size, adapter) = (size.to_owned(), adapter());
                return Err(ElanError::Size { name, size, adapter, of_adapter });
            }
            if elans.contains(&name) {
                return Err(ElanError::Twice { name });
            }
            elans.push(name);
        }
        Ok(Self { elans, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;

    #[test]
    fn emulated_lans_of_an_adapter_have_names_of_their_own_and_one_size() {
        let on = |adapter: &str, written: &[&str]| {
            let adapter = Adapter::Model(Box::new(model::find(adapter).unwrap()));
            let written: Vec<String> = written.iter().map(|&one| one.to_owned()).collect();
            TestbedSpec { adapter, ..TestbedSpec::default() }.with_elans(&written)
        };
        let elans = on("atm-155-lane-1516", &["blue", "red:1516"]).unwrap().elans;
        assert_eq!(elans, ["blue", "red"]);
        for (adapter, written, said) in [
            ("atm-155-lane-1516", &["blue", "blue"][..], "\"blue\" is named twice on one adapter"),
            ("atm-155-lane-1516", &["blue", "red:9234"], "\"red\" with units of 9234 bytes, where"),
            ("atm-155-lane-1516", &["blue", ""], "name \"\" of an emulated LAN"),
            ("atm-155-lane-1516", &["a b"], "name \"a b\""),
            ("atm-155", &["blue"], "adapter atm-155 has no LAN Emulation"),
            ("gigabit", &["blue"], "adapter gigabit has no LAN Emulation"),
        ] {
            let error = on(adapter, written).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert!(!error.hint().is_empty());
        }
        let adapter = Adapter::Model(Box::new(model::find("atm-155-lane-1516").unwrap()));
        let bridged = TestbedSpec { adapter, bridged_clients: 1, ..TestbedSpec::default() };
        let error = bridged.with_elans(&["blue".to_owned()]).unwrap_err();
        assert_eq!(error, ElanError::Together { with: "bridged-clients" });
    }
}
