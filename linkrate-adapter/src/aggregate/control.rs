//! The decisions of an aggregate: which of its ports carry traffic.
//!
//! The driver of the first queue has the control. It calls it when a link changes, a message comes,
//! settings are requested, or a time has come.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use linkrate_terms::AggregateKnobs;

use super::{AggregateShared, Member, lock};

/// An order of the control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// To send a frame by a port.
    Send {
        /// The port's number.
        member: usize,
        /// The frame.
        frame: Vec<u8>,
    },
}

/// The control of an aggregate.
#[derive(Debug)]
pub(crate) struct Control {
    knobs: AggregateKnobs,
    request: u64,
    /// The interface has a carrier.
    carrier: bool,
}

impl Control {
    pub(crate) fn new(shared: &Arc<AggregateShared>) -> Self {
        let (_, knobs) = shared.settings.requested();
        Self { knobs, request: 0, carrier: true }
    }

    /// Whether something happened that it must look at.
    pub(crate) fn has_news(&self, shared: &AggregateShared) -> bool {
        shared.news.load(Ordering::Acquire)
    }

    /// When it must be called even if nothing happens, CLOCK_MONOTONIC.
    pub(crate) fn due(&self) -> Option<Duration> {
        None
    }

    /// Takes up what happened, and appends what is to be done.
    pub(crate) fn turn(
        &mut self,
        shared: &AggregateShared,
        _now: Duration,
        _actions: &mut Vec<Action>,
    ) {
        // before the look: what happens during the look is looked at again
        shared.news.store(false, Ordering::Relaxed);
        std::sync::atomic::fence(Ordering::SeqCst);
        if shared.settings.latest() != self.request {
            self.obey(shared);
        }
        let _messages: Vec<_> = lock(&shared.messages).drain(..).collect();
        let members = lock(&shared.members).clone();
        let up = |number: &usize| self.is_up(*number, members[*number].as_ref());
        let ports: Vec<usize> = (0..members.len()).filter(up).collect();
        shared.share(&ports, &ports);
        self.set_carrier(shared, !ports.is_empty());
    }

    fn is_up(&self, number: usize, member: Option<&Member>) -> bool {
        number < self.knobs.aggregate as usize && member.is_some_and(|member| member.link.is_up())
    }

    /// Takes up a request and acknowledges it.
    fn obey(&mut self, shared: &AggregateShared) {
        let (request, knobs) = shared.settings.requested();
        self.request = request;
        lock(&shared.balancer).set_policy(knobs.balance);
        self.knobs = knobs;
        shared.settings.acknowledge(request, self.knobs.clone());
    }

    fn set_carrier(&mut self, shared: &AggregateShared, carrier: bool) {
        if carrier != self.carrier {
            self.carrier = carrier;
            // an interface that is gone has no carrier to set
            let _ = shared.interface.set_carrier(carrier);
        }
    }
}
