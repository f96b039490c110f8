//! Connections of programs that run: they go to the adapter when the rules of `toe` say so, and return to
//! the host before a port goes or gets other settings, and when a device asks for it.
//!
//! The supervisor lets the program stand still, and asks this thread for the steps that the adapter takes.
//! So this thread carries out the supervisor's orders while it waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use linkrate_sys::descriptors;
use linkrate_toe::supervisor::Unmoved;

use super::OpenLab;
use crate::backend::adapters::{Back, Reason};
use crate::control::news::{News, POLL_INTERVAL};

/// Time between two polls of the connections of programs at the host, each of which wakes the system
/// under test once.
const HOST_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long the connections of programs may take to return, all together.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two checks whether one has returned, if the supervisor orders nothing.
const GLIMPSE: Duration = Duration::from_millis(1);

/// How often a connection that is to go to the adapter is tried, and the time between the first two trials,
/// which doubles each time. Each trial stops the program for a moment.
const MAX_TRIALS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Most connections that return at one time because devices ask for it: each stops its program. Frames of
/// others go to the adapter's TCP.
const MAX_ASKED: usize = 16;

/// Connections of programs at the host, by the inodes of their sockets.
#[derive(Debug, Default)]
pub(super) struct Tended {
    all: BTreeMap<u64, Seen>,
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Seen {
    since: Instant,
    /// It has come from the adapter.
    back: Option<Back>,
    /// It is about to move.
    moving: Option<Receiver<Result<(), Unmoved>>>,
    trials: Trials,
}

impl Seen {
    fn new(back: Option<Back>) -> Self {
        Self { since: Instant::now(), back, moving: None, trials: Trials::default() }
    }

    /// Whether it moves still. Notes what has come of it.
    fn is_moving(&mut self) -> bool {
        let answer = self.moving.as_ref().map(Receiver::try_recv);
        match answer {
            None => return false,
            Some(Err(TryRecvError::Empty)) => return true,
            Some(Ok(Ok(()))) => self.back = None,
            // nobody will ever supervise it, or nobody does any more
            Some(Ok(Err(Unmoved::NotSupervised { .. })) | Err(TryRecvError::Disconnected)) => {
                self.trials.end();
            }
            Some(Ok(Err(_))) => self.trials.failed(Instant::now()),
        }
        self.moving = None;
        false
    }
}

/// Trials to move a connection that have failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Trials {
    failed: u32,
    next: Option<Instant>,
}

impl Trials {
    /// Whether there is another trial at `now`.
    fn is_due(&self, now: Instant) -> bool {
        self.failed < MAX_TRIALS && self.next.is_none_or(|next| next <= now)
    }

    fn failed(&mut self, now: Instant) {
        self.next = Some(now + PAUSE * (1 << self.failed.min(MAX_TRIALS)));
        self.failed += 1;
    }

    fn end(&mut self) {
        self.failed = MAX_TRIALS;
    }
}

impl OpenLab {
    /// How long this thread waits for news at most.
    pub(super) fn timeout(&self) -> Duration {
        if self.tends() { HOST_POLL_INTERVAL } else { POLL_INTERVAL }
    }

    fn tends(&self) -> bool {
        let returned = self.programs.tended.all.values().any(|seen| seen.back.is_some());
        let adapters = self.testbed.backend.adapters();
        adapters.is_some_and(|adapters| adapters.tends_programs(returned))
    }

    /// Moves connections of programs at the host that are to be at the adapter, if it is time to look.
    pub(super) fn move_those_that_go(&mut self) {
        let is_due =
            self.programs.tended.looked.is_none_or(|looked| looked.elapsed() >= HOST_POLL_INTERVAL);
        if !is_due || !self.tends() {
            return;
        }
        let now = Instant::now();
        let tended = &mut self.programs.tended;
        tended.looked = Some(now);
        let (Some(adapters), Some(supervisor)) =
            (self.testbed.backend.adapters(), &self.supervisor)
        else {
            return;
        };
        // an agent that does not answer ends the lab elsewhere
        let all = adapters.host_connections(&mut self.testbed.sut).unwrap_or_default();
        let there: BTreeSet<u64> = all.iter().map(|(_, of)| of.inode.into()).collect();
        tended.all.retain(|inode, seen| seen.is_moving() || there.contains(inode));
        let mut going = BTreeSet::new();
        for (_, of) in &all {
            let seen = tended.all.entry(of.inode.into()).or_insert_with(|| Seen::new(None));
            if seen.moving.is_some() || !seen.trials.is_due(now) {
                continue;
            }
            if let Some(back) = &mut seen.back {
                back.carried.get_or_insert(of.sent.saturating_add(of.received));
            }
            if adapters.program_goes(of, seen.since.elapsed(), seen.back.as_ref()) {
                going.insert(of.inode.into());
            }
        }
        for (inode, (process, descriptor)) in descriptors::owners(&going) {
            if let Some(seen) = tended.all.get_mut(&inode) {
                seen.moving = Some(supervisor.move_running(process, descriptor));
            }
        }
    }

