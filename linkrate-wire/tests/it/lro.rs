//! What reassembly must keep: the same bytes, the same frames once cut again, and its bounds.

use crate::common::{ACK, Packet, bytes, strategy};
use linkrate_wire::checksum::Sum;
use linkrate_wire::frame::{Headers, Network, Transport};
use linkrate_wire::lro::{Coalescer, Delivery, Parts, Reason, Row, Superframe};
use linkrate_wire::segment::{Identification, Request};
use linkrate_wire::tso;
use linkrate_wire::vnet::{Checksum, complete_checksum_parts};
use proptest::prelude::*;
use std::ops::Range;
use std::rc::Rc;

type Out = Vec<Delivery<Vec<u8>>>;

fn coalesce(flows: usize, frames: &[Vec<u8>]) -> Out {
    let mut coalescer = Coalescer::new(flows);
    let mut out = Vec::new();
    for frame in frames {
        out.extend(coalescer.offer(frame.clone()).flushed);
        assert!(coalescer.clone().flush().len() <= flows);
    }
    out.extend(coalescer.flush());
    assert!(coalescer.flush().is_empty());
    out
}

/// The frames that a superframe was, by cutting it.
fn restored(superframe: &Superframe<Vec<u8>>) -> Vec<Vec<u8>> {
    let whole = superframe.to_frame();
    let identification = if superframe.fixed_identification {
        Identification::Fixed
    } else {
        Identification::Increments
    };
    let request =
        Request { identification, snap: superframe.snap, ..Request::new(superframe.segment_size) };
    cut(&whole, &request)
}

fn cut(superframe: &[u8], request: &Request) -> Vec<Vec<u8>> {
    let (mut headers, mut cuts) = (Vec::new(), Vec::new());
    tso::cut_into(superframe, request, &mut headers, &mut cuts, |_| ()).expect("a superframe");
    cuts.iter().map(|cut| [cut.header(&headers), cut.payload(superframe)].concat()).collect()
}

fn all_restored(out: &Out) -> Vec<Vec<u8>> {
    let frames = out.iter().flat_map(|delivery| match delivery {
        Delivery::Frame { frame, .. } => vec![frame.clone()],
        Delivery::Superframe { superframe, .. } => restored(superframe),
    });
    frames.collect()
}

fn reasons(out: &Out) -> Vec<(Reason, usize)> {
    let reasons = out.iter().map(|delivery| match delivery {
        Delivery::Frame { reason, .. } => (*reason, 1),
        Delivery::Superframe { superframe, reason } => (*reason, superframe.segments),
    });
    reasons.collect()
}

/// What a host would see of it.
fn reported<F: Parts>(delivery: &Delivery<F>) -> (Reason, usize, Vec<u8>) {
    match delivery {
        Delivery::Frame { frame, reason } => (*reason, 1, [frame.head(), frame.tail()].concat()),
        Delivery::Superframe { superframe, reason } => {
            (*reason, superframe.segments, superframe.to_frame())
        }
    }
}

/// Frames in a row, their tails one after the other.
#[derive(Debug, Clone)]
struct InRow {
    heads: Rc<[Vec<u8>]>,
    tails: Rc<[u8]>,
    /// Where each tail begins, and where the last one ends.
    bounds: Rc<[usize]>,
    range: Range<usize>,
    /// They were cut from one superframe, and nothing has changed since.
    cut: bool,
}

impl InRow {
    fn of(frames: &[(Vec<u8>, Vec<u8>)]) -> Self {
        let mut bounds = vec![0];
        bounds.extend(frames.iter().scan(0, |end, (_, tail)| {
            *end += tail.len();
            Some(*end)
        }));
        Self {
            heads: frames.iter().map(|(head, _)| head.clone()).collect(),
            tails: frames.iter().flat_map(|(_, tail)| tail.clone()).collect(),
            bounds: bounds.into(),
            range: 0..frames.len(),
            cut: false,
        }
    }
}

impl Parts for InRow {
    fn head(&self) -> &[u8] {
        &self.heads[self.range.start]
    }

    fn tail(&self) -> &[u8] {
        &self.tails[self.bounds[self.range.start]..self.bounds[self.range.end]]
    }
}

impl Row for InRow {
    fn frames(&self) -> usize {
        self.range.len()
    }

    fn frame(&self, index: usize) -> (&[u8], &[u8]) {
        let index = self.range.start + index;
        (&self.heads[index], &self.tails[self.bounds[index]..self.bounds[index + 1]])
    }

