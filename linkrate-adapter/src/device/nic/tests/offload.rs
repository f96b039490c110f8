//! Packets of connections that move to the adapter's TCP, or back.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

use linkrate_wire::lro::Parts;

use super::*;
use crate::device::nic::toe::To;
use crate::flow_steering::{Asks, Order};
use crate::interface::flow_queue::FlowQueue;
use crate::interface::polled::Polled;
use crate::interface::tx_revoke::{ConnectionEnds, Revoked, Span, last_piece};

const LENGTH: u32 = 1400;

fn ends() -> ConnectionEnds {
    let address = |last, port| SocketAddr::new([10, 0, 0, last].into(), port);
    ConnectionEnds { own: address(1, 0x3039), far: address(2, 0x1451) }
}

/// A packet of the connection, without a vnet header.
fn segment(sequence: u32, acknowledgement: u32, length: usize) -> Vec<u8> {
    let mut bytes = packet(&payload(length));
    bytes[38..42].copy_from_slice(&sequence.to_be_bytes());
    bytes[42..46].copy_from_slice(&acknowledgement.to_be_bytes());
    bytes
}

fn data(index: u32) -> Vec<u8> {
    segment(1 + index * LENGTH, 9, LENGTH as usize)
}

/// Its sequence and acknowledgement numbers.
fn numbers(frame: &WireFrame) -> (u32, u32) {
    let word = |at: usize| u32::from_be_bytes(frame.head()[at..at + 4].try_into().unwrap());
    (word(38), word(42))
}

/// A port with an engine, on a slow link: most packets wait. `tap` is where the adapter's TCP sends.
struct Port {
    end: End,
    tap: UnixDatagram,
}

impl Port {
    fn new() -> Self {
        let (tap, device) = UnixDatagram::pair().unwrap();
        device.set_nonblocking(true).unwrap();
        let own = Queue::new(Ends::Polled(Polled::new(OwnedFd::from(device), 0, Arc::default())));
        let limits = NicLimits { link: at(Some(BitRate(1e8))), connections: 4, ..limits() };
        Self { end: End::with(limits, quiet(), 1, None, Some(own)), tap }
    }

    /// Gives an order; its number.
    fn order(&mut self, order: Order) -> u64 {
        let number = self.end.device.shared.orders.give(order, 4).unwrap();
        self.end.device.take_orders();
        number
    }

    fn is_done(&self, number: u64) -> bool {
        self.end.device.shared.orders.wait(number, || true).is_ok()
    }

    fn taken_back(&self, number: u64) -> Vec<Span> {
        assert!(self.is_done(number));
        self.end.device.shared.orders.taken_back(number)
    }

    fn host_sends(&mut self, packet: &[u8]) {
        self.end.post(needs_checksum(), packet);
    }

    fn adapter_sends(&mut self, packet: &[u8]) {
        let mut bytes = needs_checksum().emit()[..VNET_BYTES].to_vec();
        bytes.extend_from_slice(packet);
        self.tap.send(&bytes).unwrap();
        self.end.device.host.interface.polled().for_each(Polled::look_again);
    }

    /// What leaves until the FIFO is full: sequence and acknowledgement numbers.
    fn left(&mut self) -> Vec<(u32, u32)> {
        let now_ps = self.end.device.host.clock.now_ps();
        let mut left = Vec::new();
        self.end.device.send_posted(now_ps, &mut |burst, _| {
            left.extend(burst.each().map(|frame| numbers(&frame)));
        });
        left
    }

    /// The rest, once the line is free.
    fn rest(&mut self) -> Vec<(u32, u32)> {
        self.end.sent().iter().map(|(frame, _)| numbers(frame)).collect()
    }

    /// The driver answers, which has these packets before its ring.
    fn driver_answers(&mut self, question: u64, packets: &[Vec<u8>]) {
        let mut waiting = FlowQueue::new(100);
        for packet in packets {
            waiting.push(self.end.descriptor(&[&[0; VNET_BYTES], &packet[..]].concat()));
        }
        let mut revoked = Revoked::new(ends());
        waiting.revoke(&mut revoked);
        self.end.device.shared.interface.revocations.add(revoked);
        self.end.queues[0].revoked_to.store(question, Ordering::Release);
        assert!(self.end.device.settle());
        // an acknowledgement follows what is in the ring
        while let Some(descriptor) = waiting.pop() {
            self.end.tx[0].push(descriptor).unwrap();
        }
    }

