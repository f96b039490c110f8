//! An aggregate that the host has already: a bond or a team of the kernel, over existing interfaces.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::BitRate;
use crate::measurement::InterfaceCounts;

/// A bond or a team. What the kernel does not report, or not this user, is absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ExistingAggregate {
    /// `bond` or `team`.
    pub kind: String,
    /// The mode by the kernel's name (`802.3ad`, `active-backup`; `loadbalance`, `activebackup` of a team,
    /// to root only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// What the member for a packet is chosen by, by the kernel's name (`layer3+4`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// How often the partner is asked to send LACPDUs: `slow` or `fast`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacp_rate: Option<String>,
    /// The MAC address of the partner's system; all zero without a partner. Told to root only, and never
    /// of a team: teamd(8) keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partner: Option<String>,
    /// The aggregator that carries traffic, with `802.3ad`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregator: Option<u32>,
    /// The member that carries traffic, in modes with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<String>,
    /// Its members.
    pub members: Vec<ExistingMember>,
}

/// A member of a bond or a team.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ExistingMember {
    /// Its name.
    pub name: String,
    /// Its link is up for the aggregate.
    pub up: bool,
    /// The rate of its link; absent where it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// `active` or `backup`; `enabled` or `disabled` of a team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The aggregator that it belongs to, with `802.3ad`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregator: Option<u32>,
    /// The MAC address of the system behind it; all zero without LACPDUs from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partner: Option<String>,
    /// How often its link was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<u64>,
    /// Its counters.
    pub counts: InterfaceCounts,
}

/// The address of a system that has sent no LACPDU.
const NO_SYSTEM: &str = "00:00:00:00:00:00";

impl ExistingAggregate {
    /// Whether it speaks LACP.
    pub fn is_lacp(&self) -> bool {
        self.mode.as_deref() == Some("802.3ad")
    }

    /// Whether it spreads packets over its members. A team of unknown mode may.
    pub fn spreads(&self) -> bool {
        // the bonding driver and the team driver write it in their own way
        !matches!(self.mode.as_deref(), Some("active-backup" | "activebackup" | "broadcast"))
    }

    /// The same with what its members counted since `earlier`.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        for member in &mut self.members {
            let before = earlier.members.iter().find(|before| before.name == member.name);
            if let Some(before) = before {
                member.counts = member.counts.since(before.counts);
            }
        }
        self
    }

    /// Each member's share of the bytes sent and of the bytes received, per cent; `None` for a
    /// direction in which nothing moved.
    pub fn shares(&self) -> Vec<(&str, [Option<f64>; 2])> {
        let bytes = |member: &ExistingMember| [member.counts.tx_bytes, member.counts.rx_bytes];
        let total = |direction: usize| -> f64 {
            self.members.iter().map(|member| bytes(member)[direction] as f64).sum()
        };
        let totals = [total(0), total(1)];
        let share = |member: &ExistingMember, direction: usize| {
            let total = totals[direction];
            (total > 0.0).then(|| bytes(member)[direction] as f64 * 100.0 / total)
        };
        let each = self.members.iter();
        each.map(|member| (member.name.as_str(), [share(member, 0), share(member, 1)])).collect()
    }

    /// Members whose link is down.
    pub fn down(&self) -> Vec<&str> {
        self.members.iter().filter(|member| !member.up).map(|member| member.name.as_str()).collect()
    }

    /// Whether LACP is configured and no system answers.
    pub fn lacks_partner(&self) -> bool {
        self.is_lacp() && self.partner.as_deref() == Some(NO_SYSTEM)
    }

    /// Members outside the aggregator that carries traffic: they have no partner, or another one.
    pub fn outside(&self) -> Vec<&ExistingMember> {
        let Some(active) = self.aggregator.filter(|_| self.is_lacp()) else { return Vec::new() };
        let outside = |member: &&ExistingMember| member.up && member.aggregator != Some(active);
        self.members.iter().filter(outside).collect()
    }

    /// The different rates of members that are up, the slowest first.
    pub fn rates(&self) -> Vec<BitRate> {
        let up = self.members.iter().filter(|member| member.up);
        let mut rates: Vec<BitRate> = up.filter_map(|member| member.rate).collect();
        rates.sort_by(|one, other| one.0.total_cmp(&other.0));
        rates.dedup();
        rates
    }
}

