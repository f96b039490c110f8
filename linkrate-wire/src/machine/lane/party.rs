//! The calls of a server: those that were offered to it and those that it has begun.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::atm::AtmAddress;
use crate::machine::call::{Call, Cause, PartyAction, Purpose};

/// A call that was taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    /// The party that called.
    pub(super) from: AtmAddress,
    /// When the call is released unless its party has been accepted before.
    pub(super) deadline: Option<Duration>,
}

/// The calls that a server took, up to a number of them.
#[derive(Debug, Clone)]
pub(super) struct TakenCalls {
    purpose: Purpose,
    most: usize,
    calls: BTreeMap<Call, Taken>,
}

impl TakenCalls {
    pub(super) const fn new(purpose: Purpose, most: usize) -> Self {
        Self { purpose, most, calls: BTreeMap::new() }
    }

    pub(super) fn get(&self, call: Call) -> Option<Taken> {
        self.calls.get(&call).copied()
    }

    /// The answer to a call that is offered; `None` for a call that was taken before, which stays.
    pub(super) fn offered(
        &mut self,
        (call, from, purpose): (Call, AtmAddress, Purpose),
        deadline: Duration,
    ) -> Option<PartyAction> {
        if self.calls.contains_key(&call) {
            return None;
        }
        let cause = match purpose {
            _ if purpose != self.purpose => Cause::Rejected,
            _ if self.calls.len() >= self.most => Cause::Busy,
            _ => {
                self.calls.insert(call, Taken { from, deadline: Some(deadline) });
                return Some(PartyAction::Accept(call));
            }
        };
        Some(PartyAction::Release { call, cause })
    }

    pub(super) fn keep(&mut self, call: Call) {
        if let Some(taken) = self.calls.get_mut(&call) {
            taken.deadline = None;
        }
    }

    pub(super) fn remove(&mut self, call: Call) -> Option<Taken> {
        self.calls.remove(&call)
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.calls.values().filter_map(|taken| taken.deadline).min()
    }

    /// Removes those that are late.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<Call> {
        let is_late = |taken: &Taken| taken.deadline.is_some_and(|deadline| deadline <= now);
        let late = self.calls.iter().filter(|(_, taken)| is_late(taken));
        let late: Vec<Call> = late.map(|(call, _)| *call).collect();
        self.calls.retain(|_, taken| !is_late(taken));
        late
    }
}
