//! The device threads of a testbed: one for each adapter CPU, started as segments need them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use linkrate_model::CpuSet;
use linkrate_model::measurement::ThreadTime;
use linkrate_sys::memory::keep_freed_memory;
use linkrate_sys::sched::{self, ThreadId};

use crate::AdapterError;
use crate::clock::DeviceClock;
use crate::engine::{Command, DOORBELL, Engine};
use crate::interface::doorbell::ThreadDoorbell;
use crate::segment::Segment;
use crate::threads::Thread;

/// The nice value of a device thread, where permitted: other programs of its CPU get a tenth of its
/// time at most while it has work. It still gives its CPU up by itself
/// ([`Engine::run`]).
const NICE: i32 = -10;

/// A device thread, as the controller holds it. It ends with its last handle.
#[derive(Debug)]
pub(crate) struct DeviceThread {
    cpu: u32,
    pub(crate) clock: DeviceClock,
    commands: Sender<Command>,
    pub(crate) doorbell: Arc<ThreadDoorbell>,
    thread: Thread,
    /// Segments that it serves.
    serves: AtomicUsize,
    segments: AtomicUsize,
    taps: AtomicU64,
}

impl DeviceThread {
    fn start(cpu: u32, clock: DeviceClock) -> Result<Self, AdapterError> {
        let doorbell = Arc::new(ThreadDoorbell::new()?);
        let (commands, to_engine) = channel();
        let engine = Engine::new(clock, Arc::clone(&doorbell), to_engine)?;
        let thread = Thread::start(format!("dev {cpu}"), move || {
            let cpus = CpuSet::from_iter([cpu]);
            sched::set_affinity(sched::current_thread(), &cpus).map_err(io::Error::other)?;
            sched::set_timer_slack_ns(1).map_err(io::Error::other)?;
            // it shares its CPU with clients: a thread that it wakes must not preempt it
            sched::become_batch().map_err(io::Error::other)?;
            // A thread that another program keeps from its CPU for some milliseconds makes a sender
            // probe for a loss that is none. Without the privilege it waits its turn as others do.
            let _ = sched::set_nice(NICE);
            engine.run()
        })?;
        let (serves, segments) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let taps = AtomicU64::new(DOORBELL + 1);
        Ok(Self { cpu, clock, commands, doorbell, thread, serves, segments, taps })
    }

    /// Fails when the thread has ended.
    pub(crate) fn send_command(&self, command: Command) -> Result<(), AdapterError> {
        self.commands.send(command).map_err(|_| AdapterError::Ended {
            why: self.why_ended().unwrap_or_else(|| format!("thread \"dev {}\" ends", self.cpu)),
        })?;
        self.doorbell.ring();
        Ok(())
    }

    /// Gives the thread something to do with a segment. Fails when it has ended.
    pub(crate) fn in_segment(
        &self,
        number: usize,
        work: impl FnOnce(&mut Segment) + Send + 'static,
    ) -> Result<(), AdapterError> {
        self.send_command(Command::InSegment(number, Box::new(work)))
    }

    /// A number for a TAP that the thread is to serve.
    pub(crate) fn next_tap(&self) -> u64 {
        self.taps.fetch_add(1, Ordering::Relaxed)
    }

    /// Why it has ended by itself, as a phrase; `None` while it runs.
    pub(crate) fn why_ended(&self) -> Option<String> {
        self.thread.why_ended()
    }

    /// A segment that it served is gone.
    pub(crate) fn released(&self) {
        self.serves.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for DeviceThread {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::End);
        self.doorbell.ring();
        // no caller is left for an error
        let _ = self.thread.join();
    }
}

/// All device threads of a testbed.
#[derive(Debug)]
pub struct DeviceThreads {
    cpus: Vec<u32>,
    clock: DeviceClock,
    threads: Vec<Arc<DeviceThread>>,
}

impl DeviceThreads {
    /// Device threads for these CPUs, each of which starts with its first segment.
    #[must_use]
    pub fn new(cpus: &CpuSet) -> Self {
        keep_freed_memory();
        Self { cpus: cpus.iter().collect(), clock: DeviceClock::start(), threads: Vec::new() }
    }

