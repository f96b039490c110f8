//! The prices of the calls by which a driver reads and writes a TAP.
//!
//! They are measured on a TUN of its own, whose host answers echo requests (RFC 792), by the thread that
//! makes the calls later. Three kinds of calls show the prices:
//!
//! - A call that moves nothing: a read of an empty TUN, and a write that is shorter than the header before
//!   each packet (`tun_do_read`, `tun_get_user`, drivers/net/tun.c). A driver of a real adapter makes no
//!   system call for a packet.
//! - Reads of answers of several sizes. What a larger packet takes longer than a small one is the price of
//!   its copy.
//! - Writes of packets that the kernel refuses after it has copied them, because they are of no version of
//!   IP. So the receive processing of the host is no part of the price.
//!
//! What a small packet takes longer than a call that moves nothing is no part of a price: a driver
//! of a real adapter makes and frees packets too. It is told beside the price, and so is a sleep of the thread,
//! which stands for the interrupt.
//!
//! The memory that packets are read into and written from is not in the nearest caches: another CPU has it
//! under traffic too, that of the device.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::OwnedFd;

use linkrate_sys::clock::{monotonic_ns, own_cpu_ns};
use linkrate_sys::epoll::{Epoll, Readable};
use linkrate_sys::tap;
use linkrate_terms::tap::{CallPrice, Price, SIZES, TapPrices};
use linkrate_wire::checksum::Sum;

use crate::frame::VNET_BYTES;

/// Rounds that count, after [`WARM_UP`] others. A round measures each call once.
const ROUNDS: usize = 31;
const WARM_UP: usize = 3;

/// The most rounds. One in which the host sends something by itself, as for IPv6, does not count.
const MOST_ROUNDS: usize = 4 * ROUNDS;

/// Calls between two looks at the clock: of those that move packets, which take turns with their answers,
/// and of those that move nothing.
const PACKETS: usize = 4;
const EMPTY: usize = 64;

/// Sleeps of a round, and how long one lasts, ns: as long as those of a driver between two interrupts.
const SLEEPS: u32 = 4;
const SLEEP_NS: u64 = 100_000;

/// Bytes of the memory that packets are read into and written from: more than second-level caches have.
const MEMORY: usize = 8 << 20;

/// The address that the host has on the TUN, and that of the far end, which asks: of a network for
/// documentation (RFC 5737), which no testbed uses.
pub const HOST: [u8; 4] = [192, 0, 2, 1];
const FAR_END: [u8; 4] = [192, 0, 2, 2];

/// The MTU of the TUN: the largest packet of IPv4.
pub const MTU: u32 = 65_535;

/// Packets that may wait in the TUN.
pub const QUEUE: u32 = 64;

/// Bytes of the headers of an echo request.
const IP_HEADER: usize = 20;
const ICMP_HEADER: usize = 8;

/// Measures the prices by a TUN whose host has the address [`HOST`]. Takes some hundredths of a second.
///
/// # Errors
/// A call fails in another way than it must, or the host does not answer.
pub(crate) fn measure(tun: &OwnedFd) -> io::Result<TapPrices> {
    let mut stall = Stall { tun, memory: vec![1; MEMORY], at: 0 };
    let [mut reads, mut writes] = [(); 2].map(|()| Times::default());
    let mut sleeps = Vec::new();
    let (bed, mut readable) = (Epoll::new()?, Readable::default());
    for _ in 0..WARM_UP {
        stall.read_round()?;
        stall.write_round()?;
    }
    let mut left = MOST_ROUNDS;
    while reads.empty.len() < ROUNDS {
        left = left.checked_sub(1).ok_or_else(|| io::Error::other("the host sends too much"))?;
        let Some(read) = stall.read_round()? else { continue };
        reads.add(read);
        writes.add(stall.write_round()?);
        let begun_ns = own_cpu_ns();
        for _ in 0..SLEEPS {
            bed.wait(&mut readable, Some(SLEEP_NS))?;
        }
        sleeps.push(own_cpu_ns().saturating_sub(begun_ns) as f64 / f64::from(SLEEPS));
    }
    let sleep = Price::of(&sleeps).unwrap_or_default();
    Ok(TapPrices { read: reads.price(), write: writes.price(), sleep })
}

/// What the calls of one round took, ns: one that moves nothing, and one of each size.
type Round = (f64, [f64; SIZES.len()]);

/// The rounds of one kind of call.
#[derive(Debug, Default)]
struct Times {
    empty: Vec<f64>,
    /// What the smallest size took longer than a call that moves nothing.
    packets: Vec<f64>,
    /// What each size took longer than the smallest one.
    copies: [Vec<f64>; SIZES.len()],
}

impl Times {
    fn add(&mut self, (empty, packets): Round) {
        self.empty.push(empty);
        self.packets.push(packets[0] - empty);
        for (copies, ns) in self.copies.iter_mut().zip(packets) {
            copies.push(ns - packets[0]);
        }
    }

    fn price(&self) -> CallPrice {
        let of = |times: &Vec<f64>| {
            let price = Price::of(times).unwrap_or_default();
            // chance may make a size cheaper than the smallest one
            Price {
                ns: price.ns.max(0.0),
                low_ns: price.low_ns.max(0.0),
                high_ns: price.high_ns.max(0.0),
            }
        };
        CallPrice {
            call: of(&self.empty),
            copies: self.copies.each_ref().map(of),
            packet: of(&self.packets),
        }
    }
}

