//! What a system shows of itself.

use std::time::Duration;

use super::counters::Counters;
use super::event::{GroupSettings, Link, PortSettings, Selection};
use super::port::{Port, churn, mux, periodic, receive};
use super::selection::Group;
use crate::control::lacp::{Information, SystemId};

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortStatus {
    /// Its number.
    pub number: u16,
    /// Its settings.
    pub settings: PortSettings,
    /// Its link, if it is up.
    pub link: Option<Link>,
    /// The own end of the link.
    pub actor: Information,
    /// The other end, if it is known: as it described itself in its last PDU, but for
    /// Synchronization, which says that it is in sync with *this* end.
    pub partner: Option<Information>,
    /// The version of LACP that the partner speaks.
    pub partner_version: Option<u8>,
    /// This end, as the partner described it in its last PDU.
    pub seen_as: Option<Information>,
    /// Whether it is in the aggregate, and why not.
    pub selection: Selection,
    /// State of the Receive machine (dot3adAggPortDebugRxState).
    pub receive: receive::State,
    /// State of the Periodic Transmission machine.
    pub periodic: periodic::State,
    /// State of the Mux machine (dot3adAggPortDebugMuxState).
    pub mux: mux::State,
    /// Why the Mux machine went there (dot3adAggPortDebugMuxReason).
    pub mux_cause: mux::Cause,
    /// State of the Actor Churn Detection machine (dot3adAggPortDebugActorChurnState).
    pub actor_churn: churn::State,
    /// State of the Partner Churn Detection machine (dot3adAggPortDebugPartnerChurnState).
    pub partner_churn: churn::State,
    /// When the last LACPDU arrived (dot3adAggPortDebugLastRxTime), since the origin of the caller.
    pub last_rx: Option<Duration>,
    /// Its counters.
    pub counters: Counters,
}

/// A group and its aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStatus {
    /// The administrative key of its ports.
    pub key: u16,
    /// Its settings.
    pub settings: GroupSettings,
    /// The partner of the aggregate and its key; `None` if no port may be attached.
    pub partner: Option<(SystemId, u16)>,
    /// The port of the only link, if that is individual.
    pub individual: Option<u16>,
    /// The numbers of the ports that frames are taken in from.
    pub collecting: Vec<u16>,
    /// The numbers of the ports that frames are sent out on.
    pub distributing: Vec<u16>,
}

impl PortStatus {
    pub(super) fn of(port: &Port) -> Self {
        Self {
            number: port.number(),
            settings: port.settings,
            link: port.link,
            actor: port.actor,
            partner: port.known_partner(),
            partner_version: port.partner_version,
            seen_as: port.seen_as,
            selection: port.selection,
            receive: port.receive.state,
            periodic: port.periodic.state,
            mux: port.mux.state,
            mux_cause: port.mux.cause,
            actor_churn: port.actor_churn.state,
            partner_churn: port.partner_churn.state,
            last_rx: port.last_rx,
            counters: port.counters,
        }
    }
}

impl GroupStatus {
    pub(super) fn of<'a>(
        key: u16,
        group: &Group,
        ports: impl Iterator<Item = &'a Port> + Clone,
    ) -> Self {
        let ports = ports.filter(|port| port.actor.key == key);
        let collecting = ports.clone().filter(|port| port.actor.state.collecting);
        let distributing = ports.filter(|port| port.actor.state.distributing);
        Self {
            key,
            settings: group.settings,
            partner: group.chosen.map(|set| (set.system, set.key)),
            individual: group.chosen.and_then(|set| set.individual),
            collecting: collecting.map(Port::number).collect(),
            distributing: distributing.map(Port::number).collect(),
        }
    }
}
