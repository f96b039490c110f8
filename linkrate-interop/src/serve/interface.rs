//! The interface by which a client came, and the most payload that its link can carry.

use std::net::{IpAddr, SocketAddr};

use linkrate_sys::ethtool::Ethtool;
use linkrate_sys::netlink::{LinkEntry, RouteSocket};
use linkrate_terms::BitRate;
use linkrate_wire::limits::{Cut, IpVersion, Traffic, Transport as Layer};
use linkrate_wire::link::Link;
use serde::Serialize;

use crate::iperf3::Transport;

/// What the kernel says where nobody has set the rate of a TAP, Mb/s.
const RATE_OF_NO_TAP_MBPS: u32 = 10;

/// The interface that has the address which a client connected to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InterfaceReport {
    /// Its name.
    pub name: String,
    /// Largest IP packet, octets.
    pub mtu: u32,
    /// Rate of its link; absent where the driver does not know it, or has none.
    pub link_bits_per_second: Option<f64>,
    /// Most payload of the test that the link can carry each way, bit/s; absent without the rate.
    pub limit_bits_per_second: Option<f64>,
    /// Why there is no limit.
    pub limit_unknown: Option<&'static str>,
}

impl InterfaceReport {
    /// The interface that has address `here`, with the limit for full packets of `transport`; `None` if the kernel
    /// does not tell.
    pub(super) fn of(here: SocketAddr, transport: Transport) -> Option<Self> {
        let here = here.ip().to_canonical();
        let mut route = RouteSocket::open().ok()?;
        let addresses = route.addresses().ok()?;
        let (index, _) = addresses.iter().find(|(_, own)| own.contains(&here))?;
        let entry = route.links().ok()?.into_iter().find(|entry| entry.link.index == *index)?;
        let rate = rate_of(&entry);
        let limit = rate.and_then(|rate| {
            limit(rate, entry.link.mtu, here, transport).ok_or("the MTU carries no full packet")
        });
        Some(Self {
            mtu: entry.link.mtu,
            link_bits_per_second: rate.ok().map(|rate| rate.0),
            limit_bits_per_second: limit.ok(),
            limit_unknown: limit.err(),
            name: entry.name,
        })
    }
}

/// The rate of a link, or why it is not known.
fn rate_of(entry: &LinkEntry) -> Result<BitRate, &'static str> {
    if entry.name == "lo" {
        return Err("the loopback interface has no link");
    }
    let modes = Ethtool::open().and_then(|mut ethtool| ethtool.link_modes(&entry.name));
    let speed = modes.map_err(|_| "the driver does not answer")?.speed_mbps;
    let mbps = speed.ok_or("the driver names no rate")?;
    match entry.kind.as_deref() {
        Some("tun") if mbps == RATE_OF_NO_TAP_MBPS => Err("the TAP has no rate"),
        Some("veth") => Err("a veth pair names a rate that bounds nothing"),
        _ => Ok(BitRate(f64::from(mbps) * 1e6)),
    }
}

fn limit(rate: BitRate, mtu: u32, here: IpAddr, transport: Transport) -> Option<f64> {
    let traffic = Traffic {
        ip: if here.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 },
        transport: match transport {
            Transport::Tcp => Layer::Tcp { timestamps: true },
            Transport::Udp => Layer::Udp,
        },
        mtu,
        cut: Cut::Full,
    };
    let limit = Link::ethernet(rate).limit(&traffic).ok()?;
    Some(limit.payload_rate().0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_no_limit() {
        let here = "127.0.0.1:0".parse().unwrap();
        let Some(report) = InterfaceReport::of(here, Transport::Tcp) else {
            panic!("no interface with {here}");
        };
        assert_eq!((report.name.as_str(), report.limit_bits_per_second), ("lo", None));
        assert_eq!(report.limit_unknown, Some("the loopback interface has no link"));
        assert!(report.mtu >= 16_384);
    }

    #[test]
    fn a_link_carries_less_payload_than_its_rate() {
        let rate = BitRate(1e9);
        let of = |here: &str, transport| limit(rate, 1500, here.parse().unwrap(), transport);
        let tcp = of("192.0.2.1", Transport::Tcp).unwrap();
        // 1448 of 1538 octets
        assert!((tcp / 941_482_444.0 - 1.0).abs() < 1e-6, "{tcp}");
        assert!(of("2001:db8::1", Transport::Tcp).unwrap() < tcp);
        assert!(of("192.0.2.1", Transport::Udp).unwrap() > tcp);
    }
}
