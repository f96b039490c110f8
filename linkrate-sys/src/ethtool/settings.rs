//! What an adapter's driver has set up: rings, coalescing, pause frames, link modes. All of it is
//! only read here.

use ethtool::{
    EthtoolAttr, EthtoolCoalesceAttr, EthtoolMessage, EthtoolPauseAttr, EthtoolRingAttr,
};
use netlink_packet_core::{
    DecodeError, Emitable, NlasIterator, ParseableParametrized, parse_u8, parse_u32,
};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};

use super::{Ethtool, RawReply, bits, quoted};
use crate::error::{SysError, SysResult};

const ETHTOOL_A_LINKMODES_AUTONEG: u16 = 2;
const ETHTOOL_A_LINKMODES_OURS: u16 = 3;
const ETHTOOL_A_LINKMODES_PEER: u16 = 4;
const ETHTOOL_A_LINKMODES_SPEED: u16 = 5;
const ETHTOOL_A_LINKMODES_DUPLEX: u16 = 6;

/// `SPEED_UNKNOWN` of linux/ethtool.h.
const SPEED_UNKNOWN: u32 = u32::MAX;

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

/// How long interrupts wait for more to report; `None` for what the driver does not have.
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

/// What a link negotiated, and what it could have, by the kernel's names (`10000baseT/Full`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkModes {
    /// Megabits per second; `None` while there is no link, or where the driver does not say.
    pub speed_mbps: Option<u32>,
    /// Both directions at once; `None` where the driver does not say.
    pub full_duplex: Option<bool>,
    /// Whether the link negotiates.
    pub autoneg: bool,
    /// What this end can do.
    pub supported: Vec<String>,
    /// What this end offers.
    pub advertised: Vec<String>,
    /// What the far end offers; empty where the driver does not say.
    pub peer: Vec<String>,
}

impl Ethtool {
    /// The rings of interface `name` (`ETHTOOL_MSG_RINGS_GET`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver has no notion of them.
    pub fn rings(&mut self, name: &str) -> SysResult<Rings> {
        let mut rings = Rings::default();
        for attribute in self.attributes("rings", name, EthtoolMessage::new_ring_get)? {
            let EthtoolAttr::Ring(attribute) = attribute else { continue };
            match attribute {
                EthtoolRingAttr::Rx(count) => rings.rx = count,
                EthtoolRingAttr::RxMax(count) => rings.rx_max = count,
                EthtoolRingAttr::Tx(count) => rings.tx = count,
                EthtoolRingAttr::TxMax(count) => rings.tx_max = count,
                _ => {}
            }
        }
        Ok(rings)
    }

    /// The interrupt coalescing of interface `name` (`ETHTOOL_MSG_COALESCE_GET`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver has no notion of it.
    pub fn coalescing(&mut self, name: &str) -> SysResult<Coalescing> {
        let mut coalescing = Coalescing::default();
        for attribute in self.attributes("coalescing", name, EthtoolMessage::new_coalesce_get)? {
            let EthtoolAttr::Coalesce(attribute) = attribute else { continue };
            match attribute {
                EthtoolCoalesceAttr::RxUsecs(value) => coalescing.rx_usecs = Some(value),
                EthtoolCoalesceAttr::RxMaxFrames(value) => coalescing.rx_frames = Some(value),
                EthtoolCoalesceAttr::TxUsecs(value) => coalescing.tx_usecs = Some(value),
                EthtoolCoalesceAttr::UseAdaptiveRx(on) => coalescing.adaptive_rx = Some(on),
                _ => {}
            }
        }
        Ok(coalescing)
    }

    /// The pause frames of interface `name` (`ETHTOOL_MSG_PAUSE_GET`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver has no notion of them.
    pub fn pause(&mut self, name: &str) -> SysResult<Pause> {
        let mut pause = Pause::default();
        for attribute in self.attributes("pause frames", name, EthtoolMessage::new_pause_get)? {
            let EthtoolAttr::Pause(attribute) = attribute else { continue };
            match attribute {
                EthtoolPauseAttr::Rx(on) => pause.rx = on,
                EthtoolPauseAttr::Tx(on) => pause.tx = on,
                EthtoolPauseAttr::AutoNeg(on) => pause.autoneg = on,
                _ => {}
            }
        }
        Ok(pause)
    }

