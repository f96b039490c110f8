//! Pause frames (IEEE 802.3 annex 31B).

use netlink_packet_core::{DecodeError, parse_u8, parse_u64};

use super::message::{each_attribute, read_counted};
use super::{Ethtool, quoted};
use crate::error::SysResult;

const ETHTOOL_MSG_PAUSE_GET: u8 = 21;

const ETHTOOL_A_PAUSE_AUTONEG: u16 = 2;
const ETHTOOL_A_PAUSE_RX: u16 = 3;
const ETHTOOL_A_PAUSE_TX: u16 = 4;
const ETHTOOL_A_PAUSE_STATS: u16 = 5;
const ETHTOOL_A_PAUSE_STAT_TX_FRAMES: u16 = 2;
const ETHTOOL_A_PAUSE_STAT_RX_FRAMES: u16 = 3;

/// Whether pause frames (IEEE 802.3 annex 31B) are obeyed and sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    /// Pause frames of the peer are obeyed.
    pub rx: bool,
    /// Pause frames are sent when the adapter is full.
    pub tx: bool,
    /// Both are negotiated.
    pub autoneg: bool,
}

/// Pause frames that an adapter has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PauseFrames {
    /// Those that it sent.
    pub tx: u64,
    /// Those that it received.
    pub rx: u64,
}

impl PauseFrames {
    fn take(&mut self, kind: u16, value: &[u8]) -> Result<(), DecodeError> {
        if kind != ETHTOOL_A_PAUSE_STATS {
            return Ok(());
        }
        each_attribute(value, |kind, value| {
            match kind {
                ETHTOOL_A_PAUSE_STAT_TX_FRAMES => self.tx = parse_u64(value)?,
                ETHTOOL_A_PAUSE_STAT_RX_FRAMES => self.rx = parse_u64(value)?,
                _ => {}
            }
            Ok(())
        })
    }
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
    /// The pause frames of interface `name` (`ETHTOOL_MSG_PAUSE_GET`); `EOPNOTSUPP` when the driver does not report
    /// them.
    pub fn pause(&mut self, name: &str) -> SysResult<Pause> {
        self.read("pause frames", name, ETHTOOL_MSG_PAUSE_GET, Pause::take)
    }

    /// Pause frames that the adapter of interface `name` has counted (`ETHTOOL_FLAG_STATS`, Linux 5.10); zero where
    /// its driver does not count them; `EOPNOTSUPP` when the driver does not report pause frames at all.
    pub fn pause_frames(&mut self, name: &str) -> SysResult<PauseFrames> {
        let mut frames = PauseFrames::default();
        let request = read_counted(ETHTOOL_MSG_PAUSE_GET, name);
        let operation = ("read pause frames of", &*quoted(name));
        self.0.read(request, operation, |kind, value| frames.take(kind, value))?;
        Ok(frames)
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::DefaultNla;

    use super::super::message::bytes_of;
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

    #[test]
    fn counted_frames_are_nested() {
        let count = |kind, frames: u64| DefaultNla::new(kind, frames.to_ne_bytes().to_vec());
        let counts = bytes_of(&[
            count(ETHTOOL_A_PAUSE_STAT_RX_FRAMES, 7),
            count(ETHTOOL_A_PAUSE_STAT_TX_FRAMES, 1 << 40),
        ]);
        let mut frames = PauseFrames::default();
        frames.take(ETHTOOL_A_PAUSE_RX, &[1]).unwrap();
        frames.take(ETHTOOL_A_PAUSE_STATS, &counts).unwrap();
        assert_eq!(frames, PauseFrames { tx: 1 << 40, rx: 7 });
        let short = bytes_of(&[DefaultNla::new(ETHTOOL_A_PAUSE_STAT_RX_FRAMES, vec![1, 2])]);
        assert!(frames.take(ETHTOOL_A_PAUSE_STATS, &short).is_err());
    }
}
