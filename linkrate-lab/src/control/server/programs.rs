//! Programs of a lab whose connections move to the adapter.
//!
//! The supervisor answers their calls in a thread of its own. What it needs of the lab it asks from the
//! thread that carries out requests, and it waits no longer than [`TIMEOUT`] for its turn.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use linkrate_adapter::Notify;
use linkrate_sys::socket_swap;
use linkrate_toe::supervisor::{Candidate, Mover};
use linkrate_toe::table::{Entry, Table};

use super::OpenLab;
use super::running::Tended;
use crate::control::news::{News, Order, Turn};

/// How long a call of a program waits for its turn; then its connection stays at the host.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Time between two polls for connections that have ended.
const REAPING: Duration = Duration::from_secs(1);

/// Numbers of connections of programs are above those of flows.
const FIRST_ID: u32 = 1 << 24;

/// The lab as its supervisor sees it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) news: SyncSender<News>,
    pub(super) offloads: Arc<AtomicBool>,
}

impl Line {
    fn order(&self, order: Order) -> bool {
        // a lab with that many requests before this one has no time
        self.news.try_send(News::Order(Box::new(order))).is_ok()
    }

    /// The answer to an order; `None` when the lab has no time, or ends.
    fn ask<T>(&self, order: impl FnOnce(Turn, SyncSender<T>) -> Order) -> Option<T> {
        let (answer, answered) = sync_channel(1);
        let turn = Turn::default();
        self.order(order(turn.clone(), answer)).then(|| await_turn(&turn, &answered))?
    }
}

fn await_turn<T>(turn: &Turn, answered: &Receiver<T>) -> Option<T> {
    match answered.recv_timeout(TIMEOUT) {
        Ok(answer) => Some(answer),
        Err(RecvTimeoutError::Timeout) if turn.take() => None,
        // it is being carried out
        Err(_) => answered.recv().ok(),
    }
}

impl Mover for Line {
    fn offloads(&self) -> bool {
        self.offloads.load(Ordering::Relaxed)
    }

    fn offload_candidate(&self, candidate: Candidate) -> Result<OwnedFd, String> {
        self.ask(|turn, answer| Order::Lower(candidate, turn, answer))
            .unwrap_or_else(|| Err("the lab carries out other requests".to_owned()))
    }

    fn take_back(&self, id: u32, pair: OwnedFd) -> Result<(), String> {
        let (answer, answered) = sync_channel(1);
        let busy = || "the lab carries out other requests".to_owned();
        if !self.order(Order::TakeBack(id, pair, answer)) {
            return Err(busy());
        }
        answered.recv().unwrap_or_else(|_| Err(busy()))
    }

    fn adapter_socket(&self, id: u32) -> Option<OwnedFd> {
        self.ask(|turn, answer| Order::Socket(id, turn, answer)).flatten()
    }
}

/// How devices say that connections are to return, to the thread that carries out requests.
pub(super) struct Returns {
    notify: Notify,
    told: Arc<AtomicBool>,
}

impl Returns {
    pub(super) fn new(news: SyncSender<News>) -> Self {
        let told = Arc::new(AtomicBool::new(false));
        let notify = {
            let told = Arc::clone(&told);
            move || {
                // One word is enough until it is heard. Where there is no room for it, the other thread has
                // requests to carry out, and looks after each.
                if !told.swap(true, Ordering::AcqRel) && news.try_send(News::Returns).is_err() {
                    told.store(false, Ordering::Release);
                }
            }
        };
        Self { notify: Arc::new(notify), told }
    }
}

impl fmt::Debug for Returns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Returns").field("told", &self.told).finish_non_exhaustive()
    }
}

/// Connections of programs, as the thread that carries out requests has them.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) table: Arc<Table>,
    pub(super) offloads: Arc<AtomicBool>,
    /// While the lab is served.
    pub(super) returns: Option<Returns>,
    /// Connections at the host that may go to the adapter.
    pub(super) tended: Tended,
    last_id: u32,
    reaped: Instant,
}

impl Default for Programs {
    fn default() -> Self {
        let (table, offloads, returns, tended) = Default::default();
        Self { table, offloads, returns, tended, last_id: FIRST_ID, reaped: Instant::now() }
    }
}

impl OpenLab {
    /// Carries out what the supervisor wants. One that has gone needs no answer.
    pub(super) fn carry_out(&mut self, order: Order) {
        match order {
            Order::Lower(candidate, turn, answer) => {
                if turn.take() {
                    let _ = answer.send(self.offload_candidate(candidate));
                }
            }
            Order::TakeBack(id, pair, answer) => {
                let _ = answer.send(self.take_back(id, &pair));
            }
            Order::Socket(id, turn, answer) => {
                let found = || self.testbed.backend.adapters()?.program_socket(id);
                if turn.take() {
                    let _ = answer.send(found());
                }
            }
        }
    }

    fn offload_candidate(&mut self, candidate: Candidate) -> Result<OwnedFd, String> {
        let missing = || "the lab has no TCP offload engine".to_owned();
        let adapters = self.testbed.backend.adapters().ok_or_else(missing)?;
        let Candidate { socket, process, program, descriptor, ordered } = candidate;
        let ends = socket_swap::ends(&socket).map_err(|error| error.to_string())?;
        self.programs.last_id += 1;
        let id = self.programs.last_id;
        let pair = adapters.offload_program(id, socket.as_fd(), ordered);
        let pair = pair.map_err(|stay| stay.to_string())?;
        let entry = Entry::new(id, ends, socket, (process, program), descriptor);
        // every socket has a number
        self.programs.table.insert(&pair, entry).map_err(|error| error.to_string())?;
        Ok(pair)
    }

    fn take_back(&self, id: u32, pair: &OwnedFd) -> Result<(), String> {
        let table = &self.programs.table;
        let (Some(entry), Some(adapters)) = (table.get(id), self.testbed.backend.adapters()) else {
            return Err("the connection has ended".to_owned());
        };
        let reclaimed =
            adapters.reclaim_program(id, entry.socket.as_fd(), &entry.own, pair.as_fd());
        reclaimed.map_err(|stay| stay.to_string())?;
        table.remove(id);
        Ok(())
    }

    /// Keeps up with the knobs, and forgets connections that have ended.
    pub(super) fn tend_programs(&mut self) {
        let Some(adapters) = self.testbed.backend.adapters() else { return };
        self.programs.offloads.store(adapters.offloads_programs(), Ordering::Relaxed);
        if let Some(Returns { notify, told }) = &self.programs.returns {
            adapters.notify_of_returns(notify);
            told.store(false, Ordering::Release);
        }
        self.return_those_asked();
        self.move_those_that_go();
        let Some(adapters) = self.testbed.backend.adapters() else { return };
        if self.programs.reaped.elapsed() < REAPING {
            return;
        }
        self.programs.reaped = Instant::now();
        for id in adapters.reap_programs().unwrap_or_default() {
            self.programs.table.remove(id);
        }
    }
}
