//! A device with one interface, two links and a timer of its own, on the segments and threads that
//! all devices use.

use std::net::Shutdown;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use linkrate_model::model::{self, LinkKind};
use linkrate_model::topology::Fabric;
use linkrate_model::{BitRate, CpuSet, Model, PortKnobs};
use linkrate_sys::sched::{affinity, current_thread};
use linkrate_wire::link::LinkLaw;
use linkrate_wire::lro::{Delivery, Reason};
use linkrate_wire::vnet::VnetHeader;

use super::{Device, DeviceSpec, FrameSink, Mount};
use crate::clock::{DeviceClock, PS_PER_US};
use crate::device_threads::DeviceThreads;
use crate::fabric::{self, InFlight};
use crate::frame::{VNET_BYTES, WireFrame};
use crate::interface::moderation::{Adaptive, Moderation};
use crate::interface::rings::RxDescriptor;
use crate::interface::{Interface, RingSizes};
use crate::link::{Link, LinkSpec};
use crate::pdu::Pdu;
use crate::port::{HostEnd, HostSide, Port, PortSpec, Segment};
use crate::port_shared::PortShared;
use crate::{AdapterError, segment};

/// The time between two greetings.
const PERIOD_PS: u64 = 2000 * PS_PER_US;

/// The last octet of the addresses: of the links, and of the peers.
const LINK: [u8; 2] = [0x10, 0x11];
const PEER: [u8; 2] = [0xa0, 0xa1];
const BROADCAST: [u8; 6] = [0xff; 6];

fn address(last: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, last]
}

fn frame(to: [u8; 6], from: u8, text: &str) -> Vec<u8> {
    let mut frame = [&to[..], &address(from), &[0x88, 0xb5], text.as_bytes()].concat();
    frame.resize(60, 0);
    frame
}

/// Sends the packets of its host by both links in turn, gives its host every frame of both links,
/// and sends a greeting on each link every [`PERIOD_PS`].
#[derive(Debug)]
struct Pair {
    shared: Arc<PortShared>,
    interface: Interface,
    links: Vec<Link>,
    clock: DeviceClock,
    request: u64,
    turn: usize,
    greets_at_ps: u64,
}

impl Pair {
    fn new(mount: Mount, first_ps: u64) -> Self {
        let Mount { shared, interface, clock, .. } = mount;
        let links = shared.links.iter().map(|link| Link::new(Arc::clone(link))).collect();
        Self { shared, interface, links, clock, request: 0, turn: 0, greets_at_ps: first_ps }
    }

    fn send(&mut self, link: usize, ready_ps: u64, frame: Vec<u8>, out: &mut FrameSink<'_>) -> u64 {
        let state = &mut self.links[link];
        let at = state.occupy(ready_ps, frame.len());
        state.sent(&frame, 1, state.counted_octets(frame.len()));
        out(link, WireFrame::copied(frame).into(), at.end_ps);
        at.end_ps
    }

    fn moderation(&self) -> Moderation {
        Moderation::of(&PortKnobs::default(), false, &Adaptive::default())
    }
}

impl Device for Pair {
    fn refresh(&mut self, other_rate: &mut dyn FnMut(usize, &Link)) {
        if self.shared.settings.latest() != self.request {
            let (request, knobs) = self.shared.settings.requested();
            self.request = request;
            self.shared.settings.acknowledge(request, knobs);
        }
        for (number, link) in self.links.iter_mut().enumerate() {
            if link.refresh() {
                other_rate(number, link);
            }
        }
    }

    fn transmit(&mut self, _now_ps: u64, out: &mut FrameSink<'_>) -> bool {
        let mut any = false;
        self.interface.fetch(64 << 10);
        while let Some((queue, descriptor)) = self.interface.next_posted() {
            let frame = descriptor.block.bytes(VNET_BYTES..descriptor.length).to_vec();
            let ready_ps = self.clock.at_ps(descriptor.posted_ns);
            let end_ps = self.send(self.turn, ready_ps, frame, out);
            self.turn = (self.turn + 1) % self.links.len();
            self.interface.sent(queue, descriptor.length, end_ps);
            any = true;
        }
        any
    }

    fn receive(&mut self, link: usize, pdu: Pdu, at_ps: u64, _now_ps: u64) {
        let Some(burst) = pdu.into_frames() else { return };
        if !self.links[link].received(&burst) || self.interface.queues() == 0 {
            return;
        }
        for frame in burst.each() {
            let delivery = Delivery::Frame { frame: frame.into(), reason: Reason::Flushed };
            let vnet = VnetHeader::default();
            self.interface.place(0, 1, at_ps);
            self.interface.push(0, RxDescriptor { vnet, delivery, replaced: None, unmade: None });
        }
    }

