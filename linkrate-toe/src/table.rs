//! The connections of programs that are at the adapter, by the program's end of their stream pair.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use linkrate_sys::{descriptors, socket_calls, socket_swap};

/// A connection of a program.
#[derive(Debug)]
pub struct Entry {
    pub id: u32,
    /// The address and port of this end, as the program sees them.
    pub own: SocketAddr,
    /// Those of the peer.
    pub far: SocketAddr,
    /// The program's socket, which is parked.
    pub socket: OwnedFd,
    pub process: u32,
    /// The name of its program.
    pub program: String,
    /// When it moved.
    pub since: Instant,
    /// The descriptor; negative before it has one.
    descriptor: AtomicI32,
    /// The inode of the program's end of the pair.
    pair: u64,
}

impl Entry {
    /// A connection that moves now.
    #[must_use]
    pub fn new(
        id: u32,
        (own, far): (SocketAddr, SocketAddr),
        socket: OwnedFd,
        (process, program): (u32, String),
        descriptor: Option<i32>,
    ) -> Self {
        let descriptor = AtomicI32::new(descriptor.unwrap_or(-1));
        Self { id, own, far, socket, process, program, since: Instant::now(), descriptor, pair: 0 }
    }

    /// The descriptor that it had in its process first.
    #[must_use]
    pub fn descriptor(&self) -> Option<i32> {
        Some(self.descriptor.load(Ordering::Relaxed)).filter(|descriptor| *descriptor >= 0)
    }

    pub(crate) fn pair(&self) -> u64 {
        self.pair
    }

    pub(crate) fn set_descriptor(&self, descriptor: i32) {
        self.descriptor.store(descriptor, Ordering::Relaxed);
    }
}

/// The table, which the thread that moves connections and the supervisor share.
#[derive(Debug, Default)]
pub struct Table(Mutex<BTreeMap<u64, Arc<Entry>>>);

impl Table {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Entry>>> {
        // a holder that panicked left whole values
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection under the program's end of its pair.
    pub fn insert(&self, pair: impl AsFd, mut entry: Entry) -> std::io::Result<()> {
        let cookie = socket_calls::cookie(&pair)?;
        entry.pair = descriptors::inode(pair)?;
        self.lock().insert(cookie, Arc::new(entry));
        Ok(())
    }

    pub fn remove(&self, id: u32) -> Option<Arc<Entry>> {
        let mut entries = self.lock();
        let cookie = entries.iter().find(|(_, entry)| entry.id == id).map(|(cookie, _)| *cookie)?;
        entries.remove(&cookie)
    }

    pub fn get(&self, id: u32) -> Option<Arc<Entry>> {
        self.lock().values().find(|entry| entry.id == id).map(Arc::clone)
    }

    /// The connection of a program's end of a pair.
    pub fn of(&self, pair: impl AsFd) -> Option<Arc<Entry>> {
        let cookie = socket_calls::cookie(pair).ok()?;
        self.lock().get(&cookie).map(Arc::clone)
    }

    /// The connection under a descriptor of a thread.
    pub fn of_thread(&self, thread: u32, descriptor: i32) -> Option<Arc<Entry>> {
        if self.lock().is_empty() {
            return None;
        }
        self.of(socket_swap::descriptor_of_thread(thread, descriptor).ok()?)
    }

    /// All connections, by their numbers.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        let mut all: Vec<Arc<Entry>> = self.lock().values().map(Arc::clone).collect();
        all.sort_unstable_by_key(|entry| entry.id);
        all
    }
}
