//! The driver of one queue pair: a thread on the host's CPUs that moves packets between the TAP
//! and the rings, as a NAPI poll does, and nothing else.
//!
//! Reading the TAP is what taking a packet off the queue discipline is to a real driver; writing
//! it runs the host's receive processing in this thread. It works in batches as long as there is
//! work, and then sleeps until the TAP has a packet or the device interrupts.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::{sched, tap, wait};
use linkrate_terms::{CpuSet, Steering};
use linkrate_wire::frame::{Headers, tcp};
use rtrb::{Consumer, Producer};

use crate::frame::{Block, VNET_BYTES};
use crate::pool::Pool;
use crate::port::PortShared;
use crate::ring::{QueueShared, RxDescriptor, TxDescriptor, Waker};

/// Packets in each direction before the driver looks at the other one: NAPI's weight.
const BUDGET: usize = 64;

/// Blocks a queue keeps for its packets at most.
const BLOCKS: usize = 4096;

/// Pieces of a packet that are handed to the kernel without an allocation.
const PIECES: usize = 64;

/// Every so many packets of a queue, and at every SYN, the driver tells the adapter on which queue
/// the flow is.
const STEERING_SAMPLE: u64 = 20;

/// A flow's port and the queue it is to come in on.
#[derive(Debug, Clone, Copy)]
pub struct SteeringUpdate {
    /// Destination port of what the flow receives.
    pub port: u16,
    /// The queue.
    pub queue: u16,
}

/// A driver's ends of everything.
#[derive(Debug)]
pub struct Driver {
    /// The queue of the TAP.
    pub tap: OwnedFd,
    /// Number of the queue.
    pub number: u16,
    /// Packets for the device.
    pub tx: Producer<TxDescriptor>,
    /// Packets from the device.
    pub rx: Consumer<RxDescriptor>,
    /// Changes of the steering table for the device.
    pub steering: Producer<SteeringUpdate>,
    /// Shared with the device.
    pub queue: Arc<QueueShared>,
    /// The device's doorbell.
    pub doorbell: Arc<Waker>,
    /// The port.
    pub port: Arc<PortShared>,
}

impl Driver {
    /// Runs until told to stop, or until the TAP is gone.
    ///
    /// # Errors
    /// Placement that was refused, or the TAP's own error.
    pub fn run(mut self, cpus: &CpuSet) -> io::Result<()> {
        sched::set_affinity(sched::current_thread(), cpus).map_err(io::Error::other)?;
        sched::set_timer_slack_ns(1).map_err(io::Error::other)?;
        let mut pool = Pool::new(BLOCKS, Block::new);
        let (mut posted, ring) = (0u64, self.tx.slots() as u64);
        while !self.queue.stop.load(Ordering::Relaxed) {
            let received = self.receive()?;
            let sent = self.transmit(&mut pool, &mut posted, ring)?;
            if received + sent == 0 {
                self.sleep(posted, ring)?;
            }
        }
        Ok(())
    }

    /// Hands packets of the device to the host.
    fn receive(&mut self) -> io::Result<usize> {
        let mut count = 0;
        while count < BUDGET {
            let Ok(descriptor) = self.rx.pop() else { break };
            count += 1;
            if !write(&self.tap, &descriptor)? {
                self.queue.counters.rx_refused.add(1);
            }
            // only this thread writes it
            let consumed = self.queue.consumed.load(Ordering::Relaxed) + descriptor.frames();
            self.queue.consumed.store(consumed, Ordering::Release);
        }
        self.queue.counters.rx_packets.add(count as u64);
        Ok(count)
    }

