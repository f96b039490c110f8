//! How a port of an ATM adapter carries IP packets in units of AAL5.

use serde::{Deserialize, Serialize};

/// The MTU of Classical IP over ATM (RFC 2225, 7), unless both ends agree on another.
const CLASSICAL_IP_MTU: u32 = 9180;

/// Octets before the IP packet in a unit of LAN Emulation: the identifier of the client, and the
/// Ethernet header.
const LANE_HEADER: u32 = 16;

/// What a port puts before each IP packet. It decides whether its host has an Ethernet interface, so
/// that a port keeps it from its making to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Encapsulation {
    /// Classical IP: IP packets behind LLC/SNAP (RFC 2225).
    #[default]
    #[serde(rename = "classical-ip")]
    ClassicalIp,
    /// LAN Emulation with units of up to 1516 octets, the IP MTU of Ethernet: 1500.
    #[serde(rename = "lane-1516")]
    Lane1516,
    /// LAN Emulation with units of up to 4544 octets.
    #[serde(rename = "lane-4544")]
    Lane4544,
    /// LAN Emulation with units of up to 9234 octets: an IP MTU of 9218.
    #[serde(rename = "lane-9234")]
    Lane9234,
    /// LAN Emulation with units of up to 18190 octets.
    #[serde(rename = "lane-18190")]
    Lane18190,
}

impl Encapsulation {
    /// Those of LAN Emulation (LANE 1.0, maximum data frame size).
    pub const EMULATED: [Self; 4] =
        [Self::Lane1516, Self::Lane4544, Self::Lane9234, Self::Lane18190];

    /// The word for it in a model.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClassicalIp => "classical-ip",
            Self::Lane1516 => "lane-1516",
            Self::Lane4544 => "lane-4544",
            Self::Lane9234 => "lane-9234",
            Self::Lane18190 => "lane-18190",
        }
    }

    /// The name of a model without the word of an emulated LAN behind it, and the encapsulation that the
    /// word stands for: `atm-622` and `lane-9234` of `atm-622-lane-9234`.
    #[must_use]
    pub fn of_name(name: &str) -> (&str, Self) {
        let emulated = Self::EMULATED.into_iter().find_map(|one| {
            let base = name.strip_suffix(one.name())?.strip_suffix('-')?;
            Some((base, one))
        });
        emulated.unwrap_or((name, Self::ClassicalIp))
    }

    /// Octets of the largest unit of the emulated LAN; `None` of Classical IP.
    #[must_use]
    pub const fn emulated_octets(self) -> Option<u16> {
        match self {
            Self::ClassicalIp => None,
            Self::Lane1516 => Some(1516),
            Self::Lane4544 => Some(4544),
            Self::Lane9234 => Some(9234),
            Self::Lane18190 => Some(18_190),
        }
    }

    /// The port is a client of an emulated LAN, and its host has an Ethernet interface.
    #[must_use]
    pub const fn is_emulated(self) -> bool {
        self.emulated_octets().is_some()
    }

    /// The MTU of a fresh port; with LAN Emulation also the largest one.
    #[must_use]
    pub const fn mtu(self) -> u32 {
        match self.emulated_octets() {
            None => CLASSICAL_IP_MTU,
            Some(octets) => octets as u32 - LANE_HEADER,
        }
    }

    /// The name for people.
    #[must_use]
    pub fn title(self) -> String {
        match self.emulated_octets() {
            None => "Classical IP".to_owned(),
            Some(octets) => format!("LAN Emulation, units of up to {octets} bytes"),
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn is_classical(&self) -> bool {
        !self.is_emulated()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_models_and_sizes_those_of_the_forum() {
        let all = [Encapsulation::ClassicalIp].into_iter().chain(Encapsulation::EMULATED);
        let mtus: Vec<u32> = all.clone().map(Encapsulation::mtu).collect();
        assert_eq!(mtus, [9180, 1500, 4528, 9218, 18_174]);
        for one in all {
            assert_eq!(serde_json::to_value(one).unwrap(), one.name());
            let name = format!("mine-{}", one.name());
            let base = if one.is_emulated() { "mine" } else { &name };
            assert_eq!(Encapsulation::of_name(&name), (base, one));
        }
    }
}