    fn is_cut(&self) -> bool {
        self.cut
    }

    fn split(mut self, count: usize) -> (Self, Option<Self>) {
        let rest = Self { range: self.range.start + count..self.range.end, ..self.clone() };
        self.range.end = rest.range.start;
        (self, (!rest.range.is_empty()).then_some(rest))
    }
}

/// Offers a row, and each frame that cannot be taken in a row by itself.
fn offer_in_row(coalescer: &mut Coalescer<InRow>, row: InRow) -> Vec<(Reason, usize, Vec<u8>)> {
    let (mut out, mut rest) = (Vec::new(), Some(row));
    while let Some(row) = rest.take() {
        let offered = coalescer.offer_row(row);
        out.extend(offered.flushed.iter().map(reported));
        let Some(row) = offered.rest else { break };
        let (first, after) = row.split(1);
        out.extend(coalescer.offer(first).flushed.iter().map(reported));
        rest = after;
    }
    out
}

/// A superframe of a flow, for the test of rows.
#[derive(Debug)]
struct CutSuperframe {
    segments: usize,
    /// Bytes by which the last segment is shorter.
    shorter: usize,
    /// It does not arrive.
    lost: bool,
    /// All its segments have one identification, where the packet allows it.
    fixed: bool,
}

fn cut_superframe(most: usize) -> impl Strategy<Value = CutSuperframe> {
    let shorter = prop_oneof![3 => Just(0usize), 1 => 1usize..100];
    let parts = (1..=most, shorter, prop::bool::weighted(0.1), prop::bool::weighted(0.3));
    parts.prop_map(|(segments, shorter, lost, fixed)| CutSuperframe {
        segments,
        shorter,
        lost,
        fixed,
    })
}

/// Cuts superframes by `request`, offers their frames one by one and as rows, and expects the same.
fn compare_in_rows(
    mut packet: Packet,
    request: &Request,
    superframes: Vec<CutSuperframe>,
) -> Result<(), TestCaseError> {
    let (mut usual, mut short) = (Coalescer::new(4), Coalescer::new(4));
    let (mut expected, mut got) = (Vec::new(), Vec::new());
    let size = usize::from(request.segment_size);
    for CutSuperframe { segments, shorter, lost, fixed } in superframes {
        let length = (segments * size).saturating_sub(shorter.min(size - 1));
        packet.payload = (0..length).map(|at| at as u8).collect();
        let identification = if fixed { Identification::Fixed } else { Identification::Increments };
        let frames: Vec<_> = cut(&packet.frame(), &Request { identification, ..*request })
            .iter()
            .map(|frame| {
                let at = Headers::parse(frame).expect("a good frame").payload;
                (frame[..at].to_vec(), frame[at..].to_vec())
            })
            .collect();
        packet.sequence = packet.sequence.wrapping_add(length as u32);
        packet.identification = packet.identification.wrapping_add(frames.len() as u16);
        if lost {
            continue;
        }
        for frame in &frames {
            expected.extend(usual.offer(frame.clone()).flushed.iter().map(reported));
        }
        got.extend(offer_in_row(&mut short, InRow { cut: true, ..InRow::of(&frames) }));
    }
    expected.extend(usual.flush().iter().map(reported));
    got.extend(short.flush().iter().map(reported));
    // they would fill pages
    let shown = |reported: &[(Reason, usize, Vec<u8>)]| -> Vec<_> {
        reported.iter().map(|(reason, frames, bytes)| (*reason, *frames, bytes.len())).collect()
    };
    prop_assert_eq!(shown(&got), shown(&expected));
    prop_assert!(got == expected, "the bytes of the packets differ");
    Ok(())
}

/// Addresses and ports; nothing for what is not TCP.
fn flow(frame: &[u8]) -> Vec<u8> {
    let Ok(headers) = Headers::parse(frame) else { return Vec::new() };
    let addresses = match headers.network {
        Network::V4(ip) => ip.at + 12..ip.at + 20,
        Network::V6(ip) => ip.at + 8..ip.at + 40,
        Network::Other => return Vec::new(),
    };
    let Transport::Tcp { at } = headers.transport else { return Vec::new() };
    [&frame[addresses], &frame[at..at + 4]].concat()
}

