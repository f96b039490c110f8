//! Bonds and teams of the host, from the files of their drivers.
//!
//! `/sys/class/net/BOND/bonding` and `/sys/class/net/MEMBER/bonding_slave` hold the state of the
//! bonding driver (drivers/net/bonding/bond_sysfs.c and bond_sysfs_slave.c,
//! Documentation/networking/bonding.rst), and `/proc/net/bonding/BOND` the partners of each member
//! (bond_procfs.c), for root only. The files of a team tell its members only; [`team`](crate::team) reads
//! the rest.

use linkrate_model::existing_aggregate::{ExistingAggregate, ExistingMember};
use linkrate_model::measurement::InterfaceCounts;
use linkrate_model::{BitRate, interfaces};

use crate::tree::Tree;

/// The most members that are read: far more than any aggregate has.
const MAX_MEMBERS: usize = 256;

/// The aggregate of that name; `None` for any other interface. `kind` is its kind by rtnetlink,
/// where that is known: the files of a team do not report.
pub fn aggregate(tree: &Tree, name: &str, kind: Option<&str>) -> Option<ExistingAggregate> {
    let base = format!("/sys/class/net/{name}");
    if tree.has(format!("{base}/bonding/mode")) {
        return Some(bond(tree, name, &format!("{base}/bonding")));
    }
    if kind != Some("team") {
        return None;
    }
    let names = tree.names(&base);
    let members = names.iter().filter_map(|entry| entry.strip_prefix("lower_"));
    Some(ExistingAggregate {
        kind: "team".to_owned(),
        members: members.take(MAX_MEMBERS).map(|name| member(tree, name, None)).collect(),
        ..ExistingAggregate::default()
    })
}

fn bond(tree: &Tree, name: &str, base: &str) -> ExistingAggregate {
    let text = |file: &str| tree.text(format!("{base}/{file}")).filter(|text| !text.is_empty());
    // a name and its number: "802.3ad 4"
    let word = |file: &str| Some(text(file)?.split_whitespace().next()?.to_owned());
    let mode = word("mode");
    let lacp = mode.as_deref() == Some("802.3ad");
    let listed = tree.text(format!("/proc/net/bonding/{name}")).unwrap_or_default();
    let members = text("slaves").unwrap_or_default();
    let members = members.split_whitespace().filter(|name| interfaces::is_interface_name(name));
    ExistingAggregate {
        kind: "bond".to_owned(),
        hash: word("xmit_hash_policy"),
        lacp_rate: word("lacp_rate").filter(|_| lacp),
        partner: text("ad_partner_mac").filter(|_| lacp),
        aggregator: text("ad_aggregator").filter(|_| lacp).and_then(|text| text.parse().ok()),
        active: text("active_slave"),
        members: members.take(MAX_MEMBERS).map(|name| member(tree, name, Some(&listed))).collect(),
        mode,
    }
}

/// One member; `listed` is the text of `/proc/net/bonding` for a member of a bond.
fn member(tree: &Tree, name: &str, listed: Option<&str>) -> ExistingMember {
    let base = format!("/sys/class/net/{name}");
    let of_bond = |file: &str| tree.text(format!("{base}/bonding_slave/{file}"));
    let count = |file: &str| tree.number(format!("{base}/statistics/{file}")).unwrap_or(0);
    let has_carrier = || tree.number::<u32>(format!("{base}/carrier")) == Some(1);
    // -1 stands for unknown
    let mbps = tree.number::<i64>(format!("{base}/speed")).filter(|mbps| *mbps > 0);
    ExistingMember {
        name: name.to_owned(),
        // "going back" and "going down" are links whose delay has not passed
        up: of_bond("mii_status").map_or_else(has_carrier, |status| status == "up"),
        rate: mbps.map(|mbps| BitRate(mbps as f64 * 1e6)),
        state: of_bond("state"),
        aggregator: of_bond("ad_aggregator_id").and_then(|text| text.parse().ok()),
        partner: listed.and_then(|text| partner(text, name)),
        failures: of_bond("link_failure_count").and_then(|text| text.parse().ok()),
        counts: InterfaceCounts {
            tx_packets: count("tx_packets"),
            tx_bytes: count("tx_bytes"),
            rx_packets: count("rx_packets"),
            rx_bytes: count("rx_bytes"),
            tx_dropped: count("tx_dropped"),
            rx_dropped: count("rx_dropped"),
            tx_errors: count("tx_errors"),
            rx_errors: count("rx_errors"),
            ..InterfaceCounts::default()
        },
    }
}

