//! Bytes that were taken from one side of a connection and that the other side had no room for.

/// Bytes in order. Those in front leave it without a move of the others.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: Vec<u8>,
    /// How many of them have left.
    gone: usize,
}

impl Backlog {
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, gone: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.gone..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.gone == self.bytes.len()
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Removes the first `count` bytes, or all if there are fewer.
    pub(crate) fn remove(&mut self, count: usize) {
        self.gone = self.bytes.len().min(self.gone + count);
        if self.is_empty() {
            self.bytes.clear();
            self.gone = 0;
        }
    }

    /// Gives its memory back where it is empty.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_in_which_they_came() {
        let mut backlog = Backlog::of(b"abc".to_vec());
        backlog.remove(1);
        backlog.add(b"de");
        assert_eq!(backlog.bytes(), b"bcde");
        backlog.remove(3);
        assert_eq!((backlog.bytes(), backlog.is_empty()), (&b"e"[..], false));
        backlog.remove(9);
        assert!(backlog.is_empty());
        backlog.add(b"f");
        assert_eq!(backlog.bytes(), b"f");
    }

    #[test]
    fn only_an_empty_one_gives_its_memory_back() {
        let mut backlog = Backlog::of(vec![1; 1000]);
        backlog.rest();
        assert_eq!(backlog.bytes().len(), 1000);
        backlog.remove(1000);
        assert!(backlog.bytes.capacity() >= 1000);
        backlog.rest();
        assert_eq!(backlog.bytes.capacity(), 0);
    }
}
