//! A device thread: it serves all segments of one adapter CPU, each thing at its time, and sleeps
//! in between.
//!
//! One thread serves everything on its CPU, so that a frame crosses a fabric without a lock and
//! one waking serves all ports: their interrupt timers tick together. Every frame carries the time
//! at which its last bit is on the link, however late the thread itself comes to it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};

use linkrate_sys::epoll::{Epoll, Readable, Watch};

use crate::clock::{DeviceClock, PS_PER_US, earlier};
use crate::device::Device;
use crate::fabric::Fabric;
use crate::interface::doorbell::ThreadDoorbell;
use crate::segment::{LeadsTo, Segment};

/// A wait shorter than this is not worth a system call.
const SPIN_NS: u64 = 3_000;

/// How long a busy thread continues before it looks at the TAPs of idle ports.
const POLL_INTERVAL_PS: u64 = 50 * PS_PER_US;

/// Payload after which the thread gives up its CPU to whoever else wants it. Programs that share
/// the CPU then find what was carried in the cache, from which some megabytes more would drive it.
const SERVING_BYTES: usize = 700 << 10;

/// The number of the doorbell in the wait; TAPs have others.
pub(crate) const DOORBELL: u64 = 0;

/// What a device thread is told.
pub(crate) enum Command {
    /// A segment of that number, without devices.
    AddSegment(usize, Box<dyn Fabric>),
    /// The segment is gone.
    RemoveSegment(usize),
    /// A device, and the ports of the fabric that its links lead to.
    Attach(Place, Box<dyn Device>, LeadsTo),
    /// The device is gone; the answer says that the thread holds nothing of it any more.
    Detach(Place, SyncSender<()>),
    /// Something to be done with a segment.
    InSegment(usize, Box<dyn FnOnce(&mut Segment) + Send>),
    End,
}

/// The numbers of a segment and of a device on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: usize,
    pub(crate) station: usize,
}

/// Everything that the thread owns.
#[derive(Debug)]
pub(crate) struct Engine {
    clock: DeviceClock,
    doorbell: Arc<ThreadDoorbell>,
    commands: Receiver<Command>,
    /// By number. A number is given once, so that what comes late for a segment that is gone reaches no other.
    segments: BTreeMap<usize, Segment>,
    epoll: Epoll,
    readable: Readable,
    /// The devices of TAPs that this thread serves, by the TAPs' numbers in the wait.
    taps: HashMap<u64, Place>,
    /// When TAPs were looked at last.
    looked_ps: u64,
    /// Payload carried since the thread slept or gave up its CPU.
    carried_bytes: usize,
}

impl Engine {
    pub(crate) fn new(
        clock: DeviceClock,
        doorbell: Arc<ThreadDoorbell>,
        commands: Receiver<Command>,
    ) -> linkrate_sys::error::SysResult<Self> {
        let epoll = Epoll::new()?;
        epoll.add(doorbell.as_fd(), DOORBELL, Watch::Always)?;
        Ok(Self {
            clock,
            doorbell,
            commands,
            segments: BTreeMap::new(),
            epoll,
            readable: Readable::default(),
            taps: HashMap::new(),
            looked_ps: 0,
            carried_bytes: 0,
        })
    }

    /// Runs until it is told to end.
    pub(crate) fn run(mut self) -> io::Result<()> {
        while self.handle_commands()? {
            if self.turn()? {
                if self.carried_bytes >= SERVING_BYTES {
                    self.give_way();
                }
                continue;
            }
            if self.carried_bytes > 0 {
                // Programs on this CPU take what they were just handed, and what they send in
                // return spares this thread the waking that it would otherwise be.
                self.give_way();
                self.wait(self.clock.now_ps(), Some(0))?;
                continue;
            }
            self.doorbell.will_sleep();
            let slept = self.sleep();
            // a look that did not wait found nothing, or what rang before
            self.doorbell.woken(self.readable.numbers().any(|number| number == DOORBELL));
            slept?;
        }
        Ok(())
    }

    /// Lets the other threads of this CPU run.
    fn give_way(&mut self) {
        self.carried_bytes = 0;
        std::thread::yield_now();
    }

