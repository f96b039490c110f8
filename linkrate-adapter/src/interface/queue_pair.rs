//! The driver's ends of the rings of one queue pair of a port.
//!
//! The driver of an ordinary interface has one queue pair. The driver of an aggregate has one queue
//! pair for each of its ports.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use linkrate_model::Steering;
use linkrate_sys::clock::monotonic_ns;
use linkrate_wire::frame::{Headers, tcp};
use rtrb::{Consumer, Producer};

use super::InterfaceShared;
use super::doorbell::ThreadDoorbell;
use super::flow_queue::{FlowQueue, HEADERS};
use super::host_end::HostEnd;
use super::rings::{MAX_BYTES, MAX_QUEUE, QueueShared, RxDescriptor, TxDescriptor};
use super::tx_revoke::Revoked;
use crate::frame::VNET_BYTES;

/// The driver tells the adapter the queue of a flow at each SYN, and with every packet of this
/// number on a queue.
const STEERING_SAMPLE: u64 = 20;

/// Delay of a device thread that its driver makes up for. After more, the line was idle: what came at
/// once after a machine stalled for long would be no rate of the line.
const MAX_LATE_NS: u64 = 20_000_000;

/// A flow's port and the queue that its received frames go to.
#[derive(Debug, Clone, Copy)]
pub struct SteeringUpdate {
    /// Destination port of the frames that the flow receives.
    pub port: u16,
    pub queue: u16,
}

/// A driver's ends of the rings to a device.
#[derive(Debug)]
pub(crate) struct DriverRings {
    pub(crate) tx: Producer<TxDescriptor>,
    pub(crate) rx: Consumer<RxDescriptor>,
    pub(crate) steering: Producer<SteeringUpdate>,
    /// Of a port of an aggregate: frames of its protocols, which wait behind no packet.
    pub(crate) control: Option<ControlRings>,
}

/// A driver's ends of the rings for frames of the protocols of an aggregate.
#[derive(Debug)]
pub(crate) struct ControlRings {
    pub(crate) tx: Producer<TxDescriptor>,
    pub(crate) rx: Consumer<RxDescriptor>,
}

/// The driver's end of one queue pair of a port.
#[derive(Debug)]
pub(crate) struct QueuePair {
    number: u16,
    rings: DriverRings,
    /// Shared with the device.
    queue: Arc<QueueShared>,
    doorbell: Arc<ThreadDoorbell>,
    interface: Arc<InterfaceShared>,
    /// Packets posted so far, and how many may be outstanding.
    posted: u64,
    ring: u64,
    /// Bytes of the packets posted so far.
    posted_bytes: u64,
    /// Packets that the ring had no room for.
    waiting: FlowQueue,
    /// Flows are leaving the port: packets that wait stay where they are until what was posted has left.
    is_held: bool,
    /// The driver waits until so many packets have left.
    mark: Option<u64>,
    /// Packets posted in this batch.
    batch: usize,
    /// The driver waited for completions when it looked before its sleep.
    waited: bool,
}

impl QueuePair {
    pub(crate) fn new(
        number: u16,
        rings: DriverRings,
        queue: Arc<QueueShared>,
        doorbell: Arc<ThreadDoorbell>,
        interface: Arc<InterfaceShared>,
    ) -> Self {
        let ring = rings.tx.slots() as u64;
        Self {
            number,
            rings,
            queue,
            doorbell,
            interface,
            posted: 0,
            ring,
            posted_bytes: 0,
            waiting: FlowQueue::new(MAX_QUEUE),
            is_held: false,
            mark: None,
            batch: 0,
            waited: false,
        }
    }

    /// Takes the next packet of the device.
    pub(crate) fn pop(&mut self) -> Option<RxDescriptor> {
        self.rings.rx.pop().ok()
    }

    /// Takes the next frame of the protocols of an aggregate.
    pub(crate) fn pop_control(&mut self) -> Option<RxDescriptor> {
        self.rings.control.as_mut()?.rx.pop().ok()
    }

    /// Posts a frame of the protocols of an aggregate, before all packets. False if there is no room.
    pub(crate) fn post_control(&mut self, descriptor: TxDescriptor) -> bool {
        let Some(control) = &mut self.rings.control else { return false };
        let posted = control.tx.push(descriptor).is_ok();
        // as after a batch of packets
        fence(Ordering::SeqCst);
        self.ring_doorbell();
        posted
    }

