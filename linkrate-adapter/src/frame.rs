//! Frames on the wire, without a copy of their payload.
//!
//! What a driver posts lies in one [`Block`]. The device cuts it into a [`Train`]: the headers of
//! all its frames in one piece, and for each frame where its header and its payload are. A
//! [`WireFrame`] is one of them. The block is free again when the last frame of its train has been
//! taken up at the far end.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use linkrate_wire::lro::Parts;
use linkrate_wire::segment::Cut;
use linkrate_wire::vnet::{Checksum, Form, VnetHeader};

/// Bytes of a block: the largest packet a TAP hands out, 65589 bytes, with its vnet header and
/// room for tags.
pub const BLOCK_BYTES: usize = 66 << 10;

/// Bytes before each packet at a TAP.
pub const VNET_BYTES: usize = Form::Plain.length();

/// Memory that a driver and a device share, as they do with DMA.
pub struct Block {
    bytes: Box<[u8]>,
}

impl Block {
    /// A block; its pages are taken when they are first written.
    #[must_use]
    pub fn new() -> Self {
        Self { bytes: vec![0; BLOCK_BYTES].into_boxed_slice() }
    }

    /// To be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// What it holds.
    #[must_use]
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }
}

impl Default for Block {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").finish_non_exhaustive()
    }
}

/// The frames that one packet of the host became.
#[derive(Debug, Default)]
pub struct Train {
    /// The headers of all frames; short frames lie here whole.
    pub headers: Vec<u8>,
    /// Where each frame's header and payload are: in `headers`, and in the block after `base`.
    pub cuts: Vec<Cut>,
    /// Where the payloads are, unless there are none.
    pub block: Option<Arc<Block>>,
    /// Where in the block the packet begins.
    pub base: usize,
    /// The packet is handed through as the host made it, offloads undone by nobody.
    pub untouched: Option<VnetHeader>,
}

impl Train {
    /// Empties it for another packet.
    pub fn clear(&mut self) {
        self.headers.clear();
        self.cuts.clear();
        self.block = None;
        self.base = 0;
        self.untouched = None;
    }
}

/// One frame on the wire, without FCS.
#[derive(Debug, Clone)]
pub struct WireFrame {
    train: Arc<Train>,
    index: u32,
}

impl WireFrame {
    /// The frames of a train, in order.
    pub fn of(train: &Arc<Train>) -> impl Iterator<Item = Self> + '_ {
        (0..train.cuts.len() as u32).map(|index| Self { train: Arc::clone(train), index })
    }

    /// A frame of its own, copied.
    #[must_use]
    pub fn copied(bytes: Vec<u8>) -> Self {
        let header = 0..bytes.len() as u32;
        let cuts = vec![Cut { header, payload: 0..0 }];
        Self { train: Arc::new(Train { headers: bytes, cuts, ..Train::default() }), index: 0 }
    }

    fn cut(&self) -> &Cut {
        // made by `of` and `copied` only
        &self.train.cuts[self.index as usize]
    }

    /// Bytes of the frame.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head().len() + self.tail().len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where its payload lies, if not with its headers.
    #[must_use]
    pub fn place(&self) -> Option<(&Block, Range<usize>)> {
        let (range, base) = (&self.cut().payload, self.train.base);
        let block = self.train.block.as_deref()?;
        Some((block, base + range.start as usize..base + range.end as usize))
    }

    /// How the host left it, if nothing was done to it on the way.
    #[must_use]
    pub fn untouched(&self) -> Option<&VnetHeader> {
        self.train.untouched.as_ref()
    }

    /// The frame with another link header: `head` instead of all its headers, the payload where it
    /// lies.
    #[must_use]
    pub fn with_head(&self, head: Vec<u8>) -> Self {
        let Cut { header, payload } = self.cut();
        let longer = head.len() as i64 - i64::from(header.end - header.start);
        let moved = |at: u16| (i64::from(at) + longer) as u16;
        let untouched = self.train.untouched.map(|vnet| VnetHeader {
            header_length: moved(vnet.header_length),
            checksum: vnet.checksum.map(|sum| Checksum { start: moved(sum.start), ..sum }),
            ..vnet
        });
        let cuts = vec![Cut { header: 0..head.len() as u32, payload: payload.clone() }];
        let (block, base) = (self.train.block.clone(), self.train.base);
        Self { train: Arc::new(Train { headers: head, cuts, block, base, untouched }), index: 0 }
    }

    /// The whole frame, copied together.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        [self.head(), self.tail()].concat()
    }
}

impl Parts for WireFrame {
    fn head(&self) -> &[u8] {
        let range = &self.cut().header;
        self.train.headers.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    fn tail(&self) -> &[u8] {
        self.place().map_or(&[], |(block, range)| block.bytes(range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_train_is_its_frames() {
        let mut block = Block::new();
        block.bytes_mut()[10..22].copy_from_slice(b"hello, world");
        let train = Arc::new(Train {
            headers: b"AB".to_vec(),
            cuts: vec![Cut { header: 0..1, payload: 0..5 }, Cut { header: 1..2, payload: 5..12 }],
            block: Some(Arc::new(block)),
            base: 10,
            untouched: None,
        });
        let frames: Vec<_> = WireFrame::of(&train).map(|frame| frame.to_vec()).collect();
        assert_eq!(frames, [b"Ahello".to_vec(), b"B, world".to_vec()]);
        let second = WireFrame::of(&train).nth(1).unwrap().with_head(b"Bye".to_vec());
        assert_eq!((second.to_vec(), second.head()), (b"Bye, world".to_vec(), &b"Bye"[..]));
        let alone = WireFrame::copied(b"alone".to_vec());
        assert_eq!((alone.len(), alone.tail().len()), (5, 0));
    }
}
