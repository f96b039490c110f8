//! What theory allows: the highest payload rate of a link, and where the other bytes go.
//!
//! A measured figure above its limit is an error of the instrument, so a limit must be exact. It
//! is computed by laying out one [`Traffic`] unit byte by byte: [`packets`] cuts it into IP
//! packets, the link ([`ethernet`] or [`atm`]) wraps each of them, and [`Limit`] holds the sum.
//!
//! ```
//! use linkrate_terms::BitRate;
//! use linkrate_wire::limits::{EthernetLink, Traffic};
//!
//! let limit = EthernetLink::new(BitRate(1e9)).limit(&Traffic::tcp(1500))?;
//! assert_eq!(limit.payload_rate().to_string(), "941.5 Mb/s");
//! # Ok::<(), linkrate_wire::limits::LimitError>(())
//! ```
//!
//! [`path`] and [`pcie`] are limits beside the link: what a window and losses leave one connection,
//! and what the slot of an adapter moves.
//!
//! What a limit leaves out: acknowledgements, connection set-up and retransmissions. They travel
//! on the link too, mostly in the other direction of a full-duplex one. The limit of both
//! directions together is therefore at most twice the limit of one, and a little less is reached.

pub mod atm;
mod breakdown;
pub mod ethernet;
pub mod packets;
pub mod path;
pub mod pcie;

pub use atm::{AtmLink, AtmService};
pub use breakdown::{Layer, Limit};
pub use ethernet::{Encapsulation, EthernetLink};
pub use packets::{Cut, IpVersion, Traffic, Transport};
pub use pcie::PcieLink;

use linkrate_terms::BitRate;

/// Why there is no limit for what was asked. Each says what was given and what would be right.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LimitError {
    /// The line rate is zero, negative or not a number.
    #[error("line rate of {given} b/s; expected a finite rate above zero, for example 1 Gb/s")]
    LineRate {
        /// Bits per second as given.
        given: f64,
    },
    /// No packet of this version and link can be that large or that small.
    #[error("MTU of {given} bytes; expected {lowest} to {highest} for {ip} over {link}")]
    Mtu {
        /// Bytes as given.
        given: u32,
        /// The smallest that the IP version allows.
        lowest: u32,
        /// The largest that IP version and link allow.
        highest: u32,
        /// The IP version.
        ip: IpVersion,
        /// The link.
        link: &'static str,
    },
    /// More VLAN tags than an adapter inserts.
    #[error(
        "{given} VLAN tags; expected 0, 1 (IEEE 802.1Q) or 2 (IEEE 802.1ad, a service tag before it)"
    )]
    VlanTags {
        /// Tags as given.
        given: u8,
    },
    /// A message that no socket could send.
    #[error("message of {given} bytes; expected {lowest} to {highest} for {what}")]
    Message {
        /// Bytes as given.
        given: u64,
        /// The smallest possible.
        lowest: u64,
        /// The largest possible.
        highest: u64,
        /// What carries it.
        what: String,
    },
}

/// Refuses a line rate with which no division makes sense. [`BitRate`] is an open field, so a
/// value that never went through its parser can be anything.
fn check_line_rate(rate: BitRate) -> Result<(), LimitError> {
    if rate.0.is_finite() && rate.0 > 0.0 {
        Ok(())
    } else {
        Err(LimitError::LineRate { given: rate.0 })
    }
}
