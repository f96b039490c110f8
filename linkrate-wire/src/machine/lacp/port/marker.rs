//! The Marker protocol: its responder, and the generator that a flow is moved with
//! (IEEE 802.1AX-2014, 6.5).
//!
//! The responder answers each marker, up to a bound. The generator sends the markers that its owner
//! asks for, and says how each ended. A partner that never answers costs the flow a quiet time: the
//! owner sends nothing of it until the patience for the answer is over.

use std::collections::VecDeque;
use std::time::Duration;

use super::Port;
use crate::control::Marker;
use crate::control::marker::{Kind, Requester};
use crate::control::slow;
use crate::machine::lacp::event::{Action, MarkerOutcome};
use crate::machine::lacp::port::Limiter;

/// Markers that may be sent in a second, and answers: together what a slow protocol may send.
const MAX_SENT: usize = slow::MAX_PER_SECOND as usize / 2;
/// Requests that a port keeps.
const MAX_REQUESTS: usize = 64;

/// Responder and generator of a port.
#[derive(Debug, Clone)]
pub(crate) struct Markers {
    /// Requests without an answer yet. Those that are sent come first.
    requests: VecDeque<Request>,
    sent: Limiter<MAX_SENT>,
    answered: Limiter<MAX_SENT>,
    /// The number of the next marker. Callers may use a number again, so theirs are not sent.
    next: u32,
}

#[derive(Debug, Clone)]
struct Request {
    transaction: u32,
    patience: Duration,
    sent: Option<Sent>,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    number: u32,
    at: Duration,
    /// When patience ends.
    end: Duration,
}

impl Markers {
    pub(crate) const fn new() -> Self {
        Self { requests: VecDeque::new(), sent: Limiter::new(), answered: Limiter::new(), next: 1 }
    }

    /// When a marker may be sent, or patience for an answer ends.
    pub(crate) fn due(&self) -> Option<Duration> {
        let times = self.requests.iter().map(|request| match request.sent {
            Some(sent) => sent.end,
            None => self.sent.free(),
        });
        times.min()
    }
}

impl Port {
    /// Takes a request for a marker, which goes out at once if the limit permits.
    pub(crate) fn request_marker(
        &mut self,
        now: Duration,
        transaction: u32,
        patience: Duration,
        actions: &mut Vec<Action>,
    ) {
        if !self.enabled() {
            return self.end_marker(transaction, MarkerOutcome::PortLost, actions);
        }
        if self.markers.requests.len() == MAX_REQUESTS {
            return self.end_marker(transaction, MarkerOutcome::Refused, actions);
        }
        self.markers.requests.push_back(Request { transaction, patience, sent: None });
        self.poll_markers(now, actions);
    }

    /// Ends requests whose patience is over, and sends those that may be sent.
    pub(crate) fn poll_markers(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let over = |request: &Request| request.sent.is_some_and(|sent| sent.end <= now);
        self.end_markers(over, MarkerOutcome::TimedOut, actions);
        while let Some(next) = self.markers.requests.iter().position(|one| one.sent.is_none()) {
            if !self.markers.sent.take(now) {
                break;
            }
            let number = self.markers.next;
            self.markers.next = number.wrapping_add(1);
            let request = &mut self.markers.requests[next];
            // a quiet time that is none would come due again and again
            let end = now.saturating_add(request.patience.max(Duration::from_nanos(1)));
            request.sent = Some(Sent { number, at: now, end });
            let requester = Requester {
                port: self.actor.port.number,
                system: self.actor.system.address,
                transaction: number,
            };
            self.counters.marker_pdus_tx += 1;
            self.send_marker(&Marker { kind: Kind::Information, requester }, actions);
        }
    }

    pub(crate) fn receive_marker(
        &mut self,
        now: Duration,
        pdu: &Marker,
        actions: &mut Vec<Action>,
    ) {
        if let Some(answer) = pdu.answer() {
            self.counters.marker_pdus_rx += 1;
            if self.markers.answered.take(now) {
                self.counters.marker_response_pdus_tx += 1;
                self.send_marker(&answer, actions);
            } else {
                self.counters.markers_unanswered += 1;
            }
            return;
        }
        self.counters.marker_response_pdus_rx += 1;
        let Requester { port, system, transaction } = pdu.requester;
        let own = (port, system) == (self.number(), self.actor.system.address);
        let answers =
            |request: &Request| own && request.sent.is_some_and(|sent| sent.number == transaction);
        let Some(place) = self.markers.requests.iter().position(answers) else {
            self.counters.marker_responses_unexpected += 1;
            return;
        };
        if let Some(Request { transaction, sent: Some(sent), .. }) =
            self.markers.requests.remove(place)
        {
            let after = now.saturating_sub(sent.at);
            self.end_marker(transaction, MarkerOutcome::Answered { after }, actions);
        }
    }

    /// Ends all requests: the port goes away, or its link went down.
    pub(crate) fn lose_markers(&mut self, actions: &mut Vec<Action>) {
        self.end_markers(|_| true, MarkerOutcome::PortLost, actions);
    }

    fn end_markers(
        &mut self,
        is_over: impl Fn(&Request) -> bool,
        outcome: MarkerOutcome,
        actions: &mut Vec<Action>,
    ) {
        let (over, remain) = self.markers.requests.drain(..).partition(is_over);
        self.markers.requests = remain;
        let over: VecDeque<Request> = over;
        for request in over {
            self.end_marker(request.transaction, outcome, actions);
        }
    }

    fn end_marker(&self, transaction: u32, outcome: MarkerOutcome, actions: &mut Vec<Action>) {
        actions.push(Action::Marker { port: self.number(), transaction, outcome });
    }

    fn send_marker(&self, marker: &Marker, actions: &mut Vec<Action>) {
        let frame = marker.frame(self.settings.address);
        actions.push(Action::Send { port: self.number(), frame });
    }
}
