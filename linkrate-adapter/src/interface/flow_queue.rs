//! Packets that wait before a transmit ring, flow by flow.
//!
//! On a real adapter, byte queue limits keep its ring short, and the queue discipline before it lets
//! a flow with little to send pass the others: acknowledgements do not wait behind the data of the
//! other direction. A TAP has neither. It takes packets off the discipline at once, and its queue is
//! one line. So the driver has both: a limit of bytes on the ring (`queue_pair`), and this queue, which
//! serves flows in turn as fq_codel does (RFC 8290, section 4), without dropping packets to shorten
//! it. The queue costs the host CPU time, as its discipline would.

use std::collections::VecDeque;

use linkrate_wire::balance::FlowHash;

use super::rings::TxDescriptor;
use super::tx_revoke::Revoked;
use crate::frame::VNET_BYTES;

/// Bytes that a flow sends in its turn: a frame of the standard MTU (RFC 8290, section 5.2.2).
const QUANTUM: i64 = 1514;

/// Bytes of a packet that have all headers.
pub(crate) const HEADERS: usize = 256;

/// Packets of a flow.
#[derive(Debug, Default)]
struct Flow {
    packets: VecDeque<TxDescriptor>,
    /// Bytes that it may still send in this turn.
    credit: i64,
    /// It is in one of the lists.
    listed: bool,
}

/// The queue. Flows are distinguished by the hash of their addresses and ports.
#[derive(Debug)]
pub(crate) struct FlowQueue {
    hash: FlowHash,
    /// The packet that came while no other waited. It goes before all flows, so that its flow need
    /// not be known.
    first: Option<TxDescriptor>,
    /// By number; made with the first packet.
    flows: Vec<Flow>,
    /// Flows that had no packet waiting before, and have their first turn. They go first.
    new: VecDeque<usize>,
    /// The other flows with packets.
    old: VecDeque<usize>,
    packets: usize,
    bytes: usize,
    most: usize,
}

impl FlowQueue {
    /// A queue of at most `most` packets.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            hash: FlowHash::default(),
            first: None,
            flows: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
            most,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    pub(crate) fn has_room(&self) -> bool {
        self.packets < self.most
    }

    /// Bytes of all packets.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a packet. There should be room.
    pub(crate) fn push(&mut self, descriptor: TxDescriptor) {
        self.packets += 1;
        self.bytes += descriptor.length;
        if self.packets == 1 {
            self.first = Some(descriptor);
            return;
        }
        if self.flows.is_empty() {
            self.flows.resize_with(FlowHash::FLOWS, Flow::default);
        }
        let number = self.flow_of(&descriptor);
        let flow = &mut self.flows[number];
        if !flow.listed {
            flow.listed = true;
            flow.credit = QUANTUM;
            self.new.push_back(number);
        }
        flow.packets.push_back(descriptor);
    }

