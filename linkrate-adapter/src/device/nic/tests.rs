//! Two ports back to back, without a TAP and without threads: packets go in, packets come out.

mod control;
mod offload;
mod received;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use linkrate_model::{BitRate, PortKnobs};
use linkrate_sys::clock::monotonic_ns;
use linkrate_wire::checksum::{Sum, pseudo_v4};
use linkrate_wire::frame::{Headers, Verification, link};
use linkrate_wire::link::LinkLaw;
use linkrate_wire::lro::Row;
use linkrate_wire::vnet::{Checksum, Form, Gso, GsoKind, VnetHeader, complete_checksum_parts};
use proptest::prelude::*;
use rtrb::{Consumer, Producer, RingBuffer};

use super::{LinkSpec, Mount, Nic, NicLimits, RingSizes};
use crate::bus::Bus;
use crate::clock::{DeviceClock, PS_PER_US};
use crate::device::Device;
use crate::frame::{Block, Burst, VNET_BYTES, WireFrame};
use crate::interface::doorbell::ThreadDoorbell;
use crate::interface::queue_pair::ControlRings;
use crate::interface::rings::{QueueShared, RxDescriptor, TxDescriptor};
use crate::interface::{ControlEnds, Ends, Interface, Queue};
use crate::port_shared::PortShared;

const HEADERS: usize = 14 + 20 + 32;
/// Long after anything that was sent.
const LATER_PS: u64 = 1 << 62;

fn at(rate: Option<BitRate>) -> LinkSpec {
    LinkSpec { law: LinkLaw::Ethernet, rate }
}

fn limits() -> NicLimits {
    NicLimits {
        link: at(None),
        largest_frame: 9014,
        superframe: 65_535,
        rings: RingSizes { transmit: 64, receive: 256 },
        connections: 0,
        stores_superframes: false,
        hand_through: false,
    }
}

fn quiet() -> PortKnobs {
    PortKnobs { rx_usecs: 10, rx_frames: 0, ..PortKnobs::default() }
}

/// A port of an aggregate.
struct End {
    device: Nic,
    control: Vec<ControlRings>,
    tx: Vec<Producer<TxDescriptor>>,
    rx: Vec<Consumer<RxDescriptor>>,
    queues: Vec<Arc<QueueShared>>,
    /// When everything is posted, so that the link is never left waiting.
    posted_ns: u64,
}

impl End {
    fn new(limits: NicLimits, knobs: PortKnobs, queues: usize, bus: Option<Arc<Bus>>) -> Self {
        Self::with(limits, knobs, queues, bus, None)
    }

    /// With a queue of the adapter's own TCP.
    fn with(
        limits: NicLimits,
        knobs: PortKnobs,
        queues: usize,
        bus: Option<Arc<Bus>>,
        own: Option<Queue>,
    ) -> Self {
        let shared =
            Arc::new(PortShared::new("eth0".to_owned(), &[limits.link], knobs, queues, Vec::new()));
        let (mut tx, mut rx, mut all, mut device) = (vec![], vec![], vec![], vec![]);
        let mut control = vec![];
        for _ in 0..queues {
            let (tx_here, tx_device) = RingBuffer::new(limits.rings.transmit);
            let (rx_device, rx_here) = RingBuffer::new(limits.rings.receive);
            let (_, steering) = RingBuffer::new(1);
            let (control_tx, control_tx_device) = RingBuffer::new(4);
            let (control_rx_device, control_rx) = RingBuffer::new(4);
            control.push(ControlRings { tx: control_tx, rx: control_rx });
            let queue = Arc::new(QueueShared::new(Arc::new(ThreadDoorbell::new().unwrap())));
            device.push(Queue::new(Ends::Driver {
                tx: tx_device,
                rx: rx_device,
                steering,
                control: Some(ControlEnds { tx: control_tx_device, rx: control_rx_device }),
                shared: Arc::clone(&queue),
            }));
            tx.push(tx_here);
            rx.push(rx_here);
            all.push(queue);
        }
        device.extend(own);
        let interface = Interface::new(Arc::clone(&shared.interface), device);
        let clock = DeviceClock::start();
        let mut device = Nic::new(limits, Mount { shared, interface, bus, clock });
        device.refresh(&mut |_, _| {});
        Self { device, control, tx, rx, queues: all, posted_ns: monotonic_ns() }
    }

    fn post(&mut self, vnet: VnetHeader, packet: &[u8]) {
        let mut bytes = vnet.emit()[..VNET_BYTES].to_vec();
        bytes.extend_from_slice(packet);
        self.post_raw(&bytes);
    }

