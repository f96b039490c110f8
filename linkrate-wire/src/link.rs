//! One law of the link: what a packet becomes on a line, and how long that takes.
//!
//! A packet takes two steps to the line.
//!
//! 1. [`Framing`] puts the headers of the link around an IP packet. The result is a *unit*: the
//!    bytes that a device hands to its link.
//! 2. [`LinkLaw`] says what the line makes of a unit: padding, check sequence, preamble and gap on
//!    Ethernet; trailer, padding and cells on ATM. [`Pace`] turns the octets on the line into time.
//!
//! | | Ethernet | ATM |
//! |---|---|---|
//! | unit | frame from the destination address on, without FCS | AAL5 service data unit |
//! | octets on the line | padded frame, FCS, preamble, gap | cells of 53 |
//! | share of the line rate for them | all of it | 26 of 27 columns of SONET |
//! | octets that a counter shows | padded frame with FCS | cells of 53 |
//!
//! Limits, pacing, switches, integrity checks, verdicts and captures all ask here, so that they
//! cannot disagree. Everything is exact: octets are whole numbers, and a rate is turned into time
//! once ([`LinkLaw::pace`]), not for each unit.
//!
//! A packet of 1500 octets is a unit of 1514, which takes 1538 octets of an Ethernet line: 12.304 µs at 1 Gb/s.

pub mod atm;
pub mod ethernet;
mod framing;
mod pace;

pub use framing::{Framing, Link};
pub use pace::Pace;

/// `LINKTYPE_ERF`: the link-layer type of a capture of ERF records ([`erf`](crate::erf)).
pub const LINK_TYPE_ERF: u16 = 197;

use linkrate_model::model::LinkKind;
use linkrate_model::{BitRate, Model};

/// What a line makes of the units that a device hands to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkLaw {
    /// IEEE 802.3.
    Ethernet,
    /// AAL5 (ITU-T I.363.5) in ATM cells over SONET.
    Atm,
}

impl LinkLaw {
    /// The law of a model's links.
    #[must_use]
    pub const fn of(model: &Model) -> Self {
        match model.link {
            LinkKind::Ethernet => Self::Ethernet,
            LinkKind::Atm => Self::Atm,
        }
    }

    /// The most octets that a device puts before an IP packet: on Ethernet the header, one VLAN
    /// tag and LLC/SNAP, on ATM the header of LAN Emulation.
    #[inline]
    #[must_use]
    pub const fn longest_header(self) -> u64 {
        match self {
            Self::Ethernet => ethernet::HEADER + ethernet::VLAN_TAG + ethernet::LLC_SNAP,
            Self::Atm => atm::LANE_HEADER,
        }
    }

    /// The smallest unit that the line does not pad.
    #[inline]
    #[must_use]
    pub const fn smallest_unit(self) -> u64 {
        match self {
            Self::Ethernet => ethernet::MIN_FRAME - ethernet::FCS,
            Self::Atm => atm::CELL_PAYLOAD - atm::AAL5_TRAILER,
        }
    }

    /// The largest unit that the line can carry; `None` where only the device limits it.
    #[inline]
    #[must_use]
    pub const fn largest_unit(self) -> Option<u64> {
        match self {
            Self::Ethernet => None,
            Self::Atm => Some(atm::MAX_SDU),
        }
    }

    /// Octets of padding that the line adds to a unit of `unit` octets.
    #[inline]
    #[must_use]
    pub const fn padding(self, unit: u64) -> u64 {
        match self {
            Self::Ethernet => self.smallest_unit().saturating_sub(unit),
            Self::Atm => atm::cells(unit) * atm::CELL_PAYLOAD - atm::AAL5_TRAILER - unit,
        }
    }

    /// ATM cells of a unit of `unit` octets; `None` on Ethernet, where a unit is one frame.
    #[inline]
    #[must_use]
    pub const fn cells(self, unit: u64) -> Option<u64> {
        match self {
            Self::Ethernet => None,
            Self::Atm => Some(atm::cells(unit)),
        }
    }

    /// Octets for which a unit of `unit` octets occupies the line.
    #[inline]
    #[must_use]
    pub const fn line_octets(self, unit: u64) -> u64 {
        match self {
            Self::Ethernet => self.counted_octets(unit) + ethernet::PREAMBLE + ethernet::GAP,
            Self::Atm => self.counted_octets(unit),
        }
    }

    /// Octets that `ifHCInOctets` and `ifHCOutOctets` count for a unit of `unit` octets: on
    /// Ethernet the frame with padding and FCS (RFC 3635), on ATM cells × 53 (RFC 2515, the cell
    /// layer).
    #[inline]
    #[must_use]
    pub const fn counted_octets(self, unit: u64) -> u64 {
        match self {
            Self::Ethernet => unit + self.padding(unit) + ethernet::FCS,
            Self::Atm => atm::CELL * atm::cells(unit),
        }
    }

    /// Octets for which units occupied the line, from what counters report on them: octets as
    /// [`counted_octets`](Self::counted_octets) has them, and the number of units.
    #[must_use]
    pub const fn line_octets_of_counters(self, octets: u64, units: u64) -> u64 {
        match self {
            Self::Ethernet => {
                octets.saturating_add(units.saturating_mul(ethernet::PREAMBLE + ethernet::GAP))
            }
            Self::Atm => octets,
        }
    }

    /// The share of the line rate at which octets pass, as a fraction. SONET keeps one of 27
    /// columns for section, line and path overhead.
    #[must_use]
    pub const fn payload_share(self) -> (u32, u32) {
        match self {
            Self::Ethernet => (1, 1),
            Self::Atm => atm::SONET_SHARE,
        }
    }