impl ExistingMember {
    /// Whether the system behind it has sent no LACPDU.
    pub fn lacks_partner(&self) -> bool {
        self.partner.as_deref() == Some(NO_SYSTEM)
    }
}

/// One line: `bond, 802.3ad, hash layer3+4, partner 02:00:00:00:00:01; eth2 up 10.00 Gb/s, eth3 down`.
impl fmt::Display for ExistingAggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        let named = |name, value: &Option<String>| {
            value.as_ref().map_or_else(String::new, |value| format!(", {name}{value}"))
        };
        f.write_str(&named("", &self.mode))?;
        f.write_str(&named("hash ", &self.hash.clone().filter(|_| self.spreads())))?;
        f.write_str(&named("LACP ", &self.lacp_rate.clone().filter(|_| self.is_lacp())))?;
        match self.lacks_partner() {
            true => f.write_str(", no partner")?,
            false => f.write_str(&named("partner ", &self.partner))?,
        }
        f.write_str(&named("active ", &self.active))?;
        for (index, member) in self.members.iter().enumerate() {
            f.write_str(if index == 0 { "; " } else { ", " })?;
            write!(f, "{} {}", member.name, if member.up { "up" } else { "down" })?;
            if let Some(rate) = member.rate.filter(|_| member.up) {
                write!(f, " {rate}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, tx_bytes: u64) -> ExistingMember {
        let counts = InterfaceCounts { tx_bytes, ..InterfaceCounts::default() };
        ExistingMember {
            name: name.to_owned(),
            up: true,
            rate: Some(BitRate(1e10)),
            aggregator: Some(1),
            counts,
            ..ExistingMember::default()
        }
    }

    fn bond() -> ExistingAggregate {
        ExistingAggregate {
            kind: "bond".to_owned(),
            mode: Some("802.3ad".to_owned()),
            hash: Some("layer3+4".to_owned()),
            partner: Some("02:00:00:00:00:01".to_owned()),
            aggregator: Some(1),
            members: vec![member("eth2", 700), member("eth3", 400)],
            ..ExistingAggregate::default()
        }
    }

    #[test]
    fn shares_are_those_of_the_window() {
        let mut earlier = bond();
        earlier.members[1].counts.tx_bytes = 100;
        earlier.members[0].counts.tx_bytes = 0;
        let seen = bond().since(&earlier);
        assert_eq!(seen.shares(), [("eth2", [Some(70.0), None]), ("eth3", [Some(30.0), None])]);
    }

    #[test]
    fn a_sentence_names_mode_partner_and_members() {
        let mut bond = bond();
        let rate = BitRate(1e10);
        let text = format!(
            "bond, 802.3ad, hash layer3+4, partner 02:00:00:00:00:01; eth2 up {rate}, eth3 up {rate}"
        );
        assert_eq!(bond.to_string(), text);
        bond.partner = Some(NO_SYSTEM.to_owned());
        bond.members[1].up = false;
        assert_eq!(
            bond.to_string(),
            format!("bond, 802.3ad, hash layer3+4, no partner; eth2 up {rate}, eth3 down")
        );
        assert_eq!((bond.lacks_partner(), bond.down()), (true, vec!["eth3"]));
    }

    #[test]
    fn other_aggregators_and_rates_are_reported() {
        let mut bond = bond();
        assert!(bond.outside().is_empty() && bond.rates().len() == 1);
        bond.members[1].aggregator = Some(2);
        bond.members[1].rate = Some(BitRate(1e9));
        assert_eq!(bond.outside()[0].name, "eth3");
        assert_eq!(bond.rates(), [BitRate(1e9), BitRate(1e10)]);
        bond.mode = Some("balance-xor".to_owned());
        assert!(bond.outside().is_empty(), "only LACP has aggregators");
    }

    #[test]
    fn an_unknown_or_missing_field_is_no_error() {
        let read: ExistingAggregate = serde_json::from_str("{\"kind\":\"team\"}").unwrap();
        assert_eq!((read.kind.as_str(), read.members.len()), ("team", 0));
        assert!(read.spreads() && !read.is_lacp());
    }
}
