//! `virtio_net_hdr`: the header before each frame at a TAP, and what it asks for.
//!
//! It is the legacy header of the virtio specification (5.1.6.1) as Linux declares it in
//! `linux/virtio_net.h` and `tun` reads and writes it: 10 bytes, or 12 with the number of buffers
//! (`TUNSETVNETHDRSZ`). Its fields have the byte order of the host, since that is what `tun` uses
//! unless it is told otherwise (`TUNSETVNETLE`, `TUNSETVNETBE`): little-endian on x86. Both sides
//! of a TAP are on one host, so this module uses the host's order and no other.
//!
//! The header comes from a host and is checked against the frame behind it. Its header length is
//! only a hint: the frame's own headers tell where its payload begins.

use crate::checksum::Sum;
use crate::frame::{ipv4, ipv6, tcp, udp};

/// Bytes of the longest form.
pub const MAX_LENGTH: usize = 12;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;

const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
/// UDP fragmentation (UFO). Linux sends it only to a TAP that asks for it with `TUN_F_UFO`.
const GSO_UDP: u8 = 3;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// The TCP header of a superframe has CWR. Other flags, as 0x10 for AccECN (RFC 9768), are set only for a TAP that asks
/// for them with `TUNSETOFFLOAD`.
const GSO_ECN: u8 = 0x80;

/// Most datagrams of one superframe (`UDP_MAX_SEGMENTS`, include/linux/udp.h).
const UDP_MAX_SEGMENTS: usize = 128;

/// A size that means something else to Linux (include/linux/skbuff.h).
const GSO_BY_FRAGS: u16 = 0xffff;

/// The forms of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `virtio_net_hdr`, the default of a TAP.
    Plain,
    /// `virtio_net_hdr_mrg_rxbuf`, with the number of buffers.
    Mergeable,
}

impl Form {
    /// Bytes of the header: what `TUNSETVNETHDRSZ` takes.
    #[must_use]
    pub const fn length(self) -> usize {
        match self {
            Self::Plain => 10,
            Self::Mergeable => MAX_LENGTH,
        }
    }
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VnetHeader {
    /// The frame is a superframe, to be cut.
    pub gso: Option<Gso>,
    /// The length of its headers, as a hint.
    pub header_length: u16,
    /// Bytes of payload in each segment; zero in a frame that is not a superframe.
    pub segment_size: u16,
    /// Its checksum is to be completed (NEEDS_CSUM).
    pub checksum: Option<Checksum>,
    /// Its checksum was verified (DATA_VALID).
    pub data_valid: bool,
    /// The number of its buffers; 0 in the plain form, which has no such field.
    pub buffers: u16,
}

/// The kind of a superframe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gso {
    /// The packets that it is to be cut into.
    pub kind: GsoKind,
    /// Its TCP header has CWR.
    pub ecn: bool,
}

/// The packets that a superframe is to be cut into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GsoKind {
    /// TCP segments over IPv4.
    Tcp4,
    /// TCP segments over IPv6.
    Tcp6,
    /// UDP datagrams (USO).
    UdpL4,
}

/// The checksum that is to be completed. Its field holds the folded sum of the pseudo-header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    /// Where the bytes that it covers begin; they end with the frame.
    pub start: u16,
    /// Where its field is, from there.
    pub offset: u16,
}

/// Why a header is refused. The caller drops and counts the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VnetError {
    /// It is cut off.
    #[error("buffer has {found} bytes, expected at least {expected} for a virtio_net_hdr")]
    Length {
        /// Bytes there are.
        found: usize,
        /// Bytes of the form.
        expected: usize,
    },
    /// The frame asks to be cut into IP fragments.
    #[error("gso_type {found:#04x} asks for UDP fragmentation (UFO), expected 0, 1, 4 or 5")]
    Ufo {
        /// The value.
        found: u8,
    },
    /// The kind of superframe is not known, or has an ECN bit that only TCP may have.
    #[error("gso_type is {found:#04x}, expected 0, 1, 4 or 5, with 0x80 on 1 and 4 only")]
    GsoType {
        /// The value.
        found: u8,
    },
    /// A superframe without a size of its segments.
    #[error("gso_size is 0 with gso_type {gso_type:#04x}, expected at least 1")]
    SegmentSize {
        /// The kind of superframe.
        gso_type: u8,
    },
    /// The checksum field is not in the frame, or not in the part that may be written.
    #[error(
        "csum_start {start} with csum_offset {offset} ends at byte {}, expected at most {room}",
        start.saturating_add(*offset).saturating_add(2)
    )]
    Checksum {
        /// Where the covered bytes begin.
        start: usize,
        /// Where the field is, from there.
        offset: usize,
        /// Bytes that could hold the field.
        room: usize,
    },
}