    /// Takes packets of the host and posts them. Says how many.
    fn transmit(
        &mut self,
        pool: &mut Pool<Block>,
        posted: &mut u64,
        ring: u64,
    ) -> io::Result<usize> {
        let mut count = 0;
        while count < BUDGET && self.has_room(*posted, ring) {
            let read = pool.with_free(|block| tap::read(&self.tap, block.bytes_mut()));
            let (block, length) = match read {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            if self.port.steers() {
                self.steer(&block, length, *posted);
            }
            let descriptor = TxDescriptor { block, length, posted_ns: monotonic_ns() };
            // the ring has as many places as descriptors may be outstanding
            if self.tx.push(descriptor).is_err() {
                break;
            }
            *posted += 1;
            count += 1;
            // the device begins while the rest of the batch is fetched
            if self.port.wants_doorbell.load(Ordering::Relaxed) && self.doorbell.wake() {
                self.queue.counters.doorbells.add(1);
            }
        }
        // The device may have begun to want it since. Either it sees what was posted above, or
        // this sees what it wants: both have a fence between their two steps.
        if count > 0 {
            fence(Ordering::SeqCst);
            if self.port.wants_doorbell.load(Ordering::Relaxed) && self.doorbell.wake() {
                self.queue.counters.doorbells.add(1);
            }
        }
        self.queue.counters.tx_packets.add(count as u64);
        Ok(count)
    }

    fn has_room(&self, posted: u64, ring: u64) -> bool {
        posted - self.queue.completed.load(Ordering::Acquire) < ring && self.tx.slots() > 0
    }

    /// Tells the adapter on which queue a flow goes out, so that it comes in there too.
    fn steer(&mut self, block: &Block, length: usize, number: u64) {
        // short packets and the first bytes of long ones have all headers
        let head = block.bytes(VNET_BYTES..length.min(VNET_BYTES + 256));
        let tail = length.saturating_sub(VNET_BYTES + head.len());
        let Ok(headers) = Headers::parse_parts(head, tail) else { return };
        let Some(flags) = headers.tcp_flags(head) else { return };
        if number.is_multiple_of(STEERING_SAMPLE) || flags & tcp::SYN != 0 {
            let Some((port, _)) = headers.ports(head) else { return };
            let update = SteeringUpdate { port, queue: self.number };
            // the table may miss an update; the next packets bring another
            if self.steering.push(update).is_ok() {
                self.queue.counters.steering_updates.add(1);
            }
        }
    }

    fn sleep(&mut self, posted: u64, ring: u64) -> io::Result<()> {
        let room = self.has_room(posted, ring);
        self.queue.starved.store(!room, Ordering::Release);
        if !room {
            // the device must know that somebody waits for its completions
            self.doorbell.wake();
        }
        self.queue.interrupt.will_sleep();
        let idle = self.rx.is_empty()
            && self.has_room(posted, ring) == room
            && !self.queue.stop.load(Ordering::Relaxed);
        if idle {
            self.queue.counters.sleeps.add(1);
            let both = [self.queue.interrupt.as_fd(), self.tap.as_fd()];
            wait::wait(if room { &both } else { &both[..1] }, None)?;
        }
        self.queue.interrupt.woken();
        self.queue.starved.store(false, Ordering::Release);
        Ok(())
    }
}

/// Writes one packet to the TAP. False when the host refuses this packet, which is no reason to
/// stop.
fn write(tap: &OwnedFd, descriptor: &RxDescriptor) -> io::Result<bool> {
    let vnet = descriptor.vnet.emit();
    let mut pieces = [IoSlice::new(&[]); PIECES];
    pieces[0] = IoSlice::new(&vnet[..VNET_BYTES]);
    let mut count = 1;
    let mut rest = Vec::new();
    descriptor.for_each_piece(|piece| {
        if piece.is_empty() {
            return;
        }
        match pieces.get_mut(count) {
            Some(place) => {
                *place = IoSlice::new(piece);
                count += 1;
            }
            None => rest.push(IoSlice::new(piece)),
        }
    });
    let written = if rest.is_empty() {
        tap::write_vectored(tap, &pieces[..count])
    } else {
        let all: Vec<_> = pieces.into_iter().chain(rest).collect();
        tap::write_vectored(tap, &all)
    };
    match written {
        Ok(_) => Ok(true),
        // EBADFD: the TAP's interface is gone, and with it the reason to run
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BADFD.raw_os_error()) => {
            Err(error)
        }
        Err(_) => Ok(false),
    }
}

/// Whether a port's receive side is steered by what its drivers see go out.
pub(crate) fn learns(steering: Steering, queues: usize) -> bool {
    steering == Steering::DestinationPort && queues > 1
}
