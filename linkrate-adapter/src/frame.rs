//! Frames on a link, without a copy of their payload.
//!
//! A packet that a driver posts lies in one [`Block`]. The device cuts it into a [`Train`]: the
//! headers of all its frames in one piece, and for each frame the places of its header and payload.
//! A [`WireFrame`] is one frame of a train; a [`Burst`] is several that travel together. The block is
//! free again when the peer has taken the last frame of the train.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use linkrate_wire::checksum::Sum;
use linkrate_wire::lro::{Parts, Row};
use linkrate_wire::segment::Cut;
use linkrate_wire::vnet::{Checksum, Form, VnetHeader};

/// Bytes of a block: room for one read of a TAP, and for tags.
pub const BLOCK_BYTES: usize = 66 << 10;

const _: () = assert!(BLOCK_BYTES >= linkrate_sys::tap::MAX_READ);

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

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Its memory, bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

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
    /// Where the payloads are; `None` without payloads.
    pub block: Option<Arc<Block>>,
    /// Where in the block the packet begins.
    pub base: usize,
    /// The frames are segments of one TCP superframe, as [`linkrate_wire::tso`] made them.
    pub segments: bool,
    /// The packet is handed through as the host made it: superframe whole, checksum not made.
    pub untouched: Option<VnetHeader>,
}

impl Train {
    /// Empties it for another packet.
    pub fn clear(&mut self) {
        self.headers.clear();
        self.cuts.clear();
        self.block = None;
        self.base = 0;
        self.segments = false;
        self.untouched = None;
    }

    /// Bytes of the payloads of all frames, which lie one after the other.
    fn payload(&self) -> usize {
        let (first, last) = (self.cuts.first(), self.cuts.last());
        let end = last.map_or(0, |cut| cut.payload.end);
        end.saturating_sub(first.map_or(0, |cut| cut.payload.start)) as usize
    }

    /// The header of frame `index`.
    fn head(&self, index: u32) -> &[u8] {
        self.cuts.get(index as usize).map_or(&[], |cut| cut.header(&self.headers))
    }

    /// The payload of frame `index`.
    fn tail(&self, index: u32) -> &[u8] {
        let (Some(cut), Some(block)) = (self.cuts.get(index as usize), &self.block) else {
            return &[];
        };
        let Range { start, end } = cut.payload;
        block.bytes(self.base + start as usize..self.base + end as usize)
    }

    /// The sum of the payload of frame `index`. Its block is not written while the train has it, so
    /// the sum that the sender's device made still holds.
    fn tail_sum(&self, index: u32) -> Sum {
        let known = self.cuts.get(index as usize).and_then(|cut| cut.sum);
        known.unwrap_or_else(|| Sum::of(self.tail(index)))
    }
}

/// One frame on a link, without FCS.
#[derive(Debug, Clone)]
pub struct WireFrame {
    train: Arc<Train>,
    index: u32,
}

impl WireFrame {
    /// A frame that is a train by itself, with a copy of `bytes`.
    #[must_use]
    pub fn copied(bytes: Vec<u8>) -> Self {
        let header = 0..bytes.len() as u32;
        let cuts = vec![Cut { header, payload: 0..0, sum: None }];
        Self { train: Arc::new(Train { headers: bytes, cuts, ..Train::default() }), index: 0 }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.head().len() + self.tail().len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The frame with `head` instead of all its headers. The payload is not copied.
    #[must_use]
    pub fn with_head(&self, head: Vec<u8>) -> Self {
        let Train { block, base, untouched, .. } = &*self.train;
        let longer = head.len() as i64 - self.head().len() as i64;
        let moved = |at: u16| (i64::from(at) + longer) as u16;
        let untouched = untouched.map(|vnet| VnetHeader {
            header_length: moved(vnet.header_length),
            checksum: vnet.checksum.map(|sum| Checksum { start: moved(sum.start), ..sum }),
            ..vnet
        });
        let old = self.train.cuts[self.index as usize].clone();
        let cuts = vec![Cut { header: 0..head.len() as u32, ..old }];
        let (block, base) = (block.clone(), *base);
        let train = Train { headers: head, cuts, block, base, untouched, ..Train::default() };
        Self { train: Arc::new(train), index: 0 }
    }

    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        [self.head(), self.tail()].concat()
    }
}

