//! The result of merging frames.

use super::Parts;
use crate::frame::slices;
use crate::frame::tcp::CHECKSUM;
use crate::header::{Header, narrow};
use crate::vnet::{Checksum, Gso, GsoKind, VnetHeader};
use std::ops::Range;

/// Frames merged into one.
///
/// A TAP accepts it as a GSO packet: the checksum field holds the folded sum of the pseudo-header
/// and waits for completion (NEEDS_CSUM), so a host can deliver or forward it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superframe<F> {
    /// From the destination address to the end of the TCP header. Always Ethernet II, since an
    /// 802.3 length field cannot hold the length.
    pub header: Header,
    /// The payload, where it lies in the frames that came in.
    pub pieces: Vec<Piece<F>>,
    /// The number of merged frames.
    pub segments: usize,
    /// Bytes of payload in every frame except the last: `gso_size`.
    pub segment_size: u16,
    /// Whether it is IPv6: `gso_type` TCPV6, otherwise TCPV4.
    pub ipv6: bool,
    /// Where the TCP header is: `csum_start`. The checksum is 16 bytes further: `csum_offset`.
    pub transport: usize,
    /// The frames had LLC/SNAP.
    pub snap: bool,
    /// The IPv4 identification was the same in all frames.
    pub fixed_identification: bool,
}

/// A part of a superframe's payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece<F> {
    /// The frame that came in, or several in a row.
    pub frame: F,
    /// The place of its payload, in bytes that count through head and tail.
    pub payload: Range<usize>,
}

impl<F: Parts> Piece<F> {
    /// The payload: its part in the head, then its part in the tail. Either may be empty.
    #[must_use]
    pub fn slices(&self) -> [&[u8]; 2] {
        slices(self.frame.head(), self.frame.tail(), self.payload.clone())
    }
}

impl<F: Parts> Superframe<F> {
    /// The header before it at a TAP. Its checksum waits for completion, so the host does not
    /// verify it again.
    #[must_use]
    pub fn vnet_header(&self) -> VnetHeader {
        let kind = if self.ipv6 { GsoKind::Tcp6 } else { GsoKind::Tcp4 };
        VnetHeader {
            // a frame with CWR is never merged
            gso: Some(Gso { kind, ecn: false }),
            header_length: narrow(self.header.len()),
            segment_size: self.segment_size,
            checksum: Some(Checksum { start: narrow(self.transport), offset: narrow(CHECKSUM) }),
            ..VnetHeader::default()
        }
    }

    /// The whole superframe, copied together.
    #[must_use]
    pub fn to_frame(&self) -> Vec<u8> {
        let mut frame = self.header.to_vec();
        for piece in &self.pieces {
            piece.slices().into_iter().for_each(|slice| frame.extend_from_slice(slice));
        }
        frame
    }
}

/// Vectors for the frames of later superframes, so that fewer are allocated.
#[derive(Debug, Clone)]
pub(super) struct Spare<F> {
    rooms: Vec<Vec<Piece<F>>>,
    most: usize,
}

impl<F> Spare<F> {
    /// Keeps at most `most` vectors.
    pub(super) fn new(most: usize) -> Self {
        Self { rooms: Vec::new(), most }
    }

    pub(super) fn put(&mut self, mut room: Vec<Piece<F>>) {
        if self.rooms.len() < self.most {
            room.clear();
            self.rooms.push(room);
        }
    }

    pub(super) fn take(&mut self) -> Vec<Piece<F>> {
        self.rooms.pop().unwrap_or_default()
    }
}
