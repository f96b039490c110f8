//! Interrupt coalescing: how many packets, or how much time, one interrupt stands for.

use netlink_packet_core::{DecodeError, parse_u8, parse_u32};

use super::Ethtool;
use crate::error::SysResult;

const ETHTOOL_MSG_COALESCE_GET: u8 = 19;

const ETHTOOL_A_COALESCE_RX_USECS: u16 = 2;
const ETHTOOL_A_COALESCE_RX_MAX_FRAMES: u16 = 3;
const ETHTOOL_A_COALESCE_TX_USECS: u16 = 6;
const ETHTOOL_A_COALESCE_USE_ADAPTIVE_RX: u16 = 11;

/// How long interrupts wait for more to report; `None` where the driver has no such setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coalescing {
    /// Longest wait after a received packet, µs.
    pub rx_usecs: Option<u32>,
    /// Most received packets for one interrupt.
    pub rx_frames: Option<u32>,
    /// Longest wait after a sent packet, µs.
    pub tx_usecs: Option<u32>,
    /// Whether the driver adapts the receive wait to the load.
    pub adaptive_rx: Option<bool>,
}

impl Coalescing {
    fn take(&mut self, kind: u16, value: &[u8]) -> Result<(), DecodeError> {
        match kind {
            ETHTOOL_A_COALESCE_RX_USECS => self.rx_usecs = Some(parse_u32(value)?),
            ETHTOOL_A_COALESCE_RX_MAX_FRAMES => self.rx_frames = Some(parse_u32(value)?),
            ETHTOOL_A_COALESCE_TX_USECS => self.tx_usecs = Some(parse_u32(value)?),
            ETHTOOL_A_COALESCE_USE_ADAPTIVE_RX => self.adaptive_rx = Some(parse_u8(value)? == 1),
            _ => {}
        }
        Ok(())
    }
}

impl Ethtool {
    /// The interrupt coalescing of interface `name` (`ETHTOOL_MSG_COALESCE_GET`); `EOPNOTSUPP` when the driver does
    /// not report it.
    pub fn coalescing(&mut self, name: &str) -> SysResult<Coalescing> {
        self.read("coalescing", name, ETHTOOL_MSG_COALESCE_GET, Coalescing::take)
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{bytes_of, each_attribute, number};
    use super::*;

    #[test]
    fn a_setting_that_is_absent_is_no_zero() {
        let bytes = bytes_of(&[number(2, 50), number(3, 0), number(7, 9)]);
        let mut coalescing = Coalescing::default();
        each_attribute(&bytes, |kind, value| coalescing.take(kind, value)).unwrap();
        assert_eq!((coalescing.rx_usecs, coalescing.rx_frames), (Some(50), Some(0)));
        assert_eq!((coalescing.tx_usecs, coalescing.adaptive_rx), (None, None));
        coalescing.take(ETHTOOL_A_COALESCE_USE_ADAPTIVE_RX, &[1]).unwrap();
        assert_eq!(coalescing.adaptive_rx, Some(true));
    }
}
