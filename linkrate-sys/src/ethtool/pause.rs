//! Pause frames (IEEE 802.3 annex 31B).

use netlink_packet_core::{DecodeError, parse_u8};

use super::Ethtool;
use crate::error::SysResult;

const ETHTOOL_MSG_PAUSE_GET: u8 = 21;

const ETHTOOL_A_PAUSE_AUTONEG: u16 = 2;
const ETHTOOL_A_PAUSE_RX: u16 = 3;
const ETHTOOL_A_PAUSE_TX: u16 = 4;

/// Whether pause frames (IEEE 802.3 annex 31B) are obeyed and sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    /// Pause frames of the far end are obeyed.
    pub rx: bool,
    /// Pause frames are sent when the adapter is full.
    pub tx: bool,
    /// Both are negotiated.
    pub autoneg: bool,
}

impl Pause {
    fn take(&mut self, kind: u16, value: &[u8]) -> Result<(), DecodeError> {
        let field = match kind {
            ETHTOOL_A_PAUSE_AUTONEG => &mut self.autoneg,
            ETHTOOL_A_PAUSE_RX => &mut self.rx,
            ETHTOOL_A_PAUSE_TX => &mut self.tx,
            _ => return Ok(()),
        };
        *field = parse_u8(value)? == 1;
        Ok(())
    }
}

impl Ethtool {
    /// The pause frames of interface `name` (`ETHTOOL_MSG_PAUSE_GET`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver does not report them.
    pub fn pause(&mut self, name: &str) -> SysResult<Pause> {
        let mut pause = Pause::default();
        self.read("pause frames", name, ETHTOOL_MSG_PAUSE_GET, |kind, value| {
            pause.take(kind, value)
        })?;
        Ok(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_is_read_by_itself() {
        let mut pause = Pause::default();
        pause.take(ETHTOOL_A_PAUSE_AUTONEG, &[0]).unwrap();
        pause.take(ETHTOOL_A_PAUSE_RX, &[1]).unwrap();
        pause.take(ETHTOOL_A_PAUSE_TX, &[0]).unwrap();
        assert_eq!(pause, Pause { rx: true, tx: false, autoneg: false });
        assert!(pause.take(ETHTOOL_A_PAUSE_RX, &[1, 0]).is_err());
    }
}
