//! Reports about aggregates: which of their ports carry traffic, and why.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::knobs::AggregateKnobs;

/// An aggregate at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AggregateReport {
    /// The name of its interface in the system under test.
    pub name: String,
    /// The Ethernet address of its interface.
    pub address: String,
    /// Its effective settings.
    pub knobs: AggregateKnobs,
    /// Its ports in use, by their numbers.
    pub members: Vec<MemberReport>,
    /// Its counters by name.
    pub counters: BTreeMap<String, u64>,
}

impl AggregateReport {
    /// The ports whose link is up and that carry no traffic, each with its reason.
    pub fn idle(&self) -> impl Iterator<Item = (&str, String)> {
        let idle = self.members.iter().filter(|member| member.link_up && !member.distributing);
        idle.map(|member| (member.port.as_str(), member.reason()))
    }
}

/// A port of an aggregate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberReport {
    /// The name of the port.
    pub port: String,
    /// Whether its link is up.
    pub link_up: bool,
    /// Whether packets are taken from it.
    pub collecting: bool,
    /// Whether packets go to it.
    pub distributing: bool,
    /// Its state in LACP; absent in other modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacp: Option<LacpReport>,
}

impl MemberReport {
    /// Why it carries traffic or not, as a phrase.
    pub fn reason(&self) -> String {
        match &self.lacp {
            _ if self.distributing => "carries traffic".to_owned(),
            _ if !self.link_up => "link down".to_owned(),
            Some(lacp) if lacp.selection == "selected" => lacp.mux_reason.clone(),
            Some(lacp) => lacp.selection.clone(),
            None => "waits until its link has been up for long enough".to_owned(),
        }
    }
}

/// A port in LACP. States have the names of IEEE 802.1AX.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LacpReport {
    /// Whether it is selected, or standby, or why neither.
    pub selection: String,
    /// State of the Receive machine.
    pub receive: String,
    /// State of the Periodic Transmission machine.
    pub periodic: String,
    /// State of the Mux machine.
    pub mux: String,
    /// Why the Mux machine went there.
    pub mux_reason: String,
    /// State of the Actor Churn Detection machine.
    pub actor_churn: String,
    /// State of the Partner Churn Detection machine.
    pub partner_churn: String,
    /// The own end of the link.
    pub actor: String,
    /// The other end; absent while no partner is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partner: Option<String>,
    /// Counters by the names of IEEE8023-LAG-MIB.
    pub counters: BTreeMap<String, u64>,
}
