//! What is attached to an interface or stands on the way of its packets, in words that change when it does: programs of
//! XDP and tc, filters, those who want all frames, rule sets of netfilter, and routes to peers.

use std::net::IpAddr;

use super::RouteSocket;
use super::discipline::HOOKS;
use super::exchange::Exchange;
use super::raw::{Raw, attributes, text, word};
use crate::error::SysResult;

/// `struct ifinfomsg` and its attributes, linux/if_link.h.
const LINK_HEADER: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_PROMISCUITY: u16 = 30;
const IFLA_CARRIER_CHANGES: u16 = 35;
const IFLA_XDP: u16 = 43;
const IFLA_GRO_MAX_SIZE: u16 = 58;
const IFLA_ALLMULTI: u16 = 61;
const IFLA_GRO_IPV4_MAX_SIZE: u16 = 64;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;

/// Attributes of one number, by the names of ip-link(8).
const NUMBERS: [(u16, &str); 7] = [
    (IFLA_MASTER, "controller"),
    (IFLA_TXQLEN, "txqueuelen"),
    (IFLA_PROMISCUITY, "promiscuity"),
    (IFLA_ALLMULTI, "allmulticast"),
    (IFLA_CARRIER_CHANGES, CARRIER_CHANGES),
    (IFLA_GRO_MAX_SIZE, "gro_max_size"),
    (IFLA_GRO_IPV4_MAX_SIZE, "gro_ipv4_max_size"),
];

/// How often the link came and went.
pub const CARRIER_CHANGES: &str = "carrier changes";

/// `struct tcmsg` and its attributes, linux/rtnetlink.h. The number of a BPF program is in the options of its filter
/// (linux/pkt_cls.h).
const FILTER_HEADER: usize = 20;
const FILTER_HANDLE: usize = 8;
const FILTER_INFO: usize = 16;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_ID: u16 = 11;

/// `struct rtmsg`, its flag that asks for the entry of the table itself, and its attributes, linux/rtnetlink.h.
const ROUTE_HEADER: usize = 12;
const RTM_F_FIB_MATCH: u32 = 0x2000;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTAX_CC_ALGO: u16 = 16;

/// The metrics of a route from `RTAX_LOCK` on, by the names of ip-route(8).
const METRICS: [&str; 17] = [
    "lock",
    "mtu",
    "window",
    "rtt",
    "rttvar",
    "ssthresh",
    "cwnd",
    "advmss",
    "reordering",
    "hoplimit",
    "initcwnd",
    "features",
    "rto_min",
    "initrwnd",
    "quickack",
    "congctl",
    "fastopen_no_cookie",
];

/// `NFT_MSG_GETGEN` and its reply, linux/netfilter/nf_tables.h.
const NETFILTER_HEADER: usize = 4;
const GET_GENERATION: u16 = 10 << 8 | 16;
const NFTA_GEN_ID: u16 = 1;