/// Where prices are asked for.
struct Stall<'a> {
    tun: &'a OwnedFd,
    memory: Vec<u8>,
    /// Where in the memory the next packet lies.
    at: usize,
}

impl Stall<'_> {
    /// `None` if the host sent something of its own meanwhile.
    fn read_round(&mut self) -> io::Result<Option<Round>> {
        while self.read_one(SIZES[SIZES.len() - 1])?.is_some() {}
        let begun_ns = monotonic_ns();
        for _ in 0..EMPTY {
            if self.read_one(SIZES[0])?.is_some() {
                return Ok(None);
            }
        }
        let empty = each(begun_ns, EMPTY);
        let mut packets = [0.0; SIZES.len()];
        for (ns, bytes) in packets.iter_mut().zip(SIZES) {
            let request = echo_request(bytes);
            for _ in 0..PACKETS {
                tap::write_vectored(self.tun, &[IoSlice::new(&request)])?;
            }
            let begun_ns = monotonic_ns();
            for _ in 0..PACKETS {
                match self.read_one(bytes)? {
                    Some(read) if read == bytes => {}
                    Some(_) => return Ok(None),
                    None => {
                        return Err(io::Error::other("the host did not answer an echo request"));
                    }
                }
            }
            *ns = each(begun_ns, PACKETS);
        }
        Ok(Some((empty, packets)))
    }

    fn write_round(&mut self) -> io::Result<Round> {
        let begun_ns = monotonic_ns();
        for _ in 0..EMPTY {
            self.write_refused(VNET_BYTES - 1)?;
        }
        let empty = each(begun_ns, EMPTY);
        let mut packets = [0.0; SIZES.len()];
        for (ns, bytes) in packets.iter_mut().zip(SIZES) {
            let begun_ns = monotonic_ns();
            for _ in 0..PACKETS {
                self.write_refused(bytes)?;
            }
            *ns = each(begun_ns, PACKETS);
        }
        Ok((empty, packets))
    }

    /// Reads a packet of at most `bytes`; `None` without one.
    fn read_one(&mut self, bytes: usize) -> io::Result<Option<usize>> {
        let place = self.place(bytes);
        match tap::read(self.tun, &mut self.memory[place]) {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes `bytes` that are no packet of IP.
    fn write_refused(&mut self, bytes: usize) -> io::Result<()> {
        let header = [0; VNET_BYTES];
        let place = self.place(bytes.saturating_sub(VNET_BYTES));
        let pieces =
            [IoSlice::new(&header[..bytes.min(VNET_BYTES)]), IoSlice::new(&self.memory[place])];
        match tap::write_vectored(self.tun, &pieces) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(io::Error::other("the kernel took a packet that is of no version of IP")),
        }
    }

    /// The next `bytes` of the memory.
    fn place(&mut self, bytes: usize) -> Range<usize> {
        let begin = if self.at + bytes > self.memory.len() { 0 } else { self.at };
        // packets lie in lines of their own
        self.at = (begin + bytes).next_multiple_of(64);
        begin..begin + bytes
    }
}

/// Nanoseconds of each of `count` calls since `begun_ns`.
fn each(begun_ns: u64, count: usize) -> f64 {
    monotonic_ns().saturating_sub(begun_ns) as f64 / count as f64
}

/// An echo request from the far end to the host, with its header for the TUN: `bytes` altogether.
fn echo_request(bytes: usize) -> Vec<u8> {
    let mut request = vec![0; bytes];
    let packet = &mut request[VNET_BYTES..];
    let length = u16::try_from(packet.len()).unwrap_or(u16::MAX);
    // version 4, five words; no fragments; 64 hops; ICMP
    packet[..10].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 1]);
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[12..16].copy_from_slice(&FAR_END);
    packet[16..20].copy_from_slice(&HOST);
    let checksum = Sum::of(&packet[..IP_HEADER]).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    let message = &mut packet[IP_HEADER..];
    message[0] = 8;
    message[ICMP_HEADER..].fill(0x5a);
    let checksum = Sum::of(message).checksum();
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_request_is_one_that_a_host_answers() {
        for bytes in SIZES {
            let request = echo_request(bytes);
            let packet = &request[VNET_BYTES..];
            assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
            assert!(Sum::of(&packet[..IP_HEADER]).verifies());
            assert!(Sum::of(&packet[IP_HEADER..]).verifies());
        }
    }

    #[test]
    fn the_price_of_a_copy_is_what_it_takes_longer_than_a_small_packet() {
        let mut times = Times::default();
        for extra in [0.0, 10.0, 20.0, 30.0, 40.0] {
            let mut packets = [500.0; SIZES.len()];
            packets[5] += 4000.0 + extra;
            // chance
            packets[1] -= 5.0;
            times.add((200.0 + extra, packets));
        }
        let price = times.price();
        assert_eq!(price.call, Price { ns: 220.0, low_ns: 210.0, high_ns: 230.0 });
        assert_eq!(price.copies[5], Price { ns: 4020.0, low_ns: 4010.0, high_ns: 4030.0 });
        assert_eq!((price.copies[0], price.copies[1]), (Price::default(), Price::default()));
        // 300, 290, 280, 270 and 260 ns beyond a call that moves nothing
        assert_eq!(price.packet, Price { ns: 280.0, low_ns: 270.0, high_ns: 290.0 });
    }
}