/// Frames of one train that travel together. Their payloads lie one after the other. There is at
/// least one frame.
#[derive(Debug, Clone)]
pub struct Burst {
    train: Arc<Train>,
    range: Range<u32>,
    /// A bit of each frame was flipped on the line, so that its check sequence is wrong.
    damaged: bool,
}

impl Burst {
    /// The frames `range` of a train, at least one. Their payloads must lie one after the other, as
    /// those of the segments of one superframe do.
    pub(crate) fn of(train: &Arc<Train>, range: Range<usize>) -> Self {
        debug_assert!(train.cuts.get(range.clone()).is_some_and(|cuts| {
            cuts.windows(2).all(|pair| pair[0].payload.end == pair[1].payload.start)
        }));
        let range = range.start as u32..range.end as u32;
        Self { train: Arc::clone(train), range, damaged: false }
    }

    /// Each by itself.
    pub fn each(&self) -> impl Iterator<Item = WireFrame> + '_ {
        self.range.clone().map(|index| WireFrame { train: Arc::clone(&self.train), index })
    }

    /// The first by itself.
    #[must_use]
    pub fn first(&self) -> WireFrame {
        WireFrame { train: Arc::clone(&self.train), index: self.range.start }
    }

    /// The bytes of each.
    pub fn lengths(&self) -> impl Iterator<Item = usize> + '_ {
        self.cuts().iter().map(|cut| cut.header.len() + cut.payload.len())
    }

    fn cuts(&self) -> &[Cut] {
        // within the train by how it was made
        &self.train.cuts[self.range.start as usize..self.range.end as usize]
    }

    /// The memory that the frames take, bytes. Bursts of one train share its block.
    #[must_use]
    pub(crate) fn memory(&self) -> usize {
        let train = &*self.train;
        let cuts = self.cuts();
        let headers: usize = cuts.iter().map(|cut| size_of::<Cut>() + cut.header.len()).sum();
        let payload: usize = cuts.iter().map(|cut| cut.payload.len()).sum();
        let of_block = match (&train.block, train.payload()) {
            (None, _) => 0,
            (Some(block), 0) => block.size(),
            (Some(block), all) => block.size() * payload / all,
        };
        size_of::<Train>() + headers + of_block
    }

    /// The same frames, in a block of their own that they fill, where their train leaves most of its
    /// block unused.
    #[must_use]
    pub(crate) fn compact(self) -> Self {
        let train = &*self.train;
        let Some(block) = train.block.as_ref() else { return self };
        if train.payload() > block.size() / 4 {
            return self;
        }
        let first = self.cuts().first().map_or(0, |cut| cut.payload.start);
        let (mut headers, mut cuts) = (Vec::new(), Vec::with_capacity(self.range.len()));
        for (index, cut) in self.range.clone().zip(self.cuts()) {
            let start = headers.len() as u32;
            headers.extend_from_slice(train.head(index));
            let payload = cut.payload.start - first..cut.payload.end - first;
            cuts.push(Cut { header: start..headers.len() as u32, payload, sum: cut.sum });
        }
        let (range, untouched) = (0..cuts.len() as u32, train.untouched);
        let block = Some(Arc::new(Block { bytes: self.tail().into() }));
        let segments = train.segments;
        let train = Arc::new(Train { headers, cuts, block, base: 0, segments, untouched });
        Self { train, range, damaged: self.damaged }
    }

    /// The same frames with a wrong check sequence.
    #[must_use]
    pub(crate) fn damaged(self) -> Self {
        Self { damaged: true, ..self }
    }

    /// Whether the check sequences are wrong.
    #[must_use]
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// The vnet header of a packet that was handed through.
    #[must_use]
    pub fn untouched(&self) -> Option<&VnetHeader> {
        self.train.untouched.as_ref()
    }

    /// The block and the range of the payloads; `None` if they lie with the headers.
    #[must_use]
    pub fn place(&self) -> Option<(&Block, Range<usize>)> {
        let (cuts, base) = (self.cuts(), self.train.base);
        let (first, last) = (cuts.first()?, cuts.last()?);
        let block = self.train.block.as_deref()?;
        Some((block, base + first.payload.start as usize..base + last.payload.end as usize))
    }
}

