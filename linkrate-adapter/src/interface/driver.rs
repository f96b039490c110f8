//! Drivers and their threads. A host has a driver thread for each of its CPUs, which polls all queues whose
//! interrupts go to that CPU, as the network softirq of a CPU polls its list of NAPI instances: in batches, as long
//! as there is work.
//!
//! The driver of one queue moves packets between the TAP and rings, and does nothing else. Reading the TAP stands for
//! taking a packet off the queue discipline; writing it runs the host's receive processing in the calling thread. The
//! interface is that of one port, or that of an aggregate, whose driver has the rings of several ports ([`TxSink`]).

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::Duration;

use linkrate_model::CpuSet;
use linkrate_model::driver_counts::DriverCounts;
use linkrate_model::measurement::ThreadTime;
use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::epoll::{Epoll, Readable, Watch};
use linkrate_sys::sched::{self, ThreadId};

use super::InterfaceShared;
use super::doorbell::ThreadDoorbell;
use super::host_end::{HostEnd, ThreadCounters, WEIGHT};
use super::napi::{Napi, Priority, ReportedPriority};
use super::queue_pair::QueuePair;
use crate::AdapterError;
use crate::threads::Thread;

/// The number of the interrupt in the wait; queues have others.
const INTERRUPT: u64 = 0;

/// How long a driver thread may take to let a queue go.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where a driver's packets go: one port, or the ports of an aggregate.
pub(crate) trait TxSink: fmt::Debug + Send {
    /// Moves at most NAPI's weight of packets in each direction. Says how many.
    fn poll(&mut self, host: &mut HostEnd) -> io::Result<usize>;

    /// The driver thread spent its budget.
    fn budget_spent(&self);

    /// The driver thread is about to sleep. Says whether a packet of the host can be taken.
    fn will_sleep(&mut self) -> bool;

    /// Whether there is still nothing to do.
    fn is_idle(&self) -> bool;

    /// When it must be polled even if nothing arrives and nothing is sent, CLOCK_MONOTONIC ns.
    fn due_ns(&self) -> Option<u64> {
        None
    }

    /// The driver thread is awake again.
    fn woken(&self);

    /// Adds a port of an aggregate.
    fn add(&mut self, _member: usize, _queue_pair: QueuePair) {}

    /// Removes a port of an aggregate. Packets that wait for it go to the others.
    fn remove(&mut self, _member: usize) {}

    /// Whether everything that was posted to a port of an aggregate has left, and nothing waits for it.
    fn is_drained(&self, _member: usize) -> bool {
        true
    }
}

#[derive(Debug)]
pub(crate) struct PortSink(pub(crate) QueuePair);

impl TxSink for PortSink {
    fn poll(&mut self, host: &mut HostEnd) -> io::Result<usize> {
        let queue_pair = &mut self.0;
        let mut received = 0;
        while received < WEIGHT {
            let Some(descriptor) = queue_pair.pop() else { break };
            received += 1;
            host.queue(descriptor);
        }
        if received > 0 {
            queue_pair.hand_up(host)?;
            queue_pair.received(received);
            // what the host sends in return, acknowledgements above all, is in the TAP by now
            host.may_have = true;
        }
        let waited = queue_pair.post_waiting();
        let is_revoking = queue_pair.is_revoking();
        host.may_have |= is_revoking;
        let mut sent = 0;
        while host.may_have && sent < WEIGHT && queue_pair.takes() {
            let Some(descriptor) = host.read()? else {
                host.may_have = false;
                break;
            };
            if queue_pair.steers()
                && let Some(update) = queue_pair.steering(&descriptor)
            {
                queue_pair.steer(update);
            }
            queue_pair.send(descriptor);
            sent += 1;
        }
        if is_revoking && !(host.may_have && queue_pair.takes()) {
            queue_pair.revoke();
        }
        queue_pair.end_batch();
        Ok(received + waited + sent)
    }

    fn budget_spent(&self) {
        self.0.budget_spent();
    }

    fn will_sleep(&mut self) -> bool {
        self.0.will_sleep()
    }

    fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    fn woken(&self) {
        self.0.woken();
    }
}

#[derive(Debug)]
pub(crate) struct Driver {
    host: HostEnd,
    sink: Box<dyn TxSink>,
    interface: Arc<InterfaceShared>,
    /// A packet of the host can be posted, or kept for a port.
    had_room: bool,
    /// A packet of the host wakes the driver thread.
    watched: bool,
    /// The TAP is gone.
    broken: bool,
}

