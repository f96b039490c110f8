//! What joins ports: a cable or a switch, and the device thread that serves the ports on it.
//!
//! One thread serves all ports of a wire, so that a frame crosses it without a lock. It keeps the
//! device's time: every frame has the time at which its last bit is on the link, however late the
//! thread itself comes to it.

mod cable;
mod engine;
pub mod faults;
mod flight;
mod switch;
pub mod vlans;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkrate_sys::error::SysError;
use linkrate_sys::memory::keep_freed_memory;
use linkrate_sys::sched::{self, ThreadId};
use linkrate_terms::measurement::ThreadTime;
use linkrate_terms::{CpuSet, PortKnobs};
use rtrb::RingBuffer;

use crate::bus::Bus;
use crate::clock::DeviceClock;
use crate::counters::{Snapshot, SwitchCounters};
use crate::driver::Driver;
use crate::port::{DevicePort, PortLimits, PortShared};
use crate::ring::{QueueShared, Waker};
use engine::{Command, Engine};
pub use faults::Faults;
pub use vlans::Vlans;

/// Places for changes of the steering table between a driver and its device.
const STEERING_UPDATES: usize = 256;

/// How long a thread may take to start.
const PATIENCE: Duration = Duration::from_secs(5);

/// What joins the ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireKind {
    /// Two ports, back to back.
    Cable,
    /// Any number of ports on a learning switch.
    Switch,
}

/// Why a wire or a port could not be made.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The kernel refused.
    #[error(transparent)]
    System(#[from] SysError),
    /// A thread could not be started, or a file not be written.
    #[error("{what}: {cause}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        cause: io::Error,
    },
    /// A cable has two ends.
    #[error("a cable joins 2 ports, and port {name} would be number 3")]
    CableFull {
        /// The port.
        name: String,
    },
    /// A cable has no VLANs of its own.
    #[error("port {name} is on a cable, and only a switch has VLANs")]
    NoSwitch {
        /// The port.
        name: String,
    },
    /// The device thread has ended.
    #[error("the device thread of wire {wire} has ended")]
    Ended {
        /// The wire.
        wire: String,
    },
}

/// A port to be attached.
#[derive(Debug)]
pub struct PortSpec {
    /// The name of its interface.
    pub name: String,
    /// The TAP's queues, one for each queue pair.
    pub queues: Vec<OwnedFd>,
    /// What it is made like.
    pub limits: PortLimits,
    /// What it has set.
    pub knobs: PortKnobs,
    /// The bus of its adapter.
    pub bus: Option<Arc<Bus>>,
    /// The host's CPUs, on which its drivers run.
    pub driver_cpus: CpuSet,
    /// Whether its drivers share their CPUs with the device, and are to wait for it to finish when
    /// it wakes them.
    pub drivers_wait: bool,
}

/// A port on a wire. Dropping it ends its drivers, and with the last handle its interface goes.
#[derive(Debug)]
pub struct Port {
    /// What is known of it and may be set.
    pub shared: Arc<PortShared>,
    number: usize,
    queues: Vec<Arc<QueueShared>>,
    /// The switch's port that it leads to.
    switch: Option<SwitchEnd>,
    drivers: Vec<Thread>,
    commands: Sender<Command>,
    doorbell: Arc<Waker>,
}

/// A port of a switch, as who looks at it knows it.
#[derive(Debug, Default)]
struct SwitchEnd {
    vlans: Mutex<Vlans>,
    counters: Arc<SwitchCounters>,
}

/// A thread with its name and kernel id.
#[derive(Debug)]
struct Thread {
    name: String,
    id: ThreadId,
    handle: Option<JoinHandle<io::Result<()>>>,
}

impl Thread {
    /// Starts `run` and waits until its id is known.
    fn start(
        name: String,
        run: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<Self, WireError> {
        let id = Arc::new(AtomicI32::new(0));
        let tell = Arc::clone(&id);
        let handle = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                tell.store(sched::current_thread(), Ordering::Release);
                run()
            })
            .map_err(|cause| WireError::Io { what: format!("start thread {name}"), cause })?;
        let deadline = Instant::now() + PATIENCE;
        while id.load(Ordering::Acquire) == 0 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        Ok(Self { name, id: id.load(Ordering::Acquire), handle: Some(handle) })
    }

    fn time(&self) -> Option<ThreadTime> {
        Some(ThreadTime {
            name: self.name.clone(),
            affinity: sched::affinity(self.id).ok()?,
            cpu_ns: sched::thread_cpu_ns(self.id).ok()?,
            user_ns: sched::thread_user_ns(self.id).ok()?,
        })
    }

    fn has_ended(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn join(&mut self) -> io::Result<()> {
        match self.handle.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other(format!("thread {} panicked", self.name))),
            None => Ok(()),
        }
    }
}