    /// Takes the packet whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<TxDescriptor> {
        let descriptor = self.first.take().or_else(|| self.next_of_flows())?;
        self.packets -= 1;
        self.bytes -= descriptor.length;
        Some(descriptor)
    }

    fn next_of_flows(&mut self) -> Option<TxDescriptor> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = *list.front()?;
            let flow = &mut self.flows[number];
            if flow.credit <= 0 {
                flow.credit += QUANTUM;
                list.pop_front();
                self.old.push_back(number);
                continue;
            }
            if let Some(descriptor) = flow.packets.pop_front() {
                flow.credit -= descriptor.length as i64;
                return Some(descriptor);
            }
            list.pop_front();
            if is_new && !self.old.is_empty() {
                // or it would come first again with its next packet, and keep the others waiting
                self.old.push_back(number);
            } else {
                flow.listed = false;
            }
        }
    }

    /// Takes all packets. Those of a flow stay in order.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = TxDescriptor> + use<> {
        let empty = Self::new(self.most);
        let mut all = std::mem::replace(self, empty);
        std::iter::from_fn(move || all.pop())
    }

    /// Takes the packets that `is_meant` says. Those of a flow stay in order.
    pub(crate) fn take(&mut self, is_meant: impl Fn(&TxDescriptor) -> bool) -> Vec<TxDescriptor> {
        let mut taken: Vec<_> = self.first.take_if(|first| is_meant(first)).into_iter().collect();
        for flow in &mut self.flows {
            if flow.packets.iter().any(&is_meant) {
                let packets = std::mem::take(&mut flow.packets).into_iter();
                let (meant, rest): (VecDeque<_>, VecDeque<_>) = packets.partition(&is_meant);
                taken.extend(meant);
                flow.packets = rest;
            }
        }
        self.packets -= taken.len();
        self.bytes -= taken.iter().map(|packet| packet.length).sum::<usize>();
        taken
    }

    /// Revokes the packets of a connection that moves.
    pub(crate) fn revoke(&mut self, revoked: &mut Revoked) {
        let mut taken = self.take(|packet| revoked.concerns(packet));
        if let Some(leaves) = revoked.take(&taken) {
            self.push(taken.swap_remove(leaves));
        }
    }

    fn flow_of(&self, descriptor: &TxDescriptor) -> usize {
        let length = descriptor.length.saturating_sub(VNET_BYTES);
        let end = descriptor.length.min(VNET_BYTES + HEADERS);
        self.hash.flow(descriptor.block.bytes(VNET_BYTES..end), length)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::frame::Block;

    /// A TCP packet of a flow, `length` bytes with its vnet header.
    pub(crate) fn packet(flow: u8, length: usize) -> TxDescriptor {
        let mut frame = [0; 54];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14..16].copy_from_slice(&[0x45, 0]);
        let ip_length = (length - VNET_BYTES - 14) as u16;
        frame[16..18].copy_from_slice(&ip_length.to_be_bytes());
        frame[23] = 6;
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..38].copy_from_slice(&[0x80, flow, 0x13, 0x88]);
        frame[46] = 0x50;
        let mut block = Block::new();
        block.bytes_mut()[VNET_BYTES..][..54].copy_from_slice(&frame);
        TxDescriptor { block: Arc::new(block), length, posted_ns: 0 }
    }

    fn flow_of(descriptor: &TxDescriptor) -> u8 {
        descriptor.block.bytes(VNET_BYTES + 35..VNET_BYTES + 36)[0]
    }

    fn all(queue: &mut FlowQueue) -> Vec<(u8, usize)> {
        std::iter::from_fn(|| queue.pop()).map(|one| (flow_of(&one), one.length)).collect()
    }

    #[test]
    fn one_flow_stays_in_order() {
        let mut queue = FlowQueue::new(100);
        (0..9).for_each(|at| queue.push(packet(1, 100 + at)));
        assert_eq!((queue.bytes(), queue.is_empty()), (9 * 100 + 36, false));
        assert_eq!(all(&mut queue), (0..9).map(|at| (1, 100 + at)).collect::<Vec<_>>());
        assert_eq!((queue.bytes(), queue.is_empty()), (0, true));
    }

    #[test]
    fn an_acknowledgement_passes_the_data_of_another_flow() {
        let mut queue = FlowQueue::new(100);
        (0..5).for_each(|_| queue.push(packet(1, 32_000)));
        queue.pop();
        queue.pop();
        queue.push(packet(2, 78));
        assert_eq!(all(&mut queue)[0], (2, 78));
    }

    #[test]
    fn flows_send_the_same_number_of_bytes() {
        let mut queue = FlowQueue::new(1000);
        for _ in 0..10 {
            queue.push(packet(1, 30_000));
        }
        for _ in 0..200 {
            queue.push(packet(2, 1_500));
        }
        let mut bytes = [0, 0];
        for _ in 0..105 {
            let (flow, length) = queue.pop().map(|one| (flow_of(&one), one.length)).unwrap();
            bytes[usize::from(flow) - 1] += length;
        }
        let [one, other] = bytes;
        assert!(one.abs_diff(other) <= 32_000, "{bytes:?}");
    }

    #[test]
    fn a_flow_that_sends_again_and_again_keeps_no_other_waiting() {
        let mut queue = FlowQueue::new(100);
        (0..3).for_each(|_| queue.push(packet(1, 1_500)));
        let mut others = 0;
        for _ in 0..20 {
            queue.push(packet(2, 1_500));
            others += usize::from(queue.pop().is_some_and(|one| flow_of(&one) == 1));
        }
        assert_eq!(others, 3);
    }

    #[test]
    fn packets_without_addresses_are_one_flow() {
        let mut queue = FlowQueue::new(100);
        let mut arp = || {
            let block = Arc::new(Block::new());
            queue.push(TxDescriptor { block, length: VNET_BYTES + 42, posted_ns: 0 });
        };
        arp();
        arp();
        arp();
        assert_eq!(all(&mut queue).len(), 3);
    }

    #[test]
    fn packets_of_one_flow_are_taken_out_in_order() {
        for first in [1, 2] {
            let mut queue = FlowQueue::new(100);
            queue.push(packet(first, 99));
            (0..20).for_each(|at| queue.push(packet(1 + at % 2, 100 + usize::from(at))));
            let taken = queue.take(|packet| flow_of(packet) == 2);
            let lengths: Vec<usize> = taken.iter().map(|packet| packet.length).collect();
            let odd = (0..20).filter(|at| at % 2 == 1).map(|at| 100 + at);
            let expected: Vec<usize> = (first == 2).then_some(99).into_iter().chain(odd).collect();
            assert_eq!(lengths, expected);
            let rest = all(&mut queue);
            assert!(rest.iter().all(|(flow, _)| *flow == 1) && rest.len() == 21 - taken.len());
            assert_eq!((queue.bytes(), queue.is_empty()), (0, true));
            queue.push(packet(2, 100));
            assert_eq!(all(&mut queue), [(2, 100)]);
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_flows_stay_in_order(
            steps in prop::collection::vec((0..6u8, 70..3000usize, any::<bool>()), 1..200),
        ) {
            let mut queue = FlowQueue::new(usize::MAX);
            let (mut sent, mut got) = (Vec::new(), Vec::new());
            let take = |one: TxDescriptor| (flow_of(&one), one.length);
            for (flow, length, pops) in steps {
                queue.push(packet(flow, length));
                sent.push((flow, length));
                if pops {
                    got.extend(queue.pop().map(take));
                }
            }
            got.extend(queue.take_all().map(take));
            prop_assert!(queue.is_empty() && queue.bytes() == 0);
            for flow in 0..6 {
                let of = |all: &[(u8, usize)]| -> Vec<usize> {
                    all.iter().filter(|one| one.0 == flow).map(|one| one.1).collect()
                };
                prop_assert_eq!(of(&sent), of(&got));
            }
        }
    }
}
