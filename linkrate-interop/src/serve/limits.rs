//! What a server grants its clients.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;

/// A network whose clients are served: `192.0.2.0/24`, `2001:db8::/32`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// Whether it has `address`. IPv4 addresses that are written as IPv6 count as IPv4.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A text is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a network, expected an address or a network such as 192.0.2.0/24")]
pub struct NetworkError(String);

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network.map(|network| Self(network.trunc())).map_err(|_| NetworkError(text.to_owned()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most tests at once.
    pub sessions: u32,
    /// Most of them of one client: an address, or a /64 of IPv6.
    pub client_sessions: u32,
    /// Maximum duration of a test, seconds, its beginning that is left out included.
    pub seconds: u32,
    /// Most seconds from the first octet of a client of netperf to its last request.
    pub session_seconds: u32,
    /// Whether a test of iperf3 without an end is refused; otherwise `seconds` end it.
    pub refuses_endless: bool,
    /// Most bits per second of a test of iperf3 in both directions together, and the time over which they are counted.
    pub rate: Option<(u64, Duration)>,
    /// The server ends when no client has come for so long.
    pub idle: Option<Duration>,
    /// Most octets of a test in both directions together, its beginning that is left out included.
    pub bytes: u64,
    /// Networks whose clients are served; all if there is not one.
    pub networks: Vec<Network>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 64,
            client_sessions: 32,
            seconds: 3600,
            session_seconds: 86_400,
            refuses_endless: false,
            rate: None,
            idle: None,
            bytes: u64::MAX,
            networks: Vec::new(),
        }
    }
}

impl Limits {
    /// Whether clients at `address` are served.
    #[must_use]
    pub fn admit(&self, address: IpAddr) -> bool {
        self.networks.is_empty() || self.networks.iter().any(|network| network.has(address))
    }

    /// Why a session ends that lasts too long.
    pub(super) fn outlasted(&self) -> String {
        format!("a session of more than {} s", self.session_seconds)
    }

    /// Why one more of a client is refused that has its sessions.
    pub(super) fn full_of_client(&self) -> String {
        format!("more than {} sessions of one client", self.client_sessions)
    }

    /// Why a client beyond the granted sessions is refused.
    pub(super) fn full(&self) -> String {
        format!("more than {} sessions", self.sessions)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn clients_of_granted_networks_are_admitted() {
        let granted = |texts: &[&str]| Limits {
            networks: texts.iter().map(|text| text.parse().expect(text)).collect(),
            ..Limits::default()
        };
        let admits = |texts, address: &str| granted(texts).admit(address.parse().expect("address"));
        assert!(admits(&[], "192.0.2.7"));
        assert!(admits(&["192.0.2.9/24"], "192.0.2.7"));
        assert!(admits(&["192.0.2.0/24"], "::ffff:192.0.2.7"));
        assert!(!admits(&["192.0.2.0/24"], "192.0.3.7"));
        assert!(admits(&["192.0.3.7", "2001:db8::/32"], "192.0.3.7"));
        assert!(admits(&["192.0.3.7", "2001:db8::/32"], "2001:db8::1"));
        assert!(!admits(&["192.0.3.7", "2001:db8::/32"], "2001:db9::1"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "host", "192.0.2.0/33", "192.0.2", "192.0.2.0/", "/24"] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("\"{text}\" is not a network")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_network_has_its_addresses(address: u32, bits in 0_u8..=32) {
            let address = IpAddr::from(std::net::Ipv4Addr::from_bits(address));
            let network: Network = format!("{address}/{bits}").parse().unwrap();
            prop_assert!(network.has(address));
            prop_assert_eq!(network.to_string().parse::<Network>().unwrap(), network);
        }
    }
}