impl Port {
    /// Every counter, the drivers' together.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        let mut all = self.shared.counters();
        for queue in &self.queues {
            for (name, value) in queue.counters.values() {
                *all.entry(name.to_owned()).or_default() += value;
            }
        }
        let switch = self.switch.iter().flat_map(|end| end.counters.values());
        all.extend(switch.map(|(name, value)| (name.to_owned(), value)));
        all
    }

    /// CPU time of its driver threads so far.
    #[must_use]
    pub fn driver_times(&self) -> Vec<ThreadTime> {
        self.drivers.iter().filter_map(Thread::time).collect()
    }

    /// Kernel ids of its driver threads.
    pub fn driver_ids(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.drivers.iter().map(|driver| driver.id)
    }

    /// Whether a driver has ended by itself: its interface is gone.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.drivers.iter().any(Thread::has_ended)
    }

    /// Sets its knobs while traffic flows.
    pub fn set_knobs(&self, knobs: PortKnobs) {
        self.shared.set_knobs(knobs);
        self.doorbell.wake();
    }

    /// What the switch's port that it leads to is a member of; `None` on a cable.
    #[must_use]
    pub fn vlans(&self) -> Option<Vlans> {
        let end = self.switch.as_ref()?;
        Some(end.vlans.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Makes the switch's port that it leads to a member of other VLANs, while traffic flows.
    ///
    /// # Errors
    /// It is on a cable, or the device thread has ended.
    pub fn set_vlans(&self, vlans: Vlans) -> Result<(), WireError> {
        let name = self.shared.name();
        let no_switch = || WireError::NoSwitch { name: name.to_owned() };
        let end = self.switch.as_ref().ok_or_else(no_switch)?;
        let command = Command::Vlans(self.number, vlans.clone(), Arc::clone(&end.counters));
        let ended = |_| WireError::Ended { wire: format!("of port {name}") };
        self.commands.send(command).map_err(ended)?;
        self.doorbell.wake();
        *end.vlans.lock().unwrap_or_else(PoisonError::into_inner) = vlans;
        Ok(())
    }

    /// Begins a capture of this port into a pcapng file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn start_capture(&self, path: &Path) -> Result<(), WireError> {
        self.shared.capture.start(path, self.shared.name()).map_err(|cause| WireError::Io {
            what: format!("write capture {}", path.display()),
            cause,
        })
    }

    /// Ends the capture, and says how many packets it has.
    ///
    /// # Errors
    /// The file could not be written to its end.
    pub fn stop_capture(&self) -> Result<u64, WireError> {
        self.shared
            .capture
            .stop()
            .map_err(|cause| WireError::Io { what: "write capture".to_owned(), cause })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.stop.store(true, Ordering::Relaxed);
            queue.interrupt.wake();
        }
        for driver in &mut self.drivers {
            // nobody is left to tell
            let _ = driver.join();
        }
        // a wire that has ended has no ports any more
        let _ = self.commands.send(Command::Detach(self.number));
        self.doorbell.wake();
        let _ = self.shared.capture.stop();
    }
}

/// A wire and its device thread.
#[derive(Debug)]
pub struct Wire {
    name: String,
    kind: WireKind,
    clock: DeviceClock,
    commands: Sender<Command>,
    doorbell: Arc<Waker>,
    device: Thread,
    attached: usize,
}

impl Wire {
    /// Starts the device thread of a wire without ports, on `cpus`.
    ///
    /// # Errors
    /// The thread cannot be started or placed.
    pub fn start(name: &str, kind: WireKind, cpus: &CpuSet) -> Result<Self, WireError> {
        keep_freed_memory();
        let clock = DeviceClock::start();
        let doorbell = Arc::new(Waker::new()?);
        let (commands, to_engine) = channel();
        let engine = Engine::new(kind, clock, Arc::clone(&doorbell), to_engine);
        let cpus = cpus.clone();
        let device = Thread::start(format!("dev {name}"), move || {
            sched::set_affinity(sched::current_thread(), &cpus).map_err(io::Error::other)?;
            sched::set_timer_slack_ns(1).map_err(io::Error::other)?;
            // it shares its CPUs with clients and their drivers: who wakes whom is to finish first
            sched::become_batch().map_err(io::Error::other)?;
            engine.run()
        })?;
        Ok(Self { name: name.to_owned(), kind, clock, commands, doorbell, device, attached: 0 })
    }

