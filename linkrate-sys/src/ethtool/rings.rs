//! Descriptor rings: how many packets an adapter and its driver can hand over without waiting.

use netlink_packet_core::{DecodeError, parse_u32};

use super::Ethtool;
use crate::error::SysResult;

const ETHTOOL_MSG_RINGS_GET: u8 = 15;

const ETHTOOL_A_RINGS_RX_MAX: u16 = 2;
const ETHTOOL_A_RINGS_TX_MAX: u16 = 5;
const ETHTOOL_A_RINGS_RX: u16 = 6;
const ETHTOOL_A_RINGS_TX: u16 = 9;

/// Descriptors of each ring, and how many the driver allows. Zero where it has no such ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rings {
    /// Receive descriptors in use.
    pub rx: u32,
    /// Most receive descriptors.
    pub rx_max: u32,
    /// Transmit descriptors in use.
    pub tx: u32,
    /// Most transmit descriptors.
    pub tx_max: u32,
}

impl Rings {
    fn take(&mut self, kind: u16, value: &[u8]) -> Result<(), DecodeError> {
        let field = match kind {
            ETHTOOL_A_RINGS_RX_MAX => &mut self.rx_max,
            ETHTOOL_A_RINGS_TX_MAX => &mut self.tx_max,
            ETHTOOL_A_RINGS_RX => &mut self.rx,
            ETHTOOL_A_RINGS_TX => &mut self.tx,
            _ => return Ok(()),
        };
        *field = parse_u32(value)?;
        Ok(())
    }
}

impl Ethtool {
    /// The rings of interface `name` (`ETHTOOL_MSG_RINGS_GET`); `EOPNOTSUPP` when the driver does not report rings.
    pub fn rings(&mut self, name: &str) -> SysResult<Rings> {
        let mut rings = Rings::default();
        self.read("rings", name, ETHTOOL_MSG_RINGS_GET, |kind, value| rings.take(kind, value))?;
        Ok(rings)
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{bytes_of, each_attribute, number};
    use super::*;

    #[test]
    fn only_the_standard_rings_are_read() {
        let bytes =
            bytes_of(&[2, 3, 4, 5, 6, 7, 8, 9, 10].map(|kind| number(kind, u32::from(kind))));
        let mut rings = Rings::default();
        each_attribute(&bytes, |kind, value| rings.take(kind, value)).unwrap();
        assert_eq!(rings, Rings { rx: 6, rx_max: 2, tx: 9, tx_max: 5 });
    }
}
