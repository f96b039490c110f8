//! Where the time of a line went, from counters.
//!
//! A [`Limit`](super::Limit) says what the law of the link makes of full packets. Counters say how
//! many units and octets there were; the law then says what the octets were for. The result is an
//! account of the whole line: payload, each kind of overhead, and the time in which nothing was sent.

use super::LimitError;
use crate::link::{Framing, Link, LinkLaw, atm};

/// Payload, as it was delivered.
pub const PAYLOAD: &str = "payload";
/// Headers of IP and the transport, of data and of acknowledgements.
pub const HEADERS: &str = "TCP/IP headers";
/// Payload on the line that was not delivered within the time: sent again, lost, or under way.
pub const NOT_DELIVERED: &str = "sent again or under way";
/// Time in which nothing was sent: idle cell slots on ATM.
pub const IDLE: &str = "idle";
/// The share of a SONET frame that carries no cells.
pub const SONET: &str = "SONET overhead";

/// What one direction of a link carried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Carried {
    /// The time, seconds.
    pub seconds: f64,
    /// Payload that the peer received, octets.
    pub payload: u64,
    /// Units on the line: frames, or AAL5 units.
    pub units: u64,
    /// Their octets as [`LinkLaw::counted_octets`] has them.
    pub octets: u64,
    /// The largest IP packet.
    pub mtu: u32,
    /// Octets of the IP header and the transport header of each packet.
    pub headers: u64,
}

/// A part of the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Its name, as the layers of a limit have it.
    pub name: &'static str,
    /// Its share of the line rate over the time, 0 to 1.
    pub share: f64,
}

impl Link {
    /// Where the time of the line went. The parts are in the order of the layers, [`IDLE`] comes last, and together
    /// they are the whole line. Fails if a line rate, or a time, is no number above zero.
    ///
    /// Counters do not say how long each unit was. The account takes full packets and bare acknowledgements, so
    /// many of each as make up the counted units and octets. Padding is computed from that. Payload and counters
    /// are not read at the same instant: a part that would come out below zero is left out, and the whole may be a
    /// little more than the line.
    pub fn tax(&self, carried: &Carried) -> Result<Vec<Part>, LimitError> {
        let line = self.line_rate.0 / 8.0 * carried.seconds;
        if !(line.is_finite() && line > 0.0) {
            return Err(LimitError::LineRate { given: self.line_rate.0 });
        }
        let law = self.framing.law();
        let Carried { payload, units, octets, mtu, headers, .. } = *carried;
        let (full, empty) = mix(self.framing, carried);
        let occupied = law.line_octets_of_counters(octets, units) as f64;
        let (share, of) = law.payload_share();
        let available = line * f64::from(share) / f64::from(of);
        let units = units as f64;
        let padding = |packet: u64| law.padding(self.framing.unit(packet)) as f64;

        let mut parts = vec![(HEADERS, units * headers as f64)];
        parts.extend(self.framing.headers().map(|(name, octets)| (name, units * octets as f64)));
        // the law names what it adds to a unit; padding and cells differ from unit to unit
        for (name, each) in law.added(self.framing.unit(u64::from(mtu))) {
            let octets = match name {
                "AAL5 padding" | "frame padding" => {
                    full * padding(mtu.into()) + empty * padding(headers)
                }
                "cell headers" => {
                    occupied * (atm::CELL - atm::CELL_PAYLOAD) as f64 / atm::CELL as f64
                }
                _ => units * each as f64,
            };
            parts.push((name, octets));
        }
        let overhead: f64 = parts.iter().map(|(_, octets)| octets).sum();
        parts.insert(0, (PAYLOAD, payload as f64));
        parts.push((NOT_DELIVERED, occupied - overhead - payload as f64));
        parts.push((SONET, line - available));
        parts.push((IDLE, available - occupied));
        let shares = parts.into_iter().map(|(name, octets)| Part { name, share: octets / line });
        Ok(shares.filter(|part| part.share > 0.0).collect())
    }
}

/// How many full packets and how many without payload make up the counted units and octets.
fn mix(framing: Framing, carried: &Carried) -> (f64, f64) {
    let counted = |packet: u64| framing.law().counted_octets(framing.unit(packet)) as f64;
    let (long, short) = (counted(carried.mtu.into()), counted(carried.headers));
    let units = carried.units as f64;
    if long <= short {
        return (units, 0.0);
    }
    let empty = ((units * long - carried.octets as f64) / (long - short)).clamp(0.0, units);
    (units - empty, empty)
}