impl VnetHeader {
    /// Splits the bytes read from a TAP into header and frame. Fails if the buffer is too short, the kind of
    /// superframe is not known or lacks its segment size, or the checksum field is not in the frame.
    pub fn parse(buffer: &[u8], form: Form) -> Result<(Self, &[u8]), VnetError> {
        let expected = form.length();
        let short = VnetError::Length { found: buffer.len(), expected };
        let (bytes, frame) = buffer.split_at_checked(expected).ok_or(short)?;
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let (flags, gso_type, segment_size) = (bytes[0], bytes[1], word(4));
        let gso = Gso::parse(gso_type)?;
        if gso.is_some() && segment_size == 0 {
            return Err(VnetError::SegmentSize { gso_type });
        }
        let checksum = Checksum { start: word(6), offset: word(8) };
        let checksum = (flags & NEEDS_CSUM != 0).then_some(checksum);
        if let Some(Checksum { start, offset }) = checksum {
            field(frame.len(), start.into(), offset.into())?;
        }
        let header = Self {
            gso,
            header_length: word(2),
            segment_size,
            checksum,
            data_valid: flags & DATA_VALID != 0,
            buffers: if form == Form::Mergeable { word(10) } else { 0 },
        };
        Ok((header, frame))
    }

    /// Whether Linux takes a frame of `length` bytes behind this header at a TAP: the checks of `virtio_net_hdr_to_skb`
    /// (include/linux/virtio_net.h) since 6.10.3, of `skb_partial_csum_set`, and of the length of the headers in
    /// `tun_get_user`. Older kernels take more.
    #[must_use]
    pub fn is_taken_by_linux(&self, length: usize) -> bool {
        // the shortest headers: of IP, which the frame must have in front of the transport, and of the transport
        let (ip, transport, offset) = match self.gso.map(|gso| gso.kind) {
            None => (ipv4::HEADER, 0, None),
            Some(GsoKind::Tcp4) => (ipv4::HEADER, tcp::HEADER, Some(tcp::CHECKSUM)),
            Some(GsoKind::Tcp6) => (ipv6::HEADER, tcp::HEADER, Some(tcp::CHECKSUM)),
            Some(GsoKind::UdpL4) => (ipv4::HEADER, udp::HEADER, Some(udp::CHECKSUM)),
        };
        let start = match self.checksum {
            Some(Checksum { start, offset: at }) => {
                let field = usize::from(at) + 2;
                let is_in = usize::from(start) + transport.max(field) <= length;
                let is_own = offset.is_none_or(|own| own == usize::from(at));
                if !is_in || !is_own || start == u16::MAX || usize::from(start) < ip {
                    return false;
                }
                start.into()
            }
            // a datagram that is to be cut needs its checksum made
            None if self.gso.is_some_and(|gso| gso.kind == GsoKind::UdpL4) => return false,
            None => ip,
        };
        let Some(payload) = length.checked_sub(start + transport) else {
            return self.gso.is_none();
        };
        let size = usize::from(self.segment_size);
        let is_cuttable = match self.gso.map(|gso| gso.kind) {
            None => true,
            Some(GsoKind::UdpL4) => payload <= size * UDP_MAX_SEGMENTS,
            Some(GsoKind::Tcp4 | GsoKind::Tcp6) => true,
        };
        let has_size = self.gso.is_none() || size != 0 && self.segment_size != GSO_BY_FRAGS;
        is_cuttable && has_size && usize::from(self.header_length) <= length
    }