    /// Hands the packets that the host's end has queued, all of this device, to the host. Fails when the TAP is
    /// gone.
    pub(crate) fn hand_up(&self, host: &mut HostEnd) -> io::Result<()> {
        let done = host.hand_up()?;
        if done.refused > 0 {
            self.queue.counters.rx_refused.add(done.refused);
        }
        self.taken(done.frames);
        Ok(())
    }

    /// The device may use the places of so many frames again.
    pub(crate) fn taken(&self, frames: u64) {
        // only this thread writes it
        let consumed = self.queue.consumed.load(Ordering::Relaxed) + frames;
        self.queue.consumed.store(consumed, Ordering::Release);
    }

    /// Counts packets that were handed to the host.
    pub(crate) fn received(&self, count: usize) {
        self.queue.counters.rx_packets.add(count as u64);
    }

    /// Whether a packet can be posted.
    fn has_room(&self) -> bool {
        let outstanding = self.posted - self.queue.completed.load(Ordering::Acquire);
        let bytes = self.posted_bytes - self.queue.completed_bytes.load(Ordering::Relaxed);
        // on a slow link one packet may be more than the limit, and the next must be ready behind it
        let within_limit = bytes < self.interface.byte_limit.load(Ordering::Relaxed);
        outstanding < self.ring && (within_limit || outstanding < 2) && self.rings.tx.slots() > 0
    }

    /// Whether a packet has room. A driver of one port takes no other from the TAP.
    pub(crate) fn takes(&self) -> bool {
        self.waiting.has_room() && self.waiting.bytes() < MAX_BYTES
    }

    /// Posts a packet of the host, or lets it wait for room. One too many is lost; false then.
    pub(crate) fn send(&mut self, descriptor: TxDescriptor) -> bool {
        if self.waiting.is_empty() && self.has_room() {
            self.post(descriptor);
            return true;
        }
        let has_room = self.takes();
        if has_room {
            self.waiting.push(descriptor);
        }
        has_room
    }

    /// Posts a packet of the host, for which there is room. The device begins at once, while the rest
    /// of the batch is fetched.
    fn post(&mut self, descriptor: TxDescriptor) {
        // the ring has as many places as descriptors may be outstanding
        let bytes = descriptor.length as u64;
        if self.rings.tx.push(descriptor).is_ok() {
            self.posted += 1;
            self.posted_bytes += bytes;
            self.batch += 1;
            self.ring_doorbell();
        }
    }

    /// Posts packets that waited, as many as there is room for. Says how many.
    pub(crate) fn post_waiting(&mut self) -> usize {
        let mut count = 0;
        let mut room_ns = None;
        while !self.is_held
            && !self.waiting.is_empty()
            && self.has_room()
            && let Some(descriptor) = self.waiting.pop()
        {
            // its time on the link begins when there was room for it, not when the host sent it
            let room_ns = *room_ns.get_or_insert_with(|| self.room_since_ns());
            let posted_ns = descriptor.posted_ns.max(room_ns);
            self.post(TxDescriptor { posted_ns, ..descriptor });
            count += 1;
        }
        count
    }

    /// Lets packets that wait stay where they are, or continue.
    pub(crate) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Since when there is room in the ring for packets that waited. An adapter interrupts in time. A
    /// device thread that got no CPU in time tells how late it is, or its delay would leave the
    /// line idle.
    fn room_since_ns(&self) -> u64 {
        let late_ns = self.queue.late_ns.load(Ordering::Relaxed).min(MAX_LATE_NS);
        monotonic_ns().saturating_sub(late_ns)
    }

    /// Ends a batch of packets, after those that wait and have room now. The device may have begun to
    /// want the doorbell since. Either it sees what was posted, or this sees what it wants: both have
    /// a fence between their two steps.
    pub(crate) fn end_batch(&mut self) {
        self.post_waiting();
        if self.batch > 0 {
            fence(Ordering::SeqCst);
            self.ring_doorbell();
            self.queue.counters.tx_packets.add(std::mem::take(&mut self.batch) as u64);
        }
    }

    pub(crate) fn take_waiting(&mut self) -> impl Iterator<Item = TxDescriptor> + use<> {
        self.waiting.take_all()
    }

    /// Removes and returns the queued packets for which `is_meant` is true.
    pub(crate) fn take_waiting_of(
        &mut self,
        is_meant: impl Fn(&TxDescriptor) -> bool,
    ) -> Vec<TxDescriptor> {
        self.waiting.take(is_meant)
    }