impl Driver {
    /// The driver between a queue of a TAP and `sink`.
    pub(crate) fn new(
        tap: OwnedFd,
        sink: Box<dyn TxSink>,
        interface: Arc<InterfaceShared>,
    ) -> Self {
        let host = HostEnd::new(tap);
        Self { host, sink, interface, had_room: true, watched: true, broken: false }
    }

    /// Lets its packets be counted there from now on.
    pub(crate) fn count_in(&mut self, counters: Arc<ThreadCounters>) {
        self.host.counters = counters;
    }

    pub(crate) fn tap(&self) -> BorrowedFd<'_> {
        self.host.tap.as_fd()
    }

    pub(crate) fn poll(&mut self) -> usize {
        if self.broken {
            return 0;
        }
        self.sink.poll(&mut self.host).unwrap_or_else(|_| {
            self.fail();
            0
        })
    }

    /// The TAP is gone: whoever looks at the interface learns it.
    pub(crate) fn fail(&mut self) {
        self.broken = true;
        self.interface.broken.store(true, Ordering::Relaxed);
    }

    pub(crate) fn budget_spent(&self) {
        self.sink.budget_spent();
    }

    pub(crate) fn will_sleep(&mut self) {
        self.had_room = self.sink.will_sleep();
    }

    /// Whether the TAP shall wake the driver thread during the coming sleep; `None` if that stays as
    /// it was. While there is no room, a packet of the host has nowhere to go: only the device's next
    /// completion wakes the thread.
    pub(crate) fn watch_tap(&mut self) -> Option<bool> {
        let before = std::mem::replace(&mut self.watched, self.had_room);
        (before != self.watched).then_some(self.watched)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.broken || self.sink.is_idle()
    }

    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.sink.due_ns()
    }

    /// The driver thread is awake again, `readable` if because of this TAP.
    pub(crate) fn woken(&mut self, readable: bool) {
        self.host.may_have |= readable;
        self.sink.woken();
    }
}

/// What is done with the ports of a queue.
type InSink = Box<dyn FnOnce(&mut dyn TxSink) + Send>;

/// What a driver thread is told.
enum Command {
    /// A queue to poll from now on, and its number.
    Add(u64, Box<Driver>),
    /// The queue of that number is gone; the answer says that the thread holds nothing of it.
    Remove(u64, SyncSender<()>),
    /// Something to be done with the ports of the queue of that number.
    InSink(u64, InSink),
    End,
}

/// A driver thread, as the controller holds it.
#[derive(Debug)]
struct DriverThread {
    commands: Sender<Command>,
    interrupt: Arc<ThreadDoorbell>,
    counters: Arc<ThreadCounters>,
    thread: Thread,
}

impl DriverThread {
    fn start(
        cpu: u32,
        shares_device_cpus: bool,
        report: Arc<ReportedPriority>,
    ) -> Result<Self, AdapterError> {
        let interrupt = Arc::new(ThreadDoorbell::new()?);
        let (commands, received) = channel();
        let epoll = Epoll::new()?;
        epoll.add(interrupt.as_fd(), INTERRUPT, Watch::Always)?;
        let counters = Arc::new(ThreadCounters::default());
        let mut poll = Poll {
            commands: received,
            counters: Arc::clone(&counters),
            interrupt: Arc::clone(&interrupt),
            epoll,
            readable: Readable::default(),
            drivers: Vec::new(),
        };
        let thread = Thread::start(format!("drv {cpu}"), move || {
            let cpus = CpuSet::from_iter([cpu]);
            sched::set_affinity(sched::current_thread(), &cpus).map_err(io::Error::other)?;
            sched::set_timer_slack_ns(1).map_err(io::Error::other)?;
            let napi = Napi::begin(shares_device_cpus);
            report.report(napi.priority());
            poll.run(napi)
        })?;
        Ok(Self { commands, interrupt, counters, thread })
    }

    fn send_command(&self, command: Command) -> bool {
        let report = self.commands.send(command).is_ok();
        self.interrupt.ring();
        report
    }
}

impl Drop for DriverThread {
    fn drop(&mut self) {
        self.send_command(Command::End);
        // no caller is left to tell
        let _ = self.thread.join();
    }
}

/// All driver threads of a host. They end with the last handle.
#[derive(Debug, Clone)]
pub struct DriverThreads(Arc<All>);

#[derive(Debug)]
struct All {
    threads: Vec<DriverThread>,
    /// Queues so far; the next goes to the next CPU.
    queues: AtomicUsize,
    /// The number of the next queue in the wait of its thread.
    numbers: AtomicU64,
    told: Arc<ReportedPriority>,
}

