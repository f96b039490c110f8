//! Objects of the host that name an interface, and that the kernel removes when it moves to another
//! network namespace: nexthop objects, the token of IPv6, routes of MPLS, and the chains and
//! flowtables of nf_tables on the device.

use std::net::Ipv6Addr;

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{AfSpecInet6, AfSpecUnspec, LinkAttribute};

use super::exchange::Exchange;
use super::raw::{Raw, attributes, text, word};
use super::{RouteSocket, link_message, quoted};
use crate::error::SysResult;

/// `struct nhmsg` and its attributes, linux/nexthop.h.
const NEXTHOP_HEADER: usize = 8;
const RTM_GETNEXTHOP: u16 = 106;
const NHA_ID: u16 = 1;
const NHA_OIF: u16 = 5;

/// `struct rtmsg` and its attribute, linux/rtnetlink.h.
const ROUTE_HEADER: usize = 12;
const RTA_OIF: u16 = 4;

/// `struct nfgenmsg`, linux/netfilter/nfnetlink.h, and what linux/netfilter/nf_tables.h calls its
/// parts. The interface is named in a nested attribute, alone or in a list.
const NETFILTER_HEADER: usize = 4;
const NF_TABLES: u16 = 10 << 8;
const GET_CHAINS: u16 = NF_TABLES | 4;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const HOOK_DEVICE: u16 = 3;
const HOOK_DEVICES: u16 = 4;
const GET_FLOWTABLES: u16 = NF_TABLES | 23;
const FLOWTABLE_TABLE: u16 = 1;
const FLOWTABLE_NAME: u16 = 2;
const FLOWTABLE_HOOK: u16 = 3;
const FLOWTABLE_DEVICES: u16 = 3;

impl RouteSocket {
    /// The numbers of the nexthop objects that lead over an interface. None on a kernel without
    /// them.
    ///
    /// # Errors
    /// `ENODEV` without an interface of that name.
    pub fn nexthop_objects(&mut self, name: &str) -> SysResult<Vec<u32>> {
        let index = self.link(name)?.index;
        let request = Raw::new(RTM_GETNEXTHOP, [0; NEXTHOP_HEADER]);
        // before Linux 5.3 there are none, and the request is refused
        let found: Vec<Raw> = self.0.request(request, NLM_F_DUMP).unwrap_or_default();
        let number = |message: &Raw, kind| message.attribute(NEXTHOP_HEADER, kind).and_then(word);
        let over = found.iter().filter(|message| number(message, NHA_OIF) == Some(index));
        Ok(over.filter_map(|message| number(message, NHA_ID)).collect())
    }

    /// The token that ends every IPv6 address of an interface (`ip token`), if it has one.
    ///
    /// # Errors
    /// `ENODEV` without an interface of that name.
    pub fn ipv6_token(&mut self, name: &str) -> SysResult<Option<Ipv6Addr>> {
        let request = link_message(vec![LinkAttribute::IfName(name.to_owned())]);
        let replies: Vec<RouteNetlinkMessage> = self
            .0
            .request(RouteNetlinkMessage::GetLink(request), 0)
            .map_err(|refusal| refusal.during("read the token of", quoted(name)))?;
        let attributes = replies.iter().filter_map(|reply| match reply {
            RouteNetlinkMessage::NewLink(message) => Some(&message.attributes),
            _ => None,
        });
        let families = attributes.flatten().filter_map(|attribute| match attribute {
            LinkAttribute::AfSpecUnspec(families) => Some(families),
            _ => None,
        });
        let of_ipv6 = families.flatten().filter_map(|family| match family {
            AfSpecUnspec::Inet6(parts) => Some(parts),
            _ => None,
        });
        let mut tokens = of_ipv6.flatten().filter_map(|part| match part {
            AfSpecInet6::Token(token) if !token.is_unspecified() => Some(*token),
            _ => None,
        });
        Ok(tokens.next())
    }

    /// Whether routes of MPLS lead over an interface; `ENODEV` without an interface of that name.
    pub fn has_mpls_routes(&mut self, name: &str) -> SysResult<bool> {
        let index = self.link(name)?.index;
        let mut header = [0; ROUTE_HEADER];
        header[0] = libc::AF_MPLS as u8;
        let request = Raw::new(libc::RTM_GETROUTE, header);
        let found: Vec<Raw> = self.0.request(request, NLM_F_DUMP).unwrap_or_default();
        // a kernel without MPLS lists all families
        Ok(found.iter().any(|message| {
            message.body.first() == Some(&(libc::AF_MPLS as u8))
                && message.attribute(ROUTE_HEADER, RTA_OIF).and_then(word) == Some(index)
        }))
    }
}