impl RouteSocket {
    /// What is attached to an interface, by name; `ENODEV` without an interface of that name.
    pub fn attached(&mut self, name: &str) -> SysResult<Vec<(String, String)>> {
        let mut request = Raw::new(libc::RTM_GETLINK, [0; LINK_HEADER]);
        request.push(IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
        let replies: Vec<Raw> = self
            .0
            .request(request, 0)
            .map_err(|refusal| refusal.during("read what is attached to", name))?;
        let mut found = replies.first().map(of_link).unwrap_or_default();
        let parents = std::iter::once((0, "root")).chain(HOOKS);
        for (parent, hook) in parents {
            let filters = self.traffic_control(name, libc::RTM_GETTFILTER, parent)?;
            let filters: Vec<String> = filters.iter().map(filter).collect();
            if !filters.is_empty() {
                found.push((format!("tc filters at {hook}"), filters.join("; ")));
            }
        }
        Ok(found)
    }

    /// The route to `address` with its metrics; `None` without one. MTUs that the kernel has learned are no part of it.
    pub fn route_in_words(&mut self, address: IpAddr) -> Option<String> {
        let (family, octets) = match address {
            IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
            IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
        };
        let mut header = [0; ROUTE_HEADER];
        (header[0], header[1]) = (family as u8, octets.len() as u8 * 8);
        header[8..].copy_from_slice(&RTM_F_FIB_MATCH.to_ne_bytes());
        let mut request = Raw::new(libc::RTM_GETROUTE, header);
        request.push(RTA_DST, &octets);
        let replies: Vec<Raw> = self.0.request(request, 0).ok()?;
        let links = self.links().ok()?;
        let name = |index: u32| {
            let link = links.iter().find(|entry| entry.link.index == index);
            link.map_or_else(|| index.to_string(), |entry| entry.name.clone())
        };
        replies.first().map(|reply| route(reply, name))
    }
}

/// How often the rule set of nf_tables in the network namespace of the calling thread has changed; `None` without
/// nf_tables, and for a user who may not ask.
pub fn nf_tables_generation() -> Option<u32> {
    let mut socket = Exchange::open(netlink_sys::protocols::NETLINK_NETFILTER, "netfilter").ok()?;
    let request = Raw::new(GET_GENERATION, [0; NETFILTER_HEADER]);
    let replies: Vec<Raw> = socket.request(request, 0).ok()?;
    replies.first()?.attribute(NETFILTER_HEADER, NFTA_GEN_ID).and_then(word).map(u32::from_be)
}

fn of_link(message: &Raw) -> Vec<(String, String)> {
    let numbers = NUMBERS.iter().filter_map(|(kind, name)| {
        let value = message.attribute(LINK_HEADER, *kind).and_then(word)?;
        Some(((*name).to_owned(), value.to_string()))
    });
    let mut found: Vec<_> = numbers.collect();
    let xdp = message.attribute(LINK_HEADER, IFLA_XDP).unwrap_or_default();
    let part = |kind| attributes(xdp).find_map(|(found, value)| (found == kind).then_some(value));
    if let Some(mode) = part(IFLA_XDP_ATTACHED).and_then(<[u8]>::first).filter(|mode| **mode > 0) {
        let mode = ["", "driver", "generic", "offloaded", "several modes"]
            .get(usize::from(*mode))
            .unwrap_or(&"unknown mode");
        let number = part(IFLA_XDP_PROG_ID).and_then(word);
        let number = number.map(|number| format!("{number}, ")).unwrap_or_default();
        found.push(("XDP program".to_owned(), format!("{number}{mode}")));
    }
    found
}

/// `bpf, preference 49152, handle 1, program 45`.
fn filter(message: &Raw) -> String {
    let kind = text(message.attribute(FILTER_HEADER, TCA_KIND).unwrap_or_default());
    let options = message.attribute(FILTER_HEADER, TCA_OPTIONS).unwrap_or_default();
    let preference = message.word(FILTER_INFO).unwrap_or(0) >> 16;
    let handle = message.word(FILTER_HANDLE).unwrap_or(0);
    let program = attributes(options).find(|(found, _)| *found == TCA_BPF_ID && kind == "bpf");
    let program = program.and_then(|(_, value)| word(value));
    let program = program.map(|number| format!(", program {number}")).unwrap_or_default();
    format!("{kind}, preference {preference}, handle {handle:x}{program}")
}

/// `10.0.0.0/24 dev eth0 src 10.0.0.1 mtu 1400 congctl reno`.
fn route(message: &Raw, name: impl Fn(u32) -> String) -> String {
    let value = |kind| message.attribute(ROUTE_HEADER, kind);
    let address = |bytes: &[u8]| match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
        (Ok(octets), _) => IpAddr::from(octets).to_string(),
        (_, Ok(octets)) => IpAddr::from(octets).to_string(),
        _ => digits(bytes),
    };
    let prefix = message.body.get(1).copied().unwrap_or(0);
    let mut words = vec![match value(RTA_DST) {
        Some(destination) => format!("{}/{prefix}", address(destination)),
        None => "default".to_owned(),
    }];
    let number = |kind| value(kind).and_then(word);
    words.extend(value(RTA_GATEWAY).map(|gateway| format!("via {}", address(gateway))));
    words.extend(number(RTA_OIF).map(|index| format!("dev {}", name(index))));
    words.extend(value(RTA_PREFSRC).map(|source| format!("src {}", address(source))));
    words.extend(value(RTA_MULTIPATH).map(|hops| format!("nexthops {}", digits(hops))));
    words.extend(number(RTA_PRIORITY).map(|metric| format!("metric {metric}")));
    // the main table is not told in a dump of ip-route(8) either
    let table = number(RTA_TABLE).filter(|table| *table != u32::from(libc::RT_TABLE_MAIN));
    words.extend(table.map(|table| format!("table {table}")));
    words.extend(attributes(value(RTA_METRICS).unwrap_or_default()).map(|(kind, value)| {
        let known = METRICS.get(usize::from(kind).wrapping_sub(1)).copied().unwrap_or("metric");
        match kind {
            RTAX_CC_ALGO => format!("{known} {}", text(value)),
            _ => format!("{known} {}", word(value).unwrap_or(0)),
        }
    }));
    words.join(" ")
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_route_is_reported_with_its_metrics() {
        let mut message = Raw::new(24, [libc::AF_INET as u8, 24, 0, 0, 254, 2, 0, 1, 0, 0, 0, 0]);
        message.push(RTA_TABLE, &254u32.to_ne_bytes());
        message.push(RTA_DST, &[10, 0, 0, 0]);
        message.push(RTA_OIF, &7u32.to_ne_bytes());
        message.push(RTA_PREFSRC, &[10, 0, 0, 1]);
        let mut metrics = Raw::new(0, []);
        metrics.push(2, &1400u32.to_ne_bytes());
        metrics.push(RTAX_CC_ALGO, b"reno\0");
        message.push(RTA_METRICS, &metrics.body);
        let reported = route(&message, |index| format!("eth{index}"));
        assert_eq!(reported, "10.0.0.0/24 dev eth7 src 10.0.0.1 mtu 1400 congctl reno");
        message.push(RTA_GATEWAY, &[1, 2, 3]);
        assert!(route(&message, |_| String::new()).contains("via 010203"), "of another length");
    }