    /// The bytes of the longest form, of which each form is the first
    /// [`length`](Form::length) bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; MAX_LENGTH] {
        let needs = if self.checksum.is_some() { NEEDS_CSUM } else { 0 };
        let valid = if self.data_valid { DATA_VALID } else { 0 };
        let Checksum { start, offset } = self.checksum.unwrap_or(Checksum { start: 0, offset: 0 });
        let gso_type = self.gso.map_or(GSO_NONE, Gso::emit);
        let mut bytes = [0; MAX_LENGTH];
        bytes[..2].copy_from_slice(&[needs | valid, gso_type]);
        let words = [self.header_length, self.segment_size, start, offset, self.buffers];
        for (field, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            field.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

impl Gso {
    fn parse(gso_type: u8) -> Result<Option<Self>, VnetError> {
        let ecn = gso_type & GSO_ECN != 0;
        let kind = match gso_type & !GSO_ECN {
            GSO_NONE if !ecn => return Ok(None),
            GSO_TCPV4 => GsoKind::Tcp4,
            GSO_TCPV6 => GsoKind::Tcp6,
            GSO_UDP => return Err(VnetError::Ufo { found: gso_type }),
            GSO_UDP_L4 if !ecn => GsoKind::UdpL4,
            _ => return Err(VnetError::GsoType { found: gso_type }),
        };
        Ok(Some(Self { kind, ecn }))
    }

    const fn emit(self) -> u8 {
        let ecn = if self.ecn { GSO_ECN } else { 0 };
        match self.kind {
            GsoKind::Tcp4 => GSO_TCPV4 | ecn,
            GsoKind::Tcp6 => GSO_TCPV6 | ecn,
            GsoKind::UdpL4 => GSO_UDP_L4,
        }
    }
}

/// Completes the checksum of a frame as NEEDS_CSUM asks: the sum of all bytes from `start` on, the field with its
/// sum of the pseudo-header included. Zero is written as 0xffff, which is the same number and never means "no
/// checksum" (`skb_checksum_help` of Linux does so for every protocol). The frame is `head` followed by bytes with
/// the sum `tail`. If the field is not in `head`, it fails and `head` is unchanged.
pub fn complete_checksum_parts(
    head: &mut [u8],
    tail: Sum,
    start: usize,
    offset: usize,
) -> Result<(), VnetError> {
    let at = field(head.len(), start, offset)?;
    let checksum = Sum::of(&head[start..]).then(tail).udp_checksum();
    head[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// Where the checksum field is, if all of it is in `room` bytes.
fn field(room: usize, start: usize, offset: usize) -> Result<usize, VnetError> {
    let at = start.saturating_add(offset);
    if at.saturating_add(2) <= room {
        Ok(at)
    } else {
        Err(VnetError::Checksum { start, offset, room })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(fields: [u8; 2], words: [u16; 4]) -> Vec<u8> {
        let mut bytes = fields.to_vec();
        words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn a_superframe_as_linux_hands_it_over() {
        let mut buffer = header([1, 0x81], [66, 1448, 34, 16]);
        buffer.extend([7; 60]);
        let (header, frame) = VnetHeader::parse(&buffer, Form::Plain).expect("a good header");
        assert_eq!(frame, [7; 60]);
        let expected = VnetHeader {
            gso: Some(Gso { kind: GsoKind::Tcp4, ecn: true }),
            header_length: 66,
            segment_size: 1448,
            checksum: Some(Checksum { start: 34, offset: 16 }),
            ..VnetHeader::default()
        };
        assert_eq!(header, expected);
        assert_eq!(header.emit()[..10], buffer[..10]);
    }

    #[test]
    fn the_longer_form_has_the_number_of_buffers() {
        let mut buffer = header([2, 0], [0, 0, 0, 0]);
        buffer.extend(3u16.to_ne_bytes());
        let (header, frame) = VnetHeader::parse(&buffer, Form::Mergeable).expect("a good header");
        assert!(frame.is_empty() && header.data_valid);
        assert_eq!((header.buffers, header.checksum, header.gso), (3, None, None));
        assert_eq!(header.emit()[..], buffer[..]);
    }

    #[test]
    fn refuses_contradicting_headers_by_name() {
        let refusal = |fields, words, frame: usize| {
            let mut buffer = header(fields, words);
            buffer.resize(10 + frame, 0);
            VnetHeader::parse(&buffer, Form::Plain).expect_err("refused").to_string()
        };
        let types = "expected 0, 1, 4 or 5, with 0x80 on 1 and 4 only";
        for found in [2, 6, 0x80, 0x85, 0x21] {
            let expected = format!("gso_type is {found:#04x}, {types}");
            assert_eq!(refusal([1, found], [54, 1, 34, 16], 99), expected);
        }
        for found in [3, 0x83] {
            let asks = "asks for UDP fragmentation (UFO), expected 0, 1, 4 or 5";
            let expected = format!("gso_type {found:#04x} {asks}");
            assert_eq!(refusal([1, found], [42, 1480, 34, 6], 99), expected);
        }
        let error = refusal([1, 1], [54, 0, 34, 16], 99);
        assert_eq!(error, "gso_size is 0 with gso_type 0x01, expected at least 1");
        let error = refusal([1, 0], [0, 0, 34, 16], 51);
        assert_eq!(error, "csum_start 34 with csum_offset 16 ends at byte 52, expected at most 51");
        let error = refusal([1, 0], [0, 0, 0xffff, 0xffff], 51);
        assert!(error.contains("ends at byte 131072, expected at most 51"), "{error}");
        let error = VnetHeader::parse(&[0; 11], Form::Mergeable).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "buffer has 11 bytes, expected at least 12 for a virtio_net_hdr"
        );
    }

    #[test]
    fn writes_a_zero_checksum_as_ones() {
        let mut frame = [0xff, 0xff, 0, 0];
        complete_checksum_parts(&mut frame, Sum::ZERO, 0, 2).expect("a field");
        assert_eq!(frame, [0xff; 4]);
        assert!(complete_checksum_parts(&mut frame, Sum::ZERO, 1, 2).is_err());
        assert!(complete_checksum_parts(&mut frame, Sum::ZERO, usize::MAX, 2).is_err());
        assert_eq!(frame, [0xff; 4]);
    }

    #[test]
    fn what_linux_takes() {
        let checksum = |start, offset| Some(Checksum { start, offset });
        let plain = VnetHeader { checksum: checksum(34, 16), ..VnetHeader::default() };
        assert!(VnetHeader::default().is_taken_by_linux(14) && plain.is_taken_by_linux(54));
        for (start, offset) in [(19, 16), (34, 19), (60, 0), (u16::MAX, 0)] {
            let wrong = VnetHeader { checksum: checksum(start, offset), ..plain };
            assert!(!wrong.is_taken_by_linux(54), "{start} {offset}");
        }
        let of = |kind, segment_size| VnetHeader {
            gso: Some(Gso { kind, ecn: false }),
            segment_size,
            ..plain
        };
        assert!(of(GsoKind::Tcp4, 1448).is_taken_by_linux(9000));
        assert!(!of(GsoKind::Tcp6, 1448).is_taken_by_linux(9000), "no room for IPv6");
        assert!(!of(GsoKind::Tcp4, 0).is_taken_by_linux(9000));
        assert!(!of(GsoKind::Tcp4, GSO_BY_FRAGS).is_taken_by_linux(9000));
        assert!(!of(GsoKind::Tcp4, 1448).is_taken_by_linux(53), "the header is cut off");
        let no_checksum = VnetHeader { checksum: None, ..of(GsoKind::Tcp4, 1448) };
        assert!(no_checksum.is_taken_by_linux(9000));
        let long = VnetHeader { header_length: 9001, ..plain };
        assert!(!long.is_taken_by_linux(9000));
        let datagrams = VnetHeader { checksum: checksum(34, 6), ..of(GsoKind::UdpL4, 10) };
        assert!(datagrams.is_taken_by_linux(42 + 1280) && !datagrams.is_taken_by_linux(42 + 1281));
        let no_checksum = VnetHeader { checksum: None, ..datagrams };
        assert!(!no_checksum.is_taken_by_linux(100));
        let of_tcp = VnetHeader { checksum: checksum(34, 16), ..datagrams };
        assert!(!of_tcp.is_taken_by_linux(100));
    }

    fn any_header() -> impl Strategy<Value = VnetHeader> {
        let kind = prop_oneof![
            Just(None),
            any::<bool>().prop_map(|ecn| Some(Gso { kind: GsoKind::Tcp4, ecn })),
            any::<bool>().prop_map(|ecn| Some(Gso { kind: GsoKind::Tcp6, ecn })),
            Just(Some(Gso { kind: GsoKind::UdpL4, ecn: false })),
        ];
        let checksum = prop::option::of((0u16..60, 0u16..40));
        (kind, any::<u16>(), 1u16.., checksum, any::<bool>(), any::<u16>()).prop_map(
            |(gso, header_length, segment_size, checksum, data_valid, buffers)| VnetHeader {
                gso,
                header_length,
                segment_size,
                checksum: checksum.map(|(start, offset)| Checksum { start, offset }),
                data_valid,
                buffers,
            },
        )
    }

    proptest! {
        #[test]
        fn a_header_reads_back(header in any_header()) {
            let mut buffer = header.emit().to_vec();
            buffer.resize(MAX_LENGTH + 100, 0);
            let (again, frame) = VnetHeader::parse(&buffer, Form::Mergeable).expect("good");
            prop_assert_eq!(again, header);
            prop_assert_eq!(frame.len(), 100);
        }

        #[test]
        fn any_bytes_are_a_header_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            for form in [Form::Plain, Form::Mergeable] {
                if let Ok((header, frame)) = VnetHeader::parse(&bytes, form) {
                    prop_assert_eq!(frame.len() + form.length(), bytes.len());
                    let mut frame = frame.to_vec();
                    if let Some(Checksum { start, offset }) = header.checksum {
                        complete_checksum_parts(&mut frame, Sum::ZERO, start.into(), offset.into())
                            .expect("parsed");
                    }
                }
            }
        }

        #[test]
        fn a_completed_checksum_verifies_wherever_the_frame_is_split(
            mut frame in prop::collection::vec(any::<u8>(), 20..90),
            start in 0usize..8, offset in 0usize..5, split in 20usize..90, pseudo: u16,
        ) {
            // the checksum of Internet protocols is at an even offset
            let offset = offset * 2;
            let at = start + offset;
            frame[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
            let mut whole = frame.clone();
            complete_checksum_parts(&mut whole, Sum::ZERO, start, offset).expect("a field");
            let (head, tail) = frame.split_at_mut(split.min(whole.len()));
            complete_checksum_parts(head, Sum::of(tail), start, offset).expect("a field");
            prop_assert_eq!(&frame, &whole);
            prop_assert!(Sum::word(pseudo).and(&frame[start..]).verifies());
        }
    }
}