#[test]
fn a_superframe_is_what_a_tap_accepts() {
    let whole = Packet { flags: 0x18, ..Packet::tcp4(bytes(3500)) };
    let out = coalesce(4, &whole.cut(1000));
    let [Delivery::Superframe { superframe, reason: Reason::Pushed }] = &out[..] else {
        panic!("one superframe, not {out:?}");
    };
    assert_eq!((superframe.segment_size, superframe.segments), (1000, 4));
    assert_eq!((superframe.transport, superframe.ipv6), (34, false));
    // complete the checksum as the host would: from csum_start to the end, the field included
    let mut frame = superframe.to_frame();
    let checksum = Sum::of(&frame[superframe.transport..]).checksum();
    frame[superframe.transport + 16..][..2].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(frame, whole.frame());
}

#[test]
fn cwr_and_other_windows_are_left_alone() {
    let mut frames = Packet { flags: ACK, ..Packet::tcp4(bytes(400)) }.cut(100);
    frames[1] = {
        let packet = Packet { sequence: 200, identification: 1, ..Packet::tcp4(vec![1; 100]) };
        Packet { flags: ACK | 0x80, ..packet }.frame()
    };
    let out = coalesce(4, &frames);
    assert_eq!(reasons(&out), [(Reason::Flags, 1), (Reason::Flags, 1), (Reason::Flushed, 2)]);
    let narrow = Packet { sequence: 200, identification: 1, ..Packet::tcp4(vec![1; 100]) };
    frames[1] = Packet { window: 9, ..narrow }.frame();
    let out = coalesce(4, &frames);
    assert_eq!(reasons(&out), [(Reason::Mismatch, 1), (Reason::Mismatch, 1), (Reason::Flushed, 2)]);
}

#[test]
fn does_not_merge_a_frame_of_another_length_or_sequence() {
    let first = Packet::tcp4(bytes(100)).frame();
    let next = Packet { sequence: 200, identification: 1, ..Packet::tcp4(bytes(100)) };
    let alone = [(Reason::Mismatch, 1), (Reason::Flushed, 1)];
    let longer = Packet { payload: bytes(101), ..next.clone() };
    assert_eq!(reasons(&coalesce(4, &[first.clone(), longer.frame()])), alone);
    for sequence in [199, 201] {
        let off = Packet { sequence, ..next.clone() };
        assert_eq!(reasons(&coalesce(4, &[first.clone(), off.frame()])), alone);
    }
    let skipped = Packet { identification: 2, ..next.clone() };
    assert_eq!(reasons(&coalesce(4, &[first.clone(), skipped.frame()])), alone);
    assert_eq!(reasons(&coalesce(4, &[first, next.frame()])), [(Reason::Flushed, 2)]);
}

#[test]
fn evicts_the_flow_that_was_held_longest() {
    let flow = |port| Packet { ports: (port, 80), ..Packet::tcp4(bytes(200)) }.cut(100);
    let (a, b, c) = (flow(1), flow(2), flow(3));
    let frames = [&a[0], &b[0], &c[0], &b[1], &c[1], &a[1]].map(Clone::clone);
    let out = coalesce(2, &frames);
    let expected =
        [(Reason::Evicted, 1), (Reason::Evicted, 2), (Reason::Flushed, 2), (Reason::Flushed, 1)];
    assert_eq!(reasons(&out), expected);
}

#[test]
fn padding_is_stripped_before_merging() {
    let mut packets = Vec::new();
    for (sequence, flags) in [(100, ACK), (103, ACK | 8)] {
        let identification = (sequence - 100) as u16 / 3;
        let packet = Packet { sequence, flags, identification, ..Packet::tcp4(vec![5; 3]) };
        packets.push(Packet { padding: 3, ..packet }.frame());
    }
    let out = coalesce(1, &packets);
    let [Delivery::Superframe { superframe, .. }] = &out[..] else { panic!("one superframe") };
    assert_eq!(superframe.to_frame().len(), 54 + 6);
}

#[test]
fn a_superframe_keeps_its_tags_and_its_checksum_offset() {
    let tags = vec![(0x8100, 0x6005), (0x8100, 9)];
    let whole = Packet { tags, flags: 0x18, ..Packet::tcp6(bytes(900)) };
    let out = coalesce(1, &whole.cut(400));
    let [Delivery::Superframe { superframe, .. }] = &out[..] else { panic!("one superframe") };
    let header = superframe.vnet_header();
    let Checksum { start, offset } = header.checksum.expect("to be completed");
    assert_eq!((start, offset, header.header_length), (62, 16, 82));
    let mut frame = superframe.to_frame();
    complete_checksum_parts(&mut frame, Sum::ZERO, start.into(), offset.into()).expect("a field");
    assert_eq!(frame, whole.frame());
}

