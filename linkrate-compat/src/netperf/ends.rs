//! Addresses of both ends of a test.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use linkrate_interop::netperf::Shape;
use linkrate_model::Family;

use super::NetperfError;
use super::options::Options;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    /// Control connections of the server.
    pub(super) server: SocketAddr,
    /// Its data connections, whose port it chooses.
    pub(super) data: SocketAddr,
    /// Whether they take another way than the control connection.
    pub(super) is_data_named: bool,
    /// This end of them, where it is named; port 0 for any.
    pub(super) local: Option<SocketAddr>,
}

impl Ends {
    pub(super) fn of(options: &Options) -> Result<Self, NetperfError> {
        let server = resolved(&options.host, options.port, options.family)?;
        let family = options.data_family.unwrap_or(family_of(server));
        let is_data_named = options.data_host.is_some() || family != family_of(server);
        let data = match (&options.data_host, is_data_named) {
            (Some(host), _) => resolved(host, 0, options.data_family)?,
            (None, true) => resolved(&options.host, 0, Some(family))?,
            (None, false) => server,
        };
        // that of the control connection may be in another network than the data
        let local =
            options.local.as_ref().or(options.control_local.as_ref().filter(|_| !is_data_named));
        let family = family_of(data);
        let any = match family {
            Family::Ipv4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Family::Ipv6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let port = match options.test.shape {
            // each of many connections has a port of its own, as in netperf
            Shape::Connect | Shape::ConnectRequestResponse => 0,
            _ => options.data_ports[0],
        };
        let local = match (local, port) {
            (Some(host), port) => Some(resolved(host, port, Some(family))?),
            (None, 0) => None,
            (None, port) => Some(SocketAddr::new(any, port)),
        };
        Ok(Self { server, data, is_data_named, local })
    }
}

pub(super) fn family_of(address: SocketAddr) -> Family {
    match address {
        SocketAddr::V4(_) => Family::Ipv4,
        SocketAddr::V6(_) => Family::Ipv6,
    }
}

/// The address of a host: of this family, or where none is asked for one of IPv4 if there is one.
fn resolved(host: &str, port: u16, family: Option<Family>) -> Result<SocketAddr, NetperfError> {
    let found = (host, port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    let found = found.unwrap_or_default();
    let of = |family| found.iter().copied().find(|address| family_of(*address) == family);
    let address = match family {
        Some(family) => of(family),
        None => of(Family::Ipv4).or(of(Family::Ipv6)),
    };
    address.ok_or_else(|| NetperfError::Host {
        host: host.to_owned(),
        kind: match family {
            Some(Family::Ipv4) => "IPv4 address",
            Some(Family::Ipv6) => "IPv6 address",
            None => "address",
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(line: &str) -> Result<Ends, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Ends::of(&Options::parse(&words).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn each_connection_has_its_family_and_its_address() {
        for (line, server, data, local) in [
            ("-H 192.0.2.1", "192.0.2.1:12865", "192.0.2.1:12865", None),
            ("-H 2001:db8::1 -p 9", "[2001:db8::1]:9", "[2001:db8::1]:9", None),
            ("-6", "[::1]:12865", "[::1]:12865", None),
            ("-H 192.0.2.1 -- -H fd77::2,6 -P 7", "192.0.2.1:12865", "[fd77::2]:0", Some("[::]:7")),
            ("-t TCP_CRR -- -P 7", "127.0.0.1:12865", "127.0.0.1:12865", None),
            ("-L 127.0.0.2", "127.0.0.1:12865", "127.0.0.1:12865", Some("127.0.0.2:0")),
            ("-L 127.0.0.2 -- -H 192.0.2.9", "127.0.0.1:12865", "192.0.2.9:0", None),
            ("-6 -- -L ::1,6", "[::1]:12865", "[::1]:12865", Some("[::1]:0")),
        ] {
            let found = ends(line).unwrap();
            let local = local.map(|local: &str| local.parse().unwrap());
            let expected = (server.parse().unwrap(), data.parse().unwrap(), local);
            assert_eq!((found.server, found.data, found.local), expected, "{line}");
            assert_eq!(found.is_data_named, line.contains("-- -H"), "{line}");
        }
        for (line, said) in [
            ("-6 -H 192.0.2.1", "host 192.0.2.1 has no IPv6 address"),
            ("-H 192.0.2.1 -- -L ::1", "host ::1 has no IPv4 address"),
        ] {
            assert_eq!(ends(line).unwrap_err(), said, "{line}");
        }
    }
}
