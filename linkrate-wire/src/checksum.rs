//! The Internet checksum: RFC 1071, with the pseudo-headers of RFC 9293, RFC 768 and RFC 8200.
//!
//! A [`Sum`] is a partial sum that keeps its parity, so pieces of any length may be summed where
//! they lie and combined later, in order. Headers and payload of a segment are summed separately,
//! and the payload of a superframe is never copied for its checksum.
//!
//! Long pieces are summed with the widest vectors of the processor, which are detected at run time:
//! a program for all x86-64 processors may rely on the oldest ones only.
//!
//! `Sum::of(b"odd").then(Sum::of(b" and even"))` is the sum of `b"odd and even"`.

use fearless_simd::{Level, Simd, dispatch};

/// The sum of some bytes in ones' complement arithmetic, and whether their number is odd.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    /// Of big-endian 16-bit words, folded to 16 bits.
    folded: u16,
    /// After an odd number of bytes, the next byte is the low half of a word.
    odd: bool,
}

// 0 and 0xffff are the same number in ones' complement arithmetic
impl PartialEq for Sum {
    fn eq(&self, other: &Self) -> bool {
        self.folded % 0xffff == other.folded % 0xffff && self.odd == other.odd
    }
}

impl Eq for Sum {}

impl Sum {
    /// The sum of no bytes.
    pub const ZERO: Self = Self { folded: 0, odd: false };

    /// Sums `bytes`, which may begin at any address and have any length.
    #[inline]
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { folded: sum(bytes), odd: bytes.len() % 2 == 1 }
    }

    /// The sum of one 16-bit word.
    #[must_use]
    pub const fn word(word: u16) -> Self {
        Self { folded: word, odd: false }
    }

    /// The sum of two 16-bit words, the upper one first: a number of 32 bits as it is on the wire.
    #[must_use]
    pub const fn words(words: u32) -> Self {
        Self { folded: fold(words as u64), odd: false }
    }

    /// The sum of the bytes of `self` followed by those of `next`.
    #[must_use]
    pub const fn then(self, next: Self) -> Self {
        // a sum begun in the other half of a word is the same sum with its bytes swapped
        let shifted = if self.odd { next.folded.swap_bytes() } else { next.folded };
        Self { folded: add(self.folded, shifted), odd: self.odd != next.odd }
    }

    /// The sum of the bytes of `self` followed by `bytes`.
    #[inline]
    #[must_use]
    pub fn and(self, bytes: &[u8]) -> Self {
        self.then(Self::of(bytes))
    }

    /// The sum itself, not complemented: the checksum field of a packet with NEEDS_CSUM in its
    /// `virtio_net_hdr` holds it.
    #[must_use]
    pub const fn folded(self) -> u16 {
        self.folded
    }

    /// The value for a checksum field that was zero or absent when it was summed.
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.folded
    }

    /// [`checksum`](Self::checksum) for UDP, where zero means "none": it is sent as 0xffff, which
    /// is the same number (RFC 768).
    #[must_use]
    pub const fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// Whether bytes that include their checksum field are intact.
    #[must_use]
    pub const fn verifies(self) -> bool {
        self.folded == 0xffff
    }
}

/// The pseudo-header of IPv4 (RFC 9293, 3.1): `length` is that of the transport header with its
/// payload.
#[must_use]
pub fn pseudo_v4(source: [u8; 4], destination: [u8; 4], protocol: u8, length: u16) -> Sum {
    Sum::words(u32::from_be_bytes(source))
        .then(Sum::words(u32::from_be_bytes(destination)))
        .then(Sum::word(u16::from(protocol)))
        .then(Sum::word(length))
}

/// The pseudo-header of IPv6 (RFC 8200, 8.1): `length` is that of the transport header with its
/// payload, without extension headers, and `destination` the final one.
#[must_use]
pub fn pseudo_v6(source: [u8; 16], destination: [u8; 16], protocol: u8, length: u32) -> Sum {
    Sum::of(&source).and(&destination).then(Sum::words(length)).then(Sum::word(u16::from(protocol)))
}

const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    // cannot overflow again: two 16-bit numbers with a carry leave at most 0xfffe
    sum + carry as u16
}

/// Numbers that are added at a time: two vectors of AVX2, one of AVX-512.
const LANES: usize = 8;
const BLOCK: usize = LANES * 8;

/// The words are added in the byte order of this machine and swapped once at the end, with the same
/// result (RFC 1071, 2 (B)).
#[inline]
fn sum(bytes: &[u8]) -> u16 {
    // headers are too short to gain from vectors
    u16::from_be(fold(if bytes.len() < BLOCK { rest(bytes) } else { long(bytes) }))
}

/// The sum of many bytes. It is a function of its own because the code for the oldest vectors is
/// inlined into it, and the sum of a header would have to save the registers of that code.
#[inline(never)]
fn long(bytes: &[u8]) -> u64 {
    dispatch!(Level::new(), simd => blocks(simd, bytes))
}

