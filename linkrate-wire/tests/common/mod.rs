//! Frames to test with, built field by field and by nothing that is tested, but for the checksums,
//! which are computed word by word.
#![allow(dead_code, reason = "each test file uses its part")]

/// A frame as its fields.
#[derive(Debug, Clone)]
pub struct Packet {
    pub tags: Vec<(u16, u16)>,
    pub snap: bool,
    pub v6: bool,
    pub tos: u8,
    pub ttl: u8,
    pub identification: u16,
    pub fragment: u16,
    /// Options of IPv4, or extension headers of IPv6, each with its type.
    pub ip_options: Vec<u8>,
    pub extensions: Vec<(u8, Vec<u8>)>,
    pub udp: bool,
    pub ports: (u16, u16),
    pub sequence: u32,
    pub acknowledgement: u32,
    pub flags: u16,
    pub window: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
    pub padding: usize,
}

pub const ACK: u16 = 0x10;

impl Packet {
    pub fn tcp4(payload: Vec<u8>) -> Self {
        Self {
            tags: Vec::new(),
            snap: false,
            v6: false,
            tos: 0,
            ttl: 8,
            identification: 0,
            fragment: 0x4000,
            ip_options: Vec::new(),
            extensions: Vec::new(),
            udp: false,
            ports: (1500, 8000),
            sequence: 100,
            acknowledgement: 100,
            flags: ACK,
            window: 65_535,
            options: Vec::new(),
            payload,
            padding: 0,
        }
    }

    pub fn tcp6(payload: Vec<u8>) -> Self {
        Self { v6: true, ..Self::tcp4(payload) }
    }

    pub fn udp4(payload: Vec<u8>) -> Self {
        Self { udp: true, ..Self::tcp4(payload) }
    }

    fn transport(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.ports.0.to_be_bytes());
        out.extend(self.ports.1.to_be_bytes());
        if self.udp {
            out.extend(((8 + self.payload.len()) as u16).to_be_bytes());
            out.extend([0, 0]);
        } else {
            out.extend(self.sequence.to_be_bytes());
            out.extend(self.acknowledgement.to_be_bytes());
            let words = (20 + self.options.len()) as u16 / 4;
            out.extend((words << 12 | self.flags).to_be_bytes());
            out.extend(self.window.to_be_bytes());
            out.extend([0, 0, 0, 0]);
            out.extend(&self.options);
        }
        out.extend(&self.payload);
        let mut pseudo = Vec::new();
        let (source, destination) = self.addresses();
        pseudo.extend(source);
        pseudo.extend(destination);
        pseudo.extend((out.len() as u32).to_be_bytes());
        pseudo.extend([0, if self.udp { 17 } else { 6 }]);
        pseudo.extend(&out);
        let mut sum = internet(&pseudo);
        if self.udp && sum == 0 {
            sum = 0xffff;
        }
        let at = if self.udp { 6 } else { 16 };
        out[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        out
    }

    fn addresses(&self) -> (Vec<u8>, Vec<u8>) {
        if self.v6 {
            let address = |last| {
                let mut address = vec![0xfd, 0xaa];
                address.resize(15, 0);
                address.push(last);
                address
            };
            (address(2), address(1))
        } else {
            (vec![192, 168, 1, 200], vec![192, 168, 1, 100])
        }
    }

    fn ip(&self) -> Vec<u8> {
        let transport = self.transport();
        let protocol = if self.udp { 17 } else { 6 };
        let (source, destination) = self.addresses();
        let mut out = Vec::new();
        if self.v6 {
            let mut rest = Vec::new();
            for (index, (_, body)) in self.extensions.iter().enumerate() {
                let next = self.extensions.get(index + 1).map_or(protocol, |(kind, _)| *kind);
                assert_eq!((body.len() + 2) % 8, 0);
                rest.extend([next, ((body.len() + 2) / 8 - 1) as u8]);
                rest.extend(body);
            }
            rest.extend(transport);
            out.extend([0x60 | self.tos >> 4, self.tos << 4, 0, 0]);
            out.extend((rest.len() as u16).to_be_bytes());
            out.push(self.extensions.first().map_or(protocol, |(kind, _)| *kind));
            out.push(self.ttl);
            out.extend(source);
            out.extend(destination);
            out.extend(rest);
        } else {
            let header = 20 + self.ip_options.len();
            out.extend([0x40 | (header / 4) as u8, self.tos]);
            out.extend(((header + transport.len()) as u16).to_be_bytes());
            out.extend(self.identification.to_be_bytes());
            out.extend(self.fragment.to_be_bytes());
            out.extend([self.ttl, protocol, 0, 0]);
            out.extend(source);
            out.extend(destination);
            out.extend(&self.ip_options);
            let sum = internet(&out);
            out[10..12].copy_from_slice(&sum.to_be_bytes());
            out.extend(transport);
        }
        out
    }

