//! The cases of the kernel's own conformance test of GRO, `tools/testing/selftests/net/gro.c`,
//! under its names: which payload lengths come up for which packets.

use crate::common::{ACK, Packet, bytes, timestamps};
use linkrate_wire::lro::{Coalescer, Delivery};

const PAYLOAD: usize = 100;
const FIN: u16 = 0x01;
const SYN: u16 = 0x02;
const RST: u16 = 0x04;
const PSH: u16 = 0x08;
const URG: u16 = 0x20;

/// The payload lengths that come up, in order. The FIN of the kernel's test ends the batch.
fn received(frames: Vec<Vec<u8>>) -> Vec<usize> {
    let headers = frames[0].clone();
    let mut coalescer = Coalescer::new(8);
    let mut deliveries = Vec::new();
    for frame in frames {
        deliveries.extend(coalescer.offer(frame).flushed);
    }
    let v6 = headers[12] == 0x86;
    let end = sent(v6, 2 * PAYLOAD, 0, 0);
    let end = Packet { flags: ACK | FIN, ..end };
    deliveries.extend(coalescer.offer(end.frame()).flushed);
    deliveries.extend(coalescer.flush());
    let mut lengths: Vec<usize> = deliveries.iter().map(payload).collect();
    assert_eq!(lengths.pop(), Some(0), "the FIN");
    lengths
}

fn payload(delivery: &Delivery<Vec<u8>>) -> usize {
    let frame = match delivery {
        Delivery::Frame { frame, .. } => frame.clone(),
        Delivery::Superframe { superframe, .. } => superframe.to_frame(),
    };
    let headers = linkrate_wire::frame::Headers::parse(&frame).expect("a good frame");
    if headers.transport == linkrate_wire::frame::Transport::Fragment {
        // as the kernel's test counts: without the headers that a first fragment begins with
        return headers.payload_range().len() - if frame[12] == 0x86 { 28 } else { 20 };
    }
    headers.payload_range().len()
}

/// `create_packet` of the kernel's test.
fn sent(v6: bool, sequence: usize, acknowledgement: u32, payload: usize) -> Packet {
    Packet {
        v6,
        sequence: 100 + sequence as u32,
        acknowledgement: 100 + acknowledgement,
        ..Packet::tcp4(vec![b'a'; payload])
    }
}

/// Two packets, of which the second is changed.
fn second(v6: bool, change: impl Fn(&mut Packet)) -> Vec<usize> {
    let mut changed = sent(v6, PAYLOAD, 0, PAYLOAD);
    change(&mut changed);
    received(vec![sent(v6, 0, 0, PAYLOAD).frame(), changed.frame()])
}

fn both(test: impl Fn(bool)) {
    test(false);
    test(true);
}

#[test]
fn data_same_size() {
    both(|v6| assert_eq!(second(v6, |_| {}), [200]));
}

#[test]
fn data_large_followed_by_a_smaller_one() {
    both(|v6| assert_eq!(second(v6, |packet| packet.payload.truncate(50)), [150]));
}

#[test]
fn data_small_followed_by_a_larger_one() {
    both(|v6| {
        let frames = vec![sent(v6, 0, 0, 50).frame(), sent(v6, 50, 0, 100).frame()];
        assert_eq!(received(frames), [50, 100]);
    });
}

#[test]
fn ack_duplicate_and_pure() {
    both(|v6| {
        let ack = sent(v6, 0, 0, 0).frame();
        let frames = vec![ack.clone(), ack, sent(v6, 0, 1, 0).frame()];
        assert_eq!(received(frames), [0, 0, 0]);
    });
}

/// `send_flags`: five packets, the middle one with a flag, and without data unless it is PSH.
fn flags(v6: bool, flag: u16) -> Vec<usize> {
    let length = if flag == PSH { PAYLOAD } else { 0 };
    let frames = (0..5).map(|index| {
        if index == 2 {
            Packet { flags: ACK | flag, ..sent(v6, index * length, 0, length) }.frame()
        } else {
            sent(v6, index * PAYLOAD, 0, PAYLOAD).frame()
        }
    });
    received(frames.collect())
}

#[test]
fn flags_psh_ends_coalescing() {
    both(|v6| assert_eq!(flags(v6, PSH), [300, 200]));
}

#[test]
fn flags_syn_ends_coalescing() {
    both(|v6| assert_eq!(flags(v6, SYN), [200, 0, 200]));
}

#[test]
fn flags_rst_ends_coalescing() {
    both(|v6| assert_eq!(flags(v6, RST), [200, 0, 200]));
}

#[test]
fn flags_urg_ends_coalescing() {
    both(|v6| assert_eq!(flags(v6, URG), [200, 0, 200]));
}

#[test]
fn tcp_changed_checksum() {
    both(|v6| {
        let mut wrong = sent(v6, PAYLOAD, 0, PAYLOAD).frame();
        let checksum = wrong.len() - PAYLOAD - 4;
        wrong[checksum] = wrong[checksum].wrapping_sub(1);
        assert_eq!(received(vec![sent(v6, 0, 0, PAYLOAD).frame(), wrong]), [100, 100]);
    });
}

#[test]
fn tcp_wrong_sequence_number() {
    both(|v6| assert_eq!(second(v6, |packet| packet.sequence += 1), [100, 100]));
}

fn with_options(v6: bool, options: [Vec<u8>; 3]) -> Vec<Vec<u8>> {
    let packets = options.into_iter().enumerate();
    packets
        .map(|(index, options)| Packet { options, ..sent(v6, index * PAYLOAD, 0, PAYLOAD) }.frame())
        .collect()
}

