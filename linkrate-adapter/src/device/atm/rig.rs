//! ATM ports for tests, without TUNs and without threads: what their hosts post and get, and several of
//! them on a fabric in virtual time.

use std::sync::Arc;

use linkrate_model::PortKnobs;
use rtrb::{Consumer, Producer, RingBuffer};

use super::clients::Clients;
use super::{Atm, AtmLimits};
use crate::bus::Bus;
use crate::clock::DeviceClock;
use crate::device::{Device, Mount};
use crate::fabric::Fabric;
use crate::frame::Block;
use crate::interface::doorbell::ThreadDoorbell;
use crate::interface::rings::{QueueShared, RxDescriptor, TxDescriptor};
use crate::interface::{Ends, Interface, Queue};
use crate::port_shared::PortShared;
use crate::segment::{LeadsTo, Segment};

pub(crate) const SECOND_PS: u64 = 1_000_000_000_000;

/// The host's side of a port.
pub(crate) struct HostSide {
    pub(crate) shared: Arc<PortShared>,
    pub(crate) tx: Producer<TxDescriptor>,
    pub(crate) rx: Consumer<RxDescriptor>,
}

impl HostSide {
    /// A port, and the side of its host.
    pub(crate) fn of(limits: AtmLimits, bus: Option<Arc<Bus>>, clock: DeviceClock) -> (Atm, Self) {
        Self::beside(None, limits, bus, clock)
    }

    /// The same, on the link of another port.
    pub(crate) fn beside(
        other: Option<&Self>,
        limits: AtmLimits,
        bus: Option<Arc<Bus>>,
        clock: DeviceClock,
    ) -> (Atm, Self) {
        let knobs = PortKnobs { rx_usecs: 10, ..PortKnobs::default() };
        let mut shared = PortShared::new("eth0".to_owned(), &[limits.link], knobs, 1, Vec::new());
        if let Some(other) = other {
            shared.links.clone_from(&other.shared.links);
        }
        let shared = Arc::new(shared);
        let (tx, tx_device) = RingBuffer::new(limits.rings.transmit);
        let (rx_device, rx) = RingBuffer::new(limits.rings.receive);
        let (_, steering) = RingBuffer::new(1);
        let queue = Queue::new(Ends::Driver {
            tx: tx_device,
            rx: rx_device,
            steering,
            control: None,
            shared: Arc::new(QueueShared::new(Arc::new(ThreadDoorbell::new().unwrap()))),
        });
        let interface = Interface::new(Arc::clone(&shared.interface), vec![queue]);
        let mount = Mount { shared: Arc::clone(&shared), interface, bus, clock };
        (Atm::new(limits, mount), Self { shared, tx, rx })
    }

    /// Posts what a read of the TAP or TUN would give.
    pub(crate) fn post(&mut self, bytes: &[u8], posted_ns: u64) {
        let mut block = Block::new();
        block.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        let descriptor = TxDescriptor { block: Arc::new(block), length: bytes.len(), posted_ns };
        self.tx.push(descriptor).unwrap();
    }

    /// The packets that the host has got.
    pub(crate) fn got(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.rx.pop().ok())
            .map(|descriptor| {
                let mut bytes = Vec::new();
                descriptor.for_each_piece(|piece| bytes.extend_from_slice(piece));
                bytes
            })
            .collect()
    }
}

/// Ports on a fabric, in virtual time.
pub(crate) struct Ports {
    pub(crate) segment: Segment,
    pub(crate) hosts: Vec<HostSide>,
    pub(crate) clock: DeviceClock,
    pub(crate) now_ps: u64,
}

impl Ports {
    pub(crate) fn on(fabric: impl Fabric + 'static) -> Self {
        let (segment, clock) = (Segment::new(Box::new(fabric)), DeviceClock::start());
        Self { segment, hosts: Vec::new(), clock, now_ps: 0 }
    }

    pub(crate) fn attach(&mut self, limits: AtmLimits) {
        let (device, host) = HostSide::of(limits, None, self.clock);
        let number = self.hosts.len();
        let device: Box<dyn Device> = Box::new(device);
        self.segment.attach(number, device, LeadsTo { ports: vec![number], switch: 0 });
        self.hosts.push(host);
    }

    /// Several clients of emulated LANs on one port, a host's side each.
    pub(crate) fn attach_clients(&mut self, all: impl IntoIterator<Item = AtmLimits>) {
        let (number, mut clients) = (self.hosts.len(), Vec::new());
        for limits in all {
            let first = self.hosts.get(number);
            let (client, host) = HostSide::beside(first, limits, None, self.clock);
            clients.push(client);
            self.hosts.push(host);
        }
        let mut clients = clients.into_iter();
        let device = Clients::new(clients.next().unwrap(), clients);
        self.segment.attach(number, Box::new(device), LeadsTo { ports: vec![number], switch: 0 });
    }

    pub(crate) fn run_for(&mut self, time_ps: u64) {
        let end_ps = self.now_ps + time_ps;
        let mut carried = 0;
        loop {
            while self.segment.turn(self.now_ps, &mut carried) {}
            let due_ps = self.segment.due_ps(self.now_ps);
            let Some(due_ps) = due_ps.filter(|due_ps| *due_ps <= end_ps) else { break };
            assert!(due_ps > self.now_ps, "due again at {due_ps}");
            self.now_ps = due_ps;
        }
        self.now_ps = end_ps;
    }

    /// A host posts what a read of its TAP or TUN would give.
    pub(crate) fn post(&mut self, host: usize, bytes: &[u8]) {
        let posted_ns = self.clock.monotonic_ns(self.now_ps);
        self.hosts[host].post(bytes, posted_ns);
    }

    pub(crate) fn counted(&self, host: usize, name: &str) -> u64 {
        self.hosts[host].shared.counters()[name]
    }
}
