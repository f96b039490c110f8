//! Programs that send datagrams wait for the link.
//!
//! A real adapter stops its queue when the ring is full. A packet that waits before a stopped queue
//! counts against its socket's send buffer, so the program waits too. A TAP never stops
//! (`tun_net_xmit`, drivers/net/tun.c): it takes a packet from its socket at once, and drops it if its
//! queue is full. A discipline before the TAP therefore limits datagrams to the rate of the link. TCP
//! is clocked by acknowledgements and passes without a limit.

use std::time::Duration;

use linkrate_adapter::{LinkLaw, atm_line as atm};
use linkrate_model::{BitRate, Model};
use linkrate_protocol::Request;

use crate::connection::AgentError;
use crate::error::LabError;
use crate::host::Host;

/// The limit as a multiple of the link's rate. The link must never wait for the discipline, and the
/// rest gathers in the queue of the TAP: 20 ms of packets in 10 s.
const MARGIN: f64 = 1.002;

/// How much may gather in ring and TAP at once: enough for a timer that is late, and more than a ring
/// of 256 frames at 1 Gb/s (3.1 ms).
const BURST: Duration = Duration::from_millis(5);

/// A frame that the link does not pad, for the octets that every frame takes beside its own.
const LONG_UNIT: u64 = 1514;

/// Whether the kernel limits the datagrams of the system under test.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Datagrams {
    /// Links have no rate, or there is no port yet.
    #[default]
    Unlimited,
    /// To the rate of the link.
    Limited,
    /// The kernel refused, with this reason.
    Refused(String),
}

impl Datagrams {
    /// Limits the datagrams of an interface of the system under test to `rate`, or changes the limit.
    pub(super) fn limit(
        &mut self,
        sut: &mut Host,
        interface: &str,
        model: &Model,
        rate: Option<BitRate>,
    ) -> Result<(), LabError> {
        let Some(rate) = rate else { return Ok(()) };
        match sut.order(&request(interface, model, rate)) {
            Ok(()) if *self == Self::Unlimited => *self = Self::Limited,
            Ok(()) => {}
            Err(AgentError::Refused(refusal)) => *self = Self::Refused(refusal.reason),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The fact, as (name, value).
    pub(super) fn fact(&self) -> Option<(String, String)> {
        let value = match self {
            Self::Unlimited => return None,
            Self::Limited => "wait for the link, by a queue discipline (htb) that TCP passes",
            Self::Refused(_) => "do not wait for the link: a full queue drops them",
        };
        Some(("datagrams".to_owned(), value.to_owned()))
    }

    /// What a reader must know, as a sentence.
    pub(super) fn warning(&self) -> Option<String> {
        let Self::Refused(reason) = self else { return None };
        Some(format!(
            "programs that send datagrams do not wait for the link, so they send more than it \
             carries, and the rest is dropped: {reason}; load the kernel modules sch_htb and \
             cls_u32"
        ))
    }
}

/// What stands around a packet of Classical IP in a unit of AAL5: LLC/SNAP (RFC 2684) and the trailer
/// (ITU-T I.363.5).
const AROUND_PACKET: u64 = atm::LLC_SNAP + atm::AAL5_TRAILER;

/// The same of an Ethernet frame of an emulated LAN: the identifier of the client, and the trailer. The
/// kernel counts the Ethernet header as a part of the frame.
const AROUND_FRAME: u64 = atm::LANE_HEADER - ETHERNET_HEADER + atm::AAL5_TRAILER;
const ETHERNET_HEADER: u64 = 14;

fn request(interface: &str, model: &Model, rate: BitRate) -> Request {
    let law = LinkLaw::of(model);
    // the kernel pads a packet to whole cells itself, so that packets of all lengths have their limit
    let (overhead, in_cells) = match law {
        LinkLaw::Ethernet => (law.line_octets(LONG_UNIT) - LONG_UNIT, false),
        LinkLaw::Atm if model.encapsulation.is_emulated() => (AROUND_FRAME, true),
        LinkLaw::Atm => (AROUND_PACKET, true),
    };
    Request::LimitDatagrams {
        name: interface.to_owned(),
        bytes_per_second: (law.payload_rate(rate).0 * MARGIN / 8.0).ceil() as u64,
        burst_us: BURST.as_micros() as u32,
        overhead: overhead as u16,
        in_cells,
    }
}

#[cfg(test)]
mod tests {
    use linkrate_model::model;

    use super::*;

    #[test]
    fn the_limit_is_a_little_above_the_rate_of_the_link() {
        let expected = Request::LimitDatagrams {
            name: "eth0".to_owned(),
            bytes_per_second: 125_250_000,
            burst_us: 5000,
            // check sequence, preamble and gap
            overhead: 24,
            in_cells: false,
        };
        let find = |name| model::find(name).unwrap();
        assert_eq!(request("eth0", &find("gigabit"), BitRate(1e9)), expected);
        for (name, around) in [("atm-155", 16), ("atm-155-lane-9234", 10)] {
            let expected = Request::LimitDatagrams {
                name: "atm0".to_owned(),
                // 26 of 27 columns, of which all are cells
                bytes_per_second: (155_520_000.0 * 26.0 / 27.0 / 8.0 * 1.002_f64).ceil() as u64,
                burst_us: 5000,
                overhead: around,
                in_cells: true,
            };
            assert_eq!(request("atm0", &find(name), atm::OC3C), expected);
        }
    }

    #[test]
    fn a_kernel_that_refuses_is_a_fact_and_a_warning() {
        let refused = Datagrams::Refused("no such file or directory".to_owned());
        let (name, value) = refused.fact().unwrap();
        assert_eq!((name.as_str(), value.contains("do not wait")), ("datagrams", true));
        let warning = refused.warning().unwrap();
        assert!(warning.contains("no such file") && warning.contains("sch_htb"), "{warning}");
        assert_eq!((Datagrams::Limited.warning(), Datagrams::Unlimited.fact()), (None, None));
    }
}