    fn post_raw(&mut self, bytes: &[u8]) {
        let descriptor = self.descriptor(bytes);
        self.tx[0].push(descriptor).unwrap();
    }

    fn descriptor(&self, bytes: &[u8]) -> TxDescriptor {
        let mut block = Block::new();
        block.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        let (block, posted_ns) = (Arc::new(block), self.posted_ns);
        TxDescriptor { block, length: bytes.len(), posted_ns }
    }

    /// Everything it has to send, with the times at which it is sent.
    fn sent(&mut self) -> Vec<(WireFrame, u64)> {
        let each = |(burst, at_ps): &(Burst, u64)| -> Vec<_> {
            burst.each().map(|frame| (frame, *at_ps)).collect()
        };
        self.bursts().iter().flat_map(each).collect()
    }

    /// The same, as it goes out: what leaves together is one.
    fn bursts(&mut self) -> Vec<(Burst, u64)> {
        let mut bursts = Vec::new();
        while self.device.send_posted(LATER_PS, &mut |burst, at_ps| bursts.push((burst, at_ps))) {}
        bursts
    }

    /// What its host gets of these frames.
    fn received<F: Into<Burst>>(&mut self, frames: Vec<(F, u64)>) -> Vec<(VnetHeader, Vec<u8>)> {
        for (frame, at_ps) in frames {
            self.device.arrived(frame.into(), at_ps, LATER_PS);
        }
        self.device.carried(LATER_PS);
        self.device.interrupt(LATER_PS);
        self.popped(0)
    }

    fn popped(&mut self, queue: usize) -> Vec<(VnetHeader, Vec<u8>)> {
        let all = std::iter::from_fn(|| self.rx[queue].pop().ok());
        all.map(|descriptor| {
            let mut bytes = Vec::new();
            descriptor.for_each_piece(|piece| bytes.extend_from_slice(piece));
            let mut vnet = descriptor.vnet;
            if descriptor.unmade.is_some() {
                // verified, and told as one to be made: the host would make the same again
                let Checksum { start, offset } = vnet.checksum.take().unwrap();
                complete_checksum_parts(&mut bytes, Sum::ZERO, start.into(), offset.into())
                    .unwrap();
                vnet.data_valid = true;
            }
            (vnet, bytes)
        })
        .collect()
    }

    fn counted(&self, name: &str) -> u64 {
        self.device.shared.counters()[name]
    }
}

/// Two ends, and the way from one to the other.
fn across(
    knobs: PortKnobs,
    packets: &[(VnetHeader, Vec<u8>)],
) -> (Vec<(VnetHeader, Vec<u8>)>, End, End) {
    let mut from = End::new(limits(), knobs.clone(), 1, None);
    let mut to = End::new(limits(), knobs, 1, None);
    for (vnet, packet) in packets {
        from.post(*vnet, packet);
    }
    let bursts = from.bursts();
    let got = to.received(bursts);
    (got, from, to)
}

fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

