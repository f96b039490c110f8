//! The Toeplitz hash of receive-side scaling, which chooses the queue of a flow.
//!
//! Microsoft defines it in "RSS hashing types" of the Windows driver documentation; its
//! verification vectors are tests here. The input is the source address, the destination address
//! and, for TCP and UDP packets that are not fragments, the two ports in the same order, all as on
//! the wire.

use crate::frame::{Headers, Network, Transport, ipv4, ipv6};

/// Bytes of a key: enough for two IPv6 addresses, two ports and the 32 bits of the last window.
pub const KEY: usize = 40;
/// The longest input: two IPv6 addresses and two ports.
pub const MAX_INPUT: usize = 36;

/// The key of the published verification vectors, which many drivers use.
pub const MICROSOFT_KEY: [u8; KEY] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key made into tables, one for each byte of the input.
#[derive(Debug, Clone)]
pub struct Toeplitz {
    tables: Vec<[u32; 256]>,
}

impl Toeplitz {
    /// Prepares `key`; the tables take 36 KiB.
    #[must_use]
    pub fn new(key: &[u8; KEY]) -> Self {
        let tables = (0..MAX_INPUT).map(|at| {
            // the 32 bits of the key from this byte on, and 8 more to shift in
            let window = key[at..at + 5].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
            let mut table = [0u32; 256];
            for (value, entry) in (0u16..).zip(&mut table) {
                for bit in 0..8 {
                    if value & (0x80 >> bit) != 0 {
                        #[expect(clippy::cast_possible_truncation, reason = "a window of 32 bits")]
                        let part = (window >> (8 - bit)) as u32;
                        *entry ^= part;
                    }
                }
            }
            table
        });
        Self { tables: tables.collect() }
    }

    /// The hash of the first [`MAX_INPUT`] bytes of `input`.
    #[must_use]
    pub fn hash(&self, input: &[u8]) -> u32 {
        hash(&self.tables, input)
    }

    /// The hash of an IP frame with these headers; `None` for other frames. A fragment is hashed
    /// without ports, so that all fragments of a packet go to the same queue.
    #[must_use]
    #[inline]
    pub fn hash_frame(&self, frame: &[u8], headers: &Headers) -> Option<u32> {
        let ports = match headers.transport {
            Transport::Tcp { at } | Transport::Udp { at } => frame.get(at..at + 4)?,
            Transport::Fragment | Transport::Other => &[],
        };
        self.hash_parts(frame, headers, ports)
    }

    /// The hash of the two addresses of an IP frame with these headers; `None` for other frames.
    #[must_use]
    #[inline]
    pub fn hash_addresses(&self, frame: &[u8], headers: &Headers) -> Option<u32> {
        self.hash_parts(frame, headers, &[])
    }

    #[inline]
    fn hash_parts(&self, frame: &[u8], headers: &Headers, ports: &[u8]) -> Option<u32> {
        let addresses = match headers.network {
            Network::V4(ip) => ip.at + ipv4::SOURCE..ip.at + ipv4::HEADER,
            Network::V6(ip) => ip.at + ipv6::SOURCE..ip.at + ipv6::HEADER,
            Network::Other => return None,
        };
        let addresses = frame.get(addresses)?;
        // the hash is linear: each part has tables of its own
        let (first, second) = self.tables.split_at_checked(addresses.len())?;
        Some(hash(first, addresses) ^ hash(second, ports))
    }
}

#[inline]
fn hash(tables: &[[u32; 256]], input: &[u8]) -> u32 {
    let entries = tables.iter().zip(input).map(|(table, byte)| table[usize::from(*byte)]);
    entries.fold(0, |hash, entry| hash ^ entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{IpAddr, SocketAddr};

    /// Destination, source, hash of the addresses, hash with TCP ports.
    const VECTORS: [(&str, &str, u32, u32); 8] = [
        ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
        ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
        ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
        ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
        ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
        ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
        ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
        (
            "[fe80::200:f8ff:fe21:67cf]:38024",
            "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
            0x4b61_e985,
            0x02d1_feef,
        ),
    ];

    fn octets(address: SocketAddr) -> Vec<u8> {
        match address.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        }
    }

    #[test]
    fn the_published_vectors() {
        let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
        for (destination, source, addresses, with_ports) in VECTORS {
            let destination: SocketAddr = destination.parse().expect("an address");
            let source: SocketAddr = source.parse().expect("an address");
            let mut input = [octets(source), octets(destination)].concat();
            assert_eq!(toeplitz.hash(&input), addresses, "{source} to {destination}");
            input.extend(source.port().to_be_bytes());
            input.extend(destination.port().to_be_bytes());
            assert_eq!(toeplitz.hash(&input), with_ports, "{source} to {destination} with ports");
        }
    }

    /// Bit by bit, as the definition has it.
    fn naive(key: &[u8; KEY], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
        let mut hash = 0;
        for at in (0..input.len() * 8).filter(|at| bit(input, *at) == 1) {
            hash ^= (at..at + 32).fold(0, |window, at| window << 1 | u32::from(bit(key, at)));
        }
        hash
    }

    proptest! {
        #[test]
        fn as_the_definition(
            key in prop::collection::vec(any::<u8>(), KEY),
            input in prop::collection::vec(any::<u8>(), 0..=MAX_INPUT),
        ) {
            let key: [u8; KEY] = key.try_into().expect("40 bytes");
            prop_assert_eq!(Toeplitz::new(&key).hash(&input), naive(&key, &input));
        }
    }

    #[test]
    fn a_frame_is_hashed_with_ports_and_a_fragment_without() {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]);
        frame.extend([66, 9, 149, 187, 161, 142, 100, 80]);
        frame.extend([0x0a, 0xea, 0x06, 0xe6, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
        let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
        let hash = |frame: &[u8]| {
            toeplitz.hash_frame(frame, &Headers::parse(frame).expect("a good frame"))
        };
        assert_eq!(hash(&frame), Some(0x51cc_c178));
        frame[20] = 0x20;
        assert_eq!(hash(&frame), Some(0x323e_8fc2));
        frame[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(hash(&frame), None);
    }
}
