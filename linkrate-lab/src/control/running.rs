//! Connections of programs that run: they go to the adapter when the rules of `toe` say so, and return to
//! the host before a port goes or gets other settings.
//!
//! The supervisor lets the program stand still, and asks this thread for the steps that the adapter takes.
//! So this thread carries out the supervisor's orders while it waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use linkrate_sys::descriptors;
use linkrate_toe::supervisor::Unmoved;

use super::listener::News;
use super::server::{GLANCE, OpenLab};
use crate::ground::adapters::{Back, Reason};

/// Time between two looks at the connections of programs at the host, each of which wakes the system
/// under test once.
const LOOK: Duration = Duration::from_millis(100);

/// How long the connections of programs may take to return, all together.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time between two looks whether one has returned, if the supervisor orders nothing.
const GLIMPSE: Duration = Duration::from_millis(1);

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
    /// It cannot move.
    stays: bool,
}

impl Seen {
    fn new(back: Option<Back>) -> Self {
        Self { since: Instant::now(), back, moving: None, stays: false }
    }

    /// Whether it moves still. Notes what has come of it.
    fn is_moving(&mut self) -> bool {
        let answer = self.moving.as_ref().map(Receiver::try_recv);
        match answer {
            None => return false,
            Some(Err(TryRecvError::Empty)) => return true,
            Some(Ok(Ok(()))) => self.back = None,
            Some(Ok(Err(_)) | Err(TryRecvError::Disconnected)) => self.stays = true,
        }
        self.moving = None;
        false
    }
}

impl OpenLab {
    /// How long this thread waits for news at most.
    pub(super) fn patience(&self) -> Duration {
        if self.tends() { LOOK } else { GLANCE }
    }

    fn tends(&self) -> bool {
        let returned = self.programs.tended.all.values().any(|seen| seen.back.is_some());
        let adapters = self.testbed.ground.adapters();
        adapters.is_some_and(|adapters| adapters.tends_programs(returned))
    }

    /// Moves connections of programs at the host that are to be at the adapter, if it is time to look.
    pub(super) fn move_those_that_go(&mut self) {
        let is_due = self.programs.tended.looked.is_none_or(|looked| looked.elapsed() >= LOOK);
        if !is_due || !self.tends() {
            return;
        }
        let tended = &mut self.programs.tended;
        tended.looked = Some(Instant::now());
        let (Some(adapters), Some(supervisor)) = (self.testbed.ground.adapters(), &self.supervisor)
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
            if seen.stays || seen.moving.is_some() {
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
    pub(super) fn return_programs(&mut self, leaving: Vec<(u32, Reason)>) {
        let (Some(supervisor), Some(adapters)) = (&self.supervisor, self.testbed.ground.adapters())
        else {
            return;
        };
        let order = |(id, reason): (u32, Reason)| {
            let inode = self.programs.table.get(id)?;
            let inode = descriptors::inode(&inode.socket).ok()?;
            Some((adapters.program_at(id)?, inode, reason, supervisor.return_running(id)))
        };
        let ordered: Vec<_> = leaving.into_iter().filter_map(order).collect();
        let deadline = Instant::now() + PATIENCE;
        for (at, inode, reason, answered) in ordered {
            let answer = self.await_supervisor(&answered, deadline);
            let Some(adapters) = self.testbed.ground.adapters() else { return };
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