impl From<WireFrame> for Burst {
    fn from(frame: WireFrame) -> Self {
        Self { range: frame.index..frame.index + 1, train: frame.train, damaged: false }
    }
}

impl Parts for Burst {
    fn head(&self) -> &[u8] {
        self.train.head(self.range.start)
    }

    fn tail(&self) -> &[u8] {
        self.place().map_or(&[], |(block, range)| block.bytes(range))
    }
}

impl Row for Burst {
    fn frames(&self) -> usize {
        self.range.len()
    }

    fn frame(&self, index: usize) -> (&[u8], &[u8]) {
        let index = self.range.start + index as u32;
        (self.train.head(index), self.train.tail(index))
    }

    fn is_cut(&self) -> bool {
        self.train.segments
    }

    fn frame_sum(&self, index: usize) -> Sum {
        self.train.tail_sum(self.range.start + index as u32)
    }

    fn split(mut self, count: usize) -> (Self, Option<Self>) {
        let at = self.range.end.min(self.range.start + (count.max(1) as u32));
        let rest = (at < self.range.end).then(|| Self {
            train: Arc::clone(&self.train),
            range: at..self.range.end,
            ..self
        });
        self.range.end = at;
        (self, rest)
    }
}

impl Parts for WireFrame {
    fn head(&self) -> &[u8] {
        self.train.head(self.index)
    }

    fn tail(&self) -> &[u8] {
        self.train.tail(self.index)
    }

    fn tail_sum(&self) -> Sum {
        self.train.tail_sum(self.index)
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
            cuts: vec![
                Cut { header: 0..1, payload: 0..5, sum: None },
                Cut { header: 1..2, payload: 5..12, sum: None },
            ],
            block: Some(Arc::new(block)),
            base: 10,
            ..Train::default()
        });
        let burst = Burst::of(&train, 0..2);
        // the block is theirs alone
        assert!(burst.memory() > BLOCK_BYTES && burst.memory() < BLOCK_BYTES + 500);
        let frames: Vec<_> = burst.each().map(|frame| frame.to_vec()).collect();
        assert_eq!(frames, [b"Ahello".to_vec(), b"B, world".to_vec()]);
        assert_eq!((burst.head(), burst.tail()), (&b"A"[..], &b"hello, world"[..]));
        assert_eq!(burst.frame(1), (&b"B"[..], &b", world"[..]));
        let (first, rest) = burst.split(1);
        assert_eq!((first.frames(), first.tail()), (1, &b"hello"[..]));
        let rest = rest.unwrap();
        assert_eq!((rest.head(), rest.tail()), (&b"B"[..], &b", world"[..]));
        let other = rest.first().with_head(b"Bye".to_vec());
        assert_eq!((other.to_vec(), other.head()), (b"Bye, world".to_vec(), &b"Bye"[..]));
        assert!(rest.split(1).1.is_none());
        for (range, expected) in
            [(0..2, &[&b"Ahello"[..], b"B, world"][..]), (1..2, &[b"B, world"])]
        {
            let compact = Burst::of(&train, range).damaged().compact();
            let frames: Vec<_> = compact.each().map(|frame| frame.to_vec()).collect();
            assert_eq!(frames, expected);
            assert_eq!(compact.head(), &expected[0][..1]);
            assert!(compact.is_damaged() && compact.memory() < 500, "{}", compact.memory());
            assert_eq!(compact.clone().compact().memory(), compact.memory());
        }
        let alone = WireFrame::copied(b"alone".to_vec());
        assert_eq!((alone.len(), alone.tail().len()), (5, 0));
    }
}
