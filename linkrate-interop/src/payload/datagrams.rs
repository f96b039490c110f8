//! The work of a UDP stream.

use std::io;
use std::net::UdpSocket;
use std::time::{SystemTime, UNIX_EPOCH};

use linkrate_sys::clock::monotonic_ns;
use linkrate_sys::memory::PageBuffer;
use linkrate_sys::socket::is_out_of_buffers;

use super::{Counters, PACE, Pace, Phase, Work, payload};
use crate::iperf3::Datagram;
use linkrate_sys::bounded::is_passing;

/// Sends numbered datagrams at the rate of the stream.
pub(super) fn send(
    socket: &UdpSocket,
    work: &Work,
    counters: &Counters,
    phase: &Phase,
) -> io::Result<()> {
    let mut buffer = payload(work.block)?;
    let pace = Pace::of(work);
    let (mut bytes, mut number) = (0, 0);
    while !phase.is_over() {
        if pace.holds(bytes) {
            continue;
        }
        for _ in 0..work.burst {
            // the last one is whole too
            let taken = phase.take(work.block);
            if taken == 0 {
                std::thread::sleep(PACE);
                if !work.makes_up_for_loss {
                    break;
                }
            }
            number += 1;
            Datagram { sent_us: time_of_day_us(), number }.emit(work.counters, &mut buffer);
            match socket.send(&buffer) {
                Ok(count) => {
                    bytes += count as u64;
                    phase.spend(taken, count);
                    counters.sent(bytes, number);
                }
                // the same number goes out again, so that only the network loses datagrams
                Err(error) if is_momentary(&error) => {
                    number -= 1;
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
    let mut buffer = PageBuffer::small(work.block)?;
    while !phase.is_over() {
        match socket.recv(&mut buffer) {
            // a datagram without a number is none of this stream
            Ok(count) => {
                if let Some(datagram) = Datagram::parse(work.counters, &buffer[..count]) {
                    counters.arrived(count as u64, datagram, now_us());
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
