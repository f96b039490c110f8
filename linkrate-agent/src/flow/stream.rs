//! TCP bulk data.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use linkrate_sys::memory::PageBuffer;
use linkrate_sys::{sched, socket};
use linkrate_terms::{ReceivePath, SendPath};

use super::FlowContext;
use super::send_path::{Sender, region_bytes};
use super::sizes::Sizes;

/// Most bytes taken off a socket in one call. A message of the workload is what the sender hands
/// over; a receiver takes what is there.
const RECEIVE_BYTES: usize = 256 << 10;

/// The same, of a receiver that [gathers](Taking::Gathered).
const GATHERED_BYTES: usize = 768 << 10;

/// How long a receiver that gathers lets more arrive, less what the timer takes to wake it.
const GATHERING: Duration = Duration::from_micros(10);

/// What one call must have taken for gathering to be worth a timer: two superframes. Slower
/// traffic, which would only be delayed by it, never gives so much at once.
const WORTH_GATHERING_BYTES: usize = 128 << 10;

/// Most bytes discarded in one call: discarding touches no memory, so more is only fewer calls.
const DISCARD_BYTES: usize = 1 << 20;

/// Bytes after which a sender lets its receiver have the CPU they share, so that payload is taken
/// while it is still in the second-level cache.
const TURN_BYTES: usize = 512 << 10;

/// Sends messages until told to stop. With `takes_turns` the receiver is on the same CPU.
///
/// # Errors
/// As the socket's.
pub fn transmit(
    flow: &mut FlowContext,
    socket: Arc<OwnedFd>,
    path: SendPath,
    mut sizes: Sizes,
    takes_turns: bool,
) -> io::Result<()> {
    let mut sender = Sender::new(socket, path, sizes.largest())?;
    // payload that is not copied does not care for caches
    let turn_bytes = if takes_turns && path == SendPath::Plain { TURN_BYTES } else { usize::MAX };
    let mut since_turn = 0;
    while !flow.control.stopped() {
        let length = sizes.draw();
        sender.send(length, &flow.control, &flow.counters)?;
        since_turn += length;
        if since_turn >= turn_bytes {
            since_turn = 0;
            std::thread::yield_now();
        }
    }
    Ok(())
}

/// How a receiver takes what has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// As soon as something is there, as a program does that wants its data.
    AtOnce,
    /// The sender is on the same CPU: it goes first.
    InTurn,
    /// In large pieces, with a short sleep before each one as long as there is much to take.
    ///
    /// A segment that is sent to a CPU at work interrupts it, which in a virtual machine costs
    /// both CPUs more than the segment does, unless that CPU has segments before it anyway. So a
    /// sender is fastest if its receiver leaves segments to gather while it copies, and lets the
    /// kernel take all of them at once while it sleeps.
    Gathered,
}

impl Taking {
    /// What this machine's part in a run makes of a receiver. The system under test takes its
    /// data as programs do; clients are there to keep up with it.
    pub fn of(client: bool, shares_cpus: bool) -> Self {
        match (shares_cpus, client) {
            (true, _) => Self::InTurn,
            (false, true) => Self::Gathered,
            (false, false) => Self::AtOnce,
        }
    }

    fn most_bytes(self) -> usize {
        match self {
            Self::AtOnce | Self::InTurn => RECEIVE_BYTES,
            Self::Gathered => GATHERED_BYTES,
        }
    }

    fn sleeps_after(self, received: usize) -> bool {
        self == Self::Gathered && received >= WORTH_GATHERING_BYTES
    }
}

/// Receives until told to stop.
///
/// # Errors
/// As the socket's; `UnexpectedEof` when the sender closes first.
pub fn receive(
    flow: &mut FlowContext,
    socket: &OwnedFd,
    path: ReceivePath,
    taking: Taking,
) -> io::Result<()> {
    match taking {
        Taking::AtOnce => {}
        // or every segment that arrives would take the CPU from the sender
        Taking::InTurn => sched::become_batch()?,
        Taking::Gathered => {
            // or it would take the CPU from the kernel's thread that processes segments
            sched::become_batch()?;
            // or a sleep would last 50 µs longer than it is to
            sched::set_timer_slack_ns(1)?;
        }
    }
    let most = taking.most_bytes();
    let mut region = PageBuffer::zeroed(region_bytes(most))?;
    while !flow.control.stopped() {
        let received = match path {
            ReceivePath::Plain => socket::receive_repeated(socket, &mut region, most)?,
            ReceivePath::Truncate => socket::discard(socket, DISCARD_BYTES)?,
        };
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        flow.counters.add_received(received as u64);
        // what is discarded is gone before the next segment comes
        if path == ReceivePath::Plain && taking.sleeps_after(received) {
            std::thread::sleep(GATHERING);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_with_cpus_of_their_own_gather() {
        assert_eq!(Taking::of(true, false), Taking::Gathered);
        assert_eq!(Taking::of(false, false), Taking::AtOnce);
        assert_eq!(Taking::of(true, true), Taking::InTurn);
        assert_eq!(Taking::of(false, true), Taking::InTurn);
    }

    #[test]
    fn little_at_a_time_is_never_waited_for() {
        assert!(!Taking::Gathered.sleeps_after(64 << 10));
        assert!(Taking::Gathered.sleeps_after(GATHERED_BYTES));
        for taking in [Taking::AtOnce, Taking::InTurn] {
            assert!(!taking.sleeps_after(GATHERED_BYTES), "{taking:?}");
        }
    }
}
