//! TCP bulk data.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use linkrate_model::{ReceivePath, SendPath, Workload};
use linkrate_sys::{sched, socket};

use super::ring::Ring;
use super::send_path::Sender;
use super::sizes::Sizes;
use super::{Counters, FlowContext};

/// The most bytes received in one call. The message size of a workload is that of the sender; a
/// receiver takes all available data.
const RECEIVE_BYTES: usize = 256 << 10;

/// The same for a receiver that [gathers](Taking::Gathered).
const GATHERED_BYTES: usize = 768 << 10;

/// How long a gathering receiver waits for more data, without the delay of the timer.
const GATHERING: Duration = Duration::from_micros(10);

/// The least bytes of one call that justify a timer for batching: two superframes. Slower traffic,
/// which batching would only delay, never has so much available.
const WORTH_GATHERING_BYTES: usize = 128 << 10;

/// The most bytes discarded in one call. Discarding touches no memory, so more bytes mean fewer
/// calls.
const DISCARD_BYTES: usize = 1 << 20;

/// After this many bytes, a sender yields the CPU that it shares with its receiver, so that the
/// receiver takes payload from the second-level cache.
const TURN_BYTES: usize = 512 << 10;

/// Sends messages until told to stop.
pub fn transmit(
    flow: &mut FlowContext,
    mut sender: Sender,
    mut sizes: Sizes,
    mut turns: Turns,
) -> io::Result<()> {
    while !flow.control.sending_ended() {
        let length = sizes.draw();
        sender.send(length, flow)?;
        turns.sent(length);
    }
    Ok(())
}

/// When a sender yields the CPU.
#[derive(Debug)]
pub struct Turns {
    bytes: usize,
    since: usize,
}

impl Turns {
    /// Turns of a sender; with `taken` its receiver is on the same CPU.
    pub fn of(path: SendPath, taken: bool) -> Self {
        // payload that is not copied does not use the cache
        let bytes = if taken && path == SendPath::Plain { TURN_BYTES } else { usize::MAX };
        Self { bytes, since: 0 }
    }

    pub fn none() -> Self {
        Self { bytes: usize::MAX, since: 0 }
    }

    /// Yields if it is time after `length` more bytes.
    #[inline]
    pub fn sent(&mut self, length: usize) {
        self.since = self.since.saturating_add(length);
        if self.since >= self.bytes {
            self.since = 0;
            std::thread::yield_now();
        }
    }
}

/// How a receiver takes data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// At once, as most programs do.
    AtOnce,
    /// After the sender, which is on the same CPU.
    InTurn,
    /// In large pieces, with a short sleep before each one while much data arrives.
    ///
    /// A segment for a busy CPU interrupts it, unless that CPU already has segments to process. In
    /// a virtual machine the interrupt costs both CPUs more than the segment does. A sender is
    /// therefore fastest if segments gather while its receiver copies, and the kernel processes all
    /// of them while the receiver sleeps.
    Gathered,
}

impl Taking {
    /// How a receiver of this role takes data. The system under test takes it as most programs do, and
    /// so do clients unless the workload has them gather.
    pub fn of(client: bool, shares_cpus: bool, batches: bool) -> Self {
        match (shares_cpus, client && batches) {
            (true, _) => Self::InTurn,
            (false, true) => Self::Gathered,
            (false, false) => Self::AtOnce,
        }
    }

    /// Prepares the thread of a receiver.
    pub(super) fn prepare(self) -> io::Result<()> {
        match self {
            Self::AtOnce => Ok(()),
            // otherwise every arriving segment would take the CPU from the sender
            Self::InTurn => Ok(sched::become_batch()?),
            Self::Gathered => {
                // otherwise it would take the CPU from the kernel thread that processes segments
                sched::become_batch()?;
                // otherwise a sleep would last 50 µs longer
                Ok(sched::set_timer_slack_ns(1)?)
            }
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

/// Receives until told to stop; `UnexpectedEof` when the sender closes first.
pub fn receive(flow: &mut FlowContext, socket: &OwnedFd, mut receiver: Receiver) -> io::Result<()> {
    while !flow.control.stopped() {
        let received = flow.parking.call(|| receiver.receive(socket))?;
        flow.counters.add_received(received as u64);
        receiver.gather(received, &flow.counters);
    }
    Ok(())
}

/// Takes payload out of a socket.
#[derive(Debug)]
pub struct Receiver {
    taking: Taking,
    /// Where payload is copied to; `None` if the kernel discards it.
    ring: Option<Ring>,
}

impl Receiver {
    /// Prepares the calling thread and its memory.
    pub fn new(workload: &Workload, taking: Taking) -> io::Result<Self> {
        taking.prepare()?;
        let ring = match workload.receive_path {
            ReceivePath::Plain => Some(Ring::to_receive(workload.received_into())?),
            ReceivePath::Truncate => None,
        };
        Ok(Self { taking, ring })
    }

    /// Waits for payload and takes it, at most as much as one call does. Returns the number of bytes,
    /// which is never 0: `UnexpectedEof` when the sender has closed.
    #[inline]
    pub fn receive(&mut self, socket: &OwnedFd) -> io::Result<usize> {
        let received = match &mut self.ring {
            Some(ring) => ring.receive(socket, self.taking.most_bytes())?,
            None => socket::discard(socket, DISCARD_BYTES)?,
        };
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(received)
    }

    /// Lets more payload gather after a call that took `received` bytes, if that is worth it.
    #[inline]
    pub fn gather(&self, received: usize, counters: &Counters) {
        // discarding ends before the next segment arrives
        if self.ring.is_some() && self.taking.sleeps_after(received) {
            counters.add_receive_batches(1);
            std::thread::sleep(GATHERING);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_with_cpus_of_their_own_gather_if_told_to() {
        assert_eq!(Taking::of(true, false, true), Taking::Gathered);
        assert_eq!(Taking::of(true, false, false), Taking::AtOnce);
        assert_eq!(Taking::of(false, false, true), Taking::AtOnce);
        assert_eq!(Taking::of(true, true, true), Taking::InTurn);
        assert_eq!(Taking::of(false, true, false), Taking::InTurn);
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
