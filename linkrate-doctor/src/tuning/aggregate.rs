//! Bonds and teams: members that are down, partners that are missing or differ, shares that are
//! uneven, and rates that differ.

use linkrate_model::existing_aggregate::ExistingAggregate;
use linkrate_model::shell;

use super::advice::{Advice, Basis, Cost};
use super::facts::Interface;

/// Shares of less are chance: a few long transfers are enough for any.
const ENOUGH_BYTES: u64 = 1 << 30;

/// A hash is uneven when one member carries this many times what it would carry of an even one.
const UNEVEN: f64 = 1.5;

pub(super) fn advice(interface: &Interface) -> Vec<Advice> {
    let Some(aggregate) = &interface.aggregate else { return Vec::new() };
    let name = &interface.name;
    let found = [
        without_members(aggregate),
        down(aggregate),
        without_partner(name, aggregate),
        outside(aggregate),
        rates(aggregate),
        shares(name, aggregate),
    ];
    let from = match aggregate.kind.as_str() {
        "bond" => format!("/proc/net/bonding/{}", shell::word(name)),
        _ => format!("teamdctl {} state", shell::word(name)),
    };
    let mut all: Vec<Advice> = found.into_iter().flatten().collect();
    if all.is_empty() {
        let many = aggregate.members.len();
        let detail = format!("all {many} members are up, with one rate and even shares");
        all.push(Advice::good("aggregate", detail));
    }
    all.into_iter().map(|one| one.on(name).seen(aggregate.to_string(), &from)).collect()
}

fn without_members(aggregate: &ExistingAggregate) -> Option<Advice> {
    let cost = Cost::unknown("it carries nothing");
    let none = aggregate.members.is_empty();
    none.then(|| Advice::improve("aggregate", "it has no members", cost).note("add its members"))
}

fn down(aggregate: &ExistingAggregate) -> Option<Advice> {
    let down = aggregate.down();
    let (lost, all) = (down.len(), aggregate.members.len());
    if lost == 0 {
        return None;
    }
    let cost = match aggregate.spreads() {
        true => {
            let text = format!("{lost} of {all} members carry nothing");
            Cost::known(Basis::Computed, lost as f64 / all as f64, text, "its members")
        }
        false => Cost::unknown("no member takes over when the active one fails"),
    };
    let detail = format!("the link of {} is down", down.join(", "));
    let advice = Advice::improve("aggregate-member", detail, cost);
    Some(advice.note("check the cable, the peer and whether the member is up (ip link show)"))
}

fn without_partner(name: &str, aggregate: &ExistingAggregate) -> Option<Advice> {
    if !aggregate.lacks_partner() {
        return None;
    }
    let all = aggregate.members.len().max(1) as f64;
    let text = "without a partner one member carries all";
    let cost = Cost::known(Basis::Computed, 1.0 - 1.0 / all, text, "its members");
    let detail = "no LACP partner answers: its address is all zero";
    let advice = Advice::improve("aggregate-partner", detail, cost)
        .seen("00:00:00:00:00:00", format!("/sys/class/net/{name}/bonding/ad_partner_mac"));
    Some(advice.note("configure LACP on the ports of the switch, or another mode here"))
}

fn outside(aggregate: &ExistingAggregate) -> Option<Advice> {
    let outside = aggregate.outside();
    if outside.is_empty() {
        return None;
    }
    let share = outside.len() as f64 / aggregate.members.len().max(1) as f64;
    let text = "members outside the active aggregator carry nothing";
    let cost = Cost::known(Basis::Computed, share, text, "its members");
    let each = outside.iter().map(|member| {
        let behind = match &member.partner {
            _ if member.lacks_partner() => " without a partner".to_owned(),
            Some(partner) => format!(" behind {partner}"),
            None => String::new(),
        };
        format!("{}{behind}", member.name)
    });
    let detail = format!(
        "in another aggregator than the active one: {}",
        each.collect::<Vec<_>>().join(", ")
    );
    let advice = Advice::improve("aggregate-partner", detail, cost);
    Some(advice.note(
        "all members must lead to one switch, or to switches that act as one, with one LACP group \
         and one rate",
    ))
}

fn rates(aggregate: &ExistingAggregate) -> Option<Advice> {
    let rates = aggregate.rates();
    let [slowest, .., fastest] = rates[..] else { return None };
    let cost = Cost::unknown(match aggregate.is_lacp() {
        true => "LACP aggregates only links of equal rate, so the others carry nothing",
        false => "the slowest member gets as many flows as the fastest one",
    });
    let detail = format!("its members have rates from {slowest} to {fastest}");
    let advice = Advice::improve("aggregate-rates", detail, cost);
    Some(advice.note("use members of one rate"))
}

/// Advice on what its members sent since they came up. What they received is the partner's choice.
fn shares(name: &str, aggregate: &ExistingAggregate) -> Option<Advice> {
    let up = aggregate.members.iter().filter(|member| member.up).count();
    let sent: u64 = aggregate.members.iter().map(|member| member.counts.tx_bytes).sum();
    if !aggregate.spreads() || up < 2 || sent < ENOUGH_BYTES {
        return None;
    }
    let shares = aggregate.shares();
    let of = |share: &(&str, [Option<f64>; 2])| share.1[0].unwrap_or(0.0);
    let most = shares.iter().max_by(|one, other| of(one).total_cmp(&of(other)))?;
    let even = 100.0 / up as f64;
    if of(most) < even * UNEVEN {
        return None;
    }
    // one member is full when the others are at this share of it
    let lost = 1.0 - even / of(most);
    let text = "one member is full before the others, if the traffic stays as it was";
    let cost = Cost::known(Basis::Computed, lost, text, "tx_bytes of its members");
    let detail = format!(
        "{} sent {:.0} % of all bytes; of {up} members each would send {even:.0} %",
        most.0,
        of(most)
    );
    let advice = Advice::consider("aggregate-shares", detail, cost);
    let fine = matches!(aggregate.hash.as_deref(), Some("layer3+4" | "encap3+4"));
    Some(match aggregate.mode.as_deref() {
        Some("802.3ad" | "balance-xor") if !fine => advice
            .run(format!(
                "echo layer3+4 > /sys/class/net/{}/bonding/xmit_hash_policy",
                shell::word(name)
            ))
            .note("this spreads connections between the same two hosts too"),
        _ => advice.note("more connections spread more evenly; one connection uses one member"),
    })
}
