//! What the threads of a lab say to each other.

use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use linkrate_toe::supervisor::Candidate;

use super::caller::Call;

/// How often the loops look for events that no descriptor reports: signals taken by another thread,
/// threads that have ended.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How long programs may take to end when their host goes.
pub(super) const FAREWELL: Duration = Duration::from_secs(4);

/// The most requests that wait for the thread that carries them out.
pub(super) const MAX_REQUESTS: usize = 64;

/// What the listener tells the thread that carries out requests.
#[derive(Debug)]
pub(super) enum News {
    /// A request of this user.
    Call(Box<Call>),
    /// What the supervisor of programs wants.
    Order(Box<Order>),
    /// A device asks that connections of programs return to the host.
    Returns,
    /// The lab is to end.
    Ends,
}

/// What a supervisor wants of a lab.
#[derive(Debug)]
pub(super) enum Order {
    /// Move a connection to the adapter.
    Lower(Candidate, Turn, SyncSender<Result<OwnedFd, String>>),
    /// Take a connection back.
    TakeBack(u32, OwnedFd, SyncSender<Result<(), String>>),
    /// Find the socket of a connection at the adapter.
    Socket(u32, Turn, SyncSender<Option<OwnedFd>>),
}

/// Whose turn it is: an order is carried out, or given up, but not both.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn(Arc<AtomicBool>);

impl Turn {
    /// True for the first one that takes it.
    pub(super) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// Why a lab has ended.
#[derive(Debug)]
pub enum Ended {
    /// The program in it ended with this status.
    Program(ExitStatus),
    /// Another command ended it.
    Down,
    /// This process was told to end.
    Stopped,
    /// A part of it broke.
    Broken(String),
}