    /// Whether the device asks back packets of a connection that moves.
    pub(crate) fn is_revoking(&self) -> bool {
        self.interface.revocations.latest() != self.queue.revoked_to.load(Ordering::Relaxed)
    }

    /// Revokes packets that the device asks back. What the host has sent for their connection was taken from the
    /// TAP before.
    pub(crate) fn revoke(&mut self) {
        let revocations = &self.interface.revocations;
        let latest = revocations.latest();
        if let Some(ends) = revocations.connection() {
            let mut revoked = Revoked::new(ends);
            self.waiting.revoke(&mut revoked);
            revocations.add(revoked);
        }
        self.queue.revoked_to.store(latest, Ordering::Release);
    }

    /// Marks what was posted so far: the driver wants to know when it has left.
    pub(crate) fn mark(&mut self) {
        self.mark = Some(self.posted);
    }

    pub(crate) fn unmark(&mut self) {
        self.mark = None;
    }

    /// Whether everything has left that was posted before the mark; `None` without one.
    pub(crate) fn has_passed_mark(&self) -> Option<bool> {
        self.mark.map(|mark| self.queue.completed.load(Ordering::Acquire) >= mark)
    }

    fn ring_doorbell(&self) {
        if self.interface.wants_doorbell.load(Ordering::Relaxed) && self.doorbell.wake() {
            self.queue.counters.doorbells.add(1);
        }
    }

    /// Whether the next completions are news for the driver.
    fn awaits_completions(&self) -> bool {
        let awaits_mark = self.has_passed_mark() == Some(false);
        awaits_mark
            || match self.is_held {
                true => !self.has_left(),
                false => !self.waiting.is_empty(),
            }
    }

    /// Whether everything that was sent has left.
    pub(crate) fn is_drained(&self) -> bool {
        self.waiting.is_empty() && self.has_left()
    }

    /// Whether everything that was posted has left. Packets may wait for room.
    pub(crate) fn has_left(&self) -> bool {
        self.posted == self.queue.completed.load(Ordering::Acquire)
    }

    pub(crate) fn budget_spent(&self) {
        self.queue.counters.budgets.add(1);
    }

    /// The driver thread is about to sleep. Says whether it waits for no completion.
    pub(crate) fn will_sleep(&mut self) -> bool {
        self.waited = self.awaits_completions();
        self.queue.starved.store(self.waited, Ordering::Release);
        if self.waited {
            // A device that sleeps until somebody rings must know that this driver waits for
            // completions. One that wakes by itself, as while its link is busy, will see it.
            fence(Ordering::SeqCst);
            self.ring_doorbell();
        }
        self.queue.counters.sleeps.add(1);
        !self.waited
    }

    pub(crate) fn is_idle(&self) -> bool {
        let no_control = self.rings.control.as_ref().is_none_or(|control| control.rx.is_empty());
        let has_passed = self.has_passed_mark() == Some(true);
        let may_go_on = has_passed
            || match self.is_held {
                true => self.has_left(),
                false => !self.waiting.is_empty() && self.has_room(),
            };
        no_control && !self.is_revoking() && self.rings.rx.is_empty() && !(self.waited && may_go_on)
    }

    pub(crate) fn woken(&self) {
        self.queue.starved.store(false, Ordering::Release);
    }

    pub(crate) fn steers(&self) -> bool {
        self.interface.steers()
    }

    /// The flow of a packet of the host that the device must be told of, if it is the turn of this
    /// packet.
    pub(crate) fn steering(&self, descriptor: &TxDescriptor) -> Option<SteeringUpdate> {
        // short packets and the first bytes of long ones have all headers
        let length = descriptor.length;
        let head = descriptor.block.bytes(VNET_BYTES..length.min(VNET_BYTES + HEADERS));
        let tail = length.saturating_sub(VNET_BYTES + head.len());
        let headers = Headers::parse_parts(head, tail).ok()?;
        let flags = headers.tcp_flags(head)?;
        let is_due = self.posted.is_multiple_of(STEERING_SAMPLE) || flags & tcp::SYN != 0;
        let (port, _) = headers.ports(head).filter(|_| is_due)?;
        Some(SteeringUpdate { port, queue: self.number })
    }

    /// Tells the device the queue on which a flow is transmitted, so that it is received there too.
    pub(crate) fn steer(&mut self, update: SteeringUpdate) {
        // the table may miss an update; the next packets bring another
        if self.rings.steering.push(update).is_ok() {
            self.queue.counters.steering_updates.add(1);
        }
    }
}

