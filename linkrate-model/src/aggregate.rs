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
    /// How long a flow must be silent before it may change its port, ms: no marker proves that its
    /// frames have arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_ms: Option<f64>,
    /// Its ports in use, by their numbers.
    pub members: Vec<MemberReport>,
    /// Its counters by name.
    pub counters: BTreeMap<String, u64>,
}

impl AggregateReport {
    /// The ports whose link is up and that carry no traffic, each with its reason. Ports that stand by
    /// are in order.
    pub fn idle(&self) -> impl Iterator<Item = (&str, String)> {
        let is_idle =
            |member: &&MemberReport| member.link_up && !member.distributing && !member.stands_by();
        let idle = self.members.iter().filter(is_idle);
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
    /// Its BFD session; absent without BFD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bfd: Option<BfdReport>,
    /// Its state in a failover group; absent in other modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverReport>,
}

impl MemberReport {
    /// Whether it works and carries no traffic because others do.
    pub fn stands_by(&self) -> bool {
        let by_lacp = self.lacp.as_ref().is_some_and(|lacp| lacp.selection == "standby");
        let is_free = |port: &FailoverReport| !port.active && port.held_ms.is_none();
        let by_failover = self.failover.as_ref().is_some_and(is_free);
        self.link_up && !self.distributing && (by_lacp || by_failover) && !self.has_no_session()
    }

    fn has_no_session(&self) -> bool {
        self.bfd.as_ref().is_some_and(|bfd| bfd.state != "Up")
    }

    /// Why it carries traffic or not, as a phrase.
    pub fn reason(&self) -> String {
        if self.distributing {
            return "carries traffic".to_owned();
        }
        if !self.link_up {
            return "link down".to_owned();
        }
        if let Some(bfd) = self.bfd.as_ref().filter(|_| self.has_no_session()) {
            return format!("BFD session {}: {}", bfd.state, bfd.diagnostic);
        }
        match (&self.lacp, &self.failover) {
            (Some(lacp), _) if lacp.selection == "selected" => lacp.mux_reason.clone(),
            (Some(lacp), _) => lacp.selection.clone(),
            (None, Some(failover)) => failover.standby().to_owned(),
            (None, None) => "waits until its link has been up for long enough".to_owned(),
        }
    }
}

/// A BFD session of a port (RFC 7130). States and diagnostics have the names of RFC 5880.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BfdReport {
    /// The state of the session at this end.
    pub state: String,
    /// Why it went there.
    pub diagnostic: String,
    /// Time between two of its packets, ms, before it is varied.
    pub interval_ms: f64,
    /// Time without a packet after which the session goes down, ms; absent while the other end is not
    /// heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detection_ms: Option<f64>,
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Times that the session went down.
    pub losses: u64,
}

/// A port of a failover group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FailoverReport {
    /// It is the active port.
    pub active: bool,
    /// Why the group moved to it; absent for other ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// It hears frames of other ports.
    pub hears: bool,
    /// Other ports hear its polls.
    pub is_heard: bool,
    /// How much longer it is held down after a failure, ms; absent if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ms: Option<f64>,
}

impl FailoverReport {
    /// The state of a port that is not the active one, as a phrase.
    fn standby(&self) -> &'static str {
        match (self.held_ms.is_some(), self.hears, self.is_heard) {
            (true, ..) => "held down after a failure",
            (false, true, true) => "stands by",
            (false, true, false) => "stands by; no other port hears it",
            (false, false, true) => "stands by; it hears no other port",
            (false, false, false) => "stands by; no poll came or went yet",
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

#[cfg(test)]
mod tests {
    use super::*;

    fn member(change: impl FnOnce(&mut MemberReport)) -> MemberReport {
        let mut member = MemberReport {
            port: "eth0".to_owned(),
            link_up: true,
            collecting: false,
            distributing: false,
            lacp: None,
            bfd: None,
            failover: None,
        };
        change(&mut member);
        member
    }

    fn bfd(state: &str) -> Option<BfdReport> {
        let (state, diagnostic) = (state.to_owned(), "path down".to_owned());
        let (interval_ms, detection_ms) = (40.0, None);
        Some(BfdReport {
            state,
            diagnostic,
            interval_ms,
            detection_ms,
            sent: 1,
            received: 0,
            losses: 0,
        })
    }

    #[test]
    fn ports_that_could_carry_traffic_and_do_not_are_idle() {
        let named = |port: &str, change: fn(&mut MemberReport)| MemberReport {
            port: port.to_owned(),
            ..member(change)
        };
        let report = AggregateReport {
            name: "agg0".to_owned(),
            address: "02:00:00:00:00:01".to_owned(),
            knobs: AggregateKnobs::default(),
            quiet_ms: None,
            members: vec![
                named("eth0", |it| it.distributing = true),
                named("eth1", |it| it.link_up = false),
                named("eth2", |it| it.bfd = bfd("Down")),
                named("eth3", |_| ()),
            ],
            counters: BTreeMap::new(),
        };
        let reasons = [
            ("eth2", "BFD session Down: path down".to_owned()),
            ("eth3", "waits until its link has been up for long enough".to_owned()),
        ];
        assert_eq!(report.idle().collect::<Vec<_>>(), reasons);
    }

    #[test]
    fn a_port_says_why_it_carries_nothing() {
        let standby = FailoverReport {
            active: false,
            cause: None,
            hears: true,
            is_heard: true,
            held_ms: None,
        };
        let held = FailoverReport { held_ms: Some(3.0), ..standby.clone() };
        let by = |failover: &FailoverReport| member(|it| it.failover = Some(failover.clone()));
        for (member, stands_by, reason) in [
            (by(&standby), true, "stands by"),
            (by(&held), false, "held down after a failure"),
            (
                MemberReport { bfd: bfd("Down"), ..by(&standby) },
                false,
                "BFD session Down: path down",
            ),
            (MemberReport { link_up: false, ..by(&standby) }, false, "link down"),
            (member(|it| it.bfd = bfd("Init")), false, "BFD session Init: path down"),
            (
                member(|it| it.bfd = bfd("Up")),
                false,
                "waits until its link has been up for long enough",
            ),
            (member(|it| it.distributing = true), false, "carries traffic"),
        ] {
            assert_eq!(member.reason(), reason);
            assert_eq!(member.stands_by(), stands_by, "{reason}");
        }
    }

    #[test]
    fn the_state_of_the_previous_version_is_read() {
        let text = r#"{"name":"agg0","address":"02:00:00:00:00:01","knobs":{"aggregate":1},
            "members":[{"port":"eth0","link_up":true,"collecting":true,"distributing":true}],
            "counters":{}}"#;
        let report: AggregateReport = serde_json::from_str(text).unwrap();
        assert_eq!((report.quiet_ms, report.members[0].bfd.clone()), (None, None));
        assert_eq!(report.knobs.poll_interval, 10_000);
    }
}