#[test]
fn other_protocols_pass_and_flush_nothing() {
    let mut coalescer = Coalescer::new(4);
    assert!(coalescer.offer(Packet::tcp4(bytes(100)).frame()).kept);
    let offered = coalescer.offer(Packet::udp4(bytes(100)).frame());
    assert_eq!(reasons(&offered.flushed), [(Reason::NotTcp, 1)]);
    let offered = coalescer.offer(vec![0; 9]);
    assert_eq!(reasons(&offered.flushed), [(Reason::Malformed, 1)]);
    assert_eq!(coalescer.clone().flush().len(), 1);
}

proptest! {
    #[test]
    fn splitting_then_merging_gives_the_superframe_back(
        packet in strategy::packet(1200), size in 1usize..400, fixed: bool,
    ) {
        // what LRO may merge: no CWR, ACK alone beside FIN, PSH, ECE and reserved bits
        let flags = packet.flags & !0xa6 | ACK;
        let packet = Packet { udp: false, flags, ip_options: Vec::new(), ..packet };
        prop_assume!(packet.payload.len() > size);
        let identification =
            if fixed { Identification::Fixed } else { Identification::Increments };
        let superframe = packet.frame();
        let request = Request { identification, ..Request::new(size as u16) };
        let frames = cut(&superframe, &request);
        let out = coalesce(1, &frames);
        prop_assert_eq!(out.len(), 1);
        let Delivery::Superframe { superframe: merged, .. } = &out[0] else { panic!("merged") };
        prop_assert_eq!(merged.segments, frames.len());
        prop_assert_eq!(restored(merged), frames);
        let mut whole = merged.to_frame();
        let checksum = Sum::of(&whole[merged.transport..]).checksum();
        whole[merged.transport + 16..][..2].copy_from_slice(&checksum.to_be_bytes());
        prop_assert_eq!(whole, Packet { snap: false, ..packet }.frame());
    }

    /// The short way changes nothing: whatever is offered, in whatever state, what comes out is
    /// what comes out of the usual way.
    #[test]
    fn the_short_way_is_the_usual_way(
        packets in prop::collection::vec(strategy::packet(1200), 1..3), size in 40usize..400,
        flags in prop_oneof![Just(ACK), Just(ACK | 8), any::<u16>().prop_map(|flags| flags & 0xfff)],
        damage in prop::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 0..3),
        swaps in prop::collection::vec((any::<usize>(), any::<usize>()), 0..3),
        whole in prop::collection::vec(any::<bool>(), 60), mixed: bool,
    ) {
        let cut = packets.into_iter().map(|packet| Packet { flags, udp: false, ..packet }.cut(size));
        let mut frames: Vec<Vec<u8>> = if mixed {
            let mut flows: Vec<_> = cut.map(Vec::into_iter).collect();
            let mut all = Vec::new();
            while flows.iter().any(|flow| flow.len() > 0) {
                all.extend(flows.iter_mut().filter_map(Iterator::next));
            }
            all
        } else {
            cut.flatten().collect()
        };
        for (frame, at, value) in damage {
            let count = frames.len();
            let frame = &mut frames[frame % count];
            let length = frame.len();
            frame[at % length.min(120)] = value;
        }
        for (a, b) in swaps {
            let count = frames.len();
            frames.swap(a % count, b % count);
        }
        let parts = frames.iter().zip(whole.into_iter().cycle()).map(|(frame, whole)| {
            let split = match Headers::parse(frame) {
                Ok(headers) if !whole => headers.payload,
                _ => frame.len(),
            };
            (frame[..split].to_vec(), frame[split..].to_vec())
        });
        let frames: Vec<_> = parts.collect();
        let (mut usual, mut short) = (Coalescer::new(4), Coalescer::new(4));
        let mut expected = Vec::new();
        for frame in &frames {
            let offered = usual.offer(frame.clone());
            expected.extend(offered.flushed.iter().map(reported));
        }
        expected.extend(usual.flush().iter().map(reported));
        let mut got = offer_in_row(&mut short, InRow::of(&frames));
        got.extend(short.flush().iter().map(reported));
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn segments_of_superframes_merge_as_their_frames(
        packet in strategy::packet(1),
        superframes in prop::collection::vec(cut_superframe(9), 1..6),
        size in 1u16..200,
        snap: bool,
    ) {
        let flags = packet.flags & !0xa6 | ACK;
        let fragment = packet.fragment & 0x4000;
        let packet = Packet { snap: false, udp: false, flags, fragment, padding: 0, ..packet };
        let packet = Packet { ip_options: Vec::new(), ..packet };
        compare_in_rows(packet, &Request { snap, ..Request::new(size) }, superframes)?;
    }

    #[test]
    fn segments_stop_where_a_packet_is_full(
        superframes in prop::collection::vec(cut_superframe(45), 2..5),
        size in 1200u16..1400,
    ) {
        compare_in_rows(Packet::tcp4(Vec::new()), &Request::new(size), superframes)?;
    }

    #[test]
    fn frames_in_two_parts_merge_as_whole_ones(
        packet in strategy::packet(1200),
        size in 20usize..200,
        splits in prop::collection::vec(any::<prop::sample::Index>(), 64),
        verified: bool,
    ) {
        let flags = packet.flags & !0xa6 | ACK;
        let packet = Packet { udp: false, flags, ip_options: Vec::new(), padding: 2, ..packet };
        let frames = packet.cut(size);
        let (mut whole, mut parts) = (Coalescer::new(1), Coalescer::new(1));
        let (mut expected, mut out) = (Vec::new(), Vec::new());
        for (index, frame) in frames.iter().enumerate() {
            expected.extend(whole.offer(&frame[..]).flushed);
            // anywhere in the payload or its padding
            let headers = Headers::parse(frame).expect("a good frame");
            let split = splits[index % 64].index(frame.len() - headers.payload + 1);
            let frame = frame.split_at(headers.payload + split);
            let offered =
                if verified { parts.offer_verified(frame, &headers) } else { parts.offer(frame) };
            out.extend(offered.flushed);
        }
        expected.extend(whole.flush());
        out.extend(parts.flush());
        prop_assert_eq!(out.len(), expected.len());
        for (out, expected) in out.iter().zip(&expected) {
            match (out, expected) {
                (
                    Delivery::Superframe { superframe: out, reason },
                    Delivery::Superframe { superframe: expected, reason: why },
                ) => {
                    prop_assert_eq!(reason, why);
                    prop_assert_eq!(out.to_frame(), expected.to_frame());
                    prop_assert_eq!(out.vnet_header(), expected.vnet_header());
                }
                (
                    Delivery::Frame { frame: (head, tail), reason },
                    Delivery::Frame { frame, reason: why },
                ) => {
                    prop_assert_eq!(reason, why);
                    prop_assert_eq!([*head, *tail].concat(), *frame);
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }

    #[test]
    fn headers_of_another_frame_do_no_harm(
        packets in prop::collection::vec(strategy::packet(90), 2..5),
        length: prop::sample::Index,
    ) {
        let frames: Vec<Vec<u8>> = packets.iter().map(Packet::frame).collect();
        let mut coalescer = Coalescer::new(2);
        for headers in &frames {
            let headers = Headers::parse(headers).expect("a good frame");
            for frame in &frames {
                coalescer.offer_verified(&frame[..length.index(frame.len() + 1)], &headers);
            }
        }
        for delivery in coalescer.flush() {
            if let Delivery::Superframe { superframe, .. } = delivery {
                let _ = superframe.to_frame();
            }
        }
    }

    #[test]
    fn whatever_comes_in_comes_out_once_and_in_the_order_of_its_flow(
        flows in prop::collection::vec(strategy::packet(300), 1..4),
        size in 20usize..120,
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        changes in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index, u8)>(), 0..3),
        limit in 1usize..4,
    ) {
        let mut queues = Vec::new();
        for (index, packet) in flows.into_iter().enumerate() {
            let ports = (index as u16, 80);
            let mut frames = Packet { ports, udp: false, ..packet }.cut(size);
            frames.reverse();
            queues.push(frames);
        }
        let mut frames = Vec::new();
        for next in order {
            let queue = next.index(queues.len());
            frames.extend(queues[queue].pop());
        }
        if !frames.is_empty() {
            for (frame, at, value) in changes {
                let frame = frame.index(frames.len());
                let at = at.index(frames[frame].len());
                frames[frame][at] = value;
            }
        }
        let mut restored = all_restored(&coalesce(limit, &frames));
        let mut expected = frames;
        // between flows the order may change; sorting by flow keeps the order within each
        restored.sort_by_key(|frame| flow(frame));
        expected.sort_by_key(|frame| flow(frame));
        prop_assert_eq!(restored, expected);
    }
}
