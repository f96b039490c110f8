//! The path between the system under test and a client on existing interfaces: the addresses of both
//! ends, and the routes that lead over the interface under test.

use std::net::Ipv4Addr;

use linkrate_model::Peer;
use linkrate_model::interfaces::InterfaceAddress;
use linkrate_protocol::{InterfaceFacts, Reply, Request};

use crate::connection::expect_reply;
use crate::error::LabError;
use crate::host::Host;

/// Addresses and interface by which a client and the system under test reach each other.
#[derive(Debug, PartialEq)]
pub(super) struct Path {
    pub(super) sut_address: Ipv4Addr,
    pub(super) address: Ipv4Addr,
    /// The client's interface.
    pub(super) interface: String,
}

/// Finds the path, and checks that packets take it in both directions.
pub(super) fn find(
    sut: &mut Host,
    client: &mut Host,
    facts: &InterfaceFacts,
    end: &Peer,
) -> Result<Path, LabError> {
    let request = Request::Addresses;
    let theirs =
        expect_reply!(client.connection, request, Reply::Addresses(addresses) => addresses);
    let theirs = client.named(theirs)?;
    let path = choose(&facts.name, &facts.addresses, &theirs, end)?;
    for (host, to, expected) in [
        (&mut *sut, path.address, facts.name.clone()),
        (&mut *client, path.sut_address, path.interface.clone()),
    ] {
        let request = Request::RouteTo { address: to.into() };
        let interface =
            expect_reply!(host.connection, request, Reply::Route { interface, .. } => interface);
        let interface = host.named(interface)?;
        if interface != expected {
            return Err(LabError::Invalid {
                what: format!(
                    "{}: packets to {to} leave by {interface}, expected {expected}",
                    host.name
                ),
                hint: format!("try: ip route get {to}"),
            });
        }
    }
    Ok(path)
}

/// Chooses addresses of one network, or the address that was named.
fn choose(
    interface: &str,
    ours: &[InterfaceAddress],
    theirs: &[InterfaceAddress],
    end: &Peer,
) -> Result<Path, LabError> {
    let Some(first) = ours.first() else {
        return Err(LabError::Invalid {
            what: format!("{interface} has no IPv4 address"),
            hint: format!("give it one first: ip address add ADDRESS/LENGTH dev {interface}"),
        });
    };
    let listed = |addresses: &[InterfaceAddress]| {
        let listed: Vec<String> = addresses
            .iter()
            .filter(|address| !address.address.is_loopback())
            .map(ToString::to_string)
            .collect();
        if listed.is_empty() { "none".to_owned() } else { listed.join(", ") }
    };
    let theirs_of = |wanted: &dyn Fn(&InterfaceAddress) -> bool| {
        theirs
            .iter()
            .find(|theirs| end.interface().is_none_or(|i| i == theirs.interface) && wanted(theirs))
    };
    let found = match end.address() {
        Some(address) => theirs_of(&|theirs| theirs.address == address).map(|theirs| {
            let same = ours.iter().find(|ours| ours.reaches(address));
            (same.unwrap_or(first), theirs)
        }),
        None => ours
            .iter()
            .find_map(|ours| Some((ours, theirs_of(&|theirs| ours.reaches(theirs.address))?))),
    };
    match found {
        Some((ours, theirs)) => Ok(Path {
            sut_address: ours.address,
            address: theirs.address,
            interface: theirs.interface.clone(),
        }),
        None => Err(LabError::Invalid {
            what: match end.address() {
                Some(address) => {
                    format!("{} has no address {address}; it has {}", end.name(), listed(theirs))
                }
                None => format!(
                    "{end} has no address in a network of {interface} ({}); it has {}",
                    listed(ours),
                    listed(theirs)
                ),
            },
            hint: format!("give the address that {interface} reaches: \"{},ADDRESS\"", end.name()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(interface: &str, address: &str) -> InterfaceAddress {
        let (address, length) = address.split_once('/').unwrap();
        InterfaceAddress {
            interface: interface.to_owned(),
            address: address.parse().unwrap(),
            prefix_length: length.parse().unwrap(),
        }
    }

    fn chosen(ours: &[&str], end: &str) -> Result<(String, String, String), String> {
        let ours: Vec<_> = ours.iter().map(|address| on("eth1", address)).collect();
        let theirs =
            [on("lo", "127.0.0.1/8"), on("eth0", "192.0.2.7/24"), on("eth5", "10.0.0.2/24")];
        choose("eth1", &ours, &theirs, &end.parse().unwrap())
            .map(|path| (path.sut_address.to_string(), path.address.to_string(), path.interface))
            .map_err(|error| format!("{error}; {}", error.hint().unwrap_or_default()))
    }

    #[test]
    fn a_client_is_reached_in_the_network_of_the_interface() {
        let met = |ours: &str, theirs: &str, interface: &str| {
            Ok((ours.to_owned(), theirs.to_owned(), interface.to_owned()))
        };
        assert_eq!(chosen(&["10.0.0.1/24"], "ssh:lab2"), met("10.0.0.1", "10.0.0.2", "eth5"));
        let several = ["172.16.0.1/16", "10.0.0.1/24"];
        assert_eq!(chosen(&several, "interface:eth5"), met("10.0.0.1", "10.0.0.2", "eth5"));
        let named = chosen(&several, "ssh:lab2,192.0.2.7");
        assert_eq!(named, met("172.16.0.1", "192.0.2.7", "eth0"), "by a router, if asked");
    }

    #[test]
    fn a_client_out_of_reach_is_an_error_with_its_addresses() {
        for (ours, end, part) in [
            (&["172.16.0.1/16"][..], "ssh:lab2", "ssh:lab2 has no address in a network of eth1"),
            (&["172.16.0.1/16"], "ssh:lab2", "it has 192.0.2.7/24 on eth0, 10.0.0.2/24 on eth5"),
            (&["10.0.0.1/24"], "ssh:lab2,10.0.0.9", "has no address 10.0.0.9"),
            (&["10.0.0.1/24"], "interface:eth0", "interface:eth0 has no address"),
            (&[], "ssh:lab2", "eth1 has no IPv4 address"),
        ] {
            let error = chosen(ours, end).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
