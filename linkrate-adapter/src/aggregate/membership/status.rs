//! What an end shows of its ports.

use std::time::Duration;

use linkrate_wire::control::bfd::{Diagnostic, State};
use linkrate_wire::machine::lacp::PortStatus;
use linkrate_wire::machine::lan_monitor::Reason;

use super::{Membership, number};

/// The protocols of a port at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortState {
    /// In LACP; absent in other modes.
    pub(crate) lacp: Option<PortStatus>,
    /// Its BFD session; absent without BFD.
    pub(crate) bfd: Option<BfdState>,
    /// In a failover group; absent in other modes.
    pub(crate) failover: Option<FailoverState>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct BfdState {
    pub(crate) state: State,
    pub(crate) diagnostic: Diagnostic,
    /// The time between its packets, and that after which it goes down without packets.
    pub(crate) interval: Duration,
    pub(crate) detection_time: Option<Duration>,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Times that it went down.
    pub(crate) losses: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct FailoverState {
    /// Why the group moved to it, if it is the active one.
    pub(crate) active: Option<Reason>,
    /// It hears the other ports, and they hear it.
    pub(crate) hears: bool,
    pub(crate) is_heard: bool,
    /// For how much longer it is held down after a failure.
    pub(crate) held: Option<Duration>,
}

impl Membership {
    pub(crate) fn state(&self, now: Duration, at: usize) -> PortState {
        let watch = self.detection.watch(at).filter(|_| self.knobs.bfd);
        let failover = self.failover.as_ref();
        PortState {
            lacp: self.speaks_lacp().then(|| self.lacp.port(number(at))).flatten(),
            bfd: watch.map(|watch| BfdState {
                state: watch.session.state(),
                diagnostic: watch.session.diagnostic(),
                interval: watch.session.interval(),
                detection_time: watch.session.detection_time(),
                sent: watch.sent,
                received: watch.received,
                losses: watch.losses,
            }),
            failover: failover.and_then(|group| {
                let (hears, is_heard) = group.health(at)?;
                let active = group.reason().filter(|_| group.active() == Some(at));
                Some(FailoverState { active, hears, is_heard, held: group.held(now, at) })
            }),
        }
    }
}
