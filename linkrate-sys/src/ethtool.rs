//! Features and channels of an interface through ethtool's generic netlink family
//! (Documentation/networking/ethtool-netlink.rst, linux/ethtool_netlink.h); in `settings` rings,
//! interrupt coalescing, pause frames and link modes, which are only read.
//!
//! Features travel as bit sets which are read and built here: the `ethtool` crate cannot emit
//! them, and loses the bit of index 0 (`tx-scatter-gather`) when it reads them.

use std::collections::BTreeMap;

use ethtool::{EthtoolAttr, EthtoolChannelAttr, EthtoolHeader, EthtoolMessage};
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLA_F_NESTED, NlasIterator, ParseableParametrized,
    parse_string,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};

use crate::error::{SysError, SysResult};
use crate::netlink::exchange::{Exchange, Refusal};

mod driver;
mod settings;

pub use driver::Driver;
pub use settings::{Coalescing, LinkModes, Pause, Rings};

const ETHTOOL_MSG_FEATURES_SET: u8 = 12;

const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_HW: u16 = 2;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_FEATURES_NOCHANGE: u16 = 5;

const ETHTOOL_A_BITSET_NOMASK: u16 = 1;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BIT_VALUE: u16 = 3;

/// `ETHTOOL_FLAG_OMIT_REPLY`: the acknowledgement is enough, the caller reads back.
const ETHTOOL_FLAG_OMIT_REPLY: u32 = 2;

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

/// An ethtool socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Ethtool {
    exchange: Exchange,
    family: u16,
}

impl Ethtool {
    /// Opens the socket and looks up the family.
    ///
    /// # Errors
    /// `ENOENT` on kernels without ethtool netlink (before 5.6).
    pub fn open() -> SysResult<Self> {
        let mut exchange = Exchange::open(netlink_sys::protocols::NETLINK_GENERIC, "generic")?;
        let request = GenlMessage::from_payload(GenlCtrl {
            cmd: GenlCtrlCmd::GetFamily,
            nlas: vec![GenlCtrlAttrs::FamilyName(EthtoolMessage::family_name().to_owned())],
        });
        let failed = |refusal: Refusal| {
            refusal
                .during("look up netlink family", "\"ethtool\"")
                .with_hint("features and channels need Linux 5.6 or later")
        };
        let replies: Vec<GenlMessage<GenlCtrl>> = exchange.request(request, 0).map_err(failed)?;
        let family = replies
            .iter()
            .flat_map(|reply| &reply.payload.nlas)
            .find_map(|attribute| match attribute {
                GenlCtrlAttrs::FamilyId(id) => Some(*id),
                _ => None,
            })
            .ok_or_else(|| failed(std::io::Error::from_raw_os_error(libc::ENOENT).into()))?;
        Ok(Self { exchange, family })
    }

