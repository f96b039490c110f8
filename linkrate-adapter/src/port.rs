//! A port: the device's half of it (`transmit`, `receive`), and what others may know and set.

pub(crate) mod interrupts;
pub(crate) mod receive;
pub(crate) mod steer;
pub(crate) mod transmit;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linkrate_sys::tap;
use linkrate_terms::{BitRate, Model, PortKnobs};
use linkrate_wire::lro::Coalescer;
use rtrb::{Consumer, Producer};

use crate::bus::Bus;
use crate::capture::CaptureSlot;
use crate::clock::DeviceClock;
use crate::counters::{DeviceCounters, Snapshot};
use crate::driver::{SteeringUpdate, learns};
use crate::frame::{Burst, Train, WireFrame};
use crate::pacing::Line;
use crate::pool::Pool;
use crate::ring::{QueueShared, RxDescriptor, TxDescriptor};

/// Flows that one queue merges at a time; more than that and the one held longest is handed up.
const FLOWS: usize = 16;

/// Trains kept for use again.
const TRAINS: usize = 1024;

/// What a port is made like.
#[derive(Debug, Clone, PartialEq)]
pub struct PortLimits {
    /// Bits per second of its link.
    pub rate: Option<BitRate>,
    /// Largest frame it sends and takes, without FCS and tags.
    pub largest_frame: usize,
    /// Largest IP packet it cuts.
    pub superframe: usize,
    /// Descriptors of a transmit queue.
    pub transmit_ring: usize,
    /// Descriptors of a receive queue.
    pub receive_ring: usize,
    /// Packets are handed through as the host made them: superframes stay whole and checksums
    /// undone. No adapter does that; it is what the offloads are measured against.
    pub hand_through: bool,
}

impl PortLimits {
    /// Those of a model.
    #[must_use]
    pub fn of(model: &Model) -> Self {
        Self {
            rate: model.rate,
            largest_frame: model.max_mtu as usize + linkrate_wire::frame::link::ETHERNET,
            superframe: model.superframe as usize,
            transmit_ring: model.transmit_ring as usize,
            receive_ring: model.receive_ring as usize,
            hand_through: model.hand_through,
        }
    }
}

