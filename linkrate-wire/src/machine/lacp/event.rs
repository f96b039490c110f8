//! What goes into a [`System`](super::System) and what comes out of it.

use std::fmt;
use std::time::Duration;

use crate::control::lacp::{Information, SystemId};
use crate::control::{Lacpdu, Marker, is_marker};
use crate::frame::MacAddress;

/// An input of a [`System`](super::System).
///
/// Ports have the number that the caller gives them, 1 to 65,535. An event of a port or group that
/// does not exist changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Adds a group, or changes its settings.
    SetGroup {
        /// The administrative key of its ports.
        key: u16,
        /// Its settings from now on.
        settings: GroupSettings,
    },
    /// Removes a group. Its ports stay, without an aggregate.
    RemoveGroup {
        /// Its administrative key.
        key: u16,
    },
    /// Adds a port, whose link is down, or changes the settings of a port.
    SetPort {
        /// Its number.
        port: u16,
        /// Its settings from now on.
        settings: PortSettings,
    },
    /// Removes a port. Its partner is told, if the limit on PDUs permits.
    RemovePort {
        /// Its number.
        port: u16,
    },
    /// Changes the priority of the system.
    SetSystemPriority {
        /// The lower value has the higher priority.
        priority: u16,
    },
    /// A link came up, or was renegotiated.
    LinkUp {
        /// The port.
        port: u16,
        /// What was negotiated.
        link: Link,
    },
    /// A link went down.
    LinkDown {
        /// The port.
        port: u16,
    },
    /// A frame arrived that may be of a slow protocol, without FCS.
    ///
    /// [`System::receive`](super::System::receive) does the same without taking the bytes.
    Frame {
        /// The port that it arrived at.
        port: u16,
        /// All of it, from the destination address on.
        frame: Vec<u8>,
    },
    /// A PDU of LACP arrived.
    Lacpdu {
        /// The port that it arrived at.
        port: u16,
        /// The PDU.
        pdu: Lacpdu,
    },
    /// A PDU of the Marker protocol arrived, behind all frames that arrived before it.
    Marker {
        /// The port that it arrived at.
        port: u16,
        /// The PDU.
        pdu: Marker,
    },
    /// Asks whether the partner has taken in all frames that were sent on a port. Ends in
    /// [`Action::Marker`], always.
    RequestMarker {
        /// The port that a flow is to leave.
        port: u16,
        /// The caller's number, which the action repeats.
        transaction: u32,
        /// How long to wait for the answer once the marker is sent. It should be longer than the
        /// slowest way to the partner, because the flow moves after it in any case.
        patience: Duration,
    },
}

/// Settings of a group: the ports with one administrative key, of which one aggregate is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupSettings {
    /// Ports that may be active; more are standby. Not 0.
    pub max_active: u16,
    /// How long a port that failed must have been in order before it is used again, while the
    /// aggregate has other ports. Zero uses it at once.
    pub wait_to_restore: Duration,
    /// While no port hears a partner, one of them works as an individual link with the partner that the administrator
    /// has set: one that is in sync (Partner_Admin_Port_State, 6.4.7).
    pub fallback: bool,
}

/// All ports, no wait after a failure, and nothing without a partner.
impl Default for GroupSettings {
    fn default() -> Self {
        Self { max_active: u16::MAX, wait_to_restore: Duration::ZERO, fallback: false }
    }
}

/// Settings of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortSettings {
    /// The address that its PDUs come from.
    pub address: MacAddress,
    /// The administrative key, which names its group.
    pub key: u16,
    /// The lower value has the higher priority.
    pub priority: u16,
    /// It sends PDUs unasked ("active"), and not only if its partner does.
    pub active: bool,
    /// It wants a PDU every second, and gives up a silent partner after 3 s and not 90 s.
    pub short_timeout: bool,
    /// It may be aggregated; otherwise it is an individual link.
    pub aggregatable: bool,
    /// It is to leave the aggregate and to stay out: no frame of a user is sent or accepted.
    pub retired: bool,
}

impl PortSettings {
    /// An active port with long timeout.
    #[must_use]
    pub const fn new(address: MacAddress, key: u16) -> Self {
        Self {
            address,
            key,
            priority: 0x8000,
            active: true,
            short_timeout: false,
            aggregatable: true,
            retired: false,
        }
    }
}

/// A link that is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link {
    /// Its speed; `None` where it has none, as between virtual adapters.
    pub bits_per_second: Option<u64>,
    /// Both ends may send at the same time. LACP works on such links only.
    pub full_duplex: bool,
}

