//! What theory allows: the highest payload rate of a link, and where the other bytes go.
//!
//! A measured figure above its limit is an error of the instrument, so a limit must be exact. It
//! is computed by laying out one unit of [`Traffic`] byte by byte: [`packets`] cuts it into IP
//! packets, the [law of the link](crate::link) says what each of them becomes on the line, and
//! [`Limit`] holds the sum.
//!
//! `Link::ethernet(BitRate(1e9)).limit(&Traffic::tcp(1500))` is a payload rate of 941.5 Mb/s.
//!
//! [`tax`] is the account of a line that was measured: counters instead of full packets.
//!
//! [`path`] and [`pcie`] are limits beside the link: the rate that a window and losses leave one
//! connection, and the rate of an adapter's slot. [`aggregate`] says how many ports of an aggregate a
//! number of flows fills.
//!
//! A limit leaves out acknowledgements, connection set-up and retransmissions. They travel on the
//! link too, mostly in the other direction of a full-duplex one. The limit of both directions
//! together is therefore at most twice the limit of one, and a little less is reached.

pub mod aggregate;
mod breakdown;
mod link;
pub mod packets;
pub mod path;
pub mod pcie;
pub mod tax;

pub use breakdown::{Layer, Limit};
pub use packets::{Cut, IpVersion, Traffic, Transport};
pub use pcie::PcieLink;

/// Why there is no limit. Each error has the given value and says what would be right.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LimitError {
    /// The line rate is zero, negative or not a number.
    #[error("line rate of {given} b/s; expected a finite rate above zero, for example 1 Gb/s")]
    LineRate {
        /// Bits per second as given.
        given: f64,
    },
    /// The MTU is impossible for the IP version and the link.
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
    /// There are more VLAN tags than an adapter inserts.
    #[error(
        "{given} VLAN tags; expected 0, 1 (IEEE 802.1Q) or 2 (IEEE 802.1ad, a service tag in front)"
    )]
    VlanTags {
        /// Tags as given.
        given: u8,
    },
    /// A socket cannot send such a message.
    #[error("message of {given} bytes; expected {lowest} to {highest} for {what}")]
    Message {
        /// Bytes as given.
        given: u64,
        /// The smallest possible.
        lowest: u64,
        /// The largest possible.
        highest: u64,
        /// The kind of message.
        what: String,
    },
}
