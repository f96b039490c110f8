//! The interface by which a client came, and the most payload that its link can carry.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use linkrate_model::BitRate;
use linkrate_sys::connect::is_of_this_host;
use linkrate_sys::ethtool::Ethtool;
use linkrate_sys::netlink::{LinkEntry, RouteSocket};
use linkrate_wire::limits::{Cut, IpVersion, Traffic, Transport as Layer};
use linkrate_wire::link::Link;
use serde::Serialize;

use crate::iperf3::Transport;

/// What kernels say where nobody has set the rate of a TAP, Mb/s: earlier and later ones (`tun_default_link_ksettings`,
/// drivers/net/tun.c).
const RATES_OF_NO_TAP_MBPS: [u32; 2] = [10, 10_000];

/// Throughput above the limit by this factor is wrong. Segments without timestamps carry 0.8 % more than the limit says.
const ABOVE: f64 = 1.02;

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
    /// Whether whatever goes by the interface crosses its link, so that more than the limit cannot be.
    #[serde(skip)]
    pub is_bounded: bool,
}

impl InterfaceReport {
    /// The interface that has address `here`, with the limit for full packets of `transport` to and from address `far`;
    /// `None` if the kernel does not report.
    #[must_use]
    pub fn of(here: IpAddr, far: IpAddr, transport: Transport) -> Option<Self> {
        let here = here.to_canonical();
        let mut route = RouteSocket::open().ok()?;
        let addresses = route.addresses().ok()?;
        let (index, _) = addresses.iter().find(|(_, own)| own.contains(&here))?;
        let entry = route.links().ok()?.into_iter().find(|entry| entry.link.index == *index)?;
        let rate = match is_of_this_host(far) && entry.name != "lo" {
            true => Err("the client is on this host"),
            false => rate_of(&entry),
        };
        let limit = rate.and_then(|rate| {
            limit(rate, entry.link.mtu, here, transport).ok_or("the MTU carries no full packet")
        });
        Some(Self {
            mtu: entry.link.mtu,
            link_bits_per_second: rate.ok().map(|rate| rate.0),
            limit_bits_per_second: limit.ok(),
            limit_unknown: limit.err(),
            is_bounded: limit.is_ok() && crosses_its_link(&entry),
            name: entry.name,
        })
    }

    /// Why payload at this rate, bit/s, cannot have crossed the link; `None` where it can, and where no limit is known.
    #[must_use]
    pub fn refutes(&self, bits_per_second: f64) -> Option<String> {
        let limit = self.limit_bits_per_second.filter(|_| self.is_bounded)?;
        let [rate, most] = [bits_per_second, limit].map(BitRate);
        (bits_per_second > limit * ABOVE).then(|| {
            format!(
                "{rate} of payload arrived, expected at most the {most} that the link can carry"
            )
        })
    }
}

/// Whether whatever goes by an interface crosses its link. It does not where the interface is software, nor where the
/// adapter switches between functions of its own. In a virtual machine the hypervisor need not keep the rate that a
/// driver names.
fn crosses_its_link(entry: &LinkEntry) -> bool {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let is_virtual_machine = flags.split_whitespace().any(|flag| flag == "hypervisor");
    let device = format!("/sys/class/net/{}/device", entry.name);
    let functions = fs::read_to_string(format!("{device}/sriov_numvfs"));
    let has_functions = functions.is_ok_and(|count| count.trim() != "0");
    let is_function = Path::new(&format!("{device}/physfn")).exists();
    entry.kind.is_none() && !(is_virtual_machine || has_functions || is_function)
}

/// The rate of a link, or why it is not known.
fn rate_of(entry: &LinkEntry) -> Result<BitRate, &'static str> {
    if entry.name == "lo" {
        return Err("the loopback interface has no link");
    }
    let modes = Ethtool::open().and_then(|mut ethtool| ethtool.link_modes(&entry.name));
    let speed = modes.map_err(|_| "the driver does not answer")?.speed_mbps;
    let mbps = speed.ok_or("the driver reports no rate")?;
    match entry.kind.as_deref() {
        Some("tun") if RATES_OF_NO_TAP_MBPS.contains(&mbps) => Err("the TAP has no rate"),
        Some("veth") => Err("a veth pair reports a rate that limits nothing"),
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
impl InterfaceReport {
    /// One that all traffic crosses.
    pub fn gigabit() -> Self {
        Self {
            name: "eth0".to_owned(),
            mtu: 1500,
            link_bits_per_second: Some(1e9),
            limit_bits_per_second: Some(941.5e6),
            limit_unknown: None,
            is_bounded: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_no_limit() {
        let here = "127.0.0.1".parse().unwrap();
        let Some(report) = InterfaceReport::of(here, here, Transport::Tcp) else {
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

    #[test]
    fn more_than_a_link_carries_is_wrong_where_the_link_is_crossed() {
        let link = InterfaceReport::gigabit();
        // segments without timestamps
        assert_eq!(link.refutes(949e6), None);
        assert!(
            link.refutes(1e9).is_some_and(|reason| reason.starts_with("1.000 Gb/s of payload"))
        );
        assert_eq!(InterfaceReport { is_bounded: false, ..link }.refutes(1e9), None);
    }
}