/// The system behind a member: in its section, under the partner's LACPDU.
fn partner(listed: &str, member: &str) -> Option<String> {
    let mut of_member = false;
    let mut of_partner = false;
    for line in listed.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("Slave Interface: ") {
            (of_member, of_partner) = (name == member, false);
        } else if line.ends_with("lacp pdu:") {
            of_partner = line.contains("partner");
        } else if let Some(address) = line.strip_prefix("system mac address: ")
            && of_member
            && of_partner
        {
            return Some(address.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As bond_procfs.c prints it for root, without lines that are not read.
    const LISTED: &str = "Ethernet Channel Bonding Driver: v6.1.0\n\n\
        Bonding Mode: IEEE 802.3ad Dynamic link aggregation\n\
        Transmit Hash Policy: layer3+4 (1)\nMII Status: up\n\n\
        802.3ad info\nLACP active: on\nLACP rate: fast\nMin links: 0\n\
        System MAC address: 52:54:00:00:00:01\nActive Aggregator Info:\n\
        \tAggregator ID: 1\n\tPartner Mac Address: 02:00:00:00:00:01\n\n\
        Slave Interface: eth2\nMII Status: up\nSpeed: 10000 Mbps\nAggregator ID: 1\n\
        details actor lacp pdu:\n    system priority: 65535\n    \
        system mac address: 52:54:00:00:00:01\n    port key: 15\n\
        details partner lacp pdu:\n    system priority: 127\n    \
        system mac address: 02:00:00:00:00:01\n    oper key: 11\n\n\
        Slave Interface: eth3\nMII Status: up\nAggregator ID: 2\n\
        details actor lacp pdu:\n    system mac address: 52:54:00:00:00:01\n\
        details partner lacp pdu:\n    system mac address: 00:00:00:00:00:00\n";

    #[test]
    fn partners_are_distinguished_by_their_section() {
        assert_eq!(partner(LISTED, "eth2").as_deref(), Some("02:00:00:00:00:01"));
        assert_eq!(partner(LISTED, "eth3").as_deref(), Some("00:00:00:00:00:00"));
        assert_eq!((partner(LISTED, "eth4"), partner("", "eth2")), (None, None));
    }

    #[test]
    fn recorded_files_give_the_whole_aggregate() {
        let root = std::env::temp_dir().join(format!("linkrate-bonding-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        };
        for (file, text) in [
            ("mode", "802.3ad 4"),
            ("xmit_hash_policy", "layer3+4 1"),
            ("lacp_rate", "fast 1"),
            ("slaves", "eth2 eth3 ../evil"),
            ("active_slave", ""),
            ("ad_aggregator", "1"),
            ("ad_partner_mac", "02:00:00:00:00:01"),
        ] {
            write(&format!("sys/class/net/bond0/bonding/{file}"), text);
        }
        for (name, status, aggregator, speed, bytes) in
            [("eth2", "up", "1", "10000", "700"), ("eth3", "down", "N/A", "-1", "300")]
        {
            for (file, text) in [
                ("bonding_slave/mii_status", status),
                ("bonding_slave/state", "active"),
                ("bonding_slave/link_failure_count", "2"),
                ("bonding_slave/ad_aggregator_id", aggregator),
                ("speed", speed),
                ("statistics/tx_bytes", bytes),
            ] {
                write(&format!("sys/class/net/{name}/{file}"), text);
            }
        }
        write("proc/net/bonding/bond0", LISTED);
        write("sys/class/net/team0/lower_eth2", "");
        write("sys/class/net/eth2/carrier", "1");
        let tree = Tree::below(&root);
        let bond = aggregate(&tree, "bond0", Some("bond")).unwrap();
        assert_eq!(
            (bond.mode.as_deref(), bond.hash.as_deref(), bond.lacp_rate.as_deref()),
            (Some("802.3ad"), Some("layer3+4"), Some("fast"))
        );
        assert_eq!((bond.aggregator, bond.active.as_deref()), (Some(1), None));
        let members: Vec<_> = bond
            .members
            .iter()
            .map(|m| (m.name.as_str(), m.up, m.rate, m.aggregator, m.failures, m.counts.tx_bytes))
            .collect();
        let rate = Some(BitRate(1e10));
        assert_eq!(
            members,
            [
                ("eth2", true, rate, Some(1), Some(2), 700),
                ("eth3", false, None, None, Some(2), 300)
            ]
        );
        assert!(bond.members[1].lacks_partner() && !bond.lacks_partner());
        let team = aggregate(&tree, "team0", Some("team")).unwrap();
        assert_eq!((team.members.len(), team.members[0].up), (1, true));
        assert_eq!(aggregate(&tree, "eth2", None), None);
        std::fs::remove_dir_all(root).unwrap();
    }
}