    pub fn frame(&self) -> Vec<u8> {
        let ip = self.ip();
        let mut out = vec![0xaa, 0, 0, 0, 0, 1, 0xaa, 0, 0, 0, 0, 2];
        for (kind, tag) in &self.tags {
            out.extend(kind.to_be_bytes());
            out.extend(tag.to_be_bytes());
        }
        let kind: u16 = if self.v6 { 0x86dd } else { 0x0800 };
        if self.snap {
            out.extend(((ip.len() + 8) as u16).to_be_bytes());
            out.extend([0xaa, 0xaa, 3, 0, 0, 0]);
        }
        out.extend(kind.to_be_bytes());
        out.extend(ip);
        out.resize(out.len() + self.padding, 0);
        out
    }

    /// The frames it is to be cut into, each built on its own.
    pub fn cut(&self, size: usize) -> Vec<Vec<u8>> {
        let pieces: Vec<&[u8]> = self.payload.chunks(size).collect();
        let last = pieces.len() - 1;
        let mut frames = Vec::new();
        for (index, piece) in pieces.into_iter().enumerate() {
            let mut packet = Self { payload: piece.to_vec(), ..self.clone() };
            packet.sequence = self.sequence.wrapping_add((index * size) as u32);
            packet.identification = self.identification.wrapping_add(index as u16);
            if index != last {
                packet.flags &= !0x09;
            }
            if index != 0 {
                packet.flags &= !0x80;
            }
            frames.push(packet.frame());
        }
        frames
    }
}

/// The Internet checksum word by word.
pub fn internet(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Bytes that differ from place to place.
pub fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// NOP, NOP, timestamps.
pub fn timestamps(value: u32) -> Vec<u8> {
    let mut options = vec![1, 1, 8, 10];
    options.extend(value.to_be_bytes());
    options.extend([0, 0, 0, 9]);
    options
}

pub mod strategy {
    use super::Packet;
    use proptest::prelude::*;

    fn extensions() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
        let body =
            (0usize..4).prop_flat_map(|units| prop::collection::vec(any::<u8>(), 6 + 8 * units));
        let kind = prop_oneof![Just(0u8), Just(60), Just(135)];
        prop::collection::vec((kind, body), 0..4)
    }

    /// Any packet with a payload up to `longest` bytes that has nothing wrong with it.
    pub fn packet(longest: usize) -> impl Strategy<Value = Packet> {
        let link = (prop::collection::vec(any::<u16>(), 0..=2), any::<bool>());
        let words = |most| {
            (0usize..=most).prop_flat_map(|words| prop::collection::vec(any::<u8>(), words * 4))
        };
        let ip = (any::<u8>(), any::<u8>(), any::<u16>(), any::<bool>(), words(10), extensions());
        let tcp = (any::<(u16, u16)>(), any::<u32>(), any::<u32>(), any::<u16>(), words(10));
        let payload = prop::collection::vec(any::<u8>(), 1..=longest);
        (link, any::<(bool, bool)>(), ip, tcp, payload).prop_map(
            |((tags, snap), (v6, udp), ip, tcp, payload)| Packet {
                tags: tags.into_iter().map(|tag| (0x8100, tag)).collect(),
                snap,
                v6,
                udp,
                tos: ip.0,
                ttl: ip.1,
                identification: ip.2,
                fragment: if ip.3 { 0x4000 } else { 0 },
                ip_options: ip.4,
                extensions: ip.5,
                ports: tcp.0,
                sequence: tcp.1,
                acknowledgement: tcp.2,
                flags: tcp.3 & 0xfff,
                window: tcp.3.rotate_left(5),
                options: tcp.4,
                payload,
                padding: 0,
            },
        )
    }
}