/// A queue in the hands of a driver thread. It leaves with this handle.
#[derive(Debug)]
pub(crate) struct DrivenQueue {
    all: Arc<All>,
    thread: usize,
    number: u64,
}

impl DriverThreads {
    /// Starts a thread on each of `cpus`. Where the device has the same CPUs, drivers give way to it. Fails when a
    /// thread cannot be started or placed.
    pub fn start(cpus: &CpuSet, shares_device_cpus: bool) -> Result<Self, AdapterError> {
        let report = Arc::new(ReportedPriority::default());
        let start = |cpu| DriverThread::start(cpu, shares_device_cpus, Arc::clone(&report));
        let threads = cpus.iter().map(start).collect::<Result<_, _>>()?;
        let (queues, numbers) = (AtomicUsize::new(0), AtomicU64::new(INTERRUPT + 1));
        Ok(Self(Arc::new(All { threads, queues, numbers, told: report })))
    }

    /// CPU time of each thread so far.
    #[must_use]
    pub fn times(&self) -> Vec<ThreadTime> {
        self.0.threads.iter().filter_map(|driver| driver.thread.time()).collect()
    }

    /// The counts of all threads so far.
    #[must_use]
    pub fn counts(&self) -> DriverCounts {
        let calls = self.0.threads.iter().map(|driver| driver.counters.get());
        calls.reduce(DriverCounts::plus).unwrap_or_default()
    }

    /// Kernel ids of the threads.
    pub fn ids(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.0.threads.iter().map(|driver| driver.thread.id())
    }

    /// How the threads run; `None` before one of them does.
    #[must_use]
    pub fn priority(&self) -> Option<Priority> {
        self.0.told.priority()
    }

    /// The thread for the next queue, and that thread's interrupt.
    pub(crate) fn next(&self) -> (usize, Arc<ThreadDoorbell>) {
        let thread = self.0.queues.fetch_add(1, Ordering::Relaxed) % self.0.threads.len().max(1);
        (thread, Arc::clone(&self.0.threads[thread].interrupt))
    }

    /// Hands a queue to the thread that [`next`](Self::next) named.
    pub(crate) fn add(&self, thread: usize, mut driver: Driver) -> DrivenQueue {
        driver.count_in(Arc::clone(&self.0.threads[thread].counters));
        let number = self.0.numbers.fetch_add(1, Ordering::Relaxed);
        self.0.threads[thread].send_command(Command::Add(number, Box::new(driver)));
        DrivenQueue { all: Arc::clone(&self.0), thread, number }
    }
}

impl DrivenQueue {
    /// The thread that serves it, as an index among those of the host.
    pub(crate) fn thread(&self) -> usize {
        self.thread
    }

    /// Why the queue's driver thread has ended by itself, as a phrase; `None` while it runs.
    pub(crate) fn why_ended(&self) -> Option<String> {
        self.all.threads[self.thread].thread.why_ended()
    }

    /// What wakes the thread.
    pub(crate) fn interrupt(&self) -> &Arc<ThreadDoorbell> {
        &self.all.threads[self.thread].interrupt
    }

    /// Gives the queue, of an aggregate, the queue pair of its port `member`.
    pub(crate) fn add_queue_pair(&self, member: usize, queue_pair: QueuePair) {
        self.in_sink(move |sink| sink.add(member, queue_pair));
    }

    /// Takes the queue pair of port `member` from the queue, of an aggregate.
    pub(crate) fn remove_queue_pair(&self, member: usize) {
        let (answer, answered) = sync_channel(1);
        let told = self.in_sink(move |sink| {
            sink.remove(member);
            // a port that no longer waits has given up
            let _ = answer.try_send(());
        });
        if told {
            let _ = answered.recv_timeout(TIMEOUT);
        }
    }

    /// Whether everything that the queue, of an aggregate, posted to port `member` has left.
    pub(crate) fn is_drained(&self, member: usize) -> bool {
        let (answer, answered) = sync_channel(1);
        let told = self.in_sink(move |sink| _ = answer.try_send(sink.is_drained(member)));
        // a thread that has ended posts nothing
        !told || answered.recv_timeout(TIMEOUT).unwrap_or(true)
    }

    /// Lets the thread do something with the queue's ports. False when it has ended.
    fn in_sink(&self, work: impl FnOnce(&mut dyn TxSink) + Send + 'static) -> bool {
        self.all.threads[self.thread].send_command(Command::InSink(self.number, Box::new(work)))
    }
}