/// An output of a [`System`](super::System).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send a frame ahead of the frames of users, so that a busy link does not look like a silent
    /// partner; but see [`Action::is_in_order`].
    Send {
        /// The port.
        port: u16,
        /// All of it, without padding and FCS.
        frame: Vec<u8>,
    },
    /// Frames that arrive on a port are frames of the aggregate, or no longer.
    Collecting {
        /// The port.
        port: u16,
        /// The group that it belongs to.
        key: u16,
        /// They are.
        on: bool,
    },
    /// Frames of the aggregate may leave by a port, or no longer.
    Distributing {
        /// The port.
        port: u16,
        /// The group that it belongs to.
        key: u16,
        /// They may.
        on: bool,
    },
    /// A request for a marker came to its end.
    Marker {
        /// The port.
        port: u16,
        /// The caller's number.
        transaction: u32,
        /// How it ended.
        outcome: MarkerOutcome,
    },
    /// Something that its owner may want to tell.
    Notice(Notice),
}

impl Action {
    /// Whether it sends a frame that must leave behind all frames given to its port before: a
    /// marker, which asks whether they have arrived.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        matches!(self, Self::Send { frame, .. } if is_marker(frame))
    }
}

/// How a request for a marker ended. The flow may move in each case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MarkerOutcome {
    /// The partner has taken in all earlier frames.
    Answered {
        /// Time from the marker to its answer.
        after: Duration,
    },
    /// The partner did not answer in time. Nothing was proved; the flow was quiet for that long.
    TimedOut,
    /// The port went away or its link went down. Frames on their way may be lost, and none will
    /// arrive late.
    PortLost,
    /// Too many requests of this port are under way: the caller waits on its own.
    Refused,
}

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Notice {
    /// Another partner, or the same with other values, is at the peer of a port.
    PartnerChanged {
        /// The port.
        port: u16,
        /// Before; `None` if no partner was known.
        from: Option<Information>,
        /// Now; `None` if no partner is known.
        to: Option<Information>,
    },
    /// A port became active, standby or neither, or has another reason for it.
    SelectionChanged {
        /// The port.
        port: u16,
        /// Before.
        from: Selection,
        /// Now.
        to: Selection,
    },
    /// An aggregate has another partner.
    AggregateChanged {
        /// The key of the group.
        key: u16,
        /// The partner and its key; `None` if the aggregate has no port.
        partner: Option<(SystemId, u16)>,
    },
    /// A port did not come into operation for 60 s.
    ChurnDetected {
        /// The port.
        port: u16,
        /// The end of the link that is not in sync.
        end: End,
    },
    /// A port with churn came into operation, or its link went down.
    ChurnEnded {
        /// The port.
        port: u16,
        /// The end of the link that was not in sync.
        end: End,
    },
}

/// An end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The own one.
    Actor,
    /// The other one.
    Partner,
}

/// Whether a port is selected for the aggregator of its group (the variable Selected).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Selection {
    /// It is, and may be attached.
    Selected,
    /// It could be, and enough others are.
    Standby,
    /// It is not.
    Unselected(Reason),
}

/// Why a port is not selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its link is down.
    LinkDown,
    /// Its link is in half duplex.
    HalfDuplex,
    /// Its owner wants it to stay out.
    Retired,
    /// No group has its key.
    NoGroup,
    /// No partner was heard.
    NoPartner,
    /// The partner fell silent before the port was selected.
    PartnerSilent,
    /// The partner is this system, with the same key: the link is a loop.
    Loop,
    /// The partner, or its key, is not that of the aggregate.
    OtherPartner {
        /// The partner of the aggregate.
        system: SystemId,
        /// Its key.
        key: u16,
    },
    /// The speed of the link is not that of the aggregate.
    OtherSpeed {
        /// The speed of the links of the aggregate.
        bits_per_second: Option<u64>,
    },
    /// One end says that the link is individual, and the aggregate has other ports.
    Individual,
    /// The aggregate is an individual link, which stands alone.
    BesideIndividual {
        /// The port of that link.
        port: u16,
    },
    /// The port failed, and is in order again for too short a time.
    WaitToRestore {
        /// Until when, since the origin of the caller.
        until: Duration,
    },
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selected => f.write_str("selected"),
            Self::Standby => f.write_str("standby"),
            Self::Unselected(reason) => write!(f, "unselected: {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkDown => f.write_str("link down"),
            Self::HalfDuplex => f.write_str("link in half duplex, expected full duplex"),
            Self::Retired => f.write_str("retired"),
            Self::NoGroup => f.write_str("no aggregate with its key"),
            Self::NoPartner => f.write_str("no partner heard"),
            Self::PartnerSilent => f.write_str("partner silent"),
            Self::Loop => f.write_str("loop: the partner is this aggregate itself"),
            Self::OtherPartner { system, key } => {
                write!(f, "other partner, expected that of the aggregate: {system} key {key}")
            }
            Self::OtherSpeed { bits_per_second: Some(speed) } => {
                write!(f, "other speed, expected that of the aggregate: {speed} b/s")
            }
            Self::OtherSpeed { bits_per_second: None } => {
                f.write_str("link with a speed, expected links without one as in the aggregate")
            }
            Self::Individual => f.write_str("individual link"),
            Self::BesideIndividual { port } => {
                write!(f, "the aggregate is the individual link of port {port}")
            }
            Self::WaitToRestore { .. } => f.write_str("in order for too short a time"),
        }
    }
}