/// Whether a part is of the cells' layer or below: it exists on ATM alone.
#[must_use]
pub fn is_of_cells(name: &str) -> bool {
    let of_atm = LinkLaw::Atm.added(0);
    name == SONET || of_atm.iter().any(|(added, _)| *added == name)
}

#[cfg(test)]
mod tests {
    use linkrate_model::BitRate;
    use proptest::prelude::*;

    use super::*;
    use crate::limits::Traffic;

    const TCP: u64 = 52;

    /// A line that is full of these packets for a second: full ones and acknowledgements.
    fn carried(link: Link, mtu: u32, full: u64, acknowledgements: u64) -> Carried {
        let law = link.framing.law();
        let counted = |packet| law.counted_octets(link.framing.unit(packet));
        Carried {
            seconds: 1.0,
            payload: full * (u64::from(mtu) - TCP),
            units: full + acknowledgements,
            octets: full * counted(mtu.into()) + acknowledgements * counted(TCP),
            mtu,
            headers: TCP,
        }
    }

    fn share(parts: &[Part], name: &str) -> f64 {
        parts.iter().filter(|part| part.name == name).map(|part| part.share).sum()
    }

    fn links() -> [Link; 3] {
        [
            Link::ethernet(atm::OC12C),
            Link::classical_ip(atm::OC12C),
            Link { line_rate: atm::OC12C, framing: Framing::LanEmulation },
        ]
    }

    /// A full line has the shares of the limit, layer by layer.
    #[test]
    fn a_full_line_is_taxed_as_its_limit_says() {
        for link in links() {
            for mtu in [1500, 9180] {
                let limit = link.limit(&Traffic::tcp(mtu)).unwrap();
                let full = limit.packets_per_second().round() as u64;
                let parts = link.tax(&carried(link, mtu, full, 0)).unwrap();
                let close = |one: f64, other: f64| (one - other).abs() < 2e-4;
                assert!(close(share(&parts, PAYLOAD), limit.efficiency()), "{parts:?}");
                assert!(share(&parts, IDLE) < 2e-4 && share(&parts, NOT_DELIVERED) < 1e-9);
                for layer in &limit.layers {
                    let measured = match layer.name {
                        "TCP header" | "TCP timestamps" | "IPv4 header" => continue,
                        name => share(&parts, name),
                    };
                    assert!(close(measured, limit.share(layer)), "{} {parts:?}", layer.name);
                }
            }
        }
    }

    #[test]
    fn payload_that_was_sent_again_is_a_part_of_its_own() {
        let link = Link::classical_ip(atm::OC3C);
        let sent = carried(link, 9180, 1000, 0);
        let parts = link.tax(&Carried { payload: sent.payload * 9 / 10, ..sent }).unwrap();
        let lost = sent.payload as f64 / 10.0 / (155.52e6 / 8.0);
        assert!((share(&parts, NOT_DELIVERED) - lost).abs() < 1e-6);
    }

    #[test]
    fn a_time_or_a_rate_of_zero_has_no_account() {
        let link = Link::ethernet(BitRate(1e9));
        let sent = carried(link, 1500, 1, 0);
        assert!(link.tax(&Carried { seconds: 0.0, ..sent }).is_err());
        assert!(Link::ethernet(BitRate(0.0)).tax(&sent).is_err());
    }

    #[test]
    fn parts_of_cells_are_reported_from_those_of_frames() {
        for name in ["AAL5 padding", "AAL5 trailer", "cell headers", SONET] {
            assert!(is_of_cells(name), "{name}");
        }
        for name in [PAYLOAD, IDLE, "preamble", "inter-frame gap", "LLC/SNAP header"] {
            assert!(!is_of_cells(name), "{name}");
        }
    }

    proptest! {
        /// However many packets there were, the parts are the whole line.
        #[test]
        fn the_account_closes(
            mtu in 576u32..16_000, full in 0u64..3000, acknowledgements in 0u64..30_000,
        ) {
            for link in links() {
                let carried = carried(link, mtu, full, acknowledgements);
                let parts = link.tax(&carried).unwrap();
                let whole: f64 = parts.iter().map(|part| part.share).sum();
                let occupied = 1.0 - share(&parts, IDLE);
                // beyond a full line there is no idle time to make up for it
                prop_assert!(whole > 1.0 - 1e-9 && (whole < 1.0 + 1e-9 || occupied >= 1.0));
                prop_assert!(share(&parts, NOT_DELIVERED) < 1e-9, "{parts:?}");
            }
        }
    }
}
