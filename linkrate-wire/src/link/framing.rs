//! How an IP packet becomes a unit of its link.

use linkrate_model::{BitRate, Model, PortKnobs};

use super::{LinkLaw, atm, ethernet};

/// What stands before an IP packet in the unit that its link carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// An Ethernet frame.
    Ethernet {
        /// VLAN tags on each frame, 0 to 2. They come on top of the MTU.
        vlan_tags: u8,
        /// A length field with LLC and SNAP (RFC 1042) instead of a type field (RFC 894). A length
        /// field holds a length up to 1500 only, so the MTU of the standard is at most 1492.
        /// Adapters with jumbo SNAP frames exist nevertheless.
        snap: bool,
    },
    /// Classical IP over ATM with LLC/SNAP encapsulation, RFC 2225. The usual MTU is 9180.
    ClassicalIp,
    /// LAN Emulation of Ethernet over ATM: eight octets more than Classical IP.
    ///
    /// Its sizes are often those of the whole unit. "LANE MTU 1516" of the `atm` paper is one: the
    /// IP MTU is 1500 (its 128.4 Mb/s is above the 126.4 Mb/s that IP packets of 1516 octets, in 33
    /// cells, could reach). Its 9218 is an IP MTU, in units of 9234.
    LanEmulation,
}

impl Framing {
    /// Ethernet II without a VLAN tag.
    pub const ETHERNET: Self = Self::Ethernet { vlan_tags: 0, snap: false };

    /// The framing of a model's ports with these knobs.
    #[must_use]
    pub fn of(model: &Model, knobs: &PortKnobs) -> Self {
        match LinkLaw::of(model) {
            LinkLaw::Ethernet => {
                Self::Ethernet { vlan_tags: u8::from(knobs.vlan > 0), snap: knobs.snap }
            }
            LinkLaw::Atm if model.encapsulation.is_emulated() => Self::LanEmulation,
            LinkLaw::Atm => Self::ClassicalIp,
        }
    }

    /// The law of the line that carries such units.
    #[must_use]
    pub const fn law(self) -> LinkLaw {
        match self {
            Self::Ethernet { .. } => LinkLaw::Ethernet,
            Self::ClassicalIp | Self::LanEmulation => LinkLaw::Atm,
        }
    }

    /// Octets before the IP packet.
    #[must_use]
    pub fn header(self) -> u64 {
        self.headers().map(|(_, octets)| octets).sum()
    }

    /// Octets of the unit that carries an IP packet of `packet` octets. That LAN Emulation pads a unit to 62 octets (LANE
    /// 1.0, 4.1.1) is left out: from 28 octets of packet on it has two cells either way.
    #[must_use]
    pub fn unit(self, packet: u64) -> u64 {
        self.header() + packet
    }

    /// The largest IP packet that a unit can carry; `None` where the line does not limit it.
    #[must_use]
    pub fn largest_packet(self) -> Option<u64> {
        self.law().largest_unit().map(|unit| unit - self.header())
    }

    /// The name for people, as in `MTU of 68 bytes for IPv4 over LAN Emulation`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ethernet { .. } => "Ethernet",
            Self::ClassicalIp => "Classical IP",
            Self::LanEmulation => "LAN Emulation",
        }
    }

    /// The headers before the packet, from the packet outwards, each with its octets.
    pub(crate) fn headers(self) -> impl Iterator<Item = (&'static str, u64)> {
        let headers = match self {
            Self::Ethernet { vlan_tags, snap } => [
                ("LLC/SNAP header", if snap { ethernet::LLC_SNAP } else { 0 }),
                ("VLAN tags", ethernet::VLAN_TAG * u64::from(vlan_tags)),
                ("Ethernet header", ethernet::HEADER),
            ],
            Self::ClassicalIp => [("LLC/SNAP header", atm::LLC_SNAP), ("", 0), ("", 0)],
            Self::LanEmulation => [("LANE header", atm::LANE_HEADER), ("", 0), ("", 0)],
        };
        headers.into_iter().filter(|(_, octets)| *octets > 0)
    }
}

/// One direction of a link: its rate, and its framing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Bits per second of the line: frames, preambles and gaps on Ethernet, named above the line
    /// code (8b/10b, 64b/66b); all columns of SONET on ATM ([`atm::OC3C`], [`atm::OC12C`]).
    pub line_rate: BitRate,
    /// How packets become units.
    pub framing: Framing,
}

impl Link {
    /// Ethernet II without VLAN tags.
    #[must_use]
    pub const fn ethernet(line_rate: BitRate) -> Self {
        Self { line_rate, framing: Framing::ETHERNET }
    }

    /// Classical IP over ATM.
    #[must_use]
    pub const fn classical_ip(line_rate: BitRate) -> Self {
        Self { line_rate, framing: Framing::ClassicalIp }
    }

    /// Octets for which an IP packet of `packet` octets occupies the line.
    #[must_use]
    pub fn occupied(&self, packet: u64) -> u64 {
        self.framing.law().line_octets(self.framing.unit(packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_headers_and_packet() {
        let ethernet = |vlan_tags, snap| Framing::Ethernet { vlan_tags, snap };
        for (framing, header, largest) in [
            (Framing::ETHERNET, 14, None),
            (ethernet(2, false), 22, None),
            (ethernet(1, true), 26, None),
            (Framing::ClassicalIp, 8, Some(65_527)),
            (Framing::LanEmulation, 16, Some(65_519)),
        ] {
            assert_eq!(framing.header(), header, "{framing:?}");
            assert_eq!(framing.unit(1500), 1500 + header, "{framing:?}");
            assert_eq!(framing.largest_packet(), largest, "{framing:?}");
        }
    }

    #[test]
    fn a_model_says_what_its_links_carry() {
        use linkrate_model::model::{self, LinkKind};

        let model = model::find("gigabit").unwrap();
        let tagged = PortKnobs { vlan: 5, snap: true, ..model.defaults.clone() };
        assert_eq!(Framing::of(&model, &model.defaults), Framing::ETHERNET);
        assert_eq!(Framing::of(&model, &tagged), Framing::Ethernet { vlan_tags: 1, snap: true });
        for (link, law) in [(LinkKind::Ethernet, LinkLaw::Ethernet), (LinkKind::Atm, LinkLaw::Atm)]
        {
            let model = Model { link, ..model.clone() };
            assert_eq!(LinkLaw::of(&model), law);
            assert_eq!(Framing::of(&model, &tagged).law(), law);
        }
        for (name, framing, mtu) in [
            ("atm-155", Framing::ClassicalIp, 9180),
            ("atm-155-lane-1516", Framing::LanEmulation, 1500),
            ("atm-622-lane-18190", Framing::LanEmulation, 18_174),
        ] {
            let model = model::find(name).unwrap();
            assert_eq!((Framing::of(&model, &model.defaults), model.default_mtu()), (framing, mtu));
            assert_eq!(framing.unit(mtu.into()), u64::from(mtu) + framing.header());
        }
    }

    /// At MTU 9180 and 1500 both need the same number of cells. An octet that spills shows the
    /// eight that LAN Emulation adds.
    #[test]
    fn lan_emulation_adds_eight_octets() {
        let cells = |framing: Framing, packet| framing.law().cells(framing.unit(packet)).unwrap();
        for (packet, more) in [(1500, 0), (9180, 0), (48 - 16, 1), (48 - 24, 0), (48 - 23, 1)] {
            let [emulated, classical] =
                [Framing::LanEmulation, Framing::ClassicalIp].map(|framing| cells(framing, packet));
            assert_eq!(emulated - classical, more, "packet of {packet}");
        }
    }
}