    /// The thread that serves the fewest segments, and a number for one more. Fails when a thread cannot be started
    /// or placed.
    pub(crate) fn next_segment(&mut self) -> Result<(Arc<DeviceThread>, usize), AdapterError> {
        let served = |thread: &Arc<DeviceThread>| thread.serves.load(Ordering::Relaxed);
        let idlest = self.threads.iter().min_by_key(|thread| served(thread));
        let thread = match idlest {
            Some(thread) if served(thread) == 0 || self.threads.len() >= self.cpus.len() => {
                Arc::clone(thread)
            }
            _ => {
                let cpu = self.cpus.get(self.threads.len()).copied().unwrap_or(0);
                let thread = Arc::new(DeviceThread::start(cpu, self.clock)?);
                self.threads.push(Arc::clone(&thread));
                thread
            }
        };
        thread.serves.fetch_add(1, Ordering::Relaxed);
        let number = thread.segments.fetch_add(1, Ordering::Relaxed);
        Ok((thread, number))
    }

    /// CPU time of each thread so far.
    #[must_use]
    pub fn times(&self) -> Vec<ThreadTime> {
        self.threads.iter().filter_map(|thread| thread.thread.time()).collect()
    }

    /// Kernel ids of the threads.
    pub fn ids(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.threads.iter().map(|thread| thread.thread.id())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::mpsc::{TryRecvError, sync_channel};
    use std::time::{Duration, Instant};

    use linkrate_model::BitRate;

    use super::*;
    use crate::engine::Place;
    use crate::fabric::{self, InFlight};
    use crate::link::LinkSpec;
    use crate::pdu::Pdu;

    /// A fabric that panics when it is served.
    #[derive(Debug)]
    pub(crate) struct Broken;

    impl fabric::Fabric for Broken {
        fn attach(&mut self, _port: usize, _link: LinkSpec, _switch: usize) {}
        fn detach(&mut self, _port: usize) {}
        fn set_link(&mut self, _port: usize, _rate: Option<BitRate>, _up: bool) {}
        fn cut(&mut self, _port: usize, _now_ps: u64) {}
        fn enter(&mut self, _from: usize, _pdu: Pdu, _at_ps: u64) {}
        fn forward(&mut self, _now_ps: u64) -> bool {
            panic!("this fabric is broken")
        }
        fn to(&mut self, _to: usize) -> Option<&mut InFlight> {
            None
        }
    }

    #[test]
    fn a_device_thread_that_dies_says_why_to_whoever_uses_it() {
        let cpu = sched::affinity(sched::current_thread()).unwrap().iter().next().unwrap();
        let thread = DeviceThread::start(cpu, DeviceClock::start()).unwrap();
        assert_eq!(thread.why_ended(), None);
        thread.send_command(Command::AddSegment(0, Box::new(Broken))).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while thread.why_ended().is_none() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
        let why = format!("thread \"dev {cpu}\" has ended: panic: this fabric is broken");
        assert_eq!(thread.why_ended(), Some(why.clone()));
        let refused = thread.send_command(Command::RemoveSegment(0)).unwrap_err();
        assert_eq!(refused.to_string(), why);
    }

    #[test]
    fn a_command_that_meets_a_thread_on_its_way_to_sleep_is_obeyed() {
        let cpu = sched::affinity(sched::current_thread()).unwrap().iter().next().unwrap();
        let thread = DeviceThread::start(cpu, DeviceClock::start()).unwrap();
        let place = Place { segment: 7, station: 0 };
        for round in 0..20_000 {
            // the second one comes while the thread goes back to sleep after the first one
            let [(first, begun), (second, answered)] = [sync_channel(1), sync_channel(1)];
            thread.send_command(Command::Detach(place, first)).unwrap();
            while begun.try_recv() == Err(TryRecvError::Empty) {
                std::hint::spin_loop();
            }
            (0..round % 64).for_each(|_| std::hint::spin_loop());
            thread.send_command(Command::Detach(place, second)).unwrap();
            assert!(answered.recv_timeout(Duration::from_secs(5)).is_ok(), "round {round}");
        }
    }
}
