//! Features: offloads by the kernel's names, which the driver offers and which are in effect.

use std::collections::BTreeMap;

use netlink_packet_core::DecodeError;

use super::message::{bits, bitset};
use super::{Ethtool, quoted};
use crate::error::SysResult;

const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_MSG_FEATURES_SET: u8 = 12;

const ETHTOOL_A_FEATURES_HW: u16 = 2;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_FEATURES_NOCHANGE: u16 = 5;

/// One feature of one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Feature {
    /// In effect now.
    pub active: bool,
    /// The driver lets it be changed. Whether a change takes effect still depends on other
    /// features: segmentation needs checksums, checksums need scatter-gather.
    pub changeable: bool,
    /// Wished for, whether in effect or not.
    pub wanted: bool,
}

/// The features of one interface by the kernel's names (net/ethtool/common.c,
/// `netdev_features_strings`): `tx-tcp-segmentation`, `rx-gro`, ...
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features(BTreeMap<String, Feature>);

impl Features {
    /// The feature of that name; `None` when this kernel has none.
    pub fn get(&self, name: &str) -> Option<Feature> {
        self.0.get(name).copied()
    }

    /// Whether the feature is in effect; false when this kernel has none of that name.
    pub fn is_active(&self, name: &str) -> bool {
        self.get(name).is_some_and(|feature| feature.active)
    }

    /// Every feature this kernel knows, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Feature)> {
        self.0.iter().map(|(name, feature)| (name.as_str(), *feature))
    }
}

impl FromIterator<(String, Feature)> for Features {
    fn from_iter<T: IntoIterator<Item = (String, Feature)>>(features: T) -> Self {
        Self(features.into_iter().collect())
    }
}

impl Ethtool {
    /// The features of interface `name` (`ETHTOOL_MSG_FEATURES_GET`); `ENODEV` when this namespace has no interface of
    /// that name.
    pub fn features(&mut self, name: &str) -> SysResult<Features> {
        self.read("features", name, ETHTOOL_MSG_FEATURES_GET, Reader::take).map(Reader::finish)
    }

    /// Asks for features of interface `name` by kernel name (`ETHTOOL_MSG_FEATURES_SET`).
    ///
    /// The kernel takes this as a wish: a feature that a dependency or the driver forbids stays as
    /// it was, without an error. Read [`features`](Self::features) back.
    ///
    /// # Errors
    /// `EOPNOTSUPP` or `EINVAL` for a name this kernel does not have, `EPERM` without
    /// CAP_NET_ADMIN.
    pub fn set_features(&mut self, name: &str, wanted: &[(&str, bool)]) -> SysResult<()> {
        let attributes = vec![bitset(ETHTOOL_A_FEATURES_WANTED, wanted)];
        self.change(ETHTOOL_MSG_FEATURES_SET, name, attributes).map_err(|refusal| {
            let wishes: Vec<String> = wanted
                .iter()
                .map(|(feature, on)| format!("{feature} {}", if *on { "on" } else { "off" }))
                .collect();
            refusal.during("set features of", format!("{} to {}", quoted(name), wishes.join(", ")))
        })
    }
}

/// Puts the bit sets of a reply together.
#[derive(Debug, Default)]
struct Reader {
    features: BTreeMap<String, Feature>,
    /// Bits that no driver may change, whatever the bit set of changeable features says.
    never_changeable: Vec<String>,
}

impl Reader {
    fn take(&mut self, kind: u16, value: &[u8]) -> Result<(), DecodeError> {
        if !(ETHTOOL_A_FEATURES_HW..=ETHTOOL_A_FEATURES_NOCHANGE).contains(&kind) {
            return Ok(());
        }
        for (name, is_set) in bits(value)? {
            let feature = self.features.entry(name.clone()).or_default();
            match kind {
                ETHTOOL_A_FEATURES_HW => feature.changeable |= is_set,
                ETHTOOL_A_FEATURES_WANTED => feature.wanted |= is_set,
                ETHTOOL_A_FEATURES_ACTIVE => feature.active |= is_set,
                ETHTOOL_A_FEATURES_NOCHANGE if is_set => self.never_changeable.push(name),
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Features {
        for name in self.never_changeable {
            self.features.entry(name).or_default().changeable = false;
        }
        Features(self.features)
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::tests::unmasked_bitset;
    use super::super::message::{bytes_of, each_attribute};
    use super::*;

    fn read(bytes: &[u8]) -> Result<Features, DecodeError> {
        let mut reader = Reader::default();
        each_attribute(bytes, |kind, value| reader.take(kind, value))?;
        Ok(reader.finish())
    }

    #[test]
    fn features_are_read_from_their_bit_sets() {
        let bytes = bytes_of(&[
            bitset(ETHTOOL_A_FEATURES_HW, &[("sg", true), ("gro", true), ("llt", false)]),
            bitset(ETHTOOL_A_FEATURES_WANTED, &[("sg", true), ("gro", false)]),
            unmasked_bitset(ETHTOOL_A_FEATURES_ACTIVE, &["sg", "llt"]),
            unmasked_bitset(ETHTOOL_A_FEATURES_NOCHANGE, &["gro"]),
        ]);
        let features = read(&bytes).unwrap();
        assert_eq!(
            features.get("sg"),
            Some(Feature { active: true, changeable: true, wanted: true })
        );
        assert_eq!(
            features.get("llt"),
            Some(Feature { active: true, changeable: false, wanted: false })
        );
        assert_eq!(
            features.get("gro"),
            Some(Feature { active: false, changeable: false, wanted: false })
        );
        assert_eq!(features.get("lro"), None);
        assert!(!features.is_active("lro"));
        // a reply that ends early is an error or has fewer features, never a panic
        for length in 0..bytes.len() {
            let _ = read(&bytes[..length]);
        }
    }
}
