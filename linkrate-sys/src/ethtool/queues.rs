//! Queues: how many of each kind are in use (channels), how many packets their rings hold, and how
//! a driver spreads flows over them (receive side scaling).

use netlink_packet_core::{DecodeError, DefaultNla, parse_u32};

use super::message::number;
use super::{Ethtool, quoted};
use crate::error::SysResult;

const ETHTOOL_MSG_CHANNELS_GET: u8 = 17;
const ETHTOOL_MSG_CHANNELS_SET: u8 = 18;

const ETHTOOL_A_CHANNELS_RX_MAX: u16 = 2;
const ETHTOOL_A_CHANNELS_TX_MAX: u16 = 3;
const ETHTOOL_A_CHANNELS_COMBINED_MAX: u16 = 5;
const ETHTOOL_A_CHANNELS_RX_COUNT: u16 = 6;
const ETHTOOL_A_CHANNELS_TX_COUNT: u16 = 7;
const ETHTOOL_A_CHANNELS_COMBINED_COUNT: u16 = 9;

/// How many queues of each kind are in use, and how many the driver has. Real adapters mostly
/// count combined channels, veth counts receive and transmit channels apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Channels {
    /// Receive queues in use.
    pub rx: u32,
    /// Transmit queues in use.
    pub tx: u32,
    /// Queue pairs in use.
    pub combined: u32,
    /// Most receive queues.
    pub rx_max: u32,
    /// Most transmit queues.
    pub tx_max: u32,
    /// Most queue pairs.
    pub combined_max: u32,
}

impl Channels {
    fn take(&mut self, kind: u16, value: &[u8]) -> Result<(), DecodeError> {
        let field = match kind {
            ETHTOOL_A_CHANNELS_RX_MAX => &mut self.rx_max,
            ETHTOOL_A_CHANNELS_TX_MAX => &mut self.tx_max,
            ETHTOOL_A_CHANNELS_COMBINED_MAX => &mut self.combined_max,
            ETHTOOL_A_CHANNELS_RX_COUNT => &mut self.rx,
            ETHTOOL_A_CHANNELS_TX_COUNT => &mut self.tx,
            ETHTOOL_A_CHANNELS_COMBINED_COUNT => &mut self.combined,
            _ => return Ok(()),
        };
        *field = parse_u32(value)?;
        Ok(())
    }
}

impl Ethtool {
    /// The channels of interface `name` (`ETHTOOL_MSG_CHANNELS_GET`); `EOPNOTSUPP` when the driver does not report
    /// channels.
    pub fn channels(&mut self, name: &str) -> SysResult<Channels> {
        self.read("channels", name, ETHTOOL_MSG_CHANNELS_GET, Channels::take)
    }

    /// Whether the caller may set channels. The channels of a TAP follow its open descriptors and
    /// cannot be set; setting needs CAP_NET_ADMIN. `ENODEV` when this namespace has no interface of that name.
    pub fn can_set_channels(&mut self, name: &str) -> SysResult<bool> {
        // an empty change succeeds if the driver has the operation (ethnl_set_channels,
        // net/ethtool/channels.c)
        match self.set_channels(name, None, None, None) {
            Ok(()) => Ok(true),
            Err(error) if error.is_unsupported() || error.errno() == Some(libc::EPERM) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sets how many queues are in use (`ETHTOOL_MSG_CHANNELS_SET`); `None` leaves a kind as it
    /// is. Drivers refuse kinds they do not count. `EINVAL` above the maximum, `EOPNOTSUPP` when the driver cannot
    /// change it.
    pub fn set_channels(
        &mut self,
        name: &str,
        rx: Option<u32>,
        tx: Option<u32>,
        combined: Option<u32>,
    ) -> SysResult<()> {
        let counts = [
            ("rx", ETHTOOL_A_CHANNELS_RX_COUNT, rx),
            ("tx", ETHTOOL_A_CHANNELS_TX_COUNT, tx),
            ("combined", ETHTOOL_A_CHANNELS_COMBINED_COUNT, combined),
        ];
        let attributes: Vec<DefaultNla> =
            counts.iter().filter_map(|(_, kind, count)| Some(number(*kind, (*count)?))).collect();
        self.change(ETHTOOL_MSG_CHANNELS_SET, name, attributes).map_err(|refusal| {
            let counts: Vec<String> = counts
                .iter()
                .filter_map(|(word, _, count)| Some(format!("{word} {}", (*count)?)))
                .collect();
            refusal.during("set channels of", format!("{} to {}", quoted(name), counts.join(", ")))
        })
    }
}

const ETHTOOL_MSG_RINGS_GET: u8 = 15;

const ETHTOOL_A_RINGS_RX_MAX: u16 = 2;
const ETHTOOL_A_RINGS_TX_MAX: u16 = 5;
const ETHTOOL_A_RINGS_RX: u16 = 6;
const ETHTOOL_A_RINGS_TX: u16 = 9;

/// Descriptors of each ring: how many packets an adapter and its driver can hand over without waiting, and how many the driver allows. Zero where it has no such ring.
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
        self.read("rings", name, ETHTOOL_MSG_RINGS_GET, Rings::take)
    }
}

