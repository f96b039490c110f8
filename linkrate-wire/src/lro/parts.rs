//! A frame in two parts: its own headers, and a payload that stays where it was; and several such
//! frames in a row.

use crate::checksum::Sum;

/// A frame whose payload need not lie behind its headers.
///
/// The frame is `head` followed by `tail`. All headers are in the head. Bytes of the head behind
/// them are payload or padding too, so a frame in one piece has a head only.
pub trait Parts {
    /// The first bytes of the frame, with all its headers.
    fn head(&self) -> &[u8];
    /// The rest of it.
    fn tail(&self) -> &[u8];

    /// The sum of the tail. Frames that know it need not read their payload.
    fn tail_sum(&self) -> Sum {
        Sum::of(self.tail())
    }
}

/// Frames in a row, which may be taken together.
///
/// As [`Parts`] a row is the head of its first frame followed by the tails of all frames, which
/// must lie one after the other. A single frame is a row of one.
pub trait Row: Parts + Sized {
    /// The number of its frames, at least one.
    fn frames(&self) -> usize {
        1
    }

    /// Head and tail of frame `index`, which is less than [`frames`](Self::frames).
    fn frame(&self, _index: usize) -> (&[u8], &[u8]) {
        (self.head(), self.tail())
    }

    /// The sum of the tail of frame `index`.
    fn frame_sum(&self, index: usize) -> Sum {
        Sum::of(self.frame(index).1)
    }

    /// Whether all frames are segments of one TCP superframe, as
    /// [`tso::cut_into`](crate::tso::cut_into) made them. Those between the first two and the last
    /// are then known without a look at them: their payload is as long as that of the first,
    /// identifications continue in the same steps, checksums are right, and neither FIN nor PSH is set.
    fn is_cut(&self) -> bool {
        false
    }

    /// The first `count` frames, at least one, and the frames after them.
    fn split(self, _count: usize) -> (Self, Option<Self>) {
        (self, None)
    }
}

impl Row for Vec<u8> {}

impl Row for &[u8] {}

impl<A: AsRef<[u8]>, B: AsRef<[u8]>> Row for (A, B) {}

impl Parts for [u8] {
    fn head(&self) -> &[u8] {
        self
    }

    fn tail(&self) -> &[u8] {
        &[]
    }
}

impl Parts for Vec<u8> {
    fn head(&self) -> &[u8] {
        self
    }

    fn tail(&self) -> &[u8] {
        &[]
    }
}

impl<A: AsRef<[u8]>, B: AsRef<[u8]>> Parts for (A, B) {
    fn head(&self) -> &[u8] {
        self.0.as_ref()
    }

    fn tail(&self) -> &[u8] {
        self.1.as_ref()
    }
}

impl<T: Parts + ?Sized> Parts for &T {
    fn head(&self) -> &[u8] {
        (**self).head()
    }

    fn tail(&self) -> &[u8] {
        (**self).tail()
    }

    fn tail_sum(&self) -> Sum {
        (**self).tail_sum()
    }
}
