//! The limit of a link: its packets laid out by the [law of the link](crate::link), byte by byte.
//!
//! The paper of the `atm` study gives, for one packet per message and without a bound by the MTU,
//!
//! ```text
//! T = D / (D + 56 + p) × 48/53 × 26/27 × line rate
//! ```
//!
//! with D the message bytes, 56 = 20 TCP + 20 IP + 8 LLC/SNAP + 8 AAL5 trailer, and p the padding
//! to whole cells. [`Link::published_formula`] is that. A real packet is bounded by the MTU, and
//! Linux adds TCP timestamps. [`Link::limit`] is that, and a measurement can be compared with it.

use linkrate_model::BitRate;

use super::packets::{IpVersion, TCP_HEADER, Traffic};
use super::{Limit, LimitError};
use crate::frame::link::MAX_TAGS;
use crate::link::{Framing, Link};

/// The largest message of the published formula: above it, a double no longer holds every count.
const MAX_FORMULA_MESSAGE: u64 = 1 << 53;

impl Link {
    /// The limit for `traffic`. Its MTU is that of IP, not the size of the link's unit. Fails if a line rate,
    /// number of VLAN tags, MTU or message is out of range.
    pub fn limit(&self, traffic: &Traffic) -> Result<Limit, LimitError> {
        self.check_line_rate()?;
        let Self { line_rate, framing } = *self;
        if let Framing::Ethernet { vlan_tags, .. } = framing
            && vlan_tags > MAX_TAGS
        {
            return Err(LimitError::VlanTags { given: vlan_tags });
        }
        let largest = framing.largest_packet().and_then(|packet| u32::try_from(packet).ok());
        traffic.check_mtu(largest.unwrap_or(u32::MAX), framing.name())?;

        let law = framing.law();
        let packets = traffic.packets()?;
        let count = packets.count();
        let mut layers = packets.layers;
        for (name, octets) in framing.headers() {
            layers.add(name, octets * count);
        }
        let (mut on_line, mut cells) = (0, None);
        for group in &packets.groups {
            let unit = framing.unit(group.length);
            for (name, octets) in law.added(unit) {
                layers.add(name, octets * group.count);
            }
            on_line += law.line_octets(unit) * group.count;
            if let Some(of_unit) = law.cells(unit) {
                cells = Some(cells.unwrap_or(0) + of_unit * group.count);
            }
        }
        let (share, of) = law.payload_share();
        let overhead = f64::from(of - share) / f64::from(share);
        layers.add_spread(super::tax::SONET, on_line as f64 * overhead);
        Ok(Limit {
            line_rate,
            payload: packets.payload,
            packets: count,
            cells,
            layers: layers.into_vec(),
        })
    }

    /// The theoretical TCP throughput as the `atm` paper defines it: every message of `message` bytes is one IPv4
    /// packet without TCP options, however large. Fails if the line rate is out of range, or the message empty.
    ///
    /// For messages that fit the MTU it is [`limit`](Self::limit) without timestamps. Above, it is a figure to
    /// compare with the paper's, not a limit: no packet of 64 KiB exists.
    pub fn published_formula(&self, message: u64) -> Result<BitRate, LimitError> {
        self.check_line_rate()?;
        let highest = MAX_FORMULA_MESSAGE;
        if !(1..=highest).contains(&message) {
            let what = "the published formula".to_owned();
            return Err(LimitError::Message { given: message, lowest: 1, highest, what });
        }
        let on_line = self.occupied(message + TCP_HEADER + IpVersion::V4.header());
        let share = message as f64 / on_line as f64;
        Ok(self.framing.law().payload_rate(BitRate(self.line_rate.0 * share)))
    }

    /// Refuses a line rate with which no division makes sense. [`BitRate`] is an open field, so a
    /// value that never went through its parser can be anything.
    fn check_line_rate(&self) -> Result<(), LimitError> {
        if self.line_rate.0.is_finite() && self.line_rate.0 > 0.0 {
            Ok(())
        } else {
            Err(LimitError::LineRate { given: self.line_rate.0 })
        }
    }
}