/// The sum of many bytes, compiled once for each kind of vector.
#[inline(always)]
fn blocks<S: Simd>(_: S, bytes: &[u8]) -> u64 {
    let (numbers, _) = bytes.as_chunks::<8>();
    let (blocks, _) = numbers.as_chunks::<LANES>();
    let (mut lanes, mut carries) = ([0u64; LANES], [0u64; LANES]);
    for block in blocks {
        // independent lanes with a fixed count are what lets this become vector code
        for (lane, (carry, number)) in lanes.iter_mut().zip(carries.iter_mut().zip(block)) {
            let number = u64::from_ne_bytes(*number);
            *lane = lane.wrapping_add(number);
            *carry += u64::from(*lane < number);
        }
    }
    // 2^64 is one in ones' complement arithmetic of 16 bits
    let total = lanes.iter().zip(carries).map(|(lane, carry)| fold_once(*lane) + carry);
    total.sum::<u64>() + rest(&bytes[blocks.len() * BLOCK..])
}

/// The sum of less than a block.
#[inline(always)]
fn rest(bytes: &[u8]) -> u64 {
    let (numbers, mut bytes) = bytes.as_chunks::<8>();
    let mut total = 0;
    for number in numbers {
        let (sum, carry) = u64::overflowing_add(total, u64::from_ne_bytes(*number));
        // after a carry, the sum is not the largest number
        total = sum + u64::from(carry);
    }
    let mut total = fold_once(total);
    if let Some((number, after)) = bytes.split_first_chunk() {
        total += u64::from(u32::from_ne_bytes(*number));
        bytes = after;
    }
    if let Some((word, after)) = bytes.split_first_chunk() {
        total += u64::from(u16::from_ne_bytes(*word));
        bytes = after;
    }
    total + bytes.first().map_or(0, |last| u64::from(u16::from_ne_bytes([*last, 0])))
}

const fn fold_once(sum: u64) -> u64 {
    (sum & 0xffff_ffff) + (sum >> 32)
}

#[expect(clippy::cast_possible_truncation, reason = "the loop ends below 2^16")]
const fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Word by word, as RFC 1071 writes it.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for word in bytes.chunks(2) {
            sum += u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).expect("folded")
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let sum = Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.folded(), 0xddf2);
        assert_eq!(sum.checksum(), 0x220d);
    }

    #[test]
    fn a_known_ipv4_header_verifies() {
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert!(Sum::of(&header).verifies());
    }

    #[test]
    fn udp_never_sends_a_zero_checksum() {
        assert_eq!(Sum::of(&[0xff, 0xff]).checksum(), 0);
        assert_eq!(Sum::of(&[0xff, 0xff]).udp_checksum(), 0xffff);
        assert_eq!(Sum::of(&[0xff, 0xfe]).udp_checksum(), 1);
    }

    #[test]
    fn the_largest_packet_of_ones_does_not_overflow() {
        assert_eq!(Sum::of(&vec![0xff; 70_000]).folded(), 0xffff);
    }

    #[test]
    fn pseudo_headers_match_the_rfcs() {
        let v4 = [10, 0, 0, 1, 10, 0, 0, 2, 0, 6, 0x12, 0x34];
        assert_eq!(pseudo_v4([10, 0, 0, 1], [10, 0, 0, 2], 6, 0x1234).folded(), naive(&v4));
        let (source, destination) = ([0xfd; 16], [0x2a; 16]);
        let mut v6 = Vec::from(source);
        v6.extend(destination);
        v6.extend([0, 1, 0x23, 0x45, 0, 0, 0, 17]);
        assert_eq!(pseudo_v6(source, destination, 17, 0x12345).folded(), naive(&v6));
    }

    proptest! {
        #[test]
        fn as_the_reference_at_any_alignment(
            bytes in prop::collection::vec(any::<u8>(), 0..400), from in 0usize..40,
        ) {
            let bytes = &bytes[from.min(bytes.len())..];
            prop_assert_eq!(Sum::of(bytes).folded(), naive(bytes));
        }

        #[test]
        fn every_kind_of_vector_gives_the_same(
            bytes in prop::collection::vec(any::<u8>(), 0..400), from in 0usize..40, ones: bool,
        ) {
            let bytes = if ones { vec![0xff; bytes.len()] } else { bytes };
            let bytes = &bytes[from.min(bytes.len())..];
            let level = Level::new();
            let mut sums = vec![rest(bytes), dispatch!(Level::baseline(), simd => blocks(simd, bytes))];
            sums.push(dispatch!(level, simd => blocks(simd, bytes)));
            #[cfg(target_arch = "x86_64")]
            sums.extend(level.as_avx2().map(|avx2| avx2.vectorize(|| blocks(avx2, bytes))));
            for sum in sums {
                prop_assert_eq!(u16::from_be(fold(sum)), naive(bytes));
            }
        }

        #[test]
        fn pieces_sum_to_the_whole(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..70), 0..8),
        ) {
            let whole = pieces.concat();
            let sum = pieces.iter().fold(Sum::ZERO, |sum, piece| sum.and(piece));
            prop_assert_eq!(sum.folded() % 0xffff, naive(&whole) % 0xffff);
            prop_assert_eq!(sum, Sum::of(&whole));
        }

        #[test]
        fn a_checksum_in_its_field_verifies(
            mut bytes in prop::collection::vec(any::<u8>(), 2..200),
        ) {
            bytes[..2].fill(0);
            let checksum = Sum::of(&bytes).checksum();
            bytes[..2].copy_from_slice(&checksum.to_be_bytes());
            prop_assert!(Sum::of(&bytes).verifies());
        }
    }
}