/// What a port, its drivers and whoever looks at it share.
#[derive(Debug)]
pub struct PortShared {
    name: String,
    knobs: Mutex<PortKnobs>,
    /// A packet that is posted now would be sent now: the doorbell is to be rung.
    pub(crate) wants_doorbell: AtomicBool,
    /// Grows with every change of the knobs.
    generation: AtomicU64,
    steers: AtomicBool,
    queues: usize,
    /// Queues in use, from the first.
    in_use: AtomicUsize,
    link_up: AtomicBool,
    /// What the link has negotiated.
    link_rate: Mutex<Option<BitRate>>,
    /// What the device counts.
    pub counters: DeviceCounters,
    /// Frames by receive queue.
    pub(crate) queue_frames: Vec<crate::counters::Counter>,
    pub(crate) capture: CaptureSlot,
    /// Handles of the TAP's queues, for carrier and attachment.
    taps: Vec<OwnedFd>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // what it guards is replaced whole
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PortShared {
    pub(crate) fn new(
        name: String,
        rate: Option<BitRate>,
        knobs: PortKnobs,
        queues: usize,
        taps: Vec<OwnedFd>,
    ) -> Self {
        Self {
            name,
            steers: AtomicBool::new(learns(knobs.steering, queues)),
            knobs: Mutex::new(knobs),
            wants_doorbell: AtomicBool::new(true),
            generation: AtomicU64::new(1),
            queues,
            in_use: AtomicUsize::new(queues),
            link_up: AtomicBool::new(true),
            link_rate: Mutex::new(rate),
            counters: DeviceCounters::default(),
            queue_frames: (0..queues).map(|_| Default::default()).collect(),
            capture: CaptureSlot::default(),
            taps,
        }
    }

    /// The name of its interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is set.
    #[must_use]
    pub fn knobs(&self) -> PortKnobs {
        lock(&self.knobs).clone()
    }

    /// Sets what is to be set, while traffic flows; the device takes it up with its next packet.
    pub fn set_knobs(&self, knobs: PortKnobs) {
        let mut now = lock(&self.knobs);
        self.steers.store(learns(knobs.steering, self.queues), Ordering::Relaxed);
        *now = knobs;
        // inside the lock: who sees the number and then locks, sees the knobs
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Whether its drivers are to tell the device where flows are.
    pub(crate) fn steers(&self) -> bool {
        self.steers.load(Ordering::Relaxed)
    }

    /// Whether the link is up.
    #[must_use]
    pub fn link_up(&self) -> bool {
        self.link_up.load(Ordering::Relaxed)
    }

    /// Takes the link down or up; the host's interface loses or gets its carrier.
    ///
    /// # Errors
    /// When the TAP is gone.
    pub fn set_link(&self, up: bool) -> linkrate_sys::error::SysResult<()> {
        self.link_up.store(up, Ordering::Relaxed);
        // the carrier is the interface's, whichever queue is asked
        self.taps.first().map_or(Ok(()), |tap| tap::set_carrier(tap, up))
    }

    /// Bits per second of its link; `None` where nothing takes any time.
    #[must_use]
    pub fn link_rate(&self) -> Option<BitRate> {
        *lock(&self.link_rate)
    }

    /// Lets the link run at another rate, as after a new negotiation. Both ends of a wire should
    /// have the same.
    pub fn set_link_rate(&self, rate: BitRate) {
        *lock(&self.link_rate) = Some(rate);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Queue pairs it was made with.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.queues
    }

    /// Queue pairs in use.
    #[must_use]
    pub fn queues_in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Uses the first `count` queue pairs, at least one and at most those it was made with.
    ///
    /// # Errors
    /// When the TAP is gone.
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

    /// Every counter of the device.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        let queues = self.queue_frames.iter().enumerate();
        self.counters
            .values()
            .map(|(name, value)| (name.to_owned(), value))
            .chain(queues.map(|(queue, count)| (format!("rxQueue{queue}Frames"), count.get())))
            .collect()
    }
}

/// The device's side of one queue pair.
#[derive(Debug)]
pub(crate) struct DeviceQueue {
    pub(crate) tx: Consumer<TxDescriptor>,
    pub(crate) rx: Producer<RxDescriptor>,
    pub(crate) steering: Consumer<SteeringUpdate>,
    pub(crate) shared: Arc<QueueShared>,
    /// When the last bit of each outstanding descriptor leaves.
    pub(crate) completions: VecDeque<u64>,
    /// When the first completion came that the driver was not told of.
    pub(crate) completed_since_ps: Option<u64>,
    pub(crate) coalescer: Coalescer<Burst>,
    /// Frames that were ever steered here, and those of them that were dropped after all.
    pub(crate) placed: u64,
    pub(crate) dropped: u64,
    /// Frames since the last interrupt, and when the first of them came.
    pub(crate) waiting: u32,
    pub(crate) waiting_since_ps: u64,
}

/// The device's half of a port. One thread owns it.
#[derive(Debug)]
pub(crate) struct DevicePort {
    pub(crate) shared: Arc<PortShared>,
    pub(crate) limits: PortLimits,
    pub(crate) knobs: PortKnobs,
    generation: u64,
    pub(crate) queues: Vec<DeviceQueue>,
    /// Its link, outwards.
    pub(crate) line: Line,
    pub(crate) bus: Option<Arc<Bus>>,
    pub(crate) clock: DeviceClock,
    /// The queue whose turn it is to send.
    pub(crate) turn: usize,
    pub(crate) trains: Pool<Train>,
    /// Frames that the bus has not carried to the host's memory yet.
    pub(crate) on_bus: VecDeque<(u64, WireFrame)>,
    /// Time the link inwards was occupied.
    pub(crate) in_busy_ps: u64,
    pub(crate) steer: steer::Steer,
}

impl DevicePort {
    pub(crate) fn new(
        shared: Arc<PortShared>,
        limits: PortLimits,
        bus: Option<Arc<Bus>>,
        clock: DeviceClock,
        queues: Vec<DeviceQueue>,
    ) -> Self {
        let knobs = shared.knobs();
        Self {
            steer: steer::Steer::new(queues.len()),
            line: Line::new(limits.rate),
            generation: 0,
            shared,
            limits,
            knobs,
            queues,
            bus,
            clock,
            turn: 0,
            trains: Pool::new(TRAINS, Train::default),
            on_bus: VecDeque::new(),
            in_busy_ps: 0,
        }
    }

    /// Takes up knobs that were changed. Says whether the link's rate was.
    pub(crate) fn refresh(&mut self) -> bool {
        let generation = self.shared.generation.load(Ordering::Acquire);
        let mut other_rate = false;
        if generation != self.generation {
            self.generation = generation;
            self.knobs = self.shared.knobs();
            let rate = self.shared.link_rate();
            other_rate = rate != self.limits.rate;
            self.limits.rate = rate;
            self.line.set_rate(rate);
        }
        for queue in 0..self.queues.len() {
            while let Ok(update) = self.queues[queue].steering.pop() {
                self.learn(update);
            }
        }
        other_rate
    }

    pub(crate) fn queue(
        tx: Consumer<TxDescriptor>,
        rx: Producer<RxDescriptor>,
        steering: Consumer<SteeringUpdate>,
        shared: Arc<QueueShared>,
    ) -> DeviceQueue {
        DeviceQueue {
            tx,
            rx,
            steering,
            shared,
            completions: VecDeque::new(),
            completed_since_ps: None,
            coalescer: Coalescer::new(FLOWS),
            placed: 0,
            dropped: 0,
            waiting: 0,
            waiting_since_ps: 0,
        }
    }
}

#[cfg(test)]
mod tests;