    /// The host's TCP has the connection no more. The driver has these packets before its ring. What was taken back.
    fn leaves_host(&mut self, waiting: &[Vec<u8>]) -> Vec<Span> {
        self.order(Order::Hold(ends()));
        let number = self.order(Order::TakeBack(ends()));
        assert!(!self.is_done(number), "the driver was not asked");
        self.driver_answers(1, waiting);
        self.taken_back(number)
    }

    /// The adapter's TCP has the connection no more. What was taken back.
    fn leaves_adapter(&mut self) -> Vec<Span> {
        self.order(Order::Return(ends()));
        let number = self.order(Order::TakeBack(ends()));
        self.taken_back(number)
    }

    /// The connection is at the adapter.
    fn lowered() -> Self {
        let mut port = Self::new();
        port.order(Order::Hold(ends()));
        port.order(Order::ToAdapter(ends(), 1));
        port
    }
}

#[test]
fn what_the_host_has_sent_and_has_not_left_is_taken_back() {
    let mut port = Port::new();
    (0..60).for_each(|index| port.host_sends(&data(index)));
    let left = port.left().len() as u32;
    assert!((2..59).contains(&left), "{left}");
    let spans = port.leaves_host(&[data(60), data(61)]);
    assert_eq!(last_piece(spans).unwrap().start, 1 + left * LENGTH);
    port.order(Order::ToAdapter(ends(), 1 + 62 * LENGTH));
    // the adapter sends the same payload
    port.adapter_sends(&data(left));
    assert_eq!(port.rest(), [(1 + left * LENGTH, 9)]);
    assert_eq!(port.end.counted("toeTakenBack"), u64::from(62 - left));
    assert_eq!(port.end.counted("toeHostSegments"), 0);
}

#[test]
fn the_latest_acknowledgement_of_the_host_leaves_unless_the_adapter_was_first() {
    for adapter_is_first in [false, true] {
        let mut port = Port::new();
        [1, 2].iter().for_each(|number| port.host_sends(&segment(1, *number, 0)));
        let spans = port.leaves_host(&[segment(1, 3, 0), segment(1, 4, 0)]);
        assert_eq!(last_piece(spans), None);
        port.order(Order::ToAdapter(ends(), 1));
        if adapter_is_first {
            port.adapter_sends(&segment(1, 5, 0));
        }
        // queues have their turns; the adapter's comes before that of what waited longest in the other
        let left = if adapter_is_first { (1, 5) } else { (1, 4) };
        assert_eq!(port.rest(), [left]);
        port.host_sends(&segment(1, 4, 0));
        let expected: &[_] = if adapter_is_first { &[] } else { &[(1, 4)] };
        assert_eq!(port.rest(), expected);
    }
}

#[test]
fn an_acknowledgement_from_behind_what_was_taken_back_does_not_leave() {
    let mut port = Port::new();
    port.host_sends(&data(0));
    // the driver does not know of the payload in the ring
    let spans = port.leaves_host(&[segment(1 + LENGTH, 9, 0)]);
    assert_eq!(last_piece(spans).unwrap().start, 1);
    port.order(Order::ToAdapter(ends(), 1 + LENGTH));
    assert_eq!(port.rest(), []);
}

#[test]
fn what_the_adapter_has_sent_and_has_not_left_is_taken_back() {
    let mut port = Port::lowered();
    (0..60).for_each(|index| port.adapter_sends(&data(index)));
    let left = port.left().len() as u32;
    assert!((2..59).contains(&left), "{left}");
    assert_eq!(last_piece(port.leaves_adapter()).unwrap().start, 1 + left * LENGTH);
    // the host sends the same payload, and may before it is told
    port.host_sends(&data(left));
    assert_eq!(port.rest(), [(1 + left * LENGTH, 9)]);
    port.order(Order::ToHost(ends()));
    port.host_sends(&data(left + 1));
    assert_eq!(port.rest(), [(1 + (left + 1) * LENGTH, 9)]);
    assert_eq!(port.end.counted("toeTakenBack"), u64::from(60 - left));
}

#[test]
fn the_latest_acknowledgement_of_the_adapter_leaves_unless_the_host_was_first() {
    for host_is_first in [false, true] {
        let mut port = Port::lowered();
        [1, 2].iter().for_each(|number| port.adapter_sends(&segment(1, *number, 0)));
        assert_eq!(port.leaves_adapter(), []);
        let expected = match host_is_first {
            false => vec![(1, 2)],
            true => {
                port.host_sends(&segment(1, 3, 0));
                // the host's queue has the first turn
                vec![(1, 3)]
            }
        };
        port.order(Order::ToHost(ends()));
        assert_eq!(port.rest(), expected);
    }
}

