//! Data-direct connections: from client to client.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Client, ClientAction};
use crate::atm::AtmAddress;
use crate::control::LaneControl;
use crate::control::lan_emulation::Operation;
use crate::machine::call::{Call, Cause, Purpose};
use crate::machine::lane::Times;

/// Times that a party that has called is asked whether it is ready, before the call is released.
const MAX_QUERIES: u32 = 5;

/// A data-direct connection.
#[derive(Debug, Clone, Copy)]
struct Direct {
    remote: AtmAddress,
    is_open: bool,
    /// When the party that has called is to be asked whether it is ready, and how often it was. It may
    /// be sent frames once it has said so, or has sent some itself.
    query: Option<(Duration, u32)>,
    /// When a frame was last sent or received.
    used: Duration,
}

impl Direct {
    const fn carries(&self) -> bool {
        self.is_open && self.query.is_none()
    }

    fn due(&self, times: &Times) -> Duration {
        match self.query {
            // the network answers each call, sooner or later
            _ if !self.is_open => self.used + times.control,
            Some((at, _)) => at,
            None => self.used + times.idle,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Directs {
    calls: BTreeMap<Call, Direct>,
    /// Some carry frames that did not, or the other way round.
    changed: bool,
}

impl Directs {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) const fn is_changed(&self) -> bool {
        self.changed
    }

    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    pub(super) fn clear(&mut self) -> Vec<Call> {
        self.changed = true;
        std::mem::take(&mut self.calls).into_keys().collect()
    }

    pub(super) fn offered(&mut self, now: Duration, call: Call, remote: AtmAddress, times: &Times) {
        let query = Some((now + times.ready, 0));
        self.calls.insert(call, Direct { remote, is_open: true, query, used: now });
    }

    pub(super) fn remote(&self, call: Call) -> Option<AtmAddress> {
        self.calls.get(&call).map(|direct| direct.remote)
    }

    /// A frame came by a connection. Says whether there is such a one.
    pub(super) fn heard(&mut self, now: Duration, call: Call) -> bool {
        let Some(direct) = self.calls.get_mut(&call).filter(|direct| direct.is_open) else {
            return false;
        };
        direct.used = now;
        // who sends is ready
        self.changed |= direct.query.take().is_some();
        true
    }

    /// A frame is about to leave by a connection. Says whether it can.
    pub(super) fn sends(&mut self, now: Duration, call: Call) -> bool {
        let direct = self.calls.get_mut(&call).filter(|direct| direct.carries());
        direct.map(|direct| direct.used = now).is_some()
    }

    pub(super) fn carries(&self, call: Call) -> bool {
        self.calls.get(&call).is_some_and(Direct::carries)
    }

    /// The connection for frames to a client: of two, both clients take the one that the client with
    /// the lower ATM address has begun, and the other one becomes idle.
    pub(super) fn best(&self, own: AtmAddress, remote: AtmAddress) -> Option<Call> {
        let to = self.calls.iter().filter(|(_, direct)| direct.remote == remote);
        let open = to.filter(|(_, direct)| direct.carries()).map(|(call, _)| *call);
        open.min_by_key(|call| (if call.is_incoming { remote } else { own }, *call))
    }

    /// Whether a call to a client is under way or open.
    pub(super) fn has(&self, remote: AtmAddress) -> bool {
        self.calls.values().any(|direct| direct.remote == remote)
    }

    pub(super) fn begun(&mut self, now: Duration, call: Call, remote: AtmAddress) {
        self.calls.insert(call, Direct { remote, is_open: false, query: None, used: now });
    }

    pub(super) fn due(&self, times: &Times) -> Option<Duration> {
        self.calls.values().map(|direct| direct.due(times)).min()
    }

    /// Each remote party, and whether frames can be sent to it.
    pub(super) fn all(&self) -> impl Iterator<Item = (Call, AtmAddress, bool)> + '_ {
        self.calls.iter().map(|(call, direct)| (*call, direct.remote, direct.carries()))
    }
}

impl<U: AsRef<[u8]>> Client<U> {
    pub(super) fn call_client(
        &mut self,
        now: Duration,
        remote: AtmAddress,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        let call = self.begin(remote, Purpose::DataDirect, actions);
        self.directs.begun(now, call, remote);
    }

    pub(super) fn direct_connected(
        &mut self,
        now: Duration,
        call: Call,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        let Some(direct) = self.directs.calls.get_mut(&call) else { return };
        if !direct.is_open {
            (direct.is_open, direct.used) = (true, now);
            self.directs.changed = true;
            Self::say_ready(call, actions);
        }
    }

    /// Tells the party that was called that it may send.
    pub(super) fn say_ready(call: Call, actions: &mut Vec<ClientAction<U>>) {
        let frame = LaneControl { is_response: true, ..LaneControl::request(Operation::Ready) };
        actions.push(ClientAction::Send { call, frame });
    }

    pub(super) fn direct_released(
        &mut self,
        now: Duration,
        call: Call,
        actions: &mut Vec<ClientAction<U>>,
    ) {
        let Some(direct) = self.directs.calls.remove(&call) else { return };
        self.directs.changed = true;
        if !direct.is_open {
            self.counters.calls_failed += 1;
            self.hold_down(now, direct.remote);
        }
        self.advance_all(now, actions);
    }

    /// Asks those that are not ready, and releases those that are idle.
    pub(super) fn poll_directs(&mut self, now: Duration, actions: &mut Vec<ClientAction<U>>) {
        let times = self.config.times;
        let mut over = Vec::new();
        for (call, direct) in &mut self.directs.calls {
            if direct.due(&times) > now {
                continue;
            }
            match &mut direct.query {
                Some((at, asked)) if *asked < MAX_QUERIES => {
                    *asked += 1;
                    *at = now + times.ready;
                    let frame = LaneControl::request(Operation::Ready);
                    actions.push(ClientAction::Send { call: *call, frame });
                }
                _ => over.push(*call),
            }
        }
        for call in over {
            Self::release(call, Cause::Normal, actions);
            self.direct_released(now, call, actions);
        }
    }
}
