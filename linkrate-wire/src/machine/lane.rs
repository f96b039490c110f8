//! LAN Emulation (ATM Forum LANE 1.0): an Ethernet over the connections of an ATM network.
//!
//! - [`Client`]: an end system of an emulated LAN (ELAN), with an Ethernet interface for its host
//! - [`Lecs`]: the configuration server, which tells a client the server of its ELAN
//! - [`Les`]: the server of an ELAN, which knows the ATM address of each station
//! - [`Bus`]: sends broadcasts, and frames to stations that are not known yet, to all clients
//!
//! Each is an end system with an ATM address, a party of an [`Exchange`](super::call::Exchange). Its
//! actions about calls go there, and those of the exchange come back as events. A unit that a machine
//! receives or sends is one AAL5 unit of a call.
//!
//! The server makes a connection to each client for what it distributes, and so does the BUS. LANE
//! permits one connection to many ends instead, which saves copies on the line of the server.
//!
//! Connections keep the order of units. A client changes the path of frames to a station only when the
//! old path is proved empty (flush), or enough time has passed (path switching delay), so frames stay
//! in order.

mod bus;
mod client;
mod lecs;
mod les;

use std::collections::BTreeMap;
use std::time::Duration;

pub use bus::{Bus, BusAction, BusConfig, BusCounters};
pub use client::{
    Cached, Client, ClientAction, ClientConfig, ClientCounters, ClientEvent, Configuration, Path,
    Reason, State,
};
pub use lecs::{Elan, Lecs, LecsConfig, LecsCounters};
pub use les::{Les, LesConfig, LesCounters, Member};

use super::call::{Call, Cause, PartyAction, PartyEvent, Purpose};
use crate::atm::AtmAddress;
use crate::control::LaneControl;
use crate::control::lan_emulation::{Operation, Status};

/// The times of a client (LANE 1.0, 5.1.1), with its names for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How long the client waits for each server (C7, control time-out): 120 s.
    pub control: Duration,
    /// Time from a question to a server to the next one, which doubles (LANE 2.0, C7i): 5 s.
    pub retry: Duration,
    /// Frames to a station that is not known, in `unknown` (C10, C11): 1 in 1 s.
    pub unknown_frames: u32,
    /// See `unknown_frames`.
    pub unknown: Duration,
    /// Time without a frame after which a data-direct connection is released (C12): 20 min.
    pub idle: Duration,
    /// How long an entry of the cache holds without verification (C17, ageing): 300 s.
    pub ageing: Duration,
    /// The same of an entry that a proxy has answered, while the topology changes (C18): 15 s.
    pub forward_delay: Duration,
    /// Time to the next question for the address of a station (C20): 1 s.
    pub arp: Duration,
    /// How long an answer to a flush is waited for (C21): 4 s.
    pub flush: Duration,
    /// Time after which a path is empty without proof (C22, path switching delay): 6 s.
    pub path_switching: Duration,
    /// How long the caller of a data-direct connection may take to say that it is ready (C28): 4 s.
    pub ready: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            control: seconds(120),
            retry: seconds(5),
            unknown_frames: 1,
            unknown: seconds(1),
            idle: seconds(20 * 60),
            ageing: seconds(300),
            forward_delay: seconds(15),
            arp: seconds(1),
            flush: seconds(4),
            path_switching: seconds(6),
            ready: seconds(4),
        }
    }
}

/// What happens to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEvent<U> {
    /// Something about its calls.
    Call(PartyEvent),
    /// An AAL5 unit came.
    Received {
        /// The call that it came by.
        call: Call,
        /// The unit.
        unit: U,
    },
}

/// What a server wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAction {
    /// Something about its calls.
    Call(PartyAction),
    /// Send a control frame.
    Send {
        /// The call to send it by.
        call: Call,
        /// The frame.
        frame: LaneControl,
    },
    /// A request was refused.
    Refused {
        /// The end system that asked.
        from: AtmAddress,
        /// What it asked for.
        operation: Operation,
        /// Why.
        status: Status,
    },
}

/// Permits `most` at once, and one more after each `every`.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    most: u32,
    every: Duration,
    left: u32,
    /// The time up to which `left` counts what was gained.
    since: Duration,
}

impl Bucket {
    /// A full one: `most` in `time`, at least one.
    fn new(most: u32, time: Duration) -> Self {
        let most = most.max(1);
        let every = (time / most).max(Duration::from_nanos(1));
        Self { most, every, left: most, since: Duration::ZERO }
    }

    fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.since).as_nanos() / self.every.as_nanos();
        if passed >= u128::from(self.most - self.left) {
            (self.left, self.since) = (self.most, now);
        } else {
            self.left += passed as u32;
            self.since += self.every * passed as u32;
        }
    }

    /// Takes one, if one is left at `now`.
    fn take(&mut self, now: Duration) -> bool {
        self.refill(now);
        let is_left = self.left > 0;
        self.left -= u32::from(is_left);
        is_left
    }

    /// When one is left; the time may be past.
    fn free(&self) -> Duration {
        if self.left > 0 { self.since } else { self.since + self.every }
    }
}

/// A call that a server took.
#[derive(Debug, Clone, Copy)]
struct Taken {
    /// The party that called.
    from: AtmAddress,
    /// When the call is released unless its party has been accepted before.
    deadline: Option<Duration>,
}

/// The calls that a server took, up to a number of them.
#[derive(Debug, Clone)]
struct TakenCalls {
    purpose: Purpose,
    most: usize,
    calls: BTreeMap<Call, Taken>,
}

impl TakenCalls {
    const fn new(purpose: Purpose, most: usize) -> Self {
        Self { purpose, most, calls: BTreeMap::new() }
    }

    fn get(&self, call: Call) -> Option<Taken> {
        self.calls.get(&call).copied()
    }

    /// The answer to a call that is offered; `None` for a call that was taken before, which stays.
    fn offered(
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

    fn keep(&mut self, call: Call) {
        if let Some(taken) = self.calls.get_mut(&call) {
            taken.deadline = None;
        }
    }

    fn remove(&mut self, call: Call) -> Option<Taken> {
        self.calls.remove(&call)
    }

    fn due(&self) -> Option<Duration> {
        self.calls.values().filter_map(|taken| taken.deadline).min()
    }

    /// Removes those that are late.
    fn expire(&mut self, now: Duration) -> Vec<Call> {
        let is_late = |taken: &Taken| taken.deadline.is_some_and(|deadline| deadline <= now);
        let late = self.calls.iter().filter(|(_, taken)| is_late(taken));
        let late: Vec<Call> = late.map(|(call, _)| *call).collect();
        self.calls.retain(|_, taken| !is_late(taken));
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_its_rate_after_its_burst() {
        let ms = Duration::from_millis;
        let mut bucket = Bucket::new(4, ms(1000));
        let taken: Vec<u64> = (0..2000).step_by(50).filter(|at| bucket.take(ms(*at))).collect();
        assert_eq!(taken, [0, 50, 100, 150, 250, 500, 750, 1000, 1250, 1500, 1750]);
        assert_eq!(bucket.free(), ms(2000));
        // silence fills it, and not more
        let taken = (0..100).filter(|_| bucket.take(ms(60_000))).count();
        assert_eq!(taken, 4);
    }
}
