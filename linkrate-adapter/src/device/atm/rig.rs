//! ATM ports for tests, without TUNs and without threads: what their hosts post and get, and several of
//! them on a fabric in virtual time.

use std::sync::Arc;

use linkrate_model::lab::LaneReport;
use linkrate_model::{BitRate, PortKnobs};
use linkrate_wire::atm::AtmAddress;
use linkrate_wire::control::lan_emulation::FrameSize;
use linkrate_wire::frame::MacAddress;
use linkrate_wire::link::LinkLaw;
use rtrb::{Consumer, Producer, RingBuffer};

use super::clients::Clients;
use super::{Atm, AtmLimits};
use crate::atm::AtmShared;
use crate::atm::lane::LaneStation;
use crate::bus::Bus;
use crate::clock::DeviceClock;
use crate::device::{Device, Mount};
use crate::fabric::{Fabric, FabricCommand};
use crate::frame::{Block, VNET_BYTES};
use crate::interface::doorbell::ThreadDoorbell;
use crate::interface::rings::{QueueShared, RxDescriptor, TxDescriptor};
use crate::interface::{Ends, Interface, Queue, RingSizes};
use crate::link::LinkSpec;
use crate::port_shared::PortShared;
use crate::segment::{LeadsTo, Segment};

pub(crate) const SECOND_PS: u64 = 1_000_000_000_000;

/// An EtherType for experiments (IEEE 802, 9.2.3).
const EXPERIMENT: [u8; 2] = [0x88, 0xb5];

pub(crate) const ALL: MacAddress = MacAddress([0xff; 6]);

pub(crate) fn mac(host: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, 1 + host as u8])
}

/// The client of a host in an emulated LAN.
pub(crate) fn station(host: usize) -> LaneStation {
    LaneStation {
        atm: AtmAddress::local(1, mac(host).0, 0),
        mac: mac(host),
        size: FrameSize::Octets1516,
        elan: "blue".to_owned(),
    }
}

/// A port of 155.52 Mb/s without connections.
pub(crate) fn limits() -> AtmLimits {
    AtmLimits {
        link: LinkSpec { law: LinkLaw::Atm, rate: Some(BitRate(155.52e6)) },
        largest_packet: 65_527,
        rings: RingSizes { transmit: 4096, receive: 4096 },
        connections: Vec::new(),
        station: None,
        switched: false,
        lane: None,
    }
}

/// The port of a client of an emulated LAN.
pub(crate) fn client(station: LaneStation) -> AtmLimits {
    AtmLimits { lane: Some(station), ..limits() }
}

pub(crate) fn frame(to: MacAddress, from: MacAddress, octets: usize) -> Vec<u8> {
    let mut frame = [&to.0[..], &from.0, &EXPERIMENT].concat();
    frame.resize(octets, 7);
    frame
}

/// The sender and the length of such a frame.
pub(crate) fn read(frame: &[u8]) -> (MacAddress, usize) {
    assert_eq!(frame[12..14], EXPERIMENT);
    (MacAddress(*frame[6..].first_chunk().unwrap()), frame.len())
}

/// The host's side of a port.
pub(crate) struct HostSide {
    pub(crate) shared: Arc<PortShared>,
    pub(crate) atm: Arc<AtmShared>,
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
        let device = Atm::new(limits, mount);
        let atm = Arc::clone(&device.atm);
        (device, Self { shared, atm, tx, rx })
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
pub(crate) struct Ports<S = ()> {
    /// What a server in the fabric counts and knows.
    pub(crate) server: S,
    pub(crate) segment: Segment,
    pub(crate) hosts: Vec<HostSide>,
    pub(crate) clock: DeviceClock,
    pub(crate) now_ps: u64,
}

impl<S> Ports<S> {
    pub(crate) fn on(fabric: impl Fabric + 'static, server: S) -> Self {
        let (segment, clock) = (Segment::new(Box::new(fabric)), DeviceClock::start());
        Self { server, segment, hosts: Vec::new(), clock, now_ps: 0 }
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

    pub(crate) fn set_switch_alive(&mut self, alive: bool) {
        self.segment.fabric().control(FabricCommand::SetSwitchAlive(0, alive));
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

    /// A host posts a frame to its TAP.
    pub(crate) fn post_frame(&mut self, host: usize, frame: &[u8]) {
        self.post(host, &[&[0; VNET_BYTES][..], frame].concat());
    }

    /// A host sends a frame of `octets` octets.
    pub(crate) fn send(&mut self, host: usize, to: MacAddress, octets: usize) {
        self.post_frame(host, &frame(to, mac(host), octets));
    }

    /// The senders and lengths of the frames that a host has got.
    pub(crate) fn got(&mut self, host: usize) -> Vec<(MacAddress, usize)> {
        self.hosts[host].got().iter().map(|frame| read(frame)).collect()
    }

    /// What the client of an emulated LAN tells.
    pub(crate) fn report(&self, host: usize) -> LaneReport {
        self.hosts[host].atm.lane.get().unwrap().report()
    }

    pub(crate) fn counted(&self, host: usize, name: &str) -> u64 {
        self.hosts[host].shared.counters()[name]
    }
}