    /// Carries out what it was told. False at the end.
    fn handle_commands(&mut self) -> io::Result<bool> {
        loop {
            match self.commands.try_recv() {
                Ok(Command::AddSegment(number, fabric)) => {
                    self.segments.insert(number, Segment::new(fabric));
                }
                Ok(Command::RemoveSegment(number)) => self.remove(number),
                Ok(Command::Attach(place, device, ports)) => self.attach(place, device, ports)?,
                Ok(Command::Detach(place, answer)) => {
                    self.detach(place);
                    // a port that no longer waits has given up
                    let _ = answer.try_send(());
                }
                Ok(Command::InSegment(number, work)) => {
                    if let Some(segment) = self.segments.get_mut(&number) {
                        work(segment);
                    }
                }
                Ok(Command::End) | Err(TryRecvError::Disconnected) => return Ok(false),
                Err(TryRecvError::Empty) => return Ok(true),
            }
        }
    }

    fn attach(
        &mut self,
        place: Place,
        mut device: Box<dyn Device>,
        ports: LeadsTo,
    ) -> io::Result<()> {
        for polled in device.interface().polled() {
            polled.watch(&self.epoll).map_err(io::Error::other)?;
            self.taps.insert(polled.number(), place);
        }
        if let Some(segment) = self.segments.get_mut(&place.segment) {
            segment.attach(place.station, device, ports);
        }
        Ok(())
    }

    fn detach(&mut self, place: Place) {
        let segment = self.segments.get_mut(&place.segment);
        let device = segment.and_then(|segment| segment.detach(place.station));
        if let Some(mut device) = device {
            for polled in device.interface().polled() {
                polled.unwatch(&self.epoll);
            }
        }
        self.taps.retain(|_, other| *other != place);
    }

    fn remove(&mut self, number: usize) {
        let gone: Vec<Place> =
            self.taps.values().copied().filter(|place| place.segment == number).collect();
        for place in gone {
            self.detach(place);
        }
        self.segments.remove(&number);
    }

    /// Does everything that is due now. False when there was nothing.
    fn turn(&mut self) -> io::Result<bool> {
        let now_ps = self.clock.now_ps();
        if now_ps.saturating_sub(self.looked_ps) > POLL_INTERVAL_PS && !self.taps.is_empty() {
            self.wait(now_ps, Some(0))?;
        }
        let Self { segments, carried_bytes, .. } = self;
        Ok(segments
            .values_mut()
            .fold(false, |any, segment| segment.turn(now_ps, carried_bytes) | any))
    }

    /// Sleeps until something is due, a driver rings, or a TAP of an idle port has a packet.
    fn sleep(&mut self) -> io::Result<()> {
        let now_ps = self.clock.now_ps();
        let Self { segments, epoll, .. } = self;
        let due_ps =
            segments.values_mut().map(|segment| segment.due_ps(now_ps)).fold(None, earlier);
        for device in segments.values_mut().flat_map(Segment::devices) {
            let interface = device.interface();
            // a port whose link is busy has a time at which it is looked at
            if interface.shared.wants_doorbell.load(Ordering::Relaxed) {
                for polled in interface.polled() {
                    polled.arm(epoll).map_err(io::Error::other)?;
                }
            }
        }
        let timeout_ns = due_ps.map(|due_ps| DeviceClock::ns_until(now_ps, due_ps));
        self.readable.clear();
        if timeout_ns.is_none_or(|ns| ns >= SPIN_NS) {
            self.wait(now_ps, timeout_ns)?;
        }
        // what was not watched may have come in the meantime
        for device in self.segments.values_mut().flat_map(Segment::devices) {
            device.interface().polled().for_each(|polled| polled.look_again());
        }
        Ok(())
    }

    /// Waits for the doorbell and the TAPs.
    fn wait(&mut self, now_ps: u64, timeout_ns: Option<u64>) -> io::Result<()> {
        self.looked_ps = now_ps;
        self.epoll.wait(&mut self.readable, timeout_ns)?;
        let Self { readable, taps, segments, .. } = self;
        for number in readable.numbers() {
            let Some(Place { segment, station }) = taps.get(&number).copied() else { continue };
            let Some(segment) = segments.get_mut(&segment) else { continue };
            let Some(device) = segment.device(station) else { continue };
            let mut polled = device.interface().polled();
            if let Some(polled) = polled.find(|polled| polled.number() == number) {
                polled.has_packet();
            }
        }
        Ok(())
    }
}
