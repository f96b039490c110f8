//! The work of a UDP stream.

use std::io;
use std::net::UdpSocket;
use std::time::{SystemTime, UNIX_EPOCH};

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::memory::PageBuffer;
use linkrate_sys::socket::{is_out_of_buffers, set_udp_gro, set_udp_segment};

use super::{Counters, PACE, Pace, Phase, Work, payload};
use crate::iperf3::Datagram;
use linkrate_sys::bounded::is_passing;

/// Most octets of a call that the kernel cuts into datagrams, or has merged: those of a packet of IPv4.
pub(crate) const MAX_CALL: usize = 65_535 - 8 - 20;
/// Most datagrams of such a call (UDP_MAX_SEGMENTS, include/linux/udp.h, of older kernels).
const MAX_SEGMENTS: usize = 64;

/// Sends numbered datagrams at the rate of the stream.
pub(super) fn send(
    socket: &UdpSocket,
    work: &Work,
    counters: &Counters,
    phase: &Phase,
) -> io::Result<()> {
    let segments = match work.segments {
        true => (MAX_CALL / work.block.max(1)).clamp(1, MAX_SEGMENTS),
        false => 1,
    };
    if segments > 1 {
        set_udp_segment(socket, u16::try_from(work.block).unwrap_or(u16::MAX))?;
    }
    let mut buffer = payload(work.block * segments, work.fill)?;
    let pace = Pace::of(work);
    let (mut bytes, mut number) = (0, 0);
    while !phase.is_over() {
        if pace.holds(bytes) {
            continue;
        }
        for _ in 0..work.burst {
            // the last one is whole too
            let (mut taken, mut count) = (0, 0);
            while count < segments {
                match phase.take(work.block) {
                    0 => break,
                    more => (taken, count) = (taken + more, count + 1),
                }
            }
            if taken == 0 {
                std::thread::sleep(PACE);
                if !work.makes_up_for_loss {
                    break;
                }
                count = 1;
            }
            let sent_us = time_of_day_us();
            for octets in buffer.chunks_mut(work.block).take(count) {
                number += 1;
                Datagram { sent_us, number }.emit(work.counters, octets);
            }
            match socket.send(&buffer[..count * work.block]) {
                Ok(count) => {
                    bytes += count as u64;
                    phase.spend(taken, count);
                    counters.sent(bytes, number);
                }
                // the same numbers go out again, so that only the network loses datagrams
                Err(error) if is_momentary(&error) => {
                    number -= count as u64;
                    phase.spend(taken, 0);
                    std::thread::sleep(PACE);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Counts numbered datagrams as they arrive.
pub(super) fn receive(
    socket: &UdpSocket,
    work: &Work,
    counters: &Counters,
    phase: &Phase,
) -> io::Result<()> {
    if work.merges {
        set_udp_gro(socket)?;
    }
    let mut buffer = PageBuffer::small(if work.merges { MAX_CALL } else { work.block })?;
    while !phase.is_over() {
        match socket.recv(&mut buffer) {
            Ok(count) => {
                // all of a stream are of one size
                for octets in buffer[..count].chunks(work.block.max(1)) {
                    // a datagram without a number is none of this stream
                    if let Some(datagram) = Datagram::parse(work.counters, octets) {
                        counters.arrived(octets.len() as u64, datagram, now_us());
                    }
                }
            }
            Err(error) if is_momentary(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn now_us() -> u64 {
    monotonic_ns() / 1000
}

/// The time that datagrams tell. Receivers before iperf 3.7 compare it with the time of day of theirs, and take the whole
/// difference for jitter; later ones compare differences alone.
fn time_of_day_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_micros()).unwrap_or(u64::MAX))
}

/// Whether the next datagram may fare better. A refusal is an answer to an earlier one, and comes when a client
/// ends before its server; its control connection tells that.
fn is_momentary(error: &io::Error) -> bool {
    is_passing(error)
        || is_out_of_buffers(error)
        || error.kind() == io::ErrorKind::ConnectionRefused
}