    /// Attaches a port, while others carry traffic, and starts its drivers.
    ///
    /// # Errors
    /// A cable is full, the device thread has ended, or a thread cannot be started.
    pub fn attach(&mut self, spec: PortSpec) -> Result<Port, WireError> {
        if self.kind == WireKind::Cable && self.attached == 2 {
            return Err(WireError::CableFull { name: spec.name });
        }
        let taps: io::Result<Vec<_>> = match spec.queues.len() {
            0 => Err(io::Error::new(io::ErrorKind::InvalidInput, "no queue")),
            _ => spec.queues.iter().map(OwnedFd::try_clone).collect(),
        };
        let taps = taps
            .map_err(|cause| WireError::Io { what: format!("attach port {}", spec.name), cause })?;
        let shared = Arc::new(PortShared::new(
            spec.name.clone(),
            spec.limits.rate,
            spec.knobs,
            taps.len(),
            taps,
        ));
        let (mut device_queues, mut queues, mut drivers) = (Vec::new(), Vec::new(), Vec::new());
        for (number, tap) in spec.queues.into_iter().enumerate() {
            let (tx, tx_device) = RingBuffer::new(spec.limits.transmit_ring);
            let (rx_device, rx) = RingBuffer::new(spec.limits.receive_ring);
            let (steering, steering_device) = RingBuffer::new(STEERING_UPDATES);
            let queue = Arc::new(QueueShared::new()?);
            device_queues.push(DevicePort::queue(
                tx_device,
                rx_device,
                steering_device,
                Arc::clone(&queue),
            ));
            let driver = Driver {
                tap,
                number: number as u16,
                tx,
                rx,
                steering,
                queue: Arc::clone(&queue),
                doorbell: Arc::clone(&self.doorbell),
                port: Arc::clone(&shared),
            };
            queues.push(queue);
            drivers.push(driver);
        }
        let number = self.attached;
        self.attached += 1;
        let device =
            DevicePort::new(Arc::clone(&shared), spec.limits, spec.bus, self.clock, device_queues);
        self.tell(Command::Attach(number, Box::new(device)))?;
        let switch = (self.kind == WireKind::Switch).then(SwitchEnd::default);
        if let Some(end) = &switch {
            let counters = Arc::clone(&end.counters);
            self.tell(Command::Vlans(number, Vlans::default(), counters))?;
        }
        let mut threads = Vec::new();
        for (queue, driver) in drivers.into_iter().enumerate() {
            let (cpus, waits) = (spec.driver_cpus.clone(), spec.drivers_wait);
            let name = format!("drv {}.{queue}", spec.name);
            threads.push(Thread::start(name, move || {
                if waits {
                    sched::become_batch().map_err(io::Error::other)?;
                }
                driver.run(&cpus)
            })?);
        }
        Ok(Port {
            shared,
            number,
            queues,
            switch,
            drivers: threads,
            commands: self.commands.clone(),
            doorbell: Arc::clone(&self.doorbell),
        })
    }

    /// Sets the faults of the wire.
    ///
    /// # Errors
    /// The device thread has ended.
    pub fn set_faults(&self, faults: Faults) -> Result<(), WireError> {
        self.tell(Command::Faults(Box::new(faults)))
    }

    /// CPU time of the device thread so far.
    #[must_use]
    pub fn device_time(&self) -> Option<ThreadTime> {
        self.device.time()
    }

    /// Kernel id of the device thread.
    #[must_use]
    pub fn device_id(&self) -> ThreadId {
        self.device.id
    }

    fn tell(&self, command: Command) -> Result<(), WireError> {
        let ended = |_| WireError::Ended { wire: self.name.clone() };
        self.commands.send(command).map_err(ended)?;
        self.doorbell.wake();
        Ok(())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::End);
        self.doorbell.wake();
        // nobody is left to tell
        let _ = self.device.join();
    }
}
