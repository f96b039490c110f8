//! A frame in two parts: headers that were made for it, and payload that stays where it was.

/// A frame whose payload need not lie behind its headers.
///
/// The frame is `head` followed by `tail`. All headers are in the head, and what the head has
/// beyond them is payload (or padding) too, so a frame in one piece is a head alone.
pub trait Parts {
    /// The first bytes of the frame, with all its headers.
    fn head(&self) -> &[u8];
    /// The rest of it.
    fn tail(&self) -> &[u8];
}

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
}
