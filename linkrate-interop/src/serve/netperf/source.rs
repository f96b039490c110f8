//! Where the data of a test may come from.
//!
//! A netperf says on its control connection where it wants its data (`-- -H`), and which address of its own it has
//! bound (`-- -L`). Data from anywhere else is of a stranger who has found the port of the test.

use std::net::{IpAddr, SocketAddr};

use super::super::Limits;

/// The addresses that the data of a test may come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Source {
    /// Where the control connection comes from.
    control: IpAddr,
    /// The address that the client has named as its own.
    named: Option<IpAddr>,
    /// Whether the data takes another way than the control connection, so that the kernel of the client chooses an
    /// address which nobody is told.
    is_open: bool,
}

impl Source {
    /// Of a client at `client`, whose control connection came in at `control`, with a test that listens at `data`.
    /// The client has `named` an address of its own, or none.
    pub(super) fn of(
        client: SocketAddr,
        control: SocketAddr,
        data: SocketAddr,
        named: Option<IpAddr>,
    ) -> Self {
        Self {
            control: client.ip().to_canonical(),
            named,
            is_open: data.ip().to_canonical() != control.ip().to_canonical(),
        }
    }

    /// Where the control connection comes from, which is an address of the client for certain.
    pub(super) fn is_control(&self, address: IpAddr) -> bool {
        address.to_canonical() == self.control
    }

    /// Whether data from `address` is of this test, in the networks that are granted.
    pub(super) fn admits(&self, address: IpAddr, limits: &Limits) -> bool {
        let address = address.to_canonical();
        let is_of_client = address == self.control || Some(address) == self.named;
        (is_of_client || (self.is_open && self.named.is_none())) && limits.admit(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(data: &str, named: Option<&str>) -> Source {
        let at = |address: &str| SocketAddr::new(address.parse().expect("an address"), 1);
        let named = named.map(|named| named.parse().expect("an address"));
        Source::of(at("::ffff:192.0.2.1"), at("::ffff:192.0.2.9"), at(data), named)
    }

    #[test]
    fn data_comes_from_the_client_or_from_the_address_that_it_has_named() {
        let everyone = Limits::default();
        let network = "192.0.2.0/24".parse().expect("a network");
        let network = Limits { networks: vec![network], ..Limits::default() };
        for (data, named, from, all, some) in [
            ("192.0.2.9", None, "192.0.2.1", true, true),
            ("192.0.2.9", None, "::ffff:192.0.2.1", true, true),
            ("192.0.2.9", None, "192.0.2.2", false, false),
            ("192.0.2.9", Some("192.0.2.2"), "192.0.2.2", true, true),
            ("192.0.2.9", Some("192.0.2.2"), "192.0.2.3", false, false),
            ("192.0.2.9", Some("198.51.100.1"), "198.51.100.1", true, false),
            // behind another address of the server
            ("198.51.100.9", None, "198.51.100.1", true, false),
            ("198.51.100.9", None, "192.0.2.1", true, true),
            ("198.51.100.9", Some("198.51.100.1"), "198.51.100.2", false, false),
        ] {
            let source = source(data, named);
            let from: IpAddr = from.parse().expect("an address");
            let found = [&everyone, &network].map(|limits| source.admits(from, limits));
            assert_eq!(found, [all, some], "{data} {named:?} {from}");
        }
    }
}