/// Whether drivers tell the device the queues of their flows.
pub(crate) fn learns(steering: Steering, queues: usize) -> bool {
    steering == Steering::DestinationPort && queues > 1
}

#[cfg(test)]
pub(crate) mod tests {
    use linkrate_model::{BitRate, PortKnobs};
    use rtrb::RingBuffer;

    use super::*;
    use crate::interface::flow_queue::tests::packet;
    use crate::interface::tx_revoke::ConnectionEnds;

    /// A queue pair whose port has a link of this rate, with the device's end of the transmit ring.
    pub(crate) fn queue_pair(rate: Option<BitRate>) -> (QueuePair, Consumer<TxDescriptor>) {
        let (queue_pair, device, _) = queue_pair_both_directions(rate);
        (queue_pair, device)
    }

    /// The same, with the device's end of the receive ring too.
    pub(crate) fn queue_pair_both_directions(
        rate: Option<BitRate>,
    ) -> (QueuePair, Consumer<TxDescriptor>, Producer<RxDescriptor>) {
        let (tx, device) = RingBuffer::new(256);
        let (received, rx) = RingBuffer::new(256);
        let (steering, _) = RingBuffer::new(1);
        let rings = DriverRings { tx, rx, steering, control: None };
        let new_doorbell = || Arc::new(ThreadDoorbell::new().unwrap());
        let knobs = PortKnobs { tx_usecs: 250, ..PortKnobs::default() };
        let interface = InterfaceShared::new("eth0".to_owned(), &knobs, 1, Vec::new());
        interface.apply_settings(&knobs, rate);
        let queue = Arc::new(QueueShared::new(new_doorbell()));
        (QueuePair::new(0, rings, queue, new_doorbell(), Arc::new(interface)), device, received)
    }

    /// The device sends the next packet; how long it was.
    pub(crate) fn complete(queue_pair: &QueuePair, device: &mut Consumer<TxDescriptor>) -> usize {
        let done = device.pop().unwrap().length;
        queue_pair.queue.completed_bytes.fetch_add(done as u64, Ordering::Relaxed);
        queue_pair.queue.completed.fetch_add(1, Ordering::Release);
        done
    }

    #[test]
    fn the_ring_holds_four_interrupts_of_the_link() {
        // 1 ms of 1 Gb/s are 125,000 bytes
        let (mut queue_pair, mut device) = queue_pair(Some(BitRate(1e9)));
        for _ in 0..20 {
            assert!(queue_pair.send(packet(1, 30_000)));
        }
        queue_pair.end_batch();
        assert_eq!(device.slots(), 5);
        assert!(!queue_pair.will_sleep() && queue_pair.is_idle() && !queue_pair.is_drained());
        complete(&queue_pair, &mut device);
        assert!(!queue_pair.is_idle());
        assert_eq!((queue_pair.post_waiting(), device.slots()), (1, 5));
    }

    /// Although nothing waits for room.
    #[test]
    fn a_driver_that_waits_for_a_mark_is_woken_when_what_was_before_it_has_left() {
        let (mut queue_pair, mut device) = queue_pair(Some(BitRate(1e9)));
        assert!(queue_pair.has_passed_mark().is_none());
        (0..2).for_each(|_| assert!(queue_pair.send(packet(1, 1500))));
        queue_pair.mark();
        assert!(queue_pair.send(packet(1, 1500)));
        queue_pair.end_batch();
        assert!(!queue_pair.will_sleep() && queue_pair.is_idle());
        complete(&queue_pair, &mut device);
        assert!(queue_pair.is_idle() && queue_pair.has_passed_mark() == Some(false));
        complete(&queue_pair, &mut device);
        assert!(!queue_pair.is_idle() && queue_pair.has_passed_mark() == Some(true));
        queue_pair.unmark();
        assert!(queue_pair.will_sleep() && queue_pair.is_idle());
    }