/// The chain or flowtable of nf_tables that is attached to an interface of the calling thread's
/// network namespace, in words: `chain "in" of table "filter"`. `None` on a kernel without
/// nf_tables, and for a user who may not list them.
pub fn netfilter_on(name: &str) -> Option<String> {
    let mut socket = Exchange::open(netlink_sys::protocols::NETLINK_NETFILTER, "netfilter").ok()?;
    let mut list = |kind| -> Vec<Raw> {
        let request = Raw::new(kind, [0; NETFILTER_HEADER]);
        socket.request(request, NLM_F_DUMP).unwrap_or_default()
    };
    let chains = list(GET_CHAINS);
    let flowtables = list(GET_FLOWTABLES);
    let chain = chains.iter().find_map(|message| {
        chain_on(message, name, CHAIN_HOOK, &[HOOK_DEVICE], &[HOOK_DEVICES])
            .then(|| named("chain", message, CHAIN_TABLE, CHAIN_NAME))
    });
    chain.or_else(|| {
        flowtables.iter().find_map(|message| {
            chain_on(message, name, FLOWTABLE_HOOK, &[], &[FLOWTABLE_DEVICES])
                .then(|| named("flowtable", message, FLOWTABLE_TABLE, FLOWTABLE_NAME))
        })
    })
}

fn named(what: &str, message: &Raw, table: u16, name: u16) -> String {
    let value = |kind| text(message.attribute(NETFILTER_HEADER, kind).unwrap_or_default());
    format!("the {what} \"{}\" of the nf_tables table \"{}\"", value(name), value(table))
}

/// Whether the hook in a message names the interface, in an attribute of its own or in a list.
fn chain_on(message: &Raw, name: &str, hook: u16, alone: &[u16], listed: &[u16]) -> bool {
    let hook = message.attribute(NETFILTER_HEADER, hook).unwrap_or_default();
    attributes(hook).any(|(kind, value)| {
        (alone.contains(&kind) && is_on(value, name))
            || (listed.contains(&kind) && attributes(value).any(|(_, one)| is_on(one, name)))
    })
}

/// A name that ends without a zero stands for all that begin with it.
fn is_on(device: &[u8], name: &str) -> bool {
    match device.last() {
        Some(0) => text(device) == name,
        Some(_) => name.as_bytes().starts_with(device),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(devices: &[&str]) -> Raw {
        let mut list = Raw::new(0, []);
        devices.iter().for_each(|device| list.push(1, device.as_bytes()));
        let mut hook = Raw::new(0, []);
        hook.push(1, &[0; 4]);
        match devices {
            [one] => hook.push(HOOK_DEVICE, one.as_bytes()),
            _ => hook.push(HOOK_DEVICES, &list.body),
        }
        let mut message = Raw::new(NF_TABLES | 3, [5, 0, 0, 0]);
        message.push(CHAIN_TABLE, b"filter\0");
        message.push(CHAIN_NAME, b"in\0");
        message.push(CHAIN_HOOK | 0x8000, &hook.body);
        message
    }

    #[test]
    fn a_chain_on_a_device_is_found_alone_in_a_list_and_by_a_prefix() {
        let on = |devices: &[&str], name: &str| {
            chain_on(&chain(devices), name, CHAIN_HOOK, &[HOOK_DEVICE], &[HOOK_DEVICES])
        };
        assert!(on(&["eth2\0"], "eth2") && !on(&["eth2\0"], "eth20"));
        assert!(on(&["eth1\0", "eth2\0"], "eth2") && !on(&["eth1\0", "eth3\0"], "eth2"));
        assert!(on(&["eth"], "eth2") && !on(&["wan"], "eth2"));
        assert!(!on(&[], "eth2"));
        let words = named("chain", &chain(&["eth2\0"]), CHAIN_TABLE, CHAIN_NAME);
        assert_eq!(words, "the chain \"in\" of the nf_tables table \"filter\"");
    }

    #[test]
    fn the_loopback_has_nothing_attached() {
        let mut socket = RouteSocket::open().unwrap();
        assert!(socket.nexthop_objects("lo").unwrap().is_empty());
        assert_eq!(socket.ipv6_token("lo").unwrap(), None);
        assert!(!socket.has_mpls_routes("lo").unwrap());
        assert_eq!(netfilter_on("lo"), None);
        let error = socket.nexthop_objects("no-such-if").unwrap_err().to_string();
        assert!(error.contains("no-such-if"), "{error}");
    }
}
