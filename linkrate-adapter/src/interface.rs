//! The host's side of a port: a TAP, its queues, the rings between driver and device, and the
//! interrupts.
//!
//! A queue of an interface is served in one of two ways. On the system under test a `driver` in a
//! thread on the host's CPUs moves packets between the TAP and two rings, so that the host pays
//! for its driver as it does with hardware. On a client nothing is measured: there the device
//! thread itself reads and writes the TAP (`polled`), without a thread to wake.

pub mod doorbell;
pub(crate) mod driver;
pub(crate) mod flow_queue;
pub(crate) mod host_end;
pub(crate) mod moderation;
pub(crate) mod napi;
pub(crate) mod polled;
pub(crate) mod queue_pair;
pub mod rings;
pub mod tx_revoke;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use linkrate_model::{BitRate, Model, PortKnobs};
use linkrate_sys::tap::{self, Offloads};
use linkrate_wire::steering::Progress;
use rtrb::{Consumer, Producer};

pub use driver::DriverThreads;
pub use napi::Priority;
use polled::Polled;
use queue_pair::{SteeringUpdate, learns};
use rings::{QueueShared, RxDescriptor, TxDescriptor};
use tx_revoke::Revocations;

/// The state that an interface's drivers and device share with the controller.
#[derive(Debug)]
pub struct InterfaceShared {
    name: String,
    queues: usize,
    /// Queues in use, from the first.
    in_use: AtomicUsize,
    /// Drivers report the queues of their flows to the device.
    steers: AtomicBool,
    /// The device would send a packet at once: the driver must ring the doorbell.
    pub(crate) wants_doorbell: AtomicBool,
    /// Bytes that a driver posts ahead of the link.
    pub(crate) byte_limit: AtomicU64,
    /// Packets that the device asks back.
    pub(crate) revocations: Revocations,
    /// A TAP that the device thread serves is gone.
    broken: AtomicBool,
    /// Handles of the TAP's queues, for carrier and attachment.
    taps: Vec<OwnedFd>,
}