    #[test]
    fn a_device_thread_that_comes_late_leaves_no_gap_on_the_line() {
        let ms = 1_000_000;
        // the packet went when there was room for it, not before the host sent it, and not as if a
        // machine that stalled had sent all the time
        for (sent_before_ns, late_ns, posted_before_ns) in
            [(10 * ms, 3 * ms, 3 * ms), (100, 3 * ms, 100), (900 * ms, 800 * ms, MAX_LATE_NS)]
        {
            let (mut queue_pair, mut device) = queue_pair(Some(BitRate(1e6)));
            let before_ns = monotonic_ns();
            for _ in 0..3 {
                let posted_ns = before_ns - sent_before_ns;
                assert!(queue_pair.send(TxDescriptor { posted_ns, ..packet(1, 1500) }));
            }
            complete(&queue_pair, &mut device);
            queue_pair.queue.late_ns.store(late_ns, Ordering::Relaxed);
            assert_eq!(queue_pair.post_waiting(), 1);
            device.pop().unwrap();
            let at_ns = device.pop().unwrap().posted_ns;
            let between = before_ns - posted_before_ns..=monotonic_ns() - posted_before_ns;
            assert!(between.contains(&at_ns), "{late_ns}: {at_ns}, not in {between:?}");
        }
    }

    #[test]
    fn a_driver_that_is_asked_for_packets_is_not_idle_until_it_has_answered() {
        let (mut queue_pair, device) = queue_pair(Some(BitRate(1e6)));
        (0..5).for_each(|_| assert!(queue_pair.send(packet(1, 1500))));
        (0..2).for_each(|_| assert!(queue_pair.send(packet(2, 1500))));
        queue_pair.end_batch();
        queue_pair.will_sleep();
        assert!(queue_pair.is_idle() && !queue_pair.is_revoking());
        let end = |last, port| std::net::SocketAddr::new([10, 0, 0, last].into(), port);
        let ends = ConnectionEnds { own: end(1, 0x8001), far: end(2, 5000) };
        queue_pair.interface.revocations.begin(ends);
        assert!(!queue_pair.is_idle() && queue_pair.is_revoking());
        queue_pair.revoke();
        assert!(queue_pair.is_idle() && !queue_pair.is_revoking());
        // two are in the ring; those of the other flow wait on
        let waits: Vec<_> = queue_pair.take_waiting().collect();
        assert_eq!((device.slots(), waits.len()), (2, 2));
    }

    #[test]
    fn a_second_packet_is_always_ready_on_a_slow_link() {
        let (mut queue_pair, device) = queue_pair(Some(BitRate(1e6)));
        (0..5).for_each(|_| assert!(queue_pair.send(packet(1, 1500))));
        assert_eq!(device.slots(), 2);
    }

    #[test]
    fn without_a_rate_the_ring_is_the_limit() {
        let (mut queue_pair, device) = queue_pair(None);
        (0..300).for_each(|_| assert!(queue_pair.send(packet(1, 60_000))));
        assert_eq!(device.slots(), 256);
    }

    #[test]
    fn a_flow_with_little_to_send_passes_those_that_wait() {
        let (mut queue_pair, mut device) = queue_pair(Some(BitRate(1e9)));
        (0..20).for_each(|_| assert!(queue_pair.send(packet(1, 30_000))));
        assert!(queue_pair.send(packet(2, 100)));
        (0..3).for_each(|_| assert_eq!(complete(&queue_pair, &mut device), 30_000));
        queue_pair.post_waiting();
        // the first turn of the busy flow was under way; then comes the other
        let next: Vec<usize> = std::iter::from_fn(|| device.pop().ok()).map(|d| d.length).collect();
        assert_eq!(next, [30_000, 30_000, 30_000, 30_000, 100, 30_000]);
    }

    #[test]
    fn long_packets_wait_in_the_tap() {
        let (mut queue_pair, _device) = queue_pair(Some(BitRate(1e6)));
        let taken = (0..1000)
            .take_while(|_| queue_pair.takes() && queue_pair.send(packet(1, 64_000)))
            .count();
        assert_eq!(taken, 2 + MAX_BYTES.div_ceil(64_000));
    }

    #[test]
    fn long_packets_before_a_port_of_an_aggregate_are_bounded_in_bytes() {
        let (mut queue_pair, _device) = queue_pair(Some(BitRate(1e6)));
        let sent = (0..1000).filter(|_| queue_pair.send(packet(1, 64_000))).count();
        assert_eq!(sent, 2 + MAX_BYTES.div_ceil(64_000));
    }

    #[test]
    fn a_packet_too_many_is_lost_and_said_to_be() {
        let (mut queue_pair, _device) = queue_pair(Some(BitRate(1e6)));
        let sent = (0..MAX_QUEUE + 10).filter(|_| queue_pair.send(packet(1, 1500))).count();
        assert_eq!(sent, MAX_QUEUE + 2);
        assert!(!queue_pair.takes());
        assert_eq!(queue_pair.take_waiting().count(), MAX_QUEUE);
        assert!(queue_pair.takes());
    }
}