    fn poll(&mut self, now_ps: u64, out: &mut FrameSink<'_>) -> bool {
        let mut any = false;
        while self.greets_at_ps <= now_ps {
            for (link, from) in LINK.into_iter().enumerate() {
                let greeting = frame(BROADCAST, from, "greeting");
                self.send(link, self.greets_at_ps, greeting, out);
            }
            self.greets_at_ps += PERIOD_PS;
            any = true;
        }
        for queue in 0..self.interface.queues() {
            let due_ps = self.interface.receive_due_ps(queue, self.moderation());
            if due_ps.is_some_and(|due_ps| due_ps <= now_ps) {
                any |= self.interface.interrupt(queue);
            }
        }
        any
    }

    fn due_ps(&mut self, _now_ps: u64) -> Option<u64> {
        self.interface.shared.wants_doorbell.store(true, Ordering::SeqCst);
        let interrupt = self.interface.interrupt_due_ps(self.moderation());
        [Some(self.greets_at_ps), interrupt].into_iter().flatten().min()
    }

    fn arrival_due_ps(&self, _link: usize, in_flight: &InFlight) -> Option<u64> {
        in_flight.first_ps()
    }

    fn interface(&mut self) -> &mut Interface {
        &mut self.interface
    }

    fn links(&self) -> &[Link] {
        &self.links
    }
}

fn gigabit() -> LinkSpec {
    LinkSpec { law: LinkLaw::Ethernet, rate: Some(BitRate(1e9)) }
}

/// A host: the peer of a socket that stands for its TAP.
#[derive(Debug)]
struct Host(UnixDatagram);

impl Host {
    fn new() -> (Self, HostEnd) {
        let (here, tap) = UnixDatagram::pair().unwrap();
        here.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        tap.set_nonblocking(true).unwrap();
        let end = HostEnd {
            name: "agg0".to_owned(),
            queues: vec![tap.into()],
            rings: RingSizes { transmit: 64, receive: 64 },
            knobs: PortKnobs::default(),
            bus: None,
            host: HostSide::Device,
            switch: 0,
        };
        (Self(here), end)
    }

    fn send(&self, frame: &[u8]) {
        self.0.send(&[&[0; VNET_BYTES][..], frame].concat()).unwrap();
    }