    #[test]
    fn programs_are_reported_by_number_and_mode() {
        let mut xdp = Raw::new(0, []);
        xdp.push(IFLA_XDP_ATTACHED, &[2]);
        xdp.push(IFLA_XDP_PROG_ID, &45u32.to_ne_bytes());
        let mut link = Raw::new(16, [0; LINK_HEADER]);
        link.push(IFLA_XDP, &xdp.body);
        link.push(IFLA_PROMISCUITY, &1u32.to_ne_bytes());
        let expected = [("promiscuity", "1"), ("XDP program", "45, generic")];
        assert_eq!(of_link(&link), expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
        let mut options = Raw::new(0, []);
        options.push(TCA_BPF_ID, &46u32.to_ne_bytes());
        let header: Vec<u8> = [0, 7, 1, 0xffff_fff2, 49152 << 16]
            .iter()
            .flat_map(|w: &u32| w.to_ne_bytes())
            .collect();
        let mut message = Raw::new(44, header);
        message.push(TCA_KIND, b"bpf\0");
        message.push(TCA_OPTIONS, &options.body);
        assert_eq!(filter(&message), "bpf, preference 49152, handle 1, program 46");
    }

    #[test]
    fn the_loopback_and_its_route_are_reported() {
        let mut socket = RouteSocket::open().unwrap();
        let found = socket.attached("lo").unwrap();
        assert!(found.iter().any(|(name, _)| name == "txqueuelen"), "{found:?}");
        assert!(socket.attached("no-such-if").is_err());
        let route = socket.route_in_words(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert!(route.contains("dev lo"), "{route}");
        // it may be missing, but asking is no error
        nf_tables_generation();
    }
}