    /// The link modes of interface `name` (`ETHTOOL_MSG_LINKMODES_GET`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the driver has no notion of them.
    pub fn link_modes(&mut self, name: &str) -> SysResult<LinkModes> {
        // undecoded: the crate knows no difference between a mode that is supported and one that
        // is advertised
        let replies: Vec<GenlMessage<RawReply>> =
            self.ask("link modes", name, EthtoolMessage::new_link_mode_get(Some(name)))?;
        let mut modes = LinkModes::default();
        for reply in &replies {
            reply.payload.read_link_modes(&mut modes).map_err(|error| {
                let cause = std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string());
                SysError::new("read link modes of", quoted(name), cause)
            })?;
        }
        Ok(modes)
    }

    fn attributes(
        &mut self,
        what: &str,
        name: &str,
        message: impl Fn(Option<&str>) -> EthtoolMessage,
    ) -> SysResult<Vec<EthtoolAttr>> {
        let replies: Vec<GenlMessage<EthtoolMessage>> =
            self.ask(what, name, message(Some(name)))?;
        Ok(replies.into_iter().flat_map(|reply| reply.payload.nlas).collect())
    }

    fn ask<Request, Reply>(
        &mut self,
        what: &str,
        name: &str,
        message: Request,
    ) -> SysResult<Vec<GenlMessage<Reply>>>
    where
        Request: GenlFamily + Emitable + std::fmt::Debug,
        Reply: ParseableParametrized<[u8], GenlHeader> + std::fmt::Debug,
    {
        self.request(message)
            .map_err(|refusal| refusal.during(&format!("read {what} of"), quoted(name)))
    }
}

impl RawReply {
    fn read_link_modes(&self, modes: &mut LinkModes) -> Result<(), DecodeError> {
        let names = |listed: Vec<(String, bool)>| listed.into_iter().map(|(name, _)| name);
        for attribute in NlasIterator::new(self.0.as_slice()) {
            let attribute = attribute?;
            let value = attribute.value();
            match attribute.kind() {
                ETHTOOL_A_LINKMODES_AUTONEG => modes.autoneg = parse_u8(value)? == 1,
                ETHTOOL_A_LINKMODES_OURS => {
                    // the mask is what is supported, the value what is offered
                    let listed = bits(value)?;
                    let offered = listed.iter().filter(|(_, on)| *on);
                    modes.advertised = offered.map(|(name, _)| name.clone()).collect();
                    modes.supported = names(listed).collect();
                }
                ETHTOOL_A_LINKMODES_PEER => modes.peer = names(bits(value)?).collect(),
                ETHTOOL_A_LINKMODES_SPEED => {
                    let speed = parse_u32(value)?;
                    modes.speed_mbps = (speed != SPEED_UNKNOWN && speed > 0).then_some(speed);
                }
                ETHTOOL_A_LINKMODES_DUPLEX => {
                    modes.full_duplex = match parse_u8(value)? {
                        0 => Some(false),
                        1 => Some(true),
                        _ => None,
                    };
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{DefaultNla, Emitable};

    use super::super::nested;
    use super::*;

    fn modes(listed: &[(&str, bool)]) -> DefaultNla {
        let bits: Vec<DefaultNla> = listed
            .iter()
            .map(|(name, on)| {
                let mut bit = vec![DefaultNla::new(2, [name.as_bytes(), &[0]].concat())];
                bit.extend(on.then(|| DefaultNla::new(3, vec![])));
                nested(1, &bit)
            })
            .collect();
        nested(ETHTOOL_A_LINKMODES_OURS, &[nested(3, &bits)])
    }

    #[test]
    fn a_mode_that_is_not_offered_is_still_supported() {
        let attributes = [
            DefaultNla::new(ETHTOOL_A_LINKMODES_AUTONEG, vec![1]),
            modes(&[("1000baseT/Full", true), ("10000baseT/Full", false)]),
            DefaultNla::new(ETHTOOL_A_LINKMODES_SPEED, 1000u32.to_ne_bytes().to_vec()),
            DefaultNla::new(ETHTOOL_A_LINKMODES_DUPLEX, vec![1]),
        ];
        let mut bytes = vec![0; attributes.as_slice().buffer_len()];
        attributes.as_slice().emit(&mut bytes);
        let mut read = LinkModes::default();
        RawReply(bytes.clone()).read_link_modes(&mut read).unwrap();
        assert_eq!(read.supported, ["1000baseT/Full", "10000baseT/Full"]);
        assert_eq!(read.advertised, ["1000baseT/Full"]);
        assert_eq!(
            (read.speed_mbps, read.full_duplex, read.autoneg),
            (Some(1000), Some(true), true)
        );
        for length in 0..bytes.len() {
            let _ = RawReply(bytes[..length].to_vec()).read_link_modes(&mut LinkModes::default());
        }
    }

    #[test]
    fn an_unknown_speed_is_no_speed() {
        let speed = DefaultNla::new(ETHTOOL_A_LINKMODES_SPEED, u32::MAX.to_ne_bytes().to_vec());
        let duplex = DefaultNla::new(ETHTOOL_A_LINKMODES_DUPLEX, vec![255]);
        let attributes = [speed, duplex];
        let mut bytes = vec![0; attributes.as_slice().buffer_len()];
        attributes.as_slice().emit(&mut bytes);
        let mut read = LinkModes::default();
        RawReply(bytes).read_link_modes(&mut read).unwrap();
        assert_eq!((read.speed_mbps, read.full_duplex), (None, None));
    }
}
