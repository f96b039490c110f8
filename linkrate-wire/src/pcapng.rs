//! Captures in the pcapng format (draft-ietf-opsawg-pcapng), which Wireshark reads.
//!
//! A file is [`section_header`], an [`interface_description`] for each port in the order of their
//! numbers, and a [`Packet`] for each frame. A file that ends after any block is complete. All
//! numbers have the byte order of this machine, which the first block tells.
//!
//! Names and comments are cut after 65535 bytes, frames after 262144.

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// The length of a section that is not known beforehand.
const UNKNOWN_LENGTH: u64 = u64::MAX;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_SPEED: u16 = 8;
const INTERFACE_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;

/// Timestamps are 10⁻⁹ s.
const NANOSECONDS: u8 = 9;
/// The longest frame that readers take (`MAXIMUM_SNAPLEN` of libpcap). Superframes are shorter.
const MAX_FRAME: usize = 262_144;

/// The direction of a frame, seen from the port at which it was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It came in.
    Inbound,
    /// It went out.
    Outbound,
}

/// A port that is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Its name.
    pub name: &'a str,
    /// The link-layer type of its packets, a `LINKTYPE_` number:
    /// [`LinkLaw::capture_type`](crate::link::LinkLaw::capture_type).
    pub link_type: u16,
    /// Bits per second; `None` without a rate.
    pub speed: Option<u64>,
    /// Bytes kept of each frame; 0 for all.
    pub snap_length: u32,
}

/// A frame that is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The number of its interface, counted from 0 in the order of their descriptions.
    pub interface: u32,
    /// When, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Its direction.
    pub direction: Direction,
    /// The frame without FCS, in as many parts as it has.
    pub parts: &'a [&'a [u8]],
    /// A comment about it.
    pub comment: Option<&'a str>,
    /// Bytes kept of it, as for its interface; 0 for all.
    pub snap_length: u32,
}

/// Appends the first block of a file.
pub fn section_header(application: &str, out: &mut Vec<u8>) {
    block(SECTION_HEADER, out, |out| {
        put32(out, BYTE_ORDER);
        // version 1.0
        put16(out, 1);
        put16(out, 0);
        out.extend_from_slice(&UNKNOWN_LENGTH.to_ne_bytes());
        text(SECTION_APPLICATION, application, out);
        option(OPTION_END, &[], out);
    });
}

/// Appends the block that describes a port. The first one has number 0.
pub fn interface_description(interface: &Interface<'_>, out: &mut Vec<u8>) {
    block(INTERFACE_DESCRIPTION, out, |out| {
        put16(out, interface.link_type);
        put16(out, 0);
        put32(out, interface.snap_length);
        text(INTERFACE_NAME, interface.name, out);
        if let Some(speed) = interface.speed {
            option(INTERFACE_SPEED, &speed.to_ne_bytes(), out);
        }
        option(INTERFACE_RESOLUTION, &[NANOSECONDS], out);
        option(OPTION_END, &[], out);
    });
}

/// Appends the block of a frame.
pub fn packet(packet: &Packet<'_>, out: &mut Vec<u8>) {
    let length: usize = packet.parts.iter().map(|part| part.len()).sum();
    let most = match packet.snap_length {
        0 => MAX_FRAME,
        snap_length => MAX_FRAME.min(snap_length as usize),
    };
    let captured = length.min(most);
    block(ENHANCED_PACKET, out, |out| {
        put32(out, packet.interface);
        let [upper, lower] = [packet.time_ns >> 32, packet.time_ns & 0xffff_ffff];
        put32(out, narrow(upper));
        put32(out, narrow(lower));
        put32(out, narrow(captured as u64));
        put32(out, narrow(length as u64));
        let mut left = captured;
        for part in packet.parts {
            let part = &part[..part.len().min(left)];
            out.extend_from_slice(part);
            left -= part.len();
        }
        pad(captured, out);
        let flags: u32 = match packet.direction {
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        option(PACKET_FLAGS, &flags.to_ne_bytes(), out);
        if let Some(comment) = packet.comment {
            text(OPTION_COMMENT, comment, out);
        }
        option(OPTION_END, &[], out);
    });
}

/// A block has its length at both ends, so that a file can be read backwards.
fn block(kind: u32, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put32(out, kind);
    put32(out, 0);
    body(out);
    let length = narrow((out.len() - start + 4) as u64);
    put32(out, length);
    out[start + 4..start + 8].copy_from_slice(&length.to_ne_bytes());
}

fn option(code: u16, value: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
    let value = &value[..usize::from(length)];
    put16(out, code);
    put16(out, length);
    out.extend_from_slice(value);
    pad(value.len(), out);
}

/// A text option, cut between two characters if it is too long.
fn text(code: u16, value: &str, out: &mut Vec<u8>) {
    let mut end = value.len().min(usize::from(u16::MAX));
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    option(code, &value.as_bytes()[..end], out);
}

/// Fills up to whole words of 32 bits.
fn pad(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; 3][..length.next_multiple_of(4) - length]);
}

fn put16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_ne_bytes());
}

fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_ne_bytes());
}

/// A block is far shorter than 4 GiB. Only the length of a frame that was cut could be more.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