    /// Frames up to the first that `is_last` accepts.
    fn received_until(&self, mut is_last: impl FnMut(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let (mut frames, mut buffer) = (Vec::new(), [0; 2000]);
        loop {
            let length = self.0.recv(&mut buffer).expect("a frame within 10 s");
            let frame = buffer[VNET_BYTES..length].to_vec();
            let last = is_last(&frame);
            frames.push(frame);
            if last {
                return frames;
            }
        }
    }
}

fn is_text(frame: &[u8], text: &str) -> bool {
    frame[14..].starts_with(text.as_bytes())
}

/// A segment with a pair on it, and the host of the pair.
fn with_pair(threads: &mut DeviceThreads, fabric: Fabric) -> (Segment, Port, Host) {
    let mut segment = threads.segment(fabric, LinkLaw::Ethernet).unwrap();
    let (host, end) = Host::new();
    let build = |mount: Mount| -> Box<dyn Device> {
        let first_ps = mount.clock.now_ps();
        Box::new(Pair::new(mount, first_ps))
    };
    let port = segment.attach_device(end, &[gigabit(), gigabit()], build).unwrap();
    (segment, port, host)
}

fn threads() -> DeviceThreads {
    let cpu = affinity(current_thread()).unwrap().iter().next().unwrap();
    DeviceThreads::new(&CpuSet::from_iter([cpu]))
}

fn attach_peer(segment: &mut Segment) -> Result<(Port, Host), AdapterError> {
    let (host, HostEnd { name, queues, .. }) = Host::new();
    let model = model::find("gigabit").unwrap();
    let port = segment.attach(PortSpec {
        name,
        queues,
        device: DeviceSpec::of(&model),
        knobs: PortKnobs::default(),
        bus: None,
        host: HostSide::Device,
        switch: 0,
    })?;
    Ok((port, host))
}

#[test]
fn both_links_of_a_device_carry_its_traffic_and_its_own_frames() {
    let mut threads = threads();
    let (mut segment, port, host) = with_pair(&mut threads, Fabric::Switch);
    let peers = PEER.map(|_| attach_peer(&mut segment).unwrap());
    // nothing was posted: the device's timer wakes the thread, again and again
    for (_, peer) in &peers {
        let mut seen = [0; 2];
        peer.received_until(|frame| {
            assert!(is_text(frame, "greeting"));
            seen[usize::from(frame[11] - LINK[0])] += 1;
            seen[0] >= 3 && seen[1] >= 3
        });
    }
    // the host's packets leave by both links in turn; nobody has these addresses
    for number in 0..4 {
        host.send(&frame(address(9), LINK[number % 2], &format!("packet {number}")));
    }
    let got = peers[0].1.received_until(|frame| is_text(frame, "packet 3"));
    for number in 0..4 {
        let text = format!("packet {number}");
        assert!(got.iter().any(|frame| is_text(frame, &text)), "{text}");
    }
    let unicast = |link: usize| {
        let link = port.links().nth(link).unwrap();
        let counters = &link.shared().counters;
        (counters.out_unicast.get(), counters.in_unicast.get())
    };
    assert_eq!([unicast(0).0, unicast(1).0], [2, 2]);
    // the switch has learned the address of each link
    let before = [unicast(0).1, unicast(1).1];
    peers[1].1.send(&frame(address(LINK[1]), PEER[1], "answer"));
    host.received_until(|frame| is_text(frame, "answer"));
    assert_eq!([unicast(0).1, unicast(1).1], [before[0], before[1] + 1]);
    // the port shows both links together
    assert_eq!(port.counters()["ifHCOutUcastPkts"], 4);
    assert_eq!(port.applied_knobs().unwrap(), PortKnobs::default());
    drop(port);
    let _ = host.0.shutdown(Shutdown::Both);
}

#[test]
fn a_device_with_two_links_takes_both_ends_of_a_cable() {
    let mut threads = threads();
    let (mut segment, _port, host) = with_pair(&mut threads, Fabric::Cable);
    // what leaves by one link comes in by the other
    let mut seen = [0; 2];
    host.received_until(|frame| {
        seen[usize::from(frame[11] - LINK[0])] += 1;
        seen[0] > 0 && seen[1] > 0
    });
    let error = attach_peer(&mut segment).unwrap_err().to_string();
    assert_eq!(
        error,
        "the cable of port agg0 is connected already: 0 of its 2 ends are free, 1 needed"
    );
}

/// No thread and no clock: the segment is called at the times that it names.
#[test]
fn a_segment_is_due_when_its_device_is() {
    let links = [gigabit(), gigabit()];
    let knobs = PortKnobs::default();
    let shared = Arc::new(PortShared::new("agg0".to_owned(), &links, knobs, 0, Vec::new()));
    let interface = Interface::new(Arc::clone(&shared.interface), Vec::new());
    let clock = DeviceClock::start();
    let mount = Mount { shared: Arc::clone(&shared), interface, bus: None, clock };
    let mut segment = segment::Segment::new(fabric::build(Fabric::Cable, LinkLaw::Ethernet));
    segment.attach(
        0,
        Box::new(Pair::new(mount, PERIOD_PS)),
        segment::LeadsTo { ports: vec![1, 0], switch: 0 },
    );
    assert_eq!(segment.due_ps(0), Some(PERIOD_PS));
    let mut carried = 0;
    assert!(!segment.turn(PERIOD_PS - 1, &mut carried));
    assert!(segment.turn(PERIOD_PS, &mut carried));
    // 84 octets at 1 Gb/s, and then the next greeting
    let arrival_ps = PERIOD_PS + 672_000;
    assert_eq!(segment.due_ps(PERIOD_PS), Some(arrival_ps));
    assert!(segment.turn(arrival_ps, &mut carried));
    assert_eq!(segment.due_ps(arrival_ps), Some(2 * PERIOD_PS));
    let counted = |link: usize| {
        let counters = &shared.links[link].counters;
        [&counters.out_broadcast, &counters.in_broadcast].map(|counter| counter.get())
    };
    assert_eq!([counted(0), counted(1)], [[1, 1], [1, 1]]);
    // a link may have another rate than its neighbour, and may be down alone
    shared.links[1].set_rate(BitRate(1e8));
    shared.links[0].set_up(false);
    segment.turn(2 * PERIOD_PS, &mut carried);
    assert_eq!(segment.due_ps(2 * PERIOD_PS), Some(2 * PERIOD_PS + 672_000));
    segment.turn(2 * PERIOD_PS + 672_000, &mut carried);
    assert_eq!(segment.due_ps(2 * PERIOD_PS + 672_000), Some(2 * PERIOD_PS + 6_720_000));
    segment.turn(2 * PERIOD_PS + 6_720_000, &mut carried);
    assert_eq!([counted(0), counted(1)], [[2, 1], [2, 2]]);
}

#[test]
fn the_device_follows_from_the_model() {
    let model = model::find("gigabit").unwrap();
    let DeviceSpec::Nic(limits) = DeviceSpec::of(&model) else { panic!("no Ethernet port") };
    assert_eq!((limits.link, limits.superframe), (gigabit(), 32_160));
    let DeviceSpec::Nic(peer) = DeviceSpec::Nic(limits).peer() else { panic!() };
    assert_eq!((peer.link, peer.superframe), (gigabit(), 65_535));
    let model = Model { link: LinkKind::Atm, ..model };
    let DeviceSpec::Atm(limits) = DeviceSpec::of(&model) else { panic!("no ATM port") };
    assert_eq!((limits.link.law, limits.largest_packet), (LinkLaw::Atm, 9000));
}