#[test]
fn tcp_different_timestamp() {
    both(|v6| {
        let mut frames = with_options(v6, [timestamps(0), timestamps(0), timestamps(100)]);
        for (index, order) in [(3, 1), (4, 2)] {
            // NOP, timestamps, NOP; then timestamps, NOP, NOP
            let mut options = timestamps(100);
            options.rotate_left(if order == 1 { 1 } else { 2 });
            frames.push(Packet { options, ..sent(v6, index * PAYLOAD, 0, PAYLOAD) }.frame());
        }
        assert_eq!(received(frames), [200, 100, 100, 100]);
    });
}

#[test]
fn tcp_different_options() {
    both(|v6| {
        let window_scale = vec![1, 3, 3, 0];
        let frames = with_options(v6, [timestamps(0), timestamps(0), window_scale]);
        assert_eq!(received(frames), [200, 100]);
    });
}

#[test]
fn ip_different_ecn() {
    both(|v6| assert_eq!(second(v6, |packet| packet.tos ^= 2), [100, 100]));
}

#[test]
fn ip_different_tos() {
    both(|v6| assert_eq!(second(v6, |packet| packet.tos = 0xf0), [100, 100]));
}

#[test]
fn ip_different_ttl() {
    // the kernel does not look at the hop limit of IPv6; a segmentation could not restore it
    both(|v6| assert_eq!(second(v6, |packet| packet.ttl = 7), [100, 100]));
}

#[test]
fn ip_options() {
    let mut frames: Vec<Vec<u8>> =
        (0..3).map(|index| sent(false, index * PAYLOAD, 0, PAYLOAD).frame()).collect();
    let ip_options = [vec![68, 40, 5, 0], vec![0; 36]].concat();
    frames[1] = Packet { ip_options, ..sent(false, PAYLOAD, 0, PAYLOAD) }.frame();
    assert_eq!(received(frames), [100, 100, 100]);
}

#[test]
fn ip_fragmented_ip4() {
    assert_eq!(second(false, |packet| packet.fragment = 0x6000), [100, 100]);
}

/// `send_flush_id_case`, by the identifications of its packets.
fn identifications(fragment: u16, ids: &[u16]) -> Vec<usize> {
    let packets = ids.iter().enumerate().map(|(index, &identification)| {
        Packet { fragment, identification, ..sent(false, index * PAYLOAD, 0, PAYLOAD) }.frame()
    });
    received(packets.collect())
}

#[test]
fn ip_df_incrementing() {
    assert_eq!(identifications(0x4000, &[8, 9]), [200]);
}

#[test]
fn ip_df_fixed() {
    assert_eq!(identifications(0x4000, &[8, 8]), [200]);
}

#[test]
fn ip_no_df_incrementing() {
    assert_eq!(identifications(0, &[8, 9]), [200]);
}

/// Here the kernel merges since it can note a fixed identification beside the packet. The header
/// of a TAP cannot say so: cut again, the packets would have other identifications, and without DF
/// these matter.
#[test]
fn ip_no_df_fixed_is_left_alone() {
    assert_eq!(identifications(0, &[8, 8]), [100, 100]);
}

#[test]
fn ip_df_two_incrementing_and_one_fixed() {
    assert_eq!(identifications(0x4000, &[8, 9, 9]), [200, 100]);
}

#[test]
fn ip_df_two_fixed_and_one_incrementing() {
    assert_eq!(identifications(0x4000, &[8, 8, 9]), [200, 100]);
}

#[test]
fn ip_fragmented_ip6() {
    let mut frames: Vec<Vec<u8>> =
        (0..4).map(|index| sent(true, index * PAYLOAD, 0, PAYLOAD).frame()).collect();
    let extensions = vec![(44, vec![0; 6])];
    frames[2] = Packet { extensions, ..sent(true, 2 * PAYLOAD, 0, PAYLOAD) }.frame();
    assert_eq!(received(frames), [200, 100, 100]);
}

fn extensions(bodies: [u8; 2]) -> Vec<usize> {
    let packets = bodies.into_iter().enumerate().map(|(index, body)| {
        let extensions = vec![(0, vec![body; 6])];
        Packet { extensions, ..sent(true, index * PAYLOAD, 0, PAYLOAD) }.frame()
    });
    received(packets.collect())
}

#[test]
fn ip_ipv6_with_extension_header() {
    assert_eq!(extensions([0, 0]), [200]);
}

#[test]
fn ip_ipv6_with_different_extension_headers() {
    assert_eq!(extensions([0, 0x11]), [100, 100]);
}

/// `send_large`: packets up to the largest IP packet, then two of `remainder + more`.
fn large(v6: bool, more: usize) -> (Vec<usize>, usize, usize) {
    let mss = 4096 - 60;
    let most = 65_535 - 20 - if v6 { 40 } else { 20 };
    let (count, remainder) = ((65_535 - 60) / mss, most % mss);
    let packet = |index: usize, length| {
        let identification = index as u16;
        let packet = sent(v6, index * mss, 0, 0);
        Packet { identification, payload: bytes(length), ..packet }.frame()
    };
    let mut frames: Vec<Vec<u8>> = (0..count).map(|index| packet(index, mss)).collect();
    frames.push(packet(count, remainder + more));
    frames.push(packet(count + 1, remainder + more));
    (received(frames), most, remainder)
}

#[test]
fn large_up_to_the_largest_ip_packet() {
    both(|v6| {
        let (lengths, most, remainder) = large(v6, 0);
        assert_eq!(lengths, [most, remainder]);
    });
}

#[test]
fn large_beyond_the_largest_ip_packet() {
    both(|v6| {
        let (lengths, most, remainder) = large(v6, 1);
        assert_eq!(lengths, [most - remainder, remainder + 1, remainder + 1]);
    });
}