    /// The rate at which octets pass on a line of `line_rate`: 149.76 Mb/s of cells on OC-3c.
    #[must_use]
    pub fn payload_rate(self, line_rate: BitRate) -> BitRate {
        let (share, of) = self.payload_share();
        BitRate(line_rate.0 * f64::from(share) / f64::from(of))
    }

    /// How long octets take on a line of `line_rate`; without a rate they take no time.
    #[must_use]
    pub fn pace(self, line_rate: Option<BitRate>) -> Pace {
        line_rate.map_or(Pace::NO_TIME, |rate| Pace::of(self.payload_rate(rate)))
    }

    /// The link-layer type of a capture (`LINKTYPE_`, the numbers of libpcap and pcapng): Ethernet
    /// frames, or ERF records of cells and AAL5 units ([`erf`](crate::erf)).
    #[must_use]
    pub const fn capture_type(self) -> u16 {
        match self {
            Self::Ethernet => 1,
            Self::Atm => LINK_TYPE_ERF,
        }
    }

    /// The octets that the line adds to a unit, by name and in the order of the layers. Their sum
    /// is [`line_octets`](Self::line_octets) less the unit.
    pub(crate) fn added(self, unit: u64) -> Vec<(&'static str, u64)> {
        let padding = self.padding(unit);
        match self {
            Self::Ethernet => vec![
                ("frame padding", padding),
                ("frame check sequence", ethernet::FCS),
                ("preamble", ethernet::PREAMBLE),
                ("inter-frame gap", ethernet::GAP),
            ],
            Self::Atm => vec![
                ("AAL5 padding", padding),
                ("AAL5 trailer", atm::AAL5_TRAILER),
                ("cell headers", (atm::CELL - atm::CELL_PAYLOAD) * atm::cells(unit)),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LAWS: [LinkLaw; 2] = [LinkLaw::Ethernet, LinkLaw::Atm];

    #[test]
    fn ethernet_frames_of_known_length() {
        let law = LinkLaw::Ethernet;
        for (unit, padding, counted, line) in [
            (0, 60, 64, 84),
            (42, 18, 64, 84),
            (60, 0, 64, 84),
            (61, 0, 65, 85),
            (1514, 0, 1518, 1538),
        ] {
            assert_eq!(law.padding(unit), padding, "{unit}");
            assert_eq!(law.counted_octets(unit), counted, "{unit}");
            assert_eq!(law.line_octets(unit), line, "{unit}");
            assert_eq!(law.cells(unit), None);
        }
        assert_eq!((law.smallest_unit(), law.largest_unit(), law.capture_type()), (60, None, 1));
        assert_eq!(law.payload_rate(BitRate(1e9)), BitRate(1e9));
    }

    #[test]
    fn aal5_units_of_known_length() {
        let law = LinkLaw::Atm;
        // 9188 = 9180 of Classical IP and LLC/SNAP: 192 cells with 20 octets of padding
        for (unit, padding, cells) in
            [(0, 40, 1), (40, 0, 1), (41, 47, 2), (9188, 20, 192), (65_535, 25, 1366)]
        {
            assert_eq!(law.padding(unit), padding, "{unit}");
            assert_eq!(law.cells(unit), Some(cells), "{unit}");
            assert_eq!(law.counted_octets(unit), cells * 53, "{unit}");
            assert_eq!(law.line_octets(unit), cells * 53, "{unit}");
        }
        assert_eq!(law.smallest_unit(), 40);
        assert_eq!((law.largest_unit(), law.capture_type()), (Some(65_535), 197));
        assert_eq!(law.payload_rate(atm::OC3C), BitRate(149.76e6));
        assert_eq!(law.payload_rate(atm::OC12C), BitRate(599.04e6));
    }

    #[test]
    fn a_cell_of_oc3c_takes_2831_ns() {
        // 424 bits at 149.76 Mb/s
        assert_eq!(LinkLaw::Atm.pace(Some(atm::OC3C)).time_ps(53), 2_831_197);
        assert_eq!(LinkLaw::Atm.pace(None).time_ps(1 << 40), 0);
    }

    proptest! {
        #[test]
        fn the_account_of_a_unit_closes(unit in 0u64..65_536) {
            for law in LAWS {
                let added: u64 = law.added(unit).into_iter().map(|(_, octets)| octets).sum();
                prop_assert_eq!(unit + added, law.line_octets(unit));
                prop_assert_eq!(law.padding(unit) == 0, match law {
                    LinkLaw::Ethernet => unit >= law.smallest_unit(),
                    LinkLaw::Atm => (unit + atm::AAL5_TRAILER).is_multiple_of(atm::CELL_PAYLOAD),
                });
            }
        }

        #[test]
        fn a_longer_unit_never_takes_less(unit in 0u64..65_535) {
            for law in LAWS {
                prop_assert!(law.line_octets(unit) <= law.line_octets(unit + 1));
                prop_assert!(law.counted_octets(unit) <= law.line_octets(unit));
            }
        }

        /// An honest run's counters show exactly the octets that occupied the line.
        #[test]
        fn counters_tell_what_was_on_the_line(units in prop::collection::vec(0u64..65_536, 0..50)) {
            for law in LAWS {
                let counted = units.iter().map(|unit| law.counted_octets(*unit)).sum();
                let line: u64 = units.iter().map(|unit| law.line_octets(*unit)).sum();
                prop_assert_eq!(law.line_octets_of_counters(counted, units.len() as u64), line);
            }
        }
    }
}
