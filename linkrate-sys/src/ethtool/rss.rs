//! Receive side scaling: how a driver spreads flows over its receive queues.

use netlink_packet_core::{DecodeError, parse_u32};

use super::Ethtool;
use crate::error::SysResult;

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
    /// The receive side scaling of interface `name` (`ETHTOOL_MSG_RSS_GET`, Linux 6.2).
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver or the kernel has none.
    pub fn rss(&mut self, name: &str) -> SysResult<Rss> {
        let mut rss = Rss::default();
        self.read("receive side scaling", name, ETHTOOL_MSG_RSS_GET, |kind, value| {
            rss.take(kind, value)
        })?;
        Ok(rss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