impl InterfaceShared {
    pub(crate) fn new(name: String, knobs: &PortKnobs, queues: usize, taps: Vec<OwnedFd>) -> Self {
        Self {
            name,
            queues,
            in_use: AtomicUsize::new(queues),
            steers: AtomicBool::new(learns(knobs.steering, queues)),
            wants_doorbell: AtomicBool::new(true),
            byte_limit: AtomicU64::new(u64::MAX),
            revocations: Revocations::default(),
            broken: AtomicBool::new(false),
            taps,
        }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a TAP that the device thread serves is gone.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    pub(crate) fn steers(&self) -> bool {
        self.steers.load(Ordering::Relaxed)
    }

    /// Takes up the settings of the port, and the rate of its link.
    pub(crate) fn apply_settings(&self, knobs: &PortKnobs, rate: Option<BitRate>) {
        self.steers.store(learns(knobs.steering, self.queues), Ordering::Relaxed);
        self.byte_limit.store(byte_limit(rate, knobs.tx_usecs), Ordering::Relaxed);
    }

    /// Sets the carrier of the host's interface. Fails when the TAP is gone.
    pub fn set_carrier(&self, up: bool) -> linkrate_sys::error::SysResult<()> {
        // the interface has one carrier for all its queues
        self.taps.first().map_or(Ok(()), |tap| tap::set_carrier(tap, up))
    }

    /// Sets the offloads that the host's interface may use. Fails when the TAP is gone.
    pub fn set_offloads(&self, offloads: Offloads) -> linkrate_sys::error::SysResult<()> {
        // the interface has one set for all its queues
        self.taps.first().map_or(Ok(()), |tap| tap::set_offloads(tap, offloads))
    }

    #[must_use]
    pub fn queues(&self) -> usize {
        self.queues
    }

    #[must_use]
    pub fn queues_in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Uses the first `count` queue pairs: at least one, at most all. Fails when the TAP is gone.
    pub fn use_queues(&self, count: usize) -> linkrate_sys::error::SysResult<()> {
        let count = count.clamp(1, self.queues);
        let before = self.in_use.swap(count, Ordering::Relaxed);
        for (number, tap) in self.taps.iter().enumerate() {
            match (number < before, number < count) {
                (true, false) => tap::detach_queue(tap)?,
                (false, true) => tap::attach_queue(tap)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The time for which a driver fills a transmit ring at least, µs.
const MIN_AHEAD_US: u32 = 1000;

/// Bytes that a driver posts ahead of a link: for four completion interrupts, so that the link does not
/// run dry if one comes late. Everything else waits before the ring, where a packet of another
/// flow can pass it. Linux finds such a limit by trial (lib/dynamic_queue_limits.c); here it follows
/// from the settings, so that it is the same in every run.
fn byte_limit(rate: Option<BitRate>, tx_usecs: u32) -> u64 {
    let Some(rate) = rate else { return u64::MAX };
    let ahead_us = tx_usecs.saturating_mul(4).max(MIN_AHEAD_US);
    (rate.0 / 8e6 * f64::from(ahead_us)) as u64
}

/// Descriptors of each queue of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSizes {
    /// Of the transmit ring; one holds a packet of the host.
    pub transmit: usize,
    /// Of the receive ring; one holds a packet for the host.
    pub receive: usize,
}

impl RingSizes {
    /// Those of a model's queues.
    #[must_use]
    pub fn of(model: &Model) -> Self {
        let (transmit, receive) = (model.transmit_ring as usize, model.receive_ring as usize);
        Self { transmit, receive }
    }
}

/// How packets pass between a queue's host and the device.
#[derive(Debug)]
pub(crate) enum Ends {
    /// Through a driver thread.
    Driver {
        tx: Consumer<TxDescriptor>,
        rx: Producer<RxDescriptor>,
        steering: Consumer<SteeringUpdate>,
        control: Option<ControlEnds>,
        shared: Arc<QueueShared>,
    },
    /// Through the TAP, by the device thread.
    Polled(Polled),
}

/// The device's ends of the rings for frames of the protocols of an aggregate.
#[derive(Debug)]
pub(crate) struct ControlEnds {
    pub(crate) tx: Consumer<TxDescriptor>,
    pub(crate) rx: Producer<RxDescriptor>,
}

/// A descriptor whose packet is on its way.
#[derive(Debug, Clone, Copy)]
struct Completion {
    /// When its last bit leaves.
    end_ps: u64,
    /// Bytes of the packet.
    bytes: u32,
}

/// The device's side of one queue pair.
#[derive(Debug)]
pub(crate) struct Queue {
    ends: Ends,
    /// The outstanding descriptors.
    completions: VecDeque<Completion>,
    /// The time of the first completion that the driver does not know of.
    completed_since_ps: Option<u64>,
    /// Packets of the host that were ever taken from here.
    popped: u64,
    /// Frames that were ever steered here, and those of them that were dropped later.
    placed: u64,
    dropped: u64,
    /// Frames since the last interrupt, and when the first of them came.
    waiting: u32,
    waiting_since_ps: u64,
    /// How much later than the first of them the others came, together.
    waiting_behind_ps: u64,
}

/// Received frames that wait for an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) frames: u64,
    /// How long they have waited by a time, together.
    pub(crate) wait_ps: u64,
}

impl Queue {
    pub(crate) fn new(ends: Ends) -> Self {
        Self {
            ends,
            completions: VecDeque::new(),
            completed_since_ps: None,
            popped: 0,
            placed: 0,
            dropped: 0,
            waiting: 0,
            waiting_since_ps: 0,
            waiting_behind_ps: 0,
        }
    }

    /// Frames that came at `at_ps` wait for the next interrupt.
    fn wait(&mut self, frames: usize, at_ps: u64) {
        if self.waiting == 0 {
            (self.waiting_since_ps, self.waiting_behind_ps) = (at_ps, 0);
        }
        self.waiting += frames as u32;
        let behind_ps = at_ps.saturating_sub(self.waiting_since_ps).saturating_mul(frames as u64);
        self.waiting_behind_ps = self.waiting_behind_ps.saturating_add(behind_ps);
    }

    /// The frames that wait, and how long they have by `until_ps`.
    fn waiting(&self, until_ps: u64) -> Waiting {
        let frames = u64::from(self.waiting);
        let since_first_ps = until_ps.saturating_sub(self.waiting_since_ps).saturating_mul(frames);
        Waiting { frames, wait_ps: since_first_ps.saturating_sub(self.waiting_behind_ps) }
    }

    fn pop(&mut self) -> Option<TxDescriptor> {
        match &mut self.ends {
            Ends::Driver { tx, .. } => tx.pop().ok(),
            Ends::Polled(polled) => polled.pop(),
        }
    }

    fn has_posted(&self) -> bool {
        match &self.ends {
            Ends::Driver { tx, control, .. } => {
                !tx.is_empty() || control.as_ref().is_some_and(|control| !control.tx.is_empty())
            }
            Ends::Polled(polled) => polled.has_posted(),
        }
    }

    fn control(&mut self) -> Option<&mut ControlEnds> {
        match &mut self.ends {
            Ends::Driver { control, .. } => control.as_mut(),
            Ends::Polled(_) => None,
        }
    }

    /// Received frames that the host has, or that were dropped on the way to it.
    fn consumed(&self) -> u64 {
        let handed = match &self.ends {
            Ends::Driver { shared, .. } => shared.consumed.load(Ordering::Acquire),
            Ends::Polled(polled) => polled.consumed(),
        };
        handed + self.dropped
    }

    fn is_starved(&self) -> bool {
        match &self.ends {
            Ends::Driver { shared, .. } => shared.starved.load(Ordering::Acquire),
            Ends::Polled(_) => false,
        }
    }
}

/// The device's side of an interface. One thread owns it.
#[derive(Debug)]
pub(crate) struct Interface {
    pub(crate) shared: Arc<InterfaceShared>,
    queues: Vec<Queue>,
    /// The queue whose turn it is to send.
    turn: usize,
}

impl Interface {
    pub(crate) fn new(shared: Arc<InterfaceShared>, queues: Vec<Queue>) -> Self {
        Self { shared, queues, turn: 0 }
    }

    pub(crate) fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Reads packets from the TAPs that have no driver thread, until `bytes` wait to be sent.
    pub(crate) fn fetch(&mut self, bytes: usize) {
        for queue in &mut self.queues {
            if let Ends::Polled(polled) = &mut queue.ends {
                polled.fetch(bytes);
                if polled.is_broken() {
                    self.shared.broken.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// Whether driver threads serve the interface. They stamp each packet with the time of its
    /// posting.
    pub(crate) fn has_drivers(&self) -> bool {
        matches!(self.queues.first(), Some(Queue { ends: Ends::Driver { .. }, .. }))
    }

    /// The queue of the adapter's own TCP, beside those of the host's drivers.
    pub(crate) fn adapter_queue(&self) -> Option<usize> {
        let polled = |queue: &Queue| matches!(queue.ends, Ends::Polled(_));
        self.queues.iter().position(polled).filter(|_| self.has_drivers())
    }

    /// The next packet and its queue, queue by queue in turn.
    pub(crate) fn next_posted(&mut self) -> Option<(usize, TxDescriptor)> {
        let count = self.queues.len();
        for step in 0..count {
            let queue = (self.turn + step) % count;
            if let Some(descriptor) = self.queues[queue].pop() {
                self.queues[queue].popped += 1;
                self.turn = (queue + 1) % count;
                return Some((queue, descriptor));
            }
        }
        None
    }

    /// The next frame of the protocols of an aggregate.
    pub(crate) fn next_control(&mut self) -> Option<TxDescriptor> {
        self.queues.iter_mut().find_map(|queue| queue.control()?.tx.pop().ok())
    }

    /// Whether frames of the protocols of an aggregate go past the packets.
    pub(crate) fn has_control(&mut self) -> bool {
        self.queues.first_mut().is_some_and(|queue| queue.control().is_some())
    }

    /// Puts a frame of the protocols of an aggregate before the packets of its host. It waits for the
    /// next interrupt as they do. False when there is no room, and the frame lost.
    pub(crate) fn push_control(&mut self, descriptor: RxDescriptor, at_ps: u64) -> bool {
        let Some(queue) = self.queues.first_mut() else { return false };
        let Some(control) = queue.control() else { return false };
        let pushed = control.rx.push(descriptor).is_ok();
        queue.wait(1, at_ps);
        pushed
    }

    pub(crate) fn has_posted(&self) -> bool {
        self.queues.iter().any(Queue::has_posted)
    }

    /// The last bit of a packet of `bytes` bytes, the next of a queue, leaves at `end_ps`.
    pub(crate) fn sent(&mut self, queue: usize, bytes: usize, end_ps: u64) {
        let queue = &mut self.queues[queue];
        if let Ends::Driver { .. } = queue.ends {
            queue.completions.push_back(Completion { end_ps, bytes: bytes as u32 });
        }
    }

    /// The drivers' reports about their flows since the last call.
    pub(crate) fn steering_updates(&mut self) -> impl Iterator<Item = SteeringUpdate> + '_ {
        self.queues.iter_mut().flat_map(|queue| {
            std::iter::from_fn(|| match &mut queue.ends {
                Ends::Driver { steering, .. } => steering.pop().ok(),
                Ends::Polled(_) => None,
            })
        })
    }

    /// How far each queue is.
    pub(crate) fn progress(&self) -> impl Iterator<Item = Progress> + '_ {
        self.queues
            .iter()
            .map(|queue| Progress { placed: queue.placed, consumed: queue.consumed() })
    }

    /// Counts frames that were steered to a queue. They wait for its next interrupt.
    pub(crate) fn place(&mut self, queue: usize, frames: usize, at_ps: u64) {
        let queue = &mut self.queues[queue];
        queue.wait(frames, at_ps);
        queue.placed += frames as u64;
    }

    /// Puts a packet into a queue's receive ring. False when the ring is full and the packet lost.
    pub(crate) fn push(&mut self, queue: usize, descriptor: RxDescriptor) -> bool {
        let queue = &mut self.queues[queue];
        let frames = descriptor.frames();
        let pushed = match &mut queue.ends {
            Ends::Driver { rx, .. } => rx.push(descriptor).is_ok(),
            Ends::Polled(polled) => {
                polled.push(descriptor);
                true
            }
        };
        if !pushed {
            queue.dropped += frames;
        }
        pushed
    }

    /// The queues that the device thread serves itself.
    pub(crate) fn polled(&mut self) -> impl Iterator<Item = &mut Polled> {
        self.queues.iter_mut().filter_map(|queue| match &mut queue.ends {
            Ends::Polled(polled) => Some(polled),
            Ends::Driver { .. } => None,
        })
    }
}
