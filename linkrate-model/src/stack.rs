//! What the network stack of a host is made of beside the knobs of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Settings and objects of the network stack by name, with their values as the kernel tells them. It serves to see a
/// change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Stack {
    /// What holds for the whole host, and what no run sets: sysctls, netfilter, sockets that get copies of packets.
    pub host: BTreeMap<String, String>,
    /// What belongs to the interfaces of a run and to its peers. Knobs set some of it.
    pub interfaces: BTreeMap<String, String>,
}

impl Stack {
    /// Everything by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let both = self.host.iter().chain(&self.interfaces);
        both.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}