#[test]
fn a_host_that_has_a_connection_again_may_send_what_was_once_taken_back() {
    let mut port = Port::new();
    port.host_sends(&data(0));
    assert_eq!(port.leaves_host(&[]).len(), 1);
    // the adapter does not take it
    port.order(Order::Return(ends()));
    port.host_sends(&data(0));
    assert_eq!(port.rest(), [(1, 9)]);
    port.order(Order::ToHost(ends()));
    assert_eq!((port.end.counted("toeTakenBack"), port.end.counted("toeLetOut")), (1, 0));
}

#[test]
fn what_the_adapter_has_sent_leaves_after_its_connection_has_returned() {
    let mut port = Port::lowered();
    assert_eq!(port.leaves_adapter(), []);
    port.order(Order::ToHost(ends()));
    // it was in the kernel still
    port.adapter_sends(&data(0));
    assert_eq!(port.rest(), [(1, 9)]);
    assert_eq!(port.end.counted("toeLetOut"), 1);
    let reset = {
        let mut bytes = segment(1 + LENGTH, 9, 0);
        bytes[47] = 0x04;
        bytes
    };
    port.adapter_sends(&reset);
    assert_eq!(port.rest(), []);
}

/// Where a frame of the link goes.
fn way(port: &mut Port, frame: Vec<u8>) -> To {
    let headers = Headers::parse(&frame).unwrap();
    port.end.device.offloaded(&WireFrame::copied(frame), &headers, 1)
}

/// A packet of the peer.
fn of_the_peer(length: usize) -> Vec<u8> {
    let mut bytes = segment(1, 9, length);
    // both ends change places
    let (source, destination): ([u8; 4], [u8; 4]) = ([10, 0, 0, 2], [10, 0, 0, 1]);
    bytes[26..34].copy_from_slice(&[source, destination].concat());
    bytes[34..38].copy_from_slice(&[0x14, 0x51, 0x30, 0x39]);
    bytes
}

#[test]
fn a_connection_whose_peer_sends_fragments_is_asked_back() {
    let mut port = Port::lowered();
    assert_eq!(way(&mut port, of_the_peer(100)), To::Adapter);
    let fragment = |field: u16| {
        let mut bytes = of_the_peer(100);
        bytes[20..22].copy_from_slice(&field.to_be_bytes());
        bytes
    };
    // one that does not tell its ports waits at the host for the first
    assert_eq!(way(&mut port, fragment(0x0010)), To::Host);
    assert_eq!(way(&mut port, fragment(0x2000)), To::Later);
    let asked = port.end.device.shared.orders.asked();
    assert_eq!(asked, [(ends(), Asks::Fragment)]);
    // it comes up once the host has the connection
    port.leaves_adapter();
    port.order(Order::ToHost(ends()));
    port.end.device.interrupt(LATER_PS);
    assert_eq!(port.end.popped(0), [(VnetHeader::default(), fragment(0x2000))]);
    assert_eq!(way(&mut port, fragment(0x2000)), To::Host);
}

/// RFC 792: the packet that an error quotes is one that this end has sent.
#[test]
fn errors_about_segments_of_the_adapter_are_for_its_tcp() {
    let error = |kind: u8, quoted: &[u8]| {
        let mut bytes = of_the_peer(0)[..34].to_vec();
        bytes[23] = 1;
        bytes.extend([kind, 4, 0, 0, 0, 0, 5, 100]);
        bytes.extend(&quoted[14..]);
        let total = (bytes.len() - 14) as u16;
        bytes[16..18].copy_from_slice(&total.to_be_bytes());
        bytes
    };
    let sent = data(0);
    let mut port = Port::lowered();
    for length in [14 + 28, sent.len()] {
        assert_eq!(way(&mut port, error(3, &sent[..length])), To::Adapter, "{length}");
    }
    // an echo, an error that is cut off, one about another connection
    assert_eq!(way(&mut port, error(8, &sent)), To::Host);
    assert_eq!(way(&mut port, error(3, &sent[..14 + 20])), To::Host);
    assert_eq!(way(&mut port, error(3, &of_the_peer(100))), To::Host);
    let mut port = Port::new();
    assert_eq!(way(&mut port, error(3, &sent)), To::Host);
}
