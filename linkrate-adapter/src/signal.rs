//! Messages about calls between a device and the switch at the other end of its link.
//!
//! UNI signalling (ITU-T Q.2931 over SSCOP, on VCI 5) and ILMI (on VCI 16) would carry them as cells. Both
//! are left out: a message travels with the cells of its link, in their order, and takes no time of the
//! line. Like SSCOP, it is not lost while the link is up.

use linkrate_wire::atm::{AtmAddress, Connection};
use linkrate_wire::machine::call::{Call, PartyAction, PartyEvent};

/// A message about calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// To the switch: an end system with this address is at the port.
    Register(AtmAddress),
    /// From the switch: the address was not registered. Another port has it, or this one has too many.
    NotRegistered(AtmAddress),
    /// To the switch: an end system at the port wants something done.
    Asked {
        /// The end system.
        party: AtmAddress,
        action: PartyAction,
    },
    /// From the switch: a call has this connection on the link from now on.
    Opened {
        /// The end system at the port.
        party: AtmAddress,
        /// Its name for the call.
        call: Call,
        connection: Connection,
    },
    /// From the switch: the connection is no more.
    Closed(Connection),
    /// From the switch: something has happened to a call.
    Event { party: AtmAddress, event: PartyEvent },
    /// From the switch: it begins again, without the addresses and calls that it had.
    Restarted,
}