impl Drop for DrivenQueue {
    fn drop(&mut self) {
        let (answer, answered) = sync_channel(1);
        let thread = &self.all.threads[self.thread];
        if thread.send_command(Command::Remove(self.number, answer)) {
            let _ = answered.recv_timeout(TIMEOUT);
        }
    }
}

/// What one driver thread works with.
#[derive(Debug)]
struct Poll {
    commands: Receiver<Command>,
    counters: Arc<ThreadCounters>,
    interrupt: Arc<ThreadDoorbell>,
    epoll: Epoll,
    readable: Readable,
    drivers: Vec<(u64, Driver)>,
}

impl Poll {
    /// Polls until told to end.
    fn run(&mut self, mut napi: Napi) -> io::Result<()> {
        while self.handle_commands() {
            let mut packets = 0;
            for (_, driver) in &mut self.drivers {
                packets += driver.poll();
            }
            if packets == 0 {
                napi.rest();
                self.counters.sleeps.add(1);
                self.sleep()?;
            } else if napi.polled(packets) {
                self.drivers.iter().for_each(|(_, driver)| driver.budget_spent());
            }
        }
        Ok(())
    }

    /// Carries out what it was told. False at the end.
    fn handle_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Add(number, mut driver)) => {
                    // a TAP that cannot be watched is gone
                    if self.epoll.add(driver.tap(), number, Watch::Changes).is_err() {
                        driver.fail();
                    }
                    self.drivers.push((number, *driver));
                }
                Ok(Command::Remove(number, answer)) => {
                    if let Some(at) = self.drivers.iter().position(|(other, _)| *other == number) {
                        let (_, driver) = self.drivers.remove(at);
                        let _ = self.epoll.remove(driver.tap());
                    }
                    // a port that no longer waits has given up
                    let _ = answer.try_send(());
                }
                Ok(Command::InSink(number, work)) => {
                    let mut drivers = self.drivers.iter_mut();
                    if let Some((_, driver)) = drivers.find(|(other, _)| *other == number) {
                        work(driver.sink.as_mut());
                    }
                }
                Ok(Command::End) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    /// Sleeps until the device interrupts, a TAP has a packet, or a driver is due.
    fn sleep(&mut self) -> io::Result<()> {
        for (number, driver) in &mut self.drivers {
            driver.will_sleep();
            if let Some(on) = driver.watch_tap() {
                let watch = if on { Watch::Changes } else { Watch::Once };
                if self.epoll.change(driver.tap(), *number, watch).is_err() {
                    driver.fail();
                }
            }
        }
        self.interrupt.will_sleep();
        let idle = self.drivers.iter().all(|(_, driver)| driver.is_idle());
        let due_ns = self.drivers.iter().filter_map(|(_, driver)| driver.due_ns()).min();
        let timeout_ns = match (idle, due_ns) {
            (false, _) => Some(0),
            (true, None) => None,
            (true, Some(due_ns)) => Some(due_ns.saturating_sub(monotonic_ns())),
        };
        // commands come before the wake-up that announces them
        let slept = self.epoll.wait(&mut self.readable, timeout_ns);
        let readable = |number| self.readable.numbers().any(|readable| readable == number);
        if let Some(rung_ns) = self.interrupt.woken(readable(INTERRUPT)) {
            self.counters.interrupts.add(1);
            self.counters.interrupt_delay_ns.add(monotonic_ns().saturating_sub(rung_ns));
        }
        for (number, driver) in &mut self.drivers {
            driver.woken(readable(*number));
        }
        slept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_meets_a_thread_on_its_way_to_sleep_is_obeyed() {
        let cpus = sched::affinity(sched::current_thread()).unwrap();
        let drivers = DriverThreads::start(&CpuSet::from_iter(cpus.iter().next()), false).unwrap();
        let thread = &drivers.0.threads[0];
        for round in 0..20_000 {
            // the second one comes while the thread goes back to sleep after the first one
            let [(first, begun), (second, answered)] = [sync_channel(1), sync_channel(1)];
            thread.send_command(Command::Remove(u64::MAX, first));
            while begun.try_recv() == Err(TryRecvError::Empty) {
                std::hint::spin_loop();
            }
            (0..round % 64).for_each(|_| std::hint::spin_loop());
            thread.send_command(Command::Remove(u64::MAX, second));
            assert!(answered.recv_timeout(TIMEOUT).is_ok(), "round {round}");
        }
    }
}
