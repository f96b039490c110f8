//! The program's side of a move: its threads stand still, and its descriptor names another file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linkrate_sys::sched::ThreadId;
use linkrate_sys::socket;
use linkrate_sys::socket_swap;

use crate::connection::{Connection, MAX_QUEUED};
use crate::migrate::{self, Refusal, in_step};

/// Time between two nudges of a thread that is to stand still.
const NUDGE: Duration = Duration::from_micros(50);

/// How long a thread may take to stand still: it may be waiting for a CPU.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Where a thread is stopped while its socket is replaced. It comes by between two calls.
#[derive(Debug, Default)]
pub struct Parking {
    wanted: AtomicBool,
    parked: Mutex<bool>,
    changed: Condvar,
}

impl Parking {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By the thread, between two calls: is stopped while it is wanted.
    #[inline]
    pub fn pass(&self) {
        if self.wanted.load(Ordering::Acquire) {
            self.stay();
        }
    }

    #[cold]
    fn stay(&self) {
        let mut parked = self.lock();
        while self.wanted.load(Ordering::Acquire) {
            *parked = true;
            self.changed.notify_all();
            parked = self.changed.wait(parked).unwrap_or_else(PoisonError::into_inner);
        }
        *parked = false;
    }

    /// By the thread: makes a call again that a [nudge](socket_swap::nudge) has ended, after [`pass`](Self::pass).
    /// Every other error of the call is returned.
    #[inline]
    pub fn call<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            self.pass();
            match call() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Makes `thread`, whose parking this is, stand still until [`release`](Self::release). If that takes too long
    /// (`TimedOut`) or the thread has ended, it is released.
    pub fn park(&self, thread: ThreadId) -> io::Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        self.wanted.store(true, Ordering::Release);
        let mut parked = self.lock();
        while !*parked {
            let nudged = socket_swap::nudge(thread);
            if nudged.is_err() || Instant::now() >= deadline {
                drop(parked);
                self.release();
                return nudged.and(Err(io::ErrorKind::TimedOut.into()));
            }
            let waited = self.changed.wait_timeout(parked, NUDGE);
            parked = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    pub fn release(&self) {
        let _parked = self.lock();
        self.wanted.store(false, Ordering::Release);
        self.changed.notify_all();
    }
}

/// A host's socket while its connection is at the adapter.
#[derive(Debug)]
pub struct ParkedSocket {
    tcp: OwnedFd,
}

/// A connection that has left its socket.
#[derive(Debug)]
pub struct OffloadedSocket {
    pub connection: Connection,
    /// The adapter's end of the stream pair.
    pub adapter: OwnedFd,
    /// The program's end. Whoever has put it under the program's descriptor closes it: the adapter
    /// could not see otherwise that the program has closed its descriptor.
    pub program: OwnedFd,
    pub parked_socket: ParkedSocket,
}

impl OffloadedSocket {
    /// Puts the program's end of the pair under a descriptor of this process. What the program sends
    /// waits in the pair until the adapter has the connection.
    pub fn swap(self, descriptor: BorrowedFd<'_>) -> Result<Offered, Refusal> {
        let Self { connection, adapter, program, parked_socket } = self;
        socket_swap::replace(descriptor, &program).map_err(in_step("replace the descriptor"))?;
        Ok(Offered { connection, adapter, parked_socket })
    }
}

/// A connection that has left its socket, whose program continues at its end of the stream pair.
#[derive(Debug)]
pub struct Offered {
    pub connection: Connection,
    /// The adapter's end of the stream pair.
    pub adapter: OwnedFd,
    pub parked_socket: ParkedSocket,
}

/// Takes the connection of the socket under a program's descriptor. The program is stopped, and no segment of the
/// peer reaches the socket. After a refusal the connection continues in the socket, unless the kernel refused to
/// park it.
pub fn offload(descriptor: BorrowedFd<'_>) -> Result<OffloadedSocket, Refusal> {
    let tcp = descriptor.try_clone_to_owned().map_err(in_step("keep the socket"))?;
    let (program, adapter) = UnixStream::pair().map_err(in_step("make a stream pair"))?;
    socket_swap::copy_waiting(&tcp, &program).map_err(in_step("copy how it waits"))?;
    let connection = migrate::dump(&tcp)?;
    migrate::park(&tcp, &connection)?;
    let parked_socket = ParkedSocket { tcp };
    Ok(OffloadedSocket {
        connection,
        adapter: adapter.into(),
        program: program.into(),
        parked_socket,
    })
}

/// Adds to a connection that no adapter has taken what its program has sent since, and closes the
/// adapter's end of the pair.
pub fn take_waiting(adapter: OwnedFd, connection: &mut Connection) {
    drain(adapter.as_fd(), &mut connection.unsent);
}

/// Takes all bytes that wait in one end of a stream pair.
fn drain(end: BorrowedFd<'_>, bytes: &mut Vec<u8>) {
    let mut buffer = vec![0; 64 << 10];
    // where the other end is closed, reading ends with the end of the stream, or with its reset
    while let Ok(count) = socket::receive_now(end, &mut buffer) {
        if count == 0 || bytes.len() > MAX_QUEUED {
            break;
        }
        bytes.extend_from_slice(&buffer[..count]);
    }
}

/// What waits in the program's end of a stream pair whose other end is closed.
pub fn rest_of(program: impl AsFd) -> Vec<u8> {
    let mut unread = Vec::new();
    drain(program.as_fd(), &mut unread);
    unread
}

impl ParkedSocket {
    /// The parked socket, which has the options that the program reads.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }

    /// Brings a connection back into its socket. `program` is the program's end of the pair, which nobody uses
    /// meanwhile; the adapter has closed its own. The socket is to take the place of this end, before
    /// [`go_on`](migrate::go_on). After a refusal the connection is lost.
    pub fn restore(
        self,
        program: impl AsFd,
        connection: &mut Connection,
    ) -> Result<OwnedFd, Refusal> {
        let program = program.as_fd();
        connection.unread.splice(..0, rest_of(program));
        migrate::restore(&self.tcp, connection)?;
        socket_swap::copy_waiting(program, &self.tcp).map_err(in_step("copy how it waits"))?;
        Ok(self.tcp)
    }

    /// Brings a connection back under a descriptor of this process. The program is stopped, and the adapter has
    /// closed its end of the pair. After a refusal the connection is lost.
    pub fn reclaim(
        self,
        descriptor: BorrowedFd<'_>,
        mut connection: Connection,
    ) -> Result<(), Refusal> {
        let tcp = self.restore(descriptor, &mut connection)?;
        socket_swap::replace(descriptor, &tcp).map_err(in_step("replace the descriptor"))?;
        migrate::go_on(descriptor, &connection)
    }
}