const ETHTOOL_MSG_RSS_GET: u8 = 38;

const ETHTOOL_A_RSS_HFUNC: u16 = 3;
const ETHTOOL_A_RSS_INDIR: u16 = 4;
const ETHTOOL_A_RSS_HKEY: u16 = 5;

/// What decides the receive queue of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rss {
    /// The hash functions, `ETH_RSS_HASH_*` of linux/ethtool.h.
    pub functions: u32,
    /// The indirection table as the driver has it; empty without one.
    pub table: Vec<u8>,
    /// The key, a secret of its host; empty without one.
    pub key: Vec<u8>,
}

impl Rss {
    fn take(&mut self, kind: u16, value: &[u8]) -> Result<(), DecodeError> {
        match kind {
            ETHTOOL_A_RSS_HFUNC => self.functions = parse_u32(value)?,
            ETHTOOL_A_RSS_INDIR => self.table = value.to_vec(),
            ETHTOOL_A_RSS_HKEY => self.key = value.to_vec(),
            _ => {}
        }
        Ok(())
    }
}

impl Ethtool {
    /// The receive side scaling of interface `name` (`ETHTOOL_MSG_RSS_GET`, Linux 6.2); `EOPNOTSUPP` when the driver
    /// or the kernel has none.
    pub fn rss(&mut self, name: &str) -> SysResult<Rss> {
        self.read("receive side scaling", name, ETHTOOL_MSG_RSS_GET, Rss::take)
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{bytes_of, each_attribute};
    use crate::ethtool::queues::*;

    #[test]
    fn counts_and_maxima_are_distinguished() {
        let bytes =
            bytes_of(&[2, 3, 4, 5, 6, 7, 8, 9].map(|kind| number(kind, 10 * u32::from(kind))));
        let mut channels = Channels::default();
        each_attribute(&bytes, |kind, value| channels.take(kind, value)).unwrap();
        let expected =
            Channels { rx: 60, tx: 70, combined: 90, rx_max: 20, tx_max: 30, combined_max: 50 };
        assert_eq!(channels, expected);
        assert!(channels.take(ETHTOOL_A_CHANNELS_RX_MAX, &[1]).is_err());
    }

    #[test]
    fn only_the_standard_rings_are_read() {
        let bytes =
            bytes_of(&[2, 3, 4, 5, 6, 7, 8, 9, 10].map(|kind| number(kind, u32::from(kind))));
        let mut rings = Rings::default();
        each_attribute(&bytes, |kind, value| rings.take(kind, value)).unwrap();
        assert_eq!(rings, Rings { rx: 6, rx_max: 2, tx: 9, tx_max: 5 });
    }

    #[test]
    fn another_table_and_another_key_are_told_apart() {
        let of = |kind: u16, value: &[u8]| {
            let mut rss = Rss::default();
            rss.take(kind, value).unwrap();
            rss
        };
        assert_eq!(of(ETHTOOL_A_RSS_HFUNC, &1u32.to_ne_bytes()).functions, 1);
        let [one, other] = [[0, 0, 1, 1], [0, 1, 0, 1]].map(|table: [u8; 4]| of(4, &table));
        assert_eq!(of(4, &[0, 0, 1, 1]), one);
        assert_ne!(one.table, other.table);
        assert_ne!(of(5, &[1]).key, of(5, &[2]).key);
        assert!(Rss::default().take(ETHTOOL_A_RSS_HFUNC, &[1]).is_err());
    }
}