    /// The features of interface `name` (`ETHTOOL_MSG_FEATURES_GET`).
    ///
    /// # Errors
    /// `ENODEV` when there is none of that name here.
    pub fn features(&mut self, name: &str) -> SysResult<Features> {
        let replies: Vec<GenlMessage<RawReply>> = self
            .request(EthtoolMessage::new_feature_get(Some(name)))
            .map_err(|refusal| refusal.during("read features of", quoted(name)))?;
        let mut features = Features::default();
        for reply in &replies {
            reply.payload.read_features(&mut features).map_err(|error| {
                let cause = std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string());
                SysError::new("read features of", quoted(name), cause)
            })?;
        }
        Ok(features)
    }

    /// Asks for features of interface `name` by kernel name (`ETHTOOL_MSG_FEATURES_SET`).
    ///
    /// The kernel takes this as a wish: what a dependency or the driver forbids stays as it was
    /// without an error. Read [`features`](Self::features) back.
    ///
    /// # Errors
    /// `EOPNOTSUPP` or `EINVAL` for a name this kernel does not have, `EPERM` without
    /// CAP_NET_ADMIN.
    pub fn set_features(&mut self, name: &str, wanted: &[(&str, bool)]) -> SysResult<()> {
        self.request::<_, RawReply>(FeaturesSet::new(name, wanted)).map(|_| ()).map_err(|refusal| {
            let wishes: Vec<String> = wanted
                .iter()
                .map(|(feature, on)| format!("{feature} {}", if *on { "on" } else { "off" }))
                .collect();
            refusal.during("set features of", format!("{} to {}", quoted(name), wishes.join(", ")))
        })
    }

    /// The channels of interface `name` (`ETHTOOL_MSG_CHANNELS_GET`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver has no notion of them.
    pub fn channels(&mut self, name: &str) -> SysResult<Channels> {
        let replies: Vec<GenlMessage<EthtoolMessage>> = self
            .request(EthtoolMessage::new_channel_get(Some(name)))
            .map_err(|refusal| refusal.during("read channels of", quoted(name)))?;
        let mut channels = Channels::default();
        for attribute in replies.iter().flat_map(|reply| &reply.payload.nlas) {
            let EthtoolAttr::Channel(attribute) = attribute else { continue };
            match attribute {
                EthtoolChannelAttr::RxCount(count) => channels.rx = *count,
                EthtoolChannelAttr::TxCount(count) => channels.tx = *count,
                EthtoolChannelAttr::CombinedCount(count) => channels.combined = *count,
                EthtoolChannelAttr::RxMax(count) => channels.rx_max = *count,
                EthtoolChannelAttr::TxMax(count) => channels.tx_max = *count,
                EthtoolChannelAttr::CombinedMax(count) => channels.combined_max = *count,
                _ => {}
            }
        }
        Ok(channels)
    }

    /// Whether the driver lets the caller set channels at all: a TAP has them, and only its reader
    /// changes them; without CAP_NET_ADMIN nobody does.
    ///
    /// # Errors
    /// `ENODEV` when there is none of that name here.
    pub fn can_set_channels(&mut self, name: &str) -> SysResult<bool> {
        // a change of nothing succeeds where there is an operation for it (ethnl_set_channels,
        // net/ethtool/channels.c)
        match self.set_channels(name, None, None, None) {
            Ok(()) => Ok(true),
            Err(error) if error.is_unsupported() || error.errno() == Some(libc::EPERM) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sets how many queues are in use (`ETHTOOL_MSG_CHANNELS_SET`); `None` leaves a kind as it
    /// is. Drivers refuse kinds they do not count.
    ///
    /// # Errors
    /// `EINVAL` above the maximum, `EOPNOTSUPP` when the driver cannot change it.
    pub fn set_channels(
        &mut self,
        name: &str,
        rx: Option<u32>,
        tx: Option<u32>,
        combined: Option<u32>,
    ) -> SysResult<()> {
        let counts = [
            rx.map(EthtoolChannelAttr::RxCount),
            tx.map(EthtoolChannelAttr::TxCount),
            combined.map(EthtoolChannelAttr::CombinedCount),
        ];
        let mut message = EthtoolMessage::new_channel_set(name);
        message.nlas.extend(counts.into_iter().flatten().map(EthtoolAttr::Channel));
        self.request::<_, RawReply>(message).map(|_| ()).map_err(|refusal| {
            let counts: Vec<String> = [("rx", rx), ("tx", tx), ("combined", combined)]
                .iter()
                .filter_map(|(kind, count)| count.map(|count| format!("{kind} {count}")))
                .collect();
            refusal.during("set channels of", format!("{} to {}", quoted(name), counts.join(", ")))
        })
    }

    fn request<Request, Reply>(
        &mut self,
        payload: Request,
    ) -> Result<Vec<GenlMessage<Reply>>, Refusal>
    where
        Request: GenlFamily + Emitable + std::fmt::Debug,
        Reply: ParseableParametrized<[u8], GenlHeader> + std::fmt::Debug,
    {
        let mut message = GenlMessage::from_payload(payload);
        message.set_resolved_family_id(self.family);
        self.exchange.request(message, 0)
    }
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// An attribute that holds attributes.
fn nested<N: netlink_packet_core::Nla>(kind: u16, attributes: &[N]) -> DefaultNla {
    let mut value = vec![0; attributes.buffer_len()];
    attributes.emit(&mut value);
    DefaultNla::new(kind | NLA_F_NESTED, value)
}

/// `ETHTOOL_MSG_FEATURES_SET`.
#[derive(Debug)]
struct FeaturesSet(Vec<DefaultNla>);

impl FeaturesSet {
    /// Bits are named, those not named are left alone: without `ETHTOOL_A_BITSET_NOMASK` the list
    /// of bits is the mask.
    fn new(interface: &str, wanted: &[(&str, bool)]) -> Self {
        let bits: Vec<DefaultNla> = wanted
            .iter()
            .map(|(feature, on)| {
                let name = [feature.as_bytes(), &[0]].concat();
                let mut bit = vec![DefaultNla::new(ETHTOOL_A_BITSET_BIT_NAME, name)];
                bit.extend(on.then(|| DefaultNla::new(ETHTOOL_A_BITSET_BIT_VALUE, Vec::new())));
                nested(ETHTOOL_A_BITSET_BITS_BIT, &bit)
            })
            .collect();
        let header = [
            EthtoolHeader::DevName(interface.to_owned()),
            EthtoolHeader::Flags(ETHTOOL_FLAG_OMIT_REPLY),
        ];
        let bits = nested(ETHTOOL_A_BITSET_BITS, &bits);
        Self(vec![
            nested(ETHTOOL_A_FEATURES_HEADER, &header),
            nested(ETHTOOL_A_FEATURES_WANTED, &[bits]),
        ])
    }
}

impl GenlFamily for FeaturesSet {
    fn family_name() -> &'static str {
        EthtoolMessage::family_name()
    }

    fn command(&self) -> u8 {
        ETHTOOL_MSG_FEATURES_SET
    }

    fn version(&self) -> u8 {
        1
    }
}

impl Emitable for FeaturesSet {
    fn buffer_len(&self) -> usize {
        self.0.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.0.as_slice().emit(buffer);
    }
}

/// The attributes of a reply, undecoded.
#[derive(Debug)]
struct RawReply(Vec<u8>);

impl ParseableParametrized<[u8], GenlHeader> for RawReply {
    fn parse_with_param(payload: &[u8], _header: GenlHeader) -> Result<Self, DecodeError> {
        Ok(Self(payload.to_vec()))
    }
}

impl RawReply {
    fn read_features(&self, features: &mut Features) -> Result<(), DecodeError> {
        // by then every name is known: the bit set of changeable features lists all of them
        let mut never_changeable = Vec::new();
        for attribute in NlasIterator::new(self.0.as_slice()) {
            let attribute = attribute?;
            let kind = attribute.kind();
            if !(ETHTOOL_A_FEATURES_HW..=ETHTOOL_A_FEATURES_NOCHANGE).contains(&kind) {
                continue;
            }
            for (name, set) in bits(attribute.value())? {
                let feature = features.0.entry(name.clone()).or_default();
                match kind {
                    ETHTOOL_A_FEATURES_HW => feature.changeable |= set,
                    ETHTOOL_A_FEATURES_WANTED => feature.wanted |= set,
                    ETHTOOL_A_FEATURES_ACTIVE => feature.active |= set,
                    ETHTOOL_A_FEATURES_NOCHANGE if set => never_changeable.push(name),
                    _ => {}
                }
            }
        }
        for name in never_changeable {
            features.0.entry(name).or_default().changeable = false;
        }
        Ok(())
    }
}

/// Name and value of every bit listed in a bit set. Without a mask, what is listed is set.
fn bits(bitset: &[u8]) -> Result<Vec<(String, bool)>, DecodeError> {
    let mut no_mask = false;
    let mut listed = Vec::new();
    for attribute in NlasIterator::new(bitset) {
        let attribute = attribute?;
        match attribute.kind() {
            ETHTOOL_A_BITSET_NOMASK => no_mask = true,
            ETHTOOL_A_BITSET_BITS => {
                for bit in NlasIterator::new(attribute.value()) {
                    let (mut name, mut value) = (String::new(), false);
                    let bit = bit?;
                    for part in NlasIterator::new(bit.value()) {
                        let part = part?;
                        match part.kind() {
                            ETHTOOL_A_BITSET_BIT_NAME => name = parse_string(part.value())?,
                            ETHTOOL_A_BITSET_BIT_VALUE => value = true,
                            _ => {}
                        }
                    }
                    listed.push((name, value));
                }
            }
            _ => {}
        }
    }
    Ok(listed.into_iter().map(|(name, value)| (name, value || no_mask)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bit set as the kernel sends it, from (name, value).
    fn bitset(kind: u16, no_mask: bool, listed: &[(&str, bool)]) -> DefaultNla {
        let bits: Vec<DefaultNla> = listed
            .iter()
            .map(|(name, value)| {
                let name = [name.as_bytes(), &[0]].concat();
                let mut bit = vec![DefaultNla::new(ETHTOOL_A_BITSET_BIT_NAME, name)];
                bit.extend(value.then(|| DefaultNla::new(ETHTOOL_A_BITSET_BIT_VALUE, vec![])));
                nested(ETHTOOL_A_BITSET_BITS_BIT, &bit)
            })
            .collect();
        let mut parts = vec![nested(ETHTOOL_A_BITSET_BITS, &bits)];
        parts.extend(no_mask.then(|| DefaultNla::new(ETHTOOL_A_BITSET_NOMASK, vec![])));
        nested(kind, &parts)
    }

    #[test]
    fn features_are_read_from_their_bit_sets() {
        let attributes = [
            bitset(ETHTOOL_A_FEATURES_HW, false, &[("sg", true), ("gro", true), ("llt", false)]),
            bitset(ETHTOOL_A_FEATURES_WANTED, false, &[("sg", true), ("gro", false)]),
            bitset(ETHTOOL_A_FEATURES_ACTIVE, true, &[("sg", false), ("llt", false)]),
            bitset(ETHTOOL_A_FEATURES_NOCHANGE, true, &[("gro", false)]),
        ];
        let mut bytes = vec![0; attributes.as_slice().buffer_len()];
        attributes.as_slice().emit(&mut bytes);
        let mut features = Features::default();
        RawReply(bytes.clone()).read_features(&mut features).unwrap();
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
        assert_eq!(features.iter().count(), 3);
        // cut anywhere: an error or fewer features, never a panic
        for length in 0..bytes.len() {
            let _ = RawReply(bytes[..length].to_vec()).read_features(&mut Features::default());
        }
    }

    #[test]
    fn wishes_name_their_bits_and_leave_the_others_alone() {
        let message = FeaturesSet::new("v0", &[("rx-gro", true), ("tx-tcp-segmentation", false)]);
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        let wanted = NlasIterator::new(bytes.as_slice())
            .flatten()
            .find(|attribute| attribute.kind() == ETHTOOL_A_FEATURES_WANTED)
            .unwrap();
        assert!(wanted.nested_flag());
        let listed = bits(wanted.value()).unwrap();
        let expected = [("rx-gro", true), ("tx-tcp-segmentation", false)];
        assert_eq!(listed, expected.map(|(name, on)| (name.to_owned(), on)));
    }
}