    /// Lets connections of programs return to the host, and waits until they have.
    pub(crate) fn return_programs(&mut self, leaving: Vec<(u32, Reason)>) {
        let (Some(supervisor), Some(adapters)) =
            (&self.supervisor, self.testbed.backend.adapters())
        else {
            return;
        };
        let order = |(id, reason): (u32, Reason)| {
            let inode = self.programs.table.get(id)?;
            let inode = descriptors::inode(&inode.socket).ok()?;
            Some((adapters.program_at(id)?, inode, reason, supervisor.return_running(id)))
        };
        let ordered: Vec<_> = leaving.into_iter().filter_map(order).collect();
        let deadline = Instant::now() + TIMEOUT;
        for (at, inode, reason, answered) in ordered {
            let answer = self.await_supervisor(&answered, deadline);
            let Some(adapters) = self.testbed.backend.adapters() else { return };
            match answer {
                Some(Ok(())) => {
                    adapters.program_returned(at, reason);
                    let back = Back { reason, at: Instant::now(), carried: None };
                    self.programs.tended.all.insert(inode, Seen::new(Some(back)));
                }
                Some(Err(unmoved)) => adapters.program_stays(unmoved.word()),
                None => adapters.program_stays("late"),
            }
        }
    }

    /// Lets connections of programs return to the host for which a device asks: a frame of each waits there
    /// that only the host's TCP can explain to the program. One that cannot return gets it at the adapter.
    pub(super) fn return_those_asked(&mut self) {
        let asked = |lab: &Self| lab.testbed.backend.adapters()?.programs_asked().ok();
        // a device that does not answer ends the lab elsewhere
        let asked = asked(self).unwrap_or_default();
        if asked.is_empty() {
            return;
        }
        self.return_programs(asked.iter().copied().take(MAX_ASKED).collect());
        let Some(adapters) = self.testbed.backend.adapters() else { return };
        for (id, _) in asked {
            let _ = adapters.release_program(id);
        }
    }

    /// Waits for an answer of the supervisor, and carries out its orders meanwhile.
    fn await_supervisor<T>(&mut self, answered: &Receiver<T>, deadline: Instant) -> Option<T> {
        loop {
            match answered.try_recv() {
                Ok(answer) => return Some(answer),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) if Instant::now() >= deadline => return None,
                Err(TryRecvError::Empty) => {}
            }
            match self.heard.as_ref()?.recv_timeout(GLIMPSE) {
                Ok(News::Order(order)) => self.carry_out(*order),
                Ok(later) => self.put_off.push_back(later),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_that_fails_is_tried_again_later_and_later_and_then_not_at_all() {
        let began = Instant::now();
        let mut trials = Trials::default();
        assert!(trials.is_due(began));
        let mut now = began;
        for pause_s in [1, 2, 4, 8] {
            trials.failed(now);
            let next = now + Duration::from_secs(pause_s);
            assert!(!trials.is_due(next - Duration::from_millis(1)), "{trials:?}");
            assert!(trials.is_due(next), "{trials:?}");
            now = next;
        }
        trials.failed(now);
        assert!(!trials.is_due(now + Duration::from_secs(3600)), "{trials:?}");
    }

    #[test]
    fn what_a_trial_came_to_says_whether_there_is_another_one() {
        let outcome = |answer: Option<Result<(), Unmoved>>| {
            let (tell, told) = std::sync::mpsc::sync_channel(1);
            let mut seen = Seen { moving: Some(told), ..Seen::new(None) };
            assert!(seen.is_moving());
            if let Some(answer) = answer {
                tell.send(answer).unwrap();
            }
            drop(tell);
            assert!(!seen.is_moving() && seen.moving.is_none());
            (seen.trials.failed, seen.trials.is_due(Instant::now() + PAUSE))
        };
        assert_eq!(outcome(Some(Ok(()))), (0, true));
        assert_eq!(outcome(Some(Err(Unmoved::Stays("a full table".to_owned())))), (1, true));
        let alone = Unmoved::NotSupervised { process: 1 };
        assert_eq!(outcome(Some(Err(alone))), (MAX_TRIALS, false));
        // the supervisor has ended
        assert_eq!(outcome(None), (MAX_TRIALS, false));
    }
}