/// TCP over IPv4 with timestamps, its checksum left to the adapter.
fn packet(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let total = (HEADERS - 14 + payload.len()) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend([0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let checksum = Sum::of(&ip).checksum().to_be_bytes();
    ip[10..12].copy_from_slice(&checksum);
    frame.extend(ip);
    let mut tcp = vec![0x30, 0x39, 0x14, 0x51, 0, 0, 0, 1, 0, 0, 0, 9, 0x80, 0x10, 2, 0];
    let pseudo = pseudo_v4([10, 0, 0, 1], [10, 0, 0, 2], 6, total - 20);
    tcp.extend(pseudo.folded().to_be_bytes());
    tcp.extend([0, 0, 1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6]);
    frame.extend(tcp);
    frame.extend_from_slice(payload);
    frame
}

fn needs_checksum() -> VnetHeader {
    VnetHeader { checksum: Some(Checksum { start: 34, offset: 16 }), ..VnetHeader::default() }
}

fn superframe(size: u16) -> VnetHeader {
    VnetHeader {
        gso: Some(Gso { kind: GsoKind::Tcp4, ecn: false }),
        segment_size: size,
        ..needs_checksum()
    }
}

fn is_right(frame: &[u8]) -> bool {
    let headers = Headers::parse(frame).unwrap();
    headers.network_checksum_verifies(frame)
        && headers.transport_checksum_parts(frame, &[]) == Verification::Right
}

#[test]
fn a_superframe_becomes_frames_with_right_checksums() {
    let data = payload(10_000);
    let (got, from, to) = across(quiet(), &[(superframe(1448), packet(&data))]);
    assert_eq!(got.len(), 7);
    assert!(got.iter().all(|(vnet, frame)| vnet.data_valid && is_right(frame)));
    let together: Vec<u8> = got.iter().flat_map(|(_, frame)| frame[HEADERS..].to_vec()).collect();
    assert_eq!(together, data);
    assert_eq!((from.counted("txSuperframes"), from.counted("txSegments")), (1, 7));
    assert_eq!(to.counted("rxChecksumGood"), 7);
    assert_eq!(to.counted("ifHCInOctets"), from.counted("ifHCOutOctets"));
    assert_eq!(from.counted("ifHCOutOctets") as usize, data.len() + 7 * (HEADERS + 4));
}

#[test]
fn tags_of_the_host_do_not_count_against_the_largest_frame() {
    // 9,000 octets of IP, in frames of 9,018 with their tag
    let data = payload(2 * (9014 - HEADERS));
    let tagged = |packet: &[u8]| {
        let head = link::retagged(&packet[..14], Some(link::TagControl(5))).unwrap();
        [&head[..], &packet[14..]].concat()
    };
    let behind = |vnet: VnetHeader| VnetHeader {
        checksum: Some(Checksum { start: 38, offset: 16 }),
        ..vnet
    };
    let whole = tagged(&packet(&data[..9014 - HEADERS]));
    let packets = [
        (behind(superframe((9014 - HEADERS) as u16)), tagged(&packet(&data))),
        (behind(needs_checksum()), whole.clone()),
    ];
    let (got, from, _) = across(quiet(), &packets);
    assert_eq!(from.counted("txDropOversized"), 0);
    assert!(got.len() == 3 && got.iter().all(|(_, frame)| frame.len() == 9018 && is_right(frame)));
    // a frame that is too long without its tag stays so
    let mut port = End::new(limits(), quiet(), 1, None);
    port.post(behind(needs_checksum()), &tagged(&packet(&data[..9015 - HEADERS])));
    assert_eq!((port.sent().len(), port.counted("txDropOversized")), (0, 1));
}

#[test]
fn what_was_cut_is_merged_again() {
    let data = payload(20_000);
    let knobs = PortKnobs { lro: true, ..quiet() };
    let (got, _, to) = across(knobs, &[(superframe(1448), packet(&data))]);
    let [(vnet, frame)] = &got[..] else { panic!("{} packets", got.len()) };
    assert_eq!(frame[HEADERS..], data);
    assert_eq!((vnet.gso.unwrap().kind, vnet.segment_size), (GsoKind::Tcp4, 1448));
    assert_eq!(vnet.checksum, Some(Checksum { start: 34, offset: 16 }));
    assert_eq!((to.counted("rxSuperframes"), to.counted("rxMergedFrames")), (1, 14));
    assert_eq!(to.counted("rxFlushShort"), 1);
}

#[test]
fn tags_and_snap_are_on_the_wire_and_nowhere_else() {
    let data = payload(5000);
    for (vlan, snap, more) in [(7, false, 4), (0, true, 8), (9, true, 12)] {
        for lro in [false, true] {
            let knobs = PortKnobs { vlan, snap, lro, ..quiet() };
            let mut from = End::new(limits(), knobs.clone(), 1, None);
            let mut to = End::new(limits(), knobs, 1, None);
            from.post(superframe(1400), &packet(&data));
            from.post(needs_checksum(), &packet(&data[..300]));
            let frames = from.sent();
            assert!(frames[0].0.len() == HEADERS + 1400 + more, "{vlan} {snap}");
            let got = to.received(frames);
            let together: Vec<u8> = got.iter().flat_map(|(_, f)| f[HEADERS..].to_vec()).collect();
            assert_eq!(together, [&data[..], &data[..300]].concat(), "{vlan} {snap} {lro}");
            if lro {
                assert_eq!(got[0].0.checksum, Some(Checksum { start: 34, offset: 16 }));
            } else {
                assert!(got.iter().all(|(_, frame)| is_right(frame)));
            }
            // another VLAN's frames stay out
            let mut other = End::new(limits(), PortKnobs { vlan: 100, ..quiet() }, 1, None);
            from.post(needs_checksum(), &packet(b"x"));
            let frames = from.sent();
            assert!(other.received(frames).is_empty());
            assert_eq!(other.counted("rxDropVlan"), 1);
        }
    }
}

#[test]
fn a_flipped_bit_is_not_called_valid() {
    let mut from = End::new(limits(), quiet(), 1, None);
    let mut to = End::new(limits(), PortKnobs { lro: true, ..quiet() }, 1, None);
    from.post(superframe(1000), &packet(&payload(4000)));
    let mut frames = from.sent();
    let mut bytes = frames[1].0.to_vec();
    bytes[500] ^= 1;
    frames[1].0 = WireFrame::copied(bytes.clone());
    let got = to.received(frames);
    let bad: Vec<_> =
        got.iter().filter(|(vnet, _)| !vnet.data_valid && vnet.gso.is_none()).collect();
    assert_eq!(bad.len(), 1);
    assert_eq!(bad[0].1, bytes);
    assert_eq!(to.counted("rxChecksumBad"), 1);
    // the first frame, the bad one, the two behind it
    assert_eq!(got.len(), 3);
}

#[test]
fn what_contradicts_itself_is_dropped_and_counted() {
    let mut port = End::new(limits(), quiet(), 1, None);
    let good = packet(&payload(3000));
    // longer than its IP length, shorter, no such checksum field, a size of 0, not even a header
    port.post(superframe(1448), &[&good[..], b"more"].concat());
    port.post(superframe(1448), &good[..2000]);
    let far = Some(Checksum { start: 60_000, offset: 16 });
    port.post(VnetHeader { checksum: far, ..superframe(1448) }, &good);
    port.post(superframe(0), &good);
    port.post_raw(&[0; 5]);
    assert_eq!(port.sent().len(), 0);
    assert_eq!(port.counted("txDropMalformed"), 5);
    // not cut and too long; segments too long
    port.post(needs_checksum(), &packet(&payload(9500)));
    port.post(superframe(9500), &packet(&payload(30_000)));
    assert_eq!(port.sent().len(), 0);
    assert_eq!(port.counted("txDropOversized"), 2);
    assert_eq!(port.counted("ifOutErrors"), 7);
    // and the port continues
    port.post(superframe(1448), &good);
    assert_eq!(port.sent().len(), 3);
}

#[test]
fn frames_leave_at_the_link_rate() {
    let rate = BitRate(1e9);
    let mut port = End::new(NicLimits { link: at(Some(rate)), ..limits() }, quiet(), 1, None);
    let mut frames = Vec::new();
    while frames.len() < 100_000 {
        for _ in 0..60 {
            port.post(superframe(1448), &packet(&payload(60_000)));
        }
        frames.extend(port.sent());
    }
    let (first, last) = (frames[0].1, frames[frames.len() - 1].1);
    let bytes: usize = frames[1..].iter().map(|(frame, _)| frame.len() + 24).sum();
    let seconds = (last - first) as f64 / 1e12;
    let rate = bytes as f64 * 8.0 / seconds;
    assert!((rate / 1e9 - 1.0).abs() < 1e-6, "{rate}");
    // and not two of them together
    let gap = |pair: &[(WireFrame, u64)]| (pair[1].1 - pair[0].1) as usize;
    assert!(frames.windows(2).all(|pair| gap(pair) >= (pair[1].0.len() + 24) * 8000));
}

#[test]
fn both_directions_share_the_bus() {
    let bus = Arc::new(Bus::new(BitRate(8e9)));
    let mut port = End::new(limits(), quiet(), 1, Some(Arc::clone(&bus)));
    port.post(superframe(1000), &packet(&payload(10_000)));
    let frames = port.sent();
    let out_ns = bus.busy_ns();
    assert!((10_000..11_000).contains(&out_ns), "{out_ns}");
    assert_eq!(port.received(frames).len(), 10);
    let in_ns = bus.busy_ns() - out_ns;
    // headers and a descriptor with every frame
    assert_eq!(in_ns as usize, 10_000 + 10 * (HEADERS + 16));
}

#[test]
fn a_superframe_that_is_stored_leaves_the_link_idle_while_it_is_fetched() {
    let line = at(Some(BitRate(1e9)));
    let seconds = |stores_superframes, superframes: bool| {
        let limits = NicLimits { link: line, stores_superframes, ..limits() };
        let mut port = End::new(limits, quiet(), 1, Some(Arc::new(Bus::new(BitRate(8e9)))));
        let mut frames = Vec::new();
        while frames.len() < 2000 {
            for _ in 0..8 {
                match superframes {
                    true => port.post(superframe(1000), &packet(&payload(32_000))),
                    false => port.post(VnetHeader::default(), &packet(&payload(1000))),
                }
            }
            frames.extend(port.sent());
        }
        let frames = &frames[..2000];
        let per_frame = (frames[1999].1 - frames[0].1) as f64 / 1999e12;
        (per_frame, port.counted("txStoreNs"))
    };
    let line_rate = (1000 + HEADERS + 24) as f64 * 8.0 / 1e9;
    for (stores, superframes) in [(false, true), (false, false), (true, false)] {
        let (each, idle_ns) = seconds(stores, superframes);
        assert!((each / line_rate - 1.0).abs() < 1e-3, "{stores} {superframes}: {each}");
        assert_eq!(idle_ns, 0);
    }
    // 32 000 octets over 8 Gb/s for each 32 frames, and a descriptor
    let (each, idle_ns) = seconds(true, true);
    let fetch = 32_016.0 * 8.0 / 8e9 / 32.0;
    assert!((each / (line_rate + fetch) - 1.0).abs() < 0.01, "{each}");
    assert!((idle_ns as f64 / 1e9 / 2000.0 / fetch - 1.0).abs() < 0.05, "{idle_ns}");
}

#[test]
fn a_full_receive_ring_drops_and_counts() {
    let mut from = End::new(limits(), quiet(), 1, None);
    let small = NicLimits { rings: RingSizes { receive: 4, ..limits().rings }, ..limits() };
    let mut to = End::new(small, quiet(), 1, None);
    from.post(superframe(1000), &packet(&payload(10_000)));
    let frames = from.sent();
    assert_eq!(to.received(frames).len(), 4);
    assert_eq!((to.counted("rxDropRingFull"), to.counted("ifInDiscards")), (6, 6));
}

#[test]
fn interrupts_come_by_time_or_by_number() {
    let knobs = PortKnobs { rx_usecs: 50, rx_frames: 3, ..PortKnobs::default() };
    let limits = NicLimits { link: at(Some(BitRate(1e9))), ..limits() };
    let mut port = End::new(limits, knobs, 1, None);
    let queue = Arc::clone(&port.queues[0]);
    let frame = || WireFrame::copied(packet(b"x")).into();
    // between two ticks of the timer
    let start = 1_020_000_000;
    queue.interrupt.will_sleep();
    port.device.arrived(frame(), start, start);
    assert_eq!(port.device.due_ps(0), Some(1_050_000_000));
    port.device.interrupt(1_049_000_000);
    assert_eq!(port.counted("rxInterrupts"), 0);
    port.device.interrupt(1_050_000_000);
    assert_eq!(port.counted("rxInterrupts"), 1);
    assert_eq!(port.device.due_ps(0), None);
    queue.interrupt.will_sleep();
    for _ in 0..3 {
        port.device.arrived(frame(), start, start);
    }
    port.device.interrupt(start);
    assert_eq!(port.counted("rxInterrupts"), 2);
    // a driver that is awake needs none
    port.device.arrived(frame(), start, start);
    port.device.interrupt(LATER_PS);
    assert_eq!(port.counted("rxInterrupts"), 2);
}

#[test]
fn what_frames_wait_for_is_counted() {
    let knobs = PortKnobs { rx_usecs: 50, rx_frames: 0, ..quiet() };
    let limits = NicLimits { link: at(Some(BitRate(1e9))), ..limits() };
    let mut port = End::new(limits, knobs, 1, None);
    // the tick is at 1050 µs, and the device thread comes 7 µs later
    for at_us in [1020, 1035, 1049] {
        let frame = WireFrame::copied(packet(b"x")).into();
        port.device.arrived(frame, at_us * PS_PER_US, at_us * PS_PER_US);
    }
    port.device.interrupt(1057 * PS_PER_US);
    assert_eq!(port.counted("rxWaitedFrames"), 3);
    assert_eq!(port.counted("rxWaitNs"), 30_000 + 15_000 + 1_000);
    assert_eq!(port.counted("rxLateNs"), 3 * 7_000);
    // they wait once
    port.device.interrupt(2000 * PS_PER_US);
    assert_eq!((port.counted("rxWaitedFrames"), port.counted("rxLateNs")), (3, 21_000));
    let posted_ps = port.device.host.clock.at_ps(port.posted_ns);
    for _ in 0..2 {
        port.post(superframe(1448), &packet(&payload(5000)));
    }
    let ends: Vec<u64> = port.sent().iter().map(|sent| sent.1 - posted_ps).collect();
    // the second packet waits for the first
    let (first_ps, second_ps) = (ends[ends.len() / 2 - 1], ends[ends.len() - 1]);
    assert_eq!(port.counted("txWireNs"), first_ps / 1000 + second_ps / 1000);
}

#[test]
fn adaptive_interrupts_wait_for_bulk_traffic_only() {
    let knobs = PortKnobs { rx_usecs: 250, rx_frames: 0, ..PortKnobs::default() };
    let limits = NicLimits { link: at(Some(BitRate(1e9))), ..limits() };
    let frame = |size| WireFrame::copied(packet(&payload(size))).into();
    let us = 1_000_000;
    // off a tick of the timer
    let start = 1_000_100 * us;
    let due = |port: &mut End, at_ps| {
        port.device.arrived(frame(1), at_ps, at_ps);
        let due_ps = port.device.due_ps(at_ps);
        port.device.interrupt(at_ps + 250 * us);
        due_ps
    };
    for (adaptive_rx, delay) in [(false, 150 * us), (true, 0)] {
        let mut port =
            End::new(limits.clone(), PortKnobs { adaptive_rx, ..knobs.clone() }, 1, None);
        assert_eq!(due(&mut port, start), Some(start + delay));
        // two windows of frames at the rate of the link
        for number in 1..200 {
            let at_ps = start + number * 12 * us;
            port.device.arrived(frame(1448), at_ps, at_ps);
            port.device.interrupt(at_ps);
            port.popped(0);
        }
        // the tick after the last of them
        port.device.interrupt(start + 2500 * us);
        let busy = start + 10_000 * us;
        assert_eq!(due(&mut port, busy), Some(busy + 150 * us), "adaptive {adaptive_rx}");
        // the knob may change while traffic flows
        let knobs = PortKnobs { rx_usecs: 0, adaptive_rx, ..knobs.clone() };
        port.device.shared.settings.request(knobs);
        port.device.refresh(&mut |_, _| {});
        assert_eq!(due(&mut port, busy + 900 * us), Some(busy + 900 * us));
    }
}

#[test]
fn ticks_replace_the_doorbell_while_there_is_traffic() {
    let us = 1_000_000;
    let knobs = PortKnobs { rx_usecs: 250, rx_frames: 0, ..PortKnobs::default() };
    let limits = NicLimits { link: at(Some(BitRate(1e9))), ..limits() };
    let frame = || WireFrame::copied(packet(b"x")).into();
    let wants = |port: &mut End, now_ps| {
        let due_ps = port.device.due_ps(now_ps);
        (due_ps, port.device.shared.interface.wants_doorbell.load(Ordering::Relaxed))
    };
    let mut port = End::new(limits.clone(), knobs.clone(), 1, None);
    let start = 1_000_100 * us;
    assert_eq!(wants(&mut port, start), (None, true), "no traffic yet");
    port.device.arrived(frame(), start, start);
    assert_eq!(wants(&mut port, start), (Some(1_000_250 * us), false));
    port.device.interrupt(1_000_250 * us);
    assert_eq!(wants(&mut port, 1_000_250 * us), (Some(1_000_500 * us), false), "a response");
    assert_eq!(wants(&mut port, 1_000_500 * us), (None, true), "no response came");
    // an interrupt that comes with a number of frames waits for no tick
    for (rx_usecs, rx_frames) in [(0, 0), (250, 2)] {
        let knobs = PortKnobs { rx_usecs, rx_frames, ..knobs.clone() };
        let mut port = End::new(limits.clone(), knobs, 1, None);
        port.device.arrived(frame(), start, start);
        assert!(wants(&mut port, start).1, "rx-usecs {rx_usecs}, rx-frames {rx_frames}");
    }
}

#[test]
fn completions_wait_for_the_link() {
    let limits = NicLimits { link: at(Some(BitRate(1e9))), ..limits() };
    let mut port = End::new(limits, quiet(), 1, None);
    port.post(superframe(1448), &packet(&payload(50_000)));
    let frames = port.sent();
    let end_ps = frames[frames.len() - 1].1;
    let completed = |port: &End| port.queues[0].completed.load(Ordering::Relaxed);
    port.device.interrupt(end_ps - 1);
    assert_eq!(completed(&port), 0);
    port.device.interrupt(end_ps);
    assert_eq!(completed(&port), 1);
    // nobody waited for it
    assert_eq!(port.counted("txInterrupts"), 0);
    port.queues[0].starved.store(true, Ordering::Relaxed);
    port.queues[0].interrupt.will_sleep();
    port.post(superframe(1448), &packet(&payload(5000)));
    let end_ps = port.sent().last().unwrap().1;
    port.device.interrupt(end_ps);
    assert_eq!(port.counted("txInterrupts"), 1);
    assert_eq!(port.queues[0].late_ns.load(Ordering::Relaxed), 0);
}

#[test]
fn a_late_completion_interrupt_says_how_late_it_is() {
    let limits = NicLimits { link: at(Some(BitRate(1e9))), ..limits() };
    let mut port = End::new(limits, PortKnobs { tx_usecs: 50, ..quiet() }, 1, None);
    let late_us = |port: &End| port.queues[0].late_ns.load(Ordering::Relaxed) / 1000;
    port.queues[0].starved.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        port.post(superframe(1448), &packet(&payload(50_000)));
    }
    let ends: Vec<u64> = port.sent().iter().map(|sent| sent.1).collect();
    let (first_ps, last_ps) = (ends[ends.len() / 2 - 1], ends[ends.len() - 1]);
    // 50 µs after the first packet has left, while the link sends the second
    port.device.interrupt(first_ps + 350 * PS_PER_US);
    assert_eq!(late_us(&port), 300);
    // nothing is outstanding any more, so the interrupt did not have to wait
    port.device.interrupt(last_ps + 4000 * PS_PER_US);
    assert_eq!(late_us(&port), 4000);
    // a driver that does not wait for room is not late
    port.queues[0].starved.store(false, Ordering::Relaxed);
    port.post(superframe(1448), &packet(&payload(5000)));
    let end_ps = port.sent().last().unwrap().1;
    port.device.interrupt(end_ps + 4000 * PS_PER_US);
    assert_eq!(late_us(&port), 0);
}

#[test]
fn a_link_that_is_down_carries_nothing() {
    let mut port = End::new(limits(), quiet(), 1, None);
    port.device.shared.first_link().set_up(false);
    port.post(needs_checksum(), &packet(b"lost"));
    assert!(port.sent().is_empty());
    assert!(port.received(vec![(WireFrame::copied(packet(b"lost")), 1)]).is_empty());
    assert_eq!((port.counted("txDropLinkDown"), port.counted("ifOutDiscards")), (1, 1));
    port.device.shared.first_link().set_up(true);
    port.post(needs_checksum(), &packet(b"there"));
    assert_eq!(port.sent().len(), 1);
}

#[test]
fn handed_through_means_untouched() {
    let limits = NicLimits { hand_through: true, ..limits() };
    let mut from = End::new(limits.clone(), quiet(), 1, None);
    let mut to = End::new(limits, quiet(), 1, None);
    let (vnet, packet) = (superframe(1448), packet(&payload(50_000)));
    from.post(vnet, &packet);
    let frames = from.sent();
    assert_eq!(to.received(frames), [(vnet, packet)]);
}

#[test]
fn what_leaves_together_arrives_as_each_by_itself() {
    for (lro, rate) in [(true, None), (false, None), (true, Some(BitRate(1e9)))] {
        let limits = NicLimits { link: at(rate), ..limits() };
        let knobs = PortKnobs { lro, ..quiet() };
        let of = |together: bool| {
            let mut from = End::new(limits.clone(), knobs.clone(), 1, None);
            let mut to = End::new(limits.clone(), knobs.clone(), 1, None);
            for length in [40_000, 5, 20_000] {
                from.post(superframe(1448), &packet(&payload(length)));
            }
            let bursts = from.bursts();
            assert_eq!(bursts.iter().any(|(burst, _)| burst.frames() > 1), rate.is_none());
            let got = if together {
                to.received(bursts)
            } else {
                let each = bursts.iter().flat_map(|(burst, at_ps)| {
                    burst.each().map(|frame| (frame, *at_ps)).collect::<Vec<_>>()
                });
                to.received(each.collect())
            };
            let mut counters = to.device.shared.counters();
            // the packets of both were not posted at one time
            counters.retain(|name, _| !["rxWaitNs", "rxLateNs"].contains(&name.as_str()));
            (got, counters)
        };
        assert_eq!(of(true), of(false), "lro {lro}");
    }
}

/// What a host may hand over: a vnet header that lies, and a packet that was damaged and cut.
#[derive(Debug, Clone)]
struct Lie {
    size: u16,
    kind: u8,
    start: u16,
    offset: u16,
    length: usize,
    damage: Vec<(usize, u8)>,
    cut: usize,
    vlan: u16,
    snap: bool,
}

/// Whatever a host hands over, what leaves is whole, and what does not leave is counted.
fn nothing_that_lies_reaches_the_wire(lie: Lie) -> Result<(), TestCaseError> {
    let Lie { size, kind, start, offset, length, damage, cut, vlan, snap } = lie;
    let mut bytes = packet(&payload(length));
    for (at, value) in damage {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
    }
    bytes.truncate(cut);
    let mut raw = vec![1, kind, 0, 0];
    raw.extend(size.to_ne_bytes());
    raw.extend(start.to_ne_bytes());
    raw.extend(offset.to_ne_bytes());
    raw.extend(&bytes);
    let mut port = End::new(limits(), PortKnobs { vlan, snap, ..quiet() }, 1, None);
    port.post_raw(&raw);
    let frames = port.sent();
    let dropped = port.counted("ifOutErrors");
    prop_assert_eq!(frames.is_empty(), dropped == 1);
    for (frame, _) in &frames {
        let frame = frame.to_vec();
        prop_assert!(frame.len() <= 9014 + 12);
        prop_assert!(Headers::parse(&frame).is_ok());
    }
    let (header, _) = VnetHeader::parse(&raw, Form::Plain).unwrap_or_default();
    if header.gso.is_some() {
        for (frame, _) in &frames {
            let frame = frame.to_vec();
            let headers = Headers::parse(&frame).unwrap();
            prop_assert!(headers.network_checksum_verifies(&frame));
            prop_assert_ne!(headers.transport_checksum_parts(&frame, &[]), Verification::Wrong);
        }
    }
    Ok(())
}

/// What comes from the wire is handed up as it came, or dropped and counted.
fn nothing_from_the_wire_is_changed(
    lengths: &[usize],
    damage: Vec<(usize, usize, u8)>,
    lro: bool,
) -> Result<(), TestCaseError> {
    let mut frames: Vec<Vec<u8>> = lengths.iter().map(|length| packet(&payload(*length))).collect();
    for (frame, at, value) in damage {
        let frames_here = frames.len();
        if let Some(byte) = frames[frame % frames_here].get_mut(at) {
            *byte = value;
        }
    }
    let mut port = End::new(limits(), PortKnobs { lro, ..quiet() }, 1, None);
    let wire = frames.iter().map(|bytes| (WireFrame::copied(bytes.clone()), 1)).collect();
    let got = port.received(wire);
    let dropped = port.counted("ifInErrors") as usize;
    let merged = port.counted("rxMergedFrames") as usize;
    let superframes = port.counted("rxSuperframes") as usize;
    prop_assert_eq!(got.len() + merged - superframes + dropped, frames.len());
    for (vnet, packet) in got.iter().filter(|(vnet, _)| vnet.gso.is_none()) {
        // padding and SNAP aside, the very bytes
        prop_assert!(frames.iter().any(|frame| frame == packet) || packet.len() < 70);
        if vnet.data_valid {
            prop_assert!(is_right(packet));
        }
    }
    Ok(())
}

#[test]
fn a_packet_of_two_bytes_that_is_to_be_cut_is_dropped() {
    let lie = Lie {
        size: 1,
        kind: 3,
        start: 0,
        offset: 0,
        length: 0,
        damage: Vec::new(),
        cut: 2,
        vlan: 0,
        snap: false,
    };
    nothing_that_lies_reaches_the_wire(lie).unwrap();
}

#[test]
fn a_checksum_asked_for_inside_damaged_headers_leaves_whole_frames() {
    let lie = Lie {
        size: 0,
        kind: 0,
        start: 24,
        offset: 21,
        length: 194,
        damage: vec![(89, 94), (69, 188)],
        cut: 260,
        vlan: 0,
        snap: false,
    };
    nothing_that_lies_reaches_the_wire(lie).unwrap();
}

#[test]
fn short_and_empty_payloads_are_handed_up_as_they_came() {
    nothing_from_the_wire_is_changed(&[4], Vec::new(), false).unwrap();
    nothing_from_the_wire_is_changed(&[0], Vec::new(), true).unwrap();
}

proptest! {
    #[test]
    fn no_lie_reaches_the_wire(
        (size, kind, start, offset) in (0u16..3000, 0u8..6, 0u16..100, 0u16..30),
        length in 0usize..8000, damage in prop::collection::vec((0usize..120, any::<u8>()), 0..4),
        cut in 0usize..9000, vlan in prop_oneof![Just(0u16), 1u16..4095], snap: bool,
    ) {
        let lie = Lie { size, kind, start, offset, length, damage, cut, vlan, snap };
        nothing_that_lies_reaches_the_wire(lie)?;
    }

    #[test]
    fn nothing_that_came_is_changed(
        lengths in prop::collection::vec(0usize..2000, 1..20),
        damage in prop::collection::vec((0usize..20, 0usize..120, any::<u8>()), 0..6), lro: bool,
    ) {
        nothing_from_the_wire_is_changed(&lengths, damage, lro)?;
    }
}
