//! Calls: connections between end systems that are set up and released on demand.
//!
//! A *party* is an end system with an ATM address at a port of the network. It asks for a call, is
//! offered one, accepts or refuses it, and either party releases it. Events and actions are those that
//! UNI signalling (ITU-T Q.2931 over SSCOP) would carry as messages on VCI 5. Signalling on the wire is
//! left out: it would stand between a party and its [`Exchange`], and change neither.
//!
//! ```text
//!  caller            Exchange              called party
//!   SetUp ─────────────▶ ─────────────────▶ Offered
//!   Connected ◀───────── ◀───────────────── Accept
//!   Release ───────────▶ ─────────────────▶ Released
//! ```
//!
//! - [`Exchange`]: all calls of a network
//! - [`Circuits`]: the virtual channel connections of a port

mod circuits;
mod exchange;

use crate::atm::AtmAddress;

pub use circuits::{CircuitError, Circuits};
pub use exchange::{
    Exchange, ExchangeAction, ExchangeConfig, ExchangeCounters, ExchangeEvent, PortCircuit,
};

/// A call, as one of its parties names it. Either party numbers those that it has begun, and the
/// network those that it offers, as call references do (Q.2931, 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// The other party has begun it.
    pub is_incoming: bool,
    /// Its number among those.
    pub number: u32,
}

impl Call {
    /// A call that this party begins.
    #[must_use]
    pub const fn outgoing(number: u32) -> Self {
        Self { is_incoming: false, number }
    }

    /// A call that the network offers.
    #[must_use]
    pub const fn incoming(number: u32) -> Self {
        Self { is_incoming: true, number }
    }
}

/// The use of a call. Signalling tells it as broadband low layer information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// LLC/SNAP packets of Classical IP (RFC 2225).
    ClassicalIp,
    /// LAN Emulation: from a client to the configuration server.
    ConfigurationDirect,
    /// LAN Emulation: from a client to the server of its ELAN.
    ControlDirect,
    /// LAN Emulation: from the server of an ELAN to a client.
    ControlDistribute,
    /// LAN Emulation: from a client to the BUS.
    MulticastSend,
    /// LAN Emulation: from the BUS to a client.
    MulticastForward,
    /// LAN Emulation: from client to client.
    DataDirect,
}

impl Purpose {
    /// The name for people, as in `data direct connection`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClassicalIp => "Classical IP",
            Self::ConfigurationDirect => "configuration direct",
            Self::ControlDirect => "control direct",
            Self::ControlDistribute => "control distribute",
            Self::MulticastSend => "multicast send",
            Self::MulticastForward => "multicast forward",
            Self::DataDirect => "data direct",
        }
    }
}

/// Why a call is over, or never was one (ITU-T Q.850).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Cause {
    /// No end system has the address (1).
    #[error("no end system has this ATM address")]
    NoSuchAddress,
    /// A party has released the call (16).
    #[error("the other end system has released the call")]
    Normal,
    /// The called party takes no more calls (17).
    #[error("the other end system is busy")]
    Busy,
    /// The called party did not answer (18).
    #[error("the other end system does not answer")]
    NoAnswer,
    /// The called party refuses this call (21).
    #[error("the other end system refuses the call")]
    Rejected,
    /// The port of a party is gone (27).
    #[error("the port of the end system is gone")]
    OutOfOrder,
    /// A port has no free virtual channel connection (45).
    #[error("a port has no free VPI and VCI")]
    NoCircuit,
    /// The calling party has too many calls (47).
    #[error("the calling end system has too many calls")]
    TooManyCalls,
    /// The calling party names a call that it has begun before, or an unknown one (81).
    #[error("the call has a number that is in use")]
    CallNumber,
}

impl Cause {
    /// The number of the cause in signalling.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::NoSuchAddress => 1,
            Self::Normal => 16,
            Self::Busy => 17,
            Self::NoAnswer => 18,
            Self::Rejected => 21,
            Self::OutOfOrder => 27,
            Self::NoCircuit => 45,
            Self::TooManyCalls => 47,
            Self::CallNumber => 81,
        }
    }
}

/// What happens to the calls of a party.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartyEvent {
    /// The call that the party began is open.
    Connected(Call),
    /// Another party calls. The answer is [`PartyAction::Accept`] or [`PartyAction::Release`].
    Offered {
        /// The call.
        call: Call,
        /// The party that calls. The network vouches for the address.
        from: AtmAddress,
        /// What it is for.
        purpose: Purpose,
    },
    /// The call is over, or did not come about. A party that has released a call itself is not told.
    Released {
        /// The call.
        call: Call,
        /// Why.
        cause: Cause,
    },
}

/// What a party wants done with its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartyAction {
    /// Begin a call.
    SetUp {
        /// The call: outgoing, with a number that none of the party's calls has.
        call: Call,
        /// The party to call.
        to: AtmAddress,
        /// What it is for.
        purpose: Purpose,
    },
    /// Take a call that is offered. It is open at once.
    Accept(Call),
    /// End a call, or refuse one that is offered.
    Release {
        /// The call.
        call: Call,
        /// Why.
        cause: Cause,
    },
}
