//! What stands against lending an interface: state that the kernel removes when the interface moves
//! to another network namespace, and that linkrate cannot restore exactly.

use std::fs;

use linkrate_sys::error::SysError;
use linkrate_sys::netlink::{RouteSocket, netfilter_on};

use linkrate_protocol::Refusal;

/// The discipline that the kernel gives to queues; not told in network namespaces.
const DEFAULT_DISCIPLINE: &str = "/proc/sys/net/core/default_qdisc";

/// Interfaces of multicast routing daemons.
const MULTICAST_ROUTING: [&str; 2] =
    ["/proc/thread-self/net/ip_mr_vif", "/proc/thread-self/net/ip6_mr_vif"];

/// Refuses to lend an interface that would lose something. The refusal names the first thing that linkrate cannot
/// restore, with the command that removes it. Fails, too, where the kernel does not permit to look.
pub fn check(interface: &str) -> Result<(), Refusal> {
    match first(interface)? {
        None => Ok(()),
        Some((what, removal)) => Err(Refusal {
            reason: format!(
                "interface {interface} has {what}, and linkrate cannot restore it after it has \
                 moved the interface to a client"
            ),
            hint: Some(format!(
                "remove it ({removal}), or choose another interface, or a client behind ssh"
            )),
        }),
    }
}

/// The first obstacle, and how to remove it.
fn first(interface: &str) -> Result<Option<(String, String)>, SysError> {
    let mut route = RouteSocket::open()?;
    let found = |what: String, removal: String| Ok(Some((what, removal)));
    if let Some(hook) = route.filtered_hook(interface)? {
        let removal = format!("tc filter del dev {interface} {hook}");
        return found(format!("a tc filter on {hook}"), removal);
    }
    if let Some(what) = route.configured_disciplines(interface)?.inexact() {
        return found(what, format!("tc qdisc del dev {interface} root"));
    }
    let default = fs::read_to_string(DEFAULT_DISCIPLINE).unwrap_or_default();
    if let Some(other) = changed(&route.default_disciplines(interface)?, default.trim()) {
        let what = format!(
            "the queueing discipline {other} from a time when it was the default, which is now {}",
            default.trim()
        );
        return found(what, format!("tc qdisc replace dev {interface} root {}", default.trim()));
    }
    if let Some(number) = route.nexthop_objects(interface)?.first() {
        return found(
            format!("the nexthop object {number}"),
            format!("ip nexthop del id {number}"),
        );
    }
    if let Some(token) = route.ipv6_token(interface)? {
        return found(format!("the IPv6 token {token}"), format!("ip token del dev {interface}"));
    }
    if let Some(address) = route.addressing(interface)?.leased().first() {
        let removal = "end the program that leased it, and set a static address";
        return found(format!("the leased address {address}"), removal.to_owned());
    }
    if route.has_mpls_routes(interface)? {
        let removal = format!("ip -family mpls route flush dev {interface}");
        return found("routes of MPLS".to_owned(), removal);
    }
    if let Some(what) = netfilter_on(interface) {
        return found(what, "nft list ruleset shows it".to_owned());
    }
    let tables = MULTICAST_ROUTING.iter().map(|path| fs::read_to_string(path).unwrap_or_default());
    if tables.into_iter().any(|table| is_listed(&table, interface)) {
        return found("multicast routing".to_owned(), "end the routing daemon".to_owned());
    }
    Ok(None)
}

/// The discipline that the kernel would not give the interface again. `mq` stands for the queues of
/// an adapter, `noqueue` for an interface without queues.
fn changed(found: &[String], default: &str) -> Option<String> {
    let again = |kind: &&String| ["mq", "noqueue", "noop", default].contains(&kind.as_str());
    match default {
        "" => None,
        _ => found.iter().find(|kind| !again(kind)).cloned(),
    }
}

/// Whether a table of multicast routing has the interface, in its second field.
fn is_listed(table: &str, interface: &str) -> bool {
    table.lines().any(|line| line.split_ascii_whitespace().nth(1) == Some(interface))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discipline_that_is_the_default_no_more_is_an_obstacle() {
        let found = |kinds: &[&str], default| {
            let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
            changed(&kinds, default)
        };
        assert_eq!(found(&["mq", "fq", "fq"], "fq"), None);
        assert_eq!(found(&["noqueue"], "fq"), None);
        assert_eq!(found(&["mq", "pfifo_fast"], "fq").as_deref(), Some("pfifo_fast"));
        assert_eq!(found(&["pfifo_fast"], ""), None, "nobody tells in a network namespace");
    }

    #[test]
    fn an_interface_of_a_routing_daemon_is_in_its_table() {
        let table = "Interface      BytesIn  PktsIn  BytesOut PktsOut Flags Local    Remote\n \
                     0 eth2              0       0         0       0 00000 0200A8C0 00000000\n";
        assert!(is_listed(table, "eth2") && !is_listed(table, "eth") && !is_listed("", "eth2"));
    }

    #[test]
    fn the_loopback_has_nothing_that_would_be_lost() {
        check("lo").unwrap();
        assert!(check("no-such-if").unwrap_err().reason.contains("no-such-if"));
    }
}
