//! Link modes: the rate that was negotiated, and the modes that both ends have.

use netlink_packet_core::{DecodeError, parse_u8, parse_u32};

use super::Ethtool;
use super::message::bits;
use crate::error::SysResult;

const ETHTOOL_MSG_LINKMODES_GET: u8 = 4;

const ETHTOOL_A_LINKMODES_AUTONEG: u16 = 2;
const ETHTOOL_A_LINKMODES_OURS: u16 = 3;
const ETHTOOL_A_LINKMODES_PEER: u16 = 4;
const ETHTOOL_A_LINKMODES_SPEED: u16 = 5;
const ETHTOOL_A_LINKMODES_DUPLEX: u16 = 6;

/// `SPEED_UNKNOWN` of linux/ethtool.h.
const SPEED_UNKNOWN: u32 = u32::MAX;

/// The negotiated mode of a link, and the modes of both ends by the kernel's names
/// (`10000baseT/Full`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkModes {
    /// Megabits per second; `None` while there is no link, or where the driver does not say.
    pub speed_mbps: Option<u32>,
    /// Both directions at once; `None` where the driver does not say.
    pub full_duplex: Option<bool>,
    /// Whether the link negotiates.
    pub autoneg: bool,
    /// Modes that this end has.
    pub supported: Vec<String>,
    /// Modes that this end offers.
    pub advertised: Vec<String>,
    /// Modes that the peer offers; empty where the driver does not say.
    pub peer: Vec<String>,
}

impl LinkModes {
    fn take(&mut self, kind: u16, value: &[u8]) -> Result<(), DecodeError> {
        let names = |listed: Vec<(String, bool)>| listed.into_iter().map(|(name, _)| name);
        match kind {
            ETHTOOL_A_LINKMODES_AUTONEG => self.autoneg = parse_u8(value)? == 1,
            ETHTOOL_A_LINKMODES_OURS => {
                // the mask has the supported modes, the value the advertised ones
                let listed = bits(value)?;
                let advertised = listed.iter().filter(|(_, on)| *on);
                self.advertised = advertised.map(|(name, _)| name.clone()).collect();
                self.supported = names(listed).collect();
            }
            ETHTOOL_A_LINKMODES_PEER => self.peer = names(bits(value)?).collect(),
            ETHTOOL_A_LINKMODES_SPEED => {
                let speed = parse_u32(value)?;
                self.speed_mbps = (speed != SPEED_UNKNOWN && speed > 0).then_some(speed);
            }
            ETHTOOL_A_LINKMODES_DUPLEX => {
                self.full_duplex = match parse_u8(value)? {
                    0 => Some(false),
                    1 => Some(true),
                    _ => None,
                };
            }
            _ => {}
        }
        Ok(())
    }
}

impl Ethtool {
    /// The link modes of interface `name` (`ETHTOOL_MSG_LINKMODES_GET`); `EOPNOTSUPP` when the driver does not report
    /// them.
    pub fn link_modes(&mut self, name: &str) -> SysResult<LinkModes> {
        self.read("link modes", name, ETHTOOL_MSG_LINKMODES_GET, LinkModes::take)
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::DefaultNla;

    use super::super::message::{bitset, bytes_of, each_attribute, number};
    use super::*;

    fn read(bytes: &[u8]) -> Result<LinkModes, DecodeError> {
        let mut modes = LinkModes::default();
        each_attribute(bytes, |kind, value| modes.take(kind, value))?;
        Ok(modes)
    }

    #[test]
    fn a_mode_that_is_not_offered_is_still_supported() {
        let ours = [("1000baseT/Full", true), ("10000baseT/Full", false)];
        let bytes = bytes_of(&[
            DefaultNla::new(ETHTOOL_A_LINKMODES_AUTONEG, vec![1]),
            bitset(ETHTOOL_A_LINKMODES_OURS, &ours),
            number(ETHTOOL_A_LINKMODES_SPEED, 1000),
            DefaultNla::new(ETHTOOL_A_LINKMODES_DUPLEX, vec![1]),
        ]);
        let modes = read(&bytes).unwrap();
        assert_eq!(modes.supported, ["1000baseT/Full", "10000baseT/Full"]);
        assert_eq!(modes.advertised, ["1000baseT/Full"]);
        assert_eq!(
            (modes.speed_mbps, modes.full_duplex, modes.autoneg),
            (Some(1000), Some(true), true)
        );
        for length in 0..bytes.len() {
            let _ = read(&bytes[..length]);
        }
    }

    #[test]
    fn an_unknown_speed_is_no_speed() {
        let modes = read(&bytes_of(&[
            number(ETHTOOL_A_LINKMODES_SPEED, u32::MAX),
            DefaultNla::new(ETHTOOL_A_LINKMODES_DUPLEX, vec![255]),
        ]))
        .unwrap();
        assert_eq!((modes.speed_mbps, modes.full_duplex), (None, None));
    }
}
